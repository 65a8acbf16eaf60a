//! Peers that send without end: what a connection keeps is bounded, whether its own frames leave or
//! not.

use super::*;
use prony_base::http2::FRAME_SIZE;

/// What a connection may keep beside its streams, in bytes: a header block, a frame, and the lists
/// of what it owes.
const MOST: usize = 256 << 10;

/// The memory of everything that a peer can make grow.
fn kept(client: &Client) -> usize {
    let conn = &client.conn;
    let memos = conn.memos.iter().flatten().map(|memo| memo.bytes.capacity()).sum::<usize>();
    client.stash.capacity()
        + conn.block.as_ref().map_or(0, |block| block.bytes.capacity())
        + size_of::<[u8; 8]>() * conn.pongs.capacity()
        + size_of::<(u32, Code)>() * conn.resets.capacity()
        + size_of::<u32>() * (conn.gone.capacity() + conn.credited.capacity())
        + memos
}

/// Sends `before`, then a piece again and again. The connection ends with this code after at most
/// this many of them, if the client can send what it owes (`reads`) or not.
#[track_caller]
fn attack(name: &str, before: &Server, code: Code, most: u32, piece: impl Fn(u32) -> Server) {
    for reads in [true, false] {
        let mut client = Client::with_requests(3);
        client.receive(&before.0, usize::MAX).expect("the start is valid");
        let mut n = 0;
        let fault = loop {
            if let Err(fault) = client.receive(&piece(n).0, usize::MAX) {
                break fault;
            }
            if reads {
                client.owed();
            }
            assert!(kept(&client) < MOST, "{name}, {n}: {} bytes", kept(&client));
            n += 1;
            assert!(n <= most, "{name} goes on, its acknowledgements sent: {reads}");
        };
        assert_eq!(fault, Fault::BadHttp2, "{name}");
        assert_eq!(client.close(), Some(code), "{name}");
    }
}

#[test]
fn attacks_end_the_connection_and_need_little_memory() {
    let calm = Code::ENHANCE_YOUR_CALM;
    let start = Server::new();
    let empty = Server::default;
    attack("settings", &start, calm, 1_000, |_| empty().settings(&[]));
    attack("settings that change", &start, calm, 1_000, |n| empty().settings(&[(4, n), (1, n)]));
    attack("pings", &start, calm, 1_000, |_| empty().frame(kind::PING, 0, 0, &[0; 8]));
    attack("pongs", &start, calm, 1_000, |_| empty().frame(kind::PING, 1, 0, &[0; 8]));
    attack("priorities", &start, calm, 1_000, |_| empty().frame(kind::PRIORITY, 0, 1, &[0; 5]));
    attack("unknown frames", &start, calm, 1_000, |_| empty().frame(99, 0, 0, &[0; 9_999]));
    attack("goaways", &start, calm, 1_001, |_| empty().goaway(5, Code::NO_ERROR));
    let ended = Server::new().ok(1, 1);
    attack("resets of an ended stream", &ended, calm, 1_000, |_| empty().rst(1, Code::CANCEL));
    attack("windows of an ended stream", &ended, calm, 1_000, |_| empty().window(1, 1));
    let begun = Server::new().ok(1, 0);
    attack("empty data", &begun, calm, 1_000, |_| empty().data(1, 0, 0));
    let bad = Server::new().headers(1, 0, &[("a", "b")]);
    attack("heads of a reset stream", &bad, calm, 1_000, |_| empty().ok(1, 0));
    attack("empty data of a reset stream", &bad, calm, 1_000, |_| empty().data(1, 0, 0));
    let open = Server::new().frame(kind::HEADERS, 0, 1, &[]);
    let part = |size: usize| empty().frame(kind::CONTINUATION, 0, 1, &vec![0; size]);
    attack("empty continuations", &open, calm, 64, |_| part(0));
    attack("long continuations", &open, calm, 5, |_| part(FRAME_SIZE as usize));
    let name = "x".repeat(4_000);
    let mut bomb = Server::new().headers(1, 0, &[("a", "b")]);
    let mut entry = vec![0x40, 0x7f, 0xa1, 0x1e];
    entry.extend_from_slice(name.as_bytes());
    entry.extend_from_slice(&[0]);
    bomb = bomb.frame(kind::HEADERS, 4, 3, &[&block(&[(":status", "200")])[..], &entry].concat());
    attack("blocks that grow, of a reset stream", &bomb, calm, 1_000, |_| {
        empty().frame(kind::HEADERS, 4, 1, &[0xbe; 9_999])
    });
}

/// A block of 10 kB whose fields would have 40 MB fails its request, and the table stays right.
#[test]
fn a_block_that_grows_fails_one_request() {
    let mut client = Client::with_requests(3);
    let mut entry = vec![0x40, 0x7f, 0xa1, 0x1e];
    entry.resize(4 + 4_000, b'x');
    entry.push(0);
    let status = block(&[(":status", "200")]);
    let grows = [&status[..], &entry, &[0xbe; 9_999]].concat();
    let server = Server::new().frame(kind::HEADERS, 5, 1, &grows);
    let uses = [&status[..], &[0xbe]].concat();
    let server = server.frame(kind::HEADERS, 5, 3, &uses).ok(5, 1);
    client.receive(&server.0, 1_000).unwrap();
    assert_eq!(client.seen.all(), "HeaderTooLarge, 200 0, 200 0");
    assert!(kept(&client) < MOST, "{} bytes", kept(&client));
}
