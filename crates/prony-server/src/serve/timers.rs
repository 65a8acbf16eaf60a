//! Timers of idle and lingering connections.

use std::cmp::Reverse;

use prony_base::machine::CloseHow;
use prony_base::units::{ConnId, Nanos, Span};

use super::{LINGER, Serve};

impl Serve {
    /// Close the connections with an expired timer.
    pub(super) fn expire_timers(&mut self, now: Nanos) {
        while self.held.is_none()
            && let Some(&Reverse((at, id))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let Some(c) = self.conn(id) else {
                continue;
            };
            c.armed = false;
            let (lingers, since) = (c.lingers, c.since);
            if !(lingers || c.is_idle()) {
                continue;
            }
            match self.conn_timeout(lingers) {
                Some(timeout) if since + timeout <= now => {
                    self.served.idle_closes += u64::from(!lingers);
                    if lingers || !self.leave(id, now) {
                        self.close(id, CloseHow::Orderly);
                    }
                }
                _ => self.arm(id),
            }
        }
    }

    /// The timeout of a lingering or idle connection.
    pub(super) fn conn_timeout(&self, lingers: bool) -> Option<Span> {
        if lingers { Some(LINGER) } else { self.behavior.idle_close }
    }

    pub(super) fn arm(&mut self, id: ConnId) {
        let c = &self.conns[id.slot as usize];
        let (since, lingers, armed) = (c.since, c.lingers, c.armed);
        if let (Some(timeout), false) = (self.conn_timeout(lingers), armed) {
            self.conns[id.slot as usize].armed = true;
            self.timers.push(Reverse((since + timeout, id)));
        }
    }
}
