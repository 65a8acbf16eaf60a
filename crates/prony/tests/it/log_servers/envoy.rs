//! Envoy before a server.

use std::time::Duration;

use serde_json::{Value, json};

use super::backend::Backend;
use super::{Known, check, requests, send, wait_for_lines};
use crate::rig::Other;

const TYPE: &str = "type.googleapis.com/envoy.extensions";

/// A log in the default format of text, or in JSON with these fields.
fn log(name: &str, fields: Option<Value>) -> Value {
    let kind = format!("{TYPE}.access_loggers.file.v3.FileAccessLog");
    let mut config = json!({"@type": kind, "path": format!("@DIR@/{name}.log")});
    if let Some(fields) = fields {
        config["log_format"] = json!({"json_format": fields});
    }
    json!({"name": "envoy.access_loggers.file", "typed_config": config})
}

fn config(backend: &Backend) -> String {
    let path = "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%";
    let usual = json!({"start_time": "%START_TIME%", "method": "%REQ(:METHOD)%", "path": path,
        "duration": "%DURATION%", "response_code": "%RESPONSE_CODE%",
        "user_agent": "%REQ(USER-AGENT)%"});
    let own = json!({"ua": "%REQ(USER-AGENT)%", "at": "%START_TIME(%s.%6f)%", "what": path,
        "how": "%REQ(:METHOD)%"});
    let router = json!({"@type": format!("{TYPE}.filters.http.router.v3.Router")});
    let manager = json!({
        "@type":
            format!("{TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "p",
        "codec_type": "HTTP1",
        "access_log": [log("text", None), log("json", Some(usual)), log("own", Some(own))],
        "route_config": {"virtual_hosts": [{"name": "b", "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "s"}}]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    });
    let address =
        |port: Value| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let endpoint = json!({"endpoint": {"address": address(backend.port.into())}});
    let cluster = json!({"name": "s", "type": "STATIC", "load_assignment":
        {"cluster_name": "s", "endpoints": [{"lb_endpoints": [endpoint]}]}});
    let listener = json!({"address": address("@PORT@".into()), "filter_chains": [{"filters": [
        {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}]});
    let config = json!({"static_resources": {"listeners": [listener], "clusters": [cluster]}});
    config.to_string().replace("\"@PORT@\"", "@PORT@")
}

#[test]
fn logs_of_envoy() {
    let Ok(program) = std::env::var("PRONY_TEST_ENVOY") else {
        eprintln!("skipped: PRONY_TEST_ENVOY names no Envoy");
        return;
    };
    let backend = Backend::start();
    let arguments = [
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "error",
        // It would write its logs every ten seconds.
        "--file-flush-interval-msec",
        "100",
        "-c",
    ];
    let server = Other::start(&program, &arguments, &config(&backend));
    let sent = send(server.port, &requests(|target| target.is_ascii()), Some(&backend));
    let step = Duration::from_millis(1);
    for (name, format) in [
        ("text", None),
        ("text", Some("envoy-text")),
        ("json", None),
        ("json", Some("envoy")),
        ("own", Some("json time=at method=how path=what")),
    ] {
        let log = server.file(&format!("{name}.log"));
        wait_for_lines(&log, sent.len());
        check("envoy", &log, &sent, Known { format, step, ..Known::default() });
    }
}
