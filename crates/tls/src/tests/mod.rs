//! The room tested through its door, with the library's own client at the other end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod clients;
mod damage;
mod early;
mod ledger;
mod memory;
mod negotiation;
mod records;
mod resumption;
mod speed;
mod streams;
mod support;
