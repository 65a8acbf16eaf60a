//! What decides the steps of sessions in place of the plan: the boundary between the engine and
//! users whom a program plays.
//!
//! The engine calls a director in its own thread, between events: when a session starts, when its
//! request has ended, and when its pause is over. The time that the director takes is the time of
//! the meter: the next request is intended for the moment at which the reply arrived (or the pause
//! ended), so what the director takes shows as send lag, as busy time of the thread, and as delay
//! of the events after it.

use crate::fault::Fault;

/// The methods of the calls of a directed plan. Its calls are all methods of the first name, then
/// all of the second, and so on; requests without a name come first.
pub const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// The most bytes of a reply's body that are kept for a director.
pub const BODY_MAX: usize = 1 << 20;

/// Decides what sessions do.
pub trait Director: Send {
    /// A session of this kind starts in a slot. `number` is its number in the whole run.
    fn begin(&mut self, slot: u32, kind: u32, number: u64);

    /// The next step of the session. `last` is what its last request came to; it is empty before
    /// the first. For a request, `next` gets its content.
    fn step(&mut self, slot: u32, last: &Received, next: &mut Written) -> Step;

    /// The session in this slot has ended, by its own step or because the load is over.
    fn leave(&mut self, slot: u32);
}

/// A step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a request.
    Request {
        /// Index into the plan's calls.
        call: u32,
    },
    /// Pause for this long, in nanoseconds.
    Pause(u64),
    /// The session is complete.
    Done,
    /// The session ends, and has failed.
    Failed,
}

/// The content of a request.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Path and query, from `/` on.
    pub path: Vec<u8>,
    /// Header lines, each `name: value` and a line break.
    pub headers: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

impl Written {
    /// Forget the content; the memory is kept.
    pub fn clear(&mut self) {
        self.path.clear();
        self.headers.clear();
        self.body.clear();
    }
}

/// What a request came to.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The status of its reply, if that was complete.
    pub status: Option<u16>,
    /// Why it failed, if it did.
    pub fault: Option<Fault>,
    /// The header lines of its reply, each `name: value` and a line break.
    pub headers: Vec<u8>,
    /// The body of its reply, up to [`BODY_MAX`].
    pub body: Vec<u8>,
    /// Whether the body is longer than that.
    pub is_cut: bool,
}

impl Received {
    /// Forget everything; the memory is kept.
    pub fn clear(&mut self) {
        (self.status, self.fault, self.is_cut) = (None, None, false);
        self.headers.clear();
        self.body.clear();
    }

    /// A header has arrived.
    pub fn add_header(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.headers.extend_from_slice(part);
        }
    }

    /// A piece of the body has arrived.
    pub fn add_body(&mut self, piece: &[u8]) {
        let room = BODY_MAX - self.body.len();
        self.is_cut |= piece.len() > room;
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_kept_up_to_the_limit() {
        let mut received = Received::default();
        received.add_body(&[1; 10]);
        assert!(!received.is_cut);
        received.add_body(&vec![2; BODY_MAX]);
        assert_eq!((received.body.len(), received.is_cut), (BODY_MAX, true));
        received.add_body(&[3]);
        assert_eq!((received.body.len(), received.body[10]), (BODY_MAX, 2));
        received.add_header(b"A", b"b");
        assert_eq!(received.headers, b"A: b\r\n");
        received.clear();
        assert!(received.body.is_empty() && received.headers.is_empty() && !received.is_cut);
    }
}
