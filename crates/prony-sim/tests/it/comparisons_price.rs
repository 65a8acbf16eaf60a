//! What an undecided comparison says that it would take: against the rounds that the same
//! comparison takes if it goes on. Blocks are drawn: independent times with a known difference.

use prony_base::rng::{Sequence, Stream};
use prony_base::units::Span;
use prony_stats::comparison::{Comparison, Design, Figure, MARGIN, Measured, Outcome, Rounds};
use prony_tally::record::hist::Hist;

/// Undecided comparisons per row.
const RUNS: usize = 50;
/// Requests of a block.
const REQUESTS: u64 = 1_200;

/// A block with exponential times of 1 ms, `slower` times as long.
fn block(slower: f64, seed: u64) -> Hist {
    let (mut draws, mut hist) = (Sequence::new(seed, Stream::Serve), Hist::new());
    for _ in 0..REQUESTS {
        let time = slower * draws.exponential(Span::from_millis(1)).0 as f64;
        hist.record(Span(time.round() as u64));
    }
    hist
}

/// A comparison of one figure until it is decided, with these rounds at most.
fn compared(figure: Figure, slower: f64, most: u32, seed: u64) -> Comparison {
    let design = Design {
        targets: 2,
        figures: vec![figure],
        rounds: Rounds::UntilDecided(most),
        margin: MARGIN,
        limits: Vec::new(),
        seed,
    };
    let mut comparison = Comparison::new(design);
    while let Some(next) = comparison.next_block() {
        let slower = if next.target == 0 { 1.0 } else { slower };
        let response =
            block(slower, seed << 20 | u64::from(next.round) << 1 | u64::from(next.target));
        let (rate, ended) = (1e3, REQUESTS);
        let response = &response;
        let measured = Measured { response, rate, ended, failed: 0, cpu_ns: None, certain: None };
        comparison.record(next, &measured);
    }
    comparison
}

/// The rounds that it takes, as a multiple of those that were predicted: the median over
/// comparisons that ten rounds leave undecided.
fn median_ratio(figure: Figure, slower: f64) -> f64 {
    let ratio = |seed: u64| {
        let short = compared(figure, slower, 10, seed).so_far();
        let change = &short.targets[0].figures[0];
        if change.outcome != Outcome::Undecided {
            return None;
        }
        // A change that lies on the margin has no price, and takes for ever.
        let more = change.rounds_more(MARGIN).unwrap_or(f64::INFINITY);
        let long = compared(figure, slower, 180, seed).so_far();
        let is_decided = long.targets[0].figures[0].outcome != Outcome::Undecided;
        let took = if is_decided { f64::from(long.rounds) } else { f64::INFINITY };
        let predicted = f64::from(short.rounds) + more;
        Some(if took == predicted { 1.0 } else { took / predicted })
    };
    let mut all: Vec<f64> = (0..).filter_map(ratio).take(RUNS).collect();
    all.sort_by(f64::total_cmp);
    all[RUNS / 2]
}

/// Half as many to twice as many, for a difference and for its absence.
#[test]
fn the_price_of_a_decision_is_about_right() {
    for (figure, slower) in [
        (Figure::Mean, 1.0),
        (Figure::Mean, 1.03),
        (Figure::Mean, 1.04),
        (Figure::Percentile(50.0), 1.05),
        (Figure::Percentile(90.0), 1.04),
    ] {
        let ratio = median_ratio(figure, slower);
        assert!((0.5..=2.0).contains(&ratio), "{figure} {slower}: {ratio}");
    }
}
