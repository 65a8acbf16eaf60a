//! Bodies that are sent from files too long for memory, to servers that hash what they get.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::rig::{Other, Report, Serve, alone, command, drivers, have, measure, prony};
use crate::tls::{Certificates, url};

/// A sparse file of this length, with bytes here and there, and at its end.
fn sparse(folder: &Path, length: u64) -> PathBuf {
    let path = folder.join(format!("{length}.bin"));
    let file = File::create(&path).expect("a file");
    file.set_len(length).expect("a length");
    for i in 0..64 {
        let at = (length - 8) * i / 63;
        file.write_all_at(&(at ^ 0x5bd1_e995_a5a5_0001).to_le_bytes(), at).expect("bytes");
    }
    path
}

/// The SHA-256 of a file, by another program.
fn digest(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().expect("sha256sum");
    let text = String::from_utf8(out.stdout).expect("text");
    text.split(' ').next().expect("a sum").to_owned()
}

const SERVER: &str = "
const fs = require('fs'), hash = require('crypto').createHash;
const take = (request, response) => {
    const sum = hash('sha256');
    let length = 0;
    request.on('data', piece => { length += piece.length; sum.update(piece); });
    request.on('end', () => {
        const line = [request.httpVersion, length, request.headers['content-length'] ?? 'chunked',
            sum.digest('hex')].join(' ');
        fs.appendFileSync('@DIR@/sums', line + '\\n');
        response.end('ok');
    });
};
";

fn plain() -> Other {
    let more = "require('http').createServer(take).listen(@PORT@, '127.0.0.1');";
    Other::start("node", &[], &format!("{SERVER}{more}"))
}

fn secure(certificates: &Certificates) -> Other {
    let more = "
const keys = {cert: fs.readFileSync('@CERT@'), key: fs.readFileSync('@KEY@'), allowHTTP1: true};
require('http2').createSecureServer(keys, take).listen(@PORT@, '127.0.0.1');
";
    let of = |name| certificates.path(name);
    let script = format!("{SERVER}{more}");
    let script = script.replace("@CERT@", &of("server.pem"));
    Other::start("node", &[], &script.replace("@KEY@", &of("server.key")))
}

/// What the server got since the last call: version, length, stated length and hash.
fn sums(server: &Other) -> Vec<String> {
    let path = server.file("sums");
    let lines = fs::read_to_string(&path).unwrap_or_default();
    let _ = fs::remove_file(path);
    lines.lines().map(str::to_owned).collect()
}

/// A load whose peak of memory is measured, in kB.
fn measured(args: &[&str]) -> (Report, u64) {
    let mut child = command(&[args, &["--json", "--quiet", "--accept-invalid"]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = peak.and_then(|peak| peak.trim().split(' ').next()?.parse().ok());
        most = most.max(kb.unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{args:?}");
    (Report(serde_json::from_slice(&output.stdout).expect("JSON")), most)
}

/// A body of 300 MiB from a file, on several connections that are used again: memory stays small.
#[test]
fn memory_does_not_depend_on_the_length_of_a_body() {
    if !have("node") {
        return;
    }
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let path = sparse(folder.path(), (300 << 20) + 12_345);
    let server = plain();
    let body = format!("@{}", path.display());
    let args = [&server.url("/")[..], "-b", &body, "-n", "4", "-c", "2", "--timeout", "100s"];
    let (report, peak) = measured(&[&args[..], &["-t", "1"]].concat());
    assert_eq!((report.count("replies"), report.count("connects")), (4, 2));
    let length = (300_u64 << 20) + 12_345;
    let line = format!("1.1 {length} {length} {}", digest(&path));
    assert_eq!(sums(&server), [&line[..]; 4]);
    assert!(peak > 1_000 && peak < 60_000, "{peak} kB");
}

/// Both drivers, HTTP/1.1 with and without TLS, HTTP/2, and a body as a chunk.
#[test]
fn servers_get_the_bytes_of_the_file() {
    if !have("node") {
        return;
    }
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let path = sparse(folder.path(), (65 << 20) + 1);
    let (length, sum) = ((65_u64 << 20) + 1, digest(&path));
    let certificates = Certificates::new();
    let (plain, secure) = (plain(), secure(&certificates));
    let (ca, body) = (certificates.path("ca.pem"), format!("@{}", path.display()));
    let chunked = ["-H", "Transfer-Encoding: chunked"];
    let (h1, h2) = (plain.url("/"), url(&secure, "/"));
    for driver in drivers() {
        let common = ["-b", &body, "-n", "3", "-t", "1", "--timeout", "100s", "--driver", driver];
        let run = |server: &Other, more: &[&str], expected: String| {
            let (report, peak) = measured(&[more, &common].concat());
            assert_eq!(report.count("replies"), 3, "{driver} {more:?}");
            assert_eq!(sums(server), [&expected[..]; 3], "{driver} {more:?}");
            assert!(peak < 60_000, "{driver} {more:?}: {peak} kB");
        };
        let whole = format!("{length} {length} {sum}");
        run(&plain, &[&h1, "-c", "1", "--no-reuse"], format!("1.1 {whole}"));
        let as_chunk = format!("1.1 {length} chunked {sum}");
        run(&plain, &[&[&h1[..], "-c", "2"], &chunked[..]].concat(), as_chunk);
        run(&secure, &[&h2, "--cacert", &ca, "-c", "1"], format!("1.1 {whole}"));
        let streams = [&h2[..], "--cacert", &ca, "--http2", "-c", "1", "--streams", "2"];
        run(&secure, &streams, format!("2.0 {whole}"));
    }
}

/// A server that refuses a body before it has read it: each request gets its status, and a plan
/// that is explained sends the same.
#[test]
fn early_replies_are_counted() {
    let folder = TempDir::new().expect("a folder");
    let path = sparse(folder.path(), (64 << 20) + 1);
    let file = folder.path().join("plan.toml");
    let server = Serve::start(&[]);
    let body = format!("@{}", path.display());
    for driver in drivers() {
        for version in ["--http=1.1", "--h2c"] {
            let args = [&server.url("/")[..], "-b", &body, "-n", "20", "-c", "2", version];
            let args = [&args[..], &["--driver", driver, "--expect", "413"]].concat();
            let report = measure(&args);
            assert_eq!((report.count("replies"), report.count("failed")), (20, 0), "{version}");
            let explained = prony(&[&args[..], &["--explain"]].concat());
            let named = format!("body = {{ file = \"{}\" }}", path.display());
            assert!(explained.stdout.contains(&named), "{explained:?}");
            fs::write(&file, &explained.stdout).expect("a file");
            let report = measure(&["run", file.to_str().expect("UTF-8")]);
            assert_eq!(report.count("replies"), 20, "{version}");
        }
    }
    // The simulated server has the same limit.
    let simulated = ["http://x/", "-b", &body, "-n", "5", "--simulate", "1", "--expect", "413"];
    assert_eq!(measure(&simulated).count("replies"), 5);
}

/// A file that becomes shorter while it is sent: its request fails with an error of its own, and
/// the server gets no other bytes.
#[test]
fn a_file_that_shrinks_fails_its_request() {
    let folder = TempDir::new().expect("a folder");
    for driver in drivers() {
        let path = sparse(folder.path(), 70 << 20);
        let original = fs::read(&path).expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (half, shrunk) = (mpsc::channel(), mpsc::channel());
        let reader = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut got = vec![0; 1 << 20];
            stream.read_exact(&mut got).expect("bytes");
            half.0.send(()).expect("a listener");
            shrunk.1.recv().expect("it shrinks");
            let mut rest = Vec::new();
            // The connection is reset.
            let _ = stream.read_to_end(&mut rest);
            got.extend(rest);
            got
        });
        let shortens = {
            let path = path.clone();
            thread::spawn(move || {
                half.1.recv().expect("a half");
                let file = OpenOptions::new().write(true).open(path).expect("the file");
                file.set_len(30 << 20).expect("a length");
                shrunk.0.send(()).expect("a reader");
            })
        };
        let (url, body) = (format!("http://127.0.0.1:{port}/"), format!("@{}", path.display()));
        let args = [&url[..], "-b", &body, "-n", "1", "-c", "1", "--json", "--driver", driver];
        let ended = prony(&args);
        assert_eq!(ended.code, 98, "the meter is the cause: {ended:?}");
        let report = ended.report();
        shortens.join().expect("no panic");
        let got = reader.join().expect("no panic");
        assert_eq!((report.count("failed"), report.count("replies")), (1, 0), "{driver}");
        assert_eq!(report.errors("body-file"), 1, "{driver}");
        let head = got.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(got.len() - head <= 30 << 20 && original.starts_with(&got[head..]), "{driver}");
    }
}

/// What has to look into a body says so before the load.
#[test]
fn what_looks_into_a_body_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let path = sparse(folder.path(), (64 << 20) + 1);
    let (name, url) = (path.display().to_string(), "http://127.0.0.1:1/");
    let body = format!("@{name}");
    let refused = |args: &[&str], why: &str| {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    };
    refused(&[url, "-b", &body, "--hosts", "2"], "give each host its share with --shard");
    let key = ["--user", "key:secret", "--aws-sigv4", "aws:amz:us-east-1:s3"];
    refused(&[&[url, "-b", &body], &key[..]].concat(), "it cannot be signed for AWS");
    refused(&[url, "-F", &format!("file={body}")], "longer than 64 MiB, the most that is read");
    let file = folder.path().join("plan.toml");
    for (more, why) in [
        ("compress = 'gzip'", "a body over 64 MiB is sent from its file, as it is"),
        ("headers = { X = '{{request.body | sha256}}' }", "no header can depend on it"),
    ] {
        let mut text = File::create(&file).expect("a file");
        writeln!(text, "request = [{{ url = '{url}', body = '{body}', {more} }}]").expect("text");
        refused(&["run", file.to_str().expect("UTF-8")], why);
    }
}
