//! HTTP mode: a request's way from the client to a backend and its response's way back.
//!
//! This is the parent of the `http` room's leaves: it decides which site, which backend, whether a
//! request may go to a second one, and what a client is told when none answers.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_config::{BackendProtocol, Limits};
use tollgate_http::request::Parts;
use tollgate_http::{
    Body, Checkout, ClientLimits, Closed, ConnectionWatch, Ended, HeaderValue, Method, Pool,
    Protocol, Request, Response, SendError, ServerLimits, StatusCode,
};
use tollgate_journal::End;
use tollgate_terms::ServerName;
use tollgate_tls::TlsStream;

use crate::account::{Account, Download, Upload};
use crate::client_stream::ClientStream;
use crate::connection::{Connection, Ending};
use crate::dial::{Announcement, DialError, dial};
use crate::lease::Lease;
use crate::live::{Found, LiveBackend, is_ip_literal};
use crate::roster::Entry;
use crate::visitor::Visitor;
use crate::wire::Wire;

/// Serves requests of one connection until it is over; between requests it holds only its TLS state.
pub fn converse(
    connection: Rc<Connection>,
    stream: TlsStream<Wire>,
) -> impl Future<Output = Ending> {
    let protocol = match connection.facts().and_then(|facts| facts.alpn.as_deref()) {
        Some("h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let watch = ConnectionWatch::new();
    connection
        .entry
        .attach(Rc::clone(&watch), protocol == Protocol::Http1);
    let visitor = Rc::new(Visitor::new(&connection));
    let mut stream = ClientStream::new(stream, Rc::clone(&connection));
    async move {
        loop {
            match turn(&connection, &visitor, &watch, protocol, stream).await {
                Ended::Closed(closed) => return ending(&closed, &watch),
                Ended::Idle(idle) => stream = idle,
            }
            visitor.rest();
            let woken = poll_fn(|cx| poll_parked(&connection.entry, &stream, cx)).await;
            connection.entry.unpark();
            match woken {
                Woken::Readable => {}
                Woken::Dismissed => {
                    poll_fn(|cx| stream.poll_farewell(cx)).await;
                    return Ending::Complete;
                }
                Woken::Broken => return Ending::Complete,
            }
        }
    }
}

/// Requests until the connection is idle or over.
fn turn(
    connection: &Rc<Connection>,
    visitor: &Rc<Visitor>,
    watch: &Rc<ConnectionWatch>,
    protocol: Protocol,
    stream: ClientStream,
) -> Pin<Box<dyn Future<Output = Ended<ClientStream>>>> {
    let stop = {
        let worker = Rc::clone(&connection.worker);
        async move { worker.ending(protocol).await }
    };
    let (visitor, handled) = (Rc::clone(visitor), Rc::clone(connection));
    let handler = move |request| exchange(Rc::clone(&handled), Rc::clone(&visitor), request);
    let limits = server_limits(&connection.live.live.limits);
    tollgate_http::serve(stream, protocol, &limits, watch, stop, handler)
}

/// What ended the wait of a parked connection.
enum Woken {
    Readable,
    Dismissed,
    Broken,
}

/// Waits for the client, or for the sweep to send it away; a client that has spoken is heard first.
fn poll_parked(entry: &Entry, stream: &ClientStream, cx: &mut Context<'_>) -> Poll<Woken> {
    match stream.poll_readable(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(Woken::Readable),
        Poll::Ready(Err(_)) => Poll::Ready(Woken::Broken),
        Poll::Pending if entry.is_dismissed() => Poll::Ready(Woken::Dismissed),
        Poll::Pending => {
            entry.park(cx.waker());
            Poll::Pending
        }
    }
}

fn server_limits(limits: &Limits) -> ServerLimits {
    ServerLimits {
        header_bytes: limits.header_bytes,
        header_count: limits.header_count,
        http2_streams: limits.http2_streams,
        http2_resets: limits.http2_resets,
        body_bytes: limits.body_bytes,
    }
}

fn ending(closed: &Closed, watch: &ConnectionWatch) -> Ending {
    let end = match closed {
        Closed::Complete | Closed::Tunnelled(Ok(_)) => return Ending::Complete,
        // Between requests every kept connection ends so; in the middle of a head it is the client's fault.
        Closed::Expired if !watch.head_underway() => return Ending::Complete,
        Closed::Expired => End::Timeout,
        Closed::Malformed(_) => End::Error,
        Closed::Truncated(_) => End::BackendTruncated,
        Closed::Broken(_) | Closed::Tunnelled(Err(_)) => End::ClientClosed,
    };
    Ending::Broken {
        end,
        message: closed.to_string(),
    }
}

/// One request and its response, with its account.
async fn exchange(
    connection: Rc<Connection>,
    visitor: Rc<Visitor>,
    request: Request<Body>,
) -> Response<Body> {
    let (mut head, mut body) = request.into_parts();
    let account = Account::open(&connection, &head);
    let mut response = match admitted(&connection, &visitor, &mut head) {
        Err(refusal) => refuse(&account, refusal),
        Ok(repeatable) => {
            let repeatable = repeatable && body.is_empty();
            if !body.is_empty() {
                account.uploading();
                body.observe(Rc::new(Upload(Rc::clone(&account))));
            }
            forwarded(
                &connection,
                &visitor,
                &account,
                Box::new(Request::from_parts(head, body)),
                repeatable,
            )
            .await
        }
    };
    account.answered(response.status().as_u16());
    if connection.worker.is_draining() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        // HTTP/2 connections have no such field; hyper leaves it out there.
        response
            .headers_mut()
            .insert("connection", HeaderValue::from_static("close"));
    }
    response.body_mut().observe(Rc::new(Download(account)));
    response
}

/// Whether the request is one that this connection may make; its head is made fit for a backend.
/// Says whether the method may be repeated.
fn admitted(
    connection: &Connection,
    visitor: &Visitor,
    head: &mut Parts,
) -> Result<bool, tollgate_http::Refusal> {
    let authority = tollgate_http::authority(head)?;
    let host = authority.map(|authority| authority.host);
    if !visitor.knows(host) {
        if !is_of_this_site(connection, host) {
            return Err(MISDIRECTED);
        }
        visitor.learn(host);
    }
    let forwarded = tollgate_http::forward_request(head, &visitor.context())?;
    Ok(forwarded.repeatable)
}

const MISDIRECTED: tollgate_http::Refusal = tollgate_http::Refusal {
    status: StatusCode::MISDIRECTED_REQUEST,
    reason: "misdirected",
    sentence: "this connection was made for another site; open a new one for this host\n",
};

/// The answer to a request that goes no further. Only after 421 can the connection go on: its
/// framing was understood, and a next request may be for this site.
fn refuse(account: &Account, refusal: tollgate_http::Refusal) -> Response<Body> {
    account.end(End::Complete, Some(refusal.reason.into()));
    match refusal.status {
        StatusCode::MISDIRECTED_REQUEST => tollgate_http::plain(refusal.status, refusal.sentence),
        _ => refusal.response(),
    }
}

/// A host of another site would slip past that site's certificates and client-certificate policy.
fn is_of_this_site(connection: &Connection, host: Option<&str>) -> bool {
    let Some(host) = host else { return true };
    let live = &connection.live.live;
    let named = connection.server_name().is_some();
    match ServerName::new(host)
        .ok()
        .filter(|_| !is_ip_literal(host))
        .map(|name| live.find(&name))
    {
        Some(Found::Site(number)) => connection.is_of_site(number),
        // A client without server_name was given the default site and may call it what it likes.
        Some(Found::Nobody) | None => !named || live.takes_every_name(connection.site_number()),
    }
}

/// What one try at a backend came to.
enum Try {
    Answered(Response<Body>),
    /// Nothing reached a backend; the request is whole.
    Again(Box<Request<Body>>, Refusal),
    /// It may have reached one; only a copy of a harmless request may go elsewhere.
    Lost(Refusal),
}

/// What a client is told when a backend does not answer.
#[derive(Clone, Debug)]
struct Refusal {
    status: StatusCode,
    sentence: &'static str,
    /// Label value of the backend failure; `None` when the backend is not to blame.
    reason: Option<&'static str>,
    /// Whether passive health is to hold it against the backend.
    blame: bool,
    /// What the operator reads in the access log; `None` where the label says it all.
    detail: Option<String>,
}

const NO_BACKEND: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    sentence: "no backend is available\n",
    reason: None,
    blame: false,
    detail: None,
};

/// Sends the request to a backend, and to a further one where that is safe.
async fn forwarded(
    connection: &Rc<Connection>,
    visitor: &Visitor,
    account: &Rc<Account>,
    request: Box<Request<Body>>,
    repeatable: bool,
) -> Response<Body> {
    let Some(site) = connection.site() else {
        return tollgate_http::plain(NO_BACKEND.status, NO_BACKEND.sentence);
    };
    let allowed = site.site.config.retries as usize;
    let method = request.method().clone();
    let copy = repeatable.then(|| clone_head(&request));
    let mut next = Some(request);
    let mut refusal = NO_BACKEND;
    let mut tried = Vec::new();
    let mut now = account.began();
    while let (Some(request), Some(mut lease)) = (next.take(), Lease::take(site, &tried, now)) {
        if !tried.is_empty() {
            connection.retried();
        }
        let backend = &site.site.backends[lease.number()];
        account.trying(&backend.label, tried.len() as u32);
        let attempt = try_backend(
            connection,
            visitor,
            account,
            backend,
            request,
            copy.as_deref(),
        );
        refusal = match attempt.await {
            Try::Answered(response) => {
                return delivered(connection, account, lease, &method, response);
            }
            Try::Again(request, why) => {
                next = Some(request);
                why
            }
            Try::Lost(why) => {
                next = copy.as_deref().map(clone_head);
                why
            }
        };
        tried.push(lease.number());
        let Some(reason) = refusal.reason else { break };
        if refusal.blame {
            lease.failed();
        }
        connection.backend_failed(lease.number(), reason);
        if tried.len() > allowed {
            break;
        }
        now = Instant::now();
    }
    let end = match refusal.reason {
        None if !tried.is_empty() => End::ClientClosed,
        Some(_) | None => End::BackendFailed,
    };
    let detail = refusal
        .detail
        .unwrap_or_else(|| refusal.sentence.trim_end().to_owned());
    account.end(end, Some(detail.into()));
    tollgate_http::plain(refusal.status, refusal.sentence)
}

/// The backend's answer, made fit for the client; the place at the backend is kept to its end.
fn delivered(
    connection: &Connection,
    account: &Account,
    mut lease: Lease,
    method: &Method,
    response: Response<Body>,
) -> Response<Body> {
    account.backend_answered();
    let (mut head, body) = response.into_parts();
    if let Err(bad) = tollgate_http::forward_response(&mut head, method) {
        lease.failed();
        connection.backend_failed(lease.number(), "malformed");
        account.end(End::BackendFailed, Some(bad.to_string().into()));
        return tollgate_http::plain(
            StatusCode::BAD_GATEWAY,
            "the backend sent a response that cannot be trusted\n",
        );
    }
    lease.answered();
    account.hold(lease);
    Response::from_parts(head, body)
}

fn clone_head(request: &Request<Body>) -> Box<Request<Body>> {
    let mut copy = Box::new(Request::new(Body::empty()));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    copy
}

async fn try_backend(
    connection: &Rc<Connection>,
    visitor: &Visitor,
    account: &Account,
    backend: &LiveBackend,
    request: Box<Request<Body>>,
    copy: Option<&Request<Body>>,
) -> Try {
    let pool = match backend.proxy_protocol {
        None => &connection.worker.pool,
        // The PROXY header speaks for one client, so its connections serve nobody else.
        Some(_) => visitor.own_pool(),
    };
    let protocol = match backend.protocol {
        BackendProtocol::Http2 => Protocol::Http2,
        BackendProtocol::Http1 | BackendProtocol::Bytes => Protocol::Http1,
    };
    let mut request = request;
    loop {
        let (lease, fresh) = match pool.checkout(backend.key, protocol, backend.max_idle) {
            Checkout::Ready(lease) => (lease, false),
            // Dialling is rare, and its future large: it must not make every request's larger.
            Checkout::Connect => {
                match Box::pin(connected(connection, backend, protocol, pool)).await {
                    Ok(lease) => (lease, true),
                    Err(error) => return Try::Again(request, dial_refusal(&error)),
                }
            }
        };
        let limit = connection.live.live.timeouts.response;
        // On the heap, small as it is, rather than moved with every future that it is part of.
        let mut sent = Box::pin(lease.send(*request));
        match answered_within(limit, account, visitor, sent.as_mut()).await {
            Ok(Ok(response)) => return Try::Answered(response),
            // A pooled connection that had closed meanwhile says nothing about the backend: take another.
            Ok(Err(SendError::Unsent(back))) if !fresh => request = back,
            Ok(Err(SendError::Unsent(back))) => {
                return Try::Again(
                    back,
                    closed(backend, "closed the connection before the request was sent"),
                );
            }
            Ok(Err(SendError::Stale)) => match copy {
                Some(copy) => request = clone_head(copy),
                None => {
                    let what = "closed a pooled connection, and this request is not safe to repeat";
                    return Try::Lost(Refusal {
                        blame: false,
                        ..closed(backend, what)
                    });
                }
            },
            Ok(Err(SendError::RequestBody(error))) => return Try::Lost(body_refusal(&error)),
            Ok(Err(SendError::Failed(fault))) => {
                let why = Refusal {
                    reason: Some(fault.name()),
                    ..closed(backend, &fault.to_string())
                };
                return Try::Lost(why);
            }
            Err(TooLate) => return Try::Lost(timed_out(backend, limit)),
        }
    }
}

/// The time for a response is over.
struct TooLate;

/// Waits for a response for `limit` from the end of the request on. While the client is still sending its
/// body, the rate rule of the sweep ends a request whose client is slow; one whose backend takes nothing
/// for `limit` ends here.
async fn answered_within<T>(
    limit: Duration,
    account: &Account,
    visitor: &Visitor,
    mut response: Pin<&mut impl Future<Output = T>>,
) -> Result<T, TooLate> {
    if !account.is_uploading() {
        let mut timer = visitor.timer(limit);
        let answered = poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => timer.as_mut().poll(cx).map(|()| Err(TooLate)),
        });
        let answered = answered.await;
        visitor.keep_timer(timer);
        return answered;
    }
    // Uploads are the rare case, and must not make the future of every request larger.
    let late = Box::pin(account.late(limit));
    tokio::select! {
        biased;
        response = response => Ok(response),
        () = late => Err(TooLate),
    }
}

fn closed(backend: &LiveBackend, what: &str) -> Refusal {
    Refusal {
        status: StatusCode::BAD_GATEWAY,
        sentence: "the backend broke off\n",
        reason: Some("closed"),
        blame: true,
        detail: Some(format!("{}: {what}", backend.label)),
    }
}

fn timed_out(backend: &LiveBackend, limit: Duration) -> Refusal {
    Refusal {
        status: StatusCode::GATEWAY_TIMEOUT,
        sentence: "the backend did not answer in time\n",
        reason: Some("response_timeout"),
        blame: true,
        detail: Some(format!(
            "{}: no response within {limit:?}; see timeouts: response",
            backend.label
        )),
    }
}

fn dial_refusal(error: &DialError) -> Refusal {
    let (status, sentence) = match error {
        DialError::Timeout(..) => (
            StatusCode::GATEWAY_TIMEOUT,
            "the backend cannot be reached in time\n",
        ),
        DialError::NoDescriptors(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "no backend is available\n")
        }
        _ => (StatusCode::BAD_GATEWAY, "the backend cannot be reached\n"),
    };
    Refusal {
        status,
        sentence,
        reason: Some(error.name()),
        blame: error.is_of_backend(),
        detail: Some(error.to_string()),
    }
}

fn body_refusal(error: &tollgate_http::BodyError) -> Refusal {
    let (status, sentence) = match error {
        tollgate_http::BodyError::TooLarge(_) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request body is too large\n",
        ),
        tollgate_http::BodyError::Source(_) => {
            (StatusCode::BAD_REQUEST, "the request body broke off\n")
        }
    };
    Refusal {
        status,
        sentence,
        reason: None,
        blame: false,
        detail: Some(error.to_string()),
    }
}

/// A new connection to a backend, driven by this worker.
async fn connected(
    connection: &Rc<Connection>,
    backend: &LiveBackend,
    protocol: Protocol,
    pool: &Rc<Pool>,
) -> Result<tollgate_http::Lease, DialError> {
    let limit = connection.live.live.timeouts.connect;
    let announcement = Announcement {
        source: connection.peer(),
        destination: connection.local(),
        facts: connection.facts(),
        authority: None,
    };
    let stream = dial(backend, &announcement, limit, &connection.worker.buffers).await?;
    let limits = ClientLimits::default();
    let began = tollgate_http::handshake(stream, protocol, &limits);
    match tokio::time::timeout(limit, began).await {
        Ok(Ok((sender, driver))) => {
            tokio::task::spawn_local(driver);
            Ok(pool.adopt(backend.key, sender, backend.max_idle))
        }
        Ok(Err(error)) => Err(DialError::NotHttp(backend.label.clone(), error.to_string())),
        Err(_) => Err(DialError::Timeout(backend.label.clone(), limit)),
    }
}

/// Sweeps that a pooled connection may wait for a request, at four sweeps a second: 60 s.
pub const POOL_SWEEPS: u32 = 240;
#[cfg(test)]
mod tests {
    #![allow(
        unreachable_code,
        clippy::diverging_sub_expression,
        reason = "the futures are made for their type alone"
    )]
    use super::*;

    fn bytes_of<F: Future>(_: impl FnOnce() -> F) -> usize {
        std::mem::size_of::<F>()
    }

    #[test]
    fn the_future_of_a_request_is_small_for_it_is_moved_several_times() {
        let exchange = bytes_of(|| exchange(unreachable!(), unreachable!(), unreachable!()));
        assert!(exchange <= 1_400, "{exchange} bytes");
    }
}
