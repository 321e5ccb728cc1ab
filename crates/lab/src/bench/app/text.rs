//! The experiment as text for people.

use std::fmt;

use tollgate_cost::Measured;

use super::{AppResult, Worth};
use crate::bench::figures::{digits, micros, percent, table};

/// A length as people write it: `1 B`, `10 KB`, `1 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// `1.42 ± 0.05`: a ratio with half the width of its spread.
fn ratio(measured: &Measured) -> String {
    format!(
        "{} ± {:.2}",
        digits(measured.median),
        (measured.high - measured.low) / 2.0
    )
}

impl fmt::Display for AppResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} beside {}", self.plain, self.tls)?;
        writeln!(
            f,
            "{}, {} at a time, {} interleaved repetitions",
            match self.fresh {
                true => "a new connection and a full handshake for each request",
                false => "requests on connections that are kept",
            },
            self.connections,
            self.repetitions
        )?;
        let mut rows = table(&[
            "way",
            "payload",
            "latency",
            "spread",
            "deviation",
            "of plaintext",
            "of own TLS",
            "requests",
        ]);
        for way in &self.ways {
            for (index, cell) in way.cells.iter().enumerate() {
                let latency = &cell.latency_micros;
                rows.add_row(vec![
                    if index == 0 { way.name } else { "" }.to_owned(),
                    bytes(cell.payload_bytes),
                    micros(latency.median),
                    format!("{} to {}", micros(latency.low), micros(latency.high)),
                    micros(cell.deviation_micros),
                    ratio(&cell.over_plain),
                    ratio(&cell.over_own_tls),
                    cell.requests.to_string(),
                ]);
            }
        }
        writeln!(f, "{rows}")?;
        writeln!(
            f,
            "Latency: median of the repetitions' medians; deviation: of single requests. Ratios are taken in each repetition.\n"
        )?;
        for way in &self.ways {
            if let Some(worth) = way.worth {
                writeln!(
                    f,
                    "  {:<22} {} of own TLS over all payloads: {}",
                    way.name,
                    percent(way.over_own_tls.median),
                    worth.words()
                )?;
            }
        }
        writeln!(
            f,
            "\nVerdict: {}. {}.",
            self.verdict.worth.words(),
            sentence(&self.verdict.why)
        )?;
        if self.verdict.worth != Worth::CannotTell {
            writeln!(
                f,
                "Published for a Java server behind a TLS terminator: better at every payload, twice as fast at the largest."
            )?;
        }
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        Ok(())
    }
}

/// With a capital at the beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_largest_unit_that_fits() {
        for (length, text) in [
            (1, "1 B"),
            (1 << 10, "1 KB"),
            (10 << 10, "10 KB"),
            (1500, "1500 B"),
            (1 << 20, "1 MB"),
        ] {
            assert_eq!(bytes(length), text);
        }
    }

    #[test]
    fn a_verdict_is_a_sentence() {
        assert_eq!(sentence("over all"), "Over all");
        assert_eq!(sentence(""), "");
    }
}
