//! PNG output: the light theme, at twice the resolution of the SVG. Text uses an embedded font
//! (`assets/README.md`), so the machine needs none.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};
use ttf_parser::{Face, OutlineBuilder};

use super::chart::{ACROSS, Anchor, DASHES, Ink, LETTER, Picture, Place, Shape, Tone};
use super::colors::{HEATS, INKS, TONES};

const FONT: &[u8] = include_bytes!("../../assets/Roboto-Latin.ttf");
/// Pixels of the PNG per CSS pixel.
const SCALE: f32 = 2.0;

/// The complete file.
pub(super) fn file(picture: &Picture) -> Vec<u8> {
    let (width, height) = (picture.width as f32 * SCALE, picture.height as f32 * SCALE);
    let mut canvas =
        Pixmap::new(width as u32, height as u32).expect("a plot has a size and fits into memory");
    canvas.fill(color(INKS[4].1));
    let face = Face::parse(FONT, 0).expect("the embedded font is valid");
    for shape in &picture.shapes {
        draw(&mut canvas, &face, shape);
    }
    canvas.encode_png().expect("writing to memory does not fail")
}

fn draw(canvas: &mut Pixmap, face: &Face<'_>, shape: &Shape) {
    match shape {
        Shape::Line { from, to, ink } => {
            let stroke = Stroke { width: 1.0, ..Stroke::default() };
            stroke_path(canvas, route(&[*from, *to]), ink_color(*ink), &stroke);
        }
        Shape::Path { points, tone, sure } => {
            let stroke = Stroke {
                width: 2.0,
                line_cap: LineCap::Round,
                line_join: LineJoin::Round,
                dash: dash(*tone, *sure),
                ..Stroke::default()
            };
            stroke_path(canvas, route(points), color(TONES[tone.color].0), &stroke);
        }
        Shape::Dot { at, tone } => {
            let (x, y) = (at.0 as f32, at.1 as f32);
            let circle = Rect::from_xywh(x - 3.0, y - 3.0, 6.0, 6.0).and_then(|around| {
                let mut path = PathBuilder::new();
                path.push_oval(around);
                path.finish()
            });
            fill(canvas, circle, color(TONES[tone.color].0), zoom());
        }
        Shape::Bar { x, ends, tone } => {
            let stroke = Stroke { width: 1.5, ..Stroke::default() };
            let across = ends.map(|y| [(x - ACROSS, y), (x + ACROSS, y)]);
            for line in [[(*x, ends[0]), (*x, ends[1])], across[0], across[1]] {
                stroke_path(canvas, route(&line), color(TONES[tone.color].0), &stroke);
            }
        }
        Shape::Cells { level, boxes } => {
            for &(from, to) in boxes {
                let (left, right) = (from.0.min(to.0) as f32, from.0.max(to.0) as f32);
                let (top, bottom) = (from.1.min(to.1) as f32, from.1.max(to.1) as f32);
                let path = Rect::from_ltrb(left, top, right, bottom).map(PathBuilder::from_rect);
                fill(canvas, path, color(HEATS[*level].0), zoom());
            }
        }
        Shape::Text { at, anchor, ink, text } => write(canvas, face, *at, *anchor, *ink, text),
    }
}

/// The dashes of a line; `None` for a solid one.
fn dash(tone: Tone, sure: bool) -> Option<StrokeDash> {
    let lengths = if sure { DASHES[tone.dashes] } else { &[2.0, 4.0] };
    StrokeDash::new(lengths.to_vec(), 0.0)
}

fn write(canvas: &mut Pixmap, face: &Face<'_>, at: Place, anchor: Anchor, ink: Ink, text: &str) {
    let mut pen = Pen { path: PathBuilder::new(), x: 0.0 };
    for letter in text.chars() {
        // Characters missing from the font are drawn as empty boxes.
        let glyph = face.glyph_index(letter).unwrap_or(ttf_parser::GlyphId(0));
        face.outline_glyph(glyph, &mut pen);
        pen.x += f32::from(face.glyph_hor_advance(glyph).unwrap_or(0));
    }
    let size = LETTER as f32 / f32::from(face.units_per_em());
    let wide = pen.x * size;
    let left = at.0 as f32
        - match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => wide / 2.0,
            Anchor::End => wide,
        };
    // The vertical axis of a font points up.
    let place = Transform::from_row(size, 0.0, 0.0, -size, left, at.1 as f32).post_concat(zoom());
    fill(canvas, pen.path.finish(), ink_color(ink), place);
}

/// Adds the outline of each letter to a path.
struct Pen {
    path: PathBuilder,
    x: f32,
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.x + x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.x + x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(self.x + x1, y1, self.x + x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.path.cubic_to(self.x + x1, y1, self.x + x2, y2, self.x + x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

fn route(points: &[Place]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        let (x, y) = (x as f32, y as f32);
        if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    path.finish()
}

/// A path without length or a text without letters is `None` and draws nothing.
fn stroke_path(canvas: &mut Pixmap, path: Option<Path>, color: Color, stroke: &Stroke) {
    if let Some(path) = path {
        canvas.stroke_path(&path, &paint(color), stroke, zoom(), None);
    }
}

fn fill(canvas: &mut Pixmap, path: Option<Path>, color: Color, place: Transform) {
    if let Some(path) = path {
        canvas.fill_path(&path, &paint(color), FillRule::Winding, place, None);
    }
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(color);
    paint
}

fn zoom() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

fn ink_color(ink: Ink) -> Color {
    let name = match ink {
        Ink::Grid => "grid",
        Ink::Axis | Ink::Label => "faint",
        Ink::Strong => "ink",
        Ink::Warning => "bad",
    };
    color(INKS.iter().find(|i| i.0 == name).map_or("#000000", |i| i.1))
}

/// `#rrggbb`.
fn color(text: &str) -> Color {
    let part = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap_or(0);
    Color::from_rgba8(part(1), part(3), part(5), 255)
}
