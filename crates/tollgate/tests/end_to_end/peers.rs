//! PROXY headers agreed on with nginx and HAProxy, in front of us and behind us.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollgate_testkit::{Address, Client, Offer, Socket, free_port, http_backend};

use crate::server::{Place, Server, get, signal};
use crate::tools::{eventually, find, wait};

/// A server that is not ours; ended when dropped.
pub struct Peer {
    child: Child,
    pub port: u16,
}

impl Peer {
    /// Starts `program`, its outputs into a file in `place` (see [`Peer::said`]), and waits until it listens.
    pub fn start(program: &str, arguments: &[&str], place: &Place, port: u16) -> Self {
        let path = find(program).unwrap_or_else(|| PathBuf::from(format!("/usr/sbin/{program}")));
        let output = File::create(place.folder.join(&log(port))).unwrap();
        let child = Command::new(path)
            .args(arguments)
            .current_dir(place.folder.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; ./test installs it"));
        let peer = Self { child, port };
        let listens = || TcpStream::connect(peer.address()).is_ok();
        assert!(
            eventually(Duration::from_secs(10), listens),
            "{program} does not listen; it said:\n{}",
            place.folder.read(&log(port))
        );
        peer
    }

    /// nginx with this text behind `events`.
    pub fn nginx(place: &Place, port: u16, body: &str) -> Self {
        let text = format!(
            "daemon off; master_process off; pid nginx-{port}.pid; error_log stderr;\nevents {{}}\n{body}\n"
        );
        Self::nginx_alone(place, port, &text)
    }

    /// nginx with this text and nothing else.
    fn nginx_alone(place: &Place, port: u16, text: &str) -> Self {
        let path = place.folder.write(&format!("nginx-{port}.conf"), text);
        let folder = place.folder.path().display().to_string();
        let arguments = [
            "-p",
            &folder,
            "-c",
            &path.display().to_string(),
            "-e",
            "stderr",
        ];
        Self::start("nginx", &arguments, place, port)
    }

    /// HAProxy with this text behind `defaults`.
    pub fn haproxy(place: &Place, port: u16, body: &str) -> Self {
        let text = format!(
            "defaults\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n{body}\n"
        );
        let path = place.folder.write(&format!("haproxy-{port}.cfg"), text);
        Self::start(
            "haproxy",
            &["-db", "-f", &path.display().to_string()],
            place,
            port,
        )
    }

    /// Hitch in front of a plaintext backend on 127.0.0.1; `pem` holds chain and key.
    pub fn hitch(place: &Place, port: u16, backend: u16, pem: &str) -> Self {
        let text = format!(
            "frontend = \"[127.0.0.1]:{port}\"\nbackend = \"[127.0.0.1]:{backend}\"\npem-file = \"{}\"\n\
             workers = 1\ndaemon = off\nlog-level = 1\n",
            place.folder.join(pem).display()
        );
        let path = place.folder.write(&format!("hitch-{port}.conf"), text);
        let config = format!("--config={}", path.display());
        // It refuses to serve as root, and cannot become somebody else unless it is root.
        let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let arguments = [config.as_str(), "--user=nobody"];
        Self::start("hitch", &arguments[..1 + usize::from(root)], place, port)
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// What it wrote to its outputs so far.
    pub fn said(&self, place: &Place) -> String {
        place.folder.read(&log(self.port))
    }
}

fn log(port: u16) -> String {
    format!("peer-{port}.log")
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Asked first: Hitch has a worker that only its parent ends.
        signal(self.child.id(), "TERM");
        let _ = wait(&mut self.child, Duration::from_secs(5));
    }
}

/// `backends:` with one that wants a PROXY header.
fn announced(place: &Place, mode: &str, port: u16, version: &str) -> String {
    let mut text = place.listener(mode);
    text.push_str("sites:\n  - names: [\"shop.test\"]\n    certificates: [{ chain: ecdsa.pem, key: ecdsa.key }]\n");
    text.push_str(&format!(
        "    backends: [{{ address: \"127.0.0.1:{port}\", proxy_protocol: {version} }}]\n"
    ));
    text
}

/// What the peer behind says of the client, and the port that the client really had.
fn told(place: Place, mode: &str, peer: &Peer, version: &str) -> (String, u16) {
    let text = announced(&place, mode, peer.port, version);
    let server = Server::start(place, &text);
    let socket = TcpStream::connect(server.address()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let client = Client::new(&server.place.authority, &Offer::default());
    let mut connection = client.over(Socket::Tcp(socket), "shop.test").unwrap();
    connection.write_all(get("/").as_bytes()).unwrap();
    let mut answer = vec![0; 4096];
    let length = connection.read(&mut answer).unwrap();
    (
        String::from_utf8_lossy(&answer[..length]).into_owned(),
        port,
    )
}

#[test]
fn nginx_behind_us_reads_both_versions() {
    for (mode, version) in [("http", "v1"), ("http", "v2"), ("tcp", "v1"), ("tcp", "v2")] {
        let place = Place::new();
        let port = free_port();
        let body = format!(
            "http {{ access_log off; server {{ listen 127.0.0.1:{port} proxy_protocol; \
             location / {{ return 200 \"from $proxy_protocol_addr:$proxy_protocol_port\\n\"; }} }} }}"
        );
        let peer = Peer::nginx(&place, port, &body);
        let (answer, client) = told(place, mode, &peer, version);
        assert!(
            answer.contains(&format!("from 127.0.0.1:{client}")),
            "{mode} {version}: {answer}"
        );
    }
}

#[test]
fn haproxy_behind_us_reads_the_authority_as_well() {
    let place = Place::new();
    let port = free_port();
    let body = format!(
        "frontend f\n  mode http\n  bind 127.0.0.1:{port} accept-proxy\n  http-request return status 200 content-type \
         text/plain lf-string \"from %[src]:%[src_port] for %[fc_pp_authority]\\n\""
    );
    let peer = Peer::haproxy(&place, port, &body);
    let (answer, client) = told(place, "http", &peer, "v2");
    assert!(
        answer.contains(&format!("from 127.0.0.1:{client} for shop.test")),
        "{answer}"
    );
}

/// The client that our log names when `peer` stands in front of us.
fn client_in_front(place: Place, start: impl Fn(&Place, u16, u16) -> Peer) {
    let backend = http_backend(&Address::Loopback, None, "one", false);
    let text = place.config("http", &[backend.address()]).replace(
        "mode: http\n",
        "mode: http\n    proxy_protocol: [\"127.0.0.0/8\"]\n",
    );
    let inner = place.port;
    let server = Server::start(place, &text);
    let peer = start(&server.place, free_port(), inner);
    let socket = TcpStream::connect(peer.address()).unwrap();
    let client = socket.local_addr().unwrap();
    let offer = Offer::default();
    let mut connection = Client::new(&server.place.authority, &offer)
        .over(Socket::Tcp(socket), "shop.test")
        .unwrap();
    connection.write_all(get("/status/200").as_bytes()).unwrap();
    assert!(connection.read(&mut [0; 100]).unwrap() > 0);
    drop(connection);
    let line = server.wait_log(|line| line["event"] == "request");
    assert_eq!(line["client"], client.to_string(), "{line}");
}

#[test]
fn haproxy_in_front_of_us_says_who_the_client_is() {
    client_in_front(Place::new(), |place, port, inner| {
        let body = format!(
            "listen l\n  mode tcp\n  bind 127.0.0.1:{port}\n  server s 127.0.0.1:{inner} send-proxy-v2"
        );
        Peer::haproxy(place, port, &body)
    });
}

#[test]
fn nginx_in_front_of_us_says_who_the_client_is() {
    client_in_front(Place::new(), |place, port, inner| {
        let body = format!(
            "stream {{ server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{inner}; proxy_protocol on; }} }}"
        );
        let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
        let load = if std::path::Path::new(module).exists() {
            format!("load_module {module};")
        } else {
            String::new()
        };
        let text = format!(
            "{load}\ndaemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {{}}\n{body}\n"
        );
        Peer::nginx_alone(place, port, &text)
    });
}
