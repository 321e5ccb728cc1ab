//! A plan for people.

use tollgate_cost::plan::{Migration, Nodes, Plan};

use super::{Answer, Listed};

/// The published sums, one a line.
pub(super) fn presets(all: &[Listed]) -> String {
    let rows = all
        .iter()
        .map(|one| [one.names.join(", "), one.what.to_owned()]);
    rows_of(rows.collect())
}

/// All of it.
pub(super) fn answer(answer: &Answer) -> String {
    let mut text = String::new();
    if let Some(preset) = &answer.preset {
        text.push_str(&format!("{preset}\n"));
    }
    let plan = &answer.plan;
    if let Some(migration) = &answer.migration {
        section(&mut text, "change of certificate", change(migration));
        section(
            &mut text,
            "figures before the change",
            inputs(&migration.before),
        );
        section(&mut text, "CPU before the change", cores(&migration.before));
        section(
            &mut text,
            "CPU before the change, at other hit rates",
            at_hits(&migration.before),
        );
    }
    section(&mut text, "figures", inputs(plan));
    section(&mut text, &headed("CPU", &cores_said(plan)), cores(plan));
    section(&mut text, "CPU at other hit rates", at_hits(plan));
    section(
        &mut text,
        &headed("memory", &memory_said(plan)),
        memory(plan),
    );
    section(&mut text, "also", also(plan));
    if let Some(nodes) = &answer.nodes {
        section(
            &mut text,
            &format!("nodes of {} vCPU", nodes.vcpu),
            fleet(nodes),
        );
    }
    let notes = plan
        .notes
        .iter()
        .map(|note| [format!("- {note}"), String::new()]);
    section(&mut text, "notes", notes.collect());
    text
}

fn headed(what: &str, sum: &str) -> String {
    format!("{what}: {sum}")
}

/// A heading and its rows, nothing without rows.
fn section(text: &mut String, heading: &str, rows: Vec<[String; 2]>) {
    if rows.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("{heading}\n{}", rows_of(rows)));
}

/// Two columns, the first as wide as it must be.
fn rows_of(rows: Vec<[String; 2]>) -> String {
    let width = rows
        .iter()
        .filter(|[_, second]| !second.is_empty())
        .map(|[first, _]| first.chars().count())
        .max()
        .unwrap_or(0);
    rows.into_iter()
        .map(|[first, second]| format!("{}\n", format!("  {first:width$}  {second}").trim_end()))
        .collect()
}

fn inputs(plan: &Plan) -> Vec<[String; 2]> {
    let all = plan.inputs.iter();
    all.map(|input| {
        [
            input.what.clone(),
            format!("{}  [{}]", input.value, input.origin),
        ]
    })
    .collect()
}

fn cores(plan: &Plan) -> Vec<[String; 2]> {
    let all = plan.cores_by_phase.iter();
    all.map(|term| {
        [
            format!("phase {}, {}", term.phase, term.what),
            format!("{}  [{}]", term.arithmetic, term.from.join("; ")),
        ]
    })
    .collect()
}

fn cores_said(plan: &Plan) -> String {
    let parts: Vec<String> = plan
        .cores_by_phase
        .iter()
        .map(|term| term.cores.to_string())
        .collect();
    match parts.len() {
        0 | 1 => format!("{} cores", plan.cores),
        _ => format!("{} = {} cores", parts.join(" + "), plan.cores),
    }
}

fn at_hits(plan: &Plan) -> Vec<[String; 2]> {
    let all = plan.at_hits.iter();
    all.map(|at| {
        [
            format!("at {} % hits", at.hits * 100.0),
            at.arithmetic.clone(),
        ]
    })
    .collect()
}

fn memory(plan: &Plan) -> Vec<[String; 2]> {
    let all = plan.memory_by_phase.iter();
    all.map(|term| {
        [
            format!("phase {}, {}", term.phase, term.what),
            format!("{}  [{}]", term.arithmetic, term.from.join("; ")),
        ]
    })
    .collect()
}

/// In units of 1,000, as the arithmetic is.
fn memory_said(plan: &Plan) -> String {
    let (low, high) = (plan.memory_low_bytes, plan.memory_high_bytes);
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let (factor, unit) = units
        .into_iter()
        .find(|(factor, _)| high >= *factor)
        .unwrap_or((1.0, "bytes"));
    let said = |bytes: f64| ((bytes / factor * 1e3).round() / 1e3).to_string();
    match low == high {
        true => format!("{} {unit}", said(high)),
        false => format!("{} to {} {unit}", said(low), said(high)),
    }
}

fn also(plan: &Plan) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    if let Some(binds) = &plan.binds {
        let what = format!("{}: {}", binds.what, binds.arithmetic);
        rows.push(["what binds".to_owned(), what]);
    }
    if let Some(rate) = plan.full_per_second_per_core {
        let line = format!("{rate} per second: 1000000 / the µs of one");
        rows.push(["full handshakes that a core does".to_owned(), line]);
    }
    if let Some(waiting) = &plan.waiting {
        let line = waiting.arithmetic.clone();
        rows.push(["waiting that early data would spare".to_owned(), line]);
    }
    rows
}

fn change(migration: &Migration) -> Vec<[String; 2]> {
    let sums = [
        ("before", migration.before.cores),
        ("after", migration.after.cores),
    ];
    let sums = sums.map(|(when, cores)| [when.to_owned(), format!("{cores} cores")]);
    let lines = migration.arithmetic.iter();
    sums.into_iter()
        .chain(lines.filter_map(|line| {
            let (what, sum) = line.split_once(" = ")?;
            Some([what.to_owned(), sum.to_owned()])
        }))
        .collect()
}

fn fleet(nodes: &Nodes) -> Vec<[String; 2]> {
    let uses = nodes.uses.iter();
    let uses = uses.map(|one| [one.when.clone(), one.arithmetic.clone()]);
    let needed = nodes.arithmetic.iter().filter_map(|line| {
        let (what, sum) = line.split_once(" = ")?;
        Some([format!("it takes, {what}"), sum.to_owned()])
    });
    uses.chain(needed).collect()
}
