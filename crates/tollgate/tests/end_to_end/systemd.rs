//! What systemd sees: notifications and socket activation.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use tollgate_testkit::{Address, http_backend};

use crate::server::{Place, Server, binary};
use crate::tools::{eventually, script};

#[test]
fn readiness_reload_and_stopping_are_notified() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let socket = place.folder.join("notify.sock");
    let listener = UnixDatagram::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let config = place.config("http", &[&format!("http://{}", backend.address())]);
    let mut server = Server::start_with(place, &config, |command| {
        command.env("NOTIFY_SOCKET", &socket);
    });
    let mut said = String::new();
    let mut hear = |word: &str| {
        eventually(Duration::from_secs(10), || {
            let mut piece = [0; 4096];
            while let Ok(count) = listener.recv(&mut piece) {
                said.push_str(&String::from_utf8_lossy(&piece[..count]));
                said.push('\n');
            }
            let found = said.find(word).map(|at| at + word.len());
            found.is_some_and(|end| {
                said.drain(..end);
                true
            })
        })
    };
    assert!(hear("READY=1"));
    server.signal("HUP");
    assert!(hear("RELOADING=1"));
    assert!(hear("MONOTONIC_USEC="));
    assert!(hear("READY=1"));
    server.signal("TERM");
    assert!(hear("STOPPING=1"));
    assert_eq!(server.wait_exit(Duration::from_secs(20)), Some(0));
}

#[test]
fn sockets_handed_in_are_used() {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let text = place.config("http", &[&format!("http://{}", backend.address())]);
    let config = place.write_config(&text);
    let mut command = Command::new("python3");
    command
        .arg(script("activate.py"))
        .arg(place.address().to_string())
        .arg(binary())
        .arg("serve")
        .arg(&config);
    let server = Server::spawn(place, &mut command);
    server.wait_ready();
    for _ in 0..10 {
        assert!(server.get("/").unwrap().starts_with("HTTP/1.1 200"));
    }
    assert!(server.stderr().contains("handed in"), "{}", server.stderr());
}
