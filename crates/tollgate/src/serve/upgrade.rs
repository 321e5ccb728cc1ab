//! Another program in place of this one.

use super::Parent;
use super::handover::Successor;
use crate::say;

impl Parent {
    /// Starts the program at our path anew and hands it everything; true when it serves in our place.
    pub(super) async fn upgrade(&mut self) -> bool {
        let console = self
            .console
            .as_ref()
            .and_then(|console| console.socket.try_clone().ok());
        let started = Successor::start(
            &self.program,
            self.edge.sockets(),
            console.as_ref(),
            &self.ring,
        );
        let successor = match started {
            Ok(successor) => successor,
            Err(error) => {
                say::error(&format!(
                    "upgrade: the new process could not be started: {error}; this one serves on"
                ));
                return false;
            }
        };
        say::note(&format!(
            "upgrade: process {} is taking over",
            successor.id()
        ));
        match tokio::task::spawn_blocking(move || successor.wait_until_ready()).await {
            Ok(Ok(id)) => {
                say::note(&format!("upgrade: process {id} serves; this one drains"));
                self.replaced = true;
                true
            }
            Ok(Err(reason)) => {
                say::error(&format!("upgrade: {reason}; this process serves on"));
                false
            }
            Err(error) => {
                say::error(&format!("upgrade: {error}; this process serves on"));
                false
            }
        }
    }
}
