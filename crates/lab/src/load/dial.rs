//! Sockets of a load run: where they come from and how they end.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

/// Makes connections to one address, from each source address in turn.
pub(crate) struct Dialer {
    address: SocketAddr,
    sources: Vec<IpAddr>,
    next: Cell<usize>,
    abort: bool,
}

impl Dialer {
    /// Connections to `address`; with `abort` they end by a reset. `first` says which source begins,
    /// so that threads do not all begin with the same one.
    pub(crate) fn new(address: SocketAddr, sources: &[IpAddr], first: usize, abort: bool) -> Self {
        Self {
            address,
            sources: sources.to_vec(),
            next: Cell::new(first),
            abort,
        }
    }

    /// A connected socket.
    pub(crate) async fn dial(&self) -> io::Result<TcpStream> {
        let stream = match self.source() {
            None => TcpStream::connect(self.address).await?,
            Some(source) => {
                let socket = match source {
                    IpAddr::V4(_) => TcpSocket::new_v4()?,
                    IpAddr::V6(_) => TcpSocket::new_v6()?,
                };
                socket.bind(SocketAddr::new(source, 0))?;
                socket.connect(self.address).await?
            }
        };
        stream.set_nodelay(true)?;
        if self.abort {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        }
        Ok(stream)
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
