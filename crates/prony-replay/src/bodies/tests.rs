//! Files of bodies, and keys of requests.

use std::fs;

use super::*;

fn record(method: &str, path: &str, key: &str) -> Record {
    let method = METHODS.iter().position(|name| *name == method).expect("a method") as u8;
    Record { method, path: path.into(), key: key.into(), ..Record::default() }
}

fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("written");
    (folder, path)
}

fn giver(text: &str, key: BodyKey) -> Giver {
    let (_folder, path) = file("b.jsonl", text.as_bytes());
    Giver::new(&Arc::new(Bodies::read(&path, key, None).expect("bodies")))
}

fn given(giver: &mut Giver, record: &Record) -> Option<(Option<String>, String)> {
    let body = giver.next(record)?;
    Some((body.content_type.clone(), String::from_utf8_lossy(&body.bytes).into_owned()))
}

#[test]
fn keys_are_in_the_path_the_query_or_a_field() {
    let of = |key: &str, path: &str| {
        let record = record("POST", path, "");
        let key = BodyKey::parse(key).expect(key);
        key.of(&record).map(|key| String::from_utf8_lossy(key).into_owned())
    };
    for (key, path, found) in [
        ("/orders/{key}", "/orders/7", Some("7")),
        ("/orders/{key}", "/orders/7?a=/orders/8", Some("7")),
        ("/orders/{key}", "/orders/7/", None),
        ("/orders/{key}", "/orders/", None),
        ("/orders/{key}", "/users/7", None),
        ("/*/{key}/pay", "/x/7/pay", Some("7")),
        ("/*/{key}/pay", "/x/7/get", None),
        ("?order={key}", "/a?b=1&order=7%20x&c", Some("7%20x")),
        ("?order={key}", "/a?order", None),
        ("?order={key}", "/order=7", None),
    ] {
        assert_eq!(of(key, path).as_deref(), found, "{key} {path}");
    }
    let record = record("POST", "/a?b=c", "k");
    assert_eq!(BodyKey::Target.of(&record), Some(&b"/a?b=c"[..]));
    assert_eq!(BodyKey::Field.of(&record), Some(&b"k"[..]));
    for wrong in [
        "",
        "key",
        "{key}",
        "/a",
        "/a{key}",
        "/{key}/{key}",
        "?{key}",
        "?a=b{key}",
        "?a=",
        "/{key}?x",
    ] {
        let why = BodyKey::parse(wrong).expect_err(wrong);
        assert!(why.starts_with("must have {key} in the place"), "{why}");
    }
}

#[test]
fn bodies_are_texts_json_or_base64() {
    let text = r#"{"key": "a", "body": "t\u00fcx\"", "type": "text/plain"}
        {"key": 7, "body": {"b": [1,  2.50]}}

        {"base64": "/wA=", "key": "raw"}
        {"key": "\u00e4", "body": [], "type": "x/y"}"#;
    let mut giver = giver(text, BodyKey::Field);
    assert_eq!((giver.bodies.count(), giver.bodies.keys()), (4, 4));
    let mut of = |key: &str| given(&mut giver, &record("PUT", "/", key));
    let typed = |kind: &str, text: &str| Some((Some(kind.to_owned()), text.to_owned()));
    assert_eq!(of("a"), typed("text/plain", "t\u{fc}x\""));
    assert_eq!(of("7"), typed("application/json", "{\"b\": [1,  2.50]}"));
    assert_eq!(of("\u{e4}"), typed("x/y", "[]"));
    assert_eq!(of("none"), None);
    assert_eq!(giver.next(&record("PUT", "/", "raw")).expect("a body").bytes, [0xff, 0]);
}

#[test]
fn several_bodies_of_a_key_are_sent_in_turn() {
    let text = "{\"key\":\"/a\",\"body\":\"1\"}\n{\"key\":\"/b\",\"body\":\"x\"}\n\
                {\"key\":\"/a\",\"body\":\"2\"}\n{\"key\":\"/a\",\"body\":\"3\"}\n";
    let mut giver = giver(text, BodyKey::Target);
    let bodies: String = ["/a", "/b", "/a", "/a", "/b", "/a"]
        .into_iter()
        .map(|path| given(&mut giver, &record("POST", path, "")).expect("a body").1)
        .collect();
    assert_eq!(bodies, "1x23x1");
}

#[test]
fn missing_keys_are_counted_and_named() {
    let mut giver = giver("{\"key\":1,\"body\":\"\"}", BodyKey::Query("id".into()));
    for (method, path) in [
        ("POST", "/?id=1"),
        ("POST", "/?id=2"),
        ("PUT", "/?id=2"),
        ("PATCH", "/?id=3"),
        ("POST", "/"),
        ("GET", "/?id=4"),
        ("DELETE", "/"),
    ] {
        let is_there = given(&mut giver, &record(method, path, "")).is_some();
        assert_eq!(is_there, path == "/?id=1", "{method} {path}");
    }
    let keys = vec!["?id=2".to_owned(), "?id=3".to_owned()];
    assert_eq!(giver.missing, Missing { requests: 4, no_key: 1, keys });
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    let refused = |text: &str| {
        let (_folder, path) = file("b.jsonl", text.as_bytes());
        let why = Bodies::read(&path, BodyKey::Target, None).expect_err(text).to_string();
        why.split_once("b.jsonl: ").expect("its name").1.to_owned()
    };
    for (text, why) in [
        ("", "it has no body; a line is {\"key\": \"...\", \"body\": ...}"),
        ("\n{\"key\":\"a\"}", "line 2: it must have either a body or base64"),
        (
            "{\"key\":\"a\",\"body\":1,\"base64\":\"\"}",
            "line 1: it must have either a body or base64",
        ),
        ("{\"key\":[],\"body\":1}", "line 1: its key must be a text or a number"),
        ("{\"key\":\"\",\"body\":1}", "line 1: its key is empty"),
        ("{\"key\":1,\"base64\":\"x\"}", "line 1: its base64 cannot be decoded"),
        ("{\"key\":1,\"body\":1,\"type\":\"a\\nb\"}", "line 1: its type is 'a\\nb'"),
        (
            "{\"key\":1,\"content\":1}",
            "line 1: it is not an object with key, body and type: unknown",
        ),
        ("key", "line 1: it is not an object with key, body and type: expected"),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(why), "{text}: {refused}");
    }
    assert!(Bodies::read(Path::new("/none"), BodyKey::Target, None).is_err());
}
