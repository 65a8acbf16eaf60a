//! Frames that concern no request: settings, pings, windows.

use prony_base::http2::WINDOW_MAX;
use prony_base::http2::control::Control;
use prony_base::http2::frame::Code;
use prony_base::units::Nanos;

use super::input::protocol;
use super::streams::Past;
use super::{GOAWAY_PING, Session, Violation};

/// How many PINGs may be unanswered, because the client does not read.
const PINGS: usize = 1_000;

impl Session {
    /// Whether a stream was never opened.
    pub(super) fn is_idle_stream(&self, id: u32) -> bool {
        self.recent.past(id) == Past::Idle
    }

    /// A frame that concerns no request.
    pub(super) fn control(
        &mut self,
        stream: u32,
        control: Control<'_>,
        now: Nanos,
    ) -> Result<(), Violation> {
        match control {
            Control::SettingsAck => {
                self.acknowledged();
                Ok(())
            }
            Control::Settings(payload) => {
                if self.has_settings {
                    self.calm(now)?;
                }
                self.apply(payload)
            }
            Control::Ping(data) => self.ping(data, now),
            Control::PingAck(data) => {
                if data == GOAWAY_PING && self.awaits_ping {
                    self.awaits_ping = false;
                    self.leave();
                }
                self.calm(now)
            }
            Control::WindowUpdate(more) => self.window_update(stream, more, now),
            Control::Priority { on_itself: true } => {
                Err(Violation::Stream(stream, Code::PROTOCOL_ERROR))
            }
            Control::Priority { on_itself: false }
            | Control::Goaway(..)
            | Control::Reset(_)
            | Control::Unknown => self.calm(now),
        }
    }

    fn ping(&mut self, data: [u8; 8], now: Nanos) -> Result<(), Violation> {
        self.calm(now)?;
        self.owed.pings.push(data);
        match self.owed.pings.len() > PINGS {
            true => Err(Violation::Connection(Code::ENHANCE_YOUR_CALM, "too many PINGs")),
            false => Ok(()),
        }
    }

    fn window_update(&mut self, id: u32, more: u32, now: Nanos) -> Result<(), Violation> {
        let max = i64::from(WINDOW_MAX);
        if id == 0 {
            if more == 0 {
                return protocol("WINDOW_UPDATE by 0");
            }
            self.send_window += i64::from(more);
            if self.send_window > max {
                let why = "a window over 2^31-1";
                return Err(Violation::Connection(Code::FLOW_CONTROL_ERROR, why));
            }
            self.feed_starved();
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return match self.recent.past(id) {
                Past::Idle => protocol("WINDOW_UPDATE on an idle stream"),
                Past::Skipped | Past::Closed | Past::Reset => self.calm(now),
            };
        };
        if more == 0 {
            return Err(Violation::Stream(id, Code::PROTOCOL_ERROR));
        }
        stream.send_window += i64::from(more);
        if stream.send_window > max {
            return Err(Violation::Stream(id, Code::FLOW_CONTROL_ERROR));
        }
        if stream.waits_for_window() {
            self.queue(id);
        }
        Ok(())
    }

    /// Take received bytes from the connection's window.
    pub(super) fn take_window(&mut self, length: u32) -> Result<(), Violation> {
        self.recv_window -= i64::from(length);
        if self.recv_window < 0 {
            let why = "more DATA than the connection's window";
            return Err(Violation::Connection(Code::FLOW_CONTROL_ERROR, why));
        }
        self.recv_used += length;
        self.owed.window |= self.recv_used >= super::CONNECTION_WINDOW / 2;
        Ok(())
    }

    /// Reset a stream that is not in the table any more.
    pub(super) fn reset(&mut self, stream: u32, code: Code) {
        self.recent.reset(stream);
        self.owed.resets.push((stream, code));
    }
}
