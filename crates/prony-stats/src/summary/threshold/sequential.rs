//! Thresholds that end a load early: a sequential test, so that looking often does not find a miss
//! by chance.
//!
//! Each threshold is a ratio of two sums over time (times above the limit over all times, failures
//! over requests, a sum of times over their number, replies over seconds). At each look the run so
//! far is cut into 16 batches of equal length (fewer, 8 at least, where counters were sampled too
//! rarely). The ratio estimator over them, divided by its standard error, has Student's t
//! distribution with 15 degrees of freedom if the ratio is just at the limit (batch means; Cochran
//! 1977). Look k may find a miss by chance with probability 0.01 / (m k (k + 1)), where m
//! thresholds can end the load, so that the probability over all looks is at most 0.01 (alpha
//! spending, Lan and DeMets 1983).

use std::f64::consts::FRAC_2_PI;

use prony_base::units::Span;
use prony_plan::threshold::{Figure, Relation, Scalar, Statistic, Threshold, Timed, Unit};
use prony_tally::record::Tally;
use prony_tally::record::series::{Block, Blocks, Series, bin_bounds};

use super::super::confidence::TimeKind;

/// The probability that any threshold that is just met ends the load.
const FALSE_ALARMS: f64 = 0.01;
/// Batches at each look; one more than the degrees of freedom, which must be odd.
const BATCHES: u64 = 16;
/// The fewest where the counters were sampled too rarely for more.
const BATCHES_MIN: usize = 8;
/// When the first look is.
const FIRST: Span = Span::from_secs(2);
/// From one look to the next the run gets longer by that share of itself.
const STEP: f64 = 0.1;
/// How many samples of the counters are kept; every other one is then dropped.
const SAMPLES_MAX: usize = 4_096;

/// How many requests had ended, and how many of these had failed, at a moment of the measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Span,
    ended: u64,
    failed: u64,
}

/// A threshold as a ratio of two sums.
struct Ratio {
    /// The two sums of each batch.
    batches: Vec<(f64, f64)>,
    limit: f64,
    /// Whether a miss lies above the limit.
    upwards: bool,
}

/// Looks at a load while it runs.
#[derive(Clone, Debug)]
pub struct Sequential {
    thresholds: Vec<Threshold>,
    blocks: [Blocks; 2],
    samples: Vec<Sample>,
    next: Span,
    looks: f64,
}

impl Sequential {
    /// The test of those thresholds that can end the load; `None` where none can.
    pub fn new(thresholds: &[Threshold]) -> Option<Self> {
        let ending: Vec<Threshold> =
            thresholds.iter().filter(|t| t.abort.is_some()).cloned().collect();
        (!ending.is_empty()).then(|| Self {
            thresholds: ending,
            blocks: Default::default(),
            samples: vec![Sample::default()],
            next: FIRST,
            looks: 0.0,
        })
    }

    /// A block of such times that starts so long after the measurement.
    pub fn add(&mut self, kind: TimeKind, since_start: Span, block: &Block) {
        self.blocks[kind as usize].add(since_start, block.clone());
    }

    /// How many requests of the measurement have ended until then, and how many of them failed.
    pub fn count(&mut self, at: Span, ended: u64, failed: u64) {
        if self.samples.last().is_none_or(|last| last.at < at) {
            self.samples.push(Sample { at, ended, failed });
        }
        if self.samples.len() > SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// The threshold that is missed beyond doubt so long after the start of the measurement, where
    /// it is time to look.
    pub fn missed(&mut self, now: Span) -> Option<&Threshold> {
        if now < self.next {
            return None;
        }
        self.next = now + Span::from_secs_f64((now.as_secs_f64() * STEP).max(0.5));
        self.looks += 1.0;
        let level = FALSE_ALARMS / (self.thresholds.len() as f64 * self.looks * (self.looks + 1.0));
        let missed = self.thresholds.iter().position(|threshold| {
            threshold.abort.is_some_and(|after| now >= after)
                && self.is_missed(threshold, now, level)
        });
        missed.map(|i| &self.thresholds[i])
    }

    /// When a run with this measurement would have been ended, and by which threshold.
    pub fn end_of(thresholds: &[Threshold], tally: &Tally) -> Option<(Span, Threshold)> {
        let mut test = Self::new(thresholds)?;
        let blocks = |series: &Series| series.blocks().clone();
        let served = tally.service_series.as_deref().map(blocks).unwrap_or_default();
        test.blocks = [blocks(&tally.series), served];
        let (mut ended, mut failed) = (0, 0);
        for (i, cell) in tally.series.cells().iter().enumerate() {
            ended += cell.replies + cell.failed;
            failed += cell.failed;
            test.count(tally.series.interval() * (i as u64 + 1), ended, failed);
        }
        while test.next <= tally.window() {
            let now = test.next;
            if let Some(threshold) = test.missed(now) {
                return Some((now, threshold.clone()));
            }
        }
        None
    }

    fn is_missed(&self, threshold: &Threshold, now: Span, level: f64) -> bool {
        if threshold.unit == Unit::Count {
            // A count only grows: what is missed stays missed.
            let failed = self.samples.last().map_or(0, |last| last.failed) as f64;
            return match threshold.relation {
                Relation::Below => failed >= threshold.limit,
                Relation::AtMost | Relation::Equal => failed > threshold.limit,
                Relation::Above | Relation::AtLeast => false,
            };
        }
        let Some(Ratio { batches, limit, upwards }) = self.ratio(threshold, now) else {
            return false;
        };
        let freedom = batches.len() as f64 - 1.0;
        t_statistic(&batches, limit)
            .is_some_and(|t| above(if upwards { t } else { -t }, freedom) < level)
    }

    fn ratio(&self, threshold: &Threshold, now: Span) -> Option<Ratio> {
        let below = matches!(threshold.relation, Relation::Below | Relation::AtMost);
        let cuts: Vec<Span> = (0..=BATCHES).map(|i| Span(now.0 / BATCHES * i)).collect();
        let pairs = || cuts.windows(2).map(|cut| (cut[0], cut[1]));
        if matches!(threshold.figure, Figure::Count(_)) {
            let batches = self.counted(now)?;
            return Some(Ratio { batches, limit: threshold.limit, upwards: below });
        }
        let kind = match threshold.figure {
            Figure::Time(Timed::Service, _) => TimeKind::Service,
            _ => TimeKind::Response,
        };
        let blocks = &self.blocks[kind as usize];
        let limit = threshold.limit;
        let sums = |of: &dyn Fn(&Block) -> (f64, f64)| -> Vec<(f64, f64)> {
            let batch = |(from, until)| {
                let inside = blocks.between(from, until).map(|(_, block)| of(block));
                inside.fold((0.0, 0.0), |sum, (a, b)| (sum.0 + a, sum.1 + b))
            };
            pairs().map(batch).collect()
        };
        match threshold.figure {
            Figure::Time(_, Statistic::Percentile(p)) => {
                // A bin that holds the limit counts as being on its right side.
                let wrong = |bin: u16| {
                    let (least, greatest) = bin_bounds(bin);
                    if below { least.0 as f64 > limit } else { (greatest.0 as f64) < limit }
                };
                let of = |block: &Block| {
                    let wrong = block.bins.iter().filter(|(bin, _)| wrong(*bin));
                    (wrong.map(|&(_, n)| f64::from(n)).sum(), block.count() as f64)
                };
                let share = if below { 1.0 - p / 100.0 } else { p / 100.0 };
                Some(Ratio { batches: sums(&of), limit: share, upwards: true })
            }
            Figure::Time(_, Statistic::Mean) => {
                let batches = sums(&|b: &Block| (b.sum_ns as f64, b.count() as f64));
                Some(Ratio { batches, limit, upwards: below })
            }
            Figure::Scalar(Scalar::Rate) => {
                let length = blocks.length().as_secs_f64();
                let batches = sums(&|b: &Block| (b.replies as f64, length));
                Some(Ratio { batches, limit, upwards: below })
            }
            _ => None,
        }
    }

    /// Failures and ended requests of each batch until then. Cut at samples: a batch between two of
    /// them would be empty, and the others would seem to vary less than they do. `None` while there
    /// are too few samples.
    fn counted(&self, now: Span) -> Option<Vec<(f64, f64)>> {
        let samples = &self.samples[..self.samples.partition_point(|sample| sample.at <= now)];
        let intervals = samples.len().checked_sub(1)?;
        let batches = (BATCHES as usize).min(intervals / 2 * 2);
        let cut = |i: usize| samples[i * intervals / batches];
        let batch = |i: usize| {
            let (a, b) = (cut(i), cut(i + 1));
            ((b.failed - a.failed) as f64, (b.ended - a.ended) as f64)
        };
        (batches >= BATCHES_MIN).then(|| (0..batches).map(batch).collect())
    }
}

/// How many standard errors the ratio of the two sums lies above the limit; `None` where nothing
/// varies.
fn t_statistic(batches: &[(f64, f64)], limit: f64) -> Option<f64> {
    let (above, below) = batches.iter().fold((0.0, 0.0), |sum, b| (sum.0 + b.0, sum.1 + b.1));
    if below <= 0.0 {
        return None;
    }
    let ratio = above / below;
    let k = batches.len() as f64;
    let squares: f64 = batches.iter().map(|(a, n)| (a - ratio * n).powi(2)).sum();
    let error = (squares * k / (k - 1.0)).sqrt() / below;
    let away = ratio - limit;
    if error > 0.0 { Some(away / error) } else { (away != 0.0).then_some(away * f64::INFINITY) }
}

/// The probability that Student's t with that odd number of degrees of freedom is larger
/// (Abramowitz and Stegun 26.7.3).
fn above(t: f64, freedom: f64) -> f64 {
    if t == f64::INFINITY {
        return 0.0;
    }
    let angle = libm::atan(t / freedom.sqrt());
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let (mut term, mut sum) = (cosine, cosine);
    let mut i = 3.0;
    while i < freedom - 1.0 {
        term *= (i - 1.0) / i * cosine * cosine;
        sum += term;
        i += 2.0;
    }
    (1.0 - FRAC_2_PI * (angle + sine * sum)) / 2.0
}

#[cfg(test)]
mod tests {
    use prony_base::units::Nanos;

    use super::*;

    #[test]
    fn tail_probabilities_are_those_of_the_tables() {
        // Student's t with 15 degrees of freedom: one-sided quantiles.
        for (t, p) in [(0.0, 0.5), (1.753, 0.05), (2.131, 0.025), (2.947, 0.005), (4.073, 0.0005)] {
            assert!((above(t, 15.0) / p - 1.0).abs() < 2e-3, "{t}: {}", above(t, 15.0));
            assert!((above(-t, 15.0) - (1.0 - p)).abs() < 1e-4, "-{t}");
        }
        assert!((above(1.895, 7.0) / 0.05 - 1.0).abs() < 2e-3);
        assert_eq!(above(f64::INFINITY, 15.0), 0.0);
        assert!(above(12.0, 15.0) < 1e-8 && above(12.0, 15.0) > 0.0);
    }

    #[test]
    fn a_ratio_that_varies_little_is_far_from_the_limit() {
        let batches: Vec<(f64, f64)> = (0..16).map(|i| (f64::from(10 + i % 2), 100.0)).collect();
        let t = t_statistic(&batches, 0.05).expect("it varies");
        assert!((t - 0.055 / (0.005 / 15_f64.sqrt())).abs() < 1e-9, "{t}");
        assert_eq!(t_statistic(&[(1.0, 2.0); 16], 0.25), Some(f64::INFINITY));
        assert_eq!(t_statistic(&[(0.0, 0.0); 16], 0.25), None);
    }

    #[test]
    fn a_count_ends_the_load_at_the_first_look() {
        let thresholds = ["errors = 0, abort", "p99 < 1s"].map(|t| t.parse().expect(t));
        let mut test = Sequential::new(&thresholds).expect("one can end it");
        test.count(Span::from_secs(1), 100, 1);
        assert!(test.missed(Span::from_secs(1)).is_none(), "too early");
        let missed = test.missed(Span::from_secs(2)).map(ToString::to_string);
        assert_eq!(missed.as_deref(), Some("errors = 0, abort"));
        assert!(Sequential::new(&thresholds[1..]).is_none());
    }

    #[test]
    fn batches_of_counters_are_cut_at_samples() {
        let thresholds = ["errors < 10%, abort".parse().expect("a threshold")];
        let mut test = Sequential::new(&thresholds).expect("it can end a load");
        for second in 1..=40 {
            test.count(Span::from_secs(second), second * 100, second * second);
        }
        assert_eq!(test.counted(Span::from_secs(7)), None, "too few");
        for (seconds, many) in [(8, 8), (9, 8), (13, 12), (16, 16), (40, 16)] {
            let batches = test.counted(Span::from_secs(seconds)).expect("enough samples");
            assert_eq!(batches.len(), many);
            let sums = batches.iter().fold((0.0, 0.0), |sum, b| (sum.0 + b.0, sum.1 + b.1));
            let seconds = seconds as f64;
            assert_eq!(sums, (seconds * seconds, seconds * 100.0));
        }
    }

    #[test]
    fn batches_of_times_have_those_beyond_the_limit() {
        // 16 s, 100 replies each; one in four takes 4 ms, the others 1 ms.
        let mut series = Series::new(Nanos::ZERO);
        for i in 0..1_600_u64 {
            let took = Span::from_millis(if i % 4 == 0 { 4 } else { 1 });
            series.replied(Nanos(i * 10_000_000), took, 1);
        }
        series.close();
        for (text, sums) in [
            ("p75 < 2ms, abort", (400.0, 1_600.0)),
            ("p75 > 2ms, abort", (1_200.0, 1_600.0)),
            ("mean < 2ms, abort", (400.0 * 4e6 + 1_200.0 * 1e6, 1_600.0)),
            ("rate > 50/s, abort", (1_600.0, 16.0)),
        ] {
            let thresholds = [text.parse().expect(text)];
            let mut test = Sequential::new(&thresholds).expect("it can end a load");
            test.blocks[TimeKind::Response as usize] = series.blocks().clone();
            let ratio = test.ratio(&thresholds[0], Span::from_secs(16)).expect("a ratio");
            assert_eq!(ratio.batches.len(), 16);
            assert!(ratio.batches.iter().all(|b| b == &(sums.0 / 16.0, sums.1 / 16.0)), "{text}");
        }
    }
}
