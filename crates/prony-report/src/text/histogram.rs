//! The histogram of the response times: one line for each range, with a bar.

use prony_base::units::Span;
use prony_tally::record::hist::{Hist, TIME_MAX};

use super::page::{Ink, Page};
use super::units;

/// The most lines.
const ROWS_MAX: usize = 20;
/// The longest bar: a line fits into 80 columns.
const BAR: usize = 32;
/// From this ratio of the longest to the shortest time on, ranges grow in proportion to the time.
const WIDE: u64 = 3;
/// Preferred numbers (IEC 60063, E24), in tenths. Every second, fourth and eighth of them are the
/// coarser series E12, E6 and E3.
const PREFERRED: [u64; 24] = [
    10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91,
];

/// A range of times, which starts where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// The longest time in it, in nanoseconds, to 0.1 %.
    up_to: u64,
    count: u64,
}

pub(super) fn write(page: &mut Page, hist: &Hist) {
    let rows = rows(hist);
    let Some(most) = rows.iter().map(|row| row.count).max() else { return };
    page.blank();
    page.row(
        "histogram",
        &format!("{:>9} {:>13} {:>8}", "up to", "responses", "share"),
        Ink::Faint,
    );
    for Row { up_to, count } in rows {
        let share = units::percent(count as f64 / hist.count() as f64).replace("under ", "<");
        let bar = "#".repeat(length(count, most));
        let up_to = units::exact(Span(up_to));
        let line = format!("{up_to:>9} {:>13} {share:>8}  {bar}", units::count(count));
        page.row("", line.trim_end(), Ink::Plain);
    }
}

/// The marks of a bar: in proportion to the count, and at least one unless that is zero.
fn length(count: u64, most: u64) -> usize {
    let marks = (count as f64 / most as f64 * BAR as f64).round() as usize;
    marks.max(usize::from(count > 0))
}

/// As many ranges as fit. Several empty ranges in a row are one.
fn rows(hist: &Hist) -> Vec<Row> {
    let Some((min, max)) = range(hist) else { return Vec::new() };
    if max / WIDE < min {
        return filled(hist, &even(min, max));
    }
    let series = [1, 2, 4, 8, PREFERRED.len()];
    let all = series.map(|step| filled(hist, &preferred(min, max, step)));
    let coarsest = all.len() - 1;
    let fits = all.iter().position(|rows| rows.len() <= ROWS_MAX).unwrap_or(coarsest);
    all.into_iter().nth(fits).unwrap_or_default()
}

/// The shortest and the longest time, in nanoseconds. Longer ones count as an hour.
fn range(hist: &Hist) -> Option<(u64, u64)> {
    Some((hist.min()?.min(TIME_MAX).0, hist.max()?.min(TIME_MAX).0))
}

/// The ends of ranges of one length: 1, 2 or 5 times a power of ten, so that an end has four digits
/// at most.
fn even(min: u64, max: u64) -> Vec<u64> {
    let lengths = (0..18).flat_map(|power| [1, 2, 5].map(|n| n * 10_u64.pow(power)));
    let fits = |length: u64| (max - min) / length + 2 <= ROWS_MAX as u64 && max / length <= 1_000;
    let mut fitting = lengths.filter(|&length| fits(length));
    let length = fitting.next().unwrap_or(u64::MAX);
    let first = min.div_ceil(length).saturating_mul(length);
    let mut ends = vec![first];
    while ends.last().is_some_and(|&end| end < max) {
        ends.push(first.saturating_add(length.saturating_mul(ends.len() as u64)));
    }
    ends
}

/// The ends of ranges: every `step`-th preferred number, from the first that is not below the
/// shortest time to the first that is not below the longest.
fn preferred(min: u64, max: u64, step: usize) -> Vec<u64> {
    let decades = (0..20).map(|power| 10_u128.pow(power));
    let numbers = PREFERRED.iter().step_by(step);
    let ends =
        decades.flat_map(|decade| numbers.clone().map(move |&n| u128::from(n) * decade / 10));
    let mut ends: Vec<u64> = ends
        .map(|end| u64::try_from(end).unwrap_or(u64::MAX))
        .skip_while(|&end| end < min)
        .collect();
    ends.dedup();
    let last = ends.iter().position(|&end| end >= max).unwrap_or(ends.len() - 1);
    ends.truncate(last + 1);
    ends
}

/// How many times end in each range. The counts add up to the count of the histogram.
fn filled(hist: &Hist, ends: &[u64]) -> Vec<Row> {
    let mut counts = vec![0; ends.len()];
    let (min, max) = range(hist).unwrap_or_default();
    for (value, count) in hist.recorded() {
        // The longest time is known exactly: its range is the last, and not empty.
        let is_last = value.0 >= max;
        let time = if is_last { max } else { Hist::bin_start(value).0.max(min) };
        let row = ends.partition_point(|&end| end < time).min(ends.len() - 1);
        counts[row] += count;
    }
    let mut rows: Vec<Row> = Vec::new();
    for (&up_to, count) in ends.iter().zip(counts) {
        match rows.last_mut() {
            Some(last) if last.count == 0 && count == 0 => last.up_to = up_to,
            _ => rows.push(Row { up_to, count }),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::Style;

    fn hist(times: &[(u64, u64)]) -> Hist {
        let mut hist = Hist::new();
        for &(ns, n) in times {
            hist.record_n(Span(ns), n);
        }
        hist
    }

    fn text(times: &[(u64, u64)]) -> String {
        let mut page = Page::new(Style::default());
        write(&mut page, &hist(times));
        page.finish()
    }

    #[test]
    fn writes_ranges_counts_shares_and_bars() {
        let lines = text(&[(100_000, 1_000), (107_000, 1_800), (120_000, 200), (5_000_000, 15)]);
        expect![[r#"

              histogram       up to     responses    share
                             100 us         1,000   33.2 %  ##################
                             110 us         1,800   59.7 %  ################################
                             120 us           200   6.63 %  ####
                             4.7 ms             0      0 %
                             5.1 ms            15   0.50 %  #
        "#]]
        // The literal loses the indentation that all of its lines have.
        .assert_eq(&lines.replace("\n  ", "\n"));
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn counts_add_up_whatever_the_times_are() {
        let mut rng = 1_u64;
        let mut draw = |below: u64| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 11) % below
        };
        for round in 0..500_u64 {
            let top = 1 << (round % 45);
            let times: Vec<(u64, u64)> =
                (0..=round % 40).map(|_| (draw(top) + round % 3, 1 + draw(1_000))).collect();
            let hist = hist(&times);
            let rows = rows(&hist);
            let sum: u64 = rows.iter().map(|row| row.count).sum();
            assert_eq!(sum, hist.count(), "{times:?}");
            assert!(rows.len() <= ROWS_MAX + 1, "{} rows: {times:?}", rows.len());
            assert!(rows.is_sorted_by(|a, b| a.up_to < b.up_to), "{rows:?}");
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            assert!(first.count > 0 && last.count > 0, "{rows:?}");
            assert!(last.up_to >= hist.max().min(Some(TIME_MAX)).expect("some").0, "{rows:?}");
            assert!(text(&times).lines().all(|line| line.len() <= 80), "{}", text(&times));
        }
    }

    #[test]
    fn ranges_end_where_times_lie_exactly() {
        let rows = rows(&hist(&[(100_000, 3), (200_000, 2), (1_000_000, 1)]));
        let filled: Vec<Row> = rows.into_iter().filter(|row| row.count > 0).collect();
        let row = |up_to, count| Row { up_to, count };
        assert_eq!(filled, [row(100_000, 3), row(200_000, 2), row(1_000_000, 1)]);
    }

    #[test]
    fn bars_never_hide_a_count() {
        assert_eq!([0, 1, 500_000, 1_000_000].map(|n| length(n, 1_000_000)), [0, 1, 16, 32]);
    }
}
