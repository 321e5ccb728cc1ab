//! The sweep with time handed in: hours pass in microseconds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::future::pending;
use std::task::{Context, Poll, Wake};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tollgate_http::{Body, Protocol, Response, ServerLimits, serve};

use super::*;

const SECOND: Millis = 1000;
/// The period of the sweep.
const TICK: Millis = 250;

fn timeouts() -> Timeouts {
    Timeouts {
        handshake: Duration::from_secs(10),
        header: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        tcp_idle: Duration::from_secs(3600),
        stall: Duration::from_secs(20),
        min_rate: 240,
        connect: Duration::from_secs(2),
        response: Duration::from_secs(60),
        drain: Duration::from_secs(30),
    }
}

/// A roster under a clock that the test turns.
struct Swept {
    roster: Roster,
    now: Millis,
}

impl Swept {
    fn starting_at(now: Millis) -> Self {
        let swept = Self {
            roster: Roster::default(),
            now,
        };
        swept.roster.sweep(now, &timeouts());
        swept
    }

    /// A connection in `phase`, with a task that the sweep can end.
    fn join(&self, phase: Phase) -> Rc<Entry> {
        let entry = self.roster.join();
        self.roster
            .assign(&entry, tokio::spawn(pending::<()>()).abort_handle());
        if phase != Phase::Handshake {
            self.roster.handshaken(&entry, phase);
        }
        entry
    }

    fn pass(&mut self, millis: Millis) {
        let end = self.now.wrapping_add(millis);
        while self.now != end {
            let step = TICK.min(end.wrapping_sub(self.now));
            self.now = self.now.wrapping_add(step);
            self.roster.sweep(self.now, &timeouts());
        }
    }

    /// Sweeps until the connection is ended, at most for two hours; says after how long and why.
    fn outlived(&mut self, entry: &Entry) -> (Millis, Overdue) {
        let began = self.now;
        for _ in 0..4 * 7200 {
            if let Some(overdue) = entry.overdue() {
                return (self.now.wrapping_sub(began), overdue);
            }
            self.pass(TICK);
        }
        panic!("it lives on")
    }
}

/// Runs on a runtime that is there for tasks alone; no test waits for its clock.
fn with_tasks(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_handshake_has_ten_seconds_whatever_it_says_meanwhile() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let entry = swept.join(Phase::Handshake);
        swept.pass(9 * SECOND);
        entry.moved(500);
        let (after, overdue) = swept.outlived(&entry);
        assert_eq!(overdue, Overdue::Handshake);
        assert!((SECOND..=SECOND + 2 * TICK).contains(&after), "{after}");
    });
}

#[test]
fn the_clock_may_wrap() {
    with_tasks(async {
        let mut swept = Swept::starting_at(Millis::MAX - 3 * SECOND);
        let entry = swept.join(Phase::Handshake);
        swept.pass(9 * SECOND);
        assert_eq!(entry.overdue(), None);
        assert_eq!(swept.outlived(&entry).1, Overdue::Handshake);
    });
}

#[test]
fn a_relay_without_a_byte_ends_after_tcp_idle_and_one_byte_starts_it_again() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let entry = swept.join(Phase::Relay);
        swept.pass(3500 * SECOND);
        entry.moved(1);
        swept.pass(3500 * SECOND);
        assert_eq!(entry.overdue(), None);
        let (after, overdue) = swept.outlived(&entry);
        assert_eq!(overdue, Overdue::Idle);
        assert!((100 * SECOND..=101 * SECOND).contains(&after), "{after}");
    });
}

#[test]
fn a_client_that_takes_nothing_is_gone_within_thirty_seconds() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let entry = swept.join(Phase::Relay);
        entry.set_blocked_on_client(true);
        let (after, overdue) = swept.outlived(&entry);
        assert_eq!(overdue, Overdue::Stalled);
        assert!((20 * SECOND..30 * SECOND).contains(&after), "{after}");
    });
}

#[test]
fn a_slow_client_stays_as_long_as_it_keeps_to_the_minimum_rate() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let entry = swept.join(Phase::Relay);
        entry.set_blocked_on_client(true);
        for _ in 0..300 {
            entry.moved(250);
            swept.pass(SECOND);
        }
        assert_eq!(entry.overdue(), None);
        for _ in 0..60 {
            entry.moved(100);
            swept.pass(SECOND);
        }
        assert_eq!(entry.overdue(), Some(Overdue::Stalled));
    });
}

#[test]
fn counts_of_open_connections_and_handshakes_follow_every_way_out() {
    with_tasks(async {
        let swept = Swept::starting_at(0);
        let shaking = swept.join(Phase::Handshake);
        let relaying = swept.join(Phase::Relay);
        let counts = |roster: &Roster| (roster.open(), roster.handshakes());
        assert_eq!(counts(&swept.roster), (2, 1));
        swept.roster.leave(&shaking);
        assert_eq!(counts(&swept.roster), (1, 0));
        let next = swept.join(Phase::Handshake);
        assert_eq!(counts(&swept.roster), (2, 1));
        swept.roster.leave(&relaying);
        swept.roster.leave(&next);
        assert_eq!(counts(&swept.roster), (0, 0));
    });
}

#[test]
fn the_end_of_the_process_ends_all_and_says_so() {
    with_tasks(async {
        let swept = Swept::starting_at(0);
        let entries = [Phase::Handshake, Phase::Relay].map(|phase| swept.join(phase));
        swept.roster.end_all();
        for entry in entries {
            assert_eq!(entry.overdue(), Some(Overdue::Drained));
        }
    });
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_parked_connection_is_asked_to_leave_and_ended_only_when_it_does_not() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let entry = swept.join(Phase::Http);
        entry.attach(ConnectionWatch::new(), true);
        let woken = Arc::new(Woken::default());
        entry.park(&Arc::clone(&woken).into());
        swept.pass(75 * SECOND);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "nobody wakes it before");
        swept.pass(2 * SECOND);
        assert!(entry.is_dismissed());
        assert!(woken.0.load(Ordering::Relaxed) > 0);
        assert_eq!(entry.overdue(), None);
        swept.pass(COURTESY.as_millis() as Millis);
        assert_eq!(entry.overdue(), Some(Overdue::Idle));
    });
}

#[test]
fn a_connection_that_is_served_again_is_no_longer_dismissed() {
    with_tasks(async {
        let swept = Swept::starting_at(0);
        let entry = swept.join(Phase::Http);
        entry.attach(ConnectionWatch::new(), true);
        swept.roster.end_idle();
        assert!(!entry.is_dismissed(), "only who is parked is idle");
        entry.park(&Arc::new(Woken::default()).into());
        swept.roster.end_idle();
        assert!(entry.is_dismissed());
        entry.unpark();
        assert!(!entry.is_dismissed());
    });
}

/// An HTTP connection that is really served, over a pipe in memory.
struct Http {
    client: DuplexStream,
    entry: Rc<Entry>,
}

impl Http {
    /// `bytes` is the size of every response; `None` for a backend that never answers.
    fn serve(swept: &Swept, bytes: Option<usize>) -> Self {
        let (client, server) = duplex(1024);
        let entry = swept.join(Phase::Http);
        let watch = ConnectionWatch::new();
        entry.attach(Rc::clone(&watch), true);
        let serving = async move {
            let limits = ServerLimits::default();
            let handler = move |_| async move {
                match bytes {
                    Some(bytes) => Response::new(Body::full(vec![b'x'; bytes])),
                    None => pending().await,
                }
            };
            serve(server, Protocol::Http1, &limits, &watch, pending(), handler).await;
        };
        tokio::task::spawn_local(serving);
        Self { client, entry }
    }

    async fn say(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.unwrap();
        self.settle().await;
    }

    /// Lets the server do what it can do now.
    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn half_a_head_is_told_to_hurry_after_ten_seconds() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let mut http = Http::serve(&swept, Some(5));
        http.say("GET / HTTP/1.1\r\nhost: a").await;
        swept.pass(10 * SECOND);
        http.settle().await;
        assert_eq!(http.entry.overdue(), None);
        swept.pass(SECOND);
        http.settle().await;
        let mut answer = String::new();
        http.client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    });
}

#[test]
fn a_request_that_waits_for_its_backend_is_left_in_peace() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let mut http = Http::serve(&swept, None);
        http.say("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        swept.pass(3600 * SECOND);
        assert_eq!(http.entry.overdue(), None);
    });
}

#[test]
fn a_client_that_does_not_take_its_response_stalls() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let mut http = Http::serve(&swept, Some(100_000));
        http.say("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let (after, overdue) = swept.outlived(&http.entry);
        assert_eq!(overdue, Overdue::Stalled);
        assert!((20 * SECOND..30 * SECOND).contains(&after), "{after}");
    });
}

#[test]
fn a_client_that_stops_in_the_middle_of_its_body_stalls() {
    with_tasks(async {
        let mut swept = Swept::starting_at(0);
        let (mut client, server) = duplex(1024);
        let entry = swept.join(Phase::Http);
        let watch = ConnectionWatch::new();
        entry.attach(Rc::clone(&watch), true);
        tokio::task::spawn_local(async move {
            let limits = ServerLimits::default();
            let handler = |request: tollgate_http::Request<Body>| async {
                let read = request.into_body().collect(100).await;
                Response::new(Body::full(read.unwrap_or_default()))
            };
            serve(server, Protocol::Http1, &limits, &watch, pending(), handler).await;
        });
        let half = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf";
        client.write_all(half).await.unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(swept.outlived(&entry).1, Overdue::Stalled);
    });
}

#[test]
fn an_idle_connection_gives_up_its_buffers_and_one_that_cannot_is_not_woken() {
    with_tasks(async {
        for parks in [true, false] {
            let mut swept = Swept::starting_at(0);
            let (_client, server) = duplex(1024);
            let entry = swept.join(Phase::Http);
            let watch = ConnectionWatch::new();
            entry.attach(Rc::clone(&watch), parks);
            let handler = |_| async { Response::new(Body::empty()) };
            let limits = ServerLimits::default();
            let mut serving = serve(server, Protocol::Http1, &limits, &watch, pending(), handler);
            let woken = Arc::new(Woken::default());
            let waker = Arc::clone(&woken).into();
            let mut context = Context::from_waker(&waker);
            assert!(serving.as_mut().poll(&mut context).is_pending());
            swept.pass(SECOND);
            assert_eq!(woken.0.load(Ordering::Relaxed) > 0, parks);
            let polled = serving.as_mut().poll(&mut context);
            assert_eq!(
                matches!(polled, Poll::Ready(tollgate_http::Ended::Idle(_))),
                parks
            );
        }
    });
}
