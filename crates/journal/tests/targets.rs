//! Targets that fail: what is lost is counted, and nobody waits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tollgate_journal::{Entry, Event, Format, Journal, QUEUE_ENTRIES, Target};

const PATIENCE: Duration = Duration::from_secs(20);

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("tollgate-journal-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn pipe(&self) -> PathBuf {
        let path = self.file("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Journal {
    Journal::open(Target::File(path.into()), Format::Json).unwrap()
}

fn entry(number: u64) -> Entry {
    Entry {
        total_us: Some(number),
        ..Entry::new(Event::Request, 0)
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

/// Hands `count` entries over, flushing before the queue is full.
fn write(journal: &Journal, count: u64) {
    for number in 0..count {
        journal.write(entry(number));
        if number % 4_096 == 4_095 {
            assert!(journal.flush_within(PATIENCE));
        }
    }
    assert!(journal.flush_within(PATIENCE));
}

#[test]
fn every_line_arrives_in_order() {
    let folder = Folder::new("order");
    let path = folder.file("access.log");
    let journal = open(&path);
    write(&journal, 20_000);
    let text = fs::read_to_string(&path).unwrap();
    for (number, line) in text.lines().enumerate() {
        assert!(
            line.ends_with(&format!("\"total_us\":{number}}}")),
            "{line}"
        );
    }
    assert_eq!(text.lines().count(), 20_000);
    assert_eq!(journal.dropped(), 0);
}

#[test]
fn many_threads_write_whole_lines() {
    let folder = Folder::new("threads");
    let path = folder.file("access.log");
    let journal = open(&path);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let journal = journal.clone();
            scope.spawn(move || (0..2_000).for_each(|number| journal.write(entry(number))));
        }
    });
    assert!(journal.flush_within(PATIENCE));
    assert_eq!(lines(&path) as u64 + journal.dropped(), 8_000);
}

#[test]
fn a_full_disk_costs_lines_that_are_counted_and_a_new_target_ends_it() {
    let folder = Folder::new("full");
    let path = folder.file("access.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let journal = open(&path);
    write(&journal, 5_000);
    assert_eq!(journal.dropped(), 5_000);
    assert!(journal.trouble().unwrap().contains("space"));
    fs::remove_file(&path).unwrap();
    journal.reopen();
    write(&journal, 10);
    assert_eq!(lines(&path), 10);
    assert_eq!(journal.dropped(), 5_000);
    assert_eq!(journal.trouble(), None);
}

#[test]
fn a_pipe_that_nobody_reads_delays_nobody() {
    let folder = Folder::new("nobody");
    let path = folder.pipe();
    let journal = open(&path);
    write(&journal, 100);
    assert_eq!(journal.dropped(), 100);
    // A reader comes, and from then on lines arrive.
    let reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    write(&journal, 3);
    let mut first = String::new();
    BufReader::new(reader).read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"time\""));
    assert_eq!(journal.dropped(), 100);
}

#[test]
fn a_reader_that_stops_reading_fills_the_queue_and_no_more() {
    let folder = Folder::new("stops");
    let path = folder.pipe();
    let reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let journal = open(&path);
    let sent = QUEUE_ENTRIES as u64 * 4;
    (0..sent).for_each(|number| journal.write(entry(number)));
    assert!(
        !journal.flush_within(Duration::from_millis(20)),
        "flush is bounded"
    );
    assert!(journal.dropped() > 0);
    // Reading on, what was kept arrives whole: every line that was not dropped.
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    let kept = sent - journal.dropped();
    for _ in 0..kept {
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert!(
            line.starts_with("{\"time\"") && line.ends_with("}\n"),
            "{line}"
        );
    }
    assert!(journal.flush_within(PATIENCE));
    assert_eq!(journal.dropped(), sent - kept);
}

#[test]
fn a_reader_that_leaves_may_come_back() {
    let folder = Folder::new("leaves");
    let path = folder.pipe();
    let both = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap()
    };
    let reader = both();
    let journal = open(&path);
    write(&journal, 1);
    drop(reader);
    write(&journal, 1);
    assert_eq!(journal.dropped(), 1);
    let mut reader = both();
    write(&journal, 1);
    let mut bytes = [0; 1_024];
    let filled = reader.read(&mut bytes).unwrap();
    assert_eq!(
        bytes[..filled]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count(),
        1
    );
}

#[test]
fn after_a_rotation_lines_go_to_the_new_file() {
    let folder = Folder::new("rotation");
    let path = folder.file("access.log");
    let journal = open(&path);
    write(&journal, 3);
    let old = folder.file("access.log.1");
    fs::rename(&path, &old).unwrap();
    write(&journal, 2);
    assert_eq!(lines(&old), 5, "until it is told");
    journal.reopen();
    write(&journal, 4);
    assert_eq!((lines(&old), lines(&path)), (5, 4));
}

#[test]
fn a_reopening_that_fails_keeps_the_old_file() {
    let folder = Folder::new("keeps");
    let inner = folder.file("inner");
    fs::create_dir(&inner).unwrap();
    let journal = open(&inner.join("access.log"));
    let moved = folder.file("moved");
    fs::rename(&inner, &moved).unwrap();
    journal.reopen();
    write(&journal, 2);
    assert_eq!(lines(&moved.join("access.log")), 2);
    assert_eq!(journal.dropped(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_once() {
    let folder = Folder::new("cannot");
    let missing = folder.file("missing").join("access.log");
    assert!(Journal::open(Target::File(missing), Format::Json).is_err());
    File::create(folder.file("unused")).unwrap();
}
