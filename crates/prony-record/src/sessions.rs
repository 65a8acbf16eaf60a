//! Which exchanges belong to one session.

use std::collections::{HashMap, HashSet};

use prony_import::looks_generated;

use crate::head;
use crate::log::Exchange;

/// What the exchanges of a session have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The connection of the client.
    Connection,
    /// A cookie that the target has set, on all connections that send it.
    #[default]
    Cookie,
    /// The address of the client.
    Client,
}

/// The number of each exchange's session, from 0, in the order of their first requests. The
/// exchanges are in the order of their requests.
pub(crate) fn sessions(exchanges: &[Exchange], by: By) -> Vec<usize> {
    match by {
        By::Connection => numbered(exchanges.iter().map(|e| e.connection)),
        By::Client => numbered(exchanges.iter().map(|e| e.client)),
        By::Cookie => by_cookie(exchanges),
    }
}

/// The numbers of these keys, in the order of their first appearance.
fn numbered<K: Eq + std::hash::Hash>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut known = HashMap::new();
    keys.map(|key| {
        let next = known.len();
        *known.entry(key).or_insert(next)
    })
    .collect()
}

/// Connections that send, or receive, the same cookie belong together. Those without a cookie
/// belong to the session of the same address and browser that is nearest in time.
fn by_cookie(exchanges: &[Exchange]) -> Vec<usize> {
    let connections = numbered(exchanges.iter().map(|e| e.connection));
    let mut groups = Groups((0..connections.iter().max().map_or(0, |n| n + 1)).collect());
    let mut has_cookie = vec![false; groups.0.len()];
    let mut owner: HashMap<(String, String), usize> = HashMap::new();
    let set: Vec<Vec<(String, String)>> = exchanges.iter().map(set).collect();
    let all_set: HashSet<&(String, String)> = set.iter().flatten().collect();
    for (nth, exchange) in exchanges.iter().enumerate() {
        let sent = sent(exchange).into_iter().filter(|cookie| all_set.contains(cookie));
        for cookie in sent.chain(set[nth].iter().cloned()) {
            let group = connections[nth];
            has_cookie[group] = true;
            let first = *owner.entry(cookie).or_insert(group);
            groups.join(first, group);
        }
    }
    let mut roots: Vec<usize> = (0..groups.0.len()).map(|one| groups.root(one)).collect();
    for connection in 0..roots.len() {
        if !has_cookie[connection] {
            roots[connection] = nearest(exchanges, &connections, &has_cookie, connection)
                .map_or(roots[connection], |other| groups.root(other));
        }
    }
    numbered(connections.iter().map(|&connection| roots[connection]))
}

/// The connection with a cookie, else any other, of the same browser that had a request soonest
/// before or after the first one of this connection.
fn nearest(
    exchanges: &[Exchange],
    connections: &[usize],
    has_cookie: &[bool],
    connection: usize,
) -> Option<usize> {
    let of = |e: &Exchange| {
        (e.client, head::header(&e.request.headers, "user-agent").unwrap_or_default().to_owned())
    };
    let first = exchanges.iter().zip(connections).find(|(_, c)| **c == connection)?.0;
    let same = exchanges.iter().zip(connections).filter(|(e, _)| of(e) == of(first));
    let with_cookie = same.clone().filter(|(_, other)| has_cookie[**other]);
    let soonest = with_cookie.min_by_key(|(e, _)| e.begun.abs_diff(first.begun));
    // Without any cookie, all connections of a browser are one session.
    soonest.or_else(|| same.clone().next()).map(|(_, other)| *other)
}

/// The cookies that a request has sent.
fn sent(exchange: &Exchange) -> Vec<(String, String)> {
    let lines = head::all(&exchange.request.headers, "cookie");
    lines.flat_map(|line| line.split(';')).filter_map(cookie).collect()
}

/// The cookies that a reply has set.
fn set(exchange: &Exchange) -> Vec<(String, String)> {
    let Some(reply) = &exchange.reply else { return Vec::new() };
    let lines = head::all(&reply.head.headers, "set-cookie");
    lines.filter_map(|line| cookie(line.split(';').next()?)).collect()
}

/// A cookie, if it cannot be a setting that several users have.
fn cookie(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.split_once('=')?;
    looks_generated(value.trim()).then(|| (name.trim().to_owned(), value.trim().to_owned()))
}

/// Sets that are joined: each one's parent.
struct Groups(Vec<usize>);

impl Groups {
    fn root(&mut self, one: usize) -> usize {
        let mut root = one;
        while self.0[root] != root {
            root = self.0[root];
        }
        self.0[one] = root;
        root
    }

    /// The older one is the root of both.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::head::{ReplyHead, RequestHead};
    use crate::log::{Body, Ended, Reply};

    /// An exchange on this connection of a client: what it sends, and what it is given.
    fn exchange(ms: u64, connection: u64, client: u8, sent: &str, set: &str) -> Exchange {
        let header = |name: &str, value: &str| match value {
            "" => Vec::new(),
            value => vec![(name.to_owned(), value.to_owned())],
        };
        let head = ReplyHead { headers: header("Set-Cookie", set), ..ReplyHead::default() };
        Exchange {
            connection,
            client: Ipv4Addr::new(127, 0, 0, client).into(),
            begun: Duration::from_millis(ms),
            first: None,
            ended: Duration::from_millis(ms),
            host: String::new(),
            request: RequestHead { headers: header("Cookie", sent), ..RequestHead::default() },
            body: Body::default(),
            reply: Some(Reply { head, body: Body::default() }),
            how: Ended::Complete,
        }
    }

    #[test]
    fn cookies_join_the_connections_of_a_session() {
        let all = [
            exchange(0, 1, 1, "", "sid=aaaaaaa1; Path=/"),
            exchange(1, 2, 1, "theme=dark", ""),
            exchange(2, 3, 1, "", "sid=bbbbbbb1"),
            exchange(3, 4, 1, "x=y; sid=aaaaaaa1", ""),
            exchange(4, 5, 1, "theme=dark; sid=bbbbbbb1", ""),
            exchange(5, 6, 2, "", ""),
            exchange(6, 7, 2, "other=ccccccccc1", ""),
        ];
        // The second connection has no cookie of the target, and is nearest to the first.
        assert_eq!(sessions(&all, By::Cookie), [0, 0, 1, 0, 1, 2, 2]);
        assert_eq!(sessions(&all, By::Client), [0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(sessions(&all, By::Connection), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(sessions(&[], By::Cookie), [0; 0]);
    }

    #[test]
    fn a_cookie_that_is_set_later_joins_what_was_before() {
        let all = [
            exchange(0, 1, 1, "", ""),
            exchange(1, 2, 1, "", ""),
            exchange(9, 1, 1, "", "sid=aaaaaaa1"),
            exchange(10, 2, 1, "sid=aaaaaaa1", "sid=aaaaaaa1"),
        ];
        assert_eq!(sessions(&all, By::Cookie), [0, 0, 0, 0]);
    }
}
