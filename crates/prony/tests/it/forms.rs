//! Multi-part forms, against a server that parses them.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{Other, fetch, have, measure, prony};

/// How the server says what a part contains.
fn shown(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Files that must arrive unchanged: bytes of all values, with what looks like a template, a
/// boundary and the end of a part.
fn files(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    bytes.extend_from_slice(b"{{token}} {{{{{ }}}}\r\n------prony\r\n--\r\n");
    let text = "Zo\u{eb}, {{not a field}}\n".as_bytes().to_vec();
    fs::write(folder.join("photo.png"), &bytes).expect("a file");
    fs::write(folder.join("note.txt"), &text).expect("a file");
    (bytes, text)
}

/// The different forms that the server got, each with its parts, and how often.
fn received(server: &Other) -> Vec<(Value, u64)> {
    let answer = fetch(server.port, "/stats");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    let list: Vec<(String, u64)> = serde_json::from_str(body).expect("JSON");
    let form = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    list.into_iter().map(|(text, count)| (form(text), count)).collect()
}

#[test]
fn options_send_the_files_as_they_are() {
    if !have("python3") {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let (photo, note) = files(folder.path());
    let server = Other::start("python3", &[], include_str!("forms/server.py"));
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let parts = [
        "title=a; b=c".to_owned(),
        "kind=\"x;y\";type=text/x-kind".to_owned(),
        format!("photo=@{}", path("photo.png")),
        format!("other=@{};type=text/csv;filename=b \"1\".csv", path("note.txt")),
        format!("note=<{}", path("note.txt")),
    ];
    let url = server.url("/upload");
    let forms = parts.iter().flat_map(|part| ["-F", part]);
    let args: Vec<&str> = [&url[..], "-n", "20", "-c", "2"].into_iter().chain(forms).collect();
    let report = measure(&args);
    let log = fs::read_to_string(server.file("log")).unwrap_or_default();
    assert_eq!((report.count("replies"), report.count("failed")), (20, 0), "{log}");
    let form = json!([
        ["title", "", "", shown(b"a; b=c")],
        ["kind", "", "text/x-kind", shown(b"x;y")],
        ["photo", "photo.png", "image/png", shown(&photo)],
        ["other", "b %221%22.csv", "text/csv", shown(&note)],
        ["note", "", "", shown(&note)],
    ]);
    assert_eq!(received(&server), [(form.clone(), 20)]);
    // The explained plan sends the same form.
    let explained = prony(&[&args[..], &["--explain"]].concat());
    let file = folder.path().join("explained.toml");
    fs::write(&file, &explained.stdout).expect("a file");
    let report = measure(&["run", file.to_str().expect("UTF-8")]);
    assert_eq!(report.count("replies"), 20, "{explained:?}");
    assert_eq!(received(&server), [(form, 40)]);
}

#[test]
fn plan_files_send_forms_with_fields_and_files() {
    if !have("python3") {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let (photo, note) = files(folder.path());
    let server = Other::start("python3", &[], include_str!("forms/server.py"));
    let plan = format!(
        r#"
url = "{}"
users = 2
sessions = 6

[data.users]
columns = ["name"]
rows = [["ann"], ["bob"]]

[[session]]
request = [
  {{ path = "/form", form = {{ user = "{{{{users.name}}}}", photo = "@photo.png", note = {{ file = "note.txt", type = "text/x-note", filename = "n-{{{{users.name}}}}.txt" }}, at = {{ text = "@home" }} }} }},
  {{ path = "/list", form = ["a=1", "f=@note.txt"] }},
]
"#,
        server.url("")
    );
    let file = folder.path().join("forms.toml");
    fs::write(&file, &plan).expect("a file");
    let run = |file: &Path| {
        let report = measure(&["run", file.to_str().expect("UTF-8"), "--seed", "3"]);
        let log = fs::read_to_string(server.file("log")).unwrap_or_default();
        assert_eq!((report.count("replies"), report.count("failed")), (12, 0), "{log}");
    };
    let form = |name: &str| {
        json!([
            ["user", "", "", shown(name.as_bytes())],
            ["photo", "photo.png", "image/png", shown(&photo)],
            ["note", format!("n-{name}.txt"), "text/x-note", shown(&note)],
            ["at", "", "", shown(b"@home")],
        ])
    };
    let list = json!([["a", "", "", shown(b"1")], ["f", "note.txt", "text/plain", shown(&note)]]);
    let expected = |n: u64| {
        let mut all = vec![(form("ann"), n), (form("bob"), n), (list.clone(), 2 * n)];
        all.sort_by_key(|(form, _)| form.to_string());
        all
    };
    let sorted = || {
        let mut all = received(&server);
        all.sort_by_key(|(form, _)| form.to_string());
        all
    };
    run(&file);
    assert_eq!(sorted(), expected(3));
    let explained = prony(&["run", file.to_str().expect("UTF-8"), "--explain", "--seed", "3"]);
    let again = folder.path().join("again.toml");
    fs::write(&again, &explained.stdout).expect("a file");
    run(&again);
    assert_eq!(sorted(), expected(6), "the explained plan sends the same");
}

/// A server that decompresses gets the plain bodies, of requests that vary and that do not.
#[test]
fn bodies_are_compressed() {
    if !have("python3") {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let (photo, _) = files(folder.path());
    let server = Other::start("python3", &[], include_str!("forms/server.py"));
    let plan = format!(
        "url = '{}'\nusers = 2\nsessions = 4\n[[session]]\nrequest = [\n\
         {{ path = '/', body = 'plain text', compress = 'gzip' }},\n\
         {{ path = '/', body = 'number {{{{session}}}}', compress = 'gzip' }},\n\
         {{ path = '/', form = {{ n = '{{{{request}}}}', f = '@photo.png' }}, compress = 'gzip' }},\n]\n",
        server.url("")
    );
    let file = folder.path().join("plan.toml");
    fs::write(&file, plan).expect("a file");
    let run = |file: &Path| {
        let report = measure(&["run", file.to_str().expect("UTF-8")]);
        let log = fs::read_to_string(server.file("log")).unwrap_or_default();
        assert_eq!((report.count("replies"), report.count("failed")), (12, 0), "{log}");
        // Less than half of what the forms would take.
        assert!(report.count("bytes_sent") < 4 * photo.len() as u64 / 2, "{log}");
    };
    run(&file);
    let form = json!([["n", "", "", shown(b"3")], ["f", "photo.png", "image/png", shown(&photo)]]);
    let expected = |n: u64| {
        let mut all: Vec<_> = (1..=4).map(|k| (json!(format!("number {k}")), n)).collect();
        all.extend([(json!("plain text"), 4 * n), (form.clone(), 4 * n)]);
        all.sort_by_key(|(form, _)| form.to_string());
        all
    };
    let sorted = || {
        let mut all = received(&server);
        all.sort_by_key(|(form, _)| form.to_string());
        all
    };
    assert_eq!(sorted(), expected(1));
    let explained = prony(&["run", file.to_str().expect("UTF-8"), "--explain"]);
    let again = folder.path().join("again.toml");
    fs::write(&again, &explained.stdout).expect("a file");
    run(&again);
    assert_eq!(sorted(), expected(2), "the explained plan sends the same");
}

#[test]
fn invalid_forms_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    for (keys, why) in [
        ("form = { a = '@none' }", "no such file or directory"),
        ("form = { a = { text = '1', file = 'x' } }", "a part of a form is"),
        ("form = { a = { text = '1', type = 'plain' } }", "'plain' is not a media type"),
        ("form = ['=1']", "the field has no name"),
        ("form = 'a=1'", "`form`"),
        ("form = {}", "the form has no parts"),
        ("form = { a = '1' }, body = 'x'", "`form` is a body of its own"),
        ("compress = 'gzip'", "`compress`: the request has no body"),
        ("body = 'x', compress = 'br'", "'br' is unknown; write \"gzip\""),
        (
            "body = 'x', compress = 'gzip', headers = ['Content-Encoding: br']",
            "`compress`: the header Content-Encoding is 'br'",
        ),
        ("form = { a = '1' }, headers = ['Content-Type: x/y']", "`form` has its own Content-Type"),
    ] {
        let plan = format!("url = 'http://127.0.0.1:1'\nrequests = 1\nrequest = [{{ {keys} }}]\n");
        fs::write(&file, plan).expect("a file");
        let refused = prony(&["check", file.to_str().expect("UTF-8")]);
        assert_eq!(refused.code, 2, "{keys}: {refused:?}");
        assert!(refused.stderr.contains(why), "{keys}: {refused:?}");
    }
    let url = "http://127.0.0.1:1/";
    for (args, why) in [
        (&["-F", "a"][..], "write NAME=TEXT"),
        (&["-F", "a=@/nowhere/file"], "no such file or directory"),
        (&["-F", "a=1", "-b", "x"], "cannot be used with"),
        (&["-F", "a=1", "-H", "Content-Type: x/y"], "both set the same header"),
    ] {
        let refused = prony(&[&[url][..], args].concat());
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{args:?}: {refused:?}");
    }
}
