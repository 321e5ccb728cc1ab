//! `serve --demo --drive`: a small load of the demo's own, so that every panel has something to show.
//!
//! Clients of several kinds on one thread, some 150 handshakes and 100 requests per second together: a few
//! hundredths of a core on either side. Tickets of strangers are made in memory, by sites that are like the
//! demo's but for their keys, their clock or their number.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tollgate_keys::{KeyMaterial, Ring};
use tollgate_lab::{LoadOptions, Mode};
use tollgate_terms::{CipherSuite, NamedGroup, TlsVersion, UnixTime};
use tollgate_tls::client::{ClientOffer, Intent, connect_as};
use tollgate_tls::{
    BackendTlsPolicy, Buffers, Certificate, ClientPolicy, ClientSite, Clock, Resumption,
    ResumptionSettings, ServerSite, SitePolicy,
};

use super::setup;
use crate::say;

/// A run is begun anew after this long; what it has gathered is thrown away.
const RUN: Duration = Duration::from_secs(600);
/// Between one stranger and the next.
const STRANGERS_EVERY: Duration = Duration::from_millis(700);
/// How old the tickets of those who were away for long are.
const AWAY: Duration = Duration::from_secs(3 * 86_400);
/// How long after a failure the same is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What is driven.
pub struct Driven {
    /// HTTP mode.
    pub https: SocketAddr,
    /// TCP mode.
    pub tcp: SocketAddr,
    /// Ticket keys of the demo.
    pub ring: Ring,
    /// Number of the demo's site in tickets.
    pub site: u64,
    /// A certificate for strangers to shake hands with.
    pub certificate: Arc<Certificate>,
}

/// A load that goes on until this is dropped.
pub struct Drive {
    _stop: watch::Sender<()>,
}

impl Drive {
    /// Begins on a thread of its own.
    ///
    /// # Errors
    /// When the host refuses a thread.
    pub fn start(driven: Driven) -> std::io::Result<Self> {
        let (stop, stopped) = watch::channel(());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("drive".into())
            .spawn(move || LocalSet::new().block_on(&runtime, drive(driven, stopped)))?;
        Ok(Self { _stop: stop })
    }
}

async fn drive(driven: Driven, stopped: watch::Receiver<()>) {
    let mut at_work = JoinSet::new();
    for options in clients(&driven) {
        at_work.spawn_local(repeat(options, stopped.clone()));
    }
    at_work.spawn_local(strangers(driven, stopped));
    while at_work.join_next().await.is_some() {}
}

/// Ready once the drive is dropped.
async fn over(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

async fn repeat(options: LoadOptions, stopped: watch::Receiver<()>) {
    loop {
        let stop = over(stopped.clone());
        let ran = tollgate_lab::run_watched(options.clone(), stop, &mut |_| {}).await;
        if stopped.has_changed().is_err() {
            return;
        }
        if ran.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Clients as they are: most resume, some are old, a few know RSA alone or have no AES in hardware.
fn clients(driven: &Driven) -> Vec<LoadOptions> {
    let at = |mode, address: SocketAddr| LoadOptions {
        server_name: Some("localhost".into()),
        insecure: true,
        duration: RUN,
        every: Duration::from_secs(60),
        ..LoadOptions::new(mode, address.to_string())
    };
    let fresh = |rate, hit_rate| LoadOptions {
        rate: Some(rate),
        hit_rate,
        connections: 4,
        ..at(Mode::Tps, driven.https)
    };
    let kept = |rate, connections, alpn: &str| LoadOptions {
        rate: Some(rate),
        connections,
        alpn: vec![alpn.into()],
        ..at(Mode::Requests, driven.https)
    };
    let held = |count, address| LoadOptions {
        count,
        ..at(Mode::Hold, address)
    };
    vec![
        LoadOptions {
            version: Some(TlsVersion::Tls13),
            ..fresh(60.0, 0.85)
        },
        LoadOptions {
            version: Some(TlsVersion::Tls13),
            group: Some(NamedGroup::X25519),
            ..fresh(20.0, 0.8)
        },
        LoadOptions {
            version: Some(TlsVersion::Tls12),
            ..fresh(40.0, 0.85)
        },
        LoadOptions {
            version: Some(TlsVersion::Tls12),
            rsa_only: true,
            ..fresh(6.0, 0.6)
        },
        LoadOptions {
            suites: CipherSuite::from_name("TLS_CHACHA20_POLY1305_SHA256")
                .into_iter()
                .collect(),
            ..fresh(12.0, 0.8)
        },
        LoadOptions {
            rate: Some(10.0),
            hit_rate: 0.8,
            connections: 4,
            ..at(Mode::Tps, driven.tcp)
        },
        kept(60.0, 4, "http/1.1"),
        kept(60.0, 2, "h2"),
        held(24, driven.https),
        held(8, driven.tcp),
    ]
}

/// Somebody whose ticket cannot be taken.
#[derive(Clone, Copy)]
enum Stranger {
    /// From a member of a fleet whose keys are others.
    OtherKeys,
    /// Back after longer than a ticket lives.
    Away,
    /// With a ticket of another site.
    OtherSite,
}

async fn strangers(driven: Driven, stopped: watch::Receiver<()>) {
    let turns = [Stranger::OtherKeys, Stranger::Away, Stranger::OtherSite];
    let mut made = Vec::new();
    for stranger in turns {
        match site_of(stranger, &driven) {
            Ok(site) => made.push(site),
            Err(error) => return say::warning(&format!("drive: no strangers: {error}")),
        }
    }
    let buffers = Buffers::new();
    let mut ticks = tokio::time::interval(STRANGERS_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        for site in &made {
            tokio::select! {
                () = over(stopped.clone()) => return,
                _ = ticks.tick() => {}
            }
            // Whether the demo is busy, draining or gone: there will be another stranger.
            let _ = visit(site, driven.https, &buffers).await;
        }
    }
}

/// A site like the demo's, but for what makes its tickets strange there.
fn site_of(stranger: Stranger, driven: &Driven) -> Result<ServerSite, Box<dyn std::error::Error>> {
    let now = setup::now();
    let (since, material, id) = match stranger {
        Stranger::OtherKeys => (now, setup::key_material(), driven.site),
        Stranger::Away => (now - AWAY, issuing(driven, now)?, driven.site),
        Stranger::OtherSite => (now, issuing(driven, now)?, driven.site ^ 1),
    };
    let ring = Ring::new(driven.ring.lifetimes(), since, material);
    let settings = ResumptionSettings {
        tickets: true,
        lifetime: Duration::from_secs(86_400),
        session_cache_entries: 0,
    };
    let policy = SitePolicy {
        id,
        certificates: vec![Arc::clone(&driven.certificate)],
        client: ClientPolicy::Off,
        min_version: TlsVersion::Tls12,
        groups: Vec::new(),
        suites: Vec::new(),
        alpn: vec!["http/1.1".to_owned()],
    };
    let resumption = Resumption::new(Clock::new(since), settings, &ring);
    Ok(ServerSite::new(policy, resumption)?)
}

/// The demo's present key.
fn issuing(driven: &Driven, now: UnixTime) -> Result<KeyMaterial, &'static str> {
    let key = driven.ring.issuing(now).ok_or("no ticket key issues")?;
    Ok(KeyMaterial {
        name: key.name,
        secret: key.secret.clone(),
    })
}

/// Takes a ticket in memory, and shows it at the demo.
async fn visit(
    site: &ServerSite,
    address: SocketAddr,
    buffers: &Buffers,
) -> Result<(), Box<dyn std::error::Error>> {
    let client = ClientSite::offering(ClientOffer::new(BackendTlsPolicy {
        verify: false,
        name: "localhost".into(),
        ca: None,
        certificate: None,
        alpn: vec!["http/1.1".into()],
    }))?;
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let elsewhere = async {
        let (hello, heard) = tollgate_tls::read_hello(&mut far, buffers).await.ok()?;
        let shaken = tollgate_tls::handshake(far, heard, &hello, site, buffers).await;
        let (mut stream, ..) = shaken.ok()?;
        // The ticket leaves with the first byte.
        stream.write_all(b".").await.ok()?;
        stream.shutdown().await.ok()
    };
    let here = async {
        let (mut stream, _) = connect_as(near, &client, Intent::Full, buffers)
            .await
            .ok()?;
        stream.read_u8().await.ok()
    };
    let _ = tokio::join!(elsewhere, here);
    let tcp = TcpStream::connect(address).await?;
    if let Ok((mut stream, _)) = connect_as(tcp, &client, Intent::Resume, buffers).await {
        stream.shutdown().await?;
    }
    Ok(())
}
