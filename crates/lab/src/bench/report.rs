//! A sheet as one HTML page that needs nothing but itself: tables, charts, and what is said elsewhere.

use std::fmt::Write;

use tollgate_cost::{Figure, PhaseTable, Sheet, Unit};

use super::chart::{self, Bar, escaped};
use super::{conclusions, folk, matrix, text};

const STYLE: &str = include_str!("report.css");

/// What each phase is, and when it is paid.
const ABOUT: [&str; 6] = [
    "Signatures and key exchange. The signature is paid by every full handshake, the key exchange by every full one and, in TLS 1.3, by resumed ones too.",
    "Key schedule, transcript, certificate checks, tickets, and whole handshakes in memory. Paid per handshake.",
    "Sealing and opening records. Paid per byte.",
    "What a handshake holds while it lasts. Handshakes in flight are rate times duration.",
    "What an idle established connection holds, in the program and in the kernel.",
    "Sessions, look-ups and tickets: the price of being able to resume.",
];

/// The page. The same sheet gives the same page, byte for byte.
pub fn html(sheet: &Sheet) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>What TLS costs on {cpu}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        cpu = escaped(&sheet.machine.cpu),
    );
    page.push_str(&head(sheet));
    page.push_str(&follows(sheet));
    for table in &sheet.phases {
        page.push_str(&phase(sheet, table));
    }
    page.push_str(&published(sheet));
    page.push_str("</body>\n</html>\n");
    page
}

fn head(sheet: &Sheet) -> String {
    let machine = &sheet.machine;
    let mut page = format!(
        "<h1>What TLS costs here</h1>\n<p class=\"lead\">{}, measured {}</p>\n<dl>\n",
        escaped(&machine.cpu),
        escaped(&sheet.made)
    );
    for (name, value) in [
        (
            "Machine",
            format!(
                "{} core{}, {} GB, {}",
                machine.cores,
                if machine.cores == 1 { "" } else { "s" },
                machine.memory_bytes >> 30,
                machine.architecture
            ),
        ),
        ("CPU flags", machine.cpu_flags.join(" ")),
        ("Kernel", machine.kernel.clone()),
        ("Provider", sheet.provider.clone()),
        ("Tollgate", sheet.tollgate.clone()),
        (
            "Clock",
            format!(
                "reading it takes {:.0} ns, which is taken off",
                sheet.clock_nanoseconds
            ),
        ),
        (
            "Steadiness",
            format!(
                "the machine drifted by ±{} between {} readings of a fixed piece of work",
                text::percent(sheet.steadiness.drift()),
                sheet.steadiness.readings
            ),
        ),
    ] {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    page.push_str("</dl>\n<nav>\n");
    for table in &sheet.phases {
        let _ = writeln!(
            page,
            "<a href=\"#phase-{0}\">{0} {1}</a>",
            table.phase,
            escaped(&table.name)
        );
    }
    page.push_str(
        "<a href=\"#published\">published figures</a>\n</nav>\n\
         <p class=\"note\"><span class=\"key measured\"></span>median, CPU time of one thread\
         <span class=\"key spread\"></span>spread: holds the true median in 95 of 100 runs\
         <span class=\"key said\"></span>published elsewhere</p>\n",
    );
    page
}

fn follows(sheet: &Sheet) -> String {
    let lines = conclusions::conclusions(sheet);
    if lines.is_empty() {
        return String::new();
    }
    let mut page = String::from("<h2>What follows</h2>\n<ul>\n");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escaped(&line));
    }
    page.push_str("</ul>\n");
    page
}

fn phase(sheet: &Sheet, table: &PhaseTable) -> String {
    let about = usize::from(table.phase)
        .checked_sub(1)
        .and_then(|place| ABOUT.get(place))
        .copied()
        .unwrap_or_default();
    let mut page = format!(
        "<h2 id=\"phase-{0}\">Phase {0}: {1}</h2>\n<p class=\"lead\">{about} Measured in {2:.0} s.</p>\n",
        table.phase,
        escaped(&table.name),
        table.seconds.max(1.0)
    );
    for group in groups(table) {
        let rows: Vec<Bar> = group
            .rows
            .iter()
            .map(|(label, figure)| Bar {
                label: label.clone(),
                measured: figure.measured,
                published: figure
                    .reference
                    .as_ref()
                    .map(|found| (found.low, found.high)),
            })
            .collect();
        let drawn = chart::bars(&group.title, &rows, group.unit);
        if !drawn.is_empty() {
            let _ = write!(
                page,
                "<h3>{}</h3>\n{drawn}",
                escaped(&capital(&group.title))
            );
        }
    }
    let plain: Vec<&Figure> = table
        .figures
        .iter()
        .filter(|figure| !matrix::belongs(figure))
        .collect();
    let alike = text::not_told_apart(sheet, &plain);
    if !alike.is_empty() {
        page.push_str("<p class=\"note\">Not told apart here:</p>\n<ul class=\"note\">\n");
        for group in alike {
            let _ = writeln!(page, "<li>{}</li>", escaped(&group.join("; ")));
        }
        page.push_str("</ul>\n");
    }
    page.push_str(&figures(table));
    page
}

fn figures(table: &PhaseTable) -> String {
    let mut page = String::from(
        "<details><summary>Figures, and how each was measured</summary>\n<table>\n<thead><tr><th></th>\
         <th class=\"number\">median</th><th class=\"number\">±</th><th class=\"number\">n</th>\
         <th class=\"number\">one core does</th><th class=\"number\">published</th><th>how</th></tr></thead>\n<tbody>\n",
    );
    for figure in &table.figures {
        let source = figure.reference.as_ref().map_or_else(String::new, |found| {
            format!(" Published: {}.", found.source)
        });
        let _ = writeln!(
            page,
            "<tr><td>{}</td>{}{}{}{}{}<td class=\"how\" data-name=\"how\">{}{}</td></tr>",
            escaped(&figure.label),
            number("median", &text::value(&figure.measured, figure.unit)),
            number("±", &text::spread(&figure.measured)),
            number("n", &figure.measured.n.to_string()),
            number("one core does", &text::rate(figure).unwrap_or_default()),
            number("published", &text::published_value(figure)),
            escaped(&figure.how),
            escaped(&source),
        );
    }
    page.push_str("</tbody>\n</table>\n</details>\n");
    page
}

fn published(sheet: &Sheet) -> String {
    let mut page = String::from(
        "<h2 id=\"published\">Published figures beside this machine's</h2>\n\
         <p class=\"lead\">What is said of other machines and other years. Shown, and never computed with.</p>\n\
         <table>\n<thead><tr><th></th><th class=\"number\">published</th><th class=\"number\">here</th>\
         <th class=\"number\">here / published</th><th>source</th></tr></thead>\n<tbody>\n",
    );
    for row in folk::beside(sheet) {
        let ratio = folk::off_by(&row);
        let remark = row
            .remark
            .as_ref()
            .map_or_else(String::new, |remark| format!("; {remark}"));
        let _ = writeln!(
            page,
            "<tr><td>{}</td>{}{}<td class=\"number{}\" data-name=\"here / published\">{}</td><td class=\"how\" data-name=\"source\">{}{}</td></tr>",
            escaped(&row.what),
            number(
                "published",
                &text::range(row.published_low, row.published_high, row.unit)
            ),
            number(
                "here",
                &row.measured.map_or_else(
                    || "not measured".into(),
                    |found| text::value(&found, row.unit)
                )
            ),
            if ratio.is_empty() || ratio == "agrees" {
                ""
            } else {
                " off"
            },
            escaped(&ratio),
            escaped(&row.source),
            escaped(&remark),
        );
    }
    page.push_str("</tbody>\n</table>\n<h3>Sayings that need no measurement</h3>\n<ul>\n");
    for correction in folk::corrections() {
        let _ = writeln!(
            page,
            "<li>Said: {}. True: {}.</li>",
            escaped(correction.said),
            escaped(correction.true_is)
        );
    }
    page.push_str("</ul>\n");
    page
}

fn number(name: &str, value: &str) -> String {
    if value.is_empty() {
        return "<td class=\"number\"></td>".into();
    }
    format!(
        "<td class=\"number\" data-name=\"{}\">{}</td>",
        escaped(name),
        escaped(value)
    )
}

/// Figures that belong in one chart.
struct Group<'a> {
    key: String,
    title: String,
    unit: Unit,
    rows: Vec<(String, &'a Figure)>,
}

/// One chart for the same kind and unit. Whole handshakes are apart by version, kind and side, their parts
/// by handshake; everything else goes by the first word of its id, records and tickets by the second too.
fn groups(table: &PhaseTable) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for figure in &table.figures {
        let (key, title, label) = if let Some(place) = matrix::place(figure) {
            let title = format!("{}, {}", place.version, matrix::COLUMNS[place.column].2);
            (title.clone(), Some(title), place.row)
        } else if let Some(part) = matrix::part(figure) {
            let title = format!("Parts of {}", part.of);
            (title.clone(), Some(title), part.name)
        } else {
            (kind(&figure.id), None, figure.label.clone())
        };
        match groups
            .iter_mut()
            .find(|group| group.key == key && group.unit == figure.unit)
        {
            Some(group) => group.rows.push((label, figure)),
            None => groups.push(Group {
                key,
                title: title.unwrap_or_default(),
                unit: figure.unit,
                rows: vec![(label, figure)],
            }),
        }
    }
    for group in &mut groups {
        if group.title.is_empty() {
            name(group);
        }
    }
    groups
}

fn kind(id: &str) -> String {
    let mut words = id.split('/');
    match (words.next().unwrap_or_default(), words.next()) {
        (first @ ("record" | "ticket" | "handshake"), Some(second)) => format!("{first} {second}"),
        (first, _) => first.to_owned(),
    }
}

/// Takes the words that all labels begin with as the title; a chart without such words is called by the
/// kind of its figures, and a chart of one by its label.
fn name(group: &mut Group<'_>) {
    if let [(label, _)] = &mut group.rows[..] {
        group.title = std::mem::take(label);
        return;
    }
    let first: Vec<String> = group.rows[0].0.split(", ").map(Into::into).collect();
    let shared = (0..first.len().saturating_sub(1))
        .take_while(|place| {
            group
                .rows
                .iter()
                .all(|(label, _)| label.split(", ").nth(*place) == Some(first[*place].as_str()))
        })
        .count();
    let whole = group
        .rows
        .iter()
        .any(|(label, _)| label.split(", ").count() <= shared);
    if shared == 0 || whole {
        group.title = group.key.replace('-', " ");
        return;
    }
    group.title = first[..shared].join(", ");
    for (label, _) in &mut group.rows {
        *label = label
            .split(", ")
            .skip(shared)
            .collect::<Vec<_>>()
            .join(", ");
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
