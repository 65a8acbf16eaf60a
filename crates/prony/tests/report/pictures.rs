//! Compares the page and the plots with the figures of the summary.

use prony_report::{Format, Saved, Style, render, render_all};
use prony_stats::summary::Summary;
use serde_json::Value;

use super::sample;

/// The report as text; a page without its links to definitions.
pub(crate) fn rendered(format: Format, summary: &Summary) -> String {
    without_links(&whole(format, summary))
}

fn whole(format: Format, summary: &Summary) -> String {
    String::from_utf8(render(format, summary, &Style::default())).expect("it is text")
}

pub(crate) fn without_links(html: &str) -> String {
    let mut parts = html.split("<a class=\"term\" href=\"");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, link) = part.split_once("\">").expect("its end");
        let (text, rest) = link.split_once("</a>").expect("its end");
        out += &format!("{text}{rest}");
    }
    out
}

/// The texts between each pair of delimiters.
pub(crate) fn all_between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| rest.split(close).next()).collect()
}

/// The values of the elements `data` in a part of a page.
fn values(html: &str) -> Vec<f64> {
    all_between(html, "<data value=\"", "\"").iter().map(|v| v.parse().expect(v)).collect()
}

/// A row of the table of times has the figures of the JSON report, column by column.
pub(crate) fn assert_row(row: &str, figures: &Value, name: &str) {
    let columns = [
        "count", "mean_ns", "stdev_ns", "min_ns", "p50_ns", "p75_ns", "p90_ns", "p95_ns", "p99_ns",
        "p999_ns", "p9999_ns", "max_ns",
    ];
    let expected: Vec<f64> = columns.iter().filter_map(|c| figures[*c].as_f64()).collect();
    assert_eq!(values(row), expected, "{name}");
    assert_eq!(row.matches("<td>-</td>").count(), columns.len() - expected.len(), "{name}");
}

#[test]
fn the_page_has_the_figures_of_the_json_report() {
    for summary in [sample::open(), sample::closed(), sample::everything()] {
        let html = rendered(Format::Html, &summary);
        let json: Value =
            serde_json::from_str(&rendered(Format::Json, &summary)).expect("it is JSON");
        let table = all_between(&html, "aria-label=\"all kinds of times\"", "</table>")[0];
        let rows = all_between(table, "<th scope=\"row\">", "</tr>");
        let times = json["measurement"]["times"].as_object().expect("an object");
        let mut compared = 0;
        for (kind, figures) in times {
            let name = match kind.as_str() {
                "first_byte" => "first byte",
                "send_lag" => "send lag",
                name => name,
            };
            let row = rows.iter().find(|row| row.starts_with(&format!("{name}<")));
            assert_eq!(row.is_some(), figures["count"] != 0, "{name}");
            let Some(row) = row else { continue };
            assert_row(row, figures, name);
            compared += 1;
        }
        assert!(compared >= 4, "{compared}");
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
fn page_is_self_contained_and_accessible() {
    for html in [whole(Format::Html, &sample::everything()), together(Format::Html)] {
        for word in ["<script", "src=", "@import", "url(", "javascript:"] {
            assert!(!html.contains(word), "{word}");
        }
        let ids = all_between(&html, " id=\"", "\"");
        let links = all_between(&html, "href=\"", "\"");
        assert!(links.len() > 10, "{links:?}");
        let leads = |link: &str| link.strip_prefix('#').is_some_and(|id| ids.contains(&id));
        assert!(links.iter().all(|link| *link == "data:," || leads(link)), "{links:?}");
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
fn escapes_markup_in_plans() {
    let mut summary = sample::open();
    let evil = "\"><script>alert('1')</script>&amp;<b onclick=\"x\">";
    let call = &mut summary.plan.calls[0];
    (call.path, call.authority, call.method) =
        (format!("/{evil}\u{1}"), evil.into(), "G<E>T".into());
    call.headers =
        vec![("X-<i>&\"'".into(), evil.into()), ("cookie".into(), "secret".into())].into();
    summary.plan.names = vec![evil.into()];
    call.name = Some(0);
    summary.main.names = vec![prony_tally::record::NameTally::default()];
    summary.run.notes = vec![evil.into()];
    let words = vec!["prony".into(), "-H".into(), "Cookie: secret".into(), evil.into()];
    summary.run.command = prony::cli::shown::recorded(words);
    summary.run.host = evil.into();
    let results = [Saved { name: evil, summary: &summary }, Saved { name: "b", summary: &summary }];
    let together = |format| render_all(format, &results, &Style::default()).expect("it compares");
    for format in [Format::Html, Format::Svg] {
        for text in [rendered(format, &summary), String::from_utf8(together(format)).expect("text")]
        {
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

/// A straight line through ticks: converts positions to numbers.
fn scale(ticks: &[(f64, f64)]) -> impl Fn(f64) -> f64 {
    let (first, last) = (ticks[0], *ticks.last().expect("two ticks"));
    move |place| first.0 + (place - first.1) / (last.1 - first.1) * (last.0 - first.0)
}

fn attribute(element: &str, name: &str) -> f64 {
    all_between(element, &format!(" {name}=\""), "\"")[0].parse().expect(name)
}

/// Labels of an axis, as numbers, with their positions.
fn ticks(
    svg: &str,
    anchor: &str,
    place: &str,
    number: impl Fn(&str) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let labels = all_between(svg, "<text class=\"label\"", "</text>");
    let labels = labels.iter().filter(|l| l.contains(&format!("text-anchor=\"{anchor}\"")));
    let reported =
        labels.filter_map(|l| Some((number(l.split('>').nth(1)?)?, attribute(l, place))));
    reported.collect()
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
fn curves_match_the_figures() {
    let summary = sample::open();
    let svg = rendered(Format::Svg, &summary);
    let percent = |label: &str| label.parse::<f64>().ok().map(|p| -(1.0 - p / 100.0).log10());
    let (x, y) = (ticks(&svg, "middle", "x", percent), ticks(&svg, "end", "y", time));
    assert!(x.len() >= 4 && y.len() >= 3, "{x:?} {y:?}");
    let (nines, log_ns) = (scale(&x), scale(&y));
    for (tone, hist) in [("c0", &summary.main.times.response), ("c1", &summary.main.times.service)]
    {
        let (mut points, mut at_max) = (0, false);
        // The first path belongs to the legend.
        for path in &all_between(&svg, "<path ", ">")[2..] {
            let class = all_between(path, "class=\"", "\"")[0];
            if class.split(' ').next() != Some(tone) {
                continue;
            }
            for point in all_between(path, " d=\"", "\"")[0][1..].split('L') {
                let (px, py) = point.split_once(' ').expect("two numbers");
                let (px, py): (f64, f64) = (px.parse().expect("x"), py.parse().expect("y"));
                let reported = 10_f64.powf(log_ns(py - y_offset(&svg, &y)));
                // A tenth of a pixel to each side.
                let near = |d: f64| {
                    let q = (1.0 - 10_f64.powf(-nines(px + d))).clamp(0.0, 1.0);
                    hist.estimate(q).expect("there are times").0 as f64
                };
                let max = hist.max().expect("there are times").0 as f64;
                let is_max = (reported / max).ln().abs() < 0.02;
                at_max |= is_max;
                let (low, high) = (near(-0.2) * 0.98, near(0.2) * 1.02);
                assert!(
                    (low..=high).contains(&reported) || is_max,
                    "{reported} at {px}: {low}..{high}"
                );
                points += 1;
            }
        }
        assert!(points > 150 && at_max, "{points} {at_max}");
    }
    assert!(svg.contains(" few\""), "the last nines rest on too few samples");
}

/// The distance of a label of the vertical axis below its line.
fn y_offset(svg: &str, labels: &[(f64, f64)]) -> f64 {
    let lines = all_between(svg, "<line class=\"grid\"", ">");
    -(labels[0].1 - attribute(lines[0], "y1"))
}

#[test]
fn png_shows_the_same_curves() {
    let one = render(Format::Png, &sample::open(), &Style::default());
    for png in [one, together_bytes(Format::Png)] {
        let image = tiny_skia::Pixmap::decode_png(&png).expect("it is a PNG");
        assert_eq!((image.width(), image.height()), (1_600, 920));
        let count = |color: [u8; 3]| {
            let is = |p: &&tiny_skia::PremultipliedColorU8| {
                [p.red(), p.green(), p.blue()] == color && p.alpha() == 255
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
fn compares_several_results() {
    let text = together(Format::Text);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let cells = |label: &str| -> Vec<String> {
        let line = text.lines().find(|l| l.trim_start().starts_with(label)).expect(label);
        let line = line.trim_start().strip_prefix(label).expect(label);
        line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells("verdict"), ["VALID", "CLIENT-LIMITED", "-", "-"]);
    let n = sample::everything().main.started;
    let started = prony_report::units::count(n);
    let more = prony_report::units::count(n - 10_000);
    let times = prony_report::units::count(n / 10_000);
    let more = format!("+{more} (x{times})");
    assert_eq!(cells("requests"), ["10,000", started.as_str(), &more, "-"]);
    assert_eq!(cells("response p99")[0], "5.54 ms");
    assert!(text.contains("after: CLIENT-LIMITED"), "{text}");
    let html = together(Format::Html);
    assert!(html.contains("after: CLIENT-LIMITED"));
    for format in [Format::Json, Format::Csv, Format::Hgrm, Format::Hlog, Format::Junit] {
        let summary = sample::closed();
        let one = [Saved { name: "", summary: &summary }];
        let same = render_all(format, &one, &Style::default());
        assert_eq!(same, Some(render(format, &summary, &Style::default())));
        let both = render_all(format, &[one[0], one[0]], &Style::default());
        assert_eq!(both.is_some(), matches!(format, Format::Json | Format::Csv), "{format:?}");
    }
}

#[test]
fn every_plot_marks_an_invalid_run() {
    let limited = sample::everything();
    for format in [Format::Html, Format::Svg] {
        assert!(rendered(format, &limited).contains("CLIENT-LIMITED"), "{format:?}");
        assert!(!rendered(format, &sample::open()).contains("CLIENT-LIMITED"), "{format:?}");
    }
}

#[test]
fn renders_a_distribution_without_samples() {
    let mut empty = sample::closed();
    empty.main = prony_tally::record::Tally::default();
    empty.plan.calls.clear();
    empty.workers.clear();
    for format in [Format::Html, Format::Svg] {
        let text = rendered(format, &empty);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{format:?}");
    }
    assert!(render(Format::Png, &empty, &Style::default()).len() > 1_000);
}

/// The elements of a plot on the page with ids that start with this text.
fn plot<'a>(html: &'a str, id: &str) -> &'a str {
    let plots = all_between(html, "<svg ", "</svg>");
    plots.into_iter().find(|p| p.contains(&format!("\"{id}-wide-title"))).expect(id)
}

#[test]
fn replies_of_the_drain_are_dots_after_the_end_of_the_load() {
    let html = rendered(Format::Html, &sample::open());
    let plot = plot(&html, "run-latencies");
    let marks = all_between(plot, "<line class=\"axis\"", ">");
    // After both axes.
    let end = attribute(marks[2], "x1");
    assert_eq!(end, attribute(marks[2], "x2"), "an upright line");
    assert!(plot.contains(">load ends<"), "{plot}");
    let paths = all_between(plot, "<path ", ">");
    let places = paths.iter().flat_map(|p| all_between(p, " d=\"M", "\"")[0].split('L'));
    let places: Vec<f64> = places.filter_map(|p| p.split(' ').next()?.parse().ok()).collect();
    assert!(places.len() > 20 && places.iter().all(|&x| x < end), "{places:?} {end}");
    // The open sample has replies in two intervals of its drain.
    let dots = all_between(plot, "<circle ", ">");
    let dots: Vec<f64> = dots.iter().map(|dot| attribute(dot, "cx")).collect();
    assert!(dots.len() == 2 && dots.iter().all(|&x| x > end), "{dots:?} {end}");
}

#[test]
fn overlapping_curves_have_gaps() {
    let html = rendered(Format::Html, &sample::open());
    for id in ["run-latency", "run-rates"] {
        let paths = all_between(plot(&html, id), "<path class=\"", "\"");
        assert_eq!(paths[..2], ["c0", "c1 d1"], "the legend of {id}");
        let solid = paths.iter().rposition(|class| class.starts_with("c0")).expect("the first");
        let dashed =
            paths.iter().rposition(|class| class.starts_with("c1 d1")).expect("the second");
        assert!(dashed > solid, "{id}: the dashed one is drawn later: {paths:?}");
    }
}

#[test]
fn missing_percentiles_show_the_reason() {
    let mut few = sample::open();
    few.main.times.response = prony_tally::record::hist::Hist::new();
    let tile = |summary: &Summary| {
        let html = rendered(Format::Html, summary);
        all_between(&html, "<dt>response p99</dt>", "</div>")[0].to_owned()
    };
    assert!(tile(&few).ends_with("<dd class=\"why\">no replies</dd>"), "{}", tile(&few));
    (0..12).for_each(|_| few.main.times.response.record(prony_base::units::Span(1_000)));
    let why = "<dd class=\"why\">12 of 1,000 replies needed</dd>";
    assert!(tile(&few).ends_with(why), "{}", tile(&few));
    assert!(!tile(&sample::open()).contains("why"));
}

#[test]
fn the_phases_are_drawn_under_where_the_time_went() {
    let html = rendered(Format::Html, &sample::open());
    let section = all_between(&html, "<h2>Where the time went</h2>", "<h2>")[0];
    assert!(section.contains("run-phases-wide"), "{section}");
}

#[test]
fn wide_tables_scroll_under_a_shadow_and_a_scroll_bar() {
    let html = rendered(Format::Html, &sample::open());
    let tables = html.matches("<table").count();
    assert_eq!(
        html.matches("<div class=\"scroll\" tabindex=\"0\" role=\"region\"").count(),
        tables
    );
    let style = all_between(&html, "<style>", "</style>")[0];
    let rule = all_between(style, ".scroll{", "}")[0];
    for part in ["overflow:auto", "var(--shade)", "background-attachment:local,local,scroll,scroll"]
    {
        assert!(rule.contains(part), "{rule}");
    }
    assert!(style.contains(".scroll::-webkit-scrollbar{"), "{style}");
    assert!(style.contains("--shade:"), "{style}");
}

#[test]
fn error_bars_end_where_the_confidence_intervals_do() {
    let summary = sample::open();
    let svg = rendered(Format::Svg, &summary);
    let percent = |label: &str| label.parse::<f64>().ok().map(|p| -(1.0 - p / 100.0).log10());
    let (x, y) = (ticks(&svg, "middle", "x", percent), ticks(&svg, "end", "y", time));
    let (nines, log_ns) = (scale(&x), scale(&y));
    let offset = y_offset(&svg, &y);
    let bars: Vec<&str> = all_between(&svg, "<path class=\"bar c0\" d=\"", "\"");
    let confidence = prony_stats::summary::confidence::Confidence::of(&summary.main);
    let intervals: Vec<_> = prony_stats::summary::QUANTILES
        .iter()
        .filter_map(|&(_, q)| Some((q, confidence.quantile(q).ok()?)))
        .collect();
    assert!(bars.len() == intervals.len() && bars.len() > 2, "{bars:?} {intervals:?}");
    for (bar, (q, interval)) in bars.iter().zip(intervals) {
        // "M56 200h8M60 200V180M56 180h8"
        let upright = bar.split('M').nth(2).expect("the upright line");
        let (px, rest) = upright.split_once(' ').expect("a place");
        let (low, high) = rest.split_once('V').expect("both ends");
        let number = |text: &str| text.parse::<f64>().expect("a number");
        assert!((1.0 - 10_f64.powf(-nines(number(px))) - q).abs() < 0.01 * (1.0 - q), "{bar}");
        for (end, expected) in [(low, interval.lo), (high, interval.hi)] {
            let ns = 10_f64.powf(log_ns(number(end) - offset));
            assert!((ns / expected - 1.0).abs() < 0.01, "{ns} for {expected} in {bar}");
        }
    }
    let html = rendered(Format::Html, &summary);
    assert!(html.contains("Bars: 95 % confidence intervals."));
}

/// The left edges of the cells of a heat map, with the upper edge of each.
fn heat_cells(svg: &str) -> Vec<(f64, f64)> {
    // Without those of the legend, which are first, one of each color.
    let paths = all_between(svg, "<path class=\"h", "</path>");
    let corners = paths[6..].iter().flat_map(|p| all_between(p, " d=\"", "\"")[0].split('z'));
    let corner = |text: &str| {
        let (left, rest) = text.strip_prefix('M')?.split_once(' ')?;
        let upper = rest.split_once('V')?.1.split_once('H')?.0;
        Some((left.parse().ok()?, upper.parse().ok()?))
    };
    corners.filter_map(corner).collect()
}

#[test]
fn heat_map_has_a_column_per_interval_with_cells_at_its_times() {
    let summary = sample::open();
    let html = rendered(Format::Html, &summary);
    let cells = heat_cells(plot(&html, "run-heat"));
    let mut columns: Vec<f64> = cells.iter().map(|cell| cell.0).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup();
    let rows: Vec<_> = summary.main.rows().collect();
    assert_eq!(columns.len(), rows.len(), "{columns:?}");
    let top = cells.iter().map(|cell| cell.1).fold(f64::INFINITY, f64::min);
    for (x, row) in columns.iter().zip(rows) {
        let is_slow = row.max.is_some_and(|max| max.as_secs_f64() > 1.9);
        let has_top = cells.iter().any(|cell| cell == &(*x, top));
        assert_eq!(is_slow, has_top, "{x}: {row:?}");
    }
    // The legend has the highest count, that of a cell of a whole interval.
    let before = plot(&html, "run-heat").split(" per cell (logarithmic)").next();
    let most = before.and_then(|text| text.rsplit('>').next()).expect("the legend");
    let most: u64 = most.parse().expect("a count");
    assert!((1..=1_000).contains(&most), "{most}");
}
