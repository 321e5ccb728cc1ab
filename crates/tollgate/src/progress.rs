//! How far something has come, on standard error: a bar on a terminal, a line per stage elsewhere.
//!
//! ```ignore
//! let progress = Progress::new(json);
//! progress.stage("phase 1, asymmetric");
//! progress.at("sign, RSA-2048", 0.25);
//! drop(progress); // takes the bar away
//! ```

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::say;

/// Steps of a full bar: more than any terminal has columns.
const STEPS: u64 = 1_000;

/// A bar that ends with this value.
pub struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    stage: RefCell<String>,
}

impl Progress {
    /// A bar when standard error is a terminal. Without one, a line for each stage, unless `json` says
    /// that the output is for a program.
    pub fn new(json: bool) -> Self {
        let bar = io::stderr().is_terminal().then(bar);
        Self {
            lines: bar.is_none() && !json,
            bar,
            stage: RefCell::default(),
        }
    }

    /// A larger part begins. Said once, however often the same is told.
    pub fn stage(&self, name: &str) {
        if *self.stage.borrow() == name {
            return;
        }
        name.clone_into(&mut self.stage.borrow_mut());
        if self.lines {
            say::note(name);
        }
    }

    /// What is at work, and the share of everything that is done, 0 to 1.
    pub fn at(&self, what: &str, share: f64) {
        let Some(bar) = &self.bar else {
            return;
        };
        let stage = self.stage.borrow();
        bar.set_message(match (stage.is_empty(), what.is_empty()) {
            (true, _) => what.to_owned(),
            (_, true) => stage.clone(),
            (false, false) => format!("{stage}: {what}"),
        });
        bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}

impl Progress {
    /// Lets something be printed while the bar is out of the way.
    pub fn aside(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
    // The template is a constant; should it be wrong, the bar of the library is as good.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:24} {percent:>3} % {elapsed:>4} {wide_msg}")
    {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
