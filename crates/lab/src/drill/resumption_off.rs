//! Resumption is lost and comes back: the incident that tripled an autoscaler, on purpose.

use std::time::{Duration, Instant};

use super::live::Live;
use super::report::{Act, Expectation, Forecast, Report};
use super::stage::{Staging, alarms, told};
use super::watching::mean;
use super::{DrillError, DrillOptions, Target, Telling};

/// After a reload, the first second or two are of both configurations.
const SETTLE: Duration = Duration::from_secs(2);
/// Hit rates that recovery is timed to: what the alarm asks for, and what is normal.
pub(super) const THRESHOLDS: [f64; 2] = [0.7, 0.89];
/// The forecast may be this far from what comes.
pub(super) const FORECAST_WITHIN: f64 = 0.1;
/// Share by which the hit rate before may miss what was asked for.
const HIT_RATE_WITHIN: f64 = 0.02;
/// A few handshakes around the reload may still resume.
const NONE_RESUMES: f64 = 0.01;

/// The moments of the drill.
struct Moments {
    steady: Instant,
    off: Instant,
    on: Instant,
    back: Instant,
}

pub(super) fn run(options: &DrillOptions, telling: &Telling<'_>) -> Result<Report, DrillError> {
    let whole = 3 * options.act + 7 * options.return_after + Duration::from_secs(10);
    let mut staging = Staging::open(options, alarms(options, ""), whole, telling)?;
    let played = play(options, &mut staging);
    // Whatever happened: an instance that cannot be put back is the worse news.
    staging.subject.put_back()?;
    let (moments, before, said) = played?;
    let mut report = judge(options, &staging, &moments, &before);
    report.said = told(&said);
    Ok(report)
}

/// The three acts; gives their moments, what the instance said before the first change, and its words to both.
fn play(
    options: &DrillOptions,
    staging: &mut Staging<'_>,
) -> Result<(Moments, Live, String), DrillError> {
    staging.settle(options)?;
    let steady = Instant::now();
    staging.pass("before", "clients come back and resume", options.act)?;
    let before = staging.live()?;

    let mut said = staging.subject.set_resumption(false)?;
    let off = Instant::now();
    let long_enough = options.act.max(2 * SETTLE);
    staging.pass("during", "tickets and session cache are off", long_enough)?;

    let on = Instant::now();
    said.push_str(&staging.subject.set_resumption(true)?);
    let recovered = |staging: &Staging<'_>| {
        thresholds(options).all(|wanted| staging.recovered(on, wanted).seconds.is_some())
    };
    staging.until(
        "after",
        "clients get tickets again",
        options.patience,
        recovered,
    )?;
    let back = Instant::now();
    staging.pass("after", "clients resume again", options.act)?;
    if options.wait_for_quiet {
        staging.until(
            "after",
            "until the alarm is quiet",
            options.patience,
            |staging| {
                !staging
                    .watching
                    .firing()
                    .iter()
                    .any(|name| name == "hit_rate_low")
            },
        )?;
    }
    let moments = Moments {
        steady,
        off,
        on,
        back,
    };
    Ok((moments, before, said))
}

/// The hit rates that can be reached with the one that was asked for.
pub(super) fn thresholds(options: &DrillOptions) -> impl Iterator<Item = f64> + use<> {
    let asked = options.hit_rate;
    THRESHOLDS.into_iter().filter(move |wanted| *wanted < asked)
}

fn judge(options: &DrillOptions, staging: &Staging<'_>, at: &Moments, before: &Live) -> Report {
    let mut report = staging.report(options, at.off);
    let now = Instant::now();
    let ends = at.back + options.act;
    report.acts = vec![
        staging.act("before", at.steady, at.off),
        staging.act("during", at.off + SETTLE, at.on),
        staging.act("after", at.back, ends.min(now)),
    ];
    report.recovery = thresholds(options)
        .map(|wanted| staging.recovered(at.on, wanted))
        .collect();
    report.alarms = staging.watching.alarms(at.off, at.on);
    let during = mean(
        &staging
            .watching
            .between(at.off + SETTLE + SETTLE / 2, at.on),
    );
    if let (Some(cores), Some(during)) = (before.price.cores_at_zero, during) {
        let mut forecast = Forecast::of(
            cores,
            before.minute.handshakes(),
            during.handshakes(),
            during.cores.workers,
        );
        forecast.arithmetic.clone_from(&before.price.arithmetic);
        report
            .notes
            .extend(before.price.assumptions.iter().cloned());
        report.forecast = Some(forecast);
    }
    report
        .notes
        .extend(unsteady(&report.acts[0], &report.acts[2]));
    let hit_rate = |act: usize| report.acts[act].hit_rate;
    let expectations = [
        Expectation::at_least(
            "before: handshakes that resume",
            hit_rate(0),
            options.hit_rate - HIT_RATE_WITHIN,
            "share",
        ),
        Expectation::at_most(
            "during: handshakes that resume",
            hit_rate(1),
            NONE_RESUMES,
            "share",
        ),
        forecast_expected(&report),
    ];
    report.expectations.extend(expectations);
    expect_alarm(
        &mut report,
        options,
        "hit_rate_low",
        options.act.as_secs_f64(),
    );
    expect_recovery(&mut report, options);
    expect_no_failure(&mut report);
    if matches!(options.target, Target::Own) {
        report.notes.push(
            "how soon clients resume again depends on how soon they come back; --return-after sets it".into(),
        );
    }
    report
}

/// A warning when two acts of the same regime differ in what a connection costs: then something else has taken part
/// of the machine, and a forecast cannot be judged by what came.
pub(super) fn unsteady(before: &Act, after: &Act) -> Option<String> {
    let per_connection = |act: &Act| act.cores.workers / act.per_second.max(1e-9);
    let (first, last) = (per_connection(before), per_connection(after));
    let off = (last / first.max(1e-12) - 1.0).abs();
    (first > 0.0 && off > FORECAST_WITHIN).then(|| {
        format!(
            "a connection cost {:.0} % {} CPU in the last act than in the first, which are alike: the machine was busy \
             with something else, so judge the forecast by a run on a quiet one",
            100.0 * off,
            if last < first { "less" } else { "more" }
        )
    })
}

/// The forecast is near enough.
pub(super) fn forecast_expected(report: &Report) -> Expectation {
    let error = report
        .forecast
        .as_ref()
        .map(|forecast| forecast.error_share.abs());
    Expectation::at_most(
        "forecast of cores without resumption, off by",
        error,
        FORECAST_WITHIN,
        "share",
    )
}

/// The alarm fires soon enough, and is quiet again where that is waited for.
pub(super) fn expect_alarm(report: &mut Report, options: &DrillOptions, name: &str, limit: f64) {
    let seen = report.alarms.iter().find(|alarm| alarm.name == name);
    let raised = seen.map(|alarm| alarm.raised_after_seconds);
    let quiet = seen.and_then(|alarm| alarm.quiet_after_seconds);
    report.expectations.push(Expectation::at_most(
        format!("alarm {name} fires after"),
        raised,
        limit,
        "seconds",
    ));
    if options.wait_for_quiet {
        report.expectations.push(Expectation::at_most(
            format!("alarm {name} is quiet again after"),
            quiet,
            options.patience.as_secs_f64() + options.act.as_secs_f64(),
            "seconds",
        ));
    }
}

/// Clients resume again soon enough.
pub(super) fn expect_recovery(report: &mut Report, options: &DrillOptions) {
    let expected = report.recovery.iter().map(|recovery| {
        Expectation::at_most(
            format!(
                "hit rate is back at {:.0} % after",
                100.0 * recovery.hit_rate
            ),
            recovery.seconds,
            options.patience.as_secs_f64(),
            "seconds",
        )
    });
    let expected: Vec<_> = expected.collect();
    report.expectations.extend(expected);
}

/// Nothing failed in any act.
pub(super) fn expect_no_failure(report: &mut Report) {
    let failures: u64 = report.curve.iter().map(|point| point.failures).sum();
    let failed = Expectation::at_most(
        "operations that failed",
        Some(failures as f64),
        0.0,
        "count",
    );
    report.expectations.push(failed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::report::ActCores;

    #[test]
    fn a_machine_that_was_busy_otherwise_is_told_of() {
        let act = |workers, per_second| Act {
            per_second,
            cores: ActCores {
                workers,
                ..ActCores::default()
            },
            ..Act::default()
        };
        assert_eq!(unsteady(&act(0.2, 400.0), &act(0.1, 200.0)), None);
        assert_eq!(unsteady(&act(0.2, 400.0), &act(0.21, 400.0)), None);
        let told = unsteady(&act(0.2, 400.0), &act(0.1, 400.0)).unwrap_or_default();
        assert!(told.contains("50 % less"), "{told}");
        // An instance without a ledger tells nothing.
        assert_eq!(unsteady(&act(0.0, 400.0), &act(0.0, 400.0)), None);
    }
}
