//! An HTTP/1.1 backend whose path says how it shall behave.
//!
//! | path | what it does |
//! |---|---|
//! | `/bytes/N` | N bytes with a length |
//! | `/chunked/N` | N bytes in chunks of 1000 |
//! | `/trailers` | a chunked body with the trailer `x-sum: 4` |
//! | `/status/N` | this status, no body |
//! | `/slow/MS` | answers after MS milliseconds |
//! | `/drip/N/MS` | N chunks of 1000 bytes, MS milliseconds apart |
//! | `/mirror` | sends the request body back while it comes |
//! | `/truncated`, `/truncated-chunked` | ends the connection in the middle of the answer |
//! | `/die` | ends the connection without an answer |
//! | `/die-once` | the same, for the first request of this path only |
//! | `/conflicting/two-lengths`, `/conflicting/length-and-chunked` | an answer that can be read in two ways |
//! | `/garbage` | something that is no HTTP |
//! | `/big-head` | an answer with a head of 200 KB |
//! | `/hints` | a 103 ahead of the answer |
//! | `/websocket` | 101, then echo |
//! | `/refuse-expect` | 417 before the body |
//! | `/health` | 200, or 503 when told so |
//! | `/page` | a page whose script loads eight `/slow/300` at once and then says so |
//! | anything else | JSON that describes the request |

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Address;
use crate::backend::{Backend, BackendTls, Connection, Seen, Stream};
use crate::request::{Body, Incoming, ReadError, Request};

/// Most body bytes that are kept for the description.
const KEPT_BODY_BYTES: usize = 64 * 1024;

const PAGE: &str = "<!doctype html><title>page</title><p id=p>loading</p><script>
const pieces = Array.from({length: 8}, (_, n) => fetch('/slow/300?' + n).then(r => r.text()));
Promise.all(pieces).then(all => { document.getElementById('p').textContent = all.length + ' pieces loaded'; });
</script>";

/// Starts an HTTP/1.1 backend called `name`; with `preface` each connection may begin with a PROXY header.
pub fn http_backend(
    address: &Address,
    tls: Option<BackendTls>,
    name: &str,
    preface: bool,
) -> Backend {
    let name: Arc<str> = name.into();
    let died = Arc::new(AtomicBool::new(false));
    Backend::start(
        address,
        tls,
        Arc::new(move |connection| {
            let _ = serve(connection, &name, preface, &died);
        }),
    )
}

/// What shall happen to the connection after an answer.
enum Next {
    Keep,
    Close,
}

struct Exchange<'a> {
    incoming: &'a mut Incoming<Stream>,
    request: Request,
    name: &'a str,
    connection: u64,
    peer: &'a str,
    seen: &'a Seen,
    died: &'a AtomicBool,
}

fn serve(
    connection: Connection,
    name: &str,
    preface: bool,
    died: &AtomicBool,
) -> Result<(), ReadError> {
    let Connection {
        stream,
        number,
        peer,
        seen,
    } = connection;
    let mut incoming = Incoming::new(stream);
    if preface && let Some(header) = incoming.preface()? {
        seen.push_preface(header);
    }
    while let Some(request) = incoming.head()? {
        seen.push_head(&request.raw);
        let close = request
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let exchange = Exchange {
            incoming: &mut incoming,
            request,
            name,
            connection: number,
            peer: &peer,
            seen: &seen,
            died,
        };
        let next = exchange.answer()?;
        seen.requests.fetch_add(1, Ordering::SeqCst);
        if close || matches!(next, Next::Close) {
            incoming.stream.end_writing();
            return Ok(());
        }
    }
    Ok(())
}

fn number(parts: &mut std::str::Split<'_, char>) -> u64 {
    parts.next().and_then(|part| part.parse().ok()).unwrap_or(0)
}

/// The answers that are the same whatever the request says.
fn fixed(first: &str, second: Option<&str>) -> Option<(Next, String)> {
    let (next, text) = match (first, second) {
        ("trailers", _) => (
            Next::Keep,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n4\r\nbody\r\n0\r\nx-sum: 4\r\n\r\n",
        ),
        ("truncated", _) => (
            Next::Close,
            "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly this",
        ),
        ("truncated-chunked", _) => (
            Next::Close,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n100\r\nonly",
        ),
        ("garbage", _) => (Next::Close, "SSH-2.0-this is no HTTP\r\n\r\n"),
        ("hints", _) => (
            Next::Keep,
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhints",
        ),
        ("conflicting", Some("two-lengths")) => (
            Next::Close,
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        ),
        ("conflicting", _) => (
            Next::Close,
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ),
        ("big-head", _) => {
            let value = "a".repeat(200_000);
            return Some((
                Next::Close,
                format!("HTTP/1.1 200 OK\r\nx-big: {value}\r\ncontent-length: 0\r\n\r\n"),
            ));
        }
        _ => return None,
    };
    Some((next, text.to_owned()))
}

impl Exchange<'_> {
    fn answer(mut self) -> Result<Next, ReadError> {
        let path = self.request.target.clone();
        let path = path.split('?').next().unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        match parts.next().unwrap_or_default() {
            "refuse-expect" => return self.close_with(
                "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            ),
            "die" => return Ok(Next::Close),
            "mirror" => return self.mirror(),
            "websocket" => return self.websocket(),
            _ => {}
        }
        self.continue_if_asked()?;
        let mut body = Vec::new();
        let (mut count, mut sum) = (0_u64, 0_u64);
        let framing = Incoming::<Stream>::framing(&self.request)?;
        let trailers = self.incoming.body(&framing, |piece, _| {
            count += piece.len() as u64;
            sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            let room = KEPT_BODY_BYTES.saturating_sub(body.len());
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok(())
        })?;
        let mut parts = path.trim_start_matches('/').split('/');
        match parts.next().unwrap_or_default() {
            "bytes" => self.bytes(number(&mut parts)),
            "chunked" => self.chunked(number(&mut parts).div_ceil(1000), 0),
            "drip" => {
                let count = number(&mut parts);
                self.chunked(count, number(&mut parts))
            }
            "page" => self.send(200, "text/html", PAGE.as_bytes()),
            "slow" => {
                std::thread::sleep(Duration::from_millis(number(&mut parts)));
                self.send(200, "text/plain", b"slow")
            }
            "status" => {
                let status = u16::try_from(number(&mut parts)).unwrap_or(500);
                self.send(status, "text/plain", b"")
            }
            "health" if self.seen.unhealthy.load(Ordering::SeqCst) => {
                self.send(503, "text/plain", b"unwell")
            }
            "health" => self.send(200, "text/plain", b"well"),
            "die-once" if !self.died.swap(true, Ordering::SeqCst) => Ok(Next::Close),
            first => match fixed(first, parts.next()) {
                Some((Next::Keep, text)) => self.keep_with(&text),
                Some((Next::Close, text)) => self.close_with(&text),
                None => {
                    let text = self.describe(&framing, &body, count, sum, &trailers);
                    self.send(200, "application/json", text.as_bytes())
                }
            },
        }
    }

    fn stream(&mut self) -> &mut Stream {
        &mut self.incoming.stream
    }

    fn keep_with(&mut self, text: &str) -> Result<Next, ReadError> {
        self.stream().write_all(text.as_bytes())?;
        self.stream().flush()?;
        Ok(Next::Keep)
    }

    fn close_with(&mut self, text: &str) -> Result<Next, ReadError> {
        self.keep_with(text)?;
        Ok(Next::Close)
    }

    fn send(&mut self, status: u16, kind: &str, body: &[u8]) -> Result<Next, ReadError> {
        let head = format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nx-backend: {}\r\n\r\n",
            body.len(),
            self.name
        );
        let mut answer = head.into_bytes();
        if self.request.method != "HEAD" {
            answer.extend_from_slice(body);
        }
        self.stream().write_all(&answer)?;
        self.stream().flush()?;
        Ok(Next::Keep)
    }

    fn continue_if_asked(&mut self) -> io::Result<()> {
        if self.request.header("expect").is_some() {
            self.stream().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            self.stream().flush()?;
        }
        Ok(())
    }

    fn bytes(&mut self, mut left: u64) -> Result<Next, ReadError> {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {left}\r\n\r\n");
        self.stream().write_all(head.as_bytes())?;
        let block = [b'x'; 16_384];
        while left > 0 {
            let count = left.min(block.len() as u64);
            let count = usize::try_from(count).unwrap_or(block.len());
            self.stream().write_all(&block[..count])?;
            left -= count as u64;
        }
        self.stream().flush()?;
        Ok(Next::Keep)
    }

    fn chunked(&mut self, count: u64, pause_ms: u64) -> Result<Next, ReadError> {
        self.keep_with("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
        let chunk = format!("3e8\r\n{}\r\n", "y".repeat(1000));
        for _ in 0..count {
            self.keep_with(&chunk)?;
            if pause_ms > 0 {
                std::thread::sleep(Duration::from_millis(pause_ms));
            }
        }
        self.keep_with("0\r\n\r\n")
    }

    fn mirror(&mut self) -> Result<Next, ReadError> {
        self.continue_if_asked()?;
        self.keep_with("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
        let framing = Incoming::<Stream>::framing(&self.request)?;
        self.incoming.body(&framing, |piece, stream| {
            write!(stream, "{:x}\r\n", piece.len())?;
            stream.write_all(piece)?;
            stream.write_all(b"\r\n")?;
            stream.flush()
        })?;
        self.keep_with("0\r\n\r\n")
    }

    fn websocket(&mut self) -> Result<Next, ReadError> {
        // The accept value belongs to the sample key of RFC 6455, section 1.3.
        self.keep_with("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")?;
        loop {
            let piece = self.incoming.piece()?;
            if piece.is_empty() {
                return Ok(Next::Close);
            }
            self.stream().write_all(&piece)?;
            self.stream().flush()?;
        }
    }

    fn describe(
        &self,
        framing: &Body,
        body: &[u8],
        count: u64,
        sum: u64,
        trailers: &[(String, String)],
    ) -> String {
        let request = &self.request;
        let framing = match framing {
            Body::None => "none",
            Body::Length(_) => "length",
            Body::Chunked => "chunked",
        };
        format!(
            "{{\"backend\":{},\"connection\":{},\"peer\":{},\"method\":{},\"target\":{},\"version\":{},\
             \"headers\":{},\"framing\":\"{framing}\",\"body\":{},\"body_bytes\":{count},\"body_sum\":{sum},\"trailers\":{}}}",
            text(self.name),
            self.connection,
            text(self.peer),
            text(&request.method),
            text(&request.target),
            text(&request.version),
            pairs(&request.headers),
            text(&String::from_utf8_lossy(body)),
            pairs(trailers),
        )
    }
}

/// A JSON string.
pub(crate) fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A JSON list of `[name, value]`, names in lower case.
pub(crate) fn pairs(fields: &[(String, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("[{},{}]", text(&name.to_ascii_lowercase()), text(value)))
        .collect();
    format!("[{}]", fields.join(","))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    use super::*;

    fn exchange(backend: &Backend, request: &str) -> String {
        let mut stream = TcpStream::connect(backend.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_is_described() {
        let backend = http_backend(&Address::Loopback, None, "one", false);
        let answer = exchange(
            &backend,
            "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n",
        );
        assert!(answer.contains("\"body\":\"abc\""), "{answer}");
        assert!(answer.contains("\"trailers\":[[\"x\",\"y\"]]"), "{answer}");
        assert_eq!(backend.requests(), 1);
    }

    #[test]
    fn bytes_and_chunks_have_the_asked_length() {
        let backend = http_backend(&Address::Loopback, None, "one", false);
        let answer = exchange(&backend, "GET /bytes/20000 HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(answer.matches('x').count(), 20_000);
        let answer = exchange(&backend, "GET /chunked/2000 HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(answer.matches('y').count(), 2_000);
    }

    #[test]
    fn ambiguous_framing_is_not_answered() {
        let backend = http_backend(&Address::Loopback, None, "one", false);
        let answer = exchange(
            &backend,
            "POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
        );
        assert_eq!(answer, "");
    }
}
