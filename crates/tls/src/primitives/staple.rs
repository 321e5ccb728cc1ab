//! A stapled OCSP response, made and checked. The library hands a staple over without looking at it, so
//! this is what a client that does look has to do besides (RFC 6960, section 3.2).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rcgen::{CertifiedIssuer, KeyPair, SigningKey};
use rustls::pki_types::CertificateDer;
use tollgate_terms::UnixTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{PrimitiveError, broken};
use crate::client::{Staple, StapleStatus};

const WHAT: &str = "check of a staple";

/// 1.3.6.1.5.5.7.48.1.1, id-pkix-ocsp-basic.
const BASIC: [u8; 9] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];
/// 1.2.840.10045.4.3.2, ecdsa-with-SHA256.
const ECDSA_SHA256: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// 1.3.14.3.2.26, the hash that names issuers in OCSP; nothing is protected by it.
const SHA1: [u8; 5] = [0x2b, 0x0e, 0x03, 0x02, 0x1a];

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const TIME: u8 = 0x18;
const CONTEXT_0: u8 = 0xa0;
const MADE: &[u8] = b"20200101000000Z";
const NEXT: &[u8] = b"40000101000000Z";

/// Says that the certificate with this serial number (big-endian, positive) is good, signed by its
/// issuer itself, which has an ECDSA P-256 key.
pub(super) fn make(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    serial: &[u8],
) -> Result<Vec<u8>, PrimitiveError> {
    let unmade = |error: &dyn std::fmt::Display| broken("staple", error);
    let (_, certificate) =
        X509Certificate::from_der(issuer.der()).map_err(|error| unmade(&error))?;
    let hash = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let name = hash(certificate.subject().as_raw());
    let key = hash(&certificate.public_key().subject_public_key.data);
    let subject = der(
        SEQUENCE,
        &[
            &der(SEQUENCE, &[&der(OID, &[&SHA1]), &der(0x05, &[])]),
            &der(OCTETS, &[name.as_ref()]),
            &der(OCTETS, &[key.as_ref()]),
            &der(0x02, &[serial]),
        ],
    );
    let single = der(
        SEQUENCE,
        &[
            &subject,
            &der(0x80, &[]),
            &der(TIME, &[MADE]),
            &der(CONTEXT_0, &[&der(TIME, &[NEXT])]),
        ],
    );
    let data = der(
        SEQUENCE,
        &[
            &der(0xa2, &[&der(OCTETS, &[key.as_ref()])]),
            &der(TIME, &[MADE]),
            &der(SEQUENCE, &[&single]),
        ],
    );
    let signature = issuer.key().sign(&data).map_err(|error| unmade(&error))?;
    let basic = der(
        SEQUENCE,
        &[
            &data,
            &der(SEQUENCE, &[&der(OID, &[&ECDSA_SHA256])]),
            &der(0x03, &[&[0], &signature]),
        ],
    );
    let bytes = der(SEQUENCE, &[&der(OID, &[&BASIC]), &der(OCTETS, &[&basic])]);
    Ok(der(
        SEQUENCE,
        &[&der(0x0a, &[&[0]]), &der(CONTEXT_0, &[&bytes])],
    ))
}

/// One element; at most 64 KB.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let [high, low] = (length as u16).to_be_bytes();
    let mut element = vec![tag];
    match length {
        0..=0x7f => element.push(low),
        0x80..=0xff => element.extend([0x81, low]),
        _ => element.extend([0x82, high, low]),
    }
    element.extend(parts.iter().flat_map(|part| part.iter()));
    element
}

/// What a staple has to fit to.
pub(super) struct StapleCheck {
    issuer_key: Vec<u8>,
    serial: String,
}

impl StapleCheck {
    /// For staples about `end_entity`, signed by `issuer` itself.
    pub(super) fn new(
        end_entity: &CertificateDer<'_>,
        issuer: &CertificateDer<'_>,
    ) -> Result<Self, PrimitiveError> {
        let read = |der| {
            X509Certificate::from_der(der)
                .map(|(_, certificate)| certificate)
                .map_err(|error| broken(WHAT, error))
        };
        let serial = read(end_entity)?.serial.to_bytes_be();
        Ok(Self {
            issuer_key: read(issuer)?.public_key().subject_public_key.data.to_vec(),
            serial: serial.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// Status, serial number, dates, and the signature.
    pub(super) fn check(&self, staple: &[u8], now: UnixTime) -> Result<(), PrimitiveError> {
        let said = Staple::read(staple).map_err(|error| broken(WHAT, error))?;
        if said.status != StapleStatus::Good || said.serial != self.serial {
            return Err(broken(
                WHAT,
                "it does not say that this certificate is good",
            ));
        }
        if now < said.this_update || said.next_update.is_some_and(|next| next < now) {
            return Err(broken(WHAT, "it is not valid now"));
        }
        let (data, signature) = signed(staple).ok_or_else(|| broken(WHAT, "it cannot be read"))?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.issuer_key)
            .verify(data, signature)
            .map_err(|_| broken(WHAT, "the signature is not the issuer's"))
    }
}

/// What is signed, and the signature.
fn signed(staple: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, response, _) = element(staple)?;
    let (_, _, rest) = element(response)?;
    let (_, bytes, _) = element(rest)?;
    let (_, bytes, _) = element(bytes)?;
    let (_, _, rest) = element(bytes)?;
    let (_, basic, _) = element(rest)?;
    let (_, basic, _) = element(basic)?;
    let (data, _, rest) = element(basic)?;
    let (_, _, rest) = element(rest)?;
    let (_, signature, _) = element(rest)?;
    Some((data, signature.strip_prefix(&[0])?))
}

/// The first element as a whole, what is in it, and what follows it.
fn element(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, start) = match *input.get(1)? {
        short @ 0..=0x7f => (usize::from(short), 2),
        0x81 => (usize::from(*input.get(2)?), 3),
        0x82 => (
            usize::from(*input.get(2)?) << 8 | usize::from(*input.get(3)?),
            4,
        ),
        _ => return None,
    };
    let (whole, rest) = input.split_at_checked(start + length)?;
    Some((whole, &whole[start..], rest))
}
