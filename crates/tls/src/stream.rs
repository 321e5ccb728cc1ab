//! An established connection over a socket.
//!
//! Reading and writing go through the worker's shared scratch space. A stream owns memory only for a
//! record that has come in part, for plaintext that its reader had no room for, and for records that
//! the socket has not taken yet; each is given back as soon as it is empty.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_terms::{CipherSuite, CpuTime, Culprit};

use crate::buffers::{BATCH_BYTES, Buffers, READ_BYTES, RECORD_BYTES};
use crate::failure::{Failure, FailureReason, Side};
use crate::ledger::{Clocks, RecordWay, suite_row};
use crate::session::{Closed, Received};
use crate::timing::CpuClock;

pub(crate) use crate::session::Session;

/// What the end of the transport without a `close_notify` alert means to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BareEof {
    /// An end like any other: clients often leave so.
    Accepted,
    /// An error: what came may be cut short.
    Refused,
}

/// How far the sending direction is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Open,
    /// The `close_notify` alert is among what is unsent, or has been sent.
    Closed,
}

/// A TLS connection: plaintext on this side, records on the side of `IO`.
///
/// A ticket that belongs to the handshake is held back and leaves with the first write, with
/// [`TlsStream::poll_flush_held`], or with the end of the stream.
pub struct TlsStream<IO> {
    io: IO,
    session: Session,
    buffers: Buffers,
    /// Received, not yet consumed by the session.
    partial: Vec<u8>,
    /// Records that the socket has not taken yet.
    unsent: Unsent,
    /// Plaintext that the reader had no room for, from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    closed: Option<Closed>,
    sending: Sending,
    bare_eof: BareEof,
    /// Where the ledger counts records of this suite.
    suite_row: u8,
}

/// What the sink of a reader does with plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// Keeps it: that is part of opening a record.
    Keeps,
    /// Sends it on, which is not.
    Sends,
}

#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl<IO> TlsStream<IO> {
    /// A stream whose handshake is complete. `partial` is what was received and not consumed.
    pub(crate) fn established(
        io: IO,
        session: Session,
        suite: CipherSuite,
        mut partial: Vec<u8>,
        buffers: &Buffers,
    ) -> Self {
        partial.shrink_to_fit();
        Self {
            io,
            bare_eof: match session.side() {
                Side::Server => BareEof::Accepted,
                Side::Client => BareEof::Refused,
            },
            session,
            buffers: buffers.clone(),
            partial,
            unsent: Unsent::default(),
            plain: Vec::new(),
            plain_at: 0,
            closed: None,
            sending: Sending::Open,
            suite_row: suite_row(suite),
        }
    }

    /// The socket.
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// The socket. Bytes read or written here are missing from the connection.
    pub fn get_mut(&mut self) -> &mut IO {
        &mut self.io
    }

    /// Whether the peer's direction has ended, and how.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Whether the transport's end without `close_notify` is an error to [`AsyncRead`]; it is by
    /// default towards a backend and is not towards a client.
    pub fn refuse_bare_eof(&mut self, refuse: bool) {
        self.bare_eof = match refuse {
            true => BareEof::Refused,
            false => BareEof::Accepted,
        };
    }

    /// Whether nothing is buffered: no part of a record, no plaintext, no unsent record, no ticket.
    pub fn is_quiet(&self) -> bool {
        self.partial.is_empty()
            && self.unsent.bytes.is_empty()
            && self.plain.is_empty()
            && self.session.held().is_empty()
    }

    /// Whether a ticket or another handshake message waits for the first write.
    pub fn holds_ticket(&self) -> bool {
        !self.session.held().is_empty()
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> TlsStream<IO> {
    /// Reads once and hands the plaintext of each record to `sink`, which must not use this worker's
    /// streams for reading. Ready with some plaintext or with the end of the peer's direction.
    ///
    /// # Errors
    /// When the socket fails, the peer breaks the protocol, or a fatal alert comes; an alert of ours
    /// has then been sent, as far as that goes without waiting.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Received>> {
        self.poll_receive_at_most(cx, READ_BYTES, Sink::Sends, sink)
    }

    fn poll_receive_at_most(
        &mut self,
        cx: &mut Context<'_>,
        window: usize,
        kind: Sink,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Received>> {
        let mut received = Received::default();
        if self.plain_at < self.plain.len() {
            received.plain = self.plain.len() - self.plain_at;
            sink(&self.plain[self.plain_at..]);
            self.forget_plain();
            return Poll::Ready(Ok(received));
        }
        if self.closed.is_some() {
            received.closed = self.closed;
            return Poll::Ready(Ok(received));
        }
        // What the handshake left over may hold whole records, so the first look needs no socket.
        let mut read_first = self.partial.is_empty();
        loop {
            let step = ready!(self.poll_decrypt(cx, (window, read_first), kind, sink))?;
            read_first = true;
            if self.session.is_urgent() {
                // An answer that cannot leave now leaves with the next write or flush.
                let _ = self.poll_flush_held(cx);
            }
            if step.plain > 0 || step.closed.is_some() {
                self.closed = step.closed;
                return Poll::Ready(Ok(step));
            }
        }
    }

    fn poll_decrypt(
        &mut self,
        cx: &mut Context<'_>,
        (window, read): (usize, bool),
        kind: Sink,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Received>> {
        let buffers = self.buffers.clone();
        let Ok(mut input) = buffers.input().try_borrow_mut() else {
            return Poll::Ready(Err(reentered().into()));
        };
        let kept = self.partial.len();
        let mut filled = kept;
        let mut eof = false;
        if read {
            let end = (kept + window).min(input.len());
            if kept >= end {
                return Poll::Ready(Err(message_too_long(self.session.side()).into()));
            }
            let mut space = ReadBuf::new(&mut input[kept..end]);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
            filled += space.filled().len();
            eof = filled == kept;
        }
        input[..kept].copy_from_slice(&self.partial);
        let mut received = match self.open_records(&mut input[..filled], kind, sink) {
            Ok(received) => received,
            Err(failure) => {
                drop(input);
                self.partial = Vec::new();
                self.closed = Some(Closed::Eof);
                self.sending = Sending::Closed;
                let _ = self.poll_flush_held(cx);
                return Poll::Ready(Err(failure.into()));
            }
        };
        self.partial.clear();
        self.partial
            .extend_from_slice(&input[received.consumed..filled]);
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        if eof && received.closed.is_none() {
            received.closed = Some(Closed::Eof);
        }
        Poll::Ready(Ok(received))
    }

    /// Opens what is complete in `input`, and counts what that takes. Has a frame of its own, by which
    /// `bench/ledger` finds the same section in a profile.
    #[inline(never)]
    fn open_records(
        &mut self,
        input: &mut [u8],
        kind: Sink,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Received, Failure> {
        let Some(Clocks { now: clock, .. }) = self.buffers.ledger().clocks() else {
            return self.session.receive(input, sink);
        };
        let mut elsewhere = CpuTime(0);
        let before = clock();
        let received = match kind {
            Sink::Keeps => self.session.receive(input, sink),
            Sink::Sends => self.session.receive(input, &mut |plain| {
                let before = clock();
                sink(plain);
                elsewhere += clock() - before;
            }),
        };
        let took = clock() - before - elsewhere;
        let seen = received.as_ref().map(|seen| (seen.records, seen.plain));
        let seen = seen.unwrap_or_default();
        let ledger = self.buffers.ledger();
        ledger.record(self.suite_row, RecordWay::Opened, seen, took);
        received
    }

    /// Counts so many records and bytes sealed since `begun`.
    fn count_sealed(&self, begun: Option<(CpuClock, CpuTime)>, sealed: (usize, usize)) {
        if let Some((clock, before)) = begun {
            let ledger = self.buffers.ledger();
            ledger.record(self.suite_row, RecordWay::Sealed, sealed, clock() - before);
        }
    }

    fn begin_sealing(&self) -> Option<(CpuClock, CpuTime)> {
        let clock = self.buffers.ledger().clocks()?.now;
        Some((clock, clock()))
    }

    /// Encrypts up to 32 KB of `plain` and sends it. Ready with the number of bytes taken; what the
    /// socket does not take at once is kept, and nothing more is taken before it is gone.
    ///
    /// # Errors
    /// When the socket fails or the sending direction is closed.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, plain: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_pieces(cx, &[IoSlice::new(plain)])
    }

    /// As [`TlsStream::poll_send`] with several pieces; short ones share a record.
    ///
    /// # Errors
    /// As [`TlsStream::poll_send`].
    pub fn poll_send_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.sending == Sending::Closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_unsent(cx))?;
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let buffers = self.buffers.clone();
        let mut output = buffers.output().borrow_mut();
        let (filled, taken) = self.seal_records(pieces, &mut output)?;
        self.push(cx, &output[..filled])?;
        Poll::Ready(Ok(taken))
    }

    /// Seals a batch behind what is held, and counts what that takes. Returns the length of the output and
    /// how much plaintext is in it. Has a frame of its own, as [`TlsStream::open_records`] has.
    #[inline(never)]
    fn seal_records(
        &mut self,
        pieces: &[IoSlice<'_>],
        output: &mut [u8],
    ) -> Result<(usize, usize), Failure> {
        let begun = self.begin_sealing();
        let buffers = self.buffers.clone();
        let mut filled = self.take_held(output);
        let (mut taken, mut records) = (0, 0);
        let mut rest = Pieces { pieces, at: 0 };
        let mut gather = buffers.gather().borrow_mut();
        while taken < BATCH_BYTES {
            let room = BATCH_BYTES - taken;
            let chunk = rest.next(room, &mut gather);
            if chunk.is_empty() {
                break;
            }
            taken += chunk.len();
            records += chunk.len().div_ceil(RECORD_BYTES);
            filled += self.session.seal_into(chunk, &mut output[filled..])?;
        }
        self.count_sealed(begun, (records, taken));
        Ok((filled, taken))
    }

    /// Sends a ticket that is held back, and whatever else is unsent. To be called when there has been
    /// no write for a while after the handshake.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn poll_flush_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        if !self.session.held().is_empty() {
            let buffers = self.buffers.clone();
            let mut output = buffers.output().borrow_mut();
            let filled = self.take_held(&mut output);
            self.push(cx, &output[..filled])?;
            ready!(self.poll_unsent(cx))?;
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Sends what is unsent.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.session.is_urgent() {
            return self.poll_flush_held(cx);
        }
        ready!(self.poll_unsent(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Ends our direction: what is unsent, what is held back, `close_notify`, and the end of the
    /// socket's sending side. The peer may go on sending.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_farewell(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// As [`TlsStream::poll_shutdown`], but leaves it to the drop of the stream to end the socket: for
    /// when nothing is to be read any more, and that is one system call less.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        if self.sending == Sending::Open {
            self.sending = Sending::Closed;
            let buffers = self.buffers.clone();
            let mut output = buffers.output().borrow_mut();
            let begun = self.begin_sealing();
            let mut filled = self.take_held(&mut output);
            // A connection that has failed has sent its alert already.
            if let Ok(written) = self.session.close_into(&mut output[filled..]) {
                filled += written;
            }
            self.count_sealed(begun, (1, 0));
            self.push(cx, &output[..filled])?;
        }
        self.poll_unsent(cx)
    }

    /// Moves what is held back to the front of `output`.
    fn take_held(&mut self, output: &mut [u8]) -> usize {
        let held = self.session.held().len();
        let Some(front) = output.get_mut(..held) else {
            return 0;
        };
        front.copy_from_slice(self.session.held());
        if held > 0 {
            self.session.forget_held();
        }
        held
    }

    /// Writes once; what is left over is kept.
    fn push(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = match Pin::new(&mut self.io).poll_write(cx, bytes) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        if written < bytes.len() {
            self.unsent.bytes.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent.sent < self.unsent.bytes.len() {
            let rest = &self.unsent.bytes[self.unsent.sent..];
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.sent += written;
        }
        if self.unsent.sent > 0 {
            self.unsent = Unsent::default();
        }
        Poll::Ready(Ok(()))
    }

    fn forget_plain(&mut self) {
        self.plain = Vec::new();
        self.plain_at = 0;
    }
}

/// What is still to be sent of several pieces.
struct Pieces<'a, 'b> {
    pieces: &'a [IoSlice<'b>],
    /// Bytes of the first piece that are gone.
    at: usize,
}

impl<'a> Pieces<'a, '_> {
    /// The next chunk of at most `room` bytes: one long piece by itself, or as many pieces as a
    /// record holds, put together in `gather`. Empty at the end.
    fn next<'g>(&mut self, room: usize, gather: &'g mut [u8]) -> &'g [u8]
    where
        'a: 'g,
    {
        let mut filled = 0;
        while let Some((first, others)) = self.pieces.split_first() {
            let piece: &'a [u8] = &first[self.at..];
            if piece.is_empty() {
                self.pieces = others;
                self.at = 0;
                continue;
            }
            let alone = others.iter().all(|other| other.is_empty());
            if filled == 0 && (alone || piece.len() >= RECORD_BYTES) {
                // Whole records, unless this is all there is.
                let length = match piece.len() {
                    length if length <= room => match alone {
                        true => length,
                        false => length - length % RECORD_BYTES,
                    },
                    _ => room,
                };
                self.at += length;
                return &piece[..length];
            }
            let length = piece.len().min(room - filled).min(gather.len() - filled);
            if length == 0 {
                break;
            }
            gather[filled..filled + length].copy_from_slice(&piece[..length]);
            filled += length;
            self.at += length;
        }
        &gather[..filled]
    }
}

fn reentered() -> Failure {
    Failure::new(
        FailureReason::Internal,
        Culprit::Us,
        "a stream was read while the plaintext of another was being handed over",
    )
}

fn message_too_long(side: Side) -> Failure {
    Failure::too_long(side, crate::buffers::INPUT_BYTES)
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if this.plain_at < this.plain.len() {
            let rest = &this.plain[this.plain_at..];
            let length = rest.len().min(into.remaining());
            into.put_slice(&rest[..length]);
            this.plain_at += length;
            if this.plain_at == this.plain.len() {
                this.forget_plain();
            }
            return Poll::Ready(Ok(()));
        }
        let window = (into.remaining() + 64).clamp(RECORD_BYTES + 512, READ_BYTES);
        let mut left = Vec::new();
        let received = this.poll_receive_at_most(cx, window, Sink::Keeps, &mut |plain| {
            let length = plain.len().min(into.remaining());
            into.put_slice(&plain[..length]);
            left.extend_from_slice(&plain[length..]);
        });
        this.plain = left;
        let received = ready!(received)?;
        let bare = received.plain == 0 && received.closed == Some(Closed::Eof);
        if bare && this.bare_eof == BareEof::Refused {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the peer closed without close_notify; what came may be cut short",
            )));
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        plain: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, plain)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send_pieces(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_shutdown(cx)
    }
}
