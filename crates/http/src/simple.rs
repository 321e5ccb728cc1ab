//! A small HTTP/1.1 server for consoles and demonstrations: bounded, patient with nobody.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::{Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

use crate::body::Body;
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
    let handler = Rc::new(handler);
    let open = Rc::new(Cell::new(0_usize));
    loop {
        if open.get() >= CONNECTIONS {
            tokio::time::sleep(RECOVERY).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = Place::take(&open);
                tokio::task::spawn_local(attend(stream, Rc::clone(&handler), place));
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

async fn attend<H, F>(stream: TcpStream, handler: Rc<H>, _place: Place)
where
    H: Fn(Request<Body>) -> F + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    // Without it small answers wait for acknowledgements; a socket that refuses it still works.
    let _ = stream.set_nodelay(true);
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
                _ => page::plain(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "only GET and HEAD are served here\n",
                ),
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

/// Waits for the end of a connection, or gives it up after a whole period without a byte either way.
async fn end_when_silent(serving: impl Future<Output = Ended<TcpStream>>, watch: &ConnectionWatch) {
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
