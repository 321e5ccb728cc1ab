//! Another certificate for the same workload.

use serde::Serialize;

use super::{Missing, Plan, UnitCosts, Workload, plan};
use crate::price::{round, shown};

/// What a change of certificate does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Migration {
    /// With the old certificate.
    pub before: Plan,
    /// With the new one.
    pub after: Plan,
    /// Cores before over cores after; `None` when nothing is left.
    pub ratio: Option<f64>,
    /// Cores that are saved; negative when more are needed.
    pub saved_cores: f64,
    /// How these come about, a line each.
    pub arithmetic: Vec<String>,
}

/// The same workload at the costs before and after.
///
/// # Errors
///
/// Every cost that is not known.
pub fn migrate(
    workload: &Workload,
    before: &UnitCosts,
    after: &UnitCosts,
) -> Result<Migration, Vec<Missing>> {
    // Two plans side by side are taken apart in the same way.
    let whole = [before, after].map(|costs| UnitCosts {
        full_asymmetric_micros: None,
        ..costs.clone()
    });
    let apart = |costs: &UnitCosts| costs.full_asymmetric_micros.is_some();
    let [before, after] = match apart(before) && apart(after) {
        true => [before, after],
        false => [&whole[0], &whole[1]],
    };
    let before = plan(workload, before).map_err(|all| named(all, "before"))?;
    let after = plan(workload, after).map_err(|all| named(all, "after"))?;
    let (old, new) = (before.cores, after.cores);
    let ratio = (new > 0.0).then(|| round(old / new, 2));
    let saved_cores = round(old - new, 6);
    let mut arithmetic = vec![format!(
        "saved = {} - {} = {} cores",
        shown(old),
        shown(new),
        shown(saved_cores)
    )];
    if let Some(ratio) = ratio {
        arithmetic.push(format!(
            "before / after = {} / {} = {}",
            shown(old),
            shown(new),
            shown(ratio)
        ));
    }
    Ok(Migration {
        before,
        after,
        ratio,
        saved_cores,
        arithmetic,
    })
}

/// Only the full handshake is another one; all else that is missing is missing on both sides.
fn named(missing: Vec<Missing>, side: &str) -> Vec<Missing> {
    let full = "--cost-handshake TIME";
    let name = |missing: Missing| match missing.option == full {
        true => Missing {
            what: format!("{} {side} the change", missing.what),
            option: format!("--cost-{side} TIME"),
            ..missing
        },
        false => missing,
    };
    missing.into_iter().map(name).collect()
}
