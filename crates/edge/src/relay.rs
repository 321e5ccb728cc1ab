//! Bytes both ways between two ends, with back-pressure and half-close.
//!
//! The worker's one scratch buffer serves every relay; a relay owns memory only for bytes that the
//! other side would not take at once.

use std::cell::RefMut;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;
use tollgate_tls::{Closed, TlsStream};

use crate::client_stream::TICKET_PATIENCE;
use crate::wire::Wire;

/// What one read from an end brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// This many bytes went to the sink; zero when only protocol bytes came.
    Bytes(usize),
    /// No more will come.
    End(Ended),
}

/// How a direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Whoever sent it said so.
    Whole,
    /// TLS was closed without `close_notify`: something may be missing.
    Cut,
}

/// What follows when one direction is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The other direction stays open.
    Other,
    /// Nothing: both are, and the end is dropped, which closes its socket.
    Drop,
}

/// An end of a relay: a socket, or TLS over one.
pub trait End {
    /// Hands what has arrived to `sink`, by way of `scratch` if it needs one.
    ///
    /// # Errors
    /// When the connection broke.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Took>>;

    /// Takes bytes to send; what it has taken may still be on its way until it is flushed.
    ///
    /// # Errors
    /// When the connection broke.
    fn poll_give(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends what the handshake left to go with a first write, if there still is such.
    fn poll_held(&mut self, _: &mut Context<'_>) {}

    /// Whether the handshake left something to go with a first write.
    fn has_held(&self) -> bool {
        false
    }

    /// Ready when all that was taken is with the kernel.
    ///
    /// # Errors
    /// When the connection broke.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Says that no more bytes come from here. What ended `Cut` must not look whole to whoever can tell.
    ///
    /// # Errors
    /// When the connection broke.
    fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        ended: Ended,
        then: Then,
    ) -> Poll<io::Result<()>>;
}

impl End for Wire {
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Took>> {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        let filled = buffer.filled();
        if filled.is_empty() {
            return Poll::Ready(Ok(Took::End(Ended::Whole)));
        }
        sink(filled);
        Poll::Ready(Ok(Took::Bytes(filled.len())))
    }

    fn poll_give(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, _: Ended, then: Then) -> Poll<io::Result<()>> {
        match then {
            Then::Other => Pin::new(self).poll_shutdown(cx),
            Then::Drop => Poll::Ready(Ok(())),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> End for TlsStream<IO> {
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        _: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Took>> {
        let received = ready!(self.poll_receive(cx, sink))?;
        // Bytes and the end may come in one read; the end then comes again with the next.
        Poll::Ready(Ok(match (received.plain, received.closed) {
            (0, Some(Closed::CloseNotify)) => Took::End(Ended::Whole),
            (0, Some(Closed::Eof)) => Took::End(Ended::Cut),
            (bytes, _) => Took::Bytes(bytes),
        }))
    }

    fn poll_give(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes)
    }

    fn poll_held(&mut self, cx: &mut Context<'_>) {
        // An error here is seen again, and handled, by the next read or write.
        let _ = self.poll_flush_held(cx);
    }

    fn has_held(&self) -> bool {
        self.holds_ticket()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_flush(cx)
    }

    fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        ended: Ended,
        then: Then,
    ) -> Poll<io::Result<()>> {
        match (ended, then) {
            (Ended::Whole, Then::Other) => Pin::new(self).poll_shutdown(cx),
            (Ended::Whole, Then::Drop) => self.poll_farewell(cx),
            (Ended::Cut, Then::Drop) => self.poll_flush(cx),
            (Ended::Cut, Then::Other) => {
                ready!(self.poll_flush(cx))?;
                Pin::new(self.get_mut()).poll_shutdown(cx)
            }
        }
    }
}

/// Whose bytes a relay moves: lends the buffer, and hears what was moved.
pub trait Tally {
    /// Buffer for bytes on their way through; nobody else may borrow it during one poll.
    fn scratch(&self) -> RefMut<'_, Box<[u8]>>;

    /// The client sent this many bytes.
    fn client_sent(&self, bytes: usize);

    /// This many bytes were taken from the backend for the client.
    fn client_took(&self, bytes: usize);

    /// Whether bytes wait for the client to take them.
    fn set_blocked(&self, blocked: bool);
}

/// Which of the two ends broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The client's.
    Client,
    /// The backend's.
    Backend,
}

/// How far one direction is.
#[derive(Debug, Default)]
struct Direction {
    stash: Vec<u8>,
    ended: Option<Ended>,
    finished: bool,
}

/// Reads that one direction may make before the other has its turn.
const ROUNDS: usize = 16;

enum Stop {
    From(io::Error),
    To(io::Error),
}

impl Direction {
    /// What follows when the other direction is finished.
    fn then(&self) -> Then {
        match self.finished {
            true => Then::Drop,
            false => Then::Other,
        }
    }

    /// Moves what can be moved now and counts it; ready when the end has been passed on. `then` says
    /// whether the other direction is finished.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        then: Then,
        scratch: &mut [u8],
        from: &mut dyn End,
        to: &mut dyn End,
        count: &mut dyn FnMut(usize),
    ) -> Poll<Result<(), Stop>> {
        for _ in 0..ROUNDS {
            if self.finished {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_stash(cx, to))?;
            if let Some(ended) = self.ended {
                ready!(to.poll_finish(cx, ended, then)).map_err(Stop::To)?;
                self.finished = true;
                continue;
            }
            ready!(to.poll_flush(cx)).map_err(Stop::To)?;
            match ready!(self.poll_move(cx, scratch, from, to))? {
                Took::Bytes(bytes) => count(bytes),
                Took::End(ended) => self.ended = Some(ended),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_stash(&mut self, cx: &mut Context<'_>, to: &mut dyn End) -> Poll<Result<(), Stop>> {
        while !self.stash.is_empty() {
            match ready!(to.poll_give(cx, &self.stash)).map_err(Stop::To)? {
                0 => return Poll::Ready(Err(Stop::To(io::ErrorKind::WriteZero.into()))),
                given => drop(self.stash.drain(..given)),
            }
        }
        if self.stash.capacity() > 0 {
            self.stash = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// One read, handed to the other end where it stands; what that end refuses is stashed.
    fn poll_move(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
        from: &mut dyn End,
        to: &mut dyn End,
    ) -> Poll<Result<Took, Stop>> {
        let mut onward = Context::from_waker(cx.waker());
        let stash = &mut self.stash;
        let mut broken = None;
        let took = from.poll_take(cx, scratch, &mut |mut chunk| {
            while stash.is_empty() && !chunk.is_empty() && broken.is_none() {
                match to.poll_give(&mut onward, chunk) {
                    Poll::Ready(Ok(0)) => broken = Some(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(Ok(given)) => chunk = &chunk[given..],
                    Poll::Ready(Err(error)) => broken = Some(error),
                    Poll::Pending => break,
                }
            }
            stash.extend_from_slice(chunk);
        });
        if let Some(error) = broken {
            return Poll::Ready(Err(Stop::To(error)));
        }
        took.map_err(Stop::From)
    }
}

/// Moves bytes both ways until both ends have said that no more come; `tally` counts them.
/// Says how the backend's direction ended.
///
/// # Errors
/// Says which end broke; the other is to be closed then.
pub async fn relay(
    client: &mut dyn End,
    backend: &mut dyn End,
    tally: &impl Tally,
) -> Result<Ended, (Broken, io::Error)> {
    let (mut upward, mut downward) = (Direction::default(), Direction::default());
    let mut patience = client.has_held().then(|| Box::pin(sleep(TICKET_PATIENCE)));
    std::future::poll_fn(|cx| {
        let scratch = &mut *tally.scratch();
        let up = upward.poll(
            cx,
            downward.then(),
            scratch,
            client,
            backend,
            &mut |bytes| tally.client_sent(bytes),
        );
        let down = downward.poll(cx, upward.then(), scratch, backend, client, &mut |bytes| {
            tally.client_took(bytes)
        });
        let unsent = client.poll_flush(cx).is_pending();
        tally.set_blocked(unsent || !downward.stash.is_empty());
        match (up, down) {
            (Poll::Ready(Err(stop)), _) => {
                return Poll::Ready(Err(blame(stop, Broken::Client, Broken::Backend)));
            }
            (_, Poll::Ready(Err(stop))) => {
                return Poll::Ready(Err(blame(stop, Broken::Backend, Broken::Client)));
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                return Poll::Ready(Ok(downward.ended.unwrap_or(Ended::Whole)));
            }
            (Poll::Pending, _) | (_, Poll::Pending) => {}
        }
        if let Some(timer) = &mut patience {
            if !client.has_held() {
                patience = None;
            } else if timer.as_mut().poll(cx).is_ready() {
                client.poll_held(cx);
                patience = None;
            }
        }
        Poll::Pending
    })
    .await
}

fn blame(stop: Stop, from: Broken, to: Broken) -> (Broken, io::Error) {
    match stop {
        Stop::From(error) => (from, error),
        Stop::To(error) => (to, error),
    }
}

#[cfg(test)]
mod tests;
