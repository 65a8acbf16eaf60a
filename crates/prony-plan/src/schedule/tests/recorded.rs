//! The schedule of a seed is the same in every version: these are recorded.

use super::*;

/// How many, the first, the last, and a hash (FNV-1a) of the times of all.
fn recorded(plan: &Plan) -> (usize, u64, u64, String) {
    let times: Vec<u64> = all(plan).iter().map(|a| a.at.0).collect();
    let hash = times
        .iter()
        .flat_map(|t| t.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    (times.len(), times[0], times[times.len() - 1], format!("{hash:016x}"))
}

/// A ramp, a steady rate, a pause, a ramp down to a fraction of an arrival.
fn of_pieces(arrivals: Arrivals) -> Plan {
    let pieces = [
        piece(200.0, 1000.0, 2.0),
        piece(1000.0, 1000.0, 1.0),
        piece(0.0, 0.0, 1.5),
        piece(50.0, 0.3, 4.0),
    ];
    Plan { seed: 7, ..plan(rate(&pieces), arrivals) }
}

#[test]
fn schedules_of_several_pieces_never_change() {
    let of = |arrivals| recorded(&of_pieces(arrivals));
    let bound = |plan: Plan| {
        let stop = Stop { requests: Some(1000), ..plan.stop };
        recorded(&Plan { stop, ..plan })
    };
    expect_test::expect![[r#"
        [
            (
                "fixed",
                (
                    2301,
                    0,
                    8212435948,
                    "e3c96e02055fcf88",
                ),
            ),
            (
                "poisson",
                (
                    2275,
                    4361549,
                    8228014792,
                    "9d192ec54d773508",
                ),
            ),
            (
                "gamma",
                (
                    2286,
                    9080520,
                    8290491146,
                    "87480aa5a80cc1b9",
                ),
            ),
            (
                "uniform",
                (
                    1000,
                    2918428,
                    2467307011,
                    "9edff52a9060ca02",
                ),
            ),
        ]
    "#]]
    .assert_debug_eq(&[
        ("fixed", of(Arrivals::Fixed)),
        ("poisson", of(Arrivals::Poisson)),
        ("gamma", of(Arrivals::Gamma(0.5))),
        ("uniform", bound(of_pieces(Arrivals::Uniform(Span(1_000), Span(5_000_000))))),
    ]);
}

#[test]
fn schedules_of_shares_never_change() {
    let of = |arrivals: Arrivals, i| {
        let mut plan = of_pieces(arrivals);
        // Each share has as many connections, and so every third arrival.
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = 9;
        }
        recorded(&plan.shard(i, 3))
    };
    expect_test::expect![[r#"
        [
            (
                "fixed",
                (
                    767,
                    0,
                    7876770139,
                    "40f2a6aed817fb3e",
                ),
            ),
            (
                "poisson, first",
                (
                    759,
                    4361549,
                    8228014792,
                    "1e5e616ef5d285bc",
                ),
            ),
            (
                "poisson, last",
                (
                    758,
                    5134154,
                    8067622099,
                    "9c2042fc96468499",
                ),
            ),
            (
                "gamma, second",
                (
                    749,
                    7001589,
                    7813046106,
                    "a12bb6b29d09f574",
                ),
            ),
        ]
    "#]]
    .assert_debug_eq(&[
        ("fixed", of(Arrivals::Fixed, 0)),
        ("poisson, first", of(Arrivals::Poisson, 0)),
        ("poisson, last", of(Arrivals::Poisson, 2)),
        ("gamma, second", of(Arrivals::Gamma(2.0), 1)),
    ]);
}
