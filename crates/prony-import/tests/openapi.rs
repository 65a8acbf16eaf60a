//! Descriptions of interfaces: what they say of a request is in the plan, or in a note.

use std::fs;
use std::path::Path;

use prony_import::{Format, Options, import};
use serde_json::{Value, json};

/// The plan and the notes.
fn read(text: &str, folder: &Path) -> (String, String) {
    let options = Options { folder, ..Options::default() };
    let found = import(Format::OpenApi, "file", text.as_bytes(), &options);
    let found = found.unwrap_or_else(|e| panic!("{text}: {e}"));
    (found.write("x"), found.remarks())
}

fn of(version: &str, more: &Value) -> (String, String) {
    let mut document = json!({"openapi": version, "servers": [{"url": "http://h/base"}]});
    if version == "2.0" {
        document = json!({"swagger": version, "host": "h", "basePath": "/base"});
    }
    let members = more.as_object().expect("members").clone();
    document.as_object_mut().expect("an object").extend(members);
    read(&document.to_string(), Path::new(""))
}

/// The plan of one operation.
fn post(operation: &Value) -> String {
    of("3.0.3", &json!({"paths": {"/a": {"post": operation}}})).0
}

#[test]
fn servers_can_be_those_of_a_path_or_an_operation() {
    let server = |url: &str| json!([{"url": url, "variables": {"v": {"default": "v2"}, "w": {"enum": ["e"]}}}]);
    let (plan, notes) = of(
        "3.0.3",
        &json!({"paths": {
            "/a": {"get": {}, "servers": server("http://path/{v}")},
            "/b": {"get": {"servers": server("https://{w}.op/")}, "servers": server("http://path")},
            "/c": {"get": {}},
            "/d": {"get": {"servers": server("http://{x}/")}},
            "/e": {"get": {"servers": [{"url": "//other/x"}, {"url": "http://second"}]}},
        }}),
    );
    for part in [
        "url = \"http://path\"",
        "\"/v2/a\"",
        "https://e.op/b\"",
        "http://h/base/c\"",
        "http://other/x/e\"",
    ] {
        assert!(plan.contains(part), "{part}\n{plan}");
    }
    for line in [
        "1 x the variable x of its server has no value: GET /d",
        "1 x several servers, of which the first one is used: GET /e",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn the_order_is_that_of_the_document() {
    let text = "openapi: 3.0.0\nservers: [{url: http://h}]\npaths:\n  /z: {get: {}}\n  /a:\n    \
                post: {requestBody: {content: {application/json: {example: {y: 1, b: 2}}}}}\n  /m: {get: {}}\n";
    let (plan, _) = read(text, Path::new(""));
    let at = |part: &str| plan.find(part).unwrap_or_else(|| panic!("{part}: {plan}"));
    assert!(at("\"/z\"") < at("\"/a\"") && at("\"/a\"") < at("\"/m\""), "{plan}");
    assert!(plan.contains(r#"{\"y\":1,\"b\":2}"#), "{plan}");
}

#[test]
fn references_lead_to_files_beside_the_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let (inside, outside) = (folder.path().join("api"), folder.path().join("secret.yaml"));
    fs::create_dir_all(inside.join("sub")).expect("a folder");
    fs::write(&outside, "s: {const: hunter2}").expect("a file");
    let write = |name: &str, text: &str| fs::write(inside.join(name), text).expect("a file");
    write(
        "sub/a b.yaml",
        "x:\n  type: object\n  properties:\n    n: {$ref: '#/n~1m'}\n    o: {$ref: ../other.json}\nn/m: {const: 7}\n",
    );
    write(
        "other.json",
        r##"{"type": "object", "properties": {"p": {"$ref": "sub/a%20b.yaml#/n~1m"}}}"##,
    );
    write("item.yaml", "get: {operationId: of a file}\n");
    let body = |reference: &str| json!({"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": reference}}}}}});
    let document = json!({"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": {
        "/a": body("sub/a%20b.yaml#/x"),
        "/b": {"$ref": "./item.yaml"},
        "/c": body("../secret.yaml#/s"),
        "/d": body("http://elsewhere/x.yaml#/s"),
        "/e": body("#/paths/~1a%7Bx%7D/y"),
        "/f": body("#/nowhere"),
    }});
    let mut document = document;
    document["paths"]["/a{x}"] = json!({"y": {"const": "encoded"}});
    let (plan, notes) = read(&document.to_string(), &inside);
    for part in [r#"{\"n\":7,\"o\":{\"p\":7}}"#, "of a file", r#"\"encoded\""#] {
        assert!(plan.contains(part), "{part}\n{plan}");
    }
    assert!(!plan.contains("hunter2"), "{plan}");
    for line in [
        "1 x the content of the file sub/a b.yaml: /paths/~1a/post/",
        "a reference to a file that is not read: ../secret.yaml: this file is not in the folder",
        "1 x a reference to http://elsewhere/x.yaml, which is not fetched: /paths/~1d/post/",
        "1 x a reference that leads nowhere: #/nowhere: POST /f",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn bodies_have_the_types_that_are_accepted() {
    let sent = |kind: &str, media: Value| post(&json!({"requestBody": {"content": {kind: media}}}));
    let pet = json!({"type": "object", "xml": {"name": "pet"}, "properties": {
        "id": {"type": "integer", "xml": {"attribute": true}},
        "tags": {"type": "array", "xml": {"wrapped": true}, "items": {"type": "string", "xml": {"name": "tag"}}}}});
    for (kind, media, body) in [
        (
            "application/xml",
            json!({"schema": pet}),
            r#"<pet id=\"1\"><tags><tag>text</tag></tags></pet>"#,
        ),
        ("application/octet-stream", json!({}), "text"),
        ("image/png", json!({"schema": {"type": "string", "format": "binary"}}), "text"),
        ("text/plain", json!({"schema": {"type": "string", "default": "d"}}), "d"),
        ("application/vnd.x+json", json!({"example": {"a": 1}}), r#"{\"a\":1}"#),
        (
            "application/x-www-form-urlencoded",
            json!({"example": {"l": ["a", "b"], "o": {"x": 1}, "p": "c d"}, "encoding": {"l": {"explode": false}}}),
            "l=a,b&o=%7B%22x%22%3A1%7D&p=c%20d",
        ),
    ] {
        let plan = sent(kind, media);
        let is_sent = plan.contains(&format!("body = \"{body}\""));
        assert!(is_sent && plan.contains(&format!("Content-Type: {kind}\"")), "{plan}");
    }
    // Swagger 2.0 says it beside the parameters.
    let (plan, notes) = of(
        "2.0",
        &json!({"consumes": ["text/csv"], "paths": {
            "/a": {"post": {"parameters": [{"name": "b", "in": "body", "schema": {"type": "string"}}]}},
            "/b": {"post": {"consumes": ["application/xml"], "parameters": [
                {"name": "b", "in": "body", "schema": {"xml": {"name": "n"}, "properties": {"c": {"enum": [1]}}}}]}},
            "/c": {"post": {"parameters": [{"name": "b", "in": "body", "schema": {"type": "object"}}]}},
            "/d": {"get": {"schemes": ["https"], "parameters": [
                {"name": "q", "in": "query", "required": true, "type": "array", "collectionFormat": "pipes", "items": {"type": "string"}, "default": ["a", "b"]}]}},
        }}),
    );
    for part in [
        "Content-Type: text/csv\"], body = \"text\"",
        "body = \"<n><c>1</c></n>\"",
        "https://h/base/d?q=a%7Cb\"",
    ] {
        assert!(plan.contains(part), "{part}\n{plan}");
    }
    assert!(notes.contains("1 x its body has the type text/csv: POST /c"), "{notes}");
}

#[test]
fn discriminators_say_the_type_of_a_value() {
    let cat =
        json!({"type": "object", "properties": {"kind": {"type": "string"}, "m": {"const": 1}}});
    let schemas = json!({
        "Cat": cat,
        "Any": {"oneOf": [{"$ref": "#/components/schemas/Cat"}],
            "discriminator": {"propertyName": "kind", "mapping": {"c": "#/components/schemas/Cat"}}},
        "Base": {"type": "object", "discriminator": {"propertyName": "t"}, "properties": {"t": {"type": "string"}}},
        "Dog": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"d": {"const": 2}}}]},
    });
    let body = |name: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        json!({"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}})
    };
    let (plan, _) = of(
        "3.0.3",
        &json!({"components": {"schemas": schemas},
        "paths": {"/a": body("Any"), "/b": body("Dog")}}),
    );
    assert!(plan.contains(r#"{\"kind\":\"c\",\"m\":1}"#), "{plan}");
    assert!(plan.contains(r#"{\"t\":\"Dog\",\"d\":2}"#), "{plan}");
}

#[test]
fn what_is_not_used_is_named() {
    let (_, notes) = of(
        "3.1.0",
        &json!({"webhooks": {"w": {"post": {}}}, "paths": {"/a": {
        "foo": {}, "get": {"bar": 1, "callbacks": {}, "parameters": [
            {"name": "o", "in": "query", "schema": {"type": "string"}},
            {"name": "s", "in": "querystring", "required": true, "example": "x"},
            {"name": "e", "in": "header", "examples": {"a": {"externalValue": "http://x"}}, "baz": 1},
            {"in": "query"}]}}}}),
    );
    for line in [
        "1 x requests that the server makes (webhooks): /webhooks",
        "1 x not used: foo: path /a",
        "1 x not used: bar: GET /a",
        "1 x not used: callbacks: GET /a",
        "1 x not used: baz: GET /a",
        "1 x an optional parameter without an example, which is not sent: GET /a",
        "1 x a parameter in querystring, which is not sent: GET /a",
        "1 x an example without a value in the document, which is not used: GET /a",
        "1 x a parameter without a name or a place, which is not sent: GET /a",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn credentials_are_sent_or_named() {
    let (plan, notes) = of(
        "3.0.3",
        &json!({
            "components": {"securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "bare": {"type": "apiKey", "in": "header"},
                "odd": {"type": "apiKey", "in": "body", "name": "k"},
            }},
            "paths": {
                "/a": {"get": {"security": [{"key": []}, {"odd": []}]}},
                "/b": {"get": {"security": [{"bare": []}]}},
                "/c": {"get": {"security": [{"odd": []}]}},
            },
        }),
    );
    assert!(plan.contains("path = \"/base/a\", headers = [\"X-Key: {{key}}\"]"), "{plan}");
    for line in [
        "1 x of several alternatives of credentials, the first is sent: GET /a",
        "1 x sent without its credentials (bare): GET /b",
        "1 x sent without its credentials (odd): GET /c",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}
