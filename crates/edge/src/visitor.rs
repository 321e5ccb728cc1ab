//! What every request of one connection has in common: what backends are told of the client.

use std::cell::OnceCell;
use std::rc::Rc;

use tollgate_config::{BackendProtocol, ClientCertificates, ForwardedHeaders as Configured};
use tollgate_http::{
    ClientFacts, ForwardContext, ForwardedHeaders, HeaderValue, Identity, Pool, Protocol,
};

use crate::connection::Connection;

/// A client of HTTP mode.
#[derive(Debug)]
pub struct Visitor {
    facts: ClientFacts,
    backend: Protocol,
    default_host: Option<HeaderValue>,
    own_pool: OnceCell<Rc<Pool>>,
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

    /// Backend connections that are for this client alone.
    pub fn own_pool(&self) -> &Rc<Pool> {
        self.own_pool.get_or_init(Pool::new)
    }
}
