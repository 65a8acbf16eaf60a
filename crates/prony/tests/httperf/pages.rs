//! `--wsesspage`: pages and their embedded files.

use crate::program::{Ended, Run, Which, have};
use crate::reserved::reserved_port;
use crate::server::Server;

fn run(port: u16, args: &[&str], which: Which) -> Ended {
    let own = ["--server=127.0.0.1".to_owned(), format!("--port={port}")];
    let all = own.into_iter().chain(args.iter().map(|&a| a.to_owned()));
    Run::new(&all.collect::<Vec<_>>()).run(which)
}

/// The paths of each connection, in order; the connections are sorted.
fn asked(server: &Server) -> Vec<String> {
    let paths = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let gets = text.lines().filter_map(|l| l.strip_prefix("GET ")?.split(' ').next());
        gets.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let mut all: Vec<_> = server.seen().iter().map(|s| paths(&s.bytes)).collect();
    all.sort();
    all
}

#[test]
fn every_session_fetches_the_page_and_its_embedded_files() {
    for (uri, calls, found, one_by_one) in [
        ("/html", 2, "/html and 1 more, found by 1 request", "/html /a.gif"),
        ("/moved", 3, "/moved and 2 more, found by 2 requests", "/moved /html /a.gif"),
        (
            "/frames",
            5,
            "/frames and 4 more, found by 2 requests",
            "/frames /pict1.gif /html /pict2.gif /a.gif",
        ),
        ("/pict", 1, "/pict and 0 more, found by 1 request", "/pict"),
    ] {
        let server = Server::start();
        let uri = format!("--uri={uri}");
        let args = ["--wsesspage=2,3,0.05", "--max-connections=1", &uri];
        let ended = run(server.port, &args, Which::Ours);
        let report = ended.report();
        let reported = ["requests", "replies", "sess_good", "sess_all", "errors"];
        let calls = f64::from(calls);
        assert_eq!(reported.map(|n| report.get(n)), [6.0 * calls, 6.0 * calls, 2.0, 2.0, 0.0]);
        assert!(ended.stderr.contains(found), "{ended:?}");
        // Two consecutive pauses in each session.
        assert!(report.get("duration") >= 0.2, "{ended:?}");
        let session = [one_by_one; 3].join(" ");
        let asked = asked(&server);
        assert_eq!(asked.iter().filter(|paths| **paths == session).count(), 2, "{asked:?}");
    }
}

#[test]
fn a_page_that_cannot_be_read_has_no_embedded_files() {
    let ended = run(reserved_port(), &["--wsesspage=2,1,0", "--uri=/html"], Which::Ours);
    assert!(ended.stderr.contains("could not be read beforehand: no server listens"), "{ended:?}");
    let report = ended.report();
    let reported = ["connections", "connrefused", "sess_good", "sess_all"];
    assert_eq!(reported.map(|n| report.get(n)), [2.0, 2.0, 0.0, 2.0], "{ended:?}");
}

#[test]
fn explain_shows_the_pages_that_were_found() {
    let server = Server::start();
    let args = ["--wsesspage=4,2,1", "--uri=/frames", "--explain"];
    let ended = run(server.port, &args, Which::Ours);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for path in ["/frames", "/pict1.gif", "/html", "/pict2.gif", "/a.gif"] {
        assert!(ended.stdout.contains(&format!("{path}\"")), "{path}: {ended:?}");
    }
    // Only the page and its frame were requested.
    assert_eq!(asked(&server), ["/frames", "/html"]);
}

/// The original fails an assertion if a page embeds files. Without embedded files, both do the
/// same.
#[test]
fn a_page_without_embedded_files_is_fetched_as_by_the_original() {
    if !have("httperf") {
        return;
    }
    let server = Server::start();
    let args = ["--wsesspage=3,4,0.02", "--uri=/pict"];
    let names = ["connections", "requests", "replies", "req_size", "s2xx", "errors"];
    let sessions = ["sess_good", "sess_all", "sess_connections"];
    let of = |which| {
        let ended = run(server.port, &args, which);
        let (report, echo) = (ended.report(), ended.report().echo);
        (names.iter().chain(&sessions).map(|n| report.get(n)).collect::<Vec<_>>(), echo)
    };
    assert_eq!(of(Which::Old), of(Which::Ours));
    for args in ["x", "1", "1,x", "1,2,x", "1,2,-1", "1,2,3,4"] {
        let of = |which| {
            let ended = run(server.port, &[&format!("--wsesspage={args}")], which);
            (ended.code, ended.stderr)
        };
        assert_eq!(of(Which::Old), of(Which::Ours), "{args}");
    }
    let relative = ["--wsesspage=1,1,0", "--uri=x"];
    let ours = run(server.port, &relative, Which::Ours);
    let words = "httperf: URI specified with --uri must be absolute\n";
    assert_eq!((ours.code, ours.stderr.as_str()), (Some(1), words));
    let old = run(server.port, &relative, Which::Old);
    assert!(old.code == Some(1) && old.stderr.contains(words.trim_end()), "{old:?}");
}
