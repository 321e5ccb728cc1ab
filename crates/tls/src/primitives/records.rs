//! Records without a handshake before them: both ends of one direction, under a key of their own.

use std::ops::Range;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, NONCE_LEN};
use tollgate_terms::{CipherSuite, TlsVersion};
use zeroize::Zeroizing;

use super::{PrimitiveError, broken};
use crate::failure::Failure;
use crate::provider::is_chacha20;
use crate::records::{
    Form, HEADER_BYTES, PLAIN_BYTES, RecordError, RecordKey, content, sealed_bytes,
};
use crate::session::Session;

/// A sealing and an opening end. What is sealed must be opened in the same order.
pub struct RecordPair {
    sealing: RecordKey,
    opening: RecordKey,
    form: Form,
    suite: CipherSuite,
}

impl RecordPair {
    /// The most plaintext that a record takes.
    pub const PLAIN_BYTES: usize = PLAIN_BYTES;

    /// Both ends of `suite` under a random key.
    ///
    /// # Errors
    /// When the suite is not spoken here, or there is no randomness.
    pub fn new(suite: CipherSuite) -> Result<Self, PrimitiveError> {
        let what = || format!("records of {suite}");
        let algorithm = algorithm(suite).ok_or_else(|| broken(what(), "it is not spoken here"))?;
        let version = match suite.0 >> 8 {
            0x13 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let form = match (version, is_chacha20(suite.0)) {
            (TlsVersion::Tls13, _) => Form::Tls13,
            (TlsVersion::Tls12, true) => Form::Tls12Implicit,
            (TlsVersion::Tls12, false) => Form::Tls12Explicit,
        };
        let mut key = Zeroizing::new(vec![0; algorithm.key_len()]);
        let mut iv = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut key).map_err(|error| broken(what(), error))?;
        aws_lc_rs::rand::fill(&mut iv).map_err(|error| broken(what(), error))?;
        let end = || {
            RecordKey::new(algorithm, &key, iv, 0)
                .ok_or_else(|| broken(what(), "the key does not fit"))
        };
        Ok(Self {
            sealing: end()?,
            opening: end()?,
            form,
            suite,
        })
    }

    /// Room that is enough for `plain` bytes in records.
    pub fn room(plain: usize) -> usize {
        sealed_bytes(plain)
    }

    /// Seals `plain` as one record to the front of `output`, as a connection does. Returns its length.
    ///
    /// # Errors
    /// When `plain` is too long for a record, or `output` too short for it.
    pub fn seal(&mut self, plain: &[u8], output: &mut [u8]) -> Result<usize, PrimitiveError> {
        if plain.len() > PLAIN_BYTES {
            return Err(self.broken("seal", RecordError::TooLong));
        }
        self.sealing
            .seal(self.form, content::DATA, plain, output)
            .map_err(|error| self.broken("seal", error))
    }

    /// Opens one whole record in place, as a connection does. Returns where in it the plaintext is.
    ///
    /// # Errors
    /// When it was changed, or is not the next one.
    pub fn open(&mut self, record: &mut [u8]) -> Result<Range<usize>, PrimitiveError> {
        let Some((header, body)) = record.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Err(self.broken("open", RecordError::Changed));
        };
        let (_, plain) = self
            .opening
            .open(self.form, *header, body)
            .map_err(|error| self.broken("open", error))?;
        Ok(HEADER_BYTES + plain.start..HEADER_BYTES + plain.end)
    }

    fn broken(&self, verb: &str, error: RecordError) -> PrimitiveError {
        broken(
            format!("{verb} a record of {}", self.suite),
            format!("{error:?}"),
        )
    }
}

fn algorithm(suite: CipherSuite) -> Option<&'static Algorithm> {
    match suite {
        CipherSuite::TLS_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Some(&AES_128_GCM),
        CipherSuite::TLS_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(&AES_256_GCM),
        suite if is_chacha20(suite.0) => Some(&CHACHA20_POLY1305),
        _ => None,
    }
}

/// Encrypts `plain` on an established connection to the front of `output`, which has
/// [`RecordPair::room`]. Returns the length of the records. What the session holds goes before them.
///
/// # Errors
/// When the sending direction is closed, or there is no room.
pub fn seal(session: &mut Session, plain: &[u8], output: &mut [u8]) -> Result<usize, Failure> {
    session.seal_into(plain, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_went() {
        for suite in [
            CipherSuite::TLS_AES_128_GCM_SHA256,
            CipherSuite::TLS_AES_256_GCM_SHA384,
            CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ] {
            let mut pair = RecordPair::new(suite).unwrap();
            for length in [0, 1, 64, 1_024, 16_384] {
                let plain: Vec<u8> = (0..length).map(|at| at as u8).collect();
                let mut record = vec![0; RecordPair::room(length)];
                let sealed = pair.seal(&plain, &mut record).unwrap();
                assert!(sealed > length + 16);
                let place = pair.open(&mut record[..sealed]).unwrap();
                assert_eq!(record[place], plain, "{suite} {length}");
            }
        }
    }

    #[test]
    fn a_changed_record_and_one_out_of_order_do_not_open() {
        let mut pair = RecordPair::new(CipherSuite::TLS_AES_128_GCM_SHA256).unwrap();
        let mut records = [[0; 128]; 2].map(|mut record| {
            let length = pair.seal(b"some text", &mut record).unwrap();
            record[..length].to_vec()
        });
        assert!(pair.open(&mut records[1].clone()).is_err());
        records[0][9] ^= 1;
        assert!(pair.open(&mut records[0]).is_err());
        assert!(pair.open(&mut []).is_err());
    }

    #[test]
    fn what_is_too_long_or_unknown_is_refused() {
        let mut pair = RecordPair::new(CipherSuite::TLS_AES_128_GCM_SHA256).unwrap();
        let long = vec![0; RecordPair::PLAIN_BYTES + 1];
        assert!(pair.seal(&long, &mut vec![0; 20_000]).is_err());
        assert!(pair.seal(b"x", &mut [0; 8]).is_err());
        assert!(RecordPair::new(CipherSuite(0x0005)).is_err());
    }
}
