//! The webhook against receivers that answer, refuse, come back, and never say a word.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Instant;

use tokio::task::LocalSet;
use tollgate_config::{Span, Spanned};
use tollgate_meter::alarms::State;
use tollgate_testkit::{Address, Authority, BackendTls, Folder, LeafKind, http_backend};

use super::*;

fn change(name: &'static str) -> Change {
    Change {
        at: 1_790_000_000.5,
        name,
        subject: "shop.example".into(),
        state: State::Firing,
        sentence: "41.0 % of handshakes resumed".into(),
        value: Some(0.41),
        threshold: 0.7,
        unit: "share",
    }
}

fn receiver(port: u16) -> Receiver {
    Receiver {
        host: "127.0.0.1".into(),
        port,
        path: "/hook?key=secret".into(),
        tls: None,
    }
}

/// Answers each connection with the next of `answers`; sends every request as text.
fn listener(answers: &'static [&'static str]) -> (u16, std_mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, requests) = std_mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = Vec::new();
            let mut buffer = [0; 4_096];
            while !text.ends_with(b"}") {
                let read = stream.read(&mut buffer).unwrap();
                assert_ne!(read, 0, "the request has no end");
                text.extend_from_slice(&buffer[..read]);
            }
            // The test may have seen enough.
            let _ = seen.send(String::from_utf8(text).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (port, requests)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test)
}

/// What a receiver saw, without keeping the runtime from running.
async fn next(requests: &std_mpsc::Receiver<String>) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match requests.try_recv() {
            Ok(request) => return request,
            Err(_) if Instant::now() > deadline => panic!("nothing came"),
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

#[test]
fn a_change_is_posted_as_json() {
    const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
    let (port, requests) = listener(&[OK, OK]);
    run(async {
        let webhook = Webhook::start(receiver(port), "edge-1");
        webhook.tell(&change("hit_rate_low"));
        webhook.tell(&change("fresh_rate_high"));
        let first = next(&requests).await;
        let (head, body) = first.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("POST /hook?key=secret HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains(&format!("host: 127.0.0.1:{port}")), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        for (key, value) in [
            ("name", "hit_rate_low"),
            ("subject", "shop.example"),
            ("state", "firing"),
            ("severity", "warning"),
            ("sentence", "41.0 % of handshakes resumed"),
            ("unit", "share"),
            ("host", "edge-1"),
        ] {
            assert_eq!(body[key], value, "{body}");
        }
        assert_eq!(body["value"], 0.41);
        assert_eq!(body["threshold"], 0.7);
        assert_eq!(body["at_seconds"], 1_790_000_000.5);
        assert!(body["advice"].as_str().unwrap().len() > 20);
        assert!(
            next(&requests).await.contains("fresh_rate_high"),
            "in their order"
        );
    });
}

#[test]
fn a_receiver_in_trouble_is_asked_once_more_and_one_that_refuses_is_not() {
    let (port, requests) = listener(&[
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ]);
    run(async {
        let webhook = Webhook::start(receiver(port), "edge-1");
        webhook.tell(&change("hit_rate_low"));
        assert!(next(&requests).await.contains("hit_rate_low"));
        assert!(next(&requests).await.contains("hit_rate_low"), "once more");
        webhook.tell(&change("tls_cpu_high"));
        webhook.tell(&change("fresh_rate_high"));
        assert!(next(&requests).await.contains("tls_cpu_high"));
        assert!(
            next(&requests).await.contains("fresh_rate_high"),
            "a refusal stands"
        );
    });
}

#[test]
fn a_receiver_that_never_answers_keeps_nobody_waiting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    run(async {
        let webhook = Webhook::start(receiver(port), "edge-1");
        // Far more than the queue holds: each call comes back without the receiver having said a word.
        for _ in 0..QUEUE + 4 {
            webhook.tell(&change("hit_rate_low"));
            tokio::task::yield_now().await;
        }
        assert_eq!(webhook.queue.capacity(), 0);
        let outcome = receiver(port).deliver("{}").await;
        let Err(undelivered) = outcome else {
            panic!("nobody answered")
        };
        assert!(
            undelivered.again && undelivered.why.contains("no answer within"),
            "{}",
            undelivered.why
        );
    });
}

#[test]
fn a_receiver_that_is_not_there_is_named_without_its_path() {
    let port = tollgate_testkit::free_port();
    run(async {
        let outcome = receiver(port).deliver("{}").await;
        assert!(outcome.is_err_and(|undelivered| undelivered.again));
        assert_eq!(receiver(port).name(), format!("127.0.0.1:{port}"));
        assert!(!format!("{:?}", receiver(port)).contains("secret"));
    });
}

fn https(folder: &Folder, ca: &Authority, port: u16) -> Result<Receiver, Finding> {
    let file = folder.write("ca.pem", ca.root_pem());
    Receiver::read(&WebhookConfig {
        span: Span::default(),
        tls: true,
        host: "localhost".into(),
        port,
        path: "/hook".into(),
        ca: Some(Spanned {
            value: file,
            span: Span::default(),
        }),
    })
}

#[test]
fn over_https_the_receiver_must_be_the_one_that_it_says() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let leaf = ours.server(LeafKind::EcdsaP256, &["localhost"]);
    let tls = BackendTls::new(&leaf, None, &["http/1.1"]);
    let backend = http_backend(&Address::Loopback, Some(tls), "receiver", false);
    let port = backend
        .address()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let folder = Folder::new();
    run(async {
        assert!(
            https(&folder, &ours, port)
                .unwrap()
                .deliver("{}")
                .await
                .is_ok()
        );
        let outcome = https(&folder, &other, port).unwrap().deliver("{}").await;
        assert!(outcome.is_err(), "another authority signed it");
    });
    let heads = backend.seen().heads();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(heads[0].starts_with("POST /hook HTTP/1.1"), "{heads:?}");
}

#[test]
fn a_bundle_that_is_not_there_is_a_finding() {
    let config = WebhookConfig {
        span: Span::default(),
        tls: true,
        host: "localhost".into(),
        port: 443,
        path: "/".into(),
        ca: Some(Spanned {
            value: "/nowhere/ca.pem".into(),
            span: Span { start: 3, end: 5 },
        }),
    };
    let finding = Receiver::read(&config).unwrap_err();
    assert!(
        finding.title.contains("/nowhere/ca.pem"),
        "{}",
        finding.title
    );
    assert_eq!(finding.span, Some(Span { start: 3, end: 5 }));
}
