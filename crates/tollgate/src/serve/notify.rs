//! What systemd is told: ready, reloading, stopping, alive. Says nothing where there is no systemd.

use std::time::Duration;

use sd_notify::NotifyState;

/// Serving, by this process.
pub fn ready(connections: usize) {
    let status = format!("serving, up to {connections} connections");
    tell(&[
        NotifyState::Ready,
        NotifyState::MainPid(std::process::id()),
        NotifyState::Status(&status),
    ]);
}

/// Reading the configuration again.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// Serving again after `reloading`, with this remark.
pub fn reloaded(remark: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(remark)]);
}

/// Draining, then ending.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// Alive.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often systemd wants to hear `alive`, halved for safety; `None` when it does not care.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn tell(state: &[NotifyState<'_>]) {
    // Nobody to tell is the ordinary case outside systemd.
    let _ = sd_notify::notify(state);
}
