//! What `bench` says about memory: small runs whose facts must hold on any machine.

use serde_json::Value;

use crate::server::Place;

/// Runs `tollgate bench` with `arguments` and `--json`, which must succeed.
fn bench(arguments: &[&str]) -> Value {
    let place = Place::new();
    let all: Vec<&str> = ["bench"]
        .iter()
        .chain(arguments)
        .chain(&["--json"])
        .copied()
        .collect();
    let ran = place.tollgate(&all);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.all()))
}

/// Median of the figure of this id.
fn figure(sheet: &Value, id: &str) -> f64 {
    let figures = sheet["phases"][0]["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["id"] == id);
    let median = found.and_then(|figure| figure["median"].as_f64());
    median.unwrap_or_else(|| panic!("no figure {id}: {sheet}"))
}

#[test]
fn a_handshake_in_flight_is_weighed_part_by_part() {
    let sheet = bench(&["--phase", "4", "--quick"]);
    for version in ["tls12", "tls13"] {
        let of = |part: &str| figure(&sheet, &format!("handshake-memory/{version}/{part}"));
        let held = of("hello") + of("connection") + of("state");
        assert!((held - of("held")).abs() < 512.0, "{held} {}", of("held"));
        assert!(
            of("held") > 1_000.0 && of("held") < 64_000.0,
            "{}",
            of("held")
        );
        assert!(of("peak") >= of("held") && of("churn") >= of("peak"));
        assert!(of("allocations") > 10.0 && of("flight") > 500.0);
    }
    // A ticket of TLS 1.3 waits for the first response; one of TLS 1.2 does not.
    assert!(figure(&sheet, "handshake-memory/tls13/ticket") > 100.0);
    assert!(figure(&sheet, "handshake-memory/tls12/ticket") < 1.0);
    let total = figure(&sheet, "handshake-memory/total");
    assert!(total > 1_000.0 && total < 100_000.0, "{total}");
}

#[test]
fn an_idle_connection_is_weighed_in_every_mode() {
    let sheet = bench(&["--phase", "5", "--quick"]);
    for mode in ["http", "tcp", "tcp-plain"] {
        let user = figure(&sheet, &format!("connection-memory/{mode}/user"));
        assert!(user > 0.0 && user < 64_000.0, "{mode}: {user}");
        let kernel = figure(&sheet, &format!("connection-memory/{mode}/kernel"));
        assert!((0.0..200_000.0).contains(&kernel), "{mode}: {kernel}");
    }
}

#[test]
fn tickets_and_sessions_have_their_size() {
    let sheet = bench(&["--phase", "6", "--quick"]);
    for version in ["tls12", "tls13"] {
        let plain = figure(&sheet, &format!("ticket/bytes/{version}"));
        let with = figure(
            &sheet,
            &format!("ticket/bytes/{version}/client-certificate"),
        );
        assert!(plain > 100.0 && with > plain + 200.0, "{plain} {with}");
        assert!(figure(&sheet, &format!("ticket/client/{version}")) > plain);
    }
    let stored = figure(&sheet, "session/stored");
    let all = figure(&sheet, "session/bytes");
    assert!(
        stored > 100.0 && all > stored * 0.8 && all < stored * 10.0,
        "{stored} {all}"
    );
    assert!(figure(&sheet, "session/look-up") > 0.0);
    assert!(figure(&sheet, "session/kept/used") > figure(&sheet, "session/kept/unused"));
}

#[test]
fn memory_is_tabled_with_large_requests_too() {
    let table = bench(&["mem", "--connections", "800", "--header", "8k"]);
    assert_eq!(table["header_bytes"], 8192);
    let rows = table["rows"].as_array().unwrap();
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds, ["L4", "L4 + TLS", "L7 + TLS"]);
    for row in rows {
        assert!(row["connections"].as_u64().unwrap() >= 800, "{row}");
        let user = row["user_bytes"]["median"].as_f64().unwrap();
        assert!(user > 0.0 && user < 64_000.0, "{row}");
    }
    let sockets = |index: usize| rows[index]["sockets"].as_f64().unwrap();
    assert!(
        (sockets(0) - 2.0).abs() < 0.2 && (sockets(2) - 1.0).abs() < 0.2,
        "{table}"
    );
    assert!(table["tls_state_bytes"].as_f64().unwrap() > 100.0);
}

#[test]
fn a_burst_is_followed_under_every_setting_of_the_allocator() {
    let found = bench(&["allocators", "--connections", "50", "--watch", "1s"]);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let bytes = |name: &str| row[name].as_u64().unwrap();
        assert!(bytes("burst_bytes") >= bytes("floor_bytes"), "{row}");
        assert!(bytes("floor_bytes") > 1_000_000, "{row}");
        assert_eq!(row["after_bytes"].as_array().unwrap().len(), 2, "{row}");
        assert!(row["p99_micros"].as_f64() >= row["p50_micros"].as_f64());
    }
    let environment = rows[3]["environment"][0].as_str().unwrap();
    assert!(environment.contains("dirty_decay_ms:-1"), "{environment}");
}

#[test]
fn the_ways_to_a_backend_are_compared() {
    let found = bench(&["uds", "--duration", "300ms", "--rounds", "1"]);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 9);
    for row in rows {
        assert!(row["per_second"]["median"].as_f64() > Some(0.0), "{row}");
        let each = &row["cpu_micros_per_operation"]["median"];
        let all = &row["cpu_seconds_per_gigabyte"]["median"];
        let cost = each.as_f64().or(all.as_f64()).unwrap();
        assert!(cost > 0.0, "{row}");
    }
    let ways: Vec<&str> = rows[..3]
        .iter()
        .filter_map(|row| row["backend"].as_str())
        .collect();
    assert_eq!(ways, ["tcp", "unix", "abstract"]);
}

#[test]
fn what_the_machine_cannot_hold_is_refused_with_a_way_out() {
    let ran = Place::new().tollgate(&["bench", "mem", "--connections", "7"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("600 to 1000000"), "{}", ran.all());
}
