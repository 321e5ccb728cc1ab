//! Running the programs that tests drive, each with a bound on its time.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No program of a test may take longer.
pub const BOUND: Duration = Duration::from_secs(90);

/// What a program did.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; `None` when it was ended by a signal or by the bound.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Both outputs, for messages.
    pub fn all(&self) -> String {
        format!("exit {:?}\n{}\n{}", self.code, self.out, self.err)
    }
}

/// Runs `command` with `input` on its standard input until it ends or [`BOUND`] is over.
pub fn run(command: &mut Command, input: &[u8]) -> Ran {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => panic!("{command:?} cannot be started: {error}"),
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let out = collect(child.stdout.take().unwrap());
    let err = collect(child.stderr.take().unwrap());
    let code = wait(&mut child, BOUND);
    let _ = writer.join();
    Ran {
        code,
        out: out.join().unwrap(),
        err: err.join().unwrap(),
    }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end of `child`, which is killed when `bound` is over.
pub fn wait(child: &mut Child, bound: Duration) -> Option<i32> {
    let deadline = Instant::now() + bound;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether `condition` came to hold within `bound`.
pub fn eventually(bound: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + bound;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Path of a script beside these tests.
pub fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/end_to_end/clients")
        .join(name)
}

/// Runs a Python script of ours.
pub fn python(name: &str, arguments: &[&str], input: &str) -> Ran {
    let mut command = Command::new("python3");
    command.arg(script(name)).args(arguments);
    run(&mut command, input.as_bytes())
}

/// Where `program` is, in `PATH` and in the folder that `./test` installs tools to.
pub fn find(program: &str) -> Option<PathBuf> {
    let tools = std::env::var_os("TOLLGATE_TEST_TOOLS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    tools
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}
