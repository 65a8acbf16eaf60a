//! Progress of a load: a full screen or a live line on a terminal, otherwise a plain line every
//! second.

use std::env;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use prony_base::units::{Nanos, Span};
use prony_hosts::view::HostView;
use prony_io::{Control, Live};
use prony_plan::plan::Plan;
use prony_report::units;
use prony_run::contact::Silence;
use prony_run::error::Error;
use prony_run::interrupt::Ending;
use prony_run::output;
use prony_run::progress::{Phase, Snapshot};

use crate::cli::output::OutputArgs;
use crate::embedding::{Embedding, Event, Ticks};
use crate::live_line;
use crate::tui::{self, View};

/// The interval between updates of the live line.
const LIVE_EVERY: Span = Span::from_millis(100);
/// The interval between plain lines.
const PLAIN_EVERY: Span = Span::from_secs(1);

/// Loads shorter than this do not open the full screen, unless `--tui` is given.
const SCREEN_AFTER: Span = Span::from_millis(400);

/// The kind of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressMode {
    /// Nothing.
    Nothing,
    /// Lines on standard error.
    Lines,
    /// A full screen, which appears this long after the start of the load.
    Screen(Span),
}

/// The kind of progress for these options; refuses a full screen without a terminal.
pub(crate) fn mode(output: &OutputArgs) -> Result<ProgressMode, Error> {
    if output.quiet || output.no_progress || output.embedding.is_some() {
        return Ok(ProgressMode::Nothing);
    }
    let can = tui::can_show();
    if output.tui {
        let what = "a terminal on standard error";
        let advice = "omit it, or run prony in the foreground of a terminal";
        let refusal = Error::Needs("--tui", what, advice);
        return if can { Ok(ProgressMode::Screen(Span::ZERO)) } else { Err(refusal) };
    }
    let smart = env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != *"dumb");
    let wanted = !output.no_tui && smart && can && io::stdout().is_terminal();
    Ok(if wanted { ProgressMode::Screen(SCREEN_AFTER) } else { ProgressMode::Lines })
}

/// Shows the progress of a load on standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    plan: Plan,
    display: Display,
    /// The name of the phase, for the start of a line.
    name: String,
    /// The goals of the load, for the end of a line.
    aim: String,
    control: Arc<Control>,
    ending: Ending,
    silence: Silence,
}

#[derive(Debug)]
enum Display {
    Silent,
    Embedded(Ticks),
    Screen(Box<View>),
    Live { next: Nanos },
    Plain { next: Nanos },
}

impl Progress {
    /// Progress of this plan, for the program that embeds it or else in this mode. `control` stops
    /// its load.
    pub(crate) fn new(
        plan: &Plan,
        mode: ProgressMode,
        embedding: Option<&Embedding>,
        control: &Arc<Control>,
    ) -> Self {
        let display = match (embedding, mode) {
            (Some(embedding), _) => Display::Embedded(Ticks::new(embedding.clone())),
            (None, ProgressMode::Nothing) => Display::Silent,
            (None, ProgressMode::Screen(after)) => {
                Display::Screen(Box::new(View::new(plan, Arc::clone(control), after)))
            }
            (None, ProgressMode::Lines) if io::stderr().is_terminal() => {
                Display::Live { next: Nanos::ZERO }
            }
            (None, ProgressMode::Lines) => Display::Plain { next: Nanos::ZERO + PLAIN_EVERY },
        };
        let control = Arc::clone(control);
        let (name, aim) = (String::new(), String::new());
        let (ending, silence) = (Ending::default(), Silence::default());
        Self { plan: plan.clone(), display, name, aim, control, ending, silence }
    }

    /// The progress of a phase of this name. Phases that run side by side have plain lines, because
    /// they cannot share a live one.
    pub(crate) fn of_phase(mut self, name: &str, beside: bool) -> Self {
        if beside && matches!(self.display, Display::Live { .. }) {
            self.display = Display::Plain { next: Nanos::ZERO + PLAIN_EVERY };
        }
        if let Display::Embedded(ticks) = &mut self.display {
            ticks.of_phase(name);
        }
        self.name = format!("{name}: ");
        self
    }

    /// Whether the load is shown on a screen, on which its rate can be changed.
    pub(crate) fn is_screen(&self) -> bool {
        matches!(self.display, Display::Screen(_))
    }

    /// Sets the goals of the load, for the end of a line.
    pub(crate) fn aim(&mut self, aim: String) {
        self.aim = aim;
    }

    /// Shows the current state of the load.
    pub(crate) fn show(&mut self, live: &Live) {
        let silent = self.silence.sentence(&self.plan, live);
        if let Some(sentence) = silent.or_else(|| self.ending.sentence(&self.control, live)) {
            self.display.end(format!("{}{sentence}", self.name));
        }
        match &mut self.display {
            Display::Silent => {}
            Display::Embedded(ticks) => ticks.show(&self.plan, live),
            Display::Screen(view) => view.show(live),
            Display::Live { next } => {
                if live.now >= *next {
                    *next = live.now + LIVE_EVERY;
                    let line = line(&Snapshot::of(&self.plan, live));
                    live_line::show(&format!("{}{line}{}", self.name, self.aim));
                }
            }
            Display::Plain { next } => {
                if live.now >= *next {
                    *next = live.now + PLAIN_EVERY;
                    let line = line(&Snapshot::of(&self.plan, live));
                    output::to_stderr(&format!("prony: {}{line}{}", self.name, self.aim));
                }
            }
        }
    }

    /// Shows the current state of a load on several hosts on the screen.
    pub(crate) fn show_hosts(&mut self, live: &Live, hosts: &[HostView]) {
        if let Display::Screen(view) = &mut self.display {
            view.show_hosts(live, hosts);
        }
    }

    /// Removes the live line or screen at the end of the load.
    pub(crate) fn finish(self) {
        match self.display {
            Display::Screen(view) => view.finish(),
            Display::Live { .. } => live_line::clear(),
            Display::Silent | Display::Embedded(_) | Display::Plain { .. } => {}
        }
    }
}

impl Display {
    /// Shows what a load that the user stopped waits for.
    fn end(&mut self, sentence: String) {
        let say = |sentence: &str| output::to_stderr(&format!("prony: {sentence}"));
        match self {
            Self::Silent => {}
            Self::Embedded(ticks) => ticks.say(sentence),
            Self::Screen(view) if view.is_shown() => view.end(sentence),
            Self::Live { .. } => {
                live_line::clear();
                say(&sentence);
            }
            Self::Screen(_) | Self::Plain { .. } => say(&sentence),
        }
    }
}

/// Shows the current step of a sequence: a live line on a terminal, otherwise a plain line for each
/// step.
#[derive(Debug)]
pub(crate) struct Steps {
    live: bool,
    quiet: bool,
    embedding: Option<Embedding>,
}

impl Steps {
    /// Steps for the program that embeds prony, or on standard error, unless `quiet`.
    pub(crate) fn new(quiet: bool, embedding: Option<&Embedding>) -> Self {
        let live = !quiet && embedding.is_none() && io::stderr().is_terminal();
        Self { live, quiet, embedding: embedding.cloned() }
    }

    /// Shows the step that starts now.
    pub(crate) fn show(&self, what: &str) {
        if let Some(embedding) = &self.embedding {
            embedding.send(Event::Progress(what.to_owned()));
        } else if self.live {
            live_line::show(what);
        } else if !self.quiet {
            output::to_stderr(&format!("prony: {what}"));
        }
    }

    /// Removes the live line.
    pub(crate) fn finish(self) {
        if self.live {
            live_line::clear();
        }
    }
}

/// One line: elapsed time, rates, requests in flight, latencies of the last second, errors.
fn line(now: &Snapshot) -> String {
    let mut parts = vec![elapsed(now.phase)];
    parts.extend(match (now.rate, now.target_rate) {
        (Some(rate), Some(target)) => {
            Some(format!("{} (target {})", units::rate(rate), units::rate(target)))
        }
        (Some(rate), None) => Some(units::rate(rate)),
        (None, Some(target)) => Some(format!("target {}", units::rate(target))),
        (None, None) => None,
    });
    parts.push(format!("{} in flight", now.in_flight));
    if let Some(latencies) = &now.latencies {
        parts.extend(latencies.p50.map(|p50| format!("p50 {}", units::span(p50))));
        // With too few samples for a p99, show the maximum.
        parts.push(match latencies.p99 {
            Some(p99) => format!("p99 {}", units::span(p99)),
            None => format!("max {}", units::span(latencies.max)),
        });
    }
    if now.failed > 0 {
        parts.push(format!("{} failed", now.failed));
    }
    parts.join(", ")
}

/// The elapsed time, and the duration if it is known.
fn elapsed(phase: Phase) -> String {
    match phase {
        Phase::Warmup { elapsed, whole } => {
            format!("{:.0} s of {} warm-up", elapsed.as_secs_f64(), units::span(whole))
        }
        Phase::Measurement { elapsed, whole: Some(whole) } => {
            format!("{:.0} of {:.0} s", elapsed.as_secs_f64(), whole.as_secs_f64())
        }
        Phase::Measurement { elapsed, whole: None } => format!("{:.0} s", elapsed.as_secs_f64()),
        Phase::Drain { elapsed } => {
            format!("{:.0} s, waiting for the last replies", elapsed.as_secs_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use expect_test::expect;
    use prony_io::Interval;
    use prony_run::environment::Environment;
    use prony_tally::record::series::{Cell, bin_of};

    use super::*;
    use crate::cli::Cli;
    use crate::cli::plan::plan;

    fn check(options: &str, live: &Live) -> String {
        let words = ["prony", "http://h/"].into_iter().chain(options.split_whitespace());
        let around = Environment {
            connections_max: 9,
            connections_why: String::new(),
            seed: 1,
            simulated: false,
        };
        let planned = plan(&Cli::try_parse_from(words).unwrap().load, &around).unwrap();
        format!("{options}\n  {}\n", line(&Snapshot::of(&planned.plan, live)))
    }

    /// A second with this number of replies of 400 us and one of 2 ms.
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
    fn formats_progress_lines() {
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
            check("--arrivals uniform:1ms:3ms", &at(1, last(499), 0)),
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
              0 of 10 s, target 500/s, 50 in flight
            -r 1k..3k@20s --warmup 5s
              4 s of 5.00 s warm-up, 1.00k/s (target 1.00k/s), 50 in flight, p50 397 us, p99 397 us
            -r 1k..3k@20s --warmup 5s
              10 of 20 s, 2.00k/s (target 2.00k/s), 50 in flight, p50 397 us, p99 397 us
            --arrivals uniform:1ms:3ms
              1 of 10 s, 500/s (target 500/s), 50 in flight, p50 397 us, max 2.00 ms
            -d 1h
              1200 of 3600 s, 500/s, 50 in flight, p50 397 us, p99 397 us
        "#]]
        .assert_eq(&lines.concat());
    }
}
