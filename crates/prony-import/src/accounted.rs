//! Every element of an input is in the plan or in a note with its place, and one odd entry leaves
//! the others in.

use std::fs;

use crate::{Format, Import, Options, import};

fn read(format: Format, text: &str) -> Import {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bytes"), b"\xff{{\xff").expect("a file");
    fs::write(folder.path().join("text"), "a {{x}}").expect("a file");
    let options = Options {
        folder: folder.path(),
        with_secrets: true,
        to: Some("http://t"),
        ..Options::default()
    };
    import(format, "in", text.as_bytes(), &options).expect("an import")
}

/// The notes, and the requests of the plan.
fn lines(format: Format, text: &str) -> (Vec<String>, Vec<String>) {
    let import = read(format, text);
    let note = |note: &crate::Note<'_>| format!("{}: {}", note.what, note.shown_places());
    let notes = import.notes().iter().map(note).collect();
    let plan = import.write("a plan");
    let requests = plan.lines().map(str::trim).filter(|line| line.starts_with("{ "));
    (notes, requests.map(|line| line.trim_end_matches(',').to_owned()).collect())
}

#[test]
fn targets_of_vegeta() {
    let text = "GET http://h/1\nnonsense\nX-A: 1\n\nX-B: 2\nPOST http://h/2\nX-C:\n\nPOST \
                http://h/3\nContent-Length: 7\n# a comment\nX-D: d\n@bytes\n\nPUT http://h/4\n@none\n\n\
                GET ftp://h/5\nGET http://h/6\nX(Y: 1\n";
    let (notes, requests) = lines(Format::Vegeta, text);
    let wanted = [
        "a header that is not 'Name: value': line 1, line 6",
        "'X-B:' starts neither a target (METHOD URL) nor a header of one: line 5",
        "Content-Length is that of the body, whatever a target says: line 9",
        "none: No such file or directory (os error 2): line 15",
        "ftp:// is not HTTP: line 18",
        "the content of the file bytes: line 13",
        "left out: the header name contains '(' after 'X'; names have letters, digits and \
         !#$%&'*+-.^_`|~: line 19",
    ];
    assert_eq!(notes, wanted);
    let body = "{ path = \"/3\", headers = [\"X-D: d\"], body = { base64 = \"/3t7/w==\" } }";
    assert_eq!(requests, [body]);
}

#[test]
fn targets_of_vegeta_in_json() {
    let text = "{\"method\": \"GET\", \"url\": \"http://h/1\", \"header\": {\"X-A\": [\"a\", \"b\"]}, \"body\": null}\n\
                {\"method\": \"GET\"}\nnonsense\n{\"url\": \"http://h/\"}\n\
                {\"method\": \"POST\", \"url\": \"http://h/2\", \"body\": \"?\"}\n\
                {\"method\": \"POST\", \"url\": \"http://h/2\", \"header\": {\"X\": [1]}}\n\
                {\"method\": \"POST\", \"url\": \"http://h/2\", \"header\": [1]}\n\
                {\"method\": \"POST\", \"url\": \"http://h/2\", \"bdy\": \"\"}\n\
                {\"method\": \"A B\", \"url\": \"http://h/2\"}\n";
    let (notes, requests) = lines(Format::Vegeta, text);
    let wanted = [
        "a target without a url: line 2",
        "this is not a target: expected ident at line 1 column 2: line 3",
        "a target without a method: line 4",
        "a body that is not base64: line 5",
        "the header X has a value that is no text: line 6",
        "the header of a target has a wrong type: line 7",
        "'bdy' is no key of a target: line 8",
        "left out: the method 'A B' contains ' '; write GET, POST or the like: line 9",
    ];
    assert_eq!(notes, wanted);
    assert_eq!(requests, ["{ path = \"/1\", headers = [\"X-A: a\", \"X-A: b\"] }"]);
}

/// As vegeta 12 sends them.
#[test]
fn paths_of_vegeta_are_those_of_go() {
    for (path, wanted) in [
        ("/a b%2f?c=\"d", "/a%20b/?c=\"d"),
        ("/a\"<>^`|\\\\{}", "/a%22%3C%3E%5E%60%7C%5C%5C%7B%7D"),
        ("/%2f%7e!'()*[];b=c,d?e={f}", "/%2f%7e!'()*[];b=c,d?e={f}"),
        ("/{{x}}!", "/%7B%7Bx%7D%7D%21"),
        ("?/{", "/?/{"),
        ("", "/"),
    ] {
        let import = read(Format::Vegeta, &format!("GET http://h{path}\n"));
        assert_eq!(import.all().next().expect(path).path.literal(), Some(wanted), "{path}");
    }
}

#[test]
fn lists_of_urls() {
    let text = "http://h/1\nh/2 post a=1\n/3 PUT <bytes\nh/4 POST <none\nftp://h/5\nh/6 GET x\n\
                h/7 P(ST x\nhttp://h:99999/\n";
    let (notes, requests) = lines(Format::Urls, text);
    let wanted = [
        "none: No such file or directory (os error 2): line 4",
        "ftp:// is not HTTP: line 5",
        "a GET with data: they are its body: line 6",
        "the content of the file bytes: line 3",
        "left out: the method 'P(ST' contains '('; write GET, POST or the like: line 7",
    ];
    assert_eq!(notes[..5], wanted);
    assert!(notes[5].starts_with("left out: ") && notes[5].ends_with(": line 8"), "{notes:?}");
    assert_eq!(requests.len(), 4, "{requests:?}");
}

#[test]
fn session_files() {
    let text = "/1 think=1\n /2 foo=1\n /3 method=A(B\n\n/4 think=x\n /5\n\nftp://h/6\n";
    let (notes, requests) = lines(Format::Wsesslog, text);
    assert_eq!(notes.len(), 4, "{notes:?}");
    for place in ["line 2, column 5", "line 3, column 5", "line 5, column 4"] {
        assert!(notes.iter().any(|n| n.starts_with("left out: ") && n.contains(place)), "{place}");
    }
    assert!(notes.contains(&"ftp:// is not HTTP: line 8".to_owned()), "{notes:?}");
    assert_eq!(requests, ["{ path = \"/1\", think = \"1s\" }", "{ path = \"/5\" }"]);
}

#[test]
fn files_of_editors() {
    let text = "< {%\n  request.variables.set('a', 1)\n%}\n# @timeout 5\n# @no-log\n// @foo\nget \
                http://h/1 HTTP/2\nX-A: a\nnonsense\n# a comment\n\n###\nPOST /2\nHost: h2:8443\n\
                Authorization: Basic me se:cret\nContent-Type: application/x-www-form-urlencoded\n\na=1\n  &b=2\n\n\
                >> out.json\n\n###\nPOST http://h/3\n\n< none\n\n### \nWEBSOCKET ws://h/4\n\n###\n\
                POST http://h/5\nX-Request-Type: GraphQL\n\nquery {\n a(b: \"{{v}}\")\n}\n\n{\"c\": 1}\n\n\
                ###\nGET http://h/6?a={{lost.response.body.$.x}}&b={{$random.integer(1, 5)}}\n";
    let (notes, requests) = lines(Format::Http, text);
    let wanted = [
        "a script of an editor: line 1",
        "@timeout: time limits are options of the load (--timeout): line 4",
        "@foo: this tag has no counterpart: line 6",
        "HTTP/2: the version of HTTP is set in the plan: line 7",
        "a header without a colon: line 9",
        "a script or file for the reply: line 21",
        "none: No such file or directory (os error 2): line 24",
        "WEBSOCKET is no request of HTTP: line 29",
        "no request has the name lost, whose reply another needs: variable lost_response_body_x",
    ];
    assert_eq!(notes, wanted);
    let wanted = [
        "{ path = \"/1\", headers = [\"X-A: a\"] }",
        "{ url = \"https://h2:8443/2\", method = \"POST\", headers = [\"Authorization: Basic bWUgc2U6Y3JldA==\", \
         \"Content-Type: application/x-www-form-urlencoded\"], body = \"a=1&b=2\" }",
        "{ path = \"/5\", method = \"POST\", headers = [\"Content-Type: application/json\"], body = \
         \"{\\\"query\\\":\\\"query {\\\\n a(b: \\\\\\\"{{v}}\\\\\\\")\\\\n}\\\",\\\"variables\\\":{\\\"c\\\": 1}}\" }",
        "{ path = \"/6?a={{lost_response_body_x}}&b={{random.int 1 4}}\" }",
    ];
    assert_eq!(
        requests,
        wanted.map(|line| line
            .replace(", method = \"POST\", headers = [\"Au", ", headers = [\"Au")
            .replace("\"/5\", method = \"POST\"", "\"/5\""))
    );
}

/// A file is literal, unless `<@` says that its variables have values.
#[test]
fn files_in_files_of_editors_are_literal() {
    let text = "@x = 1\nPOST http://h/\n\n{{x}}\n< text\n<@ text\n\n###\nPOST http://h/\n\n{{y}}<\n< bytes\n";
    let (_, requests) = lines(Format::Http, text);
    assert_eq!(requests[0], "{ path = \"/\", body = \"1\\na {{x}}a 1\", templates = false }");
    // {{y}}< LF ff {{"{{"}} ff
    let body = "e3t5fX08Cv97eyJ7eyJ9ff8=";
    assert_eq!(
        requests[1],
        format!("{{ path = \"/\", body = {{ base64 = \"{body}\", templates = true }} }}")
    );
}

/// A request for which the plan is refused is left out with its place in the input.
#[test]
fn what_a_plan_cannot_have_is_left_out_by_its_line() {
    let mut import = read(Format::Urls, "http://h/1\nhttp://h/2\nhttp://h/3\n");
    let plan = import.write("a plan");
    let at = 1 + plan.lines().position(|line| line.contains("/2")).expect("a line");
    assert!(!import.leave_out(&plan, 1, "x"));
    assert!(import.leave_out(&plan, at, "x"));
    let note = import.notes()[0];
    assert_eq!((note.what, note.shown_places().as_str()), ("left out: x", "line 2"));
    assert_eq!(import.requests(), 2);
}
