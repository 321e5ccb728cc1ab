//! The whole data plane in one process: a client, a worker, a backend, over 127.0.0.1.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;
use tollgate_tls::client::{BackendTlsPolicy, ClientSite};
use tollgate_tls::{Buffers, Closed, TlsStream};

use super::*;
use crate::live::tests::built;

mod requests;

type Client = TlsStream<tokio::net::TcpStream>;

/// A backend that gives each connection to `serve`, one after the other, on a thread of its own.
fn backend(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

/// Says everything back, then `!`, once its peer is done.
fn echo(mut stream: TcpStream) {
    let mut said = Vec::new();
    // A client that breaks off gets nothing back.
    if stream.read_to_end(&mut said).is_ok() {
        said.push(b'!');
        let _ = stream.write_all(&said);
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Answers each request on a connection with `hi`.
fn http(mut stream: TcpStream) {
    std::thread::spawn(move || {
        let mut head = Vec::new();
        let mut byte = [0];
        while let Ok(1) = stream.read(&mut byte) {
            head.push(byte[0]);
            if head.ends_with(b"\r\n\r\n") {
                head.clear();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
            }
        }
    });
}

fn configuration(mode: &str, backend: SocketAddr, more: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\", mode: {mode} }}]\nworkers: {{ count: 1 }}\n{more}sites:\n\
         \x20 - names: [shop.example]\n    certificates: [{{ combined: /ecdsa }}]\n    backends: [\"{backend}\"]\n"
    )
}

fn start(text: &str) -> (Edge, SocketAddr) {
    let (config, live) = built(text);
    let edge = Edge::start(&config, live, None, Sockets::new(), None).unwrap();
    let address = match edge
        .sockets()
        .values()
        .next()
        .and_then(|sockets| sockets.first())
    {
        Some(Listening::Tcp(listener)) => listener.local_addr().unwrap(),
        other => panic!("{other:?}"),
    };
    (edge, address)
}

async fn client(address: SocketAddr) -> Client {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    secured(socket).await.unwrap()
}

async fn secured(socket: tokio::net::TcpStream) -> Result<Client, tollgate_tls::Failure> {
    let site = ClientSite::new(BackendTlsPolicy {
        verify: false,
        name: "shop.example".to_owned(),
        ca: None,
        certificate: None,
        alpn: Vec::new(),
    });
    let connected = tollgate_tls::connect(socket, &site.unwrap(), &Buffers::new()).await;
    connected.map(|(stream, _)| stream)
}

/// Runs a client's part on a runtime of its own.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// Waits until nobody is connected any more, then says what was counted.
async fn counted(edge: &Edge) -> tollgate_meter::Snapshot {
    assert_eq!(edge.drained(Duration::from_secs(10)).await, 0);
    edge.report().await.remove(0).meter.snapshot()
}

#[test]
fn a_relay_goes_on_after_half_a_close_and_counts_all_four_ways() {
    let (edge, address) = start(&configuration("tcp", backend(echo), ""));
    run(async {
        let mut client = client(address).await;
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "question!");
        assert_eq!(client.closed(), Some(Closed::CloseNotify));
        drop(client);
        let snapshot = counted(&edge).await;
        let bytes: Vec<_> = snapshot
            .bytes
            .iter()
            .map(|series| (series.labels.direction, series.count))
            .collect();
        let expected = [
            ("backend_in", 9),
            ("backend_out", 8),
            ("client_in", 8),
            ("client_out", 9),
        ];
        assert_eq!(bytes, expected);
        assert!(snapshot.connections.iter().all(|open| open.open == 0));
    });
    edge.finish();
}

#[test]
fn a_kept_connection_is_parked_served_again_and_leaves_with_a_goodbye() {
    let more = "timeouts: { idle: 2s }\n";
    let (edge, address) = start(&configuration("http", backend(http), more));
    run(async {
        let mut client = client(address).await;
        let mut answer = [0; 512];
        for wait in [0, 1200] {
            // Longer than two sweeps, after which the connection is parked, and shorter than idle.
            tokio::time::sleep(Duration::from_millis(wait)).await;
            let request = b"GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n";
            client.write_all(request).await.unwrap();
            let read = client.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..read]);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
        assert_eq!(client.read(&mut answer).await.unwrap(), 0);
        assert_eq!(client.closed(), Some(Closed::CloseNotify));
        let snapshot = counted(&edge).await;
        let requests: u64 = snapshot.requests.iter().map(|series| series.count).sum();
        assert_eq!(requests, 2);
        assert!(snapshot.handshake_failures.is_empty());
    });
    edge.finish();
}

#[test]
fn a_client_has_no_more_connections_than_it_may_and_gets_its_place_back() {
    let more = "limits: { connections_per_client: 1 }\n";
    let (edge, address) = start(&configuration("tcp", backend(echo), more));
    run(async {
        let first = client(address).await;
        let mut second = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut byte = [0];
        assert!(matches!(second.read(&mut byte).await, Ok(0) | Err(_)));
        drop(first);
        let snapshot = counted(&edge).await;
        assert_eq!(snapshot.refused[0].labels.reason, "too_many_from_client");
        drop(client(address).await);
        assert!(
            counted(&edge)
                .await
                .connections
                .iter()
                .all(|open| open.open == 0)
        );
    });
    edge.finish();
}

/// A client whose address a proxy in front announces.
async fn announced(address: SocketAddr, source: &str) -> Result<Client, tollgate_tls::Failure> {
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let header = format!("PROXY TCP4 {source} 192.0.2.9 40000 443\r\n");
    socket.write_all(header.as_bytes()).await.unwrap();
    secured(socket).await
}

#[test]
fn behind_a_proxy_each_announced_client_has_its_own_places() {
    let more = "limits: { connections_per_client: 1 }\n";
    let text = configuration("tcp", backend(echo), more);
    let text = text.replace("mode: tcp", "mode: tcp, proxy_protocol: [\"127.0.0.0/8\"]");
    let (edge, address) = start(&text);
    run(async {
        let one = announced(address, "192.0.2.1").await.unwrap();
        let two = announced(address, "192.0.2.2").await.unwrap();
        assert!(announced(address, "192.0.2.1").await.is_err());
        drop((one, two));
        let snapshot = counted(&edge).await;
        let failures: Vec<_> = snapshot
            .handshake_failures
            .iter()
            .map(|series| (series.labels.reason, series.count))
            .collect();
        assert_eq!(failures, [("too_many_from_client", 1)]);
        assert!(announced(address, "192.0.2.1").await.is_ok());
        drop(counted(&edge).await);
    });
    edge.finish();
}

#[test]
fn a_passed_through_connection_is_the_backends_affair_and_its_bytes_are_counted() {
    let (inner, place) = start(&configuration("tcp", backend(echo), ""));
    let text = configuration("passthrough", place, "");
    let text = text.replace("    certificates: [{ combined: /ecdsa }]\n", "");
    let (edge, address) = start(&text);
    run(async {
        let mut client = client(address).await;
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "question!");
        drop(client);
        let snapshot = counted(&edge).await;
        assert!(snapshot.handshakes.is_empty());
        assert_eq!(snapshot.bytes.len(), 4);
        assert!(
            snapshot
                .bytes
                .iter()
                .all(|series| series.labels.mode == "passthrough")
        );
        assert_eq!(counted(&inner).await.handshakes.len(), 1);
    });
    edge.finish();
    inner.finish();
}

#[test]
fn whatever_is_open_when_the_process_ends_is_closed() {
    let (mut edge, address) = start(&configuration("tcp", backend(echo), ""));
    run(async {
        let mut clients = Vec::new();
        // More than the runtime looks at in one go.
        for _ in 0..70 {
            clients.push(client(address).await);
        }
        edge.drain(Duration::ZERO);
        edge.finish();
        for mut client in clients {
            let ended = client.read(&mut [0]).await;
            assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        }
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    });
}
