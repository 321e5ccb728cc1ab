//! What one proxied keep-alive request costs without a kernel: client and backend are tasks in the
//! same thread, joined by in-memory streams. Prints nanoseconds per request, with and without the
//! proxy in between; the difference is hyper twice and this room.
//!
//! `cargo run --release -p tollgate-http --example round_trips`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement, not part of the product"
)]

use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tollgate_http::{
    Body, Checkout, ClientFacts, ClientLimits, ConnectionWatch, ForwardContext, ForwardedHeaders,
    Identity, Pool, Protocol, Request, Response, ServerLimits, forward_request, forward_response,
    handshake, serve,
};

const REQUEST: &[u8] =
    b"GET /1k HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: measure/1\r\nAccept: */*\r\n\
Accept-Encoding: gzip\r\nCookie: session=0123456789abcdef\r\n\r\n";
const ROUNDS: u32 = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    LocalSet::new()
        .run_until(async {
            let direct = {
                let (client, backend) = duplex(64 * 1024);
                spawn_local(answer(backend));
                measure(client).await
            };
            for _ in 0..5 {
                let proxied = measure(proxy()).await;
                println!(
                    "direct {direct} ns, proxied {proxied} ns, difference {} ns",
                    proxied - direct
                );
            }
            println!("watch {} bytes", size_of::<ConnectionWatch>());
            println!("facts {} bytes", size_of::<ClientFacts>());
            println!("body {} bytes", size_of::<Body>());
        })
        .await;
}

async fn measure(mut client: DuplexStream) -> u64 {
    let mut buffer = vec![0; 4096];
    let mut started = cpu_nanos();
    for round in 0..ROUNDS + 1000 {
        if round == 1000 {
            started = cpu_nanos();
        }
        client.write_all(REQUEST).await.unwrap();
        let mut seen = 0;
        while seen < 1024 + 60 {
            seen += client.read(&mut buffer).await.unwrap();
        }
    }
    (cpu_nanos() - started) / u64::from(ROUNDS)
}

/// CPU time of this thread.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

async fn answer(mut io: DuplexStream) {
    let mut response =
        b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 1024\r\n\r\n"
            .to_vec();
    response.extend_from_slice(&[b'x'; 1024]);
    let mut buffer = vec![0; 4096];
    while let Ok(1..) = io.read(&mut buffer).await {
        io.write_all(&response).await.unwrap();
    }
}

fn proxy() -> DuplexStream {
    let (client, near) = duplex(64 * 1024);
    let pool = Pool::new();
    let facts = Rc::new(ClientFacts::new(
        Some([192, 0, 2, 1].into()),
        443,
        ForwardedHeaders::XForwarded,
        false,
        Identity::NotAsked,
    ));
    let (connect, mut connections) = mpsc::unbounded_channel();
    spawn_local(async move {
        while let Some(io) = connections.recv().await {
            spawn_local(answer(io));
        }
    });
    let handler = move |request: Request<Body>| {
        let (pool, facts, connect) = (Rc::clone(&pool), Rc::clone(&facts), connect.clone());
        async move {
            let (mut head, body) = request.into_parts();
            let method = head.method.clone();
            let context = ForwardContext {
                client: &facts,
                backend: Protocol::Http1,
                default_host: None,
            };
            forward_request(&mut head, &context).unwrap();
            let spare = head.clone();
            let lease = match pool.checkout(1, Protocol::Http1, 8) {
                Checkout::Ready(lease) => lease,
                Checkout::Connect => {
                    let (near, far) = duplex(64 * 1024);
                    connect.send(far).unwrap();
                    let (sender, driver) =
                        handshake(near, Protocol::Http1, &ClientLimits::default())
                            .await
                            .unwrap();
                    spawn_local(driver);
                    pool.adopt(1, sender, 8)
                }
            };
            let response = lease.send(Request::from_parts(head, body)).await.unwrap();
            drop(spare);
            let (mut head, body) = response.into_parts();
            forward_response(&mut head, &method).unwrap();
            Response::from_parts(head, body)
        }
    };
    let watch = ConnectionWatch::new();
    let serving = serve(
        near,
        Protocol::Http1,
        &ServerLimits::default(),
        &watch,
        std::future::pending(),
        handler,
    );
    spawn_local(serving);
    client
}
