//! A chart: axes and curves. Drawing it yields shapes with positions, independent of the output
//! format.

use super::super::text::shortened;
use super::super::units;
use super::axis::Axis;
use super::colors::{LEVELS, TONES};

/// A chart to draw.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The title for screen readers.
    pub(crate) title: String,
    /// The description for screen readers, in sentences.
    pub(crate) about: String,
    /// The headline above it, if the context does not name it.
    pub(super) headline: Option<String>,
    /// The text below the headline.
    pub(super) warning: Option<String>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
    /// Vertical lines with a label: a position on the horizontal axis, and the event there.
    pub(super) marks: Vec<(f64, &'static str)>,
    /// The heat map below the curves.
    pub(super) heat: Option<Heat>,
}

/// A line on a chart.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    /// The color and dashes ([`Tone`]); by default, by the index of the curve.
    pub(super) tone: Option<Tone>,
    pub(super) pieces: Vec<Piece>,
    /// Error bars: position and both ends.
    pub(super) bars: Vec<(f64, [f64; 2])>,
}

/// The appearance of a curve: a color and dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tone {
    pub(super) color: usize,
    pub(super) dashes: usize,
}

impl Tone {
    /// The tone of the curve with this index. Both parts differ from those of the neighbors, so
    /// that curves differ in grayscale too; 48 curves all differ.
    pub(super) fn of(index: usize) -> Self {
        // Both numbers of choices are even: after all pairs of equal parity, the other pairs
        // follow.
        let pairs = TONES.len() * DASHES.len() / 2;
        Self { color: index % TONES.len(), dashes: (index + index / pairs) % DASHES.len() }
    }
}

/// Lengths of dashes and gaps alternately; the gaps are wide enough to see a curve below. Starts
/// again after the last.
pub(super) const DASHES: [&[f32]; 6] = [
    &[],
    &[7.0, 7.0],
    &[12.0, 6.0, 2.0, 6.0],
    &[3.0, 6.0],
    &[18.0, 6.0],
    &[18.0, 6.0, 2.0, 6.0, 2.0, 6.0],
];

/// The cells of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heat {
    pub(super) cells: Vec<Cell>,
    /// The maximum count of a cell.
    pub(super) max: u64,
}

/// A cell, in coordinates of the axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) x: [f64; 2],
    pub(super) y: [f64; 2],
    pub(super) count: u64,
}

impl Heat {
    /// The step of the color scale for a count of at least 1. The steps are equally wide on a
    /// logarithmic scale.
    pub(super) fn level(&self, count: u64) -> usize {
        if self.max <= 1 {
            return LEVELS - 1;
        }
        let share = (count.max(1) as f64).ln() / (self.max as f64).ln();
        ((share * LEVELS as f64) as usize).min(LEVELS - 1)
    }
}

/// A connected part of a curve, in coordinates of the axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) points: Vec<(f64, f64)>,
    /// Otherwise it is dashed.
    pub(super) sure: bool,
}

/// A chart drawn in one size.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

/// A position, in pixels from the upper left corner.
pub(super) type Place = (f64, f64);

#[derive(Debug)]
pub(super) enum Shape {
    Line {
        from: Place,
        to: Place,
        ink: Ink,
    },
    Path {
        points: Vec<Place>,
        tone: Tone,
        sure: bool,
    },
    Dot {
        at: Place,
        tone: Tone,
    },
    /// A vertical line with a short line across each end.
    Bar {
        x: f64,
        ends: [f64; 2],
        tone: Tone,
    },
    /// Filled rectangles, each given by two corners, in one step of the color scale.
    Cells {
        level: usize,
        boxes: Vec<(Place, Place)>,
    },
    /// `at` is on the base line.
    Text {
        at: Place,
        anchor: Anchor,
        ink: Ink,
        text: String,
    },
}

/// The role of a line or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Grid,
    Axis,
    Label,
    Strong,
    Warning,
}

/// The point of a text that `at` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Half the length of the lines across the ends of an error bar.
pub(super) const ACROSS: f64 = 4.0;
/// The font size.
pub(super) const LETTER: f64 = 12.0;
/// The approximate width of a letter, for the layout before drawing.
const ADVANCE: f64 = 6.4;
/// Space for the labels of the vertical axis.
const LEFT: f64 = 62.0;
/// Space after the last label of the horizontal axis.
const RIGHT: f64 = 20.0;
/// Space for the labels and the name of the horizontal axis.
const BOTTOM: f64 = 42.0;
const ROW: f64 = 18.0;
/// The width of a step of the color scale in the legend.
const SWATCH: f64 = 16.0;
/// Maximum length of a curve's name.
const NAME_MAX: usize = 28;

impl Chart {
    /// Draw it with this width and height.
    pub(super) fn draw(&self, (width, height): (f64, f64)) -> Picture {
        let mut picture = Picture { width, height, shapes: Vec::new() };
        let mut top = 8.0;
        let letters = ((width - 16.0) / ADVANCE) as usize;
        for (text, ink) in [(&self.headline, Ink::Strong), (&self.warning, Ink::Warning)] {
            if let Some(text) = text {
                top += ROW;
                picture.text((12.0, top - 4.0), Anchor::Start, ink, shortened(text, letters));
            }
        }
        top = self.legend(&mut picture, top) + if self.marks.is_empty() { 10.0 } else { 24.0 };
        let frame = Frame { left: LEFT, right: width - RIGHT, top, bottom: height - BOTTOM };
        self.axes(&mut picture, &frame);
        if let Some(heat) = &self.heat {
            self.cells(&mut picture, &frame, heat);
        }
        for &(place, label) in &self.marks {
            let x = frame.x(&self.x, place);
            picture.line((x, frame.top), (x, frame.bottom), Ink::Axis);
            picture.text((x, frame.top - 4.0), Anchor::End, Ink::Label, label.to_owned());
        }
        // The first curve is solid, and those above it have gaps, so that all of several coinciding
        // curves can be seen.
        for (index, curve) in self.curves.iter().enumerate() {
            let tone = curve.tone.unwrap_or_else(|| Tone::of(index));
            for piece in &curve.pieces {
                let points = piece.points.iter();
                let points = points.map(|&(x, y)| (frame.x(&self.x, x), frame.y(&self.y, y)));
                let points: Vec<Place> = points.collect();
                picture.shapes.push(match points.as_slice() {
                    [at] => Shape::Dot { at: *at, tone },
                    _ => Shape::Path { points, tone, sure: piece.sure },
                });
            }
            for &(at, ends) in &curve.bars {
                let (x, ends) = (frame.x(&self.x, at), ends.map(|end| frame.y(&self.y, end)));
                picture.shapes.push(Shape::Bar { x, ends, tone });
            }
        }
        picture
    }

    /// The legend above the curves, in as many rows as needed; returns where the last row ends.
    fn legend(&self, picture: &mut Picture, top: f64) -> f64 {
        let (mut x, mut y) = (LEFT, top + ROW);
        for (index, curve) in self.curves.iter().enumerate() {
            let tone = curve.tone.unwrap_or_else(|| Tone::of(index));
            let name = shortened(&curve.name, NAME_MAX);
            let wide = 28.0 + name.chars().count() as f64 * ADVANCE + 14.0;
            if x > LEFT && x + wide > picture.width {
                (x, y) = (LEFT, y + ROW);
            }
            let line = vec![(x, y - 8.0), (x + 22.0, y - 8.0)];
            picture.shapes.push(Shape::Path { points: line, tone, sure: true });
            picture.text((x + 28.0, y - 4.0), Anchor::Start, Ink::Label, name);
            x += wide;
        }
        if let Some(heat) = &self.heat {
            picture.text((x, y - 4.0), Anchor::Start, Ink::Label, "1".to_owned());
            for level in 0..LEVELS {
                let left = x + 14.0 + SWATCH * level as f64;
                let boxes = vec![((left, y - 3.0), (left + SWATCH, y - 14.0))];
                picture.shapes.push(Shape::Cells { level, boxes });
            }
            let at = (x + 20.0 + SWATCH * LEVELS as f64, y - 4.0);
            let most = format!("{} per cell (logarithmic)", units::count(heat.max));
            picture.text(at, Anchor::Start, Ink::Label, most);
        }
        y
    }

    fn cells(&self, picture: &mut Picture, frame: &Frame, heat: &Heat) {
        let mut levels = vec![Vec::new(); LEVELS];
        for cell in &heat.cells {
            let corner =
                |end: usize| (frame.x(&self.x, cell.x[end]), frame.y(&self.y, cell.y[end]));
            levels[heat.level(cell.count)].push((corner(0), corner(1)));
        }
        for (level, boxes) in levels.into_iter().enumerate().filter(|(_, boxes)| !boxes.is_empty())
        {
            picture.shapes.push(Shape::Cells { level, boxes });
        }
    }

    fn axes(&self, picture: &mut Picture, frame: &Frame) {
        for (value, label) in &self.y.ticks {
            let y = frame.y(&self.y, *value);
            picture.line((frame.left, y), (frame.right, y), Ink::Grid);
            picture.text((frame.left - 6.0, y + 4.0), Anchor::End, Ink::Label, label.clone());
        }
        let mut free = f64::MIN;
        for (value, label) in &self.x.ticks {
            let x = frame.x(&self.x, *value);
            picture.line((x, frame.top), (x, frame.bottom), Ink::Grid);
            let half = label.chars().count() as f64 * ADVANCE / 2.0;
            // A label that would touch its neighbor is omitted; its line remains.
            if x - half > free && x + half < picture.width {
                free = x + half + 4.0;
                let at = (x, frame.bottom + 16.0);
                picture.text(at, Anchor::Middle, Ink::Label, label.clone());
            }
        }
        picture.line((frame.left, frame.bottom), (frame.right, frame.bottom), Ink::Axis);
        picture.line((frame.left, frame.top), (frame.left, frame.bottom), Ink::Axis);
        let at = ((frame.left + frame.right) / 2.0, frame.bottom + 34.0);
        picture.text(at, Anchor::Middle, Ink::Label, self.x.label.to_owned());
    }
}

/// The area of the curves.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.share(value) * (self.right - self.left)
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - axis.share(value) * (self.bottom - self.top)
    }
}

impl Picture {
    fn line(&mut self, from: Place, to: Place, ink: Ink) {
        self.shapes.push(Shape::Line { from, to, ink });
    }

    fn text(&mut self, at: Place, anchor: Anchor, ink: Ink, text: String) {
        self.shapes.push(Shape::Text { at, anchor, ink, text });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_curves_except_the_first_have_gaps() {
        let tones: Vec<Tone> = (0..4).map(Tone::of).collect();
        assert_eq!(tones[0].dashes, 0);
        assert!(tones[1..].iter().all(|t| t.dashes > 0), "{tones:?}");
    }

    #[test]
    fn curves_differ_in_appearance() {
        let tones: Vec<Tone> = (0..TONES.len() * DASHES.len()).map(Tone::of).collect();
        for pair in tones.windows(2) {
            assert_ne!(pair[0].color, pair[1].color, "{pair:?}");
            assert_ne!(pair[0].dashes, pair[1].dashes, "{pair:?}");
        }
        let different: BTreeSet<&Tone> = tones.iter().collect();
        assert_eq!(different.len(), 48, "{tones:?}");
    }

    #[test]
    fn colors_counts_on_a_logarithmic_scale() {
        let heat = Heat { cells: Vec::new(), max: 1_000_000 };
        let levels = [1, 9, 11, 999, 1_001, 900_000, 1_000_000].map(|n| heat.level(n));
        assert_eq!(levels, [0, 0, 1, 2, 3, 5, 5]);
        let one = Heat { cells: Vec::new(), max: 1 };
        assert_eq!(one.level(1), LEVELS - 1);
    }
}
