//! HAProxy before a server, with and without captured headers and the header of syslog.

use std::fs;
use std::time::Duration;

use super::backend::Backend;
use super::{Known, check, requests, send, wait_for_lines};
use crate::rig::{Other, have};

fn config(backend: &Backend, format: &str, captures: &str) -> String {
    format!(
        "
global
    nbthread 1
    tune.bufsize 32768
    log stdout len 4096 format {format} local0
defaults
    mode http
    log global
    option httplog
    option accept-invalid-http-request
    timeout client 10s
    timeout server 10s
    timeout connect 1s
frontend f
    bind 127.0.0.1:@PORT@
    {captures}
    default_backend b
backend b
    server s 127.0.0.1:{}
",
        backend.port
    )
}

#[test]
fn logs_of_haproxy() {
    if !have("haproxy") {
        return;
    }
    let captures = "capture request header User-Agent len 80\n    \
        capture request header Referer len 40";
    for (format, captures) in [("raw", ""), ("rfc3164", captures), ("rfc5424", captures)] {
        let backend = Backend::start();
        let server = Other::start("haproxy", &["-db", "-f"], &config(&backend, format, captures));
        let sent = send(server.port, &requests(|_| true), Some(&backend));
        // The check whether it listens is a line, too; what else it prints is none of a log.
        let raw = server.file("log");
        wait_for_lines(&raw, sent.len() + 1);
        let log = server.file("access.log");
        let lines = fs::read_to_string(&raw).expect("a log");
        let is_access = |line: &&str| line.contains(" f ") && line.contains('"');
        let mut text: String =
            lines.lines().filter(is_access).map(|line| line.to_owned() + "\n").collect();
        let no_request = text.lines().filter(|line| line.contains("<BADREQ>")).count() as u64;
        if format == "rfc3164" {
            // As a syslog server writes it.
            text = text.replace("<134>", "");
        }
        fs::write(&log, text).expect("written");
        for format in [None, Some("haproxy")] {
            let step = Duration::from_millis(1);
            check("haproxy", &log, &sent, Known { format, step, no_request, ..Known::default() });
        }
    }
}
