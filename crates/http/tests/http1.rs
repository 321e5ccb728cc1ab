//! HTTP/1.1 on both sides, as raw bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

mod support;

use std::rc::Rc;

use support::{Setup, answer_all, locally, read_all, read_head, read_to, send, settle};
use tokio::io::AsyncWriteExt;
use tollgate_http::{Closed, Ended, ServerLimits};

const GET: &str = "GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\n\r\n";

#[tokio::test]
async fn a_request_and_its_response_pass_through_and_the_backend_connection_is_used_again() {
    locally(async {
        let mut proxy = Setup::default().start();
        send(&mut proxy.client, GET).await;
        let mut backend = proxy.backends.recv().await.unwrap();
        assert_eq!(
            read_head(&mut backend).await,
            "GET /a?b=c HTTP/1.1\r\nhost: shop.example\r\nx-forwarded-for: 192.0.2.7\r\n\
             x-forwarded-proto: https\r\nx-forwarded-port: 8443\r\nx-forwarded-host: shop.example\r\n\r\n"
        );
        for _ in 0..3 {
            send(&mut backend, "HTTP/1.1 200 OK\r\nDate: today\r\nServer: x\r\nContent-Length: 2\r\n\r\nhi").await;
            assert_eq!(
                read_to(&mut proxy.client, "hi").await,
                "HTTP/1.1 200 OK\r\ndate: today\r\nserver: x\r\ncontent-length: 2\r\n\r\nhi"
            );
            settle().await;
            assert_eq!(proxy.pool.idle(), 1);
            send(&mut proxy.client, GET).await;
            read_head(&mut backend).await;
        }
        assert_eq!(proxy.relay.connected.get(), 1);
        assert_eq!(proxy.watch.requests_served(), 4);
        assert_eq!(proxy.watch.requests_in_flight(), 1);
    })
    .await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    locally(async {
        let mut proxy = Setup::default().start();
        let seen = answer_all(std::mem::replace(
            &mut proxy.backends,
            tokio::sync::mpsc::unbounded_channel().1,
        ));
        let paths: Vec<String> = (0..40).map(|n| format!("/{n}")).collect();
        let all: String = paths
            .iter()
            .map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .collect();
        send(&mut proxy.client, &all).await;
        for _ in &paths {
            assert!(
                read_head(&mut proxy.client)
                    .await
                    .starts_with("HTTP/1.1 200 OK")
            );
        }
        for (path, request) in paths.iter().zip(seen.borrow().iter()) {
            assert!(request.starts_with(&format!("GET {path} ")), "{request}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_parks_and_is_served_again() {
    locally(async {
        let mut proxy = Setup::default().start();
        let mut backend = proxy.backend_asked(GET).await;
        assert!(!proxy.watch.is_idle());
        proxy.watch.park();
        settle().await;
        assert!(
            !proxy.serving.is_finished(),
            "a busy connection must not park"
        );
        send(&mut backend, "HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 204")
        );
        settle().await;
        assert!(proxy.watch.is_idle());
        proxy.watch.park();
        let Ended::Idle(io) = proxy.serving.await.unwrap() else {
            panic!("did not park")
        };

        let relay = Rc::clone(&proxy.relay);
        let again = tollgate_http::serve(
            io,
            tollgate_http::Protocol::Http1,
            &ServerLimits::default(),
            &proxy.watch,
            std::future::pending(),
            move |request| {
                let relay = Rc::clone(&relay);
                async move { relay.forward(request).await }
            },
        );
        tokio::task::spawn_local(again);
        send(&mut proxy.client, GET).await;
        read_head(&mut backend).await;
        send(&mut backend, "HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 204")
        );
    })
    .await;
}

#[tokio::test]
async fn a_head_that_began_with_the_request_before_it_survives_the_attempt_to_park() {
    locally(async {
        let mut proxy = Setup::default().start();
        let mut backend = proxy.backend_asked(&format!("{GET}GET /second HT")).await;
        send(&mut backend, "HTTP/1.1 204 No Content\r\n\r\n").await;
        read_head(&mut proxy.client).await;
        settle().await;
        proxy.watch.park();
        settle().await;
        assert!(!proxy.serving.is_finished());
        assert!(proxy.watch.head_underway());
        send(&mut proxy.client, "TP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(
            read_head(&mut backend)
                .await
                .starts_with("GET /second HTTP/1.1")
        );
    })
    .await;
}

#[tokio::test]
async fn a_head_that_takes_too_long_is_answered_with_408() {
    locally(async {
        let mut proxy = Setup::default().start();
        send(&mut proxy.client, "GET / HTTP/1.1\r\nHo").await;
        settle().await;
        assert!(proxy.watch.head_underway());
        proxy.watch.expire();
        let answer = read_all(&mut proxy.client).await;
        assert!(
            answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
            "{answer}"
        );
        assert!(matches!(
            proxy.serving.await.unwrap(),
            Ended::Closed(Closed::Expired)
        ));
    })
    .await;
}

#[tokio::test]
async fn draining_closes_an_idle_connection_and_lets_a_running_request_end() {
    locally(async {
        let mut idle = Setup::default().start();
        settle().await;
        idle.stop.send(()).unwrap();
        assert_eq!(read_all(&mut idle.client).await, "");

        let mut busy = Setup::default().start();
        send(&mut busy.client, GET).await;
        let mut backend = busy.backends.recv().await.unwrap();
        read_head(&mut backend).await;
        busy.stop.send(()).unwrap();
        settle().await;
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        )
        .await;
        let answer = read_all(&mut busy.client).await;
        assert!(
            answer.contains("connection: close\r\n") && answer.ends_with("\r\n\r\nhi"),
            "{answer}"
        );
        assert!(matches!(
            busy.serving.await.unwrap(),
            Ended::Closed(Closed::Complete)
        ));
    })
    .await;
}

#[tokio::test]
async fn a_backend_that_closed_its_idle_connection_costs_the_client_nothing() {
    locally(async {
        let mut proxy = Setup::default().start();
        send(&mut proxy.client, GET).await;
        let mut first = proxy.backends.recv().await.unwrap();
        read_head(&mut first).await;
        send(&mut first, "HTTP/1.1 204 No Content\r\n\r\n").await;
        read_head(&mut proxy.client).await;
        settle().await;
        // It takes the next request and closes without a word.
        send(&mut proxy.client, GET).await;
        read_head(&mut first).await;
        drop(first);
        let mut second = proxy.backends.recv().await.unwrap();
        read_head(&mut second).await;
        send(&mut second, "HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 204")
        );
        // It closes while nobody asks: noticed before the next request.
        settle().await;
        drop(second);
        settle().await;
        send(&mut proxy.client, GET).await;
        let mut third = proxy.backends.recv().await.unwrap();
        read_head(&mut third).await;
        assert!(proxy.relay.failures.borrow().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_post_on_a_given_up_connection_is_not_repeated() {
    locally(async {
        let mut proxy = Setup::default().start();
        let mut backend = proxy.backend_asked(GET).await;
        send(&mut backend, "HTTP/1.1 204 No Content\r\n\r\n").await;
        read_head(&mut proxy.client).await;
        settle().await;
        send(
            &mut proxy.client,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        )
        .await;
        read_to(&mut backend, "hi").await;
        drop(backend);
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 502")
        );
        assert_eq!(proxy.relay.connected.get(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_websocket_becomes_a_tunnel_with_an_end_for_each_direction() {
    locally(async {
        let mut proxy = Setup::default().start();
        let head = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
        send(&mut proxy.client, head).await;
        let mut backend = proxy.backends.recv().await.unwrap();
        let request = read_head(&mut backend).await;
        assert!(request.contains("connection: upgrade\r\nupgrade: websocket\r\n"), "{request}");
        send(
            &mut backend,
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfrom backend",
        )
        .await;
        let head = read_head(&mut proxy.client).await;
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        assert!(head.contains("upgrade: websocket"), "{head}");
        read_to(&mut proxy.client, "from backend").await;
        assert!(proxy.watch.is_tunnel());
        send(&mut proxy.client, "from client").await;
        read_to(&mut backend, "from client").await;
        proxy.client.shutdown().await.unwrap();
        assert_eq!(read_all(&mut backend).await, "");
        send(&mut backend, "last words").await;
        drop(backend);
        assert_eq!(read_all(&mut proxy.client).await, "last words");
        let Ended::Closed(Closed::Tunnelled(Ok(bytes))) = proxy.serving.await.unwrap() else { panic!() };
        assert_eq!((bytes.to_backend, bytes.to_client), (11, 22));
        assert_eq!(proxy.watch.requests_in_flight(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_refused_upgrade_is_an_ordinary_response() {
    locally(async {
        let mut proxy = Setup::default().start();
        let head =
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let mut backend = proxy.backend_asked(head).await;
        send(
            &mut backend,
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
        )
        .await;
        assert!(
            read_to(&mut proxy.client, "no")
                .await
                .starts_with("HTTP/1.1 403")
        );
        send(&mut proxy.client, GET).await;
        read_head(&mut backend).await;
    })
    .await;
}

#[tokio::test]
async fn a_switch_of_protocols_that_nobody_asked_for_is_a_bad_gateway() {
    locally(async {
        let mut proxy = Setup::default().start();
        let mut backend = proxy.backend_asked(GET).await;
        send(
            &mut backend,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        )
        .await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 502")
        );
    })
    .await;
}

#[tokio::test]
async fn heads_over_the_limits_are_answered_with_their_status() {
    let limits = ServerLimits {
        header_bytes: 8192,
        header_count: 20,
        ..ServerLimits::default()
    };
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(9000)
    );
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(9000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(20));
    for (head, status) in [(long, 431), (endless, 431), (many, 431)] {
        locally(async {
            let mut proxy = Setup {
                limits,
                ..Setup::default()
            }
            .start();
            send(&mut proxy.client, &head).await;
            let answer = read_head(&mut proxy.client).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            assert_eq!(proxy.relay.connected.get(), 0);
        })
        .await;
    }
}

#[tokio::test]
async fn a_client_that_sends_its_request_and_half_closes_gets_its_answer() {
    locally(async {
        let mut proxy = Setup::default().start();
        send(&mut proxy.client, GET).await;
        proxy.client.shutdown().await.unwrap();
        let mut backend = proxy.backend().await;
        settle().await;
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        )
        .await;
        assert!(read_all(&mut proxy.client).await.ends_with("hi"));
    })
    .await;
}
