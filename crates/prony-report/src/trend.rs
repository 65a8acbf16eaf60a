//! A trend: the figures of many runs one after another, with the steps between them.

use prony_base::plain;
use prony_stats::comparison::{Figure, Measured, RUNS_MIN, SIDE_MIN, steps};
use prony_stats::summary::Summary;
use prony_stats::summary::confidence::Confidence;
use serde::Serialize;

use super::lines::Lines;
use super::text::shortened;
use super::{Saved, units};

/// The schema version of the JSON report.
const SCHEMA: u32 = 1;
/// The figures of a trend.
const FIGURES: [Figure; 6] = [
    Figure::Mean,
    Figure::Percentile(50.0),
    Figure::Percentile(90.0),
    Figure::Percentile(99.0),
    Figure::Rate,
    Figure::Errors,
];

/// Runs in their order.
#[derive(Clone, Debug, Serialize)]
pub struct Trend {
    schema: u32,
    kind: &'static str,
    /// The runs.
    pub runs: Vec<Run>,
    /// The figures over the runs.
    pub figures: Vec<Course>,
    /// Facts that the reader must know, as complete sentences.
    pub notes: Vec<String>,
}

/// A run of a trend.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its label, or the name of its file.
    pub label: String,
    /// Its start, in seconds since 1970 (UTC).
    pub started_unix: Option<f64>,
    /// Its verdict.
    pub verdict: &'static str,
}

/// One figure over the runs.
#[derive(Clone, Debug, Serialize)]
pub struct Course {
    /// The figure's name.
    pub figure: String,
    /// What its values are measured in: `ns`, `per-second` or `share`.
    pub unit: &'static str,
    /// One for each run.
    pub points: Vec<Point>,
    /// Where its level changes.
    pub steps: Vec<Step>,
}

/// The figure of one run, with the 95 % confidence interval of that run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Point {
    /// The value.
    pub value: Option<f64>,
    /// The lower end.
    pub lo: Option<f64>,
    /// The upper end.
    pub hi: Option<f64>,
}

/// A change of the level.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The index of the first run after it, from 0.
    pub run: usize,
    /// The label of that run.
    pub label: String,
    /// The mean before it, since the step before: of times and rates the geometric one.
    pub before: f64,
    /// The mean after it, up to the next step.
    pub after: f64,
    /// The change, with its 95 % confidence interval, as if the place of the step were known: of
    /// times and rates a share of the mean before it, of errors the difference.
    pub change: [f64; 3],
    /// The same as a sentence.
    pub sentence: String,
}

impl Trend {
    /// The trend of these runs, in this order.
    pub fn of(results: &[Saved<'_>], mut notes: Vec<String>) -> Self {
        if results.len() < RUNS_MIN {
            notes.insert(
                0,
                format!(
                    "Steps are not known: they are found among {RUNS_MIN} runs or more, and these \
                     are {}.",
                    results.len()
                ),
            );
        }
        let run = |r: &Saved<'_>| Run {
            label: r.summary.run.label.clone().unwrap_or_else(|| r.name.to_owned()),
            started_unix: r.summary.run.started_unix,
            verdict: r.summary.verdict().verdict.word(),
        };
        let runs: Vec<Run> = results.iter().map(run).collect();
        let figures = FIGURES.into_iter().map(|figure| Course::of(figure, results, &runs));
        Self { schema: SCHEMA, kind: "trend", figures: figures.collect(), runs, notes }
    }

    pub(super) fn text(&self) -> String {
        let mut out = Lines::default();
        out.line(format!("prony  trend of {} runs", self.runs.len()));
        out.blank();
        let heads = self.figures.iter().map(|course| format!("{:>11}", course.figure));
        out.line(format!("  {:<24}{}  verdict", "", heads.collect::<String>()));
        for (i, run) in self.runs.iter().enumerate() {
            let cell = |course: &Course| {
                let mark = if course.steps.iter().any(|s| s.run == i) { "*" } else { "" };
                let value = shown(course.unit, course.points[i].value);
                format!("{:>11}", format!("{mark}{value}"))
            };
            let cells: String = self.figures.iter().map(cell).collect();
            let label = plain::line(&run.label);
            out.line(format!("  {:<24}{cells}  {}", shortened(&label, 24), run.verdict));
        }
        out.blank();
        let steps = self.figures.iter().flat_map(|c| &c.steps);
        let sentences: Vec<&str> = steps.map(|s| s.sentence.as_str()).collect();
        if sentences.is_empty() && self.runs.len() >= RUNS_MIN {
            out.line(format!("  no step in any figure; one needs {SIDE_MIN} runs on each side"));
        }
        for sentence in sentences.into_iter().chain(self.notes.iter().map(String::as_str)) {
            out.line(format!("  {sentence}"));
        }
        out.finish()
    }
}

impl Course {
    fn of(figure: Figure, results: &[Saved<'_>], runs: &[Run]) -> Self {
        let points: Vec<Point> = results.iter().map(|r| Point::of(figure, r.summary)).collect();
        let log = |v: f64| if figure.is_ratio() { v.ln() } else { v };
        let known: Vec<(usize, f64)> =
            points.iter().enumerate().filter_map(|(i, p)| Some((i, log(p.value?)))).collect();
        let values: Vec<f64> = known.iter().map(|(_, v)| *v).collect();
        let unit = match figure {
            Figure::Rate => "per-second",
            Figure::Errors => "share",
            _ => "ns",
        };
        let back = |v: f64| if figure.is_ratio() { v.exp() } else { v };
        let step = |s: &prony_stats::comparison::Step| {
            let run = known[s.at].0;
            let (before, after) = (back(s.before), back(s.after));
            let label = runs[run].label.clone();
            let by = s.after - s.before;
            let by = [by, by - s.reach, by + s.reach];
            let change = if figure.is_ratio() { by.map(|by| by.exp() - 1.0) } else { by };
            let [by, lo, hi] = change.map(|change| change * 100.0);
            let change_by = if figure.is_ratio() {
                format!("{by:+.1} % (95 % CI {lo:+.1} to {hi:+.1} %)")
            } else {
                format!("{by:+.2} percentage points (95 % CI {lo:+.2} to {hi:+.2})")
            };
            let [from, to] = [before, after].map(|v| shown(unit, Some(v)));
            let sentence = format!("{figure} changes by {change_by} at {label} ({from} to {to})");
            Step { run, label, before, after, change, sentence }
        };
        let steps = steps(&values).iter().map(step).collect();
        Self { figure: figure.to_string(), unit, points, steps }
    }
}

impl Point {
    fn of(figure: Figure, summary: &Summary) -> Self {
        let value = Measured::of(&summary.main, None).value(figure);
        let confidence = Confidence::of(&summary.main);
        let interval = match figure {
            Figure::Mean => confidence.mean().ok(),
            Figure::Percentile(p) => confidence.quantile(p / 100.0).ok(),
            Figure::Rate => summary.rate_interval().ok(),
            Figure::Errors | Figure::Cpu | Figure::Distribution => None,
        };
        let interval = interval.filter(|_| value.is_some());
        Self { value, lo: interval.map(|i| i.lo), hi: interval.map(|i| i.hi) }
    }
}

/// A value in its unit.
pub(super) fn shown(unit: &str, value: Option<f64>) -> String {
    match (unit, value) {
        (_, None) => "-".into(),
        ("per-second", Some(v)) => units::rate(v),
        ("share", Some(v)) => units::percent(v),
        (_, Some(v)) => units::nanos(v),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use prony_base::units::{Nanos, Span};
    use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
    use prony_plan::target::Endpoint;
    use prony_stats::summary::RunInfo;
    use prony_tally::record::Tally;

    use super::*;

    fn run(label: &str, us: u64) -> Summary {
        let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
        let load = Load::Closed { connections: 1, think: Think::None };
        let plan = Plan::new(vec![endpoint], vec![CallSpec::default()], load, Stop::default());
        let mut main = Tally { end: Nanos::ZERO + Span::from_secs(1), ..Tally::default() };
        for i in 0..1_000 {
            main.times.response.record(Span::from_micros(us + i));
        }
        (main.started, main.sent, main.replies) = (1_000, 1_000, 1_000);
        let info = RunInfo { label: Some(label.to_owned()), ..RunInfo::default() };
        Summary { plan, run: info, warmup: None, main, workers: Vec::new() }
    }

    fn trend(times: &[u64]) -> Trend {
        let runs: Vec<Summary> =
            times.iter().enumerate().map(|(i, &us)| run(&format!("c{i:02}"), us)).collect();
        let saved: Vec<Saved<'_>> =
            runs.iter().map(|summary| Saved { name: "file", summary }).collect();
        Trend::of(&saved, Vec::new())
    }

    #[test]
    fn a_step_is_marked_at_its_run() {
        let times: Vec<u64> =
            (0..20).map(|i| 5_000 + i % 3 * 10 + if i >= 12 { 900 } else { 0 }).collect();
        let trend = trend(&times);
        let p50 = &trend.figures[1];
        assert_eq!(p50.steps.len(), 1, "{p50:?}");
        assert_eq!((p50.steps[0].run, p50.steps[0].label.as_str()), (12, "c12"));
        let sentence = &p50.steps[0].sentence;
        assert!(
            sentence.starts_with("p50 changes by +16.") && sentence.contains(" %) at c12 ("),
            "{sentence}"
        );
        let [by, lo, hi] = p50.steps[0].change;
        assert!(0.16 < lo && lo < by && by < hi && hi < 0.17, "{by} {lo} {hi}");
        assert!(trend.figures[5].steps.is_empty(), "no errors");
        for format in [Format::Text, Format::Json, Format::Html] {
            let text = String::from_utf8(trend.render(format).expect("a report")).expect("text");
            assert!(text.contains("c12") && text.contains("changes by"), "{text}");
        }
        assert!(trend.render(Format::Csv).is_none());
    }

    #[test]
    fn equal_runs_have_no_step() {
        let times = [5_000, 5_010, 4_990, 5_000, 5_020, 5_010, 4_980, 5_000, 5_010, 4_990];
        let text = trend(&times).text();
        assert!(text.contains("no step in any figure"), "{text}");
    }

    /// However clear a step is, nine runs cannot show it: every format says so.
    #[test]
    fn too_few_runs_say_that_steps_are_not_known() {
        for n in [3, 5, 9] {
            let times: Vec<u64> = (0..n).map(|i| if i < n / 2 { 5_000 } else { 50_000 }).collect();
            let trend = trend(&times);
            for format in [Format::Text, Format::Json, Format::Html] {
                let text =
                    String::from_utf8(trend.render(format).expect("a report")).expect("text");
                let said = format!("found among 10 runs or more, and these are {n}");
                assert!(text.contains(&said) && !text.contains("no step"), "{text}");
            }
        }
        let times: Vec<u64> = (0..10).map(|i| if i < 5 { 5_000 } else { 50_000 }).collect();
        let clear = trend(&times);
        assert_eq!(clear.figures[1].steps.len(), 1, "ten are enough");
        assert!(!clear.text().contains("not known"));
    }
}
