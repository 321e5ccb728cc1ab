//! Drills: what happens in them is asserted, how fast never. The machine is shared, so that the forecast is held to
//! less here than in the drill itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::{Address, Backend, Folder, http_backend};

use crate::server::{Place, Server, binary, signal};
use crate::tools::{Ran, eventually, run, wait};

/// Times by which a forecast may be too high or too low where other tests take the cores meanwhile.
const FORECAST_WITHIN: f64 = 4.0;

fn drill_command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .env("TOLLGATE_BINARY", binary())
        .env("TMPDIR", folder.path())
        .arg("drill")
        .args(arguments)
        .current_dir(folder.path());
    command
}

fn drill(folder: &Folder, arguments: &[&str]) -> Ran {
    run(&mut drill_command(folder, arguments), b"")
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.all()))
}

/// The expectation whose name begins so.
fn expectation<'a>(found: &'a Value, what: &str) -> &'a Value {
    let all = found["expectations"].as_array().unwrap();
    all.iter()
        .find(|expected| expected["what"].as_str().unwrap().starts_with(what))
        .unwrap_or_else(|| panic!("no expectation begins with {what:?}: {found:#}"))
}

/// All expectations but those of the forecast, which depends on what else the machine does.
fn assert_passed(found: &Value) {
    for expected in found["expectations"].as_array().unwrap() {
        let what = expected["what"].as_str().unwrap();
        if !what.starts_with("forecast") && !what.starts_with("price") {
            assert_eq!(
                expected["passed"].as_bool(),
                Some(true),
                "{expected}: {found:#}"
            );
        }
    }
}

fn assert_forecast(found: &Value) {
    let forecast = &found["forecast"];
    let times = 1.0 + forecast["error_share"].as_f64().unwrap();
    let within = 1.0 / FORECAST_WITHIN..FORECAST_WITHIN;
    assert!(within.contains(&times), "{forecast:#}");
    assert!(
        !forecast["arithmetic"].as_array().unwrap().is_empty(),
        "{forecast:#}"
    );
}

/// Exit code 1 is left to the forecast alone.
fn assert_code(ran: &Ran, found: &Value) {
    let all = found["expectations"].as_array().unwrap();
    let passed = all
        .iter()
        .all(|expected| expected["passed"].as_bool() == Some(true));
    assert_eq!(ran.code, Some(i32::from(!passed)), "{}", ran.all());
}

fn fired(found: &Value, name: &str) -> bool {
    let alarms = found["alarms"].as_array().unwrap();
    alarms.iter().any(|alarm| alarm["name"] == name)
}

/// Names of what a drill left behind.
fn left_behind(folder: &Folder) -> Vec<String> {
    std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("tollgate"))
        .collect()
}

#[test]
fn resumption_off_is_seen_priced_and_over_soon() {
    let folder = Folder::new();
    let ran = drill(
        &folder,
        &["resumption-off", "--quick", "--rate", "60", "--json"],
    );
    let found = json(&ran);
    assert_passed(&found);
    assert_code(&ran, &found);
    assert_forecast(&found);
    let acts = found["acts"].as_array().unwrap();
    assert_eq!(acts.len(), 3);
    for (act, least, most) in [(0, 0.87, 0.93), (1, 0.0, 0.01), (2, 0.8, 1.0)] {
        let act = &acts[act];
        for counted in ["hit_rate", "instance_hit_rate"] {
            let rate = act[counted].as_f64().unwrap();
            assert!((least..=most).contains(&rate), "{counted}: {act:#}");
        }
        let cores = &act["cores"];
        let phases: f64 = ["asymmetric", "derivation", "records", "not_tls"]
            .iter()
            .map(|phase| cores[phase].as_f64().unwrap())
            .sum();
        assert!(
            phases > 0.0 && cores["workers"].as_f64().unwrap() > 0.0,
            "{act:#}"
        );
        assert!(act["p99_micros"].as_u64() >= act["p50_micros"].as_u64());
    }
    assert!(fired(&found, "hit_rate_low"), "{found:#}");
    let said = found["said"].as_array().unwrap();
    assert!(
        said.iter()
            .any(|line| line.as_str().unwrap().contains("no handshake can resume"))
    );
    assert!(
        left_behind(&folder).is_empty(),
        "{:?}",
        left_behind(&folder)
    );
}

#[test]
fn a_dearer_certificate_is_warned_of_alarmed_about_and_paid_for() {
    let folder = Folder::new();
    let ran = drill(
        &folder,
        &["rsa-renewal", "--quick", "--rate", "40", "--json"],
    );
    let found = json(&ran);
    assert_passed(&found);
    assert_code(&ran, &found);
    assert!(fired(&found, "certificate_dearer"), "{found:#}");
    let cost = |act: usize| found["acts"][act]["micros_per_full"].as_f64().unwrap();
    assert!(cost(1) > cost(0), "{found:#}");
    let said = found["said"].as_array().unwrap();
    assert!(
        said.iter()
            .any(|line| line.as_str().unwrap().contains("rsa-2048")),
        "{found:#}"
    );
}

#[test]
fn all_held_connections_come_back_at_once_and_resume() {
    let folder = Folder::new();
    let ran = drill(
        &folder,
        &["reconnect-storm", "--quick", "--held", "120", "--json"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let found = json(&ran);
    assert_passed(&found);
    let storm = &found["storm"];
    assert_eq!(storm["connections"].as_u64(), Some(120));
    assert_eq!(storm["failures"].as_u64(), Some(0));
    let rate = storm["hit_rate"].as_f64().unwrap();
    assert!((rate - 0.9).abs() < 1e-9, "{storm:#}");
    assert!(
        storm["peak_handshakes_per_second"].as_f64().unwrap() >= 10.0,
        "{storm:#}"
    );
    assert!(
        storm["memory_peak_bytes"].as_u64().unwrap() > 1 << 20,
        "{storm:#}"
    );
}

#[test]
fn a_cold_start_costs_what_was_foretold_until_clients_are_known_again() {
    let folder = Folder::new();
    let ran = drill(
        &folder,
        &["cold-start", "--quick", "--rate", "60", "--json"],
    );
    let found = json(&ran);
    assert_passed(&found);
    assert_code(&ran, &found);
    assert_forecast(&found);
    assert!(
        found["acts"][1]["hit_rate"].as_f64().unwrap() < 0.2,
        "{found:#}"
    );
    for recovery in found["recovery"].as_array().unwrap() {
        assert!(recovery["seconds"].as_f64().unwrap() >= 1.0, "{recovery}");
    }
    let curve = found["curve"].as_array().unwrap();
    let cold = |point: &&Value| point["at_seconds"].as_f64().unwrap() > 1.0;
    let lowest = curve
        .iter()
        .filter(cold)
        .filter_map(|point| point["hit_rate"].as_f64());
    assert!(lowest.fold(1.0, f64::min) < 0.1, "{curve:#?}");
    assert_eq!(
        expectation(&found, "operations that failed once")["value"].as_f64(),
        Some(0.0)
    );
}

/// A running instance with a control socket and a console of its own.
struct Instance {
    server: Server,
    _backend: Backend,
    file: PathBuf,
    text: String,
}

impl Instance {
    fn start() -> Self {
        let backend = http_backend(&Address::Loopback, None, "one", false);
        let place = Place::new();
        let config = place.config("http", &[&format!("http://{}", backend.address())]);
        let text = format!("{config}resumption:\n  lifetime: 1h # not too long\n");
        let server = Server::start(place, &text);
        let file = server.place.folder.path().join("tls.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        Self {
            server,
            _backend: backend,
            file,
            text,
        }
    }

    /// Arguments that name it.
    fn named(&self) -> Vec<String> {
        let console = format!("http://127.0.0.1:{}", self.server.place.console);
        let target = self.server.place.address().to_string();
        let file = self.file.to_str().unwrap();
        let words = [
            "--insecure",
            "--server-name",
            "localhost",
            "--instance",
            &console,
            "--target",
            &target,
            "--config",
            file,
        ];
        words.map(str::to_owned).into()
    }

    fn file_is_as_it_was(&self) -> bool {
        let copy = format!("{}.before-drill", self.file.display());
        std::fs::read_to_string(&self.file).unwrap() == self.text && !Path::new(&copy).exists()
    }
}

#[test]
fn a_named_instance_is_drilled_after_a_yes_and_left_as_it_was() {
    let folder = Folder::new();
    let instance = Instance::start();
    let named = instance.named();
    let mut arguments = vec![
        "resumption-off",
        "--quick",
        "--act",
        "3s",
        "--rate",
        "40",
        "--json",
    ];
    arguments.extend(named.iter().map(String::as_str));
    let refused = drill(&folder, &arguments);
    assert_eq!(refused.code, Some(2), "{}", refused.all());
    assert!(refused.err.contains("--yes"), "{}", refused.all());

    arguments.push("--yes");
    let ran = drill(&folder, &arguments);
    let found = json(&ran);
    let rate = |act: usize| found["acts"][act]["hit_rate"].as_f64().unwrap();
    assert!(
        rate(0) > 0.85 && rate(1) < 0.05 && rate(2) > 0.6,
        "{found:#}"
    );
    assert_eq!(
        expectation(&found, "operations that failed")["value"].as_f64(),
        Some(0.0)
    );
    assert!(instance.file_is_as_it_was());
    assert!(
        instance
            .server
            .get("/")
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn an_interrupted_drill_puts_back_what_it_changed() {
    let folder = Folder::new();
    let instance = Instance::start();
    let named = instance.named();
    let mut arguments = vec!["resumption-off", "--act", "1s", "--rate", "20", "--yes"];
    arguments.extend(named.iter().map(String::as_str));
    let mut child = drill_command(&folder, &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let now = || std::fs::read_to_string(&instance.file).unwrap();
    assert!(eventually(Duration::from_secs(60), || now().contains("tickets: false")));
    signal(child.id(), "INT");
    assert_eq!(wait(&mut child, Duration::from_secs(30)), Some(3));
    assert!(instance.file_is_as_it_was());
    assert!(
        instance
            .server
            .get("/")
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn drills_are_listed_and_wrong_words_are_told_apart_from_failures() {
    let folder = Folder::new();
    let list = drill(&folder, &[]);
    assert_eq!(list.code, Some(0), "{}", list.all());
    for name in [
        "resumption-off",
        "rsa-renewal",
        "reconnect-storm",
        "cold-start",
    ] {
        assert!(list.out.contains(name), "{}", list.all());
    }
    let cases: [(&[&str], &str); 7] = [
        (&["resumption-off", "--act", "1ms"], "1s to 1h"),
        (&["resumption-off", "--hit-rate", "1.5"], "0.9"),
        (&["resumption-off", "--rate", "0"], "1 to 100000"),
        (&["cold-start", "--return-after", "1h"], "200ms to 10m"),
        (&["reconnect-storm", "--held", "0"], "--held"),
        (
            &[
                "resumption-off",
                "--instance",
                "https://127.0.0.1:1",
                "--target",
                "127.0.0.1:1",
                "--yes",
            ],
            "ssh -L",
        ),
        (
            &[
                "resumption-off",
                "--instance",
                "127.0.0.1:1",
                "--target",
                "127.0.0.1:1",
                "--yes",
            ],
            "--config",
        ),
    ];
    for (arguments, words) in cases {
        let ran = drill(&folder, arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.all());
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.all());
    }
    let nobody = drill(
        &folder,
        &[
            "reconnect-storm",
            "--quick",
            "--instance",
            "127.0.0.1:1",
            "--target",
            "127.0.0.1:1",
            "--yes",
        ],
    );
    assert_eq!(nobody.code, Some(3), "{}", nobody.all());
    assert!(
        nobody.err.contains("http://127.0.0.1:1"),
        "{}",
        nobody.all()
    );
}
