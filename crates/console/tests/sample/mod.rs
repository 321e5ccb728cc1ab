//! A made-up process with ten minutes of life: the same every time, so that what the views say of it can be
//! written down.

use std::time::Duration;

use tollgate_console::Observed;
use tollgate_cost::Sheet;
use tollgate_meter::alarms::{AlarmSettings, AlarmState, Alarms, Seen, SeenCertificate};
use tollgate_meter::{
    BackendFact, CertificateFact, Direction, History, Meter, MeterNames, RecordDirection, Snapshot,
};
use tollgate_terms::{
    CertificateKind, CipherSuite, CpuTime, Culprit, HandshakeCost, HandshakeFacts, HandshakeKind,
    NamedGroup, ResumptionMethod, ResumptionMiss, SignatureScheme, TlsVersion, UnixTime,
};

/// When the sample's process started, in seconds since 1970.
pub const STARTED: f64 = 1_795_000_000.0;
const SECONDS: u32 = 640;
/// When another configuration takes effect: from here on fewer resume.
const RELOADED: u32 = 520;

/// What a view is made from, owned.
pub struct Sample {
    pub snapshot: Snapshot,
    pub history: History,
    pub alarms: Vec<AlarmState>,
    pub sheet: Sheet,
    pub now: f64,
}

impl Sample {
    pub fn observed(&self) -> Observed<'_> {
        Observed {
            snapshot: &self.snapshot,
            history: &self.history,
            alarms: &self.alarms,
            sheet: Some(&self.sheet),
            now: self.now,
        }
    }
}

/// One kind of handshake of the sample, how many of it there are per second, and what each costs.
struct Flow {
    site: usize,
    listener: usize,
    facts: HandshakeFacts,
    per_second: u32,
    asymmetric_micros: u64,
    derivation_micros: u64,
}

fn facts(kind: HandshakeKind, certificate: CertificateKind) -> HandshakeFacts {
    let is_resumed = kind.is_resumed();
    let signature = match certificate {
        CertificateKind::Rsa(_) => SignatureScheme::RSA_PSS_RSAE_SHA256,
        _ => SignatureScheme::ECDSA_SECP256R1_SHA256,
    };
    HandshakeFacts {
        version: TlsVersion::Tls13,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        group: Some(NamedGroup::X25519),
        kind,
        miss: (!is_resumed).then_some(ResumptionMiss::NothingOffered),
        certificate: (!is_resumed).then_some(certificate),
        signature: (!is_resumed).then_some(signature),
        server_name: None,
        alpn: None,
        client: None,
        ticket_age: is_resumed.then(|| Duration::from_secs(90)),
        early_data_offered: false,
    }
}

const TICKET: HandshakeKind = HandshakeKind::Resumed(ResumptionMethod::Ticket);

/// Handshakes per second; after the reload the shop's clients have lost their tickets.
fn flows(second: u32) -> Vec<Flow> {
    let wave = second / 40 % 3;
    let (full, resumed) = match second < RELOADED {
        true => (40 + 4 * wave, 380 + 30 * wave),
        false => (230 + 5 * wave, 190),
    };
    let ecdsa = CertificateKind::EcdsaP256;
    let flow = |site, facts, per_second, asymmetric_micros, derivation_micros| Flow {
        site,
        listener: usize::from(site == 2),
        facts,
        per_second,
        asymmetric_micros,
        derivation_micros,
    };
    let with_group = |kind, group| HandshakeFacts {
        group: Some(group),
        ..facts(kind, ecdsa)
    };
    let missed = |miss| HandshakeFacts {
        miss: Some(miss),
        ..facts(HandshakeKind::Full, ecdsa)
    };
    let twelve = HandshakeFacts {
        version: TlsVersion::Tls12,
        suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        group: None,
        kind: HandshakeKind::Resumed(ResumptionMethod::SessionCache),
        ..facts(TICKET, CertificateKind::Rsa(2_048))
    };
    let chacha = HandshakeFacts {
        suite: CipherSuite::TLS_CHACHA20_POLY1305_SHA256,
        ..facts(TICKET, ecdsa)
    };
    let hybrid = NamedGroup::X25519MLKEM768;
    vec![
        flow(0, facts(HandshakeKind::Full, ecdsa), full / 2, 49, 23),
        flow(0, with_group(HandshakeKind::Full, hybrid), full / 4, 66, 24),
        flow(0, missed(ResumptionMiss::UnknownKey), full / 8, 49, 24),
        flow(0, missed(ResumptionMiss::Expired), full / 8, 49, 24),
        flow(0, facts(TICKET, ecdsa), resumed / 2, 33, 24),
        flow(0, with_group(TICKET, hybrid), resumed / 4, 50, 25),
        flow(0, chacha, resumed / 4, 33, 23),
        flow(
            1,
            facts(HandshakeKind::Full, CertificateKind::Rsa(2_048)),
            12,
            262,
            25,
        ),
        flow(1, facts(TICKET, CertificateKind::Rsa(2_048)), 20, 33, 24),
        flow(1, twelve, 6, 0, 11),
        flow(
            2,
            with_group(HandshakeKind::FullWithRetry, NamedGroup::SECP256R1),
            2,
            71,
            28,
        ),
        flow(2, facts(TICKET, ecdsa), 9, 33, 24),
    ]
}

/// Seven clients that are not alike: requests on a connection, its life, and the age of the ticket.
const REQUESTS: [u64; 7] = [1, 1, 2, 3, 5, 8, 24];
const LIVED_MILLIS: [u64; 7] = [50, 700, 3_000, 12_000, 40_000, 90_000, 400_000];
const AGES: [u64; 7] = [5, 40, 120, 600, 2_400, 9_000, 30_000];

/// What one worker counts in one second; the second one has a little less to do.
fn happen(meter: &mut Meter, worker: u64, second: u32) -> u64 {
    let mut spent = 0;
    if second == 0 {
        // One handshake is always in flight.
        meter.opened(0, "handshake");
        meter.held("handshake", 3_464);
    }
    for flow in flows(second) {
        for number in 0..flow.per_second {
            if u64::from(number) % 2 != worker {
                continue;
            }
            let cost = HandshakeCost {
                asymmetric: CpuTime(flow.asymmetric_micros * 1_000),
                derivation: CpuTime(flow.derivation_micros * 1_000),
            };
            spent += cost.total().0;
            meter.accepted(flow.listener);
            meter.opened(flow.listener, "handshake");
            let facts = HandshakeFacts {
                ticket_age: flow
                    .facts
                    .ticket_age
                    .map(|_| Duration::from_secs(AGES[number as usize % 7])),
                ..flow.facts.clone()
            };
            meter.handshake(flow.site, flow.listener, &facts, 4_000, cost);
            meter.closed(flow.listener, "handshake");
            meter.look_up(CpuTime(850));
            meter.ticket(142);
            let mode = if flow.site == 2 { "tcp" } else { "http" };
            meter.opened(flow.listener, mode);
            meter.held(mode, 3_350);
            if flow.facts.miss == Some(ResumptionMiss::UnknownKey) {
                meter.unknown_key([0xa7; 16]);
            }
            let requests = REQUESTS[number as usize % 7];
            if mode == "http" {
                for _ in 0..requests {
                    meter.request(flow.site, "HTTP/2", 200, 2_600);
                }
            }
            meter.bytes(flow.site, mode, Direction::ClientIn, 420 * requests);
            meter.bytes(flow.site, mode, Direction::ClientOut, 9_000 * requests);
            let suite = flow.facts.suite;
            let (sealed, opened) = (RecordDirection::Sealed, RecordDirection::Opened);
            let time = CpuTime(1_900 * requests);
            meter.records(suite, sealed, requests, 9_000 * requests, time);
            meter.records(
                suite,
                opened,
                requests,
                420 * requests,
                CpuTime(400 * requests),
            );
            spent += 2_300 * requests;
            // Connections live for a minute and a half: as many close as opened then.
            if second > 90 {
                meter.closed(flow.listener, mode);
                meter.held(mode, -3_350);
                meter.closed_after(
                    mode,
                    Duration::from_millis(LIVED_MILLIS[number as usize % 7]),
                    requests,
                );
            }
        }
    }
    meter.handshake_failed(0, "no_common_suite", Culprit::Client);
    let busy = spent + 95_000_000 + u64::from(second % 5) * 1_000_000;
    meter.busy(CpuTime(busy));
    busy
}

fn names(worker: usize) -> MeterNames {
    MeterNames {
        sites: vec![
            "shop.example".into(),
            "old.example".into(),
            "mqtt.example".into(),
        ],
        listeners: vec!["0.0.0.0:443".into(), "0.0.0.0:8883".into()],
        backends: vec![vec!["10.0.0.5:80".into(), "10.0.0.6:80".into()]],
        worker,
    }
}

/// The whole life of the sample.
pub fn sample() -> Sample {
    let mut meters = [Meter::new(names(0)), Meter::new(names(1))];
    let mut busy = [0; 2];
    let mut history = History::new();
    let mut alarms = Alarms::new(AlarmSettings::default());
    let mut snapshot = Snapshot::default();
    let mut now = STARTED;
    for second in 0..SECONDS {
        for (worker, meter) in meters.iter_mut().enumerate() {
            busy[worker] += happen(meter, worker as u64, second);
        }
        now = STARTED + f64::from(second) + 1.0;
        snapshot = whole(&meters, &busy, second);
        history.take(now, &snapshot);
        for change in alarms.judge(now, &seen(&history)) {
            history.alarm(now, change.name, change.sentence);
        }
    }
    Sample {
        snapshot,
        history,
        alarms: alarms.states().to_vec(),
        sheet: Sheet::from_json(include_str!("../fixtures/sheet.json")).unwrap(),
        now: now + 0.25,
    }
}

fn whole(meters: &[Meter; 2], busy: &[u64; 2], second: u32) -> Snapshot {
    let mut snapshot = meters[0].snapshot();
    snapshot.merge(&meters[1].snapshot());
    let process = &mut snapshot.process;
    process.version = "0.1.0".into();
    process.host = "edge-1".into();
    process.started_seconds = STARTED;
    process.cores = 2.0;
    process.ledger = true;
    process.session_bytes = Some(1_517_000);
    process.sessions_cached = 6_000;
    process.reloads_succeeded = u64::from(second >= RELOADED);
    process.connections_allowed = 100_000;
    process.config_hash = match second < RELOADED {
        true => "5c1f0d7e".into(),
        false => "b40229aa".into(),
    };
    let kernel = |worker: usize| busy[worker] as f64 / 1e9 / 0.985;
    process.worker_cpu_seconds = vec![(0, kernel(0)), (1, kernel(1))];
    let certificate = |site: &str, certificate: &str, days: f64| CertificateFact {
        site: site.into(),
        certificate: certificate.into(),
        expires: UnixTime((STARTED + days * 86_400.0) as u64),
    };
    process.certificates = vec![
        certificate("shop.example", "ecdsa-p256", 61.0),
        certificate("old.example", "rsa-2048", 9.0),
        certificate("mqtt.example", "ecdsa-p256", 340.0),
    ];
    process.backends = vec![BackendFact {
        site: "shop.example".into(),
        backend: "10.0.0.5:80".into(),
        up: true,
    }];
    snapshot
}

/// What the alarms are shown, as `tollgate serve` would show it to them.
fn seen(history: &History) -> Seen {
    let minute = history.over(60.0);
    Seen {
        seconds: minute.seconds,
        full: minute.totals.full(),
        resumed: minute.totals.resumed(),
        unknown_keys: minute.totals.missed("unknown_key"),
        requests_per_handshake: minute.totals.requests_per_handshake(),
        tls_cores: Some(minute.cores(minute.totals.cpu.tls_nanos())),
        cores_at_zero: None,
        cores_there_are: 2.0,
        accepted_by_worker: minute.workers.iter().map(|one| one.accepted).collect(),
        certificates: vec![SeenCertificate {
            subject: "old.example rsa-2048".into(),
            expires: STARTED + 9.0 * 86_400.0,
        }],
        dearer: Vec::new(),
    }
}
