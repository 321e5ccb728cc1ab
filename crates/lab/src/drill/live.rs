//! What an instance says of itself at its console, as far as drills need it.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::Deserialize;

use super::DrillError;
use crate::bench::serving::sum;

/// Longest wait for the console.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer longer than this is none of ours.
const MAX_BYTES: u64 = 16 << 20;

/// `/live.json` of an instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Live {
    pub(super) instance: Instance,
    pub(super) second: Rates,
    pub(super) minute: Rates,
    pub(super) price: Price,
    pub(super) certificates: Vec<Certificate>,
    pub(super) alarms: Vec<Alarm>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Instance {
    pub(super) host: String,
    pub(super) cores: f64,
    pub(super) ledger: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Rates {
    pub(super) seconds: f64,
    pub(super) full_per_second: f64,
    pub(super) resumed_per_second: f64,
    pub(super) hit_rate: Option<f64>,
    pub(super) cores: Cores,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Cores {
    pub(super) asymmetric: f64,
    pub(super) derivation: f64,
    pub(super) records: f64,
    pub(super) not_tls: f64,
    pub(super) workers: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Price {
    pub(super) cores_at_zero: Option<f64>,
    pub(super) arithmetic: Vec<String>,
    pub(super) assumptions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Certificate {
    pub(super) site: String,
    pub(super) certificate: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Alarm {
    pub(super) name: String,
    pub(super) subject: String,
    pub(super) state: String,
    pub(super) value: Option<f64>,
    pub(super) threshold: f64,
    pub(super) sentence: String,
}

impl Rates {
    /// Handshakes per second, full and resumed.
    pub(super) fn handshakes(&self) -> f64 {
        self.full_per_second + self.resumed_per_second
    }
}

/// Where an instance answers questions about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleAt {
    /// `HOST:PORT`.
    address: String,
    token: Option<String>,
}

impl ConsoleAt {
    /// Reads `http://HOST:PORT`, with or without scheme and path; `token` is what the console wants to see.
    ///
    /// # Errors
    /// A sentence for a person: what cannot be read, and what is allowed.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, String> {
        if url.starts_with("https://") {
            return Err(format!(
                "{url:?} is a console over TLS, which a drill does not speak; run the drill on the instance's own host, \
                 or bring its loopback console here (ssh -L 9180:127.0.0.1:9180 HOST)"
            ));
        }
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let address = rest.split(['/', '?']).next().unwrap_or_default();
        match crate::load::host_and_port(address) {
            Some(_) => Ok(Self {
                address: address.to_owned(),
                token,
            }),
            None => Err(format!(
                "{url:?} is no console; write http://127.0.0.1:9180, the address under console: in tls.yaml"
            )),
        }
    }

    pub(super) fn at(address: std::net::SocketAddr) -> Self {
        Self {
            address: address.to_string(),
            token: None,
        }
    }

    /// `http://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The name or address without its port.
    pub fn host(&self) -> &str {
        crate::load::host_and_port(&self.address).map_or(&self.address, |(host, _)| host)
    }

    /// What the instance says now.
    pub(super) fn live(&self) -> Result<Live, DrillError> {
        let body = self
            .fetch("/live.json")
            .map_err(|reason| self.silent(&reason))?;
        serde_json::from_slice(&body)
            .map_err(|error| self.silent(&format!("/live.json is of another shape: {error}")))
    }

    /// Handshakes in flight at this moment, and the bytes that they hold.
    pub(super) fn in_flight(&self) -> Option<(u64, f64)> {
        let page = self.fetch("/metrics").ok()?;
        let page = String::from_utf8_lossy(&page);
        let handshakes = sum(&page, "tollgate_connections{mode=\"handshake\"}");
        let bytes = sum(
            &page,
            "tollgate_connection_memory_bytes{mode=\"handshake\"}",
        );
        Some((handshakes as u64, bytes))
    }

    fn silent(&self, reason: &str) -> DrillError {
        DrillError::Console {
            console: self.url(),
            reason: reason.to_owned(),
        }
    }

    fn fetch(&self, path: &str) -> Result<Vec<u8>, String> {
        let words = |error: std::io::Error| error.to_string();
        let addresses = self.address.to_socket_addrs().map_err(words)?;
        let mut last = "the name has no address".to_owned();
        let mut connected = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => last = error.to_string(),
            }
        }
        let mut stream = connected.ok_or(last)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
        let token = match &self.token {
            Some(token) => format!("authorization: Bearer {token}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\n{token}connection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).map_err(words)?;
        let mut answer = Vec::new();
        let mut limited = stream.take(MAX_BYTES);
        limited.read_to_end(&mut answer).map_err(words)?;
        body(&answer)
    }
}

/// The body of a response that was read to its end.
fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or("it does not speak HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(answer[end + 4..].to_vec()),
        Some("401" | "403") => Err("it wants a token; name its file with --token-file".into()),
        Some("404") => Err("it has no /live.json; the instance is too old for drills".into()),
        _ => Err(format!("it answers {status:?}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn a_console_is_named_by_its_address_or_its_page() {
        for text in [
            "127.0.0.1:9180",
            "http://127.0.0.1:9180",
            "http://127.0.0.1:9180/live.json",
        ] {
            let console = ConsoleAt::new(text, None).unwrap();
            assert_eq!(console.url(), "http://127.0.0.1:9180");
            assert_eq!(console.host(), "127.0.0.1");
        }
        assert!(
            ConsoleAt::new("https://a:1", None)
                .unwrap_err()
                .contains("ssh -L")
        );
        assert!(
            ConsoleAt::new("tls.yaml", None)
                .unwrap_err()
                .contains("9180")
        );
    }

    #[test]
    fn what_is_not_known_stays_unknown_and_what_is_new_is_passed_over() {
        let text = r#"{"at_seconds":1.5,"instance":{"version":"0.1.0","host":"h","cores":1.0,"ledger":true,
            "ledger_agreement":null,"something_new":3},"second":{"seconds":1.0,"full_per_second":10.0,
            "resumed_per_second":90.0,"hit_rate":0.9,"cores":{"asymmetric":0.01,"derivation":0.02,"records":0.001,
            "not_tls":0.1,"workers":0.131},"open":{"handshake":1,"http":2,"tcp":0,"passthrough":0}},
            "boxes":[{"phase":4,"headline":{"label":"","value":1200.0,"unit":"bytes","source":""},"readings":[]}],
            "price":{"cores_at_zero":null,"cores_now":0.131},"alarms":[{"name":"hit_rate_low","state":"quiet",
            "value":null,"threshold":0.7}]}"#;
        let live: Live = serde_json::from_str(text).unwrap();
        assert_eq!(live.price.cores_at_zero, None);
        assert!((live.second.handshakes() - 100.0).abs() < 1e-9);
        assert_eq!(live.minute, Rates::default());
    }

    #[test]
    fn an_answer_that_is_no_page_says_what_to_do() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}").unwrap(), b"{}");
        assert!(
            body(b"HTTP/1.1 401 No\r\n\r\n")
                .unwrap_err()
                .contains("--token-file")
        );
        assert!(body(b"SSH-2.0").unwrap_err().contains("HTTP"));
    }
}
