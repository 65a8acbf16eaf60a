//! Files of other people, which the tests get from a package registry: what arrives at a server
//! when their plans run is what they describe. No such file is in this repository.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::imports::{arrived, import, shown};
use crate::rig::{have, prony};
use crate::scripted::{Scripted, reply};

/// What an installed package has, if it is there.
fn package(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

/// All files below a folder with this ending.
fn files(folder: &Path, ending: &str, all: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, ending, all);
        } else if path.extension().is_some_and(|found| found == ending) {
            all.push(path);
        }
    }
}

/// Imports a file, and runs the plan. None if nothing in it can be sent.
fn ran(
    server: &Scripted,
    format: &str,
    file: &Path,
    plan: &Path,
    to: &[&str],
) -> Option<Vec<String>> {
    let [file, plan] = [file, plan].map(|path| path.to_str().expect("UTF-8"));
    let ended = prony(&[&["import", format, file, "-o", plan], to].concat());
    if ended.code == 2 {
        let is_empty = ["no request in it that can be sent", "there are no paths in it"];
        assert!(is_empty.iter().any(|why| ended.stderr.contains(why)), "{file}: {ended:?}");
        return None;
    }
    assert_eq!(ended.code, 0, "{file}: {ended:?}");
    // What is still to be filled in, such as credentials.
    let text = fs::read_to_string(plan).expect("a plan").replace("FILL-IN", "x");
    fs::write(plan, text).expect("a plan");
    let before = server.requests().len();
    // Some descriptions want other statuses.
    let ended = prony(&["run", plan, "--quiet"]);
    assert!([0, 1, 98].contains(&ended.code), "{file}: {ended:?}");
    Some(server.requests()[before..].iter().map(|request| shown(request)).collect())
}

/// The operation of a request: method, and the template of its path.
fn operation(document: &Value, method: &str, path: &str) -> Option<(String, String)> {
    let is_of = |template: &str| {
        let parts: Vec<&str> = template.split('/').filter(|part| !part.is_empty()).collect();
        let path = path.split('?').next().unwrap_or_default();
        let found: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        // The path of the server is in front.
        let front = found.len().checked_sub(parts.len());
        front.is_some_and(|front| {
            let mut pairs = parts.iter().zip(&found[front..]);
            pairs.all(|(part, found)| part.contains('{') || part == found)
        })
    };
    let method = method.to_ascii_lowercase();
    let mut paths = document["paths"].as_object()?.iter();
    let has = |item: &Value| item[&method].is_object() || item["$ref"].is_string();
    let (template, _) = paths.find(|(template, item)| has(item) && is_of(template))?;
    Some((method, template.clone()))
}

/// Whether a body is one that the operation describes; none if it cannot be known.
fn is_described(document: &Value, method: &str, template: &str, body: &str) -> Option<bool> {
    // A type that requires itself has no value that ends. Its bodies end with nulls.
    if body.contains(":null") {
        return None;
    }
    let body: Value = serde_json::from_str(body).ok()?;
    let content = &document["paths"][template][method]["requestBody"]["content"];
    let (kind, media) = content.as_object()?.iter().find(|(kind, _)| kind.contains("json"))?;
    // Examples are sent as they are.
    let has_example = !media["example"].is_null() || !media["examples"].is_null();
    if has_example || media["schema"].to_string().contains("nullable") {
        return None;
    }
    let escaped = |key: &str| {
        key.replace('~', "~0").replace('/', "~1").replace('{', "%7B").replace('}', "%7D")
    };
    // Alternatives that overlap are usual: a value of the first one may be one of another, too.
    let text = document.to_string().replace("\"oneOf\":", "\"anyOf\":");
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    let at =
        ["paths", &escaped(template), method, "requestBody", "content", &escaped(kind), "schema"];
    schema["$ref"] = json!(format!("#/{}", at.join("/")));
    let validator = jsonschema::validator_for(&schema).ok()?;
    Some(validator.is_valid(&body))
}

/// Each request is an operation of the description, and its body one that is described there.
#[test]
fn requests_are_those_of_public_descriptions() {
    let Some(package) = package("PRONY_TEST_OAS_EXAMPLES") else { return };
    let server = Scripted::start(|_, _| reply(200, "[]"));
    let to = format!("http://{}", server.address());
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let mut all = Vec::new();
    files(package.parent().expect("a folder"), "json", &mut all);
    let (mut imported, mut requests, mut bodies) = (0, 0, 0);
    let mut wrong = BTreeSet::new();
    for file in all {
        let text = fs::read_to_string(&file).expect("a file");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        if document["openapi"].is_null() && document["swagger"].is_null() {
            continue;
        }
        let Some(arrived) = ran(&server, "openapi", &file, &plan, &["--to", &to]) else { continue };
        imported += 1;
        requests += arrived.len();
        let sessions = fs::read_to_string(&plan).expect("a plan").matches("[[session]]").count();
        assert_eq!(arrived.len(), sessions, "{}", file.display());
        for request in arrived {
            let (head, body) = request.split_once("\n\n").expect("a head");
            let mut words = head.split(' ');
            let [method, path] = [(); 2].map(|()| words.next().expect("a request line"));
            let found = operation(&document, method, path);
            let (method, template) =
                found.unwrap_or_else(|| panic!("{}: {request}", file.display()));
            if let Some(is_valid) = is_described(&document, &method, &template, body) {
                bodies += 1;
                if !is_valid {
                    wrong.insert(format!("{}: {body}", file.display()));
                }
            }
        }
    }
    assert!(imported >= 40 && requests >= 200 && bodies >= 10, "{imported} {requests} {bodies}");
    // Some of the files are of odd cases: examples that are no values of their types, types that
    // contradict themselves, names with a space, alternatives by a discriminator.
    assert!(wrong.len() * 10 <= bodies, "{} of {bodies}: {wrong:#?}", wrong.len());
}

/// Method, URL and body of each entry of an archive are what arrives.
#[test]
fn requests_are_those_of_public_archives() {
    let Some(package) = package("PRONY_TEST_HAR_EXAMPLES") else { return };
    if !have("node") {
        return;
    }
    let script = format!(
        "import({:?}).then(m => console.log(JSON.stringify(m.default ?? m)))",
        package.to_str().expect("UTF-8")
    );
    let out = Command::new("node").args(["-e", &script]).output().expect("Node.js");
    assert!(out.status.success(), "{out:?}");
    let archives: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let archives = archives.as_object().expect("archives");
    assert!(archives.len() >= 15, "{}", archives.len());
    let server = Scripted::start(|_, _| reply(200, "ok"));
    let to = format!("http://{}", server.address());
    let folder = tempfile::tempdir().expect("a folder");
    let [file, plan] = ["x.har", "plan.toml"].map(|name| folder.path().join(name));
    for (name, archive) in archives {
        // Nobody else's server gets a request.
        let text = archive.to_string().replace("https://httpbin.org", &to);
        let others = text.split("\"url\":\"").skip(1).filter(|url| !url.starts_with(&to));
        assert_eq!(others.count(), 0, "{text}");
        fs::write(&file, &text).expect("a file");
        let arrived = ran(&server, "har", &file, &plan, &["--with-secrets"]);
        let arrived = arrived.unwrap_or_else(|| panic!("{name}: nothing can be sent"));
        let archive: Value = serde_json::from_str(&text).expect("JSON");
        let entries = archive["log"]["entries"].as_array().expect("entries");
        assert_eq!(arrived.len(), entries.len(), "{name}");
        for (entry, request) in entries.iter().zip(arrived) {
            let wanted = &entry["request"];
            let (method, url) = (wanted["method"].as_str(), wanted["url"].as_str());
            let path = url.and_then(|url| url.strip_prefix(&to)).expect("a path");
            let start = format!("{} {path}", method.expect("a method"));
            assert!(request.starts_with(&start), "{name}: {request}");
            let body = request.split_once("\n\n").expect("a body").1;
            if let Some(text) = wanted["postData"]["text"].as_str() {
                assert_eq!(body, text, "{name}");
            }
            for field in wanted["postData"]["params"].as_array().into_iter().flatten() {
                let key = field["name"].as_str().expect("a name");
                assert!(body.contains(key), "{name}: {body}");
                let value = field["value"].as_str().unwrap_or_default();
                assert!(body.contains(value), "{name}: {body}");
            }
            for cookie in wanted["cookies"].as_array().into_iter().flatten() {
                let value = cookie["value"].as_str().expect("a value");
                assert!(request.contains(value), "{name}: {request}");
            }
        }
    }
}

/// A request as [`shown`]: its first line, its headers with their names in small letters, its body.
/// Its length is that of the body, whose last line need not end.
fn plain(request: &str) -> (String, Vec<String>, String) {
    let (head, body) = request.split_once("\n\n").expect("a head");
    let mut lines = head.lines();
    let first = lines.next().expect("a request line").to_owned();
    let small = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header");
        format!("{}:{value}", name.to_ascii_lowercase())
    };
    let is_length = |line: &String| line.starts_with("content-length:");
    let mut headers: Vec<String> = lines.map(small).filter(|line| !is_length(line)).collect();
    headers.sort_unstable();
    (first, headers, body.trim_end().to_owned())
}

/// Command lines of curl and messages of HTTP, as the package `httpsnippet` writes them for public
/// archives: curl sends the same as prony, and the messages arrive as they are written.
#[test]
fn requests_are_those_of_generated_snippets() {
    let packages = (package("PRONY_TEST_HTTPSNIPPET"), package("PRONY_TEST_HAR_EXAMPLES"));
    let (Some(snippets), Some(archives)) = packages else { return };
    if !have("node") || !have("curl") {
        return;
    }
    let server = Scripted::start(|_, _| reply(200, "ok"));
    let to = format!("http://{}", server.address());
    let script = format!(
        "(async () => {{ const {{ HTTPSnippet }} = await import({:?}), m = await import({:?}), out = {{}};
        for (const [name, archive] of Object.entries(m.default ?? m)) {{
            const text = JSON.stringify(archive).replaceAll('https://httpbin.org', {to:?});
            const snippet = new HTTPSnippet(JSON.parse(text));
            const [curl, http] = [['shell', 'curl'], ['http', 'http1.1']].map(([a, b]) => snippet.convert(a, b));
            out[name] = [].concat(curl, http);
        }} console.log(JSON.stringify(out)) }})()",
        snippets.to_str().expect("UTF-8"),
        archives.to_str().expect("UTF-8")
    );
    let out = Command::new("node").args(["-e", &script]).output().expect("Node.js");
    assert!(out.status.success(), "{out:?}");
    let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let all = all.as_object().expect("snippets");
    assert!(all.len() >= 15, "{}", all.len());
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["owlbert.png", "owlbert-shrub.png", "hello.txt"] {
        fs::write(folder.path().join(name), "of a file").expect("a file");
    }
    for (name, pair) in all {
        let [curl, http] = [0, 1].map(|n| pair[n].as_str().unwrap_or_else(|| panic!("{name}")));
        let curl = &curl.replace("file/path/to/", "");
        let (_, plan) = import(folder.path(), "curl", curl, &["--with-secrets"]);
        let ours = arrived(&server, &plan);
        let before = server.requests().len();
        let line = ["-c", curl];
        let ran = Command::new("sh").args(line).current_dir(folder.path()).output().expect("sh");
        assert!(ran.status.success(), "{name}: {ran:?}");
        let theirs: Vec<String> = server.requests()[before..].iter().map(|r| shown(r)).collect();
        assert_eq!((ours.len(), theirs.len()), (1, 1), "{name}");
        assert_eq!(plain(&ours[0]), plain(&theirs[0]), "{name}: {curl}");
        let (_, plan) = import(folder.path(), "http", http, &["--with-secrets", "--to", &to]);
        let ours = arrived(&server, &plan);
        assert_eq!(plain(&ours[0]), plain(&shown(http)), "{name}: {http}");
    }
}
