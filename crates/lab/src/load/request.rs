//! The request that operations send, made once.

use std::fmt::Write as _;

use bytes::Bytes;
use tollgate_http::{Body, HeaderName, HeaderValue, Method, Protocol, Request as Message, Uri};

use super::error::LoadError;

/// How much of a long body is encrypted and sent at a time: four records.
const PIECE_BYTES: usize = 64 * 1024;

/// A body for HTTP/2 is held in memory whole, so it is bounded.
const LONGEST_SHARED_BODY: u64 = 256 << 20;

/// Words that make a request; what a part asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) name: &'a str,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body_bytes: u64,
}

/// One request, ready to be sent any number of times.
#[derive(Debug)]
pub(crate) struct Request {
    /// The head as HTTP/1.1 has it, with the body behind it when that is short.
    start: Vec<u8>,
    /// Body bytes that are not in `start`.
    rest: u64,
    piece: Bytes,
    body_bytes: u64,
    method: Method,
    /// With scheme and authority, for HTTP/2.
    uri: Uri,
    path: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Request {
    /// Makes the request.
    ///
    /// # Errors
    /// When method, path or a field cannot be sent.
    pub(crate) fn new(wanted: &Wanted<'_>) -> Result<Self, LoadError> {
        let method = Method::from_bytes(wanted.method.as_bytes())
            .map_err(|_| LoadError::Method(wanted.method.to_owned()))?;
        let bad_path = || LoadError::Path(wanted.path.to_owned());
        if !wanted.path.starts_with('/') {
            return Err(bad_path());
        }
        let path: Uri = wanted.path.parse().map_err(|_| bad_path())?;
        let uri = format!("https://{}{}", authority(wanted.name), wanted.path)
            .parse()
            .map_err(|_| bad_path())?;
        let headers = fields(wanted.headers)?;
        let mut start = head(wanted, &headers);
        let in_start = match wanted.body_bytes <= PIECE_BYTES as u64 {
            true => wanted.body_bytes,
            false => 0,
        };
        start.resize(start.len() + in_start as usize, b'x');
        Ok(Self {
            start,
            rest: wanted.body_bytes - in_start,
            piece: vec![b'x'; PIECE_BYTES].into(),
            body_bytes: wanted.body_bytes,
            method,
            uri,
            path,
            headers,
        })
    }

    /// What is sent first, in one go.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// The pieces of the body that follow.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.rest / PIECE_BYTES as u64;
        let last = (self.rest % PIECE_BYTES as u64) as usize;
        (0..whole)
            .map(|_| &self.piece[..])
            .chain((last > 0).then(|| &self.piece[..last]))
    }

    /// Length of the body.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the response has a head only.
    pub(crate) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// The same for the HTTP room.
    pub(crate) fn message(&self, protocol: Protocol, body: &Bytes) -> Message<Body> {
        let body = match body.is_empty() {
            true => Body::empty(),
            false => Body::full(body.clone()),
        };
        let mut message = Message::new(body);
        *message.method_mut() = self.method.clone();
        *message.uri_mut() = match protocol {
            Protocol::Http1 => self.path.clone(),
            Protocol::Http2 => self.uri.clone(),
        };
        let fields = message.headers_mut();
        if protocol == Protocol::Http1
            && let Some(host) = self.uri.host()
            && let Ok(host) = HeaderValue::from_str(host)
        {
            fields.insert(tollgate_http::header::HOST, host);
        }
        for (name, value) in &self.headers {
            fields.append(name.clone(), value.clone());
        }
        message
    }

    /// The body for [`Request::message`].
    ///
    /// # Errors
    /// When it is too long to be held.
    pub(crate) fn whole_body(&self) -> Result<Bytes, LoadError> {
        match self.body_bytes <= LONGEST_SHARED_BODY {
            true => Ok(vec![b'x'; self.body_bytes as usize].into()),
            false => Err(LoadError::BodyTooLong {
                bytes: self.body_bytes,
                most: LONGEST_SHARED_BODY,
            }),
        }
    }
}

/// A host as it stands in a URI.
fn authority(name: &str) -> String {
    match name.contains(':') {
        true => format!("[{name}]"),
        false => name.to_owned(),
    }
}

/// The fields of the head, those that everybody sends included.
fn fields(wanted: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>, LoadError> {
    let mut fields = Vec::with_capacity(wanted.len() + 2);
    for (name, value) in wanted {
        let field = || LoadError::Header(format!("{name}: {value}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| field())?;
        let ours = ["host", "content-length", "transfer-encoding", "connection"];
        if ours.contains(&name.as_str()) {
            return Err(LoadError::OwnHeader(name.to_string()));
        }
        fields.push((name, HeaderValue::from_str(value).map_err(|_| field())?));
    }
    for (name, value) in [("user-agent", "tollgate"), ("accept", "*/*")] {
        if fields.iter().all(|(known, _)| known.as_str() != name) {
            fields.push((
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            ));
        }
    }
    Ok(fields)
}

fn head(wanted: &Wanted<'_>, headers: &[(HeaderName, HeaderValue)]) -> Vec<u8> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nhost: {}\r\n",
        wanted.method,
        wanted.path,
        authority(wanted.name)
    );
    // RFC 9110, section 8.6: a method that expects a body names its length even if that is 0.
    if wanted.body_bytes > 0 || ["POST", "PUT", "PATCH"].contains(&wanted.method) {
        // Writing to a string cannot fail.
        let _ = write!(head, "content-length: {}\r\n", wanted.body_bytes);
    }
    let mut head = head.into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn request(
        method: &str,
        headers: &[(&str, &str)],
        body_bytes: u64,
    ) -> Result<Request, LoadError> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Request::new(&Wanted {
            method,
            path: "/a?b=c",
            name: "shop.example",
            headers: &headers,
            body_bytes,
        })
    }

    #[test]
    fn a_short_body_leaves_with_the_head_and_a_long_one_in_pieces() {
        let short = request("POST", &[("X-One", "1")], 3).unwrap();
        let text = std::str::from_utf8(short.start()).unwrap();
        assert_eq!(
            text,
            "POST /a?b=c HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 3\r\nx-one: 1\r\n\
             user-agent: tollgate\r\naccept: */*\r\n\r\nxxx"
        );
        assert_eq!(short.pieces().count(), 0);
        let long = request("PUT", &[], 200_000).unwrap();
        assert!(long.start().ends_with(b"\r\n\r\n"));
        assert_eq!(long.pieces().map(<[u8]>::len).sum::<usize>(), 200_000);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        assert!(matches!(request("G T", &[], 0), Err(LoadError::Method(_))));
        assert!(matches!(
            request("GET", &[("a b", "c")], 0),
            Err(LoadError::Header(_))
        ));
        assert!(matches!(
            request("GET", &[("Host", "c")], 0),
            Err(LoadError::OwnHeader(_))
        ));
        let no_path = Request::new(&Wanted {
            method: "GET",
            path: "index.html",
            name: "shop.example",
            headers: &[],
            body_bytes: 0,
        });
        assert!(matches!(no_path, Err(LoadError::Path(_))));
    }
}
