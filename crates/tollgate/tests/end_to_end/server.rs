//! A Tollgate process with a folder, an authority and ports of its own.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Authority, Client, Folder, LeafKind, Offer, TlsConnection, free_port};

use crate::tools::{Ran, eventually, run, wait};

/// Names in the certificates that every place has.
pub const NAMES: [&str; 4] = ["shop.test", "*.shop.test", "localhost", "127.0.0.1"];

/// Path of the binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("TOLLGATE_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_tollgate")),
        PathBuf::from,
    )
}

/// Where a server lives: files, names and ports.
pub struct Place {
    pub folder: Folder,
    pub authority: Authority,
    pub port: u16,
    pub console: u16,
}

impl Place {
    /// A folder with `ca.pem`, `ecdsa.pem`, `ecdsa.key`, `rsa.pem` and `rsa.key`.
    pub fn new() -> Self {
        let folder = Folder::new();
        let authority = Authority::new("tollgate test");
        folder.write("ca.pem", authority.root_pem());
        authority
            .server(LeafKind::EcdsaP256, &NAMES)
            .write(&folder, "ecdsa");
        authority
            .server(LeafKind::Rsa2048, &NAMES)
            .write(&folder, "rsa");
        Self {
            folder,
            authority,
            port: free_port(),
            console: free_port(),
        }
    }

    /// One listener in `mode` and one site with both certificates and these backends.
    pub fn config(&self, mode: &str, backends: &[&str]) -> String {
        self.config_with(mode, backends, "")
    }

    /// The same, with `more` lines for the site, each indented by four spaces.
    pub fn config_with(&self, mode: &str, backends: &[&str], more: &str) -> String {
        let mut text = self.listener(mode);
        text.push_str("sites:\n");
        text.push_str(&self.site(&["shop.test", "*.shop.test", "localhost"], backends));
        text.push_str(more);
        text
    }

    /// `listeners:` with one entry on the main port.
    pub fn listener(&self, mode: &str) -> String {
        format!(
            "listeners:\n  - address: \"127.0.0.1:{}\"\n    mode: {mode}\n",
            self.port
        )
    }

    /// One entry of `sites:` with both certificates.
    pub fn site(&self, names: &[&str], backends: &[&str]) -> String {
        let mut text = format!("  - names: {names:?}\n");
        text.push_str("    certificates:\n");
        text.push_str("      - { chain: ecdsa.pem, key: ecdsa.key }\n");
        text.push_str("      - { chain: rsa.pem, key: rsa.key }\n");
        let _ = writeln!(text, "    backends: {backends:?}");
        text
    }

    /// Writes `tls.yaml`, with console, control socket and access log of this place unless `text` has its own.
    pub fn write_config(&self, text: &str) -> PathBuf {
        let mut text = text.to_owned();
        if !text.contains("\nconsole:") {
            let _ = writeln!(text, "console: \"127.0.0.1:{}\"", self.console);
        }
        if !text.contains("\ncontrol:") {
            text.push_str("control: control.sock\n");
        }
        if !text.contains("\nlog:") {
            text.push_str("log: { access: access.log }\n");
        }
        if !text.contains("\nworkers:") {
            text.push_str("workers: { count: 2 }\n");
        }
        self.folder.write("tls.yaml", text)
    }

    /// The main address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Runs the binary in this folder until it ends.
    pub fn tollgate(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.folder.path());
        run(&mut command, b"")
    }
}

/// A running server; killed when dropped.
pub struct Server {
    pub place: Place,
    child: Child,
    stderr: Arc<Mutex<String>>,
    stdout: Arc<Mutex<String>>,
}

impl Server {
    /// Writes `text` as `tls.yaml`, starts, and waits until it is ready.
    pub fn start(place: Place, text: &str) -> Self {
        Self::start_with(place, text, |_| {})
    }

    /// The same, with a word on the command before it starts.
    pub fn start_with(place: Place, text: &str, adjust: impl FnOnce(&mut Command)) -> Self {
        let config = place.write_config(text);
        let mut command = Command::new(binary());
        command.arg("serve").arg(&config);
        adjust(&mut command);
        let server = Self::spawn(place, &mut command);
        server.wait_ready();
        server
    }

    /// Starts `command`, whatever it is, and reads its outputs.
    pub fn spawn(place: Place, command: &mut Command) -> Self {
        let mut child = command
            .current_dir(place.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = follow(child.stderr.take().unwrap());
        let stdout = follow(child.stdout.take().unwrap());
        Self {
            place,
            child,
            stderr,
            stdout,
        }
    }

    /// Waits for the line that says so.
    pub fn wait_ready(&self) {
        assert!(
            self.wait_stderr("ready"),
            "not ready in time; it said:\n{}\nwith\n{}",
            self.stderr(),
            self.place.folder.read("tls.yaml")
        );
    }

    /// Whether standard error came to contain `text`.
    pub fn wait_stderr(&self, text: &str) -> bool {
        eventually(Duration::from_secs(20), || self.stderr().contains(text))
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Whether the process is still there.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the process.
    pub fn wait_exit(&mut self, bound: Duration) -> Option<i32> {
        wait(&mut self.child, bound)
    }

    pub fn address(&self) -> SocketAddr {
        self.place.address()
    }

    /// curl towards the main port, whatever name the URL has; trusts the authority.
    pub fn curl(&self, arguments: &[&str]) -> Ran {
        self.curl_with(arguments, b"")
    }

    /// The same, with something on its standard input.
    pub fn curl_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "--max-time", "60", "--cacert"])
            .arg(self.place.folder.join("ca.pem"))
            .arg("--connect-to")
            .arg(format!("::127.0.0.1:{}", self.place.port))
            .args(arguments)
            .current_dir(self.place.folder.path());
        run(&mut command, input)
    }

    /// `openssl s_client` towards the main port; verification errors end it.
    pub fn s_client(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = Command::new("openssl");
        command
            .args(["s_client", "-verify_return_error", "-CAfile"])
            .arg(self.place.folder.join("ca.pem"))
            .arg("-connect")
            .arg(self.address().to_string())
            .args(arguments)
            .current_dir(self.place.folder.path());
        run(&mut command, input.as_bytes())
    }

    /// A client that trusts the authority.
    pub fn client(&self, offer: &Offer<'_>) -> Client {
        Client::new(&self.place.authority, offer)
    }

    /// A fresh connection to `shop.test`.
    pub fn connect(&self) -> TlsConnection {
        self.client(&Offer::default())
            .connect(self.address(), "shop.test")
            .unwrap()
    }

    /// A `GET` for `shop.test` on a fresh HTTP/1.1 connection: the whole answer.
    pub fn get(&self, path: &str) -> std::io::Result<String> {
        let client = self.client(&Offer::default());
        client
            .connect(self.address(), "shop.test")?
            .exchange(&get(path))
    }

    /// Metrics now.
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&http_get(self.place.console, "/metrics").unwrap_or_default())
    }

    /// Whether the metrics came to fulfil `condition`.
    pub fn wait_metrics(&self, condition: impl Fn(&Metrics) -> bool) -> bool {
        eventually(Duration::from_secs(10), || condition(&self.metrics()))
    }

    /// Access log so far; a line that is no JSON is a failure.
    pub fn log(&self) -> Vec<Value> {
        let text = self.place.folder.read("access.log");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
            })
            .collect()
    }

    /// The first log line that fulfils `condition`, waited for.
    pub fn wait_log(&self, condition: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        eventually(Duration::from_secs(10), || {
            found = self.log().into_iter().find(|line| condition(line));
            found.is_some()
        });
        found.unwrap_or_else(|| {
            panic!(
                "no such line in the log:\n{}",
                self.place.folder.read("access.log")
            )
        })
    }

    /// Writes a new `tls.yaml`, sends SIGHUP and waits until the reload is counted under `result`.
    pub fn reload(&self, text: &str) -> Option<String> {
        let before = self.metrics();
        self.place.write_config(text);
        self.signal("HUP");
        let mut result = None;
        eventually(Duration::from_secs(20), || {
            let now = self.metrics();
            result = now
                .series("tollgate_reloads_total")
                .into_iter()
                .find(|series| {
                    let label = series.label("result");
                    series.value > before.sum("tollgate_reloads_total", &[("result", label)])
                })
                .map(|series| series.label("result").to_owned());
            result.is_some()
        });
        result
    }

    /// Process ids of all processes that serve this place's configuration (more than one during an upgrade).
    pub fn processes(&self) -> Vec<u32> {
        processes(self.place.folder.path())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.stderr());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What an upgrade left running was started by us as well.
        for pid in self.processes() {
            signal(pid, "KILL");
        }
    }
}

/// Sends a signal to one process.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

fn processes(folder: &Path) -> Vec<u32> {
    let needle = folder.display().to_string().into_bytes();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let ours = command
                .split(|byte| *byte == 0)
                .next()
                .is_some_and(|program| program.ends_with(b"tollgate"));
            ours && command
                .windows(needle.len())
                .any(|window| window == needle.as_slice())
        })
        .collect()
}

fn follow(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut line = Vec::new();
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            sink.lock()
                .unwrap()
                .push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}

/// A request head for `shop.test`.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: shop.test\r\n\r\n")
}

/// The JSON body of an answer of the describing backend.
pub fn described(answer: &str) -> Value {
    let body = answer.find('{').map_or("", |start| &answer[start..]);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}"))
}

/// The values of a header field that the backend saw.
pub fn seen_header(described: &Value, name: &str) -> Vec<String> {
    described["headers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pair| pair[0] == name)
        .map(|pair| pair[1].as_str().unwrap().to_owned())
        .collect()
}

/// A plain HTTP GET on 127.0.0.1: the body.
pub fn http_get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(body.to_owned())
}

/// One line of the metrics.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Series {
    pub fn label(&self, name: &str) -> &str {
        self.labels
            .iter()
            .find(|(label, _)| label == name)
            .map_or("", |(_, value)| value)
    }
}

/// The metrics page.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub Vec<Series>);

impl Metrics {
    fn parse(text: &str) -> Self {
        Self(
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(series)
                .collect(),
        )
    }

    /// All lines of a metric.
    pub fn series(&self, name: &str) -> Vec<&Series> {
        self.0.iter().filter(|series| series.name == name).collect()
    }

    /// Sum over the lines that carry all these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.series(name)
            .into_iter()
            .filter(|series| {
                labels
                    .iter()
                    .all(|(key, value)| series.label(key) == *value)
            })
            .map(|series| series.value)
            .sum()
    }
}

fn series(line: &str) -> Option<Series> {
    let (left, value) = line.rsplit_once(' ')?;
    let (name, labels) = match left.split_once('{') {
        None => (left, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
    };
    let labels = labels
        .split("\",")
        .filter_map(|pair| pair.split_once("=\""))
        .map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned()))
        .collect();
    Some(Series {
        name: name.to_owned(),
        labels,
        value: value.parse().ok()?,
    })
}
