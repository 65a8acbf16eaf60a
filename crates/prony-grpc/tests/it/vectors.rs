//! Messages compared with those of Google's own package for Python: recorded, and made anew where
//! that is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prony_grpc::Schema;

/// Where prony is stricter than the package, as the specification of the JSON form is.
const REFUSED_BY_PRONY: [(&str, &str); 10] = [
    ("known.M", r#"{"any":{"@type":"known.Scalars"}}"#),
    ("known.M", r#"{"at":"2023-01-01T00:00:00.Z"}"#),
    ("known.M", r#"{"took":"1.0000000001s"}"#),
    ("known.M", r#"{"took":"3.s"}"#),
    ("known.M", r#"{"wString":"a","w_string":"b"}"#),
    ("known.M", r#"{"nothing":null,"scalars":{}}"#),
    ("known.M", "[]"),
    ("known.Scalars", r#"{"double":"inf"}"#),
    ("known.Scalars", r#"{"double":true}"#),
    ("known.Scalars", r#"{"bytes":"!"}"#),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn recorded() -> String {
    std::fs::read_to_string(folder().join("vectors.txt")).expect("the vectors")
}

fn from_set() -> Schema {
    let mut schema = Schema::default();
    let set = std::fs::read(folder().join("vectors.pset")).expect("the descriptors");
    schema.add_set(&set).expect("a schema");
    schema
}

fn from_files() -> Schema {
    let names = ["edition2023.proto", "defaults2023.proto", "two.proto", "known.proto"];
    let files: Vec<PathBuf> = names.iter().map(|name| folder().join(name)).collect();
    Schema::compile(&files, &[]).expect("a schema")
}

/// Encodes all cases, and compares with what the package has made of them.
fn check(schema: &Schema) {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in recorded().lines() {
        let [expected, message, json] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (package, name) = message.split_once('.').expect("a full name");
        let method = schema.method(&format!("{package}.S/Send{name}")).expect("a method");
        let encoded = method.encode(json);
        let expected = if REFUSED_BY_PRONY.contains(&(message, json)) { "-" } else { expected };
        let made = match &encoded {
            Ok(encoded) => encoded.body[5..].iter().map(|b| format!("{b:02x}")).collect(),
            Err(_) => "-".to_owned(),
        };
        if made != expected {
            wrong.push(format!(
                "{message} {json}\n  is  {made} {:?}\n not {expected}",
                encoded.err()
            ));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 150);
}

#[test]
fn messages_of_a_descriptor_set_are_those_of_another_encoder() {
    check(&from_set());
}

#[test]
fn messages_of_proto_files_are_those_of_another_encoder() {
    check(&from_files());
}

/// The record is what the package says today.
#[test]
fn the_record_is_that_of_the_package() {
    let Some(python) = std::env::var_os("PRONY_TEST_GRPCIO") else {
        eprintln!("skipped: PRONY_TEST_GRPCIO does not name a Python with grpcio");
        return;
    };
    let recorded = recorded();
    let cases = recorded.lines().filter_map(|line| line.split_once('\t'));
    let cases: String = cases.map(|(_, case)| format!("{case}\n")).collect();
    let mut child = Command::new(python)
        .args([folder().join("vectors.py"), folder()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        std::io::Write::write_all(&mut stdin, cases.as_bytes()).expect("the cases are read");
    });
    let output = child.wait_with_output().expect("the result");
    writer.join().expect("all cases are written");
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).expect("text"), recorded);
}
