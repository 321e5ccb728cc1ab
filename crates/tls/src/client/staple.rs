//! A stapled OCSP response (RFC 6960, section 4.2.1), as far as a person asks about it.
//!
//! The signature is not checked: whoever trusts what is said here has to do so because of the
//! handshake. Reads DER with definite lengths, one level at a time, never recursively.

use tollgate_terms::UnixTime;

/// A response is a few hundred bytes, a few thousand with certificates in it.
const MOST_BYTES: usize = 64 * 1024;

/// What the responder says of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StapleStatus {
    /// It is not revoked.
    Good,
    /// It was revoked then.
    Revoked(UnixTime),
    /// The responder does not know it.
    Unknown,
}

impl StapleStatus {
    /// `good`, `revoked` or `unknown`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Revoked(_) => "revoked",
            Self::Unknown => "unknown",
        }
    }
}

/// What a stapled response says of the first certificate in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staple {
    /// Whether it is revoked.
    pub status: StapleStatus,
    /// Serial number of the certificate, lower-case hexadecimal, as in its description.
    pub serial: String,
    /// When that was known to be so.
    pub this_update: UnixTime,
    /// When something newer will be there; `None` when that is at any time.
    pub next_update: Option<UnixTime>,
}

/// Why a stapled response says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StapleError {
    /// The responder could not answer: its code (RFC 6960, section 4.2.1).
    #[error("the responder gave no answer but the code {0}; the server should not staple that")]
    NoAnswer(u8),
    /// It is no OCSP response, or of a kind that nobody uses.
    #[error("it cannot be read as an OCSP response")]
    Unreadable,
}

impl Staple {
    /// Reads a DER response.
    ///
    /// # Errors
    /// When it cannot be read, or holds no answer.
    pub fn read(der: &[u8]) -> Result<Self, StapleError> {
        if der.len() > MOST_BYTES {
            return Err(StapleError::Unreadable);
        }
        let mut response = Der(Der(der).sequence().ok_or(StapleError::Unreadable)?);
        match response.expect(tag::ENUMERATED) {
            Some([0]) => answer(&mut response).ok_or(StapleError::Unreadable),
            Some([code]) => Err(StapleError::NoAnswer(*code)),
            _ => Err(StapleError::Unreadable),
        }
    }
}

mod tag {
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const OCTETS: u8 = 0x04;
    pub(super) const OID: u8 = 0x06;
    pub(super) const ENUMERATED: u8 = 0x0a;
    pub(super) const TIME: u8 = 0x18;
    pub(super) const SEQUENCE: u8 = 0x30;
    /// Explicit or constructed context tag 0, 1 or 2.
    pub(super) const CONTEXT: [u8; 3] = [0xa0, 0xa1, 0xa2];
    /// Implicit, primitive context tags of `CertStatus`.
    pub(super) const GOOD: u8 = 0x80;
    pub(super) const UNKNOWN: u8 = 0x82;
}

/// 1.3.6.1.5.5.7.48.1.1, id-pkix-ocsp-basic.
const BASIC: [u8; 9] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// What follows the status `successful`.
fn answer(response: &mut Der<'_>) -> Option<Staple> {
    let mut bytes = Der(Der(response.expect(tag::CONTEXT[0])?).sequence()?);
    if bytes.expect(tag::OID)? != BASIC {
        return None;
    }
    let mut basic = Der(Der(bytes.expect(tag::OCTETS)?).sequence()?);
    let mut data = Der(basic.sequence()?);
    data.optional(tag::CONTEXT[0]);
    // The responder by name or by key.
    let (responder, _) = data.element()?;
    if ![tag::CONTEXT[1], tag::CONTEXT[2]].contains(&responder) {
        return None;
    }
    data.expect(tag::TIME)?;
    let mut single = Der(Der(data.sequence()?).sequence()?);
    let mut certificate = Der(single.sequence()?);
    certificate.sequence()?;
    certificate.expect(tag::OCTETS)?;
    certificate.expect(tag::OCTETS)?;
    let serial = certificate.expect(tag::INTEGER)?;
    let status = match single.element()? {
        (tag::GOOD, _) => StapleStatus::Good,
        (tag::UNKNOWN, _) => StapleStatus::Unknown,
        (revoked, info) if revoked == tag::CONTEXT[1] => {
            StapleStatus::Revoked(time(Der(info).expect(tag::TIME)?)?)
        }
        _ => return None,
    };
    let this_update = time(single.expect(tag::TIME)?)?;
    let next_update = match single.optional(tag::CONTEXT[0]) {
        None => None,
        Some(next) => Some(time(Der(next).expect(tag::TIME)?)?),
    };
    Some(Staple {
        status,
        serial: hexadecimal(serial),
        this_update,
        next_update,
    })
}

/// A serial number without the zero that only keeps the integer positive.
fn hexadecimal(serial: &[u8]) -> String {
    let digits = match serial {
        [0, rest @ ..] if !rest.is_empty() => rest,
        _ => serial,
    };
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// DER elements one behind the other.
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The next element: its tag and what is in it.
    fn element(&mut self) -> Option<(u8, &'d [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Up to three bytes of length: 16 MB, more than is ever read.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (inside, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, inside))
    }

    fn expect(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, inside) = self.element()?;
        (found == tag).then_some(inside)
    }

    fn sequence(&mut self) -> Option<&'d [u8]> {
        self.expect(tag::SEQUENCE)
    }

    /// The next element if it has this tag.
    fn optional(&mut self, tag: u8) -> Option<&'d [u8]> {
        match self.0.first() {
            Some(found) if *found == tag => self.expect(tag),
            _ => None,
        }
    }
}

/// `YYYYMMDDHHMMSSZ`, the one form that is allowed (RFC 5280, section 4.1.2.5.2).
fn time(text: &[u8]) -> Option<UnixTime> {
    let digits = text
        .strip_suffix(b"Z")
        .filter(|digits| digits.len() == 14)?;
    let number = |from: usize, to: usize| {
        digits[from..to].iter().try_fold(0_u64, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let exists = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !exists {
        return None;
    }
    // Days since the epoch in the Gregorian calendar, with the year beginning in March.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(UnixTime(((days * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made with `openssl ocsp` from an authority of three certificates; see the file beside them.
    const GOOD: &[u8] = include_bytes!("staples/good.der");
    const REVOKED: &[u8] = include_bytes!("staples/revoked.der");
    const UNKNOWN: &[u8] = include_bytes!("staples/unknown.der");
    const TRY_LATER: &[u8] = include_bytes!("staples/unauthorized.der");

    #[test]
    fn the_three_answers_are_told_apart() {
        let good = Staple::read(GOOD).unwrap();
        assert_eq!(
            (good.status, good.serial.as_str()),
            (StapleStatus::Good, "1001")
        );
        let valid = good.next_update.unwrap().since(good.this_update);
        assert_eq!(valid.as_secs(), 7 * 86_400);
        let revoked = Staple::read(REVOKED).unwrap();
        // 2026-01-02 03:04:05 UTC.
        assert_eq!(
            revoked.status,
            StapleStatus::Revoked(UnixTime(1_767_323_045))
        );
        assert_eq!(revoked.serial, "1002");
        let unknown = Staple::read(UNKNOWN).unwrap();
        assert_eq!(
            (unknown.status, unknown.serial.as_str()),
            (StapleStatus::Unknown, "c0ffee")
        );
        assert_eq!(unknown.next_update, None);
        assert_eq!(Staple::read(TRY_LATER), Err(StapleError::NoAnswer(6)));
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        for cut in 0..GOOD.len() {
            assert_eq!(
                Staple::read(&GOOD[..cut]),
                Err(StapleError::Unreadable),
                "{cut}"
            );
        }
        for position in 0..GOOD.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = GOOD.to_vec();
                damaged[position] ^= flip;
                // Whatever comes of it, it comes.
                let _ = Staple::read(&damaged);
            }
        }
        assert_eq!(
            Staple::read(&vec![0x30; MOST_BYTES + 1]),
            Err(StapleError::Unreadable)
        );
    }

    #[test]
    fn times_are_read_as_the_calendar_has_them() {
        let cases = [
            ("19700101000000Z", Some(0)),
            ("20000229120000Z", Some(951_825_600)),
            ("20261121134520Z", Some(1_795_268_720)),
            ("20261321134520Z", None),
            ("20261121134520", None),
            ("2026112113452xZ", None),
            ("00000101000000Z", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(time(text.as_bytes()), seconds.map(UnixTime), "{text}");
        }
    }
}
