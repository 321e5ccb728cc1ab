//! Headers for backends.

use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::checksum::crc32c;
use crate::kinds::{
    CLIENT_CERTIFICATE_IN_SESSION, CLIENT_CERTIFICATE_SENT, CLIENT_TLS, TLV_ALPN, TLV_AUTHORITY,
    TLV_CRC32C, TLV_TLS, TLV_TLS_COMMON_NAME, TLV_TLS_KEY, TLV_TLS_SIGNATURE, TLV_TLS_SUITE,
    TLV_TLS_VERSION, TLV_UNIQUE_ID,
};
use crate::v2::{FIXED_BYTES, SIGNATURE};

/// Longest text that becomes a TLV; a longer one is left out, for half a name is a wrong name.
const MAX_TEXT: usize = 1024;

/// What a version 2 header tells a backend.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The client.
    pub source: SocketAddr,
    /// Our address that it connected to.
    pub destination: SocketAddr,
    /// Application protocol agreed by ALPN, such as `h2`.
    pub alpn: Option<&'a str>,
    /// `server_name` of the client.
    pub authority: Option<&'a str>,
    /// At most 128 bytes; a longer one is left out.
    pub unique_id: Option<&'a [u8]>,
    /// TLS towards the client; `None` when we did not terminate it.
    pub tls: Option<OutgoingTls<'a>>,
    /// Whether to add a CRC-32C.
    pub checksum: bool,
}

impl Outgoing<'_> {
    /// A header with these addresses and no TLV.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            source,
            destination,
            alpn: None,
            authority: None,
            unique_id: None,
            tls: None,
            checksum: false,
        }
    }
}

/// TLS towards the client, for the TLV 0x20.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutgoingTls<'a> {
    /// Such as `TLSv1.3`.
    pub version: &'a str,
    /// Cipher suite in its IANA spelling; left out when empty.
    pub suite: &'a str,
    /// Common name of the verified client certificate.
    pub client_common_name: Option<&'a str>,
    /// Whether the client has sent a certificate that was verified, now or in the handshake that this
    /// one resumes.
    pub client_certificate_verified: bool,
    /// Whether the handshake was resumed: a certificate then belongs to the session only.
    pub resumed: bool,
    /// Signature algorithm of our certificate, such as `SHA256`.
    pub signature: Option<&'a str>,
    /// Key of our certificate, such as `RSA2048` or `EC256`.
    pub key: Option<&'a str>,
}

/// Appends a version 1 line, at most 107 bytes.
pub fn write_v1(source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    let (source, destination) = same_family(source, destination);
    let protocol = match source.is_ipv4() {
        true => "TCP4",
        false => "TCP6",
    };
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "PROXY {protocol} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    );
}

/// Appends the version 1 line for a connection without addresses, such as our own health check.
pub fn write_unknown_v1(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PROXY UNKNOWN\r\n");
}

/// Appends the version 2 header for a connection of our own, such as a health check.
pub fn write_local_v2(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0x20, 0, 0, 0]);
}

/// Appends a version 2 header.
pub fn write_v2(outgoing: &Outgoing<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let (source, destination) = same_family(outgoing.source, outgoing.destination);
    out.extend_from_slice(SIGNATURE);
    let family = match source.is_ipv4() {
        true => 0x11,
        false => 0x21,
    };
    out.extend_from_slice(&[0x21, family, 0, 0]);
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    push_text(out, TLV_ALPN, outgoing.alpn);
    push_text(out, TLV_AUTHORITY, outgoing.authority);
    if let Some(id) = outgoing.unique_id.filter(|id| id.len() <= 128) {
        push(out, TLV_UNIQUE_ID, id);
    }
    if let Some(tls) = &outgoing.tls {
        push_tls(out, tls);
    }
    let checksum_at = outgoing.checksum.then(|| {
        push(out, TLV_CRC32C, &[0; 4]);
        out.len() - 4
    });
    let length = (out.len() - start - FIXED_BYTES) as u16;
    out[start + 14..start + FIXED_BYTES].copy_from_slice(&length.to_be_bytes());
    if let Some(at) = checksum_at {
        let checksum = crc32c(&[&out[start..]]);
        out[at..].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// IPv4 in IPv6 becomes IPv4; when only one of the two is IPv4, both become IPv6.
fn same_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
    let (from, to) = match from.is_ipv4() == to.is_ipv4() {
        true => (from, to),
        false => (IpAddr::V6(mapped(from)), IpAddr::V6(mapped(to))),
    };
    (
        SocketAddr::new(from, source.port()),
        SocketAddr::new(to, destination.port()),
    )
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn push_tls(out: &mut Vec<u8>, tls: &OutgoingTls<'_>) {
    let mut client = CLIENT_TLS;
    if tls.client_certificate_verified {
        client |= CLIENT_CERTIFICATE_IN_SESSION;
        if !tls.resumed {
            client |= CLIENT_CERTIFICATE_SENT;
        }
    }
    let start = out.len();
    out.extend_from_slice(&[TLV_TLS, 0, 0, client]);
    // Zero only for a certificate that was sent and verified.
    let verify = u32::from(!tls.client_certificate_verified);
    out.extend_from_slice(&verify.to_be_bytes());
    push_text(out, TLV_TLS_VERSION, Some(tls.version));
    let common_name = tls
        .client_common_name
        .filter(|_| tls.client_certificate_verified);
    push_text(out, TLV_TLS_COMMON_NAME, common_name);
    push_text(out, TLV_TLS_SUITE, Some(tls.suite));
    push_text(out, TLV_TLS_SIGNATURE, tls.signature);
    push_text(out, TLV_TLS_KEY, tls.key);
    // Five texts of MAX_TEXT at most: far below 65,535.
    let length = (out.len() - start - 3) as u16;
    out[start + 1..start + 3].copy_from_slice(&length.to_be_bytes());
}

fn push_text(out: &mut Vec<u8>, kind: u8, text: Option<&str>) {
    if let Some(text) = text.filter(|text| (1..=MAX_TEXT).contains(&text.len())) {
        push(out, kind, text.as_bytes());
    }
}

fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = (value.len() as u16).to_be_bytes();
    out.extend_from_slice(&[kind, length[0], length[1]]);
    out.extend_from_slice(value);
}
