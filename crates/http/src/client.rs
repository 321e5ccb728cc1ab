//! The client role: one connection to a backend, and requests over it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::header::{HeaderValue, TRANSFER_ENCODING, UPGRADE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::body::{Body, BodyError};
use crate::local::LocalExecutor;
use crate::server::Protocol;
use crate::upgrade::{Duplex, Tunnel};

/// Bounds on what a backend may send us, and on what we keep for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Largest response head, in bytes. Default 64 KiB, at least 8 KiB.
    pub header_bytes: usize,
    /// Largest number of fields in it. Default 100.
    pub header_count: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            header_bytes: 64 * 1024,
            header_count: 100,
        }
    }
}

/// Why there is no response.
#[derive(Debug)]
pub enum SendError {
    /// Nothing was sent; the request comes back whole and may go elsewhere, whatever its method.
    Unsent(Box<Request<Body>>),
    /// A connection that had been used before was closed before a byte of the response came: the
    /// backend had most likely given it up. Safe to repeat when the method is.
    Stale,
    /// The client's body could not be read on.
    RequestBody(BodyError),
    /// Broken off on a fresh connection, or in the middle of the response head.
    Failed(Fault),
}

/// What went wrong between us and a backend.
#[derive(Debug)]
pub enum Fault {
    /// The backend closed or reset the connection, or the system did.
    Closed(hyper::Error),
    /// The backend sent what is no HTTP, or a head beyond the limits.
    Malformed(hyper::Error),
    /// The backend switched protocols without being asked, or closed right after it.
    Switched,
}

impl Fault {
    /// A label value in snake case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Malformed(_) => "malformed",
            Self::Switched => "switched",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(error) => write!(f, "the backend broke off before its response: {error}"),
            Self::Malformed(error) => write!(
                f,
                "the backend sent a response that cannot be read: {error}"
            ),
            Self::Switched => {
                f.write_str("the backend switched protocols although nobody had asked")
            }
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(_) => {
                f.write_str("the connection to the backend was closed before the request was sent")
            }
            Self::Stale => f.write_str("the backend had given up the pooled connection"),
            Self::RequestBody(error) => error.fmt(f),
            Self::Failed(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}

/// What a connection and those who use it share.
#[derive(Default)]
pub(crate) struct Link {
    bytes_read: Cell<u64>,
    wants_upgrade: Cell<bool>,
    ended: Cell<bool>,
    offered: RefCell<Option<Tunnel>>,
    waker: RefCell<Option<Waker>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("bytes_read", &self.bytes_read)
            .finish_non_exhaustive()
    }
}

impl Link {
    fn over(&self, tunnel: Option<Tunnel>) {
        *self.offered.borrow_mut() = tunnel;
        self.ended.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll_tunnel(&self, cx: &Context<'_>) -> Poll<Option<Tunnel>> {
        if self.ended.get() {
            return Poll::Ready(self.offered.take());
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[derive(Debug)]
enum Requests {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// The near end of a connection to a backend. For HTTP/2 clones of it share the connection.
#[derive(Debug)]
pub struct Sender {
    requests: Requests,
    link: Rc<Link>,
    used: Rc<Cell<bool>>,
}

impl Sender {
    /// What is spoken on the connection.
    pub fn protocol(&self) -> Protocol {
        match self.requests {
            Requests::Http1(_) => Protocol::Http1,
            Requests::Http2(_) => Protocol::Http2,
        }
    }

    /// The connection takes no more requests.
    pub fn is_closed(&self) -> bool {
        match &self.requests {
            Requests::Http1(requests) => requests.is_closed(),
            Requests::Http2(requests) => requests.is_closed(),
        }
    }

    /// The connection would take a request now.
    pub fn is_ready(&self) -> bool {
        match &self.requests {
            Requests::Http1(requests) => requests.is_ready(),
            Requests::Http2(requests) => requests.is_ready(),
        }
    }

    /// Another handle of an HTTP/2 connection; `None` for HTTP/1.1, which takes one request at a time.
    pub(crate) fn share(&self) -> Option<Self> {
        match &self.requests {
            Requests::Http1(_) => None,
            Requests::Http2(requests) => Some(Self {
                requests: Requests::Http2(requests.clone()),
                link: Rc::clone(&self.link),
                used: Rc::clone(&self.used),
            }),
        }
    }

    /// Hands one request to the connection at once, and waits for the head of its response.
    ///
    /// The request goes to where it is sent from before this returns, so that it is not moved along with
    /// the future.
    pub(crate) fn send(
        &mut self,
        mut request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, SendError>> + use<> {
        let reused = self.used.replace(true);
        let read_before = self.link.bytes_read.get();
        self.link
            .wants_upgrade
            .set(request.headers().contains_key(UPGRADE));
        let sent = match &mut self.requests {
            Requests::Http1(requests) => {
                frame_body(&mut request);
                Box::pin(requests.try_send_request(request)) as Sent
            }
            Requests::Http2(requests) => Box::pin(requests.try_send_request(request)),
        };
        let link = Rc::clone(&self.link);
        async move {
            let answered = sent.await;
            let silent = link.bytes_read.get() == read_before;
            answered.map_err(|error| classify(error, reused && silent))
        }
    }

    /// Waits for the connection itself, after a `101 Switching Protocols`.
    pub(crate) async fn tunnel(&mut self) -> Result<Tunnel, SendError> {
        poll_fn(|cx| self.link.poll_tunnel(cx))
            .await
            .ok_or(SendError::Failed(Fault::Switched))
    }

    pub(crate) fn wants_upgrade(&self) -> bool {
        self.link.wants_upgrade.get()
    }
}

/// A request on its way. On the heap, because it has room for the whole request, should that come back.
type Sent = Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>>>>;

/// Says that the body comes in chunks when its length is unknown. hyper would do so by itself, but
/// for GET and HEAD, whose bodies it would drop.
fn frame_body(request: &mut Request<Body>) {
    if !request.body().is_empty() && request.body().exact_length().is_none() {
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, chunked);
    }
}

fn classify(mut error: TrySendError<Request<Body>>, stale: bool) -> SendError {
    if let Some(request) = error.take_message() {
        return SendError::Unsent(Box::new(request));
    }
    let error = error.into_error();
    if error.is_parse() {
        return SendError::Failed(Fault::Malformed(error));
    }
    if error.is_user() {
        if let Some(limit) = body_limit(&error) {
            return SendError::RequestBody(BodyError::TooLarge(limit));
        }
        return SendError::RequestBody(BodyError::Source(error));
    }
    if stale {
        return SendError::Stale;
    }
    SendError::Failed(Fault::Closed(error))
}

fn body_limit(error: &hyper::Error) -> Option<u64> {
    match std::error::Error::source(error)?.downcast_ref::<BodyError>()? {
        BodyError::TooLarge(limit) => Some(*limit),
        BodyError::Source(_) => None,
    }
}

/// Drives a connection; must be spawned on the worker's `LocalSet`. Ends with the connection.
pub type Driver = Pin<Box<dyn Future<Output = ()>>>;

/// Begins HTTP on a fresh connection to a backend.
///
/// # Errors
/// HTTP/2 only: when its preface cannot be sent.
pub async fn handshake<IO>(
    io: IO,
    protocol: Protocol,
    limits: &ClientLimits,
) -> Result<(Sender, Driver), hyper::Error>
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let link = Rc::new(Link::default());
    let io = TokioIo::new(Counted {
        io,
        link: Rc::clone(&link),
    });
    let (requests, driver): (_, Driver) = match protocol {
        Protocol::Http1 => {
            let (requests, connection) = http1_settings(limits).handshake(io).await?;
            (
                Requests::Http1(requests),
                Box::pin(drive_http1(connection, Rc::clone(&link))),
            )
        }
        Protocol::Http2 => {
            let (requests, connection) = http2_settings(limits).handshake(io).await?;
            let driver = async move {
                // The same error reaches each request that was underway.
                let _ = connection.await;
            };
            (Requests::Http2(requests), Box::pin(driver))
        }
    };
    Ok((
        Sender {
            requests,
            link,
            used: Rc::new(Cell::new(false)),
        },
        driver,
    ))
}

fn http1_settings(limits: &ClientLimits) -> http1::Builder {
    let mut settings = http1::Builder::new();
    settings.max_buf_size(limits.header_bytes.max(8 * 1024));
    settings.max_header_size(limits.header_bytes);
    if limits.header_count != 100 {
        settings.max_headers(limits.header_count);
    }
    settings
}

fn http2_settings(limits: &ClientLimits) -> http2::Builder<LocalExecutor> {
    let mut settings = http2::Builder::new(LocalExecutor);
    settings
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(64 * 1024);
    settings
}

async fn drive_http1<IO>(
    mut connection: http1::Connection<TokioIo<Counted<IO>>, Body>,
    link: Rc<Link>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let ended = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if ended.is_err() {
        link.over(None);
        return;
    }
    let parts = connection.into_parts();
    let mut io = parts.io.into_inner().io;
    if link.wants_upgrade.get() && Rc::strong_count(&link) > 1 {
        let io: Box<dyn Duplex> = Box::new(io);
        link.over(Some(Tunnel {
            io,
            said: parts.read_buf,
        }));
        return;
    }
    link.over(None);
    // The backend closed, or nobody wants the connection any more: either way it is over.
    let _ = io.shutdown().await;
}

/// A stream that counts what comes in, so that a backend that never said a word is told from one
/// that broke off in the middle.
struct Counted<IO> {
    io: IO,
    link: Rc<Link>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Counted<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let taken = (buf.filled().len() - before) as u64;
        self.link
            .bytes_read
            .set(self.link.bytes_read.get().wrapping_add(taken));
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Counted<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Whether a response says that the connection changes its protocol.
pub(crate) fn switches<T>(response: &Response<T>) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
}
