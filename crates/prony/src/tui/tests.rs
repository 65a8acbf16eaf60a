//! Reproducible states for golden screens.

use clap::Parser as _;
use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};
use prony_io::{Detail, Interval, Live};
use prony_run::environment::Environment;
use prony_tally::record::LagSoFar;
use prony_tally::record::series::{Cell, bin_of};

use super::state::State;
use crate::cli::Cli;
use crate::cli::plan::plan;

/// The state of a load with these options before its first snapshot.
pub(super) fn before(options: &str) -> State {
    let words = ["prony", "http://localhost:8080/bytes/1024"];
    let words = words.into_iter().chain(options.split_whitespace());
    let around = Environment {
        connections_max: 50,
        connections_why: String::new(),
        seed: 1,
        simulated: false,
    };
    let planned = plan(&Cli::try_parse_from(words).unwrap().load, &around).unwrap();
    State::new(&planned.plan)
}

/// An interval with this number of replies, most after about 2 ms and some after 20 ms. In every
/// sixth interval, replies are slow and some fail.
pub(super) fn interval(begin: u64, replies: u32) -> Interval {
    let slow = begin % 6 == 5;
    let ms = |n: u64| bin_of(Span::from_millis(n));
    let us = |n: u64| bin_of(Span::from_micros(n));
    let bins = if slow {
        vec![(ms(5), replies / 8), (ms(40), replies - replies / 8)]
    } else {
        vec![
            (us(800), replies / 50),
            (us(1_500), replies / 3),
            (ms(2), replies - replies / 50 - replies / 3 - replies / 40),
            (ms(20), replies / 40),
        ]
    };
    let cell = Cell {
        started: u64::from(replies),
        replies: u64::from(replies) - u64::from(replies / 5) * u64::from(slow),
        failed: u64::from(replies / 5) * u64::from(slow),
        bytes: 0,
        max: Span::from_millis(if slow { 43 } else { 21 }),
        bins,
    };
    let second = Span::from_secs(1);
    Interval { begin: Nanos::ZERO + second * begin, length: second, cell }
}

/// The state after this number of seconds with `rate` requests per second.
pub(super) fn after(options: &str, seconds: u64, rate: u32) -> State {
    let mut state = before(options);
    let mut failed = 0;
    for second in 0..=seconds {
        let started = second * u64::from(rate);
        let last = second.checked_sub(1).map(|begin| interval(begin, rate));
        failed += last.as_ref().map_or(0, |last| last.cell.failed);
        let mut faults = [0; Fault::COUNT];
        faults[Fault::UnexpectedStatus as usize] = failed;
        let replies = started.saturating_sub(failed + 7);
        let live = Live {
            now: Nanos::ZERO + Span::from_secs(second),
            started,
            replies,
            failed,
            in_flight: started - replies - failed,
            last,
            detail: Some(Detail {
                connections: 50,
                statuses: [(200, replies), (503, failed)].into_iter().collect(),
                faults,
                lag: LagSoFar {
                    count: started,
                    sum_ns: started * 2_500,
                    max: Span::from_micros(340),
                },
                work: vec![Span::from_millis(430) * second, Span::from_millis(120) * second],
            }),
            ..Live::default()
        };
        state.see(&live, Span::from_millis(4) * second);
    }
    state
}
