//! A client to talk to, sites to talk to, and a handshake between them without a socket.

use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption as Kept, Tls12Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime as PkiTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme as Scheme,
};
use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_terms::{
    CertificateKind, CipherSuite, HandshakeFacts, NamedGroup, TlsVersion, UnixTime,
};

use crate::hello::{self, Reading};
use crate::{
    Certificate, ClientPolicy, Clock, Failure, Handshake, Progress, Resumption, ResumptionSettings,
    ServerSite, Session, SitePolicy,
};

pub(super) const START: UnixTime = UnixTime(1_790_000_000);
pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn hours(count: u32) -> UnixTime {
    START + HOUR * count
}

/// One certificate of each kind, made once.
pub(super) fn certificate(kind: CertificateKind) -> Arc<Certificate> {
    static MADE: OnceLock<Vec<Arc<Certificate>>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        [
            CertificateKind::EcdsaP256,
            CertificateKind::EcdsaP384,
            CertificateKind::Ed25519,
            CertificateKind::Rsa(2048),
        ]
        .map(|kind| Arc::new(Certificate::self_signed(kind, &["localhost"]).unwrap()))
        .into()
    });
    made.iter()
        .find(|certificate| certificate.kind() == kind)
        .unwrap()
        .clone()
}

pub(super) fn material(seed: u8) -> KeyMaterial {
    KeyMaterial {
        name: [seed; 16],
        secret: [seed.wrapping_add(100); 32].into(),
    }
}

pub(super) fn ring() -> Ring {
    let lifetimes = Lifetimes::new(HOUR * 24, HOUR * 6).unwrap();
    Ring::new(lifetimes, START, material(1))
}

pub(super) const SETTINGS: ResumptionSettings = ResumptionSettings {
    tickets: true,
    lifetime: Duration::from_secs(6 * 3600),
    session_cache_entries: 100,
};

pub(super) fn resumption(settings: ResumptionSettings) -> (Clock, Arc<Resumption>) {
    let clock = Clock::new(START);
    let resumption = Resumption::new(clock.clone(), settings, &ring());
    (clock, resumption)
}

pub(super) fn policy(kinds: &[CertificateKind]) -> SitePolicy {
    SitePolicy {
        id: 7,
        certificates: kinds.iter().map(|kind| certificate(*kind)).collect(),
        client: ClientPolicy::Off,
        min_version: TlsVersion::Tls12,
        groups: Vec::new(),
        suites: Vec::new(),
        alpn: vec!["h2".into(), "http/1.1".into()],
    }
}

pub(super) fn site(policy: SitePolicy) -> ServerSite {
    ServerSite::new(policy, resumption(SETTINGS).1).unwrap()
}

/// What a test client offers; the default is everything, AES-128 first.
#[derive(Clone, Default)]
pub(super) struct Offer {
    pub(super) version: Option<TlsVersion>,
    pub(super) suites: Vec<CipherSuite>,
    pub(super) groups: Vec<NamedGroup>,
    pub(super) schemes: Vec<Scheme>,
    pub(super) alpn: Vec<&'static str>,
    pub(super) no_tickets: bool,
    /// The longest record that it sends, with its header; `None` for as long as allowed.
    pub(super) longest_record: Option<usize>,
    pub(super) identity: Option<(Vec<CertificateDer<'static>>, Arc<PrivateKeyDer<'static>>)>,
}

pub(super) struct Client(Arc<ClientConfig>);

impl Client {
    pub(super) fn new(offer: &Offer) -> Self {
        let provider = Arc::new(provider(offer));
        let versions: &[&rustls::SupportedProtocolVersion] = match offer.version {
            None => rustls::ALL_VERSIONS,
            Some(TlsVersion::Tls12) => &[&rustls::version::TLS12],
            Some(TlsVersion::Tls13) => &[&rustls::version::TLS13],
        };
        let schemes = match offer.schemes.is_empty() {
            true => provider
                .signature_verification_algorithms
                .supported_schemes(),
            false => offer.schemes.clone(),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(schemes)));
        let mut config = match &offer.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .unwrap(),
        };
        config.alpn_protocols = offer
            .alpn
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        config.max_fragment_size = offer.longest_record;
        config.resumption = Kept::in_memory_sessions(64).tls12_resumption(match offer.no_tickets {
            true => Tls12Resumption::SessionIdOnly,
            false => Tls12Resumption::SessionIdOrTickets,
        });
        Self(Arc::new(config))
    }

    pub(super) fn connection(&self) -> ClientConnection {
        self.connection_to("localhost")
    }

    pub(super) fn connection_to(&self, name: &'static str) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.0), ServerName::try_from(name).unwrap()).unwrap()
    }

    /// One handshake and one byte each way, so that tickets arrive.
    pub(super) fn visit(&self, site: &ServerSite) -> Result<HandshakeFacts, Failure> {
        let mut client = self.connection();
        Ok(shake(&mut client, site, usize::MAX)?.facts)
    }
}

fn provider(offer: &Offer) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !offer.suites.is_empty() {
        provider.cipher_suites = offer
            .suites
            .iter()
            .map(|wanted| {
                *aws_lc_rs::ALL_CIPHER_SUITES
                    .iter()
                    .find(|suite| u16::from(suite.suite()) == wanted.0)
                    .unwrap()
            })
            .collect();
    }
    if !offer.groups.is_empty() {
        provider.kx_groups = offer
            .groups
            .iter()
            .map(|wanted| {
                *aws_lc_rs::ALL_KX_GROUPS
                    .iter()
                    .find(|group| u16::from(group.name()) == wanted.0)
                    .unwrap()
            })
            .collect();
    }
    provider
}

/// Trusts every certificate and claims to verify these schemes.
#[derive(Debug)]
struct Anyone(Vec<Scheme>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: PkiTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &known)
    }

    fn supported_verify_schemes(&self) -> Vec<Scheme> {
        self.0.clone()
    }
}

pub(super) struct Shaken {
    pub(super) session: Session,
    pub(super) facts: HandshakeFacts,
}

impl std::fmt::Debug for Shaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.facts.fmt(f)
    }
}

/// Everything that `client` wants to send now.
pub(super) fn outgoing(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Gives `bytes` to `client` and returns the plaintext in them.
pub(super) fn incoming(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        if client.process_new_packets().is_err() {
            break;
        }
        let mut piece = [0; 1 << 14];
        while let Ok(length @ 1..) = client.reader().read(&mut piece) {
            plain.extend_from_slice(&piece[..length]);
        }
    }
    plain
}

/// Shakes hands in memory; what the client sends arrives in pieces of `piece` bytes.
pub(super) fn shake(
    client: &mut ClientConnection,
    site: &ServerSite,
    piece: usize,
) -> Result<Shaken, Failure> {
    let mut wire = outgoing(client);
    let Reading::Complete(hello) = hello::read(&wire) else {
        panic!("the client's hello is not complete");
    };
    let mut handshake = Handshake::new(site, &hello)?;
    let mut input = Vec::new();
    for _ in 0..100_000 {
        let length = piece.min(wire.len());
        input.extend(wire.drain(..length));
        let mut output = Vec::new();
        let step = handshake.step(&mut input, &mut output);
        input.drain(..step.consumed);
        incoming(client, &output);
        match step.progress {
            Progress::Failed(failure) => return Err(failure),
            Progress::Done => {
                assert!(input.is_empty() && wire.is_empty());
                let (mut session, facts) = handshake.finish();
                incoming(client, session.held());
                session.forget_held();
                return Ok(Shaken { session, facts });
            }
            Progress::NeedsInput => {
                if wire.is_empty() {
                    wire = outgoing(client);
                }
            }
        }
    }
    panic!("the handshake does not end");
}
