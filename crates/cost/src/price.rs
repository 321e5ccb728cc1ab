//! The price of a miss: what resumption saves at this moment, and what its loss would cost.
//!
//! In: handshakes per second by version and kind of certificate, with the CPU that each took, as a running
//! instance measured them. Out: cores, with the arithmetic in lines that a pocket calculator can check. To that
//! end figures are rounded as they are shown, and computed with as they are rounded.
//!
//! A resumed handshake that misses becomes a full one of the same version and certificate. Under TLS 1.3 it
//! makes the same key exchange either way (RFC 8446, section 2.2), so what a miss adds is little more than a
//! signature; under TLS 1.2 resumption spares both. Nothing here knows that: it is in the measured figures.

mod full;
#[cfg(test)]
mod tests;

use crate::Sheet;
use full::{Known, full, resumed};

/// Growth that five minutes must show before it counts, in cores; less is the noise of a quiet machine.
const GROWTH_THAT_COUNTS: f64 = 0.01;
/// The time over which growth was observed, in seconds.
const GROWTH_SECONDS: f64 = 300.0;

/// What is served at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveMix {
    /// Length of the interval that all of this is over.
    pub seconds: f64,
    /// Handshakes by what they were.
    pub groups: Vec<MixEntry>,
    /// CPU of the workers in cores, TLS and all else.
    pub worker_cores: f64,
    /// CPU of phases 1 to 3 in cores.
    pub tls_cores: f64,
    /// Cores that this process may use.
    pub cores_there_are: f64,
    /// By how much `worker_cores` grew per second, over the last five minutes.
    pub growth_cores_per_second: f64,
}

/// Handshakes of one version with one kind of certificate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixEntry {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: String,
    /// Kind of certificate that a full handshake uses here, such as `ecdsa-p256`; `none` when not known.
    pub certificate: String,
    /// Full handshakes per second.
    pub full_per_second: f64,
    /// Resumed handshakes per second.
    pub resumed_per_second: f64,
    /// CPU microseconds of phases 1 and 2 per full handshake; `None` when none was seen.
    pub micros_per_full: Option<f64>,
    /// CPU microseconds of phases 1 and 2 per resumed handshake; `None` when none was seen.
    pub micros_per_resumed: Option<f64>,
}

/// The price of a miss. Cores are of worker CPU, TLS and not TLS together, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceOfMiss {
    /// Resumed over all handshakes, 0 to 1; `None` without any.
    pub hit_rate: Option<f64>,
    /// Cores that the workers use now.
    pub cores_now: f64,
    /// Cores that there are.
    pub cores_there_are: f64,
    /// `cores_there_are` less `cores_now`; negative when there are too few.
    pub headroom_cores: f64,
    /// Cores that resumption saves, against no resumption at all; `None` when the cost of a full handshake is not known.
    pub saved_cores: Option<f64>,
    /// Cores needed if half of the handshakes resumed. Less than now when fewer than half do.
    pub cores_at_half: Option<f64>,
    /// Cores needed if no handshake resumed.
    pub cores_at_zero: Option<f64>,
    /// Cores of phases 1 to 3 alone if no handshake resumed.
    pub tls_cores_at_zero: Option<f64>,
    /// Seconds until the cores are used up if the load goes on growing as over the last five minutes; `None` when
    /// it does not grow.
    pub seconds_of_headroom: Option<f64>,
    /// CPU microseconds that a miss costs more than a hit, in the live mix; `None` without a handshake, or when
    /// the cost is not known.
    pub micros_per_miss: Option<f64>,
    /// How each of these comes about, a line each.
    pub arithmetic: Vec<String>,
    /// What is not measured here and now but assumed, a sentence each.
    pub assumptions: Vec<String>,
}

/// What resumption saves now, and what would be needed at 50 % and at 0 % hits.
pub fn price(mix: &LiveMix, sheet: Option<&Sheet>) -> PriceOfMiss {
    let mix = &rounded(mix);
    let mut page = Page::default();
    let mut price = PriceOfMiss {
        hit_rate: hits(mix),
        cores_now: mix.worker_cores,
        cores_there_are: mix.cores_there_are,
        headroom_cores: cores(mix.cores_there_are - mix.worker_cores),
        ..PriceOfMiss::default()
    };
    page.line(format!(
        "headroom = {} - {} = {} cores",
        shown(mix.cores_there_are),
        shown(mix.worker_cores),
        shown(price.headroom_cores)
    ));
    price.seconds_of_headroom = seconds_of_headroom(mix, price.headroom_cores, &mut page);
    let rates = Rates::of(mix, &mut page);
    match rates.hits {
        None => idle(&mut price, mix, &mut page),
        Some(hits) => at_other_rates(&mut price, mix, &rates, hits, sheet, &mut page),
    }
    price.arithmetic = page.lines;
    price.assumptions = page.assumptions;
    price
}

/// Worker cores that the same handshakes would need at the hit rate `hits`, 0 to 1; `None` when the cost of a
/// handshake is not known.
///
/// Below the hit rate of now every kind of handshake loses the same share of its resumptions; above it, every
/// kind turns the same share of its full handshakes into resumed ones. Without a handshake it is what it is now.
pub fn cores_at(mix: &LiveMix, sheet: Option<&Sheet>, hits: f64) -> Option<f64> {
    let mix = &rounded(mix);
    let mut page = Page::default();
    let rates = Rates::of(mix, &mut page);
    let hits = hits.clamp(0.0, 1.0);
    let Some(now) = rates.hits else {
        return Some(mix.worker_cores);
    };
    Some(if hits < now {
        let lost = worth(mix, sheet, Turned::ToFull, &mut page)?;
        mix.worker_cores + lost.cores * (1.0 - hits / now)
    } else if hits > now {
        let gained = worth(mix, sheet, Turned::ToResumed, &mut page)?;
        mix.worker_cores - gained.cores * (1.0 - (1.0 - hits) / (1.0 - now))
    } else {
        mix.worker_cores
    })
}

/// Lines and sentences as they come up.
#[derive(Default)]
struct Page {
    lines: Vec<String>,
    assumptions: Vec<String>,
}

impl Page {
    fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    fn assume(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if !self.assumptions.contains(&sentence) {
            self.assumptions.push(sentence);
        }
    }
}

/// Handshakes per second, and the share that resumed.
struct Rates {
    full: f64,
    resumed: f64,
    hits: Option<f64>,
}

impl Rates {
    fn of(mix: &LiveMix, page: &mut Page) -> Self {
        let sum = |of: fn(&MixEntry) -> f64| rate(mix.groups.iter().map(of).sum());
        let (full, resumed) = (
            sum(|one| one.full_per_second),
            sum(|one| one.resumed_per_second),
        );
        let hits = hits(mix);
        if let Some(hits) = hits {
            page.line(format!(
                "hits now = {resumed:.2} / ({full:.2} + {resumed:.2}) = {hits:.4}"
            ));
        }
        Self {
            full,
            resumed,
            hits,
        }
    }
}

/// Resumed over all handshakes.
fn hits(mix: &LiveMix) -> Option<f64> {
    let full: f64 = mix.groups.iter().map(|one| one.full_per_second).sum();
    let resumed: f64 = mix.groups.iter().map(|one| one.resumed_per_second).sum();
    (full + resumed > 0.0).then(|| round(resumed / (full + resumed), 4))
}

/// Which handshakes are looked at as what they are not.
#[derive(Clone, Copy)]
enum Turned {
    /// Resumed ones, as if they were full.
    ToFull,
    /// Full ones, as if they had resumed.
    ToResumed,
}

/// What all handshakes of one sort would cost more, or less, as the other sort.
struct Worth {
    micros_per_second: f64,
    cores: f64,
}

/// `None` when a cost is not known.
fn worth(mix: &LiveMix, sheet: Option<&Sheet>, turned: Turned, page: &mut Page) -> Option<Worth> {
    let mut sum = 0.0;
    for entry in &mix.groups {
        let (rate, word) = match turned {
            Turned::ToFull => (entry.resumed_per_second, "resumed/s"),
            Turned::ToResumed => (entry.full_per_second, "full/s"),
        };
        if rate <= 0.0 {
            continue;
        }
        let (full, resumed) = match (full(entry, mix, sheet), resumed(entry, mix, sheet)) {
            (Some(full), Some(resumed)) => (full, resumed),
            (None, _) => {
                page.assume(unknown(entry, "full"));
                return None;
            }
            (_, None) => {
                page.assume(unknown(entry, "resumed"));
                return None;
            }
        };
        say_origin(entry, "full", &full, page);
        say_origin(entry, "resumed", &resumed, page);
        let (full, resumed) = (round(full.micros, 2), round(resumed.micros, 2));
        if full < resumed {
            page.assume(format!(
                "full handshakes of {} {} measured cheaper than resumed ones ({full:.2} and {resumed:.2} µs); they are taken as equal",
                entry.version, entry.certificate
            ));
        }
        let dearer = (full - resumed).max(0.0);
        let micros = round(rate * dearer, 1);
        page.line(format!(
            "{} {}: {rate:.2} {word} x ({:.2} - {resumed:.2}) µs = {micros:.1} µs/s",
            entry.version,
            entry.certificate,
            full.max(resumed)
        ));
        sum = round(sum + micros, 1);
    }
    Some(Worth {
        micros_per_second: sum,
        cores: cores(sum / 1e6),
    })
}

fn unknown(entry: &MixEntry, kind: &str) -> String {
    format!(
        "what a {kind} handshake of {} {} costs is not known yet: none was seen, and no sheet has it (tollgate bench)",
        entry.version, entry.certificate
    )
}

fn say_origin(entry: &MixEntry, kind: &str, known: &Known, page: &mut Page) {
    if let Some(origin) = &known.origin {
        page.assume(format!(
            "no {kind} handshake of {} {} was seen: {:.2} µs is {origin}",
            entry.version,
            entry.certificate,
            round(known.micros, 2)
        ));
    }
}

/// Without a handshake nothing is saved, and nothing can be lost.
fn idle(price: &mut PriceOfMiss, mix: &LiveMix, page: &mut Page) {
    page.line("no handshake: nothing is saved, and nothing would be lost".to_owned());
    price.saved_cores = Some(0.0);
    price.cores_at_half = Some(mix.worker_cores);
    price.cores_at_zero = Some(mix.worker_cores);
    price.tls_cores_at_zero = Some(mix.tls_cores);
}

/// Fills in what other hit rates would need; what cannot be known stays `None`.
fn at_other_rates(
    price: &mut PriceOfMiss,
    mix: &LiveMix,
    rates: &Rates,
    hits: f64,
    sheet: Option<&Sheet>,
    page: &mut Page,
) {
    let now = mix.worker_cores;
    let lost = worth(mix, sheet, Turned::ToFull, page);
    if let Some(lost) = &lost {
        let saved = lost.cores;
        page.line(format!(
            "saved now = {:.1} µs/s / 1000000 = {} cores",
            lost.micros_per_second,
            shown(saved)
        ));
        let mut with_saved = |name: &str, before: f64| {
            let sum = cores(before + saved);
            page.line(format!(
                "{name} = {} + {} = {} cores",
                shown(before),
                shown(saved),
                shown(sum)
            ));
            sum
        };
        price.saved_cores = Some(saved);
        price.cores_at_zero = Some(with_saved("at 0 % hits", now));
        price.tls_cores_at_zero = Some(with_saved("TLS at 0 % hits", mix.tls_cores));
    }
    if hits >= 0.5 {
        price.cores_at_half = lost
            .as_ref()
            .map(|lost| loss_at_half(now, hits, lost, page));
        price.micros_per_miss = lost.map(|lost| per_miss(&lost, rates.resumed, "resumed/s", page));
    } else if let Some(gained) = worth(mix, sheet, Turned::ToResumed, page) {
        price.cores_at_half = Some(gain_at_half(now, hits, &gained, page));
        price.micros_per_miss = Some(match lost {
            Some(lost) if rates.resumed > 0.0 => per_miss(&lost, rates.resumed, "resumed/s", page),
            Some(_) | None => per_miss(&gained, rates.full, "full/s", page),
        });
    }
    if price.saved_cores.is_some() || price.cores_at_half.is_some() {
        page.assume(
            "what is not TLS (kernel, HTTP, relaying) is taken to cost the same after a full handshake as after a resumed one",
        );
    }
}

/// More than half resume now: half of them would be a loss.
fn loss_at_half(now: f64, hits: f64, lost: &Worth, page: &mut Page) -> f64 {
    let half = cores(now + lost.cores * (1.0 - 0.5 / hits));
    page.line(format!(
        "at 50 % hits = {} + {} x (1 - 0.5 / {hits:.4}) = {} cores",
        shown(now),
        shown(lost.cores),
        shown(half)
    ));
    half
}

/// Fewer than half resume now: half of them would be a gain.
fn gain_at_half(now: f64, hits: f64, gained: &Worth, page: &mut Page) -> f64 {
    let half = cores(now - gained.cores * (1.0 - 0.5 / (1.0 - hits)));
    page.line(format!(
        "at 50 % hits = {} - {} x (1 - 0.5 / (1 - {hits:.4})) = {} cores, a gain: fewer than half resume now",
        shown(now),
        shown(gained.cores),
        shown(half)
    ));
    half
}

fn per_miss(worth: &Worth, rate: f64, word: &str, page: &mut Page) -> f64 {
    let micros = round(worth.micros_per_second / rate, 2);
    page.line(format!(
        "a miss = {:.1} µs/s / {rate:.2} {word} = {micros:.2} µs",
        worth.micros_per_second
    ));
    micros
}

fn seconds_of_headroom(mix: &LiveMix, headroom: f64, page: &mut Page) -> Option<f64> {
    let growth = mix.growth_cores_per_second;
    if growth * GROWTH_SECONDS < GROWTH_THAT_COUNTS {
        return None;
    }
    let seconds = (headroom / growth).max(0.0).round();
    page.line(format!(
        "time left = {} cores / {growth:.7} cores/s = {seconds:.0} s, if the load goes on growing as over the last five minutes",
        shown(headroom.max(0.0))
    ));
    Some(seconds)
}

/// The mix in figures as they are shown.
fn rounded(mix: &LiveMix) -> LiveMix {
    LiveMix {
        seconds: mix.seconds,
        groups: mix
            .groups
            .iter()
            .map(|one| MixEntry {
                full_per_second: rate(one.full_per_second),
                resumed_per_second: rate(one.resumed_per_second),
                ..one.clone()
            })
            .collect(),
        worker_cores: cores(mix.worker_cores),
        tls_cores: cores(mix.tls_cores),
        cores_there_are: cores(mix.cores_there_are),
        growth_cores_per_second: round(mix.growth_cores_per_second, 7),
    }
}

/// To this many digits; 0 for what is no number.
pub(crate) fn round(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    let rounded = (value * factor).round() / factor;
    // Neither a figure that is not one nor minus zero goes out.
    if rounded.is_finite() {
        rounded + 0.0
    } else {
        0.0
    }
}

/// Per second, to a hundredth.
fn rate(value: f64) -> f64 {
    round(value.max(0.0), 2)
}

/// Cores to a millionth: a microsecond of CPU per second.
fn cores(value: f64) -> f64 {
    round(value, 6)
}

/// Cores as text, without noughts at the end.
pub(crate) fn shown(cores: f64) -> String {
    let text = format!("{cores:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
