//! Requests of a log that are due, and wait for the last one of their client: until it has ended,
//! or only until it has been sent.

use std::collections::{HashMap, VecDeque};

use crate::engine::exchange::{Exchange, Exchanges, NOBODY};
use prony_base::feed::Own;
use prony_base::units::{Nanos, RequestId};

/// The clients that have a request which has started and not ended.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// A request waits only until the last one of its client has been sent.
    pub(super) only_until_sent: bool,
    /// The slot of each client; never iterated.
    slots: HashMap<u64, u32>,
    clients: Vec<Client>,
    free: Vec<u32>,
    /// Requests that wait.
    waiting: usize,
    /// Clients with requests that wait for a send, which is looked for again and again.
    blocked: Vec<u32>,
    /// How many of them have been looked at.
    looked: usize,
    /// Memory for paths.
    spare: Vec<Own>,
}

#[derive(Debug, Default)]
struct Client {
    name: u64,
    /// Its requests that have started and not ended, and the last of them.
    running: u32,
    last: Option<RequestId>,
    waiting: VecDeque<Waiting>,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) due: Nanos,
    pub(super) call: u32,
    pub(super) own: Own,
}

impl Client {
    /// Whether its last request has been sent, or has ended.
    fn has_sent(&self, exchanges: &Exchanges) -> bool {
        let last = self.last.and_then(|id| exchanges.get(id));
        last.is_none_or(Exchange::is_sent)
    }

    /// A request of it starts: the next exchange.
    fn begin(&mut self, exchanges: &Exchanges) {
        self.running += 1;
        self.last = Some(exchanges.next_id());
    }
}

impl Held {
    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// The owner of a request that starts now; `None`: it has to wait. Client 0 never waits.
    pub(super) fn owner(&mut self, client: u64, exchanges: &Exchanges) -> Option<u32> {
        if client == 0 {
            return Some(NOBODY);
        }
        let slot = match self.slots.get(&client) {
            Some(&slot) => {
                let known = &self.clients[slot as usize];
                let may_start =
                    self.only_until_sent && known.waiting.is_empty() && known.has_sent(exchanges);
                if !may_start {
                    return None;
                }
                slot
            }
            None => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.clients.push(Client::default());
                    self.clients.len() as u32 - 1
                });
                self.clients[slot as usize].name = client;
                self.slots.insert(client, slot);
                slot
            }
        };
        self.clients[slot as usize].begin(exchanges);
        Some(slot)
    }

    /// The request of this client waits. What it has of its own is taken, and replaced by other
    /// memory.
    pub(super) fn wait(&mut self, client: u64, due: Nanos, call: u32, own: &mut Own) {
        let Some(&slot) = self.slots.get(&client) else { return };
        let own = std::mem::replace(own, self.spare.pop().unwrap_or_default());
        let waiting = &mut self.clients[slot as usize].waiting;
        if self.only_until_sent && waiting.is_empty() {
            self.blocked.push(slot);
        }
        waiting.push_back(Waiting { due, call, own });
        self.waiting += 1;
    }

    /// A request of this owner has ended: the next one, which starts now.
    pub(super) fn release(&mut self, owner: u32, exchanges: &Exchanges) -> Option<Waiting> {
        let client = self.clients.get_mut(owner as usize)?;
        client.running = client.running.saturating_sub(1);
        let may_start = !self.only_until_sent || client.has_sent(exchanges);
        match client.waiting.pop_front_if(|_| may_start) {
            Some(next) => {
                client.begin(exchanges);
                self.waiting -= 1;
                Some(next)
            }
            None => {
                if client.running == 0 && client.waiting.is_empty() {
                    self.slots.remove(&client.name);
                    self.free.push(owner);
                }
                None
            }
        }
    }

    /// Whether requests wait for a send.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// The next request that waited for a send, and starts now, with its owner. After the last one,
    /// the search begins again.
    pub(super) fn unblocked(&mut self, exchanges: &Exchanges) -> Option<(u32, Waiting)> {
        while let Some(&slot) = self.blocked.get(self.looked) {
            let client = &mut self.clients[slot as usize];
            if client.waiting.is_empty() {
                self.blocked.swap_remove(self.looked);
                continue;
            }
            self.looked += 1;
            if client.has_sent(exchanges)
                && let Some(next) = client.waiting.pop_front()
            {
                client.begin(exchanges);
                self.waiting -= 1;
                return Some((slot, next));
            }
        }
        self.looked = 0;
        None
    }

    /// The memory of a path is not needed any more.
    pub(super) fn give_back(&mut self, own: Own) {
        self.spare.push(own);
    }

    /// Nothing that waits will start.
    pub(super) fn clear(&mut self) {
        self.clients.iter_mut().for_each(|client| client.waiting.clear());
        self.waiting = 0;
    }
}
