//! Schemas and messages, compared with prost-reflect's own encoding of the same values.

mod hostile;
mod vectors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use prony_base::units::Nanos;
use prony_grpc::{Schema, reflect};
use prony_plan::plan::{
    CallSpec, Cookies, Data, GrpcCall, Load, Plan, SessionKind, Sessions, Stop, Think,
};
use prony_plan::script::{Filled, Locals, Script};
use prony_plan::target::Endpoint;
use prost::Message as _;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;

const PROTO: &str = r#"
syntax = "proto3";
package shop;
import "part/color.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";
message Item {
  string name = 1;
  int32 count = 2;
  sint64 delta = 3;
  fixed32 code = 4;
  double price = 5;
  bool fresh = 6;
  bytes raw = 7;
  part.Color color = 8;
  Item inner = 9;
  repeated Item more = 10;
  map<string, int32> stock = 11;
  repeated uint32 numbers = 12;
  google.protobuf.StringValue note = 13;
  google.protobuf.Timestamp at = 14;
  optional float weight = 15;
}
service Shop {
  rpc Buy(Item) returns (Item);
  rpc Watch(Item) returns (stream Item);
  rpc Fill(stream Item) returns (Item);
}
"#;

const COLOR: &str = r#"
syntax = "proto3";
package part;
enum Color { NONE = 0; RED = 3; BLUE = -1; }
"#;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.proto");
    std::fs::create_dir(folder.path().join("part")).unwrap();
    std::fs::write(&file, PROTO).unwrap();
    std::fs::write(folder.path().join("part/color.proto"), COLOR).unwrap();
    (folder, file)
}

fn schema() -> Schema {
    let (_folder, file) = folder();
    Schema::compile(&[file], &[]).unwrap()
}

fn set() -> FileDescriptorSet {
    let (folder, file) = folder();
    protox::compile([file], [folder.path()]).unwrap()
}

fn pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::from_file_descriptor_set(set()).unwrap())
}

/// The messages of a body, in JSON.
fn decoded(body: &[u8]) -> Vec<Value> {
    let kind = pool().get_message_by_name("shop.Item").unwrap();
    let (mut messages, mut rest) = (Vec::new(), body);
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        assert_eq!(head[0], 0);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let message = DynamicMessage::decode(kind.clone(), &after[..length]).unwrap();
        messages.push(serde_json::to_value(&message).unwrap());
        rest = &after[length..];
    }
    assert!(rest.is_empty());
    messages
}

/// The same message by prost-reflect alone.
fn item(json: &str) -> Value {
    let kind = pool().get_message_by_name("shop.Item").unwrap();
    let value: Value = serde_json::from_str(json).unwrap();
    let message = DynamicMessage::deserialize(kind.clone(), value).unwrap();
    let message = DynamicMessage::decode(kind, &message.encode_to_vec()[..]).unwrap();
    serde_json::to_value(&message).unwrap()
}

#[test]
fn finds_methods_by_their_names() {
    let schema = schema();
    for name in ["shop.Shop/Buy", "/shop.Shop/Buy", "shop.Shop.Buy"] {
        assert_eq!(schema.method(name).unwrap().path(), "/shop.Shop/Buy");
    }
    let why = |name: &str| schema.method(name).unwrap_err();
    assert_eq!(
        why("shop.Shop/Sell"),
        "'shop.Shop' has no method 'Sell'; the methods are: Buy, Fill, Watch"
    );
    assert_eq!(why("Shop/Buy"), "there is no service 'Shop'; the services are: shop.Shop");
    assert_eq!(why("Buy"), "'Buy' is not a method; write package.Service/Method");
    assert!(schema.method("shop.Shop/Watch").unwrap().is_server_streaming());
}

#[test]
fn a_schema_with_an_error_names_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.proto");
    let cases = [
        ("message M { int32 a = x; }", "bad.proto:2:23: expected "),
        ("message {}", "bad.proto:2:9: expected an identifier"),
        ("message M { What a = 1; }", "bad.proto:2:13: name 'What' is not defined"),
        ("message M {}\nmessage M {}", "bad.proto:3:9: "),
        ("import \"none.proto\";", "bad.proto:2:1: import 'none.proto' not found"),
        ("message M { map<double, int32> a = 1; }", "bad.proto:2:"),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, format!("syntax = \"proto3\";\n{text}\n")).unwrap();
        let why = Schema::compile(std::slice::from_ref(&file), &[]).unwrap_err();
        assert!(why.starts_with(expected) && !why.contains('\n'), "{why}");
    }
    let why = Schema::compile(&[folder.path().join("none.proto")], &[]).unwrap_err();
    assert!(why.contains("none.proto"), "{why}");
}

/// An edition that is not known, and what the parser does not know of editions.
#[test]
fn a_file_in_an_edition_with_an_error_names_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("e.proto");
    for (text, expected) in [
        ("// a\n\nedition = \"2031\";\n", "e.proto:3: the edition '2031' is not supported"),
        ("edition = \"2023\";\nmessage M {\n  int32 a = x;\n}", "e.proto:3:13: expected "),
        ("edition = \"2023\";\nmessage M {\n  int32 a = 1 [default = 5];\n}", "e.proto:3:"),
        ("edition = \"2024\";\nimport option \"a.proto\";", "e.proto:2:"),
        ("edition = \"2023\";\nmessage M { Q q = 1; }", "e.proto"),
        (
            "edition = \"2023\";\nmessage M { int32 a = 1 [features.field_presence = MAYBE]; }",
            "e.proto: the feature field_presence has the unknown value MAYBE",
        ),
        ("edition", "e.proto:1:1: "),
        ("edition = \"", "e.proto:1:"),
    ] {
        std::fs::write(&file, text).unwrap();
        let why = Schema::compile(std::slice::from_ref(&file), &[]).unwrap_err();
        assert!(why.contains(expected) && !why.contains('\n'), "{text}: {why}");
    }
    std::fs::write(&file, "edition = \"2024\"; message M { int32 a = 1; }").unwrap();
    assert!(Schema::compile(std::slice::from_ref(&file), &[]).is_ok());
}

/// Texts that would need a stack without end, or a compiler without bugs.
#[test]
fn no_text_makes_the_compiler_fail() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.proto");
    let compiled = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Schema::compile(std::slice::from_ref(&file), &[])
    };
    let why = |text: &str| compiled(text).unwrap_err();
    for bracket in
        ["message M {", "option (a) = { a: ", "option (a) = { a: [", "option (a) = { a <"]
    {
        let many = format!("syntax = \"proto3\";\n{}", bracket.repeat(100_000));
        assert_eq!(why(&many), "t.proto:2: brackets are nested more than 200 deep");
    }
    let fine = format!(
        "syntax = \"proto3\";\n// {0}\n/* {0} */ message M {{ \
         string a = 1 [json_name = \"{0}\"]; }}",
        "({[<".repeat(100)
    );
    assert!(compiled(&fine).is_ok(), "{:?}", compiled(&fine));
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let texts = ["known.proto", "two.proto", "edition2023.proto"]
        .map(|name| std::fs::read_to_string(vectors.join(name)).unwrap());
    let mut state = 0x9e37_79b9_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % bound.max(1)
    };
    let (mut valid, mut refused) = (0, 0);
    for round in 0..600 {
        let text = &texts[round % 3];
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ';', '=']).collect();
        for _ in 0..=below(3) {
            let (at, other) = (below(words.len()), below(words.len()));
            match below(4) {
                0 => _ = words.remove(at),
                1 => words.insert(at, words[other]),
                2 => words.swap(at, other),
                _ => words.insert(at, ["0 ", "-1 ", "99999999999 ", "{ ", "map<"][below(5)]),
            }
        }
        match compiled(&words.concat()) {
            Ok(_) => valid += 1,
            Err(why) => {
                assert!(!why.contains("the compiler fails"), "{}", words.concat());
                refused += 1;
            }
        }
    }
    assert!(valid > 10 && refused > 100, "{valid} valid, {refused} refused");
}

#[test]
fn encodes_json() {
    let json = r#"{"name": "a", "count": 3, "color": "RED", "stock": {"x": 1}, "note": "n"}"#;
    let encoded = schema().method("shop.Shop/Buy").unwrap().encode(json).unwrap();
    assert_eq!(encoded.call, GrpcCall::default());
    assert_eq!(decoded(&encoded.body), [item(json)]);
    let empty = schema().method("shop.Shop/Buy").unwrap().encode("").unwrap();
    assert_eq!(empty.body, [0; 5]);
    let fill = schema().method("shop.Shop/Fill").unwrap();
    for several in [r#"{"count":1} {"count":2}"#, r#"[{"count":1}, {"count":2}]"#] {
        let body = fill.encode(several).unwrap().body;
        assert_eq!(decoded(&body), [item(r#"{"count":1}"#), item(r#"{"count":2}"#)]);
    }
    assert!(schema().method("shop.Shop/Watch").unwrap().encode("{}").unwrap().call.streams);
}

#[test]
fn refuses_json_that_does_not_fit() {
    let buy = schema().method("shop.Shop/Buy").unwrap();
    for (json, part) in [
        ("{", "this is not JSON"),
        (r#"{"title": 1}"#, "title"),
        (r#"{"count": "x"}"#, "the field 'count': \"x\" does not fit the type int32"),
        ("{} {}", "/shop.Shop/Buy takes one message, not 2"),
        (r#"{"title": "{{x}}"}"#, "shop.Item has no field 'title'; the fields are: at, "),
        (
            r#"{"at": "{{x}}"}"#,
            "the field 'at': template fields are not possible in a google.protobuf.Timestamp",
        ),
        (r#"{"more": "{{x}}"}"#, "the field 'more': expected a list"),
        (r#"{"inner": "{{x}}"}"#, "the field 'inner': a message is an object"),
        (r#"{"name": "{{x"}"#, "'{{' is not followed by '}}'"),
    ] {
        let why = buy.encode(json).unwrap_err();
        assert!(why.contains(part), "{json}: {why}");
    }
}

/// The body that the engine sends for a template, with these values of the variables `v` and `n`.
fn filled(call: GrpcCall, v: &str, n: &str) -> Vec<u8> {
    let call = CallSpec {
        method: "POST".into(),
        path: "/shop.Shop/Buy".into(),
        template: true,
        grpc: Some(Box::new(call)),
        ..CallSpec::default()
    };
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let load = Load::Closed { connections: 1, think: Think::None };
    let burst = prony_plan::plan::Burst::of(vec![0], Think::None);
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    let mut sessions = Sessions::plain(vec![kind]);
    sessions.cookies = Cookies::Off;
    let variables = vec![("v".into(), v.into()), ("n".into(), n.into())];
    let stop = Stop { sessions: Some(1), ..Stop::default() };
    let mut plan = Plan::new(vec![endpoint], vec![call], load, stop);
    plan.sessions = Some(sessions);
    plan.data = Data { variables, ..Data::default() };
    let script = Script::new(&plan).unwrap().unwrap();
    let (mut locals, mut filled) = (Locals::default(), Filled::default());
    script.begin(0, &mut locals);
    script.fill(0, 0, &locals, None, Nanos(0), &mut filled).unwrap();
    filled.body().unwrap().to_vec()
}

/// A message with template fields is, filled in, the message of the filled-in JSON.
#[test]
fn templates_give_the_message_of_the_filled_in_json() {
    let long = "y".repeat(300);
    for (json, n) in [
        (r#"{"name": "{{v}}", "count": {{n}}}"#, "42"),
        (r#"{"name": "fixed", "inner": {"inner": {"name": "a{{v}}b", "count": 7}}}"#, "1"),
        (r#"{"delta": {{n}}, "more": [{"count": 1}, {"name": "{{v}}"}, {"count": 2}]}"#, "-9"),
        (r#"{"code": {{n}}, "numbers": [1, {{n}}, 3]}"#, "7"),
        (r#"{"price": {{n}}, "weight": {{n}}}"#, "1.5"),
        (r#"{"fresh": {{n}}, "note": "{{v}}"}"#, "true"),
        (r#"{"color": "{{n}}", "stock": {"a": 1, "{{v}}": 5}}"#, "RED"),
        (r#"{"raw": "{{n}}"}"#, "AAEC"),
        (r#"{"count": {{n}}, "color": "BLUE", "stock": {"k": {{n}}}}"#, "-3"),
    ] {
        for v in ["x", "", &long] {
            let encoded = schema().method("shop.Shop/Buy").unwrap().encode(json).unwrap();
            assert!(encoded.body.is_empty() && encoded.call.messages.len() == 1);
            let expected = item(&json.replace("{{v}}", v).replace("{{n}}", n));
            assert_eq!(decoded(&filled(encoded.call, v, n)), [expected], "{json}");
        }
    }
}

#[test]
fn reads_descriptor_sets() {
    let mut schema = Schema::default();
    schema.add_set(&set().encode_to_vec()).unwrap();
    assert!(schema.method("shop.Shop/Buy").is_ok());
    assert!(Schema::default().add_set(b"\xff").is_err());
}

/// A server that knows some files. Imports are asked for only if they are missing.
#[test]
fn asks_a_server_for_its_schema() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Question {
        #[prost(string, optional, tag = "3")]
        file: Option<String>,
        #[prost(string, optional, tag = "4")]
        symbol: Option<String>,
    }
    let files = set().file;
    let mut asked = Vec::new();
    let answer = |question: Vec<u8>| {
        let question = Question::decode(&question[..]).unwrap();
        let name = question.file.clone().unwrap_or_else(|| "shop.proto".into());
        asked.push(question.symbol.or(question.file).unwrap());
        let file = files.iter().find(|f| f.name() == name).unwrap().encode_to_vec();
        // field 4: { field 1: the file }
        let mut list = vec![0x0a];
        prost::encoding::encode_varint(file.len() as u64, &mut list);
        list.extend(file);
        let mut reply = vec![0x22];
        prost::encoding::encode_varint(list.len() as u64, &mut reply);
        reply.extend(list);
        Ok::<_, String>(reply)
    };
    let methods = ["/shop.Shop/Buy".into(), "shop.Shop/Fill".into()];
    let schema = reflect(&methods, &[], answer, || Duration::ZERO).unwrap();
    assert!(schema.method("shop.Shop/Buy").is_ok());
    asked.sort();
    let imports = ["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"];
    assert_eq!(asked, [imports[0], imports[1], "part/color.proto", "shop.Shop"]);
    // field 7: { field 1: 5, field 2: "no" }
    let refuses = |_: Vec<u8>| Ok::<_, String>(b"\x3a\x06\x08\x05\x12\x02no".to_vec());
    let why = reflect(&["/a.B/C".into()], &[], refuses, || Duration::ZERO).unwrap_err();
    assert_eq!(why, "it does not know 'a.B': no (status 5)");
}

/// The descriptors in the target server are what its `.proto` files say.
#[test]
fn descriptors_of_the_target_server_are_those_of_its_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../prony-server/src/serve/grpc/proto");
    let embedded =
        FileDescriptorSet::decode(prony_server::serve::DESCRIPTORS).expect("descriptors");
    let mut compiler = protox::Compiler::new([&root]).expect("a folder");
    compiler.include_imports(true);
    let mut files = Vec::new();
    proto_files(&root, &mut files);
    for file in &files {
        compiler.open_file(file).expect("a valid file");
    }
    let named = |set: FileDescriptorSet| {
        let all = set.file.into_iter().map(|file| (file.name().to_owned(), without_extras(file)));
        all.collect::<BTreeMap<_, _>>()
    };
    let (embedded, compiled) = (named(embedded), named(compiler.file_descriptor_set()));
    assert!(files.len() >= 8 && compiled.len() >= files.len(), "{files:?}");
    assert_eq!(embedded.keys().collect::<Vec<_>>(), compiled.keys().collect::<Vec<_>>());
    for (name, file) in &compiled {
        assert_eq!(&embedded[name], file, "{name}");
    }
}

fn proto_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            proto_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Without positions and comments, and without the names in JSON, which follow from the others.
fn without_extras(mut file: FileDescriptorProto) -> FileDescriptorProto {
    fn messages(all: &mut [DescriptorProto]) {
        for message in all {
            message.field.iter_mut().for_each(|field| field.json_name = None);
            messages(&mut message.nested_type);
        }
    }
    file.source_code_info = None;
    messages(&mut file.message_type);
    file
}
