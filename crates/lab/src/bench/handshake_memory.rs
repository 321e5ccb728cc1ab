//! Phase 4: what a handshake in flight holds, part by part, and what it takes from the heap on its way.
//!
//! Twice: inside of this process with the allocator's counters, which see each part but not what the C
//! half of the cryptographic library takes; and from outside, as what a server of our own grows by with
//! each client that has sent its ClientHello and nothing more.

mod heap;
mod pair;

use tollgate_cost::{Figure, Unit};
use tollgate_terms::{NamedGroup, TlsVersion};
use tollgate_tls::client::Intent;
use tollgate_tls::timing::{self, Parts};
use tollgate_tls::{Handshake, Step};

use super::connection_memory::{self, Clients, Lots, Memory, Way, Weighing};
use super::{Bench, BenchError};

pub(crate) use heap::Heap;
pub(crate) use pair::{Agreement, Pair, resumption};

/// Handshakes of the published figure for churn.
const RATE: f64 = 14_000.0;
/// What a worker's buffer for flights has room for; it is not the handshake's.
const FLIGHT_BYTES: usize = 64 * 1024;

/// What is measured: a name for figure ids, one for people, and what the two sides agree on.
struct Kind {
    id: &'static str,
    label: &'static str,
    version: TlsVersion,
    group: Option<NamedGroup>,
    client_certificate: bool,
}

/// What clients of today agree on with us comes first; the others show what the choice changes.
const KINDS: [Kind; 4] = [
    Kind {
        id: "tls13",
        label: "TLS 1.3",
        version: TlsVersion::Tls13,
        group: None,
        client_certificate: false,
    },
    Kind {
        id: "tls13-x25519",
        label: "TLS 1.3, X25519 alone",
        version: TlsVersion::Tls13,
        group: Some(NamedGroup::X25519),
        client_certificate: false,
    },
    Kind {
        id: "tls13-client-certificate",
        label: "TLS 1.3, client certificate",
        version: TlsVersion::Tls13,
        group: None,
        client_certificate: true,
    },
    Kind {
        id: "tls12",
        label: "TLS 1.2",
        version: TlsVersion::Tls12,
        group: None,
        client_certificate: false,
    },
];

/// What one handshake took and held, in bytes unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Our reading of the ClientHello.
    hello: f64,
    /// The connection before its first step.
    connection: f64,
    /// What the first step adds and leaves: keys, transcript, what is expected next.
    state: f64,
    /// The most that was live at the same time, as far as it was looked at.
    peak: f64,
    /// Taken while keys were agreed on; given back after it.
    key_exchange: f64,
    /// Taken while signing.
    signature: f64,
    /// Taken while sealing the ticket.
    tickets: f64,
    /// The server's first flight.
    flight: f64,
    /// What is left when the handshake is complete, the ticket included.
    session: f64,
    /// The ticket that waits for the first response.
    ticket: f64,
    /// Everything that was taken, however short a time.
    churn: f64,
    /// How often something was taken; a number.
    allocations: f64,
}

/// The figures of phase 4.
pub(crate) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        let what = format!("handshakes in memory, {}", kind.label);
        bench.next(&what, index as f64 / (KINDS.len() + 2) as f64);
        let handshakes = in_memory(bench, kind)?;
        figures.extend(of(bench, kind, &handshakes)?);
    }
    let share = KINDS.len() as f64 / (KINDS.len() + 2) as f64;
    bench.next("handshakes in flight, resident", share);
    figures.push(resident(bench)?);
    figures.extend(outside(bench, share)?);
    Ok(figures)
}

/// Heap of the TLS state of an established TLS 1.3 connection, in bytes: its ticket has left.
pub(crate) fn tls_state_bytes() -> Result<f64, BenchError> {
    let pair = Pair::new(&agreement(&KINDS[0]))?;
    Heap::alone(|heap| {
        one(&pair, heap)?;
        let taken = one(&pair, heap)?;
        Ok(taken.session - taken.ticket)
    })
}

/// As many handshakes one after the other as `per_figure` allows: 50 for 500 ms.
fn in_memory(bench: &Bench<'_>, kind: &Kind) -> Result<Vec<Taken>, BenchError> {
    let count = (bench.per_figure.as_millis() as usize / 10).clamp(10, 100);
    let pair = Pair::new(&agreement(kind))?;
    Heap::alone(|heap| {
        // What is made once, such as tables and random generators, comes before.
        for _ in 0..3 {
            one(&pair, heap)?;
        }
        (0..count).map(|_| one(&pair, heap)).collect()
    })
}

fn agreement(kind: &Kind) -> Agreement {
    Agreement {
        version: kind.version,
        group: kind.group,
        tickets: true,
        client_certificate: kind.client_certificate,
    }
}

/// The heap as it was, and what was taken in the server's part since.
struct Meter {
    heap: Heap,
    peak: i64,
    churn: u64,
    allocations: u64,
}

impl Meter {
    /// Runs a part of the server's, and says how much more is live after it.
    fn part<T>(&mut self, work: impl FnOnce() -> T) -> Result<(T, f64, Parts), BenchError> {
        let (live, allocated) = (self.heap.live(), self.heap.allocated());
        let allocations = self.heap.allocations()?;
        self.heap.begin_looking();
        let (result, parts) = timing::watched(Heap::look, work);
        self.peak = self.peak.max(self.heap.most());
        self.churn += self.heap.allocated() - allocated;
        self.allocations += self.heap.allocations()? - allocations;
        Ok((result, (self.heap.live() - live) as f64, parts))
    }
}

/// One handshake of the server, looked at between its parts. The client shares the thread, but not the
/// parts that are counted.
fn one(pair: &Pair, heap: Heap) -> Result<Taken, BenchError> {
    let (mut client, mut to_server) = pair.hello(Intent::Full)?;
    let mut flight = Vec::with_capacity(FLIGHT_BYTES);
    let mut answer = Vec::with_capacity(FLIGHT_BYTES);
    let mut meter = Meter {
        heap,
        peak: i64::MIN,
        churn: 0,
        allocations: 0,
    };
    let before = heap.live();
    let (hello, hello_bytes, _) = meter.part(|| pair::read(&to_server))?;
    let hello = hello?;
    let (server, connection, _) = meter.part(|| pair.begin(&hello))?;
    let mut server = server?;
    let (step, state, parts) = meter.part(|| server.step(&mut to_server, &mut flight))?;
    let first_peak = meter.peak - before;
    let first_flight = flight.len();
    to_server.drain(..step.consumed);

    // From here on the client's memory grows too, so the most that is live is counted anew.
    pair::advance(&mut flight, |input| client.step(input, &mut answer))?;
    to_server.append(&mut answer);
    let mut last = Vec::with_capacity(FLIGHT_BYTES);
    let before_second = heap.live();
    meter.peak = before_second;
    let (finished, second, more) = meter.part(|| {
        let step = server.step(&mut to_server, &mut last);
        drop(hello);
        complete(server, &step)
    })?;
    let finished = finished?;
    let held = hello_bytes + connection + state;
    let second_peak = held + (meter.peak - before_second) as f64;
    Ok(Taken {
        hello: hello_bytes,
        connection,
        state,
        peak: second_peak.max(first_peak as f64),
        key_exchange: (parts.key_exchange.time.0 + more.key_exchange.time.0) as f64,
        signature: (parts.signature.time.0 + more.signature.time.0) as f64,
        tickets: (parts.tickets.time.0 + more.tickets.time.0) as f64,
        flight: first_flight as f64,
        session: held + second,
        ticket: finished.held().len() as f64,
        churn: meter.churn as f64,
        allocations: meter.allocations as f64,
    })
}

fn complete(server: Handshake, step: &Step) -> Result<tollgate_tls::Session, BenchError> {
    match step.progress {
        tollgate_tls::Progress::Done => Ok(server.finish().0),
        tollgate_tls::Progress::NeedsInput | tollgate_tls::Progress::Failed(_) => {
            Err(BenchError::Broken {
                what: "a handshake in memory".into(),
                reason: "it is not complete after the client's second flight".into(),
            })
        }
    }
}

/// A figure from one field of many handshakes.
struct Part {
    id: &'static str,
    label: &'static str,
    how: &'static str,
    unit: Unit,
    field: fn(&Taken) -> f64,
}

const fn bytes(
    id: &'static str,
    label: &'static str,
    how: &'static str,
    field: fn(&Taken) -> f64,
) -> Part {
    Part {
        id,
        label,
        how,
        unit: Unit::Bytes,
        field,
    }
}

/// The ones of every kind.
const SUMS: [Part; 5] = [
    bytes(
        "held",
        "heap held between two steps",
        "heap after the server's flight: hello, connection and state; multiplied by every handshake in flight",
        |taken| taken.hello + taken.connection + taken.state,
    ),
    bytes(
        "peak",
        "most heap within a step",
        "most live heap before and after every key exchange, signature and ticket, and after each step",
        |taken| taken.peak,
    ),
    bytes(
        "session",
        "heap of the session after it",
        "heap when the handshake is complete and the ticket waits for the first response",
        |taken| taken.session,
    ),
    bytes(
        "churn",
        "heap taken in all",
        "everything that a whole handshake takes from the heap, however short a time",
        |taken| taken.churn,
    ),
    Part {
        id: "allocations",
        label: "allocations",
        how: "by the counters of an arena that only this thread uses",
        unit: Unit::Count,
        field: |taken| taken.allocations,
    },
];

/// The ones of the first kind and of TLS 1.2.
const PARTS: [Part; 8] = [
    bytes(
        "hello",
        "ClientHello as read",
        "heap that our reading of it takes",
        |taken| taken.hello,
    ),
    bytes(
        "connection",
        "connection, before its first step",
        "heap taken when the library's connection is made",
        |taken| taken.connection,
    ),
    bytes(
        "state",
        "keys, transcript and what is expected",
        "heap that the first step adds and leaves",
        |taken| taken.state,
    ),
    bytes(
        "key-exchange",
        "taken for key exchange, given back",
        "heap taken inside of the key exchange",
        |taken| taken.key_exchange,
    ),
    bytes(
        "signature",
        "taken for the signature, given back",
        "heap taken inside of the signature",
        |taken| taken.signature,
    ),
    bytes(
        "sealing",
        "taken for sealing the ticket",
        "heap taken inside of the ticket's encryption",
        |taken| taken.tickets,
    ),
    bytes(
        "ticket",
        "ticket that waits for the first response",
        "bytes held back; none in TLS 1.2, where it is part of the server's last flight",
        |taken| taken.ticket,
    ),
    bytes(
        "flight",
        "server's first flight, certificate chain in it",
        "bytes in a buffer that all handshakes of a worker share",
        |taken| taken.flight,
    ),
];

fn of(bench: &Bench<'_>, kind: &Kind, handshakes: &[Taken]) -> Result<Vec<Figure>, BenchError> {
    let broken_down = kind.group.is_none() && !kind.client_certificate;
    let parts: &[Part] = if broken_down { &PARTS } else { &[] };
    let mut figures = Vec::new();
    for part in parts.iter().chain(&SUMS) {
        let samples: Vec<f64> = handshakes.iter().map(part.field).collect();
        figures.push(bench.figure(
            format!("handshake-memory/{}/{}", kind.id, part.id),
            format!("{}: {}", kind.label, part.label),
            part.how,
            part.unit,
            &samples,
        )?);
    }
    if kind.id == KINDS[0].id {
        let churn: Vec<f64> = handshakes.iter().map(|taken| taken.churn * RATE).collect();
        figures.push(bench.figure(
            "handshake-memory/churn",
            format!("heap taken per second at {RATE} handshakes/s"),
            format!("{RATE} times what a whole {} handshake takes", kind.label),
            Unit::PerSecond,
            &churn,
        )?);
    }
    Ok(figures)
}

/// What this process grows by with each handshake of a server that waits for the client's Finished. The
/// clients have gone. By the kernel's count, where that of the heap is by the allocator's.
fn resident(bench: &Bench<'_>) -> Result<Figure, BenchError> {
    let pair = Pair::new(&agreement(&KINDS[0]))?;
    let lots = Lots::within(bench.per_figure);
    let own = std::process::id();
    let mut kept = Vec::with_capacity(lots.connections());
    let mut samples = Vec::with_capacity(lots.lots);
    let mut flight = Vec::with_capacity(FLIGHT_BYTES);
    let mut before = Memory::default();
    for lot in 0..=lots.lots {
        for _ in 0..lots.each {
            flight.clear();
            let (client, mut wire) = pair.hello(Intent::Full)?;
            drop(client);
            let hello = pair::read(&wire)?;
            let mut server = pair.begin(&hello)?;
            server.step(&mut wire, &mut flight);
            kept.push((hello, server));
        }
        let after = connection_memory::settled(own)?;
        if lot > 0 {
            samples.push((after.anonymous as f64 - before.anonymous as f64) / lots.each as f64);
        }
        before = after;
    }
    bench.figure(
        "handshake-memory/tls13/resident",
        "TLS 1.3: memory held, as the kernel counts it",
        format!(
            "growth of this process's anonymous PSS over {} lots of {} handshakes without their clients",
            lots.lots, lots.each
        ),
        Unit::Bytes,
        &samples,
    )
}

/// What `serve` grows by with each client that has had the server's flight and does not answer.
fn outside(bench: &Bench<'_>, share: f64) -> Result<[Figure; 1], BenchError> {
    let lots = Lots::within(bench.per_figure / 2);
    let what = format!("{} handshakes in flight, from outside", lots.connections());
    bench.next(&what, share + (1.0 - share) / 2.0);
    connection_memory::make_room(lots.connections() as u64)?;
    let weighing = Weighing::start(Way::Http)?;
    let mut clients = Clients::new(weighing.serving.address())?;
    let pid = weighing.serving.pid();
    let (weighed, halves) = connection_memory::weigh(pid, lots, || clients.open_half())?;
    let open = weighing.serving.metric("tollgate_connections")?;
    if open < halves.len() as f64 {
        return Err(BenchError::Broken {
            what: "holding handshakes in flight".into(),
            reason: format!("the server has {open} connections open of {}", halves.len()),
        });
    }
    Ok([bench.figure(
        "handshake-memory/total",
        "handshake in flight in serve, everything",
        format!(
            "growth of serve's anonymous PSS over {} lots of {} clients that sent a ClientHello and no Finished",
            lots.lots, lots.each
        ),
        Unit::Bytes,
        &weighed.user,
    )?])
}
