//! What a connection that does nothing may hold.

use tollgate_testkit::{Address, http_backend};

use crate::server::{Place, Server};
use crate::tools::python;

/// Private memory of a process, in bytes.
fn private_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    text.lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
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
    let before = private_bytes(server.pid());
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| python("hold.py", &[&port, &count.to_string(), bytes], ""));
        let all = server.wait_metrics(|metrics| {
            metrics.sum("tollgate_connections", &[]) >= f64::from(count) - 0.5
        });
        let each = || private_bytes(server.pid()).saturating_sub(before) / u64::from(count);
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
    // One page of slack in a thousand connections each way for what the process does besides.
    held(5000, "0", 1100);
}

#[test]
fn half_a_hello_holds_at_most_sixteen_kilobytes() {
    held(1000, "8000", 16_384);
}
