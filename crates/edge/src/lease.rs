//! A place at a backend: counted when taken, given back when dropped, whoever drops it.

use std::rc::Rc;
use std::time::Instant;

use tollgate_balance::Outcome;

use crate::worker::WorkerSite;

/// One open request or connection at a backend.
#[derive(Debug)]
pub struct Lease {
    site: Rc<WorkerSite>,
    number: usize,
    taken: Instant,
    outcome: Outcome,
}

impl Lease {
    /// Takes a place at the next backend that is not in `tried`, at `now`; `None` when all have been tried.
    pub fn take(site: &Rc<WorkerSite>, tried: &[usize], now: Instant) -> Option<Self> {
        let mut balancer = site.balancer.borrow_mut();
        let number = balancer.choose(now, tried)?;
        if tried.contains(&number) {
            return None;
        }
        balancer.started(number);
        Some(Self {
            site: Rc::clone(site),
            number,
            taken: now,
            outcome: Outcome::Abandoned,
        })
    }

    /// Which backend, in the order of the file.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The backend did its part so far: a trial of one that failed before is passed.
    pub fn answered(&mut self) {
        self.outcome = Outcome::Answered;
        self.site.balancer.borrow_mut().answered(self.number);
    }

    /// The backend did not do what it should.
    pub fn failed(&mut self) {
        self.outcome = Outcome::Failed;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Only the time of a failure means something, and failures are rare.
        let now = match self.outcome {
            Outcome::Failed => Instant::now(),
            Outcome::Answered | Outcome::Abandoned => self.taken,
        };
        let mut balancer = self.site.balancer.borrow_mut();
        balancer.finished(self.number, self.outcome, now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use std::sync::Arc;

    use super::*;
    use crate::live::LiveSite;
    use crate::live::tests::built;

    fn site(backends: &str, more: &str) -> Arc<LiveSite> {
        let text = format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\nsites:\n\
             \x20 - names: [shop.example]\n    certificates: [{{ combined: /ecdsa }}]\n    backends: [{backends}]\n\
             \x20   balance: least_connections\n{more}"
        );
        Arc::clone(&built(&text).1.sites[0])
    }

    #[test]
    fn what_is_open_where_survives_a_reload_that_leaves_the_backends_alone() {
        let (two, one) = ("\"10.0.0.1:80\", \"10.0.0.2:80\"", "\"10.0.0.1:80\"");
        let before = Rc::new(WorkerSite::new(&site(two, ""), None));
        let held = Lease::take(&before, &[], Instant::now()).unwrap();
        let after = WorkerSite::new(&site(two, "    retries: 3\n"), Some(&before));
        assert_eq!(after.balancer.borrow().open(held.number()), 1);
        let other = WorkerSite::new(&site(one, ""), Some(&before));
        assert_eq!(other.balancer.borrow().open(held.number()), 0);
        drop(held);
        assert_eq!(after.balancer.borrow().open(0), 0);
    }

    #[test]
    fn a_client_that_leaves_says_nothing_about_the_backend() {
        use tollgate_balance::State;
        let passive = "    passive_health: { failures: 2 }\n";
        let site = Rc::new(WorkerSite::new(&site("\"10.0.0.1:80\"", passive), None));
        let fail = || Lease::take(&site, &[], Instant::now()).unwrap().failed();
        fail();
        drop(Lease::take(&site, &[], Instant::now()).unwrap());
        fail();
        assert_eq!(site.balancer.borrow().state(0), Some(State::LeftAlone));
        let after = WorkerSite::new(
            &self::site("\"10.0.0.1:80\", \"10.0.0.2:80\"", passive),
            Some(&site),
        );
        assert_eq!(after.balancer.borrow().state(0), Some(State::LeftAlone));
    }
}
