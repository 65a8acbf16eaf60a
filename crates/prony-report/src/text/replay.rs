//! A replay of a log: what was read, how bursty it was, and how long its requests took when they
//! were logged, beside those of the run.

use prony_stats::summary::{Burstiness, LogBodies, LogRead, Replayed, Summary, interval_of_name};
use prony_tally::record::hist::Hist;
use prony_tally::record::{NameTally, Tally};

use super::page::{Ink, Page, column, shortened};
use super::units;
use crate::logged::Logged;

/// Width of a cell, including the space before it.
const CELL: usize = 10;
/// The same for rates and shares.
const EXACT: usize = 11;
/// The quantiles that are set beside each other.
const SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// The most files with a line of their own.
const FILES: usize = 4;

pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(replay) = &summary.run.replay else { return };
    patterns(page, summary);
    times(page, summary, replay);
    against_log(page, summary);
    page.blank();
    logs(page, replay);
    page.list("replay", &changed(replay));
    page.list("dispersion", &burstiness(&replay.burstiness));
    page.list("waits", &held(replay));
    if let Some(bodies) = &replay.bodies {
        page.list("bodies", &bodies_of(bodies));
    }
    reader(page, replay);
}

/// What a replay is for: its times against those of the log, and what of the log was not replayed.
pub(super) fn answer(page: &mut Page, summary: &Summary) {
    let Some(replay) = &summary.run.replay else { return };
    against_log(page, summary);
    logs(page, replay);
    if let Some(bodies) = replay.bodies.as_ref().filter(|bodies| bodies.missing > 0) {
        page.list("bodies", &bodies_of(bodies));
    }
    reader(page, replay);
}

/// What was read of each file.
fn logs(page: &mut Page, replay: &Replayed) {
    for (i, log) in replay.logs.iter().take(FILES).enumerate() {
        page.list(if i == 0 { "log" } else { "" }, &read(log));
        if !log.times.is_empty() {
            page.line("", &log.times);
        }
        for bad in &log.first_bad {
            page.line("", &format!("line {}, as {}: {}", bad.line, bad.why, bad.text));
        }
    }
    if let Some(n) = replay.logs.len().checked_sub(FILES).filter(|&n| n > 0) {
        page.line("", &format!("and {}", units::counted(n as u64, "more file", "more files")));
    }
}

/// What kept the log from being read in time.
fn reader(page: &mut Page, replay: &Replayed) {
    if replay.read_late > 0 {
        let n = units::counted(replay.read_late, "request was", "requests were");
        let most = units::span(replay.read_late_most);
        let text = format!("{n} read from the log after they were due, by up to {most}");
        page.inked("reader", &text, Ink::Warning);
    }
    if let Some(why) = &replay.failed {
        page.inked("reader", &format!("the log was not read to its end: {why}"), Ink::Bad);
    }
}

/// The rate of each name, how exact its percentiles are, and its replies by status.
fn patterns(page: &mut Page, summary: &Summary) {
    let t = &summary.main;
    let mut rows: Vec<(&str, &NameTally)> =
        summary.plan.names.iter().map(String::as_str).zip(&t.names).collect();
    rows.retain(|(_, t)| t.started > 0);
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(_, t)| std::cmp::Reverse(t.started));
    page.blank();
    let header = ["per second", "p50 +-", "p90 +-", "p99 +-"];
    let header = header.map(|name| format!("{name:>EXACT$}")).concat() + "  statuses";
    let width = column(rows.iter().map(|(name, _)| *name), header.len());
    page.wide_row("95 % +-", width, &header, Ink::Faint);
    for (name, now) in rows.iter() {
        let rate = format!("{:>EXACT$}", units::rate(t.per_second(now.started)));
        let widths = SHOWN.map(|(_, q)| format!("{:>EXACT$}", half_width(t, now, q)));
        let statuses = now.statuses.iter().map(|(s, n)| format!("{s}: {}", units::count(*n)));
        let statuses = statuses.collect::<Vec<_>>().join(", ");
        let cells = format!("{rate}{}  {statuses}", widths.concat());
        page.wide_row(&shortened(name, width), width, &cells, Ink::Plain);
    }
}

/// Half of the interval's width, as a share of the quantile.
fn half_width(t: &Tally, name: &NameTally, q: f64) -> String {
    let value = name.response.quantile(q).filter(|value| value.0 > 0);
    match (interval_of_name(t, name, q), value) {
        (Ok(i), Some(value)) => units::percent((i.hi - i.lo) / 2.0 / value.0 as f64),
        _ => "-".to_owned(),
    }
}

/// Response times of the run beside those of the log, for each name.
fn times(page: &mut Page, summary: &Summary, replay: &Replayed) {
    let names = summary.plan.names.iter().zip(&summary.main.names).zip(&replay.took);
    let mut rows: Vec<(&str, &NameTally, &Hist)> =
        names.map(|((name, now), then)| (name.as_str(), now, then)).collect();
    rows.retain(|(_, now, then)| now.started > 0 && !then.is_empty());
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(_, now, _)| std::cmp::Reverse(now.started));
    page.blank();
    let header = SHOWN.map(|(name, _)| format!("{:>CELL$}{name:>CELL$}", format!("log {name}")));
    let header = header.concat();
    let width = column(rows.iter().map(|(name, ..)| *name), header.len());
    page.wide_row("log and run", width, &header, Ink::Faint);
    for (name, now, then) in rows.iter() {
        let cell = |hist: &Hist, q| hist.quantile(q).map_or_else(|| "-".into(), units::span);
        let cells = SHOWN
            .map(|(_, q)| format!("{:>CELL$}{:>CELL$}", cell(then, q), cell(&now.response, q)));
        page.wide_row(&shortened(name, width), width, &cells.concat(), Ink::Plain);
    }
}

/// What the times of the run come to against those of the log.
fn against_log(page: &mut Page, summary: &Summary) {
    let Some(logged) = Logged::of(summary) else { return };
    page.blank();
    let (all, mut named): (Vec<_>, Vec<_>) = logged.requests.iter().partition(|r| r.name.is_none());
    named.sort_by_key(|requests| std::cmp::Reverse(requests.requests));
    for (i, requests) in all.into_iter().chain(named).enumerate() {
        let label = if i == 0 { "against log" } else { "" };
        let sentences = requests.changes.iter().map(|change| change.sentence.as_str());
        let sentences = sentences.collect::<Vec<_>>().join("; ");
        page.line(label, &format!("{}: {sentences}", requests.label()));
    }
    for note in &logged.notes {
        page.line("", note);
    }
}

/// What was read of a file.
fn read(log: &LogRead) -> Vec<String> {
    let mut parts = vec![
        format!("{} ({}): {}", log.file, log.format, units::counted(log.lines, "line", "lines")),
        units::counted(log.requests, "request", "requests"),
    ];
    for (n, what) in [
        (log.other_method, "with other methods"),
        (log.no_request, "without a request"),
        (log.bad, "bad"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    if log.spread > 0 {
        parts.push(format!("{} spread over their second", units::count(log.spread)));
    }
    if log.moved > 0 {
        let most = units::span(log.moved_most);
        parts.push(format!("{} moved to be in order, by up to {most}", units::count(log.moved)));
    }
    parts
}

/// What was made of the log.
fn changed(replay: &Replayed) -> Vec<String> {
    let mut parts = Vec::new();
    if replay.speed != 1.0 {
        parts.push(format!("at {} times the speed of the log", replay.speed));
    }
    if replay.copies > 1 {
        let shift = units::exact(replay.shift);
        parts.push(format!("{} copies of the log, each {shift} behind", replay.copies));
    }
    if let Some(sample) = &replay.sample {
        parts.push(format!("a sample of {sample}"));
    }
    if replay.repeats {
        parts.push("again after its end".into());
    }
    parts
}

/// How long requests waited for the last one of their client.
fn held(replay: &Replayed) -> Vec<String> {
    let Some(by) = replay.by.as_ref() else { return Vec::new() };
    let n = units::counted(replay.held.count(), "request", "requests");
    let until = if replay.only_until_sent { " to be sent" } else { "" };
    let mut parts = vec![format!("{n} waited for the last one of the same {by}{until}")];
    if let (Some(p50), Some(most)) = (replay.held.quantile(0.5), replay.held.max()) {
        parts.push(format!(
            "half of them for up to {}, at most {}",
            units::span(p50),
            units::span(most)
        ));
    }
    parts
}

/// The bodies of a file, and the requests for which there was none.
fn bodies_of(bodies: &LogBodies) -> Vec<String> {
    let keys = units::counted(bodies.keys, "key", "keys");
    let all = units::counted(bodies.bodies, "body", "bodies");
    let mut parts = vec![format!("{}: {all} of {keys}", bodies.file)];
    if bodies.missing > 0 {
        let n = units::counted(bodies.missing, "request", "requests");
        let no_key = match bodies.no_key {
            0 => String::new(),
            n => format!(", {} of them without a key", units::count(n)),
        };
        parts.push(format!("{n} had none in it and an empty one{no_key}"));
    }
    if !bodies.missing_keys.is_empty() {
        parts.push(format!("the first keys that it lacks: {}", bodies.missing_keys.join(" ")));
    }
    parts
}

fn burstiness(all: &[Burstiness]) -> Vec<String> {
    let text = |index: Option<f64>| index.map_or_else(|| "-".into(), units::three);
    let windows: Vec<String> = all
        .iter()
        .map(|b| format!("{} {} / {}", units::exact(b.window), text(b.logged), text(b.replayed)))
        .collect();
    match &windows[..] {
        [] => Vec::new(),
        all => vec![format!("log / replay, in windows of {}", all.join(", "))],
    }
}
