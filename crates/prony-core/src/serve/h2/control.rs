//! Frames that concern no request: settings, pings, windows.

use super::input::{protocol, stream_id};
use super::streams::Past;
use super::{GOAWAY_PING, Session, Violation};
use crate::http2::WINDOW_MAX;
use crate::http2::frame::{self, Code, flag, kind};
use crate::units::Nanos;

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
        head: frame::Head,
        payload: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        let size_error = |why| Err(Violation::Connection(Code::FRAME_SIZE_ERROR, why));
        match head.kind {
            kind::SETTINGS | kind::PING | kind::GOAWAY if head.stream != 0 => {
                protocol("a frame of the connection on a stream")
            }
            kind::SETTINGS if head.has(flag::ACK) => {
                if !payload.is_empty() {
                    return size_error("SETTINGS acknowledged with a payload");
                }
                self.acknowledged();
                Ok(())
            }
            kind::SETTINGS => {
                if self.has_settings {
                    self.calm(now)?;
                }
                self.apply(payload)
            }
            kind::PING => {
                let Ok(data) = payload.try_into() else {
                    return size_error("PING without 8 bytes");
                };
                self.ping(head.has(flag::ACK), data, now)
            }
            kind::GOAWAY if payload.len() < 8 => size_error("GOAWAY without 8 bytes"),
            kind::WINDOW_UPDATE => {
                let Ok(bytes) = payload.try_into() else {
                    return size_error("WINDOW_UPDATE without 4 bytes");
                };
                self.window_update(head.stream, u32::from_be_bytes(bytes) & WINDOW_MAX, now)
            }
            kind::PRIORITY if head.stream == 0 => protocol("PRIORITY of the connection"),
            kind::PRIORITY if payload.len() != 5 => {
                Err(Violation::Stream(head.stream, Code::FRAME_SIZE_ERROR))
            }
            kind::PRIORITY if stream_id(payload) == Some(head.stream) => {
                Err(Violation::Stream(head.stream, Code::PROTOCOL_ERROR))
            }
            // PRIORITY, GOAWAY, and frames of other types.
            _ => self.calm(now),
        }
    }

    fn ping(&mut self, is_ack: bool, data: [u8; 8], now: Nanos) -> Result<(), Violation> {
        if is_ack {
            if data == GOAWAY_PING && self.awaits_ping {
                self.awaits_ping = false;
                self.leave();
            }
            return self.calm(now);
        }
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
