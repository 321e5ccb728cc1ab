//! Memory of idle connections, side by side: with TLS and without, as bytes and as requests.
//!
//! L4 relays bytes, L7 understands HTTP. L7 without TLS is missing, because Tollgate has no such
//! listener; what TLS adds to it is measured by itself instead.

use std::fmt;

use serde::Serialize;
use tollgate_cost::{Measured, Unit};

use super::connection_memory::{
    self, Clients, Lots, REQUEST, SocketObjects, Way, Weighed, Weighing,
};
use super::{BenchError, handshake_memory, text};

/// Connections that many sites plan for, and for which the table says what they need.
const PLANNED: u64 = 200_000;
/// Lots of connections; the first one warms the server up.
const LOTS: usize = 3;
/// The built-in backend takes no longer request head than 16 KB.
const MOST_HEADER_BYTES: usize = 15_000;
/// Longest field; backends are known to refuse longer ones.
const FIELD_BYTES: usize = 4_000;

/// How to weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Connections of each kind, 600 to 1 000 000. Default 2 500.
    pub connections: usize,
    /// Bytes of header fields that each request carries before its connection idles, 0 to 15 000.
    /// Default 0: only `Host` and `Accept`.
    pub header_bytes: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            connections: 2_500,
            header_bytes: 0,
        }
    }
}

/// The table. Its [`Display`](fmt::Display) is the text for people.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryTable {
    /// Connections of each kind.
    pub connections: usize,
    /// Bytes of header fields in each request.
    pub header_bytes: usize,
    /// One for each kind of connection that Tollgate has.
    pub rows: Vec<MemoryRow>,
    /// What the published rules of thumb are about.
    pub ratios: Vec<MemoryRatio>,
    /// Heap of the TLS state alone, in an established TLS 1.3 connection whose ticket has left.
    pub tls_state_bytes: f64,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// One kind of connection.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRow {
    /// `L4`, `L4 + TLS` or `L7 + TLS`.
    pub kind: &'static str,
    /// The mode of the site: `passthrough`, `tcp` or `http`.
    pub mode: &'static str,
    /// Connections that were open at the end.
    pub connections: usize,
    /// Sockets of the server per connection.
    pub sockets: f64,
    /// User memory per connection.
    pub user_bytes: Measured,
    /// Kernel memory per connection.
    pub kernel_bytes: f64,
    /// How the kernel's memory is known.
    pub kernel_how: String,
    /// User and kernel memory of 200 000 connections, by multiplication.
    pub planned_bytes: f64,
    /// User memory per connection of the last lot over that of the first one: 1 when it does not matter
    /// how many there are, and multiplication is allowed.
    pub last_over_first: f64,
}

/// One kind of connection over another, user and kernel memory together.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRatio {
    /// Such as `L4 + TLS over L4`.
    pub what: &'static str,
    /// User and kernel memory.
    pub ratio: f64,
    /// User memory alone.
    pub user_ratio: f64,
    /// What is published; `None` when nothing is.
    pub published: Option<f64>,
}

/// Weighs each kind of connection in a server of its own; `progress` is told what comes next and the
/// share that is done (0 to 1). Takes about eight seconds for each kind.
///
/// # Errors
/// When the options are out of range, the system allows too few open files, or a server does not come up.
pub fn run(
    options: &MemoryOptions,
    progress: &dyn Fn(&str, f64),
) -> Result<MemoryTable, BenchError> {
    let lots = lots(options)?;
    connection_memory::make_room(lots.connections() as u64 * 2)?;
    let request = request(options.header_bytes);
    let objects = SocketObjects::read();
    let ways = [Way::Passthrough, Way::Tcp, Way::Http];
    let mut rows = Vec::with_capacity(ways.len());
    for (index, way) in ways.into_iter().enumerate() {
        let what = format!("{} connections, {}", lots.connections(), kind(way));
        progress(&what, index as f64 / ways.len() as f64);
        let weighing = Weighing::start(way)?;
        let mut clients = Clients::new(weighing.serving.address())?;
        let pid = weighing.serving.pid();
        let (weighed, kept) = connection_memory::weigh(pid, lots, || clients.open(&request))?;
        connection_memory::all_open(&kept)?;
        rows.push(row(way, &weighed, objects.as_ref())?);
    }
    Ok(MemoryTable {
        connections: lots.connections(),
        header_bytes: options.header_bytes,
        ratios: ratios(&rows),
        tls_state_bytes: handshake_memory::tls_state_bytes()?,
        notes: notes(objects.is_some()),
        rows,
    })
}

fn lots(options: &MemoryOptions) -> Result<Lots, BenchError> {
    let refused = |reason: String| BenchError::Broken {
        what: "a table of that kind".into(),
        reason,
    };
    if !(600..=1_000_000).contains(&options.connections) {
        return Err(refused(format!(
            "{} connections; 600 to 1000000 are possible",
            options.connections
        )));
    }
    if options.header_bytes > MOST_HEADER_BYTES {
        return Err(refused(format!(
            "{} bytes of header fields; a request head may take {MOST_HEADER_BYTES}",
            options.header_bytes
        )));
    }
    Ok(Lots {
        lots: LOTS,
        each: options.connections.div_ceil(LOTS + 1),
    })
}

/// A request with this many bytes of fields that nobody reads.
fn request(header_bytes: usize) -> Vec<u8> {
    let mut request = REQUEST[..REQUEST.len() - 2].to_vec();
    let mut left = header_bytes;
    let mut number = 0;
    while left > 0 {
        let name = format!("X-Large-{number}: ");
        let value = left.min(FIELD_BYTES).saturating_sub(name.len() + 2).max(1);
        request.extend_from_slice(name.as_bytes());
        request.resize(request.len() + value, b'x');
        request.extend_from_slice(b"\r\n");
        left = left.saturating_sub(name.len() + value + 2);
        number += 1;
    }
    request.extend_from_slice(b"\r\n");
    request
}

fn kind(way: Way) -> &'static str {
    match way {
        Way::Passthrough => "L4",
        Way::Tcp => "L4 + TLS",
        Way::Http => "L7 + TLS",
    }
}

fn mode(way: Way) -> &'static str {
    match way {
        Way::Passthrough => "passthrough",
        Way::Tcp => "tcp",
        Way::Http => "http",
    }
}

fn row(
    way: Way,
    weighed: &Weighed,
    objects: Option<&SocketObjects>,
) -> Result<MemoryRow, BenchError> {
    let user_bytes = Measured::of(&weighed.user).ok_or_else(|| BenchError::Broken {
        what: kind(way).into(),
        reason: "no lot of connections was weighed".into(),
    })?;
    let (kernel_bytes, kernel_how) = weighed.kernel(objects);
    let (first, last) = match weighed.user.as_slice() {
        [first, .., last] => (*first, *last),
        _ => (1.0, 1.0),
    };
    Ok(MemoryRow {
        kind: kind(way),
        mode: mode(way),
        connections: weighed.connections,
        sockets: weighed.sockets,
        planned_bytes: PLANNED as f64 * (user_bytes.median + kernel_bytes),
        user_bytes,
        kernel_bytes,
        kernel_how,
        last_over_first: last / first.max(1.0),
    })
}

fn ratios(rows: &[MemoryRow]) -> Vec<MemoryRatio> {
    let find = |kind: &str| rows.iter().find(|row| row.kind == kind);
    let over = |what, one: &str, other: &str, published| {
        let (one, other) = (find(one)?, find(other)?);
        let all = |row: &MemoryRow| row.user_bytes.median + row.kernel_bytes;
        Some(MemoryRatio {
            what,
            ratio: all(one) / all(other),
            user_ratio: one.user_bytes.median / other.user_bytes.median,
            published,
        })
    };
    [
        over("L7 + TLS over L4", "L7 + TLS", "L4", Some(4.0)),
        over("L4 + TLS over L4", "L4 + TLS", "L4", None),
        over("L7 + TLS over L4 + TLS", "L7 + TLS", "L4 + TLS", None),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn notes(slab: bool) -> Vec<String> {
    let mut notes = vec![
        "L4 holds two sockets for each client, its own and one to the backend; L7 shares a few backend connections among all".into(),
        "L7 without TLS is missing: Tollgate has no plaintext HTTP listener, so the published \"twice L7\" has no counterpart here".into(),
    ];
    if !slab {
        notes.push(
            "kernel memory leaves the sockets themselves out: only root may read /proc/slabinfo"
                .into(),
        );
    }
    notes
}

impl fmt::Display for MemoryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = match self.header_bytes {
            0 => String::new(),
            bytes => format!(", each after a request with {bytes} bytes of header fields"),
        };
        writeln!(
            f,
            "Memory of an idle connection, {} of each kind{headers}",
            self.connections
        )?;
        let mut table = text::plain_table();
        table.set_header(
            [
                "",
                "mode",
                "sockets",
                "user",
                "±",
                "kernel",
                "together",
                "200 000 need",
                "last/first lot",
            ]
            .map(text::right),
        );
        for row in &self.rows {
            table.add_row(
                [
                    row.kind.to_owned(),
                    row.mode.to_owned(),
                    format!("{:.2}", row.sockets),
                    text::value(&row.user_bytes, Unit::Bytes),
                    text::spread(&row.user_bytes),
                    bytes(row.kernel_bytes),
                    bytes(row.user_bytes.median + row.kernel_bytes),
                    bytes(row.planned_bytes),
                    format!("{:.2}", row.last_over_first),
                ]
                .map(text::right),
            );
        }
        table.add_row(["published", "", "", "40 KB, conservative"].map(text::right));
        writeln!(f, "{}", text::indented(&table))?;
        writeln!(f, "Ratios")?;
        let mut table = text::plain_table();
        table.set_header(["", "together", "user alone", "published"].map(text::right));
        for ratio in &self.ratios {
            table.add_row(
                [
                    ratio.what.to_owned(),
                    format!("{:.2}", ratio.ratio),
                    format!("{:.2}", ratio.user_ratio),
                    ratio
                        .published
                        .map_or_else(String::new, |one| format!("{one}")),
                ]
                .map(text::right),
            );
        }
        writeln!(f, "{}", text::indented(&table))?;
        writeln!(
            f,
            "TLS state alone: {} of heap.",
            bytes(self.tls_state_bytes)
        )?;
        text::notes(f, &self.notes)
    }
}

fn bytes(value: f64) -> String {
    tollgate_terms::Bytes(value.max(0.0) as u64).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn weighed(user: &[f64], sockets: f64) -> Weighed {
        Weighed {
            connections: 100,
            user: user.to_vec(),
            sockets,
            buffered: 0.0,
        }
    }

    #[test]
    fn a_large_request_has_about_as_many_bytes_as_asked_for() {
        for wanted in [0, 1, 8_192, 15_000] {
            let large = request(wanted);
            let more = large.len() - REQUEST.len();
            assert!(more >= wanted && more <= wanted + 20, "{wanted}: {more}");
            assert!(large.ends_with(b"\r\n\r\n"));
            assert_eq!(
                large.windows(4).filter(|four| *four == b"\r\n\r\n").count(),
                1
            );
        }
    }

    #[test]
    fn ratios_and_plans_are_arithmetic_over_the_rows() {
        let objects = SocketObjects {
            bytes: 3_000,
            names: "TCP 3000".into(),
        };
        let rows = vec![
            row(
                Way::Passthrough,
                &weighed(&[1_000.0, 1_000.0], 2.0),
                Some(&objects),
            )
            .unwrap(),
            row(Way::Tcp, &weighed(&[3_000.0, 3_300.0], 2.0), Some(&objects)).unwrap(),
            row(
                Way::Http,
                &weighed(&[4_000.0, 4_000.0], 1.0),
                Some(&objects),
            )
            .unwrap(),
        ];
        assert!((rows[0].planned_bytes - 200_000.0 * 7_000.0).abs() < 1.0);
        assert!((rows[1].last_over_first - 1.1).abs() < 1e-9);
        let ratios = ratios(&rows);
        assert!((ratios[0].ratio - 1.0).abs() < 1e-9 && (ratios[0].user_ratio - 4.0).abs() < 1e-9);
        assert_eq!(ratios[0].published, Some(4.0));
        assert_eq!(ratios.len(), 3);
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let few = MemoryOptions {
            connections: 1,
            ..MemoryOptions::default()
        };
        assert!(lots(&few).unwrap_err().to_string().contains("600 to"));
        let large = MemoryOptions {
            header_bytes: 64_000,
            ..MemoryOptions::default()
        };
        assert!(lots(&large).unwrap_err().to_string().contains("15000"));
    }
}
