//! `prony import` refuses what it cannot read, and files elsewhere, with their place.

use std::fs;

use crate::rig::prony;

/// Nothing of a file elsewhere is in the plan, unless an option names its folder.
#[test]
fn files_elsewhere_need_an_option() {
    let (here, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let elsewhere = elsewhere.expect("a folder");
    let (file, secret) = (here.path().join("file"), elsewhere.path().join("key"));
    fs::write(&secret, "hunter2").expect("a file");
    fs::write(&file, format!("\ncurl http://h/ -d @{}\n", secret.display())).expect("a file");
    let (file, folder) = (file.to_str().expect("UTF-8"), elsewhere.path().display().to_string());
    let ended = prony(&["import", "curl", file]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
    let why = "can be sent (PATH: this file is not in the folder of the input; if the plan should \
               have it, name its folder with --files-from DIR: line 2)";
    assert!(
        ended.stderr.contains(&why.replace("PATH", &secret.display().to_string())),
        "{ended:?}"
    );
    let ended = prony(&["import", "curl", file, "--files-from", "/dev", "--files-from", &folder]);
    assert!(ended.code == 0 && ended.stdout.contains("body = \"hunter2\""), "{ended:?}");
    let note = format!("1 x the content of the file {}: line 2", secret.display());
    assert!(ended.stderr.contains(&note), "{ended:?}");
}

/// Options that mean nothing are refused whatever the file has.
#[test]
fn options_of_other_formats_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "curl http://h/\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    for (option, why) in [
        (&["--all-sites"][..], "--all-sites is for the format har"),
        (&["--all-hosts"], "--all-sites is for the format har"),
        (&["--no-correlate"], "--no-correlate is for the format har"),
        (&["--seed", "1"], "--seed is for the format openapi"),
        (
            &["--files-from", "/nope"],
            "--files-from /nope: cannot be read: no such file or directory",
        ),
        (&["--files-from", file], ": cannot be read: not a directory"),
    ] {
        let ended = prony(&[&["import", "curl", file], option].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
}

/// What the plan cannot have leaves out its request alone, by its place in the file.
#[test]
fn requests_that_no_plan_can_have_are_left_out_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let header = |name: &str| format!(r#"[{{"key": "{name}", "value": "1"}}]"#);
    let item = |name: &str, header: &str| {
        format!(
            r#"{{"name": "{name}", "request": {{"url": "http://h/{name}", "header": {header}}}}}"#
        )
    };
    let items = [item("a", "[]"), item("b", &header("no name")), item("c", &header("X"))];
    fs::write(&file, format!(r#"{{"item": [{}]}}"#, items.join(", "))).expect("a file");
    let ended = prony(&["import", "postman", file.to_str().expect("UTF-8")]);
    assert!(ended.code == 0 && ended.stderr.contains("imported 2 requests"), "{ended:?}");
    let is_named = |line: &str| line.contains("1 x left out: ") && line.ends_with(": /b");
    assert!(ended.stderr.lines().any(is_named), "{ended:?}");
}

#[test]
fn files_that_cannot_be_imported_are_refused_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    for (format, text, why) in [
        ("har", "{\"log\": 1}", "file: this is not an HTTP archive: it has no `log` with"),
        ("har", "{\"log\"", "file:1:6: this is not an HTTP archive: "),
        ("har", "{\"log\": {}}", "file: there is no request in it that can be sent"),
        ("curl", "wget http://h/\n", "can be sent (the program wget is not curl: line 1)"),
        ("curl", "\ncurl 'http://h/\n", "file:2: a word starts with ', and there is no ' that"),
        ("curl", "curl --foo http://h/\n", "the option --foo of curl is not supported: line 1"),
        ("curl", "curl -d @nope http://h/\n", "nope: No such file or directory"),
        ("openapi", "openapi: 3.0.0\n", "file: it names no server; name one with --to URL"),
        ("openapi", "openapi: 3.0.0\npaths: [\n", "file:3:1: this is not YAML: "),
        ("openapi", "{\"openapi\": \"3.0.0\"", "file:1:19: this is not JSON: "),
        (
            "openapi",
            "{\"swagger\": \"1.2\"}",
            "file: neither OpenAPI 3.0, 3.1 or 3.2 nor Swagger 2.0",
        ),
        ("postman", "[]", "file: this is not a collection of Postman: it has no list `item`"),
        ("postman", "{", "file:1:1: this is not a collection of Postman: "),
        ("postman", "{\"requests\": []}", "file: a collection of Postman 1.0; export it as 2.1"),
        ("vegeta", "\nnonsense\n", "can be sent ('nonsense' starts neither a target (METHOD URL)"),
        ("urls", "/a\n", "file:1: this is a path; name its server with --to URL"),
        ("wsesslog", "\n/a\n", "file:2:1: this is a path; name its server with --to URL"),
        (
            "wsesslog",
            "http://h/a thnk=1\n",
            "can be sent (left out: 'thnk=' is not understood; a URI",
        ),
        ("wsesslog", "ftp://h/a\n", "can be sent (ftp:// is not HTTP: line 1)"),
        ("siege", "", "a URL per line is the format urls"),
    ] {
        fs::write(&file, text).expect("a file");
        let ended = prony(&["import", format, file.to_str().expect("UTF-8")]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{text}: {ended:?}");
        assert!(ended.stderr.contains(why), "{why}: {ended:?}");
    }
    let tags = r#"{"openapi": "3.0.0", "servers": [{"url": "http://h"}], "paths": {"/a": {"get": {"tags": ["x", "y"]}}}}"#;
    fs::write(&file, tags).expect("a file");
    let name = file.to_str().expect("UTF-8");
    for (format, words, why) in [
        ("openapi", ["--weight", "z=1"], "file: no operation has the tag 'z'; there are x, y"),
        ("openapi", ["--weight", "x"], "use TAG=N"),
        ("openapi", ["--weight", "x=0"], "can be sent (its tag has the weight 0: GET /a)"),
        ("openapi", ["--seed", "x"], "--seed"),
        ("har", ["--seed", "1"], "--seed is for the format openapi"),
        ("http", ["--weight", "x=1"], "--weight is for the format openapi"),
    ] {
        let ended = prony(&[&["import", format, name], &words[..]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{why}: {ended:?}");
    }
    let ended = prony(&["import", "har", "/nonexistent"]);
    assert_eq!(ended.code, 2, "{ended:?}");
}
