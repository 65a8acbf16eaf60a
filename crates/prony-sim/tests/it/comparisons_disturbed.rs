//! Comparisons with a meter that is off its processor for half of the time, in the virtual world:
//! how often a median that is 20 % longer is found within a minute, and how often one differs of
//! servers that are equal, also if the meter is disturbed only while it measures one of them.
//!
//! Few comparisons run with every test; `cargo xtask soak comparisons` makes more, and prints the
//! table of `docs/compare.md`.

use std::env;

use prony_base::units::Span;
use prony_plan::plan::{Plan, Stop};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::world::{Pauses, Setup};
use prony_stats::comparison::{
    Answer, Comparison, Design, Figure, MARGIN, Measured, Outcome, Rounds, block_length,
};
use prony_stats::summary::{RunInfo, Summary};

use crate::plans::{ms, open, summed};

const P50: Figure = Figure::Percentile(50.0);
/// Requests per second.
const RATE: f64 = 200.0;
const WARMUP: Span = Span::from_millis(500);
const MINUTE: Span = Span::from_secs(60);
/// Comparisons per row in every test run.
const RUNS: u64 = 12;

/// The blocks in which the meter is off its processor for 3 of every 6 ms: a time slice of another
/// process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbed {
    None,
    All,
    OfB,
}

#[derive(Clone, Copy)]
struct Row {
    latency: fn(f64) -> Latency,
    slower: f64,
    disturbed: Disturbed,
    figures: &'static [Figure],
}

/// The median of A in milliseconds.
const MEDIAN: f64 = 20.0;

fn log_normal(times: f64) -> Latency {
    let median = Span::from_secs_f64(MEDIAN * times / 1e3);
    Latency::LogNormal { median, sigma: 0.3 }
}

fn exponential(times: f64) -> Latency {
    Latency::Exponential(Span::from_secs_f64(MEDIAN * times / 1e3 / std::f64::consts::LN_2))
}

fn fixed(times: f64) -> Latency {
    Latency::Fixed(Span::from_secs_f64(MEDIAN * times / 1e3))
}

impl Row {
    fn block(self, target: u32, arrivals: u64, seed: u64) -> Summary {
        let length = block_length(self.figures, Some(RATE));
        let plan = open(RATE, Arrivals::Poisson, 0);
        let stop = Stop { duration: Some(length), ..Stop::default() };
        let plan = Plan { stop, warmup: WARMUP, seed: arrivals, ..plan };
        let latency = (self.latency)(if target == 0 { 1.0 } else { self.slower });
        let mut serve = Serve::new(ServerBehavior { latency, ..ServerBehavior::default() }, seed);
        let is_disturbed = match self.disturbed {
            Disturbed::None => false,
            Disturbed::All => true,
            Disturbed::OfB => target == 1,
        };
        let pauses = is_disturbed.then_some(Pauses::fixed(ms(6), ms(3)));
        let link = Link::with_latency(Span::from_micros(50));
        let setup = Setup { watch: false, pauses, ..Setup::new(link, seed) };
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        summed(&plan, RunInfo::default(), outcome)
    }

    /// Whether the median differs within a minute, and whether most blocks are disturbed.
    fn within_a_minute(self, seed: u64) -> (Outcome, Answer, bool) {
        let design = Design {
            targets: 2,
            figures: self.figures.to_vec(),
            rounds: Rounds::UntilDecided(54),
            margin: MARGIN,
            limits: Vec::new(),
            seed,
        };
        let round = (block_length(self.figures, Some(RATE)) + WARMUP) * 2;
        let mut comparison = Comparison::new(design);
        let (mut blocks, mut disturbed) = (0, 0);
        let outcome = |answer: &Answer| {
            let figures = &answer.targets[0].figures;
            figures.iter().find(|c| c.figure == P50).expect("the median").outcome
        };
        // The answers at the looks are those that count.
        let mut found = Outcome::Undecided;
        while let Some(block) = comparison.next_block() {
            if round * (u64::from(block.round) + 1) > MINUTE {
                break;
            }
            let number = seed << 20 | u64::from(block.round) << 2 | u64::from(block.target);
            let run = self.block(block.target, block.seed, number);
            let measured = Measured::of_run(&run, None);
            blocks += 1;
            disturbed += u32::from(measured.certain.is_some());
            comparison.record(block, &measured);
            let is_look = comparison.design().looks().contains(&comparison.rounds());
            if is_look && block.round + 1 == comparison.rounds() && found == Outcome::Undecided {
                found = outcome(&comparison.so_far());
            }
        }
        (found, comparison.so_far(), disturbed * 2 > blocks)
    }

    /// Of these comparisons: those in which the median is longer, and shorter, in B, those that
    /// say that it is the same, and those of which most blocks are disturbed.
    fn counts(self, seeds: std::ops::Range<u64>) -> [usize; 4] {
        let all: Vec<_> = seeds.map(|seed| self.within_a_minute(seed)).collect();
        let count = |what| all.iter().filter(|(outcome, ..)| *outcome == what).count();
        let disturbed = all.iter().filter(|(.., disturbed)| *disturbed).count();
        [count(Outcome::Higher), count(Outcome::Lower), count(Outcome::Same), disturbed]
    }
}

const ONLY_P50: &[Figure] = &[P50];

#[test]
fn a_median_that_is_20_percent_longer_is_found_within_a_minute() {
    for disturbed in [Disturbed::None, Disturbed::All] {
        for figures in [ONLY_P50, &Figure::USUAL[..]] {
            let row = Row { latency: log_normal, slower: 1.2, disturbed, figures };
            let [longer, shorter, same, busy] = row.counts(0..RUNS);
            assert_eq!([longer, shorter, same], [RUNS as usize, 0, 0], "{disturbed:?}");
            let expected = if disturbed == Disturbed::None { 0 } else { RUNS as usize };
            assert_eq!(busy, expected, "{disturbed:?}");
        }
    }
}

/// If only the blocks of B are disturbed, all medians of B are measured to be longer.
#[test]
fn what_the_meter_adds_is_no_difference_of_the_targets() {
    for disturbed in [Disturbed::None, Disturbed::All, Disturbed::OfB] {
        let row = Row { latency: fixed, slower: 1.0, disturbed, figures: ONLY_P50 };
        let [longer, shorter, ..] = row.counts(100..100 + RUNS);
        assert_eq!((longer, shorter), (0, 0), "{disturbed:?}");
    }
    let row = Row { latency: fixed, slower: 1.0, disturbed: Disturbed::OfB, figures: ONLY_P50 };
    let (_, answer, _) = row.within_a_minute(1);
    let median = &answer.targets[0].figures[0];
    assert!(median.is_due_to_meter, "{median:?}");
    assert!(median.as_measured.is_some_and(|i| i.lo > 0.05), "{median:?}");
}

/// Prints the table of `docs/compare.md`, for `cargo xtask soak comparisons`.
#[test]
fn table() {
    let runs = env::var("PRONY_COMPARISONS").ok().and_then(|n| n.parse::<u64>().ok());
    let Some(runs) = runs else { return };
    let first = 3 << 20;
    println!("\n| service times | disturbed blocks | figures | +20 % found | equal: differ |");
    println!("|---|---|---|---:|---:|");
    for (latency, name) in [
        (fixed as fn(f64) -> Latency, "20 ms"),
        (log_normal, "log-normal, median 20 ms, sigma 0.3"),
        (exponential, "exponential, median 20 ms"),
    ] {
        for disturbed in [Disturbed::None, Disturbed::All, Disturbed::OfB] {
            for (figures, which) in [(ONLY_P50, "p50"), (&Figure::USUAL[..], "all")] {
                let of = |slower| {
                    let row = Row { latency, slower, disturbed, figures };
                    row.counts(first..first + runs)
                };
                let share = |n: usize| 100.0 * n as f64 / runs as f64;
                let ([found, wrong, ..], [longer, shorter, ..]) = (of(1.2), of(1.0));
                let (found, alarms) = (share(found), share(longer + shorter));
                println!("| {name} | {disturbed:?} | {which} | {found:.1} % | {alarms:.1} % |");
                assert_eq!(wrong, 0);
                // The binomial 99.9 % quantile of 5 %.
                assert!(alarms <= 5.0 + 3.1 * (5.0 * 95.0 / runs as f64).sqrt(), "{alarms} %");
                // The medians of a second of exponential times differ by 14 %.
                if disturbed != Disturbed::OfB && !name.starts_with("exponential") {
                    assert!(found >= 95.0, "{name}, {disturbed:?}, {which}: {found} %");
                }
            }
        }
    }
}
