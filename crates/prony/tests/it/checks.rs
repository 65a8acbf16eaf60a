//! Checks of replies, groups of steps and compressed bodies, against a server of Node.js.

use std::fs;

use serde_json::Value;

use crate::rig::{Other, drivers, have, measure, prony};
use crate::scripted::{Deed, Scripted};

fn server() -> Option<Other> {
    have("node").then(|| Other::start("node", &[], include_str!("checks/items.js")))
}

fn passed(rows: &Value) -> Vec<(String, u64, u64)> {
    let rows = rows.as_array().expect("checks").iter();
    let count = |row: &Value, name: &str| row[name].as_u64().expect("a count");
    let row = rows.map(|row| {
        assert_eq!(count(row, "unreadable"), 0, "{row}");
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, count(row, "passed"), count(row, "failed"))
    });
    row.collect()
}

/// The plan: four requests, each 25 times; one of four has an unexpected status.
fn plan(server: &Other, more: &str) -> String {
    format!(
        "url = '{}'\nconnections = 3\nrequests = 100\n{more}\n\
         checks = ['status = 200', 'header content-type = application/json', \
         \"found: json /items/0/name matches '^item [0-9]+$'\", 'time < 1m', 'json /none']\n\
         request = ['/items/1', '/items/2', {{ path = '/items/3', checks = ['json /items/0/id = 3', \
         'body contains none'] }}, '/items/4']\n",
        server.url("")
    )
}

/// Checks count what the server is known to reply, whether or not bodies are compressed, and apart
/// from failures.
#[test]
fn checks_count_the_replies_of_a_server() {
    let Some(server) = server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let path = file.to_str().expect("text");
    for driver in drivers() {
        for coding in ["", "gzip", "deflate", "br"] {
            let more = match coding {
                "" => String::new(),
                coding => format!("headers = {{ Accept-Encoding = '{coding}' }}"),
            };
            fs::write(&file, plan(&server, &more)).expect("a file");
            let report = measure(&["run", path, "--driver", driver, "-t", "1"]);
            assert_eq!((report.count("replies"), report.count("failed")), (75, 25), "{coding}");
            let expected = [
                ("status = 200", 75, 25),
                ("header content-type = application/json", 100, 0),
                ("found", 100, 0),
                ("time < 1m", 100, 0),
                ("json /none", 0, 100),
                ("json /items/0/id = 3", 25, 0),
                ("body contains none", 0, 25),
            ];
            let expected = expected.map(|(name, n, m)| (name.to_owned(), n, m));
            assert_eq!(passed(&report.0["measurement"]["checks"]), expected, "{driver}, {coding}");
        }
    }
}

/// The text of `--expect-body` is found in compressed bodies, and missed where it is not.
#[test]
fn expected_texts_are_found_in_compressed_bodies() {
    let Some(server) = server() else { return };
    for coding in ["gzip", "br", "identity"] {
        let header = format!("Accept-Encoding: {coding}");
        let load = ["-n", "20", "-c", "2", "-H", &header, "--expect-body"];
        let url = server.url("/items/7");
        let found = measure(&[&load[..], &["item 7", &url]].concat());
        assert_eq!((found.count("replies"), found.count("failed")), (20, 0), "{coding}");
        let ended = prony(&[&load[..], &["item 8", "--json", "--accept-invalid", &url]].concat());
        // All requests have failed.
        assert_eq!(ended.code, 1, "{ended:?}");
        let missed = ended.report();
        assert_eq!((missed.count("replies"), missed.errors("body-mismatch")), (0, 20), "{coding}");
    }
}

/// Values are extracted from compressed bodies.
#[test]
fn values_are_extracted_from_compressed_bodies() {
    let Some(server) = server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text = format!(
        "url = '{}'\nusers = 2\nsessions = 10\nheaders = {{ Accept-Encoding = 'br' }}\n\
         [[session]]\nrequest = [{{ path = '/items/5', extract = {{ id = {{ json = '/items/0/id' }} }} }}, \
         {{ path = '/items/{{{{id}}}}', checks = ['json /items/0/id = 5'] }}]\n",
        server.url("")
    );
    fs::write(&file, text).expect("a file");
    let report = measure(&["run", file.to_str().expect("text")]);
    assert_eq!((report.count("replies"), report.count("failed")), (20, 0));
    let checks = passed(&report.0["measurement"]["checks"]);
    assert_eq!(checks, [("json /items/0/id = 5".to_owned(), 10, 0)]);
}

/// The options, the text of the report, thresholds and their exit codes, and the merged shards.
#[test]
fn checks_of_options_decide_thresholds_and_merge() {
    let Some(server) = server() else { return };
    let url = [server.url("/items/3"), server.url("/items/4")];
    let load = ["-n", "100", "-c", "2", "--expect", "2xx,404", "--accept-invalid"];
    let checks = ["--check", "found: status = 200", "--check", "json /items/0/id in 3..4"];
    let base = [&load[..], &checks[..], &["--threshold"]].concat();
    let urls = [url[0].as_str(), url[1].as_str()];
    let missed = prony(&[&base[..], &["check.found > 90%", "-v"], &urls[..]].concat());
    assert_eq!(missed.code, 99, "{missed:?}");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&missed.stdout).contains("found 50 50 50.0 %"), "{}", missed.stdout);
    assert!(
        words(&missed.stdout).contains("json /items/0/id in 3..4 100 0 100 %"),
        "{}",
        missed.stdout
    );
    let met = prony(&[&base[..], &["check.found > 10%"], &urls[..]].concat());
    assert_eq!(met.code, 0, "{met:?}");
    let unknown = prony(&[&base[..], &["check.fund > 10%"], &urls[..]].concat());
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("no check has the name 'fund'; there are 'found'"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let parts = [file("1.json"), file("2.json")];
    for (i, part) in parts.iter().enumerate() {
        let shard = format!("{}/2", i + 1);
        let more = ["check.found > 10%", "--shard", &shard, "--seed", "3", "--quiet", "-o", part];
        let ended = prony(&[&base[..], &more[..], &urls[..]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let merged = prony(&["merge", "--json", "--accept-invalid", &parts[0], &parts[1]]);
    assert_eq!(merged.code, 0, "{merged:?}");
    let report = merged.report();
    let rows = passed(&report.0["measurement"]["checks"]);
    assert_eq!(rows[0], ("found".to_owned(), 50, 50));
    assert_eq!(report.0["thresholds"][0]["value"], 0.5);
}

/// Groups of a session: their counts, and times of at least their pause.
#[test]
fn groups_are_reported_with_their_times() {
    let Some(server) = server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text = format!(
        "url = '{}'\nusers = 2\nsessions = 20\non-failure = 'continue'\n\
         thresholds = ['group.buy.p50 >= 30ms', 'group.buy.failed = 0', 'group.lost.failed = 20']\n\
         [[session]]\nrequest = ['/items/1', {{ group = 'buy', request = [\
         {{ path = '/items/2', think = '30ms' }}, ['/items/3', '/items/5']] }}, \
         {{ group = 'lost', request = ['/items/4'] }}]\n",
        server.url("")
    );
    fs::write(&file, text).expect("a file");
    let path = file.to_str().expect("text");
    let ended =
        prony(&["run", path, "--json", "--quiet", "--accept-invalid", "--undecided", "pass"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    let groups = report.0["measurement"]["groups"].as_array().expect("groups").clone();
    let [buy, lost] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!(
        (&buy["name"], &buy["started"], &buy["completed"]),
        (&"buy".into(), &20.into(), &20.into())
    );
    let least = buy["duration"]["min_ns"].as_u64().expect("a time");
    assert!(least >= 30_000_000, "{buy}");
    let without = buy["without_pauses"]["max_ns"].as_u64().expect("a time");
    let longest = buy["duration"]["max_ns"].as_u64().expect("a time");
    assert!(without + 30_000_000 <= longest + longest / 500, "{buy}");
    assert_eq!((&lost["failed"], &lost["duration"]["count"]), (&20.into(), &0.into()));
    let shown = prony(&["run", path, "-v", "--accept-invalid", "--undecided", "pass"]);
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("buy 20 0 "), "{}", shown.stdout);
    assert!(words.contains("lost 0 20 - - - - -"), "{}", shown.stdout);
}

/// `{"items":[{"id":7,"name":"item 7"}],"more":"000...7"}`, 336 bytes, as zstd 1.5 encodes it.
const ZSTD: &str = "28b52ffd0468950100b2c20911c06b0ce79c6db6cab6fd8e31ab33af0a076d0ce79ad07ea38d20d725e7c3bc9899c8d5ea32b3020027aeaaad30f1e5fb7753";

/// The bytes of pairs of hexadecimal digits.
fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// A server whose replies have this coding and these bytes.
fn encoded(coding: &'static str, body: Vec<u8>) -> Scripted {
    Scripted::start(move |_, _| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        Deed::Send(vec![[head.as_bytes(), &body].concat()])
    })
}

/// Checks look into bodies that the reference encoder of zstd has compressed, on each driver.
#[test]
fn checks_look_into_bodies_of_zstd() {
    let server = encoded("zstd", bytes(ZSTD));
    let url = format!("http://{}/items/7", server.address());
    for driver in drivers() {
        let load = ["-n", "10", "-c", "2", "--driver", driver, "-H", "Accept-Encoding: zstd"];
        let checks = ["--check", "json /items/0/name = 'item 7'", "--check", "body contains none"];
        let report =
            measure(&[&load[..], &checks[..], &["--expect-body", "item 7", &url]].concat());
        assert_eq!((report.count("replies"), report.count("failed")), (10, 0), "{driver}");
        let rows = passed(&report.0["measurement"]["checks"]);
        let counts: Vec<(u64, u64)> = rows.iter().map(|(_, n, m)| (*n, *m)).collect();
        assert_eq!(counts, [(10, 0), (0, 10)], "{driver}");
    }
}

/// Only a check that looks into a body has it decoded: without one, nobody notices the damage.
#[test]
fn bodies_that_nobody_looks_into_stay_encoded() {
    for coding in ["gzip", "br", "zstd"] {
        let server = encoded(coding, b"this is in no such coding".to_vec());
        let url = format!("http://{}/", server.address());
        let load = ["-n", "10", "-c", "2", "--accept-invalid", "--json", "--quiet"];
        let check = |check: &str| {
            let ended = prony(&[&load[..], &["--check", check, &url]].concat());
            assert_eq!(ended.code, 0, "{ended:?}");
            let row = ended.report().0["measurement"]["checks"][0].clone();
            ["passed", "failed", "unreadable"].map(|name| row[name].as_u64().expect("a count"))
        };
        // Status, headers and the length of what arrived need no body.
        for cheap in ["status = 200", "header content-type = application/json", "length = 25"] {
            assert_eq!(check(cheap), [10, 0, 0], "{coding}: {cheap}");
        }
        for deep in ["json /items", "body contains such"] {
            assert_eq!(check(deep), [0, 10, 10], "{coding}: {deep}");
        }
    }
}
