//! Calls of gRPC to servers of grpcio and grpc-go. The counts of the first are prony's, and
//! Google's own library decodes what prony has encoded.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::grpc_serve::{Target, status};
use crate::rig::{Report, Serve, alone, measure, prony, reserved_port, served, wait_until};
use crate::tls::Certificates;

const PROTO: &str = "syntax = \"proto3\";\npackage shop;\n\
    message Item { string name = 1; int32 count = 2; }\n\
    service Shop {\n  rpc Buy(Item) returns (Item);\n  rpc Watch(Item) returns (stream Item);\n  \
    rpc Fill(stream Item) returns (Item);\n  rpc Chat(stream Item) returns (stream Item);\n}\n";

struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    port: String,
}

impl Server {
    /// `None`: grpcio is not installed.
    fn start(args: &[&str]) -> Option<Self> {
        let Some(python) = std::env::var_os("PRONY_TEST_GRPCIO") else {
            eprintln!("skipped: PRONY_TEST_GRPCIO does not name a Python with grpcio");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/grpc_server.py");
        let mut command = Command::new(python);
        let command = command.arg(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut port = String::new();
        stdout.read_line(&mut port).expect("its port");
        Some(Self { child, stdout, port: port.trim().to_owned() })
    }

    fn url(&self, method: &str) -> String {
        format!("grpc://127.0.0.1:{}/shop.Shop/{method}", self.port)
    }

    /// Stops it. Returns what it has seen.
    fn stop(mut self) -> Value {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("text");
        self.child.wait().expect("a child");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
}

fn count(seen: &Value, name: &str) -> u64 {
    seen[name].as_u64().unwrap_or(0)
}

/// The version of reflection that the report names.
fn schema_note(report: &Report) -> Option<&str> {
    let notes = report.0["run"]["notes"].as_array()?.iter().filter_map(Value::as_str);
    let mut found = notes.filter_map(|note| note.strip_prefix("The schema is the server's own ("));
    let version = found.next()?.strip_suffix(".ServerReflection).");
    version.filter(|_| found.next().is_none())
}

/// The method `UnaryCall` with two fields of its messages, as `protoc --descriptor_set_out` writes
/// it.
fn descriptor_set() -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("a short field");
        // Over 127 bytes, a length has a second byte.
        let length = if length < 128 { vec![length] } else { vec![length | 0x80, 1] };
        [&[number << 3 | 2][..], &length, bytes].concat()
    }
    let message = |name: &[u8], fields: &[u8]| [field(1, name), fields.to_vec()].concat();
    // Optional (4), of type int32 (5).
    let size = [&field(1, b"response_size")[..], &[3 << 3, 2, 4 << 3, 1, 5 << 3, 5]].concat();
    let types =
        [(1, &b"UnaryCall"[..]), (2, b".grpc.testing.Request"), (3, b".grpc.testing.Reply")];
    let method: Vec<u8> = types.iter().flat_map(|(number, name)| field(*number, name)).collect();
    let service = [field(1, b"TestService"), field(2, &method)].concat();
    let file = [
        field(1, b"a.proto"),
        field(2, b"grpc.testing"),
        field(4, &message(b"Request", &field(2, &size))),
        field(4, &message(b"Reply", &[])),
        field(6, &service),
        field(12, b"proto3"),
    ];
    field(1, &file.concat())
}

/// Over TLS, and without it: the schema is one of a file, of a set of descriptors, or the server's.
#[test]
fn counts_equal_those_of_the_target_server() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let set = folder.path().join("set.bin");
    std::fs::write(&set, descriptor_set()).expect("a file");
    let set = set.to_str().expect("a path in UTF-8");
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/interop.proto");
    for tls in [false, true] {
        let target = Target::start(tls, &[]);
        let (scheme, ca) = match &target.ca {
            Some(ca) => ("grpcs", vec!["--cacert", ca]),
            None => ("grpc", vec![]),
        };
        let url = format!("{scheme}://127.0.0.1:{}/grpc.testing.TestService", target.port);
        let url = format!("{url}/UnaryCall");
        let call = ["-n", "200", "-c", "2", "--streams", "5", "-b", r#"{"response_size": 1000}"#];
        for schema in [&["--proto", proto][..], &["--protoset", set], &[]] {
            let report = measure(&[&call[..], &ca, schema, &[&url]].concat());
            report.check_sums();
            assert_eq!((report.status(0), report.count("failed")), (200, 0), "{url} {schema:?}");
            // A few bytes of prefixes and fields are added to each message.
            let each = report.count("bytes_body") / 200;
            assert!((1_000..1_020).contains(&each), "{each} bytes, {schema:?}");
            let tally = &report.0["measurement"]["tally"];
            assert_eq!(tally["http2"]["connections"], 2, "{url}");
            assert_eq!(tally["tls"]["full"].as_u64().unwrap_or(0), 2 * u64::from(tls), "{url}");
            let own = schema.is_empty().then_some("grpc.reflection.v1");
            assert_eq!(schema_note(&report), own, "{schema:?}");
        }
        // A server whose certificate is not trusted gets no call.
        if tls {
            let load = ["-n", "2", "-c", "1", "-b", "{}", "--proto", proto, "--json", &url];
            let refused = prony(&load);
            assert_eq!(refused.report().errors("tls-handshake"), 2, "{refused:?}");
        }
        let counters = target.server.stop();
        // The questions for the schema are calls, too: for a symbol, and for files.
        let asked = status(&counters, "OK") - 3 * 200;
        assert!((1..=4).contains(&asked), "{counters}");
        assert_eq!((served(&counters, "violations"), served(&counters, "malformed")), (0, 0));
    }
}

/// Google's own server over TLS.
#[test]
fn counts_over_tls_equal_those_of_grpcio() {
    let certificates = Certificates::new();
    let [cert, key, ca] =
        ["server.pem", "server.key", "ca.pem"].map(|name| certificates.path(name));
    let Some(server) = Server::start(&["--tls", &cert, &key]) else { return };
    let url = server.url("Buy").replace("grpc://", "grpcs://");
    let load = ["-n", "300", "-c", "3", "--cacert", &ca, "-b", r#"{"name": "tea", "count": 2}"#];
    let report = measure(&[&load[..], &[&url]].concat());
    report.check_sums();
    assert_eq!((report.status(0), report.count("failed")), (300, 0));
    assert_eq!(report.0["measurement"]["tally"]["tls"]["full"], 3);
    assert_eq!(schema_note(&report), Some("grpc.reflection.v1alpha"));
    let seen = server.stop();
    let counts = ["Buy", "name:tea", "sum"].map(|name| count(&seen, name));
    assert_eq!(counts, [300, 300, 600]);
}

#[test]
fn counts_equal_those_of_grpcio() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let proto = folder.path().join("shop.proto");
    std::fs::write(&proto, PROTO).expect("a file");
    let proto = proto.to_str().expect("a path in UTF-8");
    let url = server.url("Buy");
    let body = r#"{"name": "tea", "count": 2}"#;
    let given = ["-H", "x-test: yes", "--grpc-timeout", "5s", "-c", "3", "--streams", "4"];
    let args = [&["-n", "500", "--proto", proto, "-b", body, &url][..], &given].concat();
    let report = measure(&args);
    assert_eq!((report.status(0), report.count("failed")), (500, 0));
    // The schema of the server is the same, and is said.
    let with = format!("http://127.0.0.1:{}", server.port);
    let report = measure(&["-n", "60", "-b", body, "--grpc", "shop.Shop/Buy", &with]);
    // grpcio has the older version alone.
    assert_eq!(schema_note(&report), Some("grpc.reflection.v1alpha"));
    // A status other than OK is a failure, unless it is expected.
    let sold_out = ["-n", "40", "-c", "2", "--proto", proto, "-b", r#"{"count": 13}"#, &url];
    let report = prony(&[&sold_out[..], &["--json", "--accept-invalid"]].concat()).report();
    assert_eq!((report.status(5), report.errors("grpc-status")), (40, 40));
    let said = &report.0["measurement"]["tally"]["http2"]["grpc_messages"];
    assert_eq!(said, &serde_json::json!({"NOT_FOUND": "no such item: 100 % sold out"}));
    let text = prony(&[&sold_out[..], &["--accept-invalid"]].concat()).stdout;
    let line = text.lines().find(|line| line.trim_start().starts_with("gRPC "));
    assert!(line.is_some_and(|l| l.contains("NOT_FOUND: no such item: 100 % sold out")), "{text}");
    let report = measure(&[&sold_out[..], &["--expect-grpc", "NOT_FOUND"]].concat());
    assert_eq!(report.count("failed"), 0);
    let seen = server.stop();
    assert_eq!(count(&seen, "Buy"), 680);
    assert_eq!((count(&seen, "name:tea"), count(&seen, "name:")), (560, 120));
    assert_eq!(count(&seen, "sum"), 560 * 2 + 120 * 13);
    assert_eq!((count(&seen, "x-test:yes"), count(&seen, "deadlines")), (500, 500));
}

#[test]
fn calls_with_streams_send_and_receive_all_messages() {
    let Some(server) = Server::start(&[]) else { return };
    let two = r#"{"name": "a", "count": 5} {"name": "b", "count": 7}"#;
    for (method, body) in [("Watch", r#"{"count": 9}"#), ("Fill", two), ("Chat", two)] {
        let report = measure(&["-n", "30", "-c", "2", "-b", body, &server.url(method)]);
        assert_eq!(report.status(0), 30, "{method}");
    }
    let seen = server.stop();
    assert_eq!(["Watch", "Fill", "Chat"].map(|method| count(&seen, method)), [30; 3]);
    assert_eq!((count(&seen, "messages"), count(&seen, "sum")), (150, 30 * 9 + 60 * 12));
}

/// Messages with a schedule: each is sent and answered, whether replies are matched by their order
/// or by a field.
#[test]
fn messages_have_a_schedule_of_their_own() {
    let own = Serve::start(&["--grpc"]);
    let target = own.url("/grpc.testing.TestService").replace("http://", "grpc://");
    let schedule = ["--messages", "200/s", "--messages-count", "20", "-n", "10", "-c", "2"];
    let body = r#"{"response_parameters": [{"size": 5}]}"#;
    let url = format!("{target}/FullDuplexCall");
    let report = measure(&[&schedule[..], &["-b", body, &url]].concat());
    let counts = |report: &Report| {
        let counts = report.0["measurement"]["tally"]["stream_messages"].clone();
        ["sent", "answered", "received", "unmatched"].map(|name| count(&counts, name))
    };
    assert_eq!((report.status(0), counts(&report)), (10, [200, 200, 200, 0]));
    let times = &report.0["measurement"]["times"];
    // 19 gaps of 5 ms. Late reads make them shorter: the last message is due at its own time.
    let last = report.ms("first_message", "mean") + 19.0 * report.ms("message_gap", "mean");
    assert!(last >= 19.0 * 5.0 - 0.1, "{last}");
    assert_eq!(count(&times["message"], "count"), 200);
    assert_eq!(count(&times["first_message"], "count"), 10);
    // A method with one reply: nothing is matched.
    let url = format!("{target}/StreamingInputCall");
    let body = r#"{"payload": {}}"#;
    let report = measure(&[&schedule[..], &["-b", body, &url]].concat());
    assert_eq!((report.status(0), counts(&report)), (10, [200, 0, 0, 0]));
    // Twenty messages take 95 ms: longer than their timeout.
    let ended = prony(&[&schedule[..], &["--timeout", "90ms", "-b", body, &url]].concat());
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("sent over 95ms"), "{}", ended.stderr);
    own.stop();
    let Some(server) = Server::start(&[]) else { return };
    let two = r#"{"name": "a", "count": 5} {"name": "b", "count": 7}"#;
    let by_field = ["--messages-reply", "name", "-b", two, &server.url("Chat")];
    let report = measure(&[&schedule[..], &by_field].concat());
    assert_eq!(counts(&report), [200, 200, 200, 0]);
    let unknown = ["--messages-reply", "id", "-b", two, &server.url("Chat")];
    let ended = prony(&[&schedule[..], &unknown].concat());
    assert!(ended.stderr.contains("shop.Item has no field 'id'"), "{}", ended.stderr);
    let seen = server.stop();
    assert_eq!((count(&seen, "Chat"), count(&seen, "messages")), (10, 200));
}

/// Compressed messages in both directions: the server reads them and compresses its own, and
/// expectations see what was compressed.
#[test]
fn messages_are_compressed_in_both_directions() {
    let server = Serve::start(&["--grpc"]);
    let target = server.url("/grpc.testing.TestService").replace("http://", "grpc://");
    let url = |method: &str| format!("{target}/{method}");
    let zeroes = "A".repeat(40_000);
    let one = format!(
        r#"{{"expect_compressed": {{"value": true}}, "response_compressed": {{"value": true}},
            "response_size": 50000, "payload": {{"body": "{zeroes}"}}}}"#
    );
    let call = |method: &str, body: &str, more: &[&str]| {
        let fixed = ["-n", "40", "-c", "2", "--streams", "3", "-b", body, "--json", "--quiet"];
        let url = url(method);
        prony(&[&fixed[..], &["--accept-invalid", &url], more].concat()).report()
    };
    let gzip = ["--grpc-encoding", "gzip"];
    // The key of the first field.
    let seen = [&gzip[..], &["--expect-body", "\n"]].concat();
    let report = call("UnaryCall", &one, &seen);
    assert_eq!((report.status(0), report.count("failed")), (40, 0));
    // Bytes are those on the wire: 50,000 zeroes are few.
    assert!(report.count("bytes_body") < 40 * 500, "{}", report.count("bytes_body"));
    // Expectations that the message does not meet fail.
    let unseen = [&gzip[..], &["--expect-body", "other"]].concat();
    assert_eq!(call("UnaryCall", &one, &unseen).errors("body-mismatch"), 40);
    // Without the option, the server misses the compression, and does not compress.
    assert_eq!(call("UnaryCall", &one, &[]).status(3), 40);
    let plain = r#"{"response_size": 50000, "response_compressed": {"value": true}}"#;
    assert!(call("UnaryCall", plain, &[]).count("bytes_body") > 40 * 50_000);
    // Streams, of which each message is compressed alone.
    let two = r#"{"expect_compressed": {"value": true}, "payload": {"body": "AAAA"}}
        {"expect_compressed": {"value": true}, "payload": {"body": "AAAAAAAA"}}"#;
    assert_eq!(call("StreamingInputCall", two, &gzip).status(0), 40);
    let sizes = r#"{"response_parameters": [{"compressed": {"value": true}, "size": 31415},
        {"compressed": {"value": false}, "size": 92653}]}"#;
    let report = call("StreamingOutputCall", sizes, &seen);
    assert_eq!((report.status(0), report.count("failed")), (40, 0));
    let each = report.count("bytes_body") / 40;
    assert!((92_653..93_500).contains(&each), "{each}");
    server.stop();
}

/// The same with a server of Google's, which compresses with a library of its own.
#[test]
fn grpcio_reads_and_writes_compressed_messages() {
    let Some(server) = Server::start(&["--gzip"]) else { return };
    let name = "tea ".repeat(1_000);
    let body = format!(r#"{{"name": "{name}", "count": 5}}"#);
    let expected = format!("bought {name}");
    let fixed = ["-n", "50", "-c", "2", "--streams", "3", "-b", &body, "--expect-body", &expected];
    let url = server.url("Buy");
    let gzip = measure(&[&fixed[..], &["--grpc-encoding", "gzip", &url]].concat());
    let plain = measure(&[&fixed[..], &[&url]].concat());
    for report in [&gzip, &plain] {
        assert_eq!((report.status(0), report.count("failed")), (50, 0));
    }
    assert!(gzip.count("bytes_body") < 50 * 300, "{}", gzip.count("bytes_body"));
    // This server compresses its replies in any case.
    let [gzip, plain] = [gzip, plain].map(|report| report.count("bytes_sent"));
    assert!(gzip < 50 * 400 && plain > 50 * 4_000, "{gzip} and {plain} bytes");
    // Messages that replies are matched with are compressed, too.
    let two = r#"{"name": "a", "count": 5} {"name": "b", "count": 7}"#;
    let schedule = ["--messages", "200/s", "--messages-count", "20", "-n", "10", "-c", "2"];
    let by_field = ["--messages-reply", "name", "-b", two, &server.url("Chat")];
    let report = measure(&[&schedule[..], &["--grpc-encoding", "gzip"], &by_field].concat());
    let counts = &report.0["measurement"]["tally"]["stream_messages"];
    let counts = ["sent", "answered", "received", "unmatched"].map(|name| count(counts, name));
    assert_eq!(counts, [200, 200, 200, 0]);
    // Fields are filled in before messages are compressed.
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let port = &server.port;
    let text = format!(
        r#"url = "grpc://127.0.0.1:{port}"
users = 4
sessions = 100
[grpc]
encoding = "gzip"
[[session]]
request = [
  {{ path = "/shop.Shop/Buy", body = '{{"name": "x{{{{session}}}}", "count": 4}}',
    expect-body = "bought x" }},
]
"#
    );
    std::fs::write(&plan, text).expect("a file");
    let plan = plan.to_str().expect("a path in UTF-8");
    // What --explain prints compresses, too.
    let explained = prony(&["run", plan, "--explain"]);
    assert!(explained.stdout.contains("gzip = true"), "{explained:?}");
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &explained.stdout).expect("a file");
    for plan in [plan, again.to_str().expect("a path in UTF-8")] {
        let report = measure(&["run", plan]);
        assert_eq!((report.status(0), report.count("failed")), (100, 0));
    }
    let seen = server.stop();
    assert_eq!((count(&seen, &format!("name:{name}")), count(&seen, "Chat")), (100, 10));
    assert_eq!((count(&seen, "name:x1"), count(&seen, "name:x100")), (2, 2));
    assert_eq!(count(&seen, "sum"), 200 * 4 + 100 * 5 + 200 * 6);
}

#[test]
fn templates_fill_in_messages() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    std::fs::write(folder.path().join("shop.proto"), PROTO).expect("a file");
    let text = r#"url = "grpc://127.0.0.1:PORT"
users = 4
sessions = 100
[grpc]
proto = "shop.proto"
[data.items]
columns = ["name", "count"]
rows = [["tea", "1"], ["milk", "3"]]
[[session]]
request = [
  { path = "/shop.Shop/Buy", body = '{"name": "{{items.name}}!", "count": {{items.count}}}' },
]
"#;
    let text = text.replace("PORT", &server.port);
    std::fs::write(&plan, text).expect("a file");
    let plan = plan.to_str().expect("a path in UTF-8");
    let report = measure(&["run", plan]);
    assert_eq!(report.status(0), 100);
    // What --explain prints makes the same calls without the schema.
    let explained = prony(&["run", plan, "--explain"]);
    assert!(explained.stdout.contains("encoded = true"), "{explained:?}");
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &explained.stdout).expect("a file");
    let report = measure(&["run", again.to_str().expect("a path in UTF-8")]);
    assert_eq!(report.status(0), 100);
    let seen = server.stop();
    assert_eq!((count(&seen, "name:tea!"), count(&seen, "name:milk!")), (100, 100));
    assert_eq!(count(&seen, "sum"), 400);
}

#[test]
fn refuses_a_server_without_reflection() {
    let Some(server) = Server::start(&["--no-reflection"]) else { return };
    let ended = prony(&["-n", "1", &server.url("Buy")]);
    assert_eq!(ended.code, 2, "{ended:?}");
    let why = "the server cannot be asked for its schema: it has no reflection; give the schema \
               with --proto or --protoset";
    assert!(ended.stderr.contains(why), "{ended:?}");
    assert_eq!(count(&server.stop(), "Buy"), 0);
}

/// The interoperability server of grpc-go.
#[test]
fn grpc_go_answers_every_kind_of_call() {
    let Some(program) = std::env::var_os("PRONY_TEST_GRPC_GO_SERVER") else {
        eprintln!("skipped: PRONY_TEST_GRPC_GO_SERVER does not name grpc-go's server");
        return;
    };
    let port = reserved_port();
    let mut command = Command::new(program);
    let command = command.args([&format!("--port={port}"), "--use_tls=false"]);
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    let connects = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until("it listens", connects);
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/interop.proto");
    let call = |method: &str, body: &str, more: &[&str]| {
        let url = format!("grpc://127.0.0.1:{port}/grpc.testing.TestService/{method}");
        let fixed = ["-n", "60", "-c", "2", "--streams", "5", "--proto", proto, "-b", body, &url];
        prony(&[&fixed[..], &["--json", "--quiet", "--accept-invalid"], more].concat()).report()
    };
    let sizes = r#"{"response_parameters": [{"size": 9}, {"size": 2653}, {"size": 58979}]}"#;
    let two = r#"{"payload": {"body": "AAAA"}} {"payload": {"body": "AAAAAAAA"}}"#;
    let chat =
        r#"{"response_parameters": [{"size": 31415}]} {"response_parameters": [{"size": 9}]}"#;
    for (method, body, received) in [
        ("EmptyCall", "", 5),
        ("UnaryCall", r#"{"response_size": 1000}"#, 1_000),
        ("StreamingOutputCall", sizes, 9 + 2_653 + 58_979),
        ("StreamingInputCall", two, 7),
        ("FullDuplexCall", chat, 31_415 + 9),
    ] {
        let report = call(method, body, &[]);
        assert_eq!((report.status(0), report.count("failed")), (60, 0), "{method}");
        // A few bytes of prefixes and fields are added to each message.
        let each = report.count("bytes_body") / 60;
        assert!((received..received + 60).contains(&each), "{method}: {each} bytes");
    }
    let status = r#"{"response_status": {"code": 7, "message": "no"}}"#;
    let report = call("UnaryCall", status, &[]);
    assert_eq!((report.status(7), report.errors("grpc-status")), (60, 60));
    let report = call("UnaryCall", status, &["--expect-grpc", "PERMISSION_DENIED"]);
    assert_eq!((report.status(7), report.count("failed")), (60, 0));
    assert_eq!(call("UnimplementedCall", "", &[]).status(12), 60);
    child.kill().expect("it runs");
    child.wait().expect("a child");
}
