//! The shortest times that can be measured on this host.

use std::thread;
use std::time::{Duration, Instant};

use prony_io::clock;
use prony_server::serve::ServerBehavior;

use super::bench::{Bench, Failure};
use super::record::{Floor, Loopback};

/// The duration of the sleeps.
const SLEEP: Duration = Duration::from_micros(100);
/// The number of sleeps: enough for a p99, and few enough for a busy host.
const SLEEPS: usize = 200;

/// Measures the shortest times with these drivers (values of `--driver`). After an interruption,
/// returns the results so far.
pub(super) fn floor(bench: &Bench, drivers: &[&str], quick: bool) -> Floor {
    let clock = spin(Duration::from_millis(if quick { 50 } else { 300 }));
    let late = sleeps();
    let mut loopback = Vec::new();
    for driver in drivers {
        // The search for the highest rate reports an unavailable driver.
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

/// Properties of the clock, from consecutive readings.
struct Readings {
    /// The smallest difference other than zero.
    step: u64,
    /// The largest difference.
    gap: u64,
    /// The duration of one reading.
    cost: f64,
}

fn spin(length: Duration) -> Readings {
    let start = clock::monotonic();
    let end = start + length.as_nanos() as u64;
    let (mut last, mut n) = (start, 0_u64);
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
    // Exclude the longest interruption of the thread from the cost of a reading.
    let lost = gap as f64;
    Readings { step, gap, cost: ((last - start) as f64 - lost) / n.max(1) as f64 }
}

/// How late sleeps end, in nanoseconds, in ascending order.
fn sleeps() -> Vec<u64> {
    let mut late: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let start = Instant::now();
            thread::sleep(SLEEP);
            start.elapsed().saturating_sub(SLEEP).as_nanos() as u64
        })
        .collect();
    late.sort_unstable();
    late
}

fn round_trips(bench: &Bench, driver: &str, quick: bool) -> Result<Option<Loopback>, Failure> {
    let target = bench.target(ServerBehavior::default(), false)?;
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
    fn measures_step_and_cost_of_the_clock() {
        let r = spin(Duration::from_millis(5));
        assert!(r.step > 0 && r.step <= r.gap && r.cost > 0.0 && r.cost < 1e6);
        let late = sleeps();
        assert!(late.len() == SLEEPS && late[0] <= late[SLEEPS - 1]);
    }
}
