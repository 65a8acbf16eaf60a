//! The stages of a rate plan, each with its own figures.
//!
//! They come from the series: a request counts in the stage in which it ended. A cell of the series
//! that two stages share belongs to neither.

use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_plan::plan::{Load, Plan};
use prony_plan::rate::{RatePiece, RatePlan};
use prony_tally::record::series::{Block, Cell};

use super::Summary;
use super::confidence::{Confidence, Interval, NoInterval, spread_over_bins};

/// A plan with ramps has about as many stages at most, or one for each of its pieces. A run of
/// over eight seconds has at least 256 blocks, so that each of eight stages has the 32 that a
/// confidence interval needs.
const STAGES_MAX: usize = 8;

/// A piece of the rate plan, or a part of a ramp.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its start, counted from the start of the measurement.
    pub at: Span,
    /// Its length. Of a piece without an end: until the end of the load.
    pub length: Span,
    /// The target rate at its start, in arrivals per second: of requests, or of sessions where the
    /// plan has sessions.
    pub from: f64,
    /// The target rate at its end.
    pub to: f64,
    /// Its figures; `None` where the load ended before a whole cell of the series lay in it.
    pub figures: Option<StageFigures>,
}

/// The figures of the cells of the series that lie in one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFigures {
    /// The start of the first cell, counted from the start of the measurement.
    pub at: Span,
    /// The length of all cells.
    pub length: Span,
    /// The mean target rate over the cells, in arrivals per second.
    pub target_rate: f64,
    /// Intended starts.
    pub started: u64,
    /// Successes.
    pub replies: u64,
    /// Failures.
    pub failed: u64,
    /// Successes per second.
    pub rate: f64,
    /// Its interval, where the target rate is constant.
    pub rate_interval: Result<Interval, NoInterval>,
    /// Median response time, to 1.6 %.
    pub p50: Option<Span>,
    /// Its interval.
    pub p50_interval: Result<Interval, NoInterval>,
    /// 99th percentile of the response time, to 1.6 %.
    pub p99: Option<Span>,
    /// Its interval.
    pub p99_interval: Result<Interval, NoInterval>,
}

impl Stage {
    /// Whether the target rate changes in it.
    pub fn is_ramp(&self) -> bool {
        self.from != self.to
    }
}

/// The rate plan, if arrivals follow it and it is not a single constant rate.
fn staged(plan: &Plan) -> Option<&RatePlan> {
    match &plan.load {
        Load::Open { rate, arrivals, .. } if arrivals.has_rate() => {
            Some(rate).filter(|rate| rate.pieces.len() > 1 || rate.changes())
        }
        _ => None,
    }
}

impl Summary {
    /// Whether the plan changes the target rate during the measurement.
    pub fn is_ramp(&self) -> bool {
        self.plan.has_changing_rate()
    }

    /// The 95 % confidence interval of the completed rate.
    ///
    /// # Errors
    /// The target rate changes, or the run cannot carry an interval.
    pub fn rate_interval(&self) -> Result<Interval, NoInterval> {
        if self.is_ramp() {
            return Err(NoInterval::RateChanges);
        }
        Confidence::of(&self.main).rate(self.main.rate())
    }

    /// The stages of the rate plan; none where the rate is constant, and in a closed loop.
    pub fn stages(&self) -> Vec<Stage> {
        let Some(rate) = staged(&self.plan) else { return Vec::new() };
        let window = self.main.end.since(self.main.series.start());
        let constant = rate.pieces.iter().filter(|p| p.from == p.to).count();
        let ramps = rate.pieces.len() - constant;
        let parts = STAGES_MAX.saturating_sub(constant) / ramps.max(1);
        let mut stages = Vec::new();
        let mut start = Span::ZERO;
        for piece in &rate.pieces {
            let length = piece.length.unwrap_or(window - start);
            let cuts =
                if piece.from == piece.to { vec![] } else { self.cuts(start, length, parts) };
            let mut at = Span::ZERO;
            for cut in cuts.into_iter().chain([length]) {
                stages.extend(self.stage(rate, &piece.part(at, Some(cut)), start + at));
                at = cut;
            }
            start += length;
        }
        stages
    }

    /// Where a ramp is cut into parts of about the same length, counted from its start: at the
    /// start of a cell of the series.
    fn cuts(&self, start: Span, length: Span, parts: usize) -> Vec<Span> {
        let cell = self.main.series.interval().0;
        let parts = (parts as u64).min(length.0 / cell);
        let nearest = |at: u64| at.saturating_add(cell / 2) / cell * cell;
        let cuts = (1..parts).map(|i| nearest(start.0 + length.0 / parts * i));
        cuts.filter(|&cut| cut > start.0 && cut < (start + length).0)
            .map(|cut| Span(cut - start.0))
            .collect()
    }

    fn stage(&self, rate: &RatePlan, piece: &RatePiece, at: Span) -> Option<Stage> {
        let length = piece.length.filter(|&length| length > Span::ZERO)?;
        let (from, to) = (piece.from, piece.to);
        let figures = self.figures_of(rate, at, at + length, from == to);
        Some(Stage { at, length, from, to, figures })
    }

    /// The figures of the whole cells between two moments.
    fn figures_of(
        &self,
        rate: &RatePlan,
        from: Span,
        until: Span,
        constant: bool,
    ) -> Option<StageFigures> {
        let t = &self.main;
        let (start, cell) = (t.series.start(), t.series.interval());
        let from = from.max(t.start.since(start));
        let until = until.min(t.end.since(start));
        let (first, end) = (from.0.div_ceil(cell.0), until.0 / cell.0);
        if first >= end {
            return None;
        }
        let (at, length) = (cell * first, cell * (end - first));
        let mut sum = Cell::default();
        let cells = t.series.cells().iter().skip(first as usize);
        cells.take((end - first) as usize).for_each(|cell| sum.merge(cell));
        let hist = spread_over_bins(&sum.bins);
        let blocks: Vec<&Block> =
            t.series.blocks().between(at, at + length).map(|(_, block)| block).collect();
        let confidence = match t.series.blocks().all().is_empty() && !hist.is_empty() {
            true => None,
            false => Some(Confidence::of_blocks(&hist, blocks, t.series.blocks().length())),
        };
        let known = || confidence.as_ref().ok_or(NoInterval::NotRecorded);
        let completed = sum.replies as f64 / length.as_secs_f64();
        let asked = rate.arrivals_until(at + length) - rate.arrivals_until(at);
        let interval = |q| known().and_then(|c| c.quantile(q));
        Some(StageFigures {
            at,
            length,
            target_rate: asked / length.as_secs_f64(),
            started: sum.started,
            replies: sum.replies,
            failed: sum.failed,
            rate: completed,
            rate_interval: match constant {
                true => known().and_then(|c| c.rate(completed)),
                false => Err(NoInterval::RateChanges),
            },
            p50: hist.quantile(0.5),
            p50_interval: interval(0.5),
            p99: hist.quantile(0.99),
            p99_interval: interval(0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use prony_base::units::Nanos;
    use prony_plan::plan::Stop;
    use prony_plan::rate::Arrivals;
    use prony_tally::record::Tally;

    use super::super::tests::{meter, summary};
    use super::*;

    const S: u64 = 1_000_000_000;

    fn plan(rate: &str) -> Plan {
        let rate: RatePlan = rate.parse().expect("a rate plan");
        let load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 50 };
        Plan::new(vec![], vec![], load, Stop { requests: None, sessions: None, duration: None })
    }

    /// A run of a plan until `end`: every request takes as many milliseconds as `took` says of the
    /// second in which it starts; every tenth fails in the second that is `bad`.
    fn run(rate: &str, end: u64, took: fn(u64) -> u64, bad: Option<u64>) -> Summary {
        let plan = plan(rate);
        let Load::Open { rate, .. } = &plan.load else { panic!("an open loop") };
        let mut t = Tally::new(Nanos::ZERO);
        let mut inverse = prony_plan::rate::Inverse::new(rate);
        let mut k = 0;
        while let Some(at) = inverse.at(k as f64).filter(|at| at.0 < end) {
            let at = Nanos(at.0);
            t.series.started(at);
            let response = Span::from_millis(took(at.0 / S));
            if Some(at.0 / S) == bad && k % 10 == 0 {
                t.series.failed(at + response);
            } else {
                t.series.replied(at + response, response, 10);
                t.times.response.record(response);
                t.replies += 1;
            }
            k += 1;
        }
        t.series.close();
        (t.started, t.end) = (k, Nanos(end));
        summary(plan, t, meter(10))
    }

    fn ms(t: Option<Span>) -> Option<f64> {
        t.map(|t| (t.0 as f64 / 1e6).round())
    }

    #[test]
    fn steps_have_their_own_figures() {
        let took = |second| if second < 4 { 2 } else { 20 };
        let s = run("1k@4s,2k@4s", 8 * S, took, Some(5));
        let stages = s.stages();
        let [first, second] = &stages[..] else { panic!("{stages:?}") };
        assert_eq!(
            (first.at, first.length, first.from, first.to),
            (Span(0), Span(4 * S), 1e3, 1e3)
        );
        assert_eq!((second.at, second.length), (Span(4 * S), Span(4 * S)));
        assert!(!first.is_ramp() && !second.is_ramp());
        let (a, b) =
            (first.figures.as_ref().expect("cells"), second.figures.as_ref().expect("cells"));
        assert_eq!((a.started, a.failed, b.started, b.failed), (4_000, 0, 8_000, 200));
        assert_eq!((a.target_rate, b.target_rate), (1_000.0, 2_000.0));
        assert_eq!(a.replies, 4_000 - 2, "two end in the second stage");
        assert_eq!(
            (ms(a.p50), ms(a.p99), ms(b.p50), ms(b.p99)),
            (Some(2.0), Some(2.0), Some(20.0), Some(20.0))
        );
        let rate = b.rate_interval.expect("a constant rate");
        assert!(rate.lo <= b.rate && b.rate <= rate.hi && rate.reach(b.rate) < 0.1, "{rate:?}");
        assert!(s.is_ramp());
        assert_eq!(s.rate_interval(), Err(NoInterval::RateChanges));
    }

    #[test]
    fn cells_that_stages_share_belong_to_none() {
        let s = run("100@2500ms,200@2500ms", 5 * S, |_| 1, None);
        let figures: Vec<_> = s.stages().into_iter().map(|s| s.figures.expect("cells")).collect();
        let of = |f: &StageFigures| (f.at.0 / S, f.length.0 / S, f.started, f.target_rate);
        assert_eq!([of(&figures[0]), of(&figures[1])], [(0, 2, 200, 100.0), (3, 2, 400, 200.0)]);
    }

    #[test]
    fn ramp_is_cut_into_parts_without_an_interval_of_their_rate() {
        let s = run("0..800@16s", 16 * S, |_| 1, None);
        let stages = s.stages();
        assert_eq!(stages.len(), 8);
        for (i, stage) in stages.iter().enumerate() {
            let i = i as f64;
            assert_eq!((stage.from, stage.to), (100.0 * i, 100.0 * (i + 1.0)));
            assert!(stage.is_ramp());
            let f = stage.figures.as_ref().expect("cells");
            assert!((f.target_rate - 100.0 * (i + 0.5)).abs() < 1e-9, "{f:?}");
            assert!((f.rate - f.target_rate).abs() < 2.0, "{f:?}");
            assert_eq!(f.rate_interval, Err(NoInterval::RateChanges));
        }
        let lengths = |rate: &str, end| {
            let stages = run(rate, end, |_| 1, None).stages();
            stages.iter().map(|s| s.length.0 / S).collect::<Vec<_>>()
        };
        assert_eq!(lengths("1..9@3s", 3 * S), [1, 1, 1]);
        assert_eq!(lengths("1..9@12s", 12 * S), [2, 1, 2, 1, 2, 1, 2, 1]);
        assert_eq!(lengths("1@2s,1..9@12s,9..1@3s,1@3s", 20 * S), [2, 4, 4, 4, 1, 1, 1, 3]);
        assert_eq!(lengths("5@2s,1..9@500ms", 3 * S), [2, 0]);
    }

    #[test]
    fn stages_after_the_end_of_the_load_have_no_figures() {
        let s = run("100@2s,200@2s,300@2s", 3 * S, |_| 1, None);
        let figures: Vec<bool> = s.stages().iter().map(|s| s.figures.is_some()).collect();
        assert_eq!(figures, [true, true, false]);
        assert_eq!(s.stages()[1].figures.as_ref().map(|f| f.length), Some(Span(S)));
    }

    #[test]
    fn constant_rates_and_closed_loops_have_no_stages() {
        let s = run("100", 3 * S, |_| 1, None);
        assert!(s.stages().is_empty() && !s.is_ramp());
        assert!(s.rate_interval().is_ok());
        let closed = summary(super::super::tests::closed(), Tally::default(), meter(1));
        assert!(closed.stages().is_empty());
    }

    #[test]
    fn last_piece_without_an_end_lasts_until_the_load_ends() {
        let s = run("100@2s,200", 5 * S, |_| 1, None);
        let stages = s.stages();
        assert_eq!((stages[1].at, stages[1].length), (Span(2 * S), Span(3 * S)));
    }
}
