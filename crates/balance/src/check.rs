//! When a row of active checks makes a backend up or down.

/// The state of active checks of one backend: up until shown otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    rise: u32,
    fall: u32,
    is_up: bool,
    /// Results in a row that speak against `is_up`.
    contrary: u32,
}

impl Check {
    /// A backend that is up; `rise` successes in a row bring it up, `fall` failures in a row take it down.
    /// Zero counts as one.
    pub fn new(rise: u32, fall: u32) -> Self {
        Self {
            rise: rise.max(1),
            fall: fall.max(1),
            is_up: true,
            contrary: 0,
        }
    }

    /// The same for a backend that is known to be up or down already.
    pub fn starting(self, is_up: bool) -> Self {
        Self { is_up, ..self }
    }

    /// Whether the backend is up.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Takes the result of one check in. `Some(up)` when that changed the state.
    pub fn observe(&mut self, succeeded: bool) -> Option<bool> {
        if succeeded == self.is_up {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        let needed = if self.is_up { self.fall } else { self.rise };
        if self.contrary < needed {
            return None;
        }
        self.is_up = succeeded;
        self.contrary = 0;
        Some(succeeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_was_known_to_be_down_rises_by_successes() {
        let mut check = Check::new(2, 3).starting(false);
        assert_eq!(check.observe(true), None);
        assert_eq!(check.observe(true), Some(true));
    }

    #[test]
    fn a_backend_falls_after_three_failures_and_rises_after_two_successes() {
        let mut check = Check::new(2, 3);
        let results = [
            (false, None),
            (false, None),
            (true, None),
            (false, None),
            (false, None),
            (false, Some(false)),
            (false, None),
            (true, None),
            (false, None),
            (true, None),
            (true, Some(true)),
            (true, None),
        ];
        for (index, (succeeded, change)) in results.into_iter().enumerate() {
            assert_eq!(check.observe(succeeded), change, "at check {index}");
        }
    }

    #[test]
    fn a_threshold_of_zero_acts_at_once() {
        let mut check = Check::new(0, 0);
        assert_eq!(check.observe(false), Some(false));
        assert_eq!(check.observe(true), Some(true));
    }
}
