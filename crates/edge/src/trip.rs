//! A byte's way: `Accepted -> Hello -> Handshaken -> Paired -> Closed`.
//!
//! `run` shows the whole trip. Each stage eats the one before; large stages are boxed and dropped as
//! soon as they are over, so that an idle connection holds nothing but what it needs to go on.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncReadExt;
use tollgate_config::Mode;
use tollgate_journal::End as LogEnd;
use tollgate_preface::Reading;
use tollgate_terms::{Culprit, TlsVersion};
use tollgate_tls::hello::ClientHello;
use tollgate_tls::{Heard, HelloFailure, ServerSite, TlsStream};

use crate::connection::{Connection, Ending};
use crate::dial::{Announcement, BackendStream, dial};
use crate::gateway;
use crate::lease::Lease;
use crate::ledger::Weighed;
use crate::live::{Found, LiveSite};
use crate::relay::{Broken, End, Ended, relay};
use crate::roster::Phase;
use crate::wire::Wire;

/// Alert descriptions of RFC 8446, section 6, that are decided here rather than in `tls`.
const UNRECOGNIZED_NAME: u8 = 112;
const INTERNAL_ERROR: u8 = 80;
const PROTOCOL_VERSION: u8 = 70;

/// The answer to a browser that speaks plain HTTP to a TLS port.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 71\r\nconnection: close\r\n\r\nThis port speaks TLS. Ask again with https:// in front of the address.\n";

/// What is left of the trip once the handshake is over.
type Stage = Pin<Box<dyn Future<Output = Ending>>>;

/// Serves one connection to its end. What happened is in `connection` afterwards.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn would keep room for its arguments twice as long as it lives"
)]
pub fn run(connection: Rc<Connection>, mut wire: Wire) -> impl Future<Output = ()> {
    async move {
        // Until it says something, a client costs this small future and its socket.
        let scratch = &connection.worker.scratch;
        let first = Weighed::new(&connection, || {
            poll_fn(|cx| wire.poll_first(cx, &mut scratch.borrow_mut()))
        });
        if first.await.is_err() {
            return;
        }
        connection.spoke();
        let shaking = Weighed::new(&connection, || Box::pin(handshaken(&connection, wire)));
        let ending = match shaking.await {
            Ok(stage) => {
                if connection.parks() {
                    // What it has now is what it holds between requests.
                    connection.weighed();
                }
                Weighed::new(&connection, || stage).await
            }
            Err(refusal) => refusal,
        };
        connection.end(ending);
    }
}

/// From the first byte to the end of the handshake.
async fn handshaken(connection: &Rc<Connection>, wire: Wire) -> Result<Stage, Ending> {
    let mut wire = announced(connection, wire).await?;
    let (hello, raw) = match tollgate_tls::read_hello(&mut wire, &connection.worker.buffers).await {
        Ok(read) => read,
        Err(failure) => return Err(refuse_hello(wire, failure).await),
    };
    let (site, mode) = match choose(connection, &hello) {
        Ok(chosen) => chosen,
        Err(refusal) => {
            send_alert(&mut wire, UNRECOGNIZED_NAME).await;
            return Err(refusal);
        }
    };
    if mode == Mode::Passthrough {
        wire.put_back(raw.into_bytes());
        connection
            .worker
            .roster
            .handshaken(&connection.entry, Phase::Relay);
        connection.passed_through();
        return Ok(Box::pin(paired(Rc::clone(connection), wire)));
    }
    if !hello.offers(TlsVersion::Tls12) && !hello.offers(TlsVersion::Tls13) {
        send_alert(&mut wire, PROTOCOL_VERSION).await;
        let message = "the client offers neither TLS 1.2 nor 1.3".to_owned();
        return Err(refused("no_common_version", Culprit::Client, message));
    }
    let server = match (mode, &site.http, &site.tcp) {
        (Mode::Http, Some(server), _) | (Mode::Tcp, _, Some(server)) => server,
        _ => {
            send_alert(&mut wire, INTERNAL_ERROR).await;
            return Err(refused(
                "site_not_ready",
                Culprit::Us,
                "this site has no TLS for this listener".to_owned(),
            ));
        }
    };
    let stream = handshake(connection, wire, raw, &hello, server).await?;
    let connection = Rc::clone(connection);
    Ok(match mode {
        Mode::Http => Box::pin(gateway::converse(connection, stream)),
        Mode::Tcp | Mode::Passthrough => Box::pin(paired(connection, stream)),
    })
}

/// Reads the PROXY header that a trusted peer must send.
async fn announced(connection: &Rc<Connection>, mut wire: Wire) -> Result<Wire, Ending> {
    let listener = &connection.live.live.listeners[connection.listener];
    let trusted = listener.proxy_protocol.as_ref();
    if !trusted.is_some_and(|trusted| trusted.contains(connection.peer().map(|peer| peer.ip()))) {
        return Ok(wire);
    }
    let mut bytes = Vec::with_capacity(256);
    loop {
        match tollgate_preface::read(&bytes) {
            Reading::Incomplete => {}
            Reading::Complete { header, length } => {
                if !header.local && (header.source.is_some() || header.destination.is_some()) {
                    connection.set_addresses(header.source, header.destination);
                }
                if !connection.admit_announced() {
                    let message = "the client behind the PROXY header has too many connections; see limits: connections_per_client";
                    return Err(refused(
                        "too_many_from_client",
                        Culprit::Client,
                        message.to_owned(),
                    ));
                }
                wire.put_back(bytes.split_off(length));
                return Ok(wire);
            }
            Reading::Absent => {
                let message = "a trusted peer sent no PROXY header; turn it on there, or take the peer out of proxy_protocol:";
                return Err(refused(
                    "proxy_header_absent",
                    Culprit::Operator,
                    message.to_owned(),
                ));
            }
            Reading::Malformed(error) => {
                return Err(refused(
                    "proxy_header_malformed",
                    Culprit::Operator,
                    error.to_string(),
                ));
            }
        }
        match wire.read_buf(&mut bytes).await {
            Ok(0) if bytes.is_empty() => return Err(silent()),
            Ok(0) => return Err(closed_early("ended inside the PROXY header")),
            Ok(_) => {}
            Err(error) => return Err(closed_early(&error.to_string())),
        }
    }
}

async fn refuse_hello(mut wire: Wire, failure: HelloFailure) -> Ending {
    match failure {
        HelloFailure::PlainHttp => {
            answer_and_close(&mut wire, PLAIN_HTTP_ANSWER).await;
            refused(
                "plain_http",
                Culprit::Client,
                "plain HTTP on a TLS port".to_owned(),
            )
        }
        HelloFailure::Refused(error) => {
            send_alert(&mut wire, error.alert()).await;
            refused("bad_hello", error.culprit(), error.to_string())
        }
        HelloFailure::Closed { bytes: 0 } => silent(),
        HelloFailure::Closed { bytes } => {
            closed_early(&format!("ended after {bytes} bytes of a hello"))
        }
        HelloFailure::Io(error) => closed_early(&error.to_string()),
    }
}

/// Which site a hello is for, and what is done with its bytes.
fn choose<'a>(
    connection: &'a Rc<Connection>,
    hello: &ClientHello,
) -> Result<(&'a Arc<LiveSite>, Mode), Ending> {
    let live = &connection.live.live;
    let found = match &hello.server_name {
        None if hello.server_name_malformed => Found::Nobody,
        None => Found::Site(live.nameless()),
        Some(name) => live.find(name),
    };
    let name = hello
        .server_name
        .as_ref()
        .map(tollgate_terms::ServerName::as_str);
    let Found::Site(number) = found else {
        connection.name_seen(name);
        let message = match name {
            Some(name) => {
                format!(
                    "no site is named {name}; add it under sites: names:, or mark one site as default"
                )
            }
            None => "server_name is not a host name".to_owned(),
        };
        return Err(refused("unrecognized_name", Culprit::Client, message));
    };
    let site = &live.sites[number];
    let mode = site
        .config
        .mode
        .unwrap_or(live.listeners[connection.listener].mode);
    connection.route(number, mode, name);
    Ok((site, mode))
}

async fn handshake(
    connection: &Rc<Connection>,
    wire: Wire,
    raw: Heard,
    hello: &ClientHello,
    server: &ServerSite,
) -> Result<TlsStream<Wire>, Ending> {
    match tollgate_tls::handshake(wire, raw, hello, server, &connection.worker.buffers).await {
        Ok((stream, facts, spent)) => {
            let phase = if connection.is_http() {
                Phase::Http
            } else {
                Phase::Relay
            };
            connection
                .worker
                .roster
                .handshaken(&connection.entry, phase);
            connection.handshaken(facts, &spent);
            Ok(stream)
        }
        Err((mut wire, failure)) => {
            // The alert has been sent; a close with unread data behind it would overtake it.
            answer_and_close(&mut wire, &[]).await;
            Err(refused(
                failure.reason().name(),
                failure.culprit(),
                failure.to_string(),
            ))
        }
    }
}

/// Joins a client with a backend until both are done.
#[expect(clippy::manual_async_fn, reason = "as for `run`")]
fn paired(connection: Rc<Connection>, mut client: impl End) -> impl Future<Output = Ending> {
    async move {
        let (mut lease, mut backend) = match Box::pin(reach_one(&connection)).await {
            Ok(reached) => reached,
            Err(message) => {
                return Ending::Broken {
                    end: LogEnd::BackendFailed,
                    message,
                };
            }
        };
        match relay(&mut client, &mut backend, &*connection).await {
            Ok(Ended::Whole) => Ending::Complete,
            Ok(Ended::Cut) => Ending::Broken {
                end: LogEnd::BackendTruncated,
                message: "the backend closed without close_notify, and so did we".to_owned(),
            },
            Err((Broken::Client, error)) => Ending::Broken {
                end: LogEnd::ClientClosed,
                message: error.to_string(),
            },
            Err((Broken::Backend, error)) => {
                lease.failed();
                connection.backend_failed(lease.number(), "broken");
                Ending::Broken {
                    end: LogEnd::BackendFailed,
                    message: error.to_string(),
                }
            }
        }
    }
}

/// A connection to a backend of the site; each that fails is left out of the next try.
async fn reach_one(connection: &Rc<Connection>) -> Result<(Lease, BackendStream), String> {
    let mut last = "no backend is available".to_owned();
    let Some(site) = connection.site() else {
        return Err(last);
    };
    let timeouts = connection.live.live.timeouts;
    let server_name = connection.server_name();
    let mut tried: Vec<usize> = Vec::new();
    loop {
        let Some(mut lease) = Lease::take(site, &tried, Instant::now()) else {
            return Err(last);
        };
        let backend = &site.site.backends[lease.number()];
        connection.set_backend(&backend.label);
        let announcement = Announcement {
            source: connection.peer(),
            destination: connection.local(),
            facts: connection.facts(),
            authority: server_name.as_deref(),
        };
        match dial(
            backend,
            &announcement,
            timeouts.connect,
            &connection.worker.buffers,
        )
        .await
        {
            Ok(stream) => {
                lease.answered();
                return Ok((lease, stream));
            }
            Err(error) => {
                if error.is_of_backend() {
                    lease.failed();
                }
                connection.backend_failed(lease.number(), error.name());
                tried.push(lease.number());
                last = error.to_string();
            }
        }
    }
}

async fn send_alert(wire: &mut Wire, description: u8) {
    answer_and_close(wire, &tollgate_tls::alert_bytes(description)).await;
}

/// Sends a last word in such a way that the client gets to read it: unread bytes would turn the
/// close into a reset that overtakes it.
async fn answer_and_close(wire: &mut Wire, bytes: &[u8]) {
    use tokio::io::AsyncWriteExt;
    if wire.write_all(bytes).await.is_err() || wire.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut sink = [0u8; 1024];
        let mut left = 64 * 1024usize;
        while let Ok(read) = wire.read(&mut sink).await {
            left = left.saturating_sub(read);
            if read == 0 || left == 0 {
                return;
            }
        }
    };
    // A client that keeps sending is cut off; that it does not read our word is its own affair.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(500), drain).await;
}

fn refused(reason: &'static str, culprit: Culprit, message: String) -> Ending {
    Ending::Refused {
        reason,
        culprit,
        message,
    }
}

/// A connection that closed without a byte: a port scan, or a health check of something in front.
fn silent() -> Ending {
    refused("silent", Culprit::Client, String::new())
}

fn closed_early(message: &str) -> Ending {
    refused("closed_early", Culprit::Client, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of what a function with these arguments returns.
    fn output_bytes<A, B, O>(_: fn(A, B) -> O) -> usize {
        std::mem::size_of::<O>()
    }

    #[test]
    fn what_an_open_connection_needs_beside_its_tls_state_is_small() {
        let relayed =
            output_bytes(|connection, stream: TlsStream<Wire>| paired(connection, stream));
        let conversing = output_bytes(gateway::converse);
        let known = std::mem::size_of::<Connection>();
        assert!(relayed <= 512, "{relayed} bytes");
        assert!(conversing <= 320, "{conversing} bytes");
        assert!(known <= 320, "{known} bytes");
    }

    #[test]
    fn a_connection_that_has_said_nothing_costs_a_small_future() {
        // Task and socket come on top; together they stay under 1 KB of user space. With what the runtime
        // puts around it, the task fits in 256 bytes.
        assert!(output_bytes(run) <= 144, "{} bytes", output_bytes(run));
    }
}
