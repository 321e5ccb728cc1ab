//! A certificate authority for tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::Folder;

const DAY: Duration = Duration::from_secs(86_400);

/// The key of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKind {
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// Ed25519.
    Ed25519,
    /// RSA with 2048 bits.
    Rsa2048,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// From yesterday for 60 days.
    Now,
    /// Until yesterday.
    Expired,
    /// From tomorrow.
    NotYet,
    /// For three more days.
    EndsSoon,
}

/// A root, an intermediate below it, and the certificates that the intermediate signs.
pub struct Authority {
    root: CertifiedIssuer<'static, KeyPair>,
    intermediate: CertifiedIssuer<'static, KeyPair>,
    serial: AtomicU64,
}

/// An end-entity certificate with its chain and key.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// PEM of the end-entity certificate alone.
    pub certificate_pem: String,
    /// PEM of the end-entity certificate and the intermediate, in this order.
    pub chain_pem: String,
    /// PEM (PKCS #8) of the key, unencrypted.
    pub key_pem: String,
    /// Serial number.
    pub serial: u64,
    chain_der: Vec<CertificateDer<'static>>,
    key_der: Vec<u8>,
}

fn key(kind: LeafKind) -> KeyPair {
    let algorithm = match kind {
        LeafKind::EcdsaP256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        LeafKind::EcdsaP384 => &rcgen::PKCS_ECDSA_P384_SHA384,
        LeafKind::Ed25519 => &rcgen::PKCS_ED25519,
        LeafKind::Rsa2048 => &rcgen::PKCS_RSA_SHA256,
    };
    KeyPair::generate_for(algorithm).expect("a fresh key")
}

fn validity(params: &mut CertificateParams, validity: Validity) {
    let now = SystemTime::now();
    let (from, until) = match validity {
        Validity::Now => (now - DAY, now + 60 * DAY),
        Validity::Expired => (now - 60 * DAY, now - DAY),
        Validity::NotYet => (now + DAY, now + 60 * DAY),
        Validity::EndsSoon => (now - 60 * DAY, now + 3 * DAY),
    };
    params.not_before = from.into();
    params.not_after = until.into();
}

fn issuer_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    validity(&mut params, Validity::Now);
    params
}

impl Authority {
    /// A new authority; `name` is part of its issuers' common names.
    pub fn new(name: &str) -> Self {
        let root = CertifiedIssuer::self_signed(
            issuer_params(&format!("{name} root")),
            key(LeafKind::EcdsaP256),
        )
        .expect("a root");
        let intermediate = CertifiedIssuer::signed_by(
            issuer_params(&format!("{name} intermediate")),
            key(LeafKind::EcdsaP256),
            &root,
        )
        .expect("an intermediate");
        Self {
            root,
            intermediate,
            serial: AtomicU64::new(4096),
        }
    }

    /// PEM of the root: what a client trusts.
    pub fn root_pem(&self) -> String {
        self.root.pem()
    }

    /// PEM of the intermediate.
    pub fn intermediate_pem(&self) -> String {
        self.intermediate.pem()
    }

    pub(crate) fn root_der(&self) -> CertificateDer<'static> {
        self.root.der().clone()
    }

    /// A server certificate for `names` (DNS names or IP addresses), valid now.
    pub fn server(&self, kind: LeafKind, names: &[&str]) -> Leaf {
        self.server_valid(kind, names, Validity::Now)
    }

    /// A server certificate with this validity.
    pub fn server_valid(&self, kind: LeafKind, names: &[&str], valid: Validity) -> Leaf {
        let common_name = names.first().copied().unwrap_or("nameless");
        self.leaf(kind, common_name, names, valid)
    }

    /// A client certificate with this common name and the DNS name `<common name>.client.test`.
    pub fn client(&self, common_name: &str, valid: Validity) -> Leaf {
        let name = format!("{common_name}.client.test");
        self.leaf(LeafKind::EcdsaP256, common_name, &[&name], valid)
    }

    fn leaf(&self, kind: LeafKind, common_name: &str, names: &[&str], valid: Validity) -> Leaf {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names that fit a certificate");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        validity(&mut params, valid);
        let key = key(kind);
        let certificate = params
            .signed_by(&key, &self.intermediate)
            .expect("a leaf certificate");
        Leaf {
            certificate_pem: certificate.pem(),
            chain_pem: format!("{}{}", certificate.pem(), self.intermediate.pem()),
            key_pem: key.serialize_pem(),
            serial,
            chain_der: vec![certificate.der().clone(), self.intermediate.der().clone()],
            key_der: key.serialize_der(),
        }
    }

    /// PEM of a revocation list of the intermediate with these serial numbers.
    pub fn revoked_pem(&self, serials: &[u64]) -> String {
        revocation_list(&self.intermediate, serials)
    }
}

fn revocation_list(issuer: &Issuer<'_, KeyPair>, serials: &[u64]) -> String {
    let now = SystemTime::now();
    CertificateRevocationListParams {
        this_update: (now - DAY).into(),
        next_update: (now + 60 * DAY).into(),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: serials
            .iter()
            .map(|serial| RevokedCertParams {
                serial_number: SerialNumber::from(*serial),
                revocation_time: (now - DAY).into(),
                reason_code: None,
                invalidity_date: None,
            })
            .collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    }
    .signed_by(issuer)
    .expect("a revocation list")
    .pem()
    .expect("its PEM")
}

impl Leaf {
    /// Writes `<name>.pem` (chain) and `<name>.key` and returns both paths.
    pub fn write(&self, folder: &Folder, name: &str) -> (PathBuf, PathBuf) {
        (
            folder.write(&format!("{name}.pem"), &self.chain_pem),
            folder.write_secret(&format!("{name}.key"), &self.key_pem),
        )
    }

    pub(crate) fn chain_der(&self) -> Vec<CertificateDer<'static>> {
        self.chain_der.clone()
    }

    pub(crate) fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }
}
