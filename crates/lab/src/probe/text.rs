//! A connection in words: aligned for people, or with the labels that readers of tlshake know.

use std::fmt::Write as _;

use jiff::Timestamp;
use tollgate_terms::{CipherSuite, HandshakeKind, TlsVersion};

use super::chain::{CertificateReport, StapleReport};
use super::report::{Connection, EarlyDataOutcome, Ticket};

/// How a connection is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// With colours, for a terminal.
    pub colors: bool,
    /// With every certificate of the chain.
    pub chain: bool,
}

/// Where values begin.
const COLUMN: usize = 18;

/// What a value means to a reader in a hurry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Good,
    Warning,
}

struct Page {
    text: String,
    look: Look,
}

impl Page {
    fn line(&mut self, label: &str, tone: Tone, value: &str) {
        let gap = COLUMN.saturating_sub(label.len() + 1).max(1);
        let value = self.toned(tone, value);
        let label = self.wrapped("2", &format!("{label}:"));
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {label}{:gap$}{value}", "");
    }

    fn plain(&mut self, label: &str, value: &str) {
        self.line(label, Tone::Plain, value);
    }

    /// A line below the value of the last one.
    fn below(&mut self, tone: Tone, value: &str) {
        let value = self.toned(tone, value);
        let _ = writeln!(self.text, "  {:COLUMN$}{value}", "");
    }

    fn toned(&self, tone: Tone, value: &str) -> String {
        match tone {
            Tone::Plain => value.to_owned(),
            Tone::Good => self.wrapped("32", value),
            Tone::Warning => self.wrapped("33", value),
        }
    }

    fn wrapped(&self, code: &str, value: &str) -> String {
        match self.look.colors {
            true => format!("\x1b[{code}m{value}\x1b[0m"),
            false => value.to_owned(),
        }
    }
}

impl Connection {
    /// The connection for people, several lines.
    pub fn text(&self, look: Look) -> String {
        let mut page = Page {
            text: String::new(),
            look,
        };
        let title = page.wrapped("1", &format!("Connection: {}", self.name));
        page.text.push_str(&title);
        page.text.push('\n');
        self.negotiated(&mut page);
        page.text.push('\n');
        self.looked_at(&mut page);
        if let Some(contents) = &self.contents {
            let _ = write!(page.text, "\n  Contents:\n{}\n", contents.trim_end());
        }
        page.text
    }

    /// The lines of tlshake, in its order.
    fn negotiated(&self, page: &mut Page) {
        page.plain("Target", &self.target);
        page.plain("Endpoint", &self.endpoint);
        for refused in &self.refused_endpoints {
            page.below(Tone::Warning, &format!("after {refused}"));
        }
        page.plain("Connect time", &millis(self.connect_time_ms));
        if let Some(time) = self.start_tls_time_ms {
            page.plain("STARTTLS time", &millis(time));
        }
        page.plain("Handshake time", &millis(self.handshake_time_ms));
        let tried = self.resumption_miss.is_some();
        let tone = match (self.kind.is_resumed(), tried || self.hello_retry_request) {
            (true, _) => Tone::Good,
            (false, true) => Tone::Warning,
            (false, false) => Tone::Plain,
        };
        page.line("Handshake kind", tone, self.kind_text());
        match self.resumption_miss {
            Some("nothing_offered") => {
                page.below(Tone::Warning, "there was no ticket or session to resume")
            }
            Some("not_usable") => page.below(Tone::Warning, "the server did not take the ticket"),
            Some(other) => page.below(Tone::Warning, other),
            None => {}
        }
        page.plain("Protocol version", self.version.name());
        page.plain("Cipher suite", &self.suite.to_string());
        page.plain("ALPN protocol", self.alpn.as_deref().unwrap_or("none"));
        let tone = match self.early_data {
            EarlyDataOutcome::NotAttempted => Tone::Plain,
            EarlyDataOutcome::Accepted => Tone::Good,
            EarlyDataOutcome::NotAccepted => Tone::Warning,
        };
        let outcome = match (&self.early_data_reason, self.early_data) {
            (Some(reason), _) => format!("{} ({reason})", self.early_data),
            (None, EarlyDataOutcome::NotAccepted) => {
                format!(
                    "{} (the request was sent again after the handshake)",
                    self.early_data
                )
            }
            (None, outcome) => outcome.to_string(),
        };
        page.line("Early data", tone, &outcome);
        if let Some(time) = self.request_time_ms {
            page.plain("Request time", &millis(time));
        }
        if let Some(line) = &self.first_line {
            page.plain("Reply first line", line);
        }
        page.plain("Total time", &millis(self.total_time_ms));
    }

    /// What tlshake does not say.
    fn looked_at(&self, page: &mut Page) {
        if let Some(group) = self.named_group {
            page.plain("Group", &group.to_string());
        }
        if let Some(scheme) = self.signature_scheme {
            page.plain("Signature scheme", &scheme.to_string());
        }
        if let Some(kind) = self.certificate_kind {
            let (tone, checked) = match self.verified {
                true => (Tone::Plain, ""),
                false => (Tone::Warning, ", not checked (--insecure)"),
            };
            page.line("Certificate kind", tone, &format!("{kind}{checked}"));
        }
        self.chain_lines(page);
        let tone = match self.initial_window_advice {
            Some(_) => Tone::Warning,
            None => Tone::Plain,
        };
        let flight = format!(
            "{} of the {} that fit the initial window",
            bytes(self.server_flight_bytes),
            bytes(self.initial_window_bytes)
        );
        page.line("Server's flight", tone, &flight);
        if let Some(advice) = &self.initial_window_advice {
            page.below(Tone::Warning, advice);
        }
        match &self.staple {
            Some(staple) => staple_lines(staple, page),
            None if self.kind.is_resumed() => {}
            None => page.plain("Staple", "none"),
        }
        page.plain("Tickets", &tickets(&self.tickets));
        if let Some(ja4) = &self.ja4 {
            page.plain("Client (JA4)", ja4);
        }
        page.plain("Round trips", &self.round_trip_text());
    }

    fn chain_lines(&self, page: &mut Page) {
        let Some(chain) = &self.chain else { return };
        let count = match chain.certificates.len() {
            1 => "1 certificate".into(),
            count => format!("{count} certificates"),
        };
        page.plain("Chain", &format!("{count}, {}", bytes(chain.bytes)));
        if !page.look.chain {
            if let Some(leaf) = chain.certificates.first() {
                let (tone, valid) = validity(leaf);
                page.below(tone, &format!("{}, {valid}", leaf.subject));
            }
            return;
        }
        for (certificate, position) in chain.certificates.iter().zip(1..) {
            page.below(Tone::Plain, &format!("{position}. {}", certificate.subject));
            let sizes = format!(
                "   {}: {}, key {}, signature {}",
                certificate.key,
                bytes(certificate.bytes),
                bytes(certificate.key_bytes),
                bytes(certificate.signature_bytes)
            );
            page.below(Tone::Plain, &sizes);
            let (tone, valid) = validity(certificate);
            page.below(tone, &format!("   {valid}"));
            if certificate.self_issued && position > 1 {
                page.below(
                    Tone::Warning,
                    "   a root: clients have it, or do not trust it anyway",
                );
            }
        }
    }

    fn round_trip_text(&self) -> String {
        let parts = [
            ("TCP", self.round_trips.tcp),
            ("STARTTLS", self.round_trips.start_tls),
            ("handshake", self.round_trips.handshake),
            ("request", self.round_trips.request),
        ];
        let parts = parts.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        format!("{} ({})", self.round_trips_total, parts.join(", "))
    }

    /// The connection with the labels, the order and the spellings of tlshake's default output.
    pub fn tlshake(&self) -> String {
        let mut text = format!("Connection: {}\n", self.name);
        let mut line = |label: &str, value: &str| {
            let label = format!("{label}:");
            let _ = writeln!(text, "  {label:COLUMN$}{value}");
        };
        let millis = |time: f64| format!("{time:.3}ms");
        line("Target", &self.target);
        line("Endpoint", &self.endpoint);
        line("Connect time", &millis(self.connect_time_ms));
        line("Handshake time", &millis(self.handshake_time_ms));
        line("Handshake kind", Self::kind_word(self.kind));
        line("Protocol version", tlshake_version(self.version));
        line("Cipher suite", &tlshake_suite(self.suite));
        let alpn = self.alpn.as_ref().map(|name| format!("Ok({name:?})"));
        line("ALPN protocol", &format!("{alpn:?}"));
        line("Early data", &self.early_data.to_string());
        if let Some(time) = self.request_time_ms {
            line("Request time", &millis(time));
        }
        if let Some(first) = &self.first_line {
            line("Reply first line", first);
        }
        line("Total time", &millis(self.total_time_ms));
        if let Some(contents) = &self.contents {
            let _ = write!(text, "  Contents:\n{contents}\n");
        }
        text
    }

    /// Whether the handshake was resumed.
    pub fn is_resumed(&self) -> bool {
        matches!(self.kind, HandshakeKind::Resumed(_))
    }
}

fn tlshake_version(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::Tls12 => "TLSv1_2",
        TlsVersion::Tls13 => "TLSv1_3",
    }
}

/// Suites of TLS 1.3 have another name there.
fn tlshake_suite(suite: CipherSuite) -> String {
    let name = suite.to_string();
    match name.strip_prefix("TLS_").filter(|_| suite.0 >> 8 == 0x13) {
        Some(rest) => format!("TLS13_{rest}"),
        None => name,
    }
}

fn staple_lines(staple: &StapleReport, page: &mut Page) {
    let tone = match (&staple.problem, staple.status) {
        (None, "good") => Tone::Good,
        _ => Tone::Warning,
    };
    let mut value = format!("{}, {}", staple.status, bytes(staple.bytes));
    if let Some(revoked) = staple.revoked_seconds {
        let _ = write!(value, ", since {}", date(revoked));
    }
    if let Some(from) = staple.this_update_seconds {
        let _ = write!(value, ", of {}", date(from));
    }
    if let Some(next) = staple.next_update_seconds {
        let _ = write!(value, ", next update {}", date(next));
    }
    page.line("Staple", tone, &value);
    if let Some(problem) = &staple.problem {
        page.below(Tone::Warning, problem);
    }
}

fn tickets(tickets: &[Ticket]) -> String {
    let Some(first) = tickets.first() else {
        return "none".into();
    };
    let lifetime = match first.lifetime_seconds {
        0 => "lifetime not said".into(),
        seconds => format!("lifetime {}", span(seconds)),
    };
    let early = match first.early_data_bytes {
        0 => String::new(),
        allowed => format!(", early data up to {}", bytes(allowed as usize)),
    };
    let each = match tickets.len() {
        1 => "",
        _ => " each",
    };
    format!(
        "{}, {}{each}, {lifetime}{early}",
        tickets.len(),
        bytes(first.bytes)
    )
}

/// How long a certificate is still valid, against the clock of this machine.
fn validity(certificate: &CertificateReport) -> (Tone, String) {
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    let (from, to) = (
        certificate.not_before_seconds,
        certificate.not_after_seconds,
    );
    if now < from {
        return (Tone::Warning, format!("not valid before {}", date(from)));
    }
    match to.checked_sub(now) {
        None => (Tone::Warning, format!("expired on {}", date(to))),
        Some(left) => {
            let tone = match left < 7 * 86_400 {
                true => Tone::Warning,
                false => Tone::Plain,
            };
            (
                tone,
                format!("valid until {}, {} from now", date(to), span(left)),
            )
        }
    }
}

fn date(seconds: u64) -> String {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    match moment {
        Some(moment) => moment.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        None => format!("second {seconds}"),
    }
}

/// A span of time in its largest unit that is not too coarse.
fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        63_113_904.. => (seconds / 31_556_952, "years"),
        172_800.. => (seconds / 86_400, "days"),
        7200.. => (seconds / 3600, "hours"),
        120.. => (seconds / 60, "minutes"),
        _ => (seconds, "seconds"),
    };
    format!("{count} {unit}")
}

/// Three digits behind the point: microseconds.
fn millis(time: f64) -> String {
    format!("{time:.3} ms")
}

/// `14,600 B`.
fn bytes(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + " B"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_spans_read_well() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(14_600), "14,600 B");
        assert_eq!(bytes(1_234_567), "1,234,567 B");
        assert_eq!(span(90), "90 seconds");
        assert_eq!(span(21_600), "6 hours");
        assert_eq!(span(604_800), "7 days");
        assert_eq!(span(10 * 365 * 86_400), "9 years");
        assert_eq!(date(1_767_323_045), "2026-01-02 03:04 UTC");
        assert_eq!(millis(0.91349), "0.913 ms");
    }

    #[test]
    fn suites_have_the_names_that_tlshake_gives_them() {
        assert_eq!(
            tlshake_suite(CipherSuite::TLS_AES_128_GCM_SHA256),
            "TLS13_AES_128_GCM_SHA256"
        );
        let tls12 = CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
        assert_eq!(tlshake_suite(tls12), tls12.name());
    }

    #[test]
    fn tickets_are_summed_up() {
        let ticket = Ticket {
            lifetime_seconds: 21_600,
            bytes: 192,
            early_data_bytes: 16_384,
        };
        assert_eq!(tickets(&[]), "none");
        assert_eq!(
            tickets(&[ticket, ticket]),
            "2, 192 B each, lifetime 6 hours, early data up to 16,384 B"
        );
    }
}
