//! `plan`: published sums, sheets, costs by hand, and what is said when a figure is missing.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::binary;
use crate::tools::{Ran, run};

fn plan(arguments: &[&str]) -> Ran {
    run(
        std::process::Command::new(binary())
            .arg("plan")
            .args(arguments),
        b"",
    )
}

fn answer(arguments: &[&str]) -> Value {
    let ran = plan(&[arguments, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    serde_json::from_str(&ran.out).unwrap()
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end")
}

fn sheet() -> String {
    let path = tests().join("../../../console/tests/fixtures/sheet.json");
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn as_expected(name: &str, arguments: &[&str]) {
    let ran = plan(arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let path = tests().join("plans").join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(ran.out, expected, "{}", path.display());
}

#[test]
fn each_published_sum_prints_what_is_in_the_file_beside() {
    let listed = plan(&["--presets"]);
    assert_eq!(listed.code, Some(0), "{}", listed.all());
    for name in [
        "payments",
        "migration",
        "appliance",
        "api",
        "bulk",
        "memory-spike",
        "memory-floor",
        "early-data",
    ] {
        assert!(listed.out.contains(name), "{}", listed.all());
        as_expected(name, &["--preset", name]);
    }
    as_expected("payments", &["--preset", "cold-cache"]);
    let all: Value = serde_json::from_str(&plan(&["--presets", "--json"]).out).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 8);
}

#[test]
fn options_come_to_the_same_as_the_published_sums() {
    for (arguments, cores) in [
        ("--tps 14000 --cost-handshake 2ms", 28.0),
        ("--tps 14000 --cost-handshake 2.2ms", 30.8),
        (
            "--tps 20000 --gbps 5 --tps-per-core 2000 --gbps-per-core 1",
            15.0,
        ),
        (
            "--rps 100000 --conn-per-req 1 --cost-handshake 50us --bytes 4kB --ns-per-byte 1",
            5.4,
        ),
        (
            "--rps 100000 --conn-per-req 1 --cost-handshake 50us --bytes 4096 --ns-per-byte 1",
            5.4096,
        ),
        ("--gbps 10 --ns-per-byte 1", 1.25),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(answer(&words)["plan"]["cores"], cores, "{arguments}");
    }
    let memory = answer(&["--inflight", "50000", "--handshake-bytes", "48kB-72kB"]);
    assert_eq!(memory["plan"]["memory_low_bytes"], 2.4e9);
    assert_eq!(memory["plan"]["memory_high_bytes"], 3.6e9);
    let waiting = answer(&["--rps", "100000", "--rtt", "30ms"]);
    assert_eq!(waiting["plan"]["waiting"]["seconds_per_second"], 3_000.0);
}

#[test]
fn a_sheet_gives_every_cost_by_phase_with_its_origin() {
    let sheet = sheet();
    let mut arguments = vec!["--tps", "14000", "--hit-rate", "90%", "--gbps", "10"];
    arguments.extend(["--connections", "1000", "--handshake-duration", "5ms"]);
    arguments.extend(["--sheet", &sheet, "--mode", "tcp"]);
    arguments.extend(["--nodes", "4", "--vcpu", "16"]);
    as_expected("sheet", &arguments);
    let all = answer(&arguments);
    for input in all["plan"]["inputs"].as_array().unwrap() {
        assert!(input["origin"]["kind"].is_string(), "{input}");
    }
    let sum: f64 = all["plan"]["cores_by_phase"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| term["cores"].as_f64().unwrap())
        .sum();
    let cores = all["plan"]["cores"].as_f64().unwrap();
    assert!((sum - cores).abs() < 1e-6, "{all}");
    assert_eq!(all["nodes"]["fits"], true);
}

#[test]
fn a_change_of_certificate_is_priced_from_a_sheet_and_from_given_costs() {
    let sheet = sheet();
    let change = ["--migrate", "rsa2048:ecdsa", "--tps", "14000"];
    let measured = [&change[..], &["--hit-rate", "0.9", "--sheet", &sheet]].concat();
    as_expected("migrate", &measured);
    let given = ["--cost-before", "2ms", "--cost-after", "100us"];
    let given = answer(&[&change[..], &given].concat());
    assert_eq!(given["migration"]["before"]["cores"], 28.0);
    assert_eq!(given["migration"]["after"]["cores"], 1.4);
    assert_eq!(given["migration"]["saved_cores"], 26.6);
    assert_eq!(given["migration"]["ratio"], 20.0);
}

#[test]
fn a_missing_figure_is_named_with_both_ways_to_have_it() {
    let sheet = sheet();
    let full = "handshake/tls13/ecdsa-p256/x25519/aes-128-gcm/full/server";
    let rsa = "handshake/tls12/rsa-4096/secp256r1/aes-256-gcm/full/server";
    let kind = "--certificate rsa4096 --version 1.2 --group secp256r1 --suite TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
    let of_kind = format!("--tps 100 {kind} --sheet {sheet}");
    let change = format!("--tps 100 --migrate rsa3072:ecdsa --sheet {sheet}");
    for (arguments, figure, option) in [
        ("--tps 100", full, "--cost-handshake"),
        (
            "--tps 100 --hit 0.5 --cost-handshake 1ms",
            "resumed/server",
            "--cost-resumed",
        ),
        (
            "--gbps 10",
            "record/seal/aes-128-gcm/16384",
            "--ns-per-byte",
        ),
        (
            "--inflight 10",
            "handshake-memory/tls13/held",
            "--handshake-bytes",
        ),
        (
            "--connections 10",
            "connection-memory/http/user",
            "--connection-bytes",
        ),
        (&of_kind, rsa, "--cost-handshake"),
        (&change, "/rsa-3072/", "--cost-before"),
    ] {
        let ran = plan(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, Some(2), "{arguments}: {}", ran.all());
        for word in [figure, option, "tollgate bench --out"] {
            assert!(ran.err.contains(word), "{arguments}: {}", ran.all());
        }
        assert!(ran.out.is_empty(), "{arguments}: {}", ran.all());
    }
}

#[test]
fn input_that_makes_no_plan_is_refused() {
    for arguments in [
        "",
        "--preset nothing",
        "--preset bulk --gbps 3",
        "--rps 100",
        "--gbps 1 --ns-per-byte 1 --hit-rate 0.5",
        "--tps -1",
        "--tps inf --cost-handshake 1ms",
        "--tps 1 --cost-handshake 50",
        "--tps 1 --hit-rate 1.5 --cost-handshake 1ms",
        "--tps 1 --cost-handshake 1ms --tps-per-core 3",
        "--tps 1 --cost-handshake 1ms --nodes 3",
        "--tps 1 --cost-handshake 1ms --cost-before 1ms",
        "--tps 1 --migrate rsa2048",
        "--tps 1 --sheet /nowhere.json",
        "--connections 10 --connection-bytes 20kB-12kB",
    ] {
        let words: Vec<&str> = arguments
            .split(' ')
            .filter(|word| !word.is_empty())
            .collect();
        let ran = plan(&words);
        assert_eq!(ran.code, Some(2), "{arguments}: {}", ran.all());
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{arguments}");
    }
}

#[test]
fn a_plan_that_does_not_fit_with_one_node_lost_is_exit_code_1() {
    let arguments = |nodes| {
        [
            "--tps",
            "14000",
            "--cost-handshake",
            "2ms",
            "--vcpu",
            "16",
            "--nodes",
            nodes,
        ]
    };
    let fits = plan(&arguments("3"));
    assert_eq!(fits.code, Some(0), "{}", fits.all());
    assert!(
        fits.out.contains("28 cores / (2 x 16) = 87.5 %"),
        "{}",
        fits.all()
    );
    let tight = plan(&arguments("2"));
    assert_eq!(tight.code, Some(1), "{}", tight.all());
}
