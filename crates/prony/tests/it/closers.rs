//! Servers that close each connection after a number of replies: requests sent after the last reply
//! are sent again, and the counters of both sides agree.

use crate::closer::Closer;
use crate::rig::{measure, side_by_side};

#[test]
fn resends_requests_to_a_server_that_closes_connections() {
    side_by_side([(1, true), (3, true), (1, false), (3, false)], |(replies, announces)| {
        for load in [
            &["-c", "2", "-p", "1"][..],
            &["-c", "2", "-p", "2"],
            &["-c", "2", "-p", "4"],
            &["-c", "2", "-p", "8"],
            &["-c", "2", "-p", "64"],
            &["-c", "4", "-p", "8", "-r", "2k"],
        ] {
            let server = Closer::start(replies, announces);
            let url = format!("http://127.0.0.1:{}/", server.port);
            let rest = ["-n", "400", "-t", "1", &url];
            let report = measure(&[load, &rest].concat());
            let what = format!("{replies} replies, announced: {announces}, {load:?}");
            report.check_sums();
            let counts = ["started", "replies", "failed"].map(|name| report.count(name));
            assert_eq!((counts, server.served()), ([400, 400, 0], 400), "{what}");
        }
    });
}
