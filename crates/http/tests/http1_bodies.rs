//! Bodies over HTTP/1.1 on both sides, as raw bytes: their lengths, their limits, and how they end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

mod support;

use std::rc::Rc;

use support::{Setup, locally, read_all, read_head, read_to, send, settle};
use tokio::io::AsyncWriteExt;
use tollgate_http::{BodyObserver, Closed, End, Ended, ServerLimits};

const GET: &str = "GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\n\r\n";

#[tokio::test]
async fn a_truncated_response_is_never_passed_on_as_complete() {
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        locally(async {
            let mut proxy = Setup::default().start();
            let mut backend = proxy.backend_asked(GET).await;
            send(
                &mut backend,
                &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello"),
            )
            .await;
            drop(backend);
            let answer = read_all(&mut proxy.client).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            assert!(!answer.contains("0\r\n\r\n"), "{answer}");
            let ended = proxy.serving.await.unwrap();
            assert!(
                matches!(ended, Ended::Closed(Closed::Truncated(_))),
                "{ended:?}"
            );
            assert_eq!(proxy.pool.idle(), 0);
        })
        .await;
    }
}

#[tokio::test]
async fn a_body_streams_with_back_pressure() {
    locally(async {
        let mut proxy = Setup {
            room: 4096,
            ..Setup::default()
        }
        .start();
        let head = "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        send(&mut proxy.client, head).await;
        let mut backend = proxy.backends.recv().await.unwrap();
        let head = read_head(&mut backend).await;
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        settle().await;
        assert_eq!(proxy.watch.bodies_awaiting_client(), 1);
        let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
        let mut sent = 0;
        // Nobody reads at the backend: what fits into the buffers on the way is bounded.
        while sent < 4096 {
            tokio::select! {
                biased;
                () = send(&mut proxy.client, &chunk) => sent += 1,
                () = settle() => break,
            }
        }
        assert!(
            sent < 512,
            "{sent} KiB were taken from a client whose backend reads nothing"
        );
        assert_eq!(proxy.watch.bodies_awaiting_client(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_is_seen_as_awaited_and_a_slow_backend_is_not() {
    locally(async {
        let mut proxy = Setup {
            room: 4096,
            ..Setup::default()
        }
        .start();
        let mut backend = proxy.backend_asked(GET).await;
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
            "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        )
        .await;
        settle().await;
        assert_eq!(
            (
                proxy.watch.requests_in_flight(),
                proxy.watch.awaiting_backend()
            ),
            (1, 1)
        );
        let flood = tokio::task::spawn_local(async move {
            // Ends with an error when the test is over.
            let _ = backend.write_all(&[b'x'; 1_000_000]).await;
        });
        settle().await;
        assert!(proxy.watch.write_blocked());
        assert_eq!(
            (
                proxy.watch.requests_in_flight(),
                proxy.watch.awaiting_backend()
            ),
            (1, 0)
        );
        flood.abort();
    })
    .await;
}

#[tokio::test]
async fn the_client_is_told_to_continue_when_its_body_is_wanted() {
    locally(async {
        let mut proxy = Setup::default().start();
        send(
            &mut proxy.client,
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        )
        .await;
        assert_eq!(
            read_head(&mut proxy.client).await,
            "HTTP/1.1 100 Continue\r\n\r\n"
        );
        send(&mut proxy.client, "hi").await;
        let mut backend = proxy.backends.recv().await.unwrap();
        let request = read_to(&mut backend, "hi").await;
        assert!(!request.contains("expect"), "{request}");
        // The backend's own 100 and 103 stop here, its final response does not.
        send(
            &mut backend,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
        )
        .await;
        send(
            &mut backend,
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
        )
        .await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 201 Created")
        );
    })
    .await;
}

#[tokio::test]
async fn trailers_pass_when_the_client_takes_them_and_forbidden_ones_never_do() {
    locally(async {
        let mut proxy = Setup::default().start();
        send(
            &mut proxy.client,
            "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers, deflate\r\nConnection: TE\r\n\r\n",
        )
        .await;
        let mut backend = proxy.backends.recv().await.unwrap();
        let request = read_head(&mut backend).await;
        assert!(
            request.contains("te: trailers\r\n") && request.contains("connection: te\r\n"),
            "{request}"
        );
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Digest, Host\r\n\r\n",
        )
        .await;
        send(
            &mut backend,
            "2\r\nhi\r\n0\r\nDigest: abc\r\nHost: evil\r\n\r\n",
        )
        .await;
        let head = read_head(&mut proxy.client).await;
        assert!(head.contains("trailer: Digest, Host"), "{head}");
        assert_eq!(
            read_head(&mut proxy.client).await,
            "2\r\nhi\r\n0\r\ndigest: abc\r\n\r\n"
        );
    })
    .await;
}

#[derive(Debug, Default)]
struct Ear(std::cell::Cell<usize>, std::cell::Cell<Option<End>>);

impl BodyObserver for Ear {
    fn passed(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }

    fn ended(&self, end: End) {
        assert_eq!(self.1.replace(Some(end)), None, "an end is told once");
    }
}

#[tokio::test]
async fn an_observer_hears_how_a_response_ended() {
    for (said, ends) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            End::Complete,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", End::Complete),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            End::SourceFailed,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello",
            End::Complete,
        ),
    ] {
        locally(async {
            let mut proxy = Setup::default().start();
            let ear = Rc::new(Ear::default());
            *proxy.relay.observer.borrow_mut() = Some(Rc::clone(&ear) as Rc<dyn BodyObserver>);
            send(
                &mut proxy.client,
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            )
            .await;
            let mut backend = proxy.backend().await;
            send(&mut backend, said).await;
            if said.ends_with("hello") {
                read_to(&mut proxy.client, "hello").await;
            }
            drop(backend);
            proxy.client.shutdown().await.unwrap();
            read_all(&mut proxy.client).await;
            settle().await;
            assert_eq!(ear.1.get(), Some(ends), "{said}");
            assert_eq!(
                ear.0.get(),
                if said.contains("hello") { 5 } else { 0 },
                "{said}"
            );
        })
        .await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_response_abandons_it() {
    locally(async {
        let mut proxy = Setup::default().start();
        let ear = Rc::new(Ear::default());
        *proxy.relay.observer.borrow_mut() = Some(Rc::clone(&ear) as Rc<dyn BodyObserver>);
        let mut backend = proxy.backend_asked(GET).await;
        send(
            &mut backend,
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        )
        .await;
        read_to(&mut proxy.client, "hello").await;
        drop(proxy.client);
        send(&mut backend, "wor").await;
        settle().await;
        assert_eq!(ear.1.get(), Some(End::Abandoned));
        assert!(matches!(
            proxy.serving.await.unwrap(),
            Ended::Closed(Closed::Broken(_))
        ));
        assert_eq!(read_all(&mut backend).await, "");
    })
    .await;
}

#[tokio::test]
async fn responses_with_conflicting_lengths_are_a_bad_gateway() {
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: 5x",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "X: a\r\n folded",
    ] {
        locally(async {
            let mut proxy = Setup::default().start();
            let mut backend = proxy.backend_asked(GET).await;
            send(
                &mut backend,
                &format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n0\r\n\r\n"),
            )
            .await;
            let head = read_head(&mut proxy.client).await;
            assert!(head.starts_with("HTTP/1.1 502"), "{lengths}: {head}");
            settle().await;
            assert_eq!(proxy.pool.idle(), 0, "{lengths}");
        })
        .await;
    }
}

#[tokio::test]
async fn head_and_304_keep_their_length_without_a_body() {
    for (method, status) in [("HEAD", "200 OK"), ("GET", "304 Not Modified")] {
        locally(async {
            let mut proxy = Setup::default().start();
            for _ in 0..2 {
                send(
                    &mut proxy.client,
                    &format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"),
                )
                .await;
            }
            let mut backend = proxy.backends.recv().await.unwrap();
            for _ in 0..2 {
                read_head(&mut backend).await;
                send(
                    &mut backend,
                    &format!("HTTP/1.1 {status}\r\nContent-Length: 77\r\n\r\n"),
                )
                .await;
                let head = read_head(&mut proxy.client).await;
                assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
                assert_eq!(
                    method == "HEAD",
                    head.contains("content-length: 77"),
                    "{head}"
                );
            }
        })
        .await;
    }
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_whether_announced_or_not() {
    let limits = ServerLimits {
        body_bytes: 10,
        ..ServerLimits::default()
    };
    locally(async {
        let mut proxy = Setup {
            limits,
            ..Setup::default()
        }
        .start();
        send(
            &mut proxy.client,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n",
        )
        .await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 413")
        );
        assert_eq!(proxy.relay.connected.get(), 0);

        let mut proxy = Setup {
            limits,
            ..Setup::default()
        }
        .start();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        send(
            &mut proxy.client,
            &format!("{head}6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n"),
        )
        .await;
        assert!(
            read_head(&mut proxy.client)
                .await
                .starts_with("HTTP/1.1 413")
        );
    })
    .await;
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_refused_body_still_gets_the_answer() {
    for framing in ["Content-Length: 200000", "Transfer-Encoding: chunked"] {
        locally(async {
            let limits = ServerLimits {
                body_bytes: 10,
                ..ServerLimits::default()
            };
            let mut proxy = Setup {
                limits,
                ..Setup::default()
            }
            .start();
            send(
                &mut proxy.client,
                &format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"),
            )
            .await;
            let body = if framing.starts_with('C') {
                "x".repeat(200_000)
            } else {
                "1\r\nx\r\n".repeat(33_000)
            };
            send(&mut proxy.client, &body).await;
            proxy.client.shutdown().await.unwrap();
            let answer = read_all(&mut proxy.client).await;
            assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
            assert!(matches!(
                proxy.serving.await.unwrap(),
                Ended::Closed(Closed::Complete)
            ));
        })
        .await;
    }
}
