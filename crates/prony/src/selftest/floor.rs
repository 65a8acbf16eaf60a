//! The smallest times that this host lets anybody measure.

use std::thread;
use std::time::{Duration, Instant};

use prony_core::serve::ServeLaw;
use prony_io::clock;

use super::bench::{Bench, Why};
use super::record::{Floor, Loopback};

/// The sleeps whose lateness is told.
const SLEEP: Duration = Duration::from_micros(100);
/// The least sleeps from which a p99 is told: a busy host may not have time for more.
const SLEEPS: usize = 200;

/// Measure them, over these drivers (as `--driver` names them). Where the user ends the test
/// meanwhile, what was measured until then stands.
pub(super) fn floor(bench: &Bench, drivers: &[&str], quick: bool) -> Floor {
    let clock = spin(Duration::from_millis(if quick { 50 } else { 300 }));
    let late = sleeps();
    let mut loopback = Vec::new();
    for driver in drivers {
        // That a driver is not to be had is told where its rates stand.
        if let Ok(found) = round_trips(bench, driver, quick) {
            loopback.extend(found);
        }
    }
    Floor {
        clock_resolution_ns: clock::resolution().0,
        clock_step_ns: clock.step,
        clock_read_ns: clock.cost,
        longest_gap_ns: clock.gap,
        sleep_late_p50_ns: late[late.len() / 2],
        sleep_late_p99_ns: late[late.len() * 99 / 100],
        loopback,
    }
}

/// What readings of the clock show, one after another.
struct Readings {
    /// The smallest difference that is not zero.
    step: u64,
    /// The longest.
    gap: u64,
    /// The time of one.
    cost: f64,
}

fn spin(length: Duration) -> Readings {
    let begin = clock::monotonic();
    let end = begin + length.as_nanos() as u64;
    let (mut last, mut n) = (begin, 0_u64);
    let (mut step, mut gap) = (u64::MAX, 0);
    while last < end {
        let now = clock::monotonic();
        let difference = now - last;
        if difference > 0 {
            step = step.min(difference);
            gap = gap.max(difference);
        }
        (last, n) = (now, n + 1);
    }
    // What kept the thread from running is no part of a reading's cost.
    let lost = gap as f64;
    Readings { step, gap, cost: ((last - begin) as f64 - lost) / n.max(1) as f64 }
}

/// How late sleeps end, ascending, in nanoseconds.
fn sleeps() -> Vec<u64> {
    let mut late: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let begin = Instant::now();
            thread::sleep(SLEEP);
            begin.elapsed().saturating_sub(SLEEP).as_nanos() as u64
        })
        .collect();
    late.sort_unstable();
    late
}

fn round_trips(bench: &Bench, driver: &str, quick: bool) -> Result<Option<Loopback>, Why> {
    let target = bench.target(ServeLaw::default(), false)?;
    let length = if quick { "150ms" } else { "300ms" };
    let load = format!("-c 1 -d {length} --warmup 50ms --driver {driver}");
    let summary = bench.load(&load, &target.url, |_| {})?;
    let times = &summary.main.times.service;
    let (Some(min), Some(p50)) = (times.min(), times.quantile(0.5)) else { return Ok(None) };
    Ok(Some(Loopback {
        driver: summary.run.driver.clone(),
        count: times.count(),
        min_ns: min.0,
        p50_ns: p50.0,
        p99_ns: times.quantile(0.99).map(|t| t.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_the_clock_have_a_step_and_a_cost() {
        let r = spin(Duration::from_millis(5));
        assert!(r.step > 0 && r.step <= r.gap && r.cost > 0.0 && r.cost < 1e6);
        let late = sleeps();
        assert!(late.len() == SLEEPS && late[0] <= late[SLEEPS - 1]);
    }
}
