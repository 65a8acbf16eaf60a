//! Members of a wrong type: each is refused, named, or in the plan as it is; none falls back to a
//! default in silence.

use prony_import::{Format, Options, import};
use serde_json::{Value, json};

/// What stands in for a member, and shows in the plan if it is used.
const MARK: &str = "zq7919";
const NUMBER: u64 = 791_979;

/// Values of each type of JSON but null, which counts as not there.
fn values() -> [Value; 7] {
    [
        json!(true),
        json!(NUMBER),
        json!(MARK),
        json!([]),
        json!([MARK]),
        json!({}),
        json!({MARK: NUMBER}),
    ]
}

/// Whether a value is one that a member can have, or changes no request.
type IsRight = fn(&str, &Value) -> bool;

/// Whether a value has others in it.
fn is_more(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

fn same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// The pointers of all values in a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.replace('~', "~0").replace('/', "~1"), v)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let at = format!("{at}/{name}");
        all.push(at.clone());
        pointers(value, &at, all);
    }
}

/// The plan, and the notes; or the refusal.
fn read(format: Format, document: &Value) -> Result<(String, Vec<String>), String> {
    let options = Options { with_secrets: true, ..Options::default() };
    let found = import(format, "file", document.to_string().as_bytes(), &options)?;
    let notes = found.notes();
    let notes = notes.iter().map(|note| format!("{}: {}", note.what, note.shown_places()));
    Ok((found.write("x"), notes.collect()))
}

/// How many replacements were tried, and those that were silent.
fn silent(format: Format, sample: &Value, is_right: IsRight) -> (usize, Vec<String>) {
    let (plan, notes) = read(format, sample).expect("a sample");
    let mut all = Vec::new();
    pointers(sample, "", &mut all);
    let count = |plan: &str, word: &str| plan.to_lowercase().matches(word).count();
    let (mut tried, mut silent) = (0, Vec::new());
    for pointer in all {
        for value in values() {
            let mut document = sample.clone();
            let place = document.pointer_mut(&pointer).expect("it is there");
            if same_type(place, &value) || is_right(&pointer, &value) {
                continue;
            }
            *place = value.clone();
            tried += 1;
            let Ok((new_plan, new_notes)) = read(format, &document).inspect_err(|why| {
                assert!(why.starts_with("file"), "{pointer} {value}: {why}");
            }) else {
                continue;
            };
            let shows = ["true", &NUMBER.to_string(), MARK, "[]", "{}"]
                .iter()
                .any(|word| count(&new_plan, word) > count(&plan, word));
            let is_named = new_notes.iter().any(|note| !notes.contains(note));
            if !is_named && !shows {
                silent.push(format!("{pointer}: {value}"));
            }
        }
    }
    (tried, silent)
}

fn none_is_silent(format: Format, samples: &[Value], is_right: IsRight) {
    let (mut tried, mut all) = (0, Vec::new());
    for sample in samples {
        let (n, silent) = silent(format, sample, is_right);
        tried += n;
        all.extend(silent);
    }
    println!("{format:?}: {tried} tried, {} silent", all.len());
    assert!(all.is_empty(), "{} of {tried}:\n{}", all.len(), all.join("\n"));
}

fn swagger() -> Value {
    json!({
        "swagger": "2.0", "host": "h", "basePath": "/base", "schemes": ["https"], "consumes": ["application/json"],
        "securityDefinitions": {"key": {"type": "apiKey", "in": "query", "name": "k"}},
        "security": [{"key": []}],
        "paths": {
            "/a": {"post": {"consumes": ["multipart/form-data"], "schemes": ["http"], "parameters": [
                {"name": "f", "in": "formData", "type": "file", "required": true},
                {"name": "c", "in": "query", "required": true, "type": "array", "collectionFormat": "pipes",
                    "items": {"type": "string"}, "minItems": 2}]}},
            "/b": {"post": {"parameters": [{"name": "b", "in": "body", "schema": {"type": "integer", "minimum": 5}}]}},
        },
    })
}

#[test]
fn descriptions_name_members_of_a_wrong_type() {
    let schema = json!({"type": "object", "required": ["a", "l", "n", "o"], "properties": {
        "a": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^x+$"},
        "e": {"enum": ["v"]},
        "l": {"type": "array", "minItems": 2, "maxItems": 3, "uniqueItems": true, "items": {"type": "string", "format": "date"}},
        "n": {"type": "integer", "minimum": 3, "maximum": 9, "exclusiveMinimum": true, "multipleOf": 2},
        "m": {"type": ["number", "null"], "exclusiveMaximum": 5},
        "o": {"oneOf": [{"$ref": "#/components/schemas/Cat"}], "discriminator": {"propertyName": "kind",
            "mapping": {"c": "#/components/schemas/Cat"}}},
        "p": {"allOf": [{"type": "object", "properties": {"q": {"const": 1}}}]},
        "r": {"type": "string", "readOnly": true},
    }});
    let pet = json!({"type": "object", "xml": {"name": "pet", "prefix": "p", "namespace": "http://n"}, "properties": {
        "id": {"type": "integer", "xml": {"attribute": true}},
        "tags": {"type": "array", "xml": {"wrapped": true}, "items": {"type": "string", "xml": {"name": "tag"}}}}});
    let new = json!({
        "openapi": "3.0.3", "servers": [{"url": "http://{v}.h/base", "variables": {"v": {"default": "d", "enum": ["d", "e"]}}}],
        "security": [{"key": []}],
        "components": {
            "schemas": {"Cat": {"type": "object", "properties": {"kind": {"type": "string"}}}},
            "parameters": {"P": {"name": "p", "in": "header", "required": true, "schema": {"type": "string"}}},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "b": {"type": "http", "scheme": "basic"}},
        },
        "paths": {
            "/a/{i}": {
                "parameters": [{"name": "i", "in": "path", "required": true, "style": "matrix", "explode": true,
                    "schema": {"type": "array", "items": {"type": "integer"}}}],
                "post": {
                    "operationId": "one", "servers": [{"url": "http://other"}], "security": [{"b": []}],
                    "parameters": [
                        {"$ref": "#/components/parameters/P"},
                        {"name": "q", "in": "query", "required": true, "style": "pipeDelimited", "explode": false,
                            "allowReserved": true, "example": ["a/b", "c"]},
                        {"name": "c", "in": "query", "required": true, "content": {"application/json": {"schema": {"type": "object"}}}},
                        {"name": "x", "in": "query", "examples": {"one": {"value": "v"}}},
                    ],
                    "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
                    "responses": {"201": {}},
                },
            },
            "/form": {"post": {"requestBody": {"content": {"application/x-www-form-urlencoded": {
                "example": {"l": ["a", "b"]}, "encoding": {"l": {"explode": false, "style": "form", "allowReserved": true}}}}}}},
            "/parts": {"post": {"requestBody": {"content": {"multipart/form-data": {
                "schema": {"type": "object", "properties": {"f": {"type": "string", "contentMediaType": "image/png"}, "j": {"type": "object"}}},
                "encoding": {"f": {"contentType": "image/png"}}}}}}},
            "/xml": {"post": {"requestBody": {"content": {"application/xml": {"schema": pet}}}}},
        },
    });
    none_is_silent(Format::OpenApi, &[new, swagger()], |at, value| {
        let last = at.rsplit('/').next().unwrap_or_default();
        let is_schema =
            ["schema", "items", "0"].contains(&last) || at.rsplit('/').nth(1) == Some("properties");
        // Any value can be an example; a flag can be a schema, or an exclusive limit.
        ["/example", "/examples/one/value", "/const", "/enum/", "/responses/"]
            .iter()
            .any(|part| at.contains(part))
            || value == true && (is_schema || last.starts_with("exclusive"))
            || value.is_number() && last.starts_with("exclusive")
            || value.is_string() && last == "discriminator"
    });
}

#[test]
fn archives_name_members_of_a_wrong_type() {
    let entry = json!({
        "startedDateTime": "2026-11-24T10:00:00.1Z", "time": 5, "pageref": "p1", "_resourceType": "xhr", "_session": "s",
        "request": {"method": "POST", "url": "http://h/a?token=x", "httpVersion": "HTTP/2",
            "headers": [{"name": "X-A", "value": "1"}, {"name": "Cookie", "value": "a=b"}],
            "queryString": [{"name": "token", "value": "x"}], "cookies": [{"name": "a", "value": "b"}],
            "postData": {"mimeType": "application/json", "text": "{\"pin\": \"1\"}"}},
        "response": {"status": 201, "headers": [{"name": "set-cookie", "value": "a=c"}],
            "content": {"mimeType": "application/json", "text": "e30=", "encoding": "base64"}},
    });
    let form = json!({
        "startedDateTime": "2026-11-24T10:00:02.1Z", "time": 5,
        "request": {"method": "POST", "url": "http://h/b", "headers": [], "postData": {"mimeType": "multipart/form-data",
            "params": [{"name": "n", "value": "v"}, {"name": "f", "fileName": "a.txt", "contentType": "text/plain", "value": "x"}]}},
        "response": {"status": 200},
    });
    let archive = json!({"log": {"version": "1.2", "pages": [{"id": "p1", "startedDateTime": "2026-11-24T10:00:00Z", "title": "t"}],
        "entries": [entry, form]}});
    none_is_silent(Format::Har, &[archive], |at, value| {
        // A number or a flag is a text.
        at.ends_with("ersion") || at.contains("/pages") || at.ends_with("/value") && !is_more(value)
    });
}

#[test]
fn collections_name_members_of_a_wrong_type() {
    let collection = json!({
        "info": {"name": "all"},
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "t"}]},
        "variable": [{"key": "v", "value": "5", "disabled": false}, {"key": "w", "value": "6", "disabled": true}],
        "event": [{"listen": "test", "script": {"exec": ["pm.test('x')"]}}],
        "item": [
            {"name": "folder", "auth": {"type": "basic", "basic": [{"key": "username", "value": "u"}, {"key": "password", "value": "p"}]},
                "item": [{"name": "inner", "protocolProfileBehavior": {"disableBodyPruning": true},
                    "event": [{"listen": "test", "script": {"exec": ["pm.response.to.have.status(201)"]}}],
                    "request": {"method": "POST",
                    "url": {"raw": "http://h/a/:i?q=1", "protocol": "http", "host": ["h", "x"], "port": "81", "path": ["a", ":i"],
                        "query": [{"key": "q", "value": "1"}, {"key": "r", "value": "2", "disabled": true}],
                        "variable": [{"key": "i", "value": "7"}]},
                    "header": [{"key": "X-A", "value": "{{v}}"}, {"key": "X-B", "value": "c", "disabled": true}],
                    "body": {"mode": "raw", "raw": "{\"r\": 1}", "options": {"raw": {"language": "json"}}}}}]},
            {"name": "form", "request": {"method": "POST", "url": "http://h/f", "body": {"mode": "formdata", "formdata": [
                {"key": "t", "value": "x", "type": "text", "contentType": "text/plain"}, {"key": "d", "value": "y", "disabled": true}]}}},
            {"name": "encoded", "request": {"method": "POST", "url": "http://h/e", "body": {"mode": "urlencoded", "urlencoded": [
                {"key": "t", "value": "x"}]}}},
            {"name": "graph", "request": {"method": "POST", "url": "http://h/g", "auth": {"type": "apikey", "apikey": [
                {"key": "key", "value": "X-K"}, {"key": "value", "value": "s"}, {"key": "in", "value": "header"}]},
                "body": {"mode": "graphql", "graphql": {"query": "q", "operationName": "Q", "variables": "{\"a\": 1}"}}}},
            {"name": "disabled", "request": {"method": "POST", "url": "http://h/n", "body": {"mode": "raw", "raw": "x", "disabled": true}}},
        ],
    });
    none_is_silent(Format::Postman, &[collection], |at, value| {
        // What is switched off, and a URL beside its parts.
        let is_off =
            ["/variable/1/", "/query/1/", "/header/1/", "/formdata/1/", "/item/4/request/body/"];
        let is_off = is_off.iter().any(|part| at.contains(part)) && !at.ends_with("/disabled");
        // A number or a flag is a text.
        let is_text = ["/key", "/value"].iter().any(|end| at.ends_with(end)) && !is_more(value);
        // The pairs of old collections are the members of an object; a script can be one text.
        let pairs = ["/variable", "/query", "/header", "/formdata", "/urlencoded"];
        let is_old = value.is_object() && pairs.iter().any(|end| at.ends_with(end));
        // No plan shows what is in a password as it is.
        let is_password = at.contains("/basic/") && at.ends_with("/value");
        is_off
            || is_text
            || is_old
            || is_password
            || at.ends_with("/url/raw")
            || at.ends_with("/exec")
    });
}
