//! The past in columns, in the shape of [`Past`].

use tollgate_meter::{Interval, Totals};

use crate::observed::Observed;
use crate::price::cores_at_zero;
use crate::view::{Mark, NamedColumn, Past};

/// The last `seconds` in about `points` points, oldest first: 10 s to 24 h, 10 to 2,000 points; what lies outside is
/// taken as the nearest of these. There are no points for time in which the process did not run.
pub fn past(observed: &Observed<'_>, seconds: f64, points: usize) -> Past {
    let seconds = if seconds.is_finite() {
        seconds.clamp(10.0, 86_400.0)
    } else {
        600.0
    };
    let (step_seconds, intervals) = observed.history.columns(seconds, points.clamp(10, 2_000));
    let minute = observed.minute().totals;
    let column = |of: &dyn Fn(&Interval) -> f64| intervals.iter().map(of).collect::<Vec<f64>>();
    let cores = |of: fn(&Totals) -> u64| column(&|one| one.cores(of(&one.totals)));
    Past {
        step_seconds,
        at_seconds: column(&|one| one.at),
        full_per_second: column(&|one| one.rate(one.totals.full())),
        resumed_per_second: column(&|one| one.rate(one.totals.resumed())),
        hit_rate: intervals.iter().map(|one| one.totals.hit_rate()).collect(),
        requests_per_second: column(&|one| one.rate(one.totals.requests)),
        asymmetric_cores: cores(|totals| totals.cpu.asymmetric_nanos),
        derivation_cores: cores(|totals| totals.cpu.derivation_nanos),
        records_cores: cores(|totals| totals.cpu.records_nanos),
        not_tls_cores: cores(|totals| totals.cpu.not_tls_nanos),
        worker_cores: cores(|totals| totals.worker_nanos),
        cores_at_zero: intervals
            .iter()
            .map(|one| cores_at_zero(observed, one, &minute))
            .collect(),
        misses: named(&intervals, |totals| totals.misses().collect()),
        suites: named(&intervals, |totals| totals.suites().collect()),
        versions: named(&intervals, |totals| {
            let versions = totals.by_version();
            versions
                .map(|(name, one)| (name, one.full + one.resumed))
                .collect()
        }),
        groups: named(&intervals, |totals| totals.groups().collect()),
        certificates: named(&intervals, |totals| totals.certificates().collect()),
        signatures: named(&intervals, |totals| totals.signatures().collect()),
        marks: observed
            .history
            .marks(seconds)
            .map(|mark| Mark {
                at_seconds: mark.at,
                kind: mark.kind.to_owned(),
                text: mark.text.clone(),
            })
            .collect(),
    }
}

/// One column per name that counted anything in this time.
fn named(
    intervals: &[Interval],
    counts: fn(&Totals) -> Vec<(&'static str, u64)>,
) -> Vec<NamedColumn> {
    let mut columns: Vec<NamedColumn> = Vec::new();
    for (point, interval) in intervals.iter().enumerate() {
        for (number, (name, count)) in counts(&interval.totals).into_iter().enumerate() {
            if columns.len() <= number {
                columns.push(NamedColumn {
                    name: name.to_owned(),
                    values: vec![0.0; intervals.len()],
                });
            }
            columns[number].values[point] = interval.rate(count);
        }
    }
    columns.retain(|column| column.values.iter().any(|&value| value > 0.0));
    columns
}
