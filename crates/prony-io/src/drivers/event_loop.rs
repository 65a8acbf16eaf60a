//! The event loop that all drivers share. The differences between them are in a [`Backend`]: how
//! they wait, and how they open, write and close connections.
//!
//! An iteration handles the pulse, the stop flag, the machine's deadline, then the kernel's events.
//! The driver asks the machine for actions after each call, and checks its deadline between any two
//! events, so that a full batch does not delay a request.

use std::ops::ControlFlow;

use prony_base::machine::{Action, CloseHow, Machine, Next};
use prony_base::units::{ConnId, Nanos, Poll, PreviousPoll, Span};

use super::config::{Config, DriverStats, Subject};
use super::network::Network;
use super::sampler::Sampler;
use crate::host::pressure::SchedWaits;
use crate::net::timestamps::TimestampReader;
use crate::time::clock::Clock;
use crate::time::pace::Pace;
use crate::time::stop::StopFlag;

/// How often to read how long the thread waited for a CPU: a reading takes nearly a microsecond.
const SCHED_DELAY_INTERVAL: Span = Span::from_micros(100);

/// How long the events of a turn may take before the driver checks whether it has to stop. An event
/// of a server whose clients ask for much may take milliseconds.
pub(crate) const TURN_MAX: Span = Span::from_millis(100);

/// Whether the run continues.
pub(crate) type Flow = ControlFlow<()>;

/// The state that all drivers have.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) pace: Pace,
    pub(crate) network: Network,
    pub(crate) sampler: Sampler,
    /// Reads the kernel's timestamps, if requested.
    pub(crate) timestamps: Option<Box<TimestampReader>>,
    wants_timestamps: bool,
    /// The machine's deadline, as of the end of its last actions or the last pulse. Nothing else
    /// changes it.
    deadline: Option<Nanos>,
    /// The machine has postponed work until the next poll of the sockets.
    pub(crate) yielded: bool,
    /// Some events were left for the next poll.
    pub(crate) left_events: bool,
    /// How long the thread waited for a CPU, if the machine uses it, and when that was last read.
    waits: Option<(SchedWaits, Nanos)>,
    pub(crate) stats: DriverStats,
}

impl Common {
    /// Takes the settings of all drivers out of the configuration.
    pub(crate) fn new(pace: Pace, config: &mut Config) -> Self {
        Self {
            pace,
            network: Network::new(config),
            sampler: Sampler::new(config.tcp_info),
            timestamps: None,
            wants_timestamps: config.timestamps,
            deadline: None,
            yielded: false,
            left_events: false,
            waits: None,
            stats: DriverStats::default(),
        }
    }

    /// The time of a write: the time just read for the same connection, or a new reading.
    #[inline]
    pub(crate) fn time_of_send(&mut self, id: ConnId, fresh: Option<(ConnId, Nanos)>) -> Nanos {
        match fresh {
            Some((same, now)) if same == id => now,
            _ => self.pace.read_clock(),
        }
    }

    /// When to report its deadline to the machine.
    #[inline]
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.pace.due(self.deadline)
    }

    /// A poll of the sockets follows.
    #[inline]
    pub(crate) fn before_poll(&mut self, m: &mut dyn Machine) {
        let Some((waits, asked)) = &mut self.waits else { return };
        let now = self.pace.read_clock();
        self.pace.start_poll();
        if now.since(*asked) < SCHED_DELAY_INTERVAL {
            return;
        }
        *asked = now;
        if let Some(delay) = waits.take() {
            m.on_sched_delay(delay);
        }
    }

    /// A poll of the sockets has found `n` events.
    #[inline]
    pub(crate) fn after_poll(&mut self, m: &mut dyn Machine, n: usize) {
        let left = std::mem::take(&mut self.left_events);
        if self.waits.is_none() {
            return;
        }
        let (asked, again) = self.pace.last_poll();
        let poll = match (left, n) {
            (true, _) => Poll { at: asked, previous: PreviousPoll::Partial },
            // The clock was read after the poll.
            (_, 0) => Poll { at: self.pace.now(), previous: PreviousPoll::Empty },
            _ if again => Poll { at: asked, previous: PreviousPoll::Empty },
            _ => Poll { at: asked, previous: PreviousPoll::Drained },
        };
        m.on_poll(poll);
    }

    /// A connection has opened. Report how long the thread waited for a CPU, because that may have
    /// delayed requests that waited for the connection.
    #[inline]
    pub(crate) fn report_open_delay(&mut self, m: &mut dyn Machine) {
        if let Some((waits, asked)) = &mut self.waits
            && *asked <= self.pace.last_poll().0
            && let Some(delay) = waits.take()
        {
            // Once per poll.
            *asked = self.pace.last_poll().0 + Span(1);
            m.on_sched_delay(delay);
        }
    }

    fn start(&mut self, clock: Clock, m: &mut dyn Machine) {
        self.pace.start(clock);
        let waits = if m.wants_polls() { SchedWaits::of_this_thread() } else { None };
        self.waits = waits.map(|waits| (waits, self.pace.now()));
        self.timestamps = self.wants_timestamps.then(|| Box::new(TimestampReader::new(clock)));
    }
}

/// The part of a driver that differs from the others.
pub(crate) trait Backend {
    /// The state that all drivers have.
    fn common(&mut self) -> &mut Common;

    /// The run starts, on this clock.
    fn start(&mut self, clock: Clock) {
        let _ = clock;
    }

    /// Periodic work that does not belong to one connection. Called with every pulse.
    fn on_pulse(&mut self, m: &mut dyn Machine) -> Flow;

    /// Wait for events, the machine's deadline or the next pulse, and pass the events to the
    /// machine. Does not wait if the machine has yielded. If the events take longer than
    /// [`TURN_MAX`], it leaves some for the next call, or checks `stop` between them.
    fn process_events(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Flow;

    /// Open a connection. [`Backend::process_events`] reports the outcome to the machine.
    fn connect(&mut self, id: ConnId, endpoint: u32);

    /// Write the connection's output. `fresh`: as in [`Backend::act`].
    fn send(&mut self, m: &mut dyn Machine, id: ConnId, fresh: Option<(ConnId, Nanos)>);

    /// Read no more from an accepted connection until it is resumed. A driver that machines do not
    /// ask for that need not do it.
    fn pause(&mut self, id: ConnId) {
        let _ = id;
    }

    /// Read from a connection again.
    fn resume(&mut self, id: ConnId) {
        let _ = id;
    }

    /// Close a connection.
    fn close(&mut self, id: ConnId, how: CloseHow);

    /// The run is over: close everything. Returns when the run finished.
    fn finish(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Nanos;

    /// Run the machine until it is finished.
    fn run(&mut self, subject: &mut dyn Subject, clock: Clock, stop: &StopFlag) -> DriverStats {
        self.common().start(clock, subject.machine());
        self.start(clock);
        let mut flow = self.act(subject.machine(), None);
        while flow.is_continue() {
            flow = self.turn(subject, stop);
        }
        let end = self.finish(subject.machine(), stop);
        let common = self.common();
        if let Some(delay) = common.waits.as_mut().and_then(|(waits, _)| waits.take()) {
            subject.machine().on_sched_delay(delay);
        }
        let stats = DriverStats {
            end,
            spin: common.pace.spun(),
            stalls: common.pace.stalls(),
            transport: common.sampler.sum(),
            stamps: common.timestamps.as_ref().map(|t| t.clock_quality()),
            ..common.stats
        };
        subject.pulse(stats.end, stats.spin);
        stats
    }

    /// One iteration.
    #[inline]
    fn turn(&mut self, subject: &mut dyn Subject, stop: &StopFlag) -> Flow {
        let common = self.common();
        common.stats.turns += 1;
        if common.pace.pulse_is_due() {
            subject.pulse(common.pace.now(), common.pace.spun());
            common.sampler.pulse();
            // The callback may have changed the deadline.
            common.deadline = subject.machine().deadline();
            self.on_pulse(subject.machine())?;
        }
        let m = subject.machine();
        self.check_stop(m, stop)?;
        self.tick(m)?;
        self.process_events(m, stop)?;
        self.resume_yielded(m)
    }

    /// Report a stop request to the machine.
    #[inline]
    fn check_stop(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Flow {
        let common = self.common();
        if let Some(how) = common.pace.new_stop_request(stop) {
            let now = common.pace.read_clock();
            m.on_stop(how, now);
            return self.act(m, None);
        }
        Flow::Continue(())
    }

    /// Resume what the machine has postponed until after a poll.
    #[inline]
    fn resume_yielded(&mut self, m: &mut dyn Machine) -> Flow {
        let common = self.common();
        if !std::mem::take(&mut common.yielded) {
            return Flow::Continue(());
        }
        let now = common.pace.read_clock();
        m.on_turn(now);
        self.act(m, None)
    }

    /// Report the deadline to the machine if the last reading of the clock has passed it.
    #[inline]
    fn tick(&mut self, m: &mut dyn Machine) -> Flow {
        let common = self.common();
        let now = common.pace.now();
        if common.due().is_some_and(|due| due <= now) {
            m.on_tick(now);
            return self.act(m, None);
        }
        Flow::Continue(())
    }

    /// Execute the machine's actions. `fresh`: a connection, and the time just read for it, which
    /// is also the time of its first write.
    #[inline]
    fn act(&mut self, m: &mut dyn Machine, fresh: Option<(ConnId, Nanos)>) -> Flow {
        let mut fresh = fresh;
        loop {
            match m.next() {
                Next::Wait(deadline) => {
                    self.common().deadline = deadline;
                    return Flow::Continue(());
                }
                Next::Act(Action::Transmit { id }) => self.send(m, id, fresh),
                Next::Act(Action::Connect { id, endpoint }) => self.connect(id, endpoint),
                Next::Act(Action::Close { id, how }) => self.close(id, how),
                Next::Act(Action::Pause { id }) => self.pause(id),
                Next::Act(Action::Resume { id }) => self.resume(id),
                Next::Act(Action::Yield) => self.common().yielded = true,
                Next::Act(Action::Finished) => return Flow::Break(()),
            }
            fresh = None;
        }
    }
}
