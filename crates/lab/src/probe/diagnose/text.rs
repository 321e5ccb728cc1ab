//! The diagnosis for people.

use std::fmt;

use tollgate_terms::{NamedGroup, UnixTime};

use super::super::Connection;
use super::super::paragraph::paragraph;
use super::super::round_trips::{milliseconds, no_early_data};
use super::super::verdict::{Finding, WORTH_IT, Worth};
use super::rules::time;
use super::{Client, Diagnosis, Pair, Seen, Step};

/// Each thing that was looked at, in a line.
pub(super) fn steps(seen: &Seen, now: UnixTime) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |step, result| steps.push(Step { step, result });
    for (name, resumed_name, pair) in [
        ("TLS 1.3", "TLS 1.3 resumed", &seen.tls13),
        ("TLS 1.2", "TLS 1.2 resumed", &seen.tls12),
    ] {
        match pair {
            Err(reason) => add(name, format!("no: {reason}")),
            Ok(pair) => {
                add(name, format!("yes, {}", negotiated(&pair.full)));
                add(resumed_name, resumed(pair));
            }
        }
    }
    add(
        "early data",
        match seen.early.as_ref().map(no_early_data) {
            None => "not tried: it needs TLS 1.3 and a request that may be repeated".into(),
            Some(None) => "accepted".into(),
            Some(Some(reason)) => format!("no: {reason}"),
        },
    );
    if let Some(full) = seen.best_full() {
        add("certificate", certificate(full, now));
        add("chain", chain(full));
        add(
            "first flight",
            format!(
                "{} bytes of {} that may go before the client answers",
                full.server_flight_bytes, full.initial_window_bytes
            ),
        );
        add("staple", staple(full, now));
    }
    let browser = seen
        .profiles
        .iter()
        .find(|(profile, _)| profile.name == "browser");
    if let Some((_, Ok(browser))) = browser {
        add(
            "post-quantum",
            match browser.named_group {
                Some(NamedGroup::X25519MLKEM768) => "yes, X25519MLKEM768".into(),
                Some(group) => format!("no, a browser gets {group}"),
                None => "no".into(),
            },
        );
    }
    steps
}

fn negotiated(connection: &Connection) -> String {
    let group = connection
        .named_group
        .map_or("no group".into(), |group| group.to_string());
    format!(
        "{}, {group}, handshake {}",
        connection.suite,
        milliseconds(connection.handshake_time_ms / 1e3)
    )
}

fn resumed(pair: &Pair) -> String {
    let Some(resumed) = &pair.resumed else {
        return "no: a full handshake again".into();
    };
    let ticket = match pair.full.tickets.as_slice() {
        [] => "by session id".into(),
        tickets => {
            let lifetime = match tickets[0].lifetime_seconds {
                0 => "for as long as the server likes".into(),
                seconds => format!("for {}", time(seconds)),
            };
            let plural = if tickets.len() == 1 {
                "ticket"
            } else {
                "tickets"
            };
            format!(
                "{} {plural} of {} bytes, {lifetime}",
                tickets.len(),
                tickets[0].bytes
            )
        }
    };
    let took = milliseconds(resumed.handshake_time_ms / 1e3);
    format!("yes, {ticket}, handshake {took}")
}

fn certificate(full: &Connection, now: UnixTime) -> String {
    let leaf = full
        .chain
        .as_ref()
        .and_then(|chain| chain.certificates.first());
    let Some(leaf) = leaf else {
        return "none was sent".into();
    };
    let left = match leaf.not_after_seconds.checked_sub(now.0) {
        None | Some(0) => "expired".into(),
        Some(left) => format!("for {} more", time(left)),
    };
    let scheme = full
        .signature_scheme
        .map_or(String::new(), |scheme| format!(", signs with {scheme}"));
    format!("{}, {left}{scheme}", leaf.key)
}

fn chain(full: &Connection) -> String {
    let Some(chain) = &full.chain else {
        return "none was sent".into();
    };
    let plural = if chain.certificates.len() == 1 {
        "certificate"
    } else {
        "certificates"
    };
    format!(
        "{} {plural}, {} bytes",
        chain.certificates.len(),
        chain.bytes
    )
}

fn staple(full: &Connection, now: UnixTime) -> String {
    let Some(staple) = &full.staple else {
        return "none (right for authorities without OCSP)".into();
    };
    let next = match staple
        .next_update_seconds
        .and_then(|next| next.checked_sub(now.0))
    {
        Some(left) => format!(", next update in {}", time(left)),
        None => String::new(),
    };
    format!("{}, {} bytes{next}", staple.status, staple.bytes)
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Diagnosis of {} ({})\n", self.target, self.endpoint)?;
        for step in &self.steps {
            let label = format!("  {:<18}", step.step);
            f.write_str(&paragraph(&label, &step.result))?;
        }
        writeln!(f, "\n  What clients are given")?;
        for client in &self.clients {
            client.write(f)?;
        }
        writeln!(f, "\n  What visitors wait for")?;
        let asked = match &self.first_line {
            Some(line) => format!("TCP, handshake and response ({line})"),
            None => "TCP and handshake; nothing was asked for".into(),
        };
        for (who, seconds) in [
            ("a round trip", Some(self.round_trip_seconds)),
            ("a new one", self.new_visitor_seconds),
            ("a returning one", self.returning_visitor_seconds),
        ] {
            if let Some(seconds) = seconds {
                let what = if who == "a round trip" {
                    "TCP connect, at its shortest"
                } else {
                    &asked
                };
                writeln!(f, "  {who:<18}{:>12}  {what}", milliseconds(seconds))?;
            }
        }
        f.write_str(&paragraph("\nVerdict: ", &self.verdict))?;
        for (number, finding) in self.findings.iter().enumerate() {
            write(f, number + 1, finding)?;
        }
        writeln!(f, "\nNot tested")?;
        for what in &self.not_tested {
            f.write_str(&paragraph("  - ", what))?;
        }
        Ok(())
    }
}

impl Client {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = match (&self.failure, &self.suite) {
            (Some(failure), _) => format!("cannot connect: {failure}"),
            (None, suite) => [
                suite.as_deref(),
                self.named_group.as_deref(),
                self.certificate,
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
        };
        f.write_str(&paragraph(&format!("  {:<18}", self.profile), &given))
    }
}

fn write(f: &mut fmt::Formatter<'_>, number: usize, finding: &Finding) -> fmt::Result {
    let worth = match finding.worth {
        Worth::Fault => "fault".into(),
        Worth::Note => "note".into(),
        Worth::Saving {
            saving_seconds,
            saving_share,
        } => {
            let verdict = if saving_share >= WORTH_IT {
                "worth it"
            } else {
                "not worth it"
            };
            format!(
                "{verdict}: saves at most {}, {:.0} % of the wait",
                milliseconds(saving_seconds),
                saving_share * 100.0
            )
        }
    };
    let what = format!("{} [{worth}]", finding.what);
    f.write_str(&paragraph(&format!("\n  {number}. "), &what))?;
    let fix = format!("Fix ({}): {}", finding.effort.words(), finding.fix);
    f.write_str(&paragraph("     ", &fix))
}
