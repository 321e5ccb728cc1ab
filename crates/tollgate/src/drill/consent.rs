//! An explicit yes before somebody's running instance is drilled.

use std::io::{self, BufRead, IsTerminal};

use crate::say;

/// Asks for the name of the host, on a terminal; `Err` says why there was no yes.
pub fn asked(host: &str, what_happens: &str) -> Result<(), String> {
    if !io::stdin().is_terminal() {
        return Err(format!(
            "{what_happens} That wants a yes: --yes, or a terminal to ask on"
        ));
    }
    say::plain_error(&format!(
        "{what_happens}\nType the name of its host ({host}) to go on, anything else to leave it: "
    ));
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| error.to_string())?;
    match agrees(&line, host) {
        true => Ok(()),
        false => Err(format!(
            "{:?} is not {host}; nothing was touched",
            line.trim()
        )),
    }
}

fn agrees(line: &str, host: &str) -> bool {
    line.trim().eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_host_is_a_yes() {
        assert!(agrees("Edge-1\n", "edge-1"));
        for line in ["", "y\n", "yes\n", "edge-2\n"] {
            assert!(!agrees(line, "edge-1"), "{line:?}");
        }
    }
}
