//! A `tls.yaml` with resumption turned off, everything else untouched.

/// Why a file cannot be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// `resumption:` is not a block of fields, one a line.
    #[error(
        "resumption: stands in a form that a drill does not edit; write its fields one a line, as `resumption:` and \
         below it `  lifetime: 6h`"
    )]
    Form,
}

/// What `resumption:` holds during the drill.
const OFF: [&str; 2] = ["tickets: false", "session_cache: { entries: 0 }"];

/// `text` with tickets and session cache off. Other fields of `resumption:` stay, and so does every other line.
///
/// # Errors
/// When the section is there in a form that is not edited.
pub fn without_resumption(text: &str) -> Result<String, EditError> {
    let lines: Vec<&str> = text.lines().collect();
    let Some(head) = lines
        .iter()
        .position(|line| line.starts_with("resumption:"))
    else {
        let off = OFF.map(|field| format!("  {field}\n")).concat();
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        return Ok(format!("{text}{end}resumption:\n{off}"));
    };
    let after = lines[head]["resumption:".len()..].trim();
    if !after.is_empty() && !after.starts_with('#') {
        return Err(EditError::Form);
    }
    let length = lines[head + 1..]
        .iter()
        .position(|line| line.starts_with(|first: char| !first.is_whitespace() && first != '#'))
        .unwrap_or(lines.len() - head - 1);
    let (section, rest) = lines[head + 1..].split_at(length);
    let indent = section
        .iter()
        .find(|line| !is_blank(line))
        .map_or(2, |line| width(line));
    let mut edited: Vec<String> = lines[..=head]
        .iter()
        .map(|line| (*line).to_owned())
        .collect();
    edited.extend(OFF.map(|field| format!("{:indent$}{field}", "")));
    let mut replaced = false;
    for line in section {
        if !is_blank(line) && width(line) == indent {
            let field = line.trim_start();
            replaced = ["tickets:", "session_cache:"]
                .iter()
                .any(|name| field.starts_with(name));
        }
        if !replaced || is_blank(line) {
            edited.push((*line).to_owned());
        }
    }
    edited.extend(rest.iter().map(|line| (*line).to_owned()));
    Ok(edited.join("\n") + "\n")
}

/// Whether a line holds nothing but white space or a comment.
fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn width(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn a_file_without_the_section_gets_it() {
        assert_eq!(
            without_resumption("a: 1").unwrap(),
            "a: 1\nresumption:\n  tickets: false\n  session_cache: { entries: 0 }\n"
        );
    }

    #[test]
    fn other_fields_of_the_section_and_other_sections_stay() {
        let text = "listeners: []\nresumption: # ours\n    # soon\n    lifetime: 1h\n    tickets: true\n    \
                    session_cache:\n      entries: 7\n    ticket_keys: { issue: 1h }\n\nlog:\n  access: off\n";
        assert_eq!(
            without_resumption(text).unwrap(),
            "listeners: []\nresumption: # ours\n    tickets: false\n    session_cache: { entries: 0 }\n    # soon\n    \
             lifetime: 1h\n    ticket_keys: { issue: 1h }\n\nlog:\n  access: off\n"
        );
    }

    #[test]
    fn a_section_on_one_line_is_left_to_its_owner() {
        assert_eq!(
            without_resumption("resumption: { lifetime: 1h }\n"),
            Err(EditError::Form)
        );
    }
}
