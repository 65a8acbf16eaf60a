//! What is told of one run, section by section.

use maud::{Markup, html};
use prony_core::fault::Fault;
use prony_core::plan::{CallSpec, Plan};
use prony_core::record::hist::Hist;
use prony_core::record::{Phases, SessionTally, Tally};
use prony_core::summary::Summary;

use super::super::phases::{self, Part};
use super::super::text::Fact;
use super::super::units;
use super::{figures, plots, scrolling, text, typed, verdict, words};

/// All sections. `id` begins the ids in them.
pub(super) fn sections(summary: &Summary, id: &str) -> Markup {
    let t = &summary.main;
    let has_errors = t.failed > 0 || t.stray.iter().any(|&n| n > 0);
    html! {
        (verdict(summary))
        (tiles(summary))
        @if !summary.run.notes.is_empty() {
            ul { @for note in &summary.run.notes { li { (note) } } }
        }
        h2 { "What was run" }
        (what(summary))
        h2 { "What came of it" }
        (facts(&text::counted(summary)))
        h2 { "Latency" }
        (plots::distribution(t, id))
        h2 { "Over time" }
        (plots::over_time(summary, id))
        h2 { "Where the time went" }
        (figures::times("all kinds of times", &kinds(t)))
        @if t.times.response.count() > 0 {
            h2 { "How far it can be trusted" }
            p.hint {
                "95 % confidence intervals, from the run's own blocks of time: of many such runs \
                 19 in 20 hold the true figure, as long as the target stays the same."
            }
            (figures::intervals(t))
        }
        (plots::phases(t, id))
        @if let Some(stamped) = &t.phases {
            h2 { "What the kernel saw" }
            (phases_of(summary, stamped))
        }
        @if has_errors { h2 { "Errors" } (errors(t)) }
        @if !t.statuses.is_empty() { h2 { "Statuses" } (statuses(t)) }
        @if let Some(sessions) = &t.sessions { h2 { "Sessions" } (sessions_of(t, sessions)) }
        @if !t.names.is_empty() {
            h2 { "Requests by name" }
            (figures::names(&summary.plan.names, &t.names))
        }
        h2 { "The meter about itself" }
        (meter(summary))
        @if let Some(warmup) = &summary.warmup {
            h2 { "Warm-up" }
            p { "In no figure above: " (text::warmed(warmup).trim_end_matches("; apart")) "." }
        }
    }
}

/// What one looks at first.
fn tiles(summary: &Summary) -> Markup {
    let t = &summary.main;
    let response = &t.times.response;
    html! {
        dl.tiles {
            div { dt { "answered" } dd { (figures::rate(t.rate())) } }
            @if let Some(asked) = summary.asked_rate() {
                div { dt { "asked" } dd { (figures::rate(asked)) } }
            }
            div { dt { "requests" } dd { (figures::count(t.replies + t.failed)) } }
            div { dt { "failed" } dd { (figures::count(t.failed)) } }
            @for (name, q) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
                div { dt { "response " (name) } dd { (figures::time(response.quantile(q))) } }
            }
        }
    }
}

fn kinds(t: &Tally) -> Vec<(&'static str, &Hist)> {
    let kinds = text::kinds(&t.times).into_iter();
    kinds.chain([("connection lifetime", &t.links.lifetimes)]).collect()
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
        @if body_bytes > 0 { ", with a body of " (units::bytes(body_bytes as f64)) }
        @if !call.headers.is_empty() {
            pre { @for (name, value) in &call.headers { (name) ": " (value) "\n" } }
        }
    }
}

fn errors(t: &Tally) -> Markup {
    let count = |f: Fault| t.fault(f) + t.stray[f as usize];
    let mut faults: Vec<Fault> = Fault::ALL.into_iter().filter(|&f| count(f) > 0).collect();
    faults.sort_by_key(|&f| std::cmp::Reverse(count(f)));
    let table = html! {
        table {
            thead {
                tr {
                    @for name in ["error", "requests", "stray"] { th scope="col" { (name) } }
                    th.words scope="col" { "meaning" }
                }
            }
            tbody {
                @for fault in faults {
                    tr {
                        th scope="row" { (words::name(fault)) }
                        td { (figures::count(t.fault(fault))) }
                        td { (figures::count(t.stray[fault as usize])) }
                        td.words { (words::sentence(fault)) }
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
                        th scope="row" { (status) }
                        td { (figures::count(*n)) }
                        td { (units::percent(*n as f64 / all as f64)) }
                    }
                }
            }
        }
    };
    scrolling("statuses", &table)
}

fn sessions_of(t: &Tally, s: &SessionTally) -> Markup {
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
        p { (phases::told(summary, stamped).join(", ")) "." }
        @if !shares.is_empty() { p { "Shares of the whole: " (shares.join(", ")) "." } }
        (figures::times("what the kernel saw", &hists))
    }
}

fn meter(summary: &Summary) -> Markup {
    let table = html! {
        table {
            (figures::head([
                "thread", "busy", "user", "system", "spinning", "waited", "longest stall", "wall",
                "turns",
            ]))
            tbody {
                @for (i, m) in summary.meters.iter().enumerate() {
                    tr {
                        th scope="row" { (i) }
                        td { (units::percent(m.busy())) }
                        @for time in [m.cpu_user, m.cpu_system, m.spin] {
                            td { (figures::time(Some(time))) }
                        }
                        td { (figures::time(m.turned.map(|t| t.waited))) }
                        @for time in [m.stalls.longest, m.wall] {
                            td { (figures::time(Some(time))) }
                        }
                        td { (figures::count(m.turns)) }
                    }
                }
            }
        }
    };
    html! {
        (facts(&[("meter", text::meter(summary))]))
        @if summary.meters.iter().any(|m| m.wall.0 > 0) {
            (scrolling("threads", &table))
        } @else {
            p.hint { "Nothing is known of the meter's own time." }
        }
    }
}
