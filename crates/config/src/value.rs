//! Single values as they are written: durations, sizes, counts, shares, networks, file modes.
//!
//! Each reader is pure and answers with the value or with a [`Complaint`].

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// Why a text is not the value that it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Ends a sentence that starts with the field and the value: "has no unit".
    pub what: String,
    /// What is allowed.
    pub allowed: String,
    /// What to write.
    pub help: Option<String>,
}

/// A complaint without help.
pub fn complain(what: impl Into<String>, allowed: impl Into<String>) -> Complaint {
    Complaint {
        what: what.into(),
        allowed: allowed.into(),
        help: None,
    }
}

impl Complaint {
    /// The same with a way out.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// `"10s"`, `"500ms"`, `"1h30m"`, `"0.5s"`.
pub fn duration(text: &str) -> Result<Duration, Complaint> {
    const ALLOWED: &str = "a number with a unit: ms, s, m, h or d";
    let example = || complain("is not a duration", ALLOWED).help("write 500ms, 10s, 5m, 24h or 1d");
    let compact: String = text.chars().filter(|c| *c != ' ').collect();
    if compact.starts_with('-') {
        return Err(complain("is negative", ALLOWED).help("write a duration above zero"));
    }
    if compact.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(complain("has no unit", ALLOWED).help(format!(
            "write {compact}s for seconds, or {compact}ms for milliseconds"
        )));
    }
    let mut rest = compact.as_str();
    let mut seconds = 0.0_f64;
    if rest.is_empty() {
        return Err(example());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(example)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        seconds += number.parse::<f64>().map_err(|_| example())?
            * unit_seconds(unit).ok_or_else(example)?;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| example())
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" | "msec" => 1e-3,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

/// The shortest way to write a duration of whole milliseconds: `"24h"`, `"1500ms"`.
pub fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, length) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ] {
        if millis >= length && millis.is_multiple_of(length) && !(unit == "d" && millis == length) {
            return format!("{}{unit}", millis / length);
        }
    }
    format!("{millis}ms")
}

/// `"65536"`, `"64k"`, `"1 MiB"`; a unit counts in steps of 1024.
pub fn size(text: &str) -> Result<u64, Complaint> {
    let wrong = || {
        complain("is not a size", "bytes, or a number with k, m or g")
            .help("write 32768, 32k or 1m")
    };
    let compact: String = text
        .chars()
        .filter(|c| *c != ' ' && *c != '_')
        .collect::<String>()
        .to_ascii_lowercase();
    let digits = compact
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(compact.len());
    let (number, unit) = compact.split_at(digits);
    let factor: u64 = match unit {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(wrong)
}

/// The shortest way to write a size: `"32k"`, `"1m"`, `"240"`.
pub fn size_text(bytes: u64) -> String {
    for (unit, length) in [("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)] {
        if bytes >= length && bytes.is_multiple_of(length) {
            return format!("{}{unit}", bytes / length);
        }
    }
    bytes.to_string()
}

/// A whole number; `_` may group digits.
pub fn count(text: &str) -> Result<u64, Complaint> {
    let compact: String = text.chars().filter(|c| *c != '_').collect();
    compact.parse().map_err(|_| {
        let allowed = "a whole number";
        match compact.parse::<f64>() {
            Ok(number) if number < 0.0 => complain("is negative", allowed),
            Ok(_) => complain("is not a whole number", allowed),
            Err(_) => complain("is not a number", allowed),
        }
    })
}

/// A share from 0 to 1; `"10%"` is 0.1.
pub fn share(text: &str) -> Result<f64, Complaint> {
    let allowed = "a share from 0 to 1, such as 0.1, or 10%";
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let share = number
        .parse::<f64>()
        .map_err(|_| complain("is not a share", allowed))?
        / whole;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    let complaint = complain("is not between 0 and 1", allowed);
    if share > 1.0 && share <= 100.0 {
        return Err(complaint.help(format!("write {number}% for {number} of 100")));
    }
    Err(complaint)
}

/// A number, whole or not; `_` may group digits.
pub fn number(text: &str) -> Result<f64, Complaint> {
    let compact: String = text.chars().filter(|c| *c != '_').collect();
    compact
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
        .ok_or_else(|| complain("is not a number", "a number"))
}

/// Permission bits in octal: `"0660"`, `"660"`, `"0o660"`.
pub fn octal(text: &str) -> Result<u32, Complaint> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && digits.len() >= 3)
        .ok_or_else(|| {
            complain(
                "is not a file mode",
                "three octal digits: owner, group, others",
            )
            .help("write \"0660\" so that owner and group may connect, or \"0666\" for everybody")
        })
}

/// `"10.0.0.0/8"`, or one address.
pub fn network(text: &str) -> Result<IpNet, Complaint> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    if let Ok(network) = text.parse::<IpNet>() {
        if network.addr() == network.network() {
            return Ok(network);
        }
        return Err(complain(
            "has bits set beyond its prefix",
            "the first address of the network",
        )
        .help(format!(
            "write {}, or {} for the one address",
            network.trunc(),
            network.addr()
        )));
    }
    let complaint = complain(
        "is not a network",
        "an address with a prefix length, or one address",
    );
    Err(match text.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => complaint.help(format!(
            "the prefix length ends at {}",
            if address.contains(':') { 128 } else { 32 }
        )),
        _ => complaint.help("write \"10.0.0.0/8\", \"192.0.2.7\" or \"2001:db8::/32\""),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("0.5s", 500),
            ("10 s", 10_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_told_how_to_get_one() {
        let complaint = duration("10").unwrap_err();
        assert_eq!(complaint.what, "has no unit");
        assert!(complaint.help.unwrap().contains("10s"));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "s",
            "10x",
            "1e400s",
            "..s",
            "-5s",
            "9999999999999999999999d",
            "inf",
            "nan",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_a_person_would() {
        for (seconds, text) in [(86_400, "24h"), (604_800, "7d"), (90, "90s"), (3_600, "1h")] {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
        assert_eq!(duration_text(Duration::from_millis(1_500)), "1500ms");
    }

    #[test]
    fn sizes_count_in_steps_of_1024() {
        assert_eq!(size("16k"), Ok(16_384));
        assert_eq!(size("1 MiB"), Ok(1_048_576));
        assert_eq!(size("32_768"), Ok(32_768));
        assert!(size("99999999999999999999g").is_err());
        assert!(size("k").is_err());
    }

    #[test]
    fn shares_may_be_percentages() {
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("1"), Ok(1.0));
        assert!(share("10").is_err());
        assert!(share("NaN").is_err());
    }

    #[test]
    fn file_modes_are_octal() {
        assert_eq!(octal("0660"), Ok(0o660));
        assert_eq!(octal("0o600"), Ok(0o600));
        for text in ["rw-rw----", "0888", "7777", "6"] {
            assert!(octal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_names_its_first_address() {
        assert!(network("10.0.0.0/8").is_ok());
        assert!(network("192.0.2.7").is_ok());
        assert!(
            network("10.0.0.1/8")
                .unwrap_err()
                .help
                .unwrap()
                .contains("10.0.0.0/8")
        );
        assert!(network("10.0.0.0/33").is_err());
        assert!(network("office").is_err());
    }
}
