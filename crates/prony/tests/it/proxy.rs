//! The real binary through a real proxy: tinyproxy. What prony counts is what the server has
//! served.

use crate::rig::{Other, Report, Serve, alone, drivers, have, measure, prony, served};
use crate::tls::{Certificates, nginx};

/// A proxy with a password.
fn tinyproxy() -> Other {
    let config = "
Port @PORT@
Listen 127.0.0.1
Timeout 60
MaxClients 200
LogLevel Connect
Allow 127.0.0.1
BasicAuth name pass
";
    Other::start("tinyproxy", &["-d", "-c"], config)
}

/// The options for this proxy, with its password.
fn through(proxy: &Other) -> [String; 4] {
    let address = format!("http://127.0.0.1:{}", proxy.port);
    ["--proxy".into(), address, "--proxy-user".into(), "name:pass".into()]
}

fn load(proxy: &[String; 4], more: &[&str]) -> Report {
    let proxy: Vec<&str> = proxy.iter().map(String::as_str).collect();
    let report = measure(&[&proxy, more].concat());
    report.check_sums();
    report
}

fn opened(report: &Report) -> Option<u64> {
    report.0["measurement"]["tally"]["proxy"]["opened"].as_u64()
}

/// Requests without TLS: forwarded, and through tunnels.
#[test]
fn a_server_gets_each_request_once() {
    if !have("tinyproxy") {
        return;
    }
    let _alone = alone();
    let proxy = tinyproxy();
    let options = through(&proxy);
    for driver in drivers() {
        for tunnel in [false, true] {
            let server = Serve::start(&["--size", "5"]);
            let url = server.url("/some/path?a=b");
            let mut args =
                vec!["-c", "2", "-n", "200", "--driver", driver, "--expect-length", "5", &url];
            if tunnel {
                args.push("--proxytunnel");
            }
            let report = load(&options, &args);
            assert_eq!((report.count("replies"), report.count("failed")), (200, 0), "{args:?}");
            assert_eq!(served(&server.stop(), "replies"), 200);
            // This proxy closes its connections after each forwarded request.
            assert_eq!(opened(&report), tunnel.then_some(2), "{args:?}");
        }
    }
}

/// Requests with TLS go through tunnels; the handshake is with the server.
#[test]
fn tls_goes_through_tunnels() {
    if !have("tinyproxy") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let proxy = tinyproxy();
    let options = through(&proxy);
    let certificates = Certificates::new();
    let server = nginx(&certificates, "server", "");
    let (ca, url) = (certificates.path("ca.pem"), crate::tls::url(&server, "/"));
    let report = load(&options, &["-c", "3", "-n", "300", "--cacert", &ca, &url]);
    assert_eq!((report.count("replies"), report.status(200)), (300, 300));
    assert_eq!(opened(&report), Some(3));
    let times = &report.0["measurement"]["times"];
    assert_eq!((&times["tunnel"]["count"], &times["handshake"]["count"]), (&3.into(), &3.into()));
    // No more connections than the proxy takes, however late replies are.
    let open = load(&options, &["-r", "500", "-n", "250", "-c", "10", "--cacert", &ca, &url]);
    assert_eq!((open.count("replies"), open.status(200)), (250, 250));
}

/// HTTP/2 and WebSocket start with a tunnel, also without TLS.
#[test]
fn other_protocols_go_through_tunnels() {
    if !have("tinyproxy") {
        return;
    }
    let _alone = alone();
    let proxy = tinyproxy();
    let options = through(&proxy);
    let server = Serve::start(&["--ws", "echo"]);
    let h2c = load(&options, &["-c", "2", "-n", "100", "--h2c", &server.url("/")]);
    assert_eq!((h2c.count("replies"), opened(&h2c)), (100, Some(2)));
    let url = server.url("/").replacen("http", "ws", 1);
    let ws = load(&options, &["-c", "2", "-n", "10", "-b", "hello", &url]);
    assert_eq!((ws.count("replies"), opened(&ws)), (10, Some(10)));
}

/// Without its password, the proxy opens no tunnels, and replies to other requests itself.
#[test]
fn a_proxy_that_refuses_is_reported() {
    if !have("tinyproxy") {
        return;
    }
    let proxy = tinyproxy();
    let address = format!("127.0.0.1:{}", proxy.port);
    let server = Serve::start(&[]);
    let url = server.url("/");
    let common = ["-x", &address, "-n", "5", "-c", "1", &url];
    let failed = |more: &[&str]| {
        let ended = prony(&[&common, more, &["--json", "--quiet", "--accept-invalid"]].concat());
        assert_eq!(ended.code, 1, "no request has succeeded: {ended:?}");
        ended.report()
    };
    let refused = failed(&["--proxytunnel"]);
    assert_eq!((refused.count("replies"), refused.errors("no-tunnel")), (0, 5));
    let reasons = &refused.0["measurement"]["tally"]["proxy"]["reasons"];
    assert!(reasons["status 407"].as_u64().is_some_and(|n| n > 0), "{reasons}");
    let forwarded = failed(&[]);
    assert_eq!((forwarded.status(407), forwarded.errors("unexpected-status")), (5, 5));
    assert_eq!(served(&server.stop(), "replies"), 0);
    // In words, too, and without the password; this proxy has another status for a wrong one.
    let secret = format!("http://name:wrong@{address}");
    let text = prony(&["-x", &secret, "--proxytunnel", "-n", "5", "-c", "1", &url, "--quiet"]);
    for part in ["no-tunnel", "the proxy opened no tunnel to the server", "proxy: status 401 ("] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    assert!(!text.stdout.contains("wrong") && !text.stderr.contains("wrong"), "{text:?}");
}
