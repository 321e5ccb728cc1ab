//! What a handshake has shown beyond its facts: for those who look at a server closely.

use std::time::Duration;

/// A NewSessionTicket message, as the server sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketSeen {
    /// How long the server will take it. Zero in TLS 1.2 leaves that open (RFC 5077, section 3.3).
    pub lifetime: Duration,
    /// Length of the ticket itself.
    pub bytes: usize,
    /// Early data that it allows; 0 for none, and always in TLS 1.2.
    pub early_data_bytes: u32,
}

/// The number of the `early_data` extension (RFC 8446, section 4.2).
const EARLY_DATA: [u8; 2] = [0, 42];

impl TicketSeen {
    /// Reads a message of RFC 8446, section 4.6.1, without its header.
    pub(crate) fn in_tls13(message: &[u8]) -> Option<Self> {
        let (lifetime, rest) = message.split_first_chunk()?;
        let (_age_add, rest) = rest.split_first_chunk::<4>()?;
        let (&nonce, rest) = rest.split_first()?;
        let (ticket, extensions) = vector(rest.get(usize::from(nonce)..)?)?;
        let (mut extensions, _) = vector(extensions)?;
        let mut early_data_bytes = 0;
        while let Some((kind, rest)) = extensions.split_first_chunk::<2>() {
            let (value, rest) = vector(rest)?;
            if *kind == EARLY_DATA {
                early_data_bytes = u32::from_be_bytes(value.try_into().ok()?);
            }
            extensions = rest;
        }
        Some(Self {
            lifetime: seconds(*lifetime),
            bytes: ticket.len(),
            early_data_bytes,
        })
    }

    /// Reads the beginning of a message of RFC 5077, section 3.3, without its header.
    pub(super) fn in_tls12(message: &[u8]) -> Option<Self> {
        let (lifetime, rest) = message.split_first_chunk()?;
        let bytes = rest.first_chunk().map(|length| u16::from_be_bytes(*length));
        Some(Self {
            lifetime: seconds(*lifetime),
            bytes: usize::from(bytes?),
            early_data_bytes: 0,
        })
    }
}

fn seconds(bytes: [u8; 4]) -> Duration {
    Duration::from_secs(u32::from_be_bytes(bytes).into())
}

/// A vector with two bytes of length, and what follows it.
pub(super) fn vector(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// What a complete handshake has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeDetails {
    /// DER certificates as the server sent them, its own first. In a resumed handshake nothing is sent,
    /// and these are those of the session.
    pub chain: Vec<Vec<u8>>,
    /// The stapled OCSP response, DER. Nothing in a resumed handshake.
    pub staple: Option<Vec<u8>>,
    /// Whether the server asked for another key share first (HelloRetryRequest).
    pub retried: bool,
    /// The ticket that came inside of a TLS 1.2 handshake.
    pub tls12_ticket: Option<TicketSeen>,
    /// Bytes of the longest flight of the server, records and all: the one with its certificates when
    /// the handshake was full.
    pub longest_flight_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_of_either_version_is_read() {
        let tls13 = [
            &[0, 0, 0x1c, 0x20][..],
            &[1, 2, 3, 4],
            &[2, 9, 9],
            &[0, 3, 7, 7, 7],
            &[0, 13, 0xaa, 0xaa, 0, 1, 0, 0, 42, 0, 4, 0, 0, 0x40, 0],
        ]
        .concat();
        let ticket = TicketSeen {
            lifetime: Duration::from_secs(7200),
            bytes: 3,
            early_data_bytes: 16384,
        };
        assert_eq!(TicketSeen::in_tls13(&tls13), Some(ticket));
        for cut in 0..tls13.len() {
            assert_eq!(TicketSeen::in_tls13(&tls13[..cut]), None, "{cut}");
        }
        let tls12 = TicketSeen::in_tls12(&[0, 0, 1, 44, 0, 192]).unwrap();
        assert_eq!(tls12.lifetime, Duration::from_secs(300));
        assert_eq!((tls12.bytes, tls12.early_data_bytes), (192, 0));
        assert_eq!(TicketSeen::in_tls12(&[0, 0, 1, 44, 0]), None);
    }
}
