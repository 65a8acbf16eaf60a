//! A server with protocol errors and failures of every kind.

use prony_base::units::{ConnId, Span};

use super::{Connections, ServerAction, ServerModel};
use crate::rng::Rng;

/// Replies at random: correctly, or with garbage, a truncated reply, a wrong length, late, twice,
/// or not at all.
#[derive(Debug)]
pub struct Hostile {
    rng: Rng,
    /// Probability of a correct reply.
    good: f64,
}

impl Hostile {
    /// A hostile server that replies correctly with probability `good`.
    pub fn new(seed: u64, good: f64) -> Self {
        Self { rng: Rng::new(seed, 0x33), good }
    }

    fn good_reply(&mut self) -> Vec<u8> {
        let size = self.rng.below(64) as usize;
        let status = *self.rng.pick(&[200, 200, 200, 201, 204, 301, 404, 503]);
        let mut reply =
            format!("HTTP/1.1 {status} Any\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        if status != 204 {
            reply.resize(reply.len() + size, b'x');
        }
        reply
    }

    fn chunked_reply(&mut self, good: bool) -> Vec<u8> {
        let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for _ in 0..self.rng.below(4) {
            let size = self.rng.between(1, 40) as usize;
            let extension = self.rng.pick(&["", ";a=b", ";q=\"x\""]);
            reply.extend_from_slice(format!("{size:x}{extension}\r\n").as_bytes());
            reply.resize(reply.len() + size, b'y');
            reply.extend_from_slice(b"\r\n");
        }
        let last: &[&str] = if good {
            &["0\r\n\r\n", "0\r\nTrailer: t\r\n\r\n", "000;x\r\n\r\n"]
        } else {
            &["zz\r\n\r\n", "\r\n\r\n", "fffffffffffffffff\r\n", "-1\r\n\r\n", "3\r\nabcdef\r\n"]
        };
        reply.extend_from_slice(self.rng.pick(last).as_bytes());
        reply
    }

    fn bad_reply(&mut self) -> Vec<u8> {
        let bad: [&[u8]; 14] = [
            b"HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 999 Nines\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 99 Short\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n folded: yes\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabSURPLUS",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nanything",
        ];
        self.rng.pick(&bad).to_vec()
    }

    fn garbage(&mut self) -> Vec<u8> {
        let n = self.rng.between(1, 300);
        (0..n).map(|_| self.rng.bits() as u8).collect()
    }

    fn flood(&mut self) -> Vec<u8> {
        let interim: &[u8] = if self.rng.chance(0.5) {
            b"HTTP/1.1 100 Continue\r\n\r\n"
        } else {
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        };
        let mut reply = interim.repeat(self.rng.between(1, 200) as usize);
        if self.rng.chance(0.8) {
            reply.extend(self.good_reply());
        }
        reply
    }

    fn long_head(&mut self) -> Vec<u8> {
        let mut reply = b"HTTP/1.1 200 OK\r\n".to_vec();
        let size = self.rng.between(60, 70) as usize * 1024;
        while reply.len() < size {
            reply.extend_from_slice(b"X-Long: 0123456789012345678901234567890123456789\r\n");
        }
        if self.rng.chance(0.5) {
            reply.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        }
        reply
    }

    /// Send the bytes a few at a time, with pauses.
    fn dribble(&mut self, id: ConnId, bytes: &[u8], conns: &mut Connections) {
        let mut at = conns.now();
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = (self.rng.between(1, 6) as usize).min(rest.len());
            at = at + self.rng.up_to(Span::from_millis(2));
            conns.at(at, id, ServerAction::Send(rest[..n].to_vec()));
            rest = &rest[n..];
        }
    }

    fn soon(&mut self, conns: &Connections) -> prony_base::units::Nanos {
        conns.now() + self.rng.up_to(Span::from_millis(5))
    }
}

impl ServerModel for Hostile {
    fn opened(&mut self, id: ConnId, conns: &mut Connections) {
        if self.rng.chance((1.0 - self.good) * 0.1) {
            let at = self.soon(conns);
            let act = match self.rng.below(4) {
                0 => ServerAction::Close,
                1 => ServerAction::Reset,
                2 => ServerAction::Send(self.garbage()),
                _ => ServerAction::Send(self.good_reply()),
            };
            conns.at(at, id, act);
        }
    }

    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        let at = self.soon(conns);
        if self.rng.chance(self.good) {
            let reply =
                if self.rng.chance(0.3) { self.chunked_reply(true) } else { self.good_reply() };
            conns.send(id, &reply);
            return;
        }
        match self.rng.below(16) {
            0 => conns.send(id, &self.garbage()),
            1 => conns.send(id, &self.bad_reply()),
            2 => conns.send(id, &self.chunked_reply(false)),
            3 => conns.send(id, &self.flood()),
            4 => conns.send(id, &self.long_head()),
            5 => conns.at(at, id, ServerAction::Close),
            6 => conns.at(at, id, ServerAction::Reset),
            7 => {}
            8 => {
                // Truncated at a random place, then closed or reset.
                let mut reply = self.good_reply();
                reply.truncate(self.rng.below(reply.len() as u64) as usize);
                conns.send(id, &reply);
                conns.at(
                    at,
                    id,
                    if self.rng.chance(0.5) { ServerAction::Close } else { ServerAction::Reset },
                );
            }
            9 => {
                // A body that ends with the connection.
                conns.send(id, b"HTTP/1.1 200 OK\r\n\r\nsome body");
                conns.at(at, id, ServerAction::Close);
            }
            10 => {
                // A correct reply, then a close about when the next request is sent.
                conns.send(id, &self.good_reply());
                conns.at(at, id, ServerAction::Close);
            }
            11 => {
                conns.send(id, &self.good_reply());
                conns.send(id, &self.good_reply());
            }
            12 => {
                let reply = self.good_reply();
                self.dribble(id, &reply, conns);
            }
            13 => {
                let reply = self.chunked_reply(true);
                self.dribble(id, &reply, conns);
            }
            14 => {
                let late = conns.now() + self.rng.up_to(Span::from_millis(300));
                conns.at(late, id, ServerAction::Send(self.good_reply()));
            }
            _ => conns.at(at, id, ServerAction::Send(self.bad_reply())),
        }
    }
}
