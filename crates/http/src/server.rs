//! The server role: one client connection from its first request to its end.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::body::{Body, BodyError};
use crate::local::LocalExecutor;
use crate::page;
use crate::upgrade::{Duplex, Tunnel, Tunnelled, bridge};
use crate::watch::{Ask, ConnectionWatch, Flight, Upload, UploadState};
use crate::watched::Watched;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0 of those that still speak it.
    Http1,
    /// HTTP/2, by ALPN or prior knowledge.
    Http2,
}

/// Everything that a client can make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of one request head; more is answered with 431. Default 32 768.
    pub header_bytes: usize,
    /// Fields of one request head; more is answered with 431. Default 100.
    pub header_count: usize,
    /// HTTP/2 streams open at a time. Default 128.
    pub http2_streams: u32,
    /// HTTP/2 streams that a client may reset before they are answered; one more ends the
    /// connection with ENHANCE_YOUR_CALM. Default 20.
    pub http2_resets: usize,
    /// Bytes of one request body; more is answered with 413. Default 0: no limit.
    pub body_bytes: u64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            header_bytes: 32 * 1024,
            header_count: 100,
            http2_streams: 128,
            http2_resets: 20,
            body_bytes: 0,
        }
    }
}

/// What became of a connection.
#[derive(Debug)]
pub enum Ended<IO> {
    /// It is open and idle, its buffers are gone: wait until it can be read, then serve it again.
    Idle(IO),
    /// It is over.
    Closed(Closed),
}

/// Why a connection is over.
#[derive(Debug)]
pub enum Closed {
    /// Either side ended it in good order.
    Complete,
    /// The caller's [`ConnectionWatch::expire`] ended it.
    Expired,
    /// The client sent what is no HTTP, or a head beyond the limits, and was told so.
    Malformed(hyper::Error),
    /// A response was cut short because its source broke off; the client can tell.
    Truncated(hyper::Error),
    /// The client broke off in the middle, or broke the rules of HTTP/2.
    Broken(hyper::Error),
    /// It became a tunnel, which is over too.
    Tunnelled(std::io::Result<Tunnelled>),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("closed in good order"),
            Self::Expired => f.write_str("the client took too long"),
            Self::Malformed(error) => {
                write!(f, "the client sent a request that cannot be read: {error}")
            }
            Self::Truncated(error) => write!(f, "the response was cut short: {error}"),
            Self::Broken(error) => write!(f, "the client broke off: {error}"),
            Self::Tunnelled(Ok(_)) => f.write_str("closed after a switch of protocols"),
            Self::Tunnelled(Err(error)) => {
                write!(f, "broken off after a switch of protocols: {error}")
            }
        }
    }
}

/// Bytes that are read and thrown away after a connection was ended early, so that the answer is
/// not lost in a reset.
const LINGER_BYTES: u64 = 256 * 1024;
/// How long that may take.
const LINGER: Duration = Duration::from_secs(2);

/// Serves one client connection until it is idle (HTTP/1.1, on request) or over.
///
/// `handler` is called for each request and makes its response. When `stop` resolves the connection drains:
/// running requests end, the last HTTP/1.1 response says `Connection: close`, HTTP/2 says GOAWAY.
/// No clock is read here: `watch` shows the caller's sweep what is awaited, and takes its wishes.
/// Dropping the future ends the connection at once. Must run on a `LocalSet`.
pub fn serve<IO, H, F>(
    io: IO,
    protocol: Protocol,
    limits: &ServerLimits,
    watch: &Rc<ConnectionWatch>,
    stop: impl Future<Output = ()> + 'static,
    handler: H,
) -> Pin<Box<dyn Future<Output = Ended<IO>>>>
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    let desk = Rc::new(Desk {
        handler,
        watch: Rc::clone(watch),
        limits: *limits,
        tunnel: RefCell::new(None),
    });
    match protocol {
        Protocol::Http1 => Box::pin(http1(io, desk, stop)),
        Protocol::Http2 => Box::pin(async move { Ended::Closed(http2(io, desk, stop).await) }),
    }
}

/// What the requests of one connection have in common.
struct Desk<H> {
    handler: H,
    watch: Rc<ConnectionWatch>,
    limits: ServerLimits,
    tunnel: RefCell<Option<Switched>>,
}

impl<H, F> Desk<H>
where
    H: Fn(Request<Body>) -> F,
    F: Future<Output = Response<Body>>,
{
    async fn answer(self: Rc<Self>, request: Request<Incoming>) -> Response<Served> {
        let mut flight = Flight::begin(&self.watch);
        let upgradable = request.version() == Version::HTTP_11;
        let mut uploading: Option<Rc<UploadState>> = None;
        let mut response = match self.over_limit(&request) {
            Some(refusal) => {
                self.watch.set_cut_off();
                refusal
            }
            None => {
                let (parts, incoming) = request.into_parts();
                let upload = (!incoming.is_end_stream())
                    .then(|| Upload::begin(&self.watch, uploading.insert(Rc::default())));
                let body = Body::from_client(incoming, upload, self.limits.body_bytes);
                (self.handler)(Request::from_parts(parts, body)).await
            }
        };
        if let Some(uploading) = uploading {
            uploading.begin(&self.watch);
        }
        if let Some(tunnel) = response.body_mut().take_tunnel()
            && upgradable
            && response.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            flight.awaits_backend(true);
            return response.map(|account| {
                *self.tunnel.borrow_mut() = Some(Switched {
                    tunnel,
                    flight,
                    account,
                });
                Served {
                    body: Body::empty(),
                    flight: None,
                }
            });
        }
        if response.status().is_informational() {
            response = page::plain(
                StatusCode::BAD_GATEWAY,
                "the backend switched protocols unasked\n",
            );
        }
        flight.awaits_backend(false);
        response.map(|body| Served {
            body,
            flight: Some(flight),
        })
    }

    fn over_limit(&self, request: &Request<Incoming>) -> Option<Response<Body>> {
        if request.headers().len() > self.limits.header_count {
            let sentence = "the request has too many header fields\n";
            return Some(page::plain(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                sentence,
            ));
        }
        if self.limits.body_bytes > 0 && request.headers().contains_key(CONTENT_LENGTH) {
            let length = request.body().size_hint().exact().unwrap_or(0);
            if length > self.limits.body_bytes {
                return Some(page::plain(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the request body is too large\n",
                ));
            }
        }
        None
    }
}

/// A response that makes the connection a tunnel.
struct Switched {
    tunnel: Tunnel,
    flight: Flight,
    /// The response's body, empty; its observer hears of the tunnel's bytes and end.
    account: Body,
}

/// A response body on its way to the client.
struct Served {
    body: Body,
    flight: Option<Flight>,
}

impl HttpBody for Served {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Some(flight) = &mut this.flight {
            flight.awaits_backend(frame.is_pending());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What made the loop of an HTTP/1.1 connection stop.
enum Turn {
    Finished(Result<(), hyper::Error>),
    Park,
    Expire,
}

async fn http1<IO, H, F>(io: IO, desk: Rc<Desk<H>>, stop: impl Future<Output = ()>) -> Ended<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    let mut stop = pin!(stop);
    let watch = Rc::clone(&desk.watch);
    let settings = http1_settings(&desk.limits);
    let mut io = Watched::new(io, Rc::clone(&watch), true);
    let mut stopped = false;
    loop {
        let service = service_fn(|request| {
            let desk = Rc::clone(&desk);
            async move { Ok::<_, Infallible>(desk.answer(request).await) }
        });
        let mut connection = settings.serve_connection(TokioIo::new(io), service);
        if stopped {
            Pin::new(&mut connection).graceful_shutdown();
        }
        let turn = poll_fn(|cx| {
            if !stopped && stop.as_mut().poll(cx).is_ready() {
                stopped = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(cx) {
                return Poll::Ready(Turn::Finished(result));
            }
            watch.register(cx);
            match watch.take_ask() {
                Ask::Park if watch.is_idle() && !stopped => Poll::Ready(Turn::Park),
                Ask::Expire if watch.is_between_requests() => Poll::Ready(Turn::Expire),
                Ask::Nothing | Ask::Park | Ask::Expire => Poll::Pending,
            }
        })
        .await;
        let cut_off = watch.is_cut_off();
        let parts = connection.into_parts();
        let watched = parts.io.into_inner();
        match turn {
            Turn::Park if parts.read_buf.is_empty() => return Ended::Idle(watched.into_inner()),
            Turn::Park => {
                // The beginning of a head came together with the request before it.
                watch.set_head_underway();
                io = watched.with_ahead(parts.read_buf);
            }
            Turn::Expire => return Ended::Closed(expire(watched.own(), &watch).await),
            Turn::Finished(result) => {
                let tunnel = desk.tunnel.take();
                return Ended::Closed(
                    finish(watched.own(), &parts.read_buf, result, tunnel, cut_off).await,
                );
            }
        }
    }
}

fn http1_settings(limits: &ServerLimits) -> http1::Builder {
    let mut settings = http1::Builder::new();
    settings
        .half_close(true)
        .max_buf_size(limits.header_bytes.max(8 * 1024))
        .max_header_size(limits.header_bytes)
        .header_read_timeout(None);
    if limits.header_count != 100 {
        settings.max_headers(limits.header_count);
    }
    settings
}

async fn finish<IO: AsyncRead + AsyncWrite + Unpin>(
    mut io: Watched<IO>,
    said: &[u8],
    result: Result<(), hyper::Error>,
    switched: Option<Switched>,
    cut_off: bool,
) -> Closed {
    match (result, switched) {
        (Ok(()), Some(switched)) => Closed::Tunnelled(switched.join(&mut io, said).await),
        (Ok(()), None) => {
            close(&mut io, cut_off || !said.is_empty()).await;
            Closed::Complete
        }
        (Err(error), _) if error.is_parse() => {
            close(&mut io, true).await;
            Closed::Malformed(error)
        }
        // Without an orderly end of the stream, so that a cut response cannot pass for a whole one.
        (Err(error), _) if error.is_user() => Closed::Truncated(error),
        (Err(error), _) => Closed::Broken(error),
    }
}

impl Switched {
    async fn join<IO: Duplex>(mut self, io: &mut IO, said: &[u8]) -> std::io::Result<Tunnelled> {
        self.flight.set_tunnel(true);
        let tunnelled = bridge(io, said, &mut *self.tunnel.io, &self.tunnel.said).await;
        self.flight.set_tunnel(false);
        match &tunnelled {
            Ok(bytes) => self.account.tunnelled(bytes.to_client),
            Err(_) => self.account.broke_off(),
        }
        tunnelled
    }
}

/// Ends the stream; when the client may still be sending, reads on for a while, since closing a
/// socket with unread bytes would reset it and take our answer along.
async fn close<IO: AsyncRead + AsyncWrite + Unpin>(io: &mut Watched<IO>, linger: bool) {
    // A client that is gone already cannot be told; either way the connection is over.
    if io.shutdown().await.is_err() || !linger {
        return;
    }
    let mut unread = io.take(LINGER_BYTES);
    let mut scratch = [0; 1024];
    let drained = async { while matches!(unread.read(&mut scratch).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(LINGER, drained).await;
}

async fn expire<IO: AsyncRead + AsyncWrite + Unpin>(
    mut io: Watched<IO>,
    watch: &ConnectionWatch,
) -> Closed {
    let underway = watch.head_underway();
    poll_fn(|cx| {
        // One try without waiting: whoever is late does not get to keep us waiting once more.
        if underway
            && Pin::new(&mut io)
                .poll_write(cx, page::TIMEOUT_BYTES)
                .is_ready()
        {
            let _ = Pin::new(&mut io).poll_flush(cx);
        }
        let _ = Pin::new(&mut io).poll_shutdown(cx);
        Poll::Ready(())
    })
    .await;
    Closed::Expired
}

async fn http2<IO, H, F>(io: IO, desk: Rc<Desk<H>>, stop: impl Future<Output = ()>) -> Closed
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    let mut stop = pin!(stop);
    let watch = Rc::clone(&desk.watch);
    watch.set_multiplexed();
    let io = Watched::new(io, Rc::clone(&watch), false);
    let service = service_fn(|request| {
        let desk = Rc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    let connection = http2_settings(&desk.limits).serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let draining = Cell::new(false);
    let expired = Cell::new(false);
    let result = poll_fn(|cx| {
        if !draining.get() && stop.as_mut().poll(cx).is_ready() {
            draining.set(true);
            connection.as_mut().graceful_shutdown();
        }
        watch.register(cx);
        if watch.take_ask() == Ask::Expire && !draining.replace(true) {
            expired.set(true);
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await;
    match result {
        Ok(()) if expired.get() => Closed::Expired,
        Ok(()) => Closed::Complete,
        Err(error) => Closed::Broken(error),
    }
}

fn http2_settings(limits: &ServerLimits) -> http2::Builder<LocalExecutor> {
    let mut settings = http2::Builder::new(LocalExecutor);
    settings
        .max_concurrent_streams(limits.http2_streams)
        .max_pending_accept_reset_streams(limits.http2_resets)
        .max_local_error_reset_streams(limits.http2_resets.max(1) * 4)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(None);
    settings
}
