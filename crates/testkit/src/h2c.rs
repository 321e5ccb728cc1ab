//! An HTTP/2 backend with prior knowledge.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::oneshot;

use crate::http1::{pairs, text};

/// A running h2c backend; stops when dropped.
pub struct H2cBackend {
    address: String,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
}

impl H2cBackend {
    /// `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// Most requests that were open at the same time: more than connections only when multiplexed.
    pub fn most_open(&self) -> u64 {
        self.counts.most_open.load(Ordering::SeqCst)
    }
}

impl Drop for H2cBackend {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts an HTTP/2 backend called `name` on a free port.
///
/// `/slow/MS` answers late, `/trailers` ends with a trailer, anything else is described as JSON.
pub fn h2c_backend(name: &str) -> H2cBackend {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.set_nonblocking(true).expect("non-blocking");
    let address = listener.local_addr().expect("its address").to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let counts = Arc::new(Counts::default());
    let thread = std::thread::spawn({
        let (counts, name) = (counts.clone(), Arc::<str>::from(name));
        move || run(listener, stopped, &counts, &name)
    });
    H2cBackend {
        address,
        counts,
        stop: Some(stop),
        thread: Some(thread),
    }
}

fn run(
    listener: std::net::TcpListener,
    stopped: oneshot::Receiver<()>,
    counts: &Arc<Counts>,
    name: &Arc<str>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let accept = async {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                counts.connections.fetch_add(1, Ordering::SeqCst);
                let (counts, name) = (counts.clone(), name.clone());
                tokio::spawn(async move {
                    let service =
                        service_fn(move |request| answer(request, counts.clone(), name.clone()));
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
}

type Answer = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

async fn answer(
    request: Request<Incoming>,
    counts: Arc<Counts>,
    name: Arc<str>,
) -> Result<Answer, hyper::Error> {
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let open = counts.open.fetch_add(1, Ordering::SeqCst) + 1;
    counts.most_open.fetch_max(open, Ordering::SeqCst);
    let result = describe(request, &name).await;
    counts.open.fetch_sub(1, Ordering::SeqCst);
    result
}

fn fields(map: &hyper::HeaderMap) -> Vec<(String, String)> {
    map.iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        })
        .collect()
}

async fn describe(request: Request<Incoming>, name: &str) -> Result<Answer, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().map(fields).unwrap_or_default();
    let body = body.to_bytes();
    let path = head.uri.path();
    if let Some(pause) = path.strip_prefix("/slow/") {
        let pause = pause.parse().unwrap_or(0);
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
    }
    if path == "/trailers" {
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("x-sum", hyper::header::HeaderValue::from_static("4"));
        let frames =
            Full::new(Bytes::from_static(b"body")).with_trailers(async move { Some(Ok(trailers)) });
        return Ok(Response::new(frames.boxed()));
    }
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    let json = format!(
        "{{\"backend\":{},\"method\":{},\"target\":{},\"authority\":{},\"scheme\":{},\"version\":{},\"headers\":{},\"body\":{},\"body_bytes\":{},\"body_sum\":{sum},\"trailers\":{}}}",
        text(name),
        text(head.method.as_str()),
        text(path),
        text(
            head.uri
                .authority()
                .map_or("", |authority| authority.as_str())
        ),
        text(head.uri.scheme_str().unwrap_or("")),
        text(&format!("{:?}", head.version)),
        pairs(&fields(&head.headers)),
        text(&String::from_utf8_lossy(&body[..body.len().min(65_536)])),
        body.len(),
        pairs(&trailers),
    );
    let full = Full::new(Bytes::from(json)).map_frame(|frame: Frame<Bytes>| frame);
    Ok(Response::new(full.boxed()))
}
