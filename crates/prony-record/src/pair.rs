//! A client's connection and the one to the target that belongs to it, without sockets: bytes pass
//! through, and are observed.
//!
//! Requests are held until their head is complete, as their `Host` is replaced. All else passes on
//! as it arrives: bodies, the framing of chunks, interim replies, and everything after an upgrade.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::framing::Framing;
use crate::head::{self, Malformed, RequestHead};
use crate::log::{Body, Ended, Exchange, Log, REQUEST_LIMIT, Reply};

/// Two connections that belong together.
#[derive(Debug)]
pub(crate) struct Pair {
    log: Arc<Log>,
    /// The `Host` of the target.
    host: Arc<str>,
    connection: u64,
    client: IpAddr,
    /// What the client has sent and is not passed on yet.
    asked: Vec<u8>,
    asking: Asking,
    /// The start of the reply whose head is not complete.
    replied: Vec<u8>,
    answering: Answering,
    /// The requests without a complete reply, oldest first.
    open: VecDeque<Open>,
    /// Bytes for the target, which the owner takes.
    pub(crate) to_target: Vec<u8>,
    /// Bytes for the client, which the owner takes.
    pub(crate) to_client: Vec<u8>,
    /// Replies that are complete.
    replies: u64,
}

#[derive(Debug)]
enum Asking {
    Head,
    Body(Framing),
    /// The next bytes are a request, or belong to another protocol: the reply decides.
    Upgrade,
    Raw,
    /// The client was refused, and what it sends is ignored.
    Refused,
}

#[derive(Debug)]
enum Answering {
    Head,
    Body(Framing),
    Raw,
}

#[derive(Debug)]
struct Open {
    exchange: Exchange,
    is_asked: bool,
    is_answered: bool,
}

impl Pair {
    pub(crate) fn new(log: Arc<Log>, host: Arc<str>, client: IpAddr) -> Self {
        Self {
            connection: log.connection(),
            log,
            host,
            client,
            asked: Vec::new(),
            asking: Asking::Head,
            replied: Vec::new(),
            answering: Answering::Head,
            open: VecDeque::new(),
            to_target: Vec::new(),
            to_client: Vec::new(),
            replies: 0,
        }
    }

    /// Whether no request waits for its reply, and no other protocol is spoken.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && !matches!(self.asking, Asking::Raw)
    }

    /// Whether a request waits for its reply.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the client was refused: nothing more is to be read from it.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.asking, Asking::Refused)
    }

    /// How many bytes wait for the target's decision on an upgrade.
    pub(crate) fn held(&self) -> usize {
        self.asked.len()
    }

    /// The client has sent these bytes.
    pub(crate) fn client_sent(&mut self, bytes: &[u8], now: Duration) {
        self.asked.extend_from_slice(bytes);
        self.pass_requests(now);
    }

    fn pass_requests(&mut self, now: Duration) {
        loop {
            match &mut self.asking {
                Asking::Head => {
                    // An empty line before a request is ignored, as servers do.
                    let empty = self.asked.iter().take_while(|b| b"\r\n".contains(b)).count();
                    self.to_target.extend(self.asked.drain(..empty));
                    match head::request(&self.asked) {
                        Ok(Some((head, length, hosts))) => {
                            if !self.start(head, length, &hosts, now) {
                                return;
                            }
                        }
                        Ok(None) => return,
                        Err(Malformed) => {
                            self.log.count(|counts| counts.bad_requests += 1);
                            return self.refuse(400, "Bad Request", "this is no request of HTTP/1");
                        }
                    }
                }
                Asking::Body(framing) => {
                    let open = self.open.back_mut().expect("a body belongs to a request");
                    let (log, body) = (&self.log, &mut open.exchange.body);
                    let taken = framing
                        .take(&self.asked, &mut |piece| log.keep(body, piece, REQUEST_LIMIT))
                        .map(|n| (n, framing.is_done()));
                    let Ok((n, is_done)) = taken else {
                        self.log.count(|counts| counts.bad_requests += 1);
                        self.client_left();
                        return self.refuse(400, "Bad Request", "the body is not in chunks");
                    };
                    self.to_target.extend(self.asked.drain(..n));
                    if !is_done {
                        return;
                    }
                    self.sent();
                }
                Asking::Raw => return self.to_target.append(&mut self.asked),
                Asking::Upgrade => return,
                Asking::Refused => return self.asked.clear(),
            }
        }
    }

    /// Passes a head on with the target's `Host`. Returns whether the client was not refused.
    fn start(
        &mut self,
        mut head: RequestHead,
        length: usize,
        hosts: &[std::ops::Range<usize>],
        now: Duration,
    ) -> bool {
        if !head.target.starts_with('/') && head.target != "*" {
            self.log.count(|counts| counts.forward += 1);
            self.refuse(501, "Not Implemented", "this is a reverse proxy: ask it for paths");
            return false;
        }
        if let Some(why) = head::ambiguous(&head, hosts.len()) {
            self.log.count(|counts| counts.ambiguous += 1);
            self.refuse(400, "Bad Request", why);
            return false;
        }
        let Ok(framing) = Framing::of_request(&head) else {
            self.log.count(|counts| counts.bad_requests += 1);
            self.refuse(400, "Bad Request", "the length of the body is not a number");
            return false;
        };
        let mut at = 0;
        for host in hosts {
            self.to_target.extend_from_slice(&self.asked[at..host.start]);
            self.to_target.extend_from_slice(self.host.as_bytes());
            at = host.end;
        }
        self.to_target.extend_from_slice(&self.asked[at..length]);
        self.asked.drain(..length);
        let host = head::header(&head.headers, "host").unwrap_or_default().to_owned();
        for (_, value) in head.headers.iter_mut().filter(|(n, _)| n.eq_ignore_ascii_case("host")) {
            *value = self.host.to_string();
        }
        let exchange = Exchange {
            connection: self.connection,
            client: self.client,
            begun: now,
            first: None,
            ended: now,
            host,
            request: head,
            body: Body::default(),
            reply: None,
            how: Ended::Stopped,
        };
        self.open.push_back(Open { exchange, is_asked: false, is_answered: false });
        if framing.is_done() {
            self.sent();
        } else {
            self.asking = Asking::Body(framing);
        }
        true
    }

    /// The last request is passed on to its end.
    fn sent(&mut self) {
        let Some(open) = self.open.back_mut() else { return };
        open.is_asked = true;
        let wants_upgrade = head::header(&open.exchange.request.headers, "upgrade").is_some();
        self.asking = match wants_upgrade && !open.is_answered {
            true => Asking::Upgrade,
            false => Asking::Head,
        };
        self.record();
    }

    /// The target has sent these bytes.
    pub(crate) fn target_sent(&mut self, bytes: &[u8], now: Duration) {
        if self.is_refused() && self.open.is_empty() {
            // The client has its last reply, and nobody has asked for more.
            return;
        }
        self.to_client.extend_from_slice(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let open = self.open.iter_mut().find(|open| !open.is_answered);
            match (&mut self.answering, open) {
                (Answering::Raw, _) => return,
                (Answering::Head, Some(open)) => {
                    open.exchange.first.get_or_insert(now);
                    open.exchange.ended = now;
                    let before = self.replied.len();
                    self.replied.extend_from_slice(rest);
                    match head::reply(&self.replied) {
                        Ok(Some((head, length))) => {
                            rest = &rest[length - before..];
                            self.replied.clear();
                            self.head(Reply { head, body: Body::default() }, now);
                        }
                        Ok(None) => return,
                        Err(Malformed) => return self.is_no_reply(),
                    }
                }
                (Answering::Body(framing), Some(open)) => {
                    open.exchange.ended = now;
                    let Some(reply) = &mut open.exchange.reply else { return };
                    let limit = reply.limit();
                    let (log, body) = (&self.log, &mut reply.body);
                    match framing.take(rest, &mut |piece| log.keep(body, piece, limit)) {
                        Ok(n) => rest = &rest[n..],
                        Err(Malformed) => return self.is_no_reply(),
                    }
                    if framing.is_done() {
                        self.answered(now, Ended::Complete);
                    }
                }
                // Nobody has asked.
                (_, None) => return self.is_no_reply(),
            }
        }
    }

    fn is_no_reply(&mut self) {
        self.log.count(|counts| counts.bad_replies += 1);
        self.answering = Answering::Raw;
    }

    /// The head of a reply is complete.
    fn head(&mut self, reply: Reply, now: Duration) {
        let Some(open) = self.open.iter_mut().find(|open| !open.is_answered) else { return };
        let status = reply.head.status;
        if (100..200).contains(&status) && status != 101 {
            // An interim reply; the final one follows.
            return;
        }
        let framing = Framing::of_reply(&reply.head, &open.exchange.request.method);
        open.exchange.reply = Some(reply);
        if status == 101 {
            self.answering = Answering::Raw;
            self.answered(now, Ended::Upgraded);
            self.asking = Asking::Raw;
            return self.pass_requests(now);
        }
        match framing {
            Ok(framing) if framing.is_done() => self.answered(now, Ended::Complete),
            Ok(framing) => self.answering = Answering::Body(framing),
            Err(Malformed) => self.is_no_reply(),
        }
    }

    /// The first reply has ended.
    fn answered(&mut self, now: Duration, how: Ended) {
        if let Some(open) = self.open.iter_mut().find(|open| !open.is_answered) {
            open.is_answered = true;
            open.exchange.ended = now;
            open.exchange.how = how;
        }
        self.replies += 1;
        if !matches!(self.answering, Answering::Raw) {
            self.answering = Answering::Head;
        }
        self.record();
        if matches!(self.asking, Asking::Upgrade) && how == Ended::Complete {
            self.asking = Asking::Head;
            self.pass_requests(now);
        }
    }

    /// Hands over the exchanges that are complete on both sides.
    fn record(&mut self) {
        while self.open.front().is_some_and(|open| open.is_asked && open.is_answered) {
            self.log.add(self.open.pop_front().expect("there is one").exchange);
        }
    }

    /// The target has closed its side.
    pub(crate) fn target_ended(&mut self, now: Duration) {
        if matches!(self.answering, Answering::Body(Framing::UntilClose)) {
            self.answering = Answering::Head;
            self.answered(now, Ended::Complete);
        }
        self.target_failed(now);
    }

    /// The connection to the target has failed.
    pub(crate) fn target_failed(&mut self, now: Duration) {
        let is_new = self.replies == 0 && self.replied.is_empty();
        let front = self.open.iter().find(|open| !open.is_answered);
        // A client that has had a reply on this connection knows what its end means.
        if is_new && front.is_some_and(|open| open.exchange.first.is_none()) {
            self.unreachable("the target closed the connection without a reply");
        }
        for open in &mut self.open {
            open.exchange.ended = now;
        }
        self.end(|open| match open.exchange.first {
            None => Ended::NoReply,
            Some(_) => Ended::Cut,
        });
    }

    /// There is no connection to the target.
    pub(crate) fn unreachable(&mut self, why: &str) {
        let waiting = self.open.iter().filter(|open| !open.is_answered).count();
        self.log.count(|counts| counts.bad_gateway += waiting as u64);
        self.refuse(502, "Bad Gateway", why);
        self.end(|_| Ended::NoReply);
    }

    /// The client is gone, and nothing can reach it.
    pub(crate) fn client_left(&mut self) {
        self.end(|_| Ended::ClientLeft);
    }

    /// The recording ends.
    pub(crate) fn stop(&mut self) {
        self.end(|_| Ended::Stopped);
    }

    fn end(&mut self, how: impl Fn(&Open) -> Ended) {
        for mut open in self.open.drain(..) {
            if !open.is_answered || !open.is_asked {
                open.exchange.how = how(&open);
            }
            self.log.add(open.exchange);
        }
    }

    /// Answers the client in the target's place, and reads no more from it.
    fn refuse(&mut self, status: u16, reason: &str, why: &str) {
        self.asking = Asking::Refused;
        self.asked.clear();
        if self
            .open
            .iter()
            .any(|open| !open.is_answered && (status != 502 || open.exchange.first.is_some()))
        {
            // Replies to earlier requests are still to come, and nothing may be between them.
            return;
        }
        let body = format!("prony record: {why}\n");
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        self.to_client.extend_from_slice(head.as_bytes());
        self.to_client.extend_from_slice(body.as_bytes());
    }
}
