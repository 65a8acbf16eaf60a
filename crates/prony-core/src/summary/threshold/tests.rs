use super::*;

/// Intervals with 100 ended requests each, of which these have failed.
fn cells(failed: &[u64]) -> Vec<(u64, u64)> {
    failed.iter().map(|&failed| (failed, 100)).collect()
}

#[test]
fn failures_that_come_in_bursts_are_worth_fewer_independent_ones() {
    // Two of ten intervals have failures, 8 % of all requests. By hand: 42^2 + 22^2 + 8 * 8^2 is
    // the sum of squares, and 1,000 * 0.08 * 0.92 what independent failures would have.
    let (effect, freedom) = clustering_of(&cells(&[50, 0, 0, 0, 30, 0, 0, 0, 0, 0]));
    assert!((effect - 2_760.0 * 10.0 / 9.0 / 73.6).abs() < 1e-9, "{effect}");
    assert_eq!(freedom, 1.0);
    assert_eq!(clustering_of(&cells(&[50, 0, 0, 9, 30, 0, 0, 0, 0, 7])).1, 3.0);
    assert_eq!(clustering_of(&cells(&[50, 0, 0, 0, 0, 0, 0, 0, 0, 0])).1, 1.0, "one at least");
    assert_eq!(clustering_of(&cells(&[8; 10])), (1.0, KNOWN), "they vary less than by chance");
    assert_eq!(clustering_of(&cells(&[0; 10])), (1.0, KNOWN), "none has failed");
    assert_eq!(clustering_of(&cells(&[50, 0, 0, 0, 30, 0, 0])), (1.0, KNOWN), "too short");
}

/// Ten seconds with these numbers of failures among 100 requests each.
fn run(failed: &[u64]) -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    for (second, &failed) in (0..).zip(failed) {
        let at = Nanos(second * 1_000_000_000 + 500_000_000);
        (0..failed).for_each(|_| t.series.failed(at));
        (failed..100).for_each(|_| t.series.replied(at, Span(1_000), 1));
    }
    t.series.close();
    t.end = Nanos(10_000_000_000);
    t
}

#[test]
fn clusters_are_those_of_the_failures_over_time() {
    let failed = [50, 0, 0, 0, 30, 0, 0, 0, 0, 0];
    assert_eq!(clustering(&run(&failed)), clustering_of(&cells(&failed)));
}

#[test]
fn the_interval_of_a_rate_has_the_whole_seconds() {
    let t = run(&[0, 10, 0, 10, 0, 10, 0, 10, 0, 10]);
    let found = per_second(&t, 95.0, |cell| cell.replies as f64).unwrap();
    // Student's t with 9 degrees of freedom, and the variance 250 / 9 of ten rates.
    let reach = 2.262_157 * (250.0_f64 / 9.0 / 10.0).sqrt();
    assert!((found.lo - (95.0 - reach)).abs() < 1e-3, "{found:?}");
    assert!((found.hi - (95.0 + reach)).abs() < 1e-3, "{found:?}");
    let shorter = Tally { start: Nanos(1), end: Nanos(9_999_999_999), ..t };
    let eight = per_second(&shorter, 95.0, |cell| cell.replies as f64).unwrap();
    assert!(eight.hi - eight.lo > found.hi - found.lo, "{eight:?}");
    let seven = Tally { end: Nanos(8_999_999_999), ..shorter };
    assert_eq!(per_second(&seven, 95.0, |_| 1.0), Err(NoInterval::TooShort));
}

#[test]
fn a_percentile_of_few_independent_samples_has_no_interval() {
    let mut hist = Hist::new();
    hist.record_n(Span(1_000), 2_000);
    let p99 = Statistic::Percentile(99.0);
    let known = statistic_of(&hist, p99, &|_| 100.0);
    let Err(NoInterval::Autocorrelated { effective }) = known.interval else {
        panic!("{:?}", known.interval);
    };
    assert!((effective - 20.0).abs() < 1e-9, "{effective}");
    assert!(statistic_of(&hist, p99, &|_| 1.0).interval.is_ok());
}

/// The reason is that which is true: too few times, or times that are alike.
#[test]
fn a_mean_without_an_interval_says_why() {
    let mut hist = Hist::new();
    hist.record_n(Span(1_000), 19);
    let few = statistic_of(&hist, Statistic::Mean, &|_| 1.0).interval;
    assert_eq!(few, Err(NoInterval::TooFewSamples { needs: 20 }));
    hist.record_n(Span(1_000), 1);
    let alike = statistic_of(&hist, Statistic::Mean, &|_| 4.0).interval;
    assert_eq!(alike, Err(NoInterval::Autocorrelated { effective: 5.0 }));
    assert!(statistic_of(&hist, Statistic::Mean, &|_| 1.0).interval.is_ok());
}
