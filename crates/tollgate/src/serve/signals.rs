//! What the process is told by signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are listened for.
pub struct Signals {
    /// Read the configuration again.
    pub hang_up: Signal,
    /// Start the program at our path and hand over to it.
    pub upgrade: Signal,
    /// End in good order.
    pub terminate: Signal,
    /// The same, from a terminal.
    pub interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the host refuses a handler.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}
