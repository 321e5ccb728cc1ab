//! A real browser, driven over its DevTools protocol: one page, watched and asked.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::tools::{eventually, find};
use tollgate_testkit::Folder;

/// No answer and no condition is waited for longer.
const BOUND: Duration = Duration::from_secs(60);

/// The protocol goes over descriptors 3 and 4 of the browser; a child of ours has 0 and 1.
const OVER_PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2 2>/dev/null";

/// Chromium with one page; ended when dropped.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    messages: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    seen: Vec<Value>,
    _profile: Folder,
}

impl Browser {
    /// Starts Chromium with an empty page; `None` where it is not installed.
    pub fn start() -> Option<Self> {
        let Some(program) = find("chromium").or_else(|| find("google-chrome")) else {
            eprintln!("skipped: chromium is not installed");
            return None;
        };
        let profile = Folder::new();
        let mut child = Command::new("bash")
            .args(["-c", OVER_PIPES])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let each = BufReader::new(from).split(0).map_while(Result::ok);
            for message in each.filter_map(|bytes| serde_json::from_slice(&bytes).ok()) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            to,
            messages,
            asked: 0,
            session: None,
            seen: Vec::new(),
            _profile: profile,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        // Keys go to a page that has the focus, which one without a window has not always.
        self.call(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        );
    }

    /// Asks, and waits for the answer; an error of the protocol is a failure of the test.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(b"\0").unwrap();
        let deadline = Instant::now() + BOUND;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(answer) = self.messages.recv_timeout(left) else {
                panic!("no answer to {method} in time");
            };
            if answer["id"] != self.asked {
                self.seen.push(answer);
                continue;
            }
            assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
            return answer["result"].clone();
        }
    }

    /// A screen of this size; a phone below 500 pixels of width.
    pub fn screen(&mut self, width: u32, height: u32) {
        let phone = width < 500;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}),
        );
    }

    /// What the system prefers: `light` or `dark`.
    pub fn prefers(&mut self, theme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": theme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// Value of an expression, which may be a promise. One that throws is a failure of the test.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true}),
        );
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].clone()
    }

    /// Waits until `expression` is true; while it throws it is not, because elements may be yet to come.
    pub fn wait(&mut self, expression: &str) {
        let tried =
            format!("(() => {{ try {{ return {expression}; }} catch {{ return false; }} }})()");
        let held = eventually(BOUND, || self.value(&tried) == json!(true));
        assert!(
            held,
            "never true: {expression}; the page says:\n{}",
            self.text("body")
        );
    }

    /// Text of the first element that `selector` finds, as it is seen.
    pub fn text(&mut self, selector: &str) -> String {
        let found = self.value(&format!("document.querySelector({selector:?})?.innerText"));
        found.as_str().unwrap_or_default().to_owned()
    }

    /// Presses and releases a key, as `KeyboardEvent.key` names it.
    pub fn press(&mut self, key: &str) {
        // What the browser itself does for a key goes by its number.
        let number = match key {
            "Tab" => 9,
            "Escape" => 27,
            "ArrowLeft" => 37,
            _ => 0,
        };
        let text = if number == 0 { key } else { "" };
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": number}),
            );
        }
    }

    /// What the screen shows, as a PNG in base 64.
    pub fn screenshot(&mut self) -> String {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        shot["data"].as_str().unwrap().to_owned()
    }

    /// Parameters of all events of this name so far.
    pub fn events(&mut self, name: &str) -> Vec<Value> {
        self.value("1");
        let named = self.seen.iter().filter(|event| event["method"] == name);
        named.map(|event| event["params"].clone()).collect()
    }

    /// What the page complained of so far: exceptions, errors on the console, resources that did not come.
    pub fn complaints(&mut self) -> Vec<String> {
        let mut all: Vec<String> = self
            .events("Runtime.exceptionThrown")
            .iter()
            .map(Value::to_string)
            .collect();
        for entry in self.events("Log.entryAdded") {
            if entry["entry"]["level"] == "error" {
                all.push(entry["entry"].to_string());
            }
        }
        for call in self.events("Runtime.consoleAPICalled") {
            if call["type"] == "error" || call["type"] == "warning" {
                all.push(call["args"].to_string());
            }
        }
        all
    }

    /// Every address that the page asked so far.
    pub fn asked_for(&mut self) -> Vec<String> {
        let events = self.events("Network.requestWillBeSent");
        let urls = events
            .iter()
            .filter_map(|event| event["request"]["url"].as_str());
        urls.map(str::to_owned).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
