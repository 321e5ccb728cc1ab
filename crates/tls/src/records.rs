//! Protection of single records (RFC 8446, section 5.2; RFC 5246, section 6.2.3.3): in place, or from
//! one buffer into another, without allocation.

use std::ops::Range;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use aws_lc_rs::error::Unspecified;
use rustls::{ConnectionTrafficSecrets, Error};
use zeroize::Zeroizing;

/// Content type, version and length in front of every record.
pub(crate) const HEADER_BYTES: usize = 5;

/// Most plaintext in a record.
pub(crate) const PLAIN_BYTES: usize = 16 * 1024;

/// All suites have tags of this length.
const TAG_BYTES: usize = 16;

/// The part of a TLS 1.2 AES-GCM nonce that is sent (RFC 5288, section 3).
const EXPLICIT_BYTES: usize = 8;

/// Header, explicit nonce and tag; with neither nonce nor content type to spare for the other forms.
const OVERHEAD_BYTES: usize = HEADER_BYTES + EXPLICIT_BYTES + TAG_BYTES;

/// Sequence numbers beyond this are not used, so that they never wrap (RFC 8446, section 5.3).
const SEQUENCE_END: u64 = u64::MAX - 0xffff;

/// What a record carries. Another number may come, so this is no enum.
pub(crate) mod content {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const DATA: u8 = 23;
}

/// The most that `plain` bytes take in records, with one key update in front of them.
pub(crate) fn sealed_bytes(plain: usize) -> usize {
    plain + (plain / PLAIN_BYTES + 2) * (OVERHEAD_BYTES + 8)
}

/// How a suite of a version protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Content type inside, padding, no explicit nonce.
    Tls13,
    /// AES-GCM: eight bytes of nonce in front.
    Tls12Explicit,
    /// ChaCha20-Poly1305: no explicit nonce (RFC 7905).
    Tls12Implicit,
}

impl Form {
    /// The longest body that a record may have.
    pub(crate) fn longest(self) -> usize {
        match self {
            Self::Tls13 => PLAIN_BYTES + 256,
            Self::Tls12Explicit => PLAIN_BYTES + EXPLICIT_BYTES + TAG_BYTES,
            Self::Tls12Implicit => PLAIN_BYTES + TAG_BYTES,
        }
    }
}

/// Why a record could not be opened or sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordError {
    /// It was changed, or made with another key.
    Changed,
    /// More plaintext than allowed.
    TooLong,
    /// TLS 1.3 plaintext that is all padding.
    NoType,
    /// No sequence number is left.
    Exhausted,
    /// The primitive refuses, or there is no room.
    Refused,
}

/// The key of one direction, and the number of the next record.
pub(crate) struct RecordKey {
    key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
    sequence: u64,
}

impl RecordKey {
    /// A key whose next record has the number `sequence`; `None` when it does not fit the algorithm.
    pub(crate) fn new(
        algorithm: &'static Algorithm,
        key: &[u8],
        iv: [u8; NONCE_LEN],
        sequence: u64,
    ) -> Option<Self> {
        let key = UnboundKey::new(algorithm, key).ok()?;
        Some(Self {
            key: LessSafeKey::new(key),
            iv: Zeroizing::new(iv),
            sequence,
        })
    }

    /// The key that the library gives away.
    pub(crate) fn of(secrets: &(u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match &secrets.1 {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("keys for an unknown algorithm".into())),
        };
        let iv = iv.as_ref().try_into().map_err(|_| Error::EncryptError)?;
        Self::new(algorithm, key.as_ref(), iv, secrets.0).ok_or(Error::EncryptError)
    }

    /// What it protects with.
    pub(crate) fn algorithm(&self) -> &'static Algorithm {
        self.key.algorithm()
    }

    /// The number of the next record: how many were made with this key.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The initial vector, the sequence number added to it (RFC 8446, section 5.3).
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = *self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// Decrypts the body of a record in place. Returns its content type and where the plaintext is.
    pub(crate) fn open(
        &mut self,
        form: Form,
        header: [u8; HEADER_BYTES],
        body: &mut [u8],
    ) -> Result<(u8, Range<usize>), RecordError> {
        if self.sequence >= SEQUENCE_END {
            return Err(RecordError::Exhausted);
        }
        let start = match form {
            Form::Tls12Explicit => EXPLICIT_BYTES,
            Form::Tls13 | Form::Tls12Implicit => 0,
        };
        let plain = body.len().checked_sub(start + TAG_BYTES);
        let plain = plain.ok_or(RecordError::Changed)?;
        let mut nonce = self.nonce();
        nonce[NONCE_LEN - start..].copy_from_slice(&body[..start]);
        if form == Form::Tls12Explicit {
            nonce[..4].copy_from_slice(&self.iv[..4]);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = &mut body[start..];
        match form {
            Form::Tls13 => {
                let aad = Aad::from(tls13_aad(sealed.len()));
                self.key.open_in_place(nonce, aad, sealed)
            }
            Form::Tls12Explicit | Form::Tls12Implicit => {
                let version = [header[1], header[2]];
                let aad = Aad::from(tls12_aad(self.sequence, header[0], version, plain));
                self.key.open_in_place(nonce, aad, sealed)
            }
        }
        .map_err(|Unspecified| RecordError::Changed)?;
        self.sequence += 1;
        if form == Form::Tls13 {
            let (kind, length) = unpad(&body[..plain])?;
            return Ok((kind, 0..length));
        }
        match plain {
            ..=PLAIN_BYTES => Ok((header[0], start..start + plain)),
            _ => Err(RecordError::TooLong),
        }
    }

    /// Encrypts `plain`, at most 16 KB, as one record to the front of `output`. Returns its length.
    pub(crate) fn seal(
        &mut self,
        form: Form,
        kind: u8,
        plain: &[u8],
        output: &mut [u8],
    ) -> Result<usize, RecordError> {
        if self.sequence >= SEQUENCE_END {
            return Err(RecordError::Exhausted);
        }
        let (outer, start, inner): (u8, usize, &[u8]) = match form {
            Form::Tls13 => (content::DATA, 0, &[kind]),
            Form::Tls12Explicit => (kind, EXPLICIT_BYTES, &[]),
            Form::Tls12Implicit => (kind, 0, &[]),
        };
        let body = start + plain.len() + inner.len() + TAG_BYTES;
        let record = output.get_mut(..HEADER_BYTES + body);
        let record = record.ok_or(RecordError::Refused)?;
        let (header, sealed) = record.split_at_mut(HEADER_BYTES);
        let length = u16::try_from(body).map_err(|_| RecordError::Refused)?;
        let [high, low] = length.to_be_bytes();
        header.copy_from_slice(&[outer, 3, 3, high, low]);
        let nonce = self.nonce();
        let (explicit, sealed) = sealed.split_at_mut(start);
        explicit.copy_from_slice(&nonce[NONCE_LEN - start..]);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (sealed, tag) = sealed.split_at_mut(plain.len());
        let key = &self.key;
        match form {
            Form::Tls13 => {
                let aad = Aad::from(tls13_aad(body));
                key.seal_out_of_place_scatter(nonce, aad, plain, sealed, inner, tag)
            }
            Form::Tls12Explicit | Form::Tls12Implicit => {
                let aad = Aad::from(tls12_aad(self.sequence, kind, [3, 3], plain.len()));
                key.seal_out_of_place_scatter(nonce, aad, plain, sealed, inner, tag)
            }
        }
        .map_err(|Unspecified| RecordError::Refused)?;
        self.sequence += 1;
        Ok(HEADER_BYTES + body)
    }
}

/// The content type of TLS 1.3 plaintext, which is its last byte that is not zero, and the length
/// before it (RFC 8446, section 5.4).
fn unpad(plain: &[u8]) -> Result<(u8, usize), RecordError> {
    if plain.len() > PLAIN_BYTES + 1 {
        return Err(RecordError::TooLong);
    }
    let end = plain.iter().rposition(|byte| *byte != 0);
    let end = end.ok_or(RecordError::NoType)?;
    Ok((plain[end], end))
}

/// RFC 8446, section 5.2: the header, whose version is the same in every record and else ignored.
fn tls13_aad(body: usize) -> [u8; HEADER_BYTES] {
    // A body fits two bytes: it came with such a length, or is about to get one.
    let [high, low] = (body as u16).to_be_bytes();
    [content::DATA, 3, 3, high, low]
}

/// RFC 5246, section 6.2.3.3.
fn tls12_aad(sequence: u64, kind: u8, version: [u8; 2], plain: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&sequence.to_be_bytes());
    aad[8] = kind;
    aad[9..11].copy_from_slice(&version);
    aad[11..].copy_from_slice(&(plain as u16).to_be_bytes());
    aad
}
