//! A proxy in memory: the doors of the room joined as the caller joins them, a client end and
//! backend ends as byte streams.
#![allow(dead_code, reason = "each test file uses its own share")]

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tollgate_http::{
    BadGateway, Body, BodyError, BodyObserver, Checkout, ClientFacts, ClientLimits,
    ConnectionWatch, Ended, ForwardContext, ForwardedHeaders, Identity, Pool, Protocol, Request,
    Response, SendError, ServerLimits, StatusCode, forward_request, forward_response, handshake,
    plain, request, serve,
};

pub type Backends = mpsc::UnboundedReceiver<DuplexStream>;

/// Everything about the proxy that a test may want to be otherwise.
pub struct Setup {
    pub client: Protocol,
    pub backend: Protocol,
    pub limits: ServerLimits,
    pub trusted: bool,
    pub headers: ForwardedHeaders,
    /// Bytes that may be on their way in each stream.
    pub room: usize,
    pub max_idle: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            client: Protocol::Http1,
            backend: Protocol::Http1,
            limits: ServerLimits::default(),
            trusted: false,
            headers: ForwardedHeaders::XForwarded,
            room: 64 * 1024,
            max_idle: 8,
        }
    }
}

pub struct Proxy {
    pub client: DuplexStream,
    pub backends: Backends,
    pub watch: Rc<ConnectionWatch>,
    pub pool: Rc<Pool>,
    pub serving: JoinHandle<Ended<DuplexStream>>,
    pub stop: oneshot::Sender<()>,
    pub relay: Rc<Relay>,
}

pub struct Relay {
    facts: ClientFacts,
    backend: Protocol,
    pool: Rc<Pool>,
    connect: mpsc::UnboundedSender<DuplexStream>,
    room: usize,
    max_idle: usize,
    pub connected: Cell<usize>,
    pub failures: RefCell<Vec<String>>,
    /// Hears of the next response.
    pub observer: RefCell<Option<Rc<dyn BodyObserver>>>,
}

impl Setup {
    pub fn start(self) -> Proxy {
        let (connect, backends) = mpsc::unbounded_channel();
        let pool = Pool::new();
        let relay = Rc::new(Relay {
            facts: ClientFacts::new(
                Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))),
                8443,
                self.headers,
                self.trusted,
                Identity::NotAsked,
            ),
            backend: self.backend,
            pool: Rc::clone(&pool),
            connect,
            room: self.room,
            max_idle: self.max_idle,
            connected: Cell::new(0),
            failures: RefCell::default(),
            observer: RefCell::default(),
        });
        let watch = ConnectionWatch::new();
        let (client, near) = duplex(self.room);
        let (stop, stopped) = oneshot::channel();
        let handler = Rc::clone(&relay);
        let serving = serve(
            near,
            self.client,
            &self.limits,
            &watch,
            async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            },
            move |request| {
                let relay = Rc::clone(&handler);
                async move { relay.forward(request).await }
            },
        );
        let serving = spawn_local(serving);
        Proxy {
            client,
            backends,
            watch,
            pool,
            serving,
            stop,
            relay,
        }
    }
}

impl Proxy {
    /// The backend's end of the next connection to it, whose first request is read to the end of its head.
    pub async fn backend(&mut self) -> DuplexStream {
        let mut backend = self.backends.recv().await.unwrap();
        read_head(&mut backend).await;
        backend
    }

    /// The same once the client has sent `request`.
    pub async fn backend_asked(&mut self, request: &str) -> DuplexStream {
        send(&mut self.client, request).await;
        self.backend().await
    }
}

impl Relay {
    pub async fn forward(&self, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let method = head.method.clone();
        let context = ForwardContext {
            client: &self.facts,
            backend: self.backend,
            default_host: None,
        };
        let forwarded = match forward_request(&mut head, &context) {
            Ok(forwarded) => forwarded,
            Err(refusal) => return refusal.response(),
        };
        let spare = (forwarded.repeatable && body.is_empty()).then(|| head.clone());
        match self.send(Request::from_parts(head, body), spare).await {
            Ok(response) => {
                let (mut head, mut body) = response.into_parts();
                if let Some(observer) = self.observer.take() {
                    body.observe(observer);
                }
                match forward_response(&mut head, &method) {
                    Ok(()) => Response::from_parts(head, body),
                    Err(refusal) => self.fail(&refusal),
                }
            }
            Err(SendError::RequestBody(BodyError::TooLarge(_))) => plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request body is too large\n",
            ),
            Err(SendError::RequestBody(BodyError::Source(_))) => {
                plain(StatusCode::BAD_REQUEST, "the request body cannot be read\n")
            }
            Err(error) => {
                self.failures.borrow_mut().push(error.to_string());
                plain(StatusCode::BAD_GATEWAY, "the backend gave no answer\n")
            }
        }
    }

    fn fail(&self, refusal: &BadGateway) -> Response<Body> {
        self.failures.borrow_mut().push(refusal.to_string());
        plain(
            StatusCode::BAD_GATEWAY,
            "the backend's answer cannot be passed on\n",
        )
    }

    async fn send(
        &self,
        mut request: Request<Body>,
        spare: Option<request::Parts>,
    ) -> Result<Response<Body>, SendError> {
        loop {
            let lease = match self.pool.checkout(1, self.backend, self.max_idle) {
                Checkout::Ready(lease) => lease,
                Checkout::Connect => {
                    let (near, far) = duplex(self.room);
                    self.connected.set(self.connected.get() + 1);
                    self.connect.send(far).unwrap();
                    let (sender, driver) = handshake(near, self.backend, &ClientLimits::default())
                        .await
                        .unwrap();
                    spawn_local(driver);
                    self.pool.adopt(1, sender, self.max_idle)
                }
            };
            match (lease.send(request).await, &spare) {
                (Err(SendError::Unsent(back)), _) => request = *back,
                (Err(SendError::Stale), Some(head)) => {
                    request = Request::from_parts(head.clone(), Body::empty());
                }
                (result, _) => return result,
            }
        }
    }
}

/// Runs a test on a `LocalSet`, bounded in time.
pub async fn locally<T>(test: impl Future<Output = T>) -> T {
    let bounded = tokio::time::timeout(std::time::Duration::from_secs(20), test);
    LocalSet::new()
        .run_until(bounded)
        .await
        .expect("the test got stuck")
}

/// Reads until `end` has been seen, and returns all of it as text.
pub async fn read_to(stream: &mut DuplexStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap() == 0 {
            panic!("ended before {end:?}: {:?}", String::from_utf8_lossy(&seen));
        }
        seen.push(byte[0]);
    }
    String::from_utf8(seen).unwrap()
}

pub async fn read_head(stream: &mut DuplexStream) -> String {
    read_to(stream, "\r\n\r\n").await
}

pub async fn read_all(stream: &mut DuplexStream) -> String {
    let mut seen = Vec::new();
    stream.read_to_end(&mut seen).await.unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

pub async fn send(stream: &mut DuplexStream, bytes: &str) {
    stream.write_all(bytes.as_bytes()).await.unwrap();
}

/// Lets every other task run until nothing moves any more.
pub async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// The length of the first whole HTTP/1.1 message in `bytes`.
pub fn message_length(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let head = text.find("\r\n\r\n")? + 4;
    if text[..head].contains("transfer-encoding: chunked") {
        let last = text[head..].find("0\r\n")?;
        let end = text[head + last..].find("\r\n\r\n")? + 4;
        return Some(head + last + end);
    }
    let length = text[..head]
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    (bytes.len() >= head + length).then_some(head + length)
}

/// Answers each request on each backend connection with an empty 200 and records what came.
pub fn answer_all(mut backends: Backends) -> Rc<RefCell<Vec<String>>> {
    let seen: Rc<RefCell<Vec<String>>> = Rc::default();
    let record = Rc::clone(&seen);
    spawn_local(async move {
        while let Some(mut backend) = backends.recv().await {
            let record = Rc::clone(&record);
            spawn_local(async move {
                let mut bytes = Vec::new();
                loop {
                    while let Some(length) = message_length(&bytes) {
                        let message: Vec<u8> = bytes.drain(..length).collect();
                        record
                            .borrow_mut()
                            .push(String::from_utf8_lossy(&message).into_owned());
                        if backend
                            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                            .await
                            .is_err()
                        {
                            return;
                        }
                    }
                    if !matches!(backend.read_buf(&mut bytes).await, Ok(1..)) {
                        return;
                    }
                }
            });
        }
    });
    seen
}
