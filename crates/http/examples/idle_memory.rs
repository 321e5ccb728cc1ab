//! What an idle HTTP/1.1 connection holds after one request, parked and not: resident bytes per
//! connection, less what the in-memory stream beneath it takes. Each is measured in a process of its own:
//!
//! `cargo run -p tollgate-http --example idle_memory -- parked|open|http2|bare`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement, not part of the product"
)]

use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::{LocalSet, spawn_local};
use tollgate_http::{
    Body, ConnectionWatch, Ended, Protocol, Request, ServerLimits, StatusCode, plain, serve,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: shop.example\r\nAccept: */*\r\n\r\n";
/// Preface, empty SETTINGS, and `GET https://a/` on stream 1.
const HTTP2_REQUEST: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x87\x84\x41\x01a";
const CONNECTIONS: usize = 5000;

async fn page(_request: Request<Body>) -> tollgate_http::Response<Body> {
    plain(StatusCode::OK, "hello\n")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let kind = std::env::args().nth(1).unwrap_or_default();
    LocalSet::new()
        .run_until(async {
            let mut held = Vec::new();
            for _ in 0..100 {
                held.push(connection(&kind).await);
            }
            let before = resident_bytes();
            for _ in 0..CONNECTIONS {
                held.push(connection(&kind).await);
            }
            let each = (resident_bytes() - before) / CONNECTIONS;
            println!("{kind}: {each} bytes per connection, {} held", held.len());
        })
        .await;
}

/// One connection after one request; what is returned keeps it alive.
async fn connection(kind: &str) -> Box<dyn std::any::Any> {
    let (mut client, near) = duplex(16 * 1024);
    let mut buffer = [0; 1024];
    if kind == "bare" {
        let mut near = near;
        client.write_all(REQUEST).await.unwrap();
        near.read_exact(&mut buffer[..REQUEST.len()]).await.unwrap();
        near.write_all(&buffer[..200]).await.unwrap();
        client.read_exact(&mut buffer[..200]).await.unwrap();
        return Box::new((client, near));
    }
    let watch = ConnectionWatch::new();
    let (protocol, request) = match kind {
        "http2" => (Protocol::Http2, HTTP2_REQUEST),
        _ => (Protocol::Http1, REQUEST),
    };
    let serving = serve(
        near,
        protocol,
        &ServerLimits::default(),
        &watch,
        std::future::pending(),
        page,
    );
    let mut serving = spawn_local(serving);
    client.write_all(request).await.unwrap();
    let mut seen = 0;
    while seen < 120 {
        seen += client.read(&mut buffer).await.unwrap();
    }
    while !watch.is_idle() {
        tokio::task::yield_now().await;
    }
    if kind != "parked" {
        return Box::new((client, serving, watch));
    }
    watch.park();
    match (&mut serving).await.unwrap() {
        Ended::Idle(near) => Box::new((client, near, Rc::clone(&watch))),
        Ended::Closed(closed) => Box::new(closed),
    }
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
