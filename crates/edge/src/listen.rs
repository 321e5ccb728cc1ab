//! Listening sockets: made, owned and named here; each worker gets one of its own.
//!
//! Sockets may also be handed in, from systemd or from the process that this one replaces.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::path::Path;

use socket2::{Domain, Protocol, Socket, Type};
use tollgate_config::{ListenAddress, Listener, SocketFile};

/// Connections that may wait to be accepted, per socket; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A listening socket that no worker has taken yet.
#[derive(Debug)]
pub enum Listening {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// Unix socket.
    Unix(UnixListener),
}

impl Listening {
    /// A second handle on the same socket.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }

    /// Takes over a socket that was handed in, if it is a listening stream socket.
    ///
    /// # Errors
    /// When its address cannot be read or is of a kind that no listener has.
    pub fn adopt(fd: OwnedFd) -> io::Result<(ListenAddress, Self)> {
        let socket = Socket::from(fd);
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        if let Some(ip) = address.as_socket() {
            return Ok((ListenAddress::Ip(ip), Self::Tcp(socket.into())));
        }
        if let Some(path) = address.as_pathname() {
            return Ok((
                ListenAddress::UnixPath(path.to_owned()),
                Self::Unix(socket.into()),
            ));
        }
        if let Some(name) = address.as_abstract_namespace() {
            let name = String::from_utf8_lossy(name).into_owned();
            return Ok((ListenAddress::UnixAbstract(name), Self::Unix(socket.into())));
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither an IP nor a unix socket",
        ))
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Sockets per address, kept so that they can be handed on; workers hold duplicates.
pub type Sockets = BTreeMap<ListenAddress, Vec<Listening>>;

/// Why a listener could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error(
        "address {0} is in use by another process; stop that one, or choose another address (ss -ltnp shows who has it)"
    )]
    InUse(String),
    /// Ports below 1024 and some paths need a privilege.
    #[error("no permission to listen on {0}; {1}")]
    NoPermission(String, String),
    /// The address is not one of this machine's.
    #[error("address {0} does not belong to this machine; ip addr lists those that do")]
    NotOurs(String),
    /// The folder of the unix socket does not exist.
    #[error("folder of {0} does not exist; create it first (mkdir -p)")]
    NoFolder(String),
    /// A file that is not a socket is in the way.
    #[error("{0} exists and is not a socket; move it away, or choose another path")]
    NotASocket(String),
    /// The named user or group is not known.
    #[error("{0} is not known on this machine; name one that getent knows, or use its number")]
    UnknownOwner(String),
    /// Anything else that the host said.
    #[error("{0}: {1}")]
    Host(String, io::Error),
}

/// Text of an address as `tls.yaml` spells it.
pub fn address_name(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Ip(ip) => ip.to_string(),
        ListenAddress::UnixPath(path) => format!("unix:{}", path.display()),
        ListenAddress::UnixAbstract(name) => format!("unix:@{name}"),
    }
}

/// Makes `count` sockets for one listener: one each for TCP, one shared for a unix socket.
///
/// # Errors
/// When the address cannot be had; nothing is left behind then.
pub fn open(listener: &Listener, count: usize) -> Result<Vec<Listening>, ListenError> {
    let name = address_name(&listener.address.value);
    let host = |error: io::Error| explain(&name, error);
    match &listener.address.value {
        ListenAddress::Ip(address) => {
            refuse_when_taken(*address).map_err(host)?;
            (0..count)
                .map(|_| open_tcp(*address).map(Listening::Tcp))
                .collect::<io::Result<_>>()
                .map_err(host)
        }
        ListenAddress::UnixPath(path) => {
            clear_stale_socket(path, &name)?;
            let unix = UnixListener::bind(path).map_err(host)?;
            own_socket_file(path, &listener.socket, &name)?;
            unix.set_nonblocking(true).map_err(host)?;
            Ok(vec![Listening::Unix(unix)])
        }
        ListenAddress::UnixAbstract(text) => {
            let address = UnixAddress::from_abstract_name(text).map_err(host)?;
            let unix = UnixListener::bind_addr(&address).map_err(host)?;
            unix.set_nonblocking(true).map_err(host)?;
            Ok(vec![Listening::Unix(unix)])
        }
    }
}

fn explain(name: &str, error: io::Error) -> ListenError {
    match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse(name.to_owned()),
        io::ErrorKind::PermissionDenied if name.starts_with("unix:") => {
            ListenError::NoPermission(name.to_owned(), "the folder must be writable for this user".to_owned())
        }
        io::ErrorKind::PermissionDenied => ListenError::NoPermission(
            name.to_owned(),
            "ports below 1024 need root or CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities=), or a socket from systemd"
                .to_owned(),
        ),
        io::ErrorKind::AddrNotAvailable => ListenError::NotOurs(name.to_owned()),
        io::ErrorKind::NotFound => ListenError::NoFolder(name.to_owned()),
        _ => ListenError::Host(name.to_owned(), error),
    }
}

/// `SO_REUSEPORT` would let a second Tollgate share the port in silence; one bind without it finds out.
fn refuse_when_taken(address: SocketAddr) -> io::Result<()> {
    let socket = tcp_socket(address)?;
    socket.bind(&address.into())
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` listens for both families, as operators of nginx and HAProxy expect of a bare `::`.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    Ok(socket)
}

fn open_tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = tcp_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket file that nobody listens on any more is removed; a live one is left alone.
fn clear_stale_socket(path: &Path, name: &str) -> Result<(), ListenError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket(name.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ListenError::InUse(name.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| explain(name, error))
        }
        Err(error) => Err(explain(name, error)),
    }
}

fn own_socket_file(path: &Path, file: &SocketFile, name: &str) -> Result<(), ListenError> {
    if let Some(mode) = file.mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|error| explain(name, error))?;
    }
    let user = file
        .owner
        .as_ref()
        .map(|owner| account_number("/etc/passwd", &owner.value))
        .transpose()?;
    let group = file
        .group
        .as_ref()
        .map(|group| account_number("/etc/group", &group.value))
        .transpose()?;
    if user.is_some() || group.is_some() {
        std::os::unix::fs::chown(path, user, group).map_err(|error| explain(name, error))?;
    }
    Ok(())
}

/// The number of a user or group: itself if it is a number, else from the account file.
fn account_number(file: &str, name: &str) -> Result<u32, ListenError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let unknown = || ListenError::UnknownOwner(name.to_owned());
    let text = fs::read_to_string(file).map_err(|_| unknown())?;
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name))
                .then(|| fields.nth(1))
                .flatten()
        })
        .find_map(|number| number.parse().ok())
        .ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test may stop at the first surprise"
    )]
    use super::*;
    use tollgate_config::{Mode, Span, Spanned};

    fn listener(address: ListenAddress) -> Listener {
        Listener {
            address: Spanned {
                value: address,
                span: Span::default(),
            },
            mode: Mode::Http,
            proxy_protocol: None,
            socket: SocketFile::default(),
        }
    }

    #[test]
    fn a_port_that_another_socket_holds_is_refused_even_with_reuseport() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let ours = listener(ListenAddress::Ip(free));
        let held = open(&ours, 2).unwrap();
        assert_eq!(held.len(), 2);
        let Err(error) = open(&ours, 2) else {
            panic!("the port was shared")
        };
        assert!(matches!(error, ListenError::InUse(_)), "{error}");
    }

    #[test]
    fn an_abandoned_unix_socket_is_taken_over_and_a_live_one_is_not() {
        let folder = std::env::temp_dir().join(format!("tollgate-listen-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("edge.sock");
        let ours = listener(ListenAddress::UnixPath(path.clone()));
        let first = open(&ours, 1).unwrap();
        assert!(matches!(open(&ours, 1), Err(ListenError::InUse(_))));
        drop(first);
        assert!(open(&ours, 1).is_ok());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "text").unwrap();
        assert!(matches!(open(&ours, 1), Err(ListenError::NotASocket(_))));
        fs::remove_dir_all(&folder).unwrap();
    }
}
