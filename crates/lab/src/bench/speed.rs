//! The primitives as a table of operations per second, and `openssl speed` beside it where it is there.

use std::fmt;
use std::process::{Command, Stdio};

use comfy_table::Cell;
use serde::Serialize;
use tollgate_cost::{Measured, Sheet, Unit};

use super::{BenchError, text};

/// Figures of ours, what `openssl speed` calls the same, and which of its columns it is.
const NAMES: [(&str, &str, Column); 15] = [
    ("sign/rsa-2048", "rsa2048", Column::First),
    ("verify/rsa-2048", "rsa2048", Column::Second),
    ("sign/rsa-3072", "rsa3072", Column::First),
    ("verify/rsa-3072", "rsa3072", Column::Second),
    ("sign/rsa-4096", "rsa4096", Column::First),
    ("verify/rsa-4096", "rsa4096", Column::Second),
    ("sign/ecdsa-p256", "ecdsap256", Column::First),
    ("verify/ecdsa-p256", "ecdsap256", Column::Second),
    ("sign/ecdsa-p384", "ecdsap384", Column::First),
    ("verify/ecdsa-p384", "ecdsap384", Column::Second),
    ("sign/ed25519", "ed25519", Column::First),
    ("verify/ed25519", "ed25519", Column::Second),
    ("key-exchange/x25519/server", "ecdhx25519", Column::First),
    ("key-exchange/secp256r1/server", "ecdhp256", Column::First),
    ("key-exchange/secp384r1/server", "ecdhp384", Column::First),
];

/// The suites of records, and the names of their ciphers.
const CIPHERS: [(&str, &str); 3] = [
    ("aes-128-gcm", "aes-128-gcm"),
    ("aes-256-gcm", "aes-256-gcm"),
    ("chacha20-poly1305", "chacha20-poly1305"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    First,
    Second,
}

/// Operations, or bytes, per second on one core.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    /// One row per primitive.
    pub rows: Vec<SpeedRow>,
    /// What `openssl version` says; `None` when it was not asked for.
    pub openssl: Option<String>,
    /// What limits the comparison.
    pub notes: Vec<&'static str>,
}

/// One primitive.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedRow {
    /// Id of the figure in the sheet.
    pub id: String,
    /// The same for people.
    pub label: String,
    /// Whether the rates count bytes; they count operations otherwise.
    pub bytes: bool,
    /// Here, per second.
    pub per_second: Measured,
    /// `openssl speed` on this machine, per second.
    pub openssl_per_second: Option<f64>,
    /// Here over `openssl speed`.
    pub ratio: Option<f64>,
}

/// Makes the table from phases 1 and 3 of `sheet`. With `openssl` given it is run for every primitive
/// that it has, `seconds` for each.
///
/// # Errors
///
/// When `openssl` cannot be run.
pub fn speed(
    sheet: &Sheet,
    openssl: Option<u32>,
    progress: &dyn Fn(&str, f64),
) -> Result<Speed, BenchError> {
    let mut rows: Vec<SpeedRow> = sheet
        .figures()
        .filter(|figure| figure.measured.low > 0.0)
        .filter_map(|figure| {
            let bytes = match figure.unit {
                Unit::Nanoseconds => false,
                Unit::NanosecondsPerByte => true,
                Unit::Bytes | Unit::Count | Unit::PerSecond | Unit::Ratio => return None,
            };
            Some(SpeedRow {
                id: figure.id.clone(),
                label: figure.label.clone(),
                bytes,
                per_second: figure.measured.inverted(1e9),
                openssl_per_second: None,
                ratio: None,
            })
        })
        .collect();
    let mut notes = Vec::new();
    let version = match openssl {
        None => None,
        Some(seconds) => {
            beside(&mut rows, seconds, progress)?;
            notes.push("key exchange: openssl times the derivation alone; here the server also makes its key");
            notes.push("records: openssl times the cipher alone, without the header and the content type of a record");
            notes.push("openssl counts elapsed or user time, here it is CPU time");
            Some(run(&["version"])?.trim().to_owned())
        }
    };
    Ok(Speed {
        rows,
        openssl: version,
        notes,
    })
}

fn beside(
    rows: &mut [SpeedRow],
    seconds: u32,
    progress: &dyn Fn(&str, f64),
) -> Result<(), BenchError> {
    let seconds = seconds.to_string();
    let mut done: Vec<(&str, Vec<f64>)> = Vec::new();
    let count = rows.len().max(1) as f64;
    for (place, row) in rows.iter_mut().enumerate() {
        let share = place as f64 / count;
        let found = if let Some((_, name, column)) = NAMES.iter().find(|(id, ..)| *id == row.id) {
            if !done.iter().any(|(known, _)| known == name) {
                progress(&format!("openssl speed {name}"), share);
                let text = run(&["speed", "-mr", "-seconds", &seconds, name])?;
                done.push((name, rates(&text)));
            }
            done.iter()
                .find(|(known, _)| known == name)
                .and_then(|(_, rates)| rates.get(usize::from(*column == Column::Second)))
                .copied()
        } else if let Some((cipher, bytes)) = cipher(&row.id) {
            progress(
                &format!("openssl speed -evp {cipher} -bytes {bytes}"),
                share,
            );
            let text = run(&[
                "speed", "-mr", "-seconds", &seconds, "-bytes", bytes, "-evp", cipher,
            ])?;
            rates(&text).first().copied()
        } else {
            None
        };
        row.openssl_per_second = found.filter(|rate| *rate > 0.0);
        row.ratio = row
            .openssl_per_second
            .map(|rate| row.per_second.median / rate);
    }
    Ok(())
}

/// `record/seal/aes-128-gcm/1024` as cipher and size.
fn cipher(id: &str) -> Option<(&'static str, &str)> {
    let (suite, bytes) = id.strip_prefix("record/seal/")?.split_once('/')?;
    let (_, cipher) = CIPHERS.iter().find(|(name, _)| *name == suite)?;
    Some((cipher, bytes))
}

fn run(arguments: &[&str]) -> Result<String, BenchError> {
    let output = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|source| BenchError::System {
            what: "start openssl".into(),
            source,
            hint: "install it, or leave out --compare openssl".into(),
        })?;
    if !output.status.success() {
        return Err(BenchError::Broken {
            what: format!("openssl {}", arguments.join(" ")),
            reason: format!("it ended with {}", output.status),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The rates in a line of `openssl speed -mr`: `+F2:2:2048:SIGN:VERIFY` for RSA, `+F4` for ECDSA and
/// `+F6` for EdDSA alike, `+F5:2:256:RATE:SECONDS` for ECDH, `+F:25:AES-128-GCM:BYTES` for ciphers.
fn rates(text: &str) -> Vec<f64> {
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let numbers = |from: usize| -> Vec<f64> {
            fields
                .iter()
                .skip(from)
                .filter_map(|field| field.trim().parse().ok())
                .collect()
        };
        match fields.first().copied() {
            Some("+F2" | "+F4") => return numbers(3),
            Some("+F6") => return numbers(4),
            Some("+F5") => return numbers(3).into_iter().take(1).collect(),
            Some("+F") => return numbers(3),
            _ => {}
        }
    }
    Vec::new()
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = text::plain_table();
        let mut header = vec!["one core, per second", "here", "±"];
        if self.openssl.is_some() {
            header.extend(["openssl", "here / openssl"]);
        }
        table.set_header(header.iter().map(text::right));
        let shown = |measured: &Measured, bytes: bool| {
            if bytes {
                format!("{} GB", text::value(&measured.scaled(1e-9), Unit::Ratio))
            } else {
                text::value(measured, Unit::Count)
            }
        };
        for row in &self.rows {
            let mut cells = vec![
                Cell::new(&row.label),
                text::right(shown(&row.per_second, row.bytes)),
                text::right(text::spread(&row.per_second)),
            ];
            if self.openssl.is_some() {
                let rate = row.openssl_per_second.map(Measured::exact);
                cells.push(text::right(rate.map_or_else(
                    || "-".into(),
                    |rate| {
                        if row.bytes {
                            shown(&rate, true)
                        } else {
                            text::value(&Measured::exact(rate.median.round()), Unit::Count)
                        }
                    },
                )));
                cells.push(text::right(
                    row.ratio
                        .map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
                ));
            }
            table.add_row(cells);
        }
        f.write_str(&text::indented(&table))?;
        if let Some(version) = &self.openssl {
            writeln!(f, "\n{version}")?;
        }
        text::notes(f, &self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_of_openssl_speed_is_read() {
        let first = |text: &str| rates(text).first().copied();
        assert_eq!(rates("+F2:2:2048:3583.3:58976.6\n"), [3583.3, 58976.6]);
        assert_eq!(
            rates("+H:1\n+F4:3:256:48075.0:16229.0\n"),
            [48075.0, 16229.0]
        );
        assert_eq!(rates("+F6:0:253:Ed25519:25257.1:9755.5"), [25257.1, 9755.5]);
        assert_eq!(rates("+F5:3:256:20996.4:0.000048"), [20996.4]);
        assert_eq!(
            first("+H:16384\n+F:25:AES-128-GCM:4249600000.00"),
            Some(4249600000.0)
        );
        assert!(rates("nothing").is_empty());
    }

    #[test]
    fn a_record_is_found_by_its_cipher_and_size() {
        assert_eq!(
            cipher("record/seal/aes-128-gcm/64"),
            Some(("aes-128-gcm", "64"))
        );
        assert_eq!(cipher("record/open/aes-128-gcm/64"), None);
    }
}
