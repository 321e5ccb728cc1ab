//! Plans through their door.

use proptest::prelude::*;

use super::{
    Choice, Fleet, Known, KnownBytes, Origin, Plan, UnitCosts, Workload, migrate, plan, presets,
};
use crate::Sheet;

const SHEET: &str = include_str!("../../../console/tests/fixtures/sheet.json");

fn known(value: f64) -> Option<Known> {
    Some(Known {
        value,
        origin: Origin::Given,
    })
}

fn costs() -> UnitCosts {
    UnitCosts {
        full_micros: known(2_000.0),
        resumed_micros: known(50.0),
        nanos_per_byte: known(1.0),
        request_nanos_per_byte: known(1.0),
        handshake_bytes: Some(KnownBytes {
            what: "memory".into(),
            low: 48_000.0,
            high: 72_000.0,
            origin: Origin::Given,
        }),
        connection_bytes: vec![KnownBytes {
            what: "memory".into(),
            low: 12_000.0,
            high: 20_000.0,
            origin: Origin::Given,
        }],
        ..UnitCosts::default()
    }
}

fn shaking(rate: f64, hits: f64) -> Workload {
    Workload {
        connections_per_second: Some(rate),
        hits: Some(hits),
        ..Workload::default()
    }
}

fn of(certificate: &str) -> UnitCosts {
    UnitCosts {
        choice: Choice {
            certificate: certificate.into(),
            mode: "tcp".into(),
            ..Choice::default()
        },
        ..UnitCosts::default()
    }
}

fn cores(workload: &Workload) -> f64 {
    plan(workload, &costs()).unwrap().cores
}

fn preset(name: &str) -> Plan {
    let preset = presets()
        .into_iter()
        .find(|preset| preset.names.contains(&name))
        .unwrap();
    plan(&preset.workload, &preset.costs).unwrap()
}

#[test]
fn published_sums_come_out_as_they_follow_from_their_figures() {
    for (name, cores) in [
        ("payments", 28.0),
        ("cold-cache", 28.0),
        ("migration", 30.8),
        ("appliance", 15.0),
        ("api", 5.4),
        ("bulk", 1.25),
    ] {
        assert_eq!(preset(name).cores, cores, "{name}");
    }
    for (name, low, high) in [("memory-spike", 2.4e9, 3.6e9), ("memory-floor", 2.4e9, 4e9)] {
        let plan = preset(name);
        assert_eq!(
            (plan.memory_low_bytes, plan.memory_high_bytes),
            (low, high),
            "{name}"
        );
    }
    assert_eq!(
        preset("early-data").waiting.unwrap().seconds_per_second,
        3_000.0
    );
}

#[test]
fn bits_are_turned_into_bytes_and_a_rate_with_a_duration_into_handshakes_in_flight() {
    let bulk = Workload {
        gigabits_per_second: Some(8.0),
        ..Workload::default()
    };
    assert_eq!(cores(&bulk), 1.0);
    let spike = Workload {
        handshake_seconds: Some(0.005),
        ..shaking(14_000.0, 0.0)
    };
    let plan = plan(&spike, &costs()).unwrap();
    assert_eq!(
        (plan.memory_low_bytes, plan.memory_high_bytes),
        (70.0 * 48_000.0, 70.0 * 72_000.0)
    );
}

#[test]
fn a_cost_that_is_needed_and_not_known_is_named_with_both_ways_out() {
    let none = UnitCosts::default();
    let missing = plan(&shaking(100.0, 0.9), &none).unwrap_err();
    let said: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    for (said, option) in said.iter().zip(["--cost-handshake", "--cost-resumed"]) {
        assert!(
            said.contains(option) && said.contains("tollgate bench --out"),
            "{said}"
        );
    }
    // Without a hit nothing of a resumed handshake is needed; only 50 % hits stay unknown.
    let full = UnitCosts {
        full_micros: known(2_000.0),
        ..none
    };
    let plan = plan(&shaking(100.0, 0.0), &full).unwrap();
    assert_eq!(plan.at_hits[0].cores, None);
    assert_eq!(plan.at_hits[1].cores, Some(plan.cores));
}

#[test]
fn a_sheet_fills_in_what_is_not_given_and_takes_handshakes_apart() {
    let sheet = Sheet::from_json(SHEET).unwrap();
    let workload = Workload {
        gigabits_per_second: Some(10.0),
        connections: Some(1_000.0),
        ..shaking(14_000.0, 0.9)
    };
    let costs = of("ecdsa-p256").or_from(&sheet, "sheet.json", &workload);
    let plan = plan(&workload, &costs).unwrap();
    let phases: Vec<&str> = plan
        .cores_by_phase
        .iter()
        .map(|term| term.phase.as_str())
        .collect();
    assert_eq!(phases, ["1", "2", "3"]);
    assert_eq!(plan.memory_by_phase.len(), 2);
    let from = &plan.cores_by_phase[0].from;
    assert!(
        from.contains(&"sheet sheet.json of 2026-11-21".to_owned()),
        "{from:?}"
    );
    // 14000/s x (0.1 x 71.615 + 0.9 x 55.846) µs are 0.803920, and 10 Gb/s at 0.089862 ns 0.112328 cores.
    assert!((plan.cores - 0.916_247).abs() < 2e-6, "{}", plan.cores);

    // What is given goes first, and has no parts.
    let given = UnitCosts {
        full_micros: known(50.0),
        ..UnitCosts::default()
    };
    let given = given.or_from(&sheet, "sheet.json", &workload);
    assert_eq!(given.full_micros, known(50.0));
    assert_eq!(given.full_asymmetric_micros, None);
}

#[test]
fn a_dearer_certificate_costs_more_for_the_same_workload() {
    let sheet = Sheet::from_json(SHEET).unwrap();
    let workload = shaking(14_000.0, 0.0);
    let with = |certificate| of(certificate).or_from(&sheet, "sheet.json", &workload);
    let found = migrate(&workload, &with("rsa-2048"), &with("ecdsa-p256")).unwrap();
    let unknown = migrate(&workload, &of("rsa-3072"), &with("ecdsa-p256")).unwrap_err();
    assert_eq!(unknown[0].option, "--cost-before TIME");
    assert!(unknown[0].figure.contains("/rsa-3072/"), "{unknown:?}");
    assert_eq!(found.before.cores, 4.057_172);
    assert_eq!(found.after.cores, 1.002_61);
    assert_eq!(found.saved_cores, 3.054_562);
    assert_eq!(found.ratio, Some(4.05));
}

#[test]
fn a_node_is_spare_and_resumption_may_be_lost() {
    let plan = plan(&shaking(14_000.0, 0.9), &costs()).unwrap();
    // 14000 x (0.1 x 2000 + 0.9 x 50) µs.
    assert_eq!(plan.cores, 3.43);
    let fleet = |nodes| {
        Fleet {
            nodes: Some(nodes),
            vcpu: 2,
        }
        .holds(&plan)
    };
    let three = fleet(3);
    assert_eq!(
        (three.nodes_needed, three.nodes_needed_at_zero_hits),
        (3, Some(15))
    );
    let shares: Vec<Option<f64>> = three.uses.iter().map(|one| one.share).collect();
    assert_eq!(
        shares,
        [Some(0.5717), Some(0.8575), Some(4.6667), Some(7.0)]
    );
    assert_eq!((fleet(2).fits, three.fits), (Some(false), Some(true)));
    assert_eq!(fleet(1).uses[1].share, None);
}

proptest! {
    #[test]
    fn more_load_or_fewer_hits_never_need_less(
        rate in 0.0..1e6_f64, more in 0.0..1e6_f64, hits in 0.0..1.0_f64, fewer in 0.0..1.0_f64,
    ) {
        prop_assert!(cores(&shaking(rate + more, hits)) >= cores(&shaking(rate, hits)));
        prop_assert!(cores(&shaking(rate, hits * fewer)) >= cores(&shaking(rate, hits)) - 1e-5);
        let plan = plan(&shaking(rate.max(1.0), hits), &costs()).unwrap();
        let zero = plan.at_hits[1].cores.unwrap();
        prop_assert!(zero >= plan.cores - 1e-5);
    }

    #[test]
    fn terms_add_up_to_the_whole(
        rate in 0.0..1e6_f64, hits in 0.0..1.0_f64, gigabits in 0.0..1e3_f64, requests in 0.0..1e6_f64,
    ) {
        let bulk = Workload { gigabits_per_second: Some(gigabits), ..Workload::default() };
        let answers = Workload {
            requests_per_second: Some(requests), bytes_per_request: Some(4_000.0), ..Workload::default()
        };
        let all = Workload {
            gigabits_per_second: Some(gigabits), requests_per_second: Some(requests),
            bytes_per_request: Some(4_000.0), ..shaking(rate, hits)
        };
        let apart = cores(&shaking(rate, hits)) + cores(&bulk) + cores(&answers);
        prop_assert!((cores(&all) - apart).abs() < 1e-5);
    }

    #[test]
    fn connections_by_themselves_and_by_requests_are_the_same_handshakes(rate in 0.0..1e6_f64) {
        let by_requests = Workload {
            requests_per_second: Some(rate), connections_per_request: Some(1.0), hits: Some(0.5),
            ..Workload::default()
        };
        prop_assert_eq!(cores(&by_requests), cores(&shaking(rate, 0.5)));
    }

    #[test]
    fn whatever_is_asked_the_answer_is_a_number(rate in any::<f64>(), hits in any::<f64>()) {
        if let Ok(plan) = plan(&shaking(rate, hits), &costs()) {
            prop_assert!(plan.cores.is_finite());
        }
    }
}
