//! Collections of Postman: what Postman sends is in the plan, or in a note.

use prony_import::{Format, Options, import};
use serde_json::{Value, json};

/// The plan and the notes of a collection of one request.
fn one(request: &Value, more: &Value) -> (String, String) {
    let mut item = json!({"name": "a", "request": request});
    item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    of(&json!({"info": {"name": "x"}, "item": [item], "variable": [{"key": "v", "value": "5"}]}))
}

fn of(collection: &Value) -> (String, String) {
    let options = Options { with_secrets: true, ..Options::default() };
    let found = import(Format::Postman, "file", collection.to_string().as_bytes(), &options);
    let found = found.unwrap_or_else(|e| panic!("{collection}: {e}"));
    (found.write("x"), found.remarks())
}

#[test]
fn basic_authorization_with_variables_is_sent() {
    let auth = |name: &str, password: &str| {
        json!({"url": "http://h/", "auth": {"type": "basic", "basic": [
            {"key": "username", "value": name}, {"key": "password", "value": password}]}})
    };
    for (name, password, wanted) in [
        ("u{{v}}", "p", "Basic dTU6cA=="),
        ("{{user}}", "{{pw}}", r#"Basic {{user | append \":\" | append pw | base64}}"#),
        ("it's", "{{pw}}", r#"Basic {{\"it's:\" | append pw | base64}}"#),
    ] {
        let (plan, _) = one(&auth(name, password), &json!({}));
        assert!(plan.contains(&format!("Authorization: {wanted}\"")), "{plan}");
    }
    // A password is in no plan, not even as a part of a field.
    let collection = json!({"item": [{"request": auth("{{user}}", "hunter2")}]}).to_string();
    let found = import(Format::Postman, "file", collection.as_bytes(), &Options::default());
    let plan = found.expect("a request").write("x");
    assert!(!plan.contains("hunter2") && plan.contains("append password_of_basic"), "{plan}");
}

#[test]
fn graphql_keeps_its_operation_and_variables() {
    let sent = |graphql: Value| {
        let body = json!({"mode": "graphql", "graphql": graphql});
        one(&json!({"method": "POST", "url": "http://h/", "body": body}), &json!({})).0
    };
    for (graphql, wanted) in [
        (
            json!({"query": "q \"x\"", "operationName": "Q", "variables": "{\"id\": {{id}}, \"s\": \"{{v}}\"}"}),
            r#"{"query":"q \"x\"","operationName":"Q","variables":{"id": {{id}}, "s": "5"}}"#,
        ),
        (
            json!({"query": "q {{id}}", "variables": {"b": [1, {"s": "{{id}}"}], "e": {}}}),
            r#"{"query":"q {{id | json}}","variables":{"b":[1,{"s":"{{id | json}}"}],"e":{}}}"#,
        ),
        (json!({"query": "q", "variables": ""}), r#"{"query":"q"}"#),
    ] {
        let plan = sent(graphql);
        let wanted = wanted.replace('\\', "\\\\").replace('"', "\\\"");
        assert!(plan.contains(&format!("body = \"{wanted}\"")), "{wanted}\n{plan}");
    }
}

#[test]
fn bodies_that_postman_does_not_send_are_not_sent() {
    let raw = json!({"mode": "raw", "raw": "text"});
    let request =
        |method: &str, body: &Value| json!({"method": method, "url": "http://h/", "body": body});
    let keeps = json!({"protocolProfileBehavior": {"disableBodyPruning": true}});
    for (method, more, is_sent) in [
        ("GET", json!({}), false),
        ("HEAD", json!({}), false),
        ("GET", keeps.clone(), true),
        ("DELETE", json!({}), true),
    ] {
        let (plan, notes) = one(&request(method, &raw), &more);
        assert_eq!(plan.contains("body = \"text\""), is_sent, "{plan}");
        let note = format!("1 x sent without its body, as Postman does with {method}: /a");
        assert_eq!(notes.contains(&note), !is_sent, "{notes}");
    }
    let off = json!({"mode": "raw", "raw": "text", "disabled": true});
    assert!(!one(&request("POST", &off), &json!({})).0.contains("body"));
    // A folder can have the setting.
    let item = json!({"name": "a", "request": request("GET", &raw)});
    let mut folder = json!({"name": "f", "item": [item]});
    folder["protocolProfileBehavior"] = keeps["protocolProfileBehavior"].clone();
    assert!(of(&json!({"item": [folder]})).0.contains("body = \"text\""));
}

/// One odd pair is named, and the others are sent.
#[test]
fn odd_pairs_are_named_alone() {
    let pairs = json!([{"key": null, "value": "x"}, {"key": "a", "value": "1"}, {"key": "b",
        "value": "2", "disabled": true}, {"key": "c", "value": null}, {"key": "d", "value": {"e": 1}}]);
    let request = json!({"method": "POST", "url": "http://h/", "header": pairs, "proxy": {"host": "p"},
        "body": {"mode": "urlencoded", "urlencoded": pairs, "raw": "other"}});
    let (plan, notes) = one(&request, &json!({}));
    assert!(plan.contains("body = \"a=1&c=&d=\""), "{plan}");
    assert!(plan.contains("headers = [\"a: 1\", \"c: \", \"d: \""), "{plan}");
    for line in [
        "1 x left out: a header without a name: /a",
        "1 x left out: a field of a form without a name: /a",
        "2 x not used, as its type or value is wrong: value: /item/0/request/header/4/value, /item/0/request/body/urlencoded/4/value",
        "1 x not used: proxy: /item/0/request/proxy",
        "1 x not used: raw: /item/0/request/body/raw",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn headers_can_be_one_text() {
    let request = json!({"url": "http://h/", "header": "A: 1\nB: {{v}}\n\nodd"});
    let (plan, notes) = one(&request, &json!({}));
    assert!(plan.contains("headers = [\"A: 1\", \"B: 5\"]"), "{plan}");
    assert!(notes.contains("1 x left out: a header without a name: /a"), "{notes}");
}

/// A folder's authorization, scripts and variables are those of its requests.
#[test]
fn folders_have_authorizations_scripts_and_variables() {
    let bearer = |token: &str| json!({"type": "bearer", "bearer": {"token": token}});
    let script = json!([{"listen": "test", "script": {"exec": ["x()"]}}]);
    let request = |auth: Value| json!({"url": "http://h/{{v}}", "auth": auth});
    let collection = json!({"auth": bearer("of all"), "event": script, "variable": [{"key": "v", "value": 1}],
      "item": [{"name": "f", "auth": bearer("of folder"), "event": script,
        "variable": [{"key": "v", "value": "2"}], "item": [
          {"name": "a", "request": request(Value::Null)}, {"name": "b", "request": request(json!({"type": "noauth"}))},
          {"name": "c", "request": request(json!({"type": "digest", "digest": []}))}, {"name": "d"}]},
        {"name": "e", "request": request(Value::Null)}]});
    let (plan, notes) = of(&collection);
    assert_eq!(plan.matches("Bearer of folder").count(), 1, "{plan}");
    assert_eq!(plan.matches("Bearer of all").count(), 1, "{plan}");
    assert_eq!((plan.matches("path = \"/2\"").count(), plan.matches("\"/1\"").count()), (3, 1));
    for line in [
        "1 x a script of the collection (test): ",
        "1 x a script of a folder (test): /f",
        "1 x sent without its authorization (digest): /f/c",
        "1 x left out: neither a request nor a folder: /f/d",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}
