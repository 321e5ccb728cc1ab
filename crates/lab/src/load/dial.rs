//! Sockets of a load run: where they come from and how they end.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

/// `EINPROGRESS`: the connection is being made.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// Whether small writes may wait for the answer to earlier ones (RFC 9293, section 3.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nagle {
    /// They may: each write of such a connection follows a read, so that none ever waits, and one system
    /// call is saved.
    Left,
    /// They never do.
    Off,
}

/// Makes connections to one address, from each source address in turn.
pub(crate) struct Dialer {
    address: SocketAddr,
    sources: Vec<IpAddr>,
    next: Cell<usize>,
    abort: bool,
    nagle: Nagle,
}

/// A connected socket.
pub(crate) struct Dialed {
    pub(crate) io: TcpStream,
    /// How much of the first bytes has been sent.
    pub(crate) sent: usize,
    /// When it was there, as far as the first bytes know.
    pub(crate) at: Instant,
}

impl Dialer {
    /// Connections to `address`; with `abort` they end by a reset. `first` says which source begins,
    /// so that threads do not all begin with the same one.
    pub(crate) fn new(
        address: SocketAddr,
        sources: &[IpAddr],
        first: usize,
        abort: bool,
        nagle: Nagle,
    ) -> Self {
        Self {
            address,
            sources: sources.to_vec(),
            next: Cell::new(first),
            abort,
            nagle,
        }
    }

    /// A connected socket on which as much of `bytes` has been sent as the kernel took at once.
    ///
    /// On the machine itself a connection is there when the call that begins it returns, so the bytes
    /// are tried right away: that saves a turn of the event loop and the question whether it worked.
    pub(crate) async fn dial(&self, bytes: &[u8]) -> io::Result<Dialed> {
        let socket = self.begin()?;
        let at = Instant::now();
        let sent = match bytes.is_empty() {
            true => None,
            false => match send(&socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => Some(sent),
                Err(rustix::io::Errno::AGAIN) => None,
                Err(error) => return Err(error.into()),
            },
        };
        let io = TcpStream::from_std(socket.into())?;
        if let Some(sent) = sent {
            return Ok(Dialed { io, sent, at });
        }
        io.writable().await?;
        match io.take_error()? {
            Some(error) => Err(error),
            None => Ok(Dialed {
                io,
                sent: 0,
                at: Instant::now(),
            }),
        }
    }

    /// A socket on its way to be connected.
    fn begin(&self) -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let family = Domain::for_address(self.address);
        let socket = Socket::new(family, kind, Some(Protocol::TCP))?;
        if let Some(source) = self.source() {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        if self.nagle == Nagle::Off {
            socket.set_tcp_nodelay(true)?;
        }
        if self.abort {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        match socket.connect(&self.address.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
            Ok(()) | Err(_) => Ok(socket),
        }
    }

    fn source(&self) -> Option<IpAddr> {
        if self.sources.is_empty() {
            return None;
        }
        let next = self.next.get();
        self.next.set(next.wrapping_add(1));
        self.sources.get(next % self.sources.len()).copied()
    }
}
