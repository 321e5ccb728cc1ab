//! Phase 5: what an idle established connection holds, in the server's memory and in the kernel.
//!
//! Measured from outside: a server of our own in a process of its own, a few hundred connections at a
//! time, and its memory before and after each lot. There is no figure for HTTP without TLS, because
//! Tollgate has no such listener; without TLS there is `passthrough`, which relays what it does not open.

mod held;
mod system;

use std::time::{Duration, Instant};

use tollgate_cost::{Figure, Unit};

use super::serving::{BackendAt, Serving, ServingMode, ServingOptions};
use super::{Bench, BenchError};

pub(crate) use held::{Client, Clients};
pub(crate) use system::{Memory, SocketObjects, buffered_bytes, make_room, sockets};

/// What is asked on each connection before it idles.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
/// Fewer connections in a lot are less than what a server takes and gives back by itself.
const FEWEST: usize = 200;
/// What a server takes for its first connections and gives back later would hide those of a smaller lot.
const FEWEST_FIRST: usize = 500;
/// The allocator gives pages back after a second (see `.cargo/config.toml`), by a thread that sleeps for
/// longer while there are few; memory that has not changed for this long will not change any more.
const UNCHANGED_FOR: Duration = Duration::from_millis(2_000);
/// Memory that has not changed by more than this is settled.
const UNCHANGED_BYTES: u64 = 16 * 1024;
/// Longest wait for that.
const SETTLED_WITHIN: Duration = Duration::from_secs(12);
/// Nothing may be closed while it is looked at.
const PATIENCE: &str = "timeouts: { handshake: 600s, idle: 600s, tcp_idle: 600s, stall: 600s }";

/// How connections go through Tollgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// TLS ends here, HTTP is understood, backend connections are pooled.
    Http,
    /// TLS ends here, bytes go to a backend connection of their own.
    Tcp,
    /// TLS goes through as it is, to a backend connection of its own.
    Passthrough,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Http, Self::Tcp, Self::Passthrough];

    /// Part of figure ids.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::Passthrough => "tcp-plain",
        }
    }

    /// For people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Http => "http, TLS 1.3",
            Self::Tcp => "tcp, TLS 1.3",
            Self::Passthrough => "tcp without TLS (passthrough)",
        }
    }
}

/// A server to be weighed, and what is behind it.
pub(crate) struct Weighing {
    // Dropped in this order: the front before what it has connections to.
    pub(crate) serving: Serving,
    _behind: Option<Serving>,
}

impl Weighing {
    /// Starts a server for `way` that closes no idle connection, and a backend.
    pub(crate) fn start(way: Way) -> Result<Self, BenchError> {
        Self::start_with(way, ServingOptions::default())
    }

    /// The same with the allocator, program and workers of `options`.
    pub(crate) fn start_with(way: Way, options: ServingOptions) -> Result<Self, BenchError> {
        let options = |mode, backend| ServingOptions {
            mode,
            backend,
            extra_yaml: PATIENCE.into(),
            ..options.clone()
        };
        let (mode, behind) = match way {
            Way::Http => (ServingMode::Http, None),
            Way::Tcp => (ServingMode::Tcp, None),
            Way::Passthrough => {
                // Somebody must end the TLS that goes through.
                let behind = Serving::start(&options(ServingMode::Tcp, BackendAt::Tcp))?;
                (ServingMode::Passthrough, Some(behind))
            }
        };
        let backend = behind.as_ref().map_or(BackendAt::Tcp, |behind| {
            BackendAt::Address(behind.address().to_string())
        });
        Ok(Self {
            serving: Serving::start(&options(mode, backend))?,
            _behind: behind,
        })
    }
}

/// How many connections, in how many lots; one more lot comes first and is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lots {
    pub(crate) lots: usize,
    pub(crate) each: usize,
}

impl Lots {
    /// As many connections as `per_figure` allows: 2 000 for 500 ms, and never less than 900.
    pub(crate) fn within(per_figure: Duration) -> Self {
        let each = per_figure.as_millis() as usize;
        Self {
            lots: if each < 250 { 2 } else { 3 },
            each: each.clamp(FEWEST, 1_000),
        }
    }

    /// All connections, those of the first lot included.
    pub(crate) fn connections(self) -> usize {
        self.first() + self.each * self.lots
    }

    /// Connections of the lot that is not counted.
    fn first(self) -> usize {
        self.each.max(FEWEST_FIRST)
    }
}

/// What a server held for each of many connections.
#[derive(Clone, Debug)]
pub(crate) struct Weighed {
    /// Connections that were open at the end.
    pub(crate) connections: usize,
    /// Bytes of user memory per connection, one for each lot.
    pub(crate) user: Vec<f64>,
    /// Sockets of the server per connection: one, and another for a backend connection of its own.
    pub(crate) sockets: f64,
    /// Bytes that wait in the kernel in these sockets, per connection.
    pub(crate) buffered: f64,
}

impl Weighed {
    /// Bytes of the kernel per connection, and how that is known.
    pub(crate) fn kernel(&self, objects: Option<&SocketObjects>) -> (f64, String) {
        let half = "half of what /proc/net/sockstat says waits in sockets, as both ends are here";
        match objects {
            Some(objects) => (
                self.sockets * objects.bytes as f64 + self.buffered,
                format!(
                    "{:.2} sockets x ({} B by /proc/slabinfo), and {half}",
                    self.sockets, objects.names
                ),
            ),
            None => (
                self.buffered,
                format!("{half}; sockets themselves left out: only root may read /proc/slabinfo"),
            ),
        }
    }
}

/// Opens connections in lots and weighs the server between them. What `open` returns keeps a connection.
pub(crate) fn weigh<T>(
    pid: u32,
    lots: Lots,
    mut open: impl FnMut() -> Result<T, BenchError>,
) -> Result<(Weighed, Vec<T>), BenchError> {
    let mut kept = Vec::with_capacity(lots.connections());
    // The server's own buffers, and pages that are used for the first time, are not the connections' cost.
    for _ in 0..lots.first() {
        kept.push(open()?);
    }
    let sockets_before = sockets(pid)?;
    let mut before = settled(pid)?.anonymous;
    let buffered_before = buffered_bytes();
    let mut user = Vec::with_capacity(lots.lots);
    for _ in 0..lots.lots {
        for _ in 0..lots.each {
            kept.push(open()?);
        }
        let after = settled(pid)?.anonymous;
        user.push((after as f64 - before as f64) / lots.each as f64);
        before = after;
    }
    let counted = (lots.lots * lots.each) as f64;
    let buffered = match (buffered_before, buffered_bytes()) {
        (Some(before), Some(after)) => after.saturating_sub(before) as f64 / counted / 2.0,
        _ => 0.0,
    };
    let weighed = Weighed {
        connections: kept.len(),
        user,
        sockets: sockets(pid)?.saturating_sub(sockets_before) as f64 / counted,
        buffered,
    };
    Ok((weighed, kept))
}

/// Memory of a process once the allocator has given back what is to be given back.
pub(crate) fn settled(pid: u32) -> Result<Memory, BenchError> {
    let began = Instant::now();
    let mut last = Memory::of(pid)?;
    let mut since = Instant::now();
    while since.elapsed() < UNCHANGED_FOR && began.elapsed() < SETTLED_WITHIN {
        std::thread::sleep(Duration::from_millis(100));
        let now = Memory::of(pid)?;
        if now.anonymous.abs_diff(last.anonymous) > UNCHANGED_BYTES {
            last = now;
            since = Instant::now();
        }
    }
    Ok(last)
}

/// Connections that are no longer open were not weighed, and a figure over them would be wrong.
pub(crate) fn all_open(clients: &[Client]) -> Result<(), BenchError> {
    let closed = clients.iter().filter(|client| !client.is_open()).count();
    match closed {
        0 => Ok(()),
        _ => Err(BenchError::Broken {
            what: "holding connections".into(),
            reason: format!("the server closed {closed} of {}", clients.len()),
        }),
    }
}

/// The figures of phase 5.
pub(crate) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let lots = Lots::within(bench.per_figure);
    // Two sockets each in front of a backend connection, and the children inherit the limit.
    make_room(lots.connections() as u64 * 2)?;
    let objects = SocketObjects::read();
    let mut figures = Vec::new();
    for (index, way) in Way::ALL.into_iter().enumerate() {
        let what = format!("{} idle connections, {}", lots.connections(), way.label());
        bench.next(&what, index as f64 / Way::ALL.len() as f64);
        let weighing = Weighing::start(way)?;
        let mut clients = Clients::new(weighing.serving.address())?;
        let (weighed, kept) = weigh(weighing.serving.pid(), lots, || clients.open(REQUEST))?;
        all_open(&kept)?;
        figures.extend(of(bench, way, lots, &weighed, objects.as_ref())?);
    }
    Ok(figures)
}

/// User and kernel bytes of one way.
fn of(
    bench: &Bench<'_>,
    way: Way,
    lots: Lots,
    weighed: &Weighed,
    objects: Option<&SocketObjects>,
) -> Result<[Figure; 2], BenchError> {
    let id = |end: &str| format!("connection-memory/{}/{end}", way.id());
    let backend = match way {
        Way::Http => "",
        Way::Tcp | Way::Passthrough => ", its backend connection with it",
    };
    let (kernel, how) = weighed.kernel(objects);
    Ok([
        bench.figure(
            id("user"),
            format!("idle connection, {}: user memory", way.label()),
            format!(
                "growth of serve's anonymous PSS over {} lots of {} connections after one request each{backend}",
                lots.lots, lots.each
            ),
            Unit::Bytes,
            &weighed.user,
        )?,
        bench.exact(
            id("kernel"),
            format!("idle connection, {}: kernel memory", way.label()),
            how,
            Unit::Bytes,
            kernel,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_still_has_two_lots_and_a_long_one_has_a_bound() {
        let short = Lots::within(Duration::from_millis(1));
        assert_eq!((short.lots, short.each, short.connections()), (2, 200, 900));
        assert_eq!(
            Lots::within(Duration::from_millis(500)).connections(),
            2_000
        );
        assert_eq!(Lots::within(Duration::from_secs(60)).connections(), 4_000);
    }

    #[test]
    fn kernel_memory_is_that_of_the_servers_sockets_alone() {
        let weighed = Weighed {
            connections: 10,
            user: vec![1.0],
            sockets: 2.0,
            buffered: 100.0,
        };
        let objects = SocketObjects {
            bytes: 4_000,
            names: "TCP 4000".into(),
        };
        let (bytes, how) = weighed.kernel(Some(&objects));
        assert!(
            (bytes - 8_100.0).abs() < 1e-9 && how.contains("TCP 4000"),
            "{how}"
        );
        let (bytes, how) = weighed.kernel(None);
        assert!(
            (bytes - 100.0).abs() < 1e-9 && how.contains("only root"),
            "{how}"
        );
    }
}
