//! What follows from a sheet, in sentences: ratios with their spread, and what one core carries.

use tollgate_cost::{Figure, Measured, Sheet, Unit};

use super::text;

/// The handshake that a browser does with a default site.
pub(crate) const FULL: &str = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/full/server";
/// The same, resumed.
pub(crate) const RESUMED: &str = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/resumed/server";
const FULL_RSA: &str = "handshake/tls13/rsa-2048/x25519/aes-128-gcm/full/server";
const FULL_12: &str = "handshake/tls12/ecdsa-p256/x25519/aes-128-gcm/full/server";
const RESUMED_12: &str = "handshake/tls12/ecdsa-p256/x25519/aes-128-gcm/resumed/server";
const AES: &str = "record/seal/aes-128-gcm/16384";
const CHACHA: &str = "record/seal/chacha20-poly1305/16384";
/// Bytes that a record of TLS 1.3 adds (RFC 8446, 5.2): header, content type, tag.
const RECORD_OVERHEAD: f64 = 22.0;

/// Two figures of which one is so many times the other.
const RATIOS: [(&str, &str, &str); 11] = [
    (
        "sign/rsa-2048",
        "sign/ecdsa-p256",
        "an RSA-2048 signature costs {} times an ECDSA P-256 one",
    ),
    (
        "sign/rsa-4096",
        "sign/rsa-2048",
        "an RSA-4096 signature costs {} times an RSA-2048 one",
    ),
    (
        "verify/rsa-4096",
        "verify/rsa-2048",
        "verifying RSA-4096 costs {} times verifying RSA-2048",
    ),
    (
        "verify/ecdsa-p256",
        "sign/ecdsa-p256",
        "verifying ECDSA P-256 costs {} times signing with it",
    ),
    (
        "key-exchange/x25519mlkem768/server",
        "key-exchange/x25519/server",
        "the hybrid key exchange X25519MLKEM768 costs a server {} times X25519 alone",
    ),
    (
        "key-schedule/sha384",
        "key-schedule/sha256",
        "the key schedule of SHA-384 costs {} times that of SHA-256",
    ),
    (
        FULL,
        RESUMED,
        "TLS 1.3 with ECDSA P-256: a full handshake costs the server {} times a resumed one",
    ),
    (
        FULL_12,
        RESUMED_12,
        "TLS 1.2 with ECDSA P-256: a full handshake costs the server {} times a resumed one",
    ),
    (
        FULL_RSA,
        FULL,
        "TLS 1.3, full: RSA-2048 costs the server {} times ECDSA P-256",
    ),
    (
        CHACHA,
        AES,
        "ChaCha20-Poly1305 costs {} times AES-128-GCM per byte of a full record",
    ),
    (
        "record/seal/aes-128-gcm/64",
        "record/seal/aes-128-gcm/16384",
        "a byte in a record of 64 costs {} times a byte in a record of 16384",
    ),
];

/// Everything that can be said from the figures that the sheet has.
pub fn conclusions(sheet: &Sheet) -> Vec<String> {
    let mut said: Vec<String> = RATIOS
        .iter()
        .filter_map(|(over, under, sentence)| {
            ratio(sheet, sheet.figure(over)?, sheet.figure(under)?, sentence)
        })
        .collect();
    said.extend(key_exchange_share(sheet));
    said.extend(carried(sheet));
    said.extend(three_numbers(sheet));
    if sheet.figure("key-exchange/x25519/server").is_some() {
        said.push(
            "key exchange by RSA encryption is not measured: it has no forward secrecy, and is not offered"
                .into(),
        );
    }
    said
}

fn ratio(sheet: &Sheet, over: &Figure, under: &Figure, sentence: &str) -> Option<String> {
    if under.measured.low <= 0.0 {
        return None;
    }
    if !sheet.told_apart(over, under) {
        return Some(format!(
            "{} and {} are not told apart here",
            over.label, under.label
        ));
    }
    Some(sentence.replace("{}", &text::times(&over.measured.over(&under.measured))))
}

fn key_exchange_share(sheet: &Sheet) -> Option<String> {
    let exchange = sheet.figure("key-exchange/x25519/server")?;
    let full = sheet.figure(FULL)?;
    let share = exchange.measured.over(&full.measured);
    Some(format!(
        "the key exchange is {} of a full TLS 1.3 handshake with ECDSA P-256 on the server",
        text::percent(share.median)
    ))
}

fn carried(sheet: &Sheet) -> Vec<String> {
    let mut said = Vec::new();
    for (id, what) in [
        (FULL, "full handshakes (TLS 1.3, ECDSA P-256)"),
        (FULL_RSA, "full handshakes (TLS 1.3, RSA-2048)"),
        (RESUMED, "resumed handshakes (TLS 1.3, ECDSA P-256)"),
    ] {
        if let Some(figure) = sheet.figure(id)
            && figure.measured.low > 0.0
        {
            let rate = figure.measured.inverted(1e9);
            said.push(format!(
                "one core carries {} {what} a second, before a single system call",
                text::value(&rate, Unit::Count)
            ));
        }
    }
    said
}

/// Share of CPU, memory per connection, share of the network: what TLS costs at large, in three numbers.
fn three_numbers(sheet: &Sheet) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(handshake) = sheet.figure(FULL)
        && let Some(record) = sheet.figure(AES)
    {
        let second = |nanoseconds: Measured| nanoseconds.inverted(1e9 / 100.0);
        let gigabits = record.measured.inverted(8.0 / 100.0);
        said.push(format!(
            "CPU: 1 % of a core pays for {} full handshakes a second, or for {} Gb/s of AES-128-GCM (said elsewhere: TLS takes less than 1 %)",
            text::value(&second(handshake.measured), Unit::Count),
            text::value(&gigabits, Unit::Ratio),
        ));
    }
    for (id, mode) in [
        ("connection-memory/tcp/user", "TCP"),
        ("connection-memory/http/user", "HTTP"),
    ] {
        if let Some(figure) = sheet.figure(id) {
            said.push(format!(
                "memory: {} of user memory per idle connection in {mode} mode (said elsewhere: less than 10 KB)",
                text::value(&figure.measured, figure.unit)
            ));
        }
    }
    if sheet.figure(AES).is_some() {
        said.push(format!(
            "network: a full record of 16384 bytes grows by {RECORD_OVERHEAD:.0}, {}; one of 1024 by {} (said elsewhere: less than 2 %)",
            text::percent(RECORD_OVERHEAD / 16_384.0),
            text::percent(RECORD_OVERHEAD / 1_024.0),
        ));
    }
    said
}
