//! Caddy before a server.

use super::backend::Backend;
use super::{Known, check, requests, send, wait_for_lines};
use crate::rig::{Other, have};

#[test]
fn logs_of_caddy() {
    if !have("caddy") {
        return;
    }
    let backend = Backend::start();
    let config = format!(
        "{{
    admin off
    auto_https off
}}
http://127.0.0.1:@PORT@ {{
    bind 127.0.0.1
    log {{
        output file @DIR@/access.log
        format json
    }}
    reverse_proxy 127.0.0.1:{}
}}
",
        backend.port
    );
    let arguments = ["run", "--adapter", "caddyfile", "--config"];
    let server = Other::start("caddy", &arguments, &config);
    // Go refuses an encoded byte without two digits before Caddy has it.
    let accepted = |target: &str| !target.contains("%r");
    let sent = send(server.port, &requests(accepted), Some(&backend));
    let log = server.file("access.log");
    wait_for_lines(&log, sent.len());
    for format in [
        None,
        Some("caddy"),
        Some("json time=ts took-s=duration method=request.method path=request.uri"),
    ] {
        check("caddy", &log, &sent, Known { format, ..Known::default() });
    }
}
