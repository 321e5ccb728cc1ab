//! Sessions that outlive their connection: tickets under our own keys, and the session cache.
//!
//! A ticket is `[16-byte key name][12-byte nonce][AES-256-GCM ciphertext and tag]`. The plaintext, like
//! an entry of the cache, starts with what it is bound to: the site, its client-certificate policy, and
//! the moment when the session was first made. Nothing here fails a handshake: what cannot be used
//! makes it a full one, and the reason is noted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use quick_cache::sync::Cache;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::time_provider::TimeProvider;
use tollgate_keys::{Duty, Lifetimes, Ring};
use tollgate_terms::{ResumptionMethod, ResumptionMiss, UnixTime};

use crate::timing::{self, Part, part};
use crate::trace::{self, Found};

/// RFC 8446, section 4.6.1.
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
const NAME_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const SEALED_AT: usize = NAME_BYTES + NONCE_BYTES;

/// A coarse wall clock that its owner sets, once a second or so. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// A clock that shows `now`.
    pub fn new(now: UnixTime) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// Sets the clock and all its clones.
    pub fn set(&self, now: UnixTime) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// What it shows.
    pub fn now(&self) -> UnixTime {
        UnixTime(self.0.load(Ordering::Relaxed))
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        Some(rustls::pki_types::UnixTime::since_unix_epoch(
            Duration::from_secs(self.now().0),
        ))
    }
}

/// How sessions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumptionSettings {
    /// Whether clients get self-contained tickets. Without, both versions use the session cache.
    pub tickets: bool,
    /// How long a session lives; over seven days count as seven days.
    pub lifetime: Duration,
    /// Sessions in the cache at most; 0 turns it off.
    pub session_cache_entries: usize,
}

/// Ticket keys and session cache of the whole process, for all sites and workers; survives reloads.
pub struct Resumption {
    clock: Clock,
    settings: ArcSwap<ResumptionSettings>,
    keys: ArcSwap<Keys>,
    cache: Cache<Box<[u8]>, Arc<[u8]>>,
}

impl Resumption {
    /// Starts with the keys of `ring` and an empty cache.
    pub fn new(clock: Clock, settings: ResumptionSettings, ring: &Ring) -> Arc<Self> {
        Arc::new(Self {
            clock,
            settings: ArcSwap::from_pointee(settings),
            keys: ArcSwap::from_pointee(Keys::new(ring)),
            cache: Cache::new(settings.session_cache_entries),
        })
    }

    /// Takes the keys of `ring` in place of those before, for handshakes from now on.
    pub fn set_ring(&self, ring: &Ring) {
        self.keys.store(Arc::new(Keys::new(ring)));
    }

    /// Takes other settings. Sessions that still fit stay.
    pub fn reconfigure(&self, settings: ResumptionSettings) {
        let before = self.settings.swap(Arc::new(settings));
        if before.session_cache_entries != settings.session_cache_entries {
            self.cache
                .set_capacity(u64::try_from(settings.session_cache_entries).unwrap_or(u64::MAX));
        }
        if settings.session_cache_entries == 0 {
            self.cache.clear();
        }
    }

    /// Sessions in the cache now.
    pub fn sessions(&self) -> usize {
        self.cache.len()
    }

    /// Bytes of the ids and sessions in the cache, without what it takes to find them. Beyond ten
    /// thousand sessions, the rest is taken to be like the first ten thousand.
    pub fn session_bytes(&self) -> u64 {
        const LOOKED_AT: usize = 10_000;
        let (mut looked_at, mut bytes) = (0, 0);
        for (id, session) in self.cache.iter().take(LOOKED_AT) {
            looked_at += 1;
            bytes += (id.len() + session.len()) as u64;
        }
        match self.cache.len() {
            all if all > LOOKED_AT && looked_at > 0 => bytes * all as u64 / looked_at,
            _ => bytes,
        }
    }

    /// Bytes of all ids and sessions in the cache; looks at every one.
    pub(crate) fn stored_bytes(&self) -> usize {
        let entries = self.cache.iter();
        entries.map(|(id, session)| id.len() + session.len()).sum()
    }

    /// The clock that decides on lifetimes.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    fn lifetime(&self) -> Duration {
        self.settings.load().lifetime.min(MAX_LIFETIME)
    }
}

impl fmt::Debug for Resumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption")
            .field("settings", &self.settings.load())
            .field("sessions", &self.sessions())
            .finish_non_exhaustive()
    }
}

/// The keys of a ring, expanded. Memory of an expanded key is wiped by the library when it is freed.
struct Keys {
    lifetimes: Lifetimes,
    /// In the order of opening.
    keys: Vec<Key>,
}

struct Key {
    name: [u8; NAME_BYTES],
    opens: UnixTime,
    cipher: LessSafeKey,
}

impl Keys {
    fn new(ring: &Ring) -> Self {
        Self {
            lifetimes: ring.lifetimes(),
            keys: ring
                .keys()
                .iter()
                .filter_map(|key| {
                    // 32 bytes are the length of an AES-256 key, so none is left out.
                    let cipher = UnboundKey::new(&AES_256_GCM, key.secret.as_slice()).ok()?;
                    Some(Key {
                        name: key.name,
                        opens: key.opens,
                        cipher: LessSafeKey::new(cipher),
                    })
                })
                .collect(),
        }
    }

    fn issuing(&self, now: UnixTime) -> Option<&Key> {
        self.keys
            .iter()
            .rev()
            .find(|key| self.lifetimes.duty(key.opens, now) == Duty::Issue)
    }

    fn accepting(&self, name: &[u8], now: UnixTime) -> Option<&Key> {
        self.keys
            .iter()
            .find(|key| key.name == name)
            .filter(|key| self.lifetimes.duty(key.opens, now) != Duty::Retire)
    }
}

/// What a session is bound to besides its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Binding {
    site: u64,
    policy: u64,
    /// When its first full handshake was, whatever number of tickets ago.
    made: UnixTime,
    /// How long after that this ticket or entry was made; below seven days, as sessions are.
    after: Duration,
}

impl Binding {
    const BYTES: usize = 24;

    /// Seconds since 1970 take this many bits of eight bytes until the year 36,812; the seconds after
    /// that are in front of them.
    const MADE_BITS: u32 = 40;

    fn write(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.site.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.policy.to_be_bytes());
        let made = self.made.0 & ((1 << Self::MADE_BITS) - 1);
        let after = self.after.as_secs().min(MAX_LIFETIME.as_secs()) << Self::MADE_BITS;
        bytes[16..].copy_from_slice(&(after | made).to_be_bytes());
        bytes
    }

    /// The binding in front of `bytes` and what follows it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (site, rest) = bytes.split_first_chunk()?;
        let (policy, rest) = rest.split_first_chunk()?;
        let (times, rest) = rest.split_first_chunk()?;
        let times = u64::from_be_bytes(*times);
        let binding = Self {
            site: u64::from_be_bytes(*site),
            policy: u64::from_be_bytes(*policy),
            made: UnixTime(times & ((1 << Self::MADE_BITS) - 1)),
            after: Duration::from_secs(times >> Self::MADE_BITS),
        };
        Some((binding, rest))
    }
}

/// The sessions of one site under one client-certificate policy.
#[derive(Debug)]
pub(crate) struct SiteSessions {
    pub(crate) resumption: Arc<Resumption>,
    pub(crate) site: u64,
    /// Digest of the client-certificate policy.
    pub(crate) policy: u64,
}

impl SiteSessions {
    /// What a session made now is bound to. A session that grows out of an earlier one keeps that
    /// one's age, or else a client could carry a secret or an identity on for ever.
    fn binding(&self) -> Binding {
        let now = self.resumption.clock.now();
        let made = trace::current().found.map_or(now, |found| found.made);
        Binding {
            site: self.site,
            policy: self.policy,
            made,
            after: now.since(made),
        }
    }

    /// The session behind its binding, if it may be used here and now.
    fn admit<'a>(
        &self,
        bytes: &'a [u8],
        method: ResumptionMethod,
    ) -> Result<&'a [u8], ResumptionMiss> {
        let (binding, session) = Binding::read(bytes).ok_or(ResumptionMiss::Malformed)?;
        if binding.site != self.site {
            return Err(ResumptionMiss::OtherSite);
        }
        if binding.policy != self.policy {
            return Err(ResumptionMiss::PolicyChanged);
        }
        let now = self.resumption.clock.now();
        if now.since(binding.made) >= self.resumption.lifetime() {
            return Err(ResumptionMiss::Expired);
        }
        let found = Found {
            method,
            made: binding.made,
            age: now.since(binding.made + binding.after),
        };
        trace::note(|trace| trace.found = Some(found));
        Ok(session)
    }

    fn open(&self, ticket: &[u8]) -> Result<Vec<u8>, ResumptionMiss> {
        let (name, rest) = ticket
            .split_at_checked(NAME_BYTES)
            .ok_or(ResumptionMiss::Malformed)?;
        let (nonce, sealed) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(ResumptionMiss::Malformed)?;
        let keys = self.resumption.keys.load();
        let key = keys
            .accepting(name, self.resumption.clock.now())
            .ok_or_else(|| {
                let name = name.first_chunk().copied();
                trace::note(|trace| trace.unknown_key = trace.unknown_key.or(name));
                ResumptionMiss::UnknownKey
            })?;
        let mut bytes = sealed.to_vec();
        let plain = key
            .cipher
            .open_in_place(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(name),
                &mut bytes,
            )
            .map_err(|_| ResumptionMiss::Malformed)?;
        let session = self.admit(plain, ResumptionMethod::Ticket)?.len();
        bytes.copy_within(Binding::BYTES..Binding::BYTES + session, 0);
        bytes.truncate(session);
        Ok(bytes)
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.resumption.keys.load();
        let key = keys.issuing(self.resumption.clock.now())?;
        let mut nonce = [0; NONCE_BYTES];
        aws_lc_rs::rand::fill(&mut nonce).ok()?;
        let mut ticket =
            Vec::with_capacity(SEALED_AT + Binding::BYTES + plain.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(&self.binding().write());
        ticket.extend_from_slice(plain);
        let tag = key
            .cipher
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(key.name.as_slice()),
                &mut ticket[SEALED_AT..],
            )
            .ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn cached(&self, found: Option<Arc<[u8]>>) -> Option<Vec<u8>> {
        let outcome = found.ok_or(ResumptionMiss::NotInCache).and_then(|bytes| {
            self.admit(&bytes, ResumptionMethod::SessionCache)
                .map(<[u8]>::to_vec)
        });
        noted(outcome)
    }
}

/// Notes the first reason why there is nothing to resume: a client lists its newest state first.
fn noted(outcome: Result<Vec<u8>, ResumptionMiss>) -> Option<Vec<u8>> {
    match outcome {
        Ok(session) => Some(session),
        Err(miss) => {
            trace::note(|trace| trace.miss = trace.miss.or(Some(miss)));
            None
        }
    }
}

impl ProducesTickets for SiteSessions {
    fn enabled(&self) -> bool {
        self.resumption.settings.load().tickets
    }

    fn lifetime(&self) -> u32 {
        // At most seven days, far below the bound.
        u32::try_from(self.resumption.lifetime().as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let sealed = part(Part::Seal, || self.seal(plain));
        if let Some(ticket) = &sealed {
            timing::issued(ticket.len());
        }
        sealed
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if !self.enabled() {
            return noted(Err(ResumptionMiss::UnknownKey));
        }
        noted(part(Part::Open, || self.open(ticket)))
    }
}

impl StoresServerSessions for SiteSessions {
    fn put(&self, key: Vec<u8>, session: Vec<u8>) -> bool {
        if !self.can_cache() {
            return false;
        }
        let bytes: Vec<u8> = [self.binding().write().as_slice(), &session].concat();
        self.resumption.cache.insert(key.into(), bytes.into());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        part(Part::Find, || self.cached(self.resumption.cache.get(key)))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        part(Part::Find, || {
            let entry = self.resumption.cache.remove(key);
            self.cached(entry.map(|(_, bytes)| bytes))
        })
    }

    /// A client that takes tickets needs no room here.
    fn can_cache(&self) -> bool {
        let settings = self.resumption.settings.load();
        settings.session_cache_entries > 0 && !(settings.tickets && trace::current().takes_tickets)
    }
}
