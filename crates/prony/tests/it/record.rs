//! `prony record`: what the proxy passes on is what clients send, and the plan is what they did.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::documents::{ROOT, calls_of};
use crate::pictures::browser;
use crate::rig::{Ended, Other, Serve, command, have, kill, prony, reserved_port, waiting};
use crate::tls::Certificates;

/// A running recording, with a folder for its files.
pub(crate) struct Recorder {
    child: Child,
    stderr: BufReader<ChildStderr>,
    url: String,
    folder: TempDir,
}

impl Recorder {
    /// Records what is sent to this target, as `plan.toml` and `run.har`.
    pub(crate) fn start(target: &str, more: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let files = ["plan.toml", "run.har"].map(|name| folder.path().join(name));
        let files = files.map(|file| file.to_str().expect("UTF-8").to_owned());
        let words = ["record", "127.0.0.1:0", "--to", target, "-o", &files[0], "-o", &files[1]];
        let mut command = command(&[&words, more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::of(command, folder)
    }

    fn of(mut command: Command, folder: TempDir) -> Self {
        let mut child = command.spawn().expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        Self { url: url.to_owned(), child, stderr, folder }
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit_once(':').expect("a port").1.parse().expect("a number")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn plan(&self) -> String {
        fs::read_to_string(self.file("plan.toml")).expect("a plan")
    }

    /// Ends the recording as a user does.
    pub(crate) fn stop(&mut self) -> Ended {
        kill(&self.child, Signal::INT);
        self.end()
    }

    fn end(&mut self) -> Ended {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stderr.read_to_string(&mut stderr).expect("text");
        self.child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
        let code = self.child.wait().expect("a child").code().expect("an exit code");
        Ended { code, stdout, stderr }
    }

    /// Ends the recording, whose plan and archive must be equivalent.
    pub(crate) fn finish(&mut self) -> Ended {
        let ended = self.stop();
        assert_eq!(ended.code, 0, "{ended:?}");
        let har = self.file("run.har");
        let again = prony(&["import", "har", har.to_str().expect("UTF-8")]);
        assert_eq!(again.code, 0, "{again:?}");
        // Whom to trust is no part of an archive.
        let is_same = |line: &&str| {
            !(line.is_empty() || line.starts_with(['#', '[']) || line.starts_with("cacert"))
        };
        let body = |plan: &str| plan.lines().filter(is_same).collect::<Vec<_>>().join("\n");
        assert_eq!(body(&again.stdout), body(&self.plan()));
        // What is to be filled in is all that is left to do.
        let filled = self.file("filled.toml");
        fs::write(&filled, self.plan().replace("\"FILL-IN\"", "\"filled\"")).expect("a plan");
        let checked = prony(&["check", filled.to_str().expect("UTF-8")]);
        assert_eq!(checked.code, 0, "{checked:?}");
        ended
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A target that reads from each of its connections until the text `until`, sends `reply`, and so
/// on. It returns what it has read.
fn scripted(turns: Vec<(&'static str, Vec<u8>)>) -> (String, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut all = Vec::new();
        for (until, reply) in turns {
            let start = all.len();
            let mut byte = [0];
            while !all[start..].ends_with(until.as_bytes())
                && stream.read(&mut byte).unwrap_or(0) > 0
            {
                all.push(byte[0]);
            }
            stream.write_all(&reply).expect("sent");
        }
        drop(stream.shutdown(Shutdown::Write));
        drop(stream.read_to_end(&mut all));
        all
    });
    (url, thread)
}

#[test]
fn bytes_pass_unchanged_but_for_the_host() {
    let first =
        b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 200  odd words\r\nx-odd:   y \r\n\
        Content-Type: text/plain\r\ntransfer-encoding: Chunked\r\n\r\n\
        5;ext=1\r\nhello\r\n0\r\nT: u\r\n\r\n";
    let second = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    let third = b"HTTP/1.0 200 OK\r\n\r\nuntil the end \xff\x00";
    let turns =
        vec![("0\r\n\r\n", first.to_vec()), ("\r\n\r\n", second.to_vec()), ("xyz", third.to_vec())];
    let (url, target) = scripted(turns);
    let host = url.trim_start_matches("http://").to_owned();
    let mut recorder = Recorder::start(&url, &[]);
    let mut stream = recorder.connect();
    let requests = "POST /a?b=c HTTP/1.1\r\nhost:127.0.0.1\r\nX-oDD:\ty\r\n\
        Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n\
        HEAD /h HTTP/1.1\r\nHost: other\r\n\r\n\
        PUT /p HTTP/1.1\r\nContent-Length: 3\r\nHost: z\r\n\r\nxyz";
    // In small pieces, as a slow client sends them.
    for part in requests.as_bytes().chunks(7) {
        stream.write_all(part).expect("sent");
        thread::sleep(Duration::from_millis(1));
    }
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).expect("replies");
    assert_eq!(replies, [&first[..], second, third].concat());
    drop(stream);
    let received = String::from_utf8(target.join().expect("no panic")).expect("text");
    let wanted = requests
        .replace("host:127.0.0.1", &format!("host:{host}"))
        .replace("Host: other", &format!("Host: {host}"))
        .replace("Host: z", &format!("Host: {host}"));
    assert_eq!(received, wanted);
    let ended = recorder.finish();
    assert!(ended.stderr.contains("prony: recorded 3 requests on 1 connection\n"), "{ended:?}");
    let plan = recorder.plan();
    for part in ["path = \"/a?b=c\"", "body = \"hi\"", "method = \"HEAD\"", "body = \"xyz\""] {
        assert!(plan.contains(part), "{part}\n{plan}");
    }
}

#[test]
fn big_bodies_pass_in_both_directions() {
    let _waiting = waiting();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    const BYTES: usize = 40 << 20;
    let target = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let mut line = String::new();
        while reader.read_line(&mut line).expect("a head") > 2 {
            line.clear();
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nContent-Type: text/html\r\n\r\n"
        );
        // The client reads only after it has sent everything.
        let mut sum = 0_u64;
        let mut buffer = vec![0; 1 << 16];
        let mut left = BYTES;
        while left > 0 {
            let n = reader.read(&mut buffer).expect("a body");
            sum += buffer[..n].iter().map(|&b| u64::from(b)).sum::<u64>();
            left -= n;
        }
        stream.write_all(head.as_bytes()).expect("sent");
        let piece: Vec<u8> = (0..1 << 16).map(|i| i as u8).collect();
        (0..BYTES >> 16).for_each(|_| stream.write_all(&piece).expect("sent"));
        sum
    });
    let mut recorder = Recorder::start(&url, &[]);
    let mut stream = recorder.connect();
    write!(stream, "PUT /big HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\n\r\n")
        .expect("sent");
    let piece = vec![3; 1 << 16];
    (0..BYTES >> 16).for_each(|_| stream.write_all(&piece).expect("sent"));
    let mut got = vec![0; BYTES];
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).expect("a head") > 2 {
        line.clear();
    }
    reader.read_exact(&mut got).expect("a body");
    assert!(got.iter().enumerate().all(|(i, &b)| b == i as u8));
    assert_eq!(target.join().expect("no panic"), 3 * BYTES as u64);
    // It cannot be in the plan: there is nothing else to send.
    let ended = recorder.stop();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("its body is longer than what was recorded: entry 1"),
        "{ended:?}"
    );
    assert!(recorder.file("run.har").exists() && !recorder.file("plan.toml").exists());
}

#[test]
fn targets_that_fail_are_502_and_clients_that_leave_are_counted() {
    let port = reserved_port();
    let refuses = format!("http://127.0.0.1:{port}");
    let mut recorder = Recorder::start(&refuses, &[]);
    let mut stream = recorder.connect();
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(
        reply.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && reply.contains("cannot be reached"),
        "{reply}"
    );
    let ended = recorder.stop();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("1 x the target could not be reached"), "{ended:?}");

    // One whose target dies within the reply, one whose client leaves.
    let (url, target) =
        scripted(vec![("\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec())]);
    let mut recorder = Recorder::start(&url, &[]);
    let mut stream = recorder.connect();
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(reply.ends_with("\r\n\r\nabc"), "{reply}");
    drop(stream);
    target.join().expect("no panic");
    let ended = recorder.stop();
    assert!(
        ended.stderr.contains("1 x the target closed the connection within its reply"),
        "{ended:?}"
    );

    let slow = Serve::start(&["--latency", "fixed:500ms"]);
    let mut recorder = Recorder::start(&slow.url(""), &[]);
    let mut leaves = recorder.connect();
    leaves.write_all(b"GET /left HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    thread::sleep(Duration::from_millis(50));
    let linger = socket2::SockRef::from(&leaves).set_linger(Some(Duration::ZERO));
    linger.expect("a reset at the close");
    drop(leaves);
    // One that has only ended its own side gets its reply.
    let mut stays = recorder.connect();
    stays.write_all(b"GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    stays.shutdown(Shutdown::Write).expect("a half-close");
    let mut reply = String::new();
    stays.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    let ended = recorder.finish();
    assert!(ended.stderr.contains("1 x the client left before the end of the reply"), "{ended:?}");
    assert!(
        recorder.plan().contains("/b\"") && !recorder.plan().contains("/left"),
        "{}",
        recorder.plan()
    );
}

#[test]
fn nginx_gets_what_curl_sends() {
    if !have("nginx") || !have("curl") {
        return;
    }
    let http = "log_format seen escape=json '$request_method $request_uri $http_host';\n\
        access_log @DIR@/seen seen; gzip on; gzip_types text/plain; gzip_min_length 1;\n\
        server { listen 127.0.0.1:@PORT@; root @DIR@;\n\
        location /echo { add_header X-Request-Id $request_id; return 200 $request_id; } }\n";
    let server = Other::nginx(http);
    fs::write(server.file("page.txt"), "some text ".repeat(100)).expect("a file");
    let mut recorder = Recorder::start(&server.url(""), &["--by", "connection"]);
    let url = &recorder.url;
    let curl = |words: &[&str]| {
        let out = Command::new("curl").args(["-sS", "--noproxy", "*"]).args(words).output();
        let out = out.expect("curl starts");
        assert!(out.status.success(), "{words:?}: {out:?}");
        out.stdout
    };
    let page = format!("{url}/page.txt");
    assert_eq!(curl(&[&page]), curl(&["--compressed", &page]));
    assert!(curl(&["-I", &page]).iter().filter(|b| **b == b'\n').count() > 5);
    // Two requests on a connection.
    let (a, b) = (format!("{url}/echo?n=1"), format!("{url}/echo?n=2"));
    curl(&["-d", "x=1", &a, &b]);
    let ended = recorder.finish();
    assert!(ended.stderr.contains("recorded 5 requests on 4 connections"), "{ended:?}");
    assert!(ended.stderr.contains("in 4 sessions"), "{ended:?}");
    // The page is in the archive as a text, whether it was compressed or not.
    let har = fs::read_to_string(recorder.file("run.har")).expect("an archive");
    assert_eq!(har.matches("\"text\": \"some text some text").count(), 2, "{har}");
    assert_eq!(har.matches("\"value\": \"gzip\"").count(), 1, "{har}");
    let seen = fs::read_to_string(server.file("seen")).expect("a log");
    let host = server.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert_eq!(seen.lines().filter(|line| line.contains(&host)).count(), 5, "{seen}");
}

#[test]
fn tls_on_both_sides() {
    let certificates = Certificates::new();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let ca = certificates.path("ca.pem");
    let server = Serve::start(&["--tls", "--cert", &cert, "--key", &key, "--size", "300000"]);
    let target = server.url("").replace("127.0.0.1", "localhost");
    let target = target.trim_end_matches('/');
    let mut recorder =
        Recorder::start(target, &["--cacert", &ca, "--tls", "--cert", &cert, "--key", &key]);
    let url = recorder.url.replace("127.0.0.1", "localhost");
    let load =
        ["-n", "20", "-c", "4", "--cacert", &ca, "--expect-length", "300000", "--accept-invalid"];
    let ended = prony(&[&load[..], &["--json", "--quiet", &format!("{url}/a")]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = recorder.finish();
    assert!(ended.stderr.contains("recorded 20 requests on 4 connections"), "{ended:?}");
    assert!(recorder.plan().contains("cacert = "), "{}", recorder.plan());
    let plan = recorder.file("plan.toml");
    let again =
        prony(&["run", plan.to_str().expect("UTF-8"), "--json", "--quiet", "--accept-invalid"]);
    assert_eq!(again.code, 0, "{again:?}");
    // The client learns that the target is not trusted.
    let mut recorder = Recorder::start(target, &[]);
    let mut stream = recorder.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 502 ") && reply.contains("TLS handshake"), "{reply}");
    assert_eq!(recorder.stop().code, 1);
}

#[test]
fn websocket_passes_and_is_named() {
    let server = Serve::start(&["--ws", "echo"]);
    let mut recorder = Recorder::start(&server.url(""), &[]);
    let ws = recorder.url.replacen("http", "ws", 1) + "/chat";
    let load =
        ["-n", "3", "-c", "1", "--messages", "200/s", "--messages-count", "5", "-b", "hello"];
    let ended = prony(&[&load[..], &["--json", "--quiet", "--accept-invalid", &ws]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(prony(&["-n", "1", "--quiet", "--accept-invalid", &recorder.url]).code, 0);
    let ended = recorder.finish();
    assert!(
        ended.stderr.contains("3 x another protocol (WebSocket): passed on, not recorded"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("the plan has 1 request in 1 session"), "{ended:?}");
}

#[test]
fn bounds_end_a_recording() {
    let server = Serve::start(&[]);
    let mut recorder = Recorder::start(&server.url(""), &["-n", "5"]);
    let load = ["-n", "5", "-c", "1", "--quiet", "--accept-invalid", &recorder.url];
    assert_eq!(prony(&load).code, 0);
    let ended = recorder.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("recorded 5 requests on 1 connection"), "{ended:?}");
    let mut recorder = Recorder::start(&server.url(""), &["-d", "300ms"]);
    let ended = recorder.end();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("there is no request in it that can be sent"), "{ended:?}");
}

#[test]
fn what_cannot_be_recorded_is_refused_before_it_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let to = "http://127.0.0.1:1";
    for (words, why) in [
        (&["record"][..], "--to"),
        (&["record", "--to", "http://127.0.0.1:1/path"], "has a path"),
        (&["record", "--to", "http://u:p@127.0.0.1:1"], "has a user"),
        (&["record", "--to", "ftp://127.0.0.1"], "is not a URL"),
        (&["record", "--to", "http://no-such-host.invalid"], "its host has no address"),
        (
            &["record", "--to", to, "-o", "x.json"],
            "name a plan FILE.toml, or an HTTP archive FILE.har",
        ),
        (&["record", "--to", to, "-o", "/tmp/x.har", "-o", "/tmp/x.har"], "given twice"),
        (&["record", "--to", to, "-o", "/nonexistent/x.toml"], "cannot be written"),
        (&["record", "--to", to, "-k"], "--insecure needs an https:// URL"),
        (&["record", "--to", to, "--cert", "x"], "--cert needs --tls"),
        (&["record", "--to", to, "--by", "user"], "use cookie, connection or client"),
        (&["record", "x", "--to", to], "has no port"),
        (&["record", "unix:/tmp/x", "--to", to], "is no address of TCP"),
        (&["record", &taken, "--to", to], "cannot listen there"),
    ] {
        let ended = prony(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{words:?}: {ended:?}");
    }
}

/// The commands of docs/record.md, one after another, with other ports and a client in place of the
/// browser.
#[test]
fn the_commands_of_the_documentation_work() {
    let server = Serve::start(&[]);
    let page = Path::new(ROOT).join("docs/record.md");
    let calls: Vec<Vec<String>> = calls_of(&page).into_iter().map(|(_, call)| call).collect();
    let [record, check, run] = calls.as_slice() else { panic!("{calls:?}") };
    let here = |word: &String| match word.as_str() {
        "8000" => "127.0.0.1:0".to_owned(),
        word => word.replace("http://127.0.0.1:8080", server.url("").trim_end_matches('/')),
    };
    let folder = TempDir::new().expect("a folder");
    let words: Vec<String> = record.iter().map(here).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = command(&words);
    command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = Recorder::of(command, folder);
    let load = ["-n", "3", "-c", "1", "--quiet", "--accept-invalid", &recorder.url];
    assert_eq!(prony(&load).code, 0);
    assert_eq!(recorder.stop().code, 0);
    assert!(recorder.file("shop.har").exists());
    for call in [check, run] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        let out = command.args(call).current_dir(&recorder.folder).output().expect("it starts");
        assert!([Some(0), Some(98)].contains(&out.status.code()), "{call:?}: {out:?}");
    }
}

/// The site of `record_site.py`.
struct Site {
    child: Child,
    url: String,
}

impl Site {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/record_site.py");
        let child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("a Python");
        let mut name = String::new();
        let mut byte = [0];
        let stdout = child.stdout.as_mut().expect("a pipe");
        while byte[0] != b'\n' {
            stdout.read_exact(&mut byte).expect("the site starts");
            name.push(byte[0].into());
        }
        Self { child, url: format!("http://{}", name.trim()) }
    }

    /// What the site has counted.
    fn stop(mut self) -> Value {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        drop(self.child.wait());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
}

/// A Chromium logs in; then 100 users do the same, each with a session, tokens and IDs of its own.
/// The site refuses and counts everything that is not right.
#[test]
fn a_browsers_session_is_replayed_for_100_users() {
    let Some(browser) = browser() else { return };
    if !have("python3") {
        return;
    }
    let _waiting = waiting();
    let site = Site::start();
    let mut recorder = Recorder::start(&site.url, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/record_browser.py");
    let out = Command::new("python3")
        .arg(script)
        .arg(&browser)
        .arg(recorder.file("profile"))
        .arg(format!("{}/", recorder.url))
        .output()
        .expect("a Python");
    assert!(out.status.success(), "{out:?}");
    let ended = recorder.finish();
    assert!(ended.stderr.contains("in 1 session;"), "{ended:?}");
    assert!(ended.stderr.contains("fill in under [variables]: password"), "{ended:?}");
    // Nobody can read the password, nor the session.
    let files =
        recorder.plan() + &fs::read_to_string(recorder.file("run.har")).expect("an archive");
    // Each part has a character that no token of the site has by chance.
    for secret in ["l3t me", "l3t+me", "l3t%20me", "me+in", "me%2Bin"] {
        assert!(!files.contains(secret), "{secret}: {files}");
    }
    let plan = recorder.plan();
    assert!(plan.contains("users = 1\nsessions = 1\n"), "{plan}");
    let filled = plan
        .replace("users = 1\nsessions = 1\n", "users = 100\nsessions = 100\n")
        .replace("password = \"FILL-IN\"", "password = \"l3t+me%2Bin\"");
    let file = recorder.file("filled.toml");
    fs::write(&file, filled).expect("a plan");
    let file = file.to_str().expect("UTF-8");
    let ran = prony(&["run", file, "--json", "--quiet", "--accept-invalid"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    let seen = site.stop();
    assert_eq!(seen["sessions"], 101, "{seen} {plan}");
    assert_eq!((&seen["complete"], &seen["refused"]), (&Value::from(101), &Value::Null), "{seen}");
    let text = report.to_string();
    assert!(!text.contains("l3t+me"), "the report shows the password");
}

/// The same recording without values of replies is refused by the site: the test above can fail.
#[test]
fn recorded_values_alone_are_refused() {
    if !have("python3") || !have("curl") {
        return;
    }
    let site = Site::start();
    let mut recorder = Recorder::start(&site.url, &["--no-correlate", "--with-secrets"]);
    let jar = recorder.file("jar");
    let url = &recorder.url;
    let curl = |words: &[&str]| {
        let jar = jar.to_str().expect("UTF-8");
        let options = ["-sS", "--noproxy", "*", "-b", jar, "-c", jar];
        let out = Command::new("curl").args(options).args(words).output().expect("curl starts");
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).expect("text")
    };
    let page = curl(&[&format!("{url}/")]);
    let token = page.split("value=\"").nth(1).and_then(|t| t.split('"').next()).expect("a token");
    let form = [
        "-d",
        &format!("csrf_token={token}"),
        "-d",
        "user=ann",
        "--data-urlencode",
        "password=l3t me+in",
    ];
    curl(&[&form[..], &[&format!("{url}/login")]].concat());
    let ended = recorder.stop();
    assert!(ended.stderr.contains("recorded 2 requests on 2 connections"), "{ended:?}");
    assert!(ended.stderr.contains("the plan has 2 requests in 1 session"), "{ended:?}");
    let plan = recorder.file("plan.toml");
    let plan = plan.to_str().expect("UTF-8");
    assert_eq!(prony(&["run", plan, "--quiet", "--accept-invalid"]).code, 0);
    // With the archive, the same session gets its own token.
    let har = recorder.file("run.har");
    let har = har.to_str().expect("UTF-8");
    let again = recorder.file("again.toml");
    let again = again.to_str().expect("UTF-8");
    assert_eq!(prony(&["import", "har", har, "--with-secrets", "-o", again]).code, 0);
    assert_eq!(prony(&["run", again, "--quiet", "--accept-invalid"]).code, 0);
    let seen = site.stop();
    assert_eq!(seen["refused: token of the form"], 1, "{seen}");
    assert_eq!(seen["refused"], 1, "{seen}");
}
