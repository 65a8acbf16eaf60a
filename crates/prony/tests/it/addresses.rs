//! A host that lacks an address to connect from, and one that has no port left, in networks of
//! their own. The kernel's error is the same for both.

use std::process::Command;

use serde_json::Value;

use crate::rig::Report;

/// Run a shell script in a network with only a loopback device; `None` where this machine allows no
/// such network.
fn apart(script: &str) -> Option<String> {
    let run = |script: &str| {
        let up = "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up || exit 3";
        Command::new("unshare").args(["-rn", "bash", "-c", &format!("{up}; {script}")]).output()
    };
    if !run("true").is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: this machine allows no network namespaces, or has no `ip`");
        return None;
    }
    let out = run(script).expect("unshare");
    Some(String::from_utf8(out.stdout).expect("a report"))
}

const PRONY: &str = env!("CARGO_BIN_EXE_prony");
const NO_IPV6: &str = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";

fn report(json: &str) -> Report {
    Report(serde_json::from_str::<Value>(json).unwrap_or_else(|e| panic!("{e}: {json}")))
}

#[test]
fn a_missing_address_is_not_reported_as_missing_ports() {
    for driver in ["epoll", "uring"] {
        let run = format!("{PRONY} --driver {driver} -n 10 -c 2 -t 1 --quiet");
        let target = "'http://[::1]:8080/'";
        let Some(out) = apart(&format!("{NO_IPV6}; {run} --json {target}")) else { return };
        let report = report(&out);
        let of = |fault| report.errors(fault);
        assert_eq!((of("no-address"), of("no-ports")), (10, 0), "{driver}");
        assert_eq!(report.verdict(), "CLIENT-LIMITED");
        let text = apart(&format!("{NO_IPV6}; {run} {target}")).expect("as before");
        assert!(text.contains("this host has no address to connect from"), "{text}");
        assert!(text.contains("--source") && text.contains("IPv6"), "{text}");
        assert!(!text.contains("local port"), "{text}");
    }
}

#[test]
fn reports_exhausted_ports() {
    for driver in ["epoll", "uring"] {
        let script = format!(
            "echo 40000 40009 > /proc/sys/net/ipv4/ip_local_port_range; \
             {PRONY} serve 127.0.0.1:8080 --latency fixed:20ms --quiet >/dev/null 2>&1 & S=$!; \
             for i in $(seq 200); do grep -q ' 0A ' /proc/self/net/tcp && break; sleep 0.05; done; \
             {PRONY} -c 6 -d 30s --quiet http://127.0.0.1:8080/ >/dev/null 2>&1 & L=$!; \
             for i in $(seq 200); do [ $(grep -c ' 01 ' /proc/self/net/tcp) -ge 12 ] && break; sleep 0.05; done; \
             {PRONY} --driver {driver} -n 60 -c 8 -t 1 --no-reuse --json --quiet http://127.0.0.1:8080/; \
             kill -9 $L; kill $S"
        );
        let Some(out) = apart(&script) else { return };
        let report = report(&out);
        assert!(report.errors("no-ports") >= 1, "{driver}: {}", report.0["measurement"]["errors"]);
        assert_eq!(report.errors("no-address"), 0, "{driver}");
        assert_eq!(report.verdict(), "CLIENT-LIMITED");
    }
}
