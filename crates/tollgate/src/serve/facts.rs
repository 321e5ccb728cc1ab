//! The process as the console shows it: the workers' counts added up, with what only the parent knows.

use std::sync::Arc;

use tollgate_edge::{BackendState, Edge, Live, Report};
use tollgate_meter::{BackendFact, CertificateFact, ProcessFacts, Snapshot};
use tollgate_tls::Resumption;

/// What the parent knows and counts itself.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// Name of the host.
    pub host: Arc<str>,
    /// When the process started, in seconds since 1970.
    pub started_seconds: f64,
    /// Whether CPU time by phase is kept.
    pub ledger: bool,
    /// Reloads that took effect.
    pub reloads_done: u64,
    /// Reloads that were refused.
    pub reloads_refused: u64,
    /// Lines that the access logs of this process could not write.
    pub lines_dropped: u64,
}

impl Tallies {
    /// Nothing counted yet, by a process that started at `started_seconds` since 1970.
    pub fn of(started_seconds: f64) -> Self {
        Self {
            host: rustix::system::uname().nodename().to_string_lossy().into(),
            started_seconds,
            ..Self::default()
        }
    }
}

/// One snapshot of the whole process.
pub async fn snapshot(edge: &Edge, tallies: &Tallies, resumption: &Resumption) -> Snapshot {
    let mut reports = edge.report().await;
    let mut whole = Snapshot::default();
    for report in &reports {
        whole.merge(&report.meter.snapshot());
    }
    reports.sort_by_key(|report| report.worker);
    whole.process = ProcessFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: tallies.host.to_string(),
        started_seconds: tallies.started_seconds,
        cores: tollgate_edge::cores().min(edge.workers()) as f64,
        ledger: tallies.ledger,
        config_hash: edge.live().hash.clone(),
        reloads_succeeded: tallies.reloads_done,
        reloads_failed: tallies.reloads_refused,
        log_lines_dropped: tallies.lines_dropped,
        accept_rests: edge.rests(),
        connections_allowed: edge.connections_allowed() as u64,
        sessions_cached: resumption.sessions() as u64,
        worker_cpu_seconds: reports
            .iter()
            .map(|report| (report.worker, report.cpu.as_secs_f64()))
            .collect(),
        backends: backends(&reports),
        certificates: certificates(edge.live()),
        session_bytes: Some(resumption.session_bytes()),
    };
    whole
}

/// A backend is up when most workers would use it.
fn backends(reports: &[Report]) -> Vec<BackendFact> {
    let Some(first) = reports.first() else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    for (site_number, (site, backends)) in first.backends.iter().enumerate() {
        for (number, (backend, _)) in backends.iter().enumerate() {
            let up = reports
                .iter()
                .filter_map(|report| report.backends.get(site_number)?.1.get(number))
                .filter(|(_, state)| *state == BackendState::Up)
                .count();
            facts.push(BackendFact {
                site: Arc::clone(site),
                backend: Arc::clone(backend),
                up: up * 2 >= reports.len(),
            });
        }
    }
    facts
}

fn certificates(live: &Live) -> Vec<CertificateFact> {
    let of_site = |site: &Arc<tollgate_edge::LiveSite>| {
        let label = Arc::clone(&site.label);
        site.certificates
            .iter()
            .map(|certificate| CertificateFact {
                site: Arc::clone(&label),
                certificate: certificate.kind.name().into(),
                expires: certificate.not_after,
            })
            .collect::<Vec<_>>()
    };
    live.sites.iter().flat_map(of_site).collect()
}
