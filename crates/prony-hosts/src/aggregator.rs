//! An aggregator: has a group of workers for a driver with many. It passes lines on, and merges the
//! workers' ticks during the run, so that the driver gets one tally a second.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_run::error::Error;

use crate::driver::SILENCE;
use crate::engine::{Engine, Event};
use crate::group::Group;
use crate::protocol::{self, Order};
use crate::relay::Relay;

/// How long the loop waits for the workers at a time while the run lasts. An order of the driver
/// waits as long.
const TURN: Duration = Duration::from_millis(20);
/// The same before and after the run: the bounds of the clocks include it.
const TURN_OF_PINGS: Duration = Duration::from_millis(1);
/// How long a carrier may take to start the workers.
const OPEN: Duration = Duration::from_secs(240);

/// Serve one driver until the input ends. The engine that `engine` makes has the workers, with the
/// arguments that the driver gives; without it, the other side of input and output carries their
/// lines, too.
///
/// # Errors
/// No thread can be started.
pub fn serve<R, W>(
    engine: Option<&dyn Fn(Vec<String>) -> Box<dyn Engine>>,
    input: R,
    output: W,
) -> io::Result<()>
where
    R: BufRead + Send + 'static,
    W: Write + Send + 'static,
{
    let output: Output = Arc::new(Mutex::new(output));
    let (orders, received) = mpsc::channel();
    let (events, reports) = mpsc::channel();
    thread::Builder::new().name("lines".into()).spawn(move || read(input, &orders, &events))?;
    let Ok(Relay::Open { workers, args, .. }) = received.recv() else { return Ok(()) };
    let mut engine = match engine {
        Some(engine) => engine(args),
        None => Box::new(Carried { output: Arc::clone(&output), reports, args }),
    };
    match engine.open(workers) {
        Ok(()) => say(&output, &Relay::Opened),
        Err(why) => {
            say(&output, &Relay::Refused { why: why.printed() });
            return Ok(());
        }
    }
    let mut aggregator = Aggregator { engine: engine.as_mut(), output: &output, group: None };
    aggregator.serve(&received, workers);
    engine.close();
    Ok(())
}

type Output = Arc<Mutex<dyn Write + Send>>;

/// Send a line. Errors are ignored, as they mean that the driver has ended, which the input shows.
fn say(output: &Output, relay: &Relay) {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = output.write_all(protocol::line(relay).as_bytes()).and_then(|()| output.flush());
}

/// Read lines until the end of the input: those of the driver and those of a carrier.
fn read(mut input: impl BufRead, orders: &Sender<Relay>, events: &Sender<Relay>) {
    while let Ok(Some(line)) = protocol::read_line(&mut input) {
        // A driver of the same version sends no other lines.
        let Ok(relay) = protocol::parse::<Relay>(&line) else { return };
        let to = match relay {
            Relay::Open { .. } | Relay::Send { .. } | Relay::Follow { .. } | Relay::Close => orders,
            _ => events,
        };
        if to.send(relay).is_err() {
            return;
        }
    }
}

struct Aggregator<'a> {
    engine: &'a mut dyn Engine,
    output: &'a Output,
    /// The workers while the run lasts.
    group: Option<Group>,
}

impl Aggregator<'_> {
    fn serve(&mut self, orders: &Receiver<Relay>, workers: usize) {
        loop {
            match orders.try_recv() {
                Ok(Relay::Send { worker, line }) if worker < workers => {
                    self.engine.send(worker, &line);
                    continue;
                }
                Ok(Relay::Follow { in_ns, warmup }) => {
                    let start = Instant::now() + Duration::from_nanos(in_ns);
                    self.group = Some(Group::new(workers, warmup, start));
                    continue;
                }
                Ok(Relay::Close) | Err(mpsc::TryRecvError::Disconnected) => return,
                Ok(_) => continue,
                Err(mpsc::TryRecvError::Empty) => {}
            }
            let turn = if self.group.is_some() { TURN } else { TURN_OF_PINGS };
            let events = self.engine.events(turn);
            let read = Instant::now();
            for event in events {
                self.take(event, read);
            }
            self.report(read);
        }
    }

    fn take(&mut self, event: Event, now: Instant) {
        let relay = match (event, &mut self.group) {
            (Event::Line(worker, line), Some(group)) => group.take(worker, line, now),
            (Event::Gone(worker, cause), Some(group)) => group.lose(worker, cause),
            (Event::Line(worker, line), None) => Some(Relay::Line { worker, line }),
            (Event::Gone(worker, cause), None) => Some(Relay::Gone { worker, cause }),
            (Event::Tally(..) | Event::Over(..) | Event::GroupGone(..), _) => None,
        };
        if let Some(relay) = relay {
            self.pass_on(&relay);
        }
    }

    /// Pass a line on. A worker that is lost must not continue alone.
    fn pass_on(&mut self, relay: &Relay) {
        if let (Relay::Gone { worker, .. }, Some(_)) = (relay, &self.group) {
            self.engine.send(*worker, &protocol::line(&Order::Stop { now: true }));
        }
        say(self.output, relay);
    }

    /// Give up silent workers, and report what is due.
    fn report(&mut self, read: Instant) {
        let Some(group) = &mut self.group else { return };
        let silent = group.silent(read, SILENCE);
        let lost = silent.into_iter().filter_map(|(worker, silent)| {
            let seconds = silent.as_secs_f64();
            group.lose(worker, format!("it was silent for {seconds:.1} s"))
        });
        let lost: Vec<Relay> = lost.collect();
        let tallies = group.tallies(read);
        let over = group.over();
        for relay in &lost {
            self.pass_on(relay);
        }
        for tally in tallies {
            say(self.output, &Relay::Tally(Box::new(tally)));
        }
        if let Some(shares) = over {
            say(self.output, &Relay::Over { shares });
            self.group = None;
        }
    }
}

/// The engine of a carried aggregator: its own input and output.
struct Carried {
    output: Output,
    reports: Receiver<Relay>,
    args: Vec<String>,
}

impl Engine for Carried {
    fn open(&mut self, workers: usize) -> Result<(), Error> {
        let args = self.args.clone();
        say(&self.output, &Relay::Open { workers, args, hosts: None });
        match self.reports.recv_timeout(OPEN) {
            Ok(Relay::Opened) => Ok(()),
            Ok(Relay::Refused { why }) => Err(Error::Machine(why)),
            Ok(_) => Err(Error::Machine("an unexpected line of the engine".into())),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = OPEN.as_secs();
                Err(Error::Machine(format!("the workers did not start within {seconds} s")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::Machine("the engine has ended".into()))
            }
        }
    }

    fn send(&mut self, worker: usize, line: &str) {
        let line = line.trim_end().to_owned();
        say(&self.output, &Relay::Send { worker, line });
    }

    fn events(&mut self, wait: Duration) -> Vec<Event> {
        let first = match self.reports.recv_timeout(wait) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => return Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                // The driver's side of the input has ended as well.
                thread::sleep(wait);
                return Vec::new();
            }
        };
        let event = |relay| match relay {
            Relay::Line { worker, line } => Some(Event::Line(worker, line)),
            Relay::Gone { worker, cause } => Some(Event::Gone(worker, cause)),
            _ => None,
        };
        std::iter::once(first).chain(self.reports.try_iter()).filter_map(event).collect()
    }

    fn close(&mut self) {
        say(&self.output, &Relay::Close);
    }
}
