//! Which figures results are compared by: those that the report of a single run has.

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::status_text;
use prony_plan::threshold::{self, Scalar, Timed};
use prony_stats::summary::confidence::Confidence;
use prony_stats::summary::{Figures, QUANTILES, Summary, share_of_check};
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::super::text::{goodput_of, table};
use super::super::{Saved, main_times, words};
use super::{Figure, Line, Unit, What, verdict};

/// The percentiles of the most important times in the text report without `-v` ...
const OF_MAIN: [&str; 3] = ["p50", "p95", "p99"];
/// ... and of all others.
const OF_OTHERS: [&str; 2] = ["p50", "p99"];

/// The lines of the comparison, without those for which no result has a figure.
pub(in super::super) fn lines(results: &[Saved<'_>]) -> Vec<Line> {
    let mut lines = Lines { runs: results.iter().map(|r| r.summary).collect(), all: Vec::new() };
    lines.words("verdict".to_owned(), |summary| Some(verdict(summary)));
    lines.thresholds();
    lines.counts();
    lines.of_tokens();
    lines.of_messages();
    lines.times();
    lines.named();
    lines.failures();
    lines.all
}

/// The lines so far.
struct Lines<'a> {
    runs: Vec<&'a Summary>,
    all: Vec<Line>,
}

impl<'a> Lines<'a> {
    fn words(&mut self, label: String, of: impl Fn(&Summary) -> Option<&'static str>) {
        let what = What::Words(self.runs.iter().map(|summary| of(summary)).collect());
        self.all.push(Line { label, what, is_detail: false });
    }

    fn add(&mut self, label: String, unit: Unit, figures: Vec<Option<Figure>>, is_detail: bool) {
        if figures.iter().any(Option::is_some) {
            self.all.push(Line { label, what: What::Figures(unit, figures), is_detail });
        }
    }

    /// A line of every text report.
    fn figure(&mut self, label: &str, unit: Unit, of: impl Fn(&'a Summary) -> Option<Figure>) {
        let figures = self.runs.iter().map(|summary| of(summary)).collect();
        self.add(label.to_owned(), unit, figures, false);
    }

    /// The same, of a figure without an interval.
    fn exact(&mut self, label: &str, unit: Unit, of: impl Fn(&'a Summary) -> Option<f64>) {
        self.figure(label, unit, |summary| of(summary).map(Figure::exact));
    }

    /// A line of a figure that is one number, with its interval. A rate or a time of 0 says that
    /// there was nothing to measure.
    fn number(&mut self, scalar: Scalar) {
        let unit = match scalar.unit() {
            threshold::Unit::Time => Unit::Time,
            threshold::Unit::Rate => Unit::Rate,
            threshold::Unit::ByteRate => Unit::Throughput,
            threshold::Unit::Count => Unit::Count,
            threshold::Unit::Share => Unit::Share,
        };
        let is_of_run = scalar == Scalar::Rate;
        self.figure(scalar.label(), unit, |summary| {
            let (value, interval) = summary.number(scalar)?;
            let is_some = value > 0.0 || is_of_run || matches!(unit, Unit::Count | Unit::Share);
            is_some.then_some(Figure { value, interval })
        });
    }

    /// A count; 0 in all results has no line.
    fn count(&mut self, label: &str, of: impl Fn(&'a Summary) -> u64, is_detail: bool) {
        let counts: Vec<u64> = self.runs.iter().map(|summary| of(summary)).collect();
        if counts.iter().any(|&n| n > 0) {
            let figures = counts.iter().map(|&n| Some(Figure::exact(n as f64))).collect();
            self.add(label.to_owned(), Unit::Count, figures, is_detail);
        }
    }

    /// What the thresholds came to.
    fn thresholds(&mut self) {
        let outcomes: Vec<Vec<(String, &'static str)>> = self
            .runs
            .iter()
            .map(|summary| {
                let all = summary.thresholds().into_iter();
                all.map(|c| (c.threshold.to_string(), words::outcome(c.outcome))).collect()
            })
            .collect();
        let names = union(outcomes.iter().map(|all| all.iter().map(|(name, _)| name.clone())));
        for name in names {
            let of = |all: &Vec<(String, &'static str)>| {
                all.iter().find(|(known, _)| *known == name).map(|(_, word)| *word)
            };
            let what = What::Words(outcomes.iter().map(of).collect());
            self.all.push(Line { label: name, what, is_detail: false });
        }
    }

    fn counts(&mut self) {
        self.number(Scalar::Rate);
        self.exact("target rate", Unit::Rate, Summary::target_rate);
        self.number(Scalar::Requests);
        self.number(Scalar::Replies);
        self.exact("failed", Unit::Count, |s| Some(s.main.failed as f64));
        self.count("unfinished", |s| s.main.unfinished, false);
        self.count("retries", |s| s.main.retries, false);
        let sessions = |s: &'a Summary| s.main.sessions.as_deref();
        self.exact("sessions completed", Unit::Count, |s| Some(sessions(s)?.completed as f64));
        self.exact("sessions failed", Unit::Count, |s| Some(sessions(s)?.failed as f64));
        self.number(Scalar::SessionRate);
        self.exact("window", Unit::Time, |s| Some(s.main.window().0 as f64));
        self.number(Scalar::Throughput);
        self.exact("concurrency", Unit::Number, |s| Some(s.main.concurrency()));
        self.count("connections", |s| s.main.connected, true);
        self.number(Scalar::CpuPerRequest);
    }

    fn of_tokens(&mut self) {
        self.number(Scalar::OutputTokens);
        self.number(Scalar::InputTokens);
        self.number(Scalar::TokenRate);
        self.exact("of one reply", Unit::Rate, |s| s.main.token_rate_of_one());
        self.number(Scalar::ChunkRate);
        self.exact("goodput", Unit::Rate, |s| goodput_of(s).map(|(rate, _)| rate));
        self.exact("good", Unit::Share, |s| goodput_of(s).map(|(_, share)| share));
    }

    fn of_messages(&mut self) {
        let messages =
            |s: &'a Summary| s.main.stream_messages.as_deref().filter(|_| s.main.tokens.is_none());
        self.count("messages sent", |s| messages(s).map_or(0, |m| m.sent), false);
        self.count("messages not sent", |s| messages(s).map_or(0, |m| m.unsent), false);
        self.count("messages received", |s| messages(s).map_or(0, |m| m.received), false);
        self.count(
            "without a reply",
            |s| messages(s).map_or(0, |m| m.awaited.saturating_sub(m.answered)),
            false,
        );
        let broadcast = |s: &'a Summary| s.main.broadcast.as_deref();
        self.exact("published", Unit::Count, |s| Some(broadcast(s)?.published as f64));
        self.number(Scalar::Reach);
        let pings = |s: &'a Summary| s.main.pings.as_deref();
        self.exact("pings", Unit::Count, |s| Some(pings(s)?.sent as f64));
        self.count("without a pong", |s| pings(s).map_or(0, |p| p.sent - p.answered), false);
    }

    /// All kinds of times, the most important first.
    fn times(&mut self) {
        let mains =
            union(self.runs.iter().map(|s| main_times::of(s).into_iter().map(|main| main.name)));
        let names = union(self.runs.iter().map(|s| all(&s.main).map(|(name, _)| name)));
        let shown =
            union(self.runs.iter().map(|s| table::shown(&s.main).map(|(timed, _)| timed.label())));
        for name in &mains {
            self.of_kind(name, &OF_MAIN);
        }
        for name in names.into_iter().filter(|name| !mains.contains(name)) {
            self.of_kind(name, if shown.contains(&name) { &OF_OTHERS } else { &[] });
        }
    }

    fn of_kind(&mut self, kind: &str, shown: &[&str]) {
        let of = |summary: &&'a Summary| {
            let tally = &summary.main;
            let (_, hist) = all(tally).find(|(name, _)| *name == kind)?;
            (hist.count() > 0).then(|| (Figures::of(hist), confidence_of(tally, kind)))
        };
        let runs: Vec<Option<(Figures, Option<Confidence<'a>>)>> =
            self.runs.iter().map(of).collect();
        self.of_times(kind, &runs, shown);
    }

    /// The figures of one kind of times of each result, with their intervals.
    fn of_times(
        &mut self,
        kind: &str,
        runs: &[Option<(Figures, Option<Confidence<'_>>)>],
        shown: &[&str],
    ) {
        let ns = |time: Option<Span>| time.map(|time| time.0 as f64);
        let mean = |run: &Option<(Figures, Option<Confidence<'_>>)>| {
            let (figures, confidence) = run.as_ref()?;
            let interval = confidence.as_ref().and_then(|all| all.mean().ok());
            Some(Figure { value: figures.mean_ns?, interval })
        };
        let is_main = shown.len() == OF_MAIN.len();
        self.add(format!("{kind} mean"), Unit::Time, runs.iter().map(mean).collect(), !is_main);
        for (i, (name, q)) in QUANTILES.into_iter().enumerate() {
            let quantile = |run: &Option<(Figures, Option<Confidence<'_>>)>| {
                let (figures, confidence) = run.as_ref()?;
                let interval = confidence.as_ref().and_then(|all| all.quantile(q).ok());
                Some(Figure { value: ns(figures.quantiles[i])?, interval })
            };
            let figures = runs.iter().map(quantile).collect();
            self.add(format!("{kind} {name}"), Unit::Time, figures, !shown.contains(&name));
        }
        // A maximum has no interval.
        let max = |run: &Option<(Figures, Option<Confidence<'_>>)>| {
            ns(run.as_ref()?.0.max).map(Figure::exact)
        };
        self.add(format!("{kind} max"), Unit::Time, runs.iter().map(max).collect(), !is_main);
    }

    /// The requests by name, the groups and the checks.
    fn named(&mut self) {
        for name in union(self.runs.iter().map(|s| s.plan.names.iter().map(String::as_str))) {
            let of = |s: &'a Summary| {
                let at = s.plan.names.iter().position(|known| known == name)?;
                s.main.names.get(at).filter(|named| named.started > 0)
            };
            self.count(&format!("{name}: replies"), |s| of(s).map_or(0, |n| n.replies), true);
            self.count(&format!("{name}: failed"), |s| of(s).map_or(0, |n| n.failed), true);
            self.of_part(&format!("{name}:"), |s| of(s).map(|named| &named.response));
        }
        let groups = self.runs.iter().map(|s| s.plan.groups.iter().map(|g| g.name.as_str()));
        for name in union(groups) {
            let of = |s: &'a Summary| {
                let at = s.plan.groups.iter().position(|group| group.name == name)?;
                s.main.groups.get(at)
            };
            self.count(
                &format!("group {name}: completed"),
                |s| of(s).map_or(0, |group| group.completed),
                true,
            );
            self.count(
                &format!("group {name}: failed"),
                |s| of(s).map_or(0, |group| group.failed),
                true,
            );
            self.of_part(&format!("group {name}:"), |s| of(s).map(|group| &group.duration));
        }
        let checks = self.runs.iter().map(|s| s.plan.checks.list.iter().map(|c| c.title()));
        for title in union(checks) {
            self.figure(&format!("check {title}"), Unit::Share, |s| {
                let at = s.plan.checks.list.iter().position(|check| check.title() == title)?;
                let (value, interval) = share_of_check(s.main.checks.get(at)?).ok()?;
                Some(Figure { value, interval: Some(interval) })
            });
        }
    }

    /// The times of a part of the requests.
    fn of_part(&mut self, label: &str, of: impl Fn(&'a Summary) -> Option<&'a Hist>) {
        let figures = |summary: &&'a Summary| {
            let hist = of(summary).filter(|hist| hist.count() > 0)?;
            Some((Figures::of(hist), None))
        };
        let runs: Vec<_> = self.runs.iter().map(figures).collect();
        self.of_times(label, &runs, &[]);
    }

    /// Each error, and the statuses.
    fn failures(&mut self) {
        for fault in Fault::ALL {
            let of = |t: &Tally| t.fault(fault) + t.stray[fault as usize];
            self.count(words::name(fault), |s| of(&s.main), false);
        }
        let mut statuses = union(self.runs.iter().map(|s| s.main.statuses.keys().copied()));
        statuses.sort_unstable();
        for status in statuses {
            let of = |s: &Summary| s.main.statuses.get(&status).copied().unwrap_or_default();
            self.count(&format!("status {}", status_text(status)), of, true);
        }
    }
}

/// Connections are no part of a request: their lifetimes are in no table of times.
const LIFETIME: &str = "connection lifetime";

/// All kinds of times of a run by their labels.
fn all(tally: &Tally) -> impl Iterator<Item = (&'static str, &Hist)> {
    let kinds = table::kinds(tally).map(|(timed, hist)| (timed.label(), hist));
    kinds.chain([(LIFETIME, &tally.connections.lifetimes)])
}

/// Their intervals, if they have some.
fn confidence_of<'a>(tally: &'a Tally, label: &str) -> Option<Confidence<'a>> {
    let timed = Timed::ALL.iter().find(|timed| timed.label() == label)?;
    Confidence::of_times(tally, *timed)
}

/// All of them once, in the order in which they come first.
fn union<T: PartialEq>(all: impl Iterator<Item = impl Iterator<Item = T>>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all.flatten() {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}
