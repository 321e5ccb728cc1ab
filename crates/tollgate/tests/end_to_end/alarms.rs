//! Alarms of a running server: on the console, in the log, at a webhook.

use std::net::TcpListener;

use tollgate_testkit::{Address, Backend, Client, LeafKind, Offer, Validity, http_backend};

use crate::server::{NAMES, Place, Server, get};

/// A server with these `alarms:`, in braces.
fn served(place: Place, alarms: &str) -> (Server, Backend) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let mut config = place.config("http", &[&format!("http://{}", backend.address())]);
    config.push_str(&format!("alarms: {alarms}\n"));
    (Server::start(place, &config), backend)
}

/// Waits until the alarm is in this state: 1 fires, 0 does not.
fn wait_alarm(server: &Server, name: &str, subject: &str, state: f64) -> bool {
    crate::tools::eventually(std::time::Duration::from_secs(40), || {
        server.metrics().series("tollgate_alarm").iter().any(|one| {
            one.label("alarm") == name
                && one.label("subject") == subject
                && (one.value - state).abs() < 0.1
        })
    })
}

fn handshakes(server: &Server, client: &Client, number: usize) {
    for _ in 0..number {
        let mut connection = client.connect(server.address(), "shop.test").unwrap();
        connection.exchange(&get("/status/200")).unwrap();
    }
}

#[test]
fn lost_resumption_fires_tells_the_webhook_and_goes_quiet_when_it_is_back() {
    let receiver = http_backend(&Address::Loopback, None, "receiver", false);
    let alarms = format!(
        "{{ hit_rate_below: 0.5, hold: 1s, webhook: \"http://{}/bytes/0?secret\" }}",
        receiver.address()
    );
    let (server, _backend) = served(Place::new(), &alarms);
    // Idle: every alarm that is on is there, and quiet.
    assert!(wait_alarm(&server, "hit_rate_low", "", 0.0));
    let metrics = server.metrics();
    assert!(metrics.series("tollgate_alarm").len() >= 9, "{metrics:?}");
    assert!(metrics.sum("tollgate_alarm", &[]) < 0.1, "{metrics:?}");

    let fresh = server.client(&Offer::default());
    handshakes(&server, &fresh, 100);
    assert!(
        wait_alarm(&server, "hit_rate_low", "", 1.0),
        "{}",
        server.stderr()
    );
    assert!(
        server.wait_stderr("warning: alarm hit_rate_low: "),
        "{}",
        server.stderr()
    );
    assert!(
        receiver.seen().wait(|seen| seen.heads().len() == 1),
        "{}",
        server.stderr()
    );
    let head = receiver.seen().heads().remove(0);
    assert!(
        head.starts_with("POST /bytes/0?secret HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("content-type: application/json"), "{head}");

    let resuming = server.client(&Offer {
        resume: true,
        ..Offer::default()
    });
    handshakes(&server, &resuming, 200);
    assert!(
        wait_alarm(&server, "hit_rate_low", "", 0.0),
        "{}",
        server.stderr()
    );
    assert!(
        server.wait_stderr("alarm hit_rate_low is quiet again"),
        "{}",
        server.stderr()
    );
    assert!(receiver.seen().wait(|seen| seen.heads().len() == 2));
    let changes = server
        .metrics()
        .sum("tollgate_alarm_changes_total", &[("alarm", "hit_rate_low")]);
    assert!((changes - 2.0).abs() < 0.1, "{changes}");
    assert!(!server.stderr().contains("secret"), "{}", server.stderr());
}

#[test]
fn a_webhook_that_never_answers_holds_nothing_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let alarms = format!(
        "{{ hit_rate_below: 0.5, hold: 1s, webhook: \"http://{}/\" }}",
        silent.local_addr().unwrap()
    );
    let (server, _backend) = served(Place::new(), &alarms);
    let fresh = server.client(&Offer::default());
    handshakes(&server, &fresh, 100);
    assert!(
        wait_alarm(&server, "hit_rate_low", "", 1.0),
        "{}",
        server.stderr()
    );
    // The receiver has the connection and says nothing; everything else goes on.
    let (_held, _) = silent.accept().unwrap();
    assert!(
        server
            .get("/status/200")
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    let resuming = server.client(&Offer {
        resume: true,
        ..Offer::default()
    });
    handshakes(&server, &resuming, 200);
    assert!(
        wait_alarm(&server, "hit_rate_low", "", 0.0),
        "{}",
        server.stderr()
    );
    assert!(
        server.wait_stderr("no answer within"),
        "{}",
        server.stderr()
    );
}

#[test]
fn a_certificate_that_ends_soon_fires_at_once_until_it_is_renewed() {
    let place = Place::new();
    let renew = |place: &Place, valid| {
        place
            .authority
            .server_valid(LeafKind::EcdsaP256, &NAMES, valid)
            .write(&place.folder, "ecdsa");
    };
    renew(&place, Validity::EndsSoon);
    let (server, _backend) = served(place, "{ hold: 10m }");
    let subject = "shop.test ecdsa-p256";
    assert!(
        wait_alarm(&server, "certificate_expiring", subject, 1.0),
        "{}",
        server.stderr()
    );
    assert!(server.wait_stderr("alarm certificate_expiring (shop.test ecdsa-p256): "));
    renew(&server.place, Validity::Now);
    let ran = server.place.tollgate(&["reload"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(
        wait_alarm(&server, "certificate_expiring", subject, 0.0),
        "{}",
        server.stderr()
    );
}

/// One site with the certificate `site.pem`, of this kind.
fn of_kind(place: &Place, kind: LeafKind) {
    place
        .authority
        .server(kind, &NAMES)
        .write(&place.folder, "site");
}

#[test]
fn a_dearer_certificate_fires_until_the_former_kind_is_back_or_it_is_allowed() {
    let place = Place::new();
    of_kind(&place, LeafKind::EcdsaP256);
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let mut config = place.listener("http");
    config.push_str(&format!(
        "sites: [{{ names: [shop.test], certificates: [{{ chain: site.pem, key: site.key }}], backends: [\"{}\"] }}]\n",
        backend.address()
    ));
    let server = Server::start(place, &config);
    assert!(wait_alarm(&server, "certificate_dearer", "", 0.0));
    let reload = |arguments: &[&str]| {
        let ran = server.place.tollgate(arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        ran.out
    };

    of_kind(&server.place, LeafKind::Rsa2048);
    let said = reload(&["reload"]);
    assert!(
        said.contains("was ecdsa-p256 and is now rsa-2048"),
        "{said}"
    );
    assert!(said.contains("--allow-dearer-certificate"), "{said}");
    assert!(
        wait_alarm(&server, "certificate_dearer", "shop.test", 1.0),
        "{}",
        server.stderr()
    );
    // Another reload of the same is no way to make it go away.
    let said = reload(&["reload"]);
    assert!(!said.contains("dearer"), "{said}");
    let again = server
        .metrics()
        .sum("tollgate_reloads_total", &[("result", "succeeded")]);
    assert!((again - 2.0).abs() < 0.1);
    assert!(wait_alarm(&server, "certificate_dearer", "shop.test", 1.0));

    of_kind(&server.place, LeafKind::EcdsaP256);
    reload(&["reload"]);
    assert!(
        wait_alarm(&server, "certificate_dearer", "", 0.0),
        "{}",
        server.stderr()
    );

    of_kind(&server.place, LeafKind::Rsa2048);
    let said = reload(&["reload", "--allow-dearer-certificate"]);
    assert!(
        said.contains("is now rsa-2048") && !said.contains("fires until"),
        "{said}"
    );
    assert!(
        wait_alarm(&server, "certificate_dearer", "", 0.0),
        "{}",
        server.stderr()
    );
    let changes = server.metrics().sum(
        "tollgate_alarm_changes_total",
        &[("alarm", "certificate_dearer")],
    );
    assert!(
        (changes - 2.0).abs() < 0.1,
        "fired once, quiet once: {changes}"
    );
}

#[test]
fn a_reload_takes_over_thresholds_and_forgets_nothing() {
    let (server, _backend) = served(Place::new(), "{ hit_rate_below: 0.5, hold: 1s }");
    let fresh = server.client(&Offer::default());
    handshakes(&server, &fresh, 100);
    assert!(
        wait_alarm(&server, "hit_rate_low", "", 1.0),
        "{}",
        server.stderr()
    );
    let config = std::fs::read_to_string(server.place.folder.join("tls.yaml")).unwrap();
    let off = config.replace("hit_rate_below: 0.5", "hit_rate_below: off");
    assert_eq!(
        server.reload(&off).as_deref(),
        Some("succeeded"),
        "{}",
        server.stderr()
    );
    assert!(
        server.wait_stderr("alarm hit_rate_low is quiet again: no longer judged"),
        "{}",
        server.stderr()
    );
    assert!(server.wait_metrics(|metrics| {
        !metrics
            .series("tollgate_alarm")
            .iter()
            .any(|one| one.label("alarm") == "hit_rate_low")
    }));
}
