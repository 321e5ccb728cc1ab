//! `tollgate plan`: how much a workload needs, from given costs or a sheet, with the arithmetic.

mod arguments;
mod text;

use std::process::ExitCode;

use serde::Serialize;
use tollgate_cost::plan::{
    Migration, Missing, Nodes, Plan, Preset, UnitCosts, Workload, migrate, plan, presets,
};

pub use arguments::PlanArguments;

use crate::{bench, say};

/// Everything that is said, as JSON and as text.
#[derive(Debug, Serialize)]
struct Answer {
    /// The published sum that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    /// The plan; after the change when there is one.
    plan: Plan,
    /// The change of certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<Migration>,
    /// Nodes for the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Nodes>,
}

/// A published sum in the list.
#[derive(Debug, Serialize)]
struct Listed {
    names: &'static [&'static str],
    what: &'static str,
}

/// Runs the command.
pub fn run(arguments: &PlanArguments) -> ExitCode {
    let code = if arguments.presets {
        let all = listed();
        print(&all, arguments.json, || text::presets(&all))
    } else {
        answer(arguments).and_then(|answer| {
            print(&answer, arguments.json, || text::answer(&answer))?;
            Ok(verdict(&answer))
        })
    };
    match code {
        Ok(code) | Err(code) => code,
    }
}

fn listed() -> Vec<Listed> {
    let all = presets().into_iter();
    all.map(|Preset { names, what, .. }| Listed { names, what })
        .collect()
}

fn answer(arguments: &PlanArguments) -> Result<Answer, ExitCode> {
    let mut answer = match &arguments.preset {
        Some(name) => of_preset(name)?,
        None => of_options(arguments)?,
    };
    answer.nodes = arguments.fleet().map(|fleet| fleet.holds(&answer.plan));
    if answer.nodes.is_some() {
        answer
            .plan
            .notes
            .push("~ a vCPU is taken as a core, and used to the full: no reserve is in it".into());
    }
    Ok(answer)
}

fn of_preset(name: &str) -> Result<Answer, ExitCode> {
    let found = presets()
        .into_iter()
        .find(|preset| preset.names.contains(&name));
    let preset = found.ok_or_else(|| {
        wrong(&format!(
            "there is no preset {name:?}; `tollgate plan --presets` lists them"
        ))
    })?;
    let mut found = plan(&preset.workload, &preset.costs).map_err(|all| unknown(&all))?;
    let notes = preset.notes.iter().map(|note| (*note).to_owned());
    found.notes.splice(0..0, notes);
    Ok(Answer {
        preset: Some(format!("{}: {}", preset.names.join(", "), preset.what)),
        plan: found,
        migration: None,
        nodes: None,
    })
}

fn of_options(arguments: &PlanArguments) -> Result<Answer, ExitCode> {
    let workload = arguments.workload().map_err(|reason| wrong(&reason))?;
    let Some(change) = arguments.migrate else {
        let costs = filled(arguments, arguments.costs(), &workload)?;
        let mut found = plan(&workload, &costs).map_err(|all| unknown(&all))?;
        found.notes.extend(note(arguments));
        return Ok(Answer {
            preset: None,
            plan: found,
            migration: None,
            nodes: None,
        });
    };
    let [before, after] = arguments.costs_of(change);
    let before = filled(arguments, before, &workload)?;
    let after = filled(arguments, after, &workload)?;
    let migration = migrate(&workload, &before, &after).map_err(|all| unknown(&all))?;
    let mut found = migration.after.clone();
    found.notes.extend(note(arguments));
    Ok(Answer {
        preset: None,
        plan: found,
        migration: Some(migration),
        nodes: None,
    })
}

fn note(arguments: &PlanArguments) -> Option<String> {
    arguments.sheet().and_then(|_| arguments.taken())
}

/// The costs with what the sheet has, if there is one.
fn filled(
    arguments: &PlanArguments,
    costs: UnitCosts,
    workload: &Workload,
) -> Result<UnitCosts, ExitCode> {
    let Some(path) = arguments.sheet() else {
        return Ok(costs);
    };
    let sheet = bench::read_sheet(path)?;
    let file = path.file_name().unwrap_or(path.as_os_str());
    Ok(costs.or_from(&sheet, &file.to_string_lossy(), workload))
}

fn unknown(missing: &[Missing]) -> ExitCode {
    for one in missing {
        say::error(&one.to_string());
    }
    ExitCode::from(say::WRONG_INPUT)
}

fn wrong(reason: &str) -> ExitCode {
    say::error(reason);
    ExitCode::from(say::WRONG_INPUT)
}

/// As JSON, or as text.
fn print(
    what: &impl Serialize,
    json: bool,
    text: impl FnOnce() -> String,
) -> Result<ExitCode, ExitCode> {
    if json {
        let text =
            serde_json::to_string_pretty(what).map_err(|error| say::broke(&error.to_string()))?;
        say::result(&format!("{text}\n"));
    } else {
        say::result(&text());
    }
    Ok(ExitCode::SUCCESS)
}

fn verdict(answer: &Answer) -> ExitCode {
    match answer.nodes.as_ref().and_then(|nodes| nodes.fits) {
        Some(false) => {
            say::error("it does not fit with one node lost; the text says how many nodes it takes");
            ExitCode::from(say::FINDINGS)
        }
        Some(true) | None => ExitCode::SUCCESS,
    }
}
