//! What is found in small sessions, and what is not taken for a value of the server.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Format, Options, import};

/// A request and its reply.
struct Step<'a> {
    method: &'a str,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: (&'a str, &'a str),
    reply_headers: &'a [(&'a str, &'a str)],
    reply: (&'a str, &'a str),
}

const GET: Step<'_> = Step {
    method: "GET",
    path: "/",
    headers: &[],
    body: ("", ""),
    reply_headers: &[],
    reply: ("text/html", ""),
};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

/// The archive of these exchanges, one after another.
fn archive(steps: &[Step<'_>]) -> String {
    let pairs = |all: &[(&str, &str)]| -> Vec<Value> {
        all.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let entries = steps.iter().enumerate().map(|(nth, step)| {
        let mut request = json!({
            "method": step.method,
            "url": format!("http://h{}", step.path),
            "headers": pairs(step.headers),
        });
        if !step.body.1.is_empty() {
            request["postData"] = json!({"mimeType": step.body.0, "text": step.body.1});
        }
        json!({
            "startedDateTime": format!("2026-11-25T10:00:{nth:02}Z"),
            "time": 100,
            "request": request,
            "response": {
                "status": 200,
                "headers": pairs(step.reply_headers),
                "content": {"mimeType": step.reply.0, "text": step.reply.1},
            },
        })
    });
    json!({"log": {"entries": entries.collect::<Vec<_>>()}}).to_string()
}

/// The plan that is made of them.
fn plan(steps: &[Step<'_>]) -> String {
    let options = Options { with_secrets: true, ..Options::default() };
    let found = import(Format::Har, "a.har", archive(steps).as_bytes(), &options);
    found.expect("an archive").write("x")
}

/// How many values are extracted.
fn extracted(steps: &[Step<'_>]) -> usize {
    let found = import(Format::Har, "a.har", archive(steps).as_bytes(), &Options::default());
    found.expect("an archive").extracted()
}

#[test]
fn takes_hidden_fields_meta_tags_json_and_headers() {
    let page = "<head><meta name=\"csrf-token\" content=\"m3taToken99\"></head><form>\n\
                <input type='hidden' name='form_id' value='plain'>\n\
                <input name=\"csrf\" type=\"hidden\" value=\"a1+b/2==longer\">";
    let plan = plan(&[
        Step {
            reply: (HTML, page),
            headers: &[("Accept-Encoding", "gzip;q=0.9, *, dcb,br")],
            ..GET
        },
        Step {
            method: "POST",
            path: "/login",
            headers: &[("Content-Type", FORM), ("X-CSRF-Token", "m3taToken99")],
            body: (FORM, "user=ann&csrf=a1%2Bb%2F2%3D%3Dlonger&form_id=plain"),
            reply_headers: &[
                ("X-Next", "n3xt-n3xt-n3xt"),
                ("Location", "http://h/cart/8f3a9b2c/x?y"),
            ],
            reply: (JSON, r#"{"auth": [{"token": "jwt\/123456.x"}], "orderId": 4711}"#),
        },
        Step {
            path: "/cart/8f3a9b2c/4711?next=n3xt-n3xt-n3xt",
            headers: &[
                ("Authorization", "Bearer jwt/123456.x"),
                ("Referer", "http://h/cart/8f3a9b2c"),
            ],
            ..GET
        },
    ]);
    for part in [
        r#"x_csrf_token = { between = ["<meta name=\"csrf-token\" content=\"", "\""] }"#,
        r#"csrf = { between = ["<input name=\"csrf\" type=\"hidden\" value=\"", "\""] }"#,
        r#"form_id = { between = ["<input type='hidden' name='form_id' value='", "'"] }"#,
        r#"body = "user=ann&csrf={{csrf | url}}&form_id={{form_id | url}}""#,
        r#""X-CSRF-Token: {{x_csrf_token}}""#,
        r#"path = "/cart/{{cart | url}}/{{orderid | url}}?next={{next | url}}""#,
        r#"next = { header = "X-Next" }"#,
        r#"cart = { header = "Location", regex = "/cart/([^\\x{2f}]+)" }"#,
        r#"orderid = { json = "/orderId" }"#,
        r#"token = { json = "/auth/0/token" }"#,
        r#""Authorization: Bearer {{token}}", "Referer: http://h/cart/{{cart | url}}""#,
    ] {
        assert!(plan.contains(part), "{part}\n{plan}");
    }
    // Encodings that prony does not decode are not accepted.
    assert!(plan.contains("\"Accept-Encoding: gzip;q=0.9, br\""), "{plan}");
}

#[test]
fn takes_nothing_that_the_client_knew() {
    // The client has sent it before the reply had it.
    let typed = [
        Step { path: "/find?q=ann12345678", reply: (HTML, "<a href='/u/ann12345678'>"), ..GET },
        Step { path: "/u/ann12345678", ..GET },
    ];
    assert_eq!(extracted(&typed), 0);
    // The reply comes after the request.
    let later = [
        Step { path: "/u/ann12345678", ..GET },
        Step { reply: (HTML, "<a href='/u/ann12345678'>"), ..GET },
    ];
    assert_eq!(extracted(&later), 0);
}

#[test]
fn takes_no_short_or_common_values() {
    let cases = [
        // Words, short numbers, dates, and parts of longer values.
        ("<a href='/checkout'>", "/checkout"),
        ("<a href='/item/42'>", "/item/42"),
        ("<i>1234567</i>", "/item/1234567"),
        ("<a href='/day/2026-11-25'>", "/day/2026-11-25"),
        ("<b>xx8f3a9b2c1d</b>", "/item/8f3a9b2c1d"),
        ("<option value=\"english\">", "/?lang=english"),
        ("<input type=\"text\" name=\"lang\" value=\"english\">", "/?lang=english"),
        ("<input type=\"hidden\" name=\"n\" value=\"123\">", "/?n=123"),
        // There is nothing after it that ends it.
        ("token=8f3a9b2c1d", "/item/8f3a9b2c1d"),
    ];
    for (page, path) in cases {
        let steps = [Step { reply: (HTML, page), ..GET }, Step { path, ..GET }];
        assert_eq!(extracted(&steps), 0, "{page} {path}");
    }
    // Resources have the same names for everybody; their requests can have what is known.
    let style = [
        Step { reply: (HTML, "<link href='/app.8f3a9b2c1d.css'>"), ..GET },
        Step { path: "/app.8f3a9b2c1d.css", reply: ("text/css", ""), ..GET },
    ];
    assert_eq!(extracted(&style), 0);
    let referer = [
        Step { reply: (HTML, "<a href='/desk/8f3a9b2c1d'>"), ..GET },
        Step { path: "/desk/8f3a9b2c1d", ..GET },
        Step {
            path: "/app.css",
            headers: &[("Referer", "http://h/desk/8f3a9b2c1d")],
            reply: ("text/css", ""),
            ..GET
        },
    ];
    assert!(plan(&referer).contains("Referer: http://h/desk/{{desk | url}}"));
    let headers = [
        Step { reply_headers: &[("ETag", "\"8f3a9b2c1d\"")], ..GET },
        Step { headers: &[("If-None-Match", "\"8f3a9b2c1d\"")], ..GET },
    ];
    assert_eq!(extracted(&headers), 0);
}

#[test]
fn uses_the_first_place_that_has_only_this_value() {
    // The same attribute stands before another value.
    let page = "<a href=\"/i/11111111aa\">a</a><a href=\"/i/22222222bb\">b</a>";
    let steps = [Step { reply: (HTML, page), ..GET }, Step { path: "/i/22222222bb", ..GET }];
    let plan = plan(&steps);
    // What is made up itself is no context.
    assert!(plan.contains(r#"between = ["\">a</a><a href=\"/i/", "\""]"#), "{plan}");
}

#[test]
fn a_value_is_extracted_once_and_a_changed_one_again() {
    let page = |token: &str| format!("<input type=hidden name=csrf value={token}>");
    let (first, second) = (page("tok3n-number-1"), page("tok3n-number-2"));
    let post = |body| Step {
        method: "POST",
        headers: &[("Content-Type", FORM)],
        body: (FORM, body),
        ..GET
    };
    let steps = [
        Step { reply: (HTML, &first), ..GET },
        Step { reply: (HTML, &first), ..post("csrf=tok3n-number-1") },
        Step { reply: (HTML, &second), ..post("csrf=tok3n-number-1") },
        post("csrf=tok3n-number-2"),
    ];
    let plan = plan(&steps);
    assert_eq!(extracted(&steps), 2);
    assert_eq!(plan.matches("csrf={{csrf | url}}").count(), 2, "{plan}");
    assert_eq!(plan.matches("csrf={{csrf_2 | url}}").count(), 1, "{plan}");
}

#[test]
fn nothing_is_taken_without_correlation() {
    let steps = [
        Step { reply: (HTML, "<input type=hidden name=csrf value=tok3n-number-1>"), ..GET },
        Step { path: "/?csrf=tok3n-number-1", ..GET },
    ];
    let options = Options { correlate: false, with_secrets: true, ..Options::default() };
    let found = import(Format::Har, "a.har", archive(&steps).as_bytes(), &options).expect("one");
    assert_eq!(found.extracted(), 0);
    assert!(found.write("x").contains("/?csrf=tok3n-number-1"));
}

#[test]
fn knows_generated_values() {
    for value in ["8f3a9b2c", "12345678", "a-b-c-d-1", "eyJhbGciOi.J9", "x".repeat(4095).as_str()] {
        assert_eq!(looks_generated(value), value.bytes().any(|b| b.is_ascii_digit()), "{value}");
    }
    for value in
        ["1234567", "abcdefgh", "2026-11-25", "2026/11/25T10:00", "8f3a 9b2c", "8f3a\"9b2c"]
    {
        assert!(!looks_generated(value), "{value}");
    }
    assert!(!looks_generated(&"1".repeat(4097)));
}

/// The sessions of a shop with this many pages of this many bytes: the first value of each page is
/// sent by the next request, with a word that all pages have.
fn shop(pages: usize, bytes: usize) -> String {
    let filler = "<li class=\"item\"><a href=\"/item/lamp\">english lamp</a></li>\n";
    let filler = filler.repeat(bytes / filler.len());
    let id = |nth: usize| format!("{nth:05}f3a9b2c");
    let bodies: Vec<String> =
        (0..pages).map(|nth| format!("<a href=\"/cart/{}\">x</a>\n{filler}", id(nth))).collect();
    let paths: Vec<String> = (0..pages)
        .map(|nth| format!("/cart/{}/lamp?lang=english&n={nth}", id(nth.wrapping_sub(1) % 99_999)))
        .collect();
    let steps: Vec<Step<'_>> = (0..pages)
        .map(|nth| Step { path: &paths[nth], reply: (HTML, &bodies[nth]), ..GET })
        .collect();
    archive(&steps)
}

/// How many bytes are looked at for an archive, and how many values are found.
fn looked_at(text: &str, work: u64) -> (u64, Import) {
    let mut import = crate::har::read(text, false).expect("an archive");
    let read = correlate_within(&mut import, work, None);
    (read, import)
}

/// What is looked at grows with the length of an archive, not with its square.
#[test]
fn twice_as_many_pages_take_twice_as_long() {
    for bytes in [2_000, 20_000] {
        let [(small, few), (large, many)] =
            [20, 40].map(|pages| looked_at(&shop(pages, bytes), WORK));
        assert_eq!((few.extracted, many.extracted), (19, 39));
        assert!(large < small * 5 / 2, "{small} and {large} of pages of {bytes}");
    }
    // So it does with JSON, which is read once.
    let of_json = |count: usize| {
        let ids: Vec<String> = (0..count).map(|nth| format!("{nth:05}f3a9b2c")).collect();
        let bodies: Vec<String> =
            ids.iter().map(|id| json!({"id": id, "\\": "english"}).to_string()).collect();
        let paths: Vec<String> = ids.iter().map(|id| format!("/english/{id}")).collect();
        let path = |nth: usize| if nth == 0 { "/" } else { &paths[nth - 1] };
        let steps: Vec<Step<'_>> = (0..count)
            .map(|nth| Step { path: path(nth), reply: (JSON, &bodies[nth]), ..GET })
            .collect();
        let (read, found) = looked_at(&archive(&steps), WORK);
        assert_eq!(found.extracted, count - 1);
        read
    };
    let (small, large) = (of_json(25), of_json(50));
    assert!(large < small * 5 / 2, "{small} and {large}");
}

#[test]
fn what_is_not_looked_at_is_said() {
    let text = shop(20, 20_000);
    // Replies are read in any case.
    let [(least, none), (most, _)] = [0, WORK].map(|work| looked_at(&text, work));
    assert_eq!(none.extracted, 0);
    let (_, import) = looked_at(&text, (least + most) / 2);
    assert!((1..19).contains(&import.extracted), "{}", import.extracted);
    let remarks = import.remarks();
    assert!(
        remarks.contains("1 x from here on, values of replies are sent as recorded"),
        "{remarks}"
    );
}

proptest! {
    /// Whatever a reply and a request have, the rule finds the value in the reply again.
    #[test]
    fn rules_find_their_value_again(
        before in "[ -~<>\"'=/\n]{0,60}",
        value in "[a-z0-9+/=-]{6,14}[0-9]",
        after in "[ -~<>\"'=/\n]{0,60}",
        again in "[ -~<>\"'=/\n]{0,60}",
    ) {
        let body = format!("{before}{value}{after}{again}");
        let replies = [Reply { body: body.clone(), kind: HTML.into(), headers: Vec::new() }];
        let used = Use { name: "x", value: &value, is_passive: false };
        let mut index = Index::default();
        index.want(&value);
        index.add(0, &replies[0]);
        let search = places::Search { index: &index, replies: &replies, used: &used };
        let found = search.last(0..1).map(|(_, found)| found.extract);
        if let Some(Extract::Between(left, right)) = found {
            let start = body.find(&left).expect("the text before it") + left.len();
            let end = start + body[start..].find(&right).expect("the text after it");
            prop_assert_eq!(&body[start..end], value);
        }
    }

    /// The same for headers, with the expression taken apart.
    #[test]
    fn nothing_makes_it_panic(
        body in "\\PC{0,80}",
        header in "\\PC{0,40}",
        path in "\\PC{0,40}",
        sent in "\\PC{0,80}",
        kind in prop_oneof![Just(FORM), Just(JSON), Just(HTML), Just("multipart/form-data")],
    ) {
        let steps = [
            Step { reply: (kind, &body), reply_headers: &[("Location", &header)], ..GET },
            Step { path: &path, headers: &[("X-Token", &header)], body: (kind, &sent), ..GET },
            Step { path: &body, headers: &[("Referer", &header)], body: (kind, &body), ..GET },
        ];
        let text = archive(&steps);
        for with_secrets in [false, true] {
            let options = Options { with_secrets, ..Options::default() };
            if let Ok(found) = import(Format::Har, "a.har", text.as_bytes(), &options) {
                prop_assert!(!found.write("x").is_empty());
            }
        }
        let mut archive: crate::archive::Archive = serde_json::from_str(&text).expect("an archive");
        crate::conceal(&mut archive);
    }
}
