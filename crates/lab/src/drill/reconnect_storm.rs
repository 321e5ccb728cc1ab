//! Every held connection is lost and comes back at once.

use std::time::{Duration, Instant};

use super::act::quantile;
use super::report::{Expectation, Report, Storm};
use super::stage::{Subject, alarms};
use super::storm::{Crowd, Weather};
use super::watching::Watching;
use super::{DrillError, DrillOptions, Target, Telling};
use crate::Mode;
use crate::watch::Watched;

/// How often the instance's seconds are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long connections are held before memory is looked at.
const HOLD: Duration = Duration::from_secs(2);
/// Handshakes are counted over so long for their peak.
const BUCKET: Duration = Duration::from_millis(100);

pub(super) fn run(options: &DrillOptions, telling: &Telling<'_>) -> Result<Report, DrillError> {
    let say = telling.progress;
    say("preparing", "an instance", 0.0);
    let subject = Subject::new(options, alarms(options, ", hit_rate_below: off"))?;
    let watching =
        Watching::start(subject.console(), LOOK).map_err(|source| DrillError::System {
            what: "no thread to watch the instance".into(),
            source,
        })?;
    let mut load = subject.load(Mode::Hold);
    load.hit_rate = options.hit_rate;
    load.connections = 1;
    let mut crowd = Crowd::gather(load, options.held)?;
    let mut held = 0;
    while let Some(more) = crowd.held() {
        held = held.max(more);
        let share = held as f64 / options.held as f64;
        say(
            "gathering",
            &format!("{held} connections are held"),
            0.6 * share,
        );
        pause(telling)?;
    }
    let process = Watched::new(&subject.pid().into_iter().collect::<Vec<_>>());
    let until = Instant::now() + HOLD;
    while Instant::now() < until && !crowd.is_over() {
        say("holding", &format!("{} connections", options.held), 0.7);
        pause(telling)?;
    }
    let mut storm = Storm {
        connections: options.held as u64,
        memory_held_bytes: memory(&process),
        ..Storm::default()
    };

    let began = Instant::now();
    crowd.storm();
    while !crowd.is_over() {
        say("storm", "all come back at once", 0.8);
        storm.memory_peak_bytes = storm.memory_peak_bytes.max(memory(&process));
        if let Some((handshakes, bytes)) = subject.console().in_flight() {
            storm.most_handshakes_in_flight = storm.most_handshakes_in_flight.max(handshakes);
            let before = storm.handshake_bytes_at_peak.unwrap_or_default();
            storm.handshake_bytes_at_peak = Some(bytes.max(before));
        }
        pause(telling)?;
    }
    let weather = crowd.end()?;
    // The last second is told of when it is over.
    let until = Instant::now() + Duration::from_millis(2_300);
    while Instant::now() < until {
        say("storm", "over", 0.95);
        pause(telling)?;
    }
    measure(&mut storm, &weather);
    Ok(report(options, &subject, &watching, storm, &weather, began))
}

fn pause(telling: &Telling<'_>) -> Result<(), DrillError> {
    std::thread::sleep(Duration::from_millis(20));
    match (telling.stopped)() {
        true => Err(DrillError::Stopped),
        false => Ok(()),
    }
}

fn memory(process: &Watched) -> Option<u64> {
    (!process.is_empty()).then(|| process.memory_bytes())
}

fn measure(storm: &mut Storm, weather: &Weather) {
    let mut times: Vec<(u64, u64)> = weather
        .back
        .iter()
        .map(|back| (back.answered.as_micros() as u64, 1))
        .collect();
    times.sort_unstable();
    storm.p50_micros = quantile(&times, 0.5);
    storm.p99_micros = quantile(&times, 0.99);
    storm.all_back_seconds = times.last().map_or(0.0, |(micros, _)| *micros as f64 / 1e6);
    storm.peak_handshakes_per_second = peak(weather);
    storm.failures = weather.lost + weather.failures.values().sum::<u64>();
    let resumed = weather.back.iter().filter(|back| back.resumed).count();
    storm.hit_rate = (!weather.back.is_empty()).then(|| resumed as f64 / weather.back.len() as f64);
}

/// Handshakes per second in the busiest tenth of a second.
fn peak(weather: &Weather) -> f64 {
    let mut buckets: Vec<u32> = Vec::new();
    for back in &weather.back {
        let bucket = (back.shaken.as_millis() / BUCKET.as_millis()) as usize;
        if buckets.len() <= bucket {
            buckets.resize(bucket + 1, 0);
        }
        buckets[bucket] += 1;
    }
    let most = buckets.into_iter().max().unwrap_or(0);
    f64::from(most) / BUCKET.as_secs_f64()
}

fn report(
    options: &DrillOptions,
    subject: &Subject,
    watching: &Watching,
    storm: Storm,
    weather: &Weather,
    began: Instant,
) -> Report {
    let live = watching.latest().unwrap_or_default();
    let mut notes: Vec<String> = weather
        .failures
        .iter()
        .map(|(reason, count)| format!("{count} tries failed: {reason}"))
        .collect();
    if matches!(options.target, Target::Own) {
        notes.push(
            "load and instance share this machine, so both limit how fast all are back".into(),
        );
        notes.push(
            "the alarm for hit rates is off: opening the connections that are held is all misses"
                .into(),
        );
    }
    let expectations = vec![
        Expectation::at_most(
            "connections and tries that failed",
            Some(storm.failures as f64),
            0.0,
            "count",
        ),
        Expectation::at_least(
            "connections that came back",
            Some(weather.back.len() as f64),
            options.held as f64,
            "count",
        ),
        Expectation::at_least(
            "handshakes that resume",
            storm.hit_rate,
            (options.hit_rate - 0.02).max(0.0),
            "share",
        ),
        Expectation::at_most(
            "all are back after",
            (weather.lost == 0).then_some(storm.all_back_seconds),
            options.patience.as_secs_f64(),
            "seconds",
        ),
    ];
    Report {
        drill: options.drill.name(),
        about: options.drill.about(),
        instance: subject.describe(&live),
        load: format!(
            "{} connections held; all are reset and made anew at once, {:.0} % of them with a ticket",
            options.held,
            100.0 * options.hit_rate
        ),
        acts: Vec::new(),
        alarms: watching.alarms(began, began),
        recovery: Vec::new(),
        forecast: None,
        storm: Some(storm),
        said: Vec::new(),
        expectations,
        notes,
        curve: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::storm::Back;
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_busiest_tenth_of_a_second() {
        let back = |millis| Back {
            shaken: Duration::from_millis(millis),
            answered: Duration::from_millis(millis + 5),
            resumed: millis % 2 == 0,
        };
        let weather = Weather {
            back: [10, 20, 110, 120, 130, 350].map(back).to_vec(),
            ..Weather::default()
        };
        assert!((peak(&weather) - 30.0).abs() < 1e-9);
        let mut storm = Storm::default();
        measure(&mut storm, &weather);
        assert!((storm.all_back_seconds - 0.355).abs() < 1e-9);
        assert_eq!(storm.p50_micros, Some(115_000));
        assert_eq!(storm.failures, 0);
    }
}
