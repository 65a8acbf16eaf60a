use prony_base::units::Span;
use prony_tally::record::hist::Hist;

use super::*;
use crate::summary::{Between, Certain};

fn design(rounds: Rounds) -> Design {
    Design {
        targets: 2,
        figures: Figure::USUAL.to_vec(),
        rounds,
        margin: MARGIN,
        limits: Vec::new(),
        seed: 7,
    }
}

/// 1,000 times around that many microseconds, which differ a little from block to block.
fn times(us: f64, noise: f64) -> Hist {
    let mut hist = Hist::new();
    for i in 0..1_000_u32 {
        let spread = f64::from(i) / 1_000.0 + 0.5;
        hist.record(Span((us * 1e3 * spread * (1.0 + noise)) as u64));
    }
    hist
}

fn measured(response: &Hist, failed: u64) -> Measured<'_> {
    Measured { response, rate: 100.0, ended: 1_000, failed, cpu_ns: None, certain: None }
}

/// Runs it with B's times `ratio` times those of A, and 1 % of noise between blocks.
fn run(design: Design, ratio: f64) -> Answer {
    let mut comparison = Comparison::new(design);
    let mut rng = Sequence::new(3, Stream::Pick);
    while let Some(block) = comparison.next_block() {
        let us = if block.target == 0 { 500.0 } else { 500.0 * ratio };
        let hist = times(us, 0.01 * rng.normal());
        comparison.record(block, &measured(&hist, 0));
    }
    comparison.answer()
}

fn outcome_of(answer: &Answer, name: &str) -> Outcome {
    let figures = &answer.targets[0].figures;
    figures.iter().find(|f| f.figure.to_string() == name).expect(name).outcome
}

#[test]
fn p13_a_round_has_each_target_once_with_one_seed() {
    let mut comparison = Comparison::new(Design { targets: 4, ..design(Rounds::Exactly(50)) });
    let hist = times(500.0, 0.0);
    let (mut blocks, mut firsts) = (Vec::new(), [0; 4]);
    while let Some(block) = comparison.next_block() {
        assert_eq!(comparison.next_block(), Some(block), "it stays until it is recorded");
        comparison.record(block, &measured(&hist, 0));
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 200);
    for round in blocks.chunks(4) {
        let mut targets: Vec<u32> = round.iter().map(|b| b.target).collect();
        firsts[targets[0] as usize] += 1;
        targets.sort_unstable();
        assert_eq!(targets, [0, 1, 2, 3]);
        assert!(round.iter().all(|b| (b.seed, b.round) == (round[0].seed, round[0].round)));
    }
    assert!(firsts.iter().all(|&n| n >= 4), "{firsts:?}");
    assert_ne!(blocks[0].seed, blocks[4].seed);
}

#[test]
fn the_error_probabilities_of_all_looks_and_figures_sum_to_five_percent() {
    for rounds in [Rounds::UntilDecided(54), Rounds::Exactly(20)] {
        for targets in [2, 3] {
            let design = Design { targets, ..design(rounds) };
            let looks: f64 = design.looks().iter().map(|&n| design.error(n)).sum();
            let all = looks * f64::from(targets - 1) * design.figures.len() as f64;
            assert!((all - ERROR).abs() < 1e-12, "{all}");
        }
    }
    // Between two looks, the error probability is that of the next.
    let design = design(Rounds::UntilDecided(54));
    assert_eq!(design.error(7), design.error(10));
    assert_eq!(design.error(2), design.error(6));
}

#[test]
fn a_large_change_is_found_at_the_first_look() {
    let answer = run(design(Rounds::UntilDecided(54)), 1.3);
    assert_eq!(answer.rounds, 6);
    for name in ["mean", "p50", "p90", "p99"] {
        assert_eq!(outcome_of(&answer, name), Outcome::Higher, "{name}");
    }
    let p50 = &answer.targets[0].figures[1];
    let Interval { lo, hi } = p50.interval.expect("an interval");
    assert!(lo < 1.3_f64.ln() && 1.3_f64.ln() < hi && hi - lo < 0.2, "{p50:?}");
    assert_eq!(outcome_of(&answer, "rate"), Outcome::Same);
    assert_eq!(outcome_of(&answer, "p99.9"), Outcome::Undecided);
    let missing = Some(Missing::TooFewInAll { needs: 40_000 });
    assert_eq!(answer.targets[0].figures[4].missing, missing);
    assert!(answer.differs());
}

#[test]
fn equal_servers_are_the_same_within_the_margin() {
    let answer = run(design(Rounds::UntilDecided(54)), 1.0);
    assert!(answer.rounds <= 36, "{}", answer.rounds);
    for name in ["mean", "p50", "p90", "p99"] {
        assert_eq!(outcome_of(&answer, name), Outcome::Same, "{name}");
    }
    assert!(!answer.differs() && answer.is_decided());
    // A change of 1 % is one, and does not matter.
    let answer = run(design(Rounds::Exactly(200)), 1.01);
    assert_eq!(outcome_of(&answer, "p50"), Outcome::Same);
    assert!(answer.targets[0].figures[1].interval.is_some_and(|i| i.lo > 0.0));
}

#[test]
fn limits_end_a_comparison_and_are_decided_by_the_interval() {
    let of = |limit: &str, ratio: f64| {
        let limits = vec![limit.parse().expect(limit)];
        let design = Design { limits, figures: Vec::new(), ..design(Rounds::UntilDecided(54)) };
        let answer = run(design.with_figures_of_limits(), ratio);
        (answer.targets[0].limits[0].1, answer.rounds)
    };
    assert_eq!(of("p99 > +5%", 1.3), (Held::Fails, 6));
    assert_eq!(of("p99 > +5%", 1.0), (Held::Holds, 6));
    assert_eq!(of("rate < -3%", 1.0), (Held::Holds, 6));
    let (at_the_limit, rounds) = of("p99 > +5%", 1.05);
    assert_eq!(at_the_limit, Held::Unknown);
    assert!((16..=54).contains(&rounds), "{rounds}");
}

#[test]
fn shares_of_failures_are_compared_by_their_difference() {
    let of = |rounds: u32, a: u64, b: u64| {
        let mut comparison = Comparison::new(design(Rounds::Exactly(rounds)));
        let hist = times(500.0, 0.0);
        while let Some(block) = comparison.next_block() {
            let failed = if block.target == 0 { a } else { b };
            comparison.record(block, &measured(&hist, failed));
        }
        let answer = comparison.answer();
        answer.targets[0].figures.iter().find(|f| f.figure == Figure::Errors).cloned()
    };
    let none = of(10, 0, 0).expect("errors");
    assert_eq!(none.outcome, Outcome::Same, "{none:?}");
    assert!(none.interval.is_some_and(|i| i.hi > 1e-4), "no failures are not certainty: {none:?}");
    let more = of(10, 10, 40).expect("errors");
    assert_eq!(more.outcome, Outcome::Higher, "{more:?}");
    assert!(more.estimate.is_some_and(|d| (d - 0.03).abs() < 1e-12));
    // 4 of 4,000 are no certainty, even if it is one in each block.
    assert_eq!(of(4, 0, 1).expect("errors").outcome, Outcome::Undecided);
}

#[test]
fn a_distribution_can_differ_where_its_percentiles_agree() {
    let mut comparison = Comparison::new(design(Rounds::Exactly(24)));
    let mut rng = Sequence::new(5, Stream::Pick);
    while let Some(block) = comparison.next_block() {
        let mut hist = Hist::new();
        for i in 0..1_000_u32 {
            let share = f64::from(i) / 1_000.0;
            // B has a step between the percentiles that are compared.
            let bent = block.target == 1 && (0.55..0.85).contains(&share);
            let us = 500.0 + 500.0 * share + if bent { 40.0 * (share - 0.55) } else { 0.0 };
            hist.record(Span((us * 1e3 * (1.0 + 0.002 * rng.normal())) as u64));
        }
        comparison.record(block, &measured(&hist, 0));
    }
    let answer = comparison.answer();
    let shape = answer.targets[0].distribution.as_ref().expect("a distribution");
    assert_ne!(outcome_of(&answer, "p50"), Outcome::Higher);
    assert_ne!(outcome_of(&answer, "p90"), Outcome::Higher);
    assert!(shape.p_value.is_some_and(|p| p <= answer.error), "{shape:?}");
    assert_eq!(shape.bands.len(), GRID.len());
}

#[test]
fn an_incomplete_round_does_not_count() {
    let mut comparison = Comparison::new(design(Rounds::UntilDecided(54)));
    let hist = times(500.0, 0.0);
    assert_eq!(comparison.answer().rounds, 0);
    for _ in 0..5 {
        let block = comparison.next_block().expect("a block");
        comparison.record(block, &measured(&hist, 0));
    }
    let answer = comparison.answer();
    assert_eq!(answer.rounds, 2);
    assert!(!Comparison::new(design(Rounds::UntilDecided(54))).answer().is_decided());
}

/// Whatever the change, the noise, the shape and the number of pairs: where a mean or percentile
/// differs, the distribution does.
#[test]
fn the_test_of_the_distribution_is_never_weaker_than_the_percentiles() {
    let mut draw = Sequence::new(11, Stream::Pick);
    let [mut of_few_pairs, mut of_one_quantile] = [0; 2];
    for case in 0..300 {
        let rounds = [3, 4, 6, 10, 14][draw.below(5) as usize];
        let ratio = [1.0, 1.01, 1.03, 1.1, 1.764][draw.below(5) as usize];
        let noise = [0.0, 0.002, 0.01, 0.05][draw.below(4) as usize];
        // All times are longer, or only those from one quantile to another.
        let from: f64 = [0.0, 0.3, 0.46, 0.9, 0.985][draw.below(5) as usize];
        let to = (from + [0.02, 0.3, 1.0][draw.below(3) as usize]).min(1.0);
        let figures = "mean p5 p47 p50 p90 p95 p99 distribution".split(' ');
        let figures = figures.map(|name| name.parse().expect(name)).collect();
        let design = Design { figures, seed: case, ..design(Rounds::Exactly(rounds)) };
        let mut comparison = Comparison::new(design);
        while let Some(block) = comparison.next_block() {
            let level = 1.0 + noise * draw.normal();
            let mut hist = Hist::new();
            for i in 0..1_000_u32 {
                let share = f64::from(i) / 1_000.0;
                let is_longer = block.target == 1 && (from..to).contains(&share);
                let us = (500.0 + 500.0 * share) * if is_longer { ratio } else { 1.0 };
                hist.record(Span((us * 1e3 * level.max(0.1)) as u64));
            }
            comparison.record(block, &measured(&hist, 0));
        }
        let answer = comparison.answer();
        let against = &answer.targets[0];
        let shape = against.distribution.as_ref().expect("a distribution");
        let is_change = |c: &&Compared| matches!(c.outcome, Outcome::Higher | Outcome::Lower);
        let mut decided = against.figures.iter().filter(is_change);
        let inside =
            decided.clone().find(|c| matches!(c.figure, Figure::Percentile(p) if p < 96.0));
        let found = format!("{rounds} rounds, {ratio}, {noise}, {from} to {to}: {answer:?}");
        if inside.is_some() {
            assert_eq!(shape.outcome, Outcome::Higher, "{found}");
            of_few_pairs += u32::from(shape.p_value.is_some_and(|p| p > answer.error));
            of_one_quantile += u32::from(to - from < 0.1);
        } else if decided.next().is_some() {
            // All quantiles from p5 to p95 may still be the same.
            assert!(matches!(shape.outcome, Outcome::Higher | Outcome::Same), "{found}");
        }
    }
    assert!(of_few_pairs > 20 && of_one_quantile > 5, "{of_few_pairs}, {of_one_quantile}");
}

#[test]
fn a_distribution_alone_ends_a_comparison() {
    let figures = vec![Figure::Distribution];
    let answer = run(Design { figures, ..design(Rounds::UntilDecided(54)) }, 1.3);
    let shape = answer.targets[0].distribution.as_ref().expect("a distribution");
    assert_eq!((answer.rounds, shape.outcome), (10, Outcome::Higher), "{shape:?}");
}

/// Runs a design in which the meter has disturbed every block: it can have made times longer by
/// this share. B's times are `ratio` times those of A.
fn disturbed(rounds: Rounds, ratio: f64, added: f64, is_offered: bool) -> (Answer, bool) {
    let figures = ["p50", "p90"].map(|name| name.parse().expect(name)).to_vec();
    let mut comparison = Comparison::new(Design { figures, ..design(rounds) });
    let mut rng = Sequence::new(3, Stream::Pick);
    while let Some(block) = comparison.next_block() {
        let us = if block.target == 0 { 500.0 } else { 500.0 * ratio };
        let noise = 0.01 * rng.normal();
        let (hist, least) = (times(us, noise), times(us / (1.0 + added), noise));
        let times = Between { least: Some(&least), most: is_offered.then_some(&hist) };
        let rate = Between { least: Some(100.0), most: None };
        let failed = Between { least: Some(0), most: Some(0) };
        let certain = Some(Certain { times, rate, failed });
        comparison.record(block, &Measured { certain, ..measured(&hist, 0) });
    }
    (comparison.answer(), comparison.is_futile())
}

#[test]
fn a_disturbed_block_counts_with_what_is_certain() {
    // 20 % longer, of which the meter can have added 5 %.
    let (answer, _) = disturbed(Rounds::UntilDecided(54), 1.2, 0.05, true);
    assert_eq!((answer.rounds, outcome_of(&answer, "p50")), (6, Outcome::Higher));
    let p50 = &answer.targets[0].figures[0];
    let interval = p50.interval.expect("an interval");
    assert!(interval.lo < libm::log(1.2 / 1.05) && interval.hi > libm::log(1.2 * 1.05), "{p50:?}");
    assert!(p50.as_measured.is_some_and(|i| i.lo > libm::log(1.15)), "{p50:?}");
    assert!(!p50.is_due_to_meter);
    let (same, _) = disturbed(Rounds::Exactly(54), 1.0, 0.005, true);
    assert_eq!(outcome_of(&same, "p50"), Outcome::Same, "{same:?}");
}

#[test]
fn what_the_meter_may_have_added_decides_nothing() {
    let (answer, is_futile) = disturbed(Rounds::UntilDecided(54), 1.2, 0.25, true);
    assert!(answer.targets[0].figures.iter().all(|c| c.is_due_to_meter), "{answer:?}");
    assert_eq!((answer.rounds, is_futile), (10, true), "more rounds do not help");
    // If less than the asked load was offered, the times can have been longer, too.
    let (answer, is_futile) = disturbed(Rounds::UntilDecided(54), 1.2, 0.05, false);
    let p50 = &answer.targets[0].figures[0];
    assert_eq!(p50.interval.map(|i| (i.lo, i.hi)), Some((f64::NEG_INFINITY, f64::INFINITY)));
    assert!(p50.is_due_to_meter && is_futile, "{answer:?}");
}

/// Runs it with blocks of this many times between 1 and 2 ms, with a noise for each block.
fn noisy(design: Design, times: u32, ratio: f64, noise: f64, seed: u64) -> (Answer, bool) {
    let mut comparison = Comparison::new(design);
    let mut rng = Sequence::new(seed, Stream::Pick);
    while let Some(block) = comparison.next_block() {
        let level = 1e6 * libm::exp(noise * rng.normal());
        let level = if block.target == 0 { level } else { level * ratio };
        let mut hist = Hist::new();
        for _ in 0..times {
            hist.record(Span((level * (1.0 + rng.unit())) as u64));
        }
        let ended = u64::from(times);
        comparison.record(block, &Measured { ended, ..measured(&hist, 0) });
    }
    (comparison.answer(), comparison.is_futile())
}

#[test]
fn a_percentile_needs_its_requests_in_several_rounds_together() {
    let of = |name: &str, rounds: u32, ratio: f64| {
        let figures = vec![name.parse().expect(name)];
        let design = Design { figures, ..design(Rounds::UntilDecided(rounds)) };
        noisy(design, 400, ratio, 0.01, 1).0
    };
    // Three rounds have 1,000 requests: 8 values after 24 rounds.
    let answer = of("p99", 54, 1.2);
    assert_eq!(outcome_of(&answer, "p99"), Outcome::Higher, "{answer:?}");
    assert!(answer.rounds <= 24, "{}", answer.rounds);
    let p99 = &answer.targets[0].figures[0];
    let Interval { lo, hi } = p99.interval.expect("an interval");
    assert!(lo < 1.2_f64.ln() && 1.2_f64.ln() < hi, "{p99:?}");
    // 25 rounds have 10,000: four values after 120 rounds.
    let far = of("p99.9", 120, 1.2);
    assert_eq!((far.rounds, outcome_of(&far, "p99.9")), (120, Outcome::Higher));
    let few = of("p99.9", 80, 1.2);
    assert_eq!(few.rounds, 10, "80 rounds will have too few");
    let missing = Some(Missing::TooFewInAll { needs: 40_000 });
    assert_eq!(few.targets[0].figures[0].missing, missing);
}

#[test]
fn a_percentile_that_needs_many_rounds_does_not_prolong_a_comparison() {
    let figures = ["p50", "p99.9"].map(|name| name.parse().expect(name)).to_vec();
    let design = Design { figures, ..design(Rounds::UntilDecided(54)) };
    let (answer, is_futile) = noisy(design, 400, 1.5, 0.01, 2);
    assert_eq!((answer.rounds, is_futile), (6, false));
    assert_eq!(answer.targets[0].set_aside, [Figure::Percentile(99.9)]);
}

/// Right: of comparisons that could have decided, few stop early. Made: of those that cannot, most
/// do, and long before the end.
#[test]
fn a_comparison_that_cannot_decide_stops_early() {
    let p50 =
        || Design { figures: vec![Figure::Percentile(50.0)], ..design(Rounds::UntilDecided(180)) };
    let all = |ratio: f64, noise: f64| {
        (0..200).map(|seed| noisy(p50(), 50, ratio, noise, seed)).collect::<Vec<_>>()
    };
    // The noise of a pair is sqrt(2) times that of a block.
    let hopeless = all(1.0, 0.3);
    let stopped = hopeless.iter().filter(|(_, is_futile)| *is_futile).count();
    assert!(stopped >= 145, "{stopped} of 200");
    let rounds = hopeless.iter().map(|(answer, _)| answer.rounds).sum::<u32>() / 200;
    assert!(rounds <= 115, "{rounds} of 180");
    let wrong = hopeless.iter().filter(|(answer, _)| answer.differs()).count();
    assert!(wrong <= 18, "of 5 %, 19 of 200 occur once in 250 test runs: {wrong}");
    // 20 %, with a noise of 30 %: 180 rounds find it in nearly all cases.
    let clear = all(1.2, 0.3);
    let found = clear.iter().filter(|(a, _)| outcome_of(a, "p50") == Outcome::Higher).count();
    assert!(found >= 185, "{found} of 200");
}
