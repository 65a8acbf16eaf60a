//! Plot of times by message size.

use prony_base::units::Span;

use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, Piece};
use super::spectrum::{place_of_size, sizes};
use super::{ALONE, png, svg};

/// A curve: its name, and times by message size, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct OverSize {
    /// Its name.
    pub name: String,
    /// Message size in bytes, and the time.
    pub points: Vec<(u32, Span)>,
}

/// Curves by message size, with logarithmic axes, as SVG and PNG files. `time` is the label of the
/// times.
pub fn over_size(headline: &str, time: &'static str, curves: &[OverSize]) -> (String, Vec<u8>) {
    let all = || curves.iter().flat_map(|c| &c.points);
    let names: Vec<&str> = curves.iter().map(|c| c.name.as_str()).collect();
    let curve = |c: &OverSize| {
        let place = |&(size, time): &(u32, Span)| (place_of_size(size), place_of(time));
        let points = c.points.iter().map(place).collect();
        Curve {
            name: c.name.clone(),
            tone: None,
            pieces: vec![Piece { points, sure: true }],
            bars: Vec::new(),
        }
    };
    let chart = Chart {
        title: headline.to_owned(),
        about: format!("Time over the size of a message, both logarithmic: {}.", names.join(", ")),
        headline: Some(headline.to_owned()),
        warning: None,
        x: sizes(all().map(|&(size, _)| size)),
        y: Axis::times(time, all().map(|&(_, time)| time)),
        curves: curves.iter().filter(|c| !c.points.is_empty()).map(curve).collect(),
        marks: Vec::new(),
        heat: None,
    };
    let picture = chart.draw(ALONE);
    (svg::file(&chart, &picture), png::file(&picture))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name and the headline are part of the image.
    #[test]
    fn draws_curves_at_their_points() {
        let points = [4, 64, 1_024].map(|n| (n, Span::from_micros(u64::from(n)))).to_vec();
        let curves = [OverSize { name: "line".into(), points }];
        let (svg, png) = over_size("A headline", "mean", &curves);
        assert!(svg.contains("A headline"), "{svg}");
        assert!(png.starts_with(b"\x89PNG"));
    }
}
