use super::*;
use crate::tui::tests::{after, before, interval};

#[test]
fn rates_are_of_the_last_second() {
    let rates = after("-r 20k -d 100s", 10, 20_000).rates();
    // The tenth second has no failures.
    assert_eq!((rates.started, rates.failed), (20_000.0, 0.0));
    assert_eq!(rates.lag, Some(Span(2_500)));
    assert!((rates.busiest - 0.43).abs() < 1e-9 && (rates.cpu - 0.55).abs() < 1e-9, "{rates:?}");
    assert!((rates.own - 0.004).abs() < 1e-9);
    assert_eq!(before("-c 1").rates(), Rates::default());
}

#[test]
fn remaining_time_of_a_run() {
    let left = |options, seconds| after(options, seconds, 1_000).left();
    assert_eq!(left("-d 30s", 10), Left::Time(Span::from_secs(20)));
    assert_eq!(left("-d 30s", 30), Left::Drain);
    assert_eq!(left("-r 1k --warmup 5s -d 30s", 10), Left::Time(Span::from_secs(25)));
    assert_eq!(left("-n 30k", 10), Left::About(Span::from_secs(20)));
    assert_eq!(left("-n 30k -d 15s", 10), Left::Time(Span::from_secs(5)));
    assert_eq!(left("-n 12k -d 15s", 10), Left::About(Span::from_secs(2)));
    assert_eq!(left("-r 5@1s,1..9@9s", 4), Left::Time(Span::from_secs(6)));
    let share = after("-n 30k -d 15s", 10, 1_000).share().unwrap();
    assert!((share - 2.0 / 3.0).abs() < 1e-9, "{share}");
}

/// The start and length of intervals in seconds, with the number of started requests.
fn reported(state: &State) -> Vec<(u64, u64, u64)> {
    let seconds = |ns: u64| ns / 1_000_000_000;
    let history = state.history.iter();
    history.map(|i| (seconds(i.begin.0), seconds(i.length.0), i.cell.started)).collect()
}

#[test]
fn stores_each_interval_once() {
    let mut state = before("-c 1");
    for begin in [0, 0, 1, 1, 2] {
        state.remember(&interval(begin, 100 + begin as u32));
    }
    assert_eq!(reported(&state), [(0, 1, 100), (1, 1, 101), (2, 1, 102)]);
}

#[test]
fn older_intervals_are_joined_when_they_double() {
    let mut state = before("-c 1");
    for begin in 0..7 {
        state.remember(&interval(begin, 100 + begin as u32));
    }
    // The seventh second arrives again, now as half of a longer interval.
    let whole = Interval { length: Span::from_secs(2), ..interval(6, 900) };
    state.remember(&whole);
    assert_eq!(reported(&state), [(0, 2, 201), (2, 2, 205), (4, 2, 209), (6, 2, 900)]);
    state.remember(&Interval { length: Span::from_secs(2), ..interval(8, 901) });
    assert_eq!(reported(&state).last(), Some(&(8, 2, 901)));
}
