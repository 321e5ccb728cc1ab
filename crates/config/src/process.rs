//! The sections about the whole process: listeners, resumption, log, workers, limits, timeouts and
//! control.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::address;
use crate::finding::Finding;
use crate::item::{Item, shown};
use crate::model::{
    AcceptMode, AccessLog, Limits, ListenAddress, Listener, LogFormat, LogTarget, Mode, Resumption,
    SocketFile, Span, Spanned, Timeouts, TrustedPeers, Workers,
};
use crate::section::{Section, Shape};
use crate::value::{self, complain};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Longest life of a ticket: RFC 8446, section 4.6.1.
const SEVEN_DAYS: Duration = Duration::from_secs(7 * 86_400);
const MILLISECOND: Duration = Duration::from_millis(1);

/// The words for [`Mode`].
pub const MODES: &[(&str, Mode)] = &[
    ("http", Mode::Http),
    ("tcp", Mode::Tcp),
    ("passthrough", Mode::Passthrough),
];

/// `listeners:`
pub fn listeners(top: &mut Section<'_>) -> Vec<Listener> {
    let listeners = top.sections(
        "listeners",
        "where clients connect; an address, or a mapping with more fields; at least one",
        Some("address"),
        |section| listener(section),
    );
    if top.place_of("listeners").is_none() {
        top.missing("listeners", "add\nlisteners:\n  - address: \"0.0.0.0:443\"");
    }
    let mut seen: HashMap<ListenAddress, Span> = HashMap::new();
    for Spanned { value, .. } in &listeners {
        let at = value.address.span;
        match seen.get(&value.address.value) {
            Some(first) if *first != at => {
                let line = top.desk.line(*first);
                top.desk.report(
                    Finding::error(Some(at), "two listeners have this address".into())
                        .label(format!("the first one is on line {line}"))
                        .help("remove one, or give it another port"),
                );
            }
            _ => {
                seen.insert(value.address.value.clone(), at);
            }
        }
    }
    listeners
        .into_iter()
        .map(|listener| listener.value)
        .collect()
}

fn listener(section: &mut Section<'_>) -> Option<Listener> {
    let about = "IP address and port, or unix:/path, or unix:@name";
    let address = section
        .field("address", Shape::Text("address"), "", about)
        .map(|item| {
            item.parse(address::listen).map(|value| Spanned {
                value,
                span: item.span(),
            })
        });
    if section.place_of("address").is_none() {
        section.missing("address", "write address: \"0.0.0.0:443\"");
    }
    let mode = section.choice(
        "mode",
        MODES,
        Mode::Http,
        "http",
        "what happens inside, for sites that name no mode",
    );
    let proxy_protocol = trusted_peers(
        section,
        "proxy_protocol",
        "networks that must send a PROXY header; the word unix for peers of a unix socket",
    );
    let socket = SocketFile {
        mode: section
            .field(
                "socket_mode",
                Shape::Text("octal file mode"),
                "what the umask leaves",
                "permissions of the unix socket",
            )
            .and_then(|item| item.parse(value::octal)),
        owner: name(
            section,
            "socket_owner",
            "user that owns the unix socket, name or number",
        ),
        group: name(
            section,
            "socket_group",
            "group that owns the unix socket, name or number",
        ),
    };
    let address = address??;
    if !matches!(address.value, ListenAddress::UnixPath(_)) {
        for field in ["socket_mode", "socket_owner", "socket_group"] {
            section.refuse(
                field,
                format!("`{field}` needs a socket in the file system"),
                "this listener has none",
                "remove the line, or listen on unix:/path",
            );
        }
    }
    Some(Listener {
        address,
        mode,
        proxy_protocol,
        socket,
    })
}

fn name(
    section: &mut Section<'_>,
    field: &'static str,
    about: &'static str,
) -> Option<Spanned<String>> {
    let item = section.field(field, Shape::Text("name or number"), "unchanged", about)?;
    let value = item.text()?.to_owned();
    Some(Spanned {
        value,
        span: item.span(),
    })
}

/// A list of networks and the word `unix`; `None` when absent.
pub fn trusted_peers(
    section: &mut Section<'_>,
    field: &'static str,
    about: &'static str,
) -> Option<TrustedPeers> {
    let shape = Shape::List(Box::new(Shape::Text("network, or unix")));
    let item = section.field(field, shape, "nobody", about)?;
    let mut peers = TrustedPeers::default();
    for entry in item.list() {
        match entry.scalar() {
            Some("unix") => peers.unix = true,
            _ => peers.networks.extend(entry.parse(value::network)),
        }
    }
    if peers
        .networks
        .iter()
        .any(|network| network.prefix_len() == 0)
    {
        item.warning(
            format!("`{}` trusts everybody", item.path),
            "any client may claim any address",
            "name the networks of the load balancers in front",
        );
    }
    Some(peers)
}

/// `resumption:`
pub fn resumption(section: &mut Section<'_>) -> Resumption {
    let tickets = section.flag(
        "tickets",
        true,
        "tickets that hold the session; false keeps state in the session cache",
    );
    let lifetime = section.duration(
        "lifetime",
        SECOND..=SEVEN_DAYS,
        6 * HOUR,
        "how long a client may resume",
    );
    let (key_issue, key_accept) =
        section.section("ticket_keys", "keys that seal tickets", ticket_keys);
    let entries = section.section(
        "session_cache",
        "state kept for TLS 1.2 session ids",
        |cache| {
            cache.count(
                "entries",
                0..=10_000_000,
                20_000,
                "sessions kept in this process; 0 turns the cache off",
            )
        },
    );
    if tickets && lifetime > key_accept {
        let at = section
            .place_of("lifetime")
            .or(section.place_of("ticket_keys"))
            .unwrap_or_default();
        section.desk.report(
            Finding::warning(
                Some(at),
                format!(
                    "tickets live {}, but their key is accepted only {} after it stops issuing",
                    value::duration_text(lifetime),
                    value::duration_text(key_accept)
                ),
            )
            .label("tickets made late in a key's life end early".into())
            .help(format!(
                "set ticket_keys: accept: {}, or a shorter lifetime",
                value::duration_text(lifetime)
            )),
        );
    }
    if let (false, 0, Some(at)) = (tickets, entries, section.place_of("tickets")) {
        section.desk.report(
            Finding::warning(Some(at), "no handshake can resume".into())
                .label("tickets are off, and the session cache has no entries".into())
                .help("keep one of the two; every handshake is a full one otherwise"),
        );
    }
    Resumption {
        tickets,
        lifetime,
        key_issue,
        key_accept,
        session_cache_entries: usize::try_from(entries).unwrap_or(usize::MAX),
    }
}

fn ticket_keys(section: &mut Section<'_>) -> (Duration, Duration) {
    let issue = section.duration(
        "issue",
        SECOND..=SEVEN_DAYS,
        DAY,
        "how long a key makes tickets",
    );
    let accept = section.duration(
        "accept",
        SECOND..=SEVEN_DAYS,
        6 * HOUR,
        "how much longer its tickets are accepted",
    );
    let shape = Shape::Text("memory");
    if let Some(item) = section.field(
        "store",
        shape,
        "memory",
        "where keys live; only memory for now",
    ) {
        match item.text() {
            Some("memory") | None => {}
            Some(store) => item.warning(
                format!("`{}: {}` is not used yet", item.path, shown(store)),
                "keys stay in the memory of this process",
                "a client that reaches another machine makes a full handshake; remove the line if there is one machine",
            ),
        }
    }
    (issue, accept)
}

/// `log:`
pub fn log(section: &mut Section<'_>) -> AccessLog {
    let shape = Shape::Text("stdout, off or a path");
    let about = "where access lines go: stdout, off, or a path";
    let target = section
        .field("access", shape, "off", about)
        .and_then(|item| log_target(&item))
        .unwrap_or(LogTarget::Off);
    let formats = &[("json", LogFormat::Json), ("logfmt", LogFormat::Logfmt)];
    let format = section.choice(
        "format",
        formats,
        LogFormat::Json,
        "json",
        "shape of a line",
    );
    let sample = section
        .field(
            "sample",
            Shape::Share,
            "1",
            "share of lines written; lines about errors always are",
        )
        .and_then(|item| {
            let share = item.parse(value::share)?;
            if share == 0.0 {
                item.warning(
                    format!("`{}` is 0", item.path),
                    "only lines about errors are written",
                    "write a share such as 0.01, or access: off",
                );
            }
            Some(share)
        })
        .unwrap_or(1.0);
    AccessLog {
        target,
        format,
        sample,
    }
}

fn log_target(item: &Item<'_>) -> Option<LogTarget> {
    match item.text()? {
        "off" | "false" => Some(LogTarget::Off),
        "stdout" | "-" | "/dev/stdout" => Some(LogTarget::Stdout),
        "stderr" | "/dev/stderr" => {
            item.complain(
                complain("is for messages of the process", "stdout, off or a path")
                    .help("write access: stdout"),
            );
            None
        }
        _ => item.path().map(LogTarget::File),
    }
}

/// `workers:`
pub fn workers(section: &mut Section<'_>) -> Workers {
    let shape = Shape::Either(vec![Shape::Choice(vec!["auto"]), Shape::Count(1..=1_024)]);
    let count = section
        .field(
            "count",
            shape,
            "auto",
            "workers; auto is one for each core that this process may use",
        )
        .filter(|item| item.scalar() != Some("auto"))
        .and_then(|item| {
            item.parse(|text| match value::count(text)? {
                count @ 1..=1_024 => Ok(count),
                _ => Err(complain("is out of range", "auto, or from 1 to 1024")
                    .help("write auto for one worker a core")),
            })
        })
        .and_then(|count| usize::try_from(count).ok());
    let modes = &[
        ("reuseport", AcceptMode::ReusePort),
        ("dispatch", AcceptMode::Dispatch),
    ];
    Workers {
        count,
        pin: section.flag("pin", false, "each worker stays on a core of its own"),
        accept: section.choice(
            "accept",
            modes,
            AcceptMode::ReusePort,
            "reuseport",
            "reuseport: the kernel spreads connections; dispatch: one worker deals them out",
        ),
    }
}

/// `limits:`
pub fn limits(section: &mut Section<'_>) -> Limits {
    let usize_of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let limits = Limits {
        connections: usize_of(section.count(
            "connections",
            1..=100_000_000,
            100_000,
            "open connections, all listeners",
        )),
        connections_per_client: usize_of(section.count(
            "connections_per_client",
            0..=100_000_000,
            0,
            "open connections of one address; 0 for no limit",
        )),
        handshakes: usize_of(section.count(
            "handshakes",
            1..=10_000_000,
            10_000,
            "handshakes in flight",
        )),
        header_bytes: usize_of(section.size(
            "header_bytes",
            1_024..=1_048_576,
            32_768,
            "size of one request head",
        )),
        header_count: usize_of(section.count(
            "header_count",
            1..=10_000,
            100,
            "fields of one request head",
        )),
        http2_streams: u32::try_from(section.count(
            "http2_streams",
            1..=100_000,
            128,
            "open HTTP/2 streams of one connection",
        ))
        .unwrap_or(128),
        http2_resets: usize_of(section.count(
            "http2_resets",
            1..=100_000,
            20,
            "unanswered HTTP/2 streams that a client may reset",
        )),
        body_bytes: section.size(
            "body_bytes",
            0..=u64::MAX / 2,
            0,
            "size of one request body; 0 for no limit",
        ),
    };
    if let (true, Some(at)) = (
        limits.handshakes > limits.connections,
        section.place_of("handshakes"),
    ) {
        section.desk.report(
            Finding::warning(
                Some(at),
                "more handshakes than connections are allowed".into(),
            )
            .label(format!("connections end at {}", limits.connections))
            .help("lower handshakes, or raise connections"),
        );
    }
    limits
}

/// `timeouts:`
pub fn timeouts(section: &mut Section<'_>) -> Timeouts {
    let short = MILLISECOND..=HOUR;
    let long = MILLISECOND..=SEVEN_DAYS;
    Timeouts {
        handshake: section.duration(
            "handshake",
            short.clone(),
            10 * SECOND,
            "from accept to the end of the handshake",
        ),
        header: section.duration(
            "header",
            short.clone(),
            10 * SECOND,
            "for a whole request head",
        ),
        idle: section.duration(
            "idle",
            long.clone(),
            Duration::from_secs(75),
            "between requests, http mode",
        ),
        tcp_idle: section.duration(
            "tcp_idle",
            long,
            HOUR,
            "without a byte either way, tcp and passthrough mode",
        ),
        stall: section.duration(
            "stall",
            short.clone(),
            20 * SECOND,
            "how long an awaited client may stay under min_rate",
        ),
        min_rate: section.size(
            "min_rate",
            0..=1 << 30,
            240,
            "bytes per second that an awaited client must send or take; 0 for any",
        ),
        connect: section.duration("connect", short, 2 * SECOND, "to connect to a backend"),
        response: section.duration(
            "response",
            MILLISECOND..=DAY,
            MINUTE,
            "from the end of a request to the head of its response",
        ),
        drain: section.duration(
            "drain",
            Duration::ZERO..=DAY,
            30 * SECOND,
            "for running connections to end after SIGTERM or an upgrade",
        ),
    }
}

/// `control:`
pub fn control(top: &mut Section<'_>) -> Option<Spanned<PathBuf>> {
    let default = || {
        let uid = rustix::process::geteuid().as_raw();
        let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Some(Spanned {
            value: default_control(uid, folder.as_deref()),
            span: Span::default(),
        })
    };
    let shape = Shape::Text("path, or off");
    let about = "unix socket that `tollgate reload` speaks to; off for none";
    let Some(item) = top.field(
        "control",
        shape,
        "/run/tollgate/control.sock for root, else $XDG_RUNTIME_DIR/tollgate/control.sock, else /tmp/tollgate-UID/control.sock",
        about,
    ) else {
        return default();
    };
    if matches!(item.scalar(), Some("off" | "false")) {
        return None;
    }
    let Some(path) = item.path() else {
        return default();
    };
    if path.value.as_os_str().len() > 107 {
        item.complain(
            complain(
                "is too long for a socket",
                "at most 107 bytes, with its folder",
            )
            .help("use a shorter folder, such as /run/tollgate"),
        );
    }
    Some(path)
}

/// Where the control socket is when the file says nothing.
///
/// `/run/tollgate/control.sock` for root, `$XDG_RUNTIME_DIR/tollgate/control.sock` when that variable
/// holds an absolute path, else `/tmp/tollgate-<uid>/control.sock`.
pub fn default_control(uid: u32, runtime_folder: Option<&Path>) -> PathBuf {
    match runtime_folder {
        _ if uid == 0 => PathBuf::from("/run/tollgate/control.sock"),
        Some(folder) if folder.is_absolute() => folder.join("tollgate/control.sock"),
        _ => PathBuf::from(format!("/tmp/tollgate-{uid}/control.sock")),
    }
}
