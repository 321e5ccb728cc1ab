//! From a file on disk to everything that serving needs, findings along the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_config::{
    Alarms as AlarmConfig, Config, Finding, LogTarget, Resumption as ResumptionConfig, Severity,
};
use tollgate_edge::{ConsoleFiles, Live, Loaded, Sources};
use tollgate_journal::{Format, Journal, Target};
use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
use tollgate_meter::alarms::AlarmSettings;
use tollgate_terms::UnixTime;
use tollgate_tls::{Resumption, ResumptionSettings};

use crate::say;
use crate::serve::demo;
use crate::serve::webhook::Receiver;

/// Where the configuration comes from.
#[derive(Debug)]
pub enum Origin {
    /// A file that a reload reads again.
    File(PathBuf),
    /// The built-in demo.
    Demo(demo::Demo),
}

impl Origin {
    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Demo(_) => "demo".to_owned(),
        }
    }
}

/// A configuration that was read and found good.
#[derive(Debug)]
pub struct Read {
    /// The text, for findings that come later.
    pub text: String,
    /// The typed configuration.
    pub config: Config,
}

/// Text for people that says why something is not possible.
pub type Complaint = String;

/// Reads and checks the configuration text alone.
///
/// # Errors
/// The rendered findings.
pub fn read(origin: &Origin, color: bool) -> Result<(Read, Vec<Finding>), Complaint> {
    let name = origin.name();
    let (text, base) = match origin {
        Origin::Demo(demo) => (demo.text.clone(), PathBuf::from("/")),
        Origin::File(path) => (file_text(path)?, folder(path)),
    };
    match tollgate_config::read(&name, &text, &base) {
        Ok(read) => Ok((
            Read {
                text,
                config: read.config,
            },
            read.warnings,
        )),
        Err(findings) => Err(tollgate_config::render(&name, &text, &findings, color)),
    }
}

fn file_text(path: &Path) -> Result<String, Complaint> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("tollgate: error: {shown} does not exist; name a configuration file, or try: tollgate serve --demo\n")
        }
        _ => format!("tollgate: error: {shown} cannot be read: {error}\n"),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("tollgate: error: {shown} is not UTF-8 text: byte {at} fits no character; save the file as UTF-8\n")
    })
}

/// The folder that paths in the file are relative to.
fn folder(path: &Path) -> PathBuf {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    parent.canonicalize().unwrap_or_else(|_| parent.to_owned())
}

/// Everything that a configuration names, read and prepared.
pub struct Built {
    /// What the workers serve with.
    pub live: Live,
    /// What the console is guarded by; `None` when there is no console.
    pub console: Option<ConsoleFiles>,
    /// Who is told of alarms; `None` for nobody.
    pub webhook: Option<Receiver>,
    /// Rendered warnings.
    pub warnings: Complaint,
}

/// Reads every file that the configuration names; returns it ready to serve.
///
/// # Errors
/// The rendered findings, errors and warnings together.
pub fn build(
    origin: &Origin,
    read: &Read,
    mut findings: Vec<Finding>,
    resumption: &Arc<Resumption>,
    color: bool,
) -> Result<Built, Complaint> {
    let mut sources = Sources::files(Arc::clone(resumption), now());
    if let Origin::Demo(demo) = origin {
        sources.memory = demo.certificates();
    }
    let render = |findings: &[Finding]| match findings {
        [] => String::new(),
        findings => tollgate_config::render(&origin.name(), &read.text, findings, color),
    };
    let console = read.config.console.as_ref();
    let console = console.map(|console| sources.console(console, &mut findings));
    let (webhook, reachable) = match read.config.alarms.webhook.as_ref().map(Receiver::read) {
        None => (None, true),
        Some(Ok(receiver)) => (Some(receiver), true),
        Some(Err(finding)) => {
            findings.push(finding);
            (None, false)
        }
    };
    let live = match Live::build(&read.config, &sources, fingerprint(&read.text)) {
        Loaded::Ready(live, found) => {
            findings.extend(found);
            Some(live)
        }
        Loaded::Refused(found) => {
            findings.extend(found);
            None
        }
    };
    let (console, readable) = match console {
        None => (None, true),
        Some(None) => (None, false),
        Some(files) => (files, true),
    };
    match live {
        Some(live) if readable && reachable => {
            debug_assert!(
                findings
                    .iter()
                    .all(|finding| finding.severity == Severity::Warning)
            );
            Ok(Built {
                live,
                console,
                webhook,
                warnings: render(&findings),
            })
        }
        _ => Err(render(&findings)),
    }
}

/// Wall-clock time.
pub fn now() -> UnixTime {
    UnixTime(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    )
}

/// Eight hexadecimal digits that change when the text does.
fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}

/// What the resumption room is told of the configuration.
pub fn resumption_settings(config: &ResumptionConfig) -> ResumptionSettings {
    ResumptionSettings {
        tickets: config.tickets,
        lifetime: config.lifetime,
        session_cache_entries: config.session_cache_entries,
    }
}

/// What the alarms are told of the configuration.
pub fn alarm_settings(config: &AlarmConfig) -> AlarmSettings {
    AlarmSettings {
        hit_rate_below: config.hit_rate_below,
        fresh_per_second_above: config.fresh_per_second_above,
        fresh_per_second_per_core_above: config.fresh_per_second_per_core_above,
        tls_cpu_above: config.tls_cpu_above,
        cold_cache: config.cold_cache,
        requests_per_handshake_fall: config.requests_per_handshake_fall,
        certificate_expires_within: config.certificate_expires_within,
        certificate_dearer: config.certificate_dearer,
        unknown_keys_above: config.unknown_keys_above,
        worker_imbalance_above: config.worker_imbalance_above,
        hold: config.hold,
    }
}

/// Lifetimes of ticket keys.
///
/// # Errors
/// What the keys room says against them; the configuration reader has said it before, with its place.
pub fn lifetimes(config: &ResumptionConfig) -> Result<Lifetimes, Complaint> {
    Lifetimes::new(config.key_issue, config.key_accept)
        .map_err(|error| format!("tollgate: error: {error}\n"))
}

/// A ring with one fresh key.
///
/// # Errors
/// When the lifetimes are impossible.
pub fn fresh_ring(config: &ResumptionConfig) -> Result<Ring, Complaint> {
    Ok(Ring::new(lifetimes(config)?, now(), key_material()))
}

/// Random bytes for a new ticket key, from the kernel.
pub fn key_material() -> KeyMaterial {
    let (mut name, mut secret) = ([0u8; 16], [0u8; 32]);
    fill_random(&mut name);
    fill_random(&mut secret);
    KeyMaterial {
        name,
        secret: secret.into(),
    }
}

fn fill_random(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(filled) => bytes = &mut bytes[filled..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                // Without randomness there is no key, and without a key nothing to serve with.
                say::error(&format!("the kernel gives no random bytes: {error}"));
                std::process::exit(i32::from(say::BROKE));
            }
        }
    }
}

/// Opens the access log, or reopens it where the target is the same as before.
///
/// # Errors
/// When the file cannot be opened for appending.
pub fn journal(config: &Config) -> Result<Option<Journal>, Complaint> {
    let format = match config.log.format {
        tollgate_config::LogFormat::Json => Format::Json,
        tollgate_config::LogFormat::Logfmt => Format::Logfmt,
    };
    let target = match &config.log.target {
        LogTarget::Off => return Ok(None),
        LogTarget::Stdout => Target::Stdout,
        LogTarget::File(path) => Target::File(path.value.clone()),
    };
    Journal::open(target, format).map(Some).map_err(|error| match &config.log.target {
        LogTarget::File(path) => format!(
            "tollgate: error: access log {} cannot be opened: {error}; its folder must exist and be writable\n",
            path.value.display()
        ),
        LogTarget::Off | LogTarget::Stdout => format!("tollgate: error: access log cannot be opened: {error}\n"),
    })
}
