//! Loads that go on until their thresholds are decided: a sequential rule, so that looking often
//! does not decide by chance.
//!
//! The looks are at 10 s and each time that the run is half as long again. The first look may be
//! wrong with half of the probability of a decision at the end of an ordinary run, and the others
//! share the other half (alpha spending, Lan and DeMets 1983), also the one at the end of the time.
//! The report's decisions are made with the probability of the look that ended the load.

use prony_base::units::Span;
use prony_plan::plan::Plan;
use prony_plan::threshold::{Figure, Scalar, Statistic, Threshold, Timed, Unit};
use prony_tally::record::Tally;
use prony_tally::record::series::{Block, Blocks, Series};

use super::super::confidence::{Confidence, TimeKind, pooled};
use super::binomial::LEVEL;
use super::known::{Evidence, Known, Percentile, Test};
use super::shares::{clustered_share, clustering_of};

/// When the first look is.
const FIRST: Span = Span::from_secs(10);
/// From one look to the next the run gets longer by this factor.
const STEP: f64 = 1.5;

/// How many requests had ended, and failed, at a moment of the measurement.
#[derive(Clone, Copy, Debug)]
struct Counts {
    at: Span,
    ended: u64,
    failed: u64,
}

/// Looks at a load while it runs.
#[derive(Clone, Debug)]
pub struct Deciding {
    /// Those thresholds whose figures are known while the load runs.
    thresholds: Vec<Threshold>,
    blocks: [Blocks; 2],
    counts: Vec<Counts>,
    looks: Vec<Span>,
    /// The next of them.
    next: usize,
}

impl Deciding {
    /// The looks at the load of a plan; `None` if it does not end with its decisions.
    pub fn new(plan: &Plan) -> Option<Self> {
        let within = plan.stop.duration.filter(|_| plan.decides)?;
        let is_known = |t: &&Threshold| {
            let has_rate = t.figure == Figure::Scalar(Scalar::Rate) && plan.has_changing_rate();
            // A count is a fact at any time.
            let is_count = t.unit == Unit::Count;
            t.figure.can_end_load() && t.request.is_none() && !has_rate && !is_count
        };
        let thresholds = plan.thresholds.iter().filter(is_known).cloned().collect();
        let longer = |at: &Span| Some(Span::from_secs_f64(at.as_secs_f64() * STEP));
        let looks = std::iter::successors(Some(FIRST), longer).take_while(|at| *at < within);
        let (blocks, counts, looks) = (Default::default(), Vec::new(), looks.collect());
        Some(Self { thresholds, blocks, counts, looks, next: 0 })
    }

    /// A block of such times that starts so long after the measurement.
    pub fn add(&mut self, kind: TimeKind, since_start: Span, block: &Block) {
        self.blocks[kind as usize].add(since_start, block.clone());
    }

    /// How many requests of the measurement have ended until then, and how many of them failed.
    pub fn count(&mut self, at: Span, ended: u64, failed: u64) {
        if self.counts.last().is_none_or(|last| last.at < at) {
            self.counts.push(Counts { at, ended, failed });
        }
    }

    /// Whether all thresholds are decided so long after the start of the measurement, if it is time
    /// to look.
    pub fn is_decided(&mut self, now: Span) -> bool {
        let Some(&look) = self.looks.get(self.next) else { return false };
        if now < look {
            return false;
        }
        let level = self.level();
        let is_decided = self.thresholds.iter().all(|t| self.keeps(t, now, level).is_some());
        // The level of the look that ended the load stays.
        self.next += usize::from(!is_decided);
        is_decided
    }

    /// The chance of a wrong decision at the next look, or at the end of the time.
    pub fn level(&self) -> f64 {
        match self.looks.len() {
            0 => LEVEL,
            _ if self.next == 0 => LEVEL / 2.0,
            others => LEVEL / 2.0 / others as f64,
        }
    }

    /// When the load of a plan with this measurement would have ended, and with which chance of a
    /// wrong decision.
    pub fn end_of(plan: &Plan, tally: &Tally) -> Option<(Option<Span>, f64)> {
        let mut looks = Self::new(plan)?;
        let blocks = |series: &Series| series.blocks().clone();
        let served = tally.service_series.as_deref().map(blocks).unwrap_or_default();
        looks.blocks = [blocks(&tally.series), served];
        let (mut ended, mut failed) = (0, 0);
        for (i, cell) in tally.series.cells().iter().enumerate() {
            ended += cell.replies + cell.failed;
            failed += cell.failed;
            looks.count(tally.series.interval() * (i as u64 + 1), ended, failed);
        }
        while let Some(&at) = looks.looks.get(looks.next).filter(|at| **at <= tally.window()) {
            if looks.is_decided(at) {
                return Some((Some(at), looks.level()));
            }
        }
        Some((None, looks.level()))
    }

    fn keeps(&self, threshold: &Threshold, now: Span, level: f64) -> Option<bool> {
        let test = Test { multiple: 1.0, level };
        let decided =
            |evidence: &Evidence<'_>| evidence.keeps(threshold.relation, threshold.limit, test);
        if matches!(threshold.figure, Figure::Count(_)) {
            return decided(&self.failures(now).evidence);
        }
        let kind = match threshold.figure {
            Figure::Time(Timed::Service, _) => TimeKind::Service,
            _ => TimeKind::Response,
        };
        let blocks = &self.blocks[kind as usize];
        let all: Vec<&Block> = blocks.between(Span::ZERO, now).map(|(_, block)| block).collect();
        let (hist, replies) = pooled(&all);
        let rate = replies as f64 / (blocks.length().as_secs_f64() * all.len().max(1) as f64);
        let confidence = Confidence::of_blocks(&hist, all, blocks.length());
        match threshold.figure {
            Figure::Time(_, Statistic::Percentile(p)) => {
                let q = p / 100.0;
                let effects = confidence.effects(q).ok();
                let shift = Span::ZERO;
                decided(&Evidence::Percentile(Percentile { times: &hist, shift, q, effects }))
            }
            Figure::Time(_, Statistic::Mean) => {
                decided(&Known::estimate(hist.mean_ns()?, confidence.mean()).evidence)
            }
            Figure::Scalar(Scalar::Rate) => {
                decided(&Known::estimate(rate, confidence.rate(rate)).evidence)
            }
            _ => None,
        }
    }

    /// The share of failures until then.
    fn failures(&self, now: Span) -> Known<'static> {
        let counts = &self.counts[..self.counts.partition_point(|counts| counts.at <= now)];
        let Some(last) = counts.last() else { return Known::NOTHING };
        clustered_share(last.failed, last.ended, || {
            let cells = counts
                .windows(2)
                .map(|pair| (pair[1].failed - pair[0].failed, pair[1].ended - pair[0].ended));
            clustering_of(&cells.filter(|(_, ended)| *ended > 0).collect::<Vec<_>>())
        })
    }
}

#[cfg(test)]
mod tests {
    use prony_base::units::Nanos;
    use prony_plan::plan::{CallSpec, Load, Stop, Think};
    use prony_plan::target::Endpoint;

    use super::*;

    fn plan(thresholds: &[&str], within: Span) -> Plan {
        let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
        let load = Load::Closed { connections: 1, think: Think::None };
        let stop = Stop { duration: Some(within), ..Stop::default() };
        let mut plan = Plan::new(vec![endpoint], vec![CallSpec::default()], load, stop);
        plan.decides = true;
        plan.thresholds = thresholds.iter().map(|text| text.parse().expect(text)).collect();
        plan
    }

    /// A minute of 100 replies a second, of 10 to 20 ms.
    fn minute() -> Tally {
        let mut t = Tally::new(Nanos::ZERO);
        for i in 0..6_000 {
            let time = Span::from_micros(10_000 + i * 7_919 % 10_000);
            t.series.replied(Nanos(i * 10_000_000), time, 1);
        }
        t.series.close();
        t.end = Nanos(60_000_000_000);
        t
    }

    #[test]
    fn a_load_ends_when_the_data_decides() {
        let end = |thresholds: &[&str]| {
            Deciding::end_of(&plan(thresholds, Span::from_secs(60)), &minute()).expect("looks")
        };
        let seconds = |thresholds: &[&str]| end(thresholds).0.map(Span::as_secs_f64);
        assert_eq!(seconds(&["p99 < 100ms", "p50 > 5ms", "errors = 0"]), Some(10.0));
        // 0 of 1,000 at a level of 0.025 decides 0.37 %, and 0 of 3,300 at 0.005 decides 0.17 %.
        assert_eq!(seconds(&["errors < 0.4%"]), Some(10.0));
        assert_eq!(seconds(&["errors < 0.17%"]), Some(33.75));
        assert_eq!(seconds(&["errors < 0.05%"]), None);
        // 10, 15, 22.5, 33.75, 50.6 s, and the end.
        assert_eq!(end(&["p99 < 100ms"]).1, LEVEL / 2.0);
        assert_eq!(end(&["errors < 0.05%"]).1, LEVEL / 10.0);
    }

    #[test]
    fn only_a_load_without_an_end_of_its_own_has_looks() {
        let mut ends = plan(&["p99 < 1s"], Span::from_secs(30));
        ends.decides = false;
        assert!(Deciding::end_of(&ends, &minute()).is_none());
        let short = plan(&["p99 < 1s"], Span::from_secs(5));
        assert_eq!(Deciding::end_of(&short, &minute()), Some((None, LEVEL)));
    }
}
