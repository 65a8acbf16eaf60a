//! gRPC of `prony serve` with independent clients: the interoperability client of grpc-go, grpcio
//! in Python, grpcurl. Their counts are the server's own.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use crate::rig::{Serve, alone, served};
use crate::tls::Certificates;

/// A program whose path a variable names, if it does.
fn named(variable: &str) -> Option<String> {
    let path = std::env::var(variable).ok();
    if path.is_none() {
        eprintln!("skipped: {variable} names no program");
    }
    path
}

fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> String {
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    let output = Command::new(program).args(args).output().expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {}: {text}{errors}", output.status);
    text
}

/// A server, its port, and what a client needs to trust it.
pub(crate) struct Target {
    pub(crate) server: Serve,
    pub(crate) port: String,
    pub(crate) ca: Option<String>,
    _certificates: Certificates,
}

impl Target {
    pub(crate) fn start(tls: bool, more: &[&str]) -> Self {
        let certificates = Certificates::new();
        let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
        let secure = ["--tls", "--cert", &cert, "--key", &key];
        let secure = if tls { &secure[..] } else { &[] };
        let server = Serve::start(&[&["--grpc"], secure, more].concat());
        let port = server.url("").rsplit_once(':').expect("a port").1.to_owned();
        let ca = tls.then(|| certificates.path("ca.pem"));
        Self { server, port, ca, _certificates: certificates }
    }
}

pub(crate) fn status(counters: &Value, name: &str) -> u64 {
    counters["grpc_statuses"][name].as_u64().unwrap_or(0)
}

/// The cases of grpc-go's client that need no account, with the statuses of the calls that end with
/// one.
const CASES: [(&str, &[(&str, u64)]); 17] = [
    ("empty_unary", &[("OK", 1)]),
    ("large_unary", &[("OK", 1)]),
    ("client_streaming", &[("OK", 1)]),
    ("server_streaming", &[("OK", 1)]),
    ("ping_pong", &[("OK", 1)]),
    ("empty_stream", &[("OK", 1)]),
    ("timeout_on_sleeping_server", &[]),
    ("cancel_after_begin", &[]),
    ("cancel_after_first_response", &[]),
    ("status_code_and_message", &[("UNKNOWN", 2)]),
    ("special_status_message", &[("UNKNOWN", 1)]),
    ("custom_metadata", &[("OK", 2)]),
    ("unimplemented_method", &[("UNIMPLEMENTED", 1)]),
    ("unimplemented_service", &[("UNIMPLEMENTED", 1)]),
    ("pick_first_unary", &[("OK", 100)]),
    ("rpc_soak", &[("OK", 10)]),
    ("channel_soak", &[("OK", 10)]),
];

#[test]
fn the_interop_client_of_grpc_go_passes() {
    let Some(client) = named("PRONY_TEST_GRPC_GO") else { return };
    let _alone = alone();
    // The client may take a reply that comes at once for the result of a call that it cancels.
    const LATE: [&str; 4] = ["--latency", "5ms", "--workers", "2"];
    for (tls, service) in [(false, &LATE[..2]), (true, &LATE[..])] {
        let target = Target::start(tls, service);
        let run_case = |case: &str, more: &[&str]| {
            let mut args = vec!["--server_host=127.0.0.1".to_owned()];
            args.push(format!("--server_port={}", target.port));
            args.push(format!("--test_case={case}"));
            if let Some(ca) = &target.ca {
                args.extend(["--use_tls", "--use_test_ca"].map(str::to_owned));
                args.push(format!("--ca_file={ca}"));
                args.push("--server_host_override=localhost".to_owned());
            }
            args.extend(more.iter().map(|&arg| arg.to_owned()));
            run(&client, &args);
        };
        let (mut ok, mut unknown, mut unimplemented) = (0, 0, 0);
        for (case, statuses) in CASES {
            run_case(case, &[]);
            for &(name, n) in statuses {
                match name {
                    "OK" => ok += n,
                    "UNKNOWN" => unknown += n,
                    _ => unimplemented += n,
                }
            }
        }
        let balancer = "test_backend_metrics_load_balancer";
        let service =
            format!("--service_config_json={{\"loadBalancingConfig\":[{{\"{balancer}\":{{}}}}]}}");
        run_case("orca_per_rpc", &[&service]);
        run_case("orca_oob", &[&service]);
        let counters = target.server.stop();
        assert_eq!(status(&counters, "UNKNOWN"), unknown);
        assert_eq!(status(&counters, "UNIMPLEMENTED"), unimplemented);
        // The load reports need as many calls as it takes until one has arrived.
        assert!(status(&counters, "OK") > ok, "{counters}");
        assert_eq!((served(&counters, "violations"), served(&counters, "malformed")), (0, 0));
        assert_eq!(served(&counters, "outstanding"), 0);
    }
}

/// All cases of grpcio, with health, reflection and compression: the script fails if one does.
#[test]
fn grpcio_passes() {
    let Some(python) = named("PRONY_TEST_GRPCIO") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/grpc_client.py");
    for tls in [false, true] {
        let target = Target::start(tls, &[]);
        let address = format!("localhost:{}", target.port);
        let mut args = vec![script.to_owned(), address];
        args.extend(target.ca.clone());
        let text = run(&python, &args);
        let counts: Value = serde_json::from_str(&text).expect("JSON");
        let counters = target.server.stop();
        for name in ["UNKNOWN", "UNIMPLEMENTED", "INVALID_ARGUMENT", "NOT_FOUND"] {
            assert_eq!(Some(status(&counters, name)), counts[name].as_u64(), "{name}: {counters}");
        }
        // Reflection is among them; its calls are the library's.
        assert!(Some(status(&counters, "OK")) >= counts["OK"].as_u64(), "{counters}");
        assert_eq!((served(&counters, "violations"), served(&counters, "malformed")), (0, 0));
    }
}

/// grpcurl knows no message: it asks for the descriptors.
#[test]
fn grpcurl_finds_its_way_by_reflection() {
    let Some(grpcurl) = named("PRONY_TEST_GRPCURL") else { return };
    let target = Target::start(false, &[]);
    let address = format!("127.0.0.1:{}", target.port);
    let services = run(&grpcurl, &["-plaintext", &address, "list"]);
    for service in ["grpc.health.v1.Health", "grpc.testing.TestService"] {
        assert!(services.lines().any(|line| line == service), "{services}");
    }
    let described =
        run(&grpcurl, &["-plaintext", &address, "describe", "grpc.testing.TestService"]);
    assert!(described.contains("rpc FullDuplexCall ( stream "), "{described}");
    let data = r#"{"responseParameters": [{"size": 3}, {"size": 1, "intervalUs": 2000}]}"#;
    let method = "grpc.testing.TestService/StreamingOutputCall";
    let text = run(&grpcurl, &["-plaintext", "-d", data, &address, method]);
    let bodies: Vec<Value> = serde_json::Deserializer::from_str(&text)
        .into_iter::<Value>()
        .map(|response| response.expect("JSON")["payload"]["body"].clone())
        .collect();
    assert_eq!(bodies, ["AAAA", "AA=="]);
    let health = run(&grpcurl, &["-plaintext", &address, "grpc.health.v1.Health/Check"]);
    assert!(health.contains("SERVING"), "{health}");
}
