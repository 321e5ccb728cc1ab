//! The derivation of secrets and keys: RFC 8446, section 7.1, and the PRF of RFC 5246.
//!
//! One run derives what one side of a handshake derives, with the suite's own functions. The hashes of
//! the transcript are handed in: hashing the messages belongs to the handshake around it.

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use tollgate_terms::CipherSuite;
use zeroize::Zeroizing;

use super::{PrimitiveError, broken};

/// The hash of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// The suites with AES-128 and ChaCha20.
    Sha256,
    /// The suites with AES-256.
    Sha384,
}

impl Hash {
    /// `sha256` or `sha384`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
        }
    }

    /// Output, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }

    /// Key of the suite that goes with it here: AES-128 or AES-256.
    fn key_bytes(self) -> usize {
        match self {
            Self::Sha256 => 16,
            Self::Sha384 => 32,
        }
    }
}

const IV_BYTES: usize = 12;
const LONGEST_KEY_BYTES: usize = 32;

/// Hashes of the messages so far, at the four places where the schedule takes them in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcripts {
    /// Up to ServerHello.
    pub server_hello: Vec<u8>,
    /// Up to the server's CertificateVerify (or EncryptedExtensions, when resumed).
    pub before_server_finished: Vec<u8>,
    /// Up to the server's Finished.
    pub server_finished: Vec<u8>,
    /// Up to the client's Finished.
    pub client_finished: Vec<u8>,
}

impl Transcripts {
    /// Hashes of nothing in particular, of the right length; what they are does not change the cost.
    pub fn any(hash: Hash) -> Self {
        Self {
            server_hello: vec![1; hash.bytes()],
            before_server_finished: vec![2; hash.bytes()],
            server_finished: vec![3; hash.bytes()],
            client_finished: vec![4; hash.bytes()],
        }
    }
}

/// The key schedule of TLS 1.3 for one hash.
#[derive(Clone, Copy)]
pub struct Schedule13 {
    hash: Hash,
    suite: &'static Tls13CipherSuite,
}

/// Everything that one handshake derives. It is there to be looked at by tests, and to be wiped.
pub struct Derived13 {
    client_handshake: Direction,
    server_handshake: Direction,
    client_traffic: Direction,
    server_traffic: Direction,
    exporter: OkmBlock,
    resumption: OkmBlock,
    ticket: OkmBlock,
    server_verify_data: Vec<u8>,
    client_verify_data: Vec<u8>,
}

/// A traffic secret and the key made from it.
struct Direction {
    secret: OkmBlock,
    key: Zeroizing<[u8; LONGEST_KEY_BYTES]>,
    iv: Zeroizing<[u8; IV_BYTES]>,
}

impl Schedule13 {
    /// The schedule of the suites with this hash.
    ///
    /// # Errors
    /// When the library has none.
    pub fn new(hash: Hash) -> Result<Self, PrimitiveError> {
        let wanted = match hash {
            Hash::Sha256 => CipherSuite::TLS_AES_128_GCM_SHA256,
            Hash::Sha384 => CipherSuite::TLS_AES_256_GCM_SHA384,
        };
        match suite(wanted) {
            Some(SupportedCipherSuite::Tls13(suite)) => Ok(Self { hash, suite }),
            _ => Err(broken("key schedule", format!("no {wanted} here"))),
        }
    }

    /// Early, handshake and master secret, the four traffic secrets with keys and initial vectors, both
    /// Finished messages, exporter and resumption secret, and the secret of one ticket.
    ///
    /// # Errors
    /// When an output is too long for the hash, which it is not.
    pub fn derive(
        &self,
        shared: &[u8],
        transcripts: &Transcripts,
        ticket_nonce: &[u8],
    ) -> Result<Derived13, PrimitiveError> {
        let hkdf = self.suite.hkdf_provider;
        let empty = self.suite.common.hash_provider.start().finish();

        let early = hkdf.extract_from_zero_ikm(None);
        let derived = expand(early.as_ref(), b"derived", empty.as_ref());
        let handshake = hkdf.extract_from_secret(Some(derived.as_ref()), shared);
        let hello = &transcripts.server_hello;
        let client_handshake = self.direction(handshake.as_ref(), b"c hs traffic", hello)?;
        let server_handshake = self.direction(handshake.as_ref(), b"s hs traffic", hello)?;
        let derived = expand(handshake.as_ref(), b"derived", empty.as_ref());
        let master = hkdf.extract_from_zero_ikm(Some(derived.as_ref()));
        let finished = &transcripts.server_finished;
        let resumption = expand(master.as_ref(), b"res master", &transcripts.client_finished);
        Ok(Derived13 {
            server_verify_data: finish(
                hkdf,
                &server_handshake.secret,
                &transcripts.before_server_finished,
            ),
            client_verify_data: finish(hkdf, &client_handshake.secret, finished),
            client_traffic: self.direction(master.as_ref(), b"c ap traffic", finished)?,
            server_traffic: self.direction(master.as_ref(), b"s ap traffic", finished)?,
            exporter: expand(master.as_ref(), b"exp master", finished),
            ticket: expand(
                hkdf.expander_for_okm(&resumption).as_ref(),
                b"resumption",
                ticket_nonce,
            ),
            resumption,
            client_handshake,
            server_handshake,
        })
    }

    fn direction(
        &self,
        from: &dyn HkdfExpander,
        label: &[u8],
        transcript: &[u8],
    ) -> Result<Direction, PrimitiveError> {
        let secret = expand(from, label, transcript);
        let expander = self.suite.hkdf_provider.expander_for_okm(&secret);
        let mut key = Zeroizing::new([0; LONGEST_KEY_BYTES]);
        let mut iv = Zeroizing::new([0; IV_BYTES]);
        fill(expander.as_ref(), b"key", &mut key[..self.hash.key_bytes()])?;
        fill(expander.as_ref(), b"iv", iv.as_mut_slice())?;
        Ok(Direction { secret, key, iv })
    }
}

impl Derived13 {
    /// A byte that depends on everything, so that nothing is derived in vain.
    pub fn digest(&self) -> u8 {
        let directions = [
            &self.client_handshake,
            &self.server_handshake,
            &self.client_traffic,
            &self.server_traffic,
        ];
        let keys = directions
            .iter()
            .flat_map(|way| [way.secret.as_ref(), way.key.as_slice(), way.iv.as_slice()]);
        let others = [
            self.exporter.as_ref(),
            self.resumption.as_ref(),
            self.ticket.as_ref(),
            &self.server_verify_data,
            &self.client_verify_data,
        ];
        keys.chain(others)
            .filter_map(|bytes| bytes.first())
            .fold(0, |sum, byte| sum ^ byte)
    }
}

/// HKDF-Expand-Label to the length of the hash.
fn expand(expander: &dyn HkdfExpander, label: &[u8], context: &[u8]) -> OkmBlock {
    // A hash has 48 bytes at most, a label 18, a context 48.
    let (length, label_length) = (expander.hash_len() as u16, label.len() as u8 + 6);
    expander.expand_block(&[
        &length.to_be_bytes(),
        &[label_length],
        b"tls13 ",
        label,
        &[context.len() as u8],
        context,
    ])
}

/// HKDF-Expand-Label without context to any length.
fn fill(
    expander: &dyn HkdfExpander,
    label: &[u8],
    output: &mut [u8],
) -> Result<(), PrimitiveError> {
    let (length, label_length) = (output.len() as u16, label.len() as u8 + 6);
    let info: [&[u8]; 5] = [
        &length.to_be_bytes(),
        &[label_length],
        b"tls13 ",
        label,
        &[0],
    ];
    expander
        .expand_slice(&info, output)
        .map_err(|_| broken("key schedule", "the output is too long for the hash"))
}

/// What a Finished message carries (RFC 8446, section 4.4.4).
fn finish(hkdf: &dyn Hkdf, secret: &OkmBlock, transcript: &[u8]) -> Vec<u8> {
    let key = expand(hkdf.expander_for_okm(secret).as_ref(), b"finished", &[]);
    hkdf.hmac_sign(&key, transcript).as_ref().to_vec()
}

/// The derivation of TLS 1.2 for one hash.
#[derive(Clone, Copy)]
pub struct Schedule12 {
    hash: Hash,
    suite: &'static Tls12CipherSuite,
}

/// Everything that one TLS 1.2 handshake derives.
pub struct Derived12 {
    master: Zeroizing<[u8; 48]>,
    keys: Zeroizing<Vec<u8>>,
    client_verify_data: [u8; 12],
    server_verify_data: [u8; 12],
}

impl Schedule12 {
    /// The derivation of the suites with this hash.
    ///
    /// # Errors
    /// When the library has none.
    pub fn new(hash: Hash) -> Result<Self, PrimitiveError> {
        let wanted = match hash {
            Hash::Sha256 => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            Hash::Sha384 => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        };
        match suite(wanted) {
            Some(SupportedCipherSuite::Tls12(suite)) => Ok(Self { hash, suite }),
            _ => Err(broken("key schedule", format!("no {wanted} here"))),
        }
    }

    /// Extended master secret (RFC 7627), both keys with the fixed part of their nonces, both Finished.
    pub fn derive(&self, shared: &[u8], transcripts: &Transcripts) -> Derived12 {
        let session = &transcripts.before_server_finished;
        let mut master = Zeroizing::new([0; 48]);
        self.prf(&mut master[..], shared, b"extended master secret", session);
        let mut keys = Zeroizing::new(vec![0; 2 * (self.hash.key_bytes() + 4)]);
        let randoms = [9; 64];
        self.prf(&mut keys, &master[..], b"key expansion", &randoms);
        let (mut client, mut server) = ([0; 12], [0; 12]);
        self.prf(&mut client, &master[..], b"client finished", session);
        let finished = &transcripts.client_finished;
        self.prf(&mut server, &master[..], b"server finished", finished);
        Derived12 {
            master,
            keys,
            client_verify_data: client,
            server_verify_data: server,
        }
    }

    fn prf(&self, output: &mut [u8], secret: &[u8], label: &[u8], seed: &[u8]) {
        self.suite
            .prf_provider
            .for_secret(output, secret, label, seed);
    }
}

impl Derived12 {
    /// A byte that depends on everything, so that nothing is derived in vain.
    pub fn digest(&self) -> u8 {
        self.master[0] ^ self.keys[0] ^ self.client_verify_data[0] ^ self.server_verify_data[0]
    }
}

fn suite(wanted: CipherSuite) -> Option<SupportedCipherSuite> {
    default_provider()
        .cipher_suites
        .into_iter()
        .find(|suite| u16::from(suite.suite()) == wanted.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    }

    fn check(direction: &Direction, secret: &str, key: &str, iv: &str) {
        assert_eq!(direction.secret.as_ref(), bytes(secret));
        assert_eq!(direction.key[..16], bytes(key));
        assert_eq!(direction.iv.as_slice(), bytes(iv));
    }

    /// The simple 1-RTT handshake of RFC 8448, section 3.
    #[test]
    fn the_example_of_the_standard_comes_out() {
        let transcripts = Transcripts {
            server_hello: bytes("860c06edc07858ee8e78f0e7428c58edd6b43f2ca3e6e95f02ed063cf0e1cad8"),
            before_server_finished: bytes(
                "edb7725fa7a3473b031ec8ef65a2485493900138a2b91291407d7951a06110ed",
            ),
            server_finished: bytes(
                "9608102a0f1ccc6db6250b7b7e417b1a000eaada3daae4777a7686c9ff83df13",
            ),
            client_finished: bytes(
                "209145a96ee8e2a122ff810047cc952684658d6049e86429426db87c54ad143d",
            ),
        };
        let shared = bytes("8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d");
        let schedule = Schedule13::new(Hash::Sha256).unwrap();
        let derived = schedule.derive(&shared, &transcripts, &[0, 0]).unwrap();
        check(
            &derived.client_handshake,
            "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
            "dbfaa693d1762c5b666af5d950258d01",
            "5bd3c71b836e0b76bb73265f",
        );
        check(
            &derived.server_handshake,
            "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
            "3fce516009c21727d0f2e4e86ee403bc",
            "5d313eb2671276ee13000b30",
        );
        check(
            &derived.client_traffic,
            "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
            "17422dda596ed5d9acd890e3c63f5051",
            "5b78923dee08579033e523d9",
        );
        check(
            &derived.server_traffic,
            "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
            "9f02283b6c9c07efc26bb9f2ac92e356",
            "cf782b88dd83549aadf1e984",
        );
        for (derived, expected) in [
            (
                derived.exporter.as_ref(),
                "fe22f881176eda18eb8f44529e6792c50c9a3f89452f68d8ae311b4309d3cf50",
            ),
            (
                derived.resumption.as_ref(),
                "7df235f2031d2a051287d02b0241b0bfdaf86cc856231f2d5aba46c434ec196c",
            ),
            (
                derived.ticket.as_ref(),
                "4ecd0eb6ec3b4d87f5d6028f922ca4c5851a277fd41311c9e62d2c9492e1c4f3",
            ),
            (
                &derived.server_verify_data,
                "9b9b141d906337fbd2cbdce71df4deda4ab42c309572cb7fffee5454b78f0718",
            ),
            (
                &derived.client_verify_data,
                "a8ec436d677634ae525ac1fcebe11a039ec17694fac6e98527b642f2edd5ce61",
            ),
        ] {
            assert_eq!(derived, bytes(expected));
        }
    }

    #[test]
    fn the_longer_hash_gives_longer_secrets() {
        let schedule = Schedule13::new(Hash::Sha384).unwrap();
        let transcripts = Transcripts::any(Hash::Sha384);
        let derived = schedule.derive(&[5; 32], &transcripts, &[0]).unwrap();
        assert_eq!(derived.client_traffic.secret.as_ref().len(), 48);
        assert_ne!(derived.client_traffic.key[16..], [0; 16]);
        let other = schedule.derive(&[6; 32], &transcripts, &[0]).unwrap();
        assert_ne!(derived.ticket.as_ref(), other.ticket.as_ref());
    }

    /// Published with the PRF for SHA-256, and computed with OpenSSL for SHA-384.
    #[test]
    fn the_prf_gives_known_answers() {
        for (hash, secret, seed, expected) in [
            (
                Hash::Sha256,
                "9bbe436ba940f017b17652849a71db35",
                "a0ba9f936cda311827a6f796ffd5198c",
                "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9",
            ),
            (
                Hash::Sha384,
                "b80b733d6ceefcdc71566ea48e5567df",
                "cd665cf6a8447dd6ff8b27555edb7465",
                "7b0c18e9ced410ed1804f2cfa34a336a1c14dffb4900bb5fd7942107e81c83cde9ca0faa60be9fe3",
            ),
        ] {
            let mut output = [0; 40];
            let schedule = Schedule12::new(hash).unwrap();
            schedule.prf(&mut output, &bytes(secret), b"test label", &bytes(seed));
            assert_eq!(output.as_slice(), bytes(expected));
        }
    }

    #[test]
    fn what_is_derived_depends_on_the_secret() {
        let schedule = Schedule12::new(Hash::Sha256).unwrap();
        let transcripts = Transcripts::any(Hash::Sha256);
        let derived = [5, 6].map(|byte| schedule.derive(&[byte; 32], &transcripts));
        assert_eq!(derived[0].keys.len(), 40);
        assert_ne!(derived[0].keys, derived[1].keys);
        assert_ne!(derived[0].client_verify_data, derived[0].server_verify_data);
    }
}
