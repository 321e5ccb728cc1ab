//! The binary, driven from outside by real clients in front of real backends.
//!
//! Each test has a folder, an authority, ports and a process of its own and waits for conditions,
//! never for time to pass. Set `TOLLGATE_BINARY` to test another build, such as a release build.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod alarms;
mod backend_faults;
mod bad_input;
mod balancing;
mod bench;
mod bench_experiments;
mod bench_memory;
mod browser;
mod cert;
mod certificates;
mod client_certificates;
mod configuration;
mod console;
mod demo;
mod devtools;
mod drill;
mod export;
mod framing;
mod http_mode;
mod ledger;
mod lifecycle;
mod limits;
mod load;
mod load_modes;
mod load_peers;
mod logs;
mod memory;
mod metrics;
mod observing;
mod page;
mod peers;
mod plan;
mod preface;
mod probe;
mod probe_looks;
mod probe_options;
mod probe_relay;
mod re_encryption;
mod reload;
mod resuming_peers;
mod resumption;
mod routing;
mod server;
mod systemd;
mod tcp_mode;
mod tls_clients;
mod tools;
mod top;
