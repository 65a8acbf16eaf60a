//! The response times of a replay against those of its log: as two runs of which each is known by
//! its own blocks.
//!
//! All intervals hold together with a probability of 95 %. Half of [`ERROR`] is for all requests
//! together, so that a log with many paths decides them no later; the names share the rest.

use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::figure::Figure;
use super::interval::{self, Change, compared};
use super::{Compared, ERROR, MARGIN, Missing};
use crate::summary::confidence::{Confidence, Interval, NoInterval};
use crate::summary::{Replayed, Summary, interval_of_part};

/// The figures of a replay that are compared with those of its log.
const FIGURES: [Figure; 4] =
    [Figure::Mean, Figure::Percentile(50.0), Figure::Percentile(90.0), Figure::Percentile(99.0)];
/// A mean needs this number of times on each side, as a median does.
const MEAN_NEEDS: u64 = 20;

/// The response times of a replay against those of its log.
#[derive(Clone, Debug, PartialEq)]
pub struct WithLog {
    /// The resolution of the times in the log; 0 if it is not known.
    pub step: Span,
    /// All requests first, unless there is only one name; then each name with times in the log.
    pub rows: Vec<LogRow>,
}

/// The requests of one name, or all.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    /// Index into the plan's names; `None`: all requests.
    pub name: Option<usize>,
    /// The probability that the interval of one of these figures misses its true value.
    pub error: f64,
    /// The number of times in the log.
    pub logged: u64,
    /// The number of response times of the run.
    pub measured: u64,
    /// The mean, p50, p90 and p99.
    pub figures: Vec<LogFigure>,
}

/// One figure of the run against that of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFigure {
    /// The change from the log to the run.
    pub compared: Compared,
    /// The figure of the log, in nanoseconds; `None` where it has too few times.
    pub log_ns: Option<f64>,
    /// That of the run.
    pub run_ns: Option<f64>,
}

/// Some of the times of the log, or of the run.
#[derive(Clone, Copy)]
struct Times<'a> {
    hist: &'a Hist,
    /// The intervals of all of them.
    whole: &'a Confidence<'a>,
    /// Whether these are all of them.
    is_whole: bool,
    is_log: bool,
}

impl Times<'_> {
    /// The value in nanoseconds, if there are enough times for it.
    fn value(&self, figure: Figure) -> Option<f64> {
        match figure {
            _ if self.hist.count() < needs(figure) => None,
            Figure::Mean => self.hist.mean_ns(),
            Figure::Percentile(p) => self.hist.quantile(p / 100.0).map(|t| t.0 as f64),
            _ => None,
        }
    }

    fn interval(&self, figure: Figure) -> Result<Interval, NoInterval> {
        let q = if let Figure::Percentile(p) = figure { Some(p / 100.0) } else { None };
        match (q, self.is_whole) {
            (None, true) => self.whole.mean(),
            (Some(q), true) => self.whole.quantile(q),
            (q, false) => interval_of_part(self.hist, q, self.whole),
        }
    }

    /// The value and its 95 % confidence interval.
    fn known(&self, figure: Figure) -> Result<(f64, Interval), Missing> {
        let needs = needs(figure);
        let value = self.value(figure).ok_or(Missing::TooFewSamples { needs })?;
        let missing = |why| Missing::NoInterval { of_log: self.is_log, why };
        Ok((value, self.interval(figure).map_err(missing)?))
    }
}

fn needs(figure: Figure) -> u64 {
    figure.samples_needed().max(MEAN_NEEDS)
}

/// Compares the response times of a replay with those of its log. `None` if there was no log, it
/// has no times, or an earlier version saved the run.
pub fn compare_with_log(summary: &Summary) -> Option<WithLog> {
    let replay = summary.run.replay.as_deref()?;
    let blocks = replay.took_blocks.as_ref()?;
    let mut all = Hist::new();
    replay.took.iter().for_each(|took| all.merge(took));
    let of_log = Confidence::of_blocks(&all, blocks.all().iter().collect(), blocks.length());
    let of_run = Confidence::of(&summary.main);
    let mut pairs = pairs(&summary.main, replay, &of_log, &of_run);
    let share = if pairs.len() > 1 { ERROR / 2.0 } else { ERROR };
    let decidable = |(_, log, run): &(Option<usize>, Times<'_>, Times<'_>)| {
        let is_known = |figure: &&Figure| log.hist.count().min(run.hist.count()) >= needs(**figure);
        FIGURES.iter().filter(is_known).count()
    };
    let of_names = share / pairs.iter().map(decidable).sum::<usize>().max(1) as f64;
    if pairs.len() > 1 {
        let log = Times { hist: &all, whole: &of_log, is_whole: true, is_log: true };
        let hist = &summary.main.times.response;
        let run = Times { hist, whole: &of_run, is_whole: true, is_log: false };
        pairs.insert(0, (None, log, run));
    }
    let row = |(name, log, run): (Option<usize>, Times<'_>, Times<'_>)| {
        let error = if name.is_some() { of_names } else { share / FIGURES.len() as f64 };
        let figure = |figure: Figure| LogFigure {
            compared: Compared::of(figure, change(figure, &log, &run, replay, error), MARGIN),
            log_ns: log.value(figure),
            run_ns: run.value(figure),
        };
        LogRow {
            name,
            error,
            logged: log.hist.count(),
            measured: run.hist.count(),
            figures: FIGURES.into_iter().map(figure).collect(),
        }
    };
    let rows: Vec<LogRow> = pairs.into_iter().map(row).collect();
    (!rows.is_empty()).then_some(WithLog { step: replay.took_step, rows })
}

/// The names with times on both sides.
fn pairs<'a>(
    main: &'a Tally,
    replay: &'a Replayed,
    of_log: &'a Confidence<'a>,
    of_run: &'a Confidence<'a>,
) -> Vec<(Option<usize>, Times<'a>, Times<'a>)> {
    let mut pairs = Vec::new();
    for (i, (took, name)) in replay.took.iter().zip(&main.names).enumerate() {
        if !took.is_empty() && !name.response.is_empty() {
            let log = Times { hist: took, whole: of_log, is_whole: false, is_log: true };
            let hist = &name.response;
            pairs.push((Some(i), log, Times { hist, whole: of_run, is_log: false, ..log }));
        }
    }
    if let [(_, log, run)] = &mut pairs[..] {
        log.is_whole = log.hist.count() == of_log.count();
        run.is_whole = run.hist.count() == of_run.count();
    }
    pairs
}

fn change(
    figure: Figure,
    log: &Times<'_>,
    run: &Times<'_>,
    replay: &Replayed,
    error: f64,
) -> Result<Change, Missing> {
    let ((a, of_a), (b, of_b)) = (log.known(figure)?, run.known(figure)?);
    // A time may be rounded up or down. If the times are many steps long, their mean is off by half
    // a step at most; but a quantile may be that of the next step.
    let step = replay.took_step.0 as f64;
    let off = if figure == Figure::Mean { step / 2.0 } else { step };
    if of_a.lo <= 0.0 || a <= off {
        return Err(Missing::TooCoarse { step: replay.took_step });
    }
    if b <= 0.0 {
        return Err(Missing::NotMeasured);
    }
    let ends = |i: Interval| Interval {
        lo: compared(figure, i.lo.max(1e-9)),
        hi: compared(figure, i.hi.max(1e-9)),
    };
    let sides = [(a, of_a), (b, of_b)].map(|(value, i)| (compared(figure, value), ends(i)));
    let change = interval::of_runs(figure, sides[0], sides[1], error);
    let lo = change.interval.lo - compared(figure, (a + off) / a);
    let hi = change.interval.hi + compared(figure, a / (a - off));
    let interval = Interval { lo, hi };
    Ok(Change { interval, as_measured: interval, ..change })
}

#[cfg(test)]
mod tests;
