//! Bytes both ways between two ends, with back-pressure and half-close.
//!
//! The worker's one scratch buffer serves every relay; a relay owns memory only for bytes that the
//! other side would not take at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;
use tollgate_tls::TlsStream;

use crate::client_stream::TICKET_PATIENCE;
use crate::connection::Connection;
use crate::wire::Wire;

/// What one read from an end brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// This many bytes went to the sink; zero when only protocol bytes came.
    Bytes(usize),
    /// No more will come.
    End,
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

    /// Says that no more bytes come from here; the other direction stays open.
    ///
    /// # Errors
    /// When the connection broke.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
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
            return Poll::Ready(Ok(Took::End));
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

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_shutdown(cx)
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
            (0, Some(_)) => Took::End,
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

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_shutdown(cx)
    }
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
    ended: bool,
    finished: bool,
}

enum Stop {
    From(io::Error),
    To(io::Error),
}

impl Direction {
    /// Moves what can be moved now and counts it; ready when the end has been passed on.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
        from: &mut dyn End,
        to: &mut dyn End,
        count: &mut dyn FnMut(usize),
    ) -> Poll<Result<(), Stop>> {
        loop {
            if self.finished {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_stash(cx, to))?;
            if self.ended {
                ready!(to.poll_finish(cx)).map_err(Stop::To)?;
                self.finished = true;
                continue;
            }
            ready!(to.poll_flush(cx)).map_err(Stop::To)?;
            match ready!(self.poll_move(cx, scratch, from, to))? {
                Took::Bytes(bytes) => count(bytes),
                Took::End => self.ended = true,
            }
        }
    }

    fn poll_stash(&mut self, cx: &mut Context<'_>, to: &mut dyn End) -> Poll<Result<(), Stop>> {
        while !self.stash.is_empty() {
            let given = ready!(to.poll_give(cx, &self.stash)).map_err(Stop::To)?;
            self.stash.drain(..given);
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

/// Moves bytes both ways until both ends have said that no more come; the connection counts them.
///
/// # Errors
/// Says which end broke; the other is to be closed then.
pub async fn relay(
    client: &mut dyn End,
    backend: &mut dyn End,
    connection: &Connection,
) -> Result<(), (Broken, io::Error)> {
    let (mut upward, mut downward) = (Direction::default(), Direction::default());
    let mut patience = client.has_held().then(|| Box::pin(sleep(TICKET_PATIENCE)));
    std::future::poll_fn(|cx| {
        let scratch = &mut *connection.scratch();
        let up = upward.poll(cx, scratch, client, backend, &mut |bytes| {
            connection.client_sent(bytes)
        });
        let down = downward.poll(cx, scratch, backend, client, &mut |bytes| {
            connection.client_took(bytes)
        });
        connection.set_blocked(client.poll_flush(cx).is_pending());
        match (up, down) {
            (Poll::Ready(Err(stop)), _) => {
                return Poll::Ready(Err(blame(stop, Broken::Client, Broken::Backend)));
            }
            (_, Poll::Ready(Err(stop))) => {
                return Poll::Ready(Err(blame(stop, Broken::Backend, Broken::Client)));
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(Ok(())),
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
