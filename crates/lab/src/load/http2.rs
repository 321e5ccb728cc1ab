//! A connection that may speak HTTP/2, through the HTTP room: several requests at a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;
use tollgate_http::{Checkout, ClientLimits, Lease, Pool, Protocol, handshake};
use tollgate_terms::HandshakeFacts;
use tollgate_tls::client::{Intent, connect_as};
use tollgate_tls::{Buffers, ClientSite};

use super::connection::After;
use super::request::Request;
use super::response::Refusal;
use super::trouble::Trouble;

/// How long the end of a connection may take: it is told to the server, and waited for no longer.
const GOODBYE: Duration = Duration::from_millis(200);

/// The one key in a pool that belongs to one connection.
const HERE: u64 = 0;

/// An established connection.
pub(crate) struct Shared {
    pool: Rc<Pool>,
    /// The lease that the connection came with; the pool has the later ones.
    first: RefCell<Option<Lease>>,
    protocol: Protocol,
    driver: JoinHandle<()>,
}

impl Shared {
    /// Shakes hands over a connected socket and begins the protocol that was agreed.
    pub(crate) async fn open(
        io: TcpStream,
        site: &ClientSite,
        intent: Intent,
        buffers: &Buffers,
    ) -> Result<(Self, HandshakeFacts), Trouble> {
        let (stream, facts) = connect_as(io, site, intent, buffers)
            .await
            .map_err(Trouble::Tls)?;
        let protocol = match facts.alpn.as_deref() {
            Some("h2") => Protocol::Http2,
            Some(_) | None => Protocol::Http1,
        };
        let (sender, driver) = handshake(stream, protocol, &ClientLimits::default())
            .await
            .map_err(|_| Trouble::Closed)?;
        let pool = Pool::new();
        let first = pool.adopt(HERE, sender, 1);
        let shared = Self {
            pool,
            first: RefCell::new(Some(first)),
            protocol,
            driver: spawn_local(driver),
        };
        Ok((shared, facts))
    }

    /// Whether requests may go on at the same time.
    pub(crate) fn multiplexes(&self) -> bool {
        self.protocol == Protocol::Http2
    }

    /// Whether the connection still goes on; for connections that are held.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    /// Sends a request and takes in its response, telling `on_body` of body bytes as they come.
    pub(crate) async fn exchange(
        &self,
        request: &Request,
        body: &Bytes,
        mut on_body: impl FnMut(u64),
    ) -> Result<After, Trouble> {
        let lease = self.lease().ok_or(Trouble::Closed)?;
        let response = lease
            .send(request.message(self.protocol, body))
            .await
            .map_err(Trouble::Send)?;
        if !response.status().is_success() {
            return Err(Refusal::Status(response.status().as_u16()).into());
        }
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Trouble::Body)?;
            on_body(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        Ok(match self.driver.is_finished() {
            true => After::Closing,
            false => After::Open,
        })
    }

    /// Says goodbye and closes.
    pub(crate) async fn close(self) {
        drop(self.first);
        drop(self.pool);
        let stop = self.driver.abort_handle();
        if timeout(GOODBYE, self.driver).await.is_err() {
            stop.abort();
        }
    }

    fn lease(&self) -> Option<Lease> {
        if let Some(first) = self.first.borrow_mut().take() {
            return Some(first);
        }
        match self.pool.checkout(HERE, self.protocol, 1) {
            Checkout::Ready(lease) => Some(lease),
            Checkout::Connect => None,
        }
    }
}
