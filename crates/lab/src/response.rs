//! The least that must be read of an HTTP/1.1 response: its status and where it ends.

use std::fmt;

/// A response head may take this much.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A response as it comes in.
#[derive(Debug)]
pub(crate) struct Response {
    head: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Body { left: u64 },
    Done,
    Refused(Refusal),
}

/// Why a response is of no use to a load run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The head is not HTTP/1.1.
    NotHttp,
    /// The head is over 64 KB.
    HeadTooLong,
    /// No `Content-Length`: this reader could not tell the end.
    NoLength,
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
            Self::NoLength => f.write_str("response_without_content_length"),
            Self::Status(status) => write!(f, "status_{status}"),
            Self::TooMuch => f.write_str("bytes_after_response"),
        }
    }
}

impl Response {
    pub(crate) fn new() -> Self {
        Self {
            head: Vec::new(),
            state: State::Head,
        }
    }

    /// Ready for the next response on the same connection.
    pub(crate) fn begin(&mut self) {
        self.head.clear();
        self.state = State::Head;
    }

    /// Takes in plaintext and tells how many bytes of it were body.
    pub(crate) fn take(&mut self, plain: &[u8]) -> u64 {
        match self.state {
            State::Head => self.take_head(plain),
            State::Body { left } => self.take_body(plain.len() as u64, left),
            State::Done if !plain.is_empty() => {
                self.state = State::Refused(Refusal::TooMuch);
                0
            }
            State::Done | State::Refused(_) => 0,
        }
    }

    /// `None` while more is to come.
    pub(crate) fn outcome(&self) -> Option<Result<(), Refusal>> {
        match self.state {
            State::Head | State::Body { .. } => None,
            State::Done => Some(Ok(())),
            State::Refused(refusal) => Some(Err(refusal)),
        }
    }

    fn take_head(&mut self, plain: &[u8]) -> u64 {
        let before = self.head.len();
        self.head.extend_from_slice(plain);
        let from = before.saturating_sub(3);
        let Some(end) = find_blank_line(&self.head[from..]).map(|end| from + end) else {
            if self.head.len() > MAX_HEAD_BYTES {
                self.state = State::Refused(Refusal::HeadTooLong);
            }
            return 0;
        };
        match read_head(&self.head[..end]) {
            Err(refusal) => {
                self.state = State::Refused(refusal);
                0
            }
            Ok(length) => self.take_body((self.head.len() - end) as u64, length),
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
}

fn find_blank_line(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|start| start + 4)
}

/// The `Content-Length` of a successful response.
fn read_head(head: &[u8]) -> Result<u64, Refusal> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix(b"HTTP/1.1 "))
        .and_then(|rest| rest.get(..3))
        .and_then(number)
        .ok_or(Refusal::NotHttp)?;
    if !(200..300).contains(&status) {
        return Err(Refusal::Status(status as u16));
    }
    lines.find_map(length).ok_or(Refusal::NoLength)
}

fn length(line: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"content-length:";
    let (name, value) = line.split_at_checked(NAME.len())?;
    if !name.eq_ignore_ascii_case(NAME) {
        return None;
    }
    number(value.trim_ascii())
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
                b"HTTP/1.1 200 OK\r\n\r\n",
                "response_without_content_length",
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
}
