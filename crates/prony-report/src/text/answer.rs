//! The short report: the verdict, the main figures, and a line for each thing that is wrong.

use prony_base::units::Span;
use prony_stats::summary::confidence::{Interval, NoInterval};
use prony_stats::summary::{Bottleneck, Judgment, Summary, Verdict, interval_of_name};
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::page::{Ink, LABEL, Page, shortened};
use super::{exchange, histogram, hosts, http2, replay, stages, units, what, words};
use crate::main_times::{self, MainTime, SHOWN};
use crate::plainly;

/// Kinds of errors, reasons of a kind, and notes that have a line of their own.
const KINDS: usize = 3;
/// Names and groups of a plan with a row of their own.
const NAMES: usize = 5;
/// Statuses that are listed, and stages with a row.
const STATUSES: usize = 6;
const STAGES: usize = 12;
/// The labels of the totals that are part of an answer.
const TOTALS: [&str; 10] = [
    "requests",
    "exchanges",
    "network",
    "sessions",
    "rate",
    "messages",
    "reconnects",
    "broadcast",
    "tokens",
    "goodput",
];

pub(super) fn write(page: &mut Page, summary: &Summary) {
    let t = &summary.main;
    let judgment = summary.verdict();
    what::title(page, summary);
    verdict(page, summary, &judgment);
    page.list("shard", &hosts::part(summary));
    page.list("hosts", &hosts::facts(summary));
    for (label, mut parts) in super::totals(summary) {
        if label == "network" {
            parts.extend(losses(summary));
        }
        if TOTALS.contains(&label) {
            page.list(label, &parts);
        }
    }
    if t.statuses.len() > 1 {
        page.list("statuses", &super::statuses(t, STATUSES));
    }
    table(page, &rows(summary));
    if page.style().histogram {
        histogram::write(page, &t.times.response);
    }
    stages::write(page, summary, STAGES);
    replay::answer(page, summary);
    errors(page, summary);
    checks(page, summary);
    limits(page, summary, &judgment);
    page.list("until", &super::goals(summary));
    super::thresholds(page, summary);
    notes(page, &summary.run.notes);
    page.list("load", &what::load(&summary.plan, KINDS));
    page.inked("-v", "shows the whole report", Ink::Faint);
}

/// The verdict, and what is wrong.
fn verdict(page: &mut Page, summary: &Summary, judgment: &Judgment) {
    let word = judgment.verdict.word();
    if !judgment.is_valid() {
        for (i, sentence) in plainly::wrong(judgment, summary).iter().enumerate() {
            match i {
                0 => page.inked("verdict", &format!("{word}: {sentence}"), Ink::Bad),
                _ => page.line("", sentence),
            }
        }
        return;
    }
    let t = &summary.main;
    let share = t.error_share().filter(|_| t.failed > 0);
    let what = words::noun(summary);
    let failed = share.map(|share| format!("{} of the {what} failed", units::percent(share)));
    let bottleneck = summary.bottleneck(judgment);
    let wait = bottleneck.as_ref().and_then(words::longest_wait);
    let wrong: Vec<String> = failed.into_iter().chain(wait).collect();
    let ink = if wrong.is_empty() { Ink::Good } else { Ink::Warning };
    let wrong = if wrong.is_empty() { "".into() } else { format!(" ({})", wrong.join("; ")) };
    page.inked("verdict", &format!("{word}{wrong}"), ink);
}

/// What the network lost: packets that were sent again, and paths.
fn losses(summary: &Summary) -> Vec<String> {
    let tcp = summary.transport();
    let again = tcp.retransmits + tcp.sctp.map_or(0, |sctp| sctp.retransmits);
    let again = (again > 0).then(|| units::counted(again, "retransmission", "retransmissions"));
    let paths = tcp.sctp.filter(|sctp| sctp.paths_failed > 0).map(|sctp| {
        let failed = units::count(sctp.paths_failed);
        format!("{failed} of {} failed", units::counted(sctp.paths.into(), "path", "paths"))
    });
    again.into_iter().chain(paths).collect()
}

/// Whether it is known that the meter added less than 1 % to each of these times.
fn adds_little(time: &MainTime<'_>) -> bool {
    let percentiles = SHOWN.iter().filter_map(|&(_, q)| Some((time.times.quantile(q)?, q)));
    let mut shown = percentiles.chain(time.times.max().map(|max| (max, 1.0)));
    shown.all(|(measured, q)| {
        time.added(q).is_some_and(|added| added.0.saturating_mul(100) < measured.0)
    })
}

/// A row of the table: times with their intervals.
struct Row {
    name: String,
    /// The percentiles, and the maximum.
    times: [Option<Span>; SHOWN.len() + 1],
    /// The wider half of the interval of each percentile.
    bars: [Option<String>; SHOWN.len()],
    ink: Ink,
}

impl Row {
    fn of(
        name: &str,
        hist: &Hist,
        interval: impl Fn(f64) -> Result<Interval, NoInterval>,
        ink: Ink,
    ) -> Self {
        let [p50, p95, p99] = SHOWN.map(|(_, q)| hist.quantile(q));
        let bars = SHOWN.map(|(_, q)| {
            let figure = hist.quantile(q)?.0 as f64;
            Some(format!(" +- {}", units::bar(interval(q).ok()?.reach(figure))))
        });
        Self { name: name.to_owned(), times: [p50, p95, p99, hist.max()], bars, ink }
    }

    /// What the meter added; `None` if it is not known.
    fn meter(time: &MainTime<'_>) -> Option<Self> {
        let [p50, p95, p99] = SHOWN.map(|(_, q)| time.added(q));
        let times = [p50, p95, p99, time.added(1.0)];
        let is_known = times.iter().any(Option::is_some);
        is_known.then(|| Self {
            name: "meter up to".into(),
            times,
            bars: [const { None }; SHOWN.len()],
            ink: Ink::Plain,
        })
    }
}

/// The main times, then those of each name and group of a plan.
fn rows(summary: &Summary) -> Vec<Row> {
    let t = &summary.main;
    let mut rows = Vec::new();
    for time in main_times::of(summary).iter().filter(|time| time.times.max().is_some()) {
        let is_first = rows.is_empty();
        rows.push(Row::of(time.name, time.times, |q| time.interval(q), Ink::Strong));
        if is_first || !adds_little(time) {
            rows.extend(Row::meter(time));
        }
    }
    let mut named: Vec<_> = summary.plan.names.iter().zip(&t.names).collect();
    named.retain(|(_, name)| name.response.max().is_some());
    named.sort_by_key(|(_, name)| std::cmp::Reverse(name.started));
    let more = named.len().saturating_sub(NAMES);
    for (name, tally) in named.into_iter().take(NAMES) {
        rows.push(Row::of(name, &tally.response, |q| interval_of_name(t, tally, q), Ink::Plain));
    }
    if more > 0 {
        let none = [None; SHOWN.len() + 1];
        let name = format!("and {}", units::counted(more as u64, "more name", "more names"));
        rows.push(Row { name, times: none, bars: [const { None }; SHOWN.len()], ink: Ink::Faint });
    }
    for (group, tally) in summary.plan.groups.iter().zip(&t.groups).take(NAMES) {
        if tally.duration.max().is_some() {
            let unknown = |_| Err(NoInterval::NotRecorded);
            rows.push(Row::of(&group.name, &tally.duration, unknown, Ink::Plain));
        }
    }
    rows
}

/// Widths of a time, of its interval, and of the longest time.
const TIME: usize = 9;
const BAR: usize = 10;
const MAX: usize = 9;
/// A line with intervals needs this many columns.
const WIDE: usize = LABEL + SHOWN.len() * (TIME + BAR) + MAX;

fn table(page: &mut Page, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let is_wide =
        page.width() >= WIDE && rows.iter().any(|row| row.bars.iter().any(Option::is_some));
    let bar = if is_wide { BAR } else { 0 };
    let cells = SHOWN.len() * (TIME + bar) + MAX;
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
    let label = longest.clamp(LABEL - 2, (page.width() - 2 - cells).max(LABEL - 2));
    let header = SHOWN.map(|(name, _)| format!("{name:>TIME$}{:bar$}", "")).concat();
    page.wide_row("", label, &format!("{header}{:>MAX$}", "max"), Ink::Faint);
    for row in rows {
        let [times @ .., max] = &row.times;
        let shown = |time: &Option<Span>| time.map_or_else(|| "-".into(), units::span);
        let cells = times.iter().zip(&row.bars).map(|(time, interval)| {
            let interval = interval.as_deref().filter(|_| is_wide).unwrap_or_default();
            format!("{:>TIME$}{interval:<bar$}", shown(time))
        });
        let line = cells.collect::<String>() + &format!("{:>MAX$}", shown(max));
        let line = if row.times.iter().all(Option::is_none) { String::new() } else { line };
        page.wide_row(&shortened(&row.name, label), label, &line, row.ink);
    }
}

/// The most frequent kinds of errors with their meaning.
fn errors(page: &mut Page, summary: &Summary) {
    let t = &summary.main;
    let all = super::errors_of(t);
    for (i, &(fault, n)) in all.iter().take(KINDS).enumerate() {
        let label = if i == 0 { "errors" } else { "" };
        let meaning = words::meaning(fault, &summary.plan);
        let (n, stray) = (units::count(n), super::stray(t, fault));
        page.inked(label, &format!("{n} {}: {meaning}{stray}", words::name(fault)), Ink::Warning);
        if let Some(first) = words::first_failure(fault, summary) {
            page.inked("", &format!("first: {first}"), Ink::Warning);
        }
    }
    if let Some(more) = all.len().checked_sub(KINDS).filter(|&n| n > 0) {
        let others = all.iter().skip(KINDS).map(|&(_, n)| n).sum();
        let kinds = units::counted(more as u64, "other kind", "other kinds");
        page.inked("", &format!("{} of {kinds}", units::count(others)), Ink::Warning);
    }
    super::reasons(page, t, KINDS);
    named_errors(page, summary, t);
    page.list("gRPC", &http2::grpc_messages(t));
    page.list("HTTP/2", &http2::remarks(t));
    if let Some(hint) = exchange::hint(summary) {
        page.line("", &hint);
    }
}

/// The names whose requests failed.
fn named_errors(page: &mut Page, summary: &Summary, t: &Tally) {
    let mut named: Vec<_> = summary.plan.names.iter().zip(&t.names).collect();
    named.retain(|(_, name)| name.failed > 0);
    named.sort_by_key(|(_, name)| std::cmp::Reverse(name.failed));
    if named.is_empty() || summary.plan.names.len() < 2 {
        return;
    }
    let more = named.len().saturating_sub(NAMES);
    let each = named.iter().take(NAMES).map(|(name, tally)| {
        let ended = tally.replies + tally.failed;
        let share = units::percent(tally.failed as f64 / ended.max(1) as f64);
        format!("{name} {} ({share})", units::count(tally.failed))
    });
    let more = (more > 0).then(|| format!("{more} more"));
    let all: Vec<String> = each.chain(more).collect();
    page.inked("", &format!("in {}", all.join(", ")), Ink::Warning);
}

/// The checks that failed, or that all passed.
fn checks(page: &mut Page, summary: &Summary) {
    let all = summary.plan.checks.list.iter().zip(&summary.main.checks);
    let count = all.len();
    let mut failed: Vec<_> = all.filter(|(_, tally)| tally.failed > 0).collect();
    if count == 0 {
        return;
    }
    if failed.is_empty() {
        let all = units::counted(count as u64, "check", "checks");
        page.line("checks", &format!("no reply failed any of the {all}"));
        return;
    }
    failed.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.failed));
    for (i, (check, tally)) in failed.iter().take(NAMES).enumerate() {
        let label = if i == 0 { "checks" } else { "" };
        let all = tally.passed + tally.failed;
        let (failed, all) = (units::count(tally.failed), units::count(all));
        let title = shortened(check.title(), page.width() / 2);
        page.inked(label, &format!("{failed} of {all} failed \"{title}\""), Ink::Warning);
    }
    if let Some(n) = failed.len().checked_sub(NAMES).filter(|&n| n > 0) {
        page.line("", &format!("and {}", units::counted(n as u64, "more check", "more checks")));
    }
}

/// What limited the rate, where that is not what the load asked for.
fn limits(page: &mut Page, summary: &Summary, judgment: &Judgment) {
    let is_named = [Verdict::ClientLimited, Verdict::TargetFailed].contains(&judgment.verdict);
    let found = summary.bottleneck(judgment).filter(|found| {
        !is_named
            && matches!(
                found,
                Bottleneck::Network { .. }
                    | Bottleneck::ConnectionLimit { .. }
                    | Bottleneck::Server { .. }
                    | Bottleneck::StreamLimit { .. }
                    | Bottleneck::Window { .. }
            )
    });
    if let Some(found) = found {
        page.inked("bottleneck", &words::bottleneck(&found), Ink::Warning);
    }
}

fn notes(page: &mut Page, notes: &[String]) {
    for note in notes.iter().take(KINDS) {
        page.line("note", note);
    }
    if let Some(n) = notes.len().checked_sub(KINDS).filter(|&n| n > 0) {
        page.line("", &format!("and {}", units::counted(n as u64, "more note", "more notes")));
    }
}
