//! Texts of strangers, in saved reports, plan files, collections and replies: a terminal and a
//! build server find nothing in the output that they obey.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use prony_base::plain::is_plain;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{Ended, prony};

const HOSTILE: &str = "x\u{1b}[31m\u{9b}2J\u{202e}\u{200b}\u{2028}\r\n::stop-commands::y\n##[error]z \
     ##vso[task.complete] ##teamcity[x] ::error::u";

fn assert_plain(what: &str, ended: &Ended) {
    for output in [&ended.stdout, &ended.stderr] {
        let odd = output.find(|c: char| c != '\n' && !is_plain(c));
        assert!(odd.is_none(), "{what}: {output:?}");
        let lower = output.to_ascii_lowercase();
        for command in ["##[", "##vso[", "##teamcity[", "::stop-commands", "::error"] {
            assert!(!lower.contains(command), "{what}: {command} in {output}");
        }
    }
}

/// A saved report in which a stranger has written into many fields.
fn saved(folder: &Path, name: &str) -> String {
    let path = folder.join(name).to_str().expect("text").to_owned();
    let load = ["-n", "300", "-c", "2", "--simulate", "1", "--json", "http://virtual/"];
    let ended = prony(&load);
    let mut report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    for field in ["driver", "host", "version", "label"] {
        report["run"][field] = HOSTILE.into();
    }
    report["run"]["notes"] = json!([HOSTILE, HOSTILE]);
    report["run"]["command"] = json!(["prony", HOSTILE]);
    for field in ["method", "path", "authority"] {
        report["plan"]["requests"][0][field] = HOSTILE.into();
    }
    report["plan"]["names"] = json!([HOSTILE]);
    fs::write(&path, report.to_string()).expect("a file");
    path
}

#[test]
fn saved_reports() {
    let folder = TempDir::new().expect("a folder");
    let (a, b) = (saved(folder.path(), "a.json"), saved(folder.path(), "b.json"));
    let shown = prony(&["report", &a]);
    assert!(shown.stdout.contains("# #[error]z"), "{shown:?}");
    for args in [
        &["report", &a][..],
        &["report", &a, "--show-secrets"],
        &["report", &a, "--json"],
        &["report", &a, "--format", "markdown"],
        &["report", &a, "--format", "junit"],
        &["report", &a, "--format", "html"],
        &["report", &a, &b],
        &["report", "--trend", &a, &b],
        &["report", "--trend", "--json", &a, &b],
        &["merge", &a, &b],
        &["merge", "--partial", &a, &b],
        &["compare", &a, &b],
        &["compare", &a, &b, "--json"],
    ] {
        let ended = prony(args);
        assert!(!(ended.stdout.clone() + &ended.stderr).is_empty(), "{args:?}");
        assert_plain(&format!("{args:?}"), &ended);
    }
}

#[test]
fn plan_files_and_collections() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let quoted = |text: &str| -> String {
        let each = text.chars().map(|c| format!("\\U{:08X}", u32::from(c)));
        format!("\"{}\"", each.collect::<String>())
    };
    let load = "url = 'http://virtual/'\nrequests = 9\nconnections = 1\n";
    let name = quoted("n\u{202e}##[error]m ::error::o");
    let named = file("named.toml", &format!("{load}request = [{{ path = '/', name = {name} }}]\n"));
    let key = file("key.toml", &format!("{load}{} = 1\n", quoted(HOSTILE)));
    let word = file("word.toml", &format!("{load}http = {}\n", quoted(HOSTILE)));
    for (plan, code) in [(&named, 0), (&key, 2), (&word, 2)] {
        for args in [
            &["check", plan][..],
            &["run", plan, "--explain"],
            &["run", plan, "--simulate", "1", "--accept-invalid"],
        ] {
            let ended = prony(args);
            assert_eq!(ended.code, code, "{args:?}: {ended:?}");
            assert_plain(&format!("{args:?}"), &ended);
        }
    }
    let item = json!({
        "name": HOSTILE,
        "request": {"method": "GET", "url": "{{b}}/c", "auth": {"type": HOSTILE},
            "body": {"mode": HOSTILE}},
        "event": [{"listen": "test", "script": {"exec": [HOSTILE]}}],
    });
    let folder_of_them = json!({"name": HOSTILE, "item": [item]});
    let variable = json!({"key": "b", "value": "http://virtual"});
    let collection = json!({"info": {"name": HOSTILE}, "item": [folder_of_them], "variable":
        [variable, {"key": HOSTILE, "value": HOSTILE}]});
    let postman = file("postman.json", &collection.to_string());
    let operation = json!({"operationId": HOSTILE, "tags": [HOSTILE], "summary": HOSTILE,
        "security": [{HOSTILE: []}], "responses": {}});
    let description = json!({"openapi": "3.0.0", "info": {"title": HOSTILE, "version": HOSTILE},
        "servers": [{"url": "http://virtual"}], "paths": {"/a": {"get": operation}}});
    let openapi = file("openapi.json", &description.to_string());
    for (format, input) in [("postman", &postman), ("openapi", &openapi)] {
        let plan = folder.path().join(format!("{format}.toml"));
        let plan = plan.to_str().expect("text");
        assert_plain(format, &prony(&["import", format, input]));
        let ended = prony(&["import", format, input, "-o", plan]);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_plain(format, &ended);
        for args in [
            &["check", plan][..],
            &["run", plan, "--explain"],
            &["run", plan, "--simulate", "1", "--accept-invalid"],
        ] {
            assert_plain(&format!("{args:?}"), &prony(args));
        }
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A server of HTTP/2 that answers every connection with these frames.
fn serve(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let answer = answer.clone();
            thread::spawn(move || {
                // The preface and the first request.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&answer);
                while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
            });
        }
    });
    url
}

#[test]
fn texts_of_a_goaway() {
    // Enough blanks that a wrapped line starts with the command.
    for text in [HOSTILE.to_owned(), format!("{}::stop-commands::x ##[error]", " ".repeat(30))] {
        let goaway = [&[0, 0, 0, 0, 0, 0, 0, 11], text.as_bytes()].concat();
        let url = serve([frame(4, 0, 0, &[]), frame(7, 0, 0, &goaway)].concat());
        let ended = prony(&["--h2c", "-v", "-n", "3", "-c", "1", "--timeout", "2s", &url]);
        assert!(ended.stdout.contains("stop-commands"), "{ended:?}");
        assert_plain("a GOAWAY", &ended);
        let json = prony(&["--h2c", "-n", "3", "-c", "1", "--timeout", "2s", "--json", &url]);
        assert_plain("a GOAWAY as JSON", &json);
    }
}
