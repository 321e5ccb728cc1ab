//! What is published about the cost of TLS, as data.

use tollgate_cost::Unit;

use crate::bench::conclusions::{FULL, RESUMED};

/// How a published figure is found in a sheet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
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
pub(super) struct Said {
    pub(super) of: Of,
    pub(super) what: &'static str,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) unit: Unit,
    pub(super) source: &'static str,
    pub(super) remark: Option<&'static str>,
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
pub(super) const SAID: &[Said] = &[
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
pub(super) const CORRECTIONS: &[(&str, &str)] = &[
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
