//! Words on the command line that stand for values.

use std::net::IpAddr;
use std::time::Duration;

use tollgate_terms::{CipherSuite, NamedGroup, SignatureScheme};

/// `5s`, `500ms`, `2m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1_u64), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let (number, millis) = units
        .iter()
        .find_map(|(unit, millis)| Some((text.strip_suffix(unit)?, *millis)))
        .ok_or_else(|| format!("{text:?} has no unit; write 5s, 500ms, 2m or 1h"))?;
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a number; write 5s, 500ms, 2m or 1h"))?;
    Duration::try_from_secs_f64(number * millis as f64 / 1e3).map_err(|error| error.to_string())
}

pub(super) fn suite(text: &str) -> Result<CipherSuite, String> {
    CipherSuite::from_name(text).ok_or_else(|| {
        format!("{text:?} is not a suite that exists here; an example is TLS_AES_128_GCM_SHA256")
    })
}

pub(super) fn group(text: &str) -> Result<NamedGroup, String> {
    NamedGroup::from_name(text)
        .ok_or_else(|| format!("{text:?} is not a group that exists here; there are x25519, secp256r1, secp384r1 and X25519MLKEM768"))
}

/// Name of a signature scheme, as RFC 8446 spells it.
pub(super) fn scheme(text: &str) -> Result<SignatureScheme, String> {
    SignatureScheme::from_name(text).ok_or_else(|| {
        format!("{text:?} is not a signature scheme that exists here; examples are ecdsa_secp256r1_sha256 and rsa_pss_rsae_sha256")
    })
}

/// `1000`, `64k`, `10M`, `1G`; a k is 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write 1000, 64k, 10M or 1G");
    let (digits, shift) = match text.char_indices().next_back() {
        Some((end, 'k' | 'K')) => (&text[..end], 10),
        Some((end, 'm' | 'M')) => (&text[..end], 20),
        Some((end, 'g' | 'G')) => (&text[..end], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text:?} is more than can be counted"))
}

/// `Name: value`.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("{text:?} is not a field; write 'Name: value'")),
    }
}

/// A share, 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!(
            "{text:?} is not a share; give a number from 0 to 1, such as 0.9"
        )),
    }
}

/// Addresses that connections come from. A type of its own, because one word stands for many.
#[derive(Clone, Debug)]
pub(super) struct Sources(pub(super) Vec<IpAddr>);

/// `127.0.0.2-127.0.0.9,127.0.1.0/24`.
pub(super) fn sources(text: &str) -> Result<Sources, String> {
    tollgate_lab::read_sources(text).map(Sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("1k"), Ok(1024));
        assert_eq!(size("10M"), Ok(10 << 20));
        assert!(size("").is_err() && size("k").is_err() && size("1.5k").is_err());
        assert!(size("99999999999999999G").is_err());
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert!(duration("5").is_err() && duration("-1s").is_err());
    }

    #[test]
    fn a_field_has_a_name_and_a_value() {
        assert_eq!(header("A: b:c"), Ok(("A".into(), "b:c".into())));
        assert!(header("A").is_err() && header(": b").is_err());
    }
}
