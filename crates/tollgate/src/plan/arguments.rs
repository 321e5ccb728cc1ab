//! What `plan` takes, and what its words stand for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tollgate_cost::plan::{Choice, Fleet, Known, KnownBytes, Origin, UnitCosts, Workload};
use tollgate_lab::bench::certificate_from_word;
use tollgate_terms::{CertificateKind, CipherSuite};

use crate::load::words::{duration, size};

/// What `plan` takes.
#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    kind: KindOptions,
    #[command(flatten)]
    costs: CostOptions,
    /// Cores before and after a change of certificate, such as rsa2048:ecdsa; there are rsa2048, rsa3072, rsa4096,
    /// ecdsa, p384 and ed25519.
    #[arg(long, value_name = "OLD:NEW", value_parser = change, conflicts_with_all = ["certificate", "cost_handshake", "tps_per_core"])]
    pub migrate: Option<Change>,
    /// Nodes that there are; says how full they are, with one lost and with resumption lost. Exit code 1 when the
    /// plan does not fit with one lost.
    #[arg(long, value_name = "N", requires = "vcpu", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// vCPU of a node; says how many nodes it takes, one of them spare.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    vcpu: Option<u32>,
    /// A published sum with its own workload and costs, computed here; see --presets.
    #[arg(long, value_name = "NAME", conflicts_with_all = [
        "LoadOptions", "KindOptions", "CostOptions", "migrate",
    ])]
    pub preset: Option<String>,
    /// List the published sums.
    #[arg(long, conflicts_with_all = ["LoadOptions", "KindOptions", "CostOptions", "migrate", "preset", "nodes", "vcpu"])]
    pub presets: bool,
    /// JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The workload.
#[derive(Debug, Args)]
struct LoadOptions {
    /// New connections per second, each with a handshake.
    #[arg(long, value_name = "N", value_parser = amount)]
    tps: Option<f64>,
    /// Share of the handshakes that resume: 0.9 or 90%. None do if it is not given.
    #[arg(long, alias = "hit", value_name = "SHARE", value_parser = share)]
    hit_rate: Option<f64>,
    /// Application data sent, in 1,000,000,000 bits per second.
    #[arg(long, value_name = "N", value_parser = amount)]
    gbps: Option<f64>,
    /// Requests per second; says something together with --bytes, --conn-per-req or --rtt.
    #[arg(long, value_name = "N", value_parser = amount)]
    rps: Option<f64>,
    /// Bytes sent per request: 4096, 4kB (4,000) or 4k (4,096).
    #[arg(long, value_name = "SIZE", requires = "rps", value_parser = bytes)]
    bytes: Option<f64>,
    /// New connections per request, 0 to 1; none if it is not given.
    #[arg(long, value_name = "SHARE", requires = "rps", value_parser = share)]
    conn_per_req: Option<f64>,
    /// Connections held open at the same time.
    #[arg(long, value_name = "N", value_parser = amount)]
    connections: Option<f64>,
    /// Handshakes in flight at the same time.
    #[arg(long, value_name = "N", value_parser = amount, conflicts_with = "handshake_duration")]
    inflight: Option<f64>,
    /// How long a handshake is in flight; with the rate it says how many are.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    handshake_duration: Option<Duration>,
    /// Round trip that each request waits for: what early data would spare.
    #[arg(long, value_name = "TIME", requires = "rps", value_parser = duration)]
    rtt: Option<Duration>,
}

/// Which figures of a sheet count.
#[derive(Debug, Args)]
struct KindOptions {
    /// Sheet written by `tollgate bench`, for every cost that is not given.
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// Kind of certificate: ecdsa (if it is not given), p384, ed25519, rsa2048, rsa3072 or rsa4096.
    #[arg(long, value_name = "KIND", value_parser = certificate_from_word)]
    certificate: Option<CertificateKind>,
    /// Version of TLS; 1.3 if it is not given.
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"])]
    version: Option<String>,
    /// Cipher suite in its IANA spelling, or its cipher as a sheet names it; aes-128-gcm if it is not given.
    #[arg(long, value_name = "SUITE", value_parser = cipher)]
    suite: Option<String>,
    /// Named group; x25519 if it is not given.
    #[arg(long, value_name = "GROUP", ignore_case = true, value_parser = ["x25519", "secp256r1", "secp384r1", "x25519mlkem768"])]
    group: Option<String>,
    /// What holds the connections; http if it is not given.
    #[arg(long, value_name = "MODE", value_parser = ["http", "tcp"])]
    mode: Option<String>,
}

/// Unit costs by hand.
#[derive(Debug, Args)]
struct CostOptions {
    /// CPU of a full handshake, such as 50us or 2ms.
    #[arg(long, value_name = "TIME", value_parser = micros, conflicts_with = "tps_per_core")]
    cost_handshake: Option<f64>,
    /// Full handshakes per second that one core does.
    #[arg(long, value_name = "N", value_parser = positive)]
    tps_per_core: Option<f64>,
    /// CPU of a resumed handshake.
    #[arg(long, value_name = "TIME", value_parser = micros)]
    cost_resumed: Option<f64>,
    /// CPU of a byte sent.
    #[arg(long, value_name = "NUMBER", value_parser = amount, conflicts_with = "gbps_per_core")]
    ns_per_byte: Option<f64>,
    /// Gb/s that one core sends.
    #[arg(long, value_name = "N", value_parser = positive)]
    gbps_per_core: Option<f64>,
    /// With --migrate: CPU of a full handshake before.
    #[arg(long, value_name = "TIME", value_parser = micros, requires = "migrate")]
    cost_before: Option<f64>,
    /// With --migrate: CPU of a full handshake after.
    #[arg(long, value_name = "TIME", value_parser = micros, requires = "migrate")]
    cost_after: Option<f64>,
    /// Memory of a handshake in flight, or a span: 64kB (64,000), 64k (65,536), 48kB-72kB.
    #[arg(long, value_name = "SIZE", value_parser = span)]
    handshake_bytes: Option<Span>,
    /// Memory of an open connection, or a span.
    #[arg(long, value_name = "SIZE", value_parser = span)]
    connection_bytes: Option<Span>,
}

/// Bytes, from and to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span(f64, f64);

/// A change of certificate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// What there is.
    pub before: CertificateKind,
    /// What there would be.
    pub after: CertificateKind,
}

impl PlanArguments {
    /// The workload; `Err` says why there is none.
    pub fn workload(&self) -> Result<Workload, String> {
        let load = &self.load;
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let workload = Workload {
            connections_per_second: load.tps,
            hits: load.hit_rate,
            gigabits_per_second: load.gbps,
            requests_per_second: load.rps,
            bytes_per_request: load.bytes,
            connections_per_request: load.conn_per_req,
            connections: load.connections,
            in_flight: load.inflight,
            handshake_seconds: seconds(load.handshake_duration),
            round_trip_seconds: seconds(load.rtt),
            origin: Origin::Given,
        };
        let handshakes = workload.handshakes_per_second() > 0.0;
        let of_requests = [load.bytes, load.conn_per_req, workload.round_trip_seconds];
        let (hits, duration) = (load.hit_rate.is_some(), load.handshake_duration.is_some());
        if load.rps.is_some() && of_requests.iter().all(Option::is_none) {
            return Err(
                "--rps alone says nothing of cost; add --bytes, --conn-per-req or --rtt".into(),
            );
        }
        if (hits || duration || self.migrate.is_some()) && !handshakes {
            return Err("--hit-rate, --handshake-duration and --migrate are about handshakes, and there are none; give --tps, or --rps with --conn-per-req".into());
        }
        // clap does not ask for --migrate where another option rules it out.
        let sides = [self.costs.cost_before, self.costs.cost_after];
        if self.migrate.is_none() && sides.iter().any(Option::is_some) {
            return Err("--cost-before and --cost-after are sides of a change; give --migrate OLD:NEW, or --cost-handshake instead".into());
        }
        let asked = [
            load.tps,
            load.gbps,
            load.rps,
            load.connections,
            load.inflight,
        ];
        match asked.iter().any(Option::is_some) {
            true => Ok(workload),
            false => Err("nothing to plan; give --tps, --gbps, --rps, --connections or --inflight, or a --preset".into()),
        }
    }

    /// Costs given by hand, and which of a sheet's figures would stand in for the others.
    pub fn costs(&self) -> UnitCosts {
        let costs = &self.costs;
        let per_byte = costs.ns_per_byte.map(given).or_else(|| {
            let per_core = costs.gbps_per_core?;
            converted(8.0 / per_core, 6, format!("{per_core} Gb/s per core"))
        });
        UnitCosts {
            choice: self.choice(),
            full_micros: costs.cost_handshake.map(given).or_else(|| {
                let per_core = costs.tps_per_core?;
                converted(1e6 / per_core, 3, format!("{per_core} per second and core"))
            }),
            resumed_micros: costs.cost_resumed.map(given),
            nanos_per_byte: per_byte.clone(),
            request_nanos_per_byte: per_byte,
            handshake_bytes: costs.handshake_bytes.map(memory),
            connection_bytes: costs.connection_bytes.map(memory).into_iter().collect(),
            ..UnitCosts::default()
        }
    }

    /// The same before and after the change.
    pub fn costs_of(&self, change: Change) -> [UnitCosts; 2] {
        let side = |kind: CertificateKind, cost: Option<f64>| {
            let mut costs = self.costs();
            costs.choice.certificate = kind.name().to_string();
            costs.full_micros = cost.map(given);
            costs
        };
        [
            side(change.before, self.costs.cost_before),
            side(change.after, self.costs.cost_after),
        ]
    }

    /// The sheet's file.
    pub fn sheet(&self) -> Option<&PathBuf> {
        self.kind.sheet.as_ref()
    }

    /// Nodes, when one has a size.
    pub fn fleet(&self) -> Option<Fleet> {
        Some(Fleet {
            nodes: self.nodes,
            vcpu: self.vcpu?,
        })
    }

    /// What was taken for a kind that was not said; `None` when all was said.
    pub fn taken(&self) -> Option<String> {
        let (kind, choice) = (&self.kind, self.choice());
        let taken: Vec<String> = [
            (kind.version.is_none(), choice.version),
            (
                kind.certificate.is_none() && self.migrate.is_none(),
                choice.certificate,
            ),
            (kind.group.is_none(), choice.group),
            (kind.suite.is_none(), choice.suite),
            (kind.mode.is_none(), choice.mode),
        ]
        .into_iter()
        .filter_map(|(is, word)| is.then_some(word))
        .collect();
        (!taken.is_empty())
            .then(|| format!("~ not said, so taken from the sheet: {}", taken.join(", ")))
    }

    fn choice(&self) -> Choice {
        let (kind, usual) = (&self.kind, Choice::default());
        Choice {
            version: match kind.version.as_deref() {
                Some("1.2") => "tls12".into(),
                _ => usual.version,
            },
            certificate: kind
                .certificate
                .map_or(usual.certificate, |kind| kind.name().to_string()),
            group: kind
                .group
                .as_ref()
                .map_or(usual.group, |group| group.to_ascii_lowercase()),
            suite: kind.suite.clone().unwrap_or(usual.suite),
            mode: kind.mode.clone().unwrap_or(usual.mode),
        }
    }
}

fn given(value: f64) -> Known {
    Known {
        value,
        origin: Origin::Given,
    }
}

fn converted(value: f64, digits: i32, given: String) -> Option<Known> {
    let factor = 10_f64.powi(digits);
    Some(Known {
        value: (value * factor).round() / factor,
        origin: Origin::Converted { given },
    })
}

fn memory(Span(low, high): Span) -> KnownBytes {
    KnownBytes {
        what: "memory".into(),
        low,
        high,
        origin: Origin::Given,
    }
}

/// A number from 0 to a million million.
fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e12).contains(&number) => Ok((number * 1e6).round() / 1e6),
        _ => Err(format!(
            "{text:?} is not an amount; write 14000 or 0.5, at most 1000000000000"
        )),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match amount(text)? {
        number if number >= 1e-3 => Ok(number),
        _ => Err(format!(
            "{text:?} is too little for one core; give 0.001 or more"
        )),
    }
}

/// `0.9` or `90%`.
fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok((share * 1e6).round() / 1e6),
        _ => Err(format!(
            "{text:?} is not a share; give 0.9 or 90%, from 0 to 1"
        )),
    }
}

/// Microseconds, from a time with a unit.
fn micros(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a time; write 800ns, 50us or 2ms");
    let units = [
        ("ns", 1e-3),
        ("us", 1.0),
        ("µs", 1.0),
        ("ms", 1e3),
        ("s", 1e6),
    ];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .ok_or_else(wrong)?;
    match number.trim().parse::<f64>() {
        Ok(number) if (0.001..=1e9).contains(&(number * factor)) => {
            Ok((number * factor * 1e3).round() / 1e3)
        }
        _ => Err(wrong()),
    }
}

/// `4096`, `4kB` of 1,000, `4k` of 1,024.
fn bytes(text: &str) -> Result<f64, String> {
    let thousands = [("kB", 1e3), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    let found = thousands
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    match found {
        Some((number, factor)) => Ok((amount(number)? * factor).round()),
        None => size(text).map(|bytes| bytes as f64),
    }
}

/// `64kB` or `48kB-72kB`.
fn span(text: &str) -> Result<Span, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (bytes(low)?, bytes(high)?) {
        (low, high) if low <= high => Ok(Span(low, high)),
        _ => Err(format!("{text:?} goes down; write the smaller size first")),
    }
}

/// The cipher of a suite, as figures of a sheet name it.
fn cipher(text: &str) -> Result<String, String> {
    const CIPHERS: [&str; 3] = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];
    let lower = text.to_ascii_lowercase();
    let known = CIPHERS.into_iter().find(|cipher| {
        *cipher == lower
            || (CipherSuite::from_name(text).is_some() && lower.contains(&cipher.replace('-', "_")))
    });
    known.map(str::to_owned).ok_or_else(|| {
        format!("{text:?} is not a suite that exists here; an example is TLS_AES_128_GCM_SHA256, and ciphers are {}", CIPHERS.join(", "))
    })
}

/// `rsa2048:ecdsa`.
fn change(text: &str) -> Result<Change, String> {
    let (before, after) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is not a change; write OLD:NEW, such as rsa2048:ecdsa"))?;
    Ok(Change {
        before: certificate_from_word(before)?,
        after: certificate_from_word(after)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_and_shares_are_turned_into_the_unit_that_is_computed_with() {
        assert_eq!(micros("50us"), Ok(50.0));
        assert_eq!(micros("2.2ms"), Ok(2_200.0));
        assert_eq!(micros("800ns"), Ok(0.8));
        assert!(micros("50").is_err() && micros("0ms").is_err() && micros("-1s").is_err());
        assert_eq!(bytes("4kB"), Ok(4_000.0));
        assert_eq!(bytes("4k"), Ok(4_096.0));
        assert_eq!(span("48kB-72kB"), Ok(Span(48_000.0, 72_000.0)));
        assert!(span("72kB-48kB").is_err() && span("").is_err());
        assert_eq!(share("90%"), Ok(0.9));
        assert!(share("1.1").is_err() && share("NaN").is_err() && amount("inf").is_err());
    }

    #[test]
    fn a_suite_is_known_by_its_name_and_by_its_cipher() {
        assert_eq!(cipher("TLS_AES_128_GCM_SHA256"), Ok("aes-128-gcm".into()));
        assert_eq!(cipher("chacha20-poly1305"), Ok("chacha20-poly1305".into()));
        assert!(cipher("ECDHE-RSA-AES128-GCM-SHA256").is_err());
    }

    #[test]
    fn a_change_names_two_certificates() {
        let found = change("rsa2048:ecdsa").unwrap();
        assert_eq!(found.before, CertificateKind::Rsa(2048));
        assert_eq!(found.after, CertificateKind::EcdsaP256);
        assert!(change("rsa2048").is_err() && change("rsa2048:dsa").is_err());
    }
}
