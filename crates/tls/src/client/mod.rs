//! The client role: towards backends that want TLS, and for load generators.
//!
//! A [`ClientSite`] is one server as its clients see it: what they offer, what they check, and the
//! sessions that they may resume. [`connect`] makes a connection that takes up a kept session when
//! there is one; [`connect_as`] says whether it shall. What came of it is in the facts, never assumed.

mod certificates;
mod details;
mod handshake;
mod ja4;
mod session;
mod sessions;
mod staple;
mod verifier;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types;
use rustls::sign::SingleCertAndKey;
use rustls::{ALL_VERSIONS, SignatureScheme, SupportedProtocolVersion, version};
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion};

use crate::material::{Certificate, ClientTrust, MaterialError, describe};
use crate::provider::{First, provider};
use sessions::Sessions;
use verifier::Verifier;

pub use certificates::{CertificateSize, weigh};
pub use details::{HandshakeDetails, TicketSeen};
pub use handshake::{ClientHandshake, connect, connect_as};
pub use ja4::ja4;
pub use staple::{Staple, StapleError, StapleStatus};

/// TLS towards a backend.
#[derive(Clone)]
pub struct BackendTlsPolicy {
    /// Whether the certificate is checked. `false` takes any certificate and is for test benches.
    pub verify: bool,
    /// DNS name or IP address that the certificate must carry; a DNS name is sent as `server_name`.
    pub name: String,
    /// PEM bundle of trusted roots; must be there when `verify` is true.
    pub ca: Option<Vec<u8>>,
    /// Certificate shown to a backend that asks for one.
    pub certificate: Option<Arc<Certificate>>,
    /// Application protocols offered, most wanted first.
    pub alpn: Vec<String>,
}

/// Everything that a client may offer. [`BackendTlsPolicy`] is the part that a backend needs.
#[derive(Clone)]
pub struct ClientOffer {
    /// Name, trust, certificate and ALPN.
    pub policy: BackendTlsPolicy,
    /// The one version offered; `None` offers both.
    pub version: Option<TlsVersion>,
    /// Suites offered, most wanted first; empty offers all, AES-128 first.
    pub suites: Vec<CipherSuite>,
    /// Groups offered, most wanted first, the first with a key share; empty offers all, X25519MLKEM768 first.
    pub groups: Vec<NamedGroup>,
    /// Signature schemes that the client says it can verify, most wanted first; unknown ones are left
    /// out. Empty offers all, the shortest hash that fits a key first.
    pub schemes: Vec<tollgate_terms::SignatureScheme>,
    /// Offer early data in connections that resume by a ticket that allows it. Default false.
    pub early_data: bool,
    /// Send the DNS name of the policy as `server_name`. Default true.
    pub send_server_name: bool,
    /// TLS 1.3 tickets kept. Default in [`ClientSite::new`]: 8.
    pub sessions: usize,
}

impl ClientOffer {
    /// What a client of this policy offers by default: both versions, every suite, group and scheme,
    /// no early data, eight kept tickets.
    pub fn new(policy: BackendTlsPolicy) -> Self {
        Self {
            policy,
            version: None,
            suites: Vec::new(),
            groups: Vec::new(),
            schemes: Vec::new(),
            early_data: false,
            send_server_name: true,
            sessions: 8,
        }
    }

    /// For `schemes`: those of a client that cannot verify anything but RSA.
    pub fn rsa_only_schemes() -> Vec<tollgate_terms::SignatureScheme> {
        RSA_SCHEMES
            .iter()
            .map(|scheme| tollgate_terms::SignatureScheme(u16::from(*scheme)))
            .collect()
    }
}

/// Whether a connection may take up a kept session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// A full handshake, whatever is kept.
    Full,
    /// Resume if something is kept; the server may still decline.
    Resume,
}

/// One server as its clients see it. Share it among the connections that may share sessions; its
/// session store is behind a lock that is held for a few moves per handshake.
pub struct ClientSite {
    full: Arc<ClientConfig>,
    resuming: Arc<ClientConfig>,
    sessions: Arc<Sessions>,
    name: pki_types::ServerName<'static>,
    /// The certificate that was shown last, and its kind: a backend rarely has two.
    last_seen: Mutex<Option<(Vec<u8>, Option<CertificateKind>)>>,
}

impl ClientSite {
    /// Clients of a backend: both versions, every suite and group, eight kept tickets.
    ///
    /// # Errors
    /// When the name is neither host name nor address, or the roots cannot be read.
    pub fn new(policy: BackendTlsPolicy) -> Result<Self, MaterialError> {
        Self::offering(ClientOffer::new(policy))
    }

    /// Clients that offer exactly this.
    ///
    /// # Errors
    /// As [`ClientSite::new`], and when nothing is left to offer.
    pub fn offering(offer: ClientOffer) -> Result<Self, MaterialError> {
        let name = pki_types::ServerName::try_from(offer.policy.name.clone()).map_err(|_| {
            unusable(&format!(
                "{:?} is neither host name nor address",
                offer.policy.name
            ))
        })?;
        let provider = Arc::new(offered_provider(&offer)?);
        let verifier = Arc::new(verifier(&offer, &provider)?);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(offer.version))
            .map_err(|error| unusable(&error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut full = match &offer.policy.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => builder.with_client_cert_resolver(Arc::new(
                SingleCertAndKey::from(Arc::clone(certificate.certified_key())),
            )),
        };
        full.alpn_protocols = offer
            .policy
            .alpn
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();

        full.enable_sni = offer.send_server_name;
        full.enable_early_data = offer.early_data;
        // The records after the handshake are ours, see the `session` module.
        full.enable_secret_extraction = true;

        let sessions = Sessions::new(offer.sessions);
        let mut resuming = full.clone();
        full.resumption = resumption(&sessions, Intent::Full);
        resuming.resumption = resumption(&sessions, Intent::Resume);
        Ok(Self {
            full: Arc::new(full),
            resuming: Arc::new(resuming),
            sessions,
            name,
            last_seen: Mutex::new(None),
        })
    }

    /// How many handshakes could resume now: TLS 1.3 tickets kept, plus one for a TLS 1.2 session.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The same server and the same kept sessions, for connections that offer early data or do not.
    #[must_use]
    pub fn with_early_data(&self, offered: bool) -> Self {
        let changed = |config: &Arc<ClientConfig>| {
            let mut config = ClientConfig::clone(config);
            config.enable_early_data = offered;
            Arc::new(config)
        };
        Self {
            full: changed(&self.full),
            resuming: changed(&self.resuming),
            sessions: Arc::clone(&self.sessions),
            name: self.name.clone(),
            last_seen: Mutex::new(None),
        }
    }

    fn offers_early_data(&self) -> bool {
        self.resuming.enable_early_data
    }

    /// The kind of a certificate, which is read again only when it is not the one seen last.
    fn kind_of(&self, der: &[u8]) -> Option<CertificateKind> {
        let mut last = self
            .last_seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, kind)) = last.as_ref()
            && seen == der
        {
            return *kind;
        }
        let kind = describe(der).ok().and_then(|described| described.kind);
        *last = Some((der.to_vec(), kind));
        kind
    }

    fn config(&self, intent: Intent) -> Arc<ClientConfig> {
        match intent {
            Intent::Full => Arc::clone(&self.full),
            Intent::Resume => Arc::clone(&self.resuming),
        }
    }
}

fn resumption(sessions: &Arc<Sessions>, intent: Intent) -> Resumption {
    Resumption::store(sessions.store(intent == Intent::Resume))
        .tls12_resumption(Tls12Resumption::SessionIdOrTickets)
}

fn versions(only: Option<TlsVersion>) -> &'static [&'static SupportedProtocolVersion] {
    static TLS13: &[&SupportedProtocolVersion] = &[&version::TLS13];
    static TLS12: &[&SupportedProtocolVersion] = &[&version::TLS12];
    match only {
        None => ALL_VERSIONS,
        Some(TlsVersion::Tls13) => TLS13,
        Some(TlsVersion::Tls12) => TLS12,
    }
}

/// The primitives, cut down and ordered as `offer` says.
fn offered_provider(offer: &ClientOffer) -> Result<CryptoProvider, MaterialError> {
    let provider = provider(&offer.suites, &offer.groups, First::Policy);
    if provider.cipher_suites.is_empty() {
        return Err(unusable("no known cipher suite is left to offer"));
    }
    if provider.kx_groups.is_empty() {
        return Err(unusable("no known named group is left to offer"));
    }
    Ok(provider)
}

fn verifier(
    offer: &ClientOffer,
    provider: &Arc<CryptoProvider>,
) -> Result<Verifier, MaterialError> {
    let mut schemes = provider
        .signature_verification_algorithms
        .supported_schemes();
    // The library lists strong hashes first; real clients ask for the shortest that fits the key.
    schemes.sort_by_key(|scheme| rank(*scheme));
    if !offer.schemes.is_empty() {
        let wanted = offer.schemes.iter().map(|wanted| wanted.0.into());
        schemes = wanted.filter(|wanted| schemes.contains(wanted)).collect();
    }
    if schemes.is_empty() {
        return Err(unusable("no known signature scheme is left to offer"));
    }
    let inner = match (&offer.policy.ca, offer.policy.verify) {
        (_, false) => None,
        (None, true) => {
            return Err(MaterialError::NoAuthority {
                held: "nothing".into(),
            });
        }
        (Some(ca), true) => {
            let verifier = WebPkiServerVerifier::builder_with_provider(
                ClientTrust::from_pem(ca, &[])?.roots(),
                Arc::clone(provider),
            )
            .build()
            .map_err(|error| unusable(&error.to_string()))?;
            Some(verifier as Arc<dyn rustls::client::danger::ServerCertVerifier>)
        }
    };
    Ok(Verifier { inner, schemes })
}

fn unusable(reason: &str) -> MaterialError {
    MaterialError::Unusable {
        reason: reason.into(),
    }
}

fn rank(scheme: SignatureScheme) -> usize {
    const FIRST: [SignatureScheme; 6] = [
        SignatureScheme::ECDSA_NISTP256_SHA256,
        SignatureScheme::RSA_PSS_SHA256,
        SignatureScheme::RSA_PKCS1_SHA256,
        SignatureScheme::ECDSA_NISTP384_SHA384,
        SignatureScheme::RSA_PSS_SHA384,
        SignatureScheme::RSA_PKCS1_SHA384,
    ];
    FIRST
        .iter()
        .position(|known| *known == scheme)
        .unwrap_or(FIRST.len())
}

/// In the order of [`rank`].
const RSA_SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA512,
];
