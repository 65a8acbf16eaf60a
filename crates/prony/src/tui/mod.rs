//! The live view: a full screen with the progress of a load, and keys that stop it or change its
//! rate.
//!
//! It runs in the thread that waits for the workers, and reads only their gauges
//! ([`prony_io::Live`]). `state` accumulates snapshots, `screen` draws, `terminal` controls the
//! terminal.

mod charts;
mod hosts;
mod look;
mod rate_control;
mod screen;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use prony_base::units::{Nanos, Span};
use prony_hosts::view::HostView;
use prony_io::{Control, Live, cpu};
use prony_plan::plan::Plan;
use ratatui_core::terminal::Terminal;

pub(crate) use look::Look;
use state::{State, Stopping};
use terminal::Ansi;
pub(crate) use terminal::restore;

/// The interval between frames: 8 per second. Snapshots arrive 20 times per second.
const FRAME: Span = Span::from_millis(125);

/// Whether a screen can be shown: standard error is a terminal with this process in its foreground.
pub(crate) fn can_show() -> bool {
    terminal::is_ours()
}

/// The live view of one load.
pub(crate) struct View {
    state: State,
    look: Look,
    control: Arc<Control>,
    /// When to open the screen. Shorter loads do not show one.
    after: Nanos,
    terminal: Option<Terminal<Ansi>>,
    /// When to draw the next frame.
    next: Nanos,
    /// Whether another job has the terminal.
    away: bool,
    /// Whether the screen failed and stays closed.
    over: bool,
}

impl View {
    /// The view of a load of this plan, which `control` stops. It appears this long `after` the
    /// start of the load.
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

    /// The same for a load on several hosts.
    pub(crate) fn show_hosts(&mut self, live: &Live, hosts: &[HostView]) {
        self.state.hosts = hosts.to_vec();
        self.show(live);
    }

    /// Processes keys, and draws a frame if one is due.
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
        if let Some(factor) = self.state.rate_control.changed(live.now) {
            self.control.change_rate(factor, live.now);
            self.state.change_rate(&self.control.rate_changes());
        }
        if !self.away && (pressed || live.now >= self.next) {
            self.next = live.now + FRAME;
            self.draw();
        }
    }

    /// Whether the screen is visible.
    pub(crate) fn is_shown(&self) -> bool {
        self.terminal.is_some() && !self.over && !self.away
    }

    /// Shows what a load that the user stopped waits for.
    pub(crate) fn end(&mut self, sentence: String) {
        self.state.ending = Some(sentence);
    }

    /// Restores the terminal at the end of the load.
    pub(crate) fn finish(self) {
        restore();
    }

    /// Processes keys. Returns whether the screen must be drawn again.
    fn take_keys(&mut self) -> bool {
        let Some(terminal) = &mut self.terminal else { return false };
        if !terminal::is_ours() {
            // A read in the background would stop the process, and the screen belongs to another
            // job.
            self.away = true;
            return false;
        }
        // A shell that stopped and continued this process has changed the terminal settings.
        if (std::mem::take(&mut self.away) || terminal::is_reset()) && Ansi::is_entered() {
            let _ = terminal.backend_mut().enter_again();
            let _ = terminal.clear();
        }
        let keys = terminal.backend_mut().keys();
        let stop = self.control.stop_request();
        for &key in &keys {
            match key {
                _ if self.state.press(key) => {}
                b'q' | b'Q' => self.control.interrupt(),
                b'?' | b'h' => self.state.help = !self.state.help,
                // Form feed (Ctrl-L) redraws the screen.
                0x0c => drop(terminal.clear()),
                _ => {}
            }
        }
        let stopped = self.control.stop_request();
        self.state.stopping = stopped.map(|how| match how {
            prony_base::machine::StopRequest::Drain => Stopping::Drain,
            prony_base::machine::StopRequest::Now => Stopping::Now,
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
