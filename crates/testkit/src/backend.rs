//! What every threaded backend shares: accepting, TLS, counting, stopping.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::socket::Listener;
use crate::{Address, Authority, Leaf, Socket};

/// No test waits longer than this for a byte.
const BOUND: Duration = Duration::from_secs(60);

/// What reached a backend. Counters only grow, except `open`.
#[derive(Debug, Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections open now.
    pub open: AtomicU64,
    /// Requests answered or refused.
    pub requests: AtomicU64,
    /// Full TLS handshakes.
    pub tls_full: AtomicU64,
    /// Resumed TLS handshakes.
    pub tls_resumed: AtomicU64,
    /// TLS handshakes that did not end well.
    pub tls_failed: AtomicU64,
    /// Connections that showed a client certificate.
    pub client_certificates: AtomicU64,
    /// Raw request heads, in order of arrival.
    pub heads: Mutex<Vec<String>>,
    /// PROXY headers, in order of arrival.
    pub prefaces: Mutex<Vec<Vec<u8>>>,
    /// All bytes of each connection, by connection number (recording backend).
    pub received: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// When set, `/health` answers 503.
    pub unhealthy: AtomicBool,
    /// Server names that TLS clients sent.
    pub server_names: Mutex<Vec<String>>,
}

impl Seen {
    /// A counter's value.
    pub fn count(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    /// Copy of the request heads so far.
    pub fn heads(&self) -> Vec<String> {
        copy(&self.heads)
    }

    /// Copy of the PROXY headers so far.
    pub fn prefaces(&self) -> Vec<Vec<u8>> {
        copy(&self.prefaces)
    }

    /// Copy of the bytes of each connection so far, in order of arrival.
    pub fn received(&self) -> Vec<Vec<u8>> {
        copy(&self.received).into_values().collect()
    }

    /// Waits until `condition` holds, at most ten seconds; whether it came to hold.
    pub fn wait(&self, condition: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition(self) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::yield_now();
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub(crate) fn push_head(&self, head: &str) {
        lock(&self.heads).push(head.to_owned());
    }

    pub(crate) fn push_preface(&self, preface: Vec<u8>) {
        lock(&self.prefaces).push(preface);
    }

    pub(crate) fn push_bytes(&self, connection: u64, bytes: &[u8]) {
        lock(&self.received)
            .entry(connection)
            .or_default()
            .extend_from_slice(bytes);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copy<T: Clone>(mutex: &Mutex<T>) -> T {
    lock(mutex).clone()
}

/// TLS in front of a backend.
#[derive(Clone)]
pub struct BackendTls {
    config: Arc<ServerConfig>,
}

impl BackendTls {
    /// Shows `leaf`; asks for a client certificate of `clients` when there is one.
    pub fn new(leaf: &Leaf, clients: Option<&Authority>, alpn: &[&str]) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the default versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.root_der()).expect("a root");
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .expect("a verifier");
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(leaf.chain_der(), leaf.key_der())
            .expect("a certificate with its key");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self {
            config: Arc::new(config),
        }
    }
}

/// A connection as the backend's code sees it.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Stream {
    /// No more bytes from here; with TLS a `close_notify` goes first.
    pub(crate) fn end_writing(&mut self) {
        match self {
            Self::Plain(socket) => {
                let _ = socket.shutdown(Shutdown::Write);
            }
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                let _ = stream.sock.shutdown(Shutdown::Write);
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// One accepted connection.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) number: u64,
    pub(crate) peer: String,
    pub(crate) seen: Arc<Seen>,
}

pub(crate) type Serve = Arc<dyn Fn(Connection) + Send + Sync>;

/// A running backend; stops when dropped, and ends its connections.
pub struct Backend {
    address: Address,
    text: String,
    seen: Arc<Seen>,
    stopping: Arc<AtomicBool>,
    handles: Arc<Mutex<Vec<Socket>>>,
    waker: Socket,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    pub(crate) fn start(address: &Address, tls: Option<BackendTls>, serve: Serve) -> Self {
        let (listener, text) = Listener::bind(address).expect("an address to listen on");
        let waker = listener.waker().expect("a second handle");
        let seen = Arc::new(Seen::default());
        let stopping = Arc::new(AtomicBool::new(false));
        let handles = Arc::new(Mutex::new(Vec::new()));
        let thread = std::thread::spawn({
            let (seen, stopping, handles) = (seen.clone(), stopping.clone(), handles.clone());
            move || accept(&listener, tls.as_ref(), &serve, &seen, &stopping, &handles)
        });
        Self {
            address: address.clone(),
            text,
            seen,
            stopping,
            handles,
            waker,
            thread: Some(thread),
        }
    }

    /// The address as `tls.yaml` spells it, without a scheme: `127.0.0.1:4711`, `unix:/run/x`, `unix:@x`.
    pub fn address(&self) -> &str {
        &self.text
    }

    /// What reached it so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        Seen::count(&self.seen.requests)
    }

    /// Stops listening and cuts every connection.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // The accepting thread wakes with an error.
        let _ = self.waker.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for socket in lock(&self.handles).drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Address::UnixPath(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.halt();
    }
}

fn accept(
    listener: &Listener,
    tls: Option<&BackendTls>,
    serve: &Serve,
    seen: &Arc<Seen>,
    stopping: &AtomicBool,
    handles: &Mutex<Vec<Socket>>,
) {
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok((socket, peer)) = accepted else {
            continue;
        };
        let number = seen.connections.fetch_add(1, Ordering::SeqCst);
        if let Ok(handle) = socket.try_clone() {
            lock(handles).push(handle);
        }
        let (tls, serve, seen) = (tls.cloned(), serve.clone(), seen.clone());
        std::thread::spawn(move || {
            seen.open.fetch_add(1, Ordering::SeqCst);
            let cut = socket.try_clone();
            let _ = socket.set_blocking(BOUND);
            if let Some(stream) = secure(socket, tls.as_ref(), &seen) {
                serve(Connection {
                    stream,
                    number,
                    peer,
                    seen: seen.clone(),
                });
            }
            // The list of handles keeps the descriptor open, so the end is said here.
            if let Ok(socket) = cut {
                let _ = socket.shutdown(Shutdown::Both);
            }
            seen.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn secure(mut socket: Socket, tls: Option<&BackendTls>, seen: &Seen) -> Option<Stream> {
    let Some(tls) = tls else {
        return Some(Stream::Plain(socket));
    };
    let mut connection = ServerConnection::new(tls.config.clone()).expect("a server connection");
    while connection.is_handshaking() {
        if connection.complete_io(&mut socket).is_err() {
            seen.tls_failed.fetch_add(1, Ordering::SeqCst);
            return None;
        }
    }
    match connection.handshake_kind() {
        Some(HandshakeKind::Resumed) => &seen.tls_resumed,
        _ => &seen.tls_full,
    }
    .fetch_add(1, Ordering::SeqCst);
    if connection.peer_certificates().is_some() {
        seen.client_certificates.fetch_add(1, Ordering::SeqCst);
    }
    if let Some(name) = connection.server_name() {
        lock(&seen.server_names).push(name.to_owned());
    }
    Some(Stream::Tls(Box::new(StreamOwned::new(connection, socket))))
}
