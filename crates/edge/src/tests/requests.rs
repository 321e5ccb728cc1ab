//! Which backend a request goes to, whether it goes to a second one, and what the client is told.

use super::*;

/// Takes a connection, reads something, and closes without a word.
fn hang_up(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 1024]);
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn sites(backends: &[SocketAddr]) -> String {
    let backends: Vec<String> = backends
        .iter()
        .map(|backend| format!("\"{backend}\""))
        .collect();
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\nworkers: {{ count: 1 }}\nsites:\n\
         \x20 - names: [shop.example]\n    certificates: [{{ combined: /ecdsa }}]\n    backends: [{}]\n\
         \x20 - names: [other.example]\n    certificates: [{{ combined: /ecdsa }}]\n    backends: [\"127.0.0.1:1\"]\n",
        backends.join(", ")
    )
}

/// Sends one request on a connection of its own and returns the status.
async fn status(address: SocketAddr, request: &str) -> u16 {
    let mut client = client(address).await;
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 512];
    let read = client.read(&mut answer).await.unwrap();
    let line = String::from_utf8_lossy(&answer[..read]).into_owned();
    let code = line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|line| line.get(..3));
    match code.and_then(|code| code.parse().ok()) {
        Some(status) => status,
        None => panic!("no answer: {line}"),
    }
}

const GET: &str = "GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 4\r\n\r\nbody";

#[test]
fn a_request_that_reached_nobody_goes_to_the_next_backend_whatever_its_method() {
    for request in [GET, POST] {
        let (edge, address) = start(&sites(&[nobody(), backend(http)]));
        run(async {
            assert_eq!(status(address, request).await, 200);
            let snapshot = counted(&edge).await;
            assert_eq!(
                snapshot
                    .retries
                    .iter()
                    .map(|series| series.count)
                    .sum::<u64>(),
                1
            );
            let failure = &snapshot.backend_failures[0];
            assert_eq!(failure.labels.reason, "connection_refused");
        });
        edge.finish();
    }
}

#[test]
fn a_request_that_may_have_been_carried_out_is_repeated_only_when_that_is_harmless() {
    for (request, expected) in [(GET, 200), (POST, 502)] {
        let (edge, address) = start(&sites(&[backend(hang_up), backend(http)]));
        run(async {
            assert_eq!(status(address, request).await, expected, "{request}");
            drop(counted(&edge).await);
        });
        edge.finish();
    }
}

#[test]
fn the_last_backend_is_not_counted_as_retried() {
    let (edge, address) = start(&sites(&[nobody()]));
    run(async {
        assert_eq!(status(address, GET).await, 502);
        let snapshot = counted(&edge).await;
        assert_eq!(
            snapshot
                .retries
                .iter()
                .map(|series| series.count)
                .sum::<u64>(),
            0
        );
        assert_eq!(snapshot.requests[0].labels.code, 502);
    });
    edge.finish();
}

#[test]
fn a_host_of_another_site_is_misdirected_and_one_of_nobody_too() {
    let (edge, address) = start(&sites(&[backend(http)]));
    run(async {
        for (host, expected) in [
            ("shop.example", 200),
            ("SHOP.example.", 200),
            ("shop.example:8443", 200),
            ("other.example", 421),
            ("nobody.example", 421),
            ("127.0.0.1", 421),
            ("[::1]", 421),
        ] {
            let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
            assert_eq!(status(address, &request).await, expected, "{host}");
        }
        drop(counted(&edge).await);
    });
    edge.finish();
}

#[test]
fn a_reload_keeps_running_connections_and_serves_new_ones_by_the_new_file() {
    let (mut edge, address) = start(&sites(&[backend(http)]));
    run(async {
        let mut old = client(address).await;
        for _ in 0..3 {
            let (config, live) = built(&sites(&[nobody()]));
            edge.reload(&config, live, None).unwrap();
        }
        // Answered once the worker has swapped: commands are obeyed in order.
        assert_eq!(edge.report().await.len(), 1);
        assert_eq!(status(address, GET).await, 502);
        old.write_all(GET.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        old.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    });
    edge.finish();
}
