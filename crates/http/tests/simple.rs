//! The small server for consoles, over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tollgate_http::{Body, Request, StatusCode, plain, serve_simple, text};

async fn page(request: Request<Body>) -> tollgate_http::Response<Body> {
    match request.uri().path() {
        "/metrics" => text(StatusCode::OK, "up 1\n"),
        _ => plain(StatusCode::NOT_FOUND, "no such page\n"),
    }
}

#[tokio::test]
async fn pages_are_served_and_what_is_no_get_is_refused() {
    let test = async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        spawn_local(serve_simple(listener, page));
        for (request, status, end) in [
            ("GET /metrics", "200 OK", "\r\n\r\nup 1\n"),
            ("HEAD /metrics", "200 OK", "\r\n\r\n"),
            ("GET /x", "404 Not Found", "no such page\n"),
            (
                "DELETE /metrics",
                "405 Method Not Allowed",
                "only GET and HEAD are served here\n",
            ),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{answer}"
            );
            assert!(answer.ends_with(end), "{answer}");
        }
    };
    LocalSet::new().run_until(test).await;
}
