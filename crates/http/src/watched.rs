//! A byte stream whose traffic is noted in a [`ConnectionWatch`].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::body::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::watch::ConnectionWatch;

/// The client's stream as hyper sees it.
#[derive(Debug)]
pub(crate) struct Watched<IO> {
    io: IO,
    watch: Rc<ConnectionWatch>,
    /// Read before the stream itself.
    ahead: Bytes,
    /// The stream outlives hyper's connection: its wish to shut it down is granted and not followed.
    outlives: bool,
}

impl<IO> Watched<IO> {
    pub(crate) fn new(io: IO, watch: Rc<ConnectionWatch>, outlives: bool) -> Self {
        Self {
            io,
            watch,
            ahead: Bytes::new(),
            outlives,
        }
    }

    pub(crate) fn with_ahead(self, ahead: Bytes) -> Self {
        Self { ahead, ..self }
    }

    pub(crate) fn own(self) -> Self {
        Self {
            outlives: false,
            ..self
        }
    }

    pub(crate) fn into_inner(self) -> IO {
        self.io
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Watched<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        if !this.ahead.is_empty() {
            let taken = this.ahead.len().min(buf.remaining());
            buf.put_slice(&this.ahead[..taken]);
            this.ahead.advance(taken);
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut this.io).poll_read(cx, buf);
        let taken = buf.filled().len() - before;
        if taken > 0 {
            this.watch.read(taken);
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> Watched<IO> {
    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.watch.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.watch.set_write_blocked(),
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Watched<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        match flushed {
            Poll::Ready(_) => self.watch.flushed(),
            Poll::Pending => self.watch.set_write_blocked(),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outlives {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
