//! Tests of the responder with recorded bytes of the old client, cut in any way, and with invalid
//! bytes.

use prony_base::frame::{LENGTH, MAGIC, opening};

use super::*;

/// A manual client.
struct Client {
    echo: Echo,
    id: ConnId,
    /// What the responder has sent, piece by piece.
    sent: Vec<Vec<u8>>,
    closed: Option<CloseHow>,
}

const T0: Nanos = Nanos::ZERO;

impl Client {
    fn new(bounded: bool) -> Self {
        let mut echo = Echo::new(EchoBehavior::default(), vec![bounded]);
        let id = echo.on_accepted(0, T0).expect("it is not stopping");
        Self { echo, id, sent: Vec::new(), closed: None }
    }

    fn says(&mut self, data: &[u8]) -> &mut Self {
        if self.closed.is_none() {
            self.echo.on_recv(self.id, &mut data.to_vec(), T0);
            self.act(usize::MAX);
        }
        self
    }

    /// Execute its actions; up to `room` bytes of each piece are accepted.
    fn act(&mut self, room: usize) {
        while let Some(action) = self.echo.poll_action() {
            match action {
                Action::Transmit { id } => {
                    let sent = &mut self.sent;
                    self.echo.take_output(id, T0, &mut |piece| {
                        let n = piece.len().min(room);
                        sent.push(piece[..n].to_vec());
                        n
                    });
                }
                Action::Close { how, .. } => self.closed = Some(how),
                other => panic!("{other:?}"),
            }
        }
    }

    fn heard(&self) -> Vec<u8> {
        self.sent.concat()
    }
}

fn request(length: u32, reply: u32, sequence: u64) -> Vec<u8> {
    let header = Header { kind: Kind::Request { reply }, length, sequence };
    [header.bytes().as_slice(), &vec![7; length as usize]].concat()
}

fn reply(length: u32, sequence: u64) -> Vec<u8> {
    let header = Header { kind: Kind::Reply, length, sequence };
    [header.bytes().as_slice(), &vec![0; length as usize]].concat()
}

/// The bytes of a recorded run of the old client, 2 exchanges after 100 warm-up exchanges.
fn recorded() -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, 0x66, 0, 0, 0];
    for _ in 0..102 {
        bytes.extend([0, 0, 0, 4, 0xef, 0x46, 0x06, 0xfd]);
    }
    bytes
}

#[test]
fn replies_to_the_old_client_however_its_bytes_are_cut() {
    for cut in [1, 2, 3, 5, 7, 11, 800, 10_000] {
        let mut c = Client::new(false);
        for piece in recorded().chunks(cut) {
            c.says(piece);
        }
        assert_eq!(c.heard(), [0; 204], "in pieces of {cut}");
        assert_eq!(c.closed, Some(CloseHow::Orderly), "all announced exchanges are complete");
        assert_eq!((c.echo.echoed().messages, c.echo.echoed().bytes_in), (102, 824));
    }
}

#[test]
fn accepts_both_byte_orders_zero_counts_and_empty_messages() {
    let mut big = Client::new(false);
    big.says(&[0, 9, 9, 9, 0, 0, 0, 2]).says(&[0; 4]).says(&[0; 4]);
    assert_eq!((big.heard().len(), big.closed), (4, Some(CloseHow::Orderly)));

    let mut endless = Client::new(false);
    endless.says(&opening(0));
    for _ in 0..300 {
        endless.says(&[0, 0, 0, 1, b'x']);
    }
    assert_eq!((endless.heard().len(), endless.closed), (600, None));
    endless.echo.on_closed(endless.id, None, T0);
    endless.act(0);
    assert_eq!(endless.closed, Some(CloseHow::Orderly));
    assert_eq!(endless.echo.echoed().broken, 0, "it ended between two messages");
}

#[test]
fn long_frames_get_replies_of_the_requested_length() {
    let asked = [(0, 0), (5, 2), (70_000, 3), (1, 70_000)];
    let stream: Vec<u8> = (0..).zip(asked).flat_map(|(i, (n, m))| request(n, m, i)).collect();
    let replies: Vec<u8> = (0..).zip(asked).flat_map(|(i, (_, m))| reply(m, i)).collect();
    for cut in [1, 19, 20, 21, 4_096, usize::MAX] {
        let mut c = Client::new(false);
        for piece in stream.chunks(cut.min(stream.len())) {
            c.says(piece);
        }
        assert!(c.heard() == replies, "in pieces of {cut}");
        assert_eq!(c.closed, None);
    }
}

/// If boundaries matter, every reply is sent by itself.
#[test]
fn replies_keep_their_boundaries() {
    let stream = [request(3, 2, 0), request(3, 40, 1)].concat();
    let mut c = Client::new(true);
    c.says(&stream);
    assert_eq!(c.sent, [reply(2, 0), reply(40, 1)]);
    let mut c = Client::new(false);
    c.says(&stream);
    assert_eq!(c.sent, [[reply(2, 0), reply(40, 1)].concat()]);
}

/// A socket that accepts a few bytes at a time gets every byte once.
#[test]
fn sends_the_rest_when_a_full_socket_is_writable_again() {
    let sizes = [(1, 2), (0, 30), (0, 0), (0, 100)];
    let stream: Vec<u8> = (0..).zip(sizes).flat_map(|(i, (n, m))| request(n, m, i)).collect();
    let replies: Vec<u8> = (0..).zip(sizes).flat_map(|(i, (_, m))| reply(m, i)).collect();
    for room in [1, 7, 21, 22, 23, 50] {
        let mut c = Client::new(false);
        c.echo.on_recv(c.id, &mut stream.clone(), T0);
        c.act(room);
        for _ in 0..400 {
            let sent = &mut c.sent;
            let all = c.echo.take_output(c.id, T0, &mut |piece| {
                let n = piece.len().min(room);
                sent.push(piece[..n].to_vec());
                n
            });
            if all {
                break;
            }
        }
        assert!(c.heard() == replies, "{room} bytes at a time");
    }
}

#[test]
fn refuses_clients_of_other_protocols() {
    let mut too_long = opening(5).to_vec();
    too_long.extend(u32::MAX.to_be_bytes());
    let mut other_version = request(0, 0, 0);
    other_version[3] = 9;
    for (what, bytes) in [
        ("http", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("tls", vec![22, 3, 1, 0, 200]),
        ("a message of 4 GiB", too_long),
        ("a reply of 4 GiB", request(0, u32::MAX, 0)),
        ("another version", other_version),
        ("a reply", reply(0, 0)),
        ("half a magic", [&MAGIC[..2], &[0; 18]].concat()),
    ] {
        let mut c = Client::new(false);
        c.says(&bytes);
        assert_eq!(c.closed, Some(CloseHow::Reset), "{what}");
        assert_eq!((c.echo.echoed().refused, c.heard()), (1, vec![]), "{what}");
    }
}

#[test]
fn disconnects_silent_clients_but_not_slow_ones() {
    let behavior = EchoBehavior::default();
    let after = T0 + behavior.patience;
    for (bytes, stays) in [(vec![], false), (vec![1; 7], false), (opening(3).to_vec(), true)] {
        let mut c = Client::new(false);
        c.says(&bytes);
        // A client that has started has no deadline any more.
        assert_eq!(c.echo.deadline(), (!stays).then_some(after));
        c.echo.on_tick(after);
        c.act(0);
        assert_eq!(c.closed.is_none(), stays, "after {} bytes", bytes.len());
        assert_eq!(c.echo.echoed().silent, u64::from(!stays));
    }
}

#[test]
fn disconnects_clients_that_do_not_read() {
    let mut c = Client::new(false);
    c.says(&opening(0));
    c.echo.on_recv(c.id, &mut vec![0; LENGTH * 70_000], T0);
    c.act(0);
    assert_eq!(c.closed, Some(CloseHow::Reset));
}

#[test]
fn a_broken_connection_does_not_affect_others() {
    for (bytes, broken) in
        [(&[1, 0, 0][..], 1), (&[1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 9, 1], 1), (&[], 0)]
    {
        let mut c = Client::new(false);
        let other = c.echo.on_accepted(0, T0).expect("there is room");
        c.says(bytes);
        c.echo.on_closed(c.id, None, T0);
        c.act(0);
        assert_eq!(c.closed, Some(CloseHow::Orderly));
        assert_eq!(c.echo.echoed().broken, broken);
        let mut c = Client { id: other, closed: None, ..c };
        c.says(&recorded());
        assert_eq!(c.heard(), [0; 204]);
    }
}

#[test]
fn answers_each_datagram_alone() {
    let answered = |data: &[u8], longer| {
        let mut out = Vec::new();
        answer(data, longer, &mut out).then_some(out)
    };
    assert_eq!(answered(&request(30, 4, 9), false), Some(reply(4, 9)));
    assert_eq!(answered(&request(4, 30, 9), true), Some(reply(30, 9)));
    assert_eq!(answered(&request(4, 30, 9), false), None, "it would be longer");
    assert_eq!(answered(&request(4, 65_488, 9), true), None, "it does not fit");
    assert_eq!(answered(&request(30, 4, 9)[..49], true), None, "cut short");
    assert_eq!(answered(&reply(4, 9), true), None, "two responders would exchange replies forever");
    assert_eq!(answered(b"", true), None);
}

/// A client that reads everything at once does not keep the responder from others.
#[test]
fn long_replies_are_sent_in_turns() {
    let mut client = Client::new(false);
    let kind = Kind::Request { reply: 1 << 20 };
    let one = Header { kind, length: 0, sequence: 7 }.bytes();
    client.echo.on_recv(client.id, &mut one.repeat(1_000), T0);
    while client.echo.poll_action().is_some() {}
    let (mut calls, mut sum) = (0, 0);
    loop {
        let mut got = 0;
        let all = client.echo.take_output(client.id, T0, &mut |piece| {
            got += piece.len();
            piece.len()
        });
        (calls, sum) = (calls + 1, sum + got);
        assert!(got <= 2 << 20, "{got} bytes in one call");
        if all {
            break;
        }
    }
    assert_eq!((calls, sum), (1_000, 1_000 * ((1 << 20) + HEADER)));
}

/// Clients that send and do not read: what they are owed is bounded, and others are served.
#[test]
fn unread_replies_of_all_clients_are_bounded() {
    let mut echo = Echo::new(EchoBehavior::default(), vec![false]);
    let one = Header { kind: Kind::Request { reply: 8 }, length: 0, sequence: 7 }.bytes();
    for _ in 0..200 {
        let id = echo.on_accepted(0, T0).expect("it is not stopping");
        echo.on_recv(id, &mut one.repeat(60_000), T0);
        while echo.poll_action().is_some() {}
    }
    assert!(echo.unread <= UNREAD_MAX, "{}", echo.unread);
    assert_eq!(echo.echoed.refused, 200 - UNREAD_MAX as u64 / 60_000);
    let id = echo.on_accepted(0, T0).expect("it is not stopping");
    echo.on_recv(id, &mut one.repeat(100), T0);
    let mut got = 0;
    echo.take_output(id, T0, &mut |piece| {
        got += piece.len();
        piece.len()
    });
    assert_eq!(got, 100 * (HEADER + 8));
    echo.on_stop(StopRequest::Now, T0);
    assert_eq!(echo.unread, 0);
}
