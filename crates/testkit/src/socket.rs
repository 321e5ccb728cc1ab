//! One socket type for TCP and unix sockets, path and abstract.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Where a backend shall listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A free port on 127.0.0.1.
    Loopback,
    /// This address.
    Ip(SocketAddr),
    /// A unix socket in the file system.
    UnixPath(PathBuf),
    /// A unix socket in the abstract namespace.
    UnixAbstract(String),
}

/// A connected stream.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Binds and returns the address as `tls.yaml` spells it, without a scheme for TCP.
    pub(crate) fn bind(address: &Address) -> io::Result<(Self, String)> {
        match address {
            Address::Loopback => Self::bind_tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            Address::Ip(address) => Self::bind_tcp(*address),
            Address::UnixPath(path) => {
                let listener = UnixListener::bind(path)?;
                Ok((Self::Unix(listener), format!("unix:{}", path.display())))
            }
            Address::UnixAbstract(name) => {
                let address = UnixAddress::from_abstract_name(name)?;
                let listener = UnixListener::bind_addr(&address)?;
                Ok((Self::Unix(listener), format!("unix:@{name}")))
            }
        }
    }

    fn bind_tcp(address: SocketAddr) -> io::Result<(Self, String)> {
        let listener = TcpListener::bind(address)?;
        let text = listener.local_addr()?.to_string();
        Ok((Self::Tcp(listener), text))
    }

    /// A second handle on the listening socket; its shutdown wakes whoever accepts.
    pub(crate) fn waker(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(OwnedFd::from(listener.try_clone()?).into()),
            Self::Unix(listener) => Socket::Unix(OwnedFd::from(listener.try_clone()?).into()),
        })
    }

    pub(crate) fn accept(&self) -> io::Result<(Socket, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok((Socket::Tcp(stream), peer.to_string()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Socket::Unix(stream), "unix".to_owned()))
            }
        }
    }
}

impl Socket {
    /// A second handle on the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    /// Ends one or both directions.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }

    /// Back to waiting reads and writes, with a bound so that no thread is left behind for ever.
    pub(crate) fn set_blocking(&self, bound: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(bound))?;
                stream.set_write_timeout(Some(bound))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(bound))?;
                stream.set_write_timeout(Some(bound))
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
