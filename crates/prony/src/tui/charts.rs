//! The two charts over time, with one column per interval: rates, and response times as a heat map.

use std::collections::VecDeque;

use prony_base::units::Span;
use prony_io::Interval;
use prony_report::units;
use prony_tally::record::series::bin_value;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::look::{Ink, Look};

/// The columns before a chart, for its scale.
const GUTTER: u16 = 9;

/// The number of intervals that fit into a chart of this width.
pub(super) fn columns(width: u16) -> usize {
    width.saturating_sub(GUTTER) as usize
}

/// Draws successes (a filled column) and failures (on top of it) per second, and the target rate
/// (`target` returns it for an interval).
pub(super) fn rates(
    area: Rect,
    buffer: &mut Buffer,
    look: Look,
    history: &VecDeque<Interval>,
    target: &dyn Fn(&Interval) -> Option<f64>,
) {
    let shown = newest(history, area.width);
    if shown.is_empty() {
        return;
    }
    let seconds = |i: &Interval| i.length.as_secs_f64().max(1e-9);
    let ended = |i: &Interval| (i.cell.replies + i.cell.failed) as f64 / seconds(i);
    let tops = shown.iter().map(|i| ended(i).max(target(i).unwrap_or(0.0)));
    // Allow for small variations of the target rate.
    let top = nice(tops.fold(0.0, f64::max) * 0.95);
    let rows = usize::from(area.height);
    label(area, buffer, look, 0, &units::rate(top));
    if rows > 1 {
        label(area, buffer, look, area.height - 1, "0");
    }
    let eighths = |rate: f64| ((rate / top).min(1.0) * (rows * 8) as f64).round() as usize;
    for (column, i) in shown.iter().enumerate() {
        let x = area.x + GUTTER + column as u16;
        let (good, all) = (eighths(i.cell.replies as f64 / seconds(i)), eighths(ended(i)));
        // The target rate is in the row that a column of this rate would reach.
        let level = target(i).map(|rate| eighths(rate).saturating_sub(1) / 8);
        for row in 0..rows {
            let y = area.y + (rows - 1 - row) as u16;
            let fill = |height: usize| height.saturating_sub(row * 8).min(8);
            let (mark, ink) = if fill(good) == 8 {
                (look.bar(8), Ink::Good)
            } else if fill(all) > fill(good) || (i.cell.failed > 0 && row == 0 && good == 0) {
                (look.failures(), Ink::Bad)
            } else if fill(good) > 0 {
                (look.bar(fill(good)), Ink::Good)
            } else if level == Some(row) {
                (look.level(), Ink::Target)
            } else {
                continue;
            };
            buffer[(x, y)].set_char(mark).set_style(look.style(ink));
        }
    }
}

/// Draws response times as a heat map: time on the horizontal axis, response times on a logarithmic
/// vertical axis, and denser characters for more replies.
pub(super) fn heat(area: Rect, buffer: &mut Buffer, look: Look, history: &VecDeque<Interval>) {
    let shown = newest(history, area.width);
    let bins = || shown.iter().flat_map(|i| i.cell.bins.iter().map(|&(bin, _)| bin));
    let (Some(low), Some(high)) = (bins().min(), bins().max()) else { return };
    let floor = floor(bin_value(low).0);
    let ceiling = ceil(bin_value(high).0 + 1).max(floor * 2);
    let rows = usize::from(area.height);
    let span = (ceiling as f64 / floor as f64).ln();
    let height = |bin: u16| {
        let share = (bin_value(bin).0.max(1) as f64 / floor as f64).ln() / span;
        ((share * rows as f64) as usize).min(rows - 1)
    };
    label(area, buffer, look, 0, &units::span(Span(ceiling)));
    if rows > 1 {
        label(area, buffer, look, area.height - 1, &units::span(Span(floor)));
    }
    let mut counts = vec![0_u64; rows];
    for (column, i) in shown.iter().enumerate() {
        counts.fill(0);
        for &(bin, n) in &i.cell.bins {
            counts[height(bin)] += u64::from(n);
        }
        let all: u64 = counts.iter().sum();
        for (row, &n) in counts.iter().enumerate().filter(|&(_, &n)| n > 0) {
            let cell =
                &mut buffer[(area.x + GUTTER + column as u16, area.y + (rows - 1 - row) as u16)];
            let level = heat_of(n, all);
            cell.set_char(look.heat(level)).set_style(look.style(Ink::Heat(level)));
        }
    }
}

/// The level for `n` of `all` replies: 1 to 4 (a fifth or more).
fn heat_of(n: u64, all: u64) -> usize {
    match n as f64 / all as f64 {
        share if share < 0.01 => 1,
        share if share < 0.05 => 2,
        share if share < 0.2 => 3,
        _ => 4,
    }
}

/// The newest intervals that fit, oldest first.
fn newest(history: &VecDeque<Interval>, width: u16) -> Vec<&Interval> {
    let skipped = history.len().saturating_sub(columns(width));
    history.iter().skip(skipped).collect()
}

fn label(area: Rect, buffer: &mut Buffer, look: Look, row: u16, text: &str) {
    let width = usize::from(GUTTER) - 1;
    buffer.set_string(area.x, area.y + row, format!("{text:>width$}"), look.style(Ink::Faint));
}

/// The smallest of 1, 2, 5, 10, ... that is at least this rate.
fn nice(rate: f64) -> f64 {
    let power = 10_f64.powf(rate.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|&step| step >= rate).unwrap_or(10.0 * power)
}

/// The largest of 1, 2, 5, 10, ... that is at most this time.
fn floor(nanos: u64) -> u64 {
    let power = 10_u64.pow(nanos.max(1).ilog10());
    [5, 2, 1].map(|step| step * power).into_iter().find(|&step| step <= nanos.max(1)).unwrap_or(1)
}

/// The smallest of 1, 2, 5, 10, ... that is at least this time.
fn ceil(nanos: u64) -> u64 {
    let power = 10_u64.pow(nanos.max(1).ilog10());
    let steps = [1, 2, 5, 10].map(|step| step * power);
    steps.into_iter().find(|&step| step >= nanos).unwrap_or(10 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_the_ends_of_scales() {
        assert_eq!([0.0, 1.0, 1.1, 499.0, 501.0].map(nice), [1.0, 1.0, 2.0, 500.0, 1000.0]);
        assert_eq!([0, 1, 9, 10, 49_999].map(floor), [1, 1, 5, 10, 20_000]);
        assert_eq!([0, 1, 9, 10, 50_001].map(ceil), [1, 1, 10, 10, 100_000]);
    }
}
