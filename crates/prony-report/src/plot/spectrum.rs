//! Plot of round-trip times by message size, both logarithmic: a set of curves per transport.

use prony_base::units::Span;

use super::super::spectrum::{Cell, Figure, Spectrum};
use super::super::units;
use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, DASHES, Piece, Tone};
use super::colors::TONES;

/// A curve of a set: its name, its value of a cell, and the confidence band.
type Kind = (&'static str, fn(&Cell) -> Option<u64>, fn(&Cell) -> Option<Figure>);

const KINDS: [Kind; 3] = [
    ("p50", |c| c.p50.ns, |c| Some(c.p50)),
    ("p99", |c| c.p99.ns, |c| Some(c.p99)),
    ("max", |c| c.max_ns, |_| None),
];

/// The chart.
pub(crate) fn chart(s: &Spectrum) -> Chart {
    let mut transports: Vec<&str> = s.cells.iter().map(|c| c.transport.as_str()).collect();
    transports.dedup();
    let times = s.cells.iter().flat_map(|c| {
        let bands = [c.p50, c.p99].into_iter().flat_map(|f| [f.low_ns, f.high_ns]);
        let bands = bands.flatten().map(|ns| Span(ns as u64));
        KINDS.iter().filter_map(|(_, value, _)| value(c)).map(Span).chain(bands)
    });
    let of = |transport| s.cells.iter().filter(move |c| c.transport == transport);
    let curve = |set: usize, kind: usize| {
        let (transport, (name, value, band)) = (transports[set], KINDS[kind]);
        Curve {
            name: format!("{transport} {name}"),
            tone: Some(tone(set, kind)),
            pieces: pieces(of(transport), value),
            bars: of(transport).filter_map(|c| bar(c, band)).collect(),
        }
    };
    let sets = 0..transports.len();
    let curves = sets.flat_map(|set| (0..KINDS.len()).map(move |kind| (set, kind)));
    let curves = curves.map(|(set, kind)| curve(set, kind));
    let title = "Round-trip time by length of message".to_owned();
    Chart {
        about: format!(
            "Round-trip time over the length of the message, both on logarithmic axes: median, 99th \
             percentile and maximum over {}. Bars are 95 % confidence intervals.",
            transports.join(", ")
        ),
        headline: Some(title.clone()),
        title,
        warning: warning(&s.doubts),
        x: sizes(s.cells.iter().map(|c| c.size)),
        y: Axis::times("time", times),
        curves: curves.collect(),
        marks: Vec::new(),
        heat: None,
    }
}

/// That measurements are not valid, and why.
fn warning(doubts: &[String]) -> Option<String> {
    let first = doubts.first()?;
    Some(match doubts.len() - 1 {
        0 => first.clone(),
        n => format!("{first} (and {})", units::counted(n as u64, "more doubt", "more doubts")),
    })
}

/// A color per transport and dashes per figure: up to 16 transports have distinct curves.
fn tone(set: usize, kind: usize) -> Tone {
    let colors = TONES.len();
    let dashes = (kind + KINDS.len() * (set / colors)) % DASHES.len();
    Tone { color: set % colors, dashes }
}

/// The curve through all values.
fn pieces<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    value: fn(&Cell) -> Option<u64>,
) -> Vec<Piece> {
    let point = |c: &Cell| value(c).map(|ns| (place_of_size(c.size), place_of(Span(ns))));
    let points: Vec<_> = cells.filter_map(point).collect();
    if points.is_empty() { Vec::new() } else { vec![Piece { points, sure: true }] }
}

/// The error bar of a cell.
fn bar(cell: &Cell, band: fn(&Cell) -> Option<Figure>) -> Option<(f64, [f64; 2])> {
    let figure = band(cell)?;
    let ends = [figure.low_ns?, figure.high_ns?].map(|ns| place_of(Span(ns as u64)));
    Some((place_of_size(cell.size), ends))
}

/// An empty message is drawn at one byte.
pub(super) fn place_of_size(size: u32) -> f64 {
    f64::from(size.max(1)).log2()
}

/// Powers of two, as many as fit.
pub(super) fn sizes(all: impl Iterator<Item = u32>) -> Axis {
    let places: Vec<f64> = all.map(place_of_size).collect();
    let from = places.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let to = places.iter().copied().fold(0.0, f64::max).ceil();
    let (from, to) = if from.is_finite() { (from, to.max(from + 1.0)) } else { (0.0, 16.0) };
    let every = if to - from > 9.0 { 2 } else { 1 };
    let ticks = (from as i32..=to as i32).step_by(every);
    let tick = |p: i32| (f64::from(p), units::count(1 << p));
    Axis { label: "bytes of a message", from, to, ticks: ticks.map(tick).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn curves_differ_in_appearance() {
        let all = (0..16).flat_map(|set| (0..KINDS.len()).map(move |kind| tone(set, kind)));
        let all: Vec<_> = all.map(|t| (t.color, t.dashes)).collect();
        let different: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }
}
