//! Damaged files are refused, or imported in part; no input makes an import panic.

use prony_import::{Format, Options, import};
use proptest::prelude::*;

/// A small file of each format.
const SAMPLES: [(Format, &str); 12] = [
    (
        Format::Har,
        r#"{"log": {"entries": [{"startedDateTime": "2026-11-24T10:00:00.1Z", "time": 5, "request":
        {"method": "POST", "url": "http://h/a?token=x", "headers": [{"name": "Cookie", "value": "a=b"}],
        "postData": {"mimeType": "application/json", "text": "{\"pin\": \"1\"}"}}, "response":
        {"status": 200, "headers": [{"name": "set-cookie", "value": "a=c"}]}}]}}"#,
    ),
    (
        Format::Curl,
        "curl -sSXPUT $'http://h/\\u00e9' -H 'A: b' -F 'a=b;type=c' # x\ncurl h --data-urlencode a=b",
    ),
    (
        Format::OpenApi,
        r##"{"openapi": "3.0.0", "servers": [{"url": "http://h"}], "paths": {"/a/{b}": {"get": {"parameters":
        [{"name": "b", "in": "path", "required": true, "schema": {"$ref": "#/x"}}], "requestBody": {"content":
        {"application/json": {"schema": {"allOf": [{"$ref": "#/x"}]}}}}}}}, "x": {"type": "object", "required":
        ["a"], "properties": {"a": {"type": "array", "minItems": 100, "items": {"$ref": "#/x"}}}}}"##,
    ),
    (
        Format::Postman,
        r#"{"info": {}, "item": [{"name": "a", "request": {"url": "{{b}}/c", "body": {"mode": "raw", "raw": "{{d}}"},
        "auth": {"type": "bearer", "bearer": {"token": "t"}}}}], "variable": [{"key": "b", "value": "http://h"}]}"#,
    ),
    (
        Format::OpenApi,
        r##"{"swagger": "2.0", "host": "h", "paths": {"/a": {"post": {"consumes": ["multipart/form-data"], "tags": ["t"],
        "parameters": [{"name": "f", "in": "formData", "type": "file", "required": true}, {"name": "c", "in": "query",
        "required": true, "type": "string", "pattern": "^[A-Z]{2}(x|y)+$", "minLength": 4, "maxLength": 9}]}}}}"##,
    ),
    (
        Format::Postman,
        r#"{"info": {}, "item": [{"name": "a", "item": [{"name": "b", "request": {"url": {"host": ["h", "x"], "path": [":i"],
        "variable": [{"key": "i", "value": 1}]}, "body": {"mode": "formdata", "formdata": [{"key": "t", "value": "{{t}}"},
        {"key": "f", "type": "file", "src": ["x"]}]}}, "event": [{"listen": "test", "script": {"exec": ["var d = pm.response.json();",
        "pm.environment.set('t', d.a[0]['b']); pm.response.to.have.status(200)"]}}]}, {"name": "c", "request":
        "http://h/{{t}}"}]}]}"#,
    ),
    (
        Format::Http,
        "POST http://h/a\n\n> {% const b = response.body.c;\nclient.global.set('t', b[1].d) %}\n###\nGET http://h/{{t}}\n",
    ),
    (
        Format::Http,
        "@a = http://h\n### x\n# @name y\nPOST {{a}}/b\nC: {{$uuid}}\n\n{\"password\": 1}\n",
    ),
    (Format::Vegeta, "GET http://h/\nA: b\n\nPOST http://h/c\n"),
    (Format::Vegeta, "{\"method\": \"GET\", \"url\": \"http://h/\", \"body\": \"YQ==\"}\n"),
    (Format::Urls, "H = h\nhttp://$(H)/a POST b=c\n"),
    (
        Format::Wsesslog,
        "http://u:p@h/a think=exp:2s\n http://h/b contents='x\\ny' headers='A: b'\n\nhttp://h/c method=PUT\n",
    ),
];

#[test]
fn samples_are_imported() {
    for (format, text) in SAMPLES {
        let found = import(format, "file", text.as_bytes(), &Options::default());
        let found = found.unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(found.requests() > 0 && found.write("x").contains("http://h"), "{text}");
    }
}

proptest! {
    #[test]
    fn no_damage_makes_an_import_panic(
        sample in 0..SAMPLES.len(),
        at in any::<prop::sample::Index>(),
        removed in 0..40_usize,
        added in prop_oneof![Just(String::new()), "[\\PC\n\t]{0,6}", "[{}'\"$@:;=&\\\\ #<>?/]{1,4}"],
    ) {
        let (format, text) = SAMPLES[sample];
        let mut bytes = text.as_bytes().to_vec();
        let at = at.index(bytes.len());
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, added.bytes());
        match import(format, "file", &bytes, &Options::default()) {
            Ok(found) => prop_assert!(!found.write("x").is_empty()),
            Err(why) => prop_assert!(why.starts_with("file"), "{}", why),
        }
    }
}
