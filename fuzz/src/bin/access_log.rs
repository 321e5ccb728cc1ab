//! Any bytes as a log format and an access log: never a panic, every line counted once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_review::logs::{Format, Options, Tally};

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses a format; for those with a text, the first line is that.
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let names = [
        None,
        Some("json"),
        Some("logfmt"),
        Some("nginx"),
        Some("haproxy"),
    ];
    let choice = choice.wrapping_sub(b'0') % 10;
    let (text, log) = match choice {
        0..=4 => (None, rest),
        _ => match rest.iter().position(|byte| *byte == b'\n') {
            Some(at) => (std::str::from_utf8(&rest[..at]).ok(), &rest[at + 1..]),
            None => return,
        },
    };
    let Ok(format) = Format::named(names[usize::from(choice % 5)], text) else {
        return;
    };
    let mut tally = Tally::new(Options {
        format,
        ..Options::default()
    });
    for line in log.split(|byte| *byte == b'\n') {
        tally.line(line);
    }
    let report = tally.report();
    assert_eq!(
        report.lines_read,
        report.lines_understood + report.lines_strange
    );
    assert!(report.handshakes.all() <= report.lines_understood);
});
