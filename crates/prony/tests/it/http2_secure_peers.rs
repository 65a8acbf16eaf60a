//! HTTP/2 over TLS to other servers, as ALPN negotiates it: nginx, haproxy, nghttpd, h2o, Node.js.
//! What prony counts is what they have logged.

use std::sync::MutexGuard;

use crate::http2_peers::{find, lines, load_at};
use crate::rig::{Other, alone};
use crate::tls::{Certificates, url};

/// Load the server over TLS. `log` is the file in which it logs each request, with this text.
fn load(server: &Other, certificates: &Certificates, more: &[&str], (log, text): (&str, &str)) {
    let ca = certificates.path("ca.pem");
    let url = url(server, "/config");
    let secure = ["--http2", "--cacert", &ca];
    load_at(server, &url, &[&secure[..], more].concat(), |server| lines(server, log, text));
}

/// The certificates for a server, and the machine for this test; `None` if it is not installed.
fn prepared(server: &str) -> Option<(MutexGuard<'static, ()>, Certificates)> {
    find(server).then(|| (alone(), Certificates::new()))
}

/// The configuration with the paths of a certificate and its key.
fn with(certificates: &Certificates, config: &str) -> String {
    let of = |name| certificates.path(name);
    let config = config.replace("@BOTH@", &of("server.both.pem"));
    config.replace("@CERT@", &of("server.pem")).replace("@KEY@", &of("server.key"))
}

#[test]
fn counters_agree_with_nginx() {
    let Some((_alone, certificates)) = prepared("nginx") else { return };
    let config = "
    access_log @DIR@/access.log;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:@PORT@ ssl http2;
        ssl_certificate @CERT@;
        ssl_certificate_key @KEY@;
        location / { return 200 'hello'; }
    }
";
    let server = Other::nginx(&with(&certificates, config));
    load(&server, &certificates, &["--expect-length", "5"], ("access.log", "HTTP/2.0"));
}

/// One thread: a second one drops the lines that it cannot write at once.
#[test]
fn counters_agree_with_haproxy() {
    let Some((_alone, certificates)) = prepared("haproxy") else { return };
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
    bind 127.0.0.1:@PORT@ ssl crt @BOTH@ alpn h2,http/1.1
    http-request return status 200 content-type text/plain string hello
";
    let server = Other::start("haproxy", &["-db", "-f"], &with(&certificates, config));
    load(&server, &certificates, &["--expect-length", "5"], ("log", "HTTP/2.0\""));
}

#[test]
fn counters_agree_with_nghttpd() {
    let Some((_alone, certificates)) = prepared("nghttpd") else { return };
    let script = with(&certificates, "exec nghttpd -v -d @DIR@ @PORT@ @KEY@ @CERT@");
    let server = Other::start("sh", &[], &script);
    load(&server, &certificates, &[], ("log", "recv HEADERS frame"));
}

#[test]
fn counters_agree_with_h2o() {
    let Some((_alone, certificates)) = prepared("h2o") else { return };
    let config = "
user: root
listen: {host: 127.0.0.1, port: @PORT@, ssl: {certificate-file: @CERT@, key-file: @KEY@}}
access-log: {path: @DIR@/access.log, format: '%H %s'}
hosts: {default: {paths: {/: {file.dir: @DIR@}}}}
";
    let server = Other::start("h2o", &["-c"], &with(&certificates, config));
    load(&server, &certificates, &[], ("access.log", "HTTP/2 200"));
}

#[test]
fn counters_agree_with_node() {
    let Some((_alone, certificates)) = prepared("node") else { return };
    let script = "
const fs = require('fs');
const log = fs.openSync('@DIR@/served', 'a');
const keys = {cert: fs.readFileSync('@CERT@'), key: fs.readFileSync('@KEY@')};
const server = require('http2').createSecureServer(keys);
server.on('stream', (stream, headers) => {
    fs.writeSync(log, headers[':method'] + '\\n');
    stream.respond({':status': 200});
    stream.pipe(stream);
});
server.listen(@PORT@, '127.0.0.1');
";
    let server = Other::start("node", &[], &with(&certificates, script));
    let body = "x".repeat(5_000);
    load(&server, &certificates, &["-b", &body, "--expect-length", "5000"], ("served", "POST"));
}
