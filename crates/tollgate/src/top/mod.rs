//! `tollgate top`: what a running instance says of itself, in a terminal.
//!
//! Reads the same as the page: `/live.json` and `/history.json` of a console, here or elsewhere.

mod page;
mod screen;
mod tables;
pub(crate) mod text;
pub mod visit;

use std::process::ExitCode;

use ratatui_core::style::Style;
use ratatui_core::text::Line;
use tokio::task::LocalSet;
use tollgate_console::view::{Live, Past};

use crate::say;
use visit::{Trouble, VisitArguments, Visitor};

/// Columns of `--once` where standard output is no terminal.
const PLAIN_COLUMNS: usize = 110;

/// What `top` takes.
#[derive(Debug, clap::Args)]
pub struct TopArguments {
    #[command(flatten)]
    visit: VisitArguments,
    /// Print all views once, as plain text, and end.
    #[arg(long)]
    once: bool,
    /// Print what the instance says once, as JSON, and end.
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

/// Runs the command: 0 when it was shown, 2 when the arguments are wrong, 3 when there is nobody to show.
pub fn run(arguments: &TopArguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        let mut visitor = Visitor::new(&arguments.visit)?;
        if arguments.json {
            return json(&mut visitor).await;
        }
        if arguments.once {
            return once(&mut visitor).await;
        }
        screen::run(visitor).await
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => complain(&trouble),
    }
}

/// Says what went wrong, with the exit code that belongs to it.
pub fn complain(trouble: &Trouble) -> ExitCode {
    say::error(&trouble.to_string());
    ExitCode::from(match trouble {
        Trouble::Input(_) => say::WRONG_INPUT,
        Trouble::Away(_) | Trouble::Refused(_) => say::BROKE,
    })
}

async fn json(visitor: &mut Visitor) -> Result<(), Trouble> {
    let live: serde_json::Value = visitor.get("/live.json").await?;
    let text = serde_json::to_string_pretty(&live).unwrap_or_default();
    say::result(&format!("{text}\n"));
    Ok(())
}

async fn once(visitor: &mut Visitor) -> Result<(), Trouble> {
    let (live, past) = seen(visitor, screen::RANGES[0]).await?;
    let width = columns();
    let mut lines = page::header(&live);
    for (number, name) in page::VIEWS.iter().enumerate() {
        lines.push(Line::default());
        lines.push(Line::styled(format!("-- {name} --"), Style::new()));
        lines.extend(page::view(number, &live, &past, width));
    }
    let mut text = String::new();
    for line in &lines {
        let spans: String = line.spans.iter().map(|span| &*span.content).collect();
        text.push_str(spans.trim_end());
        text.push('\n');
    }
    say::result(&text);
    Ok(())
}

/// The present, and the last `range` seconds.
async fn seen(visitor: &mut Visitor, range: u32) -> Result<(Live, Past), Trouble> {
    let live = visitor.get("/live.json").await?;
    let past = visitor
        .get(&format!("/history.json?seconds={range}&points=300"))
        .await?;
    Ok((live, past))
}

/// Columns of the terminal that standard output is, or what people read well.
fn columns() -> usize {
    ratatui_termion::termion::terminal_size()
        .map_or(PLAIN_COLUMNS, |(columns, _)| usize::from(columns))
        .max(60)
}
