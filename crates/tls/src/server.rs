//! The server role: what a site speaks, and one handshake as a single synchronous call.

use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoClientAuth, UnbufferedServerConnection, danger::ClientCertVerifier};
use rustls::{Error, HandshakeKind as Kind, PeerIncompatible, ServerConfig, version};
use tollgate_terms::{
    CipherSuite, Culprit, HandshakeFacts, HandshakeKind, NamedGroup, ResumptionMiss, ServerName,
    SignatureScheme, TlsVersion,
};

use crate::choice::Choice;
use crate::failure::{Failure, FailureReason, Side};
use crate::hello::ClientHello;
use crate::material::{Certificate, ClientTrust, MaterialError, client_identity};
use crate::provider::{First, provider};
use crate::resumption::{Resumption, SiteSessions};
use crate::session::Session;
use crate::shaking::{Shaking, Turn};
use crate::trace::{self, Trace};
use crate::updates::{self, TrafficSecrets};

/// Whether clients must show a certificate, and who vouches for them.
#[derive(Clone, Debug)]
pub enum ClientPolicy {
    /// Not asked for.
    Off,
    /// Asked for; a client without one is served.
    Optional(Arc<ClientTrust>),
    /// Asked for; a client without one is refused.
    Required(Arc<ClientTrust>),
}

impl ClientPolicy {
    /// Equal policies have equal digests; a session made under one does not resume under another.
    fn digest(&self) -> u64 {
        let (mode, trust) = match self {
            Self::Off => return 0,
            Self::Optional(trust) => (1, trust),
            Self::Required(trust) => (2, trust),
        };
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&[mode]);
        context.update(&trust.digest());
        let mut first = [0; 8];
        first.copy_from_slice(&context.finish().as_ref()[..8]);
        u64::from_be_bytes(first)
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, MaterialError> {
        match self {
            Self::Off => Ok(Arc::new(NoClientAuth)),
            Self::Optional(trust) => trust.verifier(false),
            Self::Required(trust) => trust.verifier(true),
        }
    }
}

/// What a site speaks.
#[derive(Clone, Debug)]
pub struct SitePolicy {
    /// Stands for the site in tickets: the same after a reload, another for every other site.
    pub id: u64,
    /// At least one, in order of preference within one kind.
    pub certificates: Vec<Arc<Certificate>>,
    /// Client certificates.
    pub client: ClientPolicy,
    /// The lowest version spoken.
    pub min_version: TlsVersion,
    /// Groups; empty for all. The client's order decides among them.
    pub groups: Vec<NamedGroup>,
    /// Suites in order of preference; empty for all, AES-128 first.
    pub suites: Vec<CipherSuite>,
    /// Application protocols in order of preference; empty to leave ALPN alone.
    pub alpn: Vec<String>,
}

/// A site ready to shake hands. Share it among workers; a reload makes a new one.
pub struct ServerSite {
    ordinary: Arc<ServerConfig>,
    chacha_first: Arc<ServerConfig>,
    /// The one configured ALPN texts, shared by the facts of all handshakes.
    alpn: Arc<[Arc<str>]>,
    speaks_tls13: bool,
}

impl ServerSite {
    /// Prepares a site; its sessions are kept by `resumption`.
    ///
    /// # Errors
    /// When there is no certificate, nothing is left to speak, or a revocation list is unusable.
    pub fn new(policy: SitePolicy, resumption: Arc<Resumption>) -> Result<Self, MaterialError> {
        if policy.certificates.is_empty() {
            return Err(unusable("a site that terminates TLS needs a certificate"));
        }
        let sessions = Arc::new(SiteSessions {
            resumption,
            site: policy.id,
            policy: policy.client.digest(),
        });
        let ordinary = config(&policy, &sessions, First::Policy)?;
        let chacha_first = config(&policy, &sessions, First::ChaCha20)?;
        Ok(Self {
            speaks_tls13: speaks(ordinary.crypto_provider(), TlsVersion::Tls13),
            ordinary: Arc::new(ordinary),
            chacha_first: Arc::new(chacha_first),
            alpn: policy
                .alpn
                .iter()
                .map(|text| text.as_str().into())
                .collect(),
        })
    }
}

impl std::fmt::Debug for ServerSite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSite")
            .field("alpn", &self.alpn)
            .finish_non_exhaustive()
    }
}

fn config(
    policy: &SitePolicy,
    sessions: &Arc<SiteSessions>,
    first: First,
) -> Result<ServerConfig, MaterialError> {
    let provider = Arc::new(provider(&policy.suites, &policy.groups, first));
    if provider.kx_groups.is_empty() {
        return Err(unusable("no known named group is left to speak"));
    }
    let mut versions = Vec::new();
    if speaks(&provider, TlsVersion::Tls13) {
        versions.push(&version::TLS13);
    }
    if policy.min_version == TlsVersion::Tls12 && speaks(&provider, TlsVersion::Tls12) {
        versions.push(&version::TLS12);
    }
    if versions.is_empty() {
        return Err(unusable("no known cipher suite is left to speak"));
    }
    let choice = Choice::new(&policy.certificates, &provider.cipher_suites);
    let clock = Arc::new(sessions.resumption.clock().clone());
    let mut config = ServerConfig::builder_with_details(provider, clock)
        .with_protocol_versions(&versions)
        .map_err(|error| unusable(&error.to_string()))?
        .with_client_cert_verifier(policy.client.verifier()?)
        .with_cert_resolver(Arc::new(choice));
    config.ignore_client_order = true;
    config.session_storage = Arc::clone(sessions) as _;
    config.ticketer = Arc::clone(sessions) as _;
    config.send_tls13_tickets = 1;
    config.alpn_protocols = policy
        .alpn
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    // The records after the handshake are ours, see the `session` module.
    config.enable_secret_extraction = true;
    config.key_log = Arc::new(updates::Keep);
    config.cert_compressors = Vec::new();
    config.cert_decompressors = Vec::new();
    Ok(config)
}

fn speaks(provider: &CryptoProvider, version: TlsVersion) -> bool {
    provider
        .cipher_suites
        .iter()
        .any(|suite| suite.tls13().is_some() == (version == TlsVersion::Tls13))
}

fn unusable(reason: &str) -> MaterialError {
    MaterialError::Unusable {
        reason: reason.into(),
    }
}

/// What a handshake wants after a step.
#[derive(Debug)]
pub enum Progress {
    /// More bytes from the peer.
    NeedsInput,
    /// Nothing: it is complete. Input that was not consumed belongs to the session.
    Done,
    /// Nothing: it has failed. The alert for the peer is in the output.
    Failed(Failure),
}

/// What one handshake step has done.
#[derive(Debug)]
pub struct Step {
    /// Bytes taken from the front of the input. The rest must be passed again, as it then is, with
    /// more behind it.
    pub consumed: usize,
    /// What comes next.
    pub progress: Progress,
}

/// A handshake on its way: no socket, no waiting.
pub struct Handshake {
    connection: Shaking,
    trace: Trace,
    offered: Offered,
    server_name: Option<ServerName>,
    early_data: bool,
    alpn: Arc<[Arc<str>]>,
    held: Vec<u8>,
    /// Of a TLS 1.3 connection, once it has them.
    secrets: Option<Box<TrafficSecrets>>,
}

/// What the client had at hand to resume with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offered {
    Nothing,
    Something,
}

impl Handshake {
    /// Begins a handshake with `site`; `hello` must be what the first step's input starts with.
    ///
    /// # Errors
    /// When the library refuses the site's configuration.
    pub fn new(site: &ServerSite, hello: &ClientHello) -> Result<Self, Failure> {
        let config = if hello.offers_chacha_first() {
            &site.chacha_first
        } else {
            &site.ordinary
        };
        let connection = UnbufferedServerConnection::new(Arc::clone(config))
            .map_err(|error| Failure::of(Side::Server, &error))?;
        let tls13 = site.speaks_tls13 && hello.offers(TlsVersion::Tls13);
        Ok(Self {
            connection: Shaking::server(connection),
            trace: Trace {
                tls13,
                takes_tickets: hello.session_ticket.is_some(),
                ..Trace::default()
            },
            offered: offered(hello, tls13),
            server_name: hello.server_name.clone(),
            early_data: hello.early_data,
            alpn: Arc::clone(&site.alpn),
            held: Vec::new(),
            secrets: None,
        })
    }

    /// Takes in what the client sent and appends what must be sent back to `output`.
    pub fn step(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> Step {
        let Self {
            connection,
            trace,
            held,
            secrets,
            ..
        } = self;
        let (consumed, end) = trace::lend(trace, || shake(connection, input, output, held));
        *secrets = updates::take_logged().or(secrets.take());
        self.settle_resumption();
        let progress = match end {
            Ok(true) => Progress::Done,
            Ok(false) => Progress::NeedsInput,
            Err(error) => Progress::Failed(self.failure(&error)),
        };
        Step { consumed, progress }
    }

    /// State that was found and yet led to a full handshake passes nothing on to the new session.
    fn settle_resumption(&mut self) {
        let full = matches!(
            self.connection.common().handshake_kind(),
            Some(Kind::Full | Kind::FullWithHelloRetryRequest)
        );
        if full && self.trace.found.take().is_some() {
            self.trace.miss = Some(ResumptionMiss::NotUsable);
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        let nothing_suits = matches!(
            error,
            Error::PeerIncompatible(
                PeerIncompatible::NoCipherSuitesInCommon
                    | PeerIncompatible::NoSignatureSchemesInCommon
            )
        );
        if nothing_suits && self.trace.unsuited {
            return Failure::new(
                FailureReason::NoSuitableCertificate,
                Culprit::Client,
                "the client can verify none of the site's certificates",
            );
        }
        Failure::of(Side::Server, error)
    }

    /// The name of the key that made the client's ticket, when that is why the handshake is full.
    pub fn unknown_key(&self) -> Option<[u8; 16]> {
        match self.trace.miss {
            Some(ResumptionMiss::UnknownKey) => self.trace.unknown_key,
            _ => None,
        }
    }

    /// The established session, and what the handshake was. To be called after `Done`.
    pub fn finish(self) -> (Session, HandshakeFacts) {
        let facts = self.facts();
        let session = Session::new(
            Side::Server,
            self.connection.establish(self.secrets),
            self.held,
        );
        (session, facts)
    }

    fn facts(&self) -> HandshakeFacts {
        let common = self.connection.common();
        let kind = match (common.handshake_kind(), self.trace.found) {
            (Some(Kind::Resumed), Some(found)) => HandshakeKind::Resumed(found.method),
            (Some(Kind::FullWithHelloRetryRequest), _) => HandshakeKind::FullWithRetry,
            _ => HandshakeKind::Full,
        };
        let resumed = kind.is_resumed();
        HandshakeFacts {
            version: match common.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
                _ => TlsVersion::Tls13,
            },
            suite: CipherSuite(
                common
                    .negotiated_cipher_suite()
                    .map_or(0, |suite| u16::from(suite.suite())),
            ),
            group: common
                .negotiated_key_exchange_group()
                .map(|group| NamedGroup(u16::from(group.name()))),
            kind,
            miss: (!resumed).then(|| self.miss()),
            certificate: self.trace.certificate.filter(|_| !resumed),
            signature: self
                .trace
                .scheme
                .map(|scheme| SignatureScheme(u16::from(scheme))),
            server_name: self.server_name.clone(),
            alpn: common.alpn_protocol().and_then(|agreed| {
                self.alpn
                    .iter()
                    .find(|own| own.as_bytes() == agreed)
                    .cloned()
            }),
            client: common
                .peer_certificates()
                .and_then(|chain| chain.first())
                .and_then(|end_entity| client_identity(end_entity))
                .map(Box::new),
            ticket_age: self.trace.found.filter(|_| resumed).map(|found| found.age),
            early_data_offered: self.early_data,
        }
    }

    fn miss(&self) -> ResumptionMiss {
        match (self.offered, self.trace.miss) {
            (Offered::Nothing, _) => ResumptionMiss::NothingOffered,
            (Offered::Something, Some(miss)) => miss,
            // Something was offered that was not even looked at.
            (Offered::Something, None) => ResumptionMiss::NotUsable,
        }
    }
}

/// A session id means something in TLS 1.2 only; a client that offers TLS 1.3 fills it at random
/// (RFC 8446, section 4.1.2).
fn offered(hello: &ClientHello, tls13: bool) -> Offered {
    let ticket = hello
        .session_ticket
        .as_ref()
        .is_some_and(|ticket| !ticket.is_empty());
    let id = !hello.session_id.is_empty() && !hello.offers(TlsVersion::Tls13);
    let something = match tls13 {
        true => !hello.psk_identities.is_empty(),
        false => ticket || id,
    };
    match something {
        true => Offered::Something,
        false => Offered::Nothing,
    }
}

/// Goes on until the handshake is complete (`true`), needs input (`false`) or fails.
fn shake(
    connection: &mut Shaking,
    input: &mut [u8],
    output: &mut Vec<u8>,
    held: &mut Vec<u8>,
) -> (usize, Result<bool, Error>) {
    let mut consumed = 0;
    loop {
        let start = output.len();
        let (discard, turn) = connection.turn(&mut input[consumed..], output);
        consumed += discard;
        let established = !connection.common().is_handshaking();
        match turn {
            Ok(Turn::Encoded) => {
                // Only a TLS 1.3 ticket is written after the end; it leaves with the first response.
                if established && is_tls13(connection) {
                    held.extend(output.drain(start..));
                }
            }
            Ok(Turn::Flight) => {}
            Ok(Turn::Open) => return (consumed, Ok(true)),
            Ok(Turn::Blocked) => return (consumed, Ok(false)),
            Err(error) => {
                connection.take_alert(output);
                return (consumed, Err(error));
            }
        }
    }
}

fn is_tls13(connection: &Shaking) -> bool {
    connection.common().protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
}
