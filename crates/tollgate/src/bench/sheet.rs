//! Measuring, reading, comparing and writing a sheet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::to_string_pretty;
use tollgate_cost::{Comparison, Sheet, compare};
use tollgate_lab::bench::{Effort, SheetOptions, phases, report, sheet, text};

use super::{SheetArguments, broke, print_json};
use crate::progress::Progress;
use crate::say;

/// A sheet has some hundred kilobytes; more is another kind of file.
const MOST_BYTES: u64 = 16 << 20;

/// Measures or reads a sheet, prints it, writes it.
pub fn run(arguments: &SheetArguments) -> ExitCode {
    if arguments.schema {
        say::result(Sheet::SCHEMA);
        return ExitCode::SUCCESS;
    }
    match measured_and_shown(arguments) {
        Ok(code) | Err(code) => code,
    }
}

fn measured_and_shown(arguments: &SheetArguments) -> Result<ExitCode, ExitCode> {
    // Before anything is measured for minutes.
    let old = arguments.compare.as_deref().map(read).transpose()?;
    let directory = directory(arguments)?;
    let found = match &arguments.sheet {
        Some(path) => read(path)?,
        None => measure(&options(arguments), arguments.json)?,
    };
    let comparison = old.map(|old| compare(&old, &found));
    if arguments.json {
        match &comparison {
            Some(comparison) => print_json(to_string_pretty(comparison))?,
            None => print_json(to_string_pretty(&found))?,
        }
    } else {
        say::result(&text::sheet(&found));
        if let Some(comparison) = &comparison {
            say::result(&format!(
                "\nBeside the older sheet\n{}",
                text::comparison(comparison)
            ));
        }
    }
    if let Some(directory) = directory {
        write(&found, &directory)?;
    }
    Ok(verdict(comparison.as_ref(), arguments.at_most))
}

/// Measures, with progress on standard error.
pub fn measure(options: &SheetOptions, json: bool) -> Result<Sheet, ExitCode> {
    let progress = Progress::new(json);
    sheet(options, &|stage| {
        progress.stage(&format!("phase {}, {}", stage.phase, stage.name));
        progress.at(stage.what, stage.share);
    })
    .map_err(|error| broke(&error))
}

/// Reads a sheet; exit code 2 when it is none.
pub fn read(path: &Path) -> Result<Sheet, ExitCode> {
    let wrong = |reason: String| {
        say::error(&format!("{}: {reason}", path.display()));
        ExitCode::from(say::WRONG_INPUT)
    };
    let size = fs::metadata(path)
        .map_err(|error| wrong(error.to_string()))?
        .len();
    if size > MOST_BYTES {
        return Err(wrong(format!(
            "{size} bytes are no sheet; a sheet has less than {MOST_BYTES}"
        )));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Sheet::from_json(&text).map_err(|error| wrong(error.to_string()))
}

fn options(arguments: &SheetArguments) -> SheetOptions {
    let defaults = SheetOptions::default();
    SheetOptions {
        phases: match (arguments.phase.is_empty(), arguments.no_aes_hardware) {
            (false, _) => arguments.phase.clone(),
            (true, true) => vec![3],
            (true, false) => defaults.phases,
        },
        effort: if arguments.quick {
            Effort::Quick
        } else {
            Effort::Normal
        },
        without_aes_hardware: arguments.no_aes_hardware,
    }
}

/// Where files go, made if it is not there: where it was said, or here for a whole sheet.
fn directory(arguments: &SheetArguments) -> Result<Option<PathBuf>, ExitCode> {
    let directory = match &arguments.out {
        Some(directory) => directory.clone(),
        None if arguments.json || arguments.sheet.is_some() => return Ok(None),
        None if options(arguments).phases != phases() => return Ok(None),
        None => PathBuf::from("."),
    };
    fs::create_dir_all(&directory).map_err(|error| {
        say::error(&format!(
            "{}: {error}; give --out a directory that may be written",
            directory.display()
        ));
        ExitCode::from(say::WRONG_INPUT)
    })?;
    Ok(Some(directory))
}

fn write(sheet: &Sheet, directory: &Path) -> Result<(), ExitCode> {
    let json = to_string_pretty(sheet).map_err(|error| say::broke(&error.to_string()))?;
    for (name, text) in [
        ("sheet.json", format!("{json}\n")),
        ("report.html", report::html(sheet)),
    ] {
        let path = directory.join(name);
        fs::write(&path, text)
            .map_err(|error| say::broke(&format!("{}: {error}", path.display())))?;
        say::note(&format!("wrote {}", path.display()));
    }
    Ok(())
}

fn verdict(comparison: Option<&Comparison>, at_most: Option<f64>) -> ExitCode {
    let (Some(comparison), Some(at_most)) = (comparison, at_most) else {
        return ExitCode::SUCCESS;
    };
    let worse: Vec<&str> = comparison
        .worse_than(at_most)
        .map(|figure| figure.id.as_str())
        .collect();
    if worse.is_empty() {
        return ExitCode::SUCCESS;
    }
    say::error(&format!(
        "worse by more than {at_most} and told apart: {}",
        worse.join(", ")
    ));
    ExitCode::from(say::FINDINGS)
}
