//! What records cost on a CPU without AES instructions: the program measures phase 3 once more in a
//! child whose cryptographic library is told that the CPU has none.
//!
//! The library reads what it may use once, when it starts, from a variable of the environment; that is
//! why this needs a process of its own. Whether it took effect is seen by the figures, not believed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_cost::{Figure, Sheet, Unit};

use super::{Bench, BenchError};

/// The arguments of the child.
const ARGUMENTS: [&str; 4] = ["bench", "--phase", "3", "--json"];

/// Who takes less time than this per figure gets a quick child, too.
const QUICK_BELOW: Duration = Duration::from_millis(100);

/// Without the instructions AES takes several times as long; less than this is no effect.
const LEAST_RATIO: f64 = 1.5;

/// The figure that shows whether it took effect.
const PROOF: &str = "record/seal/aes-128-gcm/16384";

/// The figure that should be the same in both processes: it shows how well they can be compared.
const CONTROL: &str = "record/seal/chacha20-poly1305/16384";

/// Variable and value that hide the instructions for AES and for GCM's multiplication, in their short
/// and their wide form. `None` where none are known of.
fn mask() -> Option<(&'static str, &'static str)> {
    match std::env::consts::ARCH {
        // CPUID leaf 1, ECX: AES (25) and PCLMULQDQ (1); leaf 7, ECX: VAES (9) and VPCLMULQDQ (10).
        "x86_64" => Some(("OPENSSL_ia32cap", "~0x0200000200000000:~0x0000060000000000")),
        // The library's own numbers: AES (2) and PMULL (5).
        "aarch64" => Some(("OPENSSL_armcap", "~0x24")),
        _ => None,
    }
}

/// The figures of phase 3 without AES instructions, and how many times as much they are as `with`,
/// which this process has measured. The child takes about as long as `bench` allows here.
///
/// # Errors
/// When the child cannot be run, or its figures show that the instructions were used all the same.
pub(crate) fn measure(bench: &Bench<'_>, with: &[Figure]) -> Result<Vec<Figure>, BenchError> {
    bench.next(
        "records without AES instructions, in a process of its own",
        0.0,
    );
    let (variable, value) = mask().ok_or_else(|| {
        broken(format!(
            "it is not known how to hide them on {}",
            std::env::consts::ARCH
        ))
    })?;
    let quick = bench.per_figure < QUICK_BELOW;
    let without = child(variable, value, quick.then_some("--quick"))?;
    let rows = rows(with, &without, variable)?;
    bench.next("records without AES instructions", 1.0);
    Ok(rows)
}

fn child(variable: &str, value: &str, effort: Option<&str>) -> Result<Vec<Figure>, BenchError> {
    let program = program()?;
    let output = Command::new(&program)
        .args(ARGUMENTS)
        .args(effort)
        .env(variable, value)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| BenchError::System {
            what: format!("start {}", program.display()),
            source,
            hint: "see that the program may be executed".into(),
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(broken(format!(
            "`{} {}` ended with {}: {}",
            program.display(),
            ARGUMENTS.join(" "),
            output.status,
            said.trim()
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let sheet = Sheet::from_json(&text).map_err(|error| broken(error.to_string()))?;
    Ok(sheet.figures().cloned().collect())
}

/// Ourselves, or what `TOLLGATE_BINARY` names when that is set.
fn program() -> Result<PathBuf, BenchError> {
    match std::env::var_os("TOLLGATE_BINARY") {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe().map_err(|source| BenchError::System {
            what: "find our own program".into(),
            source,
            hint: "set TOLLGATE_BINARY to its path".into(),
        }),
    }
}

fn rows(with: &[Figure], without: &[Figure], variable: &str) -> Result<Vec<Figure>, BenchError> {
    let mut times = Vec::new();
    let mut ratios = Vec::new();
    let of_records = |own: &&Figure| own.id.starts_with("record/");
    for own in with.iter().filter(of_records) {
        let is_aes = own.id.contains("/aes-");
        if !is_aes && own.id != CONTROL {
            continue;
        }
        let other = without
            .iter()
            .find(|other| other.id == own.id)
            .ok_or_else(|| broken(format!("{} is missing", own.id)))?;
        let ratio = other.measured.over(&own.measured);
        if own.id == PROOF && ratio.median < LEAST_RATIO {
            return Err(broken(format!(
                "{variable} was set, and yet {} took {:.2} times as long as before: this build does not \
                 heed it, or the CPU has no such instructions",
                own.label, ratio.median
            )));
        }
        let name = own.id.trim_start_matches("record/");
        times.push(Figure {
            id: format!("record/no-aes/{name}"),
            label: format!("{}, no AES instructions", own.label),
            how: format!("the same in a process with {variable} set"),
            reference: None,
            ..other.clone()
        });
        if is_aes {
            ratios.push(Figure {
                id: format!("record/no-aes/ratio/{name}"),
                label: format!("{}, times as much without AES instructions", own.label),
                unit: Unit::Ratio,
                measured: ratio,
                how: "without over with, in the same run".into(),
                reference: None,
                yardstick_nanoseconds: None,
            });
        }
    }
    if ratios.is_empty() {
        return Err(broken("there are no figures of records to compare with"));
    }
    times.append(&mut ratios);
    Ok(times)
}

fn broken(reason: impl Into<String>) -> BenchError {
    BenchError::Broken {
        what: "measuring without AES instructions".into(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use tollgate_cost::Measured;

    use super::*;

    fn figure(id: &str, value: f64) -> Figure {
        Figure {
            id: id.into(),
            label: id.into(),
            unit: Unit::NanosecondsPerByte,
            measured: Measured::exact(value),
            how: "test".into(),
            reference: None,
            yardstick_nanoseconds: None,
        }
    }

    #[test]
    fn the_ratio_is_that_of_the_two_processes() {
        let with = [
            figure(PROOF, 0.25),
            figure(CONTROL, 2.0),
            figure("record/open/chacha20-poly1305/64", 2.0),
        ];
        let without = [figure(PROOF, 5.0), figure(CONTROL, 2.0)];
        let rows = rows(&with, &without, "X").unwrap();
        super::super::steps::assert_sound(&rows);
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "record/no-aes/seal/aes-128-gcm/16384",
                "record/no-aes/seal/chacha20-poly1305/16384",
                "record/no-aes/ratio/seal/aes-128-gcm/16384",
            ]
        );
        assert_eq!((rows[2].unit, rows[2].measured.median), (Unit::Ratio, 20.0));
    }

    #[test]
    fn a_mask_without_effect_is_an_error_and_no_figure() {
        let with = [figure(PROOF, 0.25)];
        let error = rows(&with, &[figure(PROOF, 0.26)], "X").unwrap_err();
        assert!(error.to_string().contains("does not heed"), "{error}");
        assert!(rows(&with, &[], "X").is_err());
        assert!(rows(&[], &[], "X").is_err());
    }
}
