//! A visit to the console of an instance, here or elsewhere, over one kept connection.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tollgate_http::{Asker, Body, Request, StatusCode, header, request};
use tollgate_tls::{BackendTlsPolicy, Buffers, Certificate, ClientSite};
use zeroize::Zeroizing;

/// How long an instance may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// No answer of a console is longer.
const MOST_BYTES: usize = 64 << 20;

/// Where Debian, Alpine and most others keep the public authorities.
const PUBLIC_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The console to visit, and how to be let in.
#[derive(Debug, clap::Args)]
pub struct VisitArguments {
    /// Console of the instance: a URL, or HOST:PORT for plain HTTP.
    #[arg(default_value = "http://127.0.0.1:9180")]
    pub url: String,
    /// File with the token that the console wants.
    #[arg(long, value_name = "FILE", help_heading = "To be let in")]
    pub token_file: Option<PathBuf>,
    /// PEM bundle that the console's certificate is checked against; the system's if absent.
    #[arg(long, value_name = "FILE", help_heading = "To be let in")]
    pub ca: Option<PathBuf>,
    /// Certificate chain to show, for a console with client_ca.
    #[arg(
        long,
        value_name = "FILE",
        requires = "client_key",
        help_heading = "To be let in"
    )]
    pub client_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(
        long,
        value_name = "FILE",
        requires = "client_certificate",
        help_heading = "To be let in"
    )]
    pub client_key: Option<PathBuf>,
    /// Take any certificate of the console without a look.
    #[arg(long, help_heading = "To be let in")]
    pub insecure: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// What was asked for makes no sense.
    Input(String),
    /// The instance cannot be reached, or broke off: it may come back.
    Away(String),
    /// It is there and does not let us in, or is no Tollgate.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(text) | Self::Away(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

/// A console that is visited.
pub struct Visitor {
    place: Place,
    token: Option<Zeroizing<String>>,
    tls: Option<ClientSite>,
    buffers: Buffers,
    kept: Option<Asker>,
}

/// A console's address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    https: bool,
    /// Without brackets.
    host: String,
    port: u16,
}

impl Place {
    fn of(url: &str) -> Result<Self, Trouble> {
        let wrong = || {
            Trouble::Input(format!(
                "{url:?} is no console's address; write http://HOST:PORT, https://HOST:PORT or HOST:PORT, such as http://127.0.0.1:9180"
            ))
        };
        let (https, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(wrong()),
            None => (false, url),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
            _ if https => (authority, 443),
            _ => (authority, 9180),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || !path.is_empty() || authority.contains('@') {
            return Err(wrong());
        }
        Ok(Self {
            https,
            host: host.to_owned(),
            port,
        })
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl Visitor {
    /// Reads what the arguments name; connects to nobody yet.
    ///
    /// # Errors
    /// When the address is none, or a file cannot be used.
    pub fn new(arguments: &VisitArguments) -> Result<Self, Trouble> {
        let place = Place::of(&arguments.url)?;
        let token = arguments.token_file.as_deref().map(token).transpose()?;
        let wants_tls =
            arguments.ca.is_some() || arguments.client_certificate.is_some() || arguments.insecure;
        if wants_tls && !place.https {
            return Err(Trouble::Input(format!(
                "--ca, --client-certificate and --insecure are for a console that speaks TLS; write https://{}",
                place.authority()
            )));
        }
        let tls = match place.https {
            true => Some(tls(arguments, &place)?),
            false => None,
        };
        Ok(Self {
            place,
            token,
            tls,
            buffers: Buffers::new(),
            kept: None,
        })
    }

    /// The console's address as a URL.
    pub fn url(&self) -> String {
        self.place.to_string()
    }

    /// Asks for `path` and reads the JSON that comes. Must run on a `LocalSet`.
    ///
    /// # Errors
    /// When there is no answer, or one that a Tollgate would not give.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Trouble> {
        let text = self.text(path).await?;
        serde_json::from_slice(&text).map_err(|error| {
            Trouble::Refused(format!(
                "what {} answers at {path} is not what this version reads ({error}); is it a Tollgate of another version?",
                self.place
            ))
        })
    }

    /// Asks for `path` and hands back the body as it is.
    ///
    /// # Errors
    /// As [`Visitor::get`].
    pub async fn text(&mut self, path: &str) -> Result<tollgate_http::Bytes, Trouble> {
        let asked = tokio::time::timeout(PATIENCE, self.ask(path)).await;
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(trouble)) => {
                self.kept = None;
                Err(trouble)
            }
            Err(_) => {
                self.kept = None;
                Err(Trouble::Away(format!(
                    "{} does not answer within {} s",
                    self.place,
                    PATIENCE.as_secs()
                )))
            }
        }
    }

    async fn ask(&mut self, path: &str) -> Result<tollgate_http::Bytes, Trouble> {
        let mut asker = match self.kept.take().filter(Asker::is_open) {
            Some(asker) => asker,
            None => self.connect().await?,
        };
        let request = self.request(path)?;
        let answer = asker
            .ask(request, MOST_BYTES)
            .await
            .map_err(|error| Trouble::Away(format!("{} broke off: {error}", self.place)))?;
        self.kept = Some(asker);
        match answer.status() {
            StatusCode::OK => Ok(answer.into_body()),
            StatusCode::SERVICE_UNAVAILABLE => Err(Trouble::Away(format!(
                "{} is starting or ending",
                self.place
            ))),
            StatusCode::UNAUTHORIZED => Err(Trouble::Refused(match self.token {
                None => format!(
                    "the console at {} wants its token; give it with --token-file FILE",
                    self.place
                ),
                Some(_) => format!("the console at {} does not take this token", self.place),
            })),
            StatusCode::NOT_FOUND => Err(Trouble::Refused(format!(
                "{} has no {path}: it is no Tollgate, or an older one",
                self.place
            ))),
            status => Err(Trouble::Refused(format!(
                "{} answers {status}: {}",
                self.place,
                printable(answer.body())
            ))),
        }
    }

    async fn connect(&self) -> Result<Asker, Trouble> {
        let reached = TcpStream::connect((self.place.host.as_str(), self.place.port)).await;
        let stream = reached.map_err(|error| {
            Trouble::Away(match error.kind() {
                std::io::ErrorKind::ConnectionRefused => format!(
                    "nobody listens at {}; is tollgate serve running there, with a console?",
                    self.place
                ),
                _ => format!("{} cannot be reached: {error}", self.place),
            })
        })?;
        let begun = match &self.tls {
            None => Asker::over(stream).await,
            Some(site) => {
                let shaken = tollgate_tls::connect(stream, site, &self.buffers).await;
                let (stream, _) = shaken.map_err(|failure| {
                    Trouble::Refused(format!("TLS with {}: {failure}", self.place))
                })?;
                Asker::over(stream).await
            }
        };
        let (asker, driver) =
            begun.map_err(|error| Trouble::Away(format!("{} broke off: {error}", self.place)))?;
        tokio::task::spawn_local(driver);
        Ok(asker)
    }

    fn request(&self, path: &str) -> Result<Request<Body>, Trouble> {
        let mut builder = request::Builder::new()
            .uri(path)
            .header(header::HOST, self.place.authority());
        if let Some(token) = &self.token {
            let value = Zeroizing::new(format!("Bearer {}", token.as_str()));
            builder = builder.header(header::AUTHORIZATION, value.as_str());
        }
        builder
            .body(Body::empty())
            .map_err(|error| Trouble::Input(format!("the token cannot be sent: {error}")))
    }
}

fn token(path: &Path) -> Result<Zeroizing<String>, Trouble> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|error| unreadable("token file", path, &error))?;
    match text.trim() {
        "" => Err(Trouble::Input(format!(
            "token file {} is empty; it must hold the console's token",
            path.display()
        ))),
        token => Ok(Zeroizing::new(token.to_owned())),
    }
}

fn tls(arguments: &VisitArguments, place: &Place) -> Result<ClientSite, Trouble> {
    let read =
        |what, path: &Path| std::fs::read(path).map_err(|error| unreadable(what, path, &error));
    let ca = match (&arguments.ca, arguments.insecure) {
        (_, true) => None,
        (Some(path), false) => Some(read("CA bundle", path)?),
        (None, false) => Some(read("CA bundle", Path::new(PUBLIC_AUTHORITIES))?),
    };
    let certificate = match (&arguments.client_certificate, &arguments.client_key) {
        (Some(chain), Some(key)) => {
            let bytes = Zeroizing::new(read("client key", key)?);
            let made = Certificate::from_pem(&read("client certificate", chain)?, &bytes);
            Some(made.map_err(|error| {
                Trouble::Input(format!(
                    "{} with {}: {error}",
                    chain.display(),
                    key.display()
                ))
            })?)
        }
        _ => None,
    };
    ClientSite::new(BackendTlsPolicy {
        verify: !arguments.insecure,
        name: place.host.clone(),
        ca,
        certificate: certificate.map(std::sync::Arc::new),
        alpn: vec!["http/1.1".to_owned()],
    })
    .map_err(|error| Trouble::Input(error.to_string()))
}

fn unreadable(what: &str, path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::Input(format!("{what} {} cannot be read: {error}", path.display()))
}

/// The first line of an answer, fit for a terminal.
fn printable(body: &[u8]) -> String {
    String::from_utf8_lossy(body)
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|character| !character.is_control())
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_or_a_host_with_a_port() {
        let url = |text: &str| Place::of(text).map(|place| place.to_string()).ok();
        for (text, expected) in [
            ("127.0.0.1:9180", Some("http://127.0.0.1:9180")),
            ("edge.example", Some("http://edge.example:9180")),
            ("http://[::1]:9180/", Some("http://[::1]:9180")),
            ("http://[::1]", Some("http://[::1]:9180")),
            ("https://edge.example", Some("https://edge.example:443")),
            ("ftp://edge.example", None),
            ("http://edge.example/live.json", None),
            ("http://user@edge.example", None),
            ("edge.example:https", None),
            ("", None),
        ] {
            assert_eq!(url(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_a_stranger_answers_does_not_move_the_cursor() {
        assert_eq!(printable(b"no\x1b[2J way\nmore"), "no[2J way");
    }
}
