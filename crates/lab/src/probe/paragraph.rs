//! Long sentences in lines that a terminal can show.

/// Columns of a line.
const WIDTH: usize = 100;

/// `text` in lines of at most 100 columns where its words allow it: the first begins with `first`, the
/// others with as many spaces as that takes. Ends with a line end.
pub(super) fn paragraph(first: &str, text: &str) -> String {
    let indent = first.trim_start_matches('\n').chars().count();
    let mut lines = first.to_owned();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_hundredth_column_and_stay_aligned() {
        let text = "word ".repeat(60);
        let paragraph = paragraph("  1. ", &text);
        let lines: Vec<&str> = paragraph.lines().collect();
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{paragraph}");
        assert!(lines[0].starts_with("  1. word") && lines[1].starts_with("     word"));
        assert_eq!(paragraph.split_whitespace().count(), 61);
    }

    #[test]
    fn a_word_that_is_too_long_is_left_whole() {
        let long = "x".repeat(300);
        assert_eq!(paragraph("- ", &long), format!("- {long}\n"));
    }
}
