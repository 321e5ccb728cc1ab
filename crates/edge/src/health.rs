//! Active health checks, and the addresses that backend host names stand for.
//!
//! One task per backend that is to be checked, on the parent's runtime; workers only hear of changes.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};
use tollgate_balance::Check;
use tollgate_config::{BackendAddress, BackendProtocol, HealthCheck};
use tollgate_tls::Buffers;

use crate::dial::{Announcement, BackendStream, dial};
use crate::live::{Live, LiveBackend, LiveSite};

/// A backend went up or down by its active check.
#[derive(Clone, Debug)]
pub struct Change {
    /// Label of the site.
    pub site: Arc<str>,
    /// Label of the backend.
    pub backend: Arc<str>,
    /// Whether it may be used.
    pub up: bool,
    /// What the deciding check saw.
    pub why: String,
}

/// Checks every backend whose site asks for it, until dropped; changes go to `changes`.
pub async fn watch_health(live: Arc<Live>, changes: mpsc::UnboundedSender<Change>) {
    let local = LocalSet::new();
    let mut checks = JoinSet::new();
    for site in &live.sites {
        let Some(check) = &site.config.health else {
            continue;
        };
        for number in 0..site.backends.len() {
            checks.spawn_local_on(
                watch_one(Arc::clone(site), number, check.clone(), changes.clone()),
                &local,
            );
        }
    }
    local
        .run_until(async { while checks.join_next().await.is_some() {} })
        .await;
}

async fn watch_one(
    site: Arc<LiveSite>,
    number: usize,
    check: HealthCheck,
    changes: mpsc::UnboundedSender<Change>,
) {
    let backend = &site.backends[number];
    let buffers = Buffers::new();
    let known = backend.checked_up.load(Ordering::Relaxed);
    let mut state = Check::new(check.rise, check.fall).starting(known);
    let mut ticks = tokio::time::interval(check.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = match tokio::time::timeout(check.timeout, ask(backend, &check, &buffers)).await
        {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {:?}", check.timeout)),
        };
        let Some(up) = state.observe(answer.is_ok()) else {
            continue;
        };
        backend.checked_up.store(up, Ordering::Relaxed);
        let change = Change {
            site: Arc::clone(&site.label),
            backend: Arc::clone(&backend.label),
            up,
            why: answer
                .err()
                .unwrap_or_else(|| format!("{} checks in a row passed", check.rise)),
        };
        if changes.send(change).is_err() {
            return;
        }
    }
}

/// One check: a connection, and where a path is given a request over it.
async fn ask(backend: &LiveBackend, check: &HealthCheck, buffers: &Buffers) -> Result<(), String> {
    let nobody = Announcement {
        source: None,
        destination: None,
        facts: None,
        authority: None,
    };
    let stream = dial(backend, &nobody, check.timeout, buffers)
        .await
        .map_err(|error| error.to_string())?;
    match (&check.path, backend.protocol) {
        (Some(path), BackendProtocol::Http1) => request(stream, path, backend).await,
        // A connection (and its TLS handshake) is all that is asked of the rest.
        (Some(_), BackendProtocol::Http2 | BackendProtocol::Bytes) | (None, _) => Ok(()),
    }
}

async fn request(
    mut stream: BackendStream,
    path: &str,
    backend: &LiveBackend,
) -> Result<(), String> {
    let host = match &backend.target.address {
        BackendAddress::Ip(address) => address.to_string(),
        BackendAddress::Host(host, port) => format!("{host}:{port}"),
        BackendAddress::UnixPath(_) | BackendAddress::UnixAbstract(_) => "localhost".to_owned(),
    };
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: tollgate-check\r\nconnection: close\r\n\r\n"
    );
    stream
        .write_all(head.as_bytes())
        .await
        .map_err(|error| error.to_string())?;
    let mut answer = Vec::with_capacity(512);
    while !answer.contains(&b'\n') && answer.len() < 512 {
        if stream
            .read_buf(&mut answer)
            .await
            .map_err(|error| error.to_string())?
            == 0
        {
            break;
        }
    }
    match status(&answer) {
        Some(200..=399) => Ok(()),
        Some(other) => Err(format!("GET {path} answered {other}")),
        None => Err(format!("GET {path} was not answered in HTTP/1.1")),
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.")?;
    let code = line.get(2..5)?;
    std::str::from_utf8(code).ok()?.parse().ok()
}

/// Looks up every backend host name; those that cannot be resolved keep the addresses they had.
///
/// Blocks on the system's resolver: call it on a thread that may wait. Returns the names that failed.
pub fn resolve(live: &Live) -> Vec<String> {
    let mut failed = Vec::new();
    for target in live.hosts() {
        let BackendAddress::Host(host, port) = &target.address else {
            continue;
        };
        match (host.as_str(), *port).to_socket_addrs() {
            Ok(found) => target.resolved.store(Arc::new(found.collect())),
            Err(error) => failed.push(format!("{host}: {error}")),
        }
    }
    failed
}

/// How often host names are looked up again.
pub const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read_and_anything_else_is_not() {
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\n"), Some(204));
        assert_eq!(status(b"HTTP/1.0 503 x"), Some(503));
        assert_eq!(status(b"SSH-2.0-OpenSSH"), None);
        assert_eq!(status(b"HTTP/1.1"), None);
    }
}
