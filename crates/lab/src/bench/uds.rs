//! The way to the backend: TCP over loopback, a unix socket with a path, an abstract unix socket.
//!
//! Three servers at the same time, one for each way and otherwise alike, driven in turn, so that what the
//! machine does meanwhile hits all of them.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate_cost::{Measured, Unit};
use tollgate_terms::NamedGroup;

use super::driving::{self, Places};
use super::serving::{BackendAt, Serving, ServingMode, ServingOptions};
use super::{BenchError, text};
use crate::{LoadOptions, LoadResult, Mode};

/// Load before each measured window.
const WARM_UP: Duration = Duration::from_millis(200);
/// Connections that ask for large bodies; more would only wait.
const DOWNLOADS: usize = 4;

/// How to drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdsOptions {
    /// Length of one measured window, 100 ms to 1 h. There are nine in a round. Default 1 s.
    pub duration: Duration,
    /// Rounds, 1 to 1 000; each gives one sample per figure. Default 3.
    pub rounds: usize,
    /// Connections at work at a time, 1 to 10 000. Default 16.
    pub connections: usize,
}

impl Default for UdsOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(1),
            rounds: 3,
            connections: 16,
        }
    }
}

/// The comparison. Its [`Display`](fmt::Display) is the text for people.
#[derive(Clone, Debug, Serialize)]
pub struct Uds {
    /// One for each kind of work and each way, the ways of one work together.
    pub rows: Vec<UdsRow>,
    /// What must be known to read it.
    pub notes: Vec<String>,
    /// What did not go as it should; empty when the figures are what they say.
    pub missed: Vec<String>,
}

/// One kind of work over one way to the backend.
#[derive(Clone, Debug, Serialize)]
pub struct UdsRow {
    /// `request`, `connection` or `download`.
    pub work: &'static str,
    /// `tcp`, `unix` or `abstract`.
    pub backend: &'static str,
    /// Operations in all windows.
    pub operations: u64,
    /// CPU time of the server per request or connection; per GB for `download`, which then is
    /// [`UdsRow::cpu_seconds_per_gigabyte`].
    pub cpu_micros_per_operation: Option<Measured>,
    /// CPU time of the server per 10^9 bytes of bodies.
    pub cpu_seconds_per_gigabyte: Option<Measured>,
    /// Operations per second; bytes per second for `download`.
    pub per_second: Measured,
    /// Median time of an operation; of no meaning for `download`.
    pub p50_micros: Option<Measured>,
    /// 99th percentile of the same.
    pub p99_micros: Option<Measured>,
    /// CPU time over that of TCP, for the same work; `None` for TCP itself.
    pub over_tcp: Option<Measured>,
}

impl Uds {
    /// Whether every window was what it should be.
    pub fn reached(&self) -> bool {
        self.missed.is_empty()
    }
}

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// 1 KB over a connection that stays, http mode: backend connections are pooled.
    Request,
    /// A new connection with a full handshake and 1 KB, tcp mode: a new backend connection for each.
    Connection,
    /// Large bodies, tcp mode.
    Download,
}

impl Work {
    const ALL: [Self; 3] = [Self::Request, Self::Connection, Self::Download];

    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Connection => "connection",
            Self::Download => "download",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Request => "request of 1 KB, http mode, kept open",
            Self::Connection => "new connection, tcp mode, full handshake",
            Self::Download => "download, tcp mode",
        }
    }

    fn load(self, options: &UdsOptions) -> LoadOptions {
        let (mode, connections) = match self {
            Self::Request => (Mode::Requests, options.connections),
            Self::Connection => (Mode::Tps, options.connections),
            Self::Download => (Mode::Download, DOWNLOADS.min(options.connections)),
        };
        let mut load = LoadOptions::new(mode, "");
        load.connections = connections;
        load
    }
}

/// A way to the backend, with a server for each mode.
struct Side {
    name: &'static str,
    http: Serving,
    tcp: Serving,
}

impl Side {
    fn start(name: &'static str, backend: &BackendAt, places: Places) -> Result<Self, BenchError> {
        let start = |mode| {
            Serving::start(&ServingOptions {
                mode,
                backend: backend.clone(),
                pin: Some(places.server),
                backend_pin: Some(places.load),
                ..ServingOptions::default()
            })
        };
        Ok(Self {
            name,
            http: start(ServingMode::Http)?,
            tcp: start(ServingMode::Tcp)?,
        })
    }

    fn serving(&self, work: Work) -> &Serving {
        match work {
            Work::Request => &self.http,
            Work::Connection | Work::Download => &self.tcp,
        }
    }
}

/// What one window gave.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    operations: u64,
    cpu_seconds: f64,
    body_bytes: u64,
    seconds: f64,
    p50_micros: f64,
    p99_micros: f64,
}

/// Drives all ways in turn; `progress` is told what comes next and the share that is done (0 to 1).
///
/// # Errors
/// When an option is out of range, a server does not come up, or a load run cannot begin.
pub fn run(options: &UdsOptions, progress: &dyn Fn(&str, f64)) -> Result<Uds, BenchError> {
    check(options)?;
    let places = Places::here();
    progress("three servers for each mode", 0.0);
    let sides = [
        Side::start("tcp", &BackendAt::Tcp, places)?,
        Side::start("unix", &BackendAt::Unix, places)?,
        Side::start("abstract", &BackendAt::Abstract, places)?,
    ];
    let mut windows = vec![Vec::with_capacity(options.rounds); Work::ALL.len() * sides.len()];
    let mut missed = Vec::new();
    let all = (windows.len() * options.rounds) as f64;
    for round in 0..options.rounds {
        for (row, windows) in windows.iter_mut().enumerate() {
            let (work, side) = (Work::ALL[row / sides.len()], &sides[row % sides.len()]);
            let done = (round * Work::ALL.len() * sides.len() + row) as f64 / all;
            progress(
                &format!("{}, backend over {}", work.label(), side.name),
                done,
            );
            let result = drive(options, work, side, places)?;
            for (reason, count) in &result.failures {
                missed.push(format!(
                    "{}, {}: {count} x {reason}",
                    work.name(),
                    side.name
                ));
            }
            windows.push(window(&result));
        }
    }
    Ok(Uds {
        rows: rows(&windows, &sides.each_ref().map(|side| side.name))?,
        notes: notes(places),
        missed,
    })
}

fn check(options: &UdsOptions) -> Result<(), BenchError> {
    let refused = |reason: String| {
        Err(BenchError::Broken {
            what: "a comparison of that kind".into(),
            reason,
        })
    };
    let durations = Duration::from_millis(100)..=Duration::from_secs(3_600);
    if !durations.contains(&options.duration) {
        return refused(format!(
            "windows of {:?}; 100ms to 1h are possible",
            options.duration
        ));
    }
    if !(1..=1_000).contains(&options.rounds) {
        return refused(format!("{} rounds; 1 to 1000 are possible", options.rounds));
    }
    if !(1..=10_000).contains(&options.connections) {
        return refused(format!(
            "{} connections; 1 to 10000 are possible",
            options.connections
        ));
    }
    Ok(())
}

fn drive(
    options: &UdsOptions,
    work: Work,
    side: &Side,
    places: Places,
) -> Result<LoadResult, BenchError> {
    let serving = side.serving(work);
    let mut load = work.load(options);
    load.target = serving.address().to_string();
    load.server_name = Some("localhost".into());
    load.insecure = true;
    load.watch = vec![serving.pid()];
    load.pin = Some(places.load);
    load.duration = options.duration;
    load.warm_up = WARM_UP;
    // The group with the cheapest key share: the client shall not be what is measured.
    load.group = Some(NamedGroup::X25519);
    driving::load(load)
}

fn window(result: &LoadResult) -> Window {
    let spread = result.operation_micros.as_ref();
    Window {
        operations: result.operations,
        cpu_seconds: result
            .server
            .as_ref()
            .map_or(0.0, |server| server.user_seconds + server.system_seconds),
        body_bytes: result.body_bytes,
        seconds: result.seconds,
        p50_micros: spread.map_or(0.0, |spread| spread.p50 as f64),
        p99_micros: spread.map_or(0.0, |spread| spread.p99 as f64),
    }
}

/// The rows of all works, each compared with its own over TCP, which comes first.
fn rows(windows: &[Vec<Window>], backends: &[&'static str]) -> Result<Vec<UdsRow>, BenchError> {
    let mut rows: Vec<UdsRow> = Vec::with_capacity(windows.len());
    for (index, windows) in windows.iter().enumerate() {
        let work = Work::ALL[index / backends.len()];
        let mut row = row(work, backends[index % backends.len()], windows)?;
        let tcp = rows.iter().find(|other| other.work == row.work);
        row.over_tcp = match (cpu(&row), tcp.and_then(cpu)) {
            (Some(own), Some(tcp)) if tcp.low > 0.0 => Some(own.over(&tcp)),
            _ => None,
        };
        rows.push(row);
    }
    Ok(rows)
}

fn cpu(row: &UdsRow) -> Option<Measured> {
    row.cpu_micros_per_operation
        .or(row.cpu_seconds_per_gigabyte)
}

fn row(work: Work, backend: &'static str, windows: &[Window]) -> Result<UdsRow, BenchError> {
    let of = |value: fn(&Window) -> f64| {
        let samples: Vec<f64> = windows.iter().map(value).collect();
        Measured::of(&samples).ok_or_else(|| BenchError::Broken {
            what: format!("{}, backend over {backend}", work.label()),
            reason: "a window passed without an operation".into(),
        })
    };
    let mut row = UdsRow {
        work: work.name(),
        backend,
        operations: windows.iter().map(|window| window.operations).sum(),
        cpu_micros_per_operation: None,
        cpu_seconds_per_gigabyte: None,
        per_second: of(|window| window.operations as f64 / window.seconds)?,
        p50_micros: None,
        p99_micros: None,
        over_tcp: None,
    };
    match work {
        Work::Request | Work::Connection => {
            row.cpu_micros_per_operation = Some(of(|window| {
                1e6 * window.cpu_seconds / window.operations as f64
            })?);
            row.p50_micros = Some(of(|window| window.p50_micros)?);
            row.p99_micros = Some(of(|window| window.p99_micros)?);
        }
        Work::Download => {
            row.cpu_seconds_per_gigabyte = Some(of(|window| {
                1e9 * window.cpu_seconds / window.body_bytes as f64
            })?);
            row.per_second = of(|window| window.body_bytes as f64 / window.seconds)?;
        }
    }
    Ok(row)
}

fn notes(places: Places) -> Vec<String> {
    let mut notes = vec![
        "CPU time is that of tollgate alone, user and system; its backend is in a process of its own".into(),
    ];
    notes.extend(places.note());
    notes
}

impl fmt::Display for Uds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "The way to the backend: TCP over loopback and unix sockets"
        )?;
        for work in Work::ALL {
            let rows: Vec<&UdsRow> = self
                .rows
                .iter()
                .filter(|row| row.work == work.name())
                .collect();
            writeln!(f, "\n{}", work.label())?;
            let mut table = text::plain_table();
            let (cost, rate) = match work {
                Work::Download => ("CPU per GB", "bytes/s"),
                Work::Request | Work::Connection => ("CPU each", "per second"),
            };
            let mut header = vec!["backend over", cost, "±", "over TCP", rate];
            if work != Work::Download {
                header.extend(["p50", "p99"]);
            }
            table.set_header(header.into_iter().map(text::right));
            for row in rows {
                table.add_row(cells(row).into_iter().map(text::right));
            }
            write!(f, "{}", text::indented(&table))?;
        }
        writeln!(f)?;
        text::notes(f, &self.notes)?;
        for missed in &self.missed {
            writeln!(f, "  missed: {missed}")?;
        }
        Ok(())
    }
}

/// One round says nothing about how far the next one would be off.
fn spread(measured: &Measured) -> String {
    match measured.n {
        1 => "one round".into(),
        _ => text::spread(measured),
    }
}

fn cells(row: &UdsRow) -> Vec<String> {
    let micros = |measured: &Measured| text::value(&measured.scaled(1e3), Unit::Nanoseconds);
    let (cost, spread) = match (&row.cpu_micros_per_operation, &row.cpu_seconds_per_gigabyte) {
        (Some(each), _) => (micros(each), spread(each)),
        (None, Some(all)) => (
            text::value(&all.scaled(1e9), Unit::Nanoseconds),
            spread(all),
        ),
        (None, None) => (String::new(), String::new()),
    };
    let mut cells = vec![
        row.backend.to_owned(),
        cost,
        spread,
        row.over_tcp
            .as_ref()
            .map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
        text::value(&row.per_second, Unit::PerSecond),
    ];
    if let (Some(p50), Some(p99)) = (&row.p50_micros, &row.p99_micros) {
        cells.extend([micros(p50), micros(p99)]);
    }
    cells
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn window(cpu_seconds: f64) -> Window {
        Window {
            operations: 1_000,
            cpu_seconds,
            body_bytes: 2_000_000_000,
            seconds: 2.0,
            p50_micros: 40.0,
            p99_micros: 90.0,
        }
    }

    #[test]
    fn every_way_is_compared_with_tcp_for_the_same_work() {
        let windows: Vec<Vec<Window>> = [0.02, 0.01, 0.01, 0.4, 0.2, 0.1, 1.6, 1.0, 0.8]
            .map(|cpu| vec![window(cpu); 3])
            .into();
        let rows = rows(&windows, &["tcp", "unix", "abstract"]).unwrap();
        let ratio = |index: usize| rows[index].over_tcp.unwrap().median;
        assert!(rows[0].over_tcp.is_none() && (ratio(1) - 0.5).abs() < 1e-9);
        assert!((ratio(5) - 0.25).abs() < 1e-9 && (ratio(8) - 0.5).abs() < 1e-9);
        assert!((rows[0].cpu_micros_per_operation.unwrap().median - 20.0).abs() < 1e-9);
        assert!((rows[6].cpu_seconds_per_gigabyte.unwrap().median - 0.8).abs() < 1e-9);
        let text = Uds {
            rows,
            notes: Vec::new(),
            missed: Vec::new(),
        }
        .to_string();
        assert!(
            text.contains("abstract") && text.contains("CPU per GB"),
            "{text}"
        );
    }

    #[test]
    fn a_window_without_an_operation_is_no_figure() {
        let empty = vec![Window::default(); 2];
        assert!(row(Work::Request, "tcp", &empty).is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let rounds = UdsOptions {
            rounds: 0,
            ..UdsOptions::default()
        };
        assert!(
            check(&rounds)
                .unwrap_err()
                .to_string()
                .contains("1 to 1000")
        );
        let short = UdsOptions {
            duration: Duration::ZERO,
            ..UdsOptions::default()
        };
        assert!(check(&short).unwrap_err().to_string().contains("100ms"));
    }
}
