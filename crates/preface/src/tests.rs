#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn complete(bytes: &[u8]) -> (Header, usize) {
    match read(bytes) {
        Reading::Complete { header, length } => (header, length),
        other => panic!("expected a whole header, got {other:?}"),
    }
}

fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend_from_slice(&[command, family]);
    bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn version_1_lines_of_the_specification_are_read() {
    let line = b"PROXY TCP4 255.255.255.255 192.0.2.7 65535 443\r\nhello";
    let (header, length) = complete(line);
    assert_eq!(
        header.source,
        Some("255.255.255.255:65535".parse().unwrap())
    );
    assert_eq!(header.destination, Some("192.0.2.7:443".parse().unwrap()));
    assert_eq!(&line[length..], b"hello");
    let longest = format!(
        "PROXY UNKNOWN {0} {0} 65535 65535\r\n",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    );
    assert_eq!(longest.len(), MAX_V1_BYTES);
    let (header, length) = complete(longest.as_bytes());
    assert_eq!((header.source, length), (None, MAX_V1_BYTES));
    let (header, _) = complete(b"PROXY TCP6 ::1 2001:db8::2 0 1\r\n");
    assert_eq!(header.source, Some("[::1]:0".parse().unwrap()));
    assert_eq!(complete(b"PROXY UNKNOWN\r\n").0, Header::default());
}

#[test]
fn version_1_lines_that_bend_a_rule_are_refused() {
    for (line, error) in [
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 02\r\n", PrefaceError::Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n", PrefaceError::Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", PrefaceError::Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n", PrefaceError::Port),
        ("PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n", PrefaceError::Fields),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", PrefaceError::Fields),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", PrefaceError::Fields),
        ("PROXY TCP4\r\n", PrefaceError::Fields),
        ("PROXY TCP4 1.2.3.04 5.6.7.8 1 2\r\n", PrefaceError::Address),
        ("PROXY TCP4 ::1 ::1 1 2\r\n", PrefaceError::Address),
        ("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", PrefaceError::Address),
        ("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", PrefaceError::Address),
        ("PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", PrefaceError::Protocol),
        ("PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n", PrefaceError::Protocol),
        (
            "PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
            PrefaceError::Protocol,
        ),
        ("PROXY \r\n", PrefaceError::Protocol),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", PrefaceError::LineEnd),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rx", PrefaceError::LineEnd),
    ] {
        assert_eq!(read(line.as_bytes()), Reading::Malformed(error), "{line:?}");
    }
    let endless = "PROXY UNKNOWN ".to_owned() + &"x".repeat(200);
    assert_eq!(
        read(endless.as_bytes()),
        Reading::Malformed(PrefaceError::LineTooLong)
    );
    let late = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_V1_BYTES - 15));
    assert_eq!(late.len(), MAX_V1_BYTES + 1);
    assert_eq!(
        read(late.as_bytes()),
        Reading::Malformed(PrefaceError::LineTooLong)
    );
}

#[test]
fn what_is_no_header_is_absent_at_its_first_different_byte() {
    for bytes in [
        &b"\x16\x03"[..],
        b"GET / HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"\r\n\r\nx",
    ] {
        assert_eq!(read(bytes), Reading::Absent);
    }
    for bytes in [
        &b""[..],
        b"P",
        b"PR",
        b"PROXY ",
        b"\r",
        b"\r\n\r\n\0\r\nQUIT",
    ] {
        assert_eq!(read(bytes), Reading::Incomplete, "{bytes:?}");
    }
}

#[test]
fn a_version_2_header_written_by_hand_is_read() {
    let mut payload = vec![192, 0, 2, 1, 198, 51, 100, 2, 0x30, 0x39, 1, 0xbb];
    payload.extend_from_slice(&[TLV_ALPN, 0, 2, b'h', b'2', TLV_NOOP, 0, 0]);
    let (header, length) = complete(&v2(0x21, 0x11, &payload));
    assert_eq!(length, 16 + payload.len());
    assert_eq!(header.source, Some("192.0.2.1:12345".parse().unwrap()));
    assert_eq!(
        header.destination,
        Some("198.51.100.2:443".parse().unwrap())
    );
    assert_eq!(header.alpn(), Some(&b"h2"[..]));
    assert_eq!(header.tlvs.len(), 2);
}

#[test]
fn local_unknown_unix_and_datagram_headers_name_no_client() {
    let (header, _) = complete(&v2(0x20, 0x00, &[]));
    assert!(header.local);
    // LOCAL ignores even addresses.
    let (header, length) = complete(&v2(0x20, 0x11, &[1; 12]));
    assert_eq!((header.local, header.source, length), (true, None, 28));
    for (family, payload) in [
        (0x00, vec![9; 5]),
        (0x31, vec![b'/'; 216]),
        (0x12, vec![1; 12]),
    ] {
        let (header, _) = complete(&v2(0x21, family, &payload));
        assert_eq!(header, Header::default(), "family {family:#x}");
    }
}

#[test]
fn version_2_headers_that_bend_a_rule_are_refused() {
    for (bytes, error) in [
        (v2(0x11, 0x11, &[0; 12]), PrefaceError::Version(1)),
        (v2(0x22, 0x11, &[0; 12]), PrefaceError::Command(2)),
        (v2(0x21, 0x41, &[0; 12]), PrefaceError::Family(0x41)),
        (v2(0x21, 0x13, &[0; 12]), PrefaceError::Family(0x13)),
        (v2(0x21, 0x11, &[0; 11]), PrefaceError::TooShort),
        (v2(0x21, 0x21, &[0; 35]), PrefaceError::TooShort),
        (v2(0x21, 0x11, &[0; 14]), PrefaceError::Tlv),
        (v2(0x21, 0x11, &[0; 4081]), PrefaceError::TooLong(4097)),
    ] {
        assert_eq!(read(&bytes), Reading::Malformed(error));
    }
    let long_tlv = [&[0; 12][..], &[1, 0, 9, 1, 1]].concat();
    assert_eq!(
        read(&v2(0x21, 0x11, &long_tlv)),
        Reading::Malformed(PrefaceError::Tlv)
    );
    // The length alone is enough to refuse.
    assert_eq!(
        read(&v2(0x21, 0x11, &[0; 5000])[..16]),
        Reading::Malformed(PrefaceError::TooLong(5016))
    );
}

#[test]
fn a_checksum_is_verified_and_a_changed_byte_is_found() {
    let outgoing = Outgoing {
        authority: Some("shop.example"),
        checksum: true,
        ..Outgoing::new(
            "192.0.2.1:1".parse().unwrap(),
            "192.0.2.2:2".parse().unwrap(),
        )
    };
    let mut bytes = Vec::new();
    write_v2(&outgoing, &mut bytes);
    assert_eq!(complete(&bytes).0.authority(), Some("shop.example"));
    for place in FIXED..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        if let Reading::Complete { header, .. } = read(&changed) {
            assert_eq!(header.tlv(TLV_CRC32C), None, "byte {place} went unnoticed");
        }
    }
}

const FIXED: usize = 16;

#[test]
fn a_client_certificate_is_told_as_the_specification_says() {
    let source = "192.0.2.1:1".parse().unwrap();
    for (verified, resumed, first_bytes) in [
        (false, false, [0x01, 0, 0, 0, 1]),
        (true, false, [0x07, 0, 0, 0, 0]),
        (true, true, [0x05, 0, 0, 0, 0]),
    ] {
        let outgoing = Outgoing {
            tls: Some(OutgoingTls {
                version: "TLSv1.3",
                suite: "TLS_AES_128_GCM_SHA256",
                client_common_name: Some("shop client"),
                client_certificate_verified: verified,
                resumed,
                ..OutgoingTls::default()
            }),
            ..Outgoing::new(source, source)
        };
        let mut bytes = Vec::new();
        write_v2(&outgoing, &mut bytes);
        let (header, _) = complete(&bytes);
        assert_eq!(header.tlv(TLV_TLS).unwrap()[..5], first_bytes);
        let tls = header.tls().unwrap();
        assert!(tls.over_tls);
        assert_eq!(tls.verified, verified);
        assert_eq!(tls.certificate_sent, verified && !resumed);
        assert_eq!(tls.version.as_deref(), Some("TLSv1.3"));
        assert_eq!(tls.suite.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
        // Nobody's name is passed on unless it was verified.
        assert_eq!(tls.common_name.is_some(), verified);
    }
}

#[test]
fn a_text_over_the_bound_is_left_out_and_never_cut() {
    let address = "192.0.2.1:1".parse().unwrap();
    let long = "x".repeat(1025);
    let outgoing = Outgoing {
        authority: Some(&long),
        unique_id: Some(&[1; 129]),
        ..Outgoing::new(address, address)
    };
    let mut bytes = Vec::new();
    write_v2(&outgoing, &mut bytes);
    assert_eq!(complete(&bytes).0.tlvs, []);
}

#[test]
fn mixed_and_mapped_addresses_are_written_in_one_family() {
    let mapped = "[::ffff:192.0.2.1]:7".parse().unwrap();
    let mut line = Vec::new();
    write_v1(mapped, "192.0.2.2:8".parse().unwrap(), &mut line);
    assert_eq!(line, b"PROXY TCP4 192.0.2.1 192.0.2.2 7 8\r\n");
    line.clear();
    write_v1(mapped, "[2001:db8::1]:8".parse().unwrap(), &mut line);
    assert_eq!(line, b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 7 8\r\n");
    line.clear();
    write_unknown_v1(&mut line);
    write_local_v2(&mut line);
    let (header, length) = complete(&line);
    assert_eq!(header, Header::default());
    assert!(complete(&line[length..]).0.local);
}

fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = (
        any::<[u8; 4]>(),
        any::<u16>(),
        any::<[u8; 4]>(),
        any::<u16>(),
    )
        .prop_map(|(a, from, b, to)| {
            (
                SocketAddr::new(Ipv4Addr::from(a).into(), from),
                SocketAddr::new(Ipv4Addr::from(b).into(), to),
            )
        });
    // The first byte keeps them from being IPv4 in IPv6.
    let v6 = (
        any::<[u8; 15]>(),
        any::<u16>(),
        any::<[u8; 15]>(),
        any::<u16>(),
    )
        .prop_map(|(a, from, b, to)| {
            let whole = |rest: [u8; 15]| {
                let mut bytes = [0x20; 16];
                bytes[1..].copy_from_slice(&rest);
                Ipv6Addr::from(bytes)
            };
            (
                SocketAddr::new(whole(a).into(), from),
                SocketAddr::new(whole(b).into(), to),
            )
        });
    prop_oneof![v4, v6]
}

proptest! {
    #[test]
    fn a_version_1_line_reads_back((source, destination) in addresses(), rest in any::<[u8; 8]>()) {
        let mut bytes = Vec::new();
        write_v1(source, destination, &mut bytes);
        let end = bytes.len();
        prop_assert!(end <= MAX_V1_BYTES);
        for length in 0..end {
            prop_assert_eq!(read(&bytes[..length]), Reading::Incomplete);
        }
        bytes.extend_from_slice(&rest);
        let (header, length) = complete(&bytes);
        prop_assert_eq!(length, end);
        prop_assert_eq!(header.source, Some(source));
        prop_assert_eq!(header.destination, Some(destination));
    }

    #[test]
    fn a_version_2_header_reads_back(
        (source, destination) in addresses(),
        alpn in "[a-z0-9/.]{1,20}",
        authority in "[a-z.]{1,250}",
        name in ".{1,60}",
        unique_id in proptest::collection::vec(any::<u8>(), 0..128),
        checksum in any::<bool>(),
        resumed in any::<bool>(),
    ) {
        let outgoing = Outgoing {
            source,
            destination,
            alpn: Some(&alpn),
            authority: Some(&authority),
            unique_id: Some(&unique_id),
            checksum,
            tls: Some(OutgoingTls {
                version: "TLSv1.2",
                suite: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                client_common_name: Some(&name),
                client_certificate_verified: true,
                resumed,
                signature: Some("SHA256"),
                key: Some("RSA2048"),
            }),
        };
        let mut bytes = vec![];
        write_v2(&outgoing, &mut bytes);
        for length in 0..bytes.len() {
            prop_assert_eq!(read(&bytes[..length]), Reading::Incomplete);
        }
        let (header, length) = complete(&bytes);
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!(header.source, Some(source));
        prop_assert_eq!(header.destination, Some(destination));
        prop_assert_eq!(header.alpn(), Some(alpn.as_bytes()));
        prop_assert_eq!(header.authority(), Some(authority.as_str()));
        prop_assert_eq!(header.tlv(TLV_UNIQUE_ID), Some(unique_id.as_slice()));
        let tls = header.tls().unwrap();
        prop_assert_eq!(tls.common_name, Some(name));
        prop_assert_eq!(tls.certificate_sent, !resumed);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        family in any::<u8>(),
    ) {
        let _ = read(&bytes);
        let _ = read(&[b"PROXY ", bytes.as_slice()].concat());
        if let Reading::Complete { header, .. } = read(&v2(0x21, family & 0x33, &bytes)) {
            let _ = (header.tls(), header.authority());
        }
    }
}
