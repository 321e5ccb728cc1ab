//! `serve --demo`: two certificates made in memory, a small backend, and nothing to prepare.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_http::{Body, HeaderValue, Request, StatusCode};
use tollgate_terms::{CertificateKind, UnixTime};
use tollgate_tls::material::{Certificate, MaterialError};

/// Names and addresses that the certificates are for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How long the certificates are good: a year, longer than any demonstration.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Stand for the certificates in the configuration text; never opened.
const ECDSA: &str = "/in-memory/ecdsa.pem";
const RSA: &str = "/in-memory/rsa.pem";

/// What the demo is made of.
#[derive(Debug)]
pub struct Demo {
    /// Its configuration, in the words of `tls.yaml`.
    pub text: String,
    ecdsa: Arc<Certificate>,
    rsa: Arc<Certificate>,
}

impl Demo {
    /// A demo in front of the small backend at `backend`, with certificates that are good from an hour
    /// before `now`, for clients whose clock is slow.
    ///
    /// # Errors
    /// When the certificates cannot be made.
    pub fn new(backend: SocketAddr, now: UnixTime) -> Result<Self, MaterialError> {
        let valid = now - Duration::from_secs(60 * 60)..now + LIFETIME;
        let text = format!(
            "# What serve --demo serves; a production file names its own certificates and backends.\n\
             listeners:\n\
             \x20 - {{ address: \"127.0.0.1:8443\", mode: http }}\n\
             \x20 - {{ address: \"127.0.0.1:8444\", mode: tcp }}\n\
             sites:\n\
             \x20 - names: [localhost]\n\
             \x20   default: true\n\
             \x20   certificates:\n\
             \x20     - combined: {ECDSA}\n\
             \x20     - combined: {RSA}\n\
             \x20   backends: [\"{backend}\"]\n\
             console: \"127.0.0.1:9180\"\n\
             control: off\n"
        );
        Ok(Self {
            text,
            ecdsa: Arc::new(Certificate::self_signed_for(
                CertificateKind::EcdsaP256,
                &NAMES,
                valid.clone(),
            )?),
            rsa: Arc::new(Certificate::self_signed_for(
                CertificateKind::Rsa(2048),
                &NAMES,
                valid,
            )?),
        })
    }

    /// The certificate that most clients are shown.
    pub fn certificate(&self) -> &Arc<Certificate> {
        &self.ecdsa
    }

    /// The certificates by the path that stands for them.
    pub fn certificates(&self) -> HashMap<PathBuf, Arc<Certificate>> {
        HashMap::from([
            (ECDSA.into(), Arc::clone(&self.ecdsa)),
            (RSA.into(), Arc::clone(&self.rsa)),
        ])
    }
}

/// Where the demo listens in HTTP mode and in TCP mode.
pub const ADDRESSES: [([u8; 4], u16); 2] = [([127, 0, 0, 1], 8443), ([127, 0, 0, 1], 8444)];

/// The small backend's answer: a page for browsers, the same facts as text for everybody else.
fn answer(wants_html: bool, path: &str, client: &str) -> (String, &'static str) {
    if !wants_html {
        let text = format!(
            "Hello over TLS from Tollgate's demo backend.\nYou asked for {path}, from {client}.\n"
        );
        return (text, "text/plain; charset=utf-8");
    }
    (
        include_str!("demo.html").to_owned(),
        "text/html; charset=utf-8",
    )
}

/// Starts the demo's small backend on a free port of loopback.
///
/// # Errors
/// When there is no port.
pub async fn backend() -> io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let answer = async |request: Request<Body>| {
        let wants_html = field(&request, "accept").contains("text/html");
        let client = match field(&request, "x-forwarded-for") {
            "" => "a client of the tcp port",
            address => address,
        };
        let (body, content_type) = answer(wants_html, request.uri().path(), client);
        let mut response = tollgate_http::text(StatusCode::OK, body);
        let fields = response.headers_mut();
        fields.insert("content-type", HeaderValue::from_static(content_type));
        response
    };
    tokio::task::spawn_local(tollgate_http::serve_simple(listener, answer));
    Ok(address)
}

fn field<'a>(request: &'a Request<Body>, name: &str) -> &'a str {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
}

/// What to try next, printed once the demo serves.
pub const TRY_NEXT: &str = "
Try next:
  curl --insecure https://localhost:8443/
  openssl s_client -connect localhost:8444 -tls1_2 -reconnect </dev/null | grep -E '^(New|Reused)'
  open http://127.0.0.1:9180/ in a browser: what TLS costs here, live
  tollgate top    the same in a terminal
";

/// Said when nothing drives the demo.
pub const DRIVE_IT: &str =
    "  tollgate serve --demo --drive    with a small load of its own, so that all of it moves\n";

/// Said when the demo drives itself.
pub const DRIVEN: &str = "
A small load of the demo's own runs beside it: some 150 handshakes and 120 requests per second, TLS 1.2 and 1.3,
ECDSA and RSA, AES and ChaCha20, HTTP/1.1 and HTTP/2, most of them resumed, some with tickets of strangers.
";

/// Said last.
pub const HOW_TO_END: &str = "\nCtrl-C ends it.\n";
