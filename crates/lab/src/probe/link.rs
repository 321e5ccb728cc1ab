//! An established connection as a stream of plaintext, whose TLS state stays in sight: the tickets
//! that come with a response are of interest to a probe.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_tls::Session;
use tollgate_tls::client::TicketSeen;

/// Read at a time.
const PIECE_BYTES: usize = 32 * 1024;

/// Ciphertext that waits for the socket is not added to beyond this.
const MOST_OUTGOING: usize = 64 * 1024;

/// A socket of any kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Socket for T {}

/// One connection. Bounded: holds a read's worth of plaintext and ciphertext, and what is to be sent.
pub(super) struct Link {
    io: Box<dyn Socket>,
    session: Session,
    /// Ciphertext of a record that is not whole yet.
    partial: Vec<u8>,
    plain: VecDeque<u8>,
    outgoing: Vec<u8>,
    ended: bool,
}

impl Link {
    /// `partial` came behind the handshake, `outgoing` is the end of it.
    pub(super) fn new(
        io: Box<dyn Socket>,
        session: Session,
        partial: Vec<u8>,
        outgoing: Vec<u8>,
    ) -> Self {
        Self {
            io,
            session,
            partial,
            plain: VecDeque::new(),
            outgoing,
            ended: false,
        }
    }

    pub(super) fn tickets(&self) -> &[TicketSeen] {
        self.session.tickets()
    }

    /// Whether the server has ended its direction.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Sends `plain`, behind whatever is still to be sent.
    pub(super) async fn send(&mut self, plain: &[u8]) -> io::Result<()> {
        if !plain.is_empty() {
            self.session.seal(plain, &mut self.outgoing)?;
        }
        poll_fn(|cx| self.poll_send(cx)).await
    }

    /// Waits until something has come; gives all of it, or nothing at the end.
    pub(super) async fn receive(&mut self) -> io::Result<Vec<u8>> {
        poll_fn(|cx| self.poll_receive(cx)).await?;
        Ok(std::mem::take(&mut self.plain).into())
    }

    /// One read and what is in it, plaintext or a ticket.
    pub(super) async fn read_once(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_read_once(cx)).await
    }

    /// Throws away what has come.
    pub(super) fn forget_plain(&mut self) {
        self.plain.clear();
    }

    /// Says goodbye; the connection is over either way.
    pub(super) async fn close(&mut self) {
        if self.session.close_notify(&mut self.outgoing).is_ok() {
            let _ = poll_fn(|cx| self.poll_send(cx)).await;
        }
        let _ = poll_fn(|cx| Pin::new(&mut self.io).poll_shutdown(cx)).await;
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.session.held().is_empty() {
            // An answer to a key update, or an alert: sealing nothing takes it along.
            self.session.seal(&[], &mut self.outgoing)?;
        }
        while !self.outgoing.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.outgoing))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.drain(..written);
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Ready when there is plaintext, or none will come.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.plain.is_empty() && !self.ended {
            ready!(self.poll_read_once(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read_once(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.open_records()? > 0 || self.ended {
            return Poll::Ready(Ok(()));
        }
        let mut piece = vec![0; PIECE_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        self.ended |= buffer.filled().is_empty();
        self.partial.extend_from_slice(buffer.filled());
        self.open_records()?;
        Poll::Ready(Ok(()))
    }

    /// Opens the whole records at hand; gives how many bytes of them there were.
    fn open_records(&mut self) -> io::Result<usize> {
        let plain = &mut self.plain;
        let received = self
            .session
            .receive(&mut self.partial, &mut |bytes| plain.extend(bytes))?;
        self.partial.drain(..received.consumed);
        self.ended |= received.closed.is_some();
        Ok(received.consumed)
    }
}

/// A handle of a [`Link`] for the HTTP/2 client.
pub(super) struct Shared(pub(super) Rc<RefCell<Link>>);

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut link = self.0.borrow_mut();
        ready!(link.poll_receive(cx))?;
        let length = link.plain.len().min(buffer.remaining());
        let bytes: Vec<u8> = link.plain.drain(..length).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut link = self.0.borrow_mut();
        if link.outgoing.len() > MOST_OUTGOING {
            ready!(link.poll_send(cx))?;
        }
        let link = &mut *link;
        let taken = &bytes[..bytes.len().min(PIECE_BYTES)];
        link.session.seal(taken, &mut link.outgoing)?;
        // What the socket does not take now leaves with the next flush.
        let _ = link.poll_send(cx)?;
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send(cx)
    }
}
