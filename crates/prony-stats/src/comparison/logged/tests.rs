use prony_base::rng::{Sequence, Stream};
use prony_base::units::Nanos;
use prony_tally::record::NameTally;
use prony_tally::record::series::Series;

use super::*;
use crate::comparison::Outcome;
use crate::summary::tests::{meter, open, summary};

const MS: u64 = 1_000_000;
/// Requests of each name: 200 a second.
const N: u64 = 4_000;

/// A replay of 20 s. Of each name: the share of requests that have times in the log, and by what
/// factor the run is slower. Times are exponential with a mean of 10 ms, 20 ms, ..., and the log
/// has them in these steps.
fn replayed(names: &[(f64, f64)], step: u64) -> Summary {
    let (mut main, mut log) = (Tally::new(Nanos::ZERO), Series::new(Nanos::ZERO));
    main.names = vec![NameTally::default(); names.len()];
    let mut took = vec![Hist::new(); names.len()];
    let mut draws = Sequence::new(7, Stream::Serve);
    for i in 0..N {
        let at = Nanos(i * 5 * MS);
        for (name, &(share, slower)) in names.iter().enumerate() {
            let mean = Span::from_millis(10 * (name as u64 + 1));
            let (then, now) = (draws.exponential(mean), draws.exponential(mean));
            if (i as f64) < share * N as f64 {
                let then = Span((then.0 + step / 2) / step * step);
                took[name].record(then);
                log.replied(at, then, 0);
            }
            let now = Span((now.0 as f64 * slower) as u64);
            main.times.response.record(now);
            main.names[name].response.record(now);
            main.series.replied(at, now, 0);
            (main.started, main.replies) = (main.started + 1, main.replies + 1);
        }
    }
    main.end = Nanos(N * 5 * MS);
    main.series.close();
    log.close();
    let mut summary = summary(open(), main, meter(10));
    let took_blocks = Some(log.blocks().clone());
    let replay = Replayed { took, took_blocks, took_step: Span(step), ..Replayed::default() };
    summary.run.replay = Some(Box::new(replay));
    summary
}

fn percent(figure: &LogFigure) -> (f64, f64, f64) {
    let of = |log: f64| log.exp_m1() * 100.0;
    let interval = figure.compared.interval.expect("an interval");
    (of(interval.lo), of(figure.compared.estimate.expect("a change")), of(interval.hi))
}

#[test]
fn all_requests_and_each_name_are_compared() {
    let found = compare_with_log(&replayed(&[(1.0, 1.0), (1.0, 1.3)], 1)).expect("a log");
    let rows = &found.rows;
    let names: Vec<_> = rows.iter().map(|row| (row.name, row.logged, row.measured)).collect();
    assert_eq!(names, [(None, 2 * N, 2 * N), (Some(0), N, N), (Some(1), N, N)]);
    // Half of 5 % for four figures, and half for those of two names.
    let errors: Vec<f64> = rows.iter().map(|row| row.error * 4.0).collect();
    assert_eq!(errors, [0.025, 0.0125, 0.0125]);
    for (row, change) in [(&rows[1], 0.0), (&rows[2], 30.0)] {
        for figure in &row.figures {
            let (lo, estimate, hi) = percent(figure);
            assert!(lo < change && change < hi, "{lo} {change} {hi}: {figure:?}");
            let ratio = figure.run_ns.expect("a time") / figure.log_ns.expect("a time");
            assert!((ratio - 1.0 - estimate / 100.0).abs() < 1e-9);
        }
    }
    // The mean of 4,000 times has a standard error of 1.6 %, and the difference of two 2.2 %.
    let (lo, _, hi) = percent(&rows[1].figures[0]);
    assert!((10.0..18.0).contains(&(hi - lo)), "{lo} {hi}");
    assert_eq!(rows[2].figures[0].compared.outcome, Outcome::Higher);
    assert_eq!(rows[1].figures[0].compared.outcome, Outcome::Undecided);
}

#[test]
fn one_name_is_all_requests() {
    let found = compare_with_log(&replayed(&[(1.0, 1.0), (0.0, 1.0)], 1)).expect("a log");
    let [row] = &found.rows[..] else { panic!("{found:?}") };
    assert_eq!((row.name, row.error), (Some(0), 0.0125));
}

/// The mean is off by at most half a step, a quantile by one.
#[test]
fn a_coarse_log_has_wider_intervals() {
    let of = |step: u64| compare_with_log(&replayed(&[(1.0, 1.0)], step)).expect("a log");
    let (exact, coarse) = (of(1), of(MS));
    assert_eq!(coarse.step, Span::from_millis(1));
    for (i, off) in [(0, 0.5), (1, 1.0), (2, 1.0), (3, 1.0)] {
        let ((lo, ..), (.., hi)) =
            (percent(&exact.rows[0].figures[i]), percent(&exact.rows[0].figures[i]));
        let figure = &coarse.rows[0].figures[i];
        let (wide_lo, _, wide_hi) = percent(figure);
        let share = off * 1e8 / figure.log_ns.expect("a time");
        assert!(wide_hi - wide_lo > hi - lo + 1.5 * share, "{i}: {wide_lo} {wide_hi}");
        assert!(wide_hi - wide_lo < hi - lo + 4.0 * share, "{i}: {wide_lo} {wide_hi}");
    }
    let too_coarse = of(20 * MS);
    let missing: Vec<_> = too_coarse.rows[0].figures.iter().map(|f| f.compared.missing).collect();
    let expected = Some(Missing::TooCoarse { step: Span::from_millis(20) });
    assert_eq!(missing[1], expected, "the median is 0 or 20 ms");
    assert_eq!(missing[3], None, "p99 is 40 ms or 60 ms");
}

#[test]
fn figures_need_their_requests_on_both_sides() {
    let found = compare_with_log(&replayed(&[(0.1, 1.0), (1.0, 1.0)], 1)).expect("a log");
    let few = &found.rows[1];
    assert_eq!((few.logged, few.measured), (N / 10, N));
    let missing: Vec<_> = few.figures.iter().map(|f| f.compared.missing).collect();
    assert_eq!(missing[..3], [None, None, None]);
    assert_eq!(missing[3], Some(Missing::TooFewSamples { needs: 1_000 }));
    assert_eq!((few.figures[3].log_ns, few.figures[3].run_ns.is_some()), (None, true));
    // What cannot be compared needs no part of the error probability.
    assert!((few.error - 0.025 / 7.0).abs() < 1e-12, "{}", few.error);
}

#[test]
fn without_times_in_the_log_there_is_nothing_to_compare() {
    assert_eq!(compare_with_log(&summary(open(), Tally::default(), meter(1))), None);
    let mut old = replayed(&[(1.0, 1.0)], 1);
    let replay = old.run.replay.as_mut().expect("a replay");
    replay.took_blocks = None;
    assert_eq!(compare_with_log(&old), None, "an earlier version saved no blocks");
    assert_eq!(compare_with_log(&replayed(&[(0.0, 1.0)], 1)), None);
    // A log of half a second: as the intervals of a run.
    let mut short = replayed(&[(0.025, 1.0), (0.025, 1.0)], 1);
    let found = compare_with_log(&short).expect("a log");
    let why = Missing::NoInterval { of_log: true, why: NoInterval::TooShort };
    for row in &found.rows {
        assert_eq!(row.figures[0].compared.missing, Some(why), "{row:?}");
    }
    short.run.replay = None;
    assert_eq!(compare_with_log(&short), None);
}
