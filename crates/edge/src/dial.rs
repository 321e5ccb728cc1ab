//! A connection to a backend, ready to use: socket, PROXY header, TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tollgate_config::{BackendAddress, BackendProtocol, ProxyVersion};
use tollgate_preface::{Outgoing, OutgoingTls};
use tollgate_terms::{CertificateKind, HandshakeFacts, ServerName, SignatureScheme};
use tollgate_tls::{Buffers, Failure, TlsStream};

use crate::live::LiveBackend;
use crate::relay::{End, Ended, Then, Took};
use crate::wire::Wire;

/// A byte stream to a backend.
pub enum BackendStream {
    /// In the clear.
    Plain(Plain),
    /// Over TLS.
    Tls(Box<TlsStream<Wire>>),
}

/// A socket, and whether it is known to have room because nothing was sent on it yet.
pub struct Plain {
    wire: Wire,
    has_room: bool,
}

impl Plain {
    /// Writes; the first time, when there is room, without waiting for the reactor.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.has_room)
            && let Poll::Ready(sent) = self.wire.send_now(bytes)
        {
            return Poll::Ready(sent);
        }
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }
}

/// Who the client is, for the PROXY header.
#[derive(Debug)]
pub struct Announcement<'a> {
    /// Address of the client; `None` for a peer on a unix socket.
    pub source: Option<SocketAddr>,
    /// Address that the client connected to.
    pub destination: Option<SocketAddr>,
    /// What the handshake with the client was; `None` when TLS does not end here.
    pub facts: Option<&'a HandshakeFacts>,
    /// `server_name` of the client when TLS does not end here.
    pub authority: Option<&'a str>,
}

/// Why a backend could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No answer within `timeouts: connect`.
    #[error("no connection to {0} within {1:?}; see timeouts: connect")]
    Timeout(Arc<str>, Duration),
    /// Nobody listens there.
    #[error("{0} refuses connections; is the backend running?")]
    Refused(Arc<str>),
    /// The unix socket is not there.
    #[error(
        "socket of {0} does not exist; is the backend running, and is the path right inside a chroot or container?"
    )]
    NoSocket(Arc<str>),
    /// The unix socket may not be opened.
    #[error(
        "no permission to open {0}; connecting needs write permission on the socket and search permission on every folder above it"
    )]
    NoPermission(Arc<str>),
    /// The host name leads nowhere.
    #[error("host of {0} has no address; check the name with getent hosts")]
    NoAddress(Arc<str>),
    /// Out of file descriptors.
    #[error(
        "no file descriptor left to connect to {0}; raise LimitNOFILE or lower limits: connections"
    )]
    NoDescriptors(Arc<str>),
    /// TLS with the backend did not come about.
    #[error("TLS with {0}: {1}")]
    Tls(Arc<str>, Failure),
    /// It does not speak the HTTP that it is configured for.
    #[error(
        "{0} does not speak the HTTP of its scheme (h2c:// is HTTP/2, http:// is HTTP/1.1): {1}"
    )]
    NotHttp(Arc<str>, String),
    /// Anything else that the host said.
    #[error("{0}: {1}")]
    Host(Arc<str>, io::Error),
}

impl DialError {
    /// Whether it is the backend that failed, rather than this host.
    pub fn is_of_backend(&self) -> bool {
        !matches!(self, Self::NoDescriptors(_))
    }

    /// A label value.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Timeout(..) => "connect_timeout",
            Self::Refused(_) => "connection_refused",
            Self::NoSocket(_) => "no_socket",
            Self::NoPermission(_) => "no_permission",
            Self::NoAddress(_) => "no_address",
            Self::NoDescriptors(_) => "no_file_descriptors",
            Self::Tls(..) => "tls",
            Self::NotHttp(..) => "not_http",
            Self::Host(..) => "connect_failed",
        }
    }
}

/// Connects, announces the client if the backend wants that, and does the TLS handshake if there is one.
///
/// # Errors
/// Names the backend and what to do.
pub async fn dial(
    backend: &LiveBackend,
    announcement: &Announcement<'_>,
    limit: Duration,
    buffers: &Buffers,
) -> Result<BackendStream, DialError> {
    let label = &backend.label;
    match tokio::time::timeout(limit, reach(backend, announcement, buffers)).await {
        Ok(reached) => reached,
        Err(_) => Err(DialError::Timeout(Arc::clone(label), limit)),
    }
}

async fn reach(
    backend: &LiveBackend,
    announcement: &Announcement<'_>,
    buffers: &Buffers,
) -> Result<BackendStream, DialError> {
    let Plain { mut wire, has_room } = open(backend).await?;
    if let Some(version) = backend.proxy_protocol {
        let header = proxy_header(version, announcement);
        wire.write_all(&header)
            .await
            .map_err(|error| explain(&backend.label, error))?;
    }
    let Some(tls) = &backend.tls else {
        let has_room = has_room && backend.proxy_protocol.is_none();
        return Ok(BackendStream::Plain(Plain { wire, has_room }));
    };
    match tollgate_tls::client::connect(wire, tls, buffers).await {
        Ok((_, facts))
            if backend.protocol == BackendProtocol::Http2
                && facts.alpn.as_deref() != Some("h2") =>
        {
            let why = "it does not agree on h2 (ALPN)".to_owned();
            Err(DialError::NotHttp(Arc::clone(&backend.label), why))
        }
        Ok((stream, _)) => Ok(BackendStream::Tls(Box::new(stream))),
        Err(failure) => Err(DialError::Tls(Arc::clone(&backend.label), failure)),
    }
}

/// The bare socket, without header or TLS.
///
/// # Errors
/// Names the backend and what to do.
pub async fn open(backend: &LiveBackend) -> Result<Plain, DialError> {
    let failed = |error| explain(&backend.label, error);
    match &backend.target.address {
        BackendAddress::Ip(address) => connect(*address).await.map_err(failed),
        BackendAddress::UnixPath(path) => {
            UnixStream::connect(path).await.map(waiting).map_err(failed)
        }
        BackendAddress::UnixAbstract(name) => {
            let path = format!("\0{name}");
            UnixStream::connect(Path::new(&path))
                .await
                .map(waiting)
                .map_err(failed)
        }
        BackendAddress::Host(..) => {
            let addresses = backend.target.resolved.load_full();
            let mut last = DialError::NoAddress(Arc::clone(&backend.label));
            for address in addresses.iter() {
                match connect(*address).await {
                    Ok(plain) => return Ok(plain),
                    Err(error) => last = failed(error),
                }
            }
            Err(last)
        }
    }
}

/// Connects over TCP, to send small writes at once.
///
/// A connection within this host is there before the call returns. To ask whether it is costs less than
/// to have the reactor say so, and what is sent first need not wait for the reactor either.
async fn connect(address: SocketAddr) -> io::Result<Plain> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if let Err(error) = socket.connect(&address.into())
        && error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error())
    {
        return Err(error);
    }
    socket.set_tcp_nodelay(true)?;
    let has_room = socket.peer_addr().is_ok();
    let stream = TcpStream::from_std(socket.into())?;
    if !has_room {
        stream.writable().await?;
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
    }
    Ok(Plain {
        wire: Wire::from(stream),
        has_room,
    })
}

/// A unix socket: the reactor says when it has room.
fn waiting(stream: UnixStream) -> Plain {
    Plain {
        wire: Wire::from(stream),
        has_room: false,
    }
}

fn explain(label: &Arc<str>, error: io::Error) -> DialError {
    let label = Arc::clone(label);
    match error.kind() {
        io::ErrorKind::ConnectionRefused => DialError::Refused(label),
        io::ErrorKind::NotFound => DialError::NoSocket(label),
        io::ErrorKind::PermissionDenied => DialError::NoPermission(label),
        _ if is_out_of_descriptors(&error) => DialError::NoDescriptors(label),
        _ => DialError::Host(label, error),
    }
}

/// Whether the process or the machine has no file descriptor left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        code == rustix::io::Errno::MFILE.raw_os_error()
            || code == rustix::io::Errno::NFILE.raw_os_error()
    })
}

/// The header that tells a backend who the client is; addresses that are not known are said to be unknown.
fn proxy_header(version: ProxyVersion, announcement: &Announcement<'_>) -> Vec<u8> {
    let mut header = Vec::with_capacity(256);
    let addresses = announcement.source.zip(announcement.destination);
    match (version, addresses) {
        (ProxyVersion::V1, Some((source, destination))) => {
            tollgate_preface::write_v1(source, destination, &mut header);
        }
        (ProxyVersion::V1, None) => tollgate_preface::write_unknown_v1(&mut header),
        (ProxyVersion::V2, Some((source, destination))) => {
            let facts = announcement.facts;
            let authority = facts
                .and_then(|facts| facts.server_name.as_ref())
                .map(ServerName::as_str);
            let outgoing = Outgoing {
                alpn: facts.and_then(|facts| facts.alpn.as_deref()),
                authority: authority.or(announcement.authority),
                tls: facts.map(outgoing_tls),
                ..Outgoing::new(source, destination)
            };
            tollgate_preface::write_v2(&outgoing, &mut header);
        }
        (ProxyVersion::V2, None) => tollgate_preface::write_local_v2(&mut header),
    }
    header
}

/// A kind of key as HAProxy spells it in the PROXY header.
fn key_name(kind: CertificateKind) -> &'static str {
    match kind {
        CertificateKind::EcdsaP256 => "EC256",
        CertificateKind::EcdsaP384 => "EC384",
        CertificateKind::Ed25519 => "ED25519",
        CertificateKind::Rsa(2048) => "RSA2048",
        CertificateKind::Rsa(3072) => "RSA3072",
        CertificateKind::Rsa(4096) => "RSA4096",
        CertificateKind::Rsa(_) => "RSA",
    }
}

fn outgoing_tls(facts: &HandshakeFacts) -> OutgoingTls<'_> {
    OutgoingTls {
        version: facts.version.name(),
        suite: facts.suite.name(),
        client_common_name: facts
            .client
            .as_ref()
            .map(|client| client.common_name.as_str()),
        client_certificate_verified: facts.client.is_some(),
        resumed: facts.kind.is_resumed(),
        signature: facts.signature.map(SignatureScheme::name),
        key: facts.certificate.map(key_name),
    }
}

impl AsyncRead for BackendStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(&mut plain.wire).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for BackendStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(plain) => plain.poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(&mut plain.wire).poll_flush(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(plain) => Pin::new(&mut plain.wire).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(plain) => match slices {
                [only] => plain.poll_write(cx, only),
                _ => Pin::new(&mut plain.wire).poll_write_vectored(cx, slices),
            },
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl End for BackendStream {
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Took>> {
        match self {
            Self::Plain(plain) => plain.wire.poll_take(cx, scratch, sink),
            Self::Tls(stream) => stream.poll_take(cx, scratch, sink),
        }
    }

    fn poll_give(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(plain) => plain.poll_write(cx, bytes),
            Self::Tls(stream) => stream.poll_give(cx, bytes),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(plain) => End::poll_flush(&mut plain.wire, cx),
            Self::Tls(stream) => End::poll_flush(&mut **stream, cx),
        }
    }

    fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        ended: Ended,
        then: Then,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(plain) => plain.wire.poll_finish(cx, ended, then),
            Self::Tls(stream) => stream.poll_finish(cx, ended, then),
        }
    }
}
