//! What is shown while a run is on.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tollgate_lab::{LoadOptions, Look, Moment, Seen};

use crate::progress::Progress;
use crate::say;

/// Rows as they come on standard output, unless that is for a program, and a bar on a terminal.
pub(super) struct Show {
    json: bool,
    whole: Duration,
    headed: Cell<bool>,
    progress: Progress,
}

/// Colours for a terminal that wants them.
pub(super) fn look() -> Look {
    match io::stdout().is_terminal() && say::colors_wanted() {
        true => Look::Coloured,
        false => Look::Plain,
    }
}

impl Show {
    pub(super) fn new(json: bool, options: &LoadOptions) -> Self {
        Self {
            json,
            whole: options.duration,
            headed: Cell::new(false),
            // The rows say how far it has come wherever there is no terminal.
            progress: Progress::new(true),
        }
    }

    pub(super) fn see(&self, seen: Seen) {
        match seen {
            Seen::WarmUp(_) => self.progress.at("warm-up", 0.0),
            Seen::Alone(part) => self.progress.at(&format!("{part} alone"), 0.0),
            Seen::Begins => self.progress.at("measuring", 0.0),
            Seen::Piece(piece) => self.piece(&piece),
            Seen::Holds(time) => {
                let text = format!("holding for {} s", time.as_secs_f64());
                self.progress.at(&text, 0.5);
            }
            Seen::Ends => self.progress.at("ending", 1.0),
        }
    }

    fn piece(&self, piece: &Moment) {
        if !self.json {
            let mut rows = String::new();
            if !self.headed.replace(true) {
                rows.push_str(&Moment::header(look()));
                rows.push('\n');
            }
            rows.push_str(&piece.row(look()));
            rows.push('\n');
            self.progress.aside(|| say::result(&rows));
        }
        let share = piece.at_seconds / self.whole.as_secs_f64().max(1e-9);
        self.progress.at("measuring", share);
    }
}
