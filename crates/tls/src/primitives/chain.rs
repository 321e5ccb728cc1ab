//! Certificate chains of a wanted depth, and what a client does with them.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, ServerName, UnixTime as PkiTime,
};
use tollgate_terms::{CertificateKind, UnixTime};
use zeroize::Zeroizing;

use super::staple::{self, StapleCheck};
use super::{PrimitiveError, broken};
use crate::material::key_pair;

/// A certificate below a private authority that was made for it.
pub struct Issued {
    /// End-entity certificate and intermediates, as a server sends them: `depth` certificates.
    pub chain_pem: String,
    /// Its key.
    pub key_pem: Zeroizing<String>,
    /// What a client has to trust; not part of the chain.
    pub root_pem: String,
    /// The first name that it is for.
    name: String,
    chain: Vec<CertificateDer<'static>>,
    root: CertificateDer<'static>,
    /// Who has signed the end-entity certificate.
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The serial number of an end-entity certificate made here; no revocation list made here has it.
const SERIAL: u64 = 1 << 40;

/// Makes a certificate of kind `end_entity` for `names` with `depth - 1` intermediates of kind
/// `authority` between it and a root of the same kind, valid for any date that a clock shows.
///
/// # Errors
/// When `depth` is not between 1 and 8, a kind is not made here, or a name is none.
pub fn issue(
    end_entity: CertificateKind,
    authority: CertificateKind,
    depth: usize,
    names: &[&str],
) -> Result<Issued, PrimitiveError> {
    let what = || format!("chain of {depth} certificates");
    let (1..=8, Some(name)) = (depth, names.first()) else {
        return Err(broken(what(), "1 to 8 are made, for at least one name"));
    };
    let mut issuer = root(authority).map_err(|reason| broken(what(), reason))?;
    let (root_pem, root) = (issuer.pem(), issuer.der().clone());
    let mut intermediates = Vec::new();
    for level in 1..depth {
        issuer = below(&issuer, authority, level).map_err(|reason| broken(what(), reason))?;
        intermediates.push((issuer.pem(), issuer.der().clone()));
    }
    let (certificate, key) =
        leaf(&issuer, end_entity, names).map_err(|reason| broken(what(), reason))?;
    intermediates.push((certificate.pem(), certificate.der().clone()));
    Ok(Issued {
        chain_pem: intermediates.iter().rev().map(|(pem, _)| &**pem).collect(),
        key_pem: Zeroizing::new(key.serialize_pem()),
        root_pem,
        name: (*name).to_owned(),
        chain: intermediates
            .into_iter()
            .rev()
            .map(|(_, der)| der)
            .collect(),
        root,
        issuer,
    })
}

fn authority_params(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn root(kind: CertificateKind) -> Result<CertifiedIssuer<'static, KeyPair>, String> {
    let params = authority_params("bench root").map_err(|error| error.to_string())?;
    CertifiedIssuer::self_signed(params, key_pair(kind)?).map_err(|error| error.to_string())
}

fn below(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    kind: CertificateKind,
    level: usize,
) -> Result<CertifiedIssuer<'static, KeyPair>, String> {
    let params = authority_params(&format!("bench intermediate {level}"));
    let params = params.map_err(|error| error.to_string())?;
    CertifiedIssuer::signed_by(params, key_pair(kind)?, issuer).map_err(|error| error.to_string())
}

fn leaf(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    kind: CertificateKind,
    names: &[&str],
) -> Result<(rcgen::Certificate, KeyPair), String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let common_name = names.first().cloned().unwrap_or_default();
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params.serial_number = Some(SerialNumber::from(SERIAL));
    let key = key_pair(kind)?;
    let certificate = params
        .signed_by(&key, issuer)
        .map_err(|error| error.to_string())?;
    Ok((certificate, key))
}

impl Issued {
    /// A revocation list of the issuer with `revoked` serial numbers, none of them that of this chain,
    /// unless `own` says so.
    ///
    /// # Errors
    /// When the list cannot be made.
    pub fn revocation_list(
        &self,
        revoked: usize,
        own: Revocation,
    ) -> Result<Vec<u8>, PrimitiveError> {
        let (made, next) = (date_time_ymd(2020, 1, 1), date_time_ymd(4000, 1, 1));
        // Sixteen bytes, as authorities draw them; these are only counted.
        let numbers = (0..revoked as u128).map(|number| (1_u128 << 120) + number * 0x9e37_79b9);
        let own = (own == Revocation::Revoked).then_some(u128::from(SERIAL));
        let revoked_certs = numbers
            .chain(own)
            .map(|number| RevokedCertParams {
                serial_number: SerialNumber::from_slice(significant(&number.to_be_bytes())),
                revocation_time: made,
                reason_code: None,
                invalidity_date: None,
            })
            .collect();
        let list = CertificateRevocationListParams {
            this_update: made,
            next_update: next,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list
            .signed_by(&self.issuer)
            .map_err(|error| broken("revocation list", error))?;
        Ok(list.der().to_vec())
    }
}

impl Issued {
    /// An OCSP response that says that the end-entity certificate is good, signed by its issuer, which
    /// must be ECDSA P-256.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn staple(&self) -> Result<Vec<u8>, PrimitiveError> {
        staple::make(&self.issuer, significant(&SERIAL.to_be_bytes()))
    }
}

fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// Whether a list revokes the chain that it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// It does not.
    Good,
    /// It does.
    Revoked,
}

/// A chain as a client gets it, and the client's check, which is the library's.
pub struct ServedChain {
    chain: Vec<CertificateDer<'static>>,
    name: ServerName<'static>,
    verifier: Arc<WebPkiServerVerifier>,
    staples: StapleCheck,
}

impl ServedChain {
    /// The chain of `issued`, to a client that trusts its root and holds these revocation lists, DER.
    /// The lists are read and indexed here, once; with one, the end-entity certificate must be covered.
    ///
    /// # Errors
    /// When the library refuses root or list.
    pub fn new(issued: &Issued, revocation_lists: &[Vec<u8>]) -> Result<Self, PrimitiveError> {
        Self::trusting(&issued.root, issued, revocation_lists)
    }

    fn trusting(
        root: &CertificateDer<'static>,
        issued: &Issued,
        revocation_lists: &[Vec<u8>],
    ) -> Result<Self, PrimitiveError> {
        let what = "check of a chain";
        let mut roots = RootCertStore::empty();
        roots
            .add(root.clone())
            .map_err(|error| broken(what, error))?;
        let lists = revocation_lists
            .iter()
            .map(|list| CertificateRevocationListDer::from(list.clone()));
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .with_crls(lists)
            .only_check_end_entity_revocation()
            .build()
            .map_err(|error| broken(what, error))?;
        let name = ServerName::try_from(issued.name.clone());
        let issuer = issued.chain.get(1).unwrap_or(&issued.root);
        Ok(Self {
            staples: StapleCheck::new(&issued.chain[0], issuer)?,
            chain: issued.chain.clone(),
            name: name.map_err(|error| broken(what, error))?,
            verifier,
        })
    }

    /// How many certificates the server sends, the root not being one of them.
    pub fn depth(&self) -> usize {
        self.chain.len()
    }

    /// Their length together, in bytes.
    pub fn bytes(&self) -> usize {
        self.chain.iter().map(|certificate| certificate.len()).sum()
    }

    /// Finds the way to the root, and checks signatures, names, dates, usages and the lists given.
    ///
    /// A `staple` is handed over as a client's library hands it over: rustls takes it and does not look
    /// at it, so it neither costs nor protects.
    ///
    /// # Errors
    /// When a client would refuse the chain.
    pub fn check(&self, staple: &[u8], now: UnixTime) -> Result<(), PrimitiveError> {
        let (end_entity, intermediates) = self
            .chain
            .split_first()
            .ok_or_else(|| broken("check of a chain", "it is empty"))?;
        let now = PkiTime::since_unix_epoch(Duration::from_secs(now.0));
        self.verifier
            .verify_server_cert(end_entity, intermediates, &self.name, staple, now)
            .map(|_| ())
            .map_err(|error| broken("check of a chain", error))
    }

    /// What a client does besides that looks at the staple: status, serial number, dates, and one more
    /// signature.
    ///
    /// # Errors
    /// When it does not say that the end-entity certificate is good now, or is not its issuer's.
    pub fn check_staple(&self, staple: &[u8], now: UnixTime) -> Result<(), PrimitiveError> {
        self.staples.check(staple, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_790_000_000);
    const P256: CertificateKind = CertificateKind::EcdsaP256;

    fn issued(depth: usize) -> Issued {
        issue(P256, P256, depth, &["bench.test"]).unwrap()
    }

    #[test]
    fn a_chain_of_depth_n_has_n_certificates_and_leads_to_its_own_root_only() {
        let stranger = issued(1);
        for depth in 1..=3 {
            let issued = issued(depth);
            let served = ServedChain::new(&issued, &[]).unwrap();
            assert_eq!(served.depth(), depth);
            let sections = issued.chain_pem.matches("BEGIN CERTIFICATE").count();
            assert_eq!(sections, depth);
            assert!(served.bytes() > depth * 200);
            served.check(&[], NOW).unwrap();
            let wrong = ServedChain::trusting(&stranger.root, &issued, &[]).unwrap();
            assert!(wrong.check(&[], NOW).is_err(), "depth {depth}");
            let mut cut = served;
            cut.chain.truncate(depth - 1);
            assert!(cut.check(&[], NOW).is_err(), "depth {depth}");
        }
        assert!(issue(P256, P256, 0, &["bench.test"]).is_err());
        assert!(issue(P256, P256, 1, &[]).is_err());
    }

    #[test]
    fn the_name_is_checked() {
        let issued = issued(1);
        let mut served = ServedChain::new(&issued, &[]).unwrap();
        served.name = ServerName::try_from("other.test").unwrap();
        assert!(served.check(&[], NOW).is_err());
    }

    #[test]
    fn a_revocation_list_is_as_long_as_wanted_and_is_looked_at() {
        let issued = issued(2);
        for revoked in [1, 2_800] {
            let good = issued.revocation_list(revoked, Revocation::Good).unwrap();
            let served = ServedChain::new(&issued, &[good]).unwrap();
            served.check(&[], NOW).unwrap();
            let bad = issued.revocation_list(revoked, Revocation::Revoked);
            let served = ServedChain::new(&issued, &[bad.unwrap()]).unwrap();
            let error = served.check(&[], NOW).unwrap_err();
            assert!(error.reason.contains("evoked"), "{error}");
        }
        let long = issued.revocation_list(2_800, Revocation::Good).unwrap();
        assert!((95_000..110_000).contains(&long.len()), "{}", long.len());
        let other = super::tests::issued(2);
        let foreign = other.revocation_list(1, Revocation::Good).unwrap();
        let served = ServedChain::new(&issued, &[foreign]).unwrap();
        assert!(served.check(&[], NOW).is_err(), "its issuer has no list");
    }

    #[test]
    fn the_library_does_not_look_at_a_staple_and_the_check_besides_does() {
        for depth in [1, 2] {
            let issued = issued(depth);
            let served = ServedChain::new(&issued, &[]).unwrap();
            served.check(b"this is no OCSP response", NOW).unwrap();
            assert!(
                served
                    .check_staple(b"this is no OCSP response", NOW)
                    .is_err()
            );
            let staple = issued.staple().unwrap();
            served.check_staple(&staple, NOW).unwrap();
            let foreign = super::tests::issued(depth).staple().unwrap();
            let error = served.check_staple(&foreign, NOW).unwrap_err();
            assert!(error.reason.contains("issuer"), "{error}");
            let early = served.check_staple(&staple, UnixTime(1)).unwrap_err();
            assert!(early.reason.contains("now"), "{early}");
            // The last byte belongs to the signature, the one before the middle to what is signed.
            for place in [staple.len() - 1, staple.len() / 4] {
                let mut changed = staple.clone();
                changed[place] ^= 1;
                assert!(served.check_staple(&changed, NOW).is_err(), "byte {place}");
            }
        }
    }
}
