//! Tables over a sheet: published figures, and primitives per second.

use std::process::ExitCode;

use serde_json::to_string_pretty;
use tollgate_cost::Sheet;
use tollgate_lab::bench::{Effort, SheetOptions, folk, speed, text};

use super::sheet::{measure, read};
use super::{FolkArguments, PrimitivesArguments, broke, print_json};
use crate::progress::Progress;
use crate::say;

/// Seconds that `openssl speed` gets for one figure.
const OPENSSL_SECONDS: u32 = 1;

/// Published figures beside measured ones.
pub fn folk(arguments: &FolkArguments) -> ExitCode {
    let sheet = match &arguments.sheet {
        Some(path) => read(path),
        None => measure(
            &SheetOptions {
                effort: Effort::Quick,
                ..SheetOptions::default()
            },
            arguments.json,
        ),
    };
    let shown = sheet.and_then(|sheet| {
        if arguments.json {
            return print_json(to_string_pretty(&folk::folk(&sheet)));
        }
        say::result(&format!(
            "{}\n{}",
            text::heading(&sheet),
            folk::folk(&sheet)
        ));
        Ok(())
    });
    shown.map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

/// Primitives per second, and `openssl speed` beside them.
pub fn primitives(arguments: &PrimitivesArguments) -> ExitCode {
    table(arguments).map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

fn table(arguments: &PrimitivesArguments) -> Result<(), ExitCode> {
    let mut sheet: Sheet = match &arguments.sheet {
        Some(path) => read(path)?,
        None => measure(
            &SheetOptions {
                phases: vec![1, 3],
                effort: if arguments.quick {
                    Effort::Quick
                } else {
                    Effort::Normal
                },
                without_aes_hardware: false,
            },
            arguments.json,
        )?,
    };
    sheet.phases.retain(|table| matches!(table.phase, 1 | 3));
    let progress = Progress::new(arguments.json);
    let openssl = arguments.compare.as_ref().map(|_| OPENSSL_SECONDS);
    let speed = speed::speed(&sheet, openssl, &|what, share| progress.at(what, share))
        .map_err(|error| broke(&error))?;
    drop(progress);
    if arguments.json {
        return print_json(to_string_pretty(&speed));
    }
    say::result(&format!("{}\n{speed}", text::heading(&sheet)));
    Ok(())
}
