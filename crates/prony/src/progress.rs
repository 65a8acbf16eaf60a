//! What is told while a load runs: a whole screen, or one live line on a terminal, else a plain
//! line every second.

use std::env;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prony_core::plan::Plan;
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live};

use crate::cli::output::OutputArgs;
use crate::error::Error;
use crate::interrupt::Ending;
use crate::output;
use crate::report::units;
use crate::tui::{self, View};

/// Updates of the live line per second, at most.
const UPDATES_PER_SECOND: u8 = 10;
/// Between two plain lines.
const PLAIN_EVERY: Span = Span::from_secs(1);

/// A screen that nobody has asked for does not appear for a load that is over by then.
const UNASKED_AFTER: Span = Span::from_millis(400);

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Nothing.
    Nothing,
    /// Lines on standard error.
    Lines,
    /// A screen, which appears so long after the start of the load.
    Screen(Span),
}

/// Who is told what while the load runs; refuses a screen where there is no terminal for it.
pub(crate) fn telling(output: &OutputArgs) -> Result<Telling, Error> {
    if output.quiet || output.no_progress {
        return Ok(Telling::Nothing);
    }
    let can = tui::can_show();
    if output.tui {
        let what = "a terminal on standard error";
        let advice = "leave it out, or start prony in the foreground of one";
        let refusal = Error::Needs("--tui", what, advice);
        return if can { Ok(Telling::Screen(Span::ZERO)) } else { Err(refusal) };
    }
    let smart = env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != *"dumb");
    let wanted = !output.no_tui && smart && can && io::stdout().is_terminal();
    Ok(if wanted { Telling::Screen(UNASKED_AFTER) } else { Telling::Lines })
}

/// Tells how a load goes, on standard error.
#[derive(Debug)]
pub struct Progress {
    plan: Plan,
    way: Way,
    /// What the load is still to reach, at the end of a line.
    aim: String,
    control: Arc<Control>,
    ending: Ending,
}

#[derive(Debug)]
enum Way {
    Silent,
    Screen(Box<View>),
    Live(ProgressBar),
    Plain { next: Nanos },
}

impl Progress {
    /// Progress of that plan. `control` is what stops its load.
    pub fn new(plan: &Plan, telling: Telling, control: &Arc<Control>) -> Self {
        let way = match telling {
            Telling::Nothing => Way::Silent,
            Telling::Screen(after) => {
                Way::Screen(Box::new(View::new(plan, Arc::clone(control), after)))
            }
            Telling::Lines if io::stderr().is_terminal() => Way::Live(bar()),
            Telling::Lines => Way::Plain { next: Nanos::ZERO + PLAIN_EVERY },
        };
        let control = Arc::clone(control);
        Self { plan: plan.clone(), way, aim: String::new(), control, ending: Ending::default() }
    }

    /// What the load is still to reach, as the end of a line.
    pub fn aim(&mut self, aim: String) {
        self.aim = aim;
    }

    /// The load stands so.
    pub fn show(&mut self, live: &Live) {
        if let Some(sentence) = self.ending.sentence(&self.control, live) {
            self.way.end(sentence);
        }
        match &mut self.way {
            Way::Silent => {}
            Way::Screen(view) => view.show(live),
            Way::Live(bar) => bar.set_message(line(&self.plan, live) + &self.aim),
            Way::Plain { next } => {
                if live.now >= *next {
                    *next = live.now + PLAIN_EVERY;
                    output::to_stderr(&format!("prony: {}{}", line(&self.plan, live), self.aim));
                }
            }
        }
    }

    /// The load has ended: the live line goes away.
    pub fn finish(self) {
        match self.way {
            Way::Screen(view) => view.finish(),
            Way::Live(bar) => bar.finish_and_clear(),
            Way::Silent | Way::Plain { .. } => {}
        }
    }
}

impl Way {
    /// The user has ended the load, and that is waited for.
    fn end(&mut self, sentence: String) {
        let say = |sentence: &str| output::to_stderr(&format!("prony: {sentence}"));
        match self {
            Self::Silent => {}
            Self::Screen(view) if view.is_shown() => view.end(sentence),
            Self::Live(bar) => bar.suspend(|| say(&sentence)),
            Self::Screen(_) | Self::Plain { .. } => say(&sentence),
        }
    }
}

/// Tells what comes next where several things are done one after another: one live line on a
/// terminal, else a plain line for each.
#[derive(Debug)]
pub(crate) struct Steps {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Steps {
    /// On standard error, unless it is to be quiet.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { bar: (!quiet && io::stderr().is_terminal()).then(bar), quiet }
    }

    /// That comes next.
    pub(crate) fn show(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None if self.quiet => {}
            None => output::to_stderr(&format!("prony: {what}")),
        }
    }

    /// All is done: the live line goes away.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(UPDATES_PER_SECOND);
    let bar = ProgressBar::with_draw_target(None, target);
    // The template has no variable parts but the message, so it is always right.
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// One line: elapsed, rates, in flight, latencies of the last second, errors.
fn line(plan: &Plan, live: &Live) -> String {
    let mut parts = vec![elapsed(plan, live)];
    let asked = plan.target_rate(live.now);
    if let Some(last) = &live.last {
        let rate = units::rate(last.cell.replies as f64 / last.length.as_secs_f64());
        parts.push(match asked {
            Some(asked) => format!("{rate} of {} asked", units::rate(asked)),
            None => rate,
        });
    } else if let Some(asked) = asked {
        parts.push(format!("{} asked", units::rate(asked)));
    }
    parts.push(format!("{} in flight", live.in_flight));
    let last = live.last.iter().map(|last| &last.cell).filter(|last| last.replies > 0);
    parts.extend(last.map(|last| {
        let p50 = last.quantile(0.5).map(|p50| format!("p50 {}, ", units::span(p50)));
        // Too few for a p99 in this second: its longest is the honest figure.
        let tail = last.quantile(0.99).map_or_else(
            || format!("max {}", units::span(last.max)),
            |p99| format!("p99 {}", units::span(p99)),
        );
        p50.unwrap_or_default() + &tail
    }));
    if live.failed > 0 {
        parts.push(format!("{} failed", live.failed));
    }
    parts.join(", ")
}

/// How far the run is: of its time, of its requests, or just how long it has lasted.
fn elapsed(plan: &Plan, live: &Live) -> String {
    let now = live.now;
    let seconds = now.since(Nanos::ZERO).as_secs_f64();
    if now.since(Nanos::ZERO) < plan.warmup {
        return format!("{seconds:.0} s of {} warm-up", units::span(plan.warmup));
    }
    let measured = now.since(Nanos::ZERO + plan.warmup).as_secs_f64();
    match plan.length() {
        _ if live.drain_end.is_some() => format!("{measured:.0} s, waiting for the last replies"),
        Some(whole) if measured <= whole.as_secs_f64() => {
            format!("{measured:.0} of {:.0} s", whole.as_secs_f64())
        }
        Some(_) => format!("{measured:.0} s, waiting for the last replies"),
        None => format!("{measured:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use expect_test::expect;
    use prony_core::record::series::{Cell, bin_of};
    use prony_io::Interval;

    use super::*;
    use crate::cli::Cli;
    use crate::cli::plan::{Surroundings, plan};

    fn check(options: &str, live: &Live) -> String {
        let words = ["prony", "http://h/"].into_iter().chain(options.split_whitespace());
        let around = Surroundings { connections_max: 9, connections_why: String::new(), seed: 1 };
        let planned = plan(&Cli::try_parse_from(words).unwrap().load, &around).unwrap();
        format!("{options}\n  {}\n", line(&planned.plan, live))
    }

    /// A second with so many replies of 400 us and one of 2 ms.
    fn last(replies: u32) -> Option<Interval> {
        let bin = |us| bin_of(Span::from_micros(us));
        let cell = Cell {
            replies: u64::from(replies) + 1,
            bins: vec![(bin(400), replies), (bin(2_000), 1)],
            max: Span::from_millis(2),
            ..Cell::default()
        };
        Some(Interval { begin: Nanos::ZERO, length: Span::from_secs(1), cell })
    }

    fn at(seconds: u64, last: Option<Interval>, failed: u64) -> Live {
        let now = Nanos::ZERO + Span::from_secs(seconds);
        Live { now, in_flight: 50, failed, last, ..Live::default() }
    }

    #[test]
    fn lines() {
        let lines = [
            check("", &at(0, None, 0)),
            check("", &at(3, last(20_000), 0)),
            check("-d 1m30s", &at(75, last(99), 12)),
            check("-d 10s", &at(11, last(99), 0)),
            check("-d 90s", &Live { drain_end: Some(Nanos(1)), ..at(75, last(99), 0) }),
            check("-n 1m", &at(75, last(99), 0)),
            check("-r 500", &at(0, None, 0)),
            check("-r 1k..3k@20s --warmup 5s", &at(4, last(999), 0)),
            check("-r 1k..3k@20s --warmup 5s", &at(15, last(1_999), 0)),
            check("--arrivals uniform:1ms..3ms", &at(1, last(499), 0)),
            check(
                "-d 1h",
                &at(1_200, last(999).map(|i| Interval { length: i.length * 2, ..i }), 0),
            ),
        ];
        expect![[r#"

              0 of 10 s, 50 in flight

              3 of 10 s, 20.0k/s, 50 in flight, p50 397 us, p99 397 us
            -d 1m30s
              75 of 90 s, 100/s, 50 in flight, p50 397 us, max 2.00 ms, 12 failed
            -d 10s
              11 s, waiting for the last replies, 100/s, 50 in flight, p50 397 us, max 2.00 ms
            -d 90s
              75 s, waiting for the last replies, 100/s, 50 in flight, p50 397 us, max 2.00 ms
            -n 1m
              75 s, 100/s, 50 in flight, p50 397 us, max 2.00 ms
            -r 500
              0 of 10 s, 500/s asked, 50 in flight
            -r 1k..3k@20s --warmup 5s
              4 s of 5.00 s warm-up, 1.00k/s of 1.00k/s asked, 50 in flight, p50 397 us, p99 397 us
            -r 1k..3k@20s --warmup 5s
              10 of 20 s, 2.00k/s of 2.00k/s asked, 50 in flight, p50 397 us, p99 397 us
            --arrivals uniform:1ms..3ms
              1 of 10 s, 500/s of 500/s asked, 50 in flight, p50 397 us, max 2.00 ms
            -d 1h
              1200 of 3600 s, 500/s, 50 in flight, p50 397 us, p99 397 us
        "#]]
        .assert_eq(&lines.concat());
    }
}
