//! The page of the console in a real browser: what it reads is what happened.

use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tollgate_testkit::{Address, Backend, http_backend};

use crate::devtools::Browser;
use crate::server::{Place, Server, binary};

/// A server in front of a backend, and what its configuration says besides.
struct Scene {
    server: Server,
    _backend: Backend,
    config: String,
}

impl Scene {
    fn new(more: &str) -> Self {
        let backend = http_backend(&Address::Loopback, None, "one", false);
        let place = Place::new();
        let to = format!("http://{}", backend.address());
        let config = place.config("http", &[&to]) + more;
        let server = Server::start(place, &config);
        Self {
            server,
            _backend: backend,
            config,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.server.place.console)
    }

    /// The page, once it shows a first event.
    fn page(&self) -> Option<Browser> {
        let mut browser = Browser::start()?;
        browser.screen(1440, 1000);
        browser.open(&self.url());
        browser.wait(LIVE);
        Some(browser)
    }
}

/// An open-loop run of `tollgate load tps` in the background; ended when dropped.
struct Load(Child);

impl Load {
    fn start(server: &Server, rate: &str, hit_rate: &str) -> Self {
        Self::with(server, &["tps", "--rate", rate, "--hit-rate", hit_rate])
    }

    /// The first argument is the mode.
    fn with(server: &Server, arguments: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command
            .args(["load", arguments[0], &server.address().to_string()])
            .args(&arguments[1..])
            .args([
                "--insecure",
                "--server-name",
                "shop.test",
                "--duration",
                "120s",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const LIVE: &str = "document.body.dataset.state === 'live' && Boolean(document.body.dataset.at)";

/// Texts of the element that `selector` finds after each of `events` live events to come.
fn follow(browser: &mut Browser, selector: &str, events: usize) -> Vec<String> {
    let script = format!(
        "new Promise((done) => {{
           const seen = [];
           const watch = new MutationObserver(() => {{
             seen.push(document.querySelector({selector:?}).textContent);
             if (seen.length < {events}) return;
             watch.disconnect();
             done(seen);
           }});
           watch.observe(document.body, {{ attributes: true, attributeFilter: ['data-at'] }});
         }})"
    );
    let seen = browser.value(&script);
    let texts = seen.as_array().unwrap().iter();
    texts
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// The number at the start of a text such as `1,204.5 /s`.
fn number(text: &str) -> f64 {
    let digits: String = text
        .chars()
        .take_while(|character| character.is_ascii_digit() || ",.".contains(*character))
        .filter(|character| *character != ',')
        .collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number in {text:?}"))
}

fn mean(texts: &[String]) -> f64 {
    texts.iter().map(|text| number(text)).sum::<f64>() / texts.len() as f64
}

const FULL: &str = "[data-figure=full_per_second]";
const HIT_RATE: &str = "[data-figure=hit_rate]";

#[test]
fn a_hundred_fresh_handshakes_per_second_read_a_hundred() {
    let scene = Scene::new("");
    let Some(mut browser) = scene.page() else {
        return;
    };
    let _load = Load::start(&scene.server, "100", "0");
    browser.wait(&format!(
        "parseFloat(document.querySelector('{FULL}').textContent) > 90"
    ));
    // The second in which the load began is not a whole one.
    follow(&mut browser, FULL, 1);
    let read = follow(&mut browser, FULL, 10);
    let mean = mean(&read);
    assert!((98.0..=102.0).contains(&mean), "{mean} of {read:?}");
    let graph =
        browser.value("document.querySelector('#rate .graph').getAttribute('aria-valuetext')");
    assert_eq!(graph, "now");
    assert_eq!(number(&browser.text(HIT_RATE)), 0.0, "nothing resumes");
    assert!(browser.text("#sites").contains("shop.test"));
    assert!(browser.text("#hits .legend").contains("nothing offered"));
    nothing_odd(&mut browser, &scene);
}

#[test]
fn a_hit_rate_of_nine_tenths_reads_so() {
    let scene = Scene::new("");
    let Some(mut browser) = scene.page() else {
        return;
    };
    let _load = Load::start(&scene.server, "200", "0.9");
    browser.wait("Number(document.body.dataset.handshakes) > 2000");
    let read = follow(&mut browser, HIT_RATE, 3);
    for text in &read {
        assert!((89.0..=91.0).contains(&number(text)), "{read:?}");
    }
    for title in ["The price of a miss", "How these come about", "saved now ="] {
        assert!(browser.text("#price").contains(title), "no {title}");
    }
    nothing_odd(&mut browser, &scene);
}

/// The page neither complained nor asked another host nor shows what is no number.
fn nothing_odd(browser: &mut Browser, scene: &Scene) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let asked = browser.asked_for();
    assert!(asked.len() > 10, "{asked:?}");
    for url in asked.iter().filter(|url| *url != "about:blank") {
        assert!(url.starts_with(&scene.url()), "{url} is not of this host");
    }
    no_nonsense(browser);
}

fn no_nonsense(browser: &mut Browser) {
    let text = browser.text("body");
    for word in ["NaN", "undefined", "Infinity", "null", "[object"] {
        assert!(!text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn a_fresh_server_shows_what_to_try() {
    let scene = Scene::new("");
    let Some(mut browser) = scene.page() else {
        return;
    };
    browser.wait("!document.querySelector('#empty').hidden");
    let line = format!("curl -k https://localhost:{}/", scene.server.place.port);
    assert!(browser.text("#empty").contains(&line));
    assert_eq!(browser.text(HIT_RATE), "–");
    nothing_odd(&mut browser, &scene);
    // What it proposes does what it says.
    scene.server.get("/").unwrap();
    browser.wait("document.querySelector('#empty').hidden");
}

#[test]
fn an_alarm_that_fires_and_a_reload_are_seen() {
    let scene = Scene::new(
        "alarms: { fresh_per_second_above: 20, hit_rate_below: off, worker_imbalance_above: off, hold: 1s }\n",
    );
    let Some(mut browser) = scene.page() else {
        return;
    };
    let load = Load::start(&scene.server, "60", "0");
    browser.wait("document.querySelector('#firing [data-alarm=fresh_rate_high]')?.dataset.state === 'firing'");
    browser.wait(
        "document.querySelector('#alarm-news').textContent.startsWith('Alarm: fresh rate high')",
    );
    browser.wait("Boolean(document.querySelector('#rate .mark[data-kind=alarm]'))");
    browser.wait("document.title.startsWith('(1!)')");
    assert!(browser.text("#alarms").contains("! firing"));
    let text = scene.config.replace("above: 20", "above: 2000");
    assert_eq!(scene.server.reload(&text).as_deref(), Some("succeeded"));
    // Within fourteen pixels the two marks are one, which is an alarm's; its text has both.
    browser.wait("[...document.querySelectorAll('#rate .mark')].some((mark) => mark.textContent.includes('reloaded'))");
    browser.wait("document.querySelectorAll('#configurations tbody tr').length === 2");
    browser.wait("document.querySelector('#firing').children.length === 0");
    browser
        .wait("document.querySelector('#alarm-news').textContent.startsWith('No alarm any more')");
    drop(load);
    nothing_odd(&mut browser, &scene);
}

#[test]
fn a_restart_of_the_server_is_survived_and_leaves_a_gap() {
    let place = Place::new();
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let config = place.write_config(&config);
    let serve = || {
        let mut command = Command::new(binary());
        command.arg("serve").arg(&config);
        let server = Server::spawn(Place::new(), &mut command);
        server.wait_ready();
        server
    };
    let first = serve();
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.screen(1440, 1000);
    browser.open(&format!("http://127.0.0.1:{}/", place.console));
    browser.wait(LIVE);
    browser.press("1");
    follow(&mut browser, FULL, 4);
    drop(first);
    browser.wait("document.body.dataset.state === 'lost'");
    assert!(browser.text("#state").contains("no answer"));
    // Long enough that a line across would be a lie: the page shows seconds.
    browser.wait(
        "parseFloat(document.querySelector('#state').textContent.replace(/[^0-9]/g, '')) >= 4",
    );
    let _second = serve();
    browser.wait(LIVE);
    browser.wait("Boolean(document.querySelector('#notices [data-key=restart]'))");
    assert!(browser.text("#notices").contains("started anew"));
    follow(&mut browser, FULL, 3);
    browser.value("document.querySelector('#rate .graph').focus()");
    let mut said = Vec::new();
    for _ in 0..40 {
        browser.press("ArrowLeft");
        let text =
            browser.value("document.querySelector('#rate .graph').getAttribute('aria-valuetext')");
        said.push(text.as_str().unwrap_or_default().to_owned());
    }
    let gap = said.iter().position(|text| text.contains("– full"));
    let before = said.iter().rposition(|text| text.contains("0 /s full"));
    assert!(
        gap.is_some() && gap < before,
        "no gap between points in {said:?}"
    );
    no_nonsense(&mut browser);
}

#[test]
fn the_keyboard_reaches_everything() {
    let scene = Scene::new("");
    let Some(mut browser) = scene.page() else {
        return;
    };
    browser.press("?");
    browser.wait("document.querySelector('#help').open");
    assert!(browser.text("#help").contains("the last ten minutes"));
    browser.press("Escape");
    browser.wait("!document.querySelector('#help').open");
    for (key, range) in [("1", "60"), ("3", "7200"), ("4", "86400"), ("2", "600")] {
        browser.press(key);
        browser.wait(&format!(
            "document.querySelector('#controls [aria-pressed=true]').dataset.value === '{range}'"
        ));
    }
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(ground);
    browser.press("t");
    assert_ne!(browser.value(ground), light);
    browser.press("s");
    browser.wait("document.querySelector('#phases').classList.contains('sources')");
    browser.press("m");
    browser.wait("document.querySelector('#mix [aria-pressed=true]').dataset.value === 'versions'");
    // Tab goes through all that can be used, and each place shows that it is there.
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab");
        reached.push(browser.value(
            "(() => { const at = document.activeElement; const style = getComputedStyle(at);
               return [(at.getAttribute('aria-label') ?? at.textContent).slice(0, 40) || at.tagName, style.outlineStyle !== 'none' || at.matches('.skip')]; })()",
        ));
    }
    for wanted in [
        "1 min",
        "all cores",
        "version",
        "Full handshakes per second",
        "where each figure comes from",
        "full /s",
    ] {
        assert!(
            reached
                .iter()
                .any(|at| at[0].as_str().is_some_and(|text| text.starts_with(wanted))),
            "{wanted} is not among {reached:?}"
        );
    }
    let dim: Vec<&Value> = reached
        .iter()
        .filter(|at| at[0] != "BODY" && at[1] == false)
        .collect();
    assert!(dim.is_empty(), "without a visible focus: {dim:?}");
}

#[test]
fn nothing_scrolls_sideways_on_a_phone() {
    let scene = Scene::new("alarms: { fresh_per_second_above: 5, hold: 1s }\n");
    let Some(mut browser) = scene.page() else {
        return;
    };
    let _load = Load::start(&scene.server, "40", "0.5");
    browser.wait("document.querySelector('#firing').children.length > 0");
    for theme in ["light", "dark"] {
        browser.prefers(theme);
        for width in [360, 390, 768, 1024, 1440] {
            browser.screen(width, 900);
            follow(&mut browser, FULL, 1);
            let scroll = browser.value("document.documentElement.scrollWidth - innerWidth");
            assert_eq!(scroll, 0, "at {width} in {theme}");
        }
    }
    nothing_odd(&mut browser, &scene);
}

/// Pictures for the documentation, when `TOLLGATE_SCREENSHOTS=1` asks for them: a minute and a half of a mixed load with a
/// reload in the middle.
#[test]
fn pictures_for_the_documentation() {
    if std::env::var_os("TOLLGATE_SCREENSHOTS").is_none() {
        eprintln!("skipped: set TOLLGATE_SCREENSHOTS=1 to make the pictures of docs/images anew");
        return;
    }
    let scene = Scene::new("");
    let Some(mut browser) = scene.page() else {
        return;
    };
    let loads = [
        vec!["tps", "--rate", "90", "--hit-rate", "0.92"],
        vec!["tps", "--rate", "12", "--hit-rate", "0.6", "--tls12"],
        vec!["tps", "--rate", "9", "--hit-rate", "0.5", "--rsa-only"],
        vec![
            "tps",
            "--rate",
            "14",
            "--hit-rate",
            "0.8",
            "--suites",
            "TLS_CHACHA20_POLY1305_SHA256",
            "--groups",
            "x25519",
        ],
        vec![
            "requests",
            "--rate",
            "250",
            "--connections",
            "6",
            "--path",
            "/bytes/20000",
        ],
    ];
    let _running = loads.map(|arguments| Load::with(&scene.server, &arguments));
    browser.wait("Number(document.body.dataset.handshakes) > 4000");
    let reloaded = scene.config.clone() + "limits: { connections: 5000 }\n";
    assert_eq!(scene.server.reload(&reloaded).as_deref(), Some("succeeded"));
    browser.wait("Number(document.body.dataset.handshakes) > 7000");
    for (name, theme, width, height) in [
        ("light", "light", 1440, 1740),
        ("dark", "dark", 1440, 1000),
        ("phone", "light", 390, 1560),
    ] {
        browser.prefers(theme);
        browser.screen(width, height);
        follow(&mut browser, FULL, 2);
        let picture = decoded(&browser.screenshot());
        assert!(
            picture.len() < 400_000,
            "{name} has {} bytes",
            picture.len()
        );
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("console-{name}.png")), picture).unwrap();
    }
    nothing_odd(&mut browser, &scene);
}

/// What base 64 stands for.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for character in text.bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        held = (held << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits).to_le_bytes()[0]);
        }
    }
    bytes
}

/// Contrast of all texts on all grounds that they stand on, by the formula of WCAG 2.2.
const CONTRASTS: &str = "(() => {
  const probe = document.createElement('span');
  document.body.append(probe);
  const light = (name) => {
    probe.style.color = `var(${name})`;
    const parts = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  for (const ground of ['--card', '--ground', '--raised']) {
    for (const text of ['--text', '--quiet', '--accent', '--good', '--warn', '--bad']) found.push([text, ground, contrast(text, ground), 4.5]);
  }
  for (const [text, ground] of [['--text', '--bad-ground'], ['--quiet', '--bad-ground'], ['--text', '--warn-ground'], ['--quiet', '--warn-ground'],
    ['--card', '--bad'], ['--card', '--warn'], ['--card', '--accent']]) found.push([text, ground, contrast(text, ground), 4.5]);
  for (const part of ['full', 'resumed', 'phase-1', 'phase-2', 'phase-3', 'phase-4', 'phase-5', 'phase-6', 'phase-0', 'mix-1', 'mix-2', 'mix-3', 'mix-4', 'mix-5', 'mix-6']) {
    found.push([`--${part}`, '--card', contrast(`--${part}`, '--card'), 3]);
  }
  return found.filter(([, , is, least]) => is < least);
})()";

#[test]
fn everything_can_be_read_in_both_themes() {
    let scene = Scene::new("");
    let Some(mut browser) = scene.page() else {
        return;
    };
    for theme in ["light", "dark"] {
        browser.prefers(theme);
        let faint = browser.value(CONTRASTS);
        assert_eq!(faint, serde_json::json!([]), "too faint in {theme}");
    }
}
