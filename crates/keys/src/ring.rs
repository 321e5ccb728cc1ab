//! The keys held at a time, and the step from one set to the next.

use std::fmt;

use tollgate_terms::UnixTime;
use zeroize::Zeroizing;

use crate::{Duty, Lifetimes, MAX_KEYS};

/// What a ticket says about the key that sealed it. Public: it is sent in the clear.
pub type KeyName = [u8; 16];

/// Random bytes for one key, made by the caller.
#[derive(Clone)]
pub struct KeyMaterial {
    /// Sent in the clear in front of every ticket.
    pub name: KeyName,
    /// What ticket protection is derived from.
    pub secret: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyMaterial").finish_non_exhaustive()
    }
}

/// A key of the ring.
#[derive(Clone)]
pub struct TicketKey {
    /// Sent in the clear in front of every ticket.
    pub name: KeyName,
    /// What ticket protection is derived from; wiped when dropped.
    pub secret: Zeroizing<[u8; 32]>,
    /// When it begins to issue.
    pub opens: UnixTime,
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey {{ name: ")?;
        for byte in &self.name[..4] {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "…, opens: {} }}", self.opens.0)
    }
}

/// The keys held at a time, in the order in which they open. Never changes: [`Ring::turn`] makes the next one.
#[derive(Clone, Debug)]
pub struct Ring {
    lifetimes: Lifetimes,
    keys: Vec<TicketKey>,
}

impl Ring {
    /// The first ring of a process: one key, which issues at once.
    pub fn new(lifetimes: Lifetimes, now: UnixTime, material: KeyMaterial) -> Self {
        Self {
            lifetimes,
            keys: vec![open(material, now)],
        }
    }

    /// A ring of keys that were kept elsewhere, in any order; the caller has checked that there are at most [`MAX_KEYS`].
    pub(crate) fn of(lifetimes: Lifetimes, mut keys: Vec<TicketKey>) -> Self {
        keys.sort_by_key(|key| key.opens);
        Self { lifetimes, keys }
    }

    /// How long keys of this ring issue and accept.
    pub fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }

    /// The same keys under other lifetimes, as after a reload. A key may have to retire or a new one be made:
    /// follow with [`Ring::turn`].
    #[must_use]
    pub fn with_lifetimes(&self, lifetimes: Lifetimes) -> Self {
        Self {
            lifetimes,
            keys: self.keys.clone(),
        }
    }

    /// Every key held, in the order in which they open.
    pub fn keys(&self) -> &[TicketKey] {
        &self.keys
    }

    /// The key that new tickets are sealed under: of those whose time it is, the one that opened last.
    ///
    /// `None` only when nobody turned the ring in time, or the clock was set back.
    pub fn issuing(&self, now: UnixTime) -> Option<&TicketKey> {
        self.keys
            .iter()
            .rev()
            .find(|key| self.lifetimes.duty(key.opens, now) == Duty::Issue)
    }

    /// The key with this name, whatever its duty.
    pub fn find(&self, name: &KeyName) -> Option<&TicketKey> {
        self.keys.iter().find(|key| key.name == *name)
    }

    /// The key with this name if a ticket sealed under it is to be taken at `now`: a waiting key too, because
    /// another member of the fleet may be a little ahead.
    pub fn accepting(&self, name: &KeyName, now: UnixTime) -> Option<&TicketKey> {
        self.find(name)
            .filter(|key| self.duty(key, now) != Duty::Retire)
    }

    /// What `key` is there for at `now`. At most one key of a ring has [`Duty::Issue`] at a time.
    pub fn duty(&self, key: &TicketKey, now: UnixTime) -> Duty {
        match self.lifetimes.duty(key.opens, now) {
            Duty::Issue
                if self
                    .issuing(now)
                    .is_some_and(|issuing| issuing.name != key.name) =>
            {
                Duty::Accept
            }
            duty => duty,
        }
    }

    /// The next ring, when a key retires or a new one is due; `None` when this one still holds.
    ///
    /// A new key is made [`Lifetimes::lead`] before the issuing one ends, and waits. When no key issues at all
    /// (the ring was not turned in time, or the clock was set back), the new key issues at once. `material` is
    /// called only for a new key. To keep exactly one key issuing, call at least once per lead; once a minute
    /// is plenty.
    pub fn turn(&self, now: UnixTime, material: impl FnOnce() -> KeyMaterial) -> Option<Self> {
        let mut keys: Vec<TicketKey> = self
            .keys
            .iter()
            .filter(|key| self.is_kept(key, now))
            .cloned()
            .collect();
        let due = self.next_opening(&keys, now);
        if due.is_none() && keys.len() == self.keys.len() {
            return None;
        }
        if let Some(opens) = due {
            keys.push(open(material(), opens));
            keys.sort_by_key(|key| key.opens);
        }
        let surplus = keys.len().saturating_sub(MAX_KEYS);
        keys.drain(..surplus);
        Some(Self {
            lifetimes: self.lifetimes,
            keys,
        })
    }

    /// Not retired, and not from a future in which no key of ours would be made: there the clock was set back.
    fn is_kept(&self, key: &TicketKey, now: UnixTime) -> bool {
        self.lifetimes.duty(key.opens, now) != Duty::Retire
            && key.opens <= now + self.lifetimes.issue()
    }

    /// When the key that has to be made now is to open; `None` when none has to be made.
    fn next_opening(&self, keys: &[TicketKey], now: UnixTime) -> Option<UnixTime> {
        let Some(issuing) = self.issuing(now) else {
            return Some(now);
        };
        let end = issuing.opens + self.lifetimes.issue();
        let is_followed = keys.iter().any(|key| key.opens > now);
        (!is_followed && now + self.lifetimes.lead() >= end).then_some(end)
    }
}

fn open(material: KeyMaterial, opens: UnixTime) -> TicketKey {
    TicketKey {
        name: material.name,
        secret: material.secret,
        opens,
    }
}
