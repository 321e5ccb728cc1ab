//! What is said to people: standard error for what happens, standard output for results.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place that prints"
)]

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Findings exist, or a threshold was missed.
pub const FINDINGS: u8 = 1;
/// The input was wrong.
pub const WRONG_INPUT: u8 = 2;
/// The run itself broke.
pub const BROKE: u8 = 3;

/// Says what happens, one line.
pub fn note(text: &str) {
    line("tollgate: ", text);
}

/// Says what went wrong, one line.
pub fn error(text: &str) {
    line("tollgate: error: ", text);
}

/// Says what deserves attention, one line.
pub fn warning(text: &str) {
    line("tollgate: warning: ", text);
}

fn line(prefix: &str, text: &str) {
    // A standard error that nobody reads any more is no reason to stop serving.
    let _ = writeln!(io::stderr().lock(), "{prefix}{text}");
}

/// Text for people on standard error, as it is.
pub fn plain_error(text: &str) {
    let _ = write!(io::stderr().lock(), "{text}");
}

/// A result on standard output.
pub fn result(text: &str) {
    let _ = write!(io::stdout().lock(), "{text}");
    let _ = io::stdout().lock().flush();
}

/// Whether standard error is a terminal that wants colours.
pub fn error_colors() -> bool {
    io::stderr().is_terminal() && colors_wanted()
}

/// See <https://no-color.org>.
pub fn colors_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Says why the run broke.
pub fn broke(text: &str) -> ExitCode {
    error(text);
    ExitCode::from(BROKE)
}
