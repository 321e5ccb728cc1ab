//! A flame graph of the regimes in memory: which functions the time is spent in.
//!
//! Samples by SIGPROF, a thousand times per second of CPU time, in this process alone; no permission is
//! needed and nothing outside is looked at.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::BenchError;
use super::in_process::pair;
use super::regimes::{BULK_BYTES, Regime, RegimeOptions};

/// Samples per second of CPU time; a prime, so that nothing regular hides between them.
const PER_SECOND: i32 = 997;
/// Functions named in the summary.
const HOTTEST: usize = 5;

/// What the flame graph shows.
#[derive(Clone, Debug, Serialize)]
pub struct Flame {
    /// Where it was written.
    pub file: PathBuf,
    /// Samples in it.
    pub samples: u64,
    /// Functions that most samples ended in, with their share, 0 to 1.
    pub hottest: Vec<Hot>,
}

/// A function that time is spent in.
#[derive(Clone, Debug, Serialize)]
pub struct Hot {
    /// Its name.
    pub function: String,
    /// Of all samples, 0 to 1.
    pub share: f64,
}

/// Runs every regime in memory while it is sampled, and writes the graph as SVG.
pub(crate) fn write(file: &Path, options: &RegimeOptions) -> Result<Flame, BenchError> {
    // Opened first: a path that cannot be written shall not cost a measurement.
    let mut svg = std::fs::File::create(file).map_err(|source| BenchError::System {
        what: format!("the flame graph {}", file.display()),
        source,
        hint: "its folder must exist and be writable".into(),
    })?;
    let mut pairs = Vec::new();
    for regime in Regime::ALL {
        pairs.push((regime, pair(regime, options.certificate)?));
    }
    let profiler = pprof::ProfilerGuardBuilder::default()
        .frequency(PER_SECOND)
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()
        .map_err(refused)?;
    for (regime, pair) in &mut pairs {
        let begun = Instant::now();
        let mut established = pair.established()?;
        while begun.elapsed() < options.duration {
            match regime {
                Regime::Full => drop(pair.handshake(false)?),
                Regime::Resumed => drop(pair.handshake(true)?),
                Regime::BulkAes | Regime::BulkChaCha => {
                    established.download(BULK_BYTES as usize)?;
                }
            }
        }
    }
    let mut report = profiler.report().build().map_err(refused)?;
    drop(profiler);
    report.data = report
        .data
        .into_iter()
        .map(|(frames, count)| (without_semicolons(frames), count))
        .collect();
    report.flamegraph(&mut svg).map_err(refused)?;
    let ends = report.data.iter().filter_map(|(frames, count)| {
        let first = frames.frames.first()?.first()?;
        Some((first.name(), u64::try_from(*count).unwrap_or_default()))
    });
    Ok(summary(file, ends))
}

/// In a folded stack a semicolon stands between frames, so a name such as `seal<[u8; 5]>` must have none.
fn without_semicolons(mut frames: pprof::Frames) -> pprof::Frames {
    for symbol in frames.frames.iter_mut().flatten() {
        let name = symbol.name();
        if name.contains(';') {
            symbol.name = Some(name.replace(';', ",").into_bytes());
        }
    }
    frames
}

fn summary(file: &Path, ends: impl Iterator<Item = (String, u64)>) -> Flame {
    let mut by_function = std::collections::BTreeMap::<String, u64>::new();
    let mut samples = 0;
    for (function, count) in ends {
        samples += count;
        *by_function.entry(function).or_default() += count;
    }
    let mut hottest: Vec<_> = by_function.into_iter().collect();
    hottest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Flame {
        file: file.to_owned(),
        samples,
        hottest: hottest
            .into_iter()
            .take(HOTTEST)
            .map(|(function, count)| Hot {
                function,
                share: count as f64 / samples.max(1) as f64,
            })
            .collect(),
    }
}

fn refused(error: pprof::Error) -> BenchError {
    BenchError::Broken {
        what: "sampling this process".into(),
        reason: error.to_string(),
    }
}

impl fmt::Display for Flame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Flame graph: {}, {} samples; open it in a browser. Most samples ended in",
            self.file.display(),
            self.samples
        )?;
        for hot in &self.hottest {
            writeln!(f, "  {:>5.1} %  {}", 100.0 * hot.share, hot.function)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_functions_that_most_samples_ended_in() {
        let ends = [("a", 1), ("b", 5), ("a", 3), ("c", 1)]
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count));
        let flame = summary(Path::new("x.svg"), ends);
        assert_eq!(flame.samples, 10);
        let names: Vec<_> = flame
            .hottest
            .iter()
            .map(|hot| hot.function.as_str())
            .collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert!((flame.hottest[0].share - 0.5).abs() < 1e-9);
    }
}
