//! The console's address: a small HTTP server on the parent's thread, read-only.

use std::io;
use std::net::{SocketAddr, TcpListener};

use tokio::sync::{mpsc, oneshot};
use tollgate_http::{Body, HeaderValue, Request, Response, StatusCode};
use tollgate_meter::Snapshot;

use crate::serve::demo;

/// The listening console.
#[derive(Debug)]
pub struct Console {
    /// Address in the configuration.
    pub configured: SocketAddr,
    /// Address that it is bound to.
    pub address: SocketAddr,
    /// A second handle on the socket, to hand on.
    pub socket: TcpListener,
    questions: mpsc::Receiver<Question>,
    server: tokio::task::JoinHandle<()>,
}

/// A request that wants a snapshot.
#[derive(Debug)]
pub struct Question {
    reply: oneshot::Sender<Snapshot>,
}

impl Question {
    /// Hands over the snapshot.
    pub fn answer(self, snapshot: Snapshot) {
        // The one who asked may have left.
        let _ = self.reply.send(snapshot);
    }
}

/// Why there is no console.
#[derive(Debug, thiserror::Error)]
#[error(
    "console {address}: {error}; choose another address with console:, or turn it off with console: off"
)]
pub struct ConsoleError {
    address: SocketAddr,
    error: io::Error,
}

impl Console {
    /// Listens and answers, by snapshots that `asked` lets through.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(
        configured: SocketAddr,
        inherited: Option<TcpListener>,
    ) -> Result<Self, ConsoleError> {
        let failed = |error| ConsoleError {
            address: configured,
            error,
        };
        let socket = match inherited {
            Some(socket) => socket,
            None => TcpListener::bind(configured).map_err(failed)?,
        };
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(socket.try_clone().map_err(failed)?)
            .map_err(failed)?;
        let (ask, questions) = mpsc::channel(16);
        let server =
            tokio::task::spawn_local(tollgate_http::serve_simple(listener, move |request| {
                respond(request, ask.clone())
            }));
        Ok(Self {
            configured,
            address,
            socket,
            questions,
            server,
        })
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Waits for a request that wants a snapshot; for ever where there is no console.
pub async fn asked(console: &mut Option<Console>) -> Question {
    if let Some(console) = console
        && let Some(question) = console.questions.recv().await
    {
        return question;
    }
    std::future::pending().await
}

async fn respond(request: Request<Body>, ask: mpsc::Sender<Question>) -> Response<Body> {
    let (reply, answer) = oneshot::channel();
    let busy = || {
        tollgate_http::plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the process is starting or ending; ask again\n",
        )
    };
    if ask.send(Question { reply }).await.is_err() {
        return busy();
    }
    let Ok(snapshot) = answer.await else {
        return busy();
    };
    let answer =
        tollgate_console::routes(request.uri().path(), field(&request, "accept"), &snapshot);
    made(answer.status, answer.content_type, answer.body)
}

fn field<'a>(request: &'a Request<Body>, name: &str) -> &'a str {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
}

fn made(status: u16, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = response.headers_mut();
    fields.insert("content-type", HeaderValue::from_static(content_type));
    fields.insert("cache-control", HeaderValue::from_static("no-store"));
    response
}

/// Starts the demo's small backend on a free port of loopback.
///
/// # Errors
/// When there is no port.
pub async fn demo_backend() -> io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::task::spawn_local(tollgate_http::serve_simple(
        listener,
        async |request: Request<Body>| {
            let wants_html = field(&request, "accept").contains("text/html");
            let client = match field(&request, "x-forwarded-for") {
                "" => "a client of the tcp port",
                address => address,
            };
            let (body, content_type) = demo::answer(wants_html, request.uri().path(), client);
            made(200, content_type, body)
        },
    ));
    Ok(address)
}
