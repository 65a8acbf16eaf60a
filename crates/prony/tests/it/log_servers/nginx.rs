//! nginx before a server, with two upstreams that are down.

use std::time::Duration;

use super::backend::Backend;
use super::{Known, Request, check, requests, send, wait_for_lines};
use crate::rig::{Other, have, reserved_port, side_by_side};

/// What each format has, as its variables stand in the configuration.
const FORMATS: [(&str, &str, &str); 11] = [
    (
        "combined",
        "",
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
         \"$http_referer\" \"$http_user_agent\"",
    ),
    (
        "main",
        "",
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
         \"$http_referer\" \"$http_user_agent\" rt=$request_time uct=$upstream_connect_time \
         uht=$upstream_header_time urt=$upstream_response_time",
    ),
    (
        "lists_first",
        "",
        "$msec $upstream_response_time $upstream_addr $upstream_status $request_time \
         $request_method $request_uri $status",
    ),
    ("upstreams_only", "", "[$msec] $upstream_response_time \"$request\" $status"),
    (
        "without_marks",
        "",
        "$remote_addr $time_iso8601 $msec $request_time $request $status $http_user_agent",
    ),
    (
        "json",
        "escape=json ",
        "{\"t\":$msec,\"rt\":$request_time,\"m\":\"$request_method\",\"u\":\"$request_uri\",\
         \"ua\":\"$http_user_agent\",\"s\":$status,\"up\":\"$upstream_response_time\"}",
    ),
    ("none", "escape=none ", "$msec \"$request\" $status $request_time \"$http_user_agent\""),
    (
        "tabs",
        "escape=default ",
        "$msec\\t$request_method\\t$request_uri\\t$http_user_agent\\t$upstream_addr\\t$request_time",
    ),
    ("commas", "", "$msec,$request_time,$request_method,$request_uri,$status,$upstream_status"),
    (
        "urls",
        "",
        "$scheme://$host$request_uri $request_method $msec $request_time $upstream_status \
         \"$http_cookie\"",
    ),
    (
        "agent_first",
        "",
        "$http_user_agent | $upstream_response_time | $request | $status | $msec | $request_time",
    ),
];

fn config(backend: &Backend, dead: [u16; 2]) -> String {
    let mut text = String::new();
    for (name, escape, format) in FORMATS {
        let quoted = format.replace('\'', "\\'");
        text += &format!("log_format f_{name} {escape}'{quoted}';\n");
        text += &format!("access_log @DIR@/{name}.log f_{name};\n");
    }
    let (port, [a, b]) = (backend.port, dead);
    let down = |port: u16| format!("server 127.0.0.1:{port} max_fails=0;\n");
    format!(
        "{text}
        large_client_header_buffers 4 16k;
        merge_slashes off;
        upstream pool {{ {}{} server 127.0.0.1:{port} max_fails=0; }}
        server {{
            listen 127.0.0.1:@PORT@;
            location / {{ proxy_pass http://pool; proxy_next_upstream_tries 0; }}
            location /other/ {{ internal; proxy_pass http://pool; }}
        }}",
        down(a),
        down(b),
    )
}

/// Every format has the requests that were sent, byte for byte, at the times at which they were.
#[test]
fn logs_of_nginx() {
    if !have("nginx") {
        return;
    }
    let (backend, dead) = (Backend::start(), [reserved_port(), reserved_port()]);
    let server = Other::nginx(&config(&backend, dead));
    let sent = send(server.port, &requests(|_| true), Some(&backend));
    let second = Duration::from_secs(1);
    side_by_side(FORMATS, |(name, escape, format)| {
        let log = server.file(&format!("{name}.log"));
        wait_for_lines(&log, sent.len());
        let text = format.replace("\\t", "\t");
        let with_escape = format!("{escape}{text}");
        let known = match name {
            "combined" => Known { step: second, ..Known::default() },
            "main" => Known { step: second, format: Some(&with_escape), ..Known::default() },
            "upstreams_only" | "without_marks" | "none" | "agent_first" => {
                Known { format: Some(&with_escape), ..Known::default() }
            }
            // nginx has no path of a request that it has refused, and no host either.
            "urls" => Known { format: Some(&with_escape), bad: 1, has, ..Known::default() },
            _ => Known { format: Some(&with_escape), no_request: 1, has, ..Known::default() },
        };
        check("nginx", &log, &sent, known);
        if name == "json" {
            let names = "json time=t took-s=rt method=m path=u status=s";
            let format = Some(names);
            check("nginx", &log, &sent, Known { format, no_request: 1, has, ..Known::default() });
        }
    });
    let dead_ends = std::fs::read_to_string(server.file("lists_first.log")).expect("a log");
    assert!(dead_ends.contains(" 502, ") || dead_ends.contains(", 502"), "{dead_ends}");
    assert!(dead_ends.contains(" : "), "an internal redirect: {dead_ends}");
}

/// Whether nginx has accepted a request; an encoded byte must have two digits.
fn has(request: &Request) -> bool {
    request.target != b"/$request_uri/%r/%h"
}
