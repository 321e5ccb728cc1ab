//! What a load run found: counts, times, and what the handshakes really were.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tollgate_terms::{Bytes, HandshakeFacts};

/// Everything that a run found. The JSON form is this struct, with units in the names.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    /// `tps`, `requests`, `download` or `hold`.
    pub mode: &'static str,
    /// `HOST:PORT` that was connected to.
    pub target: String,
    /// Length of the measured window; for `hold`, how long opening took.
    pub seconds: f64,
    /// Operations finished in the window.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Bytes of response bodies taken in the window.
    pub body_bytes: u64,
    /// Operations that failed in the window, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Handshakes finished in the window; for `requests`, `download` and `hold` all of the run.
    pub handshakes: Handshakes,
    /// Time of one whole operation.
    pub operation_micros: Option<Spread>,
    /// Time from the first TLS byte to the end of the handshake.
    pub handshake_micros: Option<Spread>,
    /// What the watched processes took; `None` when none was watched.
    pub server: Option<ServerCost>,
    /// CPU time that this run itself took in the window, in seconds: near `seconds` it was the limit.
    pub client_cpu_seconds: f64,
    /// What was asked for and not reached; empty for a run that is what it says.
    pub missed: Vec<String>,
}

/// Handshakes by what they were.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Handshakes {
    /// Full, with or without a retry.
    pub full: u64,
    /// Resumed.
    pub resumed: u64,
    /// Each combination that was negotiated.
    pub kinds: Vec<HandshakeCount>,
}

/// How many handshakes were alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandshakeCount {
    /// `full`, `full_with_retry` or `resumed`.
    pub kind: &'static str,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// IANA name of the suite.
    pub suite: String,
    /// Name of the group; `None` without a key exchange.
    pub group: Option<String>,
    /// Kind of the certificate; `None` when resumed.
    pub certificate: Option<&'static str>,
    /// Scheme of the server's signature; `None` when resumed.
    pub signature: Option<String>,
    /// How many.
    pub count: u64,
}

impl Handshakes {
    pub(crate) fn add(&mut self, facts: &HandshakeFacts) {
        if facts.kind.is_resumed() {
            self.resumed += 1;
        } else {
            self.full += 1;
        }
        if let Some(known) = self.kinds.iter_mut().find(|known| known.is(facts)) {
            known.count += 1;
            return;
        }
        self.kinds.push(HandshakeCount {
            kind: facts.kind.name(),
            version: facts.version.name(),
            suite: facts.suite.to_string(),
            group: facts.group.map(|group| group.to_string()),
            certificate: facts.certificate.map(|kind| kind.name()),
            signature: facts.signature.map(|scheme| scheme.to_string()),
            count: 1,
        });
    }

    pub(crate) fn total(&self) -> u64 {
        self.full + self.resumed
    }
}

impl HandshakeCount {
    /// Compares without making a text: this runs once per handshake.
    fn is(&self, facts: &HandshakeFacts) -> bool {
        self.kind == facts.kind.name()
            && self.version == facts.version.name()
            && self.suite == facts.suite.name()
            && self.group.as_deref() == facts.group.map(|group| group.name())
            && self.certificate == facts.certificate.map(|kind| kind.name())
            && self.signature.as_deref() == facts.signature.map(|scheme| scheme.name())
    }
}

/// Percentiles of a time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

impl Spread {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        })
    }
}

/// What the watched processes took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerCost {
    /// CPU time in the program, in seconds.
    pub user_seconds: f64,
    /// CPU time in the kernel on its behalf, in seconds.
    pub system_seconds: f64,
    /// Program time per operation, in microseconds.
    pub user_micros_per_operation: f64,
    /// Kernel time per operation, in microseconds.
    pub system_micros_per_operation: f64,
    /// User memory before the connections were opened.
    pub memory_bytes_before: u64,
    /// User memory at the end, while they were still open.
    pub memory_bytes_after: u64,
    /// The difference by connection (`hold`).
    pub memory_bytes_per_connection: Option<f64>,
}

impl LoadResult {
    /// Whether the run was what it was asked to be.
    pub fn reached(&self) -> bool {
        self.missed.is_empty()
    }
}

/// The text for people.
impl fmt::Display for LoadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} {}: {} operations in {:.2} s, {:.0}/s",
            self.mode, self.target, self.operations, self.seconds, self.per_second
        )?;
        if self.body_bytes > 0 {
            let rate = Bytes((self.body_bytes as f64 / self.seconds.max(1e-9)) as u64);
            writeln!(f, "  bodies       {} ({rate}/s)", Bytes(self.body_bytes))?;
        }
        writeln!(
            f,
            "  handshakes   {} full, {} resumed",
            self.handshakes.full, self.handshakes.resumed
        )?;
        for kind in &self.handshakes.kinds {
            writeln!(f, "    {kind}")?;
        }
        if let Some(spread) = self.operation_micros {
            writeln!(f, "  operation    {spread}")?;
        }
        if let Some(spread) = self.handshake_micros {
            writeln!(f, "  handshake    {spread}")?;
        }
        if let Some(server) = &self.server {
            self.write_server(f, server)?;
        }
        writeln!(
            f,
            "  load itself  {:.0} % of a core",
            100.0 * self.client_cpu_seconds / self.seconds.max(1e-9)
        )?;
        for (reason, count) in &self.failures {
            writeln!(f, "  failed       {count} x {reason}")?;
        }
        for missed in &self.missed {
            writeln!(f, "  missed       {missed}")?;
        }
        Ok(())
    }
}

impl LoadResult {
    fn write_server(&self, f: &mut fmt::Formatter<'_>, server: &ServerCost) -> fmt::Result {
        let cpu = server.user_seconds + server.system_seconds;
        writeln!(
            f,
            "  server CPU   {:.2} s ({:.0} % of a core): {:.1} µs per operation = {:.1} user + {:.1} system",
            cpu,
            100.0 * cpu / self.seconds.max(1e-9),
            server.user_micros_per_operation + server.system_micros_per_operation,
            server.user_micros_per_operation,
            server.system_micros_per_operation,
        )?;
        if self.body_bytes >= 1_000_000_000 {
            writeln!(
                f,
                "  server CPU   {:.3} s per GB",
                cpu * 1e9 / self.body_bytes as f64
            )?;
        }
        write!(
            f,
            "  server PSS   {} before, {} after",
            Bytes(server.memory_bytes_before),
            Bytes(server.memory_bytes_after)
        )?;
        match server.memory_bytes_per_connection {
            Some(bytes) => writeln!(f, ", {:.1} KB per connection", bytes / 1024.0),
            None => writeln!(f),
        }
    }
}

impl fmt::Display for HandshakeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} x {} {} {}",
            self.count, self.kind, self.version, self.suite
        )?;
        if let Some(group) = &self.group {
            write!(f, " {group}")?;
        }
        if let Some(certificate) = self.certificate {
            write!(f, " {certificate}")?;
        }
        if let Some(signature) = &self.signature {
            write!(f, " {signature}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |micros: u64| format!("{:?}", Duration::from_micros(micros));
        write!(
            f,
            "p50 {}, p90 {}, p99 {}, max {}",
            text(self.p50),
            text(self.p90),
            text(self.p99),
            text(self.max)
        )
    }
}
