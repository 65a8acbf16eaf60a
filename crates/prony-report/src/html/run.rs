//! The report of one run, section by section.

use maud::{Markup, html};
use prony_base::fault::Fault;
use prony_plan::plan::{CallSpec, Plan, status_text};
use prony_stats::summary::{Hosts, Summary};
use prony_tally::record::hist::Hist;
use prony_tally::record::{Phases, SessionTally, Tally};

use super::super::hosts;
use super::super::phases::{self, Part};
use super::super::text::Fact;
use super::super::units;
use super::terms::{linked, linked_to};
use super::{checks, figures, logged, plots, scrolling, text, verdict, words};
use crate::main_times::{self, SHOWN};
use crate::shell::typed;

/// All sections. `id` is the prefix of their ids.
pub(super) fn sections(summary: &Summary, id: &str) -> Markup {
    let t = &summary.main;
    let stages = summary.stages();
    let has_errors = t.failed > 0 || t.stray.iter().any(|&n| n > 0);
    html! {
        (verdict(summary))
        (tiles(summary))
        @if !summary.run.notes.is_empty() {
            ul { @for note in &summary.run.notes { li { (note) } } }
        }
        (thresholds(summary))
        @if !t.names.is_empty() {
            h2 { "Requests by name" }
            (figures::names(&summary.plan.names, t))
        }
        (checks::groups(summary))
        (checks::checks(summary))
        h2 { "The test" }
        (what(summary))
        h2 { "Results" }
        (facts(&text::counted(summary)))
        h2 { "Latency" }
        (plots::distribution(t, id))
        h2 { "Over time" }
        (plots::over_time(summary, id))
        @if !stages.is_empty() {
            h2 { "Stages of the rate" }
            p.hint {
                "Each stage has the figures of the whole intervals of the run that lie in it. \
                 Percentiles are within 1.6 %."
            }
            (figures::stages(&stages, summary.plan.sessions.is_some()))
        }
        h2 { "Where the time went" }
        (figures::times("all kinds of times", &kinds(t)))
        (plots::phases(t, id))
        @if t.times.response.count() > 0 {
            h2 { "Confidence intervals" }
            p.hint {
                "95 % confidence intervals, computed from blocks of this run. If you repeat the run \
                 many times and the target does not change, about 19 of 20 intervals contain the \
                 true value."
            }
            (figures::intervals(summary))
        }
        @if let Some(stamped) = &t.phases {
            h2 { "Kernel timestamps" }
            (phases_of(summary, stamped))
        }
        @if has_errors { h2 { "Errors" } (errors(summary)) }
        @if !t.statuses.is_empty() { h2 { "Statuses" } (statuses(t)) }
        @if let Some(sessions) = &t.sessions { h2 { "Sessions" } (sessions_of(summary, sessions)) }
        (logged::against_log(summary))
        h2 { "The load generator" }
        (meter(summary))
        @if let Some(warmup) = &summary.warmup {
            h2 { "Warm-up" }
            p { "Not included in any figure above: " (text::warmed(warmup)) "." }
        }
    }
}

/// The thresholds, and whether the run meets them.
fn thresholds(summary: &Summary) -> Markup {
    let all = summary.thresholds();
    if all.is_empty() {
        return html! {};
    }
    let table = html! {
        table.named {
            thead {
                tr { th { "threshold" } th { "outcome" } th { "measured" } }
            }
            tbody {
                @for checked in &all {
                    tr {
                        th { (checked.threshold) }
                        td { (words::outcome(checked.outcome)) }
                        td.words { (words::threshold(checked)) }
                    }
                }
            }
        }
    };
    html! { h2 { "Thresholds" } (scrolling("thresholds", &table)) }
}

/// The most important figures: those of the load, and those of each kind of times in a row.
fn tiles(summary: &Summary) -> Markup {
    let t = &summary.main;
    html! {
        dl.tiles {
            div { dt { (linked_to("rate", "completed rate")) } dd { (figures::rate(t.rate())) } }
            @if let Some(target) = summary.target_rate() {
                div { dt { (linked("target rate")) } dd { (figures::rate(target)) } }
            }
            @if let Some((rate, share)) = text::goodput_of(summary) {
                div {
                    dt { (linked("goodput")) }
                    dd { (figures::rate(rate)) }
                    dd.why { (units::percent(share)) " of the requests" }
                }
            }
            div { dt { "requests" } dd { (figures::count(t.replies + t.failed)) } }
            div {
                dt { "failed" }
                dd { (figures::count(t.failed)) }
                @if let Some(share) = t.error_share().filter(|_| t.failed > 0) {
                    dd.why { (units::percent(share)) }
                }
            }
        }
        @for time in main_times::of(summary) {
            dl.tiles {
                @for (name, q) in SHOWN.into_iter().chain([("max", 1.0)]) {
                    div {
                        dt { (linked(time.name)) " " (name) }
                        dd { (figures::time(time.times.quantile(q))) }
                        @if time.times.quantile(q).is_none() {
                            dd.why { (missing(time.times, q)) }
                        }
                    }
                }
            }
        }
    }
}

/// The terms of the sections, the most important first.
pub(super) fn terms(summary: &Summary) -> Vec<&'static str> {
    let mains = main_times::of(summary).into_iter().map(|time| time.name);
    let kinds = kinds(&summary.main).into_iter().filter(|(_, hist)| hist.count() > 0);
    let goodput = text::goodput_of(summary).map(|_| "goodput");
    ["rate", "target rate"]
        .into_iter()
        .chain(goodput)
        .chain(mains)
        .chain(kinds.map(|(name, _)| name))
        .chain(["count", "mean", "stdev", "min", "p50", "max"])
        .collect()
}

/// Why the quantile is missing.
fn missing(times: &Hist, q: f64) -> String {
    match times.count() {
        0 => "no replies".to_owned(),
        n => {
            let needs = Hist::samples_needed(q);
            format!("{} of {} replies needed", units::count(n), units::count(needs))
        }
    }
}

fn kinds(t: &Tally) -> Vec<(&'static str, &Hist)> {
    let kinds = text::kinds(t).map(|(timed, hist)| (timed.label(), hist));
    kinds.chain([("connection lifetime", &t.connections.lifetimes)]).collect()
}

fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl.facts {
            @for (label, parts) in facts.iter().filter(|(_, parts)| !parts.is_empty()) {
                dt { (label) }
                dd { (parts.join(", ")) }
            }
        }
    }
}

fn what(summary: &Summary) -> Markup {
    let plan = &summary.plan;
    let size = text::size(summary);
    let command = typed(summary.run.command.words());
    let more = size.requests.checked_sub(Plan::EXCERPT as u64).filter(|&n| n > 0);
    let calls = units::counted(size.requests, "request", "requests");
    html! {
        (facts(&text::asked(summary)))
        @if let Some(started) = summary.run.started_unix {
            p.hint { "Started " (units::date(started)) " UTC." }
        }
        @if !command.is_empty() { pre { (command) } }
        details {
            summary { (calls) " of the plan" }
            ul {
                @for (i, call) in plan.calls.iter().take(Plan::EXCERPT).enumerate() {
                    li { (request(plan, call, size.body_bytes.get(i).copied().unwrap_or(0))) }
                }
            }
            @if let Some(more) = more {
                p.hint { "and " (units::count(more)) " more" }
            }
        }
    }
}

fn request(plan: &Plan, call: &CallSpec, body_bytes: u64) -> Markup {
    let name = call.name.and_then(|i| plan.names.get(i as usize));
    html! {
        @if let Some(name) = name { strong { (name) } " " }
        code { (call.method) " " (call.path) }
        " to " (call.authority)
        @if call.template && body_bytes > 0 {
            ", with a body from a template"
        } @else if body_bytes > 0 { ", with a body of " (units::bytes(body_bytes as f64)) }
        @if !call.headers.is_empty() {
            pre { @for (name, value) in &call.headers { (name) ": " (value) "\n" } }
        }
    }
}

fn errors(summary: &Summary) -> Markup {
    let t = &summary.main;
    let count = |f: Fault| t.fault(f) + t.stray[f as usize];
    let mut faults: Vec<Fault> = Fault::ALL.into_iter().filter(|&f| count(f) > 0).collect();
    faults.sort_by_key(|&f| std::cmp::Reverse(count(f)));
    let table = html! {
        table {
            thead {
                tr {
                    @for name in ["error", "requests", "stray"] { th scope="col" { (name) } }
                    th.words scope="col" { "meaning" }
                    th.words scope="col" { "the first" }
                }
            }
            tbody {
                @for fault in faults {
                    tr {
                        th scope="row" { (words::name(fault)) }
                        td { (figures::count(t.fault(fault))) }
                        td { (figures::count(t.stray[fault as usize])) }
                        td.words { (words::meaning(fault, &summary.plan)) }
                        td.words { (words::first_failure(fault, summary).unwrap_or_default()) }
                    }
                }
            }
        }
    };
    scrolling("errors", &table)
}

fn statuses(t: &Tally) -> Markup {
    let all: u64 = t.statuses.values().sum();
    let table = html! {
        table {
            (figures::head(["status", "replies", "share"]))
            tbody {
                @for (status, n) in &t.statuses {
                    tr {
                        th scope="row" { (status_text(*status)) }
                        td { (figures::count(*n)) }
                        td { (units::percent(*n as f64 / all as f64)) }
                    }
                }
            }
        }
    };
    scrolling("statuses", &table)
}

fn sessions_of(summary: &Summary, s: &SessionTally) -> Markup {
    let t = &summary.main;
    let kinds = text::session_kinds(&summary.plan, t);
    let counts = [
        ("started", s.started),
        ("completed", s.completed),
        ("failed", s.failed),
        ("unfinished", s.unfinished),
        ("connections", s.connections),
    ];
    let length = |(&replies, &n): (&u64, &u64)| {
        format!("{} with {}", units::count(n), units::counted(replies, "reply", "replies"))
    };
    let lengths: Vec<String> = s.lengths.iter().map(length).collect();
    html! {
        dl.facts {
            @for (label, n) in counts { dt { (label) } dd { (figures::count(n)) } }
            @if let Some(rate) = t.session_rate() { dt { "rate" } dd { (units::rate(rate)) } }
            @if !lengths.is_empty() { dt { "lengths" } dd { (lengths.join(", ")) } }
        }
        (figures::times("sessions", &[("completed", &s.lifetime), ("failed", &s.failtime)]))
        @if !kinds.is_empty() { (figures::session_kinds(&kinds)) }
    }
}

fn phases_of(summary: &Summary, stamped: &Phases) -> Markup {
    let parts: Vec<_> = phases::parts(stamped).collect();
    let hists: Vec<(&str, &Hist)> = parts
        .iter()
        .map(|part| (part.label, part.times))
        .chain(phases::others(stamped).map(|(_, label, times)| (label, times)))
        .collect();
    let share =
        |part: &Part<'_>| part.share.map(|s| format!("{} {}", part.label, units::percent(s)));
    let shares: Vec<String> = parts.iter().filter_map(share).collect();
    html! {
        p { (phases::remarks(summary, stamped).join(", ")) "." }
        @if !shares.is_empty() { p { "Shares of the total: " (shares.join(", ")) "." } }
        (figures::times("kernel timestamps", &hists))
    }
}

fn hosts_of(hosts: &Hosts) -> Markup {
    let table = html! {
        table {
            (figures::head(hosts::COLUMNS))
            tbody {
                @for host in &hosts.hosts {
                    tr {
                        th scope="row" { (host.name) }
                        @for cell in hosts::cells(host, hosts.shards) { td { (cell) } }
                    }
                }
            }
        }
    };
    html! {
        (scrolling("hosts", &table))
        @for (host, loss) in hosts.lost() { p.hint { (hosts::loss(host, loss)) } }
    }
}

/// The planned load against the offered load, over time.
fn offered(summary: &Summary) -> Markup {
    let rows = summary.offered();
    let table = html! {
        table {
            (figures::head(hosts::OFFERED))
            tbody {
                @for [at, cells @ ..] in rows.iter().map(hosts::offered_cells) {
                    tr { th scope="row" { (at) } @for cell in cells { td { (cell) } } }
                }
            }
        }
    };
    html! {
        @if !rows.is_empty() {
            details { summary { "Planned and offered load" } (scrolling("offered load", &table)) }
        }
    }
}

fn meter(summary: &Summary) -> Markup {
    let table = html! {
        table {
            (figures::head([
                "thread", "busy", "user", "system", "spinning", "scheduling delay", "longest stall",
                "wall", "turns",
            ]))
            tbody {
                @for (i, m) in summary.workers.iter().enumerate() {
                    tr {
                        th scope="row" { (i) }
                        td { (units::percent(m.busy())) }
                        @for time in [m.cpu_user, m.cpu_system, m.spin] {
                            td { (figures::time(Some(time))) }
                        }
                        td { (figures::time(m.sched_delay.map(|d| d.total))) }
                        @for time in [m.stalls.longest, m.wall] {
                            td { (figures::time(Some(time))) }
                        }
                        td { (figures::count(m.loop_iterations)) }
                    }
                }
            }
        }
    };
    html! {
        (facts(&[("meter", text::meter(summary)), ("hosts", hosts::facts(summary))]))
        @if let Some(hosts) = &summary.run.hosts { (hosts_of(hosts)) (offered(summary)) }
        @if summary.workers.iter().any(|m| m.wall.0 > 0) {
            (scrolling("threads", &table))
        } @else {
            p.hint { "This result does not record the load generator's own CPU time." }
        }
    }
}
