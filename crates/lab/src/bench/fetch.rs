//! A small HTTP/1.1 client over plaintext or TLS, for experiments that compare them.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_tls::client::{Intent, connect_as};
use tollgate_tls::{Buffers, ClientSite};

/// A response head may take this much.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// A connection, whatever carries it.
pub(crate) struct Link {
    io: Box<dyn Stream>,
    buffer: Vec<u8>,
    filled: usize,
}

/// What a link needs of its transport.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<IO: AsyncRead + AsyncWrite + Unpin> Stream for IO {}

impl Link {
    /// Connects, and shakes hands when `tls` says with whom.
    pub(crate) async fn open(
        address: SocketAddr,
        tls: Option<(&ClientSite, Intent)>,
        buffers: &Buffers,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let io: Box<dyn Stream> = match tls {
            None => Box::new(socket),
            Some((site, intent)) => {
                let connected = connect_as(socket, site, intent, buffers).await;
                let (stream, _) =
                    connected.map_err(|failure| io::Error::other(failure.to_string()))?;
                Box::new(stream)
            }
        };
        Ok(Self {
            io,
            buffer: vec![0; READ_BYTES],
            filled: 0,
        })
    }

    /// Sends a whole request and takes in its whole response. Gives the length of the body.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<u64> {
        self.io.write_all(request).await?;
        self.io.flush().await?;
        let (head, body) = self.head().await?;
        match body {
            Body::Length(length) => self.skip(length).await.map(|()| length),
            Body::Chunked => self.chunks().await,
        }
        .map_err(|error| io::Error::new(error.kind(), format!("{error}, after {head:?}")))
    }

    /// Ends the connection as a client does.
    pub(crate) async fn close(mut self) {
        // The exchange is over; a server that has already gone changes nothing.
        let _ = self.io.shutdown().await;
    }

    /// Reads more; an end of the stream is an error here.
    async fn more(&mut self) -> io::Result<()> {
        if self.filled == self.buffer.len() {
            return Err(broken("a line or head that is too long"));
        }
        match self.io.read(&mut self.buffer[self.filled..]).await? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server ended the connection in a response",
            )),
            count => {
                self.filled += count;
                Ok(())
            }
        }
    }

    fn take(&mut self, count: usize) {
        self.buffer.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    /// The status line, and how the body ends.
    async fn head(&mut self) -> io::Result<(String, Body)> {
        loop {
            let found = self.buffer[..self.filled]
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            if let Some(end) = found {
                let text = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.take(end + 4);
                let status = text.lines().next().unwrap_or_default().to_owned();
                return body_of(&text).map(|body| (status, body));
            }
            if self.filled > MAX_HEAD_BYTES {
                return Err(broken("a response head over 64 KB"));
            }
            self.more().await?;
        }
    }

    async fn skip(&mut self, mut left: u64) -> io::Result<()> {
        loop {
            let now = left.min(self.filled as u64);
            left -= now;
            self.take(now as usize);
            if left == 0 {
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn chunks(&mut self) -> io::Result<u64> {
        let mut sum = 0;
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16)
                .map_err(|_| broken(&format!("{line:?} in place of a chunk size")))?;
            if size == 0 {
                // Trailers, up to an empty line.
                while !self.line().await?.is_empty() {}
                return Ok(sum);
            }
            sum += size;
            self.skip(size.saturating_add(2)).await?;
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            let found = self.buffer[..self.filled]
                .windows(2)
                .position(|two| two == b"\r\n");
            if let Some(end) = found {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.take(end + 2);
                return Ok(line);
            }
            self.more().await?;
        }
    }
}

/// How a response body ends.
#[derive(Debug, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
}

fn body_of(head: &str) -> io::Result<Body> {
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    let code = status.split(' ').nth(1).unwrap_or_default();
    if !status.starts_with("HTTP/1.1 ") || !code.starts_with('2') {
        return Err(broken(&format!(
            "the answer {status:?}, where 200 was expected"
        )));
    }
    let field = |name: &str| {
        lines
            .clone()
            .filter_map(|line| line.split_once(':'))
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_ascii_lowercase())
    };
    if field("transfer-encoding").is_some_and(|codings| codings.ends_with("chunked")) {
        return Ok(Body::Chunked);
    }
    field("content-length")
        .and_then(|length| length.parse().ok())
        .map(Body::Length)
        .ok_or_else(|| broken("a response with neither Content-Length nor chunks"))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn answered(text: &'static str) -> Link {
        let (near, mut far) = tokio::io::duplex(64);
        tokio::spawn(async move {
            // A client that has heard enough may have left.
            let _ = far.write_all(text.as_bytes()).await;
            let mut rest = Vec::new();
            let _ = far.read_to_end(&mut rest).await;
        });
        Link {
            io: Box::new(near),
            buffer: vec![0; 512],
            filled: 0,
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bodies_end_where_their_length_or_their_chunks_say() {
        let mut link = answered(
            "HTTP/1.1 200 OK\r\nContent-length: 5\r\n\r\nhello\
             HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n\
             HTTP/1.1 204 No\r\ncontent-length: 0\r\n\r\n",
        );
        for expected in [5, 19, 0] {
            assert_eq!(link.ask(b"GET / HTTP/1.1\r\n\r\n").await.unwrap(), expected);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_answer_that_is_no_success_or_has_no_end_is_an_error() {
        for (text, word) in [
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "404"),
            ("HTTP/1.1 200 OK\r\n\r\n", "neither"),
            ("SSH-2.0-x\r\n\r\n", "SSH"),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
                "chunk size",
            ),
        ] {
            let error = answered(text).ask(b"x").await.unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
