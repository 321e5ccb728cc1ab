//! `tls.yaml` read into a typed configuration: every error with file, line, column, the value,
//! what is allowed, and a way out; all of them at once.
//!
//! Input is the text of one file, handed in. Opens no file that the text names: what needs one
//! (keys, certificates, bundles) is marked `Spanned` and checked by the rooms that own it.

mod address;
mod agreement;
mod alarms;
mod backend;
mod console;
mod desk;
mod finding;
mod item;
pub mod model;
mod process;
mod schema;
mod section;
mod site;
mod suggest;
mod suites;
mod syntax;
mod tree;
mod value;

use std::path::Path;

pub use finding::{Finding, Severity, render};
pub use model::*;
pub use process::default_control;
pub use schema::{reference, schema};
pub use tree::{MAX_DEPTH, MAX_NODES, MAX_TEXT_BYTES};

use desk::Desk;
use section::Section;

/// A configuration that can be used, and what is odd about it.
#[derive(Clone, Debug)]
pub struct Read {
    /// The configuration, defaults filled in.
    pub config: Config,
    /// What is loadable but hardly meant, in order of the file.
    pub warnings: Vec<Finding>,
}

/// Reads the text of a configuration file.
///
/// `name` is what messages call the file. `base` is its folder: relative paths in the file start there.
///
/// # Errors
/// Every finding of the file in its order, warnings among them; at least one is an error. Text that is
/// not YAML gives one finding, as nothing behind it can be read.
pub fn read(name: &str, text: &str, base: &Path) -> Result<Read, Vec<Finding>> {
    let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
    let tree = tree::parse(text).map_err(|finding| vec![finding])?;
    let Some(root) = tree else {
        return Err(vec![
            Finding::error(None, format!("{} is empty", item::shown(name)))
                .label("listeners and sites are needed".into())
                .help("`tollgate serve --demo` runs without a file; docs/configuration.md has one to start from"),
        ]);
    };
    let desk = Desk::new(text, &base, false);
    let mut section = Section::root(&desk, &root);
    let config = top(&mut section);
    section.finish();
    let failed = desk.has_errors();
    let findings = desk.into_findings();
    if failed {
        return Err(findings);
    }
    Ok(Read {
        config,
        warnings: findings,
    })
}

/// The bytes of a configuration file as text; a byte order mark at the start is dropped.
///
/// # Errors
/// When the bytes are not UTF-8, with the line of the first that is not.
pub fn decode(bytes: &[u8]) -> Result<&str, Finding> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        Finding::error(None, format!("the file is not UTF-8 text, line {line}"))
            .label(if utf16 {
                "it is UTF-16".into()
            } else {
                "a certificate or key in DER, or text in an older encoding".into()
            })
            .help("save it as UTF-8; `file` tells what it is, `iconv` converts it")
    })
}

/// All sections of the file, in the order in which one needs another.
fn top(top: &mut Section<'_>) -> Config {
    let listeners = process::listeners(top);
    let sites = site::sites(top, &listeners);
    let resumption = top.section(
        "resumption",
        "how clients come back without a full handshake",
        process::resumption,
    );
    let ledger = top.switch(
        "ledger",
        true,
        "counting the CPU of each phase of TLS while serving",
    );
    let console = console::console(top, &listeners);
    let alarms = alarms::alarms(top, ledger);
    let control = process::control(top);
    let log = top.section("log", "the access log", process::log);
    let workers = top.section("workers", "threads that serve", process::workers);
    let limits = top.section(
        "limits",
        "everything that a client can make grow",
        process::limits,
    );
    let timeouts = top.section("timeouts", "how long anything may take", process::timeouts);
    Config {
        listeners,
        sites,
        resumption,
        ledger,
        console,
        alarms,
        control,
        log,
        workers,
        limits,
        timeouts,
    }
}
