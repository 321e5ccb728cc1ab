//! What a handshake costs where none of its kind was measured just now.

use crate::Sheet;
use crate::price::{LiveMix, MixEntry};

/// A cost, and where it is from.
pub struct Known {
    /// CPU microseconds of phases 1 and 2.
    pub micros: f64,
    /// Where it is from when it was not measured for this version and kind here and now.
    pub origin: Option<String>,
}

/// A full handshake of this version and certificate: measured; else measured with the same certificate under the
/// other version; else from the sheet.
pub fn full(entry: &MixEntry, mix: &LiveMix, sheet: Option<&Sheet>) -> Option<Known> {
    let of = |one: &MixEntry| one.micros_per_full;
    let same =
        |one: &MixEntry| one.version == entry.version && one.certificate == entry.certificate;
    let kind = |one: &MixEntry| one.certificate == entry.certificate;
    measured(entry.micros_per_full, None)
        .or_else(|| other(mix, same, of, |one| one.full_per_second, entry))
        .or_else(|| other(mix, kind, of, |one| one.full_per_second, entry))
        .or_else(|| from_sheet(entry, "full", sheet))
}

/// A resumed handshake of this version: the certificate does not matter to it.
pub fn resumed(entry: &MixEntry, mix: &LiveMix, sheet: Option<&Sheet>) -> Option<Known> {
    let of = |one: &MixEntry| one.micros_per_resumed;
    let same = |one: &MixEntry| one.version == entry.version;
    measured(entry.micros_per_resumed, None)
        .or_else(|| other(mix, same, of, |one| one.resumed_per_second, entry))
        .or_else(|| from_sheet(entry, "resumed", sheet))
}

fn measured(micros: Option<f64>, origin: Option<String>) -> Option<Known> {
    let micros = micros.filter(|micros| micros.is_finite() && *micros > 0.0)?;
    Some(Known { micros, origin })
}

/// The most frequent other entry that `fits` and that has a figure.
fn other(
    mix: &LiveMix,
    fits: impl Fn(&MixEntry) -> bool,
    figure: fn(&MixEntry) -> Option<f64>,
    rate: fn(&MixEntry) -> f64,
    entry: &MixEntry,
) -> Option<Known> {
    let best = mix
        .groups
        .iter()
        .filter(|one| fits(one) && measured(figure(one), None).is_some())
        .max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
    let same = best.version == entry.version && best.certificate == entry.certificate;
    let origin = format!("what one of {} {} took", best.version, best.certificate);
    measured(figure(best), (!same).then_some(origin))
}

/// The sheet's figure for this version and certificate, with the usual group and suite.
fn from_sheet(entry: &MixEntry, kind: &str, sheet: Option<&Sheet>) -> Option<Known> {
    let sheet = sheet?;
    let version = match entry.version.as_str() {
        "TLSv1.2" => "tls12",
        _ => "tls13",
    };
    let certificate = match entry.certificate.as_str() {
        "none" | "other" | "" => "ecdsa-p256",
        known => known,
    };
    let id = |certificate: &str| {
        format!("handshake/{version}/{certificate}/x25519/aes-128-gcm/{kind}/server")
    };
    let usual = (kind == "resumed").then(|| id("ecdsa-p256"));
    let figure = sheet
        .figure(&id(certificate))
        .or_else(|| sheet.figure(&usual?))?;
    let day = sheet.made.get(..10).unwrap_or(&sheet.made);
    measured(
        Some(figure.measured.median / 1_000.0),
        Some(format!("{} in the sheet of {day}", figure.id)),
    )
}
