//! Version 2: a binary header with TLVs, section 2.2.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::checksum::crc32c;
use crate::kinds::{
    CLIENT_CERTIFICATE_IN_SESSION, CLIENT_CERTIFICATE_SENT, CLIENT_TLS, TLV_CRC32C,
    TLV_TLS_COMMON_NAME, TLV_TLS_SUITE, TLV_TLS_VERSION,
};
use crate::{Header, IncomingTls, MAX_V2_BYTES, PrefaceError, Reading};

pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
pub(crate) const FIXED_BYTES: usize = 16;

type Addresses = (Option<SocketAddr>, Option<SocketAddr>);

pub(crate) fn read(bytes: &[u8]) -> Reading {
    match checked_length(bytes) {
        Ok(None) => Reading::Incomplete,
        Ok(Some(length)) => match header(&bytes[..length]) {
            Ok(header) => Reading::Complete { header, length },
            Err(error) => Reading::Malformed(error),
        },
        Err(error) => Reading::Malformed(error),
    }
}

/// Length of the whole header once all of it is there; each fixed byte is judged when it comes.
fn checked_length(bytes: &[u8]) -> Result<Option<usize>, PrefaceError> {
    match bytes.get(12) {
        Some(byte) if byte >> 4 != 2 => return Err(PrefaceError::Version(byte >> 4)),
        Some(byte) if byte & 15 > 1 => return Err(PrefaceError::Command(byte & 15)),
        _ => {}
    }
    match bytes.get(13) {
        Some(&family) if family >> 4 > 3 || family & 15 > 2 => {
            return Err(PrefaceError::Family(family));
        }
        _ => {}
    }
    let Some(length) = bytes.get(14..FIXED_BYTES) else {
        return Ok(None);
    };
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]]));
    match length {
        length if length > MAX_V2_BYTES => Err(PrefaceError::TooLong(length)),
        length if length > bytes.len() => Ok(None),
        length => Ok(Some(length)),
    }
}

fn header(bytes: &[u8]) -> Result<Header, PrefaceError> {
    let is_local = bytes[12] & 15 == 0;
    let family = bytes[13];
    // LOCAL and UNSPEC: the rest must be ignored.
    if is_local || family >> 4 == 0 {
        return Ok(Header {
            local: is_local,
            ..Header::default()
        });
    }
    let ((source, destination), rest) = addresses(family, &bytes[FIXED_BYTES..])?;
    let tlvs = tlvs(rest)?;
    if let Some(checksum) = first(&tlvs, TLV_CRC32C) {
        verify(bytes, bytes.len() - rest.len(), checksum)?;
    }
    Ok(Header {
        source,
        destination,
        local: false,
        tlvs,
    })
}

/// The addresses of a family and what follows them.
fn addresses(family: u8, bytes: &[u8]) -> Result<(Addresses, &[u8]), PrefaceError> {
    let length = match family >> 4 {
        1 => 12,
        2 => 36,
        _ => 216,
    };
    let (block, rest) = bytes
        .split_at_checked(length)
        .ok_or(PrefaceError::TooShort)?;
    // Only streams have a client that we serve.
    if family & 15 != 1 {
        return Ok(((None, None), rest));
    }
    let pair = match family >> 4 {
        1 => pair::<4>(block).map(|(a, b, from, to)| {
            (
                SocketAddr::new(Ipv4Addr::from(a).into(), from),
                SocketAddr::new(Ipv4Addr::from(b).into(), to),
            )
        }),
        2 => pair::<16>(block).map(|(a, b, from, to)| {
            (
                SocketAddr::new(Ipv6Addr::from(a).into(), from),
                SocketAddr::new(Ipv6Addr::from(b).into(), to),
            )
        }),
        _ => None,
    };
    Ok((pair.unzip(), rest))
}

/// Two addresses of `N` bytes, then two ports.
fn pair<const N: usize>(block: &[u8]) -> Option<([u8; N], [u8; N], u16, u16)> {
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let &[a, b, c, d] = rest else {
        return None;
    };
    Some((
        *source,
        *destination,
        u16::from_be_bytes([a, b]),
        u16::from_be_bytes([c, d]),
    ))
}

fn tlvs(mut rest: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, PrefaceError> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (value, after) = split_tlv(rest).ok_or(PrefaceError::Tlv)?;
        found.push((rest[0], value.to_vec()));
        rest = after;
    }
    Ok(found)
}

/// The value of the TLV that `bytes` begin with, and what follows it.
fn split_tlv(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[_, high, low], rest) = bytes.split_first_chunk::<3>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))
}

pub(crate) fn first(tlvs: &[(u8, Vec<u8>)], kind: u8) -> Option<&[u8]> {
    let (_, value) = tlvs.iter().find(|(own, _)| *own == kind)?;
    Some(value)
}

/// The checksum covers the whole header with its own four bytes as zeros.
fn verify(bytes: &[u8], tlvs_start: usize, checksum: &[u8]) -> Result<(), PrefaceError> {
    let Ok(expected) = <[u8; 4]>::try_from(checksum) else {
        return Err(PrefaceError::Checksum);
    };
    let mut at = tlvs_start;
    while bytes[at] != TLV_CRC32C {
        let (value, _) = split_tlv(&bytes[at..]).ok_or(PrefaceError::Tlv)?;
        at += 3 + value.len();
    }
    let (before, own) = bytes.split_at(at + 3);
    match crc32c(&[before, &[0; 4], &own[4..]]) == u32::from_be_bytes(expected) {
        true => Ok(()),
        false => Err(PrefaceError::Checksum),
    }
}

/// Section 2.2.5; `None` when the value is too short or its own TLVs do not fit.
pub(crate) fn incoming_tls(value: &[u8]) -> Option<IncomingTls> {
    let (&[client, verify @ ..], rest) = value.split_first_chunk::<5>()?;
    let inner = tlvs(rest).ok()?;
    let text = |kind| {
        first(&inner, kind)
            .and_then(|value| std::str::from_utf8(value).ok())
            .map(str::to_owned)
    };
    let certificate_in_session = client & CLIENT_CERTIFICATE_IN_SESSION != 0;
    Some(IncomingTls {
        over_tls: client & CLIENT_TLS != 0,
        certificate_sent: client & CLIENT_CERTIFICATE_SENT != 0,
        certificate_in_session,
        verified: certificate_in_session && verify == [0; 4],
        version: text(TLV_TLS_VERSION),
        common_name: text(TLV_TLS_COMMON_NAME),
        suite: text(TLV_TLS_SUITE),
    })
}
