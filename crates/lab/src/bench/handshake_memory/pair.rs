//! A server and a client of it in memory, one message at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_terms::{CertificateKind, CipherSuite, NamedGroup, TlsVersion, UnixTime};
use tollgate_tls::client::{ClientHandshake, Intent};
use tollgate_tls::hello::{self, Reading};
use tollgate_tls::{
    BackendTlsPolicy, Certificate, ClientHello, ClientPolicy, ClientSite, ClientTrust, Clock,
    Handshake, Progress, Resumption, ResumptionSettings, ServerSite, Session, SitePolicy, Step,
};

use crate::bench::BenchError;

const DAY: Duration = Duration::from_secs(86_400);
/// RFC 5289: TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256.
const TLS12_SUITE: CipherSuite = CipherSuite(0xC02B);

/// What a pair agrees on. The client offers everything; the server decides.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    /// The version.
    pub(crate) version: TlsVersion,
    /// The only group that the server takes; `None` for what the two like best.
    pub(crate) group: Option<NamedGroup>,
    /// Whether the server gives tickets or keeps sessions itself.
    pub(crate) tickets: bool,
    /// Whether the client shows a certificate.
    pub(crate) client_certificate: bool,
}

/// A server with an ECDSA P-256 certificate, and its client.
pub(crate) struct Pair {
    server: ServerSite,
    client: ClientSite,
    /// Where the server's sessions are kept.
    pub(crate) resumption: Arc<Resumption>,
}

impl Pair {
    pub(crate) fn new(agreement: &Agreement) -> Result<Self, BenchError> {
        let own = |name: &str| {
            Certificate::self_signed(CertificateKind::EcdsaP256, &[name])
                .map(Arc::new)
                .map_err(|error| broken(&error))
        };
        let shown = match agreement.client_certificate {
            true => Some(own("client")?),
            false => None,
        };
        let resumption = resumption(agreement.tickets, 1_000)?;
        let policy = SitePolicy {
            id: 1,
            certificates: vec![own("localhost")?],
            client: asked_for(shown.as_deref())?,
            min_version: TlsVersion::Tls12,
            groups: agreement.group.into_iter().collect(),
            suites: match agreement.version {
                TlsVersion::Tls12 => vec![TLS12_SUITE],
                TlsVersion::Tls13 => Vec::new(),
            },
            alpn: vec!["h2".into(), "http/1.1".into()],
        };
        let server =
            ServerSite::new(policy, Arc::clone(&resumption)).map_err(|error| broken(&error))?;
        let client = ClientSite::new(BackendTlsPolicy {
            verify: false,
            name: "localhost".into(),
            ca: None,
            certificate: shown,
            alpn: vec!["http/1.1".into()],
        })
        .map_err(|error| broken(&error))?;
        Ok(Self {
            server,
            client,
            resumption,
        })
    }

    /// A client's handshake that has said its ClientHello, and the hello.
    pub(crate) fn hello(&self, intent: Intent) -> Result<(ClientHandshake, Vec<u8>), BenchError> {
        let mut client =
            ClientHandshake::new(&self.client, intent).map_err(|error| broken(&error))?;
        let mut wire = Vec::with_capacity(4096);
        let step = client.step(&mut [], &mut wire);
        not_failed(&step)?;
        Ok((client, wire))
    }

    /// The server's handshake before its first step.
    pub(crate) fn begin(&self, hello: &ClientHello) -> Result<Handshake, BenchError> {
        Handshake::new(&self.server, hello).map_err(|error| broken(&error))
    }

    /// A client's handshake, complete, as its session.
    pub(crate) fn finish(&self, client: ClientHandshake) -> Session {
        client.finish(&self.client).0
    }

    /// A whole handshake, full or resumed as `intent` says, after which the client has taken in its ticket;
    /// the length of that, if one came.
    pub(crate) fn shake(&self, intent: Intent) -> Result<Option<usize>, BenchError> {
        let (mut client, mut to_server) = self.hello(intent)?;
        let mut server = self.begin(&*read(&to_server)?)?;
        let mut done = false;
        // Two flights from each side at most, and one more for a retry.
        for _ in 0..4 {
            let mut to_client = Vec::new();
            done |= advance(&mut to_server, |input| server.step(input, &mut to_client))?;
            let mut answer = Vec::new();
            let client_done = advance(&mut to_client, |input| client.step(input, &mut answer))?;
            to_server.append(&mut answer);
            if done && client_done {
                let (server, facts) = server.finish();
                if facts.kind.is_resumed() != (intent == Intent::Resume) {
                    return Err(broken(&format!(
                        "{intent:?} was asked for, not {:?}",
                        facts.kind
                    )));
                }
                let tls12_ticket = client.details().tls12_ticket;
                let mut client = self.finish(client);
                let mut held = server.held().to_vec();
                client
                    .receive(&mut held, &mut |_| {})
                    .map_err(|error| broken(&error))?;
                let ticket = client.tickets().first().copied().or(tls12_ticket);
                return Ok(ticket.map(|ticket| ticket.bytes));
            }
        }
        Err(broken(&"it does not come to an end"))
    }
}

/// The hello in what a client sent.
pub(crate) fn read(wire: &[u8]) -> Result<Box<ClientHello>, BenchError> {
    match hello::read(wire) {
        Reading::Complete(hello) => Ok(hello),
        Reading::Incomplete | Reading::PlainHttp | Reading::Refused(_) => {
            Err(broken(&"our own ClientHello cannot be read"))
        }
    }
}

/// One step with all of `input`, of which only the rest is left; whether the handshake is complete.
pub(crate) fn advance(
    input: &mut Vec<u8>,
    step: impl FnOnce(&mut [u8]) -> Step,
) -> Result<bool, BenchError> {
    let step = step(input);
    input.drain(..step.consumed);
    not_failed(&step)?;
    Ok(matches!(step.progress, Progress::Done))
}

fn not_failed(step: &Step) -> Result<(), BenchError> {
    match &step.progress {
        Progress::Failed(failure) => Err(broken(failure)),
        Progress::NeedsInput | Progress::Done => Ok(()),
    }
}

/// A client that shows this certificate is vouched for by it.
fn asked_for(shown: Option<&Certificate>) -> Result<ClientPolicy, BenchError> {
    let Some(shown) = shown else {
        return Ok(ClientPolicy::Off);
    };
    let trust =
        ClientTrust::from_pem(shown.chain_pem().as_bytes(), &[]).map_err(|error| broken(&error))?;
    Ok(ClientPolicy::Required(Arc::new(trust)))
}

/// Keys and cache of a server that has just begun.
pub(crate) fn resumption(tickets: bool, entries: usize) -> Result<Arc<Resumption>, BenchError> {
    let lifetimes = Lifetimes::new(DAY, DAY / 4).map_err(|error| broken(&error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = UnixTime(now.map_or(0, |since| since.as_secs()));
    let material = KeyMaterial {
        name: [1; 16],
        // What these tickets hold is worth nothing.
        secret: [2; 32].into(),
    };
    let settings = ResumptionSettings {
        tickets,
        lifetime: DAY / 4,
        session_cache_entries: entries,
    };
    let ring = Ring::new(lifetimes, now, material);
    Ok(Resumption::new(Clock::new(now), settings, &ring))
}

fn broken(reason: &dyn std::fmt::Display) -> BenchError {
    BenchError::Broken {
        what: "a handshake in memory".into(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn agreement(version: TlsVersion) -> Agreement {
        Agreement {
            version,
            group: None,
            tickets: true,
            client_certificate: false,
        }
    }

    #[test]
    fn both_versions_come_to_an_end_with_and_without_a_client_certificate() {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            for client_certificate in [false, true] {
                let pair = Pair::new(&Agreement {
                    client_certificate,
                    ..agreement(version)
                })
                .unwrap();
                let ticket = pair.shake(Intent::Full).unwrap();
                assert!(ticket.is_some_and(|bytes| bytes > 100), "{ticket:?}");
                pair.shake(Intent::Resume).unwrap();
                pair.shake(Intent::Full).unwrap();
            }
        }
    }
}
