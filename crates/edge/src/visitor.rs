//! What every request of one connection has in common: what backends are told of the client.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use tollgate_config::{BackendProtocol, ClientCertificates, ForwardedHeaders as Configured};
use tollgate_http::{
    ClientFacts, ForwardContext, ForwardedHeaders, HeaderValue, Identity, Pool, Protocol,
};

use crate::connection::Connection;

/// A client of HTTP mode.
pub struct Visitor {
    facts: ClientFacts,
    backend: Protocol,
    default_host: Option<HeaderValue>,
    own_pool: OnceCell<Rc<Pool>>,
    /// The host of the last request, which was found to be of this connection's site.
    host: RefCell<Option<Box<str>>>,
    /// Waits for responses, one after the other: to move its deadline costs less than a new one.
    timer: Cell<Option<Pin<Box<Sleep>>>>,
}

/// What a request of HTTP/1.0 without a host is for: the name that the client said in its hello, else the
/// site's first one, unless that is a wildcard.
fn default_host(connection: &Connection) -> Option<HeaderValue> {
    let said = connection.server_name();
    let label = connection.site().map(|site| &site.site.label);
    let name = said
        .as_ref()
        .or(label.filter(|label| !label.starts_with('*')))?;
    HeaderValue::from_str(name).ok()
}

impl Visitor {
    /// Prepares everything that does not change from request to request.
    pub fn new(connection: &Connection) -> Self {
        let site = connection.site();
        let forwarded = site.map(|site| &site.site.config.forwarded);
        let peer = connection.peer();
        let headers = match forwarded.map(|forwarded| forwarded.headers) {
            Some(Configured::XForwarded) | None => ForwardedHeaders::XForwarded,
            Some(Configured::Forwarded) => ForwardedHeaders::Forwarded,
            Some(Configured::Both) => ForwardedHeaders::Both,
            Some(Configured::None) => ForwardedHeaders::None,
        };
        let trusted =
            forwarded.is_some_and(|forwarded| forwarded.trust.contains(peer.map(|peer| peer.ip())));
        let asked = site
            .is_some_and(|site| site.site.config.client_certificates != ClientCertificates::Off);
        let identity = match connection.facts().and_then(|facts| facts.client.as_deref()) {
            Some(client) => Identity::Verified(client),
            None if asked => Identity::NotShown,
            None => Identity::NotAsked,
        };
        let port = connection.local().map_or(443, |local| local.port());
        let speaks_http2 = site
            .and_then(|site| site.site.backends.first())
            .map(|backend| backend.protocol)
            == Some(BackendProtocol::Http2);
        Self {
            facts: ClientFacts::new(peer.map(|peer| peer.ip()), port, headers, trusted, identity),
            backend: if speaks_http2 {
                Protocol::Http2
            } else {
                Protocol::Http1
            },
            default_host: default_host(connection),
            own_pool: OnceCell::new(),
            host: RefCell::new(None),
            timer: Cell::new(None),
        }
    }

    /// What forwarding a request head needs to know.
    pub fn context(&self) -> ForwardContext<'_> {
        ForwardContext {
            client: &self.facts,
            backend: self.backend,
            default_host: self.default_host.as_ref(),
        }
    }

    /// Whether the request before was for the same host, and thus of this connection's site.
    pub fn knows(&self, host: Option<&str>) -> bool {
        host.is_some() && self.host.borrow().as_deref() == host
    }

    /// Remembers a host that is of this connection's site.
    pub fn learn(&self, host: Option<&str>) {
        *self.host.borrow_mut() = host.map(Into::into);
    }

    /// A timer that ends after `limit`; to be given back to [`Visitor::keep_timer`].
    pub fn timer(&self, limit: Duration) -> Pin<Box<Sleep>> {
        let end = Instant::now() + limit;
        match self.timer.take() {
            Some(mut timer) => {
                timer.as_mut().reset(end);
                timer
            }
            None => Box::pin(sleep_until(end)),
        }
    }

    /// Keeps a timer for the next request.
    pub fn keep_timer(&self, timer: Pin<Box<Sleep>>) {
        self.timer.set(Some(timer));
    }

    /// Gives up what an idle connection needs not hold.
    pub fn rest(&self) {
        self.timer.set(None);
    }

    /// Backend connections that are for this client alone.
    pub fn own_pool(&self) -> &Rc<Pool> {
        self.own_pool.get_or_init(Pool::new)
    }
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor")
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}
