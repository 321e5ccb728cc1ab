//! One end of a byte stream as the kernel gives it: TCP or unix socket, both sides.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::net::SendFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::accept::Accepted;
use crate::roster::Entry;

/// A connected socket, with bytes that were read ahead of their turn put back in front.
#[derive(Debug)]
pub struct Wire {
    kind: WireKind,
    replay: Option<Box<Replay>>,
    /// Hears of every byte that a client's socket gives or takes.
    watched: Option<Rc<Entry>>,
}

#[derive(Debug)]
enum WireKind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
struct Replay {
    bytes: Vec<u8>,
    taken: usize,
}

impl From<TcpStream> for Wire {
    fn from(stream: TcpStream) -> Self {
        Self {
            kind: WireKind::Tcp(stream),
            replay: None,
            watched: None,
        }
    }
}

impl From<UnixStream> for Wire {
    fn from(stream: UnixStream) -> Self {
        Self {
            kind: WireKind::Unix(stream),
            replay: None,
            watched: None,
        }
    }
}

impl TryFrom<Accepted> for Wire {
    type Error = io::Error;

    fn try_from(accepted: Accepted) -> io::Result<Self> {
        match accepted {
            Accepted::Tcp(stream) => TcpStream::from_std(stream).map(Self::from),
            Accepted::Unix(stream) => UnixStream::from_std(stream).map(Self::from),
        }
    }
}

impl Wire {
    /// Leaves this runtime, to be taken up by another worker's.
    ///
    /// # Errors
    /// When the socket cannot be taken off the reactor.
    pub fn into_accepted(self) -> io::Result<Accepted> {
        match self.kind {
            WireKind::Tcp(stream) => stream.into_std().map(Accepted::Tcp),
            WireKind::Unix(stream) => stream.into_std().map(Accepted::Unix),
        }
    }

    /// Address of the peer; `None` on a unix socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        match &self.kind {
            WireKind::Tcp(stream) => stream.peer_addr().ok().map(canonical),
            WireKind::Unix(_) => None,
        }
    }

    /// Address of this end; `None` on a unix socket.
    pub fn local(&self) -> Option<SocketAddr> {
        match &self.kind {
            WireKind::Tcp(stream) => stream.local_addr().ok().map(canonical),
            WireKind::Unix(_) => None,
        }
    }

    /// Sends without asking the reactor, which need not have heard of the socket yet; pending when there
    /// is no room, and then nobody will be woken.
    pub fn send_now(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        use rustix::io::Errno;
        let sent = match &self.kind {
            WireKind::Tcp(stream) => rustix::net::send(stream, bytes, SendFlags::NOSIGNAL),
            WireKind::Unix(stream) => rustix::net::send(stream, bytes, SendFlags::NOSIGNAL),
        };
        match sent {
            Err(Errno::AGAIN | Errno::INTR) => Poll::Pending,
            sent => Poll::Ready(sent.map_err(io::Error::from)),
        }
    }

    /// Lets the sweep see what the socket gives and takes.
    pub fn watch(&mut self, entry: &Rc<Entry>) {
        self.watched = Some(Rc::clone(entry));
    }

    /// Ready when bytes, or the end of them, can be read.
    ///
    /// # Errors
    /// When the socket cannot be watched any more.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.replay.is_some() {
            return Poll::Ready(Ok(()));
        }
        match &self.kind {
            WireKind::Tcp(stream) => stream.poll_read_ready(cx),
            WireKind::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Waits for the first bytes, by way of `scratch`, and puts them back: the next read has them.
    ///
    /// The reactor presumes a freshly accepted socket to be readable, so asking it would not wait;
    /// trying to read does, and costs nothing more when bytes are there.
    ///
    /// # Errors
    /// When the connection broke.
    pub fn poll_first(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<()>> {
        if self.replay.is_some() {
            return Poll::Ready(Ok(()));
        }
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(&mut *self).poll_read(cx, &mut buffer))?;
        self.put_back(buffer.filled().to_vec());
        Poll::Ready(Ok(()))
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        if let (Some(entry), Poll::Ready(Ok(bytes))) = (&self.watched, written) {
            entry.moved(*bytes);
        }
    }

    /// Puts bytes back: the next read returns them before anything from the socket.
    pub fn put_back(&mut self, mut bytes: Vec<u8>) {
        if let Some(replay) = &self.replay {
            bytes.extend_from_slice(&replay.bytes[replay.taken..]);
        }
        self.replay = (!bytes.is_empty()).then(|| Box::new(Replay { bytes, taken: 0 }));
    }
}

/// An IPv4 client on a dual-stack listener is shown as IPv4.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(replay) = &mut self.replay {
            let rest = &replay.bytes[replay.taken..];
            let taken = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..taken]);
            replay.taken += taken;
            if replay.taken == replay.bytes.len() {
                self.replay = None;
            }
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = match &mut self.kind {
            WireKind::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            WireKind::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if let Some(entry) = &self.watched {
            entry.moved(buf.filled().len() - before);
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.kind {
            WireKind::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            WireKind::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.note_write(&written);
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            WireKind::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            WireKind::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A request without a body is one piece, and the plain call is the cheaper one.
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        let written = match &mut self.kind {
            WireKind::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            WireKind::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
