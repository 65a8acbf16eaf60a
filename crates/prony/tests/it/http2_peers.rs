//! HTTP/2 to other servers: haproxy, nghttpd, h2o, Node.js, Go, hypercorn. What prony counts is
//! what they have logged.

use std::path::Path;
use std::process::Command;

use crate::rig::{Other, alone, have, measure};

const REQUESTS: u64 = 2_000;

/// Whether a program is installed that not every machine can have.
pub(crate) fn find(program: &str) -> bool {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs = std::env::split_paths(&dirs).chain(["/usr/sbin".into()]);
    let found = dirs.any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Load the server without TLS. `counted` returns how many requests it has logged.
fn load(server: &Other, path: &str, more: &[&str], counted: impl Fn(&Other) -> u64) {
    load_at(server, &server.url(path), &[&["--h2c"], more].concat(), counted);
}

/// Load the URL of a server in a closed and in an open loop.
pub(crate) fn load_at(server: &Other, url: &str, more: &[&str], counted: impl Fn(&Other) -> u64) {
    let closed = ["-c", "2", "--streams", "10"];
    let open = ["-c", "3", "-r", "1k"];
    let mut all = 0;
    for how in [&closed[..], &open] {
        let n = REQUESTS.to_string();
        let report = measure(&[how, &["-n", &n, url], more].concat());
        report.check_sums();
        let (counts, errors) = (["replies", "failed"], &report.0["measurement"]["errors"]);
        assert_eq!(counts.map(|name| report.count(name)), [REQUESTS, 0], "{errors:#}");
        assert_eq!(report.status(200), REQUESTS);
        let http2 = &report.0["measurement"]["tally"]["http2"];
        assert!(http2["connections"].as_u64().is_some_and(|n| n > 0), "{http2}");
        all += REQUESTS;
        // A log may be written after the reply.
        let written = || counted(server) >= all;
        crate::rig::wait_until(&format!("{all} requests in the server's log"), written);
        assert_eq!(counted(server), all);
    }
}

/// The lines with this text in a log of the server.
pub(crate) fn lines(server: &Other, log: &str, text: &str) -> u64 {
    let log = std::fs::read_to_string(server.file(log)).unwrap_or_default();
    log.lines().filter(|line| line.contains(text)).count() as u64
}

/// One thread: a second one drops the lines that it cannot write at once.
#[test]
fn counters_agree_with_haproxy() {
    if !have("haproxy") {
        return;
    }
    let _alone = alone();
    let config = "
global
    nbthread 1
    log stdout format raw local0
defaults
    mode http
    log global
    option httplog
    timeout client 10s
frontend f
    bind 127.0.0.1:@PORT@ proto h2
    http-request return status 200 content-type text/plain string hello
";
    let server = Other::start("haproxy", &["-db", "-f"], config);
    load(&server, "/", &["--expect-length", "5"], |server| lines(server, "log", "HTTP/2.0\""));
}

#[test]
fn counters_agree_with_nghttpd() {
    if !find("nghttpd") {
        return;
    }
    let _alone = alone();
    let server = Other::start("sh", &[], "exec nghttpd -v --no-tls -d @DIR@ @PORT@");
    load(&server, "/config", &[], |server| lines(server, "log", "recv HEADERS frame"));
}

#[test]
fn counters_agree_with_h2o() {
    if !find("h2o") {
        return;
    }
    let _alone = alone();
    let config = "
user: root
listen: {host: 127.0.0.1, port: @PORT@}
access-log: {path: @DIR@/access.log, format: '%H %s'}
hosts: {default: {paths: {/: {file.dir: @DIR@}}}}
";
    let server = Other::start("h2o", &["-c"], config);
    load(&server, "/config", &[], |server| lines(server, "access.log", "HTTP/2 200"));
}

#[test]
fn counters_agree_with_node() {
    if !find("node") {
        return;
    }
    let _alone = alone();
    let script = "
const log = require('fs').openSync('@DIR@/served', 'a');
const server = require('http2').createServer();
server.on('stream', (stream, headers) => {
    require('fs').writeSync(log, headers[':method'] + '\\n');
    stream.respond({':status': 200});
    stream.pipe(stream);
});
server.listen(@PORT@, '127.0.0.1');
";
    let server = Other::start("node", &[], script);
    let body = "x".repeat(5_000);
    let echo = ["-b", &body, "--expect-length", "5000"];
    load(&server, "/", &echo, |server| lines(server, "served", "POST"));
}

#[test]
fn counters_agree_with_go() {
    if !find("go") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let program = go(folder.path());
    let server = Other::start(&program, &[], "127.0.0.1:@PORT@ @DIR@/served");
    let body = "x".repeat(5_000);
    let echo = ["-b", &body, "--expect-length", "5000"];
    load(&server, "/", &echo, |server| lines(server, "served", "HTTP/2.0"));
}

/// A server of Go's standard library that echoes.
fn go(folder: &Path) -> String {
    let (source, program) = (folder.join("main.go"), folder.join("server"));
    let code = r#"package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
    text, _ := os.ReadFile(os.Args[1])
    var address, path string
    fmt.Sscan(string(text), &address, &path)
    log, _ := os.Create(path)
    var protocols http.Protocols
    protocols.SetUnencryptedHTTP2(true)
    echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
        fmt.Fprintln(log, r.Proto)
        io.Copy(w, r.Body)
    })
    server := http.Server{Addr: address, Protocols: &protocols, Handler: echo}
    panic(server.ListenAndServe())
}
"#;
    std::fs::write(&source, code).expect("written");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).args([&program, &source]);
    let output = build.env("GOFLAGS", "-modcacherw").output().expect("it was there a moment ago");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn counters_agree_with_hypercorn() {
    let Ok(python) = std::env::var("PRONY_TEST_HYPERCORN") else {
        eprintln!("skipped: PRONY_TEST_HYPERCORN names no Python");
        return;
    };
    let _alone = alone();
    let script = "
import asyncio
from hypercorn.asyncio import serve
from hypercorn.config import Config

log = open('@DIR@/served', 'w', buffering=1)

async def app(scope, receive, send):
    if scope['type'] != 'http':
        return
    body, more = b'', True
    while more:
        message = await receive()
        body += message.get('body', b'')
        more = message.get('more_body', False)
    print('HTTP/' + scope['http_version'], file=log)
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    await send({'type': 'http.response.body', 'body': body})

config = Config()
config.bind = ['127.0.0.1:@PORT@']
config.h2_max_concurrent_streams = 20
config.keep_alive_max_requests = 1000000
asyncio.run(serve(app, config))
";
    let server = Other::start(&python, &[], script);
    let body = "x".repeat(500);
    // It ends a connection with more streams than its limit, and one that is slow to open gets as
    // many at once as have been waiting for it.
    let echo = ["-b", &body, "--expect-length", "500", "--wait-settings"];
    load(&server, "/", &echo, |server| lines(server, "served", "HTTP/2"));
}
