//! A small HTTP/1.1 server for consoles and demonstrations, bounded and patient with nobody, and the small
//! client that asks such a server.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

use crate::body::{Body, BodyError};
use crate::client::{ClientLimits, Driver, SendError, Sender, handshake};
use crate::page;
use crate::server::{Ended, Protocol, ServerLimits, serve};
use crate::watch::ConnectionWatch;

/// Connections open at a time; more wait in the listener's queue.
const CONNECTIONS: usize = 256;
/// How long a connection may do nothing, a head may take, or a reader may stand still.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to leave a listener alone that cannot accept, such as without file descriptors.
const RECOVERY: Duration = Duration::from_millis(200);

/// Serves plaintext HTTP/1.1 on `listener` for as long as the future is polled. GET and HEAD only;
/// request bodies over 1 KiB are refused. Must run on a `LocalSet`; dropping it ends all
/// connections that are idle within ten seconds.
pub async fn serve_simple<H, F>(listener: TcpListener, handler: H)
where
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    serve_simple_over(listener, async |stream| Some(stream), handler).await;
}

/// The same over whatever `open` makes of an accepted connection, such as TLS; it has ten seconds for that,
/// and `None` ends the connection.
pub async fn serve_simple_over<O, IO, H, F>(listener: TcpListener, open: O, handler: H)
where
    O: AsyncFn(TcpStream) -> Option<IO> + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    let open = Rc::new(open);
    let handler = Rc::new(handler);
    let taken = Rc::new(Cell::new(0_usize));
    loop {
        if taken.get() >= CONNECTIONS {
            tokio::time::sleep(RECOVERY).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = Place::take(&taken);
                let (open, handler) = (Rc::clone(&open), Rc::clone(&handler));
                tokio::task::spawn_local(async move {
                    // Without it small answers wait for acknowledgements; a socket that refuses it still works.
                    let _ = stream.set_nodelay(true);
                    if let Ok(Some(io)) = tokio::time::timeout(PATIENCE, open(stream)).await {
                        attend(io, handler, place).await;
                    }
                });
            }
            Err(_) => tokio::time::sleep(RECOVERY).await,
        }
    }
}

/// One of the connections that are allowed.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn take(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

async fn attend<IO, H, F>(stream: IO, handler: Rc<H>, _place: Place)
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    let limits = ServerLimits {
        body_bytes: 1024,
        ..ServerLimits::default()
    };
    let watch = ConnectionWatch::new();
    let answer = move |request: Request<Body>| {
        let handler = Rc::clone(&handler);
        async move {
            match *request.method() {
                Method::GET | Method::HEAD => handler(request).await,
                _ => not_allowed(),
            }
        }
    };
    let serving = serve(
        stream,
        Protocol::Http1,
        &limits,
        &watch,
        std::future::pending(),
        answer,
    );
    end_when_silent(serving, &watch).await;
}

fn not_allowed() -> Response<Body> {
    let mut response = page::plain(
        StatusCode::METHOD_NOT_ALLOWED,
        "only GET and HEAD are served here\n",
    );
    let fields = response.headers_mut();
    fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// Waits for the end of a connection, or gives it up after a whole period without a byte either way.
async fn end_when_silent<IO>(serving: impl Future<Output = Ended<IO>>, watch: &ConnectionWatch) {
    let mut serving = pin!(serving);
    let mut ticks = interval(PATIENCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut before = (0, 0);
    loop {
        tokio::select! {
            _ = &mut serving => return,
            _ = ticks.tick() => {
                let now = (watch.bytes_in(), watch.bytes_out());
                if now == before && watch.awaiting_backend() == 0 {
                    return;
                }
                before = now;
            }
        }
    }
}

/// One kept HTTP/1.1 connection to a console, one question at a time.
#[derive(Debug)]
pub struct Asker {
    sender: Sender,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum AskError {
    /// The connection could not carry the question, or broke off before the answer's head.
    Send(SendError),
    /// The answer broke off, or is longer than it may be.
    Body(BodyError),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AskError {}

impl Asker {
    /// Begins HTTP/1.1 on a fresh connection; the driver must be spawned on a `LocalSet`.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub async fn over<IO>(io: IO) -> Result<(Self, Driver), hyper::Error>
    where
        IO: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (sender, driver) = handshake(io, Protocol::Http1, &ClientLimits::default()).await?;
        Ok((Self { sender }, driver))
    }

    /// Whether the connection takes another question.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Asks, and reads the whole answer, of at most `most` bytes.
    ///
    /// # Errors
    /// When the connection breaks off or the answer is too long.
    pub async fn ask(
        &mut self,
        request: Request<Body>,
        most: usize,
    ) -> Result<Response<Bytes>, AskError> {
        let answer = self.sender.send(request).await.map_err(AskError::Send)?;
        let (head, incoming) = answer.into_parts();
        let body = Body::from_client(incoming, None, 0);
        let bytes = body.collect(most).await.map_err(AskError::Body)?;
        Ok(Response::from_parts(head, bytes))
    }
}
