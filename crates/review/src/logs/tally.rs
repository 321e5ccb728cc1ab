//! Lines added up, in memory that does not grow with their number.

use std::collections::{BTreeMap, HashMap};

use super::advice::{Missing, missing};
use super::fields::{Field, Fields};
use super::format::{Format, Product};
use super::recent::{Counted, Recent};
use super::report::{Count, Dip, Interval, Report, Strange};
use super::time::Moment;

/// With fewer handshakes the hit rate of an interval says little; 20 tell it to about 10 points.
pub const ENOUGH_HANDSHAKES: u64 = 20;
/// Widths of an interval in seconds; each is a multiple of the one before.
const WIDTHS: [i64; 12] = [
    10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 86_400, 604_800, 2_419_200,
];
/// Rows that a person still reads.
const ROWS: i64 = 40;
/// Intervals that are kept at most; then they become wider.
const MOST_INTERVALS: usize = 20_000;
/// Names that are kept at most of each kind; clients choose what they send.
const MOST_NAMES: usize = 10_000;
/// A name is cut after this many bytes, the longest that DNS has.
const LONGEST_NAME_BYTES: usize = 253;
/// What names beyond [`MOST_NAMES`] are counted under.
const OTHERS: &str = "(others)";
/// Points below the median from which on an interval is part of a dip.
const DIP: f64 = 0.20;

/// How a log is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its format; `None` to let the first line that fits one decide.
    pub format: Option<Format>,
    /// Width of an interval in seconds; `None` for one that makes at most about 40 rows.
    pub every_seconds: Option<i64>,
    /// Lines before this are left out.
    pub since: Option<Moment>,
    /// Lines from this on are left out.
    pub until: Option<Moment>,
}

/// Full, resumed, not told.
type Cell = [u64; 3];

/// Lines, added up.
#[derive(Debug)]
pub struct Tally {
    options: Options,
    read: u64,
    number: u64,
    understood: u64,
    strange: u64,
    examples: Vec<Strange>,
    outside: u64,
    without_tls: u64,
    known: u64,
    failed: u64,
    untimed: u64,
    first: Option<Moment>,
    last: Option<Moment>,
    all: Cell,
    versions: HashMap<String, Cell>,
    suites: HashMap<String, Cell>,
    sites: HashMap<String, Cell>,
    width: i64,
    intervals: BTreeMap<i64, Cell>,
    recent: Recent,
    counted: Option<Counted>,
}

impl Tally {
    /// Nothing read yet.
    pub fn new(options: Options) -> Self {
        let width = options.every_seconds.unwrap_or(WIDTHS[0]).max(1);
        Self {
            options,
            read: 0,
            number: 0,
            understood: 0,
            strange: 0,
            examples: Vec::new(),
            outside: 0,
            without_tls: 0,
            known: 0,
            failed: 0,
            untimed: 0,
            first: None,
            last: None,
            all: [0; 3],
            versions: HashMap::new(),
            suites: HashMap::new(),
            sites: HashMap::new(),
            width,
            intervals: BTreeMap::new(),
            recent: Recent::default(),
            counted: None,
        }
    }

    /// Takes a line, with or without its end.
    pub fn line(&mut self, line: &[u8]) {
        self.number += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.read += 1;
        let text = String::from_utf8_lossy(line);
        if self.options.format.is_none() {
            self.options.format = Format::detect(&text);
        }
        let fields = match &self.options.format {
            Some(format) => format.read(&text),
            None => {
                Err("of no format that is known; name it with --format or --log-format".to_owned())
            }
        };
        match fields {
            Ok(fields) => self.understand(&fields),
            Err(why) => self.wonder(why, &text),
        }
    }

    /// Takes note of a line that was too long to be handed in.
    pub fn too_long(&mut self, beginning: &[u8]) {
        self.number += 1;
        self.read += 1;
        let why = format!("longer than {} bytes", super::LONGEST_LINE_BYTES);
        self.wonder(why, &String::from_utf8_lossy(beginning));
    }

    fn wonder(&mut self, why: String, text: &str) {
        self.strange += 1;
        if self.examples.len() < 3 {
            let plain = |character: char| match character.is_control() {
                true => '\u{fffd}',
                false => character,
            };
            self.examples.push(Strange {
                line: self.number,
                why,
                text: text.chars().take(100).map(plain).collect(),
            });
        }
    }

    fn understand(&mut self, fields: &Fields<'_>) {
        self.understood += 1;
        let is_outside = |time: Moment| {
            self.options.since.is_some_and(|since| time < since)
                || self.options.until.is_some_and(|until| time >= until)
        };
        let is_period_asked = self.options.since.is_some() || self.options.until.is_some();
        if fields.time.map_or(is_period_asked, is_outside) {
            self.outside += 1;
            return;
        }
        if let Some(time) = fields.time {
            self.first = Some(self.first.map_or(time, |first| first.min(time)));
            self.last = Some(self.last.map_or(time, |last| last.max(time)));
        }
        match fields.event.as_deref() {
            Some("handshake_failed") => {
                self.failed += 1;
                return;
            }
            _ if !fields.is_tls() => {
                self.without_tls += 1;
                return;
            }
            _ => {}
        }
        let (is_first, counted) = self.recent.is_first(fields);
        // A log that mixes them is only as good as its worst lines.
        self.counted = match self.counted {
            Some(Counted::Lines) => Some(Counted::Lines),
            _ => Some(counted),
        };
        if is_first {
            self.handshake(fields);
        } else {
            self.known += 1;
        }
    }

    fn handshake(&mut self, fields: &Fields<'_>) {
        let kind = match fields.resumed {
            Some(false) => 0,
            Some(true) => 1,
            None => 2,
        };
        self.all[kind] += 1;
        for (names, name) in [
            (&mut self.versions, fields.version.as_deref()),
            (&mut self.suites, fields.suite.as_deref()),
            (&mut self.sites, fields.site()),
        ] {
            if let Some(name) = name {
                named(names, name)[kind] += 1;
            }
        }
        let Some(time) = fields.time else {
            self.untimed += 1;
            return;
        };
        let start = time.0.div_euclid(1_000).div_euclid(self.width) * self.width;
        self.intervals.entry(start).or_default()[kind] += 1;
        if self.intervals.len() > MOST_INTERVALS {
            let wider = WIDTHS
                .into_iter()
                .find(|width| *width > self.width && width % self.width == 0);
            let wider = wider.unwrap_or(self.width.saturating_mul(10));
            self.intervals = widened(&self.intervals, wider);
            self.width = wider;
        }
    }

    /// Handshakes so far.
    pub fn handshakes(&self) -> u64 {
        self.all.iter().sum()
    }

    /// What the lines so far say.
    pub fn report(&self) -> Report {
        let width = self.final_width();
        let cells = widened(&self.intervals, width);
        let intervals: Vec<Interval> = cells
            .iter()
            .map(|(start, cell)| interval(*start, cell, width))
            .collect();
        let median = median(&intervals);
        let worst = enough(&intervals).min_by(|one, other| one.1.total_cmp(&other.1));
        let mut by_site = sorted(&self.sites);
        let sites_more = by_site.len().saturating_sub(10);
        by_site.truncate(10);
        let seconds = |(first, last): (Moment, Moment)| last.seconds_since(first);
        Report {
            format: self.options.format.as_ref().map(Format::name),
            product: self.product(),
            lines_read: self.read,
            lines_understood: self.understood,
            lines_strange: self.strange,
            strange: self.examples.clone(),
            lines_outside: self.outside,
            lines_without_tls: self.without_tls,
            lines_of_known_connections: self.known,
            from: self.first.map(|time| time.to_string()),
            until: self.last.map(|time| time.to_string()),
            period_seconds: self.first.zip(self.last).map(seconds),
            handshakes: count(String::new(), &self.all),
            handshakes_failed: self.failed,
            counted_by: self.counted_by(),
            by_version: sorted(&self.versions),
            by_suite: sorted(&self.suites),
            by_site,
            sites_more,
            interval_seconds: width,
            worst: worst.map(|(interval, _)| interval.clone()),
            hit_rate_median: median,
            dips: median.map_or_else(Vec::new, |median| dips(&cells, &intervals, width, median)),
            intervals,
            missing: self.missing(),
        }
    }

    fn product(&self) -> Product {
        let format = self.options.format.as_ref();
        format.map_or(Product::Unknown, Format::product)
    }

    fn final_width(&self) -> i64 {
        let span = self
            .intervals
            .first_key_value()
            .zip(self.intervals.last_key_value());
        let Some(((first, _), (last, _))) = span else {
            return self.width;
        };
        if self.options.every_seconds.is_some() {
            return self.width;
        }
        let fits = |width: &i64| *width >= self.width && last.saturating_sub(*first) / width < ROWS;
        WIDTHS
            .into_iter()
            .find(fits)
            .unwrap_or(WIDTHS[11].max(self.width))
    }

    fn counted_by(&self) -> &'static str {
        match self.counted {
            Some(Counted::FirstRequests) => {
                "the first request of each connection, by its number of requests"
            }
            Some(Counted::Connections) => "each number of a connection once",
            Some(Counted::Clients) => {
                "each client address and port once, until 75 s of silence or another handshake"
            }
            Some(Counted::Lines) => {
                "every line: the log does not tell connections apart, so requests were counted"
            }
            None => "no line tells of TLS",
        }
    }

    /// What no line told, where there were lines.
    fn missing(&self) -> Vec<Missing> {
        let handshakes = self.handshakes();
        if self.understood == self.outside || self.understood == 0 {
            return Vec::new();
        }
        let format = self.options.format.as_ref();
        let named = |field| format.and_then(|format| format.names(field)) == Some(true);
        let resumed = self.all[0] + self.all[1] == 0;
        let tests = [
            (
                resumed && !named(Field::Resumed),
                "whether a handshake resumed",
            ),
            (
                self.versions.is_empty() && !named(Field::Version),
                "the TLS version",
            ),
            (
                self.suites.is_empty() && !named(Field::Suite),
                "the cipher suite",
            ),
            (
                self.sites.is_empty() && handshakes > 0 && !named(Field::ServerName),
                "the site",
            ),
            (self.first.is_none(), "when it was"),
            (
                self.counted == Some(Counted::Lines),
                "which requests share a connection",
            ),
        ];
        let product = self.product();
        tests
            .into_iter()
            .filter(|(is_missing, _)| *is_missing)
            .map(|(_, what)| missing(what, product))
            .collect()
    }
}

/// The cell of a name; those beyond the limit share one.
fn named<'a>(names: &'a mut HashMap<String, Cell>, name: &str) -> &'a mut Cell {
    let mut end = name.len().min(LONGEST_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = &name[..end];
    let name = match names.len() >= MOST_NAMES && !names.contains_key(name) {
        true => OTHERS,
        false => name,
    };
    if !names.contains_key(name) {
        names.insert(name.to_owned(), [0; 3]);
    }
    names.entry(name.to_owned()).or_default()
}

fn count(name: String, [full, resumed, not_told]: &Cell) -> Count {
    let told = full + resumed;
    Count {
        name,
        full: *full,
        resumed: *resumed,
        not_told: *not_told,
        hit_rate: (told > 0).then(|| *resumed as f64 / told as f64),
    }
}

/// Most handshakes first, then by name.
fn sorted(names: &HashMap<String, Cell>) -> Vec<Count> {
    let mut counts: Vec<Count> = names
        .iter()
        .map(|(name, cell)| count(name.clone(), cell))
        .collect();
    counts.sort_by(|one, other| other.all().cmp(&one.all()).then(one.name.cmp(&other.name)));
    counts
}

fn widened(intervals: &BTreeMap<i64, Cell>, width: i64) -> BTreeMap<i64, Cell> {
    let mut wider: BTreeMap<i64, Cell> = BTreeMap::new();
    for (start, cell) in intervals {
        let into = wider.entry(start.div_euclid(width) * width).or_default();
        for (sum, more) in into.iter_mut().zip(cell) {
            *sum += more;
        }
    }
    wider
}

fn interval(start: i64, cell: &Cell, width: i64) -> Interval {
    let count = count(String::new(), cell);
    Interval {
        start: Moment(start.saturating_mul(1_000)).to_string(),
        handshakes_per_second: count.all() as f64 / width as f64,
        count,
    }
}

/// Intervals whose hit rate means something, with it.
fn enough(intervals: &[Interval]) -> impl Iterator<Item = (&Interval, f64)> {
    intervals
        .iter()
        .filter(|interval| interval.count.full + interval.count.resumed >= ENOUGH_HANDSHAKES)
        .filter_map(|interval| Some((interval, interval.count.hit_rate?)))
}

fn median(intervals: &[Interval]) -> Option<f64> {
    let mut rates: Vec<f64> = enough(intervals).map(|(_, rate)| rate).collect();
    rates.sort_by(f64::total_cmp);
    let middle = rates.len() / 2;
    match rates.len() % 2 {
        _ if rates.is_empty() => None,
        0 => Some(f64::midpoint(rates[middle - 1], rates[middle])),
        _ => Some(rates[middle]),
    }
}

/// Intervals far below the median, neighbours as one.
fn dips(cells: &BTreeMap<i64, Cell>, intervals: &[Interval], width: i64, median: f64) -> Vec<Dip> {
    let mut dips: Vec<Dip> = Vec::new();
    let mut end = None;
    for (start, interval) in cells.keys().zip(intervals) {
        let told = interval.count.full + interval.count.resumed;
        let low = interval.count.hit_rate.filter(|rate| median - rate > DIP);
        let Some(rate) = low.filter(|_| told >= ENOUGH_HANDSHAKES) else {
            continue;
        };
        match dips.last_mut() {
            Some(dip) if end == Some(*start) => {
                let handshakes = dip.handshakes_per_second * dip.seconds as f64;
                dip.seconds += width;
                dip.handshakes_per_second =
                    (handshakes + interval.count.all() as f64) / dip.seconds as f64;
                dip.hit_rate_lowest = dip.hit_rate_lowest.min(rate);
            }
            _ => dips.push(Dip {
                start: interval.start.clone(),
                seconds: width,
                hit_rate_lowest: rate,
                handshakes_per_second: interval.handshakes_per_second,
            }),
        }
        end = Some(start + width);
    }
    dips
}
