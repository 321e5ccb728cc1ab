//! What a connection that does nothing may hold.

use tollgate_testkit::{Address, http_backend};

use crate::server::{Place, Server};
use crate::tools::python;

/// Memory of a process that no file backs, in bytes: heap and stacks, not the program's text.
fn anonymous_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("Anonymous:"))
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .sum::<u64>()
        * 1024
}

fn held(count: u32, bytes: &str, bound: u64) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let place = Place::new();
    let mut config = place.config("http", &[&format!("http://{}", backend.address())]);
    config.push_str("timeouts: { handshake: 60s }\n");
    let server = Server::start(place, &config);
    for _ in 0..20 {
        server.get("/").unwrap();
    }
    let port = server.place.port.to_string();
    let before = anonymous_bytes(server.pid());
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| python("hold.py", &[&port, &count.to_string(), bytes], ""));
        let all = server.wait_metrics(|metrics| {
            metrics.sum("tollgate_connections", &[]) >= f64::from(count) - 0.5
        });
        let each = || anonymous_bytes(server.pid()).saturating_sub(before) / u64::from(count);
        // What the burst of accepting took for a moment is given back a little later.
        crate::tools::eventually(std::time::Duration::from_secs(10), || each() <= bound);
        let each = each();
        // The holder leaves when its connections are closed.
        crate::server::signal(server.pid(), "KILL");
        let ran = holder.join().unwrap();
        if ran.out.contains("skipped") {
            eprintln!("skipped: {}", ran.out);
            return;
        }
        assert!(all, "{}", ran.all());
        eprintln!("{each} bytes for each of {count} connections that sent {bytes} bytes");
        assert!(each <= bound, "{each} bytes each");
    });
}

#[test]
fn a_silent_connection_holds_at_most_a_kilobyte() {
    held(5000, "0", 1024);
}

#[test]
fn half_a_hello_holds_at_most_sixteen_kilobytes() {
    held(1000, "8000", 16_384);
}
