//! What handshakes and records take, by a clock that moves on with every reading.

use std::cell::Cell;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tollgate_keys::{Lifetimes, Ring};
use tollgate_terms::{CertificateKind, CipherSuite, CpuTime, HandshakeFacts, TlsVersion};

use super::support::{HOUR, SETTINGS, START, material, policy, resumption};
use crate::client::{BackendTlsPolicy, ClientOffer, ClientSite};
use crate::{
    Buffers, Clocks, Failure, RecordWay, Records, Resumption, ServerSite, Spent, TlsStream,
    connect, handshake, read_hello,
};

const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Moves on by ten with every reading, so that times tell how often it was read.
fn clock() -> CpuTime {
    NOW.set(NOW.get() + 10);
    CpuTime(NOW.get())
}

/// Nobody keeps this thread from running.
fn clocks() -> Clocks {
    Clocks {
        now: clock,
        held_up: |_| CpuTime(0),
    }
}

struct Place {
    resumption: Arc<Resumption>,
    site: ServerSite,
    client: ClientSite,
    server: Buffers,
}

type Shaken = Result<(TlsStream<DuplexStream>, HandshakeFacts, Spent), Failure>;

impl Place {
    fn new(version: TlsVersion, settings: crate::ResumptionSettings) -> Self {
        let (_, resumption) = resumption(settings);
        let policy = policy(&[CertificateKind::EcdsaP256]);
        let server = Buffers::new();
        server.count_by(Some(clocks()));
        Self {
            site: ServerSite::new(policy, Arc::clone(&resumption)).unwrap(),
            resumption,
            client: client(version),
            server,
        }
    }

    /// A handshake, and what each end has of it. The ticket is sent at once, for the client to keep.
    async fn shake(&self) -> (Shaken, Result<TlsStream<DuplexStream>, Failure>) {
        let (mut near, far) = duplex(64 * 1024);
        let serve = async {
            let (hello, heard) = read_hello(&mut near, &self.server).await.unwrap();
            let shaken = handshake(near, heard, &hello, &self.site, &self.server).await;
            shaken.map_err(|(_, failure)| failure)
        };
        let buffers = Buffers::new();
        let ask = connect(far, &self.client, &buffers);
        let (served, asked) = tokio::join!(serve, ask);
        (served, asked.map(|(stream, _)| stream))
    }

    /// A handshake and an answer of so many bytes, after which the client is gone.
    async fn visit(&self, answer: usize) -> (HandshakeFacts, Spent) {
        let (served, asked) = self.shake().await;
        let ((mut near, facts, spent), mut far) = (served.unwrap(), asked.unwrap());
        let mut read = vec![0; answer];
        far.write_all(b"question").await.unwrap();
        near.read_exact(&mut [0; 8]).await.unwrap();
        near.write_all(&vec![b'x'; answer]).await.unwrap();
        near.flush().await.unwrap();
        far.read_exact(&mut read).await.unwrap();
        (facts, spent)
    }
}

fn client(version: TlsVersion) -> ClientSite {
    let policy = BackendTlsPolicy {
        verify: false,
        name: "shop.example".to_owned(),
        ca: None,
        certificate: None,
        alpn: Vec::new(),
    };
    ClientSite::offering(ClientOffer {
        version: Some(version),
        ..ClientOffer::new(policy)
    })
    .unwrap()
}

#[tokio::test]
async fn a_full_handshake_pays_for_a_signature_and_a_resumed_one_for_a_look_up() {
    for version in BOTH {
        let place = Place::new(version, SETTINGS);
        let (full, paid) = place.visit(8).await;
        let (resumed, saved) = place.visit(8).await;
        assert!(!full.kind.is_resumed() && resumed.kind.is_resumed());
        assert!(paid.cost.asymmetric > saved.cost.asymmetric, "{version}");
        assert!(paid.cost.derivation.0 > 0 && saved.cost.derivation.0 > 0);
        assert_eq!(
            saved.cost.asymmetric.0 > 0,
            version == TlsVersion::Tls13,
            "only TLS 1.3 exchanges keys again"
        );
        assert_eq!((paid.look_ups.times, saved.look_ups.times), (0, 1));
        assert_eq!((paid.tickets, paid.unknown_key), (1, None));
        assert!((100..2_000).contains(&paid.ticket_bytes), "{paid:?}");
        assert_eq!(place.server.take_counts().handshakes.total().0, 0);
    }
}

#[tokio::test]
async fn a_session_in_the_cache_is_a_look_up_too() {
    let place = Place::new(
        TlsVersion::Tls12,
        crate::ResumptionSettings {
            tickets: false,
            ..SETTINGS
        },
    );
    place.visit(8).await;
    let (facts, spent) = place.visit(8).await;
    assert!(facts.kind.is_resumed());
    assert_eq!((spent.look_ups.times, spent.tickets), (1, 0));
    let stored = place.resumption.stored_bytes() as u64;
    assert_eq!(
        (place.resumption.session_bytes(), stored > 0),
        (stored, true)
    );
}

#[tokio::test]
async fn a_ticket_under_a_foreign_key_gives_away_its_name() {
    let place = Place::new(TlsVersion::Tls13, SETTINGS);
    place.visit(8).await;
    let lifetimes = Lifetimes::new(HOUR, HOUR).unwrap();
    let known = place.visit(8).await.1.unknown_key;
    let other = Ring::new(lifetimes, START, material(9));
    place.resumption.set_ring(&other);
    let (facts, spent) = place.visit(8).await;
    assert_eq!((facts.kind.is_resumed(), known), (false, None));
    assert_eq!(spent.unknown_key, Some(material(1).name));
}

#[tokio::test]
async fn handshakes_that_fail_or_are_given_up_are_booked() {
    let place = Place::new(TlsVersion::Tls13, SETTINGS);
    let (mut near, far) = duplex(64 * 1024);
    let other = client(TlsVersion::Tls13);
    let buffers = Buffers::new();
    {
        let mut ask = Box::pin(connect(far, &other, &buffers));
        let _ = poll_once(ask.as_mut()).await;
        let (hello, heard) = read_hello(&mut near, &place.server).await.unwrap();
        let shake = handshake(near, heard, &hello, &place.site, &place.server);
        let mut shake = Box::pin(shake);
        assert!(poll_once(shake.as_mut()).await.is_none());
    }
    let given_up = place.server.take_counts().handshakes;
    assert!(given_up.asymmetric.0 > 0 && given_up.derivation.0 > 0);
    assert_eq!(
        place.server.take_counts().handshakes.total().0,
        0,
        "taken once"
    );

    let (mut near, mut far) = duplex(64 * 1024);
    far.write_all(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0])
        .await
        .unwrap();
    assert!(read_hello(&mut near, &place.server).await.is_err());
    assert!(place.server.take_counts().handshakes.derivation.0 > 0);
}

/// Polls once.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match future.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn records_are_counted_by_suite_and_way_and_timed_per_batch() {
    let place = Place::new(TlsVersion::Tls13, SETTINGS);
    place.visit(20_000).await;
    let taken = place.server.take_counts();
    let records: Vec<Records> = taken.records().collect();
    let expected = |way, records, bytes| Records {
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        way,
        records,
        bytes,
        time: CpuTime(10),
    };
    assert_eq!(
        records,
        [
            expected(RecordWay::Opened, 1, 8),
            expected(RecordWay::Sealed, 2, 20_000)
        ]
    );
    assert_eq!(place.server.take_counts().records().count(), 0);
}

#[tokio::test]
async fn what_a_reader_does_with_plaintext_is_not_charged_to_records() {
    let place = Place::new(TlsVersion::Tls13, SETTINGS);
    let (served, asked) = place.shake().await;
    let ((mut near, ..), mut far) = (served.unwrap(), asked.unwrap());
    place.server.take_counts();
    far.write_all(b"question").await.unwrap();
    far.flush().await.unwrap();
    let received =
        std::future::poll_fn(|cx| near.poll_receive(cx, &mut |_| NOW.set(NOW.get() + 1_000_000)));
    assert_eq!(received.await.unwrap().plain, 8);
    let taken = place.server.take_counts();
    let opened = taken.records().next().unwrap();
    assert!(opened.time.0 > 0 && opened.time.0 < 1_000, "{opened:?}");
}

/// A clock by which everything takes two seconds, of which the thread did not run for most.
fn slow() -> CpuTime {
    NOW.set(NOW.get() + 2_000_000_000);
    CpuTime(NOW.get())
}

#[tokio::test]
async fn a_section_that_was_held_up_is_charged_for_what_it_ran() {
    let place = Place::new(TlsVersion::Tls13, SETTINGS);
    place.server.count_by(Some(Clocks {
        now: slow,
        held_up: |took| took - CpuTime(7),
    }));
    let (_, spent) = place.visit(8).await;
    // Either phase may have been the longer one of a section; the other was not held up.
    assert!(spent.cost.total().0 < 30_000_000_000, "{spent:?}");
    let taken = place.server.take_counts();
    assert!(taken.records().all(|records| records.time == CpuTime(7)));
}

#[tokio::test]
async fn without_a_clock_nothing_is_counted() {
    let place = Place::new(TlsVersion::Tls13, SETTINGS);
    place.server.count_by(None);
    let before = NOW.get();
    let (_, spent) = place.visit(8).await;
    assert_eq!(spent, Spent::default());
    assert_eq!(place.server.take_counts().records().count(), 0);
    assert_eq!(NOW.get(), before);
}
