//! The way to a server: its addresses, and a socket to one of them.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::link::Socket;
use super::{Endpoint, ProbeError};

/// How long one address has before the next is tried beside it (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 16;

/// All addresses of a host, in the resolver's order; an address stands for itself.
///
/// # Errors
/// When the name has none.
pub async fn resolve(host: &str, port: u16) -> Result<Vec<Endpoint>, ProbeError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![Endpoint::Tcp(SocketAddr::new(address, port))]);
    }
    let failed = |reason: String| ProbeError::Resolve {
        host: host.to_owned(),
        reason,
    };
    let mut endpoints = Vec::new();
    for address in lookup_host((host, port))
        .await
        .map_err(|error| failed(error.to_string()))?
    {
        let endpoint = Endpoint::Tcp(address);
        if !endpoints.contains(&endpoint) && endpoints.len() < MOST_ADDRESSES {
            endpoints.push(endpoint);
        }
    }
    match endpoints.is_empty() {
        true => Err(failed("the answer is empty".into())),
        false => Ok(endpoints),
    }
}

/// A socket that is connected, and how it came to be.
pub(super) struct Reached {
    pub(super) socket: Box<dyn Socket>,
    pub(super) endpoint: Endpoint,
    /// Our address and the server's, when they are addresses.
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    /// From the first attempt to the connection.
    pub(super) took: Duration,
    /// Endpoints that were tried and are no good, with the reason.
    pub(super) refused: Vec<String>,
}

enum Opened {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connects to the first of `endpoints` that answers: each gets a head start before the next.
///
/// # Errors
/// When none does within `longest`.
pub(super) async fn reach(
    endpoints: &[Endpoint],
    longest: Duration,
) -> Result<Reached, ProbeError> {
    let start = Instant::now();
    let mut refused = Vec::new();
    let mut attempts = JoinSet::new();
    let mut waiting = endpoints.iter();
    loop {
        let next = waiting.next();
        if let Some(endpoint) = next {
            let endpoint = endpoint.clone();
            attempts.spawn(async move {
                let opened = timeout(longest, open(&endpoint)).await;
                (endpoint, opened)
            });
        }
        let more = waiting.len() > 0;
        let ended = tokio::select! {
            ended = attempts.join_next() => ended,
            () = sleep(HEAD_START), if more => continue,
        };
        let Some(ended) = ended else {
            return Err(ProbeError::Connect(refused));
        };
        match ended {
            Ok((endpoint, Ok(Ok(opened)))) => {
                let took = start.elapsed();
                return Ok(reached(opened, endpoint, took, refused));
            }
            Ok((endpoint, Ok(Err(error)))) => refused.push(format!("{endpoint}: {error}")),
            Ok((endpoint, Err(_))) => refused.push(format!(
                "{endpoint}: no answer within {} s",
                longest.as_secs_f64()
            )),
            Err(error) => refused.push(error.to_string()),
        }
    }
}

async fn open(endpoint: &Endpoint) -> std::io::Result<Opened> {
    match endpoint {
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Opened::Tcp(stream))
        }
        Endpoint::Unix(path) => Ok(Opened::Unix(connect_unix(path).await?)),
    }
}

/// A path, or an abstract name that is written with `@` in front.
pub(super) async fn connect_unix(path: &std::path::Path) -> std::io::Result<UnixStream> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;

    let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"@") else {
        return UnixStream::connect(path).await;
    };
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    let stream = std::os::unix::net::UnixStream::connect_addr(&address)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn reached(opened: Opened, endpoint: Endpoint, took: Duration, refused: Vec<String>) -> Reached {
    let (socket, addresses): (Box<dyn Socket>, _) = match opened {
        Opened::Tcp(stream) => {
            let addresses = stream.local_addr().ok().zip(stream.peer_addr().ok());
            (Box::new(stream), addresses)
        }
        Opened::Unix(stream) => (Box::new(stream), None),
    };
    Reached {
        socket,
        endpoint,
        addresses,
        took,
        refused,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn an_address_needs_no_resolver() {
        let found = resolve("::1", 443).await.unwrap();
        assert_eq!(found, [Endpoint::Tcp("[::1]:443".parse().unwrap())]);
    }

    #[tokio::test]
    async fn the_next_address_is_taken_when_the_first_refuses_and_both_are_told_of() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let good = Endpoint::Tcp(listener.local_addr().unwrap());
        let closed = {
            let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            Endpoint::Tcp(gone.local_addr().unwrap())
        };
        let reached = reach(&[closed.clone(), good.clone()], LONG).await.unwrap();
        assert_eq!(reached.endpoint, good);
        assert!(reached.refused[0].starts_with(&closed.to_string()));
        let Err(ProbeError::Connect(refused)) = reach(&[closed], LONG).await else {
            panic!("connected to nobody");
        };
        assert_eq!(refused.len(), 1);
    }
}
