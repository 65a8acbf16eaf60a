//! A bounded store of TLS sessions for resumption, one for each worker (or scope).

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// The maximum number of servers; a plan has few endpoints.
const SERVERS_MAX: usize = 64;

/// The sessions of one worker.
pub(super) struct Tickets {
    /// The maximum number of TLS 1.3 tickets for a server; each can be used once.
    most: usize,
    servers: Mutex<HashMap<ServerName<'static>, Server>>,
}

#[derive(Default)]
struct Server {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), servers: Mutex::new(HashMap::new()) }
    }

    /// The lock is never contended: a store belongs to one thread.
    fn servers(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, name: ServerName<'static>, change: impl FnOnce(&mut Server)) {
        let mut servers = self.servers();
        if let Some(server) = servers.get_mut(&name) {
            change(server);
        } else if servers.len() < SERVERS_MAX {
            change(servers.entry(name).or_default());
        }
    }
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.edit(server_name, |s| s.group = Some(group));
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.servers().get(&server_name.to_owned()).and_then(|s| s.group)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.edit(server_name, |s| s.tls12 = Some(value));
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.servers().get(&server_name.to_owned()).and_then(|s| s.tls12.clone())
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        if let Some(server) = self.servers().get_mut(server_name) {
            server.tls12 = None;
        }
    }

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        self.edit(server_name, |s| {
            if s.tls13.len() == self.most {
                s.tls13.pop_front();
            }
            s.tls13.push_back(value);
        });
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        self.servers().get_mut(server_name).and_then(|s| s.tls13.pop_back())
    }
}
