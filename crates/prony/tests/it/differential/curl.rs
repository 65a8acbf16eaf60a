//! `prony import curl` beside bash and curl: what arrives at a server, byte for byte.
//!
//! Each case is a script. A difference is either equal under the rules, or named: the import says
//! that it is there, in words that docs/import.md explains. All others are silent, and there must
//! be none.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use prony_import::{Format, Options};

use super::curl_lines::{COLLECTED, generated};
use super::logger::Logger;
use super::request::{Request, Rules, compare, replace};
use crate::documents::ROOT;
use crate::installed::have;
use crate::rig::prony;

/// Both send headers of their own.
const RULES: Rules = Rules {
    ignored: &["expect", "connection"],
    defaults: &[
        ("user-agent", "curl/"),
        ("user-agent", "prony/"),
        ("accept", "*/*"),
        ("content-length", "0"),
    ],
};

/// How many lines are generated, without `SLOW=1` and with it.
const GENERATED: [u64; 2] = [160, 4_000];

/// What the import says about what is not the same. Each stands in docs/import.md.
const NAMED: [&str; 27] = [
    "curl refuses",
    "curl sends nothing",
    "curl does not send",
    "means nothing to curl",
    "is not curl",
    "is not run",
    "has no value in the file",
    "which runs only if another fails",
    "in the background",
    "a condition or loop",
    "is not used",
    "standard input is not in the file",
    "no UTF-8 text",
    "prony sends a header of its own",
    "is not that of the body",
    "redirects are not followed",
    "the version of HTTP is set in the plan",
    "kind of authentication is not imported",
    "files of cookies are not read",
    "several files in a part",
    "parts in parts",
    "would be encoded",
    "is not HTTP",
    "No such file",
    "of curl is not supported",
    "-T with options for other methods",
    "is not known",
];

/// What a case came to.
#[derive(Debug, PartialEq)]
enum Found {
    Equal,
    Named(String),
    Silent(String),
}

/// The files that the cases name.
fn files(folder: &Path) {
    let binary: Vec<u8> = (0..=255).chain(*b"{{\xff}}").collect();
    for (name, bytes) in [
        ("data.txt", &b"a=1\r\nb=2\n"[..]),
        ("bin.dat", &binary),
        ("page.html", b"<p>{{session}}</p>"),
        ("my file.txt", b"text & more\n"),
        ("empty", b""),
        ("body.json", b"{\"a\": [1, 2],\n \"b\": \"{{c}}\"}\n"),
        ("headers.txt", b"X-File: 1\r\n\r\nX-Other: a: b\n"),
        ("pic.png", b"\x89PNG\r\n"),
    ] {
        fs::write(folder.join(name), bytes).expect("a file");
    }
}

/// The requests of a script under bash.
fn theirs(script: &[u8], folder: &Path, server: &Logger) -> Vec<Request> {
    server.take();
    let ended = Command::new("timeout")
        .args(["30", "bash", "-c"])
        .arg(OsStr::from_bytes(script))
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    assert_ne!(ended.status.code(), Some(124), "it hangs: {}", script.escape_ascii());
    server.take()
}

/// The requests of the plan that the import makes of it, and what the import says.
fn ours(script: &[u8], folder: &Path, server: &Logger) -> (Vec<Request>, Vec<String>) {
    let options = Options { with_secrets: true, folder, ..Options::default() };
    let import = match prony_import::import(Format::Curl, "case", script, &options) {
        Ok(import) => import,
        Err(why) => return (Vec::new(), vec![why]),
    };
    let notes = import.notes().into_iter().map(|note| note.what.to_owned());
    let notes = notes.filter(|what| !what.starts_with("the content of the file")).collect();
    let plan = folder.join("plan.toml");
    fs::write(&plan, import.write("a case")).expect("a plan");
    server.take();
    let ended = prony(&["run", plan.to_str().expect("UTF-8"), "--accept-invalid"]);
    let mut got = server.take();
    if ended.code != 0 {
        // A plan that does not run is a silent difference.
        got.push(Request { method: ended.stderr, ..Request::default() });
    }
    (got, notes)
}

fn examine(script: &[u8], folder: &Path, server: &Logger) -> Found {
    let at = server.address();
    let script = replace(script, b"{U}", format!("http://{at}").as_bytes());
    let script = replace(&script, b"{A}", at.as_bytes());
    let expected = theirs(&script, folder, server);
    let (got, notes) = ours(&script, folder, server);
    let differences = compare(&expected, &got, &RULES);
    if differences.is_empty() {
        return Found::Equal;
    }
    let is_known = |note: &String| NAMED.iter().any(|phrase| note.contains(phrase));
    if !notes.is_empty() && notes.iter().all(is_known) {
        return Found::Named(notes.join("; "));
    }
    let mut text = format!("{}\n  notes: {notes:?}\n", script.escape_ascii());
    differences.iter().for_each(|line| _ = writeln!(text, "  {line}"));
    for request in expected.iter().chain(&got) {
        let _ = writeln!(text, "    {request}");
    }
    Found::Silent(text)
}

#[test]
fn what_curl_sends_is_imported_or_named() {
    if !have("curl") {
        return;
    }
    let count = GENERATED[usize::from(std::env::var_os("SLOW").is_some())];
    let mut cases: Vec<Vec<u8>> = COLLECTED.iter().map(|case| case.as_bytes().to_vec()).collect();
    cases.extend((1..=count).map(generated));
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let server = Logger::plain();
                let folder = tempfile::tempdir().expect("a folder");
                files(folder.path());
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = examine(case, folder.path(), &server);
                    found.lock().expect("no panic").push(one);
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    let silent: Vec<&String> = found
        .iter()
        .filter_map(|one| match one {
            Found::Silent(text) => Some(text),
            _ => None,
        })
        .collect();
    let named = found.iter().filter(|one| matches!(one, Found::Named(_))).count();
    let equal = found.iter().filter(|one| **one == Found::Equal).count();
    for one in &found {
        if let Found::Named(why) = one {
            println!("named: {why}");
        }
    }
    println!("{} scripts: {equal} equal, {named} named", found.len());
    let shown: Vec<&str> = silent.iter().take(200).map(|text| text.as_str()).collect();
    assert!(silent.is_empty(), "{} silent differences:\n{}", silent.len(), shown.join("\n"));
    assert!(equal > 2 * named, "{equal} equal, {named} named");
}

/// What is named is explained.
#[test]
fn named_differences_are_documented() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/import.md")).expect("a page");
    let page = page.replace("\\|", "|");
    for phrase in NAMED {
        assert!(page.contains(phrase), "docs/import.md does not explain: {phrase}");
    }
}
