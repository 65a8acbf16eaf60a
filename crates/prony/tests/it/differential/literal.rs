//! Bytes that look like fields of a template arrive as they are, whatever the plan is made of.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::logger::Logger;
use crate::imports::import;
use crate::record::Recorder;
use crate::rig::prony;

const SIZE: usize = 100_000;

/// Bytes of which many are a part of a field: quotes, braces, names, and what is no text.
fn body(seed: u64) -> Vec<u8> {
    const PARTS: [&[u8]; 8] =
        [b"{{", b"}}", b"\xff", b"session", b"\"{{\"", b"{", b"password=hunter22&", b"\r\n--"];
    let mut state = seed;
    let mut out = b"\xff{{\xff".to_vec();
    while out.len() < SIZE {
        // A generator of Marsaglia's: what it draws must only be the same in each run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state >> 60 {
            n @ 0..8 => out.extend_from_slice(PARTS[n as usize]),
            _ => out.extend_from_slice(&state.to_le_bytes()),
        }
    }
    out.truncate(SIZE);
    out
}

/// Runs the plan, and returns the bodies that have arrived.
fn bodies(server: &Logger, plan: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(plan).expect("a plan");
    fs::write(plan, text.replace("\"FILL-IN\"", "\"filled\"")).expect("a plan");
    server.take();
    let ended = prony(&["run", plan]);
    // On a busy machine the run may not be valid (98).
    assert!([0, 98].contains(&ended.code), "{ended:?}");
    server.take().into_iter().map(|request| request.body).collect()
}

/// An input of each format that sends these files, and the bodies that it sends.
fn inputs(at: &str, files: &[Vec<u8>]) -> [(&'static str, String, Vec<Vec<u8>>); 6] {
    let each =
        |text: &dyn Fn(usize) -> String| (0..files.len()).map(text).collect::<Vec<_>>().join("");
    let all = files.to_vec();
    let base64 = |n: usize| BASE64.encode(&files[n]);
    // A secret makes the request a template.
    let curl = each(&|n| format!("curl -H 'X-Key: k{n}' http://{at}/ --data-binary @body{n}\n"));
    let curl = curl + &each(&|n| format!("curl http://{at}/ -T body{n}\n"));
    let http = each(&|n| format!("### {n}\nPOST http://{at}/\nX-Key: k{n}\n\n< body{n}\n\n"));
    let vegeta = each(&|n| format!("POST http://{at}/\n@body{n}\n\n"));
    let json = each(&|n| {
        format!(
            "{{\"method\": \"POST\", \"url\": \"http://{at}/\", \"body\": \"{}\"}}\n",
            base64(n)
        )
    });
    let urls = each(&|n| format!("http://{at}/ POST <body{n}\n"));
    let mut entries = Vec::new();
    for n in 0..files.len() {
        entries.push(format!(
            r#"{{"startedDateTime": "2026-11-24T10:00:00.{n}00Z", "time": 1, "response": {{"status": 200}},
            "request": {{"method": "POST", "url": "http://{at}/?token=t{n}", "headers": [], "postData":
            {{"mimeType": "application/octet-stream", "encoding": "base64", "text": "{}"}}}}}}"#,
            base64(n)
        ));
    }
    let har = format!(r#"{{"log": {{"version": "1.2", "entries": [{}]}}}}"#, entries.join(","));
    [
        ("curl", curl, [all.clone(), all.clone()].concat()),
        ("http", http, all.clone()),
        ("vegeta", vegeta, all.clone()),
        ("vegeta", json, all.clone()),
        ("urls", urls, all.clone()),
        ("har", har, all),
    ]
}

#[test]
fn bodies_of_bytes_are_imported_as_they_are() {
    let server = Logger::plain();
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<Vec<u8>> = (1..=8).map(body).collect();
    for (n, bytes) in files.iter().enumerate() {
        assert!(bytes.windows(2).any(|pair| pair == b"{{"));
        fs::write(folder.path().join(format!("body{n}")), bytes).expect("a file");
    }
    for (format, text, wanted) in inputs(&server.address(), &files) {
        let (_, plan) = import(folder.path(), format, &text, &[]);
        let found = bodies(&server, &plan);
        assert_eq!(found.len(), wanted.len(), "{format}");
        assert!(found == wanted, "{format}: bodies differ");
    }
}

#[test]
fn bodies_of_bytes_are_recorded_as_they_are() {
    let server = Logger::plain();
    let mut recorder = Recorder::start(&format!("http://{}", server.address()), &[]);
    let wanted: Vec<Vec<u8>> = (11..=18).map(body).collect();
    let mut stream = TcpStream::connect(("127.0.0.1", recorder.port())).expect("a connection");
    for bytes in &wanted {
        let mut head = String::from("POST /?token=t HTTP/1.1\r\nHost: h\r\nX-Key: k\r\n");
        let _ = write!(head, "Content-Length: {}\r\n\r\n", bytes.len());
        stream.write_all(&[head.as_bytes(), bytes].concat()).expect("a request");
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let mut got = vec![0; reply.len()];
        stream.read_exact(&mut got).expect("a reply");
        assert_eq!(got, reply.as_bytes());
    }
    drop(stream);
    let ended = recorder.stop();
    assert_eq!(ended.code, 0, "{ended:?}");
    let plan = recorder.file("plan.toml");
    let found = bodies(&server, plan.to_str().expect("UTF-8"));
    assert_eq!(found.len(), wanted.len());
    assert!(found == wanted, "bodies differ");
}
