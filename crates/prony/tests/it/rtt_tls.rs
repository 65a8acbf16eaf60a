//! `prony echo` and `prony serve` over TLS, with prony's own clients and with faulty peers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::rig::{Serve, drivers, measure, prony};
use crate::rtt::{Echo, count, rtt};
use crate::tls::Certificates;

const TLS: [&str; 2] = ["--transport", "tls"];

#[test]
fn both_sides_count_round_trips_over_tls() {
    let certificates = Certificates::new();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let ca = certificates.path("ca.pem");
    for (server, client) in
        [(&[][..], &["--insecure"][..]), (&["--cert", &cert, "--key", &key], &["--cacert", &ca])]
    {
        let echo = Echo::start(&[&["127.0.0.1:0"], &TLS[..], server].concat());
        let mut runs = 0;
        for driver in drivers().into_iter().chain(["auto"]) {
            let more = ["-n", "300", "--size", "1,40k", "--reply-size", "20k", "--driver", driver];
            let report = rtt(&[&[echo.at()], &TLS[..], client, &more].concat());
            assert_eq!((count(&report, "replies"), count(&report, "connected")), (300, 1));
            assert_eq!(report["measurement"]["tally"]["tls"]["full"], 1, "{driver}");
            runs += 1;
        }
        // With the framing of the ACE tests, the responder closes after the last exchange.
        let report = rtt(&[&[echo.at()], &TLS[..], client, &["-n", "50", "-c", "2"]].concat());
        assert_eq!((count(&report, "replies"), count(&report, "connected")), (50, 2));
        let done = echo.stop();
        assert_eq!(done["messages"], runs * 400 + 50 + 200);
        assert_eq!((&done["broken"], &done["refused"]), (&0.into(), &0.into()));
        assert_eq!(done["handshakes"], serde_json::json!({"done": runs + 2, "failed": 0}));
    }
}

#[test]
fn faulty_tls_peers_do_not_affect_others() {
    let echo = Echo::start(&[&["127.0.0.1:0"], &TLS[..]].concat());
    // A silent peer, and one that disconnects during the handshake.
    let silent = TcpStream::connect(echo.at()).expect("a connection");
    let mut dying = TcpStream::connect(echo.at()).expect("a connection");
    dying.write_all(&[22, 3, 1, 1, 0, 1]).expect("the beginning of a greeting");
    dying.shutdown(Shutdown::Both).expect("an end");
    // A peer without TLS gets an alert and a close.
    let mut plain = TcpStream::connect(echo.at()).expect("a connection");
    plain.write_all(&[1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 7]).expect("a message");
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).expect("an alert, and the end");
    assert_eq!(alert[0], 21, "{alert:?}");
    // A peer that does not trust the certificate.
    let args = [&["rtt", echo.at(), "-n", "3", "--quiet"], &TLS[..]].concat();
    let ended = prony(&args);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("tls-handshake"), "{}", ended.stdout);
    // A correct peer.
    let report = rtt(&[&[echo.at(), "-n", "20", "-k"], &TLS[..]].concat());
    assert_eq!(count(&report, "replies"), 20);
    drop(silent);
    let done = echo.stop();
    assert_eq!(done["handshakes"]["done"], 1);
    assert!(done["handshakes"]["failed"].as_u64() >= Some(3), "{done}");
    assert_eq!(done["messages"], 120);
}

/// A TLS client with a plain responder, and the reverse.
#[test]
fn reports_a_peer_without_tls() {
    let echo = Echo::start(&["127.0.0.1:0"]);
    let ended = prony(&[&["rtt", echo.at(), "-n", "3", "-k", "--quiet"], &TLS[..]].concat());
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("tls-handshake"), "{}", ended.stdout);
    let echo = Echo::start(&[&["127.0.0.1:0"], &TLS[..]].concat());
    let ended = prony(&["rtt", echo.at(), "-n", "3", "--quiet"]);
    assert_eq!(ended.code, 1, "{ended:?}");
}

#[test]
fn target_server_supports_tls() {
    for driver in drivers() {
        let server = Serve::start(&["--tls", "--size", "100000", "--driver", driver]);
        let url = server.url("");
        assert!(url.starts_with("https://"), "{url}");
        let load = ["-k", "-c", "3", "-p", "4", "-n", "200"];
        let report = measure(&[&load[..], &[&url]].concat());
        report.check_sums();
        assert_eq!((report.count("replies"), report.count("bytes_body")), (200, 20_000_000));
        let served = server.stop();
        assert_eq!(served["handshakes"]["done"], 3, "{driver}");
    }
}
