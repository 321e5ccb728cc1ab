//! A small plaintext HTTP/1.1 backend to measure against: as little work per request as can be.
//!
//! Answers every request without a body: `/bytes/N` with N bytes, anything else with 1 024. It reads
//! no further than the request line and the end of the head, so it is no server for strangers.

use std::io;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// A request head may take this much.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const SMALL_BODY_BYTES: usize = 1024;
const CHUNK_BYTES: usize = 256 * 1024;

/// Where the backend listens.
#[derive(Debug)]
pub enum Listening {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

/// Serves until the listener fails or the future is dropped; connections run as local tasks, so call it
/// inside a [`tokio::task::LocalSet`].
///
/// # Errors
/// When accepting fails for good.
pub async fn serve(listening: Listening) -> io::Result<()> {
    let fixed = Rc::new(Fixed::new());
    loop {
        let accepted = match &listening {
            Listening::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // A reply must not wait for an acknowledgement; failing to say so only slows it.
                let _ = stream.set_nodelay(true);
                spawn_tcp(stream, Rc::clone(&fixed));
            }),
            Listening::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                let fixed = Rc::clone(&fixed);
                tokio::task::spawn_local(async move {
                    // How a client ends is of no interest here.
                    let _ = converse(stream, &fixed).await;
                });
            }),
        };
        match accepted {
            Ok(()) => {}
            Err(error) if is_passing(&error) => tokio::task::yield_now().await,
            Err(error) => return Err(error),
        }
    }
}

fn spawn_tcp(stream: TcpStream, fixed: Rc<Fixed>) {
    tokio::task::spawn_local(async move {
        // How a client ends is of no interest here.
        let _ = converse(stream, &fixed).await;
    });
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
    )
}

/// What every reply is made of.
struct Fixed {
    small: Vec<u8>,
    chunk: Vec<u8>,
}

impl Fixed {
    fn new() -> Self {
        let mut small = head(SMALL_BODY_BYTES as u64);
        small.resize(small.len() + SMALL_BODY_BYTES, b'x');
        Self {
            small,
            chunk: vec![b'x'; CHUNK_BYTES],
        }
    }
}

fn head(length: u64) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
        .into_bytes()
}

async fn converse<IO>(mut io: IO, fixed: &Fixed) -> io::Result<()>
where
    IO: AsyncReadExt + AsyncWrite + Unpin,
{
    let mut received = Vec::with_capacity(512);
    loop {
        while let Some(end) = end_of_head(&received) {
            let body = wanted(&received[..end]);
            received.drain(..end);
            match body {
                None => io.write_all(&fixed.small).await?,
                Some(length) => write_body(&mut io, length, fixed).await?,
            }
        }
        if received.len() > MAX_HEAD_BYTES || io.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}

async fn write_body(
    io: &mut (impl AsyncWrite + Unpin),
    length: u64,
    fixed: &Fixed,
) -> io::Result<()> {
    io.write_all(&head(length)).await?;
    let mut left = length;
    while left > 0 {
        let now = left.min(CHUNK_BYTES as u64);
        io.write_all(&fixed.chunk[..now as usize]).await?;
        left -= now;
    }
    Ok(())
}

/// Length of the first head in `received`, its blank line included.
fn end_of_head(received: &[u8]) -> Option<usize> {
    received
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|start| start + 4)
}

/// The N of a request for `/bytes/N`.
fn wanted(head: &[u8]) -> Option<u64> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let path = line.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(path.strip_prefix(b"/bytes/")?)
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn a_path_with_a_length_asks_for_that_many_bytes() {
        assert_eq!(wanted(b"GET /bytes/70000 HTTP/1.1\r\n\r\n"), Some(70_000));
        assert_eq!(wanted(b"GET / HTTP/1.1\r\n\r\n"), None);
        assert_eq!(wanted(b"GET /bytes/x HTTP/1.1\r\n\r\n"), None);
        assert_eq!(wanted(b"\r\n\r\n"), None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn two_requests_in_one_segment_get_two_replies() {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let fixed = Fixed::new();
        let ask = async {
            client
                .write_all(b"GET / HTTP/1.1\r\n\r\nGET /bytes/3 HTTP/1.1\r\n\r\n")
                .await
                .unwrap();
            client.shutdown().await.unwrap();
            let mut replies = Vec::new();
            client.read_to_end(&mut replies).await.unwrap();
            replies
        };
        let (replies, served) = tokio::join!(ask, converse(server, &fixed));
        served.unwrap();
        let text = String::from_utf8(replies).unwrap();
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
        assert!(text.ends_with("Content-Length: 3\r\n\r\nxxx"));
    }
}
