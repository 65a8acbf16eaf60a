//! `prony import`: what arrives at a server when the plan runs is what the file says.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::rig::{Ended, have, prony};
use crate::scripted::{Scripted, reply, send};

/// A server that lets users in, and knows the way to another page.
fn shop() -> Scripted {
    Scripted::start(|_, request| match request.split_whitespace().nth(1) {
        Some("/login") => send(
            "HTTP/1.1 200 OK\r\nSet-Cookie: sid=new; Path=/\r\nX-Next: /home\r\n\
             Content-Length: 30\r\nConnection: close\r\n\r\n{\"auth\": {\"token\": \"fresh-1\"}}",
        ),
        Some("/old") => send(
            "HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ),
        Some("/gone") => reply(404, "no"),
        _ => reply(200, "ok"),
    })
}

/// Imports a text in this format, and checks the plan. Returns what the import has printed.
pub(crate) fn import(folder: &Path, format: &str, text: &str, more: &[&str]) -> (Ended, String) {
    let (file, plan) = (folder.join("file"), folder.join("plan.toml"));
    fs::write(&file, text).expect("a file");
    let (file, plan) = (file.to_str().expect("UTF-8"), plan.to_str().expect("UTF-8"));
    let ended = prony(&[&["import", format, file, "-o", plan], more].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""), "{ended:?}");
    let checked = prony(&["check", plan]);
    // What is to be filled in is all that is left to do.
    let is_blank = |line: &str| line.contains("is still to be filled in");
    assert!(checked.stderr.lines().all(is_blank), "{checked:?}");
    let is_blank = fs::read_to_string(plan).expect("a plan").contains("FILL-IN");
    assert_eq!(checked.code, if is_blank { 2 } else { 0 }, "{checked:?}");
    (ended, plan.to_owned())
}

/// Runs the plan, and returns what has arrived: each request without prony's own headers. What is
/// to be filled in has the text `FILL-IN`, which is refused as it is.
pub(crate) fn arrived(server: &Scripted, plan: &str) -> Vec<String> {
    let before = server.requests().len();
    let text = fs::read_to_string(plan).expect("a plan");
    fs::write(plan, text.replace("\"FILL-IN\"", "\"FILL{{random.pick -IN}}\"")).expect("a plan");
    let ended = prony(&["run", plan]);
    // On a busy machine the run may not be valid (98).
    assert!([0, 98].contains(&ended.code), "{ended:?}");
    server.requests()[before..].iter().map(|request| shown(request)).collect()
}

/// The request without the headers in which programs differ; other headers in order of their names.
pub(crate) fn shown(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let first = lines.next().expect("a request line");
    // Each program has its own boundary between the parts of a form.
    let boundary = head.split("boundary=").nth(1).map_or("", |text| text.lines().next().unwrap());
    let is_form = !boundary.is_empty();
    let is_own = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let varies = ["host", "user-agent", "accept", "connection"].contains(&name.as_str());
        !(varies || is_form && name == "content-length")
    };
    let mut headers: Vec<&str> = lines.filter(is_own).collect();
    headers.sort_unstable();
    let text = [&[first], headers.as_slice(), &["", body]].concat().join("\n");
    if is_form { text.replace(boundary, "BOUNDARY") } else { text }
}

#[test]
fn command_lines_of_curl_send_what_curl_sends() {
    if !have("curl") {
        return;
    }
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data.txt"), "a=1\r\nb=2\n").expect("a file");
    let at = server.address();
    let script = format!(
        "#!/bin/sh\n\
         curl 'http://{at}/a?x=1&y=%20' -H 'X-One: 1' --compressed -s -r 0-99\n\
         curl -sX PUT http://{at}/b -d 'n=1' -d @data.txt --data-urlencode 'q=a b&c'\n\
         curl --json '{{\"a\": [1, \"{{{{b}}}}\"]}}' http://{at}/c \\\n  -u me:secret\n\
         curl -G http://{at}/d -d q=1 --data-urlencode 'w=x y'; curl -sI http://{at}/e -b 'k=v; l=w'\n\
         curl http://{at}/f --data-binary @data.txt -H 'Content-Type: text/plain' -A agent -e http://r/ \
         -H 'X-Two: 1' -H 'X-Two: 2' -H 'Referer: http://other/'\n\
         curl -T data.txt http://{at}/g -H 'Expect:'\n\
         curl $'http://{at}/h' -H $'X-Q: it\\'s' --data-raw '@x' | cat\n\
         curl http://{at}/i -F a=1 -F 'b=x y;type=text/x' -F 'c=@data.txt;filename=n.txt' -F 'd=<data.txt'\n\
         curl http://{at}/j -F a=1 -H 'Content-Type: multipart/form-data'\n\
         curl http://me:p%40s@{at}/k\n"
    );
    let (ended, plan) = import(folder.path(), "curl", &script, &["--with-secrets"]);
    assert!(ended.stderr.contains("imported 11 requests in 1 session"), "{ended:?}");
    let ours = arrived(&server, &plan);
    let before = server.requests().len();
    let shell = Command::new("sh")
        .args(["-c", &script.replace("$'", "'").replace("it\\'s", "it'\\''s")])
        .current_dir(folder.path())
        .output()
        .expect("a shell");
    assert!(shell.status.success(), "{shell:?}");
    let theirs: Vec<String> = server.requests()[before..].iter().map(|r| shown(r)).collect();
    assert_eq!(ours.len(), 11);
    assert_eq!(ours, theirs);
}

#[test]
fn secrets_become_variables() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let at = server.address();
    let script = format!(
        "curl http://{at}/a?token=QS1 -H 'Authorization: Bearer HDR2' -b 'sid=CK3' \
         -d 'user=ann&password=FORM4' -H 'X-Api-Key: KEY5'\n\
         curl http://{at}/b --json '{{\"pin\": \"JSON6\", \"n\": 1}}' -u me:BASIC7\n"
    );
    let (ended, plan) = import(folder.path(), "curl", &script, &[]);
    let text = fs::read_to_string(&plan).expect("a plan");
    let printed = format!("{}{text}", ended.stderr);
    for secret in ["QS1", "HDR2", "CK3", "FORM4", "KEY5", "JSON6", "BASIC7", "bWU6"] {
        assert!(!printed.contains(secret), "{secret}: {printed}");
    }
    assert!(ended.stderr.contains("fill in under [variables]: token, authorization,"), "{ended:?}");
    // A variable may read the environment, or be filled in.
    let filled = text.replace("pin = \"FILL-IN\"", "pin = \"4711\"");
    assert_ne!(filled, text);
    fs::write(&plan, filled).expect("a plan");
    let all = arrived(&server, &plan);
    assert!(all[0].starts_with("POST /a?token=FILL-IN HTTP/1.1\n"), "{all:?}");
    assert!(all[0].ends_with("\n\nuser=ann&password=FILL-IN"), "{all:?}");
    assert!(all[1].ends_with("\n\n{\"pin\": \"4711\", \"n\": 1}"), "{all:?}");
}

/// As Chrome saves it, in short.
fn har(at: &str) -> String {
    let entry = |page: u32, start: &str, time: u32, request: &str, status: u16, more: &str| {
        format!(
            r#"{{"pageref": "page_{page}", "startedDateTime": "2026-11-24T10:00:{start}Z", "time": {time},
            "request": {{{request}}}, "response": {{"status": {status}, "headers": [
            {{"name": "set-cookie", "value": "sid=old; Path=/"}}], "content": {{"mimeType": "text/html"}}}}
            {more}}}"#
        )
    };
    let get = |path: &str, more: &str| {
        format!(
            r#""method": "GET", "url": "http://{at}{path}", "headers": [
            {{"name": ":authority", "value": "x"}}, {{"name": "Host", "value": "x"}},
            {{"name": "Accept-Language", "value": "en"}}{more}]"#
        )
    };
    let cookie = r#", {"name": "Cookie", "value": "sid=old; theme=dark"}"#;
    let post = format!(
        r#""method": "POST", "url": "http://{at}/login", "headers": [],
        "postData": {{"mimeType": "application/x-www-form-urlencoded", "text": "user=a&password=b"}}"#
    );
    let image = r#", "_resourceType": "image""#;
    let entries = [
        entry(1, "00.000", 100, &get("/old", ""), 302, ""),
        entry(1, "00.100", 200, &get("/new", ""), 200, r#", "_resourceType": "document""#),
        entry(1, "00.150", 300, &get("/a.css", ""), 200, image),
        entry(1, "00.160", 100, &get("/b.png", ""), 200, image),
        entry(1, "00.170", 0, &get("/c.png", ""), 200, r#", "_fromCache": "memory""#),
        entry(1, "00.180", 0, &get("/d.png", ""), 0, ""),
        entry(2, "03.450", 50, &post, 200, ""),
        entry(2, "03.600", 50, &get("/gone", cookie), 404, r#", "_resourceType": "fetch""#),
    ];
    format!(r#"{{"log": {{"version": "1.2", "pages": [], "entries": [{}]}}}}"#, entries.join(","))
}

#[test]
fn archives_of_browsers_become_pages_with_pauses() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let (ended, plan) = import(folder.path(), "har", &har(&server.address()), &["--with-secrets"]);
    for line in [
        "imported 6 requests in 1 session",
        "1 x answered from the browser's cache: entry 5",
        "1 x no reply arrived (blocked, cancelled or failed): entry 6",
        "1 x a redirect: what it leads to is a request of its own: entry 1",
    ] {
        assert!(ended.stderr.contains(line), "{line}: {ended:?}");
    }
    let text = fs::read_to_string(&plan).expect("a plan");
    assert!(text.contains("], lead = true, think = \"3s\" },"), "{text}");
    let fast = text.replace("\"3s\"", "\"30ms\"");
    fs::write(&plan, fast).expect("a plan");
    let all = arrived(&server, &plan);
    let mut firsts: Vec<&str> = all.iter().filter_map(|r| r.lines().next()).collect();
    // The resources of a page arrive in any order.
    firsts[2..4].sort_unstable();
    let wanted = ["GET /old", "GET /new", "GET /a.css", "GET /b.png", "POST /login", "GET /gone"];
    assert_eq!(firsts, wanted.map(|line| format!("{line} HTTP/1.1")));
    assert_eq!(all[1], "GET /new HTTP/1.1\nAccept-Language: en\n\n");
    assert!(all[4].ends_with("\n\nuser=a&password=b"), "{all:?}");
    // The jar has the cookie of today's login, and the one that no reply has set is sent as it was.
    assert!(all[5].contains("sid=new") && all[5].contains("theme=dark"), "{all:?}");
    assert!(!all[5].contains("sid=old"), "{all:?}");
}

/// Servers of other people get no load unless the user wants it.
#[test]
fn other_sites_are_left_out() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let archive = har(&server.address());
    let other = |path: &str| {
        format!(
            r#"{{"startedDateTime": "2026-11-24T10:00:00.150Z", "time": 1, "request": {{"method": "POST",
            "url": "https://www.analytics.example/{path}"}}, "response": {{"status": 200}}}}, "#
        )
    };
    let text =
        archive.replace(r#""entries": ["#, &format!(r#""entries": [{}{}"#, other("a"), other("b")));
    let (ended, plan) = import(folder.path(), "har", &text, &[]);
    let note = "2 x a request to another site, www.analytics.example; --all-sites keeps it: entry 1, \
                entry 2";
    assert!(ended.stderr.contains(note), "{ended:?}");
    assert!(ended.stderr.contains("imported 6 requests"), "{ended:?}");
    assert!(!fs::read_to_string(&plan).expect("a plan").contains("analytics"));
    let (ended, plan) = import(folder.path(), "har", &text, &["--all-sites"]);
    assert!(ended.stderr.contains("imported 8 requests"), "{ended:?}");
    assert!(fs::read_to_string(&plan).expect("a plan").contains("analytics"));
}

#[test]
fn files_of_editors_use_values_of_replies() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("body.json"), "{\"from\": \"a file\"}").expect("a file");
    let text = format!(
        "@host = {at}\n@base = http://{{{{host}}}}\n\n### let me in\n# @name login\n\
         POST {{{{base}}}}/login\nContent-Type: application/json\n\n{{\"user\": \"ann\"}}\n\n\
         > {{% client.log(1) %}}\n\n### next\nGET {{{{base}}}}/list HTTP/1.1\n    ?page=2\n    &size=10\n\
         Authorization: Bearer {{{{login.response.body.$.auth.token}}}}\nX-Id: {{{{$uuid}}}}\n\n\
         ###\nPUT {{{{base}}}}{{{{login.response.headers.X-Next}}}}\n\n< ./body.json\n",
        at = server.address()
    );
    let (ended, plan) = import(folder.path(), "http", &text, &[]);
    assert!(ended.stderr.contains("imported 3 requests in 1 session"), "{ended:?}");
    assert!(ended.stderr.contains("1 x a script or file for the reply: line 11"), "{ended:?}");
    let all = arrived(&server, &plan);
    assert!(all[0].ends_with("\n\n{\"user\": \"ann\"}"), "{all:?}");
    assert!(
        all[1].starts_with(
            "GET /list?page=2&size=10 HTTP/1.1\nAuthorization: Bearer fresh-1\nX-Id: "
        )
    );
    assert!(all[2].starts_with("PUT /home HTTP/1.1\n"), "{all:?}");
    assert!(all[2].ends_with("\n\n{\"from\": \"a file\"}"), "{all:?}");
}

/// The lines of a form end with CR LF, also after a file, which may have any bytes.
#[test]
fn files_of_editors_send_forms() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let at = server.address();
    let part = |name: &str| format!("--b\nContent-Disposition: form-data; name=\"{name}\"\n\n");
    let text = |content: &[u8]| {
        fs::write(folder.path().join("a"), content).expect("a file");
        let head =
            format!("POST http://{at}/form\nContent-Type: multipart/form-data; boundary=b\n\n");
        let text = format!("{head}{}x\n{}< ./a\n--b--\n", part("t"), part("f"));
        import(folder.path(), "http", &text, &["--with-secrets"]).1
    };
    let before = format!("{}x\n{}", part("t"), part("f")).replace('\n', "\r\n");
    let plan = text(b"of\na file");
    let all = arrived(&server, &plan);
    let body = all[0].split_once("\n\n").expect("a body").1.replace("BOUNDARY", "b");
    assert_eq!(body, format!("{before}of\na file\r\n--b--"));
    let plan = fs::read_to_string(text(b"of\xff\n")).expect("a plan");
    let body = [before.as_bytes(), b"of\xff\n\r\n--b--"].concat();
    assert!(plan.contains(&BASE64.encode(body)), "{plan}");
}

#[test]
fn collections_of_postman_become_sessions() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        r#"{{"info": {{"name": "shop", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}},
        "variable": [{{"key": "base", "value": "http://{at}"}}, {{"key": "n", "value": "7"}}],
        "auth": {{"type": "bearer", "bearer": [{{"key": "token", "value": "{{{{token}}}}", "type": "string"}}]}},
        "item": [
          {{"name": "status", "request": {{"method": "GET", "header": [], "url": "{{{{base}}}}/status"}},
            "event": [{{"listen": "test", "script": {{"exec": ["pm.test('x', () => pm.response.to.have.status(200))"]}}}}]}},
          {{"name": "orders", "item": [
            {{"name": "list", "request": {{"method": "GET", "auth": {{"type": "noauth"}},
              "url": {{"raw": "{{{{base}}}}/orders/{{{{n}}}}?all=1"}}}}}},
            {{"name": "add", "request": {{"method": "POST", "header": [{{"key": "X-Off", "value": "1", "disabled": true}}],
              "body": {{"mode": "urlencoded", "urlencoded": [{{"key": "a b", "value": "c&d"}}, {{"key": "n", "value": "{{{{n}}}}"}}]}},
              "url": {{"raw": "{{{{base}}}}/orders"}}}}}}]}}]}}"#,
        at = server.address()
    );
    let (ended, plan) = import(folder.path(), "postman", &text, &[]);
    assert!(ended.stderr.contains("imported 3 requests in 2 sessions"), "{ended:?}");
    assert!(ended.stderr.contains("fill in under [variables]: token"), "{ended:?}");
    // The status that the test of Postman wants.
    let text = fs::read_to_string(&plan).expect("a plan");
    assert_eq!(text.matches("expect = 200").count(), 1, "{text}");
    assert!(text.contains("name = \"status\", expect = 200 }"), "{text}");
    let mut all = arrived(&server, &plan);
    all.sort_unstable();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0], "GET /orders/7?all=1 HTTP/1.1\n\n");
    assert_eq!(all[1], "GET /status HTTP/1.1\nAuthorization: Bearer FILL-IN\n\n");
    assert!(all[2].starts_with("POST /orders HTTP/1.1\nAuthorization: Bearer FILL-IN\nContent-"));
    assert!(all[2].ends_with("\n\na%20b=c%26d&n=7"), "{all:?}");
}

/// What scripts take from replies, forms with files, values of paths, and a server of another file.
#[test]
fn collections_use_values_of_replies_and_send_forms() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("photo.bin"), "of a file").expect("a file");
    let text = r#"{"info": {"name": "shop", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
      "item": [
        {"name": "later", "request": {"url": "{{baseUrl}}/later", "header": [{"key": "X-T", "value": "{{token}}"}]}},
        {"name": "buy", "item": [
          {"name": "login", "request": {"method": "POST", "url": {"raw": "{{baseUrl}}/login"}},
            "event": [{"listen": "test", "script": {"exec": [
              "const data = pm.response.json().auth;",
              "pm.environment.set(\"token\", data.token);",
              "pm.environment.set(\"unused\", data.nothing);",
              "pm.expect(pm.response.code).to.equal(200);"]}}]},
          {"name": "order", "request": {"method": "PUT", "header": [{"key": "Content-Type", "value": "multipart/form-data"}],
            "url": {"protocol": "https", "host": ["{{host}}"], "path": ["orders", ":id", "photo"],
              "query": [{"key": "n", "value": "{{a b}}"}, {"key": "m", "value": "{{a-b}}"}],
              "variable": [{"key": "id", "value": "7"}]},
            "body": {"mode": "formdata", "formdata": [
              {"key": "by", "value": "{{token}}", "type": "text"},
              {"key": "photo", "type": "file", "src": "photo.bin"},
              {"key": "lost", "type": "file", "src": ["/nonexistent", "none"]}]}}}]},
        {"name": "look", "item": [{"name": "cart", "request": {"url": "{{baseUrl}}/cart",
          "header": [{"key": "X-T", "value": "{{token}}"}]}}]}],
      "variable": [{"key": "token", "value": ""}]}"#;
    let to = format!("http://{}", server.address());
    let (ended, plan) = import(folder.path(), "postman", text, &["--to", &to]);
    for line in [
        "imported 5 requests in 3 sessions",
        "1 x made first in another session, too, for a value of its reply: /buy/login",
        "1 x a script (test), of which the plan has the status or values: /buy/login",
        "1 x the content of the file photo.bin: /buy/order",
        "1 x sent without a file, which is not here: /buy/order",
        "1 x sent without a file: this file is not in the folder of the input; ",
        "4 x its host is a variable without a value: sent to that of --to",
        "fill in under [variables]: token, a_b, a_b_2",
    ] {
        assert!(ended.stderr.contains(line), "{line}: {ended:?}");
    }
    let text = fs::read_to_string(&plan).expect("a plan");
    assert!(text.contains("expect = 200") && !text.contains("nothing"), "{text}");
    let mut all = arrived(&server, &plan);
    all.sort_unstable();
    // The login is a part of each later session that needs its token.
    assert_eq!(all[0], "GET /cart HTTP/1.1\nCookie: sid=new\nX-T: fresh-1\n\n");
    assert_eq!(all[1], "GET /later HTTP/1.1\nX-T: FILL-IN\n\n");
    assert!(all[2..4].iter().all(|r| r.starts_with("POST /login HTTP/1.1\n")), "{all:?}");
    let (head, body) = all[4].split_once("\n\n").expect("a body");
    assert_eq!(
        head,
        "PUT /orders/7/photo?n=FILL-IN&m=FILL-IN HTTP/1.1\n\
         Content-Type: multipart/form-data; boundary=BOUNDARY\nCookie: sid=new"
    );
    assert_eq!(
        body,
        "--BOUNDARY\r\nContent-Disposition: form-data; name=\"by\"\r\n\r\nfresh-1\r\n\
         --BOUNDARY\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"photo.bin\"\r\n\
         Content-Type: application/octet-stream\r\n\r\nof a file\r\n--BOUNDARY--\r\n"
    );
}

/// Variables whose values are those of replies, as REST Client has them, and scripts of JetBrains.
#[test]
fn files_of_editors_keep_values_of_replies_in_variables() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let text = "### in\n# @name login\nPOST {{host}}/login\n\n> {%\n\
        client.global.set(\"jet\", response.body.auth.token);\n\
        client.assert(response.status === 200);\n%}\n\n\
        ### keep it\n@token = {{login.response.body.$.auth.token}}\n@bearer = Bearer {{token}}\n\n\
        ### a\nGET {{host}}/a\nAuthorization: {{bearer}}\n\n\
        ### b\nGET https://{{host}}:{{port}}/b?t={{jet}}&u={{who}}\n";
    let to = format!("http://{}", server.address());
    let (ended, plan) = import(folder.path(), "http", text, &["--to", &to]);
    for line in [
        "imported 3 requests in 1 session",
        "1 x a script for the reply, of which the plan has the status or values: line 5",
        "fill in under [variables]: who\n",
    ] {
        assert!(ended.stderr.contains(line), "{line}: {ended:?}");
    }
    let text = fs::read_to_string(&plan).expect("a plan");
    assert_eq!(text.matches("expect = 200").count(), 1, "{text}");
    let all = arrived(&server, &plan);
    assert_eq!(all[1], "GET /a HTTP/1.1\nAuthorization: Bearer fresh-1\n\n");
    assert_eq!(all[2], "GET /b?t=fresh-1&u=FILL-IN HTTP/1.1\n\n");
}

/// Archives of other programs: `null` for what is not known, and fields of forms, parameters and
/// cookies only beside the request.
#[test]
fn archives_of_other_programs_are_imported() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        r#"{{"log": {{"version": "1.2", "creator": {{"name": "x", "version": null}}, "pages": null, "entries": [
        {{"startedDateTime": "2026-11-24T10:00:00.000+01:00", "time": null, "request": {{"method": "GET",
          "url": "http://{at}/q", "headers": null, "headersSize": null, "bodySize": null, "httpVersion": null,
          "queryString": [{{"name": "a b", "value": "c&d"}}], "cookies": [{{"name": "k", "value": "v"}}]}},
          "response": {{"status": 200, "statusText": null, "headers": [], "redirectURL": null, "headersSize": null,
          "content": {{"size": null, "mimeType": null, "text": null}}}}, "timings": {{"send": null, "wait": 1}}}},
        {{"startedDateTime": "2026-11-24T10:00:01.000+01:00", "time": 1, "request": {{"method": "POST",
          "url": "http://{at}/f", "headers": [{{"name": "Content-Type", "value": "multipart/form-data; boundary=x"}}],
          "postData": {{"mimeType": "multipart/form-data", "params": [{{"name": "n", "value": "1"}},
          {{"name": "f", "value": "hello", "fileName": "h.txt", "contentType": "text/plain"}}]}}}},
          "response": {{"status": 200}}}}]}}}}"#,
        at = server.address()
    );
    let (ended, plan) = import(folder.path(), "har", &text, &["--with-secrets"]);
    assert_eq!(ended.stderr, "prony: imported 2 requests in 1 session\n");
    let fast = fs::read_to_string(&plan).expect("a plan").replace("\"1s\"", "\"10ms\"");
    fs::write(&plan, fast).expect("a plan");
    let all = arrived(&server, &plan);
    assert_eq!(all[0], "GET /q?a%20b=c%26d HTTP/1.1\nCookie: k=v\n\n");
    let kind = "Content-Type: multipart/form-data; boundary=BOUNDARY";
    assert_eq!(
        all[1],
        format!(
            "POST /f HTTP/1.1\n{kind}\n\n--BOUNDARY\r\nContent-Disposition: form-data; name=\"n\"\r\n\
             \r\n1\r\n--BOUNDARY\r\nContent-Disposition: form-data; name=\"f\"; filename=\"h.txt\"\r\n\
             Content-Type: text/plain\r\n\r\nhello\r\n--BOUNDARY--\r\n"
        )
    );
}

#[test]
fn lists_of_targets_are_sent_in_turn() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data"), "of a file").expect("a file");
    let at = server.address();
    let vegeta = format!(
        "GET http://{at}/1\n\n# twice\nPOST http://{at}/2\nX-A: b\n@data\nGET http://{at}/3\n"
    );
    let json = format!(
        "{{\"method\": \"GET\", \"url\": \"http://{at}/1\"}}\n\
         {{\"method\": \"POST\", \"url\": \"http://{at}/2\", \"body\": \"b2YgYSBmaWxl\", \"header\": {{\"X-A\": [\"b\"]}}}}\n\
         {{\"method\": \"GET\", \"url\": \"http://{at}/3\"}}\n"
    );
    for text in [vegeta, json] {
        let (ended, plan) = import(folder.path(), "vegeta", &text, &["--with-secrets"]);
        let note = "  1 x the content of the file data: line 6\n";
        let note = if text.starts_with('{') { "" } else { note };
        assert_eq!(ended.stderr, format!("prony: imported 3 requests\n{note}"));
        let all = arrived(&server, &plan);
        let wanted = [
            "GET /1 HTTP/1.1\n\n",
            "POST /2 HTTP/1.1\nContent-Length: 9\nX-A: b\n\nof a file",
            "GET /3 HTTP/1.1\n\n",
        ];
        assert_eq!(all, wanted);
    }
    // The examples in vegeta's README. Users of URLs are sent as Go's client does.
    let readme = format!(
        "GET http://{at}/path/to/dragon?item=ball\n# specify a test account\nX-Account-ID: 99\n\n\
         GET http://user:password@{at}/path/to\nHEAD http://{at}/path/to/success\n\
         DELETE http://user:password@{at}/path/to/remove\nConfirmation-Token: 90215\n\
         Authorization: Token DEADBEEF\n\nPOST http://{at}/things\n@data\n\n\
         PATCH http://{at}/thing/71988591\n@data\n"
    );
    let (ended, plan) = import(folder.path(), "vegeta", &readme, &["--with-secrets"]);
    let note = "  2 x the content of the file data: line 12, line 15\n";
    assert_eq!(ended.stderr, format!("prony: imported 6 requests\n{note}"));
    let wanted = [
        "GET /path/to/dragon?item=ball HTTP/1.1\nX-Account-ID: 99\n\n",
        "GET /path/to HTTP/1.1\nAuthorization: Basic dXNlcjpwYXNzd29yZA==\n\n",
        "HEAD /path/to/success HTTP/1.1\n\n",
        "DELETE /path/to/remove HTTP/1.1\nAuthorization: Token DEADBEEF\nConfirmation-Token: 90215\n\n",
        "POST /things HTTP/1.1\nContent-Length: 9\n\nof a file",
        "PATCH /thing/71988591 HTTP/1.1\nContent-Length: 9\n\nof a file",
    ];
    assert_eq!(arrived(&server, &plan), wanted);
    let urls = format!("# siege\nHOST = {at}\nhttp://$(HOST)/1\n$HOST/2 POST a=1\n/3\nftp://h/4\n");
    let to = format!("http://{at}/");
    let (ended, plan) = import(folder.path(), "urls", &urls, &["--to", &to]);
    assert_eq!(ended.stderr, "prony: imported 3 requests\n  1 x ftp:// is not HTTP: line 6\n");
    let all = arrived(&server, &plan);
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let post = format!("POST /2 HTTP/1.1\nContent-Length: 3\n{kind}\n\na=1");
    assert_eq!(all, ["GET /1 HTTP/1.1\n\n", &post, "GET /3 HTTP/1.1\n\n"]);
}

/// The sessions of httperf's manual page, with what prony adds to the format. What is imported is
/// sent as `prony load --session` sends it.
#[test]
fn session_files_of_httperf_become_sessions() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let text = "# Comment lines start with a # as the first\n# character.\n/foo.html think=0.2\n\
                \t/pict1.gif\n\t/pict2.gif\n/foo2.html method=POST contents='Post data'\n\n\
                /foo3.html method=POST contents=\"Multiline\\\ndata\"\n\
                /foo4.html method=HEAD headers='X-A: {{b}}' name=last\n";
    let to = format!("http://me:secret@{}", server.address());
    let (ended, plan) = import(folder.path(), "wsesslog", text, &["--to", &to, "--with-secrets"]);
    assert_eq!(ended.stderr, "prony: imported 6 requests in 2 sessions\n");
    let written = fs::read_to_string(&plan).expect("a plan");
    assert!(written.contains("], lead = true, think = \"200ms\" },"), "{written}");
    // As in httperf, a session has one connection, and ends when a request fails.
    assert!(!written.contains("session-connections") && !written.contains("on-failure"));
    let ours = arrived(&server, &plan);
    let user = "Authorization: Basic bWU6c2VjcmV0";
    let wanted = [
        format!("GET /foo.html HTTP/1.1\n{user}\n\n"),
        format!("GET /pict1.gif HTTP/1.1\n{user}\n\n"),
        format!("GET /pict2.gif HTTP/1.1\n{user}\n\n"),
        format!("POST /foo2.html HTTP/1.1\n{user}\nContent-Length: 9\n\nPost data"),
        format!("POST /foo3.html HTTP/1.1\n{user}\nContent-Length: 14\n\nMultiline\ndata"),
        format!("HEAD /foo4.html HTTP/1.1\n{user}\nX-A: {{{{b}}}}\n\n"),
    ];
    assert_eq!(ours, wanted);
    // Without its secrets, and as the tool itself reads the file.
    let to = format!("http://{}", server.address());
    let (_, plan) = import(folder.path(), "wsesslog", text, &["--to", &to, "--with-secrets"]);
    let ours = arrived(&server, &plan);
    let before = server.requests().len();
    let file = folder.path().join("file");
    let line = ["load", "--session", file.to_str().expect("UTF-8"), "-c", "1", "-n", "6", &to];
    let ended = prony(&[&line[..], &["--accept-invalid"]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let theirs: Vec<String> = server.requests()[before..].iter().map(|r| shown(r)).collect();
    assert_eq!(ours, theirs);
}
