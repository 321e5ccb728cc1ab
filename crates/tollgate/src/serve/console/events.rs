//! Those who watch: each gets every event of `/events` as it happens.
//!
//! A watcher that falls behind by more than a few events is let go; its browser comes back by itself.

use std::cell::RefCell;

use tokio::sync::mpsc;
use tollgate_http::{Body, Bytes};

/// Watchers at a time.
pub const MOST_WATCHERS: usize = 64;

/// Events that a watcher may be behind.
const BEHIND: usize = 8;

/// How soon a browser comes back after a break.
const RETRY: &str = "retry: 1000\n\n";

/// All who watch now.
#[derive(Debug, Default)]
pub struct Watchers {
    open: RefCell<Vec<mpsc::Sender<Bytes>>>,
}

impl Watchers {
    /// Takes in one more, who hears `first` at once; `None` when there are enough.
    pub fn join(&self, first: Option<Bytes>) -> Option<Body> {
        let mut open = self.open.borrow_mut();
        open.retain(|watcher| !watcher.is_closed());
        if open.len() >= MOST_WATCHERS {
            return None;
        }
        let (watcher, events) = mpsc::channel(BEHIND);
        for event in [Some(Bytes::from_static(RETRY.as_bytes())), first]
            .into_iter()
            .flatten()
        {
            // There is room: nothing was sent before.
            let _ = watcher.try_send(event);
        }
        open.push(watcher);
        Some(Body::streamed(events))
    }

    /// Whether anybody watches.
    pub fn are_there(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Tells everybody; lets those go who have left or fallen behind.
    pub fn tell(&self, event: &Bytes) {
        self.open
            .borrow_mut()
            .retain(|watcher| watcher.try_send(event.clone()).is_ok());
    }

    /// Ends the stream of everybody.
    pub fn dismiss(&self) {
        self.open.borrow_mut().clear();
    }
}

/// An event of `name` with one line of data.
pub fn event(name: &str, line: &str) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {line}\n\n"))
}

/// A line that keeps a quiet connection from being taken for dead.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_and_a_place_is_free_again_when_one_leaves() {
        let watchers = Watchers::default();
        let mut bodies: Vec<Body> = (0..MOST_WATCHERS)
            .filter_map(|_| watchers.join(None))
            .collect();
        assert_eq!(bodies.len(), MOST_WATCHERS);
        assert!(watchers.join(None).is_none());
        bodies.pop();
        assert!(watchers.join(None).is_some());
    }

    #[test]
    fn one_who_does_not_read_is_let_go_and_the_others_stay() {
        let watchers = Watchers::default();
        let _slow = watchers.join(None).unwrap();
        for _ in 0..BEHIND {
            watchers.tell(&keep_alive());
        }
        assert!(!watchers.are_there(), "the first place was taken by retry");
        let _quick = watchers.join(None).unwrap();
        watchers.tell(&keep_alive());
        assert!(watchers.are_there());
        watchers.dismiss();
        assert!(!watchers.are_there());
    }

    #[test]
    fn an_event_is_one_block() {
        assert_eq!(
            &event("live", "{}")[..],
            b"event: live\ndata: {}\n\n".as_slice()
        );
    }
}
