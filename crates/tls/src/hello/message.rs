//! The body of a ClientHello (RFC 8446, section 4.1.2), field by field.

use tollgate_terms::ServerName;

use super::{ClientHello, HelloError, MAX_ENTRIES};

/// Bytes not read yet; every read is checked against the end.
struct Cursor<'a> {
    rest: &'a [u8],
    /// Name of the field being read, for the refusal.
    field: &'static str,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(HelloError::Malformed(self.field))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, HelloError> {
        Ok(self.take(1)?[0])
    }

    fn two(&mut self) -> Result<u16, HelloError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// What a one-byte length announces.
    fn short(&mut self) -> Result<Cursor<'a>, HelloError> {
        let length = usize::from(self.byte()?);
        let rest = self.take(length)?;
        Ok(Cursor { rest, ..*self })
    }

    /// What a two-byte length announces.
    fn long(&mut self) -> Result<Cursor<'a>, HelloError> {
        let length = usize::from(self.two()?);
        let rest = self.take(length)?;
        Ok(Cursor { rest, ..*self })
    }

    /// All that is left, as a list of two-byte values without GREASE; must not be empty.
    fn values(self) -> Result<Vec<u16>, HelloError> {
        let (pairs, []) = self.rest.as_chunks::<2>() else {
            return Err(HelloError::Malformed(self.field));
        };
        if pairs.is_empty() {
            return Err(HelloError::Malformed(self.field));
        }
        Ok(pairs
            .iter()
            .map(|pair| u16::from_be_bytes(*pair))
            .filter(|value| !is_grease(*value))
            .collect())
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn end(&self) -> Result<(), HelloError> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(HelloError::Malformed(self.field)),
        }
    }
}

/// RFC 8701, section 2: 0x0a0a, 0x1a1a, ... 0xfafa.
fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// Reads the body of one ClientHello, without its handshake header.
pub(super) fn read(body: &[u8], raw_len: usize) -> Result<Box<ClientHello>, HelloError> {
    let mut cursor = Cursor {
        rest: body,
        field: "legacy_version",
    };
    let mut hello = Box::new(ClientHello {
        raw_len,
        ..ClientHello::default()
    });
    hello.legacy_version = cursor.two()?;
    cursor.field = "random";
    cursor.take(32)?;
    cursor.field = "legacy_session_id";
    let session_id = cursor.short()?.rest;
    if session_id.len() > 32 {
        return Err(HelloError::Malformed("legacy_session_id"));
    }
    hello.session_id = session_id.to_vec();
    cursor.field = "cipher_suites";
    hello.suites = cursor.long()?.values()?;
    cursor.field = "legacy_compression_methods";
    if !cursor.short()?.rest.contains(&0) {
        return Err(HelloError::NoNullCompression);
    }
    cursor.field = "extensions";
    if !cursor.is_empty() {
        let block = cursor.long()?;
        cursor.end()?;
        extensions(block, &mut hello)?;
    }
    if hello.versions.is_empty() {
        // RFC 8446, section 4.2.1: without supported_versions it is TLS 1.2 at most.
        hello.versions.push(hello.legacy_version.min(0x0303));
    }
    Ok(hello)
}

// RFC 8446, section 4.2, and RFC 5077 for session_ticket.
const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

fn extensions(mut block: Cursor<'_>, hello: &mut ClientHello) -> Result<(), HelloError> {
    let mut seen = Vec::with_capacity(24);
    while !block.is_empty() {
        let kind = block.two()?;
        let body = block.long()?;
        seen.push(kind);
        if kind == PRE_SHARED_KEY && !block.is_empty() {
            return Err(HelloError::PreSharedKeyNotLast);
        }
        extension(kind, body, hello)?;
    }
    seen.sort_unstable();
    match seen.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(HelloError::DuplicateExtension(pair[0])),
        None => Ok(()),
    }
}

fn extension(kind: u16, mut body: Cursor<'_>, hello: &mut ClientHello) -> Result<(), HelloError> {
    match kind {
        SERVER_NAME => match server_name(body.rest) {
            Some(name) => hello.server_name = Some(name),
            None => hello.server_name_malformed = true,
        },
        SUPPORTED_GROUPS => {
            body.field = "supported_groups";
            hello.groups = body.long()?.values()?;
            body.end()?;
        }
        SIGNATURE_ALGORITHMS => {
            body.field = "signature_algorithms";
            hello.signature_schemes = body.long()?.values()?;
            body.end()?;
        }
        SUPPORTED_VERSIONS => {
            body.field = "supported_versions";
            hello.versions = body.short()?.values()?;
            body.end()?;
        }
        SESSION_TICKET => hello.session_ticket = Some(body.rest.to_vec()),
        EARLY_DATA => {
            body.field = "early_data";
            body.end()?;
            hello.early_data = true;
        }
        ALPN => application_protocols(body, hello)?,
        KEY_SHARE => key_shares(body, hello)?,
        PRE_SHARED_KEY => pre_shared_keys(body, hello)?,
        _ => {}
    }
    Ok(())
}

/// RFC 6066, section 3: exactly one host name, and never an address. `None` when it is not so;
/// the hello is still read, because the refusal of such a client is the site's decision.
fn server_name(body: &[u8]) -> Option<ServerName> {
    let mut cursor = Cursor {
        rest: body,
        field: "server_name",
    };
    let mut list = cursor.long().ok()?;
    cursor.end().ok()?;
    let kind = list.byte().ok()?;
    let name = list.long().ok()?.rest;
    list.end().ok()?;
    let text = std::str::from_utf8(name).ok()?;
    if kind != 0 || text.parse::<std::net::IpAddr>().is_ok() {
        return None;
    }
    ServerName::new(text).ok()
}

/// RFC 7301, section 3.1.
fn application_protocols(mut body: Cursor<'_>, hello: &mut ClientHello) -> Result<(), HelloError> {
    body.field = "application_layer_protocol_negotiation";
    let mut list = body.long()?;
    body.end()?;
    while !list.is_empty() {
        let name = list.short()?.rest;
        if name.is_empty() {
            return Err(HelloError::Malformed(list.field));
        }
        if hello.alpn.len() == MAX_ENTRIES {
            return Err(HelloError::TooMany { what: list.field });
        }
        hello.alpn.push(name.into());
    }
    match hello.alpn.is_empty() {
        true => Err(HelloError::Malformed(body.field)),
        false => Ok(()),
    }
}

/// RFC 8446, section 4.2.8; an empty list asks for a retry.
fn key_shares(mut body: Cursor<'_>, hello: &mut ClientHello) -> Result<(), HelloError> {
    body.field = "key_share";
    let mut list = body.long()?;
    body.end()?;
    while !list.is_empty() {
        let group = list.two()?;
        if list.long()?.is_empty() {
            return Err(HelloError::Malformed(list.field));
        }
        if !is_grease(group) {
            hello.key_shares.push(group);
        }
    }
    Ok(())
}

/// RFC 8446, section 4.2.11.
fn pre_shared_keys(mut body: Cursor<'_>, hello: &mut ClientHello) -> Result<(), HelloError> {
    body.field = "pre_shared_key";
    let mut identities = body.long()?;
    let mut binders = body.long()?;
    body.end()?;
    while !identities.is_empty() {
        let identity = identities.long()?.rest;
        identities.take(4)?;
        if identity.is_empty() {
            return Err(HelloError::Malformed(body.field));
        }
        if hello.psk_identities.len() == MAX_ENTRIES {
            return Err(HelloError::TooMany { what: body.field });
        }
        hello.psk_identities.push(identity.to_vec());
    }
    let mut count = 0;
    while !binders.is_empty() {
        if binders.short()?.rest.len() < 32 {
            return Err(HelloError::Malformed(body.field));
        }
        count += 1;
    }
    let identities = hello.psk_identities.len();
    match identities {
        0 => Err(HelloError::Malformed(body.field)),
        _ if identities != count => Err(HelloError::BinderCount {
            identities,
            binders: count,
        }),
        _ => Ok(()),
    }
}
