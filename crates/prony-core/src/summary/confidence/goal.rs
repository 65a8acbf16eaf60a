//! How far figures are to be known, and whether they are: when a run may end.

use std::str::FromStr;
use std::{fmt, iter};

use serde::{Deserialize, Serialize};

use super::{Confidence, Lack};
use crate::record::Tally;
use crate::record::hist::Hist;
use crate::record::series::{BINS, Block, Blocks, bin_bounds};
use crate::units::Span;

/// Which time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From the intended start on.
    Response,
    /// From the send on.
    Service,
}

/// A figure that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// Successes per second.
    Rate,
    /// The mean time.
    Mean(Clock),
    /// That percentile of the time, over 0 and below 100.
    Percentile(Clock, f64),
}

/// A figure and how far off it may be: `p99 +- 5%`, `service.mean +- 2%`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Goal {
    /// The figure.
    pub figure: Wanted,
    /// The furthest that an end of its 95 % confidence interval may be, as a share of the figure.
    pub within: f64,
}

/// The goals of a run, and what has come of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// All of them must be reached at once.
    pub goals: Vec<Goal>,
    /// Whether they ended the load.
    #[serde(default)]
    pub ended: bool,
    /// Whether the figures of the whole measurement reach them.
    pub reached: bool,
}

/// Steps in which a bin's times are taken to lie, evenly, while the run goes on; its end has them
/// exactly.
const STEPS: u64 = 16;
/// How far a time may be from the middle of its bin, as a share of it.
const HALF_BIN: f64 = 1.0 / 64.0 / 2.0;
/// By how much narrower than asked an interval must be for a load to end, as a share of what was
/// asked: what has not been looked at yet, and what ends in the drain, belongs to the figures too.
const MARGIN: f64 = 0.1;
/// How long a load is not ended by its goals: what is reached by chance is reached early.
const LEAST: Span = Span::from_secs(2);
/// From one look to the next the run gets longer by that share of itself: who looks all the time
/// finds the moment in which the interval is narrow by chance.
const STEP: f64 = 0.1;

impl Goal {
    /// By how much narrower the interval must be while the load runs and the times are known to
    /// their bins only.
    fn allowance(&self) -> f64 {
        let bins = match self.figure {
            Wanted::Percentile(..) => HALF_BIN.min(self.within / 4.0),
            Wanted::Rate | Wanted::Mean(_) => 0.0,
        };
        bins.max(self.within * MARGIN)
    }

    fn clock(&self) -> Clock {
        match self.figure {
            Wanted::Mean(clock) | Wanted::Percentile(clock, _) => clock,
            Wanted::Rate => Clock::Response,
        }
    }

    /// Whether it is of the service times, which then must be kept over time.
    pub fn is_of_service(&self) -> bool {
        self.clock() == Clock::Service
    }

    /// How far the further end of the figure's interval is from it, as a share of the figure.
    ///
    /// # Errors
    /// Where the figure has no interval.
    pub fn reach(&self, tally: &Tally) -> Result<f64, Lack> {
        let confidence = match self.clock() {
            Clock::Response => Confidence::of(tally),
            Clock::Service => Confidence::of_service(tally).ok_or(Lack::NotKept)?,
        };
        self.reach_in(&confidence, tally.rate())
    }

    /// Whether the figure is known so closely.
    pub fn is_reached(&self, tally: &Tally) -> bool {
        self.reach(tally).is_ok_and(|reach| reach <= self.within)
    }

    fn reach_in(&self, confidence: &Confidence<'_>, rate: f64) -> Result<f64, Lack> {
        let hist = confidence.hist;
        match self.figure {
            Wanted::Rate => confidence.rate(rate).map(|i| i.reach(rate)),
            Wanted::Mean(_) => {
                confidence.mean().map(|i| i.reach(hist.mean_ns().unwrap_or_default()))
            }
            Wanted::Percentile(_, p) => {
                let figure = hist.estimate(p / 100.0).unwrap_or_default().0 as f64;
                confidence.quantile(p / 100.0).map(|i| i.reach(figure))
            }
        }
    }
}

impl Until {
    /// What has come of the goals in that measurement; `ended` says whether they ended its load.
    pub fn of(goals: Vec<Goal>, ended: bool, tally: &Tally) -> Self {
        let reached = goals.iter().all(|goal| goal.is_reached(tally));
        Self { goals, ended, reached }
    }
}

/// Blocks as they come while a load runs, and when they are looked at.
#[derive(Clone, Debug)]
pub struct Watch {
    goals: Vec<Goal>,
    blocks: [Blocks; 2],
    next: Span,
    last: Vec<Result<f64, Lack>>,
    /// Whether the last look found all goals reached.
    reached: bool,
}

impl Watch {
    /// Nothing has come yet.
    pub fn new(goals: Vec<Goal>) -> Self {
        Self { goals, blocks: Default::default(), next: LEAST, last: Vec::new(), reached: false }
    }

    /// A block of such times that begins so long after the measurement.
    pub fn add(&mut self, clock: Clock, since_begin: Span, block: &Block) {
        self.blocks[clock as usize].add(since_begin, block.clone());
    }

    /// Whether all goals are reached, so long after the begin of the measurement, and were at the
    /// look before, where it is time to look. What a single look saw by chance is gone a little
    /// later, when the load has ended.
    pub fn is_reached(&mut self, now: Span) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + Span::from_secs_f64((now.as_secs_f64() * STEP).max(0.5));
        self.last = self.reaches(now);
        let tight = |(goal, reach): (&Goal, &Result<f64, Lack>)| {
            reach.is_ok_and(|reach| reach + goal.allowance() <= goal.within)
        };
        let before = self.reached;
        self.reached = self.goals.iter().zip(&self.last).all(tight);
        self.reached && before
    }

    /// What was seen at the last look, goal by goal; nothing before the first.
    pub fn seen(&self) -> impl Iterator<Item = (&Goal, Result<f64, Lack>)> {
        self.goals.iter().zip(self.last.iter().copied())
    }

    /// The moments at which a run with this measurement might have ended by its goals, were it
    /// looked at no later than its end; the first of them would have ended it.
    pub fn ends(goals: &[Goal], tally: &Tally) -> impl Iterator<Item = Span> {
        let served = tally.served.as_ref().map(|s| s.blocks().clone()).unwrap_or_default();
        let blocks = [tally.series.blocks().clone(), served];
        Self { blocks, ..Self::new(goals.to_vec()) }.ends_until(tally.window())
    }

    fn ends_until(mut self, until: Span) -> impl Iterator<Item = Span> {
        iter::from_fn(move || {
            while self.next <= until {
                let now = self.next;
                if self.is_reached(now) {
                    return Some(now);
                }
            }
            None
        })
    }

    fn reaches(&self, until: Span) -> Vec<Result<f64, Lack>> {
        let mut reaches = vec![Err(Lack::Empty); self.goals.len()];
        for clock in [Clock::Response, Clock::Service] {
            let asked = || self.goals.iter().zip(0..).filter(|(goal, _)| goal.clock() == clock);
            if asked().next().is_none() {
                continue;
            }
            let blocks = &self.blocks[clock as usize];
            let all: Vec<&Block> = blocks.between(Span::ZERO, until).map(|(_, b)| b).collect();
            let (hist, replies) = pooled(&all);
            let seconds = blocks.length().as_secs_f64() * all.len() as f64;
            let rate = if all.is_empty() { 0.0 } else { replies as f64 / seconds };
            let confidence = Confidence::of_blocks(&hist, all, blocks.length());
            for (goal, i) in asked() {
                reaches[i] = goal.reach_in(&confidence, rate);
            }
        }
        reaches
    }
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
        if self.is_of_service() {
            f.write_str("service.")?;
        }
        match self.figure {
            Wanted::Rate => f.write_str("rate")?,
            Wanted::Mean(_) => f.write_str("mean")?,
            Wanted::Percentile(_, p) => write!(f, "p{p}")?,
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
        let figure = wanted(figure.trim())?;
        let share = within.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let within = share.filter(|&n| (0.1..=50.0).contains(&n)).ok_or_else(|| {
            format!("'{}' must lie between 0.1% and 50%, with its sign", within.trim())
        })?;
        Ok(Self { figure, within: within / 100.0 })
    }
}

fn wanted(text: &str) -> Result<Wanted, String> {
    let (clock, name) = match text.split_once('.') {
        Some(("response", name)) => (Clock::Response, name),
        Some(("service", name)) => (Clock::Service, name),
        _ if text == "rate" => return Ok(Wanted::Rate),
        _ => (Clock::Response, text),
    };
    if name == "mean" {
        return Ok(Wanted::Mean(clock));
    }
    let share = name.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
    share.filter(|&p| p > 0.0 && p < 100.0).map(|p| Wanted::Percentile(clock, p)).ok_or_else(|| {
        format!(
            "'{text}' is no figure; write rate, mean or a percentile such as p99, the latter two \
             with 'service.' before them where the service time is meant"
        )
    })
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
            ("service.p99.9 +- 5%", "service.p99.9 +- 5 %"),
            ("service.mean +-1%", "service.mean +- 1 %"),
            ("response.p50 +- 2%", "p50 +- 2 %"),
        ] {
            let goal: Goal = text.parse().expect(text);
            assert_eq!(goal.to_string(), told);
            assert_eq!(told.parse(), Ok(goal), "{text}");
        }
        for wrong in ["p99", "p99 5%", "p50 +- 5", "p50 +-"] {
            assert!(wrong.parse::<Goal>().is_err(), "{wrong}");
        }
        for figure in ["p100", "max", "p0", "service.rate", "service.", "connect.p50", "service"] {
            assert!(format!("{figure} +- 5%").parse::<Goal>().is_err(), "{figure}");
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
            watch.add(Clock::Response, BLOCK_MIN * i, &block);
        }
        assert!(!watch.is_reached(Span::from_millis(1_999)), "too early");
        assert!(!watch.is_reached(Span::from_secs(2)), "seen once");
        assert!(!watch.is_reached(Span::from_millis(2_400)), "just looked at");
        assert!(watch.is_reached(Span::from_millis(2_500)), "seen twice");
        assert!(watch.seen().all(|(_, reach)| reach.is_ok_and(|r| r < 0.5)));
        let goals = ["p99.99 +- 5%", "rate +- 5%"].map(|g| g.parse().expect("a goal"));
        let first = |goals: &[Goal]| {
            let again = Watch { blocks: watch.blocks.clone(), ..Watch::new(goals.to_vec()) };
            again.ends_until(Span::from_secs(20)).next()
        };
        assert_eq!(first(&goals), None);
        assert_eq!(first(&goals[1..]), Some(Span::from_millis(2_500)));
        let service = "service.p50 +- 50%".parse().expect("a goal");
        assert_eq!(first(&[service, goals[1]]), None, "there are none");
        for (i, block) in (0..).zip(watch.blocks[0].all().to_vec()) {
            watch.add(Clock::Service, watch.blocks[0].length() * i, &block);
        }
        let mut both = Watch { goals: vec![service, goals[1]], ..watch };
        both.is_reached(Span::from_secs(18));
        assert!(both.is_reached(Span::from_secs(20)), "{:?}", both.last);
    }
}
