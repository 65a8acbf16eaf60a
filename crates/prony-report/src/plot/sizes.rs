//! Times over the size of messages.

use prony_core::units::Span;

use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, Piece};
use super::spectrum::{place_of_size, sizes};
use super::{ALONE, png, svg};

/// A curve: its name, and times by size, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct OverSize {
    /// What it is.
    pub name: String,
    /// Bytes of the message, and the time.
    pub points: Vec<(u32, Span)>,
}

/// Curves over the size of messages, both axes logarithmic, as the files of an SVG and a PNG.
/// `time` says what the times are.
pub fn over_size(headline: &str, time: &'static str, curves: &[OverSize]) -> (String, Vec<u8>) {
    let all = || curves.iter().flat_map(|c| &c.points);
    let names: Vec<&str> = curves.iter().map(|c| c.name.as_str()).collect();
    let curve = |c: &OverSize| {
        let place = |&(size, time): &(u32, Span)| (place_of_size(size), place_of(time));
        let points = c.points.iter().map(place).collect();
        Curve { name: c.name.clone(), tone: None, pieces: vec![Piece { points, sure: true }] }
    };
    let chart = Chart {
        title: headline.to_owned(),
        about: format!("Time over the size of a message, both logarithmic: {}.", names.join(", ")),
        headline: Some(headline.to_owned()),
        warning: None,
        x: sizes(all().map(|&(size, _)| size)),
        y: Axis::times(time, all().map(|&(_, time)| time)),
        curves: curves.iter().filter(|c| !c.points.is_empty()).map(curve).collect(),
    };
    let picture = chart.draw(ALONE);
    (svg::file(&chart, &picture), png::file(&picture))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and headline are there to be read.
    #[test]
    fn curves_are_drawn_where_their_points_are() {
        let points = [4, 64, 1_024].map(|n| (n, Span::from_micros(u64::from(n)))).to_vec();
        let curves = [OverSize { name: "line".into(), points }];
        let (svg, png) = over_size("A headline", "mean", &curves);
        assert!(svg.contains("A headline"), "{svg}");
        assert!(png.starts_with(b"\x89PNG"));
    }
}
