//! What must be read of an HTTP/1.1 response: its status, and where it ends.

use std::fmt;

/// A response head, or the trailers after a chunked body, may take this much.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A response as it comes in.
#[derive(Debug)]
pub(crate) struct Response {
    head: Vec<u8>,
    state: State,
    /// The request was HEAD: the body that is announced does not come.
    head_only: bool,
    keeps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Body { left: u64 },
    Chunked(Chunk),
    UntilEnd,
    Done,
    Refused(Refusal),
}

/// Where a chunked body stands (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the digits of a size.
    Size {
        value: u64,
        digits: u8,
    },
    /// Behind them, up to the end of the line.
    Extension {
        value: u64,
    },
    Data {
        left: u64,
    },
    /// The line end behind the data.
    DataEnd,
    /// In the fields behind the last chunk: bytes in this line, bytes in all.
    Trailer {
        line: usize,
        total: usize,
    },
}

/// Why a response is of no use to a load run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The head is not HTTP/1.1.
    NotHttp,
    /// The head is over 64 KB.
    HeadTooLong,
    /// The chunks of the body cannot be read.
    BadChunk,
    /// A status outside 200 to 299.
    Status(u16),
    /// Bytes after the end of the response.
    TooMuch,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp => f.write_str("response_is_not_http_1.1"),
            Self::HeadTooLong => f.write_str("response_head_too_long"),
            Self::BadChunk => f.write_str("response_with_bad_chunk"),
            Self::Status(status) => write!(f, "status_{status}"),
            Self::TooMuch => f.write_str("bytes_after_response"),
        }
    }
}

/// What a head says of its response.
struct Head {
    state: State,
    keeps: bool,
}

impl Response {
    pub(crate) fn new() -> Self {
        Self {
            head: Vec::new(),
            state: State::Head,
            head_only: false,
            keeps: true,
        }
    }

    /// Ready for the next response on the same connection; `head_only` after a HEAD request.
    pub(crate) fn begin(&mut self, head_only: bool) {
        self.head.clear();
        self.state = State::Head;
        self.head_only = head_only;
    }

    /// Whether the server lets the connection go on after this response.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Takes in plaintext and tells how many bytes of it were body.
    pub(crate) fn take(&mut self, plain: &[u8]) -> u64 {
        match self.state {
            State::Head => self.take_head(plain),
            State::Body { left } => self.take_body(plain.len() as u64, left),
            State::Chunked(chunk) => self.take_chunks(plain, chunk),
            State::UntilEnd => plain.len() as u64,
            State::Done if !plain.is_empty() => {
                self.state = State::Refused(Refusal::TooMuch);
                0
            }
            State::Done | State::Refused(_) => 0,
        }
    }

    /// The server has ended the connection; some responses end so.
    pub(crate) fn end(&mut self) {
        if self.state == State::UntilEnd {
            self.state = State::Done;
        }
    }

    /// `None` while more is to come.
    pub(crate) fn outcome(&self) -> Option<Result<(), Refusal>> {
        match self.state {
            State::Head | State::Body { .. } | State::Chunked(_) | State::UntilEnd => None,
            State::Done => Some(Ok(())),
            State::Refused(refusal) => Some(Err(refusal)),
        }
    }

    fn take_head(&mut self, plain: &[u8]) -> u64 {
        // Nearly always a head comes in one piece and is read where it is.
        if self.head.is_empty()
            && let Some(end) = find_blank_line(plain)
        {
            self.read(&plain[..end]);
            return self.take_rest(&plain[end..]);
        }
        let before = self.head.len();
        self.head.extend_from_slice(plain);
        let from = before.saturating_sub(3);
        let Some(end) = find_blank_line(&self.head[from..]).map(|end| from + end) else {
            if self.head.len() > MAX_HEAD_BYTES {
                self.state = State::Refused(Refusal::HeadTooLong);
            }
            return 0;
        };
        let head = std::mem::take(&mut self.head);
        self.read(&head[..end]);
        self.take_rest(&head[end..])
    }

    fn read(&mut self, head: &[u8]) {
        match read_head(head, self.head_only) {
            Err(refusal) => self.state = State::Refused(refusal),
            Ok(head) => {
                self.state = head.state;
                self.keeps = head.keeps;
            }
        }
    }

    fn take_rest(&mut self, rest: &[u8]) -> u64 {
        match rest.is_empty() {
            true => 0,
            false => self.take(rest),
        }
    }

    fn take_body(&mut self, came: u64, left: u64) -> u64 {
        self.state = match left.checked_sub(came) {
            None => State::Refused(Refusal::TooMuch),
            Some(0) => State::Done,
            Some(left) => State::Body { left },
        };
        came.min(left)
    }

    fn take_chunks(&mut self, plain: &[u8], mut chunk: Chunk) -> u64 {
        let mut body = 0;
        let mut at = 0;
        while at < plain.len() {
            if let Chunk::Data { left } = chunk {
                let now = left.min((plain.len() - at) as u64);
                body += now;
                at += now as usize;
                chunk = match left - now {
                    0 => Chunk::DataEnd,
                    left => Chunk::Data { left },
                };
                continue;
            }
            self.state = match step(chunk, plain[at]) {
                Ok(Some(next)) => State::Chunked(next),
                Ok(None) if at + 1 == plain.len() => State::Done,
                Ok(None) => State::Refused(Refusal::TooMuch),
                Err(refusal) => State::Refused(refusal),
            };
            let State::Chunked(next) = self.state else {
                return body;
            };
            chunk = next;
            at += 1;
        }
        self.state = State::Chunked(chunk);
        body
    }
}

/// One byte outside of the data; `None` at the end of the body.
fn step(chunk: Chunk, byte: u8) -> Result<Option<Chunk>, Refusal> {
    let next = match (chunk, byte) {
        (Chunk::Size { digits: 0, .. }, b'\r' | b'\n' | b';') => return Err(Refusal::BadChunk),
        (Chunk::Size { value, .. } | Chunk::Extension { value }, b'\n') => match value {
            0 => Chunk::Trailer { line: 0, total: 0 },
            left => Chunk::Data { left },
        },
        (Chunk::Size { value, .. }, b'\r' | b';' | b' ' | b'\t') => Chunk::Extension { value },
        (Chunk::Size { value, digits }, digit) => {
            let digit = (digit as char).to_digit(16).ok_or(Refusal::BadChunk)?;
            if digits >= 15 {
                return Err(Refusal::BadChunk);
            }
            Chunk::Size {
                value: value * 16 + u64::from(digit),
                digits: digits + 1,
            }
        }
        (Chunk::Extension { value }, _) => Chunk::Extension { value },
        (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
        (Chunk::DataEnd, b'\n') => Chunk::Size {
            value: 0,
            digits: 0,
        },
        (Chunk::DataEnd | Chunk::Data { .. }, _) => return Err(Refusal::BadChunk),
        (Chunk::Trailer { line: 0, .. }, b'\n') => return Ok(None),
        (Chunk::Trailer { total, .. }, b'\n') => Chunk::Trailer { line: 0, total },
        (Chunk::Trailer { line, total }, b'\r') => Chunk::Trailer { line, total },
        (Chunk::Trailer { total, .. }, _) if total > MAX_HEAD_BYTES => {
            return Err(Refusal::HeadTooLong);
        }
        (Chunk::Trailer { line, total }, _) => Chunk::Trailer {
            line: line + 1,
            total: total + 1,
        },
    };
    Ok(Some(next))
}

fn find_blank_line(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|start| start + 4)
}

/// Status and framing (RFC 9112, section 6.3) of a response.
fn read_head(head: &[u8], head_only: bool) -> Result<Head, Refusal> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let status = first
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(number)
        .ok_or(Refusal::NotHttp)?;
    if (100..200).contains(&status) && status != 101 {
        // An interim response: the one that counts follows.
        return Ok(Head {
            state: State::Head,
            keeps: true,
        });
    }
    if !(200..300).contains(&status) {
        return Err(Refusal::Status(status as u16));
    }
    let mut length = None;
    let mut chunked = false;
    let mut keeps = true;
    for line in lines {
        if let Some(value) = field(line, b"content-length:") {
            length = Some(number(value).ok_or(Refusal::NotHttp)?);
        } else if let Some(value) = field(line, b"transfer-encoding:") {
            chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if let Some(value) = field(line, b"connection:") {
            keeps = !value.eq_ignore_ascii_case(b"close");
        }
    }
    let state = match (head_only || status == 204, chunked, length) {
        (true, _, _) | (false, false, Some(0)) => State::Done,
        (false, true, _) => State::Chunked(Chunk::Size {
            value: 0,
            digits: 0,
        }),
        (false, false, Some(left)) => State::Body { left },
        (false, false, None) => {
            keeps = false;
            State::UntilEnd
        }
    };
    Ok(Head { state, keeps })
}

/// The value of a line that begins with `name`, which ends with a colon.
fn field<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nhello";

    #[test]
    fn a_response_split_at_any_byte_ends_where_its_length_says() {
        for split in 0..=REPLY.len() {
            let mut response = Response::new();
            let body = response.take(&REPLY[..split]) + response.take(&REPLY[split..]);
            assert_eq!(body, 5, "split at {split}");
            assert_eq!(response.outcome(), Some(Ok(())), "split at {split}");
        }
    }

    #[test]
    fn an_unfinished_response_has_no_outcome() {
        let mut response = Response::new();
        assert_eq!(response.take(&REPLY[..REPLY.len() - 1]), 4);
        assert_eq!(response.outcome(), None);
    }

    #[test]
    fn what_cannot_be_counted_is_refused_by_name() {
        for (reply, refusal) in [
            (
                &b"HTTP/1.1 502 Bad\r\ncontent-length: 0\r\n\r\n"[..],
                "status_502",
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
                "response_with_bad_chunk",
            ),
            (b"SSH-2.0-x\r\n\r\n", "response_is_not_http_1.1"),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
                "bytes_after_response",
            ),
        ] {
            let mut response = Response::new();
            response.take(reply);
            let outcome = response.outcome().map(|o| o.map_err(|r| r.to_string()));
            assert_eq!(outcome, Some(Err(refusal.to_owned())));
        }
    }

    const CHUNKED: &[u8] =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nx-sum: 1\r\n\r\n";

    #[test]
    fn a_chunked_response_behind_an_interim_one_ends_with_its_last_chunk() {
        for split in 0..=CHUNKED.len() {
            let mut response = Response::new();
            let body = response.take(&CHUNKED[..split]) + response.take(&CHUNKED[split..]);
            assert_eq!(body, 15, "split at {split}");
            assert_eq!(response.outcome(), Some(Ok(())), "split at {split}");
            assert!(response.keeps());
        }
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_is_the_end_of_the_response() {
        let mut response = Response::new();
        assert_eq!(response.take(b"HTTP/1.1 200 OK\r\n\r\nhello"), 5);
        assert_eq!(response.outcome(), None);
        assert!(!response.keeps());
        response.end();
        assert_eq!(response.outcome(), Some(Ok(())));
    }

    #[test]
    fn a_response_to_head_has_no_body_and_a_server_may_close() {
        let mut response = Response::new();
        response.begin(true);
        response.take(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nConnection: close\r\n\r\n");
        assert_eq!(response.outcome(), Some(Ok(())));
        assert!(!response.keeps());
    }
}
