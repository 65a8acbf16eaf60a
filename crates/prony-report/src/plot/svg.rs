//! SVG output, colored by a style sheet with a light and a dark theme.

use std::fmt::Write as _;

use maud::{Markup, html};
use prony_base::plain::{Sink, plain};

use super::chart::{ACROSS, Anchor, Chart, DASHES, Ink, LETTER, Picture, Place, Shape};
use super::colors::{HEATS, INKS, LEVELS, TONES};

/// The style sheet: colors as variables of `root`, and the classes that use them. Pages use the
/// same variables.
pub(crate) fn style(root: &str) -> String {
    let variables = |dark: bool| {
        let mut text = String::new();
        for (name, light, night) in INKS {
            let _ = write!(text, "--{name}:{};", if dark { night } else { light });
        }
        for (i, (light, night)) in TONES.iter().enumerate() {
            let _ = write!(text, "--c{i}:{};", if dark { night } else { light });
        }
        for (i, (light, night)) in HEATS.iter().enumerate() {
            let _ = write!(text, "--h{i}:{};", if dark { night } else { light });
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
         svg.plot path{{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}}\n\
         svg.plot .bar{{stroke-width:1.5}}\n",
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
    for i in 0..LEVELS {
        let _ = writeln!(text, "svg.plot path.h{i}{{fill:var(--h{i});stroke:none}}");
    }
    text.push_str("svg.plot .few{stroke-dasharray:2 4}\n");
    text
}

fn dashes(index: usize) -> String {
    DASHES[index].iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A standalone file, with a background.
pub(super) fn file(chart: &Chart, picture: &Picture) -> String {
    let declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    let element = element(chart, picture, None).into_string();
    format!("{declaration}{}\n", plain(&element, Sink::Markup))
}

/// The element; inside a page with an id and a class.
pub(super) fn element(chart: &Chart, picture: &Picture, page: Option<(&str, &str)>) -> Markup {
    let (id, class) = page.unwrap_or(("plot", "alone"));
    let (w, h) = (picture.width, picture.height);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class={ "plot " (class) } role="img"
            viewBox={ "0 0 " (w) " " (h) } width=[page.is_none().then_some(w)]
            height=[page.is_none().then_some(h)]
            aria-labelledby={ (id) "-title " (id) "-about" } {
            title id={ (id) "-title" } { (chart.headline.as_ref().unwrap_or(&chart.title)) }
            desc id={ (id) "-about" } { (chart.about) }
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
                "c" (tone.color)
                @if tone.dashes > 0 { " d" (tone.dashes) }
                @if !sure { " few" }
            } d=(route(points)) {}
        },
        Shape::Dot { at, tone } => html! {
            circle class={ "c" (tone.color) } cx=(px(at.0)) cy=(px(at.1)) r="2.5" {}
        },
        Shape::Cells { level, boxes } => html! { path class={ "h" (level) } d=(filled(boxes)) {} },
        // Error bars are solid: they are too short for dashes.
        Shape::Bar { x, ends, tone } => {
            let across = |y: f64| format!("M{} {}h{}", px(x - ACROSS), px(y), px(2.0 * ACROSS));
            let upright = format!("M{} {}V{}", px(*x), px(ends[0]), px(ends[1]));
            html! {
                path class={ "bar c" (tone.color) }
                    d={ (across(ends[0])) (upright) (across(ends[1])) } {}
            }
        }
        Shape::Text { at, anchor, ink, text } => html! {
            text class=(class(*ink)) x=(px(at.0)) y=(px(at.1)) text-anchor=(aligned(*anchor)) {
                (text)
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

fn filled(boxes: &[(Place, Place)]) -> String {
    let mut text = String::with_capacity(boxes.len() * 24);
    for &(from, to) in boxes {
        let ends = (px(from.0), px(from.1), px(to.0), px(to.1));
        let _ = write!(text, "M{} {}H{}V{}H{}z", ends.0, ends.1, ends.2, ends.3, ends.0);
    }
    text
}

/// A tenth of a pixel: finer than visible, and coarser than the differences between the logarithms
/// of two machines.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of `#rrggbb`, as defined by WCAG.
    fn luminance(color: &str) -> f64 {
        let part = |i: usize| {
            let byte = u8::from_str_radix(&color[i..i + 2], 16).unwrap();
            let c = f64::from(byte) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn heat_map_contrast_increases_with_the_count() {
        let steps = |of: fn(&(&str, &str)) -> f64| HEATS.iter().map(of).collect::<Vec<f64>>();
        let (light, dark) = (steps(|h| luminance(h.0)), steps(|h| luminance(h.1)));
        assert!(light.windows(2).all(|w| w[0] > w[1] + 0.02), "{light:?}");
        assert!(dark.windows(2).all(|w| w[0] + 0.02 < w[1]), "{dark:?}");
        // Even the lowest count is visible.
        assert!(luminance(INKS[4].1) > light[0] + 0.2 && luminance(INKS[4].2) + 0.02 < dark[0]);
    }

    #[test]
    fn colors_contrast_with_their_background() {
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
            a.max(b) / a.min(b)
        };
        let inks = INKS
            .iter()
            .filter(|i| !["grid", "paper", "tint", "shade"].contains(&i.0))
            .map(|i| (i.1, i.2));
        for (light, dark) in inks.chain(TONES) {
            for (name, day, night) in [INKS[4], INKS[5]] {
                let (day, night) = (contrast(light, day), contrast(dark, night));
                assert!(day >= 4.5 && night >= 4.5, "{light} {dark} on {name}: {day} {night}");
            }
        }
    }
}
