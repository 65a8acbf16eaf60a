//! `cargo xtask neighbor`: another program on the machine, and the tests beside it.
//!
//! It takes three quarters of each processor, at random: for some milliseconds, or for a second. So
//! whatever a test assumes about the time that something takes is wrong sooner or later. A test
//! that fails beside it has a defect, or the program has.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};

use crate::ci;

const USAGE: &str = "\
usage: cargo xtask neighbor [RUNS [SEED]]
  RUNS  how often the end-to-end tests and those of single crates run beside it; without, it is
        there until it is stopped
  SEED  of its times, from 1 (the time of day)
";

/// The mean lengths of its work: one of them each time. The pause after it is a third, on average.
const LENGTHS: [Duration; 3] =
    [Duration::from_millis(3), Duration::from_millis(40), Duration::from_millis(500)];

/// `cargo xtask neighbor`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let number = |i: usize| args.get(i).map(|n| n.parse::<u64>().context(USAGE)).transpose();
    let (runs, seed) = (number(0)?, number(1)?);
    if args.len() > 2 || runs == Some(0) || seed == Some(0) {
        bail!("{USAGE}");
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = seed.unwrap_or(now.context("the clock is before 1970")?.as_secs());
    println!("the neighbor's seed: {seed}");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from) as u64;
        for processor in 1..=processors {
            let (mut random, is_over) = (Random(seed.wrapping_mul(processor)), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    turn(&mut random);
                }
            });
        }
        let result = runs.map(|n| (1..=n).try_for_each(run));
        is_over.store(runs.is_some(), Ordering::Relaxed);
        result.unwrap_or(Ok(()))
    })
}

fn run(n: u64) -> Result<()> {
    println!("==> beside the neighbor, run {n}");
    let begun = Instant::now();
    ci::end_to_end().with_context(|| format!("run {n}"))?;
    println!("run {n} passed in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// Some work, and a pause.
fn turn(random: &mut Random) {
    let length = LENGTHS[random.next() as usize % LENGTHS.len()];
    let end = Instant::now() + length.mul_f64(random.exponential());
    while Instant::now() < end {
        hint::spin_loop();
    }
    thread::sleep(length.mul_f64(random.exponential() / 3.0));
}

/// Knuth's generator: its upper half.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        self.0 >> 32
    }

    /// With a mean of 1.
    fn exponential(&mut self) -> f64 {
        -((self.next() as f64 + 0.5) / 2_f64.powi(32)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_mean() {
        let mut random = Random(7);
        let n = 100_000;
        let mean = (0..n).map(|_| random.exponential()).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
