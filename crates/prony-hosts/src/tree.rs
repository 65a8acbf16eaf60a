//! An engine for many hosts: aggregators, each of which has a group of workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_base::units::Span;
use prony_io::Control;
use prony_run::error::Error;

use crate::engine::{Engine, Event};
use crate::protocol;
use crate::relay::Relay;

/// How long the aggregators may take to start their workers.
const OPEN: Duration = Duration::from_secs(240);
/// How long to wait at a time.
const TURN: Duration = Duration::from_millis(50);

/// Aggregators, which another engine starts.
pub struct Tree {
    aggregators: Box<dyn Engine>,
    group: usize,
    args: Vec<String>,
    control: Arc<Control>,
    workers: usize,
}

impl Tree {
    /// `args` are the words after `prony` for each worker, and `group` is the number of workers of
    /// an aggregator. `control` ends the wait for their start.
    pub fn new(
        aggregators: Box<dyn Engine>,
        group: usize,
        args: Vec<String>,
        control: Arc<Control>,
    ) -> Self {
        Self { aggregators, group, args, control, workers: 0 }
    }

    fn groups(&self) -> usize {
        self.workers.div_ceil(self.group)
    }

    fn say(&mut self, group: usize, relay: &Relay) {
        self.aggregators.send(group, &protocol::line(relay));
    }

    /// Wait until all workers have started.
    fn opened(&mut self) -> Result<(), Error> {
        let end = Instant::now() + OPEN;
        let mut missing = self.groups();
        while missing > 0 {
            if self.control.stop_request().is_some() {
                return Err(Error::Stopped);
            }
            if Instant::now() >= end {
                return Err(refused(&format!("no workers within {} s", OPEN.as_secs())));
            }
            for event in self.aggregators.events(TURN) {
                match event {
                    Event::Line(_, line) => match protocol::parse(&line) {
                        Ok(Relay::Opened) => missing -= 1,
                        Ok(Relay::Refused { why }) => return Err(Error::Machine(why)),
                        Ok(_) => {}
                        Err(why) => return Err(refused(&format!("an aggregator sent {why}"))),
                    },
                    Event::Gone(_, cause) => {
                        return Err(refused(&format!("an aggregator has ended: {cause}")));
                    }
                    Event::Tally(..) | Event::Over(..) | Event::GroupGone(..) => {}
                }
            }
        }
        Ok(())
    }

    /// An event of an aggregator.
    fn event(&self, event: Event) -> Option<Event> {
        let (group, line) = match event {
            Event::Line(group, line) => (group, line),
            Event::Gone(group, cause) => return Some(Event::GroupGone(group, cause)),
            Event::Tally(..) | Event::Over(..) | Event::GroupGone(..) => return None,
        };
        let worker = |worker| group * self.group + worker;
        match protocol::parse(&line) {
            Ok(Relay::Line { worker: index, line }) => Some(Event::Line(worker(index), line)),
            Ok(Relay::Gone { worker: index, cause }) => Some(Event::Gone(worker(index), cause)),
            Ok(Relay::Tally(tally)) => Some(Event::Tally(group, tally)),
            Ok(Relay::Over { shares }) => Some(Event::Over(group, shares)),
            Ok(_) => None,
            Err(why) => Some(Event::GroupGone(group, format!("it sent a line that is {why}"))),
        }
    }
}

fn refused(why: &str) -> Error {
    Error::Machine(format!("{why}; nothing was sent"))
}

impl Engine for Tree {
    fn group(&self) -> usize {
        self.group
    }

    fn open(&mut self, workers: usize) -> Result<(), Error> {
        self.workers = workers;
        self.aggregators.open(self.groups())?;
        for group in 0..self.groups() {
            let workers = self.group.min(workers - group * self.group);
            self.say(group, &Relay::Open { workers, args: self.args.clone(), hosts: None });
        }
        let result = self.opened();
        if result.is_err() {
            self.aggregators.close();
        }
        result
    }

    fn send(&mut self, worker: usize, line: &str) {
        let (group, worker) = (worker / self.group, worker % self.group);
        self.say(group, &Relay::Send { worker, line: line.to_owned() });
    }

    fn follow(&mut self, start: Duration, warmup: Span) {
        for group in 0..self.groups() {
            self.say(group, &Relay::Follow { in_ns: start.as_nanos() as u64, warmup });
        }
    }

    fn events(&mut self, wait: Duration) -> Vec<Event> {
        let events = self.aggregators.events(wait);
        events.into_iter().filter_map(|event| self.event(event)).collect()
    }

    fn close(&mut self) {
        self.aggregators.close();
    }
}
