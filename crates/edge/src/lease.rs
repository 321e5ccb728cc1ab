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
    outcome: Outcome,
}

impl Lease {
    /// Takes a place at the next backend that is not in `tried`; `None` when all have been tried.
    pub fn take(site: &Rc<WorkerSite>, tried: &[usize]) -> Option<Self> {
        let mut balancer = site.balancer.borrow_mut();
        let number = balancer.choose(Instant::now(), tried)?;
        if tried.contains(&number) {
            return None;
        }
        balancer.started(number);
        Some(Self {
            site: Rc::clone(site),
            number,
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
        self.site
            .balancer
            .borrow_mut()
            .finished(self.number, self.outcome, Instant::now());
    }
}
