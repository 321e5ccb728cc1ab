//! `tls.yaml` read into a typed configuration: every error with file, line, column, the value,
//! what is allowed, and a way out; all of them at once.
//!
//! Input is the text of one file, handed in. Opens no file that the text names: what needs one
//! (keys, certificates, bundles) is marked `Spanned` and checked by the rooms that own it.

pub mod model;

pub use model::*;
