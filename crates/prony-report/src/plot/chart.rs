//! A chart: axes and curves. Drawing it gives shapes with places, whatever they are drawn with.

use super::super::text::shortened;
use super::axis::Axis;
use super::svg::TONES;

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// For those who hear it.
    pub(crate) title: String,
    /// What it shows, in sentences; for those who hear it.
    pub(crate) about: String,
    /// Written above it, where nothing else says what it is.
    pub(super) headline: Option<String>,
    /// Written below the headline.
    pub(super) warning: Option<String>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
}

/// A line on a chart.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Which colour and dashes ([`Tone`]); by its place among the curves where it has none.
    pub(super) tone: Option<Tone>,
    pub(super) pieces: Vec<Piece>,
}

/// How a curve is told from others: a colour, and dashes where there are more curves than colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tone {
    pub(super) colour: usize,
    pub(super) dashes: usize,
}

impl Tone {
    /// That of the curve of that index.
    fn of(index: usize) -> Self {
        Self { colour: index % TONES.len(), dashes: index / TONES.len() % DASHES.len() }
    }

    fn solid(self) -> Self {
        Self { dashes: 0, ..self }
    }
}

/// Lengths of dashes and gaps in turn. After the last they start again.
pub(super) const DASHES: [&[f32]; 6] = [
    &[],
    &[9.0, 4.0],
    &[9.0, 4.0, 2.0, 4.0],
    &[4.0, 3.0],
    &[16.0, 4.0],
    &[16.0, 4.0, 2.0, 4.0, 2.0, 4.0],
];

/// A part of a curve that hangs together, in numbers of the axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) points: Vec<(f64, f64)>,
    /// Drawn dashed otherwise.
    pub(super) sure: bool,
}

/// A chart of some size.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

/// A place, in pixels from the upper left corner.
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
    /// `at` is on the base line.
    Text {
        at: Place,
        anchor: Anchor,
        ink: Ink,
        text: String,
    },
}

/// What a line or text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Grid,
    Axis,
    Label,
    Strong,
    Warning,
}

/// Which point of a text `at` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The size of all letters.
pub(super) const LETTER: f64 = 12.0;
/// How wide a letter is, about; for what must be known before anything is drawn.
const ADVANCE: f64 = 6.4;
/// Room for the labels of the vertical axis.
const LEFT: f64 = 62.0;
/// Room beside the last label of the horizontal axis.
const RIGHT: f64 = 20.0;
/// Room for the labels and the name of the horizontal axis.
const BOTTOM: f64 = 42.0;
const ROW: f64 = 18.0;
/// Letters of a curve's name.
const NAME_MAX: usize = 28;

impl Chart {
    /// Draw it in that width and height.
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
        top = self.legend(&mut picture, top) + 10.0;
        let frame = Frame { left: LEFT, right: width - RIGHT, top, bottom: height - BOTTOM };
        self.axes(&mut picture, &frame);
        // The first curve is what the chart is about: it lies on top.
        for (index, curve) in self.curves.iter().enumerate().rev() {
            let tone = curve.tone.unwrap_or_else(|| Tone::of(index));
            for piece in &curve.pieces {
                let points = piece.points.iter();
                let points = points.map(|&(x, y)| (frame.x(&self.x, x), frame.y(&self.y, y)));
                let points: Vec<Place> = points.collect();
                picture.shapes.push(match points.as_slice() {
                    [at] => Shape::Dot { at: *at, tone },
                    // What stands upright is a band of the curve, too short for dashes.
                    [a, b] if a.0 == b.0 => {
                        Shape::Path { points, tone: tone.solid(), sure: piece.sure }
                    }
                    _ => Shape::Path { points, tone, sure: piece.sure },
                });
            }
        }
        picture
    }

    /// The names of the curves above them, in as many rows as they need; where the last one ends.
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
        y
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
            // A label that would touch its neighbour is left out; its line says enough.
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

/// The room of the curves.
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
