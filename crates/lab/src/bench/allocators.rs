//! Memory over a burst of connections and after it, under different settings of the allocator.
//!
//! A program has one allocator built in. Settings of jemalloc are for this program; another build, such
//! as one with the system's allocator, can be set beside it by its path.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use tollgate_terms::Bytes;

use super::connection_memory::{self, Clients, Memory, REQUEST, Way, Weighing};
use super::serving::ServingOptions;
use super::{BenchError, text};

/// Variable that the built-in jemalloc reads.
pub const JEMALLOC_VARIABLE: &str = "MALLOC_CONF";
/// Back at its floor: within ten per cent.
const BACK: f64 = 1.1;
/// How often memory is looked at.
const EVERY: Duration = Duration::from_millis(250);
/// Looks in a second.
const LOOKS_PER_SECOND: usize = 4;
/// Connections that warm the server up before the floor is taken.
const WARM_UP: usize = 50;

/// What is compared, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorOptions {
    /// Connections of the burst, 10 to 100 000; as many more handshakes are left half-way. Default 2 000.
    pub connections: usize,
    /// How long memory is watched after the burst, 1 s to 1 h. Default 10 s.
    pub watch: Duration,
    /// Other builds of this program, to be set beside it. Default: none.
    pub programs: Vec<PathBuf>,
}

impl Default for AllocatorOptions {
    fn default() -> Self {
        Self {
            connections: 2_000,
            watch: Duration::from_secs(10),
            programs: Vec::new(),
        }
    }
}

/// The comparison. Its [`Display`](fmt::Display) is the text for people.
#[derive(Clone, Debug, Serialize)]
pub struct Allocators {
    /// Connections of the burst.
    pub connections: usize,
    /// How long memory was watched after it.
    pub watch_seconds: f64,
    /// One for each setting.
    pub rows: Vec<AllocatorRow>,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// What one setting gave.
#[derive(Clone, Debug, Serialize)]
pub struct AllocatorRow {
    /// For people, such as `as shipped`.
    pub setting: String,
    /// Environment of the server, as `NAME=value`.
    pub environment: Vec<String>,
    /// The build, when it is not this one.
    pub program: Option<PathBuf>,
    /// Resident memory before the burst, once warm.
    pub floor_bytes: u64,
    /// Most resident memory while the burst lasted.
    pub burst_bytes: u64,
    /// Resident memory at the end.
    pub end_bytes: u64,
    /// Time after the burst until resident memory was within ten per cent of the floor for good; `None`
    /// when it was not while it was watched.
    pub back_after_seconds: Option<f64>,
    /// Resident memory each second after the burst, the first one right after it.
    pub after_bytes: Vec<u64>,
    /// Time to connect, shake hands and ask once, within the burst.
    pub p50_micros: f64,
    /// The same, 99th percentile.
    pub p99_micros: f64,
}

/// A server to be compared.
struct Setting {
    name: String,
    environment: Vec<(String, String)>,
    program: Option<PathBuf>,
}

/// Gives every setting the same burst, in a server of its own; `progress` is told what comes next and the
/// share that is done (0 to 1). Takes about five seconds and `watch` for each setting.
///
/// # Errors
/// When an option is out of range, a program cannot be started, or a server does not answer.
pub fn run(
    options: &AllocatorOptions,
    progress: &dyn Fn(&str, f64),
) -> Result<Allocators, BenchError> {
    check(options)?;
    connection_memory::make_room(options.connections as u64 * 2)?;
    let settings = settings(options);
    let mut rows = Vec::with_capacity(settings.len());
    for (index, setting) in settings.iter().enumerate() {
        progress(&setting.name, index as f64 / settings.len() as f64);
        rows.push(burst(options, setting)?);
    }
    Ok(Allocators {
        connections: options.connections,
        watch_seconds: options.watch.as_secs_f64(),
        rows,
        notes: vec![
            format!(
                "a burst is {0} handshakes left half-way and {0} connections that are used once, all open at the same time, then all closed",
                options.connections
            ),
            "resident memory counts the program's text too, which no allocator gives back".into(),
            format!(
                "settings of jemalloc reach this program as {JEMALLOC_VARIABLE}; MALLOC_ARENA_MAX reaches builds with the system's allocator only"
            ),
        ],
    })
}

fn check(options: &AllocatorOptions) -> Result<(), BenchError> {
    let refused = |reason: String| {
        Err(BenchError::Broken {
            what: "a burst of that kind".into(),
            reason,
        })
    };
    if !(10..=100_000).contains(&options.connections) {
        return refused(format!(
            "{} connections; 10 to 100000 are possible",
            options.connections
        ));
    }
    if !(Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(&options.watch) {
        return refused(format!(
            "watching for {:?}; 1s to 1h are possible",
            options.watch
        ));
    }
    for program in &options.programs {
        if !program.is_file() {
            return refused(format!(
                "{} is no program; name another build of tollgate",
                program.display()
            ));
        }
    }
    Ok(())
}

fn settings(options: &AllocatorOptions) -> Vec<Setting> {
    let own = |name: &str, value: &str| Setting {
        name: name.into(),
        environment: match value {
            "" => Vec::new(),
            value => vec![(JEMALLOC_VARIABLE.into(), value.into())],
        },
        program: None,
    };
    let mut settings = vec![
        own("jemalloc as shipped", ""),
        own(
            "jemalloc's own defaults",
            "background_thread:false,dirty_decay_ms:10000,muzzy_decay_ms:0",
        ),
        own("given back at once", "dirty_decay_ms:0,muzzy_decay_ms:0"),
        own(
            "never given back",
            "background_thread:false,dirty_decay_ms:-1,muzzy_decay_ms:-1",
        ),
    ];
    for program in &options.programs {
        for arenas in ["", "2", "4"] {
            let name = program.display();
            settings.push(Setting {
                name: match arenas {
                    "" => format!("{name}"),
                    arenas => format!("{name}, MALLOC_ARENA_MAX={arenas}"),
                },
                environment: match arenas {
                    "" => Vec::new(),
                    arenas => vec![("MALLOC_ARENA_MAX".into(), arenas.into())],
                },
                program: Some(program.clone()),
            });
        }
    }
    settings
}

/// One burst, and what is left of it.
fn burst(options: &AllocatorOptions, setting: &Setting) -> Result<AllocatorRow, BenchError> {
    let weighing = Weighing::start_with(
        Way::Http,
        ServingOptions {
            allocator_env: setting.environment.clone(),
            program: setting.program.clone(),
            workers: 2,
            ..ServingOptions::default()
        },
    )?;
    let pid = weighing.serving.pid();
    let mut clients = Clients::new(weighing.serving.address())?;
    for _ in 0..WARM_UP {
        drop(clients.open(REQUEST)?);
    }
    let floor = connection_memory::settled(pid)?.resident;
    let mut most = floor;
    let mut micros = Vec::with_capacity(options.connections);
    let mut halves = Vec::with_capacity(options.connections);
    let mut open = Vec::with_capacity(options.connections);
    for index in 0..options.connections {
        halves.push(clients.open_half()?);
        let began = Instant::now();
        open.push(clients.open(REQUEST)?);
        micros.push(began.elapsed().as_secs_f64() * 1e6);
        if index % 100 == 99 {
            most = most.max(Memory::of(pid)?.resident);
        }
    }
    for client in &mut open {
        clients.ask(client, REQUEST)?;
    }
    most = most.max(Memory::of(pid)?.resident);
    connection_memory::all_open(&open)?;
    drop((halves, open));
    let looks = after(pid, options.watch)?;
    micros.sort_by(f64::total_cmp);
    Ok(AllocatorRow {
        setting: setting.name.clone(),
        environment: setting
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        program: setting.program.clone(),
        floor_bytes: floor,
        burst_bytes: most,
        end_bytes: looks.last().copied().unwrap_or(most),
        back_after_seconds: back_after(&looks, floor),
        after_bytes: looks.iter().copied().step_by(LOOKS_PER_SECOND).collect(),
        p50_micros: percentile(&micros, 0.5),
        p99_micros: percentile(&micros, 0.99),
    })
}

/// Resident memory four times a second.
fn after(pid: u32, watch: Duration) -> Result<Vec<u64>, BenchError> {
    let began = Instant::now();
    let mut looks = Vec::new();
    loop {
        looks.push(Memory::of(pid)?.resident);
        let next = EVERY * looks.len() as u32;
        if next > watch {
            return Ok(looks);
        }
        std::thread::sleep(next.saturating_sub(began.elapsed()));
    }
}

/// When the looks came within ten per cent of `floor` and stayed there, in seconds.
fn back_after(looks: &[u64], floor: u64) -> Option<f64> {
    let bound = floor as f64 * BACK;
    let above = looks.iter().rposition(|bytes| *bytes as f64 > bound);
    let first = above.map_or(0, |last| last + 1);
    (first < looks.len()).then(|| first as f64 * EVERY.as_secs_f64())
}

/// Of sorted samples.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

/// A curve in eight heights, from `low` to `high`.
fn curve(values: &[u64], low: u64, high: u64) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let range = high.saturating_sub(low).max(1) as f64;
    let height = |value: &u64| {
        let share = value.saturating_sub(low) as f64 / range;
        HEIGHTS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(height).collect()
}

impl fmt::Display for Allocators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Resident memory over a burst of {} connections, and for {} s after it",
            self.connections, self.watch_seconds
        )?;
        let mut table = text::plain_table();
        table.set_header(
            [
                "setting",
                "before",
                "burst",
                "after, second by second",
                "end",
                "back at floor",
                "p50",
                "p99",
            ]
            .map(text::right),
        );
        let low = self.rows.iter().map(|row| row.floor_bytes).min();
        let high = self.rows.iter().map(|row| row.burst_bytes).max();
        for row in &self.rows {
            let back = row.back_after_seconds.map_or_else(
                || format!("not in {} s", self.watch_seconds),
                |seconds| format!("{seconds} s"),
            );
            table.add_row(
                [
                    row.setting.clone(),
                    Bytes(row.floor_bytes).to_string(),
                    Bytes(row.burst_bytes).to_string(),
                    curve(&row.after_bytes, low.unwrap_or(0), high.unwrap_or(1)),
                    Bytes(row.end_bytes).to_string(),
                    back,
                    format!("{:.0} µs", row.p50_micros),
                    format!("{:.0} µs", row.p99_micros),
                ]
                .map(text::right),
            );
        }
        writeln!(f, "{}", text::indented(&table))?;
        writeln!(f, "Back at floor: within 10 % of before, for good.")?;
        text::notes(f, &self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_is_when_it_stays_below_and_not_when_it_dips() {
        assert_eq!(back_after(&[200, 105, 200, 109, 108], 100), Some(0.75));
        assert_eq!(back_after(&[100, 100], 100), Some(0.0));
        assert_eq!(back_after(&[200, 105, 111], 100), None);
        assert_eq!(back_after(&[], 100), None);
    }

    #[test]
    fn a_curve_has_its_ends_at_the_bottom_and_the_top() {
        assert_eq!(curve(&[10, 45, 80], 10, 80), "▁▅█");
        assert_eq!(curve(&[5, 5], 5, 5), "▁▁");
        assert_eq!(curve(&[0, 900], 10, 80), "▁█");
    }

    #[test]
    fn percentiles_are_taken_from_the_sorted_samples() {
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        assert!((percentile(&samples, 0.99) - 99.0).abs() < 1e-9);
        assert!(percentile(&[], 0.5).abs() < 1e-9);
    }

    #[test]
    fn every_other_build_is_run_with_three_numbers_of_arenas() {
        let options = AllocatorOptions {
            programs: vec!["/bin/true".into()],
            ..AllocatorOptions::default()
        };
        let settings = settings(&options);
        assert_eq!(settings.len(), 7);
        assert!(settings[0].environment.is_empty() && settings[0].program.is_none());
        assert_eq!(
            settings[6].environment,
            [("MALLOC_ARENA_MAX".into(), "4".into())]
        );
        let missing = AllocatorOptions {
            programs: vec!["/nowhere".into()],
            ..AllocatorOptions::default()
        };
        let told = check(&missing).map_err(|error| error.to_string());
        assert!(told.is_err_and(|text| text.contains("/nowhere")));
    }
}
