//! What this process knows of itself: taken once a second, shown by the console from this one place.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_console::view::{Live, Past};
use tollgate_console::{Answer, Observed};
use tollgate_cost::Sheet;
use tollgate_meter::alarms::{AlarmSettings, Alarms, Change, Seen, SeenCertificate, SeenDearer};
use tollgate_meter::{History, Snapshot};

/// Seconds over which alarms judge.
const JUDGED: f64 = 60.0;

/// The present and the past of the process.
#[derive(Debug)]
pub struct Observer {
    history: History,
    alarms: Alarms,
    sheet: Option<Sheet>,
    last: Option<(f64, Snapshot)>,
}

impl Observer {
    /// Nothing seen yet. `sheet` has the costs that this process has not measured itself.
    pub fn new(settings: AlarmSettings, sheet: Option<Sheet>) -> Self {
        Self {
            history: History::new(),
            alarms: Alarms::new(settings),
            sheet,
            last: None,
        }
    }

    /// Takes in what the workers have counted up to `now`, and judges it. Returns the alarms that began to
    /// fire or went quiet.
    pub fn take(&mut self, now: f64, snapshot: Snapshot, dearer: Vec<SeenDearer>) -> Vec<Change> {
        self.history.take(now, &snapshot);
        let seen = self.seen(now, &snapshot, dearer);
        let changes = self.alarms.judge(now, &seen);
        for change in &changes {
            self.history
                .alarm(now, change.name, change.sentence.clone());
        }
        self.last = Some((now, snapshot));
        changes
    }

    /// Takes over other thresholds.
    pub fn reconfigure(&mut self, settings: AlarmSettings) {
        self.alarms.reconfigure(settings);
    }

    /// Everything at this moment; `None` before the first second.
    pub fn live(&self) -> Option<Live> {
        let (now, snapshot) = self.last.as_ref()?;
        Some(tollgate_console::live(&self.observed(*now, snapshot)))
    }

    /// The last `seconds` as columns of at most `points`.
    pub fn past(&self, seconds: f64, points: usize) -> Option<Past> {
        let (now, snapshot) = self.last.as_ref()?;
        let observed = self.observed(*now, snapshot);
        Some(tollgate_console::past(&observed, seconds, points))
    }

    /// `/metrics` or `/snapshot.json` of `snapshot`, which is newer than what was taken last.
    pub fn counts(&self, path: &str, accept: &str, snapshot: &Snapshot) -> Answer {
        tollgate_console::routes(path, accept, &self.observed(now_seconds(), snapshot))
    }

    fn observed<'a>(&'a self, now: f64, snapshot: &'a Snapshot) -> Observed<'a> {
        Observed {
            snapshot,
            history: &self.history,
            alarms: self.alarms.states(),
            sheet: self.sheet.as_ref(),
            now,
        }
    }

    /// What alarms are judged by.
    fn seen(&self, now: f64, snapshot: &Snapshot, dearer: Vec<SeenDearer>) -> Seen {
        let observed = self.observed(now, snapshot);
        let price = tollgate_console::price(&observed);
        let minute = self.history.over(JUDGED);
        let totals = &minute.totals;
        let of_certificate = |certificate: &tollgate_meter::CertificateFact| SeenCertificate {
            subject: format!("{} {}", certificate.site, certificate.certificate),
            expires: certificate.expires.0 as f64,
        };
        Seen {
            seconds: minute.seconds,
            full: totals.full(),
            resumed: totals.resumed(),
            unknown_keys: totals.missed("unknown_key"),
            requests_per_handshake: totals.requests_per_handshake(),
            tls_cores: snapshot
                .process
                .ledger
                .then(|| minute.cores(totals.cpu.tls_nanos())),
            cores_at_zero: price.cores_at_zero,
            cores_there_are: observed.cores(),
            accepted_by_worker: minute
                .workers
                .iter()
                .map(|worker| worker.accepted)
                .collect(),
            certificates: snapshot
                .process
                .certificates
                .iter()
                .map(of_certificate)
                .collect(),
            dearer,
        }
    }
}

/// Seconds since 1970, with their fraction.
pub fn now_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
