//! Times are correct, and all of them are numbers.

use super::{extras, numbers, ours};
use crate::reserved::reserved_port;
use crate::server::Server;

/// The original records lifetimes in whole milliseconds, up to 100 s.
#[test]
fn d17_the_median_is_between_the_lifetimes() {
    let server = Server::start();
    for calls in ["--num-calls=1", "--num-calls=2"] {
        let ended = ours(&server, &["--uri=/delay30", "--num-conns=5", calls]);
        let [least, median, most] = numbers(&ended, ["life_min", "life_median", "life_max"]);
        assert!(least > 0.0 && (least..=most).contains(&median), "{ended:?}");
    }
}

#[test]
fn d20_there_is_no_division_by_zero() {
    let server = Server::start();
    let dead = format!("--port={}", reserved_port());
    for args in [
        &["--num-conns=0"][..],
        &["--num-conns=0", "-vv"],
        &["--wsess=0,3,1"],
        &[&dead, "--num-conns=3", "-vv"],
        &[&dead, "--wsess=2,3,0"],
        &["--uri=/empty", "--num-conns=2"],
    ] {
        let ended = ours(&server, args);
        // The parser requires that all are numbers.
        let [replies, response] = numbers(&ended, ["replies", "response"]);
        assert_eq!((replies, response), (0.0, 0.0), "{ended:?}");
        let text = ended.stdout.to_lowercase();
        assert!(!text.contains("nan") && !text.contains("inf"), "{ended:?}");
    }
}

/// A server that handles one request at a time gets twice the rate that it can handle: the last
/// reply arrives a second after its request was due.
#[test]
fn d21_the_time_from_the_schedule_is_reported() {
    let server = Server::start();
    let ended = ours(&server, &["--uri=/delay20", "--num-conns=30", "--rate=50"]);
    let text = extras(&ended);
    for line in ["from the schedule", "from the send", "behind the schedule"] {
        assert!(text.contains(line), "no `{line}` in {ended:?}");
    }
}

/// A stuck run would reach the time limit of the test, and have no report.
#[test]
fn runs_end_with_any_reply() {
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
            // A few MB, whatever the server sends.
            assert!(ended.memory_kb < 60_000, "{path}: {ended:?}");
        }
    }
}

/// The times of a run with known ones, which no other load makes shorter.
#[test]
fn the_means_match_the_server() {
    let server = Server::start();
    let args = ["--uri=/delay50", "--num-conns=2", "--num-calls=3", "--burst-length=3"];
    let ended = ours(&server, &args);
    let [response, lifetime] = numbers(&ended, ["response", "life_avg"]);
    // Three concurrent requests with replies after 50, 100 and 150 ms. The lifetime has the last of
    // them, and the connect.
    assert!(response >= 100.0 && lifetime >= 150.0, "{response} and {lifetime} ms");
    assert!(response <= lifetime, "{response} and {lifetime} ms");
}
