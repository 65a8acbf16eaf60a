//! How far figures are to be known, and whether they are: when a run may end.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Confidence, Lack};
use crate::record::hist::Hist;
use crate::record::series::{BINS, Block, Blocks, bin_bounds};
use crate::units::Span;

/// A figure that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// Successes per second.
    Rate,
    /// The mean response time.
    Mean,
    /// That percentile of the response time, over 0 and below 100.
    Percentile(f64),
}

/// A figure and how far off it may be: `p99 +- 5%`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Goal {
    /// The figure.
    pub figure: Wanted,
    /// The furthest that an end of its 95 % confidence interval may be, as a share of the figure.
    pub within: f64,
}

/// The goals of a run, and whether they ended it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// All of them must be reached at once.
    pub goals: Vec<Goal>,
    /// Whether they were, which ended the load.
    pub reached: bool,
}

/// Steps in which a bin's times are taken to lie, evenly, while the run goes on; its end has them
/// exactly.
const STEPS: u64 = 16;
/// How far a time may be from the middle of its bin, as a share of it.
const HALF_BIN: f64 = 1.0 / 64.0 / 2.0;
/// How long a load is not ended by its goals: what is reached by chance is reached early.
const LEAST: Span = Span::from_secs(2);
/// From one look to the next the run gets longer by that share of itself: who looks all the time
/// finds the moment in which the interval is narrow by chance.
const STEP: f64 = 0.1;

impl Goal {
    /// By how much narrower the interval must be while the times are known to their bins only.
    fn allowance(&self) -> f64 {
        match self.figure {
            Wanted::Percentile(_) => HALF_BIN.min(self.within / 4.0),
            Wanted::Rate | Wanted::Mean => 0.0,
        }
    }

    /// How far the further end of the figure's interval is from it, as a share of the figure.
    ///
    /// # Errors
    /// Where the figure has no interval.
    pub fn reach(&self, confidence: &Confidence<'_>, rate: f64) -> Result<f64, Lack> {
        let hist = confidence.hist;
        match self.figure {
            Wanted::Rate => confidence.rate(rate).map(|i| i.reach(rate)),
            Wanted::Mean => confidence.mean().map(|i| i.reach(hist.mean_ns().unwrap_or_default())),
            Wanted::Percentile(p) => {
                let figure = hist.estimate(p / 100.0).unwrap_or_default().0 as f64;
                confidence.quantile(p / 100.0).map(|i| i.reach(figure))
            }
        }
    }
}

/// Blocks as they come while a load runs, and when they are looked at.
#[derive(Clone, Debug)]
pub struct Watch {
    goals: Vec<Goal>,
    blocks: Blocks,
    next: Span,
    last: Vec<Result<f64, Lack>>,
}

impl Watch {
    /// Nothing has come yet.
    pub fn new(goals: Vec<Goal>) -> Self {
        Self { goals, blocks: Blocks::default(), next: LEAST, last: Vec::new() }
    }

    /// A block that begins so long after the measurement.
    pub fn add(&mut self, since_begin: Span, block: &Block) {
        self.blocks.add(since_begin, block.clone());
    }

    /// Whether all goals are reached, so long after the begin of the measurement, where it is time
    /// to look.
    pub fn is_reached(&mut self, now: Span) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + Span::from_secs_f64((now.as_secs_f64() * STEP).max(0.5));
        self.last = reaches(&self.goals, &self.blocks, now);
        let tight = |(goal, reach): (&Goal, &Result<f64, Lack>)| {
            reach.is_ok_and(|reach| reach + goal.allowance() <= goal.within)
        };
        self.goals.iter().zip(&self.last).all(tight)
    }

    /// What was seen at the last look, goal by goal; nothing before the first.
    pub fn seen(&self) -> impl Iterator<Item = (&Goal, Result<f64, Lack>)> {
        self.goals.iter().zip(self.last.iter().copied())
    }

    /// The first moment at which a run with these blocks would have ended by its goals, were it
    /// looked at no later than `until`.
    pub fn first(goals: &[Goal], blocks: &Blocks, until: Span) -> Option<Span> {
        let mut watch = Self { blocks: blocks.clone(), ..Self::new(goals.to_vec()) };
        while watch.next <= until {
            let now = watch.next;
            if watch.is_reached(now) {
                return Some(now);
            }
        }
        None
    }
}

fn reaches(goals: &[Goal], blocks: &Blocks, until: Span) -> Vec<Result<f64, Lack>> {
    let all: Vec<&Block> = blocks.between(Span::ZERO, until).map(|(_, block)| block).collect();
    let (hist, replies) = pooled(&all);
    let seconds = blocks.length().as_secs_f64() * all.len() as f64;
    let rate = if all.is_empty() { 0.0 } else { replies as f64 / seconds };
    let confidence = Confidence::of_blocks(&hist, all, blocks.length());
    goals.iter().map(|goal| goal.reach(&confidence, rate)).collect()
}

/// The times of blocks, spread evenly over their bins.
fn pooled(blocks: &[&Block]) -> (Hist, u64) {
    let mut hist = Hist::new();
    let mut sums: Vec<u64> = vec![0; BINS];
    for &(bin, n) in blocks.iter().flat_map(|b| &b.bins) {
        sums[usize::from(bin)] += u64::from(n);
    }
    for (bin, n) in sums.into_iter().enumerate().filter(|&(_, n)| n > 0) {
        let (low, high) = bin_bounds(bin as u16);
        let width = (high - low).0.min(low.0);
        for step in 0..STEPS {
            let part = n * (step + 1) / STEPS - n * step / STEPS;
            hist.record_n(Span(low.0 + width * step / (STEPS - 1)), part);
        }
    }
    (hist, blocks.iter().map(|b| b.replies).sum())
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.figure {
            Wanted::Rate => f.write_str("rate")?,
            Wanted::Mean => f.write_str("mean")?,
            Wanted::Percentile(p) => write!(f, "p{p}")?,
        }
        // What was typed in per cent comes back without the rounding of its share.
        write!(f, " +- {} %", (self.within * 1e8).round() / 1e6)
    }
}

impl From<Goal> for String {
    fn from(goal: Goal) -> Self {
        goal.to_string()
    }
}

impl TryFrom<String> for Goal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once("+-").or_else(|| text.split_once('\u{b1}'));
        let Some((figure, within)) = parts else {
            return Err("write a figure, +- and how far it may be off, as in 'p99 +- 5%'".into());
        };
        let figure = match figure.trim() {
            "rate" => Wanted::Rate,
            "mean" => Wanted::Mean,
            name => name
                .strip_prefix('p')
                .and_then(|p| p.parse::<f64>().ok())
                .filter(|&p| p > 0.0 && p < 100.0)
                .map(Wanted::Percentile)
                .ok_or_else(|| {
                    format!("'{name}' is no figure; write rate, mean or a percentile such as p99")
                })?,
        };
        let share = within.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let within = share.filter(|&n| (0.1..=50.0).contains(&n)).ok_or_else(|| {
            format!("'{}' must lie between 0.1% and 50%, with its sign", within.trim())
        })?;
        Ok(Self { figure, within: within / 100.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::series::BLOCK_MIN;

    #[test]
    fn goals_are_read_as_they_are_told() {
        for (text, told) in [
            ("p99 +- 5%", "p99 +- 5 %"),
            ("p99.9+-2.5 %", "p99.9 +- 2.5 %"),
            ("mean \u{b1} 0.3%", "mean +- 0.3 %"),
            (" rate +-50%", "rate +- 50 %"),
        ] {
            let goal: Goal = text.parse().expect(text);
            assert_eq!(goal.to_string(), told);
            assert_eq!(told.parse(), Ok(goal), "{text}");
        }
        for wrong in ["p99", "p99 5%", "p100 +- 5%", "max +- 5%", "p0 +- 1%", "p50 +- 5", "p50 +-"]
        {
            assert!(wrong.parse::<Goal>().is_err(), "{wrong}");
        }
        for share in ["0%", "-5%", "0.05%", "51%", "nan%", "inf%"] {
            assert!(format!("p50 +- {share}").parse::<Goal>().is_err(), "{share}");
        }
    }

    #[test]
    fn a_load_is_not_looked_at_all_the_time() {
        let mut watch = Watch::new(vec!["p50 +- 50%".parse().expect("a goal")]);
        let block = Block { replies: 10, sum_ns: 1_000, bins: vec![(40, 5), (50, 5)] };
        for i in 0..640 {
            watch.add(BLOCK_MIN * i, &block);
        }
        assert!(!watch.is_reached(Span::from_millis(1_999)), "too early");
        assert!(watch.is_reached(Span::from_secs(2)));
        assert!(!watch.is_reached(Span::from_millis(2_400)), "just looked at");
        assert!(watch.is_reached(Span::from_millis(2_500)));
        assert!(watch.seen().all(|(_, reach)| reach.is_ok_and(|r| r < 0.5)));
        let goals = ["p99.99 +- 5%", "rate +- 5%"].map(|g| g.parse().expect("a goal"));
        assert_eq!(Watch::first(&goals, &watch.blocks, Span::from_secs(20)), None);
        let found = Watch::first(&goals[1..], &watch.blocks, Span::from_secs(20));
        assert_eq!(found, Some(Span::from_secs(2)));
    }
}
