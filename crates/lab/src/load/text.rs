//! The text for people.

use std::fmt::{self, Write as _};

use tollgate_terms::Bytes;

use super::result::{
    Additive, Bar, Ending, HandshakeCount, LoadResult, Moment, PartResult, ServerCost,
    ServerHandshakes, Spread,
};

/// Width of the longest bar of a chart, in characters.
const BAR_WIDTH: usize = 40;

/// How text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Letters alone, for files and pipes.
    Plain,
    /// With the colours of a terminal.
    Coloured,
}

#[derive(Clone, Copy)]
enum Ink {
    Strong,
    Faint,
    Good,
    Bad,
    Chart,
}

impl Look {
    fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Bad => "1;31",
            Ink::Chart => "36",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(Ink::Strong, text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.paint(Ink::Faint, text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint(Ink::Good, text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(Ink::Bad, text)
    }

    pub(crate) fn chart(self, text: &str) -> String {
        self.paint(Ink::Chart, text)
    }
}

impl Moment {
    /// The line over the rows of a table over time.
    pub fn header(look: Look) -> String {
        look.paint(
            Ink::Faint,
            "    time         rate        p50        p99   failed   resumed   bodies   server CPU",
        )
    }

    /// One row of the table over time.
    pub fn row(&self, look: Look) -> String {
        let micros = |micros: Option<u64>| micros.map_or("-".into(), time);
        let failures = format!("{:>8}", grouped(self.failures));
        format!(
            "{:>7.1}s {:>11}/s {:>9} {:>10} {} {:>9} {:>8} {:>12}",
            self.at_seconds,
            rate(self.per_second),
            micros(self.p50_micros),
            micros(self.p99_micros),
            match self.failures {
                0 => failures,
                _ => look.paint(Ink::Bad, &failures),
            },
            self.hit_rate
                .map_or("-".into(), |rate| format!("{:.1} %", 100.0 * rate)),
            match self.body_bytes {
                0 => "-".into(),
                bytes => Bytes(bytes).to_string(),
            },
            self.server_cores
                .map_or("-".into(), |cores| format!("{:.0} %", 100.0 * cores)),
        )
    }
}

/// The text without colours.
impl fmt::Display for LoadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Look::Plain))
    }
}

impl LoadResult {
    /// The whole result for people.
    pub fn text(&self, look: Look) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, look);
        text
    }

    fn write(&self, f: &mut String, look: Look) -> fmt::Result {
        writeln!(
            f,
            "{} {}  {}",
            look.paint(Ink::Strong, self.mode),
            look.paint(Ink::Strong, &self.target),
            look.paint(
                Ink::Faint,
                &match self.ended_by {
                    Ending::Time => format!("{:.2} s", self.seconds),
                    Ending::Operations =>
                        format!("{:.2} s, until all operations were done", self.seconds),
                    Ending::Interrupt => format!(
                        "{:.2} s, cut short: everything below was measured until then",
                        self.seconds
                    ),
                }
            )
        )?;
        line(
            f,
            look,
            "operations",
            &format!("{}, {}/s", grouped(self.operations), rate(self.per_second)),
        )?;
        self.write_bytes(f, look)?;
        self.write_handshakes(f, look)?;
        self.write_times(f, look)?;
        for part in &self.parts {
            line(f, look, part.mode, &part.to_string())?;
        }
        if let Some(server) = &self.server {
            self.write_server(f, look, server)?;
        }
        if let Some(additive) = &self.additive {
            line(f, look, "sum of parts", &additive.to_string())?;
        }
        self.write_client(f, look)?;
        for (reason, count) in &self.failures {
            let failed = format!("{} x {reason}", grouped(*count));
            line(f, look, "failed", &look.paint(Ink::Bad, &failed))?;
        }
        for missed in &self.missed {
            line(f, look, "missed", &look.paint(Ink::Bad, missed))?;
        }
        Ok(())
    }

    fn write_bytes(&self, f: &mut String, look: Look) -> fmt::Result {
        for (bytes, what) in [(self.body_bytes, "received"), (self.sent_bytes, "sent")] {
            if bytes > 0 {
                let per_second = bytes as f64 / self.seconds.max(1e-9);
                let text = format!(
                    "{} of bodies, {}/s = {:.2} Gb/s",
                    Bytes(bytes),
                    Bytes(per_second as u64),
                    per_second * 8.0 / 1e9
                );
                line(f, look, what, &text)?;
            }
        }
        Ok(())
    }

    fn write_handshakes(&self, f: &mut String, look: Look) -> fmt::Result {
        let (full, resumed) = (self.handshakes.full, self.handshakes.resumed);
        let share = self
            .hit_rate
            .map_or(String::new(), |rate| format!(", hit rate {rate:.3}"));
        let text = format!(
            "{} full, {} resumed{share}",
            grouped(full),
            grouped(resumed)
        );
        line(f, look, "handshakes", &text)?;
        if let Some(server) = &self.server_handshakes {
            let ink = if server.agrees() { Ink::Good } else { Ink::Bad };
            line(
                f,
                look,
                "server counts",
                &look.paint(ink, &server.to_string()),
            )?;
        }
        if let Some(early) = self.early_data {
            let text = format!(
                "{} requests sent early, {} accepted, {} rejected",
                grouped(early.sent),
                grouped(early.accepted),
                grouped(early.rejected)
            );
            line(f, look, "early data", &text)?;
        }
        for kind in &self.handshakes.kinds {
            writeln!(f, "    {kind}")?;
        }
        Ok(())
    }

    fn write_times(&self, f: &mut String, look: Look) -> fmt::Result {
        let spreads = [
            ("operation", self.operation_micros),
            ("handshake", self.handshake_micros),
        ];
        if spreads.iter().all(|(_, spread)| spread.is_none()) {
            return Ok(());
        }
        let names = ["p50", "p90", "p99", "p99.9", "max"];
        let header: String = names.iter().map(|name| format!("{name:>11}")).collect();
        line(f, look, "", &look.paint(Ink::Faint, &header))?;
        for (what, spread) in spreads {
            if let Some(spread) = spread {
                line(f, look, what, &spread.to_string())?;
            }
        }
        let (late, not_started) = (self.late_starts, self.not_started);
        if late + not_started > 0 {
            let text = format!(
                "{} operations began over 1 ms after they were due, {} not at all; times count from when they were due",
                grouped(late),
                grouped(not_started)
            );
            line(f, look, "late", &text)?;
        }
        chart(f, look, &self.operation_histogram)
    }

    fn write_server(&self, f: &mut String, look: Look, server: &ServerCost) -> fmt::Result {
        let cpu = server.user_seconds + server.system_seconds;
        let text = format!(
            "{:.2} s = {:.0} % of a core; {:.1} µs per operation = {:.1} user + {:.1} system",
            cpu,
            100.0 * cpu / self.seconds.max(1e-9),
            server.user_micros_per_operation + server.system_micros_per_operation,
            server.user_micros_per_operation,
            server.system_micros_per_operation,
        );
        line(f, look, "server CPU", &text)?;
        let bodies = self.body_bytes + self.sent_bytes;
        if bodies >= 1_000_000_000 {
            let text = format!("{:.3} s per GB", cpu * 1e9 / bodies as f64);
            line(f, look, "", &text)?;
        }
        let mut text = format!(
            "{} before, {} after (PSS)",
            Bytes(server.memory_bytes_before),
            Bytes(server.memory_bytes_after)
        );
        if let Some(bytes) = server.memory_bytes_per_connection {
            write!(text, ", {:.2} KB per connection", bytes / 1024.0)?;
        }
        line(f, look, "server memory", &text)
    }

    fn write_client(&self, f: &mut String, look: Look) -> fmt::Result {
        let text = format!(
            "{:.1} µs per operation, {:.0} % of a core in {} thread{}",
            self.client_micros_per_operation,
            100.0 * self.client_cpu_seconds / self.seconds.max(1e-9),
            self.client_threads,
            if self.client_threads == 1 { "" } else { "s" },
        );
        line(f, look, "load's own CPU", &text)?;
        if self.limited_by_client {
            let text = "the load generator was busy all the time: the server may do more than this; \
                        give --threads, or another core";
            line(f, look, "limit", &look.paint(Ink::Bad, text))?;
        }
        Ok(())
    }
}

fn line(f: &mut String, look: Look, label: &str, text: &str) -> fmt::Result {
    writeln!(
        f,
        "  {} {text}",
        look.paint(Ink::Faint, &format!("{label:<15}"))
    )
}

/// A bar for each time, as long as its share of the highest.
fn chart(f: &mut String, look: Look, bars: &[Bar]) -> fmt::Result {
    let highest = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    let total: u64 = bars.iter().map(|bar| bar.count).sum();
    if highest == 0 {
        return Ok(());
    }
    writeln!(f)?;
    for one in bars {
        let drawn = bar(one.count as f64 / highest as f64);
        writeln!(
            f,
            "  {:>9} {} {} {} {}",
            time(one.from_micros),
            look.paint(Ink::Faint, "│"),
            look.paint(Ink::Chart, &format!("{drawn:<BAR_WIDTH$}")),
            format_args!("{:>10}", grouped(one.count)),
            look.paint(
                Ink::Faint,
                &format!("{:>6.2} %", 100.0 * one.count as f64 / total as f64)
            ),
        )?;
    }
    writeln!(f)
}

/// Blocks, down to an eighth of one.
fn bar(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * (8 * BAR_WIDTH) as f64).round() as usize;
    let eighths = match share > 0.0 {
        true => eighths.max(1),
        false => 0,
    };
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// A time with three digits and a unit.
fn time(micros: u64) -> String {
    let short = |value: f64, unit: &str| match value {
        ..10.0 => format!("{value:.2} {unit}"),
        ..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    };
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => short(micros as f64 / 1e3, "ms"),
        _ => short(micros as f64 / 1e6, "s"),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        ..100.0 => format!("{per_second:.1}"),
        _ => grouped(per_second.round() as u64),
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

impl fmt::Display for HandshakeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>12} x {} {} {}",
            grouped(self.count),
            self.kind,
            self.version,
            self.suite
        )?;
        if let Some(group) = &self.group {
            write!(f, " {group}")?;
        }
        if let Some(certificate) = self.certificate {
            write!(f, " {certificate}")?;
        }
        if let Some(signature) = &self.signature {
            write!(f, " {signature}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for micros in [self.p50, self.p90, self.p99, self.p999, self.max] {
            write!(f, "{:>11}", time(micros))?;
        }
        Ok(())
    }
}

impl fmt::Display for ServerHandshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} full, {} resumed",
            grouped(self.full),
            grouped(self.resumed)
        )?;
        if let Some(rate) = self.hit_rate {
            write!(f, ", hit rate {rate:.3}")?;
        }
        let (ours, theirs) = (
            self.client_full_in_run + self.client_resumed_in_run,
            self.full_in_run + self.resumed_in_run,
        );
        match self.agrees() {
            true => write!(
                f,
                "; over the whole run both ends have counted {}",
                grouped(ours)
            ),
            false => write!(
                f,
                "; over the whole run the server has counted {} and this end {}",
                grouped(theirs),
                grouped(ours)
            ),
        }
    }
}

impl fmt::Display for PartResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = grouped(self.connections);
        if self.mode == "hold" {
            return write!(f, "{connections} connections open at the end");
        }
        write!(f, "{}/s", rate(self.per_second))?;
        match self.asked_per_second {
            Some(asked) => write!(f, " of {} asked", rate(asked))?,
            None => write!(f, " over {connections} connections")?,
        }
        let seconds = self.operations as f64 / self.per_second.max(1e-9);
        let bytes = self.body_bytes + self.sent_bytes;
        if matches!(self.mode, "download" | "upload") {
            let gigabits = bytes as f64 * 8.0 / 1e9 / seconds.max(1e-9);
            write!(f, ", {} = {gigabits:.2} Gb/s", Bytes(bytes))?;
        }
        if let Some(spread) = self.operation_micros {
            write!(f, ", p50 {}, p99 {}", time(spread.p50), time(spread.p99))?;
        }
        Ok(())
    }
}

impl fmt::Display for Additive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores: Vec<String> = self
            .alone_cores
            .iter()
            .map(|cores| format!("{:.1}", 100.0 * cores))
            .collect();
        write!(
            f,
            "{} = {:.1} % of a core alone, {:.1} % together: adding up is {:+.1} % off",
            cores.join(" + "),
            100.0 * self.sum_cores,
            100.0 * self.together_cores,
            100.0 * self.error_share
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(time(999), "999 µs");
        assert_eq!(time(1_500), "1.50 ms");
        assert_eq!(time(123_456), "123 ms");
        assert_eq!(time(60_000_000), "60.0 s");
        assert_eq!(rate(12.34), "12.3");
        assert_eq!(rate(12_345.6), "12 346");
    }

    #[test]
    fn bars_are_as_long_as_their_share_and_never_nothing_for_something() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.00001), "▏");
        assert_eq!(bar(1.0).chars().count(), BAR_WIDTH);
        assert_eq!(bar(0.5).chars().count(), BAR_WIDTH / 2);
    }

    #[test]
    fn colours_are_only_where_they_are_wanted() {
        assert_eq!(Look::Plain.paint(Ink::Bad, "x"), "x");
        assert!(Look::Coloured.paint(Ink::Bad, "x").contains("\u{1b}[1;31m"));
    }
}
