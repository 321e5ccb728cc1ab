//! The account of one request: what it was, how much went each way, how it ended.
//!
//! Written into as the request goes its way; given once, when the response has ended or nobody is
//! left to wait for it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tollgate_http::request::Parts as RequestHead;
use tollgate_http::{BodyObserver, End as BodyEnd, Method, Version};
use tollgate_journal::{End, Event};
use tollgate_meter::Direction;

use crate::connection::Connection;
use crate::lease::Lease;

/// What is known of one request so far.
#[derive(Debug)]
pub struct Account {
    connection: Rc<Connection>,
    began: Instant,
    protocol: &'static str,
    /// Kept only where a line may be written.
    words: Option<Box<Words>>,
    status: Cell<u16>,
    sent: Cell<u64>,
    received: Cell<u64>,
    retries: Cell<u32>,
    backend_us: Cell<Option<u64>>,
    backend: RefCell<Option<Arc<str>>>,
    end: Cell<Option<End>>,
    error: RefCell<Option<Cow<'static, str>>>,
    lease: RefCell<Option<Lease>>,
    uploading: Cell<bool>,
    upload_over: Notify,
}

#[derive(Debug)]
struct Words {
    method: Cow<'static, str>,
    host: Option<Box<[u8]>>,
    path: Box<[u8]>,
}

impl Account {
    /// Opens the account of a request that has just come in.
    pub fn open(connection: &Rc<Connection>, head: &RequestHead) -> Rc<Self> {
        let logged = connection.worker.has_log();
        connection.weighed();
        Rc::new(Self {
            connection: Rc::clone(connection),
            began: Instant::now(),
            protocol: protocol_name(head.version),
            words: logged.then(|| Box::new(Words::of(head))),
            status: Cell::new(0),
            sent: Cell::new(0),
            received: Cell::new(0),
            retries: Cell::new(0),
            backend_us: Cell::new(None),
            backend: RefCell::new(None),
            end: Cell::new(None),
            error: RefCell::new(None),
            lease: RefCell::new(None),
            uploading: Cell::new(false),
            upload_over: Notify::new(),
        })
    }

    /// When the request came in.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The status that the client gets.
    pub fn answered(&self, status: u16) {
        self.status.set(status);
    }

    /// The backend that is being tried.
    pub fn trying(&self, backend: &Arc<str>, retries: u32) {
        *self.backend.borrow_mut() = Some(Arc::clone(backend));
        self.retries.set(retries);
    }

    /// The backend began to answer.
    pub fn backend_answered(&self) {
        self.backend_us
            .set(Some(self.began.elapsed().as_micros() as u64));
    }

    /// The client has a body to send.
    pub fn uploading(&self) {
        self.uploading.set(true);
    }

    /// Whether the client is still sending its body.
    pub fn is_uploading(&self) -> bool {
        self.uploading.get()
    }

    /// Ready `limit` after the end of the request body, or when none of it has passed for so long.
    pub async fn late(&self, limit: Duration) {
        while self.uploading.get() {
            let sent = self.sent.get();
            let over = self.upload_over.notified();
            if tokio::time::timeout(limit, over).await.is_err() && self.sent.get() == sent {
                return;
            }
        }
        tokio::time::sleep(limit).await;
    }

    /// Keeps the place at the backend until the account is given.
    pub fn hold(&self, lease: Lease) {
        *self.lease.borrow_mut() = Some(lease);
    }

    /// The backend broke off in the middle of its response.
    fn backend_broke_off(&self) {
        if let Some(lease) = &mut *self.lease.borrow_mut() {
            lease.failed();
            self.connection.backend_failed(lease.number(), "truncated");
        }
    }

    /// Says how it ended; the first word stands.
    pub fn end(&self, end: End, error: Option<Cow<'static, str>>) {
        if self.end.get().is_none() {
            self.end.set(Some(end));
            *self.error.borrow_mut() = error;
        }
    }
}

impl Words {
    fn of(head: &RequestHead) -> Self {
        let method = match head.method {
            Method::GET => Cow::Borrowed("GET"),
            Method::POST => Cow::Borrowed("POST"),
            Method::HEAD => Cow::Borrowed("HEAD"),
            _ => Cow::Owned(head.method.as_str().to_owned()),
        };
        let host = head
            .headers
            .get("host")
            .map(|host| host.as_bytes().into())
            .or_else(|| {
                head.uri
                    .authority()
                    .map(|authority| authority.as_str().as_bytes().into())
            });
        let path = head.uri.path_and_query().map_or("*", |path| path.as_str());
        Self {
            method,
            host,
            path: path.as_bytes().into(),
        }
    }
}

fn protocol_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let connection = &self.connection;
        let micros = self.began.elapsed().as_micros() as u64;
        // Nobody said how it ended: either the sweep cut the connection, or the client left.
        let end = self
            .end
            .get()
            .unwrap_or_else(|| match connection.was_cut() {
                true => connection.end_and_error().0,
                false => End::ClientClosed,
            });
        if let Some(site) = connection.site_place() {
            let mut meter = connection.worker.meter.borrow_mut();
            meter.request(site, self.protocol, self.status.get(), micros);
            meter.bytes(site, "http", Direction::BackendOut, self.sent.get());
            if self.backend_us.get().is_some() {
                meter.bytes(site, "http", Direction::BackendIn, self.received.get());
            }
        }
        connection.requested();
        let Some(words) = self.words.take() else {
            return;
        };
        let is_error = end != End::Complete || self.status.get() >= 500;
        if !connection
            .worker
            .wants_line(connection.live.live.log_sample, is_error)
        {
            return;
        }
        let mut line = connection.line(Event::Request);
        line.protocol = Some(self.protocol);
        line.method = Some(words.method);
        line.host = words.host;
        line.path = Some(words.path);
        line.status = (self.status.get() > 0).then(|| self.status.get());
        line.request_bytes = Some(self.sent.get());
        line.response_bytes = Some(self.received.get());
        line.backend = self.backend.take();
        line.retries = Some(self.retries.get());
        line.backend_us = self.backend_us.get();
        line.total_us = Some(micros);
        line.end = Some(end);
        line.error = self.error.take();
        connection.worker.write_line(line);
    }
}

/// Hears of the request body.
#[derive(Debug)]
pub struct Upload(pub Rc<Account>);

impl BodyObserver for Upload {
    fn passed(&self, bytes: usize) {
        self.0.sent.set(self.0.sent.get() + bytes as u64);
    }

    fn ended(&self, _: BodyEnd) {
        self.0.uploading.set(false);
        self.0.upload_over.notify_one();
    }
}

/// Hears of the response body; its end is the end of the request.
#[derive(Debug)]
pub struct Download(pub Rc<Account>);

impl BodyObserver for Download {
    fn passed(&self, bytes: usize) {
        self.0.received.set(self.0.received.get() + bytes as u64);
    }

    fn ended(&self, end: BodyEnd) {
        match end {
            BodyEnd::Complete => self.0.end(End::Complete, None),
            BodyEnd::SourceFailed => {
                let error = "the backend broke off in the middle of its response; the client was cut off as well";
                self.0.end(End::BackendTruncated, Some(error.into()));
                self.0.backend_broke_off();
            }
            BodyEnd::TooLarge => self.0.end(
                End::Error,
                Some("the response is longer than it may be".into()),
            ),
            // The drop of the account finds out whether the client left or was sent away.
            BodyEnd::Abandoned => {}
        }
    }
}
