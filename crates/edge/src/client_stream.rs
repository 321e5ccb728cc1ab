//! The client's TLS stream as HTTP sees it: every byte counted, every stall noted, and the ticket
//! that waits for a first response sent alone when none comes.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tollgate_tls::TlsStream;

use crate::connection::Connection;
use crate::relay::Tally;
use crate::wire::Wire;

/// A ticket that no response has carried by then is sent by itself, so that a client that says
/// nothing can resume all the same.
pub const TICKET_PATIENCE: Duration = Duration::from_millis(100);

/// A client's stream, watched.
pub struct ClientStream {
    stream: TlsStream<Wire>,
    connection: Rc<Connection>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl ClientStream {
    /// Watches a stream whose handshake is over.
    pub fn new(stream: TlsStream<Wire>, connection: Rc<Connection>) -> Self {
        Self {
            stream,
            connection,
            patience: None,
        }
    }

    /// Ready when the socket has something to read.
    ///
    /// # Errors
    /// When the socket cannot be watched any more.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.get_ref().poll_readable(cx)
    }

    /// Says goodbye, as far as that goes without waiting; an idle socket has room for it.
    pub fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A client that is gone already needs no goodbye.
        let _ = self.stream.poll_shutdown(cx);
        Poll::Ready(())
    }

    /// Sends a held ticket once `TICKET_PATIENCE` has passed without a write.
    fn poll_patience(&mut self, cx: &mut Context<'_>) {
        if !self.stream.holds_ticket() {
            self.patience = None;
            return;
        }
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(sleep(TICKET_PATIENCE)));
        if patience.as_mut().poll(cx).is_ready() {
            // An error here is seen again, and handled, by the next read or write.
            let _ = self.stream.poll_flush_held(cx);
            self.patience = None;
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let taken = buf.filled().len() - before;
        if taken > 0 {
            self.connection.client_sent(taken);
        }
        if read.is_pending() {
            self.poll_patience(cx);
        }
        read
    }
}

impl ClientStream {
    fn note_write(&mut self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.connection.client_took(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.connection.set_blocked(true),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_write(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.connection.set_blocked(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream.closed() {
            // Both directions are over then, and the drop ends the socket.
            Some(_) => self.stream.poll_farewell(cx),
            None => Pin::new(&mut self.stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
