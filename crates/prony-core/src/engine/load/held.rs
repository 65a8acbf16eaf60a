//! Requests of a log that are due, and wait until the last one of their client has ended.

use std::collections::{HashMap, VecDeque};

use crate::engine::exchange::NOBODY;
use crate::units::Nanos;

/// The clients that have a request which has started and not ended.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The slot of each client; never iterated.
    slots: HashMap<u64, u32>,
    clients: Vec<Client>,
    free: Vec<u32>,
    /// Requests that wait.
    waiting: usize,
    /// Memory for paths.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Client {
    name: u64,
    waiting: VecDeque<Waiting>,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) due: Nanos,
    pub(super) call: u32,
    pub(super) path: Vec<u8>,
}

impl Held {
    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// The owner of a request that may start now; `None`: it has to wait. Client 0 never waits.
    pub(super) fn owner(&mut self, client: u64) -> Option<u32> {
        if client == 0 {
            return Some(NOBODY);
        }
        if self.slots.contains_key(&client) {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.clients.push(Client::default());
            self.clients.len() as u32 - 1
        });
        self.clients[slot as usize].name = client;
        self.slots.insert(client, slot);
        Some(slot)
    }

    /// The request of this client waits. Its path is taken, and replaced by other memory.
    pub(super) fn wait(&mut self, client: u64, due: Nanos, call: u32, path: &mut Vec<u8>) {
        let Some(&slot) = self.slots.get(&client) else { return };
        let path = std::mem::replace(path, self.spare.pop().unwrap_or_default());
        self.clients[slot as usize].waiting.push_back(Waiting { due, call, path });
        self.waiting += 1;
    }

    /// A request of this owner has ended: the next one, which may start now.
    pub(super) fn release(&mut self, owner: u32) -> Option<Waiting> {
        let client = self.clients.get_mut(owner as usize)?;
        match client.waiting.pop_front() {
            Some(next) => {
                self.waiting -= 1;
                Some(next)
            }
            None => {
                self.slots.remove(&client.name);
                self.free.push(owner);
                None
            }
        }
    }

    /// The memory of a path is not needed any more.
    pub(super) fn give_back(&mut self, path: Vec<u8>) {
        self.spare.push(path);
    }

    /// Nothing that waits will start.
    pub(super) fn clear(&mut self) {
        self.clients.iter_mut().for_each(|client| client.waiting.clear());
        self.waiting = 0;
    }
}
