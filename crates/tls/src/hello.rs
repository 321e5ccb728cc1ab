//! A bounded reader of the ClientHello, ahead of the TLS library: what the client asks for and
//! offers, before anything is decided.
//!
//! Pure: bytes in, one answer out, the same however the bytes were split. Refuses what no TLS client
//! sends at the first impossible byte; never answers, and never verifies a binder or a ticket.
//! Its input is the network: it must not panic, and holds no more than [`MAX_HELLO_BYTES`].

use tollgate_terms::{CipherSuite, ServerName, TlsVersion};

mod error;
mod message;

pub use error::HelloError;

/// Most raw bytes of one ClientHello including record headers: 64 KiB. Allows a hello of
/// 10,900 bytes in records of one byte each.
pub const MAX_HELLO_BYTES: usize = 64 * 1024;

/// Most bytes of the ClientHello message itself: 20 KiB. Several post-quantum key shares and a
/// 10 KB ticket fit.
pub const MAX_MESSAGE_BYTES: usize = 20 * 1024;

/// Most application protocols, and most pre-shared key identities. Clients send a handful; each
/// entry is kept by itself, so a hello of two-byte entries would cost ten times its size.
pub const MAX_ENTRIES: usize = 64;

/// What a client's first message says; GREASE values (RFC 8701) are left out of every list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// `server_name`; `None` when absent or malformed.
    pub server_name: Option<ServerName>,
    /// Whether `server_name` is present but is not one host name (an address, other bytes).
    pub server_name_malformed: bool,
    /// `legacy_version`, 0x0303 for any current client.
    pub legacy_version: u16,
    /// `supported_versions`; without that extension the legacy version, 0x0303 at most.
    pub versions: Vec<u16>,
    /// Cipher suites in the client's order.
    pub suites: Vec<u16>,
    /// `supported_groups` in the client's order; empty when absent.
    pub groups: Vec<u16>,
    /// Groups of the key shares sent, in order; empty when absent.
    pub key_shares: Vec<u16>,
    /// `signature_algorithms` in the client's order; empty when absent.
    pub signature_schemes: Vec<u16>,
    /// Application protocols in the client's order, 1 to 255 bytes each; empty when absent.
    pub alpn: Vec<Box<[u8]>>,
    /// Legacy session id, at most 32 bytes.
    pub session_id: Vec<u8>,
    /// TLS 1.2 ticket: `None` when the extension is absent, empty when the client asks for one.
    pub session_ticket: Option<Vec<u8>>,
    /// TLS 1.3 pre-shared key identities in order; empty when absent.
    pub psk_identities: Vec<Vec<u8>>,
    /// Whether the client announces early data.
    pub early_data: bool,
    /// Raw bytes that the hello took, record headers included; what follows is not part of it.
    pub raw_len: usize,
}

impl ClientHello {
    /// Whether the first suite that Tollgate knows is a ChaCha20 one: the client has no fast AES.
    pub fn offers_chacha_first(&self) -> bool {
        let known = |suite: &&u16| CipherSuite(**suite).name() != "unknown";
        self.suites
            .iter()
            .find(known)
            .is_some_and(|suite| matches!(suite, 0x1303 | 0xcca8 | 0xcca9))
    }

    /// Whether the client offers `version`.
    pub fn offers(&self, version: TlsVersion) -> bool {
        let value = match version {
            TlsVersion::Tls12 => 0x0303,
            TlsVersion::Tls13 => 0x0304,
        };
        self.versions.contains(&value)
    }
}

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The beginning of a ClientHello; ask again with more bytes.
    Incomplete,
    /// A whole ClientHello.
    Complete(Box<ClientHello>),
    /// An HTTP request without TLS.
    PlainHttp,
    /// Nothing that a TLS handshake can follow.
    Refused(HelloError),
}

/// Reads all raw bytes received so far on a connection.
///
/// Looks at each record header again at every call; where bytes arrive in many small pieces use one
/// [`Reader`], which goes on where it stopped.
pub fn read(bytes: &[u8]) -> Reading {
    Reader::default().read(bytes)
}

/// Remembers which records were seen, so that each byte is looked at once however many calls
/// it takes. 24 bytes.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Where the next record header begins; all before it is whole records of this hello.
    next_record: usize,
    /// Message bytes in those records.
    message_bytes: usize,
    /// Records before `next_record`.
    records: usize,
}

const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// RFC 8446, section 5.1.
const MAX_RECORD: usize = 1 << 14;

impl Reader {
    /// Reads all raw bytes received so far; `bytes` must begin with those of the call before.
    pub fn read(&mut self, bytes: &[u8]) -> Reading {
        if self.next_record == 0
            && let Some(reading) = opening(bytes)
        {
            return reading;
        }
        match self.records(bytes) {
            Ok(None) => Reading::Incomplete,
            Ok(Some(end)) => match self.message(bytes, end) {
                Ok(hello) => Reading::Complete(hello),
                Err(error) => Reading::Refused(error),
            },
            Err(error) => Reading::Refused(error),
        }
    }

    /// Walks record headers until the message is whole; the end of its last record if it is.
    fn records(&mut self, bytes: &[u8]) -> Result<Option<usize>, HelloError> {
        loop {
            let Some(record) = bytes.get(self.next_record..) else {
                return Ok(None);
            };
            let Some(length) = record_length(record, self.next_record)? else {
                return Ok(None);
            };
            let end = self.next_record + RECORD_HEADER + length;
            if end > MAX_HELLO_BYTES {
                return Err(HelloError::TooLong);
            }
            let present = end.min(bytes.len()) - self.next_record - RECORD_HEADER;
            let announced = self.announced(bytes, self.message_bytes + present)?;
            if let Some(announced) = announced
                && self.message_bytes + length > announced
            {
                return Err(HelloError::BytesAfterHello);
            }
            if end > bytes.len() {
                return Ok(None);
            }
            self.next_record = end;
            self.message_bytes += length;
            self.records += 1;
            if announced == Some(self.message_bytes) {
                return Ok(Some(end));
            }
        }
    }

    /// Length of the whole message by its header, checked byte by byte as far as `present` reaches.
    fn announced(&self, bytes: &[u8], present: usize) -> Result<Option<usize>, HelloError> {
        let mut header = [0; MESSAGE_HEADER];
        let known = gather(bytes, present, &mut header);
        let header = &header[..known];
        if let Some(&kind) = header.first()
            && kind != CLIENT_HELLO
        {
            return Err(HelloError::UnexpectedMessage(kind));
        }
        let so_far = header[known.min(1)..]
            .iter()
            .fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        // The bytes still missing can only make it longer.
        if so_far << (8 * (MESSAGE_HEADER - known.max(1))) > MAX_MESSAGE_BYTES {
            return Err(HelloError::TooLong);
        }
        Ok((known == MESSAGE_HEADER).then_some(MESSAGE_HEADER + so_far))
    }

    fn message(&self, bytes: &[u8], end: usize) -> Result<Box<ClientHello>, HelloError> {
        if self.records == 1 {
            return message::read(&bytes[RECORD_HEADER + MESSAGE_HEADER..end], end);
        }
        let mut joined = vec![0; self.message_bytes];
        gather(&bytes[..end], self.message_bytes, &mut joined);
        message::read(&joined[MESSAGE_HEADER..], end)
    }
}

/// Copies the first message bytes out of their records, as many as `target` and `present` allow.
/// Every record but the last is whole.
fn gather(bytes: &[u8], present: usize, target: &mut [u8]) -> usize {
    let wanted = target.len().min(present);
    let mut rest = bytes;
    let mut filled = 0;
    while filled < wanted && rest.len() > RECORD_HEADER {
        let length = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
        let fragment = &rest[RECORD_HEADER..rest.len().min(RECORD_HEADER + length)];
        let count = fragment.len().min(wanted - filled);
        target[filled..filled + count].copy_from_slice(&fragment[..count]);
        filled += count;
        rest = &rest[RECORD_HEADER + fragment.len()..];
    }
    filled
}

/// The length in a record header at `position`, `None` while bytes of it are missing; each byte
/// is judged as soon as it is there.
fn record_length(record: &[u8], position: usize) -> Result<Option<usize>, HelloError> {
    match record.first() {
        None => return Ok(None),
        Some(&HANDSHAKE_RECORD) => {}
        Some(&kind) => return Err(HelloError::UnexpectedRecord(kind)),
    }
    match record.get(1) {
        // The minor version means nothing (RFC 8446, section 5.1).
        None | Some(3) => {}
        Some(&byte) => {
            return Err(HelloError::NotTls {
                position: position + 1,
                byte,
            });
        }
    }
    let Some(length) = record.get(3..RECORD_HEADER) else {
        return Ok(None);
    };
    match usize::from(u16::from_be_bytes([length[0], length[1]])) {
        0 => Err(HelloError::EmptyRecord),
        length if length > MAX_RECORD => Err(HelloError::RecordTooLong(length)),
        length => Ok(Some(length)),
    }
}

/// First bytes of what is sometimes sent where TLS belongs. The methods are those of RFC 9110 and
/// RFC 5789, and the HTTP/2 preface; four bytes tell them from each other.
const OPENINGS: [(&[u8], Reading); 12] = [
    (b"GET ", Reading::PlainHttp),
    (b"POST", Reading::PlainHttp),
    (b"HEAD", Reading::PlainHttp),
    (b"PUT ", Reading::PlainHttp),
    (b"OPTI", Reading::PlainHttp),
    (b"DELE", Reading::PlainHttp),
    (b"CONN", Reading::PlainHttp),
    (b"PATC", Reading::PlainHttp),
    (b"TRAC", Reading::PlainHttp),
    (b"PRI ", Reading::PlainHttp),
    (b"PROX", Reading::Refused(HelloError::ProxyHeader)),
    (b"\r\n\r\n", Reading::Refused(HelloError::ProxyHeader)),
];

/// The answer for a connection that does not open with a handshake record; `None` when it does.
fn opening(bytes: &[u8]) -> Option<Reading> {
    let first = *bytes.first()?;
    if first == HANDSHAKE_RECORD {
        return None;
    }
    // The other record types of RFC 8446 and heartbeat, when a TLS version follows.
    if matches!(first, 20 | 21 | 23 | 24) {
        return match bytes.get(1) {
            None => Some(Reading::Incomplete),
            Some(3) => Some(Reading::Refused(HelloError::UnexpectedRecord(first))),
            Some(_) => Some(not_tls(bytes, 1)),
        };
    }
    // SSL 2.0: a two-byte length with the top bit set, then message type 1.
    if first & 0x80 != 0 {
        return match bytes.get(2) {
            None => Some(Reading::Incomplete),
            Some(1) => Some(Reading::Refused(HelloError::SslV2)),
            Some(_) => Some(not_tls(bytes, 2)),
        };
    }
    let mut longest = 0;
    for (start, reading) in &OPENINGS {
        let same = start.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        if same == start.len() {
            return Some(reading.clone());
        }
        longest = longest.max(same);
    }
    match longest == bytes.len() {
        true => Some(Reading::Incomplete),
        false => Some(not_tls(bytes, longest)),
    }
}

fn not_tls(bytes: &[u8], position: usize) -> Reading {
    Reading::Refused(HelloError::NotTls {
        position,
        byte: bytes.get(position).copied().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
