//! Ticket keys: which key issues, which still accept, and until when.
//!
//! Never reads a clock, a file or a socket, and makes no random bytes: `now` and the bytes of a key
//! are handed in by the caller, which also decides when to ask for a [`Ring::turn`]. A day of rotation
//! is therefore tested in microseconds.
//!
//! A key waits (so that a fleet can pick it up), issues, accepts what it issued, and retires:
//!
//! ```text
//! made       opens                     opens + issue       opens + issue + accept
//!  |- wait ---|- issue ------------------|- accept ----------|- retire
//!                               |- wait -|- issue ------------------ ...   the next key
//!                               `lead` before
//! ```

mod lifetimes;
mod passing;
mod ring;

pub use lifetimes::{Duty, Lifetimes, LifetimesError, MAX_KEYS};
pub use passing::ImportError;
pub use ring::{KeyMaterial, KeyName, Ring, TicketKey};
