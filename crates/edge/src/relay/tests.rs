//! A relay between two scripted ends, polled by hand: nothing waits, nothing is left to chance.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use super::*;

/// What an end has been told and has said; shared with the test.
#[derive(Default)]
struct Script {
    arriving: VecDeque<io::Result<Took>>,
    bytes: VecDeque<u8>,
    /// Bytes that it takes before its reader must make room again.
    room: usize,
    taken: Vec<u8>,
    finished: Option<Ended>,
    breaks_on_give: bool,
    held: bool,
}

#[derive(Clone, Default)]
struct Scripted(Rc<RefCell<Script>>);

impl Scripted {
    fn with_room(room: usize) -> Self {
        let end = Self::default();
        end.0.borrow_mut().room = room;
        end
    }

    fn says(&self, text: &str) {
        let mut script = self.0.borrow_mut();
        script.bytes.extend(text.bytes());
        script.arriving.push_back(Ok(Took::Bytes(text.len())));
    }

    fn ends(&self, ended: Ended) {
        self.0.borrow_mut().arriving.push_back(Ok(Took::End(ended)));
    }

    fn breaks(&self) {
        let error = io::ErrorKind::ConnectionReset.into();
        self.0.borrow_mut().arriving.push_back(Err(error));
    }

    fn make_room(&self, room: usize) {
        self.0.borrow_mut().room += room;
    }

    fn taken(&self) -> String {
        String::from_utf8(self.0.borrow().taken.clone()).unwrap()
    }

    fn finished(&self) -> Option<Ended> {
        self.0.borrow().finished
    }
}

impl End for Scripted {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        scratch: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<Took>> {
        let Some(arrived) = self.0.borrow_mut().arriving.pop_front() else {
            return Poll::Pending;
        };
        if let Ok(Took::Bytes(count)) = arrived {
            for (place, byte) in scratch
                .iter_mut()
                .zip(self.0.borrow_mut().bytes.drain(..count))
            {
                *place = byte;
            }
            sink(&scratch[..count]);
        }
        Poll::Ready(arrived)
    }

    fn poll_give(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut script = self.0.borrow_mut();
        if script.breaks_on_give {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let given = bytes.len().min(script.room);
        if given == 0 {
            return Poll::Pending;
        }
        script.room -= given;
        script.taken.extend_from_slice(&bytes[..given]);
        script.held = false;
        Poll::Ready(Ok(given))
    }

    fn poll_held(&mut self, _: &mut Context<'_>) {
        self.0.borrow_mut().held = false;
    }

    fn has_held(&self) -> bool {
        self.0.borrow().held
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>, ended: Ended, _: Then) -> Poll<io::Result<()>> {
        self.0.borrow_mut().finished = Some(ended);
        Poll::Ready(Ok(()))
    }
}

struct Counted {
    scratch: RefCell<Box<[u8]>>,
    sent: Cell<usize>,
    took: Cell<usize>,
    blocked: Cell<bool>,
}

impl Counted {
    fn new() -> Self {
        Self {
            scratch: RefCell::new(vec![0; 64].into()),
            sent: Cell::new(0),
            took: Cell::new(0),
            blocked: Cell::new(false),
        }
    }
}

impl Tally for Counted {
    fn scratch(&self) -> RefMut<'_, Box<[u8]>> {
        self.scratch.borrow_mut()
    }

    fn client_sent(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes);
    }

    fn client_took(&self, bytes: usize) {
        self.took.set(self.took.get() + bytes);
    }

    fn set_blocked(&self, blocked: bool) {
        self.blocked.set(blocked);
    }
}

/// Polls once with a waker that does nothing.
fn turn<F: Future>(relay: &mut Pin<Box<F>>) -> Poll<F::Output> {
    relay.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn ended(polled: Poll<Result<Ended, (Broken, io::Error)>>) -> Ended {
    match polled {
        Poll::Ready(Ok(ended)) => ended,
        other => panic!("the relay goes on: {other:?}"),
    }
}

fn broken(polled: Poll<Result<Ended, (Broken, io::Error)>>) -> Broken {
    match polled {
        Poll::Ready(Err((broken, _))) => broken,
        other => panic!("nothing is broken: {other:?}"),
    }
}

#[test]
fn bytes_go_both_ways_and_are_counted() {
    let (client, backend, tally) = (
        Scripted::with_room(99),
        Scripted::with_room(99),
        Counted::new(),
    );
    let (mut near, mut far) = (client.clone(), backend.clone());
    let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
    client.says("question");
    backend.says("answer");
    assert!(turn(&mut relay).is_pending());
    assert_eq!(backend.taken(), "question");
    assert_eq!(client.taken(), "answer");
    assert_eq!((tally.sent.get(), tally.took.get()), (8, 6));
    assert!(!tally.blocked.get());
}

#[test]
fn either_side_may_end_first_and_the_other_goes_on() {
    for client_first in [true, false] {
        let (client, backend, tally) = (
            Scripted::with_room(99),
            Scripted::with_room(99),
            Counted::new(),
        );
        let (mut near, mut far) = (client.clone(), backend.clone());
        let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
        let (first, second) = match client_first {
            true => (&client, &backend),
            false => (&backend, &client),
        };
        first.says("last words");
        first.ends(Ended::Whole);
        assert!(turn(&mut relay).is_pending());
        assert_eq!(second.taken(), "last words");
        assert_eq!(second.finished(), Some(Ended::Whole));
        assert_eq!(first.finished(), None);
        second.says("more");
        assert!(turn(&mut relay).is_pending());
        assert_eq!(first.taken(), "more");
        second.ends(Ended::Whole);
        assert_eq!(ended(turn(&mut relay)), Ended::Whole);
        assert_eq!(first.finished(), Some(Ended::Whole));
    }
}

#[test]
fn a_cut_response_is_passed_on_as_cut() {
    let (client, backend, tally) = (
        Scripted::with_room(99),
        Scripted::with_room(99),
        Counted::new(),
    );
    let (mut near, mut far) = (client.clone(), backend.clone());
    let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
    backend.says("half a resp");
    backend.ends(Ended::Cut);
    client.ends(Ended::Whole);
    assert_eq!(ended(turn(&mut relay)), Ended::Cut);
    assert_eq!(client.finished(), Some(Ended::Cut));
    assert_eq!(backend.finished(), Some(Ended::Whole));
}

#[test]
fn a_side_that_takes_nothing_stops_the_other_and_nothing_is_lost() {
    let (client, backend, tally) = (
        Scripted::with_room(3),
        Scripted::with_room(99),
        Counted::new(),
    );
    let (mut near, mut far) = (client.clone(), backend.clone());
    let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
    backend.says("first");
    backend.says("second");
    assert!(turn(&mut relay).is_pending());
    assert_eq!(client.taken(), "fir");
    assert_eq!(
        backend.0.borrow().arriving.len(),
        1,
        "the second read waits"
    );
    assert!(tally.blocked.get(), "the client is the one awaited");
    client.says("meanwhile");
    assert!(turn(&mut relay).is_pending());
    assert_eq!(backend.taken(), "meanwhile", "the other direction goes on");
    client.make_room(99);
    assert!(turn(&mut relay).is_pending());
    assert_eq!(client.taken(), "firstsecond");
    assert!(!tally.blocked.get());
}

#[test]
fn an_end_waits_behind_bytes_that_were_not_taken_yet() {
    let (client, backend, tally) = (
        Scripted::with_room(2),
        Scripted::with_room(99),
        Counted::new(),
    );
    let (mut near, mut far) = (client.clone(), backend.clone());
    let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
    backend.says("word");
    backend.ends(Ended::Whole);
    client.ends(Ended::Whole);
    assert!(turn(&mut relay).is_pending());
    assert_eq!(client.finished(), None);
    client.make_room(2);
    assert_eq!(ended(turn(&mut relay)), Ended::Whole);
    assert_eq!(client.taken(), "word");
}

#[test]
fn the_side_that_broke_is_blamed_whoever_found_out() {
    for (breaks, gives, blamed) in [
        (true, false, Broken::Client),
        (false, false, Broken::Backend),
        (true, true, Broken::Client),
        (false, true, Broken::Backend),
    ] {
        let (client, backend, tally) = (
            Scripted::with_room(99),
            Scripted::with_room(99),
            Counted::new(),
        );
        let (mut near, mut far) = (client.clone(), backend.clone());
        let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
        let (guilty, other) = match breaks {
            true => (&client, &backend),
            false => (&backend, &client),
        };
        if gives {
            guilty.0.borrow_mut().breaks_on_give = true;
            other.says("to nobody");
        } else {
            guilty.breaks();
        }
        assert_eq!(broken(turn(&mut relay)), blamed);
    }
}

#[test]
fn a_busy_direction_lets_the_other_have_its_turn() {
    let (client, backend, tally) = (
        Scripted::with_room(9999),
        Scripted::with_room(9999),
        Counted::new(),
    );
    let (mut near, mut far) = (client.clone(), backend.clone());
    let mut relay = Box::pin(relay(&mut near, &mut far, &tally));
    for _ in 0..100 {
        client.says("x");
    }
    backend.says("y");
    assert!(turn(&mut relay).is_pending());
    assert!(backend.taken().len() < 100);
    assert_eq!(client.taken(), "y");
    while backend.taken().len() < 100 {
        assert!(turn(&mut relay).is_pending());
    }
}

#[test]
fn a_ticket_that_no_response_carries_is_sent_by_itself() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, backend, tally) = (
            Scripted::with_room(99),
            Scripted::with_room(99),
            Counted::new(),
        );
        client.0.borrow_mut().held = true;
        let (mut near, mut far) = (client.clone(), backend.clone());
        let relay = relay(&mut near, &mut far, &tally);
        let sent = async {
            while client.0.borrow().held {
                tokio::time::sleep(TICKET_PATIENCE / 10).await;
            }
        };
        tokio::select! {
            biased;
            _ = relay => panic!("the relay ended"),
            () = sent => {}
        }
    });
}
