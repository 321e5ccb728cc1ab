//! The console's address: a small HTTP server on the parent's thread, read-only.

mod access;
mod events;
mod routes;

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tollgate_edge::ConsoleFiles;
use tollgate_http::{Body, Bytes, Request, Response};
use tollgate_meter::Snapshot;
use tollgate_tls::{Buffers, ServerSite, TlsStream};

use access::{Access, Token};
use events::Watchers;

use super::observer::Observer;

/// The listening console.
pub struct Console {
    /// Address in the configuration.
    pub configured: SocketAddr,
    /// Address that it is bound to.
    pub address: SocketAddr,
    /// A second handle on the socket, to hand on.
    pub socket: TcpListener,
    desk: Rc<Desk>,
    questions: mpsc::Receiver<Question>,
    server: tokio::task::JoinHandle<()>,
}

/// What all requests have in common.
struct Desk {
    /// `None` once the console is gone: its last connections are answered by nobody.
    access: RefCell<Option<Access>>,
    observer: Rc<RefCell<Observer>>,
    watchers: Watchers,
    ask: mpsc::Sender<Question>,
}

/// A request that wants the counts of this very moment.
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
    /// Listens and answers from what `observer` has seen. A socket that was handed in is used when it is
    /// bound to the configured address.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(
        configured: SocketAddr,
        files: ConsoleFiles,
        inherited: Option<TcpListener>,
        observer: &Rc<RefCell<Observer>>,
    ) -> Result<Self, ConsoleError> {
        let failed = |error| ConsoleError {
            address: configured,
            error,
        };
        let socket = match inherited.filter(|socket| is_at(socket, configured)) {
            Some(socket) => socket,
            None => TcpListener::bind(configured).map_err(failed)?,
        };
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(socket.try_clone().map_err(failed)?)
            .map_err(failed)?;
        let (ask, questions) = mpsc::channel(16);
        let desk = Rc::new(Desk {
            access: RefCell::new(None),
            observer: Rc::clone(observer),
            watchers: Watchers::default(),
            ask,
        });
        let server = serve(listener, &desk, files, address);
        Ok(Self {
            configured,
            address,
            socket,
            desk,
            questions,
            server,
        })
    }

    /// Goes on at the same address under other rules; whoever watches has to show that it may.
    ///
    /// # Errors
    /// When the socket cannot be listened on again; the console is as it was then.
    pub fn reconfigure(&mut self, files: ConsoleFiles) -> Result<(), ConsoleError> {
        let token = files.token.as_deref().map(Vec::as_slice);
        let access = self.desk.access.borrow();
        let same = access
            .as_ref()
            .is_some_and(|known| known.is_plain_with(token));
        drop(access);
        if files.tls.is_none() && same {
            return Ok(());
        }
        let failed = |error| ConsoleError {
            address: self.configured,
            error,
        };
        let listener = self.socket.try_clone().map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        self.server.abort();
        self.desk.watchers.dismiss();
        self.server = serve(listener, &self.desk, files, self.address);
        Ok(())
    }

    /// Where a browser finds it.
    pub fn url(&self) -> String {
        let https = self
            .desk
            .access
            .borrow()
            .as_ref()
            .is_some_and(|access| access.https);
        let scheme = if https { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }

    /// Whether visitors must show a token.
    pub fn wants_token(&self) -> bool {
        let access = self.desk.access.borrow();
        access.as_ref().is_some_and(|access| access.token.is_some())
    }

    /// Tells those who watch what was just observed.
    pub fn publish(&self) {
        if self.desk.watchers.are_there() {
            let event = self.desk.live_event();
            self.desk
                .watchers
                .tell(&event.unwrap_or_else(events::keep_alive));
        }
    }

    /// Lets those go who watch, because the process is about to end.
    pub fn dismiss(&self) {
        self.desk.watchers.dismiss();
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.server.abort();
        self.desk.watchers.dismiss();
        self.desk.access.take();
    }
}

impl Desk {
    fn live_event(&self) -> Option<Bytes> {
        let live = self.observer.borrow().live()?;
        let line = serde_json::to_string(&live).ok()?;
        Some(events::event("live", &line))
    }
}

/// Whether a socket that was handed in is what the configuration asks for.
fn is_at(socket: &TcpListener, configured: SocketAddr) -> bool {
    socket.local_addr().is_ok_and(|bound| {
        bound == configured || (configured.port() == 0 && bound.ip() == configured.ip())
    })
}

fn serve(
    listener: tokio::net::TcpListener,
    desk: &Rc<Desk>,
    files: ConsoleFiles,
    address: SocketAddr,
) -> tokio::task::JoinHandle<()> {
    *desk.access.borrow_mut() = Some(Access {
        token: files.token.as_deref().and_then(|token| Token::new(token)),
        https: files.tls.is_some(),
        address,
    });
    let answer = {
        let desk = Rc::clone(desk);
        move |request: Request<Body>| respond(request, Rc::clone(&desk))
    };
    match files.tls {
        None => tokio::task::spawn_local(tollgate_http::serve_simple(listener, answer)),
        Some(site) => {
            let site = Rc::new(site);
            let buffers = Buffers::new();
            let open = async move |stream| shaken(stream, &site, &buffers).await;
            tokio::task::spawn_local(tollgate_http::serve_simple_over(listener, open, answer))
        }
    }
}

/// The stream inside TLS; whoever speaks none, or fails the handshake, is left.
async fn shaken(
    mut stream: TcpStream,
    site: &ServerSite,
    buffers: &Buffers,
) -> Option<TlsStream<TcpStream>> {
    let (hello, raw) = tollgate_tls::read_hello(&mut stream, buffers).await.ok()?;
    let shaken = tollgate_tls::handshake(stream, raw, &hello, site, buffers).await;
    shaken.ok().map(|(stream, ..)| stream)
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

async fn respond(request: Request<Body>, desk: Rc<Desk>) -> Response<Body> {
    let judged = match desk.access.borrow().as_ref() {
        Some(access) => access.judge(&request),
        None => Err(Box::new(routes::unavailable())),
    };
    let mut response = match judged {
        Ok(()) => routes::answer(&request, &desk).await,
        Err(refusal) => *refusal,
    };
    routes::guard(&mut response);
    response
}
