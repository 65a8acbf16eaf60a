//! Bursts to servers that close each connection after a number of replies.

use crate::closer::Closer;
use crate::program::{Ended, Run, Which, have};

fn run(server: &Closer, which: Which, words: &str) -> Ended {
    let line = format!("--server 127.0.0.1 --port {} --uri / {words}", server.port);
    let words: Vec<&str> = line.split_whitespace().collect();
    let ended = Run::new(&words).run(which);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

/// The number that follows these words.
fn number(ended: &Ended, words: &str) -> u64 {
    let (_, rest) = ended.stdout.split_once(words).unwrap_or_else(|| panic!("{words}: {ended:?}"));
    let word = rest.split_whitespace().next().expect("a number");
    word.parse().expect("a number")
}

/// Calls after a reply that announces the close are made on a new connection, as are all calls that
/// were not made yet.
#[test]
fn calls_after_an_announced_close_are_made_on_a_new_connection() {
    for (replies, words, calls) in [
        (100, "--num-conns 10 --num-calls 300 --burst-length 8", 3_000),
        (1, "--num-conns 20 --num-calls 12 --burst-length 4", 240),
        (3, "--num-conns 20 --num-calls 12 --burst-length 12", 240),
        (3, "--num-conns 20 --num-calls 12 --burst-length 1", 240),
        (3, "--wsess 5,12,0 --burst-length 4", 60),
    ] {
        let server = Closer::start(replies, true);
        let ended = run(&server, Which::Ours, words);
        let counts = [" replies ", "Errors: total "].map(|name| number(&ended, name));
        assert_eq!((counts, server.served()), ([calls, 0], calls), "{words}: {ended:?}");
        assert!(number(&ended, " requests ") >= calls, "{words}: {ended:?}");
    }
}

/// Without an announcement, the calls of a connection are lost, as in httperf, and each such
/// connection counts as `connreset`.
#[test]
fn a_close_without_an_announcement_is_a_connreset() {
    let words = "--num-conns 10 --num-calls 12 --burst-length 4 --rate 100";
    for which in [Which::Old, Which::Ours] {
        if which == Which::Old && !have("httperf") {
            continue;
        }
        let server = Closer::start(6, false);
        let ended = run(&server, which, words);
        let counts =
            [" replies ", "Errors: total ", " connreset "].map(|name| number(&ended, name));
        assert_eq!((counts, server.served()), ([60, 10, 10], 60), "{which:?}: {ended:?}");
    }
}
