//! Unit costs: what is given goes first, then what a sheet has.

use super::{Known, KnownBytes, Origin, Workload};
use crate::Sheet;
use crate::price::round;

/// Lengths of records that a sheet has figures for, longest first.
const RECORD_BYTES: [u32; 3] = [16_384, 1_024, 64];

/// Which of the sheet's figures count, in the words of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// `tls13` or `tls12`.
    pub version: String,
    /// Such as `ecdsa-p256`.
    pub certificate: String,
    /// Such as `x25519`.
    pub group: String,
    /// Such as `aes-128-gcm`.
    pub suite: String,
    /// `http` or `tcp`: what holds the connections.
    pub mode: String,
}

impl Choice {
    /// Id of a handshake's cost at the server; `kind` is `full` or `resumed`.
    pub fn handshake(&self, kind: &str) -> String {
        let Self {
            version,
            certificate,
            group,
            suite,
            ..
        } = self;
        format!("handshake/{version}/{certificate}/{group}/{suite}/{kind}/server")
    }

    /// Id of the cost of a byte sealed in records of this length.
    pub fn record(&self, bytes: u32) -> String {
        format!("record/seal/{}/{bytes}", self.suite)
    }

    /// Ids of what a handshake in flight holds, best first: a hybrid group holds more than others, so that a sheet
    /// may have a figure of its own for this one.
    pub fn handshake_memory(&self) -> [String; 2] {
        let Self { version, group, .. } = self;
        [
            format!("handshake-memory/{version}-{group}/held"),
            format!("handshake-memory/{version}/held"),
        ]
    }

    /// Id of what a connection holds; `end` is `user` or `kernel`.
    pub fn connection_memory(&self, end: &str) -> String {
        format!("connection-memory/{}/{end}", self.mode)
    }
}

impl Default for Choice {
    /// TLS 1.3, ECDSA with P-256, X25519, AES-128-GCM, HTTP.
    fn default() -> Self {
        Self {
            version: "tls13".into(),
            certificate: "ecdsa-p256".into(),
            group: "x25519".into(),
            suite: "aes-128-gcm".into(),
            mode: "http".into(),
        }
    }
}

/// What one of each costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitCosts {
    /// What a sheet is asked for where nothing is given.
    pub choice: Choice,
    /// CPU microseconds of a full handshake.
    pub full_micros: Option<Known>,
    /// CPU microseconds of a resumed handshake.
    pub resumed_micros: Option<Known>,
    /// Of those of a full handshake, what key exchange and signature take; `None` when it was not taken apart.
    pub full_asymmetric_micros: Option<f64>,
    /// Of those of a resumed handshake, what the key exchange takes.
    pub resumed_asymmetric_micros: Option<f64>,
    /// CPU nanoseconds per byte sent in long records.
    pub nanos_per_byte: Option<Known>,
    /// CPU nanoseconds per byte of a request's answer.
    pub request_nanos_per_byte: Option<Known>,
    /// Memory of a handshake in flight.
    pub handshake_bytes: Option<KnownBytes>,
    /// Memory of an open connection, by where it is; empty when it is not known.
    pub connection_bytes: Vec<KnownBytes>,
}

impl UnitCosts {
    /// The same, with what is missing taken from `sheet`, whose file is called `file`.
    pub fn or_from(mut self, sheet: &Sheet, file: &str, workload: &Workload) -> Self {
        let from = Reader { sheet, file };
        let choice = &self.choice.clone();
        self.take_handshakes(&from, choice);
        let record = |bytes: u32| from.known(&choice.record(bytes), 1.0, 6);
        self.nanos_per_byte = self.nanos_per_byte.or_else(|| record(RECORD_BYTES[0]));
        let bytes = workload.bytes_per_request.unwrap_or(0.0);
        self.request_nanos_per_byte = self.request_nanos_per_byte.or_else(|| {
            RECORD_BYTES
                .into_iter()
                .filter(|length| f64::from(*length) <= bytes)
                .find_map(record)
                .or_else(|| RECORD_BYTES.into_iter().rev().find_map(record))
        });
        self.handshake_bytes = self.handshake_bytes.or_else(|| {
            let ids = choice.handshake_memory();
            ids.iter()
                .find_map(|id| from.bytes(id, "heap held between two steps"))
        });
        if self.connection_bytes.is_empty() {
            self.connection_bytes = ["user", "kernel"]
                .into_iter()
                .filter_map(|end| {
                    from.bytes(&choice.connection_memory(end), &format!("{end} memory"))
                })
                .collect();
        }
        self
    }

    /// A part is taken only together with its whole: a whole that is given has no known parts.
    fn take_handshakes(&mut self, from: &Reader<'_>, choice: &Choice) {
        let part = |id: &str, name: &str| from.micros(&format!("{id}/{name}"));
        if self.full_micros.is_none() {
            let id = choice.handshake("full");
            self.full_micros = from.micros(&id);
            self.full_asymmetric_micros = part(&id, "key-exchange")
                .zip(part(&id, "signature"))
                .map(|(exchange, signature)| round(exchange.value + signature.value, 3));
        }
        if self.resumed_micros.is_none() {
            // The certificate does not matter to a resumed handshake: RFC 8446, section 2.2.
            let usual = Choice {
                certificate: "ecdsa-p256".into(),
                ..choice.clone()
            };
            let ids = [choice.handshake("resumed"), usual.handshake("resumed")];
            let found = ids.iter().find_map(|id| Some((id, from.micros(id)?)));
            if let Some((id, whole)) = found {
                self.resumed_asymmetric_micros = part(id, "key-exchange").map(|part| part.value);
                self.resumed_micros = Some(whole);
            }
        }
    }
}

/// A sheet and the name of its file.
struct Reader<'a> {
    sheet: &'a Sheet,
    file: &'a str,
}

impl Reader<'_> {
    fn known(&self, id: &str, per: f64, digits: i32) -> Option<Known> {
        let value = self.sheet.figure(id)?.measured.median / per;
        (value.is_finite() && value > 0.0).then(|| Known {
            value: round(value, digits),
            origin: self.origin(id),
        })
    }

    fn micros(&self, id: &str) -> Option<Known> {
        self.known(id, 1_000.0, 3)
    }

    fn bytes(&self, id: &str, what: &str) -> Option<KnownBytes> {
        let Known { value, origin } = self.known(id, 1.0, 1)?;
        Some(KnownBytes {
            what: what.into(),
            low: value,
            high: value,
            origin,
        })
    }

    fn origin(&self, id: &str) -> Origin {
        let made = &self.sheet.made;
        Origin::Sheet {
            file: self.file.into(),
            day: made.get(..10).unwrap_or(made).into(),
            figure: id.into(),
        }
    }
}
