//! `prony import openapi`: the requests have values that the described schemas allow.

use std::fs;

use serde_json::{Value, json};

use crate::imports::{arrived, import};
use crate::scripted::{Scripted, reply, send};

/// An interface with references, parameters everywhere, and credentials.
const PETS: &str = r##"{
  "openapi": "3.1.0", "info": {"title": "pets", "version": "1"},
  "servers": [{"url": "http://pets.example/v1"}],
  "security": [{"bearer": []}],
  "components": {
    "securitySchemes": {
      "bearer": {"type": "http", "scheme": "bearer"},
      "key": {"type": "apiKey", "in": "query", "name": "api_key"}
    },
    "parameters": {"Trace": {"name": "X-Trace", "in": "header", "required": true, "schema": {"type": "string", "format": "uuid"}}},
    "schemas": {
      "Pet": {"type": "object", "required": ["name", "age", "tags", "kind", "owner", "born", "parent"], "properties": {
        "id": {"type": "integer", "readOnly": true}, "note": {"type": "string"},
        "name": {"type": "string", "minLength": 6, "maxLength": 8},
        "age": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
        "tags": {"type": "array", "minItems": 2, "items": {"type": ["null", "boolean"]}},
        "kind": {"enum": ["cat", "dog"]}, "born": {"type": "string", "format": "date"},
        "owner": {"allOf": [{"$ref": "#/components/schemas/Person"}, {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "multipleOf": 5, "minimum": 3}}}]},
        "parent": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Pet"}]}}},
      "Person": {"type": "object", "required": ["mail"], "properties": {"mail": {"type": "string", "format": "email"}}}
    }
  },
  "paths": {
    "/pets": {
      "parameters": [{"$ref": "#/components/parameters/Trace"}],
      "get": {"operationId": "list", "security": [{"key": []}], "parameters": [
        {"name": "limit", "in": "query", "required": true, "schema": {"type": "integer", "minimum": 10}},
        {"name": "tag", "in": "query", "example": ["a b", "c"], "schema": {"type": "array"}},
        {"name": "page", "in": "query", "schema": {"type": "integer"}}], "responses": {"200": {}}},
      "post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}, "responses": {"2XX": {}}}
    },
    "/pets/{id}": {
      "delete": {"operationId": "remove", "security": [], "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}], "responses": {"204": {}}},
      "put": {"requestBody": {"content": {"application/x-protobuf": {}}}, "parameters": [{"name": "id", "in": "path", "required": true, "schema": {}}]}
    }
  }
}"##;

/// The same interface as people write it: comments, block and flow style, references and anchors,
/// statuses and a version without quotes.
const PETS_YAML: &str = r##"---
# An interface of pets
openapi: 3.1   # a number
info: { title: pets, version: "1" }
servers:
  - url: http://pets.example/v1
security:
  - bearer: []
paths:
  /pets:
    parameters: [{ $ref: '#/components/parameters/Trace' }]
    get:
      operationId: list
      description: |
        Lists pets.

        All of them: no limit.
      security: [key: []]
      parameters:
        - name: limit
          in: query
          required: true
          schema: &int
            type: integer
            minimum: 10
        - {name: tag, in: query, example: ["a b", c], schema: {type: array}}
        - name: page
          in: query
          schema: {<<: *int}
      responses:
        200: {}
    post:
      requestBody:
        content:
          application/json:
            schema: {$ref: "#/components/schemas/Pet"}
      responses:
        2XX: {}
  /pets/{id}:
    delete:
      operationId: remove
      security: []
      parameters: &id [{name: id, in: path, required: true, schema: {type: integer}}]
      responses:
        204: {}
    put:
      requestBody: {content: {application/x-protobuf: {}}}
      parameters: *id
components:
  securitySchemes:
    bearer: {type: http, scheme: bearer}
    key: {type: apiKey, in: query, name: api_key}
  parameters:
    Trace:
      name: X-Trace
      in: header
      required: true
      schema:
        type: string
        format: uuid
  schemas:
    Pet:
      type: object
      required: [name, age, tags, kind, owner, born, parent]
      properties:
        id: {type: integer, readOnly: true}
        note: {type: string}
        name:
          type: string
          minLength: 6
          maxLength: 8
        age: {type: number, exclusiveMinimum: 0, maximum: .5}
        tags:
          type: array
          minItems: 2
          items:
            type: ["null", boolean]
        kind:
          enum:
          - cat
          - dog
        born: {type: string, format: date}
        owner:
          allOf:
            - $ref: "#/components/schemas/Person"
            - type: object
              required: [n]
              properties:
                n: {type: integer, multipleOf: 5, minimum: 3}
        parent:
          anyOf:
            - type: "null"
            - $ref: "#/components/schemas/Pet"
    Person:
      type: object
      required: [mail]
      properties:
        mail: {type: string, format: email}
"##;

#[test]
fn an_interface_in_yaml_is_the_same_plan_as_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, json) = import(folder.path(), "openapi", PETS, &[]);
    let json = fs::read_to_string(json).expect("a plan");
    let (ended, yaml) = import(folder.path(), "openapi", PETS_YAML, &[]);
    assert!(ended.stderr.starts_with("prony: imported 3 requests in 3 sessions"), "{ended:?}");
    let yaml = fs::read_to_string(yaml).expect("a plan");
    assert!(json.contains("http://pets.example") && json.matches("path = ").count() == 3, "{json}");
    assert_eq!(yaml, json);
}

/// Replies as the interface says.
fn pets() -> Scripted {
    Scripted::start(|_, request| match request.split(' ').next() {
        Some("DELETE") => send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        _ => reply(200, "[]"),
    })
}

/// What a plan of the interface must send, in each version of the format.
fn check_pets(all: &[String]) {
    let trace = "X-Trace: 3fa85f64-5717-4562-b3fc-2c963f66afa6";
    assert_eq!(
        all[0],
        format!("GET /v1/pets?limit=10&tag=a%20b&tag=c&api_key=FILL-IN HTTP/1.1\n{trace}\n\n")
    );
    assert!(
        all[1].starts_with("POST /v1/pets HTTP/1.1\nAuthorization: Bearer FILL-IN\n"),
        "{all:?}"
    );
    let body = all[1].split_once("\n\n").expect("a body").1;
    let body: Value = serde_json::from_str(body).expect("JSON");
    let document: Value = serde_json::from_str(PETS).expect("JSON");
    let mut schema = document["components"]["schemas"]["Pet"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(&body).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{body}: {errors:?}");
    assert_eq!((body.get("id"), body.get("note")), (None, None));
    assert_eq!(all[2], "DELETE /v1/pets/1 HTTP/1.1\n\n");
    assert_eq!(all.len(), 3);
}

/// The words of 3.0 for what 3.1 says with JSON Schema.
fn pets_of_3_0() -> Value {
    let mut document: Value = serde_json::from_str(PETS).expect("JSON");
    document["openapi"] = "3.0.3".into();
    let pet = &mut document["components"]["schemas"]["Pet"]["properties"];
    pet["age"] = json!({"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 0.5});
    pet["tags"]["items"] = json!({"type": "boolean", "nullable": true});
    pet["parent"] = json!({"nullable": true, "allOf": [{"$ref": "#/components/schemas/Pet"}]});
    document
}

/// The same in Swagger 2.0: no media types, servers, nor components.
fn pets_of_2_0() -> Value {
    let mut document = pets_of_3_0();
    let schemas = document["components"]["schemas"].take();
    let mut paths = document["paths"].take();
    for (path, method) in [("/pets", "get"), ("/pets/{id}", "delete"), ("/pets/{id}", "put")] {
        for parameter in paths[path][method]["parameters"].as_array_mut().expect("a list") {
            let schema = parameter["schema"].take();
            let parameter = parameter.as_object_mut().expect("a parameter");
            parameter.remove("schema");
            parameter.extend(schema.as_object().expect("a schema").clone());
            // There, a parameter has no example but in an extension, which the format allows.
            if parameter.get("example").is_some() {
                parameter.insert("collectionFormat".into(), "multi".into());
            }
        }
    }
    let body = json!({"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}});
    paths["/pets"]["post"] = json!({"parameters": [body], "responses": {"2XX": {}}});
    let put = &mut paths["/pets/{id}"]["put"];
    put.as_object_mut().expect("an operation").remove("requestBody");
    put["consumes"] = json!(["application/x-protobuf"]);
    let text = json!({
        "swagger": "2.0", "info": document["info"], "schemes": ["http"], "host": "pets.example",
        "basePath": "/v1", "security": [{"bearer": []}], "paths": paths, "definitions": schemas,
        "securityDefinitions": {
            "bearer": {"type": "oauth2", "flow": "implicit"},
            "key": {"type": "apiKey", "in": "query", "name": "api_key"}
        },
        "parameters": {"Trace": {
            "name": "X-Trace", "in": "header", "required": true, "type": "string", "format": "uuid"
        }}
    });
    let text = text.to_string();
    let text = text.replace("#/components/schemas/", "#/definitions/");
    let text = text.replace("#/components/parameters/", "#/parameters/");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn operations_of_an_interface_have_values_that_its_schemas_allow() {
    let server = pets();
    let folder = tempfile::tempdir().expect("a folder");
    let to = format!("http://{}", server.address());
    let (ended, plan) = import(folder.path(), "openapi", PETS, &["--to", &to]);
    assert_eq!(
        ended.stderr,
        "prony: imported 3 requests in 3 sessions\n  \
         1 x an optional parameter without an example, which is not sent: GET /pets\n  \
         1 x its body has the type application/x-protobuf: PUT /pets/{id}\n  \
         fill in under [variables]: key, bearer\n"
    );
    check_pets(&arrived(&server, &plan));
}

/// The same interface in the two older versions of the format is the same requests.
#[test]
fn older_versions_of_the_format_are_the_same_requests() {
    let server = pets();
    let folder = tempfile::tempdir().expect("a folder");
    let to = format!("http://{}", server.address());
    let text = pets_of_3_0().to_string();
    let (ended, plan) = import(folder.path(), "openapi", &text, &["--to", &to]);
    assert!(ended.stderr.starts_with("prony: imported 3 requests in 3 sessions"), "{ended:?}");
    check_pets(&arrived(&server, &plan));
    // There, an operation without a body has nothing whose type could be unknown.
    let mut document = pets_of_2_0();
    document["paths"]["/pets/{id}"].as_object_mut().expect("operations").remove("put");
    let (ended, plan) = import(folder.path(), "openapi", &document.to_string(), &["--to", &to]);
    assert_eq!(
        ended.stderr,
        "prony: imported 3 requests in 3 sessions\n  \
         1 x an optional parameter without an example, which is not sent: GET /pets\n  \
         fill in under [variables]: key, bearer\n"
    );
    check_pets(&arrived(&server, &plan));
    // The described server and its path.
    let (_, plan) = import(folder.path(), "openapi", &document.to_string(), &[]);
    let plan = fs::read_to_string(plan).expect("a plan");
    assert!(plan.contains("url = \"http://pets.example\"\n"), "{plan}");
}

/// Values of fields with patterns and limits.
const ORDERS: &str = r#"{
  "openapi": "3.1.0", "servers": [{"url": "http://h"}],
  "paths": {
    "/orders": {"post": {"tags": ["orders"], "requestBody": {"content": {"application/json": {"schema": {
      "type": "object", "required": ["code", "count", "kind", "parts"], "additionalProperties": false, "properties": {
        "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4,6}$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "kind": {"enum": ["new", "used", "gift"]},
        "note": {"type": "string", "maxLength": 10},
        "parts": {"type": "array", "uniqueItems": true, "minItems": 2, "items": {"type": "integer", "maximum": 9}}}}}}}}},
    "/photos": {"post": {"tags": ["photos", "orders"], "requestBody": {"content": {"multipart/form-data": {"schema": {
      "type": "object", "properties": {"title": {"type": "string"}, "file": {"type": "string", "format": "binary"},
        "tags": {"type": "array", "minItems": 2, "items": {"type": "string"}}, "meta": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
      "encoding": {"file": {"contentType": "image/png, image/jpeg"}}}}}}},
    "/raw": {"put": {"tags": ["admin"], "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
      "parameters": [{"name": "sid", "in": "cookie", "required": true, "schema": {"type": "string"}}], "security": [{"c": []}]}},
    "/odd": {"get": {"parameters": [{"name": "p", "in": "query", "required": true, "schema": {"type": "string", "pattern": "^(?!a).$"}}]}}
  },
  "components": {"securitySchemes": {"c": {"type": "apiKey", "in": "cookie", "name": "key"}}}
}"#;

/// Bodies that are no JSON, and patterns.
#[test]
fn bodies_of_interfaces_are_forms_and_files_too() {
    let server = pets();
    let folder = tempfile::tempdir().expect("a folder");
    let to = format!("http://{}", server.address());
    let (ended, plan) = import(folder.path(), "openapi", ORDERS, &["--to", &to]);
    assert_eq!(
        ended.stderr,
        "prony: imported 4 requests in 4 sessions\n  1 x a pattern that prony does not understand: \
         GET /odd\n  fill in under [variables]: c\n"
    );
    let all = arrived(&server, &plan);
    let body = all[0].split_once("\n\n").expect("a body").1;
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["code"], "AAA-0000");
    assert_eq!((&body["count"], &body["kind"]), (&json!(1), &json!("new")));
    let part = |name: &str, more: &str, text: &str| {
        format!(
            "--BOUNDARY\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{text}\r\n"
        )
    };
    // In the order of the description.
    let parts = [
        part("title", "", "text"),
        part("file", "; filename=\"file\"\r\nContent-Type: image/png", "text"),
        part("tags", "", "text"),
        part("tags", "", "text"),
        part("meta", "\r\nContent-Type: application/json", "{\"a\":1}"),
        "--BOUNDARY--\r\n".to_owned(),
    ];
    let form = all[1].split_once("\n\n").expect("a body").1;
    assert_eq!(form, parts.concat());
    assert_eq!(
        all[2],
        "PUT /raw HTTP/1.1\nContent-Length: 4\nContent-Type: application/octet-stream\n\
         Cookie: sid=text; key=FILL-IN\n\ntext"
    );
    assert_eq!(all[3], "GET /odd?p=text HTTP/1.1\n\n");
}

/// A seed draws values that the schema allows; the same one draws the same.
#[test]
fn seeds_draw_values_that_the_schemas_allow() {
    let server = pets();
    let folder = tempfile::tempdir().expect("a folder");
    let to = format!("http://{}", server.address());
    let document: Value = serde_json::from_str(ORDERS).expect("JSON");
    let media = &document["paths"]["/orders"]["post"]["requestBody"]["content"];
    let validator = jsonschema::validator_for(&media["application/json"]["schema"]);
    let validator = validator.expect("a schema");
    let mut bodies = Vec::new();
    for seed in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        let options = ["--to", &to, "--seed", seed];
        let (_, plan) = import(folder.path(), "openapi", ORDERS, &options);
        let first = fs::read_to_string(&plan).expect("a plan");
        let (_, plan) = import(folder.path(), "openapi", ORDERS, &options);
        assert_eq!(fs::read_to_string(&plan).expect("a plan"), first, "the same seed");
        let all = arrived(&server, &plan);
        let body = all[0].split_once("\n\n").expect("a body").1;
        let body: Value = serde_json::from_str(body).expect("JSON");
        let errors: Vec<String> = validator.iter_errors(&body).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{body}: {errors:?}");
        bodies.push(body);
    }
    let differ = |key: &str| bodies.iter().any(|body| body[key] != bodies[0][key]);
    assert!(["code", "count", "kind", "parts", "note"].into_iter().all(differ), "{bodies:?}");
}

/// Tags have weights: the sessions of the plan, and how often they are made.
#[test]
fn tags_of_operations_have_weights() {
    let server = pets();
    let folder = tempfile::tempdir().expect("a folder");
    let to = format!("http://{}", server.address());
    let options = ["--to", &to, "--weight", "orders=9", "--weight", "admin=0"];
    let (ended, plan) = import(folder.path(), "openapi", ORDERS, &options);
    assert!(ended.stderr.contains("1 x its tag has the weight 0: PUT /raw"), "{ended:?}");
    let text = fs::read_to_string(&plan).expect("a plan");
    let weights: Vec<&str> = text.lines().filter(|line| line.starts_with("weight")).collect();
    assert_eq!(weights, ["weight = 9", "weight = 9", "weight = 1"], "{text}");
    let many = text.replace("sessions = 3\n", "sessions = 400\nseed = 1\n");
    assert_ne!(many, text);
    fs::write(&plan, many).expect("a plan");
    let all = arrived(&server, &plan);
    let count = |path: &str| all.iter().filter(|request| request.contains(path)).count();
    let [orders, photos, odd] = ["POST /orders", "POST /photos", "GET /odd"].map(count);
    assert_eq!(orders + photos + odd, 400);
    // 189 and 21, each +- 5 standard deviations (10 and 4.5).
    assert!((130..=239).contains(&orders) && (130..=239).contains(&photos), "{orders} {photos}");
    assert!((1..=43).contains(&odd), "{odd}");
}
