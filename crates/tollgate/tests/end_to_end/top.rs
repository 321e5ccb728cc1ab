//! `tollgate top`, in a terminal and out of one.

use serde_json::Value;
use tollgate_testkit::{Address, Backend, Offer, http_backend};

use crate::server::{Place, Server, binary};
use crate::tools::{eventually, python};
use std::time::Duration;

const ENTER_SCREEN: &str = "\u{1b}[?1049h";
const LEAVE_SCREEN: &str = "\u{1b}[?1049l";

fn served() -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    (Server::start(place, &config), backend)
}

fn url(server: &Server) -> String {
    format!("http://127.0.0.1:{}", server.place.console)
}

/// `top` in a terminal of so many columns, driven by steps.
fn in_terminal(server: &Server, columns: u16, steps: &str) -> Value {
    let url = url(server);
    let program = binary();
    let columns = columns.to_string();
    let arguments = [
        &columns,
        "40",
        steps,
        program.to_str().unwrap(),
        "top",
        &url,
    ];
    let ran = python("terminal.py", &arguments, "");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let seen: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(seen["problem"], "", "{}", ran.out);
    seen
}

#[test]
fn one_frame_is_plain_text_with_what_was_served() {
    let (server, _backend) = served();
    for _ in 0..5 {
        server.get("/").unwrap();
    }
    let listener = server.address().to_string();
    let mut text = String::new();
    let shown = eventually(Duration::from_secs(10), || {
        let ran = server.place.tollgate(&["top", "--once", &url(&server)]);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        text = ran.out;
        text.contains("nothing_offered 100")
    });
    assert!(shown, "{text}");
    for word in [
        "full handshakes",
        "hit rate",
        "nothing_offered",
        "CPU",
        "dominates",
        "1 asymmetric",
        "6 resumption",
        "needed at 0 % hits",
        "established",
        &listener,
        "shop.test",
        "workers",
        "hit_rate_low",
        "configurations",
    ] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "escape codes in\n{text}");
}

#[test]
fn json_is_what_the_console_says() {
    let (server, _backend) = served();
    let ran = server.place.tollgate(&["top", "--json", &url(&server)]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let live: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(live["instance"]["workers"], 2);
    assert_eq!(
        live["listeners"][0]["listener"],
        server.address().to_string()
    );
}

#[test]
fn keys_turn_pages_a_resize_is_followed_and_the_terminal_is_given_back() {
    let (server, _backend) = served();
    let _open = server
        .client(&Offer::default())
        .connect(server.address(), "shop.test")
        .unwrap();
    let steps = r#"[["misses", "4"], ["established", "?"], ["everything", "2"],
                    ["asymmetric", "\t"], ["headroom", "RESIZE"], ["headroom", "p"], ["PAUSED", "q"]]"#;
    let seen = in_terminal(&server, 120, steps);
    assert_eq!(seen["code"], 0, "{seen}");
    assert_eq!(seen["restored"], true, "{seen}");
    let out = seen["out"].as_str().unwrap();
    assert!(out.contains(ENTER_SCREEN) && out.contains(LEAVE_SCREEN));
    assert!(out.trim_end().ends_with("\u{1b}[?25h") || out.contains("\u{1b}[?25h"));
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let (server, _backend) = served();
    let seen = in_terminal(&server, 100, r#"[["misses", "SIGTERM"]]"#);
    assert_eq!(seen["code"], 0, "{seen}");
    assert_eq!(seen["restored"], true, "{seen}");
    assert!(seen["out"].as_str().unwrap().contains(LEAVE_SCREEN));
}

#[test]
fn an_instance_that_goes_and_comes_back_is_found_again() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let path = place.write_config(&config);
    let (away, back) = (place.folder.join("away"), place.folder.join("back"));
    let url = format!("http://127.0.0.1:{}", place.console);
    let program = binary().to_str().unwrap().to_owned();
    let steps = serde_json::json!([
        ["nobody", format!("TOUCH:{}", away.display())],
        ["misses", format!("TOUCH:{}", back.display())],
        ["nobody", "q"],
    ]);
    let steps = steps.to_string();
    let terminal = std::thread::spawn(move || {
        let arguments = ["120", "40", steps.as_str(), program.as_str(), "top", &url];
        python("terminal.py", &arguments, "")
    });
    assert!(eventually(Duration::from_secs(30), || away.exists()));
    let mut command = std::process::Command::new(binary());
    command.arg("serve").arg(&path);
    let mut server = Server::spawn(place, &mut command);
    server.wait_ready();
    assert!(eventually(Duration::from_secs(30), || back.exists()));
    server.signal("TERM");
    assert_eq!(server.wait_exit(Duration::from_secs(20)), Some(0));
    let ran = terminal.join().unwrap();
    let seen: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(seen["problem"], "", "{seen}");
    assert_eq!(seen["code"], 0, "{seen}");
}

#[test]
fn nobody_there_is_said_with_a_way_out() {
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}", place.console);
    for command in ["--once", "--json"] {
        let ran = place.tollgate(&["top", command, &url]);
        assert_eq!(ran.code, Some(3), "{}", ran.all());
        assert!(ran.err.contains("nobody listens at"), "{}", ran.all());
    }
    let ran = place.tollgate(&["top", &url]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("--once"), "{}", ran.all());
    let ran = place.tollgate(&["top", "--once", "ftp://nowhere"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    let ran = place.tollgate(&["top", "--once", "--insecure", &url]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.err.contains("https://"), "{}", ran.all());
}
