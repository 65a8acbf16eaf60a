//! Inputs that would take any time or memory have a bound, and a sentence that says so.

use std::fs;
use std::path::Path;

use prony_import::{Format, Options, import};

fn refused(format: Format, text: &str, options: &Options<'_>) -> String {
    import(format, "file", text.as_bytes(), options)
        .map(|found| found.requests())
        .expect_err("a bound")
}

/// The same texts of each format with variables: their definitions, and a request that uses one.
fn with_variables(
    first: &str,
    count: usize,
    of: &dyn Fn(usize) -> String,
) -> [(Format, String); 3] {
    let values: Vec<String> =
        (0..count).map(|nth| if nth == 0 { first.to_owned() } else { of(nth - 1) }).collect();
    let last = count - 1;
    let lines = |line: &dyn Fn(usize, &str) -> String, between: &str| {
        let all: Vec<String> = values.iter().enumerate().map(|(nth, v)| line(nth, v)).collect();
        all.join(between)
    };
    let pair = |nth: usize, value: &str| format!(r#"{{"key": "v{nth}x", "value": "{value}"}}"#);
    [
        (
            Format::Http,
            lines(&|nth, value| format!("@v{nth}x = {value}"), "\n")
                + &format!("\nPOST http://h/\n\n{{{{v{last}x}}}}\n"),
        ),
        (
            Format::Postman,
            format!(
                r#"{{"info": {{}}, "variable": [{}], "item": [{{"name": "a", "request": {{"url": "http://h/",
                "method": "POST", "body": {{"mode": "raw", "raw": "{{{{v{last}x}}}}"}}}}}}]}}"#,
                lines(&pair, ", ")
            ),
        ),
        (
            Format::Urls,
            lines(&|nth, value| format!("v{nth}x = {value}"), "\n")
                .replace("{{", "$(")
                .replace("}}", ")")
                + &format!("\nhttp://h/ POST x$(v{last}x)\n"),
        ),
    ]
}

fn field(nth: usize) -> String {
    format!("{{{{v{nth}x}}}}")
}

#[test]
fn variables_do_not_grow_without_bound() {
    let options = Options::default();
    // Twice the one before, with something and with nothing in the first; and each has all others.
    let all_of_them = |_: usize| (0..30).map(field).collect::<String>();
    for first in ["0123456789", "{{none}}"] {
        for of in [&|nth| field(nth).repeat(2) as String, &all_of_them as &dyn Fn(usize) -> String]
        {
            for (format, text) in with_variables(first, 30, of) {
                let why = refused(format, &text, &options);
                assert!(why.ends_with("its variables become more than 64 MiB of text"), "{why}");
            }
        }
    }
    // A long chain.
    for (format, text) in with_variables("a", 10_000, &field) {
        let why = refused(format, &text, &options);
        assert!(why.ends_with("its variables are more than 64 deep in each other"), "{why}");
    }
}

#[test]
fn variables_in_others_are_replaced() {
    for (format, text) in with_variables("a", 50, &|nth| field(nth) + "b") {
        let found =
            import(format, "file", text.as_bytes(), &Options::default()).expect("a request");
        let plan = found.write("x");
        assert!(plan.contains(&format!("a{}\"", "b".repeat(49))), "{plan}");
    }
    // What is in itself has no value.
    for (format, text) in with_variables("{{v1x}}", 3, &field) {
        let found =
            import(format, "file", text.as_bytes(), &Options::default()).expect("a request");
        let plan = found.write("x");
        match format {
            Format::Urls => assert!(plan.contains("\"x$(v"), "{plan}"),
            _ => assert!(
                plan.contains("_x = \"FILL-IN\"") || plan.contains("x = \"FILL-IN\""),
                "{plan}"
            ),
        }
    }
}

/// Each format with a file that it names.
fn with_file(name: &str) -> [(Format, String); 12] {
    let curl = |option: &str| (Format::Curl, format!("curl http://h/ {option}\n"));
    let form = |kind: &str| {
        let fields = format!(r#"[{{"key": "f", "type": "file", "src": "{name}"}}]"#);
        let body = match kind {
            "formdata" => format!(r#"{{"mode": "formdata", "formdata": {fields}}}"#),
            _ => format!(r#"{{"mode": "file", "file": {{"src": "{name}"}}}}"#),
        };
        let request = format!(r#"{{"method": "POST", "url": "http://h/", "body": {body}}}"#);
        let text = format!(r#"{{"info": {{}}, "item": [{{"name": "a", "request": {request}}}]}}"#);
        (Format::Postman, text)
    };
    [
        curl(&format!("-d @{name}")),
        curl(&format!("--data-binary @{name}")),
        curl(&format!("--data-urlencode a@{name}")),
        curl(&format!("--json @{name}")),
        curl(&format!("-F a=@{name}")),
        curl(&format!("-F 'a=<{name}'")),
        curl(&format!("-T {name}")),
        form("formdata"),
        form("file"),
        (Format::Http, format!("POST http://h/\n\n< {name}\n")),
        (Format::Vegeta, format!("POST http://h/\n@{name}\n")),
        (Format::Urls, format!("http://h/ POST <{name}\n")),
    ]
}

#[test]
fn files_are_read_only_where_the_user_allows() {
    let (inside, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let outside = outside.expect("a folder");
    let secret = outside.path().join("key");
    for path in [&secret, &inside.path().join("here"), &inside.path().join(".hidden")] {
        fs::write(path, "hunter2hunter2").expect("a file");
    }
    std::os::unix::fs::symlink(&secret, inside.path().join("link")).expect("a link");
    let up = format!("../{}/key", outside.path().file_name().expect("a name").display());
    let options = Options { folder: inside.path(), with_secrets: true, ..Options::default() };
    let more = [outside.path().to_owned(), inside.path().to_owned()];
    let allowed = Options { files_from: &more, ..options };
    for name in [secret.to_str().expect("UTF-8"), &up, "link", ".hidden"] {
        for (format, text) in with_file(name) {
            match import(format, "file", text.as_bytes(), &options) {
                Err(why) => assert!(why.contains("--files-from DIR"), "{text}: {why}"),
                Ok(found) => {
                    let (plan, remarks) = (found.write("x"), found.remarks());
                    assert_eq!(format, Format::Postman);
                    assert!(
                        !plan.contains("hunter2") && remarks.contains("--files-from"),
                        "{plan}"
                    );
                }
            }
            let found = import(format, "file", text.as_bytes(), &allowed).expect("an import");
            assert!(found.write("x").contains("hunter2hunter2"), "{text}");
            let note = format!("1 x the content of the file {name}: ");
            assert!(found.remarks().contains(&note), "{}", found.remarks());
        }
    }
    for (format, text) in with_file("here") {
        let found = import(format, "file", text.as_bytes(), &options).expect("an import");
        assert!(found.write("x").contains("hunter2hunter2"), "{text}");
        assert!(found.remarks().contains("1 x the content of the file here: "));
    }
}

/// Other options of curl that name files read none.
#[test]
fn no_other_option_of_curl_reads_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("f"), "hunter2=1").expect("a file");
    let options = Options { folder: folder.path(), with_secrets: true, ..Options::default() };
    for option in
        ["-K f", "-b f", "-H @f", "--cacert f", "-E f", "--cert f", "--key f", "--data-raw @f"]
    {
        let text = format!("curl http://h/ {option}\n");
        let found = import(Format::Curl, "file", text.as_bytes(), &options).expect("an import");
        assert!(!found.write("x").contains("hunter2"), "{option}");
    }
}

/// A device has no end, and a pipe waits for ever: neither is opened.
#[test]
fn devices_and_pipes_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status();
    assert!(made.expect("mkfifo").success());
    let dev = [Path::new("/dev").to_owned()];
    let options = Options { folder: folder.path(), files_from: &dev, ..Options::default() };
    for name in ["/dev/zero", "pipe", "zero"] {
        for (format, text) in with_file(name) {
            match import(format, "file", text.as_bytes(), &options) {
                Err(why) => assert!(why.contains("this is not a plain file"), "{why}"),
                Ok(found) => {
                    let remarks = found.remarks();
                    assert!(
                        remarks.contains("without a file: this is not a plain file"),
                        "{remarks}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_files_make_has_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f");
    // Without its line breaks, nothing is left of it.
    fs::write(&file, "\n".repeat(1 << 20)).expect("a file");
    let options = Options { folder: folder.path(), ..Options::default() };
    let lines = "curl http://h/ -d @f\n".repeat(65);
    let why = refused(Format::Curl, &lines, &options);
    assert_eq!(why, "file:65: the files that it names have more than 64 MiB in all");
    // One body for many URLs.
    fs::write(&file, "x".repeat(1 << 20)).expect("a file");
    let line = format!("curl -d @f{}\n", " h".repeat(1_000));
    let why = refused(Format::Curl, &line, &options);
    assert_eq!(why, "file:1: its requests have more than 64 MiB, and so no plan file");
}

#[test]
fn requests_have_a_bound() {
    let options = Options { to: Some("http://h"), ..Options::default() };
    let count = 100_001;
    let operations: Vec<String> =
        (0..count).map(|nth| format!(r#""/{nth}": {{"get": {{}}}}"#)).collect();
    let openapi = format!(r#"{{"openapi": "3.0.0", "paths": {{{}}}}}"#, operations.join(","));
    let item = r#"{"request": "http://h/"}"#;
    let items = vec![item; count].join(",");
    let entry = r#"{"startedDateTime": "2026-11-24T10:00:00Z", "request": {"method": "GET", "url": "http://h/"},
        "response": {"status": 200}}"#;
    for (format, text) in [
        (Format::Curl, "curl h\n".repeat(count)),
        (Format::Http, "GET http://h/\n###\n".repeat(count)),
        (Format::Vegeta, "GET http://h/\n".repeat(count)),
        (Format::Vegeta, "{\"method\": \"GET\", \"url\": \"http://h/\"}\n".repeat(count)),
        (Format::Urls, "h\n".repeat(count)),
        (Format::Wsesslog, "/\n".repeat(count)),
        (Format::Wsesslog, "/\n".repeat(4 * count)),
        (Format::Postman, format!(r#"{{"info": {{}}, "item": [{items}]}}"#)),
        (Format::OpenApi, openapi),
        (Format::Har, format!(r#"{{"log": {{"entries": [{}]}}}}"#, vec![entry; count].join(","))),
    ] {
        let why = refused(format, &text, &options);
        assert!(why.contains("more than 100,000 "), "{why}");
    }
}

/// What is deep, or has many values, is refused before it takes memory.
#[test]
fn values_have_a_bound() {
    let options = Options::default();
    let many = "[0,".to_owned() + &"0,".repeat(4_000_001) + "0]";
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (format, before, after) in [
        (Format::OpenApi, r#"{"openapi": "3.0.0", "x": "#, "}"),
        (Format::Postman, r#"{"info": {}, "item": [], "auth": "#, "}"),
        (Format::Har, r#"{"log": {"x": "#, "}}"),
    ] {
        let why = refused(format, &format!("{before}{many}{after}"), &options);
        assert_eq!(why, "file: it has more than 4,000,000 values");
        let why = refused(format, &format!("{before}{deep}{after}"), &options);
        // What an archive has beside its entries is not kept.
        assert!(why.contains("recursion limit") || format == Format::Har, "{why}");
    }
    let yaml = |text: &str| refused(Format::OpenApi, text, &options);
    let why = yaml(&format!("openapi: 3.0.0\nx: {deep}\n"));
    assert!(why.contains("recursion limit"), "{why}");
    // A text that is used many times, and one in many anchors.
    let long = "y".repeat(1 << 20);
    let uses = "*a, ".repeat(1_000);
    let why = yaml(&format!("openapi: 3.0.0\nx: &a {long}\ny: [{uses}]\n"));
    assert!(why.ends_with("the document has too many values"), "{why}");
    let list = "0, ".repeat(100_000);
    let anchors: String = (0..100).map(|nth| format!("&b{nth} [")).collect();
    let why = yaml(&format!("openapi: 3.0.0\nx: {anchors}{list}{}\n", "]".repeat(100)));
    assert!(why.ends_with("the document has too many values"), "{why}");
}

/// Descriptions whose parts are used in each other.
#[test]
fn descriptions_do_not_grow_without_bound() {
    let options = Options::default();
    let described = |schema: &str, more: &str| {
        format!(
            r##"{{"openapi": "3.0.0", "servers": [{{"url": "http://h"}}], "paths": {{"/a": {{"post": {{"requestBody":
            {{"content": {{"application/json": {{"schema": {schema}}}}}}}}}}}}}{more}}}"##
        )
    };
    let long = "x".repeat(1 << 20);
    let list = |items: &str| format!(r#"{{"type": "array", "minItems": 100, "items": {items}}}"#);
    let unique = |items: &str| {
        format!(r#"{{"type": "array", "minItems": 100, "uniqueItems": true, "items": {items}}}"#)
    };
    let mut unique_lists = unique(r#"{"type": "array", "maxItems": 0}"#);
    for _ in 0..6 {
        unique_lists = unique(&unique_lists);
    }
    let refers = r##"{"allOf": [{"$ref": "#/s"}, {"$ref": "#/s"}, {"$ref": "#/s"}]}"##;
    for (schema, more) in [
        (list(&list(&list(&format!(r#"{{"example": "{long}"}}"#)))), String::new()),
        (unique_lists, String::new()),
        (refers.to_owned(), format!(r#", "s": {refers}"#)),
        (
            r##"{"$ref": "#/a"}"##.to_owned(),
            r##", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}"##.into(),
        ),
        (
            r#"{"type": "string", "pattern": "((((a{1000}){1000}){1000}){1000}){1000}"}"#.into(),
            String::new(),
        ),
        (format!(r#"{{"type": "string", "pattern": "{}"}}"#, "(".repeat(10_000)), String::new()),
    ] {
        let text = described(&schema, &more);
        match import(Format::OpenApi, "file", text.as_bytes(), &options) {
            Ok(found) => assert!(found.write("x").len() < 40 << 20),
            Err(why) => assert!(why.contains("more than 64 MiB"), "{why}"),
        }
    }
    // The same for many operations.
    let paths: Vec<String> = (0..3_000)
        .map(|nth| {
            format!(
                r##""/{nth}": {{"post": {{"requestBody": {{"content": {{"application/json": {{"schema":
                {{"$ref": "#/s"}}}}}}}}}}}}"##
            )
        })
        .collect();
    let text = format!(
        r##"{{"openapi": "3.0.0", "servers": [{{"url": "http://h"}}], "s": {refers}, "paths": {{{}}}}}"##,
        paths.join(",")
    );
    let why = refused(Format::OpenApi, &text, &options);
    assert!(why.ends_with("its schemas have more than 4,000,000 values"), "{why}");
}
