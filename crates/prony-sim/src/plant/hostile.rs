//! The server that does everything wrong that a server can do wrong.

use prony_core::units::{ConnId, Span};

use super::{Act, Plant, Yard};
use crate::dice::Dice;

/// Answers by chance: often well, else with garbage, cut off, with wrong lengths, too late, twice,
/// or not at all.
#[derive(Debug)]
pub struct Hostile {
    dice: Dice,
    /// Probability of a good reply.
    good: f64,
}

impl Hostile {
    /// A hostile server that answers well with probability `good`.
    pub fn new(seed: u64, good: f64) -> Self {
        Self { dice: Dice::new(seed, 0x33), good }
    }

    fn good_reply(&mut self) -> Vec<u8> {
        let size = self.dice.below(64) as usize;
        let status = *self.dice.pick(&[200, 200, 200, 201, 204, 301, 404, 503]);
        let mut reply =
            format!("HTTP/1.1 {status} Any\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        if status != 204 {
            reply.resize(reply.len() + size, b'x');
        }
        reply
    }

    fn chunked_reply(&mut self, good: bool) -> Vec<u8> {
        let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for _ in 0..self.dice.below(4) {
            let size = self.dice.between(1, 40) as usize;
            let extension = self.dice.pick(&["", ";a=b", ";q=\"x\""]);
            reply.extend_from_slice(format!("{size:x}{extension}\r\n").as_bytes());
            reply.resize(reply.len() + size, b'y');
            reply.extend_from_slice(b"\r\n");
        }
        let last: &[&str] = if good {
            &["0\r\n\r\n", "0\r\nTrailer: t\r\n\r\n", "000;x\r\n\r\n"]
        } else {
            &["zz\r\n\r\n", "\r\n\r\n", "fffffffffffffffff\r\n", "-1\r\n\r\n", "3\r\nabcdef\r\n"]
        };
        reply.extend_from_slice(self.dice.pick(last).as_bytes());
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
        self.dice.pick(&bad).to_vec()
    }

    fn garbage(&mut self) -> Vec<u8> {
        let n = self.dice.between(1, 300);
        (0..n).map(|_| self.dice.bits() as u8).collect()
    }

    fn flood(&mut self) -> Vec<u8> {
        let interim: &[u8] = if self.dice.chance(0.5) {
            b"HTTP/1.1 100 Continue\r\n\r\n"
        } else {
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        };
        let mut reply = interim.repeat(self.dice.between(1, 200) as usize);
        if self.dice.chance(0.8) {
            reply.extend(self.good_reply());
        }
        reply
    }

    fn long_head(&mut self) -> Vec<u8> {
        let mut reply = b"HTTP/1.1 200 OK\r\n".to_vec();
        let size = self.dice.between(60, 70) as usize * 1024;
        while reply.len() < size {
            reply.extend_from_slice(b"X-Long: 0123456789012345678901234567890123456789\r\n");
        }
        if self.dice.chance(0.5) {
            reply.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        }
        reply
    }

    /// Send the bytes one by one or a few at a time.
    fn dribble(&mut self, id: ConnId, bytes: &[u8], yard: &mut Yard) {
        let mut at = yard.now();
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = (self.dice.between(1, 6) as usize).min(rest.len());
            at = at + self.dice.up_to(Span::from_millis(2));
            yard.at(at, id, Act::Send(rest[..n].to_vec()));
            rest = &rest[n..];
        }
    }

    fn soon(&mut self, yard: &Yard) -> prony_core::units::Nanos {
        yard.now() + self.dice.up_to(Span::from_millis(5))
    }
}

impl Plant for Hostile {
    fn opened(&mut self, id: ConnId, yard: &mut Yard) {
        if self.dice.chance((1.0 - self.good) * 0.1) {
            let at = self.soon(yard);
            let act = match self.dice.below(4) {
                0 => Act::Close,
                1 => Act::Reset,
                2 => Act::Send(self.garbage()),
                _ => Act::Send(self.good_reply()),
            };
            yard.at(at, id, act);
        }
    }

    fn request(&mut self, id: ConnId, _: u64, _: &[u8], yard: &mut Yard) {
        let at = self.soon(yard);
        if self.dice.chance(self.good) {
            let reply =
                if self.dice.chance(0.3) { self.chunked_reply(true) } else { self.good_reply() };
            yard.send(id, &reply);
            return;
        }
        match self.dice.below(16) {
            0 => yard.send(id, &self.garbage()),
            1 => yard.send(id, &self.bad_reply()),
            2 => yard.send(id, &self.chunked_reply(false)),
            3 => yard.send(id, &self.flood()),
            4 => yard.send(id, &self.long_head()),
            5 => yard.at(at, id, Act::Close),
            6 => yard.at(at, id, Act::Reset),
            7 => {}
            8 => {
                // Cut off anywhere, then closed or reset.
                let mut reply = self.good_reply();
                reply.truncate(self.dice.below(reply.len() as u64) as usize);
                yard.send(id, &reply);
                yard.at(at, id, if self.dice.chance(0.5) { Act::Close } else { Act::Reset });
            }
            9 => {
                // A body until the close.
                yard.send(id, b"HTTP/1.1 200 OK\r\n\r\nsome body");
                yard.at(at, id, Act::Close);
            }
            10 => {
                // A good reply, and the close comes just as the next request may go out.
                yard.send(id, &self.good_reply());
                yard.at(at, id, Act::Close);
            }
            11 => {
                yard.send(id, &self.good_reply());
                yard.send(id, &self.good_reply());
            }
            12 => {
                let reply = self.good_reply();
                self.dribble(id, &reply, yard);
            }
            13 => {
                let reply = self.chunked_reply(true);
                self.dribble(id, &reply, yard);
            }
            14 => {
                let late = yard.now() + self.dice.up_to(Span::from_millis(300));
                yard.at(late, id, Act::Send(self.good_reply()));
            }
            _ => yard.at(at, id, Act::Send(self.bad_reply())),
        }
    }
}
