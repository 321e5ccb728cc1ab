//! HTTP/2 on either side.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

mod support;

use std::pin::Pin;

use hyper::body::Body as _;
use support::{Proxy, Setup, locally, read_all, read_head, read_to, send, settle};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::spawn_local;
use tollgate_http::{
    Body, Checkout, ClientLimits, Closed, ConnectionWatch, Ended, HeaderValue, Lease, Pool,
    Protocol, Request, Response, SendError, ServerLimits, handshake, serve,
};

/// The client's end of an HTTP/2 connection.
struct Client {
    pool: std::rc::Rc<Pool>,
}

impl Client {
    async fn new(io: DuplexStream) -> Self {
        let (sender, driver) = handshake(io, Protocol::Http2, &ClientLimits::default())
            .await
            .unwrap();
        spawn_local(driver);
        let pool = Pool::new();
        drop(pool.adopt(0, sender, 1));
        Self { pool }
    }

    fn lease(&self) -> Lease {
        match self.pool.checkout(0, Protocol::Http2, 1) {
            Checkout::Ready(lease) => lease,
            Checkout::Connect => panic!("the connection is closed"),
        }
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, SendError> {
        self.lease().send(request).await
    }
}

fn get(path: &str) -> Request<Body> {
    Request::get(format!("https://shop.example{path}"))
        .body(Body::empty())
        .unwrap()
}

async fn start(mut setup: Setup) -> (Client, Proxy) {
    setup.client = Protocol::Http2;
    let mut proxy = setup.start();
    let io = std::mem::replace(&mut proxy.client, tokio::io::duplex(1).0);
    (Client::new(io).await, proxy)
}

#[tokio::test]
async fn an_http2_request_reaches_an_http1_backend_and_its_trailers_come_back() {
    locally(async {
        let (client, mut proxy) = start(Setup::default()).await;
        let mut request = get("/x?y");
        request
            .headers_mut()
            .insert("te", HeaderValue::from_static("trailers"));
        let answer = spawn_local(async move { client.send(request).await });
        let mut backend = proxy.backends.recv().await.unwrap();
        let head = read_head(&mut backend).await;
        assert!(head.starts_with("GET /x?y HTTP/1.1\r\n"), "{head}");
        assert_eq!(
            head.matches("\nhost: shop.example\r\n").count(),
            1,
            "{head}"
        );
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nConnection: keep-alive, A\r\nA: b\r\nKeep-Alive: 5\r\n",
        )
        .await;
        send(
            &mut backend,
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\ngrpc-status: 0\r\nHost: x\r\n\r\n",
        )
        .await;
        let response = answer.await.unwrap().unwrap();
        assert_eq!(
            response.headers().len(),
            1,
            "only a date is added: {:?}",
            response.headers()
        );
        let mut body = response.into_body();
        let mut frames = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        {
            frames.push(frame.unwrap());
        }
        assert_eq!(frames[0].data_ref().unwrap().as_ref(), b"hi");
        let trailers = frames[1].trailers_ref().unwrap();
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["grpc-status"], "0");
    })
    .await;
}

#[tokio::test]
async fn many_requests_share_one_connection_to_an_http2_backend() {
    locally(async {
        let (client, mut proxy) = start(Setup {
            backend: Protocol::Http2,
            ..Setup::default()
        })
        .await;
        let client = std::rc::Rc::new(client);
        let mut answers = Vec::new();
        for number in 0..50 {
            let client = std::rc::Rc::clone(&client);
            answers.push(spawn_local(async move {
                let response = client.send(get(&format!("/{number}"))).await.unwrap();
                response.into_body().collect(1000).await.unwrap()
            }));
        }
        let backend = proxy.backends.recv().await.unwrap();
        let watch = ConnectionWatch::new();
        let echo = |request: Request<Body>| async move {
            assert_eq!(request.uri().authority().unwrap(), "shop.example");
            assert!(request.headers().get("host").is_none());
            Response::new(Body::full(request.uri().path().to_owned()))
        };
        spawn_local(serve(
            backend,
            Protocol::Http2,
            &ServerLimits::default(),
            &watch,
            std::future::pending(),
            echo,
        ));
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await.unwrap(), format!("/{number}"));
        }
        assert!(
            proxy.relay.connected.get() <= 4,
            "{} connections",
            proxy.relay.connected.get()
        );
    })
    .await;
}

#[tokio::test]
async fn a_truncated_response_resets_its_stream_and_leaves_the_others() {
    locally(async {
        let (client, mut proxy) = start(Setup::default()).await;
        let client = std::rc::Rc::new(client);
        let first = std::rc::Rc::clone(&client);
        let answer = spawn_local(async move { first.send(get("/cut")).await });
        let mut backend = proxy.backend().await;
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        )
        .await;
        let response = answer.await.unwrap().unwrap();
        drop(backend);
        assert!(response.into_body().collect(100).await.is_err());
        let answer = spawn_local(async move { client.send(get("/whole")).await });
        let mut backend = proxy.backend().await;
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        )
        .await;
        assert_eq!(
            answer
                .await
                .unwrap()
                .unwrap()
                .into_body()
                .collect(100)
                .await
                .unwrap(),
            "hello"
        );
    })
    .await;
}

#[tokio::test]
async fn draining_ends_running_requests_first() {
    locally(async {
        let (client, mut proxy) = start(Setup::default()).await;
        let answer = spawn_local(async move { client.send(get("/")).await });
        let mut backend = proxy.backend().await;
        proxy.stop.send(()).unwrap();
        settle().await;
        assert!(!proxy.serving.is_finished());
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        )
        .await;
        assert_eq!(
            answer
                .await
                .unwrap()
                .unwrap()
                .into_body()
                .collect(100)
                .await
                .unwrap(),
            "hello"
        );
        assert!(matches!(
            proxy.serving.await.unwrap(),
            Ended::Closed(Closed::Complete)
        ));
    })
    .await;
}

#[tokio::test]
async fn too_many_fields_are_answered_with_431_and_a_body_over_the_limit_with_413() {
    let limits = ServerLimits {
        header_count: 20,
        body_bytes: 10,
        ..ServerLimits::default()
    };
    locally(async {
        let (client, _proxy) = start(Setup {
            limits,
            ..Setup::default()
        })
        .await;
        let mut request = get("/");
        for _ in 0..21 {
            request
                .headers_mut()
                .append("x", HeaderValue::from_static("y"));
        }
        assert_eq!(client.send(request).await.unwrap().status(), 431);
        let mut request = get("/");
        request
            .headers_mut()
            .insert("x", HeaderValue::try_from("y".repeat(40_000)).unwrap());
        assert_eq!(client.send(request).await.unwrap().status(), 431);
        let request = Request::post("https://shop.example/")
            .body(Body::full("12345678901"))
            .unwrap();
        assert_eq!(client.send(request).await.unwrap().status(), 413);
    })
    .await;
}

#[tokio::test]
async fn connect_is_refused() {
    locally(async {
        let (client, _proxy) = start(Setup::default()).await;
        let request = Request::connect("shop.example:443")
            .body(Body::empty())
            .unwrap();
        assert_eq!(client.send(request).await.unwrap().status(), 405);
    })
    .await;
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// `GET https://a/` without a body, or with one when `open`.
fn headers(stream: u32, open: bool) -> Vec<u8> {
    frame(
        1,
        if open { 4 } else { 5 },
        stream,
        &[0x82, 0x87, 0x84, 0x41, 1, b'a'],
    )
}

/// Reads frames until one of this kind comes, and returns its payload.
async fn read_frame(io: &mut DuplexStream, kind: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        io.read_exact(&mut payload).await.unwrap();
        if head[3] == kind {
            return payload;
        }
    }
}

#[tokio::test]
async fn a_client_that_resets_many_streams_is_told_to_calm_down() {
    locally(async {
        let mut proxy = Setup {
            client: Protocol::Http2,
            ..Setup::default()
        }
        .start();
        let mut bytes = [PREFACE, &frame(4, 0, 0, &[])].concat();
        for stream in 0..200 {
            bytes.extend(headers(stream * 2 + 1, false));
            bytes.extend(frame(3, 0, stream * 2 + 1, &8_u32.to_be_bytes()));
        }
        proxy.client.write_all(&bytes).await.unwrap();
        let goaway = read_frame(&mut proxy.client, 7).await;
        assert_eq!(goaway[4..8], 11_u32.to_be_bytes(), "ENHANCE_YOUR_CALM");
        drop(proxy.client);
        assert!(matches!(
            proxy.serving.await.unwrap(),
            Ended::Closed(Closed::Broken(_))
        ));
        settle().await;
        assert_eq!(proxy.watch.requests_in_flight(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_opens_no_window_is_seen_as_awaited() {
    locally(async {
        let mut proxy = Setup {
            client: Protocol::Http2,
            ..Setup::default()
        }
        .start();
        // SETTINGS_INITIAL_WINDOW_SIZE = 0: nothing of any body may be sent.
        let mut bytes = [PREFACE, &frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
        bytes.extend(headers(1, false));
        proxy.client.write_all(&bytes).await.unwrap();
        let mut backend = proxy.backend().await;
        settle().await;
        assert_eq!(
            (
                proxy.watch.requests_in_flight(),
                proxy.watch.awaiting_backend()
            ),
            (1, 1)
        );
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        )
        .await;
        settle().await;
        assert_eq!(
            (
                proxy.watch.requests_in_flight(),
                proxy.watch.awaiting_backend()
            ),
            (1, 0)
        );
    })
    .await;
}

#[tokio::test]
async fn a_client_that_stops_sending_its_body_is_seen_as_awaited() {
    locally(async {
        let mut proxy = Setup {
            client: Protocol::Http2,
            ..Setup::default()
        }
        .start();
        let bytes = [PREFACE, &frame(4, 0, 0, &[]), &headers(1, true)].concat();
        proxy.client.write_all(&bytes).await.unwrap();
        let mut backend = proxy.backend().await;
        settle().await;
        assert_eq!(proxy.watch.bodies_awaiting_client(), 1);
        proxy
            .client
            .write_all(&frame(0, 1, 1, b"hello"))
            .await
            .unwrap();
        read_to(&mut backend, "0\r\n\r\n").await;
        settle().await;
        assert_eq!(proxy.watch.bodies_awaiting_client(), 0);
        assert_eq!(proxy.watch.awaiting_backend(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_client_may_keep_silent_while_the_backend_talks() {
    locally(async {
        let mut proxy = Setup {
            client: Protocol::Http2,
            ..Setup::default()
        }
        .start();
        let bytes = [PREFACE, &frame(4, 0, 0, &[]), &headers(1, true)].concat();
        proxy.client.write_all(&bytes).await.unwrap();
        let mut backend = proxy.backend().await;
        settle().await;
        assert_eq!(proxy.watch.bodies_awaiting_client(), 1);
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        )
        .await;
        settle().await;
        assert_eq!(proxy.watch.bodies_awaiting_client(), 0);
        assert_eq!(
            (
                proxy.watch.requests_in_flight(),
                proxy.watch.awaiting_backend()
            ),
            (1, 1)
        );
        send(&mut backend, "world").await;
        settle().await;
        assert_eq!(
            (
                proxy.watch.requests_in_flight(),
                proxy.watch.bodies_awaiting_client()
            ),
            (0, 1)
        );
    })
    .await;
}

#[tokio::test]
async fn an_expired_connection_says_goodbye() {
    locally(async {
        let mut proxy = Setup {
            client: Protocol::Http2,
            ..Setup::default()
        }
        .start();
        let bytes = [PREFACE, &frame(4, 0, 0, &[])].concat();
        proxy.client.write_all(&bytes).await.unwrap();
        settle().await;
        assert!(!proxy.watch.head_underway());
        proxy.watch.expire();
        let goaway = read_frame(&mut proxy.client, 7).await;
        assert_eq!(goaway[4..8], [0; 4], "NO_ERROR");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_requests_and_their_backend_connections() {
    locally(async {
        let mut proxy = Setup {
            client: Protocol::Http2,
            ..Setup::default()
        }
        .start();
        let bytes = [PREFACE, &frame(4, 0, 0, &[]), &headers(1, false)].concat();
        proxy.client.write_all(&bytes).await.unwrap();
        let mut backend = proxy.backend().await;
        drop(proxy.client);
        assert_eq!(read_all(&mut backend).await, "");
        settle().await;
        assert_eq!(proxy.watch.requests_in_flight(), 0);
        assert_eq!(proxy.pool.idle(), 0);
    })
    .await;
}
