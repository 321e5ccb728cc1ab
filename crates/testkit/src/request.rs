//! Reading HTTP/1.1 requests, plainly: what a careful backend does and no more.

use std::io::{self, Read};

const MAX_HEAD_BYTES: usize = 256 * 1024;

/// A request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Request target.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// Header fields in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The head as it came, with its line ends.
    pub raw: String,
}

/// Why no request was read.
#[derive(Debug)]
pub enum ReadError {
    /// The connection failed or ended in the middle.
    Io(io::Error),
    /// What came is not a request; the text says why.
    Malformed(&'static str),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Request {
    /// The first field with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn parse(raw: String) -> Result<Self, ReadError> {
        let mut lines = raw.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(ReadError::Malformed("request line"));
        };
        let (method, target, version) = (method.to_owned(), target.to_owned(), version.to_owned());
        let headers = fields(lines)?;
        Ok(Self {
            method,
            target,
            version,
            headers,
            raw,
        })
    }
}

fn fields<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<(String, String)>, ReadError> {
    lines
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let (name, value) = line.split_once(':').ok_or(ReadError::Malformed("field"))?;
            Ok((name.to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// The body of one request, read piece by piece from its connection.
pub(crate) enum Body {
    None,
    Length(u64),
    Chunked,
}

/// Bytes that came and were not yet used, in front of a stream.
pub(crate) struct Incoming<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: Read> Incoming<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// More bytes; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; 16_384];
        let count = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Everything that can be read now.
    pub(crate) fn piece(&mut self) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    fn until(&mut self, end: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        loop {
            if let Some(at) = self
                .buffer
                .windows(end.len())
                .position(|window| window == end)
            {
                return Ok(Some(self.take(at + end.len())));
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                return Err(ReadError::Malformed("head too long"));
            }
            if !self.fill()? {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(ReadError::Malformed("ended within a line"))
                };
            }
        }
    }

    fn exactly(&mut self, count: usize) -> Result<Vec<u8>, ReadError> {
        while self.buffer.len() < count {
            if !self.fill()? {
                return Err(ReadError::Malformed("ended too early"));
            }
        }
        Ok(self.take(count))
    }

    /// A PROXY header when there is one, whole and raw.
    pub(crate) fn preface(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
        while self.buffer.len() < 16 {
            if !self.fill()? {
                return Ok(None);
            }
        }
        if self.buffer.starts_with(b"PROXY ") {
            return self.until(b"\r\n");
        }
        if self.buffer.starts_with(SIGNATURE) {
            let length = usize::from(u16::from_be_bytes([self.buffer[14], self.buffer[15]]));
            return self.exactly(16 + length).map(Some);
        }
        Ok(None)
    }

    /// The next request head; `None` at the end of the connection.
    pub(crate) fn head(&mut self) -> Result<Option<Request>, ReadError> {
        let Some(raw) = self.until(b"\r\n\r\n")? else {
            return Ok(None);
        };
        let raw = String::from_utf8(raw).map_err(|_| ReadError::Malformed("not UTF-8"))?;
        Request::parse(raw).map(Some)
    }

    /// How the body of `request` is framed; ambiguous framing is malformed.
    pub(crate) fn framing(request: &Request) -> Result<Body, ReadError> {
        let lengths: Vec<_> = request
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .collect();
        match (request.header("transfer-encoding"), lengths.as_slice()) {
            (None, []) => Ok(Body::None),
            (None, [(_, length)]) => length
                .parse()
                .map(Body::Length)
                .map_err(|_| ReadError::Malformed("content-length")),
            (Some(coding), []) if coding.eq_ignore_ascii_case("chunked") => Ok(Body::Chunked),
            _ => Err(ReadError::Malformed("ambiguous framing")),
        }
    }

    /// Reads the whole body, handing each piece and the stream to `sink`; returns the trailers.
    pub(crate) fn body(
        &mut self,
        body: &Body,
        mut sink: impl FnMut(&[u8], &mut S) -> io::Result<()>,
    ) -> Result<Vec<(String, String)>, ReadError> {
        match body {
            Body::None => Ok(Vec::new()),
            Body::Length(length) => {
                self.pass(*length, &mut sink)?;
                Ok(Vec::new())
            }
            Body::Chunked => loop {
                let line = self.line()?;
                let size = line.split(';').next().unwrap_or_default();
                let size = u64::from_str_radix(size, 16)
                    .map_err(|_| ReadError::Malformed("chunk size"))?;
                if size == 0 {
                    return self.trailers();
                }
                self.pass(size, &mut sink)?;
                if self.exactly(2)? != b"\r\n" {
                    return Err(ReadError::Malformed("end of chunk"));
                }
            },
        }
    }

    fn pass(
        &mut self,
        mut left: u64,
        sink: &mut impl FnMut(&[u8], &mut S) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        while left > 0 {
            if self.buffer.is_empty() && !self.fill()? {
                return Err(ReadError::Malformed("body ended too early"));
            }
            let count = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(self.buffer.len());
            let piece = self.take(count);
            sink(&piece, &mut self.stream)?;
            left -= count as u64;
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String, ReadError> {
        let line = self
            .until(b"\r\n")?
            .ok_or(ReadError::Malformed("ended within a body"))?;
        let line = String::from_utf8(line).map_err(|_| ReadError::Malformed("not UTF-8"))?;
        Ok(line.trim_end().to_owned())
    }

    fn trailers(&mut self) -> Result<Vec<(String, String)>, ReadError> {
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return fields(lines.iter().map(String::as_str));
            }
            lines.push(line);
        }
    }
}
