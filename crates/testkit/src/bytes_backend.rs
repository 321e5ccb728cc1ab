//! Backends that know no protocol.

use std::io::Write;
use std::sync::Arc;

use crate::backend::{Backend, BackendTls, Connection};
use crate::request::Incoming;
use crate::{Address, Socket};

/// Sends back what comes; when the other side ends, sends `bye` and ends too.
///
/// So a client that closes its half and still reads `bye` has seen half-close work both ways.
/// A PROXY header is kept apart when `preface` is set.
pub fn tcp_echo_backend(address: &Address, tls: Option<BackendTls>, preface: bool) -> Backend {
    Backend::start(
        address,
        tls,
        Arc::new(move |connection| echo(connection, preface)),
    )
}

fn echo(connection: Connection, preface: bool) {
    let Connection { stream, seen, .. } = connection;
    let mut incoming = Incoming::new(stream);
    if preface {
        match incoming.preface() {
            Ok(Some(header)) => seen.push_preface(header),
            Ok(None) => {}
            Err(_) => return,
        }
    }
    while let Ok(piece) = incoming.piece() {
        if piece.is_empty() {
            let _ = incoming.stream.write_all(b"bye");
            incoming.stream.end_writing();
            return;
        }
        if incoming.stream.write_all(&piece).is_err() {
            return;
        }
    }
}

/// Keeps every byte it gets, by connection; answers each connection's first bytes with `reply`.
pub fn recording_backend(address: &Address, reply: &'static [u8]) -> Backend {
    Backend::start(
        address,
        None,
        Arc::new(move |connection: Connection| {
            let Connection {
                stream,
                number,
                seen,
                ..
            } = connection;
            let mut incoming = Incoming::new(stream);
            let mut first = true;
            while let Ok(piece) = incoming.piece() {
                if piece.is_empty() {
                    return;
                }
                seen.push_bytes(number, &piece);
                if std::mem::take(&mut first) && incoming.stream.write_all(reply).is_err() {
                    return;
                }
            }
        }),
    )
}

/// The socket types stay in sync: a TCP stream is a socket.
impl From<std::net::TcpStream> for Socket {
    fn from(stream: std::net::TcpStream) -> Self {
        Self::Tcp(stream)
    }
}
