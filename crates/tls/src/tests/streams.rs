//! Connections over an in-memory transport: beginnings, back-pressure, ends.

use std::io::{IoSlice, Write as _};
use std::pin::Pin;
use std::task::Poll;

use rustls::ClientConnection;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tollgate_terms::{CertificateKind, HandshakeFacts, HandshakeKind, TlsVersion};

use super::support::{Client, Offer, incoming, outgoing, policy, site};
use crate::{
    Buffers, Closed, Failure, FailureReason, HelloFailure, ServerSite, TlsStream, alert_bytes,
    handshake, read_hello,
};

const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

/// The library's client over one end of a pipe.
struct Peer {
    io: DuplexStream,
    tls: ClientConnection,
    plain: Vec<u8>,
}

impl Peer {
    fn new(io: DuplexStream, tls: ClientConnection) -> Self {
        Self {
            io,
            tls,
            plain: Vec::new(),
        }
    }

    async fn push(&mut self) {
        let bytes = outgoing(&mut self.tls);
        self.io.write_all(&bytes).await.unwrap();
    }

    /// Reads once; false at the end of the transport.
    async fn pull(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let length = self.io.read(&mut bytes).await.unwrap();
        let plain = incoming(&mut self.tls, &bytes[..length]);
        self.plain.extend_from_slice(&plain);
        length > 0
    }

    async fn shake(&mut self) {
        self.push().await;
        while self.tls.is_handshaking() {
            if !self.pull().await {
                return;
            }
            self.push().await;
        }
        self.push().await;
    }

    async fn send(&mut self, plain: &[u8]) {
        for piece in plain.chunks(16_000) {
            self.tls.writer().write_all(piece).unwrap();
            self.push().await;
        }
    }

    async fn expect(&mut self, length: usize) -> Vec<u8> {
        while self.plain.len() < length {
            assert!(self.pull().await, "the stream ended early");
        }
        self.plain.drain(..length).collect()
    }

    async fn end(&mut self) {
        self.tls.send_close_notify();
        self.push().await;
        self.io.shutdown().await.unwrap();
    }
}

/// One write and its reading, both done.
type Exchange<'a> = Pin<Box<dyn Future<Output = ((), ())> + 'a>>;

type Accepted = Result<(TlsStream<DuplexStream>, HandshakeFacts), Failure>;

async fn accept(mut io: DuplexStream, site: &ServerSite, buffers: &Buffers) -> Accepted {
    let (hello, raw) = read_hello(&mut io, buffers).await.unwrap();
    handshake(io, raw, &hello, site, buffers)
        .await
        .map(|(stream, facts, _)| (stream, facts))
        .map_err(|(_, failure)| failure)
}

/// A connection through a pipe of `room` bytes each way.
async fn connected(version: TlsVersion, room: usize) -> (TlsStream<DuplexStream>, Peer) {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let client = Client::new(&Offer {
        version: Some(version),
        ..Offer::default()
    });
    let (near, far) = duplex(room);
    let mut peer = Peer::new(far, client.connection());
    let buffers = Buffers::new();
    let (accepted, ()) = tokio::join!(accept(near, &site, &buffers), peer.shake());
    let (stream, facts) = accepted.unwrap();
    assert_eq!(facts.version, version);
    assert_eq!(facts.kind, HandshakeKind::Full);
    (stream, peer)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

async fn write(stream: &mut TlsStream<DuplexStream>, plain: &[u8]) {
    stream.write_all(plain).await.unwrap();
    stream.flush().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn bytes_pass_both_ways_through_pipes_of_any_size() {
    for version in BOTH {
        // The client sends six bytes before it has read the server's whole flight.
        for room in [6, 100, 5_000, 1 << 20] {
            let length = if room < 100 { 3_000 } else { 200_000 };
            let (mut stream, mut peer) = connected(version, room).await;
            let sent = pattern(length);
            tokio::join!(write(&mut stream, &sent), async {
                assert_eq!(peer.expect(length).await, sent);
            });
            let mut got = vec![0; length];
            tokio::join!(peer.send(&sent), async {
                stream.read_exact(&mut got).await.unwrap();
            });
            assert_eq!(got, sent, "{version}, room for {room}");
            assert!(stream.is_quiet());
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_ticket_leaves_with_the_first_write() {
    let (mut stream, mut peer) = connected(TlsVersion::Tls13, 1 << 20).await;
    assert!(stream.holds_ticket() && !stream.is_quiet());
    // A flush with nothing to send does not push it out.
    stream.flush().await.unwrap();
    assert!(stream.holds_ticket());
    write(&mut stream, b"first").await;
    assert!(!stream.holds_ticket() && stream.is_quiet());
    assert_eq!(peer.tls.tls13_tickets_received(), 0);
    assert!(peer.pull().await, "ticket and data come in one piece");
    assert_eq!(peer.plain, b"first");
    assert_eq!(peer.tls.tls13_tickets_received(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn the_ticket_leaves_by_itself_when_told_so_and_with_the_end() {
    let (mut stream, mut peer) = connected(TlsVersion::Tls13, 1 << 20).await;
    std::future::poll_fn(|cx| stream.poll_flush_held(cx))
        .await
        .unwrap();
    assert!(peer.pull().await);
    assert_eq!(peer.tls.tls13_tickets_received(), 1);

    let (mut stream, mut peer) = connected(TlsVersion::Tls13, 1 << 20).await;
    stream.shutdown().await.unwrap();
    while peer.pull().await {}
    assert_eq!(peer.tls.tls13_tickets_received(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn a_head_and_a_small_body_share_a_record() {
    for version in BOTH {
        let (mut stream, mut peer) = connected(version, 1 << 20).await;
        std::future::poll_fn(|cx| stream.poll_flush_held(cx))
            .await
            .unwrap();
        let pieces = [&b"head"[..], b"", b"body", b"!"].map(IoSlice::new);
        assert!(stream.is_write_vectored());
        let taken =
            std::future::poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &pieces))
                .await
                .unwrap();
        assert_eq!(taken, 9);
        // What is on the wire: perhaps a ticket, then one record of nine bytes and its overhead.
        let mut wire = vec![0; 4096];
        let length = peer.io.read(&mut wire).await.unwrap();
        let mut records = Vec::new();
        let mut at = 0;
        while at < length {
            let size = usize::from(wire[at + 3]) << 8 | usize::from(wire[at + 4]);
            records.push((wire[at], size));
            at += 5 + size;
        }
        let last = records.last().unwrap();
        assert!(last.0 == 23 && last.1 <= 9 + 8 + 17, "{records:?}");
        assert!(records.len() <= 2, "{records:?}");
        assert_eq!(incoming(&mut peer.tls, &wire[..length]), b"headbody!");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn pieces_of_all_sizes_arrive_in_order() {
    let (mut stream, mut peer) = connected(TlsVersion::Tls13, 1 << 20).await;
    let whole = pattern(120_000);
    for cuts in [
        vec![10, 20_000, 40_000, 60_000],
        vec![16_384, 32_768],
        vec![1, 2, 3, 16_000, 16_400],
        vec![40_000],
    ] {
        let mut at = 0;
        while at < whole.len() {
            let mut ends: Vec<usize> = cuts.iter().copied().filter(|cut| *cut > at).collect();
            ends.push(whole.len());
            let mut start = at;
            let pieces: Vec<IoSlice<'_>> = ends
                .iter()
                .map(|end| {
                    let piece = IoSlice::new(&whole[start..*end]);
                    start = *end;
                    piece
                })
                .collect();
            at += stream.write_vectored(&pieces).await.unwrap();
        }
        stream.flush().await.unwrap();
        assert_eq!(peer.expect(whole.len()).await, whole);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_writer_waits_for_a_reader_that_does_not_read() {
    let (mut stream, mut peer) = connected(TlsVersion::Tls13, 4_096).await;
    let sent = pattern(300_000);
    let mut taken = 0;
    // One batch is taken beyond what the pipe holds, and then no more.
    loop {
        let wrote = std::future::poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut stream).poll_write(cx, &sent[taken..]))
        })
        .await;
        match wrote {
            Poll::Ready(wrote) => taken += wrote.unwrap(),
            Poll::Pending => break,
        }
    }
    assert!(taken <= 32 * 1024, "{taken} taken");
    assert!(!stream.is_quiet());
    tokio::join!(write(&mut stream, &sent[taken..]), async {
        assert_eq!(peer.expect(sent.len()).await, sent);
    });
    assert!(stream.is_quiet());
}

#[tokio::test(flavor = "current_thread")]
async fn a_reader_with_little_room_loses_nothing() {
    let (mut stream, mut peer) = connected(TlsVersion::Tls12, 1 << 20).await;
    let sent = pattern(50_000);
    peer.send(&sent).await;
    let mut got = Vec::new();
    while got.len() < sent.len() {
        let mut little = [0; 777];
        let length = stream.read(&mut little).await.unwrap();
        got.extend_from_slice(&little[..length]);
    }
    assert_eq!(got, sent);
    assert!(stream.is_quiet());
}

#[tokio::test(flavor = "current_thread")]
async fn after_the_clients_end_the_server_can_still_send() {
    for version in BOTH {
        let (mut stream, mut peer) = connected(version, 1 << 20).await;
        peer.send(b"last words").await;
        peer.end().await;
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"last words");
        assert_eq!(stream.closed(), Some(Closed::CloseNotify));
        // The library's client stops reading once it has both ends closed, so only sending is checked.
        stream.write_all(b"an answer").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(peer.expect(9).await, b"an answer");
        assert!(!peer.pull().await);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn after_its_own_end_the_server_can_still_receive() {
    for version in BOTH {
        let (mut stream, mut peer) = connected(version, 1 << 20).await;
        stream.shutdown().await.unwrap();
        assert!(stream.write(b"too late").await.is_err());
        peer.send(b"still here").await;
        peer.end().await;
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"still here");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_end_without_close_notify_can_be_told_apart() {
    for refuse in [false, true] {
        let (mut stream, mut peer) = connected(TlsVersion::Tls13, 1 << 20).await;
        stream.refuse_bare_eof(refuse);
        peer.send(b"cut of").await;
        drop(peer);
        let mut got = Vec::new();
        let end = stream.read_to_end(&mut got).await;
        assert_eq!(got, b"cut of");
        assert_eq!(stream.closed(), Some(Closed::Eof));
        match refuse {
            false => assert!(end.is_ok()),
            true => assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof),
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_speaks_first_keeps_what_the_client_sent_meanwhile() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let (near, far) = duplex(1 << 20);
    let mut peer = Peer::new(far, Client::new(&Offer::default()).connection());
    let buffers = Buffers::new();
    let (accepted, ()) = tokio::join!(accept(near, &site, &buffers), async {
        peer.push().await;
        while peer.tls.is_handshaking() {
            assert!(peer.pull().await);
        }
        // The end of the handshake and the first request travel together.
        peer.tls.writer().write_all(b"request").unwrap();
        peer.push().await;
    });
    let (mut stream, _) = accepted.unwrap();
    write(&mut stream, b"greeting").await;
    assert_eq!(peer.expect(8).await, b"greeting");
    let mut got = [0; 7];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"request");
}

#[tokio::test(flavor = "current_thread")]
async fn a_changed_record_ends_the_stream_with_an_alert() {
    for version in BOTH {
        let (mut stream, mut peer) = connected(version, 1 << 20).await;
        peer.tls.writer().write_all(b"something").unwrap();
        let mut bytes = outgoing(&mut peer.tls);
        *bytes.last_mut().unwrap() ^= 1;
        peer.io.write_all(&bytes).await.unwrap();
        let mut got = [0; 16];
        let error = stream.read(&mut got).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        let failure = error.get_ref().and_then(|e| e.downcast_ref::<Failure>());
        assert_eq!(failure.unwrap().reason(), FailureReason::BadRecord);
        // The alert got out, encrypted.
        let length = peer.io.read(&mut [0; 4096]).await.unwrap();
        assert!(length > 7);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_key_update_is_answered_and_the_stream_goes_on() {
    let (mut stream, mut peer) = connected(TlsVersion::Tls13, 1 << 20).await;
    for round in 0..3 {
        peer.tls.refresh_traffic_keys().unwrap();
        peer.send(b"ping").await;
        let mut got = [0; 4];
        stream.read_exact(&mut got).await.unwrap();
        write(&mut stream, b"pong").await;
        assert_eq!(peer.expect(4).await, b"pong", "round {round}");
    }
    assert!(stream.is_quiet());
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_that_leaves_in_the_handshake_is_closed() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let (near, far) = duplex(1 << 20);
    let mut peer = Peer::new(far, Client::new(&Offer::default()).connection());
    let buffers = Buffers::new();
    let (accepted, ()) = tokio::join!(accept(near, &site, &buffers), async {
        peer.push().await;
        peer.pull().await;
        drop(peer);
    });
    assert_eq!(accepted.err().unwrap().reason(), FailureReason::Closed);
}

#[tokio::test(flavor = "current_thread")]
async fn a_failed_handshake_sends_its_alert() {
    let mut strict = policy(&[CertificateKind::EcdsaP256]);
    strict.min_version = TlsVersion::Tls13;
    let site = site(strict);
    let (near, mut far) = duplex(1 << 20);
    let mut tls = Client::new(&Offer {
        version: Some(TlsVersion::Tls12),
        ..Offer::default()
    })
    .connection();
    far.write_all(&outgoing(&mut tls)).await.unwrap();
    let accepted = accept(near, &site, &Buffers::new()).await;
    assert_eq!(
        accepted.err().unwrap().reason(),
        FailureReason::NoCommonVersion
    );
    let mut alert = Vec::new();
    far.read_to_end(&mut alert).await.unwrap();
    // protocol_version, RFC 8446, section 6.2.
    assert_eq!(alert, alert_bytes(70));
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_no_hello_is_told_apart() {
    for (bytes, label) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "plain http"),
        (&b"SSH-2.0-x\r\n"[..], "refused"),
        (&b""[..], "closed"),
        (&b"\x16\x03\x01"[..], "closed"),
    ] {
        let (mut near, mut far) = duplex(64);
        far.write_all(bytes).await.unwrap();
        drop(far);
        let failure = read_hello(&mut near, &Buffers::new()).await.err().unwrap();
        let got = match failure {
            HelloFailure::PlainHttp => "plain http",
            HelloFailure::Refused(_) => "refused",
            HelloFailure::Closed { bytes: came } => {
                assert_eq!(came, bytes.len());
                "closed"
            }
            HelloFailure::Io(_) => "io",
        };
        assert_eq!(got, label);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn two_streams_of_a_worker_share_their_buffers() {
    let site = site(policy(&[CertificateKind::EcdsaP256]));
    let buffers = Buffers::new();
    let mut open = Vec::new();
    for _ in 0..4 {
        let (near, far) = duplex(3_000);
        let mut peer = Peer::new(far, Client::new(&Offer::default()).connection());
        let (accepted, ()) = tokio::join!(accept(near, &site, &buffers), peer.shake());
        open.push((accepted.unwrap().0, peer));
    }
    let sent = pattern(40_000);
    let tasks = open.iter_mut().map(|(stream, peer)| {
        let sent = &sent;
        async move {
            tokio::join!(write(stream, sent), async {
                assert_eq!(&peer.expect(sent.len()).await, sent);
            })
        }
    });
    let mut tasks: Vec<Exchange<'_>> = tasks.map(|task| Box::pin(task) as Exchange<'_>).collect();
    std::future::poll_fn(|cx| {
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        match tasks.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
