//! The terminal: taken over on the way in, given back on every way out.

use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::Color;
use ratatui_core::terminal::{Frame, Terminal};
use ratatui_core::text::{Line, Span, Text};
use ratatui_core::widgets::Widget;
use ratatui_termion::TermionBackend;
use ratatui_termion::termion::event::Key;
use ratatui_termion::termion::input::TermRead;
use ratatui_termion::termion::raw::IntoRawMode;
use ratatui_termion::termion::screen::IntoAlternateScreen;
use ratatui_widgets::paragraph::Paragraph;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tollgate_console::view::{Live, Past};

use super::page::{self, BAD, Lines, QUIET, STRONG, VIEWS};
use super::seen;
use super::text;
use super::visit::{Trouble, Visitor};
use crate::say;

/// How far back graphs may reach, in seconds.
pub const RANGES: [u32; 7] = [60, 300, 600, 1_800, 3_600, 21_600, 86_400];

/// How often the instance is asked.
const EVERY: Duration = Duration::from_secs(1);

/// What is shown, and how.
struct State {
    url: String,
    live: Option<Live>,
    past: Past,
    trouble: Option<String>,
    view: usize,
    range: usize,
    scroll: u16,
    paused: bool,
    help: bool,
    colors: bool,
}

/// What happened.
enum Event {
    Key(Key),
    Seen(Box<(Live, Past)>),
    Trouble(Trouble),
}

/// Whether to go on.
#[derive(PartialEq)]
enum Then {
    Stay,
    Leave,
}

/// Shows the instance until somebody presses `q` or ends the process.
///
/// # Errors
/// When standard output is no terminal, or the terminal cannot be had.
pub async fn run(visitor: Visitor) -> Result<(), Trouble> {
    if !std::io::stdout().is_terminal() {
        return Err(Trouble::Input(
            "standard output is no terminal; use --once for text or --json for a program".into(),
        ));
    }
    let failed = |error: std::io::Error| Trouble::Input(format!("the terminal: {error}"));
    let raw = std::io::stdout().into_raw_mode().map_err(failed)?;
    let screen = raw.into_alternate_screen().map_err(failed)?;
    let mut terminal = Terminal::new(TermionBackend::new(screen)).map_err(failed)?;
    // A panic's message would be lost on the other screen: it waits until the terminal is given back.
    let hook = std::panic::take_hook();
    let (tell, told) = std::sync::mpsc::channel();
    std::panic::set_hook(Box::new(move |panic| drop(tell.send(panic.to_string()))));
    let shown = show(&mut terminal, visitor);
    let ended = CatchUnwind(Box::pin(shown)).await;
    drop(terminal);
    std::panic::set_hook(hook);
    match ended {
        Ok(ended) => ended.map_err(failed),
        Err(panic) => {
            for message in told.try_iter() {
                say::error(&message);
            }
            resume_unwind(panic)
        }
    }
}

/// A future whose panic is an answer.
struct CatchUnwind<F>(std::pin::Pin<Box<F>>);

impl<F: Future> Future for CatchUnwind<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    }
}

async fn show<W: Write>(
    terminal: &mut Terminal<TermionBackend<W>>,
    visitor: Visitor,
) -> std::io::Result<()> {
    let mut state = State {
        url: visitor.url(),
        live: None,
        past: Past::default(),
        trouble: None,
        view: 0,
        range: 2,
        scroll: 0,
        paused: false,
        help: false,
        colors: say::colors_wanted(),
    };
    let (tell, mut events) = mpsc::unbounded_channel();
    let (range, ranges) = tokio::sync::watch::channel(RANGES[state.range]);
    keys(tell.clone())?;
    tokio::task::spawn_local(watch(visitor, ranges, tell));
    let mut resized = signal(SignalKind::window_change())?;
    let mut ends = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ];
    loop {
        terminal.draw(|frame| draw(frame, &state))?;
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Ok(()) };
                if state.take(event) == Then::Leave {
                    return Ok(());
                }
                range.send_if_modified(|known| {
                    let wanted = RANGES[state.range];
                    std::mem::replace(known, wanted) != wanted
                });
            }
            _ = resized.recv() => {}
            () = any(&mut ends) => return Ok(()),
        }
    }
}

/// Ready when one of the signals came.
async fn any(signals: &mut [Signal; 3]) {
    let [one, two, three] = signals;
    tokio::select! {
        _ = one.recv() => {}
        _ = two.recv() => {}
        _ = three.recv() => {}
    }
}

/// Reads the keyboard on a thread of its own, which ends with the process.
fn keys(tell: mpsc::UnboundedSender<Event>) -> std::io::Result<()> {
    let terminal = ratatui_termion::termion::get_tty()?;
    std::thread::Builder::new()
        .name("keys".into())
        .spawn(move || {
            for key in terminal.keys().map_while(Result::ok) {
                if tell.send(Event::Key(key)).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Asks once a second, and at once when another range is wanted.
async fn watch(
    mut visitor: Visitor,
    mut ranges: tokio::sync::watch::Receiver<u32>,
    tell: mpsc::UnboundedSender<Event>,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = ranges.changed() => if changed.is_err() {
                return;
            }
        }
        let range = *ranges.borrow_and_update();
        let event = match seen(&mut visitor, range).await {
            Ok(seen) => Event::Seen(Box::new(seen)),
            Err(trouble) => Event::Trouble(trouble),
        };
        if tell.send(event).is_err() {
            return;
        }
    }
}

impl State {
    fn take(&mut self, event: Event) -> Then {
        match event {
            Event::Key(key) => return self.press(key),
            Event::Trouble(trouble) => self.trouble = Some(trouble.to_string()),
            Event::Seen(seen) => {
                self.trouble = None;
                if !self.paused {
                    let (live, past) = *seen;
                    self.live = Some(live);
                    self.past = past;
                }
            }
        }
        Then::Stay
    }

    fn press(&mut self, key: Key) -> Then {
        match key {
            Key::Char('q') | Key::Ctrl('c') => return Then::Leave,
            Key::Esc if self.help => self.help = false,
            Key::Char('?') | Key::Char('h') => self.help = !self.help,
            Key::Char('\t') | Key::Right => self.turn_to((self.view + 1) % VIEWS.len()),
            Key::BackTab | Key::Left => {
                self.turn_to((self.view + VIEWS.len() - 1) % VIEWS.len());
            }
            Key::Char(digit @ '1'..='5') => {
                self.turn_to(usize::from(digit as u8 - b'1'));
            }
            Key::Char('+' | '=') => self.range = (self.range + 1).min(RANGES.len() - 1),
            Key::Char('-') => self.range = self.range.saturating_sub(1),
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Down | Key::Char('j') => self.scroll = self.scroll.saturating_add(1),
            Key::Up | Key::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            Key::PageDown => self.scroll = self.scroll.saturating_add(10),
            Key::PageUp => self.scroll = self.scroll.saturating_sub(10),
            Key::Home => self.scroll = 0,
            _ => {}
        }
        Then::Stay
    }

    fn turn_to(&mut self, view: usize) {
        self.view = view;
        self.scroll = 0;
        self.help = false;
    }

    fn body(&self, width: usize) -> Lines {
        if self.help {
            return help();
        }
        match &self.live {
            Some(live) => page::view(self.view, live, &self.past, width),
            None => Vec::new(),
        }
    }

    fn tabs(&self) -> Line<'static> {
        let mut spans = Vec::new();
        for (number, name) in VIEWS.iter().enumerate() {
            let style = if number == self.view { STRONG } else { QUIET };
            let text = match number == self.view {
                true => format!("[{} {name}] ", number + 1),
                false => format!(" {} {name}  ", number + 1),
            };
            spans.push(Span::styled(text, style));
        }
        Line::from(spans)
    }

    fn foot(&self) -> Line<'static> {
        if let Some(trouble) = &self.trouble {
            return Line::styled(format!("{trouble}; trying again"), BAD);
        }
        let range = text::seconds(f64::from(RANGES[self.range]));
        let paused = if self.paused { "PAUSED (p)   " } else { "" };
        Line::styled(
            format!(
                "{paused}{}   graphs over {range} (+ -)   1-5 or Tab views   p pause   ? help   q quit",
                self.url
            ),
            QUIET,
        )
    }
}

fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    paint(area, frame.buffer_mut(), state);
}

/// Head, tabs, body, foot.
fn paint(area: Rect, buffer: &mut Buffer, state: &State) {
    let width = usize::from(area.width);
    let head = match &state.live {
        Some(live) => page::header(live),
        None => vec![Line::styled(format!("asking {}", state.url), QUIET)],
    };
    let rows = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, tabs, _, body, foot] = Layout::vertical([
        Constraint::Max(rows.min(area.height / 3).max(1)),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    Paragraph::new(Text::from(head)).render(top, buffer);
    Paragraph::new(state.tabs()).render(tabs, buffer);
    let lines = state.body(width);
    // The last line stays in sight, however often somebody presses.
    let most = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_sub(body.height);
    Paragraph::new(Text::from(lines))
        .scroll((state.scroll.min(most), 0))
        .render(body, buffer);
    Paragraph::new(state.foot()).render(foot, buffer);
    if !state.colors {
        for cell in &mut buffer.content {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
    }
}

fn help() -> Lines {
    [
        "1-5, Tab      views: overview, phases, price of a miss, who (listeners, sites, workers), alarms",
        "+ -           graphs over a longer or a shorter time",
        "arrows        scroll; PgUp and PgDn by ten lines, Home to the top",
        "p             hold everything still, and let it go on",
        "?             this, and back",
        "q, Ctrl-C     leave",
        "",
        "The figures are those of the last second; those in brackets are of the last minute. Cores are",
        "seconds of CPU per second of the workers. The page at the same address shows the same.",
    ]
    .into_iter()
    .map(Line::raw)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            url: "http://127.0.0.1:9180".into(),
            live: Some(Live::default()),
            past: Past::default(),
            trouble: None,
            view: 0,
            range: 2,
            scroll: 0,
            paused: false,
            help: false,
            colors: true,
        }
    }

    fn text(state: &State, width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        paint(area, &mut buffer, state);
        buffer.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn keys_turn_pages_and_lead_out() {
        let mut state = state();
        assert!(state.press(Key::Char('3')) == Then::Stay);
        assert_eq!(state.view, 2);
        state.press(Key::Char('\t'));
        state.press(Key::Char('\t'));
        state.press(Key::Char('\t'));
        assert_eq!(state.view, 0);
        state.press(Key::BackTab);
        assert_eq!(state.view, 4);
        for _ in 0..20 {
            state.press(Key::Char('+'));
        }
        assert_eq!(RANGES[state.range], 86_400);
        state.press(Key::Char('?'));
        assert!(text(&state, 120, 30).contains("hold everything still"));
        assert!(state.press(Key::Char('q')) == Then::Leave);
        assert!(state.press(Key::Ctrl('c')) == Then::Leave);
    }

    #[test]
    fn what_is_paused_stays_and_trouble_is_told() {
        let mut state = state();
        state.press(Key::Char('p'));
        let mut live = Live::default();
        live.instance.version = "9".into();
        state.take(Event::Seen(Box::new((live, Past::default()))));
        assert_eq!(state.live.as_ref().unwrap().instance.version, "");
        state.take(Event::Trouble(Trouble::Away("gone".into())));
        assert!(text(&state, 120, 30).contains("gone; trying again"));
    }

    #[test]
    fn a_tiny_terminal_and_no_colour_are_no_trouble() {
        let mut state = state();
        state.colors = false;
        for (width, height) in [(1, 1), (20, 3), (80, 24), (300, 80)] {
            text(&state, width, height);
        }
    }
}
