//! A picture as SVG, coloured by a style sheet: light or dark as its reader wishes.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::chart::{Anchor, Chart, DASHES, Ink, LETTER, Picture, Place, Shape};

/// The colours of the curves, on light and on dark paper; each has a contrast of at least 4.5 to 1.
/// After the last they begin again.
pub(super) const TONES: [(&str, &str); 8] = [
    ("#0a5fb4", "#6cb0f5"),
    ("#b5400b", "#ff9b5e"),
    ("#0b7a53", "#57cf9f"),
    ("#7f3fae", "#cfa2f7"),
    ("#8a6100", "#e2bd4f"),
    ("#b0246a", "#ff8fc4"),
    ("#0c7786", "#5dd0df"),
    ("#5c5c5c", "#b9b9b9"),
];
/// The same of everything else: text, faint text and axes, grid, warning, paper, boxes.
pub(super) const INKS: [(&str, &str, &str); 6] = [
    ("ink", "#1b1f24", "#e8eaed"),
    ("faint", "#57606a", "#a3abb4"),
    ("grid", "#dfe3e8", "#343a42"),
    ("bad", "#b3151d", "#ff8f87"),
    ("paper", "#ffffff", "#15181c"),
    ("tint", "#f3f5f7", "#20252b"),
];

/// The style sheet: colours as variables of `root`, and what has which. Pages take their own
/// colours from the same variables.
pub(crate) fn style(root: &str) -> String {
    let variables = |dark: bool| {
        let mut text = String::new();
        for (name, light, night) in INKS {
            let _ = write!(text, "--{name}:{};", if dark { night } else { light });
        }
        for (i, (light, night)) in TONES.iter().enumerate() {
            let _ = write!(text, "--c{i}:{};", if dark { night } else { light });
        }
        text
    };
    let mut text = format!(
        "{root}{{color-scheme:light dark;{}}}\n\
         @media (prefers-color-scheme:dark){{{root}{{{}}}}}\n\
         svg.plot text{{font:{LETTER}px system-ui,sans-serif;fill:var(--faint)}}\n\
         svg.plot .strong{{font-weight:600;fill:var(--ink)}}\n\
         svg.plot .warning{{font-weight:600;fill:var(--bad)}}\n\
         svg.plot .grid{{stroke:var(--grid)}}svg.plot .axis{{stroke:var(--faint)}}\n\
         svg.plot path{{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}}\n",
        variables(false),
        variables(true)
    );
    for i in 0..TONES.len() {
        let _ = writeln!(
            text,
            "svg.plot .c{i}{{stroke:var(--c{i})}}svg.plot circle.c{i}{{fill:var(--c{i})}}"
        );
    }
    for (i, _) in DASHES.iter().enumerate().skip(1) {
        let _ = writeln!(text, "svg.plot .d{i}{{stroke-dasharray:{}}}", dashes(i));
    }
    text.push_str("svg.plot .few{stroke-dasharray:2 4}\n");
    text
}

fn dashes(index: usize) -> String {
    DASHES[index].iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A file of its own, on paper.
pub(super) fn file(chart: &Chart, picture: &Picture) -> String {
    let declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    format!("{declaration}{}\n", element(chart, picture, None).into_string())
}

/// The element; in a page with an id and a class of its own.
pub(super) fn element(chart: &Chart, picture: &Picture, page: Option<(&str, &str)>) -> Markup {
    let (id, class) = page.unwrap_or(("plot", "alone"));
    let (w, h) = (picture.width, picture.height);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class={ "plot " (class) } role="img"
            viewBox={ "0 0 " (w) " " (h) } width=[page.is_none().then_some(w)]
            height=[page.is_none().then_some(h)]
            aria-labelledby={ (id) "-title " (id) "-about" } {
            title id={ (id) "-title" } { (clean(chart.headline.as_ref().unwrap_or(&chart.title))) }
            desc id={ (id) "-about" } { (clean(&chart.about)) }
            @if page.is_none() {
                style { (maud::PreEscaped(style("svg.alone"))) }
                rect width=(w) height=(h) style="fill:var(--paper)" {}
            }
            @for shape in &picture.shapes { (drawn(shape)) "\n" }
        }
    }
}

fn drawn(shape: &Shape) -> Markup {
    match shape {
        Shape::Line { from, to, ink } => html! {
            line class=(class(*ink)) x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) {}
        },
        Shape::Path { points, tone, sure } => html! {
            path class={
                "c" (tone.colour)
                @if tone.dashes > 0 { " d" (tone.dashes) }
                @if !sure { " few" }
            } d=(route(points)) {}
        },
        Shape::Dot { at, tone } => html! {
            circle class={ "c" (tone.colour) } cx=(px(at.0)) cy=(px(at.1)) r="2.5" {}
        },
        Shape::Text { at, anchor, ink, text } => html! {
            text class=(class(*ink)) x=(px(at.0)) y=(px(at.1)) text-anchor=(aligned(*anchor)) {
                (clean(text))
            }
        },
    }
}

fn route(points: &[Place]) -> String {
    let mut text = String::with_capacity(points.len() * 12);
    for (i, point) in points.iter().enumerate() {
        let _ = write!(text, "{}{} {}", if i == 0 { 'M' } else { 'L' }, px(point.0), px(point.1));
    }
    text
}

/// A tenth of a pixel is finer than anybody sees, and coarser than what two machines' logarithms
/// differ by.
fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn class(ink: Ink) -> &'static str {
    match ink {
        Ink::Grid => "grid",
        Ink::Axis => "axis",
        Ink::Label => "label",
        Ink::Strong => "strong",
        Ink::Warning => "warning",
    }
}

fn aligned(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    }
}

/// Without the control characters that XML cannot hold, not even escaped.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of `#rrggbb`, as the accessibility guidelines define it.
    fn luminance(colour: &str) -> f64 {
        let part = |i: usize| {
            let byte = u8::from_str_radix(&colour[i..i + 2], 16).unwrap();
            let c = f64::from(byte) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn every_colour_stands_out_from_its_paper() {
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
            a.max(b) / a.min(b)
        };
        let inks =
            INKS.iter().filter(|i| !["grid", "paper", "tint"].contains(&i.0)).map(|i| (i.1, i.2));
        for (light, dark) in inks.chain(TONES) {
            for (name, day, night) in [INKS[4], INKS[5]] {
                let (day, night) = (contrast(light, day), contrast(dark, night));
                assert!(day >= 4.5 && night >= 4.5, "{light} {dark} on {name}: {day} {night}");
            }
        }
    }
}
