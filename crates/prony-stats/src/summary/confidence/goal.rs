//! Precision goals of figures, and when a run that has them may end.

use std::str::FromStr;
use std::{fmt, iter};

use prony_base::units::Span;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;
use prony_tally::record::series::{BINS, Block, Blocks, bin_bounds};
use serde::{Deserialize, Serialize};

use super::{Confidence, NoInterval};

/// A time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// From the intended start on.
    Response,
    /// From the send on.
    Service,
}

/// A figure that can have a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GoalFigure {
    /// Successes per second.
    Rate,
    /// The mean time.
    Mean(TimeKind),
    /// A percentile of the time, above 0 and below 100.
    Percentile(TimeKind, f64),
}

/// A figure and its precision: `p99 +- 5%`, `service.mean +- 2%`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Goal {
    /// The figure.
    pub figure: GoalFigure,
    /// The maximum distance to an end of its 95 % confidence interval, as a share of the figure.
    pub within: f64,
}

/// The goals of a run, and whether they were reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// The goals. All of them must be reached.
    pub goals: Vec<Goal>,
    /// Whether they ended the load.
    #[serde(default)]
    pub ended: bool,
    /// Whether the figures of the whole measurement reached them.
    pub reached: bool,
}

/// The number of points over which the times of a bin are spread during the load. The report has
/// exact times.
const STEPS: u64 = 16;
/// Maximum distance of a time from the middle of its bin, as a share of the time.
const HALF_BIN: f64 = 1.0 / 64.0 / 2.0;
/// The safety margin during the load, as a share of the goal: times not in a block yet, and those
/// of the drain, belong to the figures too.
const MARGIN: f64 = 0.1;
/// The time of the first check. Early intervals can be narrow by chance.
const LEAST: Span = Span::from_secs(2);
/// The relative growth of the run between checks. With continuous checks, the load would end at a
/// moment in which the interval is narrow by chance (Law and Kelton, Management Science 28, 1982,
/// survey such sequential procedures).
const STEP: f64 = 0.1;

impl Goal {
    /// The safety margin of the goal during the load, when times are known only to their bins.
    fn allowance(&self) -> f64 {
        let bins = match self.figure {
            GoalFigure::Percentile(..) => HALF_BIN.min(self.within / 4.0),
            GoalFigure::Rate | GoalFigure::Mean(_) => 0.0,
        };
        bins.max(self.within * MARGIN)
    }

    fn kind(&self) -> TimeKind {
        match self.figure {
            GoalFigure::Mean(kind) | GoalFigure::Percentile(kind, _) => kind,
            GoalFigure::Rate => TimeKind::Response,
        }
    }

    /// Whether the goal is for a service time, so that blocks of service times are needed.
    pub fn is_of_service(&self) -> bool {
        self.kind() == TimeKind::Service
    }

    /// The distance to the further end of the figure's interval, as a share of the figure.
    ///
    /// If the figure has no interval.
    pub fn reach(&self, tally: &Tally) -> Result<f64, NoInterval> {
        let confidence = match self.kind() {
            TimeKind::Response => Confidence::of(tally),
            TimeKind::Service => Confidence::of_service(tally).ok_or(NoInterval::NotRecorded)?,
        };
        self.reach_in(&confidence, tally.rate())
    }

    /// Whether the interval is narrow enough.
    pub fn is_reached(&self, tally: &Tally) -> bool {
        self.reach(tally).is_ok_and(|reach| reach <= self.within)
    }

    fn reach_in(&self, confidence: &Confidence<'_>, rate: f64) -> Result<f64, NoInterval> {
        let hist = confidence.hist;
        // Goals end loads: a small sample would look precise too early.
        match self.figure {
            GoalFigure::Rate => confidence.rate(rate).map(|i| i.reach(rate)),
            GoalFigure::Mean(_) => {
                confidence.spectral_mean().map(|i| i.reach(hist.mean_ns().unwrap_or_default()))
            }
            GoalFigure::Percentile(_, p) => {
                let figure = hist.estimate(p / 100.0).unwrap_or_default().0 as f64;
                confidence.spectral_quantile(p / 100.0).map(|i| i.reach(figure))
            }
        }
    }
}

impl Until {
    /// The goals and whether that measurement reached them; `ended` says whether they ended its
    /// load.
    pub fn of(goals: Vec<Goal>, ended: bool, tally: &Tally) -> Self {
        let reached = goals.iter().all(|goal| goal.is_reached(tally));
        Self { goals, ended, reached }
    }
}

/// The blocks of a load in progress, and the schedule of checks.
#[derive(Clone, Debug)]
pub struct Watch {
    goals: Vec<Goal>,
    blocks: [Blocks; 2],
    next: Span,
    last: Vec<Result<f64, NoInterval>>,
    /// Whether the last check found all goals reached.
    reached: bool,
}

impl Watch {
    /// No blocks yet.
    pub fn new(goals: Vec<Goal>) -> Self {
        Self { goals, blocks: Default::default(), next: LEAST, last: Vec::new(), reached: false }
    }

    /// Add a block of times that starts this long after the start of the measurement.
    pub fn add(&mut self, kind: TimeKind, since_begin: Span, block: &Block) {
        self.blocks[kind as usize].add(since_begin, block.clone());
    }

    /// Whether all goals are reached at `now` (counted from the start of the measurement), and were
    /// at the check before. `false` if no check is due. A single narrow interval may be chance, and
    /// wide again when the load has ended.
    pub fn is_reached(&mut self, now: Span) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + Span::from_secs_f64((now.as_secs_f64() * STEP).max(0.5));
        self.last = self.reaches(now);
        let tight = |(goal, reach): (&Goal, &Result<f64, NoInterval>)| {
            reach.is_ok_and(|reach| reach + goal.allowance() <= goal.within)
        };
        let before = self.reached;
        self.reached = self.goals.iter().zip(&self.last).all(tight);
        self.reached && before
    }

    /// The result of the last check for each goal; empty before the first.
    pub fn seen(&self) -> impl Iterator<Item = (&Goal, Result<f64, NoInterval>)> {
        self.goals.iter().zip(self.last.iter().copied())
    }

    /// The times at which the goals could have ended a run with this measurement, if every check is
    /// made when it is due. The first of them would have ended it.
    pub fn ends(goals: &[Goal], tally: &Tally) -> impl Iterator<Item = Span> {
        let served = tally.service_series.as_ref().map(|s| s.blocks().clone()).unwrap_or_default();
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

    fn reaches(&self, until: Span) -> Vec<Result<f64, NoInterval>> {
        let mut reaches = vec![Err(NoInterval::Empty); self.goals.len()];
        for kind in [TimeKind::Response, TimeKind::Service] {
            let asked = || self.goals.iter().zip(0..).filter(|(goal, _)| goal.kind() == kind);
            if asked().next().is_none() {
                continue;
            }
            let blocks = &self.blocks[kind as usize];
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

/// The histogram of the times of blocks, spread evenly over their bins, and the number of replies.
pub(in crate::summary) fn pooled(blocks: &[&Block]) -> (Hist, u64) {
    let hist = spread_over_bins(blocks.iter().flat_map(|b| &b.bins));
    (hist, blocks.iter().map(|b| b.replies).sum())
}

/// Times of the bins of a series, spread evenly over them.
pub(crate) fn spread_over_bins<'a>(bins: impl IntoIterator<Item = &'a (u16, u32)>) -> Hist {
    let mut hist = Hist::new();
    let mut sums: Vec<u64> = vec![0; BINS];
    for &(bin, n) in bins {
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
    hist
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_service() {
            f.write_str("service.")?;
        }
        match self.figure {
            GoalFigure::Rate => f.write_str("rate")?,
            GoalFigure::Mean(_) => f.write_str("mean")?,
            GoalFigure::Percentile(_, p) => write!(f, "p{p}")?,
        }
        // Remove the rounding error of the conversion from per cent.
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
            return Err("write a figure, +- and the precision, as in 'p99 +- 5%'".into());
        };
        let figure = wanted(figure.trim())?;
        let share = within.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let within = share.filter(|&n| (0.1..=50.0).contains(&n)).ok_or_else(|| {
            format!("'{}' must lie between 0.1% and 50%, with its sign", within.trim())
        })?;
        Ok(Self { figure, within: within / 100.0 })
    }
}

fn wanted(text: &str) -> Result<GoalFigure, String> {
    let (kind, name) = match text.split_once('.') {
        Some(("response", name)) => (TimeKind::Response, name),
        Some(("service", name)) => (TimeKind::Service, name),
        _ if text == "rate" => return Ok(GoalFigure::Rate),
        _ => (TimeKind::Response, text),
    };
    if name == "mean" {
        return Ok(GoalFigure::Mean(kind));
    }
    if name == "p9" {
        // Most likely a typing error for p99 or p90.
        return Err("'p9' is the 9th percentile; write p90, p99 or, if it is meant, p9.0".into());
    }
    let share = name.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
    share.filter(|&p| p > 0.0 && p < 100.0).map(|p| GoalFigure::Percentile(kind, p)).ok_or_else(|| {
        format!(
            "'{text}' is not a known figure; write rate, mean or a percentile such as p99, the latter two \
             with 'service.' before them where the service time is meant"
        )
    })
}

#[cfg(test)]
mod tests {
    use prony_tally::record::series::BLOCK_MIN;

    use super::*;

    #[test]
    fn goals_round_trip_through_their_text() {
        for (text, shown) in [
            ("p99 +- 5%", "p99 +- 5 %"),
            ("p99.9+-2.5 %", "p99.9 +- 2.5 %"),
            ("mean \u{b1} 0.3%", "mean +- 0.3 %"),
            (" rate +-50%", "rate +- 50 %"),
            ("service.p99.9 +- 5%", "service.p99.9 +- 5 %"),
            ("service.mean +-1%", "service.mean +- 1 %"),
            ("response.p50 +- 2%", "p50 +- 2 %"),
        ] {
            let goal: Goal = text.parse().expect(text);
            assert_eq!(goal.to_string(), shown);
            assert_eq!(shown.parse(), Ok(goal), "{text}");
        }
        for wrong in ["p99", "p99 5%", "p50 +- 5", "p50 +-"] {
            assert!(wrong.parse::<Goal>().is_err(), "{wrong}");
        }
        let p9 = "p9 +- 5%".parse::<Goal>().expect_err("p9");
        assert_eq!(p9, "'p9' is the 9th percentile; write p90, p99 or, if it is meant, p9.0");
        assert!("p9.0 +- 5%".parse::<Goal>().is_ok());
        for figure in ["p100", "max", "p0", "service.rate", "service.", "connect.p50", "service"] {
            assert!(format!("{figure} +- 5%").parse::<Goal>().is_err(), "{figure}");
        }
        for share in ["0%", "-5%", "0.05%", "51%", "nan%", "inf%"] {
            assert!(format!("p50 +- {share}").parse::<Goal>().is_err(), "{share}");
        }
    }

    #[test]
    fn checks_goals_at_growing_intervals() {
        let mut watch = Watch::new(vec!["p50 +- 50%".parse().expect("a goal")]);
        let block = Block { replies: 10, sum_ns: 1_000, bins: vec![(40, 5), (50, 5)] };
        for i in 0..640 {
            watch.add(TimeKind::Response, BLOCK_MIN * i, &block);
        }
        assert!(!watch.is_reached(Span::from_millis(1_999)), "too early");
        assert!(!watch.is_reached(Span::from_secs(2)), "reached once");
        assert!(!watch.is_reached(Span::from_millis(2_400)), "no check is due");
        assert!(watch.is_reached(Span::from_millis(2_500)), "reached twice");
        assert!(watch.seen().all(|(_, reach)| reach.is_ok_and(|r| r < 0.5)));
        let goals = ["p99.99 +- 5%", "rate +- 5%"].map(|g| g.parse().expect("a goal"));
        let first = |goals: &[Goal]| {
            let again = Watch { blocks: watch.blocks.clone(), ..Watch::new(goals.to_vec()) };
            again.ends_until(Span::from_secs(20)).next()
        };
        assert_eq!(first(&goals), None);
        assert_eq!(first(&goals[1..]), Some(Span::from_millis(2_500)));
        let service = "service.p50 +- 50%".parse().expect("a goal");
        assert_eq!(first(&[service, goals[1]]), None, "there are no service times");
        for (i, block) in (0..).zip(watch.blocks[0].all().to_vec()) {
            watch.add(TimeKind::Service, watch.blocks[0].length() * i, &block);
        }
        let mut both = Watch { goals: vec![service, goals[1]], ..watch };
        both.is_reached(Span::from_secs(18));
        assert!(both.is_reached(Span::from_secs(20)), "{:?}", both.last);
    }
}
