//! The live view: a screen that tells how a load goes, and keys that end it or change its rate.
//!
//! All of it happens in the thread that waits for the workers, which learns of them through gauges
//! alone ([`prony_io::Live`]). `state` adds glances up, `screen` draws, `terminal` knows the
//! terminal.

mod charts;
mod look;
mod screen;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod wheel;

use std::fmt;
use std::sync::Arc;

use prony_core::plan::Plan;
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live, cpu};
use ratatui_core::terminal::Terminal;

pub(crate) use look::Look;
use state::{State, Stopping};
use terminal::Ansi;
pub(crate) use terminal::restore;

/// Between two frames: 8 a second, since glances come 20 times a second.
const FRAME: Span = Span::from_millis(125);

/// Whether a screen can be shown: standard error is a terminal, and no other job has it.
pub(crate) fn can_show() -> bool {
    terminal::is_ours()
}

/// The live view of one load.
pub(crate) struct View {
    state: State,
    look: Look,
    control: Arc<Control>,
    /// The screen is entered when the load has lasted so long: a shorter one would flash by.
    after: Nanos,
    terminal: Option<Terminal<Ansi>>,
    /// No frame before then.
    next: Nanos,
    /// Another job has the terminal.
    away: bool,
    /// It cannot be shown (any more).
    over: bool,
}

impl View {
    /// The view of a load of that plan, which `control` stops. It appears `after` the start of the
    /// load.
    pub(crate) fn new(plan: &Plan, control: Arc<Control>, after: Span) -> Self {
        Self {
            state: State::new(plan),
            look: Look::of_environment(),
            control,
            after: Nanos::ZERO + after,
            terminal: None,
            next: Nanos::ZERO,
            away: false,
            over: false,
        }
    }

    /// The load stands so: take in the keys, draw a frame where one is due.
    pub(crate) fn show(&mut self, live: &Live) {
        let (user, system) = cpu::thread_times();
        self.state.see(live, user + system);
        if self.over || live.now < self.after {
            return;
        }
        if self.terminal.is_none() {
            self.terminal = Ansi::enter().and_then(Terminal::new).ok();
        }
        let pressed = self.take_keys();
        if let Some(factor) = self.state.helm.turned(live.now) {
            self.control.steer(factor, live.now);
            self.state.steer(&self.control.steers());
        }
        if !self.away && (pressed || live.now >= self.next) {
            self.next = live.now + FRAME;
            self.draw();
        }
    }

    /// Whether the screen is there.
    pub(crate) fn is_shown(&self) -> bool {
        self.terminal.is_some() && !self.over && !self.away
    }

    /// The user has ended the load: from now on the screen says what is waited for.
    pub(crate) fn end(&mut self, sentence: String) {
        self.state.ending = Some(sentence);
    }

    /// The load has ended: the terminal is as it was.
    pub(crate) fn finish(self) {
        restore();
    }

    /// Whether any key was pressed that means something.
    fn take_keys(&mut self) -> bool {
        let Some(terminal) = &mut self.terminal else { return false };
        if !terminal::is_ours() {
            // A read would stop the process, and the screen is not ours to draw on.
            self.away = true;
            return false;
        }
        // A shell that has stopped and continued this process has set the terminal to its liking.
        if (std::mem::take(&mut self.away) || terminal::is_reset()) && Ansi::is_entered() {
            let _ = terminal.backend_mut().enter_again();
            let _ = terminal.clear();
        }
        let keys = terminal.backend_mut().keys();
        let stop = self.control.stop_request();
        for &key in &keys {
            match key {
                _ if self.state.press(key) => {}
                b'q' | b'Q' => self.control.interrupt(Span::MAX),
                b'?' | b'h' => self.state.help = !self.state.help,
                // Form feed, which redraws in every full-screen program.
                0x0c => drop(terminal.clear()),
                _ => {}
            }
        }
        let stopped = self.control.stop_request();
        self.state.stopping = stopped.map(|how| match how {
            prony_core::machine::StopRequest::Drain => Stopping::Drain,
            prony_core::machine::StopRequest::Now => Stopping::Now,
        });
        !keys.is_empty() || stopped != stop
    }

    fn draw(&mut self) {
        let (state, look) = (&self.state, self.look);
        let drawn = match &mut self.terminal {
            Some(terminal) if Ansi::is_entered() => terminal
                .draw(|frame| screen::draw(state, look, frame.area(), frame.buffer_mut()))
                .is_ok(),
            _ => false,
        };
        if !drawn {
            restore();
            self.over = true;
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("state", &self.state).finish_non_exhaustive()
    }
}
