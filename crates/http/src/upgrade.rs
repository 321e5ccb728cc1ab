//! What follows `101 Switching Protocols`: bytes both ways, until both sides are done.

use std::fmt;
use std::io;

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};

/// Bytes that may wait in each direction of a tunnel.
const TUNNEL_BUFFER_BYTES: usize = 8 * 1024;

/// A byte stream both ways, of whatever kind.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// The backend's end of an agreed protocol.
pub(crate) struct Tunnel {
    pub(crate) io: Box<dyn Duplex>,
    /// What the backend said right after its head.
    pub(crate) said: Bytes,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("said", &self.said.len())
            .finish_non_exhaustive()
    }
}

/// Bytes that went through a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnelled {
    /// From the client to the backend.
    pub to_backend: u64,
    /// From the backend to the client.
    pub to_client: u64,
}

/// Joins a client and a backend after the switch of protocols. `client_said` and `backend_said` are
/// what each sent right behind its head. Each side may end its direction first; a side that takes no
/// bytes stops the other from sending more.
///
/// # Errors
/// When either side breaks off.
pub async fn bridge<C: Duplex + ?Sized, B: Duplex + ?Sized>(
    client: &mut C,
    client_said: &[u8],
    backend: &mut B,
    backend_said: &[u8],
) -> io::Result<Tunnelled> {
    backend.write_all(client_said).await?;
    client.write_all(backend_said).await?;
    backend.flush().await?;
    client.flush().await?;
    let (to_backend, to_client) =
        copy_bidirectional_with_sizes(client, backend, TUNNEL_BUFFER_BYTES, TUNNEL_BUFFER_BYTES)
            .await?;
    Ok(Tunnelled {
        to_backend: to_backend + client_said.len() as u64,
        to_client: to_client + backend_said.len() as u64,
    })
}
