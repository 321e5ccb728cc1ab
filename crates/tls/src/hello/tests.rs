#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const HELLOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hellos");

fn fixture(name: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(Path::new(HELLOS).join(name)).unwrap();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn complete(bytes: &[u8]) -> Box<ClientHello> {
    match read(bytes) {
        Reading::Complete(hello) => hello,
        other => panic!("expected a whole hello, got {other:?}"),
    }
}

/// The facts in the form of the `.expected` files.
fn summary(hello: &ClientHello) -> String {
    let hexadecimal = |values: &[u16]| {
        let listed: Vec<String> = values.iter().map(|v| format!("{v:04x}")).collect();
        listed.join(" ")
    };
    let mut lines = vec![
        format!("raw_len: {}", hello.raw_len),
        format!("legacy_version: {:04x}", hello.legacy_version),
        format!("session_id_len: {}", hello.session_id.len()),
        format!("suites: {}", hexadecimal(&hello.suites)),
        format!("versions: {}", hexadecimal(&hello.versions)),
    ];
    for (name, values) in [
        ("groups", &hello.groups),
        ("key_shares", &hello.key_shares),
        ("signature_schemes", &hello.signature_schemes),
    ] {
        if !values.is_empty() {
            lines.push(format!("{name}: {}", hexadecimal(values)));
        }
    }
    if let Some(name) = &hello.server_name {
        lines.push(format!("server_name: {name}"));
    }
    if !hello.alpn.is_empty() {
        let names: Vec<_> = hello
            .alpn
            .iter()
            .map(|n| String::from_utf8_lossy(n))
            .collect();
        lines.push(format!("alpn: {}", names.join(" ")));
    }
    if let Some(ticket) = &hello.session_ticket {
        lines.push(format!("session_ticket_len: {}", ticket.len()));
    }
    if !hello.psk_identities.is_empty() {
        let lens: Vec<u16> = hello
            .psk_identities
            .iter()
            .map(|i| i.len() as u16)
            .collect();
        lines.push(format!("psk_identity_lens: {}", hexadecimal(&lens)));
    }
    if hello.early_data {
        lines.push("early_data: true".to_owned());
    }
    lines.sort();
    lines.into_iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").unwrap();
        text
    })
}

#[test]
fn hellos_of_real_clients_are_read_as_expected() {
    let mut count = 0;
    for entry in std::fs::read_dir(HELLOS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "hex") {
            continue;
        }
        let expected = std::fs::read_to_string(path.with_extension("expected")).unwrap();
        let hello = complete(&fixture(path.file_name().unwrap().to_str().unwrap()));
        let expected = expected.replace("Shop.Example", "shop.example");
        assert_eq!(summary(&hello), expected, "{}", path.display());
        count += 1;
    }
    assert!(count >= 9, "only {count} fixtures");
}

/// The message inside whole records.
fn message_of(raw: &[u8]) -> Vec<u8> {
    let hello = complete(raw);
    let mut message = Vec::new();
    let mut rest = &raw[..hello.raw_len];
    while !rest.is_empty() {
        let end = 5 + usize::from(u16::from_be_bytes([rest[3], rest[4]]));
        message.extend_from_slice(&rest[5..end]);
        rest = &rest[end..];
    }
    message
}

/// `message` in records whose lengths follow `sizes` round and round.
fn in_records(message: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut raw = Vec::new();
    let mut rest = message;
    for size in sizes.iter().cycle() {
        let (fragment, after) = rest.split_at((*size).min(rest.len()));
        raw.extend_from_slice(&[22, 3, 1]);
        raw.extend_from_slice(&(fragment.len() as u16).to_be_bytes());
        raw.extend_from_slice(fragment);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    raw
}

/// A hello with these extensions and nothing unusual around them.
fn message_with(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (kind, body) in extensions {
        block.extend_from_slice(&kind.to_be_bytes());
        block.extend_from_slice(&(body.len() as u16).to_be_bytes());
        block.extend_from_slice(body);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend_from_slice(&[0, 4, 0x13, 0x01, 0x0a, 0x0a]);
    body.extend_from_slice(&[1, 0]);
    body.extend_from_slice(&(block.len() as u16).to_be_bytes());
    body.extend_from_slice(&block);
    let mut message = vec![1];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend_from_slice(&body);
    message
}

fn read_with(extensions: &[(u16, Vec<u8>)]) -> Reading {
    read(&in_records(&message_with(extensions), &[16_384]))
}

fn refused(extensions: &[(u16, Vec<u8>)]) -> HelloError {
    match read_with(extensions) {
        Reading::Refused(error) => error,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn server_name(name: &[u8]) -> (u16, Vec<u8>) {
    let length = name.len() as u16;
    let mut body = (length + 3).to_be_bytes().to_vec();
    body.push(0);
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(name);
    (0, body)
}

#[test]
fn records_of_one_byte_each_make_the_same_hello() {
    for name in ["openssl.hex", "curl.hex", "openssl_resumes_tls13.hex"] {
        let raw = fixture(name);
        let whole = complete(&raw);
        let split = in_records(&message_of(&raw), &[1]);
        let hello = complete(&split);
        assert_eq!(hello.raw_len, split.len());
        assert_eq!(
            ClientHello {
                raw_len: whole.raw_len,
                ..*hello
            },
            *whole
        );
    }
}

#[test]
fn every_beginning_of_a_hello_is_incomplete_and_never_refused() {
    for raw in [
        fixture("openssl.hex"),
        in_records(&message_of(&fixture("python.hex")), &[1, 2, 3]),
    ] {
        let end = complete(&raw).raw_len;
        for length in 0..end {
            assert_eq!(read(&raw[..length]), Reading::Incomplete, "{length} bytes");
        }
    }
}

#[test]
fn a_hello_with_post_quantum_key_shares_beyond_16_kb_is_read() {
    let mut shares = Vec::new();
    for group in [0x11ec_u16, 0x11ed, 0x6399, 0x0202, 0x001d] {
        shares.extend_from_slice(&group.to_be_bytes());
        shares.extend_from_slice(&3500_u16.to_be_bytes());
        shares.extend_from_slice(&[9; 3500]);
    }
    let mut body = (shares.len() as u16).to_be_bytes().to_vec();
    body.extend_from_slice(&shares);
    let message = message_with(&[(51, body)]);
    assert!(message.len() > 16_384);
    let raw = in_records(&message, &[16_384]);
    let hello = complete(&raw);
    assert_eq!(hello.key_shares, [0x11ec, 0x11ed, 0x6399, 0x0202, 0x001d]);
    assert_eq!(hello.raw_len, raw.len());
    let small = in_records(&message, &[2]);
    assert_eq!(complete(&small).key_shares.len(), 5);
}

#[test]
fn a_hello_beyond_the_bounds_is_refused_by_its_header_alone() {
    for (bytes, error) in [
        (&[22, 3, 1, 64, 0, 1, 1][..], HelloError::TooLong),
        (&[22, 3, 1, 64, 0, 1, 0, 0x51], HelloError::TooLong),
        (&[22, 3, 1, 64, 1], HelloError::RecordTooLong(16_385)),
        (&[22, 3, 1, 0, 0], HelloError::EmptyRecord),
        (&[22, 3, 1, 0, 200, 2], HelloError::UnexpectedMessage(2)),
        (
            &[22, 2],
            HelloError::NotTls {
                position: 1,
                byte: 2,
            },
        ),
        (&[21, 3], HelloError::UnexpectedRecord(21)),
        (
            &[22, 3, 1, 0, 2, 1, 0, 23],
            HelloError::UnexpectedRecord(23),
        ),
        (&[0x80, 0x2e, 1], HelloError::SslV2),
        (
            &[0x80, 0x2e, 9],
            HelloError::NotTls {
                position: 2,
                byte: 9,
            },
        ),
        (
            b"GETX",
            HelloError::NotTls {
                position: 3,
                byte: b'X',
            },
        ),
        (
            b"SSH-2.0",
            HelloError::NotTls {
                position: 0,
                byte: b'S',
            },
        ),
        (b"PROXY TCP4", HelloError::ProxyHeader),
        (b"\r\n\r\n\0\r\nQUIT", HelloError::ProxyHeader),
    ] {
        assert_eq!(read(bytes), Reading::Refused(error), "{bytes:?}");
        let earlier = read(&bytes[..bytes.len().min(error_at(&error)) - 1]);
        assert_eq!(
            earlier,
            Reading::Incomplete,
            "{bytes:?} without its last byte"
        );
    }
}

/// How many bytes it takes to know, where that is less than the example holds.
fn error_at(error: &HelloError) -> usize {
    match error {
        HelloError::NotTls { position, .. } => position + 1,
        HelloError::ProxyHeader => 4,
        _ => usize::MAX,
    }
}

#[test]
fn a_hello_in_records_of_one_byte_is_bounded_by_its_raw_bytes() {
    let message = message_with(&[(0xff77, vec![0; 15_000])]);
    let raw = in_records(&message, &[1]);
    assert!(raw.len() > MAX_HELLO_BYTES);
    assert_eq!(read(&raw), Reading::Refused(HelloError::TooLong));
    assert_eq!(
        read(&raw[..MAX_HELLO_BYTES + 5]),
        Reading::Refused(HelloError::TooLong)
    );
}

#[test]
fn plain_http_is_known_after_four_bytes() {
    for request in [
        "GET / HTTP/1.1",
        "POST /",
        "HEAD /",
        "PUT /",
        "OPTIONS *",
        "DELETE /",
        "CONNECT a:1",
        "PATCH /",
        "TRACE /",
        "PRI * HTTP/2.0",
    ] {
        for length in 0..4 {
            let start = &request.as_bytes()[..length];
            assert_eq!(read(start), Reading::Incomplete, "{request}");
        }
        assert_eq!(
            read(&request.as_bytes()[..4]),
            Reading::PlainHttp,
            "{request}"
        );
        assert_eq!(read(request.as_bytes()), Reading::PlainHttp, "{request}");
    }
}

#[test]
fn bytes_after_the_hello_are_refused_in_its_record_and_left_alone_after_it() {
    let mut message = message_with(&[server_name(b"localhost")]);
    let whole = in_records(&message, &[16_384]);
    let mut followed = whole.clone();
    followed.extend_from_slice(&[20, 3, 3, 0, 1, 1]);
    assert_eq!(complete(&followed).raw_len, whole.len());
    message.push(0);
    assert_eq!(
        read(&in_records(&message, &[16_384])),
        Reading::Refused(HelloError::BytesAfterHello)
    );
}

#[test]
fn a_malformed_server_name_is_told_and_the_rest_is_read() {
    for name in [
        &b"a b"[..],
        b"",
        b"\xff\xfe",
        b"127.0.0.1",
        b"a..b",
        b"line\r\nbreak",
        &[b'x'; 300],
    ] {
        let Reading::Complete(hello) = read_with(&[server_name(name), (42, vec![])]) else {
            panic!("{name:?} must not refuse the hello");
        };
        assert!(hello.server_name_malformed, "{name:?}");
        assert_eq!(hello.server_name, None);
        assert!(hello.early_data);
    }
    let Reading::Complete(hello) = read_with(&[server_name(b"Shop.Example")]) else {
        panic!("a plain name is read");
    };
    assert_eq!(hello.server_name.unwrap().as_str(), "shop.example");
    assert!(!hello.server_name_malformed);
}

#[test]
fn two_names_in_server_name_are_malformed() {
    let mut names = Vec::new();
    for name in [b"a", b"b"] {
        names.extend_from_slice(&[0, 0, 1]);
        names.extend_from_slice(name);
    }
    let mut body = (names.len() as u16).to_be_bytes().to_vec();
    body.extend_from_slice(&names);
    let Reading::Complete(hello) = read_with(&[(0, body)]) else {
        panic!("the hello is read");
    };
    assert!(hello.server_name_malformed);
}

#[test]
fn extensions_that_break_their_rules_are_refused() {
    let share = vec![0, 6, 0, 29, 0, 2, 1, 1];
    let mut identity = vec![0, 7, 0, 1, 5, 0, 0, 0, 0];
    identity.extend_from_slice(&[0, 66, 32]);
    identity.extend_from_slice(&[0; 32]);
    identity.push(32);
    identity.extend_from_slice(&[0; 32]);
    let many: Vec<u8> = [1_u8, b'x'].repeat(65);
    let mut names = (many.len() as u16).to_be_bytes().to_vec();
    names.extend_from_slice(&many);
    for (extensions, error) in [
        (
            vec![(51, share.clone()), (51, share.clone())],
            HelloError::DuplicateExtension(51),
        ),
        (
            vec![(0x1234, vec![]), (0x1234, vec![])],
            HelloError::DuplicateExtension(0x1234),
        ),
        (
            vec![(41, identity.clone()), (51, share)],
            HelloError::PreSharedKeyNotLast,
        ),
        (
            vec![(41, identity)],
            HelloError::BinderCount {
                identities: 1,
                binders: 2,
            },
        ),
        (vec![(42, vec![0])], HelloError::Malformed("early_data")),
        (
            vec![(43, vec![3, 3, 4, 3])],
            HelloError::Malformed("supported_versions"),
        ),
        (
            vec![(10, vec![0, 2, 0])],
            HelloError::Malformed("supported_groups"),
        ),
        (
            vec![(13, vec![0, 0])],
            HelloError::Malformed("signature_algorithms"),
        ),
        (
            vec![(51, vec![0, 4, 0, 29, 0, 0])],
            HelloError::Malformed("key_share"),
        ),
        (
            vec![(16, names)],
            HelloError::TooMany {
                what: "application_layer_protocol_negotiation",
            },
        ),
    ] {
        assert_eq!(refused(&extensions), error);
        assert!(matches!(error.alert(), 10 | 22 | 47 | 50 | 70));
    }
}

#[test]
fn grease_is_left_out_everywhere() {
    let hello = match read_with(&[
        (0x0a0a, vec![]),
        (10, vec![0, 4, 0x1a, 0x1a, 0, 29]),
        (43, vec![4, 0xfa, 0xfa, 3, 4]),
        (51, vec![0, 11, 0x2a, 0x2a, 0, 1, 0, 0, 29, 0, 2, 1, 1]),
    ]) {
        Reading::Complete(hello) => hello,
        other => panic!("{other:?}"),
    };
    assert_eq!(hello.suites, [0x1301]);
    assert_eq!(hello.groups, [29]);
    assert_eq!(hello.versions, [0x0304]);
    assert_eq!(hello.key_shares, [29]);
}

#[test]
fn chacha_first_is_told_by_the_first_suite_that_we_know() {
    assert!(complete(&fixture("openssl_chacha.hex")).offers_chacha_first());
    assert!(!complete(&fixture("openssl.hex")).offers_chacha_first());
}

#[test]
fn versions_offered_are_those_of_the_extension_or_the_legacy_field() {
    let hello = complete(&fixture("openssl_tls12.hex"));
    assert!(hello.offers(TlsVersion::Tls12) && !hello.offers(TlsVersion::Tls13));
    let hello = complete(&fixture("python.hex"));
    assert!(hello.offers(TlsVersion::Tls12) && hello.offers(TlsVersion::Tls13));
    let Reading::Complete(old) = read_with(&[]) else {
        panic!("a hello without extensions is read");
    };
    assert_eq!(old.versions, [0x0303]);
}

/// The answer of one reader that is shown more and more of `bytes`.
fn read_in_pieces(bytes: &[u8], sizes: &[usize]) -> Reading {
    let mut reader = Reader::default();
    let mut shown = 0;
    for size in sizes.iter().cycle() {
        shown = (shown + size).min(bytes.len());
        let reading = reader.read(&bytes[..shown]);
        if reading != Reading::Incomplete || shown == bytes.len() {
            return reading;
        }
    }
    Reading::Incomplete
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(&bytes);
        let _ = read(&in_records(&message_with(&[(51, bytes.clone())]), &[200]));
    }

    #[test]
    fn any_split_gives_the_same_answer(
        records in proptest::collection::vec(1_usize..700, 1..6),
        pieces in proptest::collection::vec(1_usize..900, 1..6),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let message = message_of(&fixture("openssl_resumes_tls13.hex"));
        let mut raw = in_records(&message, &records);
        for (place, value) in flips {
            let place = usize::from(place) % raw.len();
            raw[place] = value;
        }
        let whole = read(&raw);
        prop_assert_eq!(&read_in_pieces(&raw, &pieces), &whole);
        prop_assert_eq!(&read_in_pieces(&raw, &[1]), &whole);
    }

    #[test]
    fn any_extension_body_is_read_or_refused(
        kind in prop_oneof![Just(0_u16), Just(10), Just(13), Just(16), Just(35), Just(41), Just(43), Just(51)],
        body in proptest::collection::vec(0_u8..40, 0..80),
    ) {
        match read_with(&[(kind, body)]) {
            Reading::Complete(_) | Reading::Refused(_) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
