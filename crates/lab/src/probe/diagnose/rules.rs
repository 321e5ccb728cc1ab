//! From what was seen to findings. Pure: connections and the time come in.

use tollgate_terms::{CertificateKind, NamedGroup, UnixTime};

use super::super::round_trips::no_early_data;
use super::super::verdict::{Effort, Finding, Worth};
use super::super::{CertificateReport, Chain, Connection, EarlyDataOutcome, StapleReport};
use super::Seen;

/// A certificate that ends sooner than this should have been renewed already.
const RENEWED_BEFORE_SECONDS: u64 = 14 * 86_400;

/// A ticket may not live longer (RFC 8446, section 4.6.1).
const LONGEST_TICKET_SECONDS: u64 = 7 * 86_400;

/// Visitors come back after more than this.
const SHORT_TICKET_SECONDS: u64 = 3600;

/// Everything that follows from what was seen.
pub(super) fn findings(seen: &Seen, now: UnixTime) -> Vec<Finding> {
    let mut found = Vec::new();
    untrusted(seen, &mut found);
    versions(seen, &mut found);
    resumption(seen, &mut found);
    early_data(seen, &mut found);
    if let Some(full) = seen.best_full() {
        certificates(full, now, &mut found);
        first_flight(seen, full, &mut found);
    }
    clients(seen, &mut found);
    found
}

fn fault(id: &'static str, effort: Effort, what: String, fix: &str) -> Finding {
    Finding {
        id,
        what,
        fix: fix.into(),
        effort,
        worth: Worth::Fault,
    }
}

fn note(id: &'static str, effort: Effort, what: String, fix: &str) -> Finding {
    Finding {
        worth: Worth::Note,
        ..fault(id, effort, what, fix)
    }
}

/// What `seconds` are worth to somebody who waits for all of `connection` now.
fn saving(
    id: &'static str,
    effort: Effort,
    seconds: f64,
    connection: &Connection,
    what: String,
    fix: &str,
) -> Finding {
    let total = connection.total_time_ms / 1e3;
    let saving_seconds = seconds.clamp(0.0, total);
    Finding {
        worth: Worth::Saving {
            saving_seconds,
            saving_share: if total > 0.0 {
                saving_seconds / total
            } else {
                0.0
            },
        },
        ..fault(id, effort, what, fix)
    }
}

fn untrusted(seen: &Seen, found: &mut Vec<Finding>) {
    if let Some(reason) = &seen.untrusted {
        found.push(fault(
            "certificate_refused",
            Effort::CertificateFile,
            format!("clients refuse the certificate: {reason}"),
            "put that right before anything else",
        ));
    }
}

fn versions(seen: &Seen, found: &mut Vec<Finding>) {
    if let (Err(reason), Ok(pair)) = (&seen.tls13, &seen.tls12) {
        found.push(saving(
            "no_tls13",
            Effort::ConfigurationLine,
            seen.round_trip_seconds(),
            &pair.full,
            format!("TLS 1.3 is not spoken ({reason}): each new visitor waits one round trip more"),
            "enable TLS 1.3 (nginx: ssl_protocols TLSv1.2 TLSv1.3; HAProxy: ssl-max-ver TLSv1.3)",
        ));
    }
}

fn resumption(seen: &Seen, found: &mut Vec<Finding>) {
    let in_fleet = "switch on session tickets; where several nodes answer they must share keys, which --fleet shows";
    if let Ok(pair) = &seen.tls12
        && pair.resumed.is_none()
    {
        found.push(saving(
            "no_resumption_tls12",
            Effort::ConfigurationLine,
            seen.round_trip_seconds(),
            &pair.full,
            "TLS 1.2 does not resume: each returning visitor of that version waits one round trip more".into(),
            in_fleet,
        ));
    }
    if let Ok(pair) = &seen.tls13
        && pair.resumed.is_none()
    {
        // No round trip is saved; at most all that the handshake takes beside its one.
        let beside = pair.full.handshake_time_ms / 1e3 - seen.round_trip_seconds();
        let bytes = pair.full.chain.as_ref().map_or(0, |chain| chain.bytes);
        found.push(saving(
            "no_resumption_tls13",
            Effort::ConfigurationLine,
            beside,
            &pair.full,
            format!(
                "TLS 1.3 does not resume: each returning visitor costs a signature and {bytes} bytes of certificates again \
                 (no round trip; the saving is at most the work in the handshake)"
            ),
            in_fleet,
        ));
    }
    lifetimes(seen, found);
}

fn lifetimes(seen: &Seen, found: &mut Vec<Finding>) {
    let mut short = Vec::new();
    for connection in seen.resumable() {
        let Some(ticket) = connection.tickets.first() else {
            continue;
        };
        let lives = format!(
            "{} tickets live for {}",
            connection.version,
            time(ticket.lifetime_seconds)
        );
        match ticket.lifetime_seconds {
            // Zero leaves it open (RFC 5077, section 3.3).
            0 => {}
            1..SHORT_TICKET_SECONDS => short.push(lives),
            SHORT_TICKET_SECONDS..=LONGEST_TICKET_SECONDS => {}
            _ => found.push(fault(
                "ticket_too_long",
                Effort::ConfigurationLine,
                format!("{lives}, and clients must not use one for more than 7 days"),
                "lower the lifetime of tickets to a day or so",
            )),
        }
    }
    if !short.is_empty() {
        found.push(note(
            "ticket_short",
            Effort::ConfigurationLine,
            format!("{}: whoever returns later makes a full handshake", short.join(", ")),
            "raise the lifetime to a day (nginx: ssl_session_timeout 1d; HAProxy: tune.ssl.lifetime 86400)",
        ));
    }
}

fn early_data(seen: &Seen, found: &mut Vec<Finding>) {
    let Some(connection) = &seen.early else {
        return;
    };
    let Some(reason) = no_early_data(connection) else {
        return;
    };
    if !connection.kind.is_resumed() || connection.request_time_ms.is_none() {
        return;
    }
    let id = match connection.early_data {
        EarlyDataOutcome::NotAccepted => "early_data_not_accepted",
        EarlyDataOutcome::NotAttempted | EarlyDataOutcome::Accepted => "no_early_data",
    };
    found.push(saving(
        id,
        Effort::Application,
        seen.round_trip_seconds(),
        connection,
        format!("no early data: a returning visitor waits one round trip more; {reason}"),
        "allow early data for safe requests only, and let the application answer 425 to the rest (RFC 8470)",
    ));
}

fn certificates(full: &Connection, now: UnixTime, found: &mut Vec<Finding>) {
    let Some(chain) = &full.chain else {
        return;
    };
    if let Some(leaf) = chain.certificates.first() {
        expiry(leaf, now, found);
    }
    order(chain, found);
    if let Some(staple) = &full.staple {
        stapled(staple, found);
    }
}

fn expiry(leaf: &CertificateReport, now: UnixTime, found: &mut Vec<Finding>) {
    let left = leaf.not_after_seconds.saturating_sub(now.0);
    if left < RENEWED_BEFORE_SECONDS {
        let when = match left {
            0 => "has expired".into(),
            left => format!("expires in {}", time(left)),
        };
        found.push(fault(
            "certificate_expires",
            Effort::CertificateFile,
            format!("the certificate {when}"),
            "renew it, and let a timer do so from now on",
        ));
    }
}

fn order(chain: &Chain, found: &mut Vec<Finding>) {
    let certificates = &chain.certificates;
    let broken = certificates
        .windows(2)
        .position(|pair| pair[0].issuer != pair[1].subject);
    if let Some(place) = broken {
        found.push(fault(
            "chain_order",
            Effort::CertificateFile,
            format!(
                "the chain is out of order or has strangers in it: certificate {} is issued by {:?}, but behind it comes {:?}",
                place + 1,
                certificates[place].issuer,
                certificates[place + 1].subject
            ),
            "write the chain file anew: the server's certificate, then its issuer, and so on, each once",
        ));
    }
    let root = certificates.iter().skip(1).find(|one| one.self_issued);
    if let Some(root) = root {
        found.push(note(
            "root_included",
            Effort::CertificateFile,
            format!(
                "the root is sent along: {} bytes that no client uses",
                root.bytes
            ),
            "leave the root out of the chain file",
        ));
    }
    if certificates.len() > 3 {
        found.push(note(
            "chain_long",
            Effort::CertificateFile,
            format!(
                "the chain has {} certificates, {} bytes",
                certificates.len(),
                chain.bytes
            ),
            "leave out cross-signed certificates that your clients do not need",
        ));
    }
    if let [only] = certificates.as_slice()
        && !only.self_issued
        && !only.authority
    {
        found.push(note(
            "chain_alone",
            Effort::CertificateFile,
            "one certificate is sent alone: clients that do not know its issuer cannot build the chain".into(),
            "add the intermediate certificate to the chain file, unless a root that all clients trust has issued this one",
        ));
    }
}

fn stapled(staple: &StapleReport, found: &mut Vec<Finding>) {
    let what = match (&staple.problem, staple.status) {
        (Some(problem), _) => problem.clone(),
        (None, "good") => return,
        (None, status) => format!("it says {status:?}"),
    };
    found.push(fault(
        "staple",
        Effort::ConfigurationLine,
        format!("the stapled OCSP response is of no use: {what}"),
        "let the server fetch it again, or do without one when the authority has no responder any more",
    ));
}

fn first_flight(seen: &Seen, full: &Connection, found: &mut Vec<Finding>) {
    if let Some(advice) = &full.initial_window_advice {
        found.push(saving(
            "first_flight",
            Effort::CertificateFile,
            seen.round_trip_seconds(),
            full,
            format!(
                "the server's first flight, {} bytes, does not fit the initial congestion window of {}",
                full.server_flight_bytes, full.initial_window_bytes
            ),
            advice,
        ));
    }
}

/// What clients of different kinds are given.
fn clients(seen: &Seen, found: &mut Vec<Finding>) {
    let of = |name: &str| {
        let profiles = seen.profiles.iter();
        let mut named = profiles.filter(move |(profile, _)| profile.name == name);
        named.next().map(|(_, outcome)| outcome)
    };
    if let Some(Ok(browser)) = of("browser") {
        browsers(seen, browser, found);
    }
    let phones = ["phone-without-aes", "android-old"];
    let slow: Vec<&str> = phones
        .into_iter()
        .filter(|name| matches!(of(name), Some(Ok(connection)) if !connection.suite.name().contains("CHACHA20")))
        .collect();
    if !slow.is_empty() {
        found.push(note(
            "no_chacha20",
            Effort::ConfigurationLine,
            format!("clients without AES instructions ask for ChaCha20 first and are given AES ({})", slow.join(", ")),
            "let the client's order decide, or prefer ChaCha20 for clients that do (nginx: ssl_prefer_server_ciphers off; \
             OpenSSL: PrioritizeChaCha; Tollgate does so by itself)",
        ));
    }
    for (name, who, fix) in [
        (
            "rsa-only",
            "clients that verify RSA signatures only",
            "add an RSA certificate beside the other, if you still have such clients",
        ),
        (
            "tls12-only",
            "clients that speak TLS 1.2 only",
            "enable TLS 1.2, if you still have such clients",
        ),
    ] {
        if let Some(Err(reason)) = of(name) {
            found.push(note(
                "client_shut_out",
                Effort::ConfigurationLine,
                format!("{who} cannot connect: {reason}"),
                fix,
            ));
        }
    }
}

fn browsers(seen: &Seen, browser: &Connection, found: &mut Vec<Finding>) {
    if browser.hello_retry_request {
        found.push(saving(
            "hello_retry_request",
            Effort::ConfigurationLine,
            seen.round_trip_seconds(),
            browser,
            "a browser's key share is refused, and asked for again in another group: one round trip more".into(),
            "allow x25519, and X25519MLKEM768 where the library has it (nginx: ssl_ecdh_curve)",
        ));
    }
    if browser
        .named_group
        .is_some_and(|group| group != NamedGroup::X25519MLKEM768)
    {
        found.push(note(
            "no_post_quantum",
            Effort::Upgrade,
            "no post-quantum key exchange: what is recorded today can be read once quantum computers can".into(),
            "enable X25519MLKEM768 (OpenSSL 3.5, AWS-LC, BoringSSL, Go 1.24 and Tollgate have it)",
        ));
    }
    if let Some(CertificateKind::Rsa(bits)) = browser.certificate_kind {
        found.push(note(
            "rsa_certificate",
            Effort::CertificateFile,
            format!("a browser is given the RSA certificate ({bits} bits), the dearest one to sign with"),
            "add an ECDSA P-256 certificate beside it; tollgate bench certs shows what that saves here",
        ));
    }
    if browser.suite.name().contains("AES_256") {
        found.push(note(
            "aes_256_first",
            Effort::ConfigurationLine,
            format!("a browser asks for AES-128 first and is given {}", browser.suite),
            "put the AES-128 suites first: SHA-384 costs more in each handshake, AES-256 in each byte",
        ));
    }
}

/// A time in the largest fitting unit.
pub(super) fn time(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / 60, "minute"),
        7200..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    match count {
        1 => format!("1 {unit}"),
        count => format!("{count} {unit}s"),
    }
}
