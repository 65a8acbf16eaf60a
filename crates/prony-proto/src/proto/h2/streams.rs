//! The open streams of a connection, by their ID.

use super::content::Content;
use super::own::Own;
use crate::proto::Reply;
use prony_base::units::{Nanos, RequestId};

/// An open stream: an exchange from its request to the end of its reply.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// 0: this place of the table is free.
    pub(super) id: u32,
    pub(super) request: RequestId,
    /// Index into the plan's calls.
    pub(super) call: u32,
    /// Bytes of the request's body that are not sent yet.
    pub(super) left: u32,
    /// How many more bytes the peer accepts. Settings can make it negative.
    pub(super) window: i64,
    /// Bytes received since the last WINDOW_UPDATE.
    pub(super) credit: u32,
    /// The status of the final reply; 0: it has not started.
    pub(super) status: u16,
    /// Whether its body has server-sent events.
    pub(super) has_events: bool,
    /// Interim replies so far.
    pub(super) interim: u16,
    /// Whether the reply has no body whatever its head says.
    pub(super) bodiless: bool,
    /// Bytes of frame headers, header blocks and padding so far, and those of them after the body.
    pub(super) head_bytes: u32,
    pub(super) footer_bytes: u32,
    /// Bytes of body so far.
    pub(super) body_bytes: u64,
    /// The length of the body by its head; `u64::MAX` if unknown.
    pub(super) length: u64,
    /// What the reply to a call of gRPC contains.
    pub(super) content: Content,
    /// Since when it waits for a window; `Nanos::MAX` if it does not.
    pub(super) waits: Nanos,
    /// Since when our window allows no more of the reply; `Nanos::MAX`: it does.
    pub(super) blocked: Nanos,
    /// What it sends, if that is not simply the body of its call.
    pub(super) own: Option<Box<Own>>,
}

impl Stream {
    const FREE: Self = Self {
        id: 0,
        request: RequestId { slot: 0, generation: 0 },
        call: 0,
        left: 0,
        window: 0,
        credit: 0,
        status: 0,
        has_events: false,
        interim: 0,
        bodiless: false,
        head_bytes: 0,
        footer_bytes: 0,
        body_bytes: 0,
        length: u64::MAX,
        content: Content::NONE,
        waits: Nanos::MAX,
        blocked: Nanos::MAX,
        own: None,
    };

    /// A stream whose request has this much body.
    #[inline]
    pub(super) fn new(id: u32, request: RequestId, call: u32, left: u32, window: i64) -> Self {
        Self { id, request, call, left, window, ..Self::FREE }
    }

    /// Its reply, as far as it has arrived.
    pub(super) fn reply(&self) -> Reply {
        Reply {
            status: self.status,
            head_bytes: u64::from(self.head_bytes),
            framing_bytes: 0,
            footer_bytes: u64::from(self.footer_bytes),
            body_bytes: self.body_bytes,
            interim: u32::from(self.interim),
            keeps_open: true,
            fault: None,
        }
    }
}

/// The table: open addressing with linear probing. The IDs of a client rise by two, so that
/// neighbors in time are neighbors in memory.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// A power of two, or none.
    places: Vec<Stream>,
    len: u32,
}

impl Streams {
    /// The first size of the table.
    const LEAST: usize = 2;

    /// How many streams are open.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place of a stream.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(id);
        loop {
            match self.places[at].id {
                found if found == id => return Some(at),
                0 => return None,
                _ => at = self.after(at),
            }
        }
    }

    #[inline]
    pub(super) fn at(&mut self, place: usize) -> &mut Stream {
        &mut self.places[place]
    }

    #[inline]
    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        self.find(id).map(|place| &mut self.places[place])
    }

    /// The stream with this ID.
    pub(super) fn peek(&self, id: u32) -> Option<&Stream> {
        self.find(id).map(|place| &self.places[place])
    }

    /// Add a stream.
    // Once for each request: requests and sockets both call it.
    #[inline(always)]
    pub(super) fn insert(&mut self, stream: Stream) {
        // At most half full, so that a search is short.
        if 2 * (self.len as usize + 1) > self.places.len() {
            self.grow();
        }
        let mut at = self.home(stream.id);
        while self.places[at].id != 0 {
            at = self.after(at);
        }
        self.places[at] = stream;
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let more = (2 * self.places.len()).max(Self::LEAST);
        let old = std::mem::replace(&mut self.places, vec![Stream::FREE; more]);
        self.len = 0;
        for stream in old.into_iter().filter(|s| s.id != 0) {
            self.insert(stream);
        }
    }

    /// Remove the stream at a place.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) -> Stream {
        let removed = std::mem::replace(&mut self.places[place], Stream::FREE);
        self.len -= 1;
        // Move those back that were displaced past this place.
        let (mut hole, mut at) = (place, self.after(place));
        while self.places[at].id != 0 {
            let home = self.home(self.places[at].id);
            let mask = self.places.len() - 1;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places.swap(hole, at);
                hole = at;
            }
            at = self.after(at);
        }
        removed
    }

    /// All open streams, in no order that means anything.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|s| s.id != 0)
    }

    /// The stream of an exchange.
    pub(super) fn of(&self, request: RequestId) -> Option<usize> {
        self.places.iter().position(|s| s.id != 0 && s.request == request)
    }

    /// Since when the stream at a place waits for a window; `None`: it does not.
    pub(super) fn waits_since(&self, place: usize) -> Option<Nanos> {
        Some(self.places[place].waits).filter(|&since| since != Nanos::MAX)
    }

    /// The IDs above `last`, in order.
    pub(super) fn above(&self, last: u32) -> Vec<u32> {
        let mut ids: Vec<u32> = self.places.iter().map(|s| s.id).filter(|&id| id > last).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    proptest! {
        /// Streams start in order and end in any order.
        #[test]
        fn is_a_map(ends in vec((1_usize..5, any::<Index>()), 300)) {
            let (mut table, mut model) = (Streams::default(), BTreeMap::new());
            let mut next = 1;
            for (starts, end) in ends {
                for _ in 0..starts {
                    let request = RequestId { slot: next, generation: 1 };
                    table.insert(Stream::new(next, request, next / 2, 0, 0));
                    model.insert(next, request);
                    next += 2;
                }
                while model.len() > 40 {
                    let id = *model.keys().nth(end.index(model.len())).unwrap();
                    let place = table.find(id).unwrap();
                    assert_eq!(table.remove(place).request, model.remove(&id).unwrap());
                }
                assert_eq!(table.len() as usize, model.len());
                for (id, request) in &model {
                    assert_eq!(table.get(*id).unwrap().request, *request);
                    assert_eq!(table.of(*request), table.find(*id));
                }
                assert_eq!(table.find(next), None);
                assert_eq!(table.all().count(), model.len());
            }
            assert!(table.places.len() <= 128, "{}", table.places.len());
            let half = next / 4 * 2 + 1;
            let expected: Vec<u32> = model.keys().copied().filter(|id| *id > half).collect();
            assert_eq!(table.above(half), expected);
        }
    }
}
