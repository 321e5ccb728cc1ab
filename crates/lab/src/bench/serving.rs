//! A `tollgate serve` of our own to measure: child process, certificate and backend made on the fly.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tollgate_terms::CertificateKind;
use tollgate_tls::material::make_self_signed;

use super::BenchError;
use super::folder::{Folder, unique};

/// Longest wait until a child says that it is ready: an RSA-4096 key is made before, not within.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Longest wait for a child that was asked to end; after that it is killed.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Lines of a child's standard error that an error shows.
const LAST_LINES: usize = 8;
/// Names in the certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Tells a child to end with the process of this id, however that one ends.
const END_WITH: &str = "TOLLGATE_END_WITH";

/// What is done inside of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingMode {
    /// HTTP/1.1 and HTTP/2, backend connections pooled.
    Http,
    /// Bytes, one backend connection for each client.
    Tcp,
    /// TLS does not end here but at the backend, which must be somebody else's; bytes as for `Tcp`.
    Passthrough,
}

impl ServingMode {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::Passthrough => "passthrough",
        }
    }
}

/// Where the backend is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendAt {
    /// The built-in plaintext backend in a process of its own, on a port of 127.0.0.1.
    Tcp,
    /// The same on a unix socket in a private directory.
    Unix,
    /// The same on an abstract unix socket.
    Abstract,
    /// Somebody else's, as `backends:` of `tls.yaml` takes it, such as `127.0.0.1:8080` or `unix:/path`.
    Address(String),
}

/// How to serve. Every field can be set in any order; [`ServingOptions::default`] holds the defaults.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// What is done inside of TLS. Default `http`.
    pub mode: ServingMode,
    /// Key of the self-signed certificate, made at start. Default ECDSA P-256.
    pub certificate: CertificateKind,
    /// Where the backend is. Default the built-in one, over TCP.
    pub backend: BackendAt,
    /// Threads that serve. Default 1.
    pub workers: usize,
    /// Core that `serve` keeps to, counted from 0. Default: none.
    pub pin: Option<usize>,
    /// Several such cores, instead of `pin`. Default: none.
    pub cores: Vec<usize>,
    /// Core that the built-in backend keeps to. Default: none.
    pub backend_pin: Option<usize>,
    /// Environment variables of `serve`, such as `MALLOC_CONF`. Default: none more than our own.
    pub allocator_env: Vec<(String, String)>,
    /// Program that serves, such as another build. Default: this one.
    pub program: Option<PathBuf>,
    /// Fields of the one site, one a line, such as `tls: { groups: [x25519] }`. Default: none.
    pub site_yaml: String,
    /// Further fields at the top of `tls.yaml`, such as `timeouts: { idle: 600s }`. Default: none.
    /// `listeners`, `sites`, `workers`, `console` and `control` are set already.
    pub extra_yaml: String,
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self {
            mode: ServingMode::Http,
            certificate: CertificateKind::EcdsaP256,
            backend: BackendAt::Tcp,
            workers: 1,
            pin: None,
            cores: Vec::new(),
            backend_pin: None,
            allocator_env: Vec::new(),
            program: None,
            site_yaml: String::new(),
            extra_yaml: String::new(),
        }
    }
}

/// A `tollgate serve` that was started for a measurement. Dropping it ends the process and its backend.
///
/// Both also end when this process does, or the thread that started them: keep the thread that called
/// [`Serving::start`] for as long as the server is wanted.
#[derive(Debug)]
pub struct Serving {
    // Dropped in this order: the server before the backend that it has connections to.
    server: Offspring,
    backend: Option<Offspring>,
    _folder: Folder,
    address: SocketAddr,
    console: SocketAddr,
    backend_address: String,
    authority_pem: String,
}

impl Serving {
    /// Starts backend and server on free ports of 127.0.0.1, and returns once the server says that it is
    /// ready. The program is this one, or the one that the variable `TOLLGATE_BINARY` names.
    ///
    /// # Errors
    /// When the certificate cannot be made, a file cannot be written, or a child does not come up; the
    /// error holds the last lines of what the child said.
    pub fn start(options: &ServingOptions) -> Result<Self, BenchError> {
        let folder = Folder::new()?;
        let (backend, backend_address) = start_backend(options, &folder)?;
        let authority_pem = write_certificate(options.certificate, &folder)?;
        let file = folder.write("tls.yaml", &configuration(options, &backend_address))?;

        let mut command = tollgate(options.program.as_deref());
        command.arg("serve").arg(&file);
        command.envs(options.allocator_env.iter().cloned());
        let cores = match (options.cores.as_slice(), options.pin) {
            ([], Some(core)) => vec![core],
            (cores, _) => cores.to_vec(),
        };
        let (server, said) = Offspring::start("tollgate serve", command, &cores)?;
        let mut bound = None;
        let mut console = None;
        server.wait_for(&said, |line| {
            bound = bound.or_else(|| after(line, "listening on "));
            console = console.or_else(|| console_in(line));
            line.contains("ready, ")
        })?;
        // Everything is in memory now, and a private key need not stay in the file system.
        folder.empty_of(&["tls.yaml", "chain.pem", "key.pem"]);
        let silent = || server.fault("says that it is ready, but not where it listens");
        Ok(Self {
            address: bound.ok_or_else(silent)?,
            console: console.ok_or_else(silent)?,
            server,
            backend,
            backend_address,
            _folder: folder,
            authority_pem,
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Process id of `serve`.
    pub fn pid(&self) -> u32 {
        self.server.child.id()
    }

    /// Process id of the built-in backend; `None` in front of somebody else's.
    pub fn backend_pid(&self) -> Option<u32> {
        self.backend.as_ref().map(|backend| backend.child.id())
    }

    /// Where the built-in backend listens, if it does so on TCP.
    pub fn backend_address(&self) -> Option<SocketAddr> {
        self.backend_address.parse().ok()
    }

    /// The certificate, which is its own authority.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Where the metrics are.
    pub fn console(&self) -> SocketAddr {
        self.console
    }

    /// Sum over the series of `GET /metrics` that `wanted` describes: a name, such as
    /// `tollgate_requests_total`, or a name with labels that a series must have among its own, such as
    /// `tollgate_handshakes_total{kind="resumed",version="TLSv1.3"}`. 0 when there is none.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn metric(&self, wanted: &str) -> Result<f64, BenchError> {
        Ok(sum(&self.metrics()?, wanted))
    }

    /// The page of metrics as it is now, for several look-ups with [`sum`].
    pub(crate) fn metrics(&self) -> Result<String, BenchError> {
        fetch(self.console).map_err(|source| BenchError::System {
            what: format!(
                "metrics of our own server at http://{}/metrics",
                self.console
            ),
            source,
            hint: format!("it last said: {}", self.server.last_words()),
        })
    }
}

/// Sum over the series of a metrics page that `wanted` describes; see [`Serving::metric`].
pub(crate) fn sum(page: &str, wanted: &str) -> f64 {
    let (name, labels) = name_and_labels(wanted);
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter(|(series, _)| {
            let (own_name, own_labels) = name_and_labels(series);
            own_name == name && labels.iter().all(|label| own_labels.contains(label))
        })
        .filter_map(|(_, value)| value.parse::<f64>().ok())
        .sum()
}

/// `name{a="b",c="d"}` as its name and `a="b`, `c="d`.
fn name_and_labels(series: &str) -> (&str, Vec<&str>) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split("\",");
    let labels = labels.map(|label| label.trim_end_matches('"'));
    (name, labels.filter(|label| !label.is_empty()).collect())
}

fn fetch(console: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&console, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(format!(
            "no metrics, but {:?}",
            answer.lines().next().unwrap_or_default()
        ))),
    }
}

/// The text of `tls.yaml`.
fn configuration(options: &ServingOptions, backend: &str) -> String {
    let certificates = match options.mode {
        ServingMode::Http | ServingMode::Tcp => {
            "    certificates: [{ chain: chain.pem, key: key.pem }]\n"
        }
        ServingMode::Passthrough => "",
    };
    let mut text = format!(
        "listeners: [{{ address: \"127.0.0.1:0\", mode: {} }}]\n\
         sites:\n\
         \x20 - names: [localhost]\n\
         \x20   default: true\n\
         {certificates}\
         \x20   backends: [\"{backend}\"]\n",
        options.mode.name()
    );
    for line in options.site_yaml.lines() {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "    {line}");
    }
    let workers = options.workers.max(1);
    let _ = write!(
        text,
        "workers: {{ count: {workers} }}\nconsole: \"127.0.0.1:0\"\ncontrol: off\n{}\n",
        options.extra_yaml
    );
    text
}

fn write_certificate(kind: CertificateKind, folder: &Folder) -> Result<String, BenchError> {
    let made = make_self_signed(kind, &NAMES).map_err(|error| BenchError::Broken {
        what: format!("a certificate of kind {kind}"),
        reason: error.to_string(),
    })?;
    folder.write("chain.pem", &made.chain_pem)?;
    folder.write("key.pem", &made.key_pem)?;
    Ok(made.chain_pem)
}

/// The backend, and what `backends:` calls it.
pub(crate) fn start_backend(
    options: &ServingOptions,
    folder: &Folder,
) -> Result<(Option<Offspring>, String), BenchError> {
    let listen = match &options.backend {
        BackendAt::Address(address) => return Ok((None, address.clone())),
        BackendAt::Tcp => "127.0.0.1:0".to_owned(),
        BackendAt::Unix => format!("unix:{}", folder.path.join("backend.sock").display()),
        BackendAt::Abstract => format!("unix:@tollgate-bench-{}", unique()),
    };
    let mut command = tollgate(None);
    command.args(["load", "backend", &listen]);
    let cores: Vec<usize> = options.backend_pin.into_iter().collect();
    let (backend, said) = Offspring::start("tollgate load backend", command, &cores)?;
    let mut bound = None;
    backend.wait_for(&said, |line| {
        bound = line
            .split_once("listening on ")
            .map(|(_, at)| at.trim().to_owned());
        bound.is_some()
    })?;
    Ok((Some(backend), bound.unwrap_or(listen)))
}

/// The program that was asked for; else the one under test, or this one.
pub(crate) fn tollgate(asked_for: Option<&Path>) -> Command {
    let program = asked_for
        .map(|path| path.as_os_str().to_owned())
        .or_else(|| std::env::var_os("TOLLGATE_BINARY"))
        .map_or_else(|| PathBuf::from("/proc/self/exe"), PathBuf::from);
    let mut command = Command::new(program);
    command.arg0("tollgate");
    command
}

/// What follows `words` in a line, as an address.
pub(crate) fn after(line: &str, words: &str) -> Option<SocketAddr> {
    line.split_once(words)?.1.trim().parse().ok()
}

/// Where a line says that the console is, whatever path stands behind it.
pub(crate) fn console_in(line: &str) -> Option<SocketAddr> {
    let rest = line.split_once(" on http://")?.1;
    rest.split('/').next()?.trim().parse().ok()
}

/// A child process whose standard error is read, ended when dropped.
#[derive(Debug)]
pub(crate) struct Offspring {
    what: &'static str,
    child: Child,
    last_lines: Arc<Mutex<VecDeque<String>>>,
}

impl Offspring {
    /// Starts `command`, kept to these cores if there are any. What it says comes line by line.
    pub(crate) fn start(
        what: &'static str,
        mut command: Command,
        cores: &[usize],
    ) -> Result<(Self, mpsc::Receiver<String>), BenchError> {
        command
            .env(END_WITH, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = spawn_on(cores, &mut command).map_err(|source| BenchError::System {
            what: match cores {
                [] => what.to_owned(),
                cores => format!("{what} on cores {cores:?}"),
            },
            source,
            hint:
                "the program that is started is this one; `nproc` says how many cores there are, \
                   counted from 0"
                    .into(),
        })?;
        let last_lines = Arc::new(Mutex::new(VecDeque::new()));
        let (sender, receiver) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            let last_lines = Arc::clone(&last_lines);
            std::thread::spawn(move || follow(stderr, &sender, &last_lines));
        }
        let offspring = Self {
            what,
            child,
            last_lines,
        };
        Ok((offspring, receiver))
    }

    /// Hands each line to `is_last` until that says so.
    pub(crate) fn wait_for(
        &self,
        said: &mpsc::Receiver<String>,
        mut is_last: impl FnMut(&str) -> bool,
    ) -> Result<(), BenchError> {
        let until = Instant::now() + READY_WITHIN;
        loop {
            match said.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if is_last(&line) => return Ok(()),
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.fault("ended before it was ready"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(self.fault("was not ready within 20 s"));
                }
            }
        }
    }

    pub(crate) fn fault(&self, what_happened: &str) -> BenchError {
        BenchError::Broken {
            what: self.what.to_owned(),
            reason: format!("it {what_happened}; it last said: {}", self.last_words()),
        }
    }

    /// Process id of the child.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn last_words(&self) -> String {
        let lines = self.last_lines.lock();
        let lines = lines.unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return "nothing".into();
        }
        lines
            .iter()
            .fold(String::new(), |text, line| text + "\n  " + line)
    }
}

impl Drop for Offspring {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && matches!(self.child.try_wait(), Ok(None))
        {
            // It may just have ended by itself, and is waited for in any case.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
            let until = Instant::now() + END_WITHIN;
            while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Neither fails unless the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the child closes its standard error.
fn follow(stderr: ChildStderr, lines: &mpsc::Sender<String>, last_lines: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        {
            let mut last = last_lines.lock().unwrap_or_else(PoisonError::into_inner);
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(text.clone());
        }
        // Nobody listens any more once the child is ready.
        let _ = lines.send(text);
    }
}

/// Starts a child on some cores: it inherits those of this thread, which has its own back afterwards.
fn spawn_on(cores: &[usize], command: &mut Command) -> io::Result<Child> {
    if cores.is_empty() {
        return command.spawn();
    }
    let before = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    for core in cores {
        if *core >= CpuSet::MAX_CPU || !before.is_set(*core) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("core {core} is none of this process's"),
            ));
        }
        wanted.set(*core);
    }
    sched_setaffinity(None, &wanted)?;
    let child = command.spawn();
    sched_setaffinity(None, &before)?;
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP x y\n\
        a_total{site=\"one\",kind=\"full\"} 3\n\
        a_total{site=\"two\",kind=\"full\"} 4\n\
        a_total{site=\"two\",kind=\"full_with_retry\"} 5\n\
        a_total_more 100\n\
        plain 2.5\n";

    #[test]
    fn a_metric_is_the_sum_of_the_series_that_have_the_labels() {
        for (wanted, expected) in [
            ("a_total", 12.0),
            ("a_total{kind=\"full\"}", 7.0),
            ("a_total{kind=\"full\",site=\"two\"}", 4.0),
            ("a_total{kind=\"full", 7.0),
            ("plain", 2.5),
            ("absent", 0.0),
        ] {
            let found = sum(PAGE, wanted);
            assert!((found - expected).abs() < 1e-9, "{wanted}: {found}");
        }
    }

    #[test]
    fn a_site_keeps_its_own_fields_and_the_file_its_further_ones() {
        let options = ServingOptions {
            mode: ServingMode::Tcp,
            site_yaml: "tls: { groups: [x25519] }\nretries: 0".into(),
            extra_yaml: "timeouts: { idle: 600s }".into(),
            ..ServingOptions::default()
        };
        let text = configuration(&options, "unix:@b");
        assert!(text.contains("mode: tcp"), "{text}");
        assert!(
            text.contains(
                "backends: [\"unix:@b\"]\n    tls: { groups: [x25519] }\n    retries: 0\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("\ntimeouts: { idle: 600s }\n"), "{text}");
    }

    #[test]
    fn an_address_is_read_from_the_line_that_says_so() {
        let bound = after("tollgate: listening on 127.0.0.1:4711", "listening on ");
        assert_eq!(bound, Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(
            after("tollgate: listening on unix:/x", "listening on "),
            None
        );
    }

    #[test]
    fn the_console_is_found_with_and_without_a_path() {
        for line in [
            "tollgate: console on http://127.0.0.1:4711/",
            "tollgate: console on http://127.0.0.1:4711",
        ] {
            let found = console_in(line).unwrap();
            assert_eq!(found, SocketAddr::from(([127, 0, 0, 1], 4711)));
        }
        assert_eq!(console_in("tollgate: listening on 127.0.0.1:4711"), None);
    }
}
