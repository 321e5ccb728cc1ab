//! Whole handshakes as a matrix: one row per certificate, group and suite; full and resumed, server and
//! client side by side.

use comfy_table::Cell;
use tollgate_cost::{Figure, Sheet};

use super::text;

/// Kind and side in ids, and what the column is called.
pub const COLUMNS: [(&str, &str, &str); 4] = [
    ("full", "server", "full, server"),
    ("resumed", "server", "resumed, server"),
    ("full", "client", "full, client"),
    ("resumed", "client", "resumed, client"),
];

/// Where a figure belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Version of TLS, for people.
    pub version: String,
    /// Certificate, group and suite, for people.
    pub row: String,
    /// Index of the column.
    pub column: usize,
}

/// The place of `handshake/VERSION/CERTIFICATE/GROUP/SUITE/KIND/SIDE`; `None` for anything else.
pub fn place(figure: &Figure) -> Option<Place> {
    let id: Vec<&str> = figure.id.split('/').collect();
    let ["handshake", _, _, _, _, kind, side] = id[..] else {
        return None;
    };
    let column = COLUMNS
        .iter()
        .position(|(known, end, _)| *known == kind && *end == side)?;
    let label: Vec<&str> = figure.label.split(", ").collect();
    let ["handshake", version, row @ .., _, _] = &label[..] else {
        return None;
    };
    Some(Place {
        version: (*version).to_owned(),
        row: row.join(", "),
        column,
    })
}

/// A part of a handshake: `handshake/VERSION/CERTIFICATE/GROUP/SUITE/KIND/SIDE/PART`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The handshake and its side, for people.
    pub of: String,
    /// What the part is called.
    pub name: String,
}

/// What `figure` is a part of; `None` for anything else.
pub fn part(figure: &Figure) -> Option<Part> {
    if figure.id.split('/').count() != 8 || !figure.id.starts_with("handshake/") {
        return None;
    }
    let (of, name) = figure.label.rsplit_once(": ")?;
    Some(Part {
        of: of.trim_start_matches("handshake, ").to_owned(),
        name: name.to_owned(),
    })
}

/// Whether `figure` is a whole handshake or a part of one.
pub fn belongs(figure: &Figure) -> bool {
    place(figure).is_some() || part(figure).is_some()
}

/// One matrix per version, each with the rows that a column does not tell apart.
pub fn text(sheet: &Sheet, figures: &[&Figure]) -> String {
    let placed: Vec<(Place, &Figure)> = figures
        .iter()
        .filter_map(|figure| Some((place(figure)?, *figure)))
        .collect();
    let mut versions: Vec<&str> = Vec::new();
    for (place, _) in &placed {
        if !versions.contains(&place.version.as_str()) {
            versions.push(&place.version);
        }
    }
    let matrices = versions.iter().map(|version| {
        let of: Vec<&(Place, &Figure)> = placed
            .iter()
            .filter(|(place, _)| place.version == **version)
            .collect();
        one(sheet, version, &of)
    });
    matrices
        .chain(parts(figures))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Where the time of a side goes, one table for each handshake that was taken apart.
fn parts(figures: &[&Figure]) -> Vec<String> {
    let mut wholes: Vec<(String, Vec<(String, &Figure)>)> = Vec::new();
    for figure in figures {
        let Some(Part { of, name }) = part(figure) else {
            continue;
        };
        match wholes.iter_mut().find(|(known, _)| *known == of) {
            Some((_, parts)) => parts.push((name, figure)),
            None => wholes.push((of, vec![(name, figure)])),
        }
    }
    wholes
        .into_iter()
        .map(|(of, parts)| {
            let all: f64 = parts.iter().map(|(_, part)| part.measured.median).sum();
            let mut table = text::plain_table();
            table.set_header([of.as_str(), "", "share"].map(text::right));
            for (name, part) in parts {
                table.add_row([
                    Cell::new(name),
                    text::right(with_spread(part)),
                    text::right(text::percent(part.measured.median / all)),
                ]);
            }
            text::indented(&table)
        })
        .collect()
}

fn one(sheet: &Sheet, version: &str, placed: &[&(Place, &Figure)]) -> String {
    let mut rows: Vec<(&str, [Option<&Figure>; COLUMNS.len()])> = Vec::new();
    for (place, figure) in placed {
        if !rows.iter().any(|(row, _)| *row == place.row) {
            rows.push((&place.row, [None; COLUMNS.len()]));
        }
        if let Some((_, cells)) = rows.iter_mut().find(|(row, _)| *row == place.row) {
            cells[place.column] = Some(figure);
        }
    }
    let mut table = text::plain_table();
    table.set_header(
        std::iter::once(version)
            .chain(COLUMNS.iter().map(|(.., title)| *title))
            .map(text::right),
    );
    for (row, cells) in &rows {
        table.add_row(
            std::iter::once(Cell::new(row)).chain(
                cells
                    .iter()
                    .map(|cell| text::right(cell.map_or_else(|| "-".into(), with_spread))),
            ),
        );
    }
    let mut all = text::indented(&table);
    for (column, (.., title)) in COLUMNS.iter().enumerate() {
        let figures: Vec<&Figure> = rows.iter().filter_map(|(_, cells)| cells[column]).collect();
        for group in text::alike(sheet, figures) {
            let names: Vec<&str> = group
                .iter()
                .filter_map(|figure| {
                    rows.iter()
                        .find(|(_, cells)| cells[column] == Some(*figure))
                        .map(|(row, _)| *row)
                })
                .collect();
            all.push_str(&text::wrapped(&format!("not told apart, {title}"), &names));
        }
    }
    all
}

fn with_spread(figure: &Figure) -> String {
    format!(
        "{} ±{:>5}",
        text::value(&figure.measured, figure.unit),
        text::spread(&figure.measured)
    )
}
