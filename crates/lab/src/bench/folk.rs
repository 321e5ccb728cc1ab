//! Published figures beside measured ones. They are shown and never computed with.

use std::fmt;

use comfy_table::Cell;
use serde::Serialize;
use tollgate_cost::{Figure, Measured, Reference, Sheet, Unit};

use super::conclusions::{FULL, RESUMED};
use super::text;

/// How a published figure is found in a sheet.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// The figure of this id, as it is.
    Figure(&'static str),
    /// How often a second one core does this.
    Rate(&'static str),
    /// Gigabits per second of one core at this price per byte.
    Gigabits(&'static str),
    /// The two of them together.
    Sum(&'static str, &'static str),
    /// The first over the second.
    Over(&'static str, &'static str),
    /// What reading the clock costs.
    Clock,
}

/// One published figure.
#[derive(Clone, Copy, Debug)]
struct Said {
    of: Of,
    what: &'static str,
    low: f64,
    high: f64,
    unit: Unit,
    source: &'static str,
    remark: Option<&'static str>,
}

const GUIDE: &str = "a guide to TLS cost, no machine named";
const REGIMES: &str = "a benchmark on c6i.4xlarge, OpenSSL 3.0.13";
const APPLIANCE: &str = "a load balancer's sizing guide";
const FAST_YET: &str = "Is TLS Fast Yet";
const PROBING: &str = "an article on probing handshakes";

const FULL_CLIENT: &str = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/full/client";
const RESUMED_CLIENT: &str = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/resumed/client";
const RSA: &str = "handshake/tls13/rsa-2048/x25519/aes-128-gcm/full/server";
const RSA_CLIENT: &str = "handshake/tls13/rsa-2048/x25519/aes-128-gcm/full/client";
const RSA_12: &str = "handshake/tls12/rsa-2048/x25519/aes-128-gcm/full/server";
const RSA_12_RESUMED: &str = "handshake/tls12/rsa-2048/x25519/aes-128-gcm/resumed/server";
const AES: &str = "record/seal/aes-128-gcm/16384";
const CHACHA: &str = "record/seal/chacha20-poly1305/16384";

const fn said(
    of: Of,
    what: &'static str,
    (low, high): (f64, f64),
    unit: Unit,
    source: &'static str,
) -> Said {
    Said {
        of,
        what,
        low,
        high,
        unit,
        source,
        remark: None,
    }
}

const fn but(said: Said, remark: &'static str) -> Said {
    Said {
        remark: Some(remark),
        ..said
    }
}

const MS: f64 = 1e6;
const US: f64 = 1e3;
const KB: f64 = 1024.0;

/// The list, by phase.
const SAID: &[Said] = &[
    but(
        said(
            Of::Figure("sign/rsa-2048"),
            "RSA-2048 signature",
            (2.0 * MS, 2.5 * MS),
            Unit::Nanoseconds,
            GUIDE,
        ),
        "the same guide expects 500 a second; OpenSSL 3.0 takes 0.3 to 0.4 ms on a current core",
    ),
    but(
        said(
            Of::Figure("sign/rsa-3072"),
            "RSA-3072 signature",
            (7.0 * MS, 7.0 * MS),
            Unit::Nanoseconds,
            GUIDE,
        ),
        "OpenSSL 3.0 takes 2 ms on a current core",
    ),
    but(
        said(
            Of::Figure("sign/rsa-4096"),
            "RSA-4096 signature",
            (25.0 * MS, 25.0 * MS),
            Unit::Nanoseconds,
            GUIDE,
        ),
        "OpenSSL 3.0 takes 4.5 ms on a current core",
    ),
    but(
        said(
            Of::Figure("sign/ecdsa-p256"),
            "ECDSA P-256 signature",
            (20.0 * US, 150.0 * US),
            Unit::Nanoseconds,
            GUIDE,
        ),
        "one text says both 50,000 a second and 150 µs, which is 6,667 a second",
    ),
    but(
        said(
            Of::Over("verify/ecdsa-p256", "sign/ecdsa-p256"),
            "verifying over signing, ECDSA P-256",
            (0.0, 1.0),
            Unit::Ratio,
            GUIDE,
        ),
        "verification is called cheap for RSA and ECDSA alike; for ECDSA it is the dearer half",
    ),
    said(
        Of::Over("sign/rsa-2048", "sign/ecdsa-p256"),
        "RSA-2048 over ECDSA P-256, signature",
        (10.0, 30.0),
        Unit::Ratio,
        GUIDE,
    ),
    said(
        Of::Over("sign/rsa-4096", "sign/rsa-2048"),
        "RSA-4096 over RSA-2048, signature",
        (7.0, 7.0),
        Unit::Ratio,
        PROBING,
    ),
    said(
        Of::Over("verify/rsa-4096", "verify/rsa-2048"),
        "RSA-4096 over RSA-2048, verification",
        (3.5, 3.5),
        Unit::Ratio,
        PROBING,
    ),
    said(
        Of::Rate("sign/rsa-4096"),
        "RSA-4096 signatures a second on one core",
        (287.0, 287.0),
        Unit::PerSecond,
        PROBING,
    ),
    but(
        said(
            Of::Figure("key-exchange/x25519/server"),
            "ephemeral key exchange, one side",
            (100.0 * US, 100.0 * US),
            Unit::Nanoseconds,
            REGIMES,
        ),
        "an estimate inside a handshake of 620 µs; the group is not named",
    ),
    but(
        said(
            Of::Over("key-exchange/x25519/server", FULL),
            "share of the ephemeral key exchange in a full handshake",
            (0.13, 0.15),
            Unit::Ratio,
            APPLIANCE,
        ),
        "said of ECDHE against ECDH, which no current version has; without forward secrecy there is nothing left to offer",
    ),
    said(
        Of::Figure("key-schedule/sha256"),
        "key schedule",
        (10.0 * US, 10.0 * US),
        Unit::Nanoseconds,
        GUIDE,
    ),
    said(
        Of::Figure("chain/depth-1"),
        "chain validation, depth 1",
        (50.0 * US, 300.0 * US),
        Unit::Nanoseconds,
        GUIDE,
    ),
    said(
        Of::Figure("chain/depth-2"),
        "chain validation, depth 2",
        (50.0 * US, 300.0 * US),
        Unit::Nanoseconds,
        GUIDE,
    ),
    said(
        Of::Figure("chain/depth-3"),
        "chain validation, depth 3",
        (50.0 * US, 300.0 * US),
        Unit::Nanoseconds,
        GUIDE,
    ),
    but(
        said(
            Of::Sum(FULL, FULL_CLIENT),
            "full handshake, both sides, ECDSA P-256",
            (620.0 * US, 620.0 * US),
            Unit::Nanoseconds,
            REGIMES,
        ),
        "over loopback; measured here in memory, `tollgate bench regimes` does both",
    ),
    but(
        said(
            Of::Sum(RESUMED, RESUMED_CLIENT),
            "resumed handshake, both sides, ECDSA P-256",
            (74.0 * US, 74.0 * US),
            Unit::Nanoseconds,
            REGIMES,
        ),
        "cannot be a TLS 1.3 handshake as every library does it: its resumption repeats the key exchange",
    ),
    but(
        said(
            Of::Sum(RSA, RSA_CLIENT),
            "full handshake, both sides, RSA-2048",
            (2.4 * MS, 2.4 * MS),
            Unit::Nanoseconds,
            REGIMES,
        ),
        "over loopback; measured here in memory",
    ),
    but(
        said(
            Of::Over(FULL, RESUMED),
            "full over resumed, TLS 1.3, ECDSA P-256, server",
            (8.0, 40.0),
            Unit::Ratio,
            GUIDE,
        ),
        "the ratio depends on version and certificate; for this pair it is nearly nothing",
    ),
    but(
        said(
            Of::Over(RSA_12, RSA_12_RESUMED),
            "full over resumed, TLS 1.2, RSA-2048, server",
            (8.0, 40.0),
            Unit::Ratio,
            GUIDE,
        ),
        "this pair is the one for which the saying was true",
    ),
    said(
        Of::Figure(RESUMED),
        "resumed handshake, server",
        (50.0 * US, 50.0 * US),
        Unit::Nanoseconds,
        GUIDE,
    ),
    but(
        said(
            Of::Rate(RSA),
            "handshakes a second on one core, RSA-2048",
            (500.0, 638.0),
            Unit::PerSecond,
            APPLIANCE,
        ),
        "500 as a rule of thumb; its own table has 5,107 to 33,994 on 2 to 16 cores for the fastest suite, system calls and network included, and suites that no longer exist",
    ),
    but(
        said(
            Of::Rate(FULL),
            "handshakes a second on one core, ECDSA P-256",
            (2_000.0, 2_554.0),
            Unit::PerSecond,
            APPLIANCE,
        ),
        "2,000 as a rule of thumb; here without system calls and network, `tollgate bench tps` has them",
    ),
    said(
        Of::Over(RSA, FULL),
        "RSA-2048 over ECDSA P-256, full handshake",
        (4.0, 4.0),
        Unit::Ratio,
        APPLIANCE,
    ),
    but(
        said(
            Of::Figure(AES),
            "AES-128-GCM per byte",
            (0.2, 1.0),
            Unit::NanosecondsPerByte,
            GUIDE,
        ),
        "one text says both 1 ns per byte and 5 GB/s, which is 0.2",
    ),
    but(
        said(
            Of::Figure(CHACHA),
            "ChaCha20-Poly1305 per byte",
            (0.67, 8.0),
            Unit::NanosecondsPerByte,
            GUIDE,
        ),
        "one text says both 6 to 8 ns per byte and 1.5 GB/s, which is 0.67",
    ),
    but(
        said(
            Of::Figure("record/no-aes/seal/aes-128-gcm/16384"),
            "AES-128-GCM per byte without AES instructions",
            (8.0, 12.0),
            Unit::NanosecondsPerByte,
            GUIDE,
        ),
        "measured by `tollgate bench --phase 3 --no-aes-hardware`",
    ),
    but(
        said(
            Of::Gigabits(AES),
            "bulk, AES-128-GCM, Gb/s",
            (6.56, 6.56),
            Unit::Ratio,
            REGIMES,
        ),
        "over loopback, both sides; measured here in memory, sealing alone",
    ),
    but(
        said(
            Of::Gigabits(CHACHA),
            "bulk, ChaCha20-Poly1305, Gb/s",
            (2.44, 2.44),
            Unit::Ratio,
            REGIMES,
        ),
        "over loopback, both sides; measured here in memory, sealing alone",
    ),
    said(
        Of::Gigabits(AES),
        "bulk of one core, Gb/s",
        (1.0, 1.0),
        Unit::Ratio,
        APPLIANCE,
    ),
    said(
        Of::Figure("handshake-memory/total"),
        "memory of a handshake in flight",
        (48.0 * KB, 72.0 * KB),
        Unit::Bytes,
        GUIDE,
    ),
    said(
        Of::Figure("connection-memory/tcp/user"),
        "memory of an idle connection, TCP mode",
        (12.0 * KB, 20.0 * KB),
        Unit::Bytes,
        GUIDE,
    ),
    said(
        Of::Figure("connection-memory/http/user"),
        "memory of an idle connection, HTTP mode",
        (12.0 * KB, 20.0 * KB),
        Unit::Bytes,
        GUIDE,
    ),
    but(
        said(
            Of::Figure("connection-memory/http/user"),
            "memory of a connection, for sizing",
            (40.0 * KB, 40.0 * KB),
            Unit::Bytes,
            APPLIANCE,
        ),
        "called conservative there",
    ),
    said(
        Of::Figure("connection-memory/http/user"),
        "memory of a connection, as a bound",
        (0.0, 10.0 * KB),
        Unit::Bytes,
        FAST_YET,
    ),
    said(
        Of::Figure("session/bytes"),
        "session in a cache",
        (256.0, 512.0),
        Unit::Bytes,
        GUIDE,
    ),
    said(
        Of::Figure("session/look-up"),
        "look-up of a session among a million",
        (1.0 * US, 1.0 * US),
        Unit::Nanoseconds,
        GUIDE,
    ),
    said(
        Of::Clock,
        "reading a timer",
        (50.0, 50.0),
        Unit::Nanoseconds,
        REGIMES,
    ),
];

/// What is said, and what is true, where it takes no measurement to know.
const CORRECTIONS: &[(&str, &str)] = &[
    (
        "14,000 handshakes a second at 2 ms are 14 cores",
        "they are 28: 14,000 x 2 ms = 28 s of CPU per second",
    ),
    (
        "10 Gb/s at 1 ns per byte take 30 % of a core",
        "they take 125 %: 1.25 GB/s x 1 ns",
    ),
    (
        "a hit rate that makes 650 into 400 saves eightfold",
        "650 / 400 is 1.6",
    ),
    (
        "14,000 handshakes a second hold 14,000 x 64 KB a second",
        "what is held is rate times duration: at 5 ms each 4.5 MB",
    ),
    (
        "TLS 1.3 has no server-side session cache",
        "stateful tickets are one, and early data needs it",
    ),
    (
        "a second certificate is chosen by server_name",
        "by the client's signature schemes, for each name",
    ),
    (
        "the list of ciphers chooses AES or ChaCha20 for TLS 1.3",
        "in OpenSSL it does not touch the suites of TLS 1.3",
    ),
    (
        "stapling should be on everywhere",
        "the largest issuer stopped OCSP in August 2025",
    ),
    (
        "from 78 % to 41 % is 47 % absolute",
        "it is 37 points, or 47 % of what it was",
    ),
    (
        "tables of handshakes per second for ECDH or CBC suites",
        "history: TLS 1.3 has neither",
    ),
];

/// One published figure beside what the sheet has.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What it is about.
    pub what: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Lowest published value.
    pub published_low: f64,
    /// Highest published value.
    pub published_high: f64,
    /// Where it is said.
    pub source: String,
    /// What else is true about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// The same on this machine; `None` when the sheet does not have it.
    pub measured: Option<Measured>,
}

impl Beside {
    /// How far off the published value is: measured over the nearest published one, 1 when it lies
    /// within; `None` when nothing was measured.
    pub fn ratio(&self) -> Option<f64> {
        let measured = self.measured?;
        if measured.high < self.published_low {
            Some(measured.median / self.published_low)
        } else if measured.low > self.published_high {
            Some(measured.median / self.published_high)
        } else {
            Some(1.0)
        }
    }
}

/// A saying, and what is true.
#[derive(Clone, Debug, Serialize)]
pub struct Correction {
    /// What is said.
    pub said: &'static str,
    /// What is true.
    pub true_is: &'static str,
}

/// Everything that is said, beside what is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Folk {
    /// Figures.
    pub figures: Vec<Beside>,
    /// Sayings that need no measurement.
    pub corrections: Vec<Correction>,
}

/// Published figures and sayings, beside what `sheet` has.
pub fn folk(sheet: &Sheet) -> Folk {
    Folk {
        figures: beside(sheet),
        corrections: corrections(),
    }
}

/// Every published figure, in order of phase, beside what `sheet` has.
pub fn beside(sheet: &Sheet) -> Vec<Beside> {
    SAID.iter()
        .map(|said| Beside {
            what: said.what.into(),
            unit: said.unit,
            published_low: said.low,
            published_high: said.high,
            source: said.source.into(),
            remark: said.remark.map(Into::into),
            measured: find(sheet, said.of),
        })
        .collect()
}

/// What is said and wrong by arithmetic or by the standard, without a measurement.
pub fn corrections() -> Vec<Correction> {
    CORRECTIONS
        .iter()
        .map(|(said, true_is)| Correction { said, true_is })
        .collect()
}

/// Gives each figure the published value for the same thing, where there is one.
pub(crate) fn refer(figures: &mut [Figure]) {
    for figure in figures {
        figure.reference = SAID
            .iter()
            .find(|said| matches!(said.of, Of::Figure(id) if id == figure.id))
            .map(|said| Reference {
                low: said.low,
                high: said.high,
                source: said.source.into(),
                remark: said.remark.map(Into::into),
            });
    }
}

fn find(sheet: &Sheet, of: Of) -> Option<Measured> {
    let get = |id| sheet.figure(id).map(|figure| figure.measured);
    let above_zero = |measured: Measured| (measured.low > 0.0).then_some(measured);
    match of {
        Of::Figure(id) => get(id),
        Of::Rate(id) => Some(above_zero(get(id)?)?.inverted(1e9)),
        Of::Gigabits(id) => Some(above_zero(get(id)?)?.inverted(8.0)),
        Of::Sum(one, other) => {
            let (one, other) = (get(one)?, get(other)?);
            Some(Measured {
                n: one.n.min(other.n),
                median: one.median + other.median,
                low: one.low + other.low,
                high: one.high + other.high,
            })
        }
        Of::Over(one, other) => Some(get(one)?.over(&above_zero(get(other)?)?)),
        Of::Clock => Some(Measured::exact(sheet.clock_nanoseconds)),
    }
}

/// [`Beside::ratio`] for people: `agrees` when it rounds to one, `0.31 times`, or nothing when it was not
/// measured.
pub fn off_by(row: &Beside) -> String {
    match row.ratio() {
        None => String::new(),
        Some(ratio) if (0.95..1.05).contains(&ratio) => "agrees".into(),
        Some(ratio) if ratio >= 9.95 => format!("{ratio:.0} times"),
        Some(ratio) if ratio >= 0.995 => format!("{ratio:.1} times"),
        Some(ratio) => format!("{ratio:.2} times"),
    }
}

impl fmt::Display for Folk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = text::plain_table();
        table.set_header(["", "published", "here", "here / published"].map(text::right));
        let mut remarks = Vec::new();
        for row in &self.figures {
            let note = row.remark.as_ref().map_or_else(String::new, |remark| {
                remarks.push(remark);
                format!(" [{}]", remarks.len())
            });
            table.add_row([
                Cell::new(format!("{}{note}", row.what)),
                text::right(text::range(row.published_low, row.published_high, row.unit)),
                text::right(
                    row.measured
                        .map_or_else(|| "-".into(), |found| text::value(&found, row.unit)),
                ),
                text::right(off_by(row)),
            ]);
        }
        f.write_str(&text::indented(&table))?;
        writeln!(f)?;
        for (place, remark) in remarks.iter().enumerate() {
            writeln!(f, "[{}] {remark}", place + 1)?;
        }
        writeln!(f, "\nSayings that need no measurement")?;
        for correction in &self.corrections {
            writeln!(f, "  said  {}", correction.said)?;
            writeln!(f, "  true  {}\n", correction.true_is)?;
        }
        Ok(())
    }
}
