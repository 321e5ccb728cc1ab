//! Tickets under our own keys, one at a time.

use std::sync::Arc;

use rustls::server::ProducesTickets;
use tollgate_terms::ResumptionMiss;

use super::{PrimitiveError, broken};
use crate::resumption::{Resumption, SiteSessions};
use crate::trace::{self, Trace};

/// The tickets of one site without client certificates: what its handshakes seal and open.
pub struct Tickets(SiteSessions);

impl Tickets {
    /// Those of the site with this id (see [`crate::SitePolicy`]), under the keys of `resumption`.
    pub fn new(resumption: &Arc<Resumption>, site: u64) -> Self {
        Self(SiteSessions {
            resumption: Arc::clone(resumption),
            site,
            policy: 0,
        })
    }

    /// Seals a session into a ticket, as at the end of a handshake.
    ///
    /// # Errors
    /// When no key issues now.
    pub fn seal(&self, session: &[u8]) -> Result<Vec<u8>, PrimitiveError> {
        trace::lend(&mut Trace::default(), || self.0.encrypt(session))
            .ok_or_else(|| broken("ticket", "no ticket key issues now"))
    }

    /// Opens a ticket, as at the beginning of a handshake.
    ///
    /// # Errors
    /// When a handshake would not resume with it.
    pub fn open(&self, ticket: &[u8]) -> Result<Vec<u8>, PrimitiveError> {
        let mut trace = Trace::default();
        trace::lend(&mut trace, || self.0.decrypt(ticket)).ok_or_else(|| {
            let miss = trace.miss.map_or("unknown", ResumptionMiss::name);
            broken("ticket", miss)
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_keys::{KeyMaterial, Lifetimes, Ring};
    use tollgate_terms::UnixTime;

    use super::*;
    use crate::{Clock, ResumptionSettings};
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3_600);
    const NOW: UnixTime = UnixTime(1_790_000_000);

    fn resumption() -> (Clock, Arc<Resumption>) {
        let lifetimes = Lifetimes::new(HOUR * 24, HOUR * 6).unwrap();
        let material = KeyMaterial {
            name: [1; 16],
            secret: [2; 32].into(),
        };
        let settings = ResumptionSettings {
            tickets: true,
            lifetime: HOUR,
            session_cache_entries: 0,
        };
        let clock = Clock::new(NOW);
        let ring = Ring::new(lifetimes, NOW, material);
        (clock.clone(), Resumption::new(clock, settings, &ring))
    }

    #[test]
    fn a_ticket_opens_to_what_was_sealed_for_the_same_site() {
        let (_, resumption) = resumption();
        let tickets = Tickets::new(&resumption, 7);
        let ticket = tickets.seal(b"a session").unwrap();
        assert_eq!(tickets.open(&ticket).unwrap(), b"a session");
        assert_ne!(tickets.seal(b"a session").unwrap(), ticket, "nonces repeat");
        let error = Tickets::new(&resumption, 8).open(&ticket).unwrap_err();
        assert_eq!(error.reason, "other_site");
        let mut changed = ticket.clone();
        changed[40] ^= 1;
        assert_eq!(tickets.open(&changed).unwrap_err().reason, "malformed");
    }

    #[test]
    fn an_old_ticket_does_not_open() {
        let (clock, resumption) = resumption();
        let tickets = Tickets::new(&resumption, 7);
        let ticket = tickets.seal(b"a session").unwrap();
        clock.set(NOW + HOUR);
        assert_eq!(tickets.open(&ticket).unwrap_err().reason, "expired");
    }
}
