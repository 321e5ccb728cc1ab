//! Which backend takes the next connection or request.
//!
//! Knows backends by their place in the site's list and nothing else about them: opens no connection, reads
//! no clock (`now` is handed in), throws no dice, allocates nothing per choice. What it knows of their health
//! is what the caller tells: outcomes of live traffic, and changes seen by a [`Check`].

mod balancer;
mod check;

pub use balancer::{Balancer, Outcome, PassiveHealth, State, Strategy, Weight};
pub use check::Check;
