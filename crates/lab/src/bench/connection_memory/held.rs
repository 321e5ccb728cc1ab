//! Clients that connect, ask once, and then stay without a word.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_tls::client::{ClientHandshake, Intent};
use tollgate_tls::{BackendTlsPolicy, ClientSite, Progress, Session};

use crate::bench::BenchError;

/// Longest wait for one answer of the server.
const TIMEOUT: Duration = Duration::from_secs(10);
/// One read: a record of full length and some.
const READ_BYTES: usize = 20 * 1024;
/// A response head is shorter than this.
const MOST_HEAD_BYTES: usize = 16 * 1024;

/// Everybody who connects to one server. One at a time and on the calling thread: what is measured comes
/// after all of them are there.
pub(crate) struct Clients {
    address: SocketAddr,
    site: ClientSite,
    buffer: Vec<u8>,
}

/// A connection that has had its answer.
pub(crate) struct Client {
    socket: TcpStream,
    session: Session,
}

impl Clients {
    /// Clients of the server at `address`, whose certificate they take as it is.
    pub(crate) fn new(address: SocketAddr) -> Result<Self, BenchError> {
        let site = ClientSite::new(BackendTlsPolicy {
            verify: false,
            name: "localhost".into(),
            ca: None,
            certificate: None,
            alpn: vec!["http/1.1".into()],
        });
        Ok(Self {
            address,
            site: site.map_err(|error| trouble(io::Error::other(error.to_string())))?,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Connects, shakes hands in full, and sends one request, whose response comes whole.
    pub(crate) fn open(&mut self, request: &[u8]) -> Result<Client, BenchError> {
        let mut client = self.shake().map_err(trouble)?;
        client
            .exchange(request, &mut self.buffer)
            .map_err(trouble)?;
        Ok(client)
    }

    /// Asks once more on a connection.
    pub(crate) fn ask(&mut self, client: &mut Client, request: &[u8]) -> Result<(), BenchError> {
        client.exchange(request, &mut self.buffer).map_err(trouble)
    }

    /// Connects, sends a ClientHello, and waits until the server begins to answer; says nothing more.
    pub(crate) fn open_half(&mut self) -> Result<TcpStream, BenchError> {
        let mut socket = self.connect().map_err(trouble)?;
        let (_, hello) = self.hello().map_err(trouble)?;
        let answered = socket
            .write_all(&hello)
            .and_then(|()| socket.read(&mut self.buffer));
        match answered.map_err(trouble)? {
            0 => Err(trouble(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(socket),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(socket)
    }

    fn hello(&self) -> io::Result<(ClientHandshake, Vec<u8>)> {
        let mut handshake = ClientHandshake::new(&self.site, Intent::Full)
            .map_err(|failure| io::Error::other(failure.to_string()))?;
        let mut hello = Vec::with_capacity(2048);
        handshake.step(&mut [], &mut hello);
        Ok((handshake, hello))
    }

    fn shake(&mut self) -> io::Result<Client> {
        let mut socket = self.connect()?;
        let (mut handshake, mut output) = self.hello()?;
        let mut input = Vec::new();
        loop {
            socket.write_all(&output)?;
            output.clear();
            let came = socket.read(&mut self.buffer)?;
            if came == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            input.extend_from_slice(&self.buffer[..came]);
            let step = handshake.step(&mut input, &mut output);
            input.drain(..step.consumed);
            match step.progress {
                Progress::NeedsInput => {}
                Progress::Failed(failure) => return Err(io::Error::other(failure.to_string())),
                Progress::Done => break,
            }
        }
        let (session, _) = handshake.finish(&self.site);
        socket.write_all(&output)?;
        Ok(Client { socket, session })
    }
}

impl Client {
    fn exchange(&mut self, request: &[u8], buffer: &mut [u8]) -> io::Result<()> {
        let broken = |failure: tollgate_tls::Failure| io::Error::other(failure.to_string());
        let mut output = Vec::with_capacity(request.len() + 64);
        self.session.seal(request, &mut output).map_err(broken)?;
        self.socket.write_all(&output)?;
        let mut sealed = Vec::new();
        let mut plain = Vec::new();
        while !is_whole(&plain)? {
            let came = self.socket.read(buffer)?;
            if came == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sealed.extend_from_slice(&buffer[..came]);
            let received = self
                .session
                .receive(&mut sealed, &mut |piece| plain.extend_from_slice(piece))
                .map_err(broken)?;
            sealed.drain(..received.consumed);
        }
        Ok(())
    }

    /// Whether the server has left the connection as it was.
    pub(crate) fn is_open(&self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return false;
        }
        let waiting = self.socket.peek(&mut [0]);
        let restored = self.socket.set_nonblocking(false);
        restored.is_ok() && waiting.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Whether `plain` holds a whole response with a `Content-Length`, the only kind that our backend sends.
fn is_whole(plain: &[u8]) -> io::Result<bool> {
    let Some(end) = plain.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match plain.len() {
            0..=MOST_HEAD_BYTES => Ok(false),
            _ => Err(io::Error::other("a response head without an end")),
        };
    };
    let head = String::from_utf8_lossy(&plain[..end]);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(format!("the server answers {status:?}")));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.trim().parse::<usize>().ok());
    match length {
        Some(length) => Ok(plain.len() >= end + 4 + length),
        None => Err(io::Error::other("a response without Content-Length")),
    }
}

fn trouble(source: io::Error) -> BenchError {
    let hint = match source.raw_os_error() {
        // EADDRNOTAVAIL: all ports of one address are in use or were until a moment ago.
        Some(99) => "ask for fewer connections, or wait a minute until ports are free again",
        // EMFILE.
        Some(24) => "ask for fewer connections, or raise `ulimit -n`",
        _ => "the server under measurement must answer every request",
    };
    BenchError::System {
        what: "a connection that shall be held".into(),
        source,
        hint: hint.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn a_response_is_whole_with_its_last_byte() {
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        for end in 0..response.len() {
            assert!(!is_whole(&response[..end]).unwrap(), "{end}");
        }
        assert!(is_whole(response).unwrap());
    }

    #[test]
    fn what_is_no_plain_success_is_said() {
        for bad in [
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(is_whole(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(is_whole(&[b'x'; 20_000]).is_err());
    }
}
