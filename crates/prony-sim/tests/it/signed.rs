//! Signed and compressed requests in virtual time, where every byte of them is known.

use std::sync::Arc;

use prony_base::grpc::Gzip;
use prony_base::units::ConnId;
use prony_plan::plan::{AwsSigning, Burst, CallSpec, Plan, SessionKind, Sessions, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{PickRow, Table};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Connections, Server, ServerModel};
use prony_sim::world::Setup;

use crate::plans::{assert_invariants, get, ms, open};
use crate::recorded::Recorded;

struct Ok200;

impl ServerModel for Ok200 {
    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        conns.send(id, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

/// A request: its first line, its headers, its body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The requests of a connection, by their `Content-Length`.
    fn all(mut stream: &[u8]) -> Vec<Self> {
        let mut all = Vec::new();
        while !stream.is_empty() {
            let end = stream.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
            let head = std::str::from_utf8(&stream[..end]).expect("text");
            let (line, lines) = head.split_once("\r\n").expect("headers");
            let pair = |line: &str| line.split_once(": ").map(|(n, v)| (n.into(), v.into()));
            let headers = lines.split("\r\n").map(|line| pair(line).expect("a header")).collect();
            let mut request = Self { line: line.to_owned(), headers, body: Vec::new() };
            let length = request.header("Content-Length").map_or(0, |n| n.parse().expect("bytes"));
            request.body = stream[end + 4..][..length].to_vec();
            stream = &stream[end + 4 + length..];
            all.push(request);
        }
        all
    }
}

/// An open loop of `count` sessions that make this request twice.
fn twice(call: CallSpec, count: u64) -> Plan {
    let burst = Burst { repeat: 2, ..Burst::of(vec![0], Think::Fixed(ms(30))) };
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts: vec![burst] }];
    let mut plan = open(20.0, Arrivals::Fixed, 0);
    plan.stop = Stop { requests: None, sessions: Some(count), duration: None };
    (plan.calls, plan.sessions) = (vec![call].into(), Some(Sessions::plain(kinds)));
    let mut table = Table::new("users", PickRow::InTurn, vec!["name".into()]).expect("a column");
    for name in ["ann", "bob"] {
        table.push([name]).expect("a cell");
    }
    plan.data.tables = vec![Arc::new(table)];
    plan.data.environment = vec![("KEY".to_owned(), "k\"y".into())];
    plan
}

/// All requests in order.
pub(crate) fn run(plan: &Plan, shares: u32) -> Vec<Request> {
    plan.check().expect("a valid plan");
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(ms(1)), 5) };
    let mut recorded = Recorded::new(Server::new(Ok200));
    let outcome = load(plan, shares, &setup, &mut [&mut recorded]);
    assert_invariants(&outcome, "signed");
    assert_eq!(outcome.main().failed, 0);
    let mut all: Vec<_> =
        recorded.streams.values().flat_map(|stream| Request::all(stream)).collect();
    all.sort();
    all
}

fn template(path: &str, headers: &[(&str, &str)], body: &str) -> CallSpec {
    let headers: Vec<_> =
        headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = body.as_bytes().to_vec();
    CallSpec { method: "PUT".into(), headers: headers.into(), body, template: true, ..get(path) }
}

/// The signatures were computed by another implementation (Python's hmac).
#[test]
fn signatures_are_those_of_the_bytes_that_are_sent() {
    let text = "{{request.method | append ' ' | append request.path | append ' ' | append now unix \
                | append ' ' | append request.body | hmac-sha256 env KEY}}";
    let headers = [("X-Sign", text), ("X-Auth", "{{token}}")];
    let mut plan = twice(template("/o?n={{counter}}", &headers, "{\"n\":{{counter}}}"), 8);
    plan.data.variables = vec![
        ("claims".into(), r#"{"sub":"{{users.name}}","exp":{{now +1h unix}}}"#.into()),
        ("token".into(), "{{claims | jwt env KEY}}".into()),
    ];
    let first = run(&plan, 1);
    assert_eq!(first.len(), 16);
    let expected = [
        "12fbc2d96f91b752b02686646cc470359c6ba67eabdd3acc5ed43080223e928a",
        "b3deb09a7075b99ec126d4523eec862d4695fe29944c3f46ea1f5185a216ad99",
    ];
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                 eyJzdWIiOiJhbm4iLCJleHAiOjE3NjcyMjkyMDB9.\
                 vV7OlW2IXLYwUmQPqIdvZzpnYUqZH0ZTHXJX9Wki7h0";
    for (n, expected) in [1, 2].into_iter().zip(expected) {
        let line = format!("PUT /o?n={n} HTTP/1.1");
        let request = first.iter().find(|request| request.line == line).expect("it was sent");
        assert_eq!(request.body, format!("{{\"n\":{n}}}").as_bytes());
        assert_eq!(request.header("X-Sign"), Some(expected));
        assert_eq!(request.header("X-Auth"), Some(token));
    }
    for shares in [2, 3] {
        assert_eq!(run(&plan, shares), first, "{shares} shares");
    }
}

/// Compressed bodies are the plain ones, and their digest is that of the compressed bytes.
#[test]
fn bodies_are_compressed_for_each_request() {
    let body = format!("{{{{users.name}}}} {{{{random.text 20}}}} {}", "again ".repeat(200));
    let headers = [("Content-Encoding", "gzip"), ("X-Digest", "{{request.body | sha256}}")];
    let plain = twice(template("/{{counter}}", &headers, &body), 10);
    let mut packed = plain.clone();
    packed.calls[0].gzip = true;
    let (plain, sent) = (run(&plain, 1), run(&packed, 1));
    assert_eq!((plain.len(), sent.len()), (20, 20));
    let mut gzip = Gzip::default();
    for (plain, sent) in plain.iter().zip(&sent) {
        assert_eq!(plain.line, sent.line);
        assert!(sent.body.len() * 10 < plain.body.len(), "{} bytes", sent.body.len());
        assert_eq!(gzip.unpack(&sent.body, 1 << 20), Ok(&plain.body[..]));
        assert_ne!(plain.header("X-Digest"), sent.header("X-Digest"));
        // The digest of the same bytes as a plain body.
        let mut same = template("/", &[("X-Digest", "{{request.body | sha256}}")], "");
        same.body.clone_from(&sent.body);
        if !same.body.windows(2).any(|pair| pair == b"{{") {
            let again = run(&twice(same, 1), 1);
            assert_eq!(again[0].header("X-Digest"), sent.header("X-Digest"));
        }
    }
    for shares in [2, 3] {
        assert_eq!(run(&packed, shares), sent, "{shares} shares");
    }
    let mut wrong = packed.clone();
    wrong.calls[0].template = false;
    assert!(wrong.check().expect_err("no template").contains("compressed for each request"));
}

/// The plan with signatures for AWS.
fn signing(mut plan: Plan) -> Plan {
    plan.data.environment.push(("AWS_TOKEN".to_owned(), "tok".into()));
    plan.aws_sigv4 = Some(Box::new(AwsSigning {
        region: "eu-central-1".to_owned(),
        service: "execute-api".to_owned(),
        access_key: "AKIDEXAMPLE".into(),
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        token: Some("{{env AWS_TOKEN}}".into()),
    }));
    plan
}

/// The date, the token, and the signature of a request.
fn aws(request: &Request) -> [&str; 3] {
    let authorization = request.header("Authorization").expect("a signature");
    let scope = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/eu-central-1/execute-api/";
    assert!(authorization.starts_with(scope), "{authorization}");
    let signature = authorization.rsplit_once("Signature=").expect("its last part").1;
    let header = |name| request.header(name).expect("a header");
    [header("X-Amz-Date"), header("X-Amz-Security-Token"), signature]
}

/// The signatures were computed by another implementation (botocore). They are those of the time of
/// the send, in sessions and without.
#[test]
fn requests_are_signed_for_aws_when_they_are_sent() {
    let call =
        template("/o?n={{counter}}", &[("X-Amz-Meta-N", "{{users.name}}")], "{\"n\":{{counter}}}");
    let plan = signing(twice(call, 8));
    let first = run(&plan, 1);
    assert_eq!(first.len(), 16);
    let expected = [
        "33dd1366e9e2e509d2eb376f554a20089ce8d1c192104a644dd53c419186cc3a",
        "183964ce3d2dc99c87fadb5c4402d29c027acc1b5791e2499c7883a3d756c810",
    ];
    for (n, expected) in [1, 2].into_iter().zip(expected) {
        let line = format!("PUT /o?n={n} HTTP/1.1");
        let request = first.iter().find(|request| request.line == line).expect("it was sent");
        assert_eq!(aws(request), ["20260101T000000Z", "tok", expected]);
    }
    for shares in [2, 3] {
        assert_eq!(run(&plan, shares), first, "{shares} shares");
    }
    let mut alone = signing(open(2.0, Arrivals::Fixed, 4));
    alone.calls = vec![get("/a"), CallSpec { unsigned: true, ..get("/b") }].into();
    let sent = run(&alone, 1);
    let (signed, plain): (Vec<_>, Vec<_>) =
        sent.iter().partition(|request| request.line == "GET /a HTTP/1.1");
    let signed: Vec<_> = signed.into_iter().map(aws).collect();
    let of = |date, signature| [date, "tok", signature];
    assert_eq!(
        signed,
        [
            of(
                "20260101T000000Z",
                "3e30921f9204b9d57d45759377625f4d20760255a4387e5505a1e73b0593958e"
            ),
            of(
                "20260101T000001Z",
                "b2a38379f4805dc75391832d23b77a16f8da94fa2634935a0b26498150ce4b52"
            ),
        ]
    );
    assert_eq!(plain.len(), 2);
    assert!(plain.iter().all(|request| request.header("Authorization").is_none()), "{plain:?}");
}
