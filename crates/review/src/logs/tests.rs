use proptest::prelude::*;

use super::*;

fn read(format: Option<Format>, lines: &[&str]) -> Report {
    let mut tally = Tally::new(Options {
        format,
        ..Options::default()
    });
    for line in lines {
        tally.line(line.as_bytes());
    }
    tally.report()
}

fn counts(report: &Report) -> (u64, u64, u64) {
    let count = &report.handshakes;
    (count.full, count.resumed, count.not_told)
}

#[test]
fn times_are_read_as_nginx_haproxy_caddy_and_tollgate_write_them() {
    let expected = Some(Moment(1_795_286_129_000));
    for text in [
        "21/Nov/2026:18:35:29 +0000",
        "21/Nov/2026:19:35:29 +0100",
        "21/Nov/2026:18:35:29.000",
        "2026-11-21T18:35:29Z",
        "2026-11-21T13:35:29-05:00",
        "2026-11-21 18:35:29",
        "1795286129",
        "1795286129.000",
        "1795286129000",
    ] {
        assert_eq!(Moment::parse(text), expected, "{text}");
    }
    for text in ["", "-", "31/Feb/2026:10:00:00", "2026-13-01", "99", "+5"] {
        assert_eq!(Moment::parse(text), None, "{text}");
    }
    assert_eq!(
        Moment(1_795_286_129_000).to_string(),
        "2026-11-21T18:35:29Z"
    );
}

#[test]
fn the_first_request_of_a_connection_of_nginx_counts() {
    let format = Format::named(None, Some(NGINX_LOG_FORMAT)).unwrap();
    let report = read(
        format,
        &[
            "2026-11-21T18:35:29+00:00 TLSv1.3 TLS_AES_256_GCM_SHA384 . shop.test 1 1 200 \"GET / HTTP/1.1\"",
            "2026-11-21T18:35:30+00:00 TLSv1.3 TLS_AES_256_GCM_SHA384 . shop.test 1 2 200 \"GET / HTTP/1.1\"",
            "2026-11-21T18:35:31+00:00 TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 r - 2 1 200 \"GET / HTTP/1.1\"",
            "2026-11-21T18:35:31+00:00 - - - - 3 1 200 \"GET / HTTP/1.1\"",
            "garbage",
        ],
    );
    assert_eq!(counts(&report), (1, 1, 0));
    assert_eq!(report.lines_of_known_connections, 1);
    assert_eq!(report.lines_without_tls, 1);
    assert_eq!(report.lines_strange, 1);
    assert_eq!(report.strange[0].line, 5);
    let suites: Vec<&str> = report.by_suite.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        suites,
        [
            "TLS_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        ]
    );
    assert_eq!(report.by_site[0].name, "shop.test");
    assert_eq!(report.missing, []);
}

#[test]
fn a_combined_log_with_more_behind_it_is_guessed() {
    let head = "10.0.0.1 - - [21/Nov/2026:18:35:29 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"ssl_session_reused=r TLSv1.1\"";
    for (tail, expected) in [
        (" ssl_protocol=TLSv1.3 ssl_session_reused=.", (1, 0, 0)),
        (" TLSv1.3/TLS_AES_128_GCM_SHA256 r", (0, 1, 0)),
        (" TLSv1.3", (0, 0, 1)),
        ("", (0, 0, 0)),
    ] {
        let report = read(None, &[&format!("{head}{tail}")]);
        assert_eq!(counts(&report), expected, "{tail}");
        assert_eq!(report.product, Product::Nginx);
        assert!(!report.missing.is_empty());
        assert!(report.missing[0].add.contains("$connection_requests"));
    }
}

#[test]
fn haproxy_is_read_with_and_without_a_syslog_header() {
    let capture = "10.0.0.1:40001 [21/Nov/2026:18:35:29.123] f~ b/s 0/0/1/2/3 200 99 - - ---- 1/1/0/0/0 0/0 {shop|1} \"GET / HTTP/1.1\" TLSv1.3 TLS_AES_128_GCM_SHA256";
    let https = "10.0.0.1:40002 [21/Nov/2026:18:35:29.123] f~ b/s 0/0/1/2/3 200 99 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\" 0/0000000000000000/0/0/0 shop.test/TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256";
    let with_header = format!("<134>Nov 21 18:35:29 gate haproxy[71]: {https}");
    let report = read(None, &[capture, capture, &with_header, "Nov 21 started"]);
    assert_eq!(counts(&report), (1, 1, 0));
    assert_eq!(report.lines_of_known_connections, 1);
    assert_eq!(report.lines_strange, 1);
    assert_eq!(report.product, Product::Haproxy);
    let versions: Vec<&str> = report.by_version.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(versions, ["TLSv1.2", "TLSv1.3"]);
}

#[test]
fn a_log_format_of_haproxy_fits_what_it_leaves_out() {
    let text = "%ci:%cp [%tr] %ft %ST %hr %hs %{+Q}r %sslv ssl=%[ssl_fc_is_resumed]";
    let format = Format::named(Some("haproxy"), Some(text)).unwrap();
    let report = read(
        format,
        &[
            "10.0.0.1:40001 [21/Nov/2026:18:35:29.123] f~ 200 \"GET / HTTP/1.1\" TLSv1.3 ssl=1",
            "10.0.0.1:40002 [21/Nov/2026:18:35:29.123] f~ 200 {a|b} \"GET / HTTP/1.1\" TLSv1.3 ssl=0",
        ],
    );
    assert_eq!(report.strange, []);
    assert_eq!(counts(&report), (1, 1, 0));
}

#[test]
fn both_formats_of_tollgate_and_nested_json_are_read() {
    let json = r#"{"time":"2026-11-21T18:35:29.123Z","event":"request","site":"shop.test","client":"10.0.0.1:4000","tls_version":"TLSv1.3","tls_suite":"TLS_AES_128_GCM_SHA256","tls_resumed":true,"handshake_us":812,"path":"/"}"#;
    let other = json.replace("812", "900");
    let failed = r#"{"time":"2026-11-21T18:35:29.123Z","event":"handshake_failed","client":"10.0.0.1:4001"}"#;
    let report = read(None, &[json, json, &other, failed]);
    assert_eq!(counts(&report), (0, 2, 0));
    assert_eq!(report.handshakes_failed, 1);
    assert_eq!(report.product, Product::Tollgate);
    assert_eq!(report.missing, []);
    let logfmt = "time=2026-11-21T18:35:29.123Z event=request site=shop.test client=10.0.0.1:4000 tls_version=TLSv1.3 tls_suite=TLS_AES_128_GCM_SHA256 tls_resumed=false path=\"/a b\"";
    assert_eq!(counts(&read(None, &[logfmt])), (1, 0, 0));
    let caddy = r#"{"ts":1795286129.5,"request":{"host":"shop.test","remote_ip":"10.0.0.1","remote_port":"5","tls":{"resumed":false,"version":772,"cipher_suite":4865}}}"#;
    let report = read(None, &[caddy]);
    assert_eq!(counts(&report), (1, 0, 0));
    assert_eq!(report.by_version[0].name, "TLSv1.3");
    assert_eq!(report.by_suite[0].name, "TLS_AES_128_GCM_SHA256");
}

/// `per` handshakes every ten seconds, all resumed but for one tenth, and none at all from 600 to 900 s.
fn hour_with_a_dip(per: u64) -> Report {
    let mut tally = Tally::new(Options::default());
    for second in (0..3_600).step_by(10) {
        for n in 0..per {
            let resumed = n % 10 != 0 && !(600..900).contains(&second);
            let time = 1_795_284_000 + second;
            tally.line(format!("ts={time} tls_version=TLSv1.3 tls_resumed={resumed}").as_bytes());
        }
    }
    tally.report()
}

#[test]
fn a_dip_is_found_with_its_length_and_its_rate() {
    let report = hour_with_a_dip(10);
    assert!(report.intervals.len() <= 40, "{}", report.interval_seconds);
    assert_eq!(report.hit_rate_median, Some(0.9));
    let [dip] = &report.dips[..] else {
        panic!("{:?}", report.dips);
    };
    assert_eq!(dip.start, "2026-11-21T18:10:00Z");
    assert_eq!(dip.seconds, 300);
    assert!(dip.hit_rate_lowest.abs() < 1e-9);
    assert!((dip.handshakes_per_second - 1.0).abs() < 1e-9);
    assert_eq!(report.worst.unwrap().start, "2026-11-21T18:10:00Z");
}

#[test]
fn memory_has_a_limit_whatever_clients_send() {
    let mut tally = Tally::new(Options::default());
    for n in 0..40_000_u64 {
        let time = 1_000_000_000 + n * 100_000;
        tally.line(format!("ts={time} tls_resumed=1 sni=name-{n}.test").as_bytes());
    }
    let report = tally.report();
    assert_eq!(counts(&report), (0, 40_000, 0));
    assert!(report.sites_more <= 10_001);
    assert!(report.intervals.len() <= 20_001);
}

#[test]
fn a_format_that_cannot_be_read_is_refused_with_the_reason() {
    let between = Format::named(None, Some("$ssl_protocol$ssl_cipher"));
    assert!(matches!(between, Err(FormatError::NothingBetween { .. })));
    let none = Format::named(Some("nginx"), Some("nothing"));
    assert_eq!(none, Err(FormatError::NoField));
    assert!(matches!(
        Format::named(Some("apache"), None),
        Err(FormatError::Unknown(_))
    ));
}

#[test]
fn a_period_leaves_out_what_is_outside() {
    let mut tally = Tally::new(Options {
        since: Moment::parse("2026-11-21T18:00:00Z"),
        until: Moment::parse("2026-11-21T19:00:00Z"),
        ..Options::default()
    });
    for time in ["17:59:59", "18:00:00", "18:59:59", "19:00:00"] {
        tally.line(format!("time=2026-11-21T{time}Z tls_resumed=0").as_bytes());
    }
    let report = tally.report();
    assert_eq!(counts(&report), (2, 0, 0));
    assert_eq!(report.lines_outside, 2);
}

proptest! {
    #[test]
    fn any_bytes_are_counted(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)) {
        let mut tally = Tally::new(Options::default());
        for line in &lines {
            tally.line(line);
        }
        let report = tally.report();
        prop_assert_eq!(report.lines_read, report.lines_understood + report.lines_strange);
    }

    #[test]
    fn any_text_is_read_by_any_format(format in "[ $%{}\\[\\]a-z_\"é]{0,40}", line in "[ -~é\u{2028}]{0,120}", name in 0..5_usize) {
        let names = [None, Some("nginx"), Some("haproxy"), Some("logfmt"), Some("json")];
        let given = (name < 3).then_some(format.as_str());
        if let Ok(format) = Format::named(names[name], given) {
            let mut tally = Tally::new(Options { format, ..Options::default() });
            tally.line(line.as_bytes());
            tally.report();
        }
    }

    #[test]
    fn any_time_is_read_or_refused(text in "[0-9/:. T+ZNov-]{0,40}") {
        let _ = Moment::parse(&text).map(|time| time.to_string());
    }
}
