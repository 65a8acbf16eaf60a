//! The page and the plots, against the figures of the summary.

use prony_core::summary::Summary;
use prony_report::{Format, Saved, Style, render, render_all};
use serde_json::Value;

use super::sample;

fn told(format: Format, summary: &Summary) -> String {
    String::from_utf8(render(format, summary, &Style::default())).expect("it is text")
}

/// What stands between two texts, each time.
fn all_between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| rest.split(close).next()).collect()
}

/// The values of the elements `data` of a piece of a page.
fn values(html: &str) -> Vec<f64> {
    all_between(html, "<data value=\"", "\"").iter().map(|v| v.parse().expect(v)).collect()
}

#[test]
fn the_page_has_the_figures_of_the_json_report() {
    for summary in [sample::open(), sample::closed(), sample::everything()] {
        let html = told(Format::Html, &summary);
        let json: Value = serde_json::from_str(&told(Format::Json, &summary)).expect("it is JSON");
        let table = all_between(&html, "aria-label=\"all kinds of times\"", "</table>")[0];
        let rows = all_between(table, "<th scope=\"row\">", "</tr>");
        let columns = [
            "count", "mean_ns", "stdev_ns", "min_ns", "p50_ns", "p75_ns", "p90_ns", "p95_ns",
            "p99_ns", "p999_ns", "p9999_ns", "max_ns",
        ];
        let times = json["measurement"]["times"].as_object().expect("an object");
        let mut told_rows = 0;
        for (kind, figures) in times {
            let name = match kind.as_str() {
                "first_byte" => "first byte",
                "lag" => "send lag",
                name => name,
            };
            let row = rows.iter().find(|row| row.starts_with(&format!("{name}<")));
            assert_eq!(row.is_some(), figures["count"] != 0, "{name}");
            let Some(row) = row else { continue };
            let expected: Vec<f64> = columns.iter().filter_map(|c| figures[*c].as_f64()).collect();
            assert_eq!(values(row), expected, "{name}");
            assert_eq!(row.matches("<td>-</td>").count(), columns.len() - expected.len());
            told_rows += 1;
        }
        assert!(told_rows >= 4, "{told_rows}");
        let rows = json["measurement"]["rows"].as_array().expect("an array");
        let table = all_between(&html, "aria-label=\"the run over time\"", "</table>")[0];
        for (row, cells) in rows.iter().zip(all_between(table, "<tr><th scope=\"row\">", "</tr>")) {
            let columns = ["started", "replies", "failed", "bytes", "p50_ns", "p99_ns", "max_ns"];
            let expected: Vec<f64> = columns.iter().filter_map(|c| row[*c].as_f64()).collect();
            assert_eq!(values(cells), expected);
        }
        let tiles = values(all_between(&html, "<dl class=\"tiles\">", "</dl>")[0]);
        assert!(tiles.contains(&json["rps"].as_f64().expect("a rate")));
        assert!(tiles.contains(&json["requests"].as_f64().expect("a count")));
        for error in json["measurement"]["errors"].as_array().expect("an array") {
            let name = error["error"].as_str().expect("a name");
            let row = all_between(&html, &format!("<th scope=\"row\">{name}</th>"), "</tr>")[0];
            let expected = ["requests", "stray"].map(|c| error[c].as_f64().expect("a count"));
            assert_eq!(values(row), expected, "{name}");
        }
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_can_be_heard() {
    for html in [told(Format::Html, &sample::everything()), together(Format::Html)] {
        for word in ["<script", "src=", "@import", "url(", "javascript:"] {
            assert!(!html.contains(word), "{word}");
        }
        assert_eq!(all_between(&html, "href=\"", "\""), ["data:,"]);
        let ids = all_between(&html, " id=\"", "\"");
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), different.len(), "an id stands twice");
        let plots = all_between(&html, "<svg ", "</svg>");
        assert!(plots.len() >= 8, "{}", plots.len());
        for plot in plots {
            assert!(plot.contains("role=\"img\""));
            for id in all_between(plot, "aria-labelledby=\"", "\"")[0].split(' ') {
                assert!(ids.contains(&id), "{id}");
                let text = all_between(plot, &format!("id=\"{id}\">"), "<")[0];
                assert!(text.len() > 5, "{id}: {text}");
            }
        }
        for cell in all_between(&html, "<th", ">").iter().filter(|c| !c.starts_with("ead")) {
            assert!(cell.contains("scope="), "<th{cell}>");
        }
    }
}

#[test]
fn whatever_stands_in_a_plan_does_not_become_markup() {
    let mut summary = sample::open();
    let evil = "\"><script>alert('1')</script>&amp;<b onclick=\"x\">";
    let call = &mut summary.plan.calls[0];
    (call.path, call.authority, call.method) =
        (format!("/{evil}\u{1}"), evil.into(), "G<E>T".into());
    call.headers =
        vec![("X-<i>&\"'".into(), evil.into()), ("cookie".into(), "secret".into())].into();
    summary.plan.names = vec![evil.into()];
    call.name = Some(0);
    summary.main.names = vec![prony_core::record::NameTally::default()];
    summary.run.notes = vec![evil.into()];
    let words = vec!["prony".into(), "-H".into(), "Cookie: secret".into(), evil.into()];
    summary.run.command = prony::cli::shown::recorded(words);
    summary.run.host = evil.into();
    let results = [Saved { name: evil, summary: &summary }, Saved { name: "b", summary: &summary }];
    let together = |format| render_all(format, &results, &Style::default()).expect("it compares");
    for format in [Format::Html, Format::Svg] {
        for text in [told(format, &summary), String::from_utf8(together(format)).expect("text")] {
            for word in ["<script", "<b ", "<i>", "<E>", "secret"] {
                assert!(!text.contains(word), "{word:?} in {format:?}");
            }
            assert!(text.contains("&lt;script&gt;alert('1')"), "{format:?}");
            assert!(!text.contains("&amp;amp;amp;"));
            assert!(format != Format::Svg || !text.contains('\u{1}'), "XML has no such thing");
        }
    }
    let png = String::from_utf8_lossy(&together(Format::Png)).into_owned();
    assert!(png.starts_with("\u{fffd}PNG"));
}

/// A straight line through ticks: from places to numbers.
fn scale(ticks: &[(f64, f64)]) -> impl Fn(f64) -> f64 {
    let (first, last) = (ticks[0], *ticks.last().expect("two ticks"));
    move |place| first.0 + (place - first.1) / (last.1 - first.1) * (last.0 - first.0)
}

fn attribute(element: &str, name: &str) -> f64 {
    all_between(element, &format!(" {name}=\""), "\"")[0].parse().expect(name)
}

/// Labels of an axis, as numbers, with their places.
fn ticks(
    svg: &str,
    anchor: &str,
    place: &str,
    number: impl Fn(&str) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let labels = all_between(svg, "<text class=\"label\"", "</text>");
    let labels = labels.iter().filter(|l| l.contains(&format!("text-anchor=\"{anchor}\"")));
    let told = labels.filter_map(|l| Some((number(l.split('>').nth(1)?)?, attribute(l, place))));
    told.collect()
}

fn time(label: &str) -> Option<f64> {
    let (number, unit) = label.split_once(' ')?;
    let size = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * size).log10())
}

#[test]
fn the_curves_stand_where_the_figures_are() {
    let summary = sample::open();
    let svg = told(Format::Svg, &summary);
    let percent = |label: &str| label.parse::<f64>().ok().map(|p| -(1.0 - p / 100.0).log10());
    let (x, y) = (ticks(&svg, "middle", "x", percent), ticks(&svg, "end", "y", time));
    assert!(x.len() >= 4 && y.len() >= 3, "{x:?} {y:?}");
    let (nines, log_ns) = (scale(&x), scale(&y));
    for (tone, hist) in [("c0", &summary.main.times.response), ("c1", &summary.main.times.service)]
    {
        let (mut points, mut at_max) = (0, false);
        // The first path is the legend's.
        for path in &all_between(&svg, "<path ", ">")[2..] {
            let class = all_between(path, "class=\"", "\"")[0];
            if class.split(' ').next() != Some(tone) {
                continue;
            }
            for point in all_between(path, " d=\"", "\"")[0][1..].split('L') {
                let (px, py) = point.split_once(' ').expect("two numbers");
                let (px, py): (f64, f64) = (px.parse().expect("x"), py.parse().expect("y"));
                let told = 10_f64.powf(log_ns(py - y_offset(&svg, &y)));
                // A tenth of a pixel to each side.
                let near = |d: f64| {
                    let q = (1.0 - 10_f64.powf(-nines(px + d))).clamp(0.0, 1.0);
                    hist.estimate(q).expect("there are times").0 as f64
                };
                let max = hist.max().expect("there are times").0 as f64;
                let is_max = (told / max).ln().abs() < 0.02;
                at_max |= is_max;
                let (low, high) = (near(-0.2) * 0.98, near(0.2) * 1.02);
                assert!((low..=high).contains(&told) || is_max, "{told} at {px}: {low}..{high}");
                points += 1;
            }
        }
        assert!(points > 150 && at_max, "{points} {at_max}");
    }
    assert!(svg.contains(" few\""), "the last nines rest on too few samples");
}

/// How far below its line a label of the vertical axis stands.
fn y_offset(svg: &str, labels: &[(f64, f64)]) -> f64 {
    let lines = all_between(svg, "<line class=\"grid\"", ">");
    -(labels[0].1 - attribute(lines[0], "y1"))
}

#[test]
fn pixels_show_the_same_curves() {
    let one = render(Format::Png, &sample::open(), &Style::default());
    for png in [one, together_bytes(Format::Png)] {
        let image = tiny_skia::Pixmap::decode_png(&png).expect("it is a PNG");
        assert_eq!((image.width(), image.height()), (1_600, 920));
        let count = |colour: [u8; 3]| {
            let is = |p: &&tiny_skia::PremultipliedColorU8| {
                [p.red(), p.green(), p.blue()] == colour && p.alpha() == 255
            };
            image.pixels().iter().filter(is).count()
        };
        // Paper, both curves, and letters.
        assert!(count([255, 255, 255]) > 1_000_000);
        assert!(count([0x0a, 0x5f, 0xb4]) > 1_000, "{}", count([0x0a, 0x5f, 0xb4]));
        assert!(count([0xb5, 0x40, 0x0b]) > 150, "{}", count([0xb5, 0x40, 0x0b]));
        assert!(count([0x1b, 0x1f, 0x24]) > 300, "{}", count([0x1b, 0x1f, 0x24]));
    }
}

fn together_bytes(format: Format) -> Vec<u8> {
    let (open, everything) = (sample::open(), sample::everything());
    let results =
        [Saved { name: "before", summary: &open }, Saved { name: "after", summary: &everything }];
    render_all(format, &results, &Style::default()).expect("it compares")
}

fn together(format: Format) -> String {
    String::from_utf8(together_bytes(format)).expect("it is text")
}

#[test]
fn several_results_stand_side_by_side() {
    let text = together(Format::Text);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let cells = |label: &str| -> Vec<String> {
        let line = text.lines().find(|l| l.trim_start().starts_with(label)).expect(label);
        let line = line.trim_start().strip_prefix(label).expect(label);
        line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells("verdict"), ["VALID", "CLIENT-LIMITED"]);
    let started = prony_report::units::count(sample::everything().main.started);
    assert_eq!(cells("requests"), ["10,000", started.as_str()]);
    assert_eq!(cells("response p99")[0], "5.54 ms");
    assert!(text.contains("after: CLIENT-LIMITED"), "{text}");
    let html = together(Format::Html);
    assert!(html.contains("after: CLIENT-LIMITED"));
    for format in [Format::Json, Format::Csv, Format::Hgrm, Format::Hlog] {
        let summary = sample::closed();
        let one = [Saved { name: "", summary: &summary }];
        let same = render_all(format, &one, &Style::default());
        assert_eq!(same, Some(render(format, &summary, &Style::default())));
        assert_eq!(render_all(format, &[one[0], one[0]], &Style::default()), None);
    }
}

#[test]
fn a_run_that_is_not_valid_says_so_on_every_picture() {
    let limited = sample::everything();
    for format in [Format::Html, Format::Svg] {
        assert!(told(format, &limited).contains("CLIENT-LIMITED"), "{format:?}");
        assert!(!told(format, &sample::open()).contains("CLIENT-LIMITED"), "{format:?}");
    }
}

#[test]
fn a_distribution_needs_no_samples() {
    let mut empty = sample::closed();
    empty.main = prony_core::record::Tally::default();
    empty.plan.calls.clear();
    empty.meters.clear();
    for format in [Format::Html, Format::Svg] {
        let text = told(format, &empty);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{format:?}");
    }
    assert!(render(Format::Png, &empty, &Style::default()).len() > 1_000);
}
