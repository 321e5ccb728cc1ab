//! Asking an application over every way, and how long its answers take.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use tollgate_terms::NamedGroup;
use tollgate_tls::client::{ClientOffer, Intent};
use tollgate_tls::{BackendTlsPolicy, Buffers, ClientSite};

use super::{AppOptions, Samples};
use crate::bench::BenchError;
use crate::bench::fetch::Link;
use crate::bench::serving::Serving;

/// Longest wait for one answer.
const LONGEST: Duration = Duration::from_secs(30);
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// What stands for the length in a URL.
const BYTES: &str = "{bytes}";

/// An address on the web, as far as this experiment needs one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    tls: bool,
    host: String,
    port: u16,
    path: String,
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, if tls { 443 } else { 80 }),
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        (!host.is_empty()).then(|| Self {
            tls,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    fn resolve(&self) -> Result<SocketAddr, BenchError> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .and_then(|mut addresses| {
                addresses
                    .next()
                    .ok_or_else(|| io::Error::other("no address"))
            })
            .map_err(|source| BenchError::System {
                what: format!("the name {}", self.host),
                source,
                hint: "check the URL".into(),
            })
    }

    /// A request that gets or sends so many bytes.
    fn request(&self, payload: u64) -> Vec<u8> {
        let Self { host, port, .. } = self;
        let fields = format!("Host: {host}:{port}\r\nUser-Agent: tollgate\r\nAccept: */*\r\n");
        if self.path.contains(BYTES) {
            let path = self.path.replace(BYTES, &payload.to_string());
            return format!("GET {path} HTTP/1.1\r\n{fields}\r\n").into_bytes();
        }
        let mut request = format!(
            "POST {} HTTP/1.1\r\n{fields}Content-Type: application/octet-stream\r\nContent-Length: {payload}\r\n\r\n",
            self.path
        )
        .into_bytes();
        request.resize(request.len() + payload as usize, b'x');
        request
    }
}

/// One way to the application.
pub(super) struct Way {
    name: &'static str,
    address: SocketAddr,
    site: Option<ClientSite>,
    /// Whose path and `Host` the requests have.
    url: Url,
}

impl Way {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }
}

/// Everything that is the same for all ways.
pub(super) struct Driver<'a> {
    options: &'a AppOptions,
    plain: Url,
    plain_at: SocketAddr,
    tls: Url,
}

impl<'a> Driver<'a> {
    pub(super) fn new(options: &'a AppOptions) -> Result<Self, BenchError> {
        let wrong = |text: &str, scheme: &str| BenchError::Broken {
            what: format!("the URL {text:?}"),
            reason: format!(
                "it is not {scheme}://HOST[:PORT]/PATH; an example is {scheme}://127.0.0.1:8080/bytes/{BYTES}"
            ),
        };
        let plain = Url::parse(&options.plain)
            .filter(|url| !url.tls)
            .ok_or_else(|| wrong(&options.plain, "http"))?;
        let tls = Url::parse(&options.tls)
            .filter(|url| url.tls)
            .ok_or_else(|| wrong(&options.tls, "https"))?;
        if options.payloads.is_empty() || options.repetitions == 0 || options.connections == 0 {
            return Err(BenchError::Broken {
                what: "an experiment of nothing".into(),
                reason: "payloads, repetitions and connections must be more than zero".into(),
            });
        }
        Ok(Self {
            plain_at: plain.resolve()?,
            options,
            plain,
            tls,
        })
    }

    pub(super) fn plain_address(&self) -> SocketAddr {
        self.plain_at
    }

    pub(super) fn plain(&self) -> Rc<Way> {
        Rc::new(Way {
            name: "plaintext",
            address: self.plain_at,
            site: None,
            url: self.plain.clone(),
        })
    }

    pub(super) fn own_tls(&self) -> Result<Rc<Way>, BenchError> {
        let ca = match (&self.options.ca, self.options.insecure) {
            (_, true) => None,
            (path, false) => {
                let path = path.as_deref().unwrap_or(SYSTEM_ROOTS.as_ref());
                let read = std::fs::read(path).map_err(|source| BenchError::System {
                    what: format!("trusted roots in {}", path.display()),
                    source,
                    hint: "name a PEM file with --ca, or check nothing with --insecure".into(),
                });
                Some(read?)
            }
        };
        Ok(Rc::new(Way {
            name: "own TLS",
            address: self.tls.resolve()?,
            site: Some(site(&self.tls.host, ca)?),
            url: self.tls.clone(),
        }))
    }

    /// Through a Tollgate that was started for this.
    pub(super) fn through(
        &self,
        name: &'static str,
        serving: &Serving,
    ) -> Result<Rc<Way>, BenchError> {
        let ca = serving.authority_pem().as_bytes().to_vec();
        Ok(Rc::new(Way {
            name,
            address: serving.address(),
            site: Some(site("localhost", Some(ca))?),
            url: self.plain.clone(),
        }))
    }

    /// `[way][payload]`, every repetition of everything before the next.
    pub(super) fn measure(
        &self,
        ways: &[Rc<Way>],
        progress: &dyn Fn(&str, f64),
    ) -> Result<Vec<Vec<Samples>>, BenchError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| BenchError::System {
                what: "a runtime for the requests".into(),
                source,
                hint: "it needs a few file descriptors".into(),
            })?;
        let payloads = &self.options.payloads;
        let mut samples = vec![vec![Samples::default(); payloads.len()]; ways.len()];
        let all = (self.options.repetitions * payloads.len() * ways.len()) as f64;
        let mut done = 0.0;
        // The first round warms everything up and is not kept.
        for repetition in 0..=self.options.repetitions {
            for (payload, length) in payloads.iter().enumerate() {
                for (index, way) in ways.iter().enumerate() {
                    progress(
                        &format!("{}, {}", way.name, super::text::bytes(*length)),
                        done / all,
                    );
                    let run = LocalSet::new();
                    let time = match repetition {
                        0 => self.options.warm_up,
                        _ => self.options.duration,
                    };
                    let outcome = runtime.block_on(run.run_until(self.cell(way, *length, time)));
                    let mut latencies = outcome.map_err(|source| failed(way, *length, source))?;
                    if repetition > 0 {
                        samples[index][payload].add(&mut latencies);
                        done += 1.0;
                    }
                }
            }
        }
        Ok(samples)
    }

    /// Latencies of one cell in one repetition, in microseconds.
    async fn cell(&self, way: &Rc<Way>, payload: u64, time: Duration) -> io::Result<Vec<f64>> {
        let request: Rc<[u8]> = way.url.request(payload).into();
        let until = Instant::now() + time;
        let mut asking = JoinSet::new();
        for _ in 0..self.options.connections {
            let (way, request) = (Rc::clone(way), Rc::clone(&request));
            let fresh = self.options.fresh;
            asking.spawn_local(async move {
                match fresh {
                    true => ask_anew(&way, &request, until).await,
                    false => keep_asking(&way, &request, until).await,
                }
            });
        }
        let mut latencies = Vec::new();
        while let Some(asked) = asking.join_next().await {
            latencies.extend(asked.map_err(io::Error::other)??);
        }
        Ok(latencies)
    }
}

impl Way {
    async fn open(&self, buffers: &Buffers) -> io::Result<Link> {
        let site = self.site.as_ref().map(|site| (site, Intent::Full));
        within(Link::open(self.address, site, buffers)).await
    }
}

/// Requests on one connection until the time is over, at least one. The connection, and the request that
/// follows its handshake, are not timed.
async fn keep_asking(way: &Way, request: &[u8], until: Instant) -> io::Result<Vec<f64>> {
    let mut latencies = Vec::new();
    let mut link = way.open(&Buffers::new()).await?;
    within(link.ask(request)).await?;
    while latencies.is_empty() || Instant::now() < until {
        let began = Instant::now();
        within(link.ask(request)).await?;
        latencies.push(began.elapsed().as_secs_f64() * 1e6);
    }
    link.close().await;
    Ok(latencies)
}

/// A connection for each request until the time is over, at least one; all of it is timed.
async fn ask_anew(way: &Way, request: &[u8], until: Instant) -> io::Result<Vec<f64>> {
    let mut latencies = Vec::new();
    let buffers = Buffers::new();
    while latencies.is_empty() || Instant::now() < until {
        let began = Instant::now();
        let mut link = way.open(&buffers).await?;
        within(link.ask(request)).await?;
        latencies.push(began.elapsed().as_secs_f64() * 1e6);
        link.close().await;
    }
    Ok(latencies)
}

async fn within<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(LONGEST, step).await.unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "no answer within 30 s",
        ))
    })
}

/// Clients of `name` with HTTP/1.1; without roots every certificate is taken.
fn site(name: &str, ca: Option<Vec<u8>>) -> Result<ClientSite, BenchError> {
    let mut offer = ClientOffer::new(BackendTlsPolicy {
        verify: ca.is_some(),
        name: name.to_owned(),
        ca,
        certificate: None,
        alpn: vec!["http/1.1".into()],
    });
    // The same group for everyone, and no larger key share for one than for another.
    offer.groups = vec![NamedGroup::X25519, NamedGroup::SECP256R1];
    ClientSite::offering(offer).map_err(|error| BenchError::Broken {
        what: format!("TLS towards {name}"),
        reason: error.to_string(),
    })
}

fn failed(way: &Way, payload: u64, source: io::Error) -> BenchError {
    let hint = match way.name {
        "plaintext" => "the application must answer there with 200",
        "own TLS" => {
            "the application must answer there with 200, and its certificate fit --ca, or --insecure be given"
        }
        _ => "Tollgate was started for this and is in front of the plaintext address",
    };
    BenchError::System {
        what: format!(
            "a request of {} over {} at {}",
            super::text::bytes(payload),
            way.name,
            way.address
        ),
        source,
        hint: hint.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn urls_have_a_scheme_a_host_and_perhaps_a_port() {
        let parts = |text: &str| {
            let url = Url::parse(text)?;
            Some((url.tls, url.host, url.port, url.path))
        };
        assert_eq!(
            parts("http://app.test:8080/bytes/{bytes}"),
            Some((false, "app.test".into(), 8080, "/bytes/{bytes}".into()))
        );
        assert_eq!(
            parts("https://[::1]"),
            Some((true, "::1".into(), 443, "/".into()))
        );
        for wrong in ["app.test:8080", "ftp://x/", "http:///x", "http://a:b/"] {
            assert_eq!(Url::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_length_in_the_path_is_asked_for_and_without_one_the_payload_is_sent() {
        let get = Url::parse("http://a:1/b?n={bytes}").unwrap().request(10);
        assert!(get.starts_with(b"GET /b?n=10 HTTP/1.1\r\nHost: a:1\r\n"));
        let post = Url::parse("http://a:1/echo").unwrap().request(10);
        let text = String::from_utf8(post).unwrap();
        assert!(text.contains("Content-Length: 10\r\n") && text.ends_with("\r\n\r\nxxxxxxxxxx"));
    }
}
