//! Handshakes and records between our own two ends on one thread, without a socket: what one end has
//! to send is handed to the other as bytes, and each end's CPU time is counted apart.
//!
//! Nothing is assumed about a handshake: what it was is read from the facts of both ends, and another
//! version, suite, group, certificate or kind than asked for is an error, never a figure.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::rand::{GetRandomFlags, getrandom};
use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_terms::{
    CertificateKind, CipherSuite, CpuTime, HandshakeFacts, HandshakeKind, NamedGroup, TlsVersion,
    UnixTime,
};
use tollgate_tls::client::{BackendTlsPolicy, ClientHandshake, ClientOffer, ClientSite, Intent};
use tollgate_tls::hello::{self, Reading};
use tollgate_tls::primitives::{self, RecordPair, Tickets};
use tollgate_tls::timing::{self, Parts};
use tollgate_tls::{
    Certificate, ClientPolicy, Clock, Failure, Handshake, Progress, Resumption, ResumptionSettings,
    ServerSite, Session, SitePolicy,
};

use super::BenchError;
use super::runner::{clock_cost, thread_cpu};

/// The name that certificates are for and that clients ask for.
const NAME: &str = "bench.test";
/// The one site's id in tickets.
const SITE: u64 = 1;
/// Certificates that the server sends: end-entity and one intermediate, as is usual.
const DEPTH: usize = 2;
/// No handshake takes more turns; one that does is broken.
const MOST_TURNS: usize = 8;
/// What a connection seals in one go.
const BATCH_BYTES: usize = 32 * 1024;

/// What a handshake shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) version: TlsVersion,
    /// Of the end-entity certificate; the chain above it is ECDSA P-256.
    pub(crate) certificate: CertificateKind,
    pub(crate) group: NamedGroup,
    pub(crate) suite: CipherSuite,
}

impl Scenario {
    /// What most handshakes of today's clients are, but for the group.
    pub(crate) const USUAL: Self = Self {
        version: TlsVersion::Tls13,
        certificate: CertificateKind::EcdsaP256,
        group: NamedGroup::X25519,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
    };

    /// `tls13/ecdsa-p256/x25519/aes-128-gcm`: the middle of a figure's id.
    pub(crate) fn id(&self) -> String {
        format!(
            "{}/{}/{}/{}",
            match self.version {
                TlsVersion::Tls12 => "tls12",
                TlsVersion::Tls13 => "tls13",
            },
            self.certificate.name(),
            self.group.name().to_ascii_lowercase(),
            cipher_name(self.suite),
        )
    }

    fn broken(&self, reason: impl std::fmt::Display) -> BenchError {
        BenchError::Broken {
            what: format!("the handshake in memory {}", self.id()),
            reason: reason.to_string(),
        }
    }
}

/// The AEAD of a suite, as figures name it: `aes-128-gcm`, `aes-256-gcm` or `chacha20-poly1305`.
pub(crate) fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite.name() {
        name if name.contains("AES_128_GCM") => "aes-128-gcm",
        name if name.contains("AES_256_GCM") => "aes-256-gcm",
        name if name.contains("CHACHA20_POLY1305") => "chacha20-poly1305",
        _ => "unknown",
    }
}

/// A server and its clients, for one scenario.
pub(crate) struct InMemory {
    scenario: Scenario,
    server: ServerSite,
    client: ClientSite,
    resumption: Arc<Resumption>,
}

/// What one handshake was and took. Times are CPU time of this thread, the clock's own taken off.
#[derive(Clone, Debug)]
pub(crate) struct Shaken {
    /// Reading the ClientHello, every step, keys for the records after it, and giving it all back.
    pub(crate) server_nanos: f64,
    /// Everything from making the ClientHello to taking in the ticket, checks of the chain included.
    pub(crate) client_nanos: f64,
    /// As the server sees it; the client has been asked, too.
    pub(crate) facts: HandshakeFacts,
}

/// Where the server's time goes, in nanoseconds of CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) total: f64,
    pub(crate) key_exchange: f64,
    pub(crate) signature: f64,
    pub(crate) tickets: f64,
}

impl Share {
    /// Key schedule, transcript, parsing, writing, handshake records.
    pub(crate) fn rest(&self) -> f64 {
        (self.total - self.key_exchange - self.signature - self.tickets).max(0.0)
    }
}

/// Both ends of an established connection.
pub(crate) struct Established {
    server: Session,
    client: Session,
    output: Vec<u8>,
}

/// CPU time of one end so far.
#[derive(Default)]
struct Meter {
    nanos: f64,
}

impl Meter {
    fn charge<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let result = work();
        let took = thread_cpu().saturating_sub(before);
        self.nanos += (took.as_nanos() as f64 - clock_cost().median).max(0.0);
        result
    }
}

impl InMemory {
    /// Makes keys, certificates and both ends. RSA-4096 may take seconds.
    pub(crate) fn new(scenario: Scenario) -> Result<Self, BenchError> {
        let broken = |error: &dyn std::fmt::Display| scenario.broken(error);
        let issued = primitives::issue(
            scenario.certificate,
            CertificateKind::EcdsaP256,
            DEPTH,
            &[NAME],
        )
        .map_err(|error| broken(&error))?;
        let certificate =
            Certificate::from_pem(issued.chain_pem.as_bytes(), issued.key_pem.as_bytes())
                .map_err(|error| broken(&error))?;
        let resumption = resumption()?;
        let policy = SitePolicy {
            id: SITE,
            certificates: vec![Arc::new(certificate)],
            client: ClientPolicy::Off,
            min_version: TlsVersion::Tls12,
            groups: Vec::new(),
            suites: Vec::new(),
            alpn: Vec::new(),
        };
        let server = ServerSite::new(policy, Arc::clone(&resumption));
        let mut offer = ClientOffer::new(BackendTlsPolicy {
            verify: true,
            name: NAME.into(),
            ca: Some(issued.root_pem.into_bytes()),
            certificate: None,
            alpn: Vec::new(),
        });
        offer.version = Some(scenario.version);
        offer.suites = vec![scenario.suite];
        offer.groups = vec![scenario.group];
        // In TLS 1.2 the groups also say which curves of certificates are understood; the first one
        // stays the one for the exchange.
        if scenario.version == TlsVersion::Tls12 {
            offer.groups.extend(curve(scenario.certificate));
            offer.groups.dedup();
        }
        let client = ClientSite::offering(offer);
        Ok(Self {
            scenario,
            server: server.map_err(|error| broken(&error))?,
            client: client.map_err(|error| broken(&error))?,
            resumption,
        })
    }

    /// One handshake, full or resumed; the first resumed one is preceded by a full one that is not
    /// counted.
    pub(crate) fn handshake(&mut self, resumed: bool) -> Result<Shaken, BenchError> {
        let (mut server, mut client) = (Meter::default(), Meter::default());
        let (established, facts) = self.shake(resumed, &mut server, &mut client, |step| step())?;
        let Established {
            server: at_server,
            client: at_client,
            ..
        } = established;
        server.charge(|| drop(at_server));
        client.charge(|| drop(at_client));
        Ok(Shaken {
            server_nanos: server.nanos,
            client_nanos: client.nanos,
            facts,
        })
    }

    /// One handshake as above, with the server's time by part. Watching costs two readings of the clock
    /// per part, which are taken off.
    pub(crate) fn share(&mut self, resumed: bool) -> Result<Share, BenchError> {
        let (mut server, mut client) = (Meter::default(), Meter::default());
        let mut parts = Parts::default();
        let watch = |step: &mut dyn FnMut()| {
            let ((), new) = timing::watched(cpu_clock, step);
            add(&mut parts, new);
        };
        let (established, _) = self.shake(resumed, &mut server, &mut client, watch)?;
        server.charge(|| drop(established.server));
        let clock = clock_cost().median;
        let net =
            |part: timing::Counted| (part.time.0 as f64 - f64::from(part.times) * clock).max(0.0);
        Ok(Share {
            total: server.nanos - 2.0 * f64::from(parts.total().times) * clock,
            key_exchange: net(parts.key_exchange),
            signature: net(parts.signature),
            tickets: net(parts.tickets),
        })
    }

    /// A connection after a full handshake.
    pub(crate) fn established(&mut self) -> Result<Established, BenchError> {
        let (mut server, mut client) = (Meter::default(), Meter::default());
        Ok(self
            .shake(false, &mut server, &mut client, |step| step())?
            .0)
    }

    /// A ticket as a client shows it, with what opens it.
    pub(crate) fn ticket(&mut self) -> Result<(Vec<u8>, Tickets), BenchError> {
        self.handshake(false)?;
        let (_, wire) = self.client_hello(Intent::Resume)?;
        let hello = self.read_hello(&wire)?;
        let ticket = match self.scenario.version {
            TlsVersion::Tls13 => hello.psk_identities.into_iter().next(),
            TlsVersion::Tls12 => hello.session_ticket,
        };
        let ticket = ticket.ok_or_else(|| self.scenario.broken("the client has no ticket"))?;
        Ok((ticket.to_vec(), Tickets::new(&self.resumption, SITE)))
    }

    fn client_hello(&self, intent: Intent) -> Result<(ClientHandshake, Vec<u8>), BenchError> {
        let mut handshake = ClientHandshake::new(&self.client, intent)
            .map_err(|failure| self.scenario.broken(failure))?;
        let mut wire = Vec::new();
        match handshake.step(&mut [], &mut wire).progress {
            Progress::NeedsInput => Ok((handshake, wire)),
            other => Err(self.scenario.broken(format!("{other:?} after the hello"))),
        }
    }

    fn read_hello(&self, wire: &[u8]) -> Result<tollgate_tls::ClientHello, BenchError> {
        match hello::read(wire) {
            Reading::Complete(hello) => Ok(*hello),
            _ => Err(self.scenario.broken("our own ClientHello cannot be read")),
        }
    }

    /// `watch` is given every step of the server, and runs it.
    fn shake(
        &mut self,
        resumed: bool,
        at_server: &mut Meter,
        at_client: &mut Meter,
        mut watch: impl FnMut(&mut dyn FnMut()),
    ) -> Result<(Established, HandshakeFacts), BenchError> {
        let intent = match resumed {
            true => Intent::Resume,
            false => Intent::Full,
        };
        if resumed && self.client.sessions() == 0 {
            self.handshake(false)?;
        }
        let (mut client, mut to_server) = at_client.charge(|| self.client_hello(intent))?;
        let mut server = at_server.charge(|| {
            let hello = self.read_hello(&to_server)?;
            Handshake::new(&self.server, &hello).map_err(|failure| self.scenario.broken(failure))
        })?;
        let mut to_client = Vec::new();
        let (mut served, mut done) = (false, false);
        for _ in 0..MOST_TURNS {
            if !served {
                let mut step = None;
                at_server.charge(|| {
                    watch(&mut || step = Some(server.step(&mut to_server, &mut to_client)));
                });
                served = self.advanced(step, &mut to_server)?;
            }
            if !done {
                let step = at_client.charge(|| client.step(&mut to_client, &mut to_server));
                done = self.advanced(Some(step), &mut to_client)?;
            }
            if served && done {
                break;
            }
        }
        if !served || !done || !to_server.is_empty() || !to_client.is_empty() {
            return Err(self.scenario.broken("the handshake does not end"));
        }
        let (server, facts) = at_server.charge(|| server.finish());
        let (mut client, seen) = at_client.charge(|| client.finish(&self.client));
        self.check(resumed, &facts, "the server")?;
        self.check(resumed, &seen, "the client")?;
        // The ticket of TLS 1.3 is held back by the server until it sends something.
        let mut held = server.held().to_vec();
        at_client
            .charge(|| client.receive(&mut held, &mut |_| ()))
            .map_err(|failure| self.scenario.broken(failure))?;
        let established = Established {
            server,
            client,
            output: vec![0; RecordPair::room(BATCH_BYTES)],
        };
        Ok((established, facts))
    }

    /// Takes what was consumed off `input`, and says whether this end is done.
    fn advanced(
        &self,
        step: Option<tollgate_tls::Step>,
        input: &mut Vec<u8>,
    ) -> Result<bool, BenchError> {
        let step = step.ok_or_else(|| self.scenario.broken("a step was not taken"))?;
        input.drain(..step.consumed);
        match step.progress {
            Progress::Done => Ok(true),
            Progress::NeedsInput => Ok(false),
            Progress::Failed(failure) => Err(self.scenario.broken(failure)),
        }
    }

    /// Whether the handshake was what was asked for, as seen by `who`.
    fn check(&self, resumed: bool, facts: &HandshakeFacts, who: &str) -> Result<(), BenchError> {
        let wanted = &self.scenario;
        let group = match (resumed, wanted.version) {
            (true, TlsVersion::Tls12) => None,
            _ => Some(wanted.group),
        };
        let kind = match facts.kind {
            HandshakeKind::Full => !resumed,
            HandshakeKind::Resumed(_) => resumed,
            HandshakeKind::FullWithRetry => false,
        };
        let certificate = (!resumed).then_some(wanted.certificate);
        let fits = kind
            && facts.version == wanted.version
            && facts.suite == wanted.suite
            && facts.group == group
            && facts.certificate == certificate;
        match fits {
            true => Ok(()),
            false => Err(wanted.broken(format!(
                "it was to be {}, and {who} saw {}, {}, {}, group {:?}, certificate {:?}",
                if resumed { "resumed" } else { "full" },
                facts.kind.name(),
                facts.version,
                facts.suite,
                facts.group,
                facts.certificate,
            ))),
        }
    }
}

impl Established {
    /// Sends `bytes` from the server to the client as data in full records. Returns the CPU time of the
    /// server and of the client, in nanoseconds; nothing is copied in between.
    ///
    /// # Errors
    /// When what arrives is not as long as what was sent.
    pub(crate) fn download(&mut self, bytes: usize) -> Result<(f64, f64), BenchError> {
        let broken = |reason: String| BenchError::Broken {
            what: "records in memory".into(),
            reason,
        };
        let failed = |failure: Failure| broken(failure.to_string());
        let (mut at_server, mut at_client) = (Meter::default(), Meter::default());
        let plain = [7; BATCH_BYTES];
        let mut left = bytes;
        let mut arrived = 0;
        while left > 0 {
            let piece = &plain[..left.min(BATCH_BYTES)];
            left -= piece.len();
            let (server, output) = (&mut self.server, &mut self.output);
            let sealed = at_server
                .charge(|| primitives::seal(server, piece, output))
                .map_err(failed)?;
            let received = at_client
                .charge(|| self.client.receive(&mut self.output[..sealed], &mut |_| ()))
                .map_err(failed)?;
            arrived += received.plain;
        }
        if arrived != bytes {
            return Err(broken(format!("{arrived} bytes arrived of {bytes}")));
        }
        Ok((at_server.nanos, at_client.nanos))
    }
}

/// The curve that a certificate's key is on, as a group.
fn curve(certificate: CertificateKind) -> Option<NamedGroup> {
    match certificate {
        CertificateKind::EcdsaP256 => Some(NamedGroup::SECP256R1),
        CertificateKind::EcdsaP384 => Some(NamedGroup::SECP384R1),
        CertificateKind::Ed25519 | CertificateKind::Rsa(_) => None,
    }
}

fn cpu_clock() -> CpuTime {
    CpuTime(u64::try_from(thread_cpu().as_nanos()).unwrap_or(u64::MAX))
}

fn add(parts: &mut Parts, new: Parts) {
    for (sum, new) in [
        (&mut parts.key_exchange, new.key_exchange),
        (&mut parts.signature, new.signature),
        (&mut parts.tickets, new.tickets),
    ] {
        sum.times += new.times;
        sum.time += new.time;
    }
}

/// Ticket keys for as long as a measurement takes.
fn resumption() -> Result<Arc<Resumption>, BenchError> {
    const HOUR: Duration = Duration::from_secs(3_600);
    let broken = |reason: &dyn std::fmt::Display| BenchError::Broken {
        what: "a ring of ticket keys".into(),
        reason: reason.to_string(),
    };
    let now = now();
    let mut random = [0; 48];
    getrandom(&mut random, GetRandomFlags::empty()).map_err(|error| broken(&error))?;
    let mut material = KeyMaterial {
        name: [0; 16],
        secret: [0; 32].into(),
    };
    material.name.copy_from_slice(&random[..16]);
    material.secret.copy_from_slice(&random[16..]);
    let lifetimes = Lifetimes::new(HOUR * 24, HOUR * 6).map_err(|error| broken(&error))?;
    let settings = ResumptionSettings {
        tickets: true,
        lifetime: HOUR * 6,
        session_cache_entries: 0,
    };
    let ring = Ring::new(lifetimes, now, material);
    Ok(Resumption::new(Clock::new(now), settings, &ring))
}

/// The wall clock; before 1970 it is 1970.
pub(crate) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    const TLS12: Scenario = Scenario {
        version: TlsVersion::Tls12,
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ..Scenario::USUAL
    };

    #[test]
    fn handshakes_are_what_was_asked_for_again_and_again() {
        let post_quantum = Scenario {
            group: NamedGroup::X25519MLKEM768,
            suite: CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
            ..Scenario::USUAL
        };
        let longer = Scenario {
            certificate: CertificateKind::EcdsaP384,
            ..TLS12
        };
        for scenario in [Scenario::USUAL, TLS12, longer, post_quantum] {
            let mut memory = InMemory::new(scenario).unwrap();
            for resumed in [true, false, true, true, false] {
                let shaken = memory.handshake(resumed).unwrap();
                assert_eq!(shaken.facts.kind.is_resumed(), resumed, "{scenario:?}");
                assert!(shaken.server_nanos > 0.0 && shaken.client_nanos > 0.0);
            }
        }
    }

    #[test]
    fn both_ends_together_take_what_the_thread_takes() {
        let mut memory = InMemory::new(Scenario::USUAL).unwrap();
        memory.handshake(false).unwrap();
        let before = thread_cpu();
        let ends: f64 = (0..100)
            .map(|_| memory.handshake(false).unwrap())
            .map(|shaken| shaken.server_nanos + shaken.client_nanos)
            .sum();
        // What is in neither end is the readings of the clock, ten each, and the checks of the facts.
        let thread = thread_cpu().saturating_sub(before).as_nanos() as f64;
        let share = ends / thread;
        assert!((0.6..1.05).contains(&share), "{share}");
    }

    #[test]
    fn a_handshake_other_than_asked_for_is_an_error() {
        let mut memory = InMemory::new(Scenario::USUAL).unwrap();
        let facts = memory.handshake(false).unwrap().facts;
        memory.check(false, &facts, "the server").unwrap();
        assert!(memory.check(true, &facts, "the server").is_err());
        memory.scenario.group = NamedGroup::SECP256R1;
        let error = memory.check(false, &facts, "the server").unwrap_err();
        assert!(error.to_string().contains("x25519"), "{error}");
        // And a combination that cannot come about is noticed when it is tried.
        let scenario = Scenario {
            suite: CipherSuite::TLS_AES_128_GCM_SHA256,
            ..TLS12
        };
        assert!(
            InMemory::new(scenario)
                .and_then(|mut memory| memory.handshake(false))
                .is_err()
        );
    }

    #[test]
    fn the_parts_of_a_full_handshake_are_signature_key_exchange_and_ticket() {
        let mut memory = InMemory::new(Scenario::USUAL).unwrap();
        let full = memory.share(false).unwrap();
        assert!(full.key_exchange > 0.0 && full.signature > 0.0 && full.tickets > 0.0);
        assert!(full.rest() > 0.0 && full.total > full.signature + full.key_exchange);
        let resumed = memory.share(true).unwrap();
        assert!(resumed.key_exchange > 0.0 && resumed.tickets > 0.0);
        assert_eq!(resumed.signature, 0.0, "nothing is signed when resumed");
        let resumed = InMemory::new(TLS12).unwrap().share(true).unwrap();
        assert_eq!(resumed.key_exchange, 0.0, "TLS 1.2 keeps its secret");
    }

    #[test]
    fn a_ticket_shown_by_a_client_opens() {
        for scenario in [Scenario::USUAL, TLS12] {
            let (ticket, tickets) = InMemory::new(scenario).unwrap().ticket().unwrap();
            let session = tickets.open(&ticket).unwrap();
            assert!(session.len() > 32 && ticket.len() > session.len() + 44);
        }
    }

    #[test]
    fn data_arrives_in_whole() {
        let mut memory = InMemory::new(Scenario::USUAL).unwrap();
        let mut established = memory.established().unwrap();
        for bytes in [1, 40_000, 1_000_000] {
            let (server, client) = established.download(bytes).unwrap();
            assert!(server > 0.0 && client > 0.0);
        }
    }
}
