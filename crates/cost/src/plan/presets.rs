//! Published arithmetic to take apart: workloads and unit costs as they were published, computed here, with a note
//! where the published result does not follow from them.

use super::{Known, KnownBytes, Origin, UnitCosts, Workload};

/// A published sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Its names; any of them will do.
    pub names: &'static [&'static str],
    /// What it is, in half a sentence.
    pub what: &'static str,
    /// The workload, as published.
    pub workload: Workload,
    /// Unit costs, as published.
    pub costs: UnitCosts,
    /// What to know about the published result, a sentence each.
    pub notes: &'static [&'static str],
}

/// All of them.
pub fn presets() -> Vec<Preset> {
    let mut all = of_cpu();
    all.extend(of_memory_and_time());
    all
}

fn of_cpu() -> Vec<Preset> {
    vec![
        Preset {
            names: &["payments", "cold-cache"],
            what: "14,000 full handshakes per second of 2 ms each",
            workload: workload(|it| it.connections_per_second = Some(14_000.0)),
            costs: costs(|it| it.full_micros = known(2_000.0)),
            notes: &[
                "the published result is 14 cores, half of it: 14000/s x 2 ms are 28000 ms of CPU in every second",
            ],
        },
        Preset {
            names: &["migration"],
            what: "14,000 full handshakes per second of 2.2 ms each, before a change from RSA to ECDSA",
            workload: workload(|it| it.connections_per_second = Some(14_000.0)),
            costs: costs(|it| it.full_micros = known(2_200.0)),
            notes: &[
                "the published result is 31 cores, which is 30.8 rounded",
                "CPU is said to have fallen from 78 % to 41 %, by 47 % absolute: it is 78 - 41 = 37 points, and 37 / 78 = 47 % relative",
            ],
        },
        Preset {
            names: &["appliance"],
            what: "20,000 handshakes per second at 2,000 per core, and 5 Gb/s at 1 Gb/s per core",
            workload: workload(|it| {
                it.connections_per_second = Some(20_000.0);
                it.gigabits_per_second = Some(5.0);
            }),
            costs: costs(|it| {
                it.full_micros = known(500.0);
                it.nanos_per_byte = known(8.0);
            }),
            notes: &[
                "2000 per core are 1000000 / 2000 = 500 µs each; 1 Gb/s per core is 8 ns per byte",
            ],
        },
        Preset {
            names: &["api"],
            what: "100,000 requests per second, each with a handshake of 50 µs and 4 KB at 1 ns per byte",
            workload: workload(|it| {
                it.requests_per_second = Some(100_000.0);
                it.connections_per_request = Some(1.0);
                it.bytes_per_request = Some(4_000.0);
            }),
            costs: costs(|it| {
                it.full_micros = known(50.0);
                it.request_nanos_per_byte = known(1.0);
            }),
            notes: &[
                "4 KB are taken as 4000 bytes; with 4096 bytes it is 5 + 0.4096 = 5.4096 cores, 5.41",
            ],
        },
        Preset {
            names: &["bulk"],
            what: "10 Gb/s at 1 ns per byte",
            workload: workload(|it| it.gigabits_per_second = Some(10.0)),
            costs: costs(|it| it.nanos_per_byte = known(1.0)),
            notes: &[
                "the published result is about 30 % of one core: 10 Gb/s are 1250000000 bytes/s, and at 1 ns each that is 1.25 cores, not 0.3",
            ],
        },
    ]
}

fn of_memory_and_time() -> Vec<Preset> {
    vec![
        Preset {
            names: &["memory-spike"],
            what: "50,000 handshakes in flight of 48 to 72 KB each",
            workload: workload(|it| it.in_flight = Some(50_000.0)),
            costs: costs(|it| it.handshake_bytes = Some(span("memory", 48_000.0, 72_000.0))),
            notes: &[
                "KB are taken as 1000 bytes",
                "memory follows handshakes in flight, which are rate x duration: 14000/s x 0.005 s = 70, and 70 x 64000 bytes = 4480000 bytes",
            ],
        },
        Preset {
            names: &["memory-floor"],
            what: "200,000 connections of 12 to 20 KB each",
            workload: workload(|it| it.connections = Some(200_000.0)),
            costs: costs(|it| it.connection_bytes = vec![span("memory", 12_000.0, 20_000.0)]),
            notes: &["KB are taken as 1000 bytes"],
        },
        Preset {
            names: &["early-data"],
            what: "a round trip of 30 ms spared on 100,000 requests per second",
            workload: workload(|it| {
                it.requests_per_second = Some(100_000.0);
                it.round_trip_seconds = Some(0.03);
            }),
            costs: UnitCosts::default(),
            notes: &["these are seconds that clients wait, all together; no CPU is spared"],
        },
    ]
}

fn workload(fill: impl FnOnce(&mut Workload)) -> Workload {
    let mut workload = Workload {
        origin: Origin::AsPublished,
        ..Workload::default()
    };
    fill(&mut workload);
    workload
}

fn costs(fill: impl FnOnce(&mut UnitCosts)) -> UnitCosts {
    let mut costs = UnitCosts::default();
    fill(&mut costs);
    costs
}

fn known(value: f64) -> Option<Known> {
    Some(Known {
        value,
        origin: Origin::AsPublished,
    })
}

fn span(what: &str, low: f64, high: f64) -> KnownBytes {
    KnownBytes {
        what: what.into(),
        low,
        high,
        origin: Origin::AsPublished,
    }
}
