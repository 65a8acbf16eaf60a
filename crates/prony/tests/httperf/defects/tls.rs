//! Errors with TLS.

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::{numbers, ours, run};
use crate::program::{Serve, Which, have};
use crate::server::Server;

/// nginx that terminates TLS and forwards requests to a port.
pub(crate) fn nginx_with_tls(upstream: u16, protocols: &str) -> Serve {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let config = NGINX.replace("@UP@", &upstream.to_string()).replace("@TLS@", protocols);
    Serve::nginx(&config, &[("cert", cert.pem()), ("key", signing_key.serialize_pem())])
}

const NGINX: &str = "
    daemon off;
    master_process off;
    pid @DIR@/pid;
    events { worker_connections 512; }
    http {
        access_log off;
        client_body_temp_path @DIR@/body;
        proxy_temp_path @DIR@/proxy;
        fastcgi_temp_path @DIR@/fastcgi;
        uwsgi_temp_path @DIR@/uwsgi;
        scgi_temp_path @DIR@/scgi;
        server {
            listen 127.0.0.1:@PORT@ ssl;
            ssl_certificate @DIR@/cert;
            ssl_certificate_key @DIR@/key;
            ssl_protocols @TLS@;
            location / { proxy_pass http://127.0.0.1:@UP@; }
        }
    }
";

#[test]
fn d13_timeouts_apply_with_tls() {
    if !have("nginx") {
        return;
    }
    let server = Server::start();
    for version in ["TLSv1.3", "TLSv1.2"] {
        let tls = nginx_with_tls(server.port, version);
        let args = ["--ssl", "--uri=/delay1500", "--timeout=0.4", "--num-conns=2", "--rate=10"];
        let ended = run(tls.port, &args).run(Which::Ours);
        let [replies, timeouts] = numbers(&ended, ["replies", "client_timo"]);
        assert_eq!((replies, timeouts), (0.0, 2.0), "{version}: {ended:?}");
        let answered = run(tls.port, &["--ssl", "--timeout=5", "--num-calls=3"]).run(Which::Ours);
        assert_eq!(numbers(&answered, ["replies", "errors"]), [3.0, 0.0], "{answered:?}");
    }
}

#[test]
fn d16_a_failed_handshake_is_an_error() {
    let server = Server::start();
    let ended = ours(&server, &["--ssl", "--num-conns=3", "--timeout=2"]);
    let [connections, replies, errors] = numbers(&ended, ["connections", "replies", "errors"]);
    assert_eq!((connections, replies, errors), (3.0, 0.0, 3.0), "{ended:?}");
    let dead = format!("--port={}", crate::reserved::reserved_port());
    let refused = ours(&server, &["--ssl", &dead, "--num-conns=3"]);
    assert_eq!(numbers(&refused, ["connrefused"]), [3.0], "{refused:?}");
}

/// The same requests with TLS, by the original and ours.
#[test]
fn counts_do_not_depend_on_tls() {
    if !have("nginx") || !have("httperf") {
        return;
    }
    let server = Server::start();
    let tls = nginx_with_tls(server.port, "TLSv1.2 TLSv1.3");
    for args in [
        &["--num-conns=5", "--num-calls=2"][..],
        &["--num-conns=6", "--num-calls=2", "--rate=50", "--ssl-no-reuse"],
        &["--wsess=3,4,0", "--burst-length=2"],
        &["--wsess=2,3,0", "--max-connections=2", "--uri=/s404"],
        &["--ssl-ciphers=ECDHE-ECDSA-AES128-GCM-SHA256", "--num-calls=2"],
    ] {
        let names = ["connections", "requests", "replies", "req_size", "reply_size", "errors"];
        let run = run(tls.port, &[&["--ssl"], args].concat());
        let [old, ours] = [Which::Old, Which::Ours].map(|which| run.run(which));
        assert_eq!(numbers(&old, names), numbers(&ours, names), "{args:?}");
        assert_eq!(old.report().histogram, ours.report().histogram);
        assert_eq!(old.report().echo, ours.report().echo);
    }
}
