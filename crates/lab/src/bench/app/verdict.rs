//! Whether it is worth it, and how sure that is.

use serde::Serialize;
use tollgate_cost::Measured;

use super::AppWay;
use crate::bench::figures::percent;

/// A gain below this share is not worth another part in the path: it must be run, watched and upgraded.
pub const LEAST_GAIN: f64 = 0.15;

/// What a ratio of latencies says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Worth {
    /// At least 15 % less latency, spread included.
    WorthIt,
    /// Less than 15 % less latency, spread included.
    NotWorthIt,
    /// The spread reaches over the line of 15 %.
    CannotTell,
}

impl Worth {
    /// What this ratio of the new latency to the old one is worth.
    pub fn of(ratio: &Measured) -> Self {
        let line = 1.0 - LEAST_GAIN;
        if ratio.high <= line {
            Self::WorthIt
        } else if ratio.low > line {
            Self::NotWorthIt
        } else {
            Self::CannotTell
        }
    }

    /// `worth it`, `not worth it` or `cannot tell`.
    pub fn words(self) -> &'static str {
        match self {
            Self::WorthIt => "worth it",
            Self::NotWorthIt => "not worth it",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The end of the experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The answer.
    pub worth: Worth,
    /// The way through Tollgate that it is about: the one with the least latency.
    pub way: &'static str,
    /// The reason, in figures.
    pub why: String,
}

impl Verdict {
    /// About the best way among those that go through Tollgate; the first two do not.
    pub(super) fn of(ways: &[AppWay]) -> Self {
        let through = ways.iter().filter(|way| way.worth.is_some());
        let best = through.min_by(|one, other| {
            one.over_own_tls
                .median
                .total_cmp(&other.over_own_tls.median)
        });
        let Some(best) = best else {
            return Self {
                worth: Worth::CannotTell,
                way: "none",
                why: "nothing went through Tollgate".into(),
            };
        };
        let worth = Worth::of(&best.over_own_tls);
        Self {
            worth,
            way: best.name,
            why: why(worth, best),
        }
    }
}

fn why(worth: Worth, best: &AppWay) -> String {
    let ratio = &best.over_own_tls;
    let mut text = format!(
        "over all payloads {} takes {} of the latency of the application's own TLS ({} to {})",
        best.name,
        percent(ratio.median),
        percent(ratio.low),
        percent(ratio.high)
    );
    text.push_str(match worth {
        Worth::WorthIt => ", which is at least 15 % less",
        Worth::NotWorthIt if ratio.low > 1.0 => {
            ", which is more: one more process in the path costs more than it saves here"
        }
        Worth::NotWorthIt => {
            ", which is less than 15 % better: not enough for another part to run and to watch"
        }
        Worth::CannotTell => {
            ", and that spread reaches over the line of 15 %: the noise of this machine hides the answer; \
             try more repetitions on a quiet one"
        }
    });
    let gains: Vec<String> = best
        .cells
        .iter()
        .filter(|cell| Worth::of(&cell.over_own_tls) == Worth::WorthIt)
        .map(|cell| super::text::bytes(cell.payload_bytes))
        .collect();
    if worth != Worth::WorthIt && !gains.is_empty() {
        text.push_str(&format!("; at {} it would be worth it", gains.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::AppCell;
    use super::*;

    fn ratio(low: f64, median: f64, high: f64) -> Measured {
        Measured {
            low,
            median,
            high,
            ..Measured::exact(median)
        }
    }

    fn way(name: &'static str, over: Measured) -> AppWay {
        AppWay {
            name,
            address: String::new(),
            cells: vec![AppCell {
                payload_bytes: 1 << 20,
                requests: 1,
                latency_micros: Measured::exact(1.0),
                deviation_micros: 0.0,
                over_plain: over,
                over_own_tls: ratio(0.4, 0.5, 0.6),
            }],
            over_own_tls: over,
            worth: Some(Worth::of(&over)),
        }
    }

    #[test]
    fn fifteen_percent_less_is_worth_it_only_when_the_spread_agrees() {
        for (low, high, worth) in [
            (0.5, 0.85, Worth::WorthIt),
            (0.5, 0.86, Worth::CannotTell),
            (0.86, 0.9, Worth::NotWorthIt),
            (1.1, 1.4, Worth::NotWorthIt),
            (0.7, 1.3, Worth::CannotTell),
        ] {
            assert_eq!(Worth::of(&ratio(low, 0.8, high)), worth, "{low} to {high}");
        }
    }

    #[test]
    fn the_best_way_decides_and_the_figures_are_in_the_reason() {
        let verdict = Verdict::of(&[
            way("slow", ratio(1.2, 1.3, 1.4)),
            way("fast", ratio(0.6, 0.7, 0.8)),
        ]);
        assert_eq!((verdict.worth, verdict.way), (Worth::WorthIt, "fast"));
        assert!(verdict.why.contains("70 %"), "{}", verdict.why);
    }

    #[test]
    fn a_payload_that_gains_is_named_even_when_the_whole_does_not() {
        let verdict = Verdict::of(&[way("only", ratio(0.9, 0.95, 1.0))]);
        assert_eq!(verdict.worth, Worth::NotWorthIt);
        assert!(verdict.why.contains("1 MB"), "{}", verdict.why);
    }

    #[test]
    fn noise_is_said_to_hide_the_answer() {
        let verdict = Verdict::of(&[way("only", ratio(0.5, 0.9, 1.3))]);
        assert_eq!(verdict.worth, Worth::CannotTell);
        assert!(verdict.why.contains("noise"), "{}", verdict.why);
    }
}
