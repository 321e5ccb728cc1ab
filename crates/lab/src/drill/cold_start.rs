//! A process starts anew under steady load, without the keys of the tickets that its clients hold.

use std::time::{Duration, Instant};

use super::live::Live;
use super::report::{Expectation, Forecast, Report};
use super::resumption_off::{expect_recovery, forecast_expected, thresholds, unsteady};
use super::stage::{Staging, Subject, alarms};
use super::watching::mean;
use super::{DrillError, DrillOptions, Telling};

/// The first second after a start catches up with what waited.
const SETTLE: Duration = Duration::from_secs(1);
/// A client comes back late enough that seconds without any resumption can be counted.
const LONGEST_COLD: u32 = 4;

pub(super) fn run(options: &DrillOptions, telling: &Telling<'_>) -> Result<Report, DrillError> {
    let mut options = options.clone();
    // Three whole seconds without any resumption are the least that a forecast can be set beside.
    options.return_after = options.return_after.max(SETTLE * LONGEST_COLD);
    let whole = 2 * options.act + 6 * options.return_after + Duration::from_secs(10);
    let mut staging = Staging::open(&options, alarms(&options, ""), whole, telling)?;
    staging.settle(&options)?;
    let steady = Instant::now();
    staging.pass("before", "clients come back and resume", options.act)?;
    let before = staging.live()?;

    let down = Instant::now();
    let Subject::Own(own) = &mut staging.subject else {
        return Err(DrillError::Input(
            "only an instance of the drill's own is started anew".into(),
        ));
    };
    let gap = own.restart()?;
    let up = Instant::now();
    staging.watching.move_to(staging.subject.console());

    let recovered = |staging: &Staging<'_>| {
        thresholds(&options).all(|wanted| staging.recovered(up, wanted).seconds.is_some())
    };
    staging.until(
        "cold",
        "clients are unknown to the new process",
        options.patience,
        recovered,
    )?;
    let back = Instant::now();
    staging.pass("after", "clients resume again", options.act)?;

    let cold_until = up + options.return_after;
    let mut report = staging.report(&options, up);
    report.acts = vec![
        staging.act("before", steady, down),
        staging.act("cold", up, cold_until),
        staging.act("after", back, Instant::now()),
    ];
    for act in &mut report.acts[1..] {
        // It was counted for the process that has ended.
        act.process_cores = None;
    }
    report.alarms = staging.watching.alarms(up, up);
    report.recovery = thresholds(&options)
        .map(|wanted| staging.recovered(up, wanted))
        .collect();
    report.forecast = forecast(&staging, &before, up + SETTLE, cold_until);
    judge(&options, &mut report, &staging, down, up, gap);
    Ok(report)
}

/// The forecast of the old process beside the seconds in which the new one knew nobody.
fn forecast(staging: &Staging<'_>, before: &Live, from: Instant, to: Instant) -> Option<Forecast> {
    // A second is told of a little after it is over.
    let lag = Duration::from_millis(1_100);
    let mut samples = staging.watching.between(from + lag, to);
    samples.retain(|sample| sample.live.second.hit_rate.is_some_and(|rate| rate < 0.02));
    let cold = mean(&samples)?;
    let mut forecast = Forecast::of(
        before.price.cores_at_zero?,
        before.minute.handshakes(),
        cold.handshakes(),
        cold.cores.workers,
    );
    forecast.arithmetic.clone_from(&before.price.arithmetic);
    Some(forecast)
}

fn judge(
    options: &DrillOptions,
    report: &mut Report,
    staging: &Staging<'_>,
    down: Instant,
    up: Instant,
    gap: Duration,
) {
    // What was refused in the gap is told a little later.
    let margin = Duration::from_millis(300);
    let failed = |from, to| -> u64 {
        let pieces = staging.loading.between(from, to);
        pieces.iter().map(|piece| piece.moment.failures).sum()
    };
    let refused = failed(down, up + margin);
    let later = failed(up + margin, Instant::now());
    report.expectations.push(Expectation::at_least(
        "before: handshakes that resume",
        report.acts[0].hit_rate,
        options.hit_rate - 0.02,
        "share",
    ));
    report.expectations.push(forecast_expected(report));
    report
        .notes
        .extend(unsteady(&report.acts[0], &report.acts[2]));
    expect_recovery(report, options);
    report.expectations.push(Expectation::at_most(
        "operations that failed once the new process was up",
        Some(later as f64),
        0.0,
        "count",
    ));
    report.notes.push(format!(
        "from the end of the old process to the start of the new one nobody listened for up to {:.2} s, and {refused} \
         connections were refused; an upgrade (SIGUSR2) has no such gap and keeps the keys",
        gap.as_secs_f64()
    ));
    report.notes.push(format!(
        "a client comes back after {:.1} s, so nobody can resume earlier",
        options.return_after.as_secs_f64()
    ));
}
