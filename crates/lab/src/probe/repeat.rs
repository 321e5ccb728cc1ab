//! Many connections in a few numbers: full and resumed apart.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::report::{Connection, EarlyDataOutcome};

/// Connections whose times are kept; 24 bytes each.
const MOST_KEPT: usize = 1_000_000;

/// A time over many connections, by the nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// Nine of ten.
    pub p90_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Percentiles {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self {
            p50_ms: rank(0.5),
            p90_ms: rank(0.9),
            p99_ms: rank(0.99),
            max_ms: times.last().copied().unwrap_or(0.0),
        }
    }
}

/// Connections of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// How many there were.
    pub count: usize,
    /// Until TCP was connected.
    pub connect: Percentiles,
    /// The handshake.
    pub handshake: Percentiles,
    /// All of it.
    pub total: Percentiles,
}

/// All connections of a probe that was repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Connections that were made.
    pub connections: usize,
    /// Those with a full handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<Times>,
    /// Those that resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Times>,
    /// Connections that should have resumed and did not.
    pub missed_resumptions: usize,
    /// Those whose early data was accepted.
    pub early_data_accepted: usize,
    /// Those whose early data was not.
    pub early_data_not_accepted: usize,
    /// Connections that failed, by reason.
    pub failed: BTreeMap<String, usize>,
}

/// Gathers connections for a [`Summary`].
#[derive(Debug, Default)]
pub struct Gathered {
    full: Vec<[f64; 3]>,
    resumed: Vec<[f64; 3]>,
    connections: usize,
    missed: usize,
    accepted: usize,
    not_accepted: usize,
    failed: BTreeMap<String, usize>,
}

impl Gathered {
    /// Adds a connection that was made.
    pub fn add(&mut self, connection: &Connection) {
        let kind = match connection.kind.is_resumed() {
            true => &mut self.resumed,
            false => &mut self.full,
        };
        if kind.len() < MOST_KEPT {
            kind.push([
                connection.connect_time_ms,
                connection.handshake_time_ms,
                connection.total_time_ms,
            ]);
        }
        self.connections += 1;
        self.missed += usize::from(connection.resumption_miss.is_some());
        self.accepted += usize::from(connection.early_data == EarlyDataOutcome::Accepted);
        self.not_accepted += usize::from(connection.early_data == EarlyDataOutcome::NotAccepted);
    }

    /// Adds one that failed.
    pub fn add_failure(&mut self, reason: String) {
        // A server has few ways to fail; what is beyond is counted with the last.
        if self.failed.len() < 100 || self.failed.contains_key(&reason) {
            *self.failed.entry(reason).or_default() += 1;
        }
    }

    /// What it comes to.
    pub fn summary(&self) -> Summary {
        Summary {
            connections: self.connections,
            full: times(&self.full),
            resumed: times(&self.resumed),
            missed_resumptions: self.missed,
            early_data_accepted: self.accepted,
            early_data_not_accepted: self.not_accepted,
            failed: self.failed.clone(),
        }
    }
}

fn times(kept: &[[f64; 3]]) -> Option<Times> {
    let of = |which: usize| Percentiles::of(kept.iter().map(|times| times[which]).collect());
    (!kept.is_empty()).then(|| Times {
        count: kept.len(),
        connect: of(0),
        handshake: of(1),
        total: of(2),
    })
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = match self.connections {
            1 => "1 connection".into(),
            count => format!("{count} connections"),
        };
        writeln!(f, "{connections}, times in ms")?;
        writeln!(
            f,
            "  {:<22} {:>9} {:>9} {:>9} {:>9}",
            "", "p50", "p90", "p99", "max"
        )?;
        for (name, times) in [("full", self.full), ("resumed", self.resumed)] {
            let Some(times) = times else { continue };
            writeln!(f, "  {name}, {}", times.count)?;
            for (name, time) in [
                ("connect", times.connect),
                ("handshake", times.handshake),
                ("total", times.total),
            ] {
                writeln!(
                    f,
                    "    {name:<20} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
                    time.p50_ms, time.p90_ms, time.p99_ms, time.max_ms
                )?;
            }
        }
        if self.missed_resumptions > 0 {
            writeln!(
                f,
                "  {} should have resumed and did not",
                self.missed_resumptions
            )?;
        }
        if self.early_data_accepted + self.early_data_not_accepted > 0 {
            writeln!(
                f,
                "  early data accepted {} times, not accepted {} times",
                self.early_data_accepted, self.early_data_not_accepted
            )?;
        }
        for (reason, count) in &self.failed {
            writeln!(f, "  {count} failed: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let of = Percentiles::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (of.p50_ms, of.p90_ms, of.p99_ms, of.max_ms),
            (50.0, 90.0, 99.0, 100.0)
        );
        let one = Percentiles::of(vec![7.0]);
        assert_eq!((one.p50_ms, one.p99_ms), (7.0, 7.0));
    }

    #[test]
    fn a_summary_without_connections_says_so() {
        let mut gathered = Gathered::default();
        gathered.add_failure("connect: refused".into());
        gathered.add_failure("connect: refused".into());
        let text = gathered.summary().to_string();
        assert!(
            text.starts_with("0 connections") && text.contains("2 failed"),
            "{text}"
        );
    }
}
