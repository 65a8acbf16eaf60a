//! Runs for a program that embeds prony, such as a Python interpreter: the same options and the
//! same messages, without a terminal and without signals.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use prony_base::units::{Nanos, Span};
use prony_hosts::driver::Status;
use prony_io::{Control, Live};
use prony_plan::plan::Plan;
use prony_report::Format;
use prony_report::capacity::Capacity;
use prony_report::comparison::Comparison;
use prony_report::phased::Phased;
use prony_run::exit::Accepted;
use prony_run::phases::Stops;
use prony_run::progress::{Phase, Snapshot};
use prony_stats::summary::Summary;

use crate::users::Users;

/// The other side of an embedded run.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// What stops the run of one load.
    pub control: Arc<Control>,
    /// What stops that of a plan with phases.
    pub stops: Arc<Stops>,
    /// The program `prony`, for the workers of a run on several hosts.
    pub program: PathBuf,
    /// The interpreter of Python that has the package `prony`, for engines in Python.
    pub python: PathBuf,
    /// The text of the plan file, if it is not read from a file.
    pub plan_text: Option<String>,
    /// Users whom the program plays, if it does.
    pub users: Option<Users>,
    /// Where the events of the run go.
    pub events: Sender<Event>,
}

/// What comes from an embedded run.
#[derive(Debug)]
pub enum Event {
    /// Another second of the load is complete.
    Tick(Tick),
    /// A sentence for the user.
    Said(String),
    /// The progress of a search or a comparison, in one line.
    Progress(String),
    /// The plan file of a run that is only explained.
    Explained(String),
    /// The run has finished: its report.
    Finished(Box<Summary>),
    /// A plan with phases has finished: its report, and what the user accepts.
    Phased(Box<Phased>, Accepted),
    /// A search or a comparison has finished: its report.
    Found(Found),
}

/// The report of a command that runs several loads.
#[derive(Clone, Debug)]
pub enum Found {
    /// Of `prony capacity`.
    Capacity(Box<Capacity>),
    /// Of `prony compare`.
    Comparison(Box<Comparison>),
}

impl Found {
    /// The report in this format; `None` if it has no such format.
    pub fn render(&self, format: Format) -> Option<Vec<u8>> {
        match self {
            Self::Capacity(found) => found.render(format),
            Self::Comparison(found) => found.render(format),
        }
    }
}

/// The state of a load, once a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tick {
    /// In a plan with phases: the name of the phase.
    pub plan_phase: Option<String>,
    /// Time since the start of the warm-up or measurement, to which the drain belongs.
    pub elapsed: Span,
    /// `warmup`, `measurement` or `drain`.
    pub phase: &'static str,
    /// Requests that started so far, including the warm-up.
    pub started: u64,
    /// Successful replies so far, including the warm-up.
    pub replies: u64,
    /// Failed requests so far, including the warm-up.
    pub failed: u64,
    /// Requests in flight, if known.
    pub in_flight: Option<u64>,
    /// Successes per second, in the last second.
    pub rate: Option<f64>,
    /// The target rate, per second, in an open loop.
    pub target_rate: Option<f64>,
    /// The median response time of the last second.
    pub p50: Option<Span>,
    /// The 99th percentile of the response times of the last second.
    pub p99: Option<Span>,
    /// The longest response time of the last second.
    pub max: Option<Span>,
    /// In a run on several hosts: those at work or done, and all.
    pub hosts: Option<(usize, usize)>,
}

impl Embedding {
    /// Passes an event on. Nobody may be listening any more.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// Passes on how a run on several hosts stands, since it stood as `last` says.
    pub(crate) fn show_status(&self, status: &Status, last: &Status, of: Option<&str>) {
        let passed = (status.elapsed - last.elapsed).as_secs_f64();
        let replies = status.replies.saturating_sub(last.replies);
        self.send(Event::Tick(Tick {
            plan_phase: of.map(str::to_owned),
            elapsed: status.elapsed,
            phase: "measurement",
            started: status.started,
            replies: status.replies,
            failed: status.failed,
            rate: (passed > 0.0).then(|| replies as f64 / passed),
            hosts: Some((status.hosts, status.of)),
            ..Tick::default()
        }));
    }
}

/// Passes on each complete second of a load.
#[derive(Debug)]
pub(crate) struct Ticks {
    embedding: Embedding,
    plan_phase: Option<String>,
    begin: Option<Nanos>,
}

impl Ticks {
    /// None has passed yet.
    pub(crate) fn new(embedding: Embedding) -> Self {
        Self { embedding, plan_phase: None, begin: None }
    }

    /// The load is the phase of this name.
    pub(crate) fn of_phase(&mut self, name: &str) {
        self.plan_phase = Some(name.to_owned());
    }

    /// Looks at the current state of the load.
    pub(crate) fn show(&mut self, plan: &Plan, live: &Live) {
        let begin = live.last.as_ref().map(|last| last.begin);
        if begin.is_none() || begin == self.begin {
            return;
        }
        self.begin = begin;
        let tick = Tick { plan_phase: self.plan_phase.clone(), ..tick(plan, live) };
        self.embedding.send(Event::Tick(tick));
    }

    /// Passes on a sentence.
    pub(crate) fn say(&self, sentence: String) {
        self.embedding.send(Event::Said(sentence));
    }
}

fn tick(plan: &Plan, live: &Live) -> Tick {
    let now = Snapshot::of(plan, live);
    let (phase, elapsed) = match now.phase {
        Phase::Warmup { elapsed, .. } => ("warmup", elapsed),
        Phase::Measurement { elapsed, .. } => ("measurement", elapsed),
        Phase::Drain { elapsed } => ("drain", elapsed),
    };
    Tick {
        elapsed,
        phase,
        started: live.started,
        replies: live.replies,
        failed: live.failed,
        in_flight: Some(now.in_flight),
        rate: now.rate,
        target_rate: now.target_rate,
        p50: now.latencies.and_then(|times| times.p50),
        p99: now.latencies.and_then(|times| times.p99),
        max: now.latencies.map(|times| times.max),
        hosts: None,
        plan_phase: None,
    }
}
