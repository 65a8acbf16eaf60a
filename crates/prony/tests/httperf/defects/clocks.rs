//! Times: which there are, and that all of them are numbers.

use super::{extras, numbers, ours};
use crate::program::{LIMIT, attempts};
use crate::server::{Server, dead_port};

/// The old one knows lifetimes by whole milliseconds only, and none of 100 s.
#[test]
fn d17_the_median_lies_among_the_lifetimes() {
    let server = Server::start();
    for calls in ["--num-calls=1", "--num-calls=2"] {
        let ended = ours(&server, &["--uri=/delay30", "--num-conns=5", calls]);
        let [least, median, most] = numbers(&ended, ["life_min", "life_median", "life_max"]);
        assert!(least > 0.0 && (least..=most).contains(&median), "{ended:?}");
    }
}

#[test]
fn d20_nothing_is_divided_by_nothing() {
    let server = Server::start();
    let dead = format!("--port={}", dead_port());
    for args in [
        &["--num-conns=0"][..],
        &["--num-conns=0", "-vv"],
        &["--wsess=0,3,1"],
        &[&dead, "--num-conns=3", "-vv"],
        &[&dead, "--wsess=2,3,0"],
        &["--uri=/empty", "--num-conns=2"],
    ] {
        let ended = ours(&server, args);
        // That all are numbers is what the reader of the report demands.
        let [replies, response] = numbers(&ended, ["replies", "response"]);
        assert_eq!((replies, response), (0.0, 0.0), "{ended:?}");
        let text = ended.stdout.to_lowercase();
        assert!(!text.contains("nan") && !text.contains("inf"), "{ended:?}");
    }
}

/// A server that answers one at a time and is asked twice as often as it can: the last reply comes
/// a second later than its request was due.
#[test]
fn d21_the_time_from_the_schedule_is_told() {
    let server = Server::start();
    let ended = ours(&server, &["--uri=/delay20", "--num-conns=30", "--rate=50"]);
    let text = extras(&ended);
    for line in ["from the schedule", "from the send", "behind the schedule"] {
        assert!(text.contains(line), "no `{line}` in {ended:?}");
    }
}

/// A stuck run would be ended by the reader's patience, which these stay far away from.
#[test]
fn no_reply_keeps_a_run_from_ending() {
    let server = Server::start();
    for path in ["headers1", "oneheader1", "statusline1", "interim1", "bodies1", "trailers1"]
        .iter()
        .chain(&["chunkline1", "drip20", "driphead20", "hang"])
    {
        for sessions in [&["--num-conns=2", "--num-calls=2"][..], &["--wsess=2,2,0"]] {
            let uri = format!("--uri=/{path}");
            let ended = ours(&server, &[sessions, &["--timeout=0.3", &uri]].concat());
            let [errors] = numbers(&ended, ["errors"]);
            assert!(errors >= 1.0, "{path}: {ended:?}");
            assert!(ended.took < LIMIT / 4, "{path}: {ended:?}");
            // Some MB, whatever the server sends.
            assert!(ended.memory_kb < 60_000, "{path}: {ended:?}");
        }
    }
}

/// The times of a run with known ones.
#[test]
fn the_means_are_those_of_the_server() {
    let server = Server::start();
    attempts(|| {
        let args = ["--uri=/delay50", "--num-conns=2", "--num-calls=3", "--burst-length=3"];
        let ended = ours(&server, &args);
        let [response, lifetime] = numbers(&ended, ["response", "life_avg"]);
        // Three requests at once, answered after 50, 100 and 150 ms.
        let near = (100.0..115.0).contains(&response) && (150.0..170.0).contains(&lifetime);
        if near { Ok(()) } else { Err(format!("{response} and {lifetime} ms")) }
    });
}
