use proptest::prelude::*;

use super::*;

const SEC: u64 = 1_000_000_000;

fn at(s: f64) -> Nanos {
    Nanos(Span::from_secs_f64(s).0)
}

#[test]
fn bins_are_contiguous_and_narrow() {
    assert_eq!(bin_of(Span(BINNED_MAX)) as usize, BINS - 1);
    assert_eq!(bin_of(Span::MAX) as usize, BINS - 1);
    for bin in 0..BINS as u16 {
        let middle = bin_value(bin);
        assert_eq!(bin_of(middle), bin, "the midpoint of bin {bin} must lie in it");
        let (low, high) = bin_bounds(bin);
        assert_eq!(
            (bin_of(low), bin_of(high)),
            (bin, bin),
            "both ends of bin {bin} must lie in it"
        );
        assert!(bin == 0 || bin_of(Span(low.0 - 1)) == bin - 1, "bin {bin}");
    }
    for ns in 0..10_000 {
        let step = bin_of(Span(ns + 1)) - bin_of(Span(ns));
        assert!(step == 1 || (step == 0 && ns >= 64), "from {ns} on: {step}");
    }
    for power in 5..42 {
        let (below, at) = (bin_of(Span((1 << power) - 1)), bin_of(Span(1 << power)));
        assert_eq!(at, below + 1, "at 2^{power}");
    }
}

proptest! {
    #[test]
    fn relative_error_of_a_bin_is_at_most_one_in_64(ns in 0..=BINNED_MAX) {
        let back = bin_value(bin_of(Span(ns))).0;
        prop_assert!(back.abs_diff(ns) * 64 <= ns);
    }
}

#[test]
fn counts_each_event_in_its_interval() {
    let mut s = Series::new(at(5.0));
    s.started(at(5.0));
    s.started(at(5.999));
    s.replied(at(5.999_999_999), Span(100), 10);
    s.replied(at(6.0), Span(3 * SEC), 20);
    s.started(at(5.5)); // late: one interval earlier
    s.replied(at(5.7), Span(200), 30); // late: a new bin
    s.replied(at(5.8), Span(100), 40); // late: an existing bin
    s.timed_out(at(8.2), Span(2 * SEC));
    s.failed(at(8.3));
    s.close();
    let [a, b, c, d] = s.cells() else { panic!("{:?}", s.cells()) };
    assert_eq!((a.started, a.replies, a.failed, a.bytes, a.max), (3, 3, 0, 80, Span(200)));
    assert_eq!(a.bins, [(bin_of(Span(100)), 2), (bin_of(Span(200)), 1)]);
    assert_eq!((b.started, b.replies, b.bytes, b.max), (0, 1, 20, Span(3 * SEC)));
    assert_eq!(*c, Cell::default());
    assert_eq!((d.replies, d.failed, d.max), (0, 2, Span(2 * SEC)));
    assert_eq!(d.bins, [(bin_of(Span(2 * SEC)), 1)]);
}

#[test]
fn events_before_the_start_count_in_the_first_cell() {
    let mut s = Series::new(at(5.0));
    s.started(at(1.0));
    assert_eq!(s.cells()[0].started, 1);
}

#[test]
fn merges_cells_of_a_long_run_without_loss() {
    let mut s = Series::new(Nanos::ZERO);
    let seconds = 5_000;
    for i in 0..seconds {
        s.started(Nanos(i * SEC));
        s.replied(Nanos(i * SEC + SEC / 2), Span(1_000 + i), 3);
    }
    s.close();
    assert_eq!(s.interval(), Span::from_secs(8));
    assert_eq!(s.cells().len(), 625);
    assert!(s.cells().iter().all(|c| (c.started, c.replies, c.bytes) == (8, 8, 24)));
    let binned: u64 = s.cells().iter().flat_map(|c| &c.bins).map(|&(_, n)| u64::from(n)).sum();
    assert_eq!(binned, seconds);
    assert_eq!(s.cells()[624].max, Span(1_000 + 4_999));
}

#[test]
fn folds_repeatedly_after_a_pause_longer_than_the_table() {
    let mut s = Series::new(Nanos::ZERO);
    s.replied(at(0.5), Span(7), 1);
    s.replied(at(1e6), Span(8), 1);
    s.replied(at(1.5), Span(9), 1); // very late
    s.close();
    assert_eq!(s.interval(), Span::from_secs(1_024));
    assert!(s.cells().len() <= CELLS_MAX);
    assert_eq!(s.cells()[0].bins, [(7, 1), (9, 1)]);
    assert_eq!(s.cells()[976].bins, [(8, 1)]);
}

#[test]
fn last_complete_interval_is_readable_during_recording() {
    let mut s = Series::new(Nanos::ZERO);
    assert_eq!(s.last_complete(at(3.0)), Some((2, Cow::Owned(Cell::default()))));
    for i in 0..50 {
        s.replied(at(0.1), Span(1_000 + i), 1);
    }
    assert_eq!(s.last_complete(at(0.9)), None);
    let (index, cell) = s.last_complete(at(1.1)).expect("the first second is over");
    let cell = cell.into_owned();
    assert_eq!((index, cell.replies), (0, 50));
    assert_eq!(cell.quantile(0.5), Some(bin_value(bin_of(Span(1_024)))));
    s.replied(at(1.2), Span(5), 1);
    let (_, still) = s.last_complete(at(1.3)).expect("still");
    assert!(matches!(still, Cow::Borrowed(now) if *now == cell), "{still:?}");
    assert_eq!(s.last_complete(at(2.0)).expect("the next").1.replies, 1);
}

#[test]
fn cell_reports_no_quantile_of_a_sample_that_is_too_small() {
    let mut s = Series::new(Nanos::ZERO);
    for i in 0..999_u64 {
        s.replied(Nanos(i), Span::from_micros(100 + i), 1);
    }
    s.close();
    let cell = &s.cells()[0];
    assert_eq!(cell.quantile(0.99), None);
    let p50 = cell.quantile(0.5).expect("20 are enough").0 as f64;
    assert!((p50 / 599_000.0 - 1.0).abs() <= 1.0 / 64.0, "{p50}");
    assert_eq!(cell.quantile(1.0), Some(Span::from_micros(1_098)));
    assert_eq!(Cell::default().quantile(1.0), None);
}

fn filled(events: &[(u64, u64)]) -> Series {
    let mut s = Series::new(Nanos::ZERO);
    for &(when, took) in events {
        s.started(Nanos(when));
        s.replied(Nanos(when), Span(took), took % 7);
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn merging_equals_recording_in_one_series(
        a in prop::collection::vec((0..3_000 * SEC, 0..10 * SEC), 0..80),
        b in prop::collection::vec((0..700 * SEC, 0..10 * SEC), 0..80),
    ) {
        let all: Vec<_> = a.iter().chain(&b).copied().collect();
        let mut merged = filled(&a);
        merged.merge(&filled(&b));
        prop_assert_eq!(&merged, &filled(&all));
        let mut other_way = filled(&b);
        other_way.merge(&filled(&a));
        prop_assert_eq!(&other_way, &merged);
    }
}

#[test]
fn recording_continues_after_a_merge() {
    let mut s = filled(&[(0, 5)]);
    s.merge(&filled(&[(2 * SEC, 6)]));
    s.replied(Nanos(2 * SEC), Span(6), 0);
    s.replied(Nanos(0), Span(5), 0);
    s.close();
    assert_eq!(s.cells()[0].bins, [(5, 2)]);
    assert_eq!(s.cells()[2].bins, [(6, 2)]);
}

#[test]
fn times_are_settled_up_to_the_piece_with_the_newest_one() {
    let mut s = Series::new(at(5.0));
    assert_eq!(s.settled(), Span::ZERO);
    s.replied(at(5.0), Span(100), 1);
    assert_eq!(s.settled(), Span::ZERO, "it is in the piece");
    s.replied(at(7.0), Span(200), 1);
    assert_eq!(s.settled(), Span(2 * SEC));
    let block = s.blocks().between(Span::ZERO, s.settled()).next();
    assert_eq!(block.map(|(_, b)| b.count()), Some(1));
}
