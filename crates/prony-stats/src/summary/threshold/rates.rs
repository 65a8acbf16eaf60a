//! Figures per second, from the parts of a run over time.

use std::collections::BTreeMap;

use prony_base::units::{Nanos, Span};
use prony_tally::record::series::Cell;
use prony_tally::record::{Tally, TokenTally};

use super::super::confidence::{Interval, NoInterval};
use super::super::student::t_critical;
use super::known::Known;

/// The fewest parts from which a variance is estimated.
const PARTS_MIN: usize = 3;
/// Into how many batches they are joined at most.
const BATCHES_MAX: usize = 32;
/// The chance that the true rate lies outside its interval.
const ERROR: f64 = 0.05;

/// The interval of a rate per second, from the whole intervals of the series (batch means).
pub(super) fn per_second(
    t: &Tally,
    rate: f64,
    of: impl Fn(&Cell) -> f64,
) -> Result<Interval, NoInterval> {
    let length = t.series.interval();
    let start = |i: usize| t.series.start() + length * i as u64;
    let whole = |i: usize| start(i) >= t.start && start(i) + length <= t.end;
    let cells = t.series.cells().iter().enumerate().filter(|(i, _)| whole(*i));
    let rates: Vec<f64> = cells.map(|(_, cell)| of(cell) / length.as_secs_f64()).collect();
    batch_means(&rates, rate)
}

pub(super) fn session_rate(t: &Tally) -> Known<'static> {
    let (Some(sessions), Some(rate)) = (&t.sessions, t.session_rate()) else {
        return Known::NOTHING;
    };
    Known::estimate(rate, batch_means(&whole_seconds(t, &sessions.per_second, 1.0), rate))
}

/// A rate of replies of language models, of which `of` has the numbers by second.
pub(super) fn by_second(
    t: &Tally,
    rate: Option<f64>,
    of: impl Fn(&TokenTally) -> &BTreeMap<u64, u64>,
    factor: f64,
) -> Known<'static> {
    let (Some(tokens), Some(rate)) = (t.tokens.as_deref(), rate) else { return Known::NOTHING };
    Known::estimate(rate, batch_means(&whole_seconds(t, of(tokens), factor), rate))
}

/// The numbers of the whole seconds of a section, times `factor`.
fn whole_seconds(t: &Tally, numbers: &BTreeMap<u64, u64>, factor: f64) -> Vec<f64> {
    let second = |at: Nanos| at.0 / 1_000_000_000;
    let seconds = second(t.start + Span(999_999_999))..second(t.end);
    seconds.map(|s| numbers.get(&s).copied().unwrap_or(0) as f64 * factor).collect()
}

/// The interval of a mean whose parts follow each other: from the means of at most 32 batches.
fn batch_means(parts: &[f64], value: f64) -> Result<Interval, NoInterval> {
    if parts.len() < PARTS_MIN {
        return Err(NoInterval::TooFewSamples { needs: PARTS_MIN as u64 });
    }
    let k = parts.len().min(BATCHES_MAX);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let batch = |i: usize| mean(&parts[i * parts.len() / k..(i + 1) * parts.len() / k]);
    let means: Vec<f64> = (0..k).map(batch).collect();
    let center = mean(&means);
    let k = k as f64;
    let variance = means.iter().map(|m| (m - center).powi(2)).sum::<f64>() / (k - 1.0);
    let reach = t_critical(ERROR, k - 1.0) * (variance / k).sqrt();
    Ok(Interval { lo: (value - reach).max(0.0), hi: value + reach })
}
