//! A TLS client for tests that waits for its bytes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use rustls_pki_types::ServerName;

use crate::{Authority, Leaf, Socket};

/// No test waits longer than this for a byte.
const BOUND: Duration = Duration::from_secs(30);

/// What a client offers; every default is off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer<'a> {
    /// Application protocols.
    pub alpn: &'a [&'a str],
    /// TLS 1.2 only.
    pub tls12: bool,
    /// Keep sessions and tickets and offer them on the next connection.
    pub resume: bool,
    /// Client certificate.
    pub leaf: Option<&'a Leaf>,
}

/// A client that trusts one authority.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
}

/// An established TLS connection.
pub struct TlsConnection {
    stream: StreamOwned<ClientConnection, Socket>,
}

impl Client {
    /// A client that trusts `authority`.
    pub fn new(authority: &Authority, offer: &Offer<'_>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.root_der()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions: &[_] = if offer.tls12 {
            &[&rustls::version::TLS12]
        } else {
            &[&rustls::version::TLS13, &rustls::version::TLS12]
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match offer.leaf {
            None => builder.with_no_client_auth(),
            Some(leaf) => builder
                .with_client_auth_cert(leaf.chain_der(), leaf.key_der())
                .expect("a client certificate"),
        };
        config.alpn_protocols = offer
            .alpn
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        config.resumption = if offer.resume {
            Resumption::in_memory_sessions(64)
        } else {
            Resumption::disabled()
        };
        Self {
            config: Arc::new(config),
        }
    }

    /// Connects over TCP and completes the handshake.
    pub fn connect(&self, address: SocketAddr, name: &str) -> io::Result<TlsConnection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        self.over(stream.into(), name)
    }

    /// Completes the handshake on a connected socket; the server certificate must carry `name`.
    pub fn over(&self, mut socket: Socket, name: &str) -> io::Result<TlsConnection> {
        socket.set_blocking(BOUND)?;
        let name = ServerName::try_from(name.to_owned()).expect("a server name");
        let mut connection =
            ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut socket) {
                return Err(reason(&mut connection, &mut socket, error));
            }
        }
        Ok(TlsConnection {
            stream: StreamOwned::new(connection, socket),
        })
    }
}

/// What the server said before it left, rather than that our own bytes found nobody.
fn reason(connection: &mut ClientConnection, socket: &mut Socket, error: io::Error) -> io::Error {
    while connection.read_tls(socket).is_ok_and(|count| count > 0) {
        if let Err(alert) = connection.process_new_packets() {
            return io::Error::new(io::ErrorKind::InvalidData, alert);
        }
    }
    error
}

impl TlsConnection {
    /// Whether the handshake took up an earlier session.
    pub fn resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// `TLSv1_3` or `TLSv1_2`.
    pub fn version(&self) -> String {
        self.stream
            .conn
            .protocol_version()
            .map_or_else(String::new, |version| format!("{version:?}"))
    }

    /// The application protocol agreed upon.
    pub fn alpn(&self) -> Option<String> {
        self.stream
            .conn
            .alpn_protocol()
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Sends `close_notify` and keeps reading.
    pub fn close_notify(&mut self) -> io::Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush()
    }

    /// Ends the TCP direction towards the server, without a word in TLS.
    pub fn end_writing(&self) -> io::Result<()> {
        self.stream.sock.shutdown(Shutdown::Write)
    }

    /// Reads until the server says `close_notify`; an end without it is an error.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads what comes until the connection ends in any way; the error says how, if not well.
    pub fn rest_and_end(&mut self) -> (Vec<u8>, Option<io::Error>) {
        let mut bytes = Vec::new();
        let end = self.stream.read_to_end(&mut bytes).err();
        (bytes, end)
    }

    /// Sends an HTTP/1.1 request and reads an answer that has a `content-length`.
    pub fn exchange(&mut self, request: &str) -> io::Result<String> {
        self.stream.write_all(request.as_bytes())?;
        self.stream.flush()?;
        self.answer()
    }

    /// Reads an answer that has a `content-length`.
    pub fn answer(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        let mut piece = [0; 16_384];
        loop {
            if let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length:"))
                    .and_then(|length| length.trim().parse().ok())
                    .unwrap_or(0_usize);
                if bytes.len() >= head + 4 + length {
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&piece[..count]);
        }
    }
}

impl Read for TlsConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for TlsConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, BackendTls, LeafKind, Seen, http_backend};

    #[test]
    fn both_ends_count_the_same_resumptions() {
        let authority = Authority::new("test");
        let leaf = authority.server(LeafKind::EcdsaP256, &["localhost"]);
        let tls = BackendTls::new(&leaf, None, &[]);
        let backend = http_backend(&Address::Loopback, Some(tls), "tls", false);
        let offer = Offer {
            resume: true,
            ..Offer::default()
        };
        let client = Client::new(&authority, &offer);
        let mut resumed = 0;
        for _ in 0..4 {
            let address = backend.address().parse().unwrap();
            let mut connection = client.connect(address, "localhost").unwrap();
            connection
                .exchange("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .unwrap();
            resumed += u64::from(connection.resumed());
        }
        assert_eq!(resumed, 3);
        assert!(
            backend
                .seen()
                .wait(|seen| Seen::count(&seen.tls_resumed) == 3)
        );
        assert_eq!(Seen::count(&backend.seen().tls_full), 1);
    }
}
