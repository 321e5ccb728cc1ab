//! Lines as they are written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::borrow::Cow;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_journal::{End, Entry, Event, Format, LONGEST_TEXT_BYTES, Peer};
use tollgate_terms::{
    CertificateKind, CipherSuite, ClientIdentity, HandshakeFacts, HandshakeKind, NamedGroup,
    ResumptionMiss, ServerName, TlsVersion,
};

const TIME: u64 = 1_795_183_636_007;

fn facts() -> HandshakeFacts {
    HandshakeFacts {
        version: TlsVersion::Tls13,
        suite: CipherSuite::TLS_AES_128_GCM_SHA256,
        group: Some(NamedGroup::X25519MLKEM768),
        kind: HandshakeKind::Full,
        miss: Some(ResumptionMiss::Expired),
        certificate: Some(CertificateKind::EcdsaP256),
        signature: None,
        server_name: Some(ServerName::new("shop.example").unwrap()),
        alpn: Some("h2".into()),
        client: Some(Box::new(ClientIdentity {
            subject: "CN=till 7,O=Shop".into(),
            common_name: "till 7".into(),
            serial: "01".into(),
            fingerprint_sha256: String::new(),
            alternative_names: Vec::new(),
        })),
        ticket_age: None,
        early_data_offered: false,
    }
}

fn request() -> Entry {
    Entry {
        listener: Some("0.0.0.0:443".into()),
        site: Some("shop.example".into()),
        worker: Some(1),
        client: Some(Peer::Ip("192.0.2.7:50123".parse().unwrap())),
        handshake: Some(Arc::new(facts())),
        early_data: Some(false),
        protocol: Some("HTTP/2"),
        method: Some(Cow::Borrowed("GET")),
        host: Some(b"shop.example".as_slice().into()),
        path: Some(b"/a?b=c&d=\"e\"".as_slice().into()),
        status: Some(200),
        request_bytes: Some(0),
        response_bytes: Some(1_024),
        backend: Some("10.0.0.5:8080".into()),
        retries: Some(0),
        handshake_us: Some(812),
        backend_us: Some(1_900),
        total_us: Some(2_345),
        end: Some(End::Complete),
        ..Entry::new(Event::Request, TIME)
    }
}

fn line(format: Format, entry: &Entry) -> String {
    let mut out = Vec::new();
    format.write(entry, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_as_json() {
    assert_eq!(
        line(Format::Json, &request()),
        concat!(
            r#"{"time":"2026-11-20T14:07:16.007Z","event":"request","listener":"0.0.0.0:443","#,
            r#""site":"shop.example","worker":1,"client":"192.0.2.7:50123","server_name":"shop.example","#,
            r#""tls_version":"TLSv1.3","tls_suite":"TLS_AES_128_GCM_SHA256","tls_group":"X25519MLKEM768","#,
            r#""tls_certificate":"ecdsa-p256","tls_kind":"full","tls_resumed":false,"tls_miss":"expired","#,
            r#""tls_early_data":false,"alpn":"h2","client_subject":"CN=till 7,O=Shop","protocol":"HTTP/2","#,
            r#""method":"GET","host":"shop.example","path":"/a?b=c&d=\"e\"","status":200,"request_bytes":0,"#,
            r#""response_bytes":1024,"backend":"10.0.0.5:8080","retries":0,"handshake_us":812,"#,
            r#""backend_us":1900,"total_us":2345,"end":"complete"}"#,
            "\n"
        )
    );
}

#[test]
fn a_request_as_logfmt() {
    assert_eq!(
        line(Format::Logfmt, &request()),
        concat!(
            "time=2026-11-20T14:07:16.007Z event=request listener=0.0.0.0:443 site=shop.example worker=1 ",
            "client=192.0.2.7:50123 server_name=shop.example tls_version=TLSv1.3 ",
            "tls_suite=TLS_AES_128_GCM_SHA256 tls_group=X25519MLKEM768 tls_certificate=ecdsa-p256 ",
            "tls_kind=full tls_resumed=false tls_miss=expired tls_early_data=false alpn=h2 ",
            "client_subject=\"CN=till 7,O=Shop\" protocol=HTTP/2 method=GET host=shop.example ",
            "path=\"/a?b=c&d=\\\"e\\\"\" status=200 request_bytes=0 response_bytes=1024 ",
            "backend=10.0.0.5:8080 retries=0 handshake_us=812 backend_us=1900 total_us=2345 end=complete\n"
        )
    );
}

#[test]
fn a_failed_handshake_says_little_and_says_it_whole() {
    let entry = Entry {
        client: Some(Peer::Unix),
        server_name: Some("shop.example".into()),
        error: Some("no suite in common; the client offers 0x0005".into()),
        end: Some(End::Error),
        ..Entry::new(Event::HandshakeFailed, 0)
    };
    assert_eq!(
        line(Format::Json, &entry),
        concat!(
            r#"{"time":"1970-01-01T00:00:00.000Z","event":"handshake_failed","client":"unix","#,
            r#""server_name":"shop.example","end":"error","#,
            r#""error":"no suite in common; the client offers 0x0005"}"#,
            "\n"
        )
    );
}

#[test]
fn what_could_move_a_terminal_or_break_a_line_is_escaped() {
    let entry = Entry {
        path: Some(
            b"/\n\r\t\x00\x1b[2J\x7f\xc2\x85\xe2\x80\xa8\xff"
                .as_slice()
                .into(),
        ),
        ..Entry::new(Event::Request, 0)
    };
    let escaped = r#""/\n\r\t\u0000\u001b[2J\u007f\u0085\u2028�""#;
    assert!(line(Format::Json, &entry).contains(escaped));
    assert!(line(Format::Logfmt, &entry).contains(escaped));
}

#[test]
fn a_text_that_is_too_long_is_cut() {
    let entry = Entry {
        path: Some(vec![b'a'; LONGEST_TEXT_BYTES * 4].into()),
        ..Entry::new(Event::Request, 0)
    };
    let line = line(Format::Json, &entry);
    assert!(line.len() < LONGEST_TEXT_BYTES + 100);
    assert!(line.ends_with("a…\"}\n"));
}

#[test]
fn an_entry_is_small_enough_to_be_handed_over() {
    assert!(size_of::<Entry>() <= 512, "{}", size_of::<Entry>());
}

proptest! {
    #[test]
    fn a_line_is_one_line_and_valid_json_whatever_clients_send(
        path in prop::collection::vec(any::<u8>(), 0..200),
        host in prop::collection::vec(any::<u8>(), 0..50),
        method in ".{0,20}",
        time in any::<u64>(),
    ) {
        let entry = Entry {
            path: Some(path.clone().into()),
            host: Some(host.into()),
            method: Some(method.into()),
            ..Entry::new(Event::Request, time)
        };
        let json = line(Format::Json, &entry);
        prop_assert_eq!(json.matches('\n').count(), 1);
        prop_assert!(!json.trim_end_matches('\n').chars().any(char::is_control));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(value["path"].as_str().unwrap(), String::from_utf8_lossy(&path));
        let logfmt = line(Format::Logfmt, &entry);
        prop_assert_eq!(logfmt.matches('\n').count(), 1);
        prop_assert!(!logfmt.trim_end_matches('\n').chars().any(char::is_control));
    }
}
