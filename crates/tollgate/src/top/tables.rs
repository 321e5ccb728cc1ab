//! Tables: the six phases, sites, listeners, workers, alarms, certificates.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use tollgate_console::view::{AlarmLive, Live, PhaseBox};

use super::page::{BAD, FRESH, GOOD, Lines, QUIET, STRONG, wrapped};
use super::text::{self, known};

/// Six boxes: what each phase costs, and where each number comes from.
pub fn phases(live: &Live, width: usize) -> Lines {
    let mut lines = Lines::new();
    for phase in &live.boxes {
        one_phase(phase, width, &mut lines);
    }
    lines
}

fn one_phase(phase: &PhaseBox, width: usize, lines: &mut Lines) {
    let headline = &phase.headline;
    lines.push(Line::from(vec![
        Span::styled(format!("{} {}", phase.phase, phase.name), STRONG),
        Span::styled(
            format!("  {}", text::in_unit(headline.value, &headline.unit)),
            GOOD,
        ),
        Span::raw(format!(" {}", headline.label)),
    ]));
    lines.extend(wrapped(&phase.about, width, QUIET));
    let label = phase
        .readings
        .iter()
        .map(|reading| reading.label.chars().count())
        .max()
        .unwrap_or(0);
    for reading in &phase.readings {
        lines.push(Line::from(vec![
            Span::raw(format!(
                "  {:<label$}  {:>13}",
                reading.label,
                text::in_unit(reading.value, &reading.unit)
            )),
            Span::styled(format!("  {}", reading.source), QUIET),
        ]));
    }
    lines.push(Line::default());
}

/// Listeners, sites and workers.
pub fn who(live: &Live) -> Lines {
    let mut lines = table(
        "listeners, over the last minute",
        &["listener", "accepted", "full", "resumed", "established"],
        live.listeners.iter().map(|listener| {
            vec![
                listener.listener.clone(),
                text::rate(listener.accepted_per_second),
                text::rate(listener.full_per_second),
                text::rate(listener.resumed_per_second),
                listener.open.to_string(),
            ]
        }),
    );
    lines.extend(table(
        "sites",
        &[
            "site",
            "full",
            "resumed",
            "hit rate",
            "requests",
            "cores",
            "per full",
            "per resumed",
        ],
        live.sites.iter().map(|site| {
            vec![
                site.site.clone(),
                text::rate(site.full_per_second),
                text::rate(site.resumed_per_second),
                known(site.hit_rate, text::share),
                text::rate(site.requests_per_second),
                text::cores(site.handshake_cores),
                known(site.micros_per_full, text::micros),
                known(site.micros_per_resumed, text::micros),
            ]
        }),
    ));
    lines.extend(table(
        "workers",
        &["worker", "accepted", "handshakes", "requests", "cores"],
        live.workers.iter().map(|worker| {
            vec![
                worker.worker.to_string(),
                text::rate(worker.accepted_per_second),
                text::rate(worker.handshakes_per_second),
                text::rate(worker.requests_per_second),
                text::cores(worker.cores),
            ]
        }),
    ));
    lines.pop();
    if let Some(imbalance) = live.worker_imbalance {
        lines.push(Line::styled(
            format!(
                "the busiest worker accepts {} times the mean; 1 is even",
                text::fixed(imbalance, 2)
            ),
            QUIET,
        ));
    }
    lines
}

/// Alarms, certificates, ticket keys that are not held here, configurations.
pub fn alarms(live: &Live, width: usize) -> Lines {
    let mut lines = vec![Line::styled("alarms", STRONG)];
    for alarm in &live.alarms {
        lines.extend(one_alarm(alarm, live.at_seconds, width));
    }
    lines.push(Line::default());
    lines.extend(table(
        "certificates",
        &["site", "kind", "days left"],
        live.certificates.iter().map(|certificate| {
            vec![
                certificate.site.clone(),
                certificate.certificate.clone(),
                text::fixed(certificate.days_left, 1),
            ]
        }),
    ));
    if !live.unknown_keys.is_empty() {
        lines.extend(table(
            "ticket keys that clients name and that are not held here",
            &["key", "tickets"],
            live.unknown_keys
                .iter()
                .map(|key| vec![key.name.clone(), key.count.to_string()]),
        ));
    }
    lines.extend(table(
        "configurations",
        &[
            "hash",
            "ago",
            "handshakes",
            "hit rate",
            "per handshake",
            "cores",
        ],
        live.configurations.iter().map(|one| {
            vec![
                one.hash.clone(),
                text::seconds((live.at_seconds - one.since_seconds).max(0.0)),
                one.handshakes.to_string(),
                known(one.hit_rate, text::share),
                known(one.micros_per_handshake, text::micros),
                text::cores(one.cores),
            ]
        }),
    ));
    lines.pop();
    lines
}

/// Its state and figures; what it means and what to do where it is not quiet.
fn one_alarm(alarm: &AlarmLive, now: f64, width: usize) -> Lines {
    let style = match alarm.state.as_str() {
        "firing" => BAD,
        "pending" => FRESH,
        _ => QUIET,
    };
    let subject = match alarm.subject.as_str() {
        "" => String::new(),
        subject => format!(" ({subject})"),
    };
    let figures = format!(
        "  {} against {}, for {}",
        text::in_unit(alarm.value, &alarm.unit),
        text::in_unit(Some(alarm.threshold), &alarm.unit),
        text::seconds((now - alarm.since_seconds).max(0.0))
    );
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("  {:<8}", alarm.state), style),
        Span::raw(format!("{}{subject}", alarm.name)),
        Span::styled(figures, QUIET),
    ])];
    if alarm.state != "quiet" {
        for sentence in [&alarm.sentence, &alarm.advice] {
            let room = width.saturating_sub(10);
            lines.extend(indented(wrapped(sentence, room, Style::new())));
        }
    }
    lines
}

fn indented(lines: Lines) -> Lines {
    lines
        .into_iter()
        .map(|mut line| {
            line.spans.insert(0, Span::raw("          "));
            line
        })
        .collect()
}

/// A title, a row of names, the rows, an empty line; the first column to the left, the others to the right.
fn table(
    title: &'static str,
    names: &[&'static str],
    rows: impl Iterator<Item = Vec<String>>,
) -> Lines {
    let rows: Vec<Vec<String>> = rows.collect();
    let width = |column: usize, name: &str| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        longest.max(name.chars().count())
    };
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(column, name)| width(column, name))
        .collect();
    let line = |cells: &[String]| {
        let mut text = String::from("  ");
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            text.push_str(&match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text
    };
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut lines = vec![
        Line::styled(title, STRONG),
        Line::styled(line(&names), QUIET),
    ];
    match rows.is_empty() {
        true => lines.push(Line::styled("  none", QUIET)),
        false => lines.extend(rows.iter().map(|row| Line::raw(line(row)))),
    }
    lines.push(Line::default());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["a".to_owned(), "1,000 /s".to_owned()],
            vec!["longer".to_owned(), "1 /s".to_owned()],
        ];
        let lines = table("things", &["thing", "rate"], rows.into_iter());
        let text: Vec<String> = lines
            .iter()
            .map(|line| line.spans.iter().map(|span| &*span.content).collect())
            .collect();
        assert_eq!(
            text,
            [
                "things",
                "  thing       rate",
                "  a       1,000 /s",
                "  longer      1 /s",
                ""
            ]
        );
    }
}
