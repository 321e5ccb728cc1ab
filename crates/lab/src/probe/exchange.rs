//! The request on an established connection: HTTP/1.1 written by hand, so that the same bytes can go as
//! early data, and HTTP/2 when that was agreed.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use tokio::task::LocalSet;
use tollgate_http::{Body, ClientLimits, Pool, Protocol};
use tollgate_tls::Failure;

use super::link::{Link, Shared};
use super::{ProbeError, Request, explain};

/// A first line, and all of the head, is shorter than this.
const MOST_HEAD_BYTES: usize = 64 * 1024;

/// Contents that are kept.
const MOST_CONTENT_BYTES: usize = 1024 * 1024;

/// What a server answered.
pub(super) struct Answer {
    pub(super) first_line: String,
    /// What came behind the first line, if asked for.
    pub(super) contents: Option<String>,
}

/// The bytes of a request over HTTP/1.1, after which the server is to close.
pub(super) fn http1(request: &Request, host: &str) -> Vec<u8> {
    let body = match request.is_safe() {
        true => "",
        false => "Content-Length: 0\r\n",
    };
    format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tollgate-probe/{}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\n{body}Connection: close\r\n\r\n",
        request.method,
        request.path,
        env!("CARGO_PKG_VERSION"),
    )
    .into_bytes()
}

/// What `Host` and `:authority` say: brackets around an IPv6 address, the port unless it is 443.
pub(super) fn authority(host: &str, port: u16) -> String {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    match port {
        443 => host,
        port => format!("{host}:{port}"),
    }
}

/// Waits for the first line of an answer over HTTP/1.1, and for the rest if `contents` is wanted.
pub(super) async fn answer(link: &mut Link, contents: bool) -> Result<Answer, ProbeError> {
    let mut received = Vec::new();
    let end = loop {
        if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            break end;
        }
        if received.len() > MOST_HEAD_BYTES {
            return Err(ProbeError::Request("the answer has no first line".into()));
        }
        let came = link.receive().await.map_err(broken)?;
        if came.is_empty() {
            let reason = match received.is_empty() {
                true => "the server closed the connection without an answer",
                false => "the server closed the connection within the first line of its answer",
            };
            return Err(ProbeError::Request(reason.into()));
        }
        received.extend(came);
    };
    let first_line = printable(received[..end].trim_ascii_end());
    let contents = match contents {
        true => Some(rest(link, received.split_off(end + 1)).await?),
        false => None,
    };
    Ok(Answer {
        first_line,
        contents,
    })
}

/// Reads to the end of the body, or of the connection.
async fn rest(link: &mut Link, mut received: Vec<u8>) -> Result<String, ProbeError> {
    while received.len() < MOST_CONTENT_BYTES && !is_whole(&received) {
        let came = link.receive().await.map_err(broken)?;
        if came.is_empty() {
            break;
        }
        received.extend(came);
    }
    received.truncate(MOST_CONTENT_BYTES);
    Ok(printable(&received))
}

/// Whether fields with a `Content-Length` and as much body have come; other bodies end with the connection.
fn is_whole(received: &[u8]) -> bool {
    let head = received.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(head) = head else {
        return false;
    };
    let fields = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
    let length = fields
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    length.is_some_and(|length: usize| received.len() - head - 4 >= length)
}

/// Text whose control characters cannot play tricks on a terminal.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

/// A request over HTTP/2.
pub(super) async fn http2(
    link: &Rc<RefCell<Link>>,
    request: &Request,
    authority: &str,
    contents: bool,
) -> Result<Answer, ProbeError> {
    let local = LocalSet::new();
    local
        .run_until(http2_in_place(link, request, authority, contents))
        .await
}

async fn http2_in_place(
    link: &Rc<RefCell<Link>>,
    request: &Request,
    authority: &str,
    contents: bool,
) -> Result<Answer, ProbeError> {
    let failed = |error: &dyn std::fmt::Display| ProbeError::Request(error.to_string());
    let io = Shared(Rc::clone(link));
    let limits = ClientLimits::default();
    let (sender, driver) = tollgate_http::handshake(io, Protocol::Http2, &limits)
        .await
        .map_err(|error| failed(&error))?;
    let driving = tokio::task::spawn_local(driver);
    let uri = format!("https://{authority}{}", request.path);
    let message = tollgate_http::Request::builder()
        .method(request.method.as_str())
        .uri(uri)
        .header(
            "user-agent",
            concat!("tollgate-probe/", env!("CARGO_PKG_VERSION")),
        )
        .body(Body::empty())
        .map_err(|error| failed(&error))?;
    let lease = Pool::new().adopt(0, sender, 0);
    let response = lease.send(message).await.map_err(|error| failed(&error))?;
    let (head, body) = response.into_parts();
    let first_line = format!("HTTP/2 {}", head.status.as_u16());
    let contents = match contents {
        false => None,
        true => {
            let fields = head
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {}\n", printable(value.as_bytes())));
            let mut text: String = fields.collect();
            text.push('\n');
            text.push_str(&printable(&collect(body).await?));
            Some(text)
        }
    };
    driving.abort();
    Ok(Answer {
        first_line,
        contents,
    })
}

async fn collect(mut body: Body) -> Result<Vec<u8>, ProbeError> {
    use http_body_util::BodyExt;

    let mut received = Vec::new();
    while received.len() < MOST_CONTENT_BYTES
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| ProbeError::Request(error.to_string()))?;
        if let Some(data) = frame.data_ref() {
            received.extend_from_slice(data);
        }
    }
    received.truncate(MOST_CONTENT_BYTES);
    Ok(received)
}

/// A connection that broke after the handshake; in TLS 1.3 that is also how a server refuses a client
/// certificate, or the lack of one.
pub(super) fn broken(error: io::Error) -> ProbeError {
    let failure = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Failure>());
    let advice = failure.map_or_else(String::new, explain::behind);
    ProbeError::Request(format!("the connection broke: {error}{advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_body_is_known_by_its_length() {
        assert!(!is_whole(b"Content-Length: 3\r\n"));
        assert!(!is_whole(b"Content-Length: 3\r\n\r\nab"));
        assert!(is_whole(b"a: b\r\ncontent-length: 3\r\n\r\nabc"));
        assert!(!is_whole(b"a: b\r\n\r\nabc"));
    }

    #[test]
    fn an_authority_has_brackets_and_an_unusual_port() {
        assert_eq!(authority("a.example", 443), "a.example");
        assert_eq!(authority("::1", 8443), "[::1]:8443");
    }

    #[test]
    fn an_answer_cannot_steer_the_terminal() {
        assert_eq!(printable(b"HTTP/1.1 200 \x1b[2JOK\r"), "HTTP/1.1 200 [2JOK");
    }
}
