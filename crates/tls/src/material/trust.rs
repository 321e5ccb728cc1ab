//! Whom a site trusts to vouch for its clients.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateRevocationListDer;
use tollgate_terms::UnixTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::findings::{MaterialFinding, authority_findings, revocation_list_findings};
use super::inspect::{Description, describe_all, sha256};
use super::{MaterialError, pem};

/// Certificate authorities and revocation lists for client certificates.
#[derive(Clone)]
pub struct ClientTrust {
    roots: Arc<RootCertStore>,
    crls: Vec<CertificateRevocationListDer<'static>>,
    authorities: Vec<Description>,
    next_updates: Vec<Option<UnixTime>>,
    digest: [u8; 32],
}

impl ClientTrust {
    /// Reads a PEM bundle of authorities and any number of revocation lists, PEM or DER each.
    ///
    /// # Errors
    /// When the bundle holds no usable authority, or a list cannot be read.
    pub fn from_pem(authorities: &[u8], crls: &[Vec<u8>]) -> Result<Self, MaterialError> {
        let sections = pem::sections(authorities)?;
        let certificates = match super::certificates(authorities, "bundle of authorities") {
            Err(MaterialError::NoCertificate { .. }) => {
                return Err(MaterialError::NoAuthority {
                    held: pem::held(&sections),
                });
            }
            other => other?,
        };
        let descriptions = describe_all(&certificates)?;
        let mut roots = RootCertStore::empty();
        for (certificate, position) in certificates.iter().zip(1..) {
            roots
                .add(certificate.clone())
                .map_err(|error| MaterialError::BrokenAuthority {
                    position,
                    reason: error.to_string(),
                })?;
        }
        let mut lists = Vec::new();
        for bytes in crls {
            read_lists(bytes, &mut lists)?;
        }
        let trust = Self {
            roots: Arc::new(roots),
            digest: fingerprint(certificates.iter().map(AsRef::as_ref), &lists),
            authorities: descriptions,
            next_updates: next_updates(&lists)?,
            crls: lists,
        };
        trust.verifier(true)?;
        Ok(trust)
    }

    /// The trusted authorities.
    pub fn roots(&self) -> Arc<RootCertStore> {
        self.roots.clone()
    }

    /// The revocation lists, as given.
    pub fn crls(&self) -> &[CertificateRevocationListDer<'static>] {
        &self.crls
    }

    /// What the authorities say about themselves, in file order.
    pub fn authorities(&self) -> &[Description] {
        &self.authorities
    }

    /// SHA-256 over the sets of authorities and lists, whatever their order: two policies with
    /// the same digest trust the same clients.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// A verifier of client certificates; without `required` a client may send none.
    ///
    /// A certificate whose issuer has no list here passes; a list covers end-entity
    /// certificates only, and one past its next update still counts (`findings` says so).
    ///
    /// # Errors
    /// When the library refuses a revocation list.
    pub fn verifier(&self, required: bool) -> Result<Arc<dyn ClientCertVerifier>, MaterialError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(self.roots(), provider)
            .with_crls(self.crls.iter().cloned())
            .allow_unknown_revocation_status()
            .only_check_end_entity_revocation();
        let builder = match required {
            true => builder,
            false => builder.allow_unauthenticated(),
        };
        builder.build().map_err(|error| MaterialError::Unusable {
            reason: error.to_string(),
        })
    }

    /// What an operator should know about these authorities and lists at `now`.
    pub fn findings(&self, now: UnixTime) -> Vec<MaterialFinding> {
        let mut findings = authority_findings(&self.authorities, now);
        findings.extend(revocation_list_findings(&self.next_updates, now));
        findings
    }
}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTrust")
            .field("authorities", &self.authorities.len())
            .field("crls", &self.crls.len())
            .finish_non_exhaustive()
    }
}

fn read_lists(
    bytes: &[u8],
    lists: &mut Vec<CertificateRevocationListDer<'static>>,
) -> Result<(), MaterialError> {
    if pem::binary_form(bytes).is_some() {
        lists.push(CertificateRevocationListDer::from(bytes.to_vec()));
        return Ok(());
    }
    let before = lists.len();
    let sections = pem::sections(bytes)?;
    for section in sections.iter().filter(|s| s.is_revocation_list()) {
        let (_, der) = section.decode()?;
        lists.push(CertificateRevocationListDer::from(der));
    }
    if lists.len() == before {
        return Err(MaterialError::BrokenRevocationList {
            position: before + 1,
            reason: format!("the file holds {}", pem::held(&sections)),
        });
    }
    Ok(())
}

fn next_updates(
    lists: &[CertificateRevocationListDer<'static>],
) -> Result<Vec<Option<UnixTime>>, MaterialError> {
    lists
        .iter()
        .zip(1..)
        .map(
            |(list, position)| match CertificateRevocationList::from_der(list) {
                Ok((_, list)) => Ok(list
                    .next_update()
                    .and_then(|time| u64::try_from(time.timestamp()).ok())
                    .map(UnixTime)),
                Err(error) => Err(MaterialError::BrokenRevocationList {
                    position,
                    reason: error.to_string(),
                }),
            },
        )
        .collect()
}

fn fingerprint<'a>(
    certificates: impl Iterator<Item = &'a [u8]>,
    lists: &[CertificateRevocationListDer<'static>],
) -> [u8; 32] {
    let mut digests: Vec<(u8, Vec<u8>)> = certificates
        .map(|der| (0, sha256(der).as_ref().to_vec()))
        .chain(lists.iter().map(|list| (1, sha256(list).as_ref().to_vec())))
        .collect();
    digests.sort();
    digests.dedup();
    let joined: Vec<u8> = digests
        .into_iter()
        .flat_map(|(kind, digest)| std::iter::once(kind).chain(digest))
        .collect();
    let mut result = [0; 32];
    result.copy_from_slice(sha256(&joined).as_ref());
    result
}
