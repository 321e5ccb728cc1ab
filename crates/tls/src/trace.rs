//! What happened inside one synchronous handshake step.
//!
//! The library calls our ticketer, session store, certificate choice and signer without saying for
//! which connection. A step never awaits, so a handshake lends its notes to its thread for the time
//! of a step and takes them back after it. Whoever suspends a step half-way must swap them too.

use std::cell::Cell;
use std::time::Duration;

use rustls::SignatureScheme;
use tollgate_terms::{CertificateKind, ResumptionMethod, ResumptionMiss, UnixTime};

/// Notes of one handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace {
    /// The client offers TLS 1.3 and the site speaks it.
    pub(crate) tls13: bool,
    /// The client takes tickets, so that its TLS 1.2 session need not be stored.
    pub(crate) takes_tickets: bool,
    /// State that was found for the client.
    pub(crate) found: Option<Found>,
    /// Why the first state that was looked for could not be used.
    pub(crate) miss: Option<ResumptionMiss>,
    /// The name of the first key that a ticket was made with and that we do not hold.
    pub(crate) unknown_key: Option<[u8; 16]>,
    /// Kind of certificate that was chosen.
    pub(crate) certificate: Option<CertificateKind>,
    /// No certificate of the site suits the client, although they share a suite.
    pub(crate) unsuited: bool,
    /// Scheme of our signature.
    pub(crate) scheme: Option<SignatureScheme>,
}

/// State of an earlier connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// How it was found.
    pub(crate) method: ResumptionMethod,
    /// When its first full handshake was, whatever number of tickets ago.
    pub(crate) made: UnixTime,
    /// How long ago this ticket or entry was made.
    pub(crate) age: Duration,
}

thread_local! {
    static CURRENT: Cell<Trace> = const { Cell::new(Trace {
        tls13: false,
        takes_tickets: false,
        found: None,
        miss: None,
        unknown_key: None,
        certificate: None,
        unsuited: false,
        scheme: None,
    }) };
}

/// The notes of the handshake that is in a step on this thread.
pub(crate) fn current() -> Trace {
    CURRENT.get()
}

/// Adds to the notes of the handshake that is in a step on this thread.
pub(crate) fn note(change: impl FnOnce(&mut Trace)) {
    let mut trace = CURRENT.get();
    change(&mut trace);
    CURRENT.set(trace);
}

/// Runs one step with `trace` lent to this thread.
pub(crate) fn lend<T>(trace: &mut Trace, step: impl FnOnce() -> T) -> T {
    let outer = CURRENT.replace(*trace);
    let result = step();
    *trace = CURRENT.replace(outer);
    result
}
