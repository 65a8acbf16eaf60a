//! Archives: what a browser has sent is in the plan, or in a note.

use prony_import::{Format, Options, import};
use serde_json::{Value, json};

fn entry(request: Value, more: &Value) -> Value {
    let mut entry = json!({"startedDateTime": "2026-11-24T10:00:00Z", "request": request,
        "response": {"status": 200}});
    entry.as_object_mut().expect("an object").extend(more.as_object().expect("more").clone());
    entry
}

fn get(url: &str) -> Value {
    json!({"method": "GET", "url": url})
}

/// The plan and the notes.
fn of(entries: &[Value]) -> (String, String) {
    let archive = json!({"log": {"entries": entries}}).to_string();
    let options = Options { with_secrets: true, ..Options::default() };
    let found = import(Format::Har, "file", archive.as_bytes(), &options);
    let found = found.unwrap_or_else(|e| panic!("{archive}: {e}"));
    (found.write("x"), found.remarks())
}

#[test]
fn fields_of_forms_are_encoded() {
    let post = |kind: &str| {
        json!({"method": "POST", "url": "http://h/", "postData": {"mimeType": kind, "params": [
            {"name": "a b", "value": "c&d=e"}, {"name": "n", "value": "50%"}, {"name": "f"}]}})
    };
    for kind in ["application/x-www-form-urlencoded; charset=UTF-8", ""] {
        let (plan, _) = of(&[entry(post(kind), &json!({}))]);
        assert!(plan.contains("body = \"a+b=c%26d%3De&n=50%25&f=\""), "{plan}");
        assert!(plan.contains("Content-Type: application/x-www-form-urlencoded"), "{plan}");
    }
}

#[test]
fn one_odd_entry_is_left_out_alone() {
    let at = |date: Value| entry(get("http://h/b"), &json!({"startedDateTime": date}));
    let (plan, notes) = of(&[
        entry(get("http://h/a"), &json!({})),
        at(json!("2026-11-24T11:00:01.000+0100")),
        at(json!("2026-11-24T10:00:02")),
        at(json!("yesterday")),
        at(Value::Null),
        entry(json!({"method": "GET"}), &json!({})),
        entry(json!({"url": "http://h/c", "method": ""}), &json!({})),
        json!(7),
        entry(get("http://h/d"), &json!({"response": null})),
        entry(
            json!({"url": "http://h/e", "method": "GET", "headers": {"a": 1}, "cookies": null}),
            &json!({"response": {"status": 200.0, "content": {"text": 5}}}),
        ),
    ]);
    assert_eq!(plan.matches("path = \"/b\"").count(), 4, "{plan}");
    assert!(plan.contains("path = \"/e\"") && plan.contains("think = \"1s\""), "{plan}");
    for line in [
        "2 x without a date that can be read: as if at that of the entry before: entry 4, entry 5",
        "2 x left out: a request without a URL: entry 6, entry 8",
        "1 x left out: a request without a method: entry 7",
        "1 x no reply arrived (blocked, cancelled or failed): entry 9",
        "1 x not used, as its type or value is wrong: headers: entry 10: /request/headers",
        "1 x not used, as its type or value is wrong: text: entry 10: /response/content/text",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn websockets_are_named() {
    let switched = json!({"response": {"status": 101}});
    let messages = json!({"_webSocketMessages": [{"type": "send", "data": "x"}]});
    let (plan, notes) = of(&[
        entry(get("http://h/a"), &json!({})),
        entry(get("http://h/b"), &switched),
        entry(get("wss://h/c"), &switched),
        entry(get("http://h/d"), &messages),
    ]);
    assert_eq!(plan.matches("path = ").count(), 1, "{plan}");
    let line = "3 x a WebSocket, whose messages are not imported: entry 2, entry 3, entry 4";
    assert!(notes.contains(line), "{notes}");
}

#[test]
fn cookies_are_one_header() {
    let headers = json!([{"name": ":authority", "value": "h"}, {"name": "cookie", "value": "a=1"},
        {"name": "X", "value": ""}, {"name": "x", "value": ""}, {"name": "cookie", "value": "b=2; c=3"}, {"name": "Host", "value": "other"}]);
    let request = json!({"method": "GET", "url": "http://h/", "headers": headers});
    let (plan, notes) = of(&[entry(request, &json!({}))]);
    assert!(plan.contains("headers = [\"cookie: a=1; b=2; c=3\", \"X: \"]"), "{plan}");
    assert!(notes.contains("1 x a header twice with one value, which is sent once: entry 1"));
    assert!(notes.contains("1 x its host differs from that of its URL, which is sent: entry 1"));
}

#[test]
fn what_the_archive_lacks_of_a_body_is_named() {
    let post = |post: Value, length: &str| {
        let headers = json!([{"name": "Content-Length", "value": length}]);
        let request =
            json!({"method": "POST", "url": "http://h/", "headers": headers, "postData": post});
        entry(request, &json!({}))
    };
    let without_length = |text: &str, size: i64| {
        let post = json!({"mimeType": "text/plain", "text": text});
        let request =
            json!({"method": "POST", "url": "http://h/", "bodySize": size, "postData": post});
        entry(request, &json!({}))
    };
    let (plan, notes) = of(&[
        post(json!({"mimeType": "text/plain", "text": "abc"}), "3"),
        post(json!({"mimeType": "text/plain", "text": "ab\u{fffd}"}), "3"),
        post(Value::Null, "5"),
        post(json!({"text": "/w==", "encoding": "base64", "mimeType": "a/b"}), "1"),
        post(json!({"text": "%", "encoding": "base64", "mimeType": "a/b"}), "1"),
        post(
            json!({"mimeType": "multipart/form-data; boundary=x", "params": [
            {"name": "f", "fileName": "a.png"}]}),
            "9",
        ),
        // A program that has lost the header, and has read bytes as characters.
        without_length("a\u{ff}", 2),
        without_length("ab", 2),
        without_length("ab", -1),
    ]);
    assert!(plan.contains("body = { base64 = \"/w==\" }"), "{plan}");
    for line in [
        "2 x its body has another length than was sent, by Content-Length or `bodySize`: entry 2, entry 7",
        "1 x sent without its body, which the archive does not have: entry 3",
        "1 x its body is not the base64 that it should be: sent as it is: entry 5",
        "1 x a file of a form without content, which the archive does not have: entry 6",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn queries_beside_the_url_are_compared() {
    let with = |url: &str| {
        let query = json!([{"name": "a", "value": "1&2"}]);
        entry(json!({"method": "GET", "url": url, "queryString": query}), &json!({}))
    };
    let (plan, notes) =
        of(&[with("http://h/x?a=1%262"), with("http://h/y"), with("http://h/z?b=1&c=2")]);
    for path in ["/x?a=1%262", "/y?a=1%262", "/z?b=1&c=2"] {
        assert!(plan.contains(&format!("path = \"{path}\"")), "{plan}");
    }
    let line = "1 x its `queryString` differs from its URL, which is sent: entry 3";
    assert!(notes.contains(line), "{notes}");
}
