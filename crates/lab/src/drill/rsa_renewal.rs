//! A certificate is renewed with a dearer kind of key: what warns, what fires, what it costs.

use std::time::{Duration, Instant};

use tollgate_terms::CertificateKind;

use super::report::{Act, Expectation, Report};
use super::resumption_off::{expect_alarm, expect_no_failure};
use super::stage::{Staging, Subject, alarms, told};
use super::{DrillError, DrillOptions, Telling};

/// After a reload, the first second or two are of both certificates.
const SETTLE: Duration = Duration::from_secs(2);
/// No more than so many seconds of signatures a second, by what a signature takes at most.
const MOST_PER_SECOND: f64 = 200.0;
const MOST_PER_SECOND_OF_LONG_KEYS: f64 = 60.0;
/// What the guard says a signature takes more must be what the ledger finds, but for so much of it: the guard signs
/// several times in a row, a server signs between other work and finds its caches cold.
const PRICE_WITHIN: f64 = 0.5;

pub(super) fn run(options: &DrillOptions, telling: &Telling<'_>) -> Result<Report, DrillError> {
    let mut options = options.clone();
    // Full handshakes alone: their cost is what the drill is about.
    options.hit_rate = 0.0;
    let most = match options.dearer {
        CertificateKind::Rsa(bits) if bits > 2048 => MOST_PER_SECOND_OF_LONG_KEYS,
        _ => MOST_PER_SECOND,
    };
    options.rate = Some(options.rate.unwrap_or(most));
    let settings = alarms(&options, ", hit_rate_below: off");
    let whole = 3 * options.act + 2 * SETTLE + Duration::from_secs(8);
    let mut staging = Staging::open(&options, settings, whole, telling)?;
    let (cheap, dear) = (options.certificate.name(), options.dearer.name());
    staging.pass("before", &format!("full handshakes with {cheap}"), SETTLE)?;
    let steady = Instant::now();
    staging.pass(
        "before",
        &format!("full handshakes with {cheap}"),
        options.act,
    )?;

    let changed = Instant::now();
    let said = renew(&mut staging.subject, options.dearer)?;
    staging.pass(
        "after the renewal",
        &format!("full handshakes with {dear}"),
        options.act.max(2 * SETTLE),
    )?;
    let shown = shown_kind(&staging);

    let back = Instant::now();
    renew(&mut staging.subject, options.certificate)?;
    staging.pass(
        "put right",
        &format!("full handshakes with {cheap}"),
        options.act,
    )?;
    if options.wait_for_quiet {
        staging.until(
            "put right",
            "until the alarm is quiet",
            options.patience,
            |staging| {
                !staging
                    .watching
                    .firing()
                    .iter()
                    .any(|name| name == "certificate_dearer")
            },
        )?;
    }
    let mut report = staging.report(&options, changed);
    report.acts = vec![
        staging.act(cheap, steady, changed),
        staging.act(dear, changed + SETTLE, back),
        staging.act(&format!("{cheap} again"), back + SETTLE, Instant::now()),
    ];
    report.alarms = staging.watching.alarms(changed, back);
    report.said = told(&said);
    judge(&options, &mut report, &said, shown.as_deref());
    Ok(report)
}

fn renew(subject: &mut Subject, kind: CertificateKind) -> Result<String, DrillError> {
    match subject {
        Subject::Own(own) => own.set_certificate(kind),
        Subject::Named { .. } => Err(DrillError::Input(
            "certificates are renewed on an instance of the drill's own alone".into(),
        )),
    }
}

/// The kind of certificate that the instance says it has.
fn shown_kind(staging: &Staging<'_>) -> Option<String> {
    let live = staging.watching.latest()?;
    live.certificates
        .first()
        .map(|found| found.certificate.clone())
}

fn judge(options: &DrillOptions, report: &mut Report, said: &str, shown: Option<&str>) {
    let dear = options.dearer.name();
    let costs = |act: usize| report.acts[act].micros_per_full;
    let more = match (
        asymmetric_micros(&report.acts[0]),
        asymmetric_micros(&report.acts[1]),
    ) {
        (Some(before), Some(after)) => Some(after - before),
        _ => None,
    };
    let factor = match (costs(0), costs(1)) {
        (Some(before), Some(after)) if before > 0.0 => Some(after / before),
        _ => None,
    };
    let warned = said
        .lines()
        .any(|line| line.contains("warning") && line.contains(dear));
    let price = guard_price(said);
    let off = match (price, more) {
        (Some(price), Some(more)) if more > 0.0 => Some((price / more - 1.0).abs()),
        _ => None,
    };
    let yes = |found: bool| Some(f64::from(u8::from(found)));
    report.expectations.extend([
        Expectation::at_least(
            "the reload warns of the dearer certificate",
            yes(warned),
            1.0,
            "count",
        ),
        Expectation::at_most(
            "price in the warning against what phase 1 really costs more, off by",
            off,
            PRICE_WITHIN,
            "share",
        ),
        Expectation::at_least(
            format!("a full handshake with {dear} costs more, by a factor of"),
            factor,
            1.0,
            "factor",
        ),
        Expectation::at_least(
            format!("the instance shows its certificate as {dear}"),
            yes(shown == Some(dear)),
            1.0,
            "count",
        ),
    ]);
    let limit = options.act.as_secs_f64();
    expect_alarm(report, options, "certificate_dearer", limit);
    expect_no_failure(report);
    report
        .notes
        .push("no client resumes in this drill, and the alarm for that is off".into());
}

/// Phase 1 alone of a full handshake, in microseconds.
fn asymmetric_micros(act: &Act) -> Option<f64> {
    let handshake = act.cores.asymmetric + act.cores.derivation;
    let share = act.cores.asymmetric / handshake.max(1e-12);
    act.micros_per_full.map(|micros| micros * share)
}

/// How much longer a signature takes by the words of the guard, in microseconds: `one signature took 20 µs and now
/// takes 600 µs`.
fn guard_price(said: &str) -> Option<f64> {
    let words = said.split_once("one signature took ")?.1;
    let (before, rest) = words.split_once(" µs and now takes ")?;
    let after = rest.split_once(" µs")?.0;
    Some(after.parse::<f64>().ok()? - before.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_s_price_is_read_from_its_words() {
        let said = "tollgate: warning: site a: its cheapest certificate was ecdsa-p256 and is now rsa-2048; one \
                    signature took 21 µs and now takes 621 µs (measured here just now); every full handshake\n";
        assert_eq!(guard_price(said), Some(600.0));
        assert_eq!(guard_price("tollgate: configuration x is in force"), None);
    }
}
