//! The JA4 fingerprint of a ClientHello: what a server's log may know a client by.
//!
//! Source: FoxIO's technical details of JA4, for TLS over TCP.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

use super::details::vector;

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// The fingerprint of the ClientHello in the record at the front of `flight`; `None` when there is none.
pub fn ja4(flight: &[u8]) -> Option<String> {
    // Record header, message header, version, random.
    let body = flight.get(5 + 4 + 2 + 32..)?;
    if flight.first() != Some(&22) || flight.get(5) != Some(&1) {
        return None;
    }
    let (&session, rest) = body.split_first()?;
    let (suites, rest) = vector(rest.get(usize::from(session)..)?)?;
    let (&compressions, rest) = rest.split_first()?;
    let (mut extensions, _) = vector(rest.get(usize::from(compressions)..)?)?;
    let mut seen = Seen {
        suites: numbers(suites),
        ..Seen::default()
    };
    while let Some((kind, rest)) = extensions.split_first_chunk() {
        let (value, rest) = vector(rest)?;
        seen.extension(u16::from_be_bytes(*kind), value);
        extensions = rest;
    }
    Some(seen.fingerprint())
}

/// What the fingerprint is made of.
#[derive(Default)]
struct Seen {
    suites: Vec<u16>,
    extensions: Vec<u16>,
    schemes: Vec<u16>,
    version: u16,
    alpn: Option<[u8; 2]>,
}

impl Seen {
    fn extension(&mut self, kind: u16, value: &[u8]) {
        if is_grease(kind) {
            return;
        }
        self.extensions.push(kind);
        match kind {
            SIGNATURE_ALGORITHMS => {
                self.schemes = vector(value).map_or(Vec::new(), |(list, _)| numbers(list));
            }
            SUPPORTED_VERSIONS => {
                let versions = numbers(value.get(1..).unwrap_or_default());
                self.version = versions.into_iter().max().unwrap_or(0);
            }
            // A list of names with a byte of length each; the first counts.
            ALPN => {
                self.alpn = vector(value).and_then(|(list, _)| {
                    let (&length, rest) = list.split_first()?;
                    let name = rest.get(..usize::from(length))?;
                    Some([*name.first()?, *name.last()?])
                });
            }
            _ => {}
        }
    }

    fn fingerprint(mut self) -> String {
        let version = match self.version {
            0x0304 => "13",
            // A hello without the extension is one of TLS 1.2.
            _ => "12",
        };
        let name = match self.extensions.contains(&SERVER_NAME) {
            true => 'd',
            false => 'i',
        };
        let alpn = match self.alpn {
            Some(ends) if ends.iter().all(u8::is_ascii_alphanumeric) => ends.map(char::from),
            _ => ['0'; 2],
        };
        let counts = [self.suites.len().min(99), self.extensions.len().min(99)];
        self.suites.sort_unstable();
        self.extensions.sort_unstable();
        self.extensions
            .retain(|kind| ![SERVER_NAME, ALPN].contains(kind));
        let mut extensions = list(&self.extensions);
        if !self.schemes.is_empty() {
            extensions = format!("{extensions}_{}", list(&self.schemes));
        }
        format!(
            "t{version}{name}{:02}{:02}{}{}_{}_{}",
            counts[0],
            counts[1],
            alpn[0],
            alpn[1],
            hash(&list(&self.suites)),
            hash(&extensions)
        )
    }
}

fn numbers(bytes: &[u8]) -> Vec<u16> {
    let pairs = bytes.as_chunks().0.iter();
    let numbers = pairs.map(|pair| u16::from_be_bytes(*pair));
    numbers.filter(|number| !is_grease(*number)).collect()
}

/// RFC 8701: 0x0a0a, 0x1a1a and so on.
fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

fn list(numbers: &[u16]) -> String {
    let numbers: Vec<String> = numbers
        .iter()
        .map(|number| format!("{number:04x}"))
        .collect();
    numbers.join(",")
}

/// The first twelve digits of the SHA-256.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return "000000000000".into();
    }
    let mut digits = String::new();
    for byte in &digest(&SHA256, text.as_bytes()).as_ref()[..6] {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the technical details, with its lists turned round and GREASE put in.
    #[test]
    fn the_published_example_has_its_fingerprint() {
        let mut suites = vec![
            0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
            0x009c, 0x009d, 0x002f, 0x0035,
        ];
        suites.reverse();
        let mut seen = Seen {
            suites: numbers(&[0x0a, 0x0a]),
            ..Seen::default()
        };
        seen.suites.extend(suites);
        let empty = [
            0x001b, 0x0033, 0x4469, 0x0017, 0x002d, 0x0005, 0x0023, 0x0012, 0xff01, 0x000b, 0x000a,
            0x0015, 0x0000, 0x1a1a,
        ];
        for kind in empty {
            seen.extension(kind, &[]);
        }
        seen.extension(ALPN, b"\0\x0c\x02h2\x08http/1.1");
        seen.extension(SUPPORTED_VERSIONS, &[4, 3, 4, 3, 3]);
        let schemes = [0, 16, 4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6, 6, 1];
        seen.extension(SIGNATURE_ALGORITHMS, &schemes);
        assert_eq!(seen.fingerprint(), "t13d1516h2_8daaf6152771_e5627efa2ab1");
    }

    #[test]
    fn what_is_no_hello_has_no_fingerprint() {
        assert_eq!(ja4(&[]), None);
        assert_eq!(ja4(&[22; 100]), None);
        assert_eq!(
            ja4(b"GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: x\r\n\r\n"),
            None
        );
    }
}
