//! Lines out of files, one at a time, and how far that has come.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tollgate_review::logs::{LONGEST_LINE_BYTES, Tally};

use crate::progress::Progress;

/// What is done sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes read at a time.
const BUFFER_BYTES: usize = 256 * 1_024;
/// Lines between two looks at the clock.
const LINES_PER_LOOK: u64 = 8_192;

/// Why reading ended early.
pub enum Failure {
    /// A file that cannot be read as a log.
    Input(String),
    /// Reading itself broke.
    Broke(String),
}

/// Hands every line of all files to the tally.
pub fn all(files: &[PathBuf], tally: &mut Tally) -> Result<(), Failure> {
    let sizes = files.iter().map(std::fs::metadata);
    let total: u64 = sizes.flatten().map(|metadata| metadata.len()).sum();
    let mut way = Way {
        total,
        done: 0,
        lines: 0,
        started: Instant::now(),
        progress: None,
    };
    for path in files {
        if path.as_os_str() == "-" {
            way.lines(Path::new("standard input"), io::stdin().lock(), tally)?;
        } else {
            let file = open(path)?;
            way.lines(path, BufReader::with_capacity(BUFFER_BYTES, file), tally)?;
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, Failure> {
    let cannot =
        |error: io::Error| Failure::Input(format!("{} cannot be read: {error}", path.display()));
    let file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(Failure::Input(format!(
            "{} is a folder; name the files in it",
            path.display()
        )));
    }
    Ok(file)
}

/// How far it has come.
struct Way {
    total: u64,
    done: u64,
    lines: u64,
    started: Instant,
    progress: Option<Progress>,
}

impl Way {
    fn lines(
        &mut self,
        path: &Path,
        mut from: impl BufRead,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let broke = |error: io::Error| Failure::Broke(format!("{}: {error}", path.display()));
        if from.fill_buf().map_err(broke)?.starts_with(&[0x1f, 0x8b]) {
            return Err(Failure::Input(format!(
                "{0} is compressed; read it with: zcat {0} | tollgate logs -",
                path.display()
            )));
        }
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = LONGEST_LINE_BYTES as u64 + 1;
            let length = (&mut from)
                .take(limit)
                .read_until(b'\n', &mut line)
                .map_err(broke)?;
            if length == 0 {
                return Ok(());
            }
            self.done += length as u64;
            if length > LONGEST_LINE_BYTES && line.last() != Some(&b'\n') {
                tally.too_long(&line[..200]);
                self.done += from.skip_until(b'\n').map_err(broke)? as u64;
            } else {
                tally.line(&line);
            }
            self.lines += 1;
            if self.lines.is_multiple_of(LINES_PER_LOOK) {
                self.show(path, tally);
            }
        }
    }

    fn show(&mut self, path: &Path, tally: &Tally) {
        if self.started.elapsed() < PATIENCE {
            return;
        }
        // As for a program: without a terminal nothing is said.
        let progress = self.progress.get_or_insert_with(|| Progress::new(true));
        let share = self.done as f64 / self.total.max(1) as f64;
        let what = format!(
            "{}: {} lines, {} handshakes",
            path.display(),
            self.lines,
            tally.handshakes()
        );
        progress.at(&what, share);
    }
}
