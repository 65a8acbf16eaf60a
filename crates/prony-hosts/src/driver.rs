//! The driver: one run on many workers, from the plan to the merged report.

mod show;
mod source;
mod start;
mod whole;

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prony_base::machine::StopRequest;
use prony_base::units::{Nanos, Span};
use prony_io::{Control, Live, clock};
use prony_plan::plan::{Plan, Shard};
use prony_report::json;
use prony_run::error::Error;
use prony_run::merge;
use prony_stats::summary::{CommandLine, Loss, Summary};
use prony_tally::record::series::Block;

use crate::clocks::{Samples, translated};
use crate::engine::{Engine, Event};
use crate::lost::Reported;
use crate::protocol::{self, Order, PROTOCOL, PlanOrder, Reply};
use crate::together::{Beside, Start};
use crate::view::{HostView, Shown};

use source::Source;

/// A worker that has sent nothing for this long is lost.
pub const SILENCE: Duration = Duration::from_millis(2_500);
/// The minimum time from the agreement to the start.
const LEAD_MIN: Duration = Duration::from_millis(500);
/// That time is also at least this multiple of the slowest reply: for the order, for its
/// acknowledgement, and for the order to start nothing after all.
const LEAD_ANSWERS: u32 = 3;
/// Pings before the start, and after the end.
const PINGS: u32 = 40;
/// How long workers may take to reply before the run.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the pings after the run may take.
const LAST_PINGS: Duration = Duration::from_secs(2);
/// How long the loop waits for events at a time.
const TURN: Duration = Duration::from_millis(20);

/// What to do with a run that loses a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// The others continue with their shares.
    #[default]
    Continue,
    /// The run ends.
    Stop,
}

/// The run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The whole plan.
    pub plan: Plan,
    /// The number of workers.
    pub hosts: u32,
    /// What to do if one is lost.
    pub on_loss: OnLoss,
    /// The command line.
    pub command: CommandLine,
    /// Facts about the plan.
    pub notes: Vec<String>,
    /// Whether the snapshots must have the blocks of response times, and of service times.
    pub blocks: (bool, bool),
    /// Whether the rate may be changed during the run.
    pub adjustable_rate: bool,
    /// The runs with which it starts, if it does not run alone.
    pub beside: Option<Beside>,
}

/// Shows a run, and each of its hosts.
pub type View<'a> = dyn FnMut(&Live, &[HostView]) + 'a;

/// The observers of a run.
pub struct Watchers<'a> {
    /// Sentences for the user.
    pub say: &'a mut dyn FnMut(&str),
    /// The progress of the run, about once a second.
    pub status: &'a mut dyn FnMut(&Status),
    /// The sum over all workers, whenever one has reported: times, counts and the new blocks.
    pub live: &'a mut dyn FnMut(&Live),
    /// The whole run as a live view shows it, 50 times a second, and each of its hosts.
    pub view: Option<&'a mut View<'a>>,
}

/// The progress of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The time since the start.
    pub elapsed: Span,
    /// Workers that are running or done.
    pub hosts: usize,
    /// All workers.
    pub of: usize,
    /// Requests that started so far.
    pub started: u64,
    /// Successful replies so far.
    pub replies: u64,
    /// Failed requests so far.
    pub failed: u64,
}

/// The state of a worker.
#[derive(Debug, Default)]
struct Worker {
    host: String,
    greeted: bool,
    ready: bool,
    armed: bool,
    clock: Samples,
    after: Samples,
    slowest: Duration,
    asked: Option<Instant>,
    report: Option<Summary>,
    /// What it had reported before it was lost, if its aggregator knows that.
    kept: Option<Box<Reported>>,
    lost: Option<Loss>,
}

impl Worker {
    fn is_over(&self) -> bool {
        self.report.is_some() || self.lost.is_some()
    }
}

/// Run the plan on the engine's workers and merge their reports.
///
/// # Errors
/// Nothing was started: a worker refused, or did not answer, or the user stopped the run before.
pub fn run<'a>(
    job: &'a Job,
    engine: &'a mut dyn Engine,
    control: &'a Control,
    watchers: Watchers<'a>,
) -> Result<Summary, Error> {
    run_alone(job, engine, control, watchers).map_err(|why| match &job.beside {
        Some(beside) => beside.failed(why),
        None => why,
    })
}

/// The same, for itself.
fn run_alone<'a>(
    job: &'a Job,
    engine: &'a mut dyn Engine,
    control: &'a Control,
    watchers: Watchers<'a>,
) -> Result<Summary, Error> {
    merge::share(&job.plan, Shard { index: 0, of: job.hosts })?;
    if let Some(file) = job.plan.body_file() {
        return Err(Error::Argument(format!(
            "the body is sent from its file {}, as it is longer than 64 MiB, and only this process \
             has opened it: give each host its share with --shard instead of --hosts",
            file.name.escape_debug()
        )));
    }
    engine.open(job.hosts as usize)?;
    let workers = (0..job.hosts).map(|_| Worker::default()).collect();
    let sources = source::all(job.hosts as usize, engine.group());
    let (blocks, observed) = Default::default();
    let mut driver = Driver {
        job,
        engine,
        control,
        watchers,
        workers,
        sources,
        start: None,
        blocks,
        observed,
        shown: Shown::default(),
        rate_changes: 0,
    };
    let result = driver.run();
    driver.engine.close();
    result
}

struct Driver<'a> {
    job: &'a Job,
    engine: &'a mut dyn Engine,
    control: &'a Control,
    watchers: Watchers<'a>,
    workers: Vec<Worker>,
    /// Each worker, or each group of workers with an aggregator.
    sources: Vec<Source>,
    /// The agreed start.
    start: Option<Start>,
    /// Blocks of response and service times that were not passed on yet.
    blocks: [Vec<(Span, Block)>; 2],
    /// Until when the run was passed on.
    observed: Nanos,
    /// What the live view shows.
    shown: Shown,
    /// The number of rate changes that the workers have.
    rate_changes: usize,
}

impl Driver<'_> {
    fn run(&mut self) -> Result<Summary, Error> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.ask("hello", |_| Order::Hello { protocol: PROTOCOL, version: version.clone() })?;
        self.wait("did not answer", |worker| worker.greeted)?;
        let of = self.job.hosts;
        let order = |index| {
            Order::Plan(Box::new(PlanOrder {
                plan: self.job.plan.clone(),
                shard: Shard { index, of },
                environment: self.job.plan.data.environment.clone(),
                command: self.job.command.clone(),
                notes: self.job.notes.clone(),
                adjustable_rate: self.job.adjustable_rate,
                blocks: self.job.blocks.0,
                service_blocks: self.job.blocks.1,
            }))
        };
        let orders: Vec<Order> = (0..of).map(order).collect();
        self.ask("plan", |index| orders[index].clone())?;
        self.wait("did not accept the plan in time", |worker| worker.ready)?;
        self.ping(PATIENCE, false)?;
        self.agree()?;
        self.await_start()?;
        self.follow();
        // How far the clocks have moved.
        let _ = self.ping(LAST_PINGS, true);
        self.merged()
    }

    /// Send each worker an order.
    fn ask(&mut self, _what: &str, order: impl Fn(usize) -> Order) -> Result<(), Error> {
        for index in 0..self.workers.len() {
            self.workers[index].asked = Some(Instant::now());
            self.engine.send(index, &protocol::line(&order(index)));
        }
        self.stopped()
    }

    /// An interruption before the start ends everything.
    fn stopped(&self) -> Result<(), Error> {
        if self.start.is_none() && self.control.stop_request().is_some() {
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// Process events until `done` is true for all workers.
    fn wait(&mut self, missed: &str, done: fn(&Worker) -> bool) -> Result<(), Error> {
        let end = Instant::now() + PATIENCE;
        while !self.workers.iter().all(done) {
            self.stopped()?;
            if Instant::now() >= end {
                let index = self.workers.iter().position(|worker| !done(worker)).unwrap_or(0);
                return Err(self.refused(index, missed));
            }
            for event in self.engine.events(TURN) {
                self.prepare(event)?;
            }
        }
        Ok(())
    }

    fn refused(&self, index: usize, why: &str) -> Error {
        Error::Machine(format!("{} {why}; nothing was sent", self.name(index)))
    }

    /// A worker's name in sentences.
    fn name(&self, index: usize) -> String {
        let of = self.workers.len();
        match self.workers[index].host.as_str() {
            "" => format!("worker {}/{of}", index + 1),
            host => format!("worker {}/{of} on {host}", index + 1),
        }
    }

    /// Process an event before the start. Any problem ends the run before anything was sent.
    fn prepare(&mut self, event: Event) -> Result<(), Error> {
        let (index, line) = match event {
            Event::Line(index, line) => (index, line),
            Event::Gone(index, cause) => {
                return Err(self.refused(index, &format!("has ended: {cause}")));
            }
            Event::GroupGone(group, cause) => {
                let name = self.group_name(group);
                let why = format!("the aggregator of {name} has ended: {cause}; nothing was sent");
                return Err(Error::Machine(why));
            }
            Event::Tally(..) | Event::Over(..) => return Ok(()),
        };
        let now = clock::realtime();
        let worker = &mut self.workers[index];
        if let Some(asked) = worker.asked.take() {
            worker.slowest = worker.slowest.max(asked.elapsed());
        }
        match protocol::parse::<Reply>(&line) {
            Ok(Reply::Hello { host, .. }) => (worker.host, worker.greeted) = (host, true),
            Ok(Reply::Ready) => worker.ready = true,
            Ok(Reply::Pong { id, unix_ns }) => worker.clock.add(id, unix_ns, now),
            Ok(Reply::Armed { .. }) => worker.armed = true,
            Ok(Reply::Refused { why }) => {
                return Err(Error::Machine(format!("{}: {why}", self.name(index))));
            }
            Ok(Reply::Late { by_ns }) => {
                let late = prony_report::units::span(Span(by_ns));
                let why = format!("got the order to start {late} too late");
                return Err(self.refused(index, &why));
            }
            Ok(Reply::Tick(_) | Reply::Final { .. }) => {}
            Err(why) => return Err(self.refused(index, &format!("sent a line that is {why}"))),
        }
        Ok(())
    }

    /// Compare all clocks; the id of a ping is the moment at which it was sent.
    fn ping(&mut self, limit: Duration, after: bool) -> Result<(), Error> {
        let end = Instant::now() + limit;
        let samples = |worker: &Worker| if after { worker.after } else { worker.clock };
        for round in 1..=PINGS {
            let asked: Vec<usize> = (0..self.workers.len())
                .filter(|&index| !after || self.workers[index].report.is_some())
                .collect();
            for &index in &asked {
                let order = Order::Ping { id: clock::realtime() };
                self.engine.send(index, &protocol::line(&order));
            }
            while asked.iter().any(|&index| samples(&self.workers[index]).count < round) {
                self.stopped()?;
                if Instant::now() >= end {
                    let missing = |&&index: &&usize| samples(&self.workers[index]).count < round;
                    let index = asked.iter().find(missing).copied().unwrap_or(0);
                    return Err(self.refused(index, "did not answer pings"));
                }
                for event in self.engine.events(TURN) {
                    match after {
                        true => self.take(event),
                        false => self.prepare(event)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Agree on a start: nothing starts unless every worker acknowledges it in time. That is while
    /// the others can still be stopped before it.
    fn agree(&mut self) -> Result<(), Error> {
        let slowest = self
            .workers
            .iter()
            .map(|worker| worker.slowest.max(Duration::from_nanos(worker.clock.slowest().0)));
        let slowest = slowest.max().unwrap_or_default();
        let lead = LEAD_MIN.max(slowest.min(PATIENCE) * LEAD_ANSWERS);
        let first = self.first_start(lead)?;
        let last = first.at - first.at.saturating_duration_since(Instant::now()) / LEAD_ANSWERS;
        let start = first.delayed(self.delay());
        let Start { unix_ns, at } = start;
        let lead = at.saturating_duration_since(Instant::now());
        self.engine.follow(lead, self.job.plan.warmup);
        let offsets: Vec<i64> = self
            .workers
            .iter()
            .map(|worker| worker.clock.offset().map_or(0, |clock| clock.offset_ns))
            .collect();
        self.ask("start", |index| Order::Start {
            at_unix_ns: translated(unix_ns, offsets[index]),
            run_unix_ns: unix_ns,
        })?;
        while !self.workers.iter().all(|worker| worker.armed) {
            self.stopped()?;
            if Instant::now() >= last {
                let late = self.workers.iter().position(|worker| !worker.armed).unwrap_or(0);
                return Err(self.refused(late, "did not acknowledge the start in time"));
            }
            for event in self.engine.events(TURN) {
                self.prepare(event)?;
            }
        }
        self.all_are_armed(last)?;
        self.start = Some(start);
        Ok(())
    }

    /// The time since the agreed start.
    fn elapsed(&self) -> Duration {
        let start = self.start.map(|start| start.at);
        start.map_or(Duration::ZERO, |at| Instant::now().saturating_duration_since(at))
    }

    /// Process reports until every worker is done or lost.
    fn follow(&mut self) {
        let passed_on = [AtomicBool::new(false), AtomicBool::new(false)];
        let mut draining: Option<Instant> = None;
        let mut shown = 0;
        while !self.workers.iter().all(Worker::is_over) {
            let events = self.engine.events(TURN);
            let read = Instant::now();
            for event in events {
                self.take(event);
            }
            self.observe();
            self.find_silent(read);
            self.pass_rate_on();
            self.show();
            match self.control.stop_request() {
                Some(StopRequest::Now) => self.pass_on(&passed_on[1], true),
                Some(StopRequest::Drain) => {
                    self.pass_on(&passed_on[0], false);
                    let since = *draining.get_or_insert_with(Instant::now);
                    let limit = Duration::from_nanos(self.control.drain_limit().0);
                    if since.elapsed() >= limit {
                        self.control.stop_now();
                    }
                }
                None => {}
            }
            let second = self.elapsed().as_secs();
            if second > shown {
                shown = second;
                let status = self.status();
                (self.watchers.status)(&status);
            }
        }
    }

    /// Passes the reports of the workers since the last call to the observers.
    fn observe(&mut self) {
        let running = self.sources.iter().filter(|source| !self.is_over(source));
        // The sums lack what the slowest of them has not reported yet.
        let now = running.map(|source| source.reported.last.now_ns).min();
        let (Some(now), Status { started, replies, failed, .. }) = (now, self.status()) else {
            return;
        };
        let [blocks, served] = mem::take(&mut self.blocks);
        if Nanos(now) > self.observed || !blocks.is_empty() {
            self.observed = Nanos(now);
            let now = Nanos(now);
            let live = Live { now, started, replies, failed, blocks, served, ..Live::default() };
            (self.watchers.live)(&live);
        }
    }

    /// Tell all workers to stop, once.
    fn pass_on(&mut self, done: &AtomicBool, now: bool) {
        if !done.swap(true, Ordering::Relaxed) {
            self.stop_all(now);
        }
    }

    fn stop_all(&mut self, now: bool) {
        for index in 0..self.workers.len() {
            if !self.workers[index].is_over() {
                self.engine.send(index, &protocol::line(&Order::Stop { now }));
            }
        }
    }

    /// Process an event during the run, or after it.
    fn take(&mut self, event: Event) {
        let (index, line) = match event {
            Event::Line(index, line) => (index, line),
            Event::Gone(index, cause) => return self.lose(index, cause),
            Event::Tally(..) | Event::Over(..) | Event::GroupGone(..) => {
                return self.take_of_group(event);
            }
        };
        let (now, source) = (clock::realtime(), self.source_of(index));
        self.sources[source].heard = Some(Instant::now());
        let worker = &mut self.workers[index];
        if worker.lost.is_some() {
            return;
        }
        match protocol::parse::<Reply>(&line) {
            Ok(Reply::Tick(tick)) => self.add(source, *tick, None),
            Ok(Reply::Pong { id, unix_ns }) => worker.after.add(id, unix_ns, now),
            Ok(Reply::Final { report }) => self.complete(index, &report),
            Ok(Reply::Refused { why }) => self.lose(index, why),
            Ok(_) => {}
            Err(why) => self.lose(index, format!("it sent a line that is {why}")),
        }
    }

    /// The report of a worker has arrived.
    fn complete(&mut self, index: usize, report: &serde_json::Value) {
        match json::read(&report.to_string()) {
            Ok(report) => {
                self.workers[index].report = Some(report);
                self.shown.is_old = true;
            }
            Err(e) => self.lose(index, format!("its report cannot be read: {e}")),
        }
    }

    /// Give up the workers that had been silent for too long when all lines were read. Lines that
    /// arrived later wait for the next turn: merging reports can take seconds.
    fn find_silent(&mut self, read: Instant) {
        let elapsed = self.elapsed();
        for index in 0..self.sources.len() {
            let source = &self.sources[index];
            let since = |heard| read.saturating_duration_since(heard).min(elapsed);
            let silent = source.heard.map_or(elapsed, since);
            if !self.is_over(source) && silent > SILENCE {
                let seconds = silent.as_secs_f64();
                self.lose_source(index, format!("it was silent for {seconds:.1} s"));
            }
        }
    }

    /// A worker is lost. Its share is not moved to others, as that would change the load.
    fn lose(&mut self, index: usize, cause: String) {
        if self.workers[index].is_over() {
            return;
        }
        let after = Span(self.elapsed().as_nanos() as u64);
        let seconds = after.as_secs_f64();
        let name = self.name(index);
        (self.watchers.say)(&format!("{name} was lost after {seconds:.1} s: {cause}"));
        self.is_lost(index, after, cause);
        if self.job.on_loss == OnLoss::Stop {
            self.stop_all(false);
        }
    }

    /// Record that a worker is lost.
    fn is_lost(&mut self, index: usize, after: Span, cause: String) {
        self.workers[index].lost = Some(Loss { after, cause, offered: 0.0 });
        self.shown.is_old = true;
        // If it is still alive, it must not continue alone.
        self.engine.send(index, &protocol::line(&Order::Stop { now: true }));
    }

    fn status(&self) -> Status {
        let sum = |of: fn(&Source) -> u64| self.sources.iter().map(of).sum();
        Status {
            elapsed: Span(self.elapsed().as_nanos() as u64),
            hosts: self.workers.iter().filter(|worker| worker.lost.is_none()).count(),
            of: self.workers.len(),
            started: sum(|source| source.reported.last.started),
            replies: sum(|source| source.reported.last.replies),
            failed: sum(|source| source.reported.last.failed),
        }
    }
}
