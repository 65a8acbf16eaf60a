//! The loop that all drivers share. What differs between them is a [`Backend`]: how they wait, and
//! how they open, write and close.
//!
//! A turn: the pulse, the stop flag, the machine's deadline, then whatever the kernel has. The
//! machine is asked for actions after each call, and told of its deadline between any two events,
//! so that a full batch holds up no request.

use std::ops::ControlFlow;

use prony_core::machine::{Action, CloseHow, Machine, Next};
use prony_core::units::{ConnId, Nanos};

use super::config::{Config, DriverStats, Subject};
use super::network::Network;
use super::sampler::Sampler;
use crate::net::timestamps::Stamps;
use crate::time::clock::Clock;
use crate::time::pace::Pace;
use crate::time::stop::StopFlag;

/// Whether the run goes on.
pub(crate) type Flow = ControlFlow<()>;

/// What every driver has.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) pace: Pace,
    pub(crate) network: Network,
    pub(crate) sampler: Sampler,
    /// Reads the kernel's time stamps, where they are wanted.
    pub(crate) stamps: Option<Box<Stamps>>,
    wants_stamps: bool,
    /// The machine's, as it was when its actions were last polled to their end, or at the last
    /// pulse. It changes by nothing else.
    deadline: Option<Nanos>,
    /// The machine has put something off until the sockets were looked at.
    pub(crate) yields: bool,
    pub(crate) stats: DriverStats,
}

impl Common {
    /// Takes what concerns all drivers out of the configuration.
    pub(crate) fn new(pace: Pace, config: &mut Config) -> Self {
        Self {
            pace,
            network: Network::new(config),
            sampler: Sampler::new(config.tcp_info),
            stamps: None,
            wants_stamps: config.timestamps,
            deadline: None,
            yields: false,
            stats: DriverStats::default(),
        }
    }

    /// The time to send at: that which was read just now on behalf of the same connection, or it is
    /// read.
    #[inline]
    pub(crate) fn time_of_send(&mut self, id: ConnId, fresh: Option<(ConnId, Nanos)>) -> Nanos {
        match fresh {
            Some((same, now)) if same == id => now,
            _ => self.pace.read_clock(),
        }
    }

    /// When the machine is to be told of its deadline.
    #[inline]
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.pace.when(self.deadline)
    }

    fn begin(&mut self, clock: Clock) {
        self.pace.begin(clock);
        self.stamps = self.wants_stamps.then(|| Box::new(Stamps::new(clock)));
    }
}

/// What one driver does in its own way.
pub(crate) trait Backend {
    /// What it has in common with the others.
    fn common(&mut self) -> &mut Common;

    /// The run begins on that clock.
    fn begin(&mut self, clock: Clock) {
        let _ = clock;
    }

    /// Look after what is not on any connection's behalf. Called with every pulse.
    fn keep_house(&mut self, m: &mut dyn Machine) -> Flow;

    /// Wait until there is something, the machine's deadline or the next pulse, and hand over what
    /// there is. Where the machine yields, nothing is waited for.
    fn gather(&mut self, m: &mut dyn Machine) -> Flow;

    /// Open a connection. The machine is told what came of it later, by [`Backend::gather`].
    fn connect(&mut self, id: ConnId, endpoint: u32);

    /// Send what the connection has to send. `fresh`: as in [`Backend::act`].
    fn send(&mut self, m: &mut dyn Machine, id: ConnId, fresh: Option<(ConnId, Nanos)>);

    /// Let go of a connection.
    fn close(&mut self, id: ConnId, how: CloseHow);

    /// The run is over: close everything; when it ended.
    fn end(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Nanos;

    /// Run the machine until it is finished.
    fn run(&mut self, subject: &mut dyn Subject, clock: Clock, stop: &StopFlag) -> DriverStats {
        self.common().begin(clock);
        self.begin(clock);
        let mut flow = self.act(subject.machine(), None);
        while flow.is_continue() {
            flow = self.turn(subject, stop);
        }
        let end = self.end(subject.machine(), stop);
        let common = self.common();
        let stats = DriverStats {
            end,
            spin: common.pace.spun(),
            stalls: common.pace.stalls(),
            transport: common.sampler.sum(),
            stamps: common.stamps.as_ref().map(|s| s.told()),
            ..common.stats
        };
        subject.pulse(stats.end, stats.spin);
        stats
    }

    /// One turn.
    #[inline]
    fn turn(&mut self, subject: &mut dyn Subject, stop: &StopFlag) -> Flow {
        let common = self.common();
        common.stats.turns += 1;
        if common.pace.pulse_is_due() {
            subject.pulse(common.pace.now(), common.pace.spun());
            common.sampler.pulse();
            // Whoever looked at the machine may have changed its mind.
            common.deadline = subject.machine().deadline();
            self.keep_house(subject.machine())?;
        }
        let m = subject.machine();
        let common = self.common();
        if let Some(how) = common.pace.stop_asked(stop) {
            let now = common.pace.read_clock();
            m.on_stop(how, now);
            self.act(m, None)?;
        }
        self.tick(m)?;
        self.gather(m)?;
        self.go_on(m)
    }

    /// Go on with what the machine has put off until the sockets were looked at.
    #[inline]
    fn go_on(&mut self, m: &mut dyn Machine) -> Flow {
        let common = self.common();
        if !std::mem::take(&mut common.yields) {
            return Flow::Continue(());
        }
        let now = common.pace.read_clock();
        m.on_turn(now);
        self.act(m, None)
    }

    /// Tell the machine of a deadline that the last reading of the clock has passed.
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

    /// Carry out what the machine wants. `fresh`: a connection, and the time read just now on its
    /// behalf, which is that of its first write as well.
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
                Next::Act(Action::Yield) => self.common().yields = true,
                Next::Act(Action::Finished) => return Flow::Break(()),
            }
            fresh = None;
        }
    }
}
