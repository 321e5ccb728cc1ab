//! Evidence of what TLS does, from what other programs and our own leave behind.
//!
//! Never opens a file, reads a clock or prints: lines are handed in one at a time, facts and a report come out.
//! What it does not understand it counts and shows; it does not guess silently.

pub mod logs;
