//! Version 1: one line of text, section 2.1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Header, MAX_V1_BYTES, PrefaceError, Reading};

pub(crate) const SIGNATURE: &[u8] = b"PROXY ";

pub(crate) fn read(bytes: &[u8]) -> Reading {
    let window = &bytes[..bytes.len().min(MAX_V1_BYTES)];
    let Some(end) = window.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return match window.len() < MAX_V1_BYTES {
            true => Reading::Incomplete,
            false => Reading::Malformed(PrefaceError::LineTooLong),
        };
    };
    match (window[end], window.get(end + 1)) {
        (b'\r', Some(b'\n')) => {}
        (b'\r', None) if end + 1 < MAX_V1_BYTES => return Reading::Incomplete,
        (b'\r', None) => return Reading::Malformed(PrefaceError::LineTooLong),
        _ => return Reading::Malformed(PrefaceError::LineEnd),
    }
    match line(&window[SIGNATURE.len().min(end)..end]) {
        Ok(header) => Reading::Complete {
            header,
            length: end + 2,
        },
        Err(error) => Reading::Malformed(error),
    }
}

/// What stands between `PROXY ` and CRLF.
fn line(bytes: &[u8]) -> Result<Header, PrefaceError> {
    let (protocol, fields) = match bytes.iter().position(|byte| *byte == b' ') {
        Some(space) => (&bytes[..space], &bytes[space + 1..]),
        None => (bytes, &[][..]),
    };
    let is_v6 = match protocol {
        // Whatever follows UNKNOWN must be ignored.
        b"UNKNOWN" => return Ok(Header::default()),
        b"TCP4" => false,
        b"TCP6" => true,
        _ => return Err(PrefaceError::Protocol),
    };
    let fields = std::str::from_utf8(fields).map_err(|_| PrefaceError::Fields)?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let [source, destination, source_port, destination_port] = fields.as_slice() else {
        return Err(PrefaceError::Fields);
    };
    let source = SocketAddr::new(address(source, is_v6)?, port(source_port)?);
    let destination = SocketAddr::new(address(destination, is_v6)?, port(destination_port)?);
    Ok(Header {
        source: Some(source),
        destination: Some(destination),
        ..Header::default()
    })
}

fn address(text: &str, is_v6: bool) -> Result<IpAddr, PrefaceError> {
    let parsed = match is_v6 {
        true => text.parse::<Ipv6Addr>().map(IpAddr::from),
        false => text.parse::<Ipv4Addr>().map(IpAddr::from),
    };
    parsed.map_err(|_| PrefaceError::Address)
}

fn port(text: &str) -> Result<u16, PrefaceError> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        Ok(port) if is_plain => Ok(port),
        _ => Err(PrefaceError::Port),
    }
}
