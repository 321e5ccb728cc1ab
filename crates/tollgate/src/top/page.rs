//! What is shown, as lines of text: the same for a terminal and for `--once`.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use tollgate_console::view::{Live, Past, Portion, Rates};

use super::tables;
use super::text::{self, known};

/// The views, in the order of their keys.
pub const VIEWS: [&str; 5] = ["overview", "phases", "price", "who", "alarms"];

/// Lines of a view.
pub type Lines = Vec<Line<'static>>;

pub(super) const QUIET: Style = Style::new().fg(Color::DarkGray);
pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const GOOD: Style = Style::new().fg(Color::Green);
pub(super) const FRESH: Style = Style::new().fg(Color::Yellow);
pub(super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Phases 1 to 3 and what is not TLS: their colour, and how their part of a bar looks without one.
const PARTS: [(&str, Color, char); 4] = [
    ("asymmetric", Color::Magenta, '█'),
    ("derivation", Color::Blue, '▓'),
    ("records", Color::Cyan, '▒'),
    ("not TLS", Color::DarkGray, '░'),
];

/// Columns of the name in front of each line.
const NAME: usize = 17;

/// One view of what was seen, `width` columns wide.
pub fn view(number: usize, live: &Live, past: &Past, width: usize) -> Lines {
    match number {
        0 => overview(live, past, width),
        1 => tables::phases(live, width),
        2 => price(live, width),
        3 => tables::who(live),
        _ => tables::alarms(live, width),
    }
}

/// Which process this is.
pub fn header(live: &Live) -> Lines {
    let instance = &live.instance;
    let up = text::seconds((live.at_seconds - instance.started_seconds).max(0.0));
    let since = text::seconds((live.at_seconds - instance.config_since_seconds).max(0.0));
    let ledger = match (instance.ledger, instance.ledger_agreement) {
        (false, _) => "ledger off".to_owned(),
        (true, None) => "ledger on".to_owned(),
        (true, Some(agreement)) => format!(
            "ledger explains {} of the workers' CPU",
            text::share(agreement)
        ),
    };
    let firing = live.alarms.iter().filter(|alarm| alarm.state == "firing");
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("Tollgate {}", instance.version), STRONG),
        Span::raw(format!(
            " on {}, up {up}, configuration {} since {since}",
            instance.host, instance.config_hash
        )),
        Span::styled(
            format!(
                "   {} workers on {} cores, {ledger}",
                instance.workers,
                text::fixed(instance.cores, 0)
            ),
            QUIET,
        ),
    ])];
    for alarm in firing {
        let subject = match alarm.subject.as_str() {
            "" => String::new(),
            subject => format!(" ({subject})"),
        };
        lines.push(Line::from(vec![
            Span::styled(format!("! {}{subject}", alarm.name), BAD),
            Span::raw(format!("  {}", alarm.sentence)),
        ]));
    }
    lines
}

fn overview(live: &Live, past: &Past, width: usize) -> Lines {
    let mut lines = rates(live, past, graph_width(width));
    lines.extend(listed("misses", &live.misses, width));
    lines.push(named("", flow(&live.minute)));
    lines.push(Line::default());
    lines.extend(cpu(live, past, width));
    lines.push(Line::default());
    for (name, portions) in [
        ("versions", &live.mixes.versions),
        ("suites", &live.mixes.suites),
        ("groups", &live.mixes.groups),
        ("certificates", &live.mixes.certificates),
    ] {
        lines.extend(listed(name, portions, width));
    }
    lines.push(Line::default());
    lines.push(saved(live));
    lines
}

/// Columns for a graph beside a name and two figures.
fn graph_width(width: usize) -> usize {
    width.saturating_sub(NAME + 26).min(300)
}

/// Handshakes, hit rate and requests: the last second, the minute, and how they went.
fn rates(live: &Live, past: &Past, graph: usize) -> Lines {
    let row = |name: &'static str, style, now: String, mean: String, values: &[f64]| {
        Line::from(vec![
            Span::raw(format!("{name:<NAME$}")),
            Span::styled(format!("{now:>11}"), style),
            Span::styled(format!("{:>13}  ", format!("({mean})")), QUIET),
            Span::styled(text::sparkline(values, graph), style),
        ])
    };
    let rate = |name, style, of: fn(&Rates) -> f64, values: &[f64]| {
        let (now, mean) = (of(&live.second), of(&live.minute));
        row(name, style, text::rate(now), text::rate(mean), values)
    };
    let hits: Vec<f64> = past
        .hit_rate
        .iter()
        .map(|rate| rate.unwrap_or(0.0))
        .collect();
    let length = text::seconds(past.step_seconds * past.at_seconds.len() as f64);
    let names = format!(
        "{:<NAME$}{:>11}{:>13}  the last {length}",
        "", "last second", "(minute)"
    );
    vec![
        Line::styled(names, QUIET),
        rate(
            "full handshakes",
            FRESH,
            |rates| rates.full_per_second,
            &past.full_per_second,
        ),
        rate(
            "resumed",
            GOOD,
            |rates| rates.resumed_per_second,
            &past.resumed_per_second,
        ),
        row(
            "hit rate",
            STRONG,
            known(live.second.hit_rate, text::share),
            known(live.minute.hit_rate, text::share),
            &hits,
        ),
        rate(
            "requests",
            Style::new(),
            |rates| rates.requests_per_second,
            &past.requests_per_second,
        ),
    ]
}

/// The rest of the rates, in a sentence.
fn flow(rates: &Rates) -> String {
    let open = &rates.open;
    format!(
        "{} failed, {} accepted, {} requests per handshake, {}/s in, {}/s out; open: {} http, {} tcp, {} passthrough, {} in handshake",
        text::rate(rates.failed_per_second),
        text::rate(rates.accepted_per_second),
        known(rates.requests_per_handshake, |value| text::fixed(value, 1)),
        text::bytes(rates.client_in_bytes_per_second),
        text::bytes(rates.client_out_bytes_per_second),
        open.http,
        open.tcp,
        open.passthrough,
        open.handshake,
    )
}

/// CPU by phase against the cores that there are, and which phase dominates.
fn cpu(live: &Live, past: &Past, width: usize) -> Lines {
    let cores = &live.minute.cores;
    let parts = [
        cores.asymmetric,
        cores.derivation,
        cores.records,
        cores.not_tls,
    ];
    let all = live.instance.cores.max(f64::MIN_POSITIVE);
    let columns = width.saturating_sub(NAME + 2).clamp(10, 100);
    let mut spans = vec![Span::raw(format!("{:<NAME$}[", "CPU"))];
    let (mut sum, mut drawn) = (0.0, 0);
    for (part, (_, color, fill)) in parts.iter().zip(PARTS) {
        sum += part;
        let until = ((sum / all * columns as f64).round() as usize).min(columns);
        let bar: String = std::iter::repeat_n(fill, until.saturating_sub(drawn)).collect();
        spans.push(Span::styled(bar, Style::new().fg(color)));
        drawn = drawn.max(until);
    }
    spans.push(Span::raw(format!("{:w$}]", "", w = columns - drawn)));
    let mut legend = vec![Span::raw(format!("{:<NAME$}", ""))];
    for (part, (name, color, fill)) in parts.iter().zip(PARTS) {
        legend.push(Span::styled(format!("{fill} "), Style::new().fg(color)));
        legend.push(Span::raw(format!("{name} {}   ", text::cores(*part))));
    }
    legend.push(Span::styled(
        format!(
            "workers {} of {} cores",
            text::cores(cores.workers),
            text::fixed(live.instance.cores, 0)
        ),
        QUIET,
    ));
    let graph = graph_width(width);
    let trend = Line::from(vec![
        Span::raw(format!("{:<NAME$}{:>11}{:>15}", "", "over time", "")),
        Span::styled(text::sparkline(&past.worker_cores, graph), QUIET),
    ]);
    let dominant = match &live.dominant {
        None => "no TLS within the last minute".to_owned(),
        Some(dominant) => format!(
            "phase {}, {}: {} of CPU per second, {} of TLS",
            dominant.phase,
            dominant.name,
            text::micros(dominant.micros_per_second),
            text::share(dominant.share)
        ),
    };
    vec![
        Line::from(spans),
        Line::from(legend),
        trend,
        Line::from(vec![
            Span::raw(format!("{:<NAME$}", "dominates")),
            Span::styled(dominant, STRONG),
        ]),
    ]
}

fn saved(live: &Live) -> Line<'static> {
    let price = &live.price;
    let sentence = format!(
        "resumption saves {} cores; at 50 % hits {}, at 0 % hits {} of {} cores",
        known(price.saved_cores, text::cores),
        known(price.cores_at_half, text::cores),
        known(price.cores_at_zero, text::cores),
        text::fixed(price.cores_there_are, 0),
    );
    named("price of a miss", sentence)
}

fn price(live: &Live, width: usize) -> Lines {
    let price = &live.price;
    let figure = |name: &'static str, value: String| {
        Line::from(vec![
            Span::raw(format!("{name:<34}")),
            Span::styled(value, STRONG),
        ])
    };
    let in_cores =
        |value: Option<f64>| known(value, |value| format!("{} cores", text::cores(value)));
    let mut lines = vec![
        figure("resumption saves now", in_cores(price.saved_cores)),
        figure("needed at 50 % hits", in_cores(price.cores_at_half)),
        figure("needed at 0 % hits", in_cores(price.cores_at_zero)),
        figure("  of which TLS", in_cores(price.tls_cores_at_zero)),
        figure("used now", in_cores(Some(price.cores_now))),
        figure("there are", in_cores(Some(price.cores_there_are))),
        figure("headroom", in_cores(Some(price.headroom_cores))),
        figure(
            "used up, if the load grows on",
            match price.seconds_of_headroom {
                Some(seconds) => format!("in {}", text::seconds(seconds)),
                None => "never: it does not grow".to_owned(),
            },
        ),
        figure(
            "one miss costs, beyond a hit",
            known(price.micros_per_miss, text::micros),
        ),
        Line::default(),
    ];
    for line in &price.arithmetic {
        lines.extend(wrapped(line, width, Style::new()));
    }
    for line in &price.assumptions {
        lines.extend(wrapped(&format!("assumed: {line}"), width, FRESH));
    }
    lines
}

/// A line with its name in front.
fn named(name: &'static str, text: String) -> Line<'static> {
    Line::from(vec![Span::raw(format!("{name:<NAME$}")), Span::raw(text)])
}

/// Parts of a whole, the largest first, as many as there is room for.
fn listed(name: &'static str, portions: &[Portion], width: usize) -> Lines {
    let mut sorted: Vec<&Portion> = portions
        .iter()
        .filter(|portion| portion.per_second > 0.0)
        .collect();
    sorted.sort_by(|one, other| other.share.total_cmp(&one.share));
    let mut text = String::new();
    for portion in sorted {
        let mut one = format!("{} {}", portion.name, text::share(portion.share));
        if let Some(cores) = portion.cores {
            one.push_str(&format!(" ({} cores)", text::cores(cores)));
        }
        if NAME + text.chars().count() + one.chars().count() + 3 > width {
            text.push_str(" …");
            break;
        }
        if !text.is_empty() {
            text.push_str(" · ");
        }
        text.push_str(&one);
    }
    if text.is_empty() {
        text.push_str(text::UNKNOWN);
    }
    vec![named(name, text)]
}

/// `text` broken at spaces, continued lines a little to the right.
pub(super) fn wrapped(text: &str, width: usize, style: Style) -> Lines {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.trim().is_empty() && line.chars().count() + word.chars().count() >= width.max(20) {
            lines.push(Line::styled(std::mem::take(&mut line), style));
            line.push_str("    ");
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(Line::styled(line, style));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the code says of a process that has only just started.
    fn plain(lines: &Lines) -> String {
        lines
            .iter()
            .map(|line| {
                let spans: String = line.spans.iter().map(|span| &*span.content).collect();
                spans + "\n"
            })
            .collect()
    }

    #[test]
    fn every_view_of_a_process_that_has_seen_nothing_can_be_drawn() {
        let (live, past) = (Live::default(), Past::default());
        for width in [0, 20, 80, 400] {
            for number in 0..VIEWS.len() {
                let _ = view(number, &live, &past, width);
            }
            let _ = header(&live);
        }
        assert!(plain(&view(0, &live, &past, 80)).contains("no TLS within the last minute"));
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_cores() {
        let mut live = Live::default();
        live.instance.cores = 2.0;
        live.minute.cores.asymmetric = 0.5;
        live.minute.cores.not_tls = 1.0;
        let text = plain(&cpu(&live, &Past::default(), NAME + 2 + 40));
        let bar = text.lines().next().unwrap();
        assert_eq!(bar.matches('█').count(), 10, "{bar}");
        assert_eq!(bar.matches('░').count(), 20, "{bar}");
        assert_eq!(bar.chars().count(), NAME + 42, "{bar}");
    }

    #[test]
    fn a_long_sentence_is_broken_between_words() {
        let lines = wrapped("one two three four five six seven", 20, Style::new());
        assert_eq!(plain(&lines), "one two three four\n    five six seven\n");
    }
}
