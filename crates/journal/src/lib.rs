//! The access log: one line per request or connection, never in the way of the data path.
//!
//! A worker hands plain data over ([`Journal::write`]) and goes on; a thread of the journal's own turns it into
//! lines and writes them. When that thread cannot keep up, because the disk is full or nobody reads the pipe,
//! lines are dropped and counted and nothing else happens. Decides nothing: what is logged, and what is left
//! out by sampling, is the caller's business. Reads no clock: an entry carries its time.

mod entry;
mod format;
mod sink;
mod writer;

pub use entry::{End, Entry, Event, LONGEST_TEXT_BYTES, Peer};
pub use format::Format;
pub use writer::{Journal, QUEUE_ENTRIES, Target};
