//! `prony ab` compared with the real ab: the same bytes to the server, the same report from the
//! same server (line by line, times apart), the same files.

use std::fs;

use tempfile::TempDir;

use crate::beside::{nginx, real, shape};
use crate::rig::{Ended, alone, have, prony, reserved_port};
use crate::scripted::{Deed, Scripted, reply, send};
use crate::tls::{self, Certificates};

fn ours(words: &[&str]) -> Ended {
    prony(&[&["ab", "--no-extras"], words].concat())
}

/// The value in a line of the report.
fn value<'a>(report: &'a str, name: &str) -> &'a str {
    let line = report.lines().find_map(|l| l.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no line {name}: {report}")).trim()
}

/// The lines after the three of the banner, as far as they must be the same: figures that are times
/// masked. The warnings come and go with the times.
fn lines(report: &str) -> Vec<String> {
    let timed =
        ["Time ", "Requests per", "Transfer ", "    ", "Connect:", "Processing:", "Waiting:"];
    let timed = |l: &str| {
        let table =
            l.trim_start().starts_with(|c: char| c.is_ascii_digit()) || l.starts_with("Total: ");
        table || l.starts_with("<tr") || timed.iter().any(|t| l.starts_with(t))
    };
    let warning = |l: &&str| {
        let words = ["WARNING:", "ERROR:", "        These results", "       deviation apart"];
        !words.iter().any(|w| l.starts_with(w))
    };
    let report = report.lines().skip(4).filter(warning);
    report.map(|l| if timed(l) { shape(l) } else { l.to_owned() }).collect()
}

#[test]
fn sends_the_same_bytes_as_ab() {
    if !have("ab") {
        return;
    }
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let body = folder.path().join("body");
    fs::write(&body, "a=b&c=d\n").expect("written");
    let body = body.to_str().expect("a path in UTF-8");
    let server = Scripted::start(|_, _| reply(200, "ok"));
    let proxy = server.address();
    let cases: [&[&str]; 14] = [
        &[],
        &["-i"],
        &["-k"],
        &["-C", "a=b"],
        &["-A", "user:pass word"],
        &["-P", "user:pass"],
        &["-p", body],
        &["-p", body, "-T", "text/x", "-C", "a=b", "-A", "u:p", "-H", "X: 1", "-k"],
        &["-u", body],
        &["-m", "DELETE"],
        &["-p", body, "-m", "PATCH"],
        &["-H", "X-A: 1", "-H", "Accept: q", "-H", "Host: zz"],
        &["-H", "User-Agent: me"],
        &["-X", &proxy],
    ];
    for words in cases {
        let url = format!("http://{}/p?q=1", server.address());
        let mut sent = Vec::new();
        for program in [real as fn(&str, &[&str]) -> Ended, |_, words| ours(words)] {
            let before = server.requests().len();
            let ended = program("ab", &[words, &["-q", "-n", "2", &url]].concat());
            assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
            sent.push(server.requests()[before..].to_vec());
        }
        assert_eq!(sent[0], sent[1], "{words:?}");
        assert_eq!(sent[0].len(), 2, "{words:?}");
    }
}

#[test]
fn prints_the_same_report_as_ab() {
    if !have("ab") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let body = folder.path().join("body");
    fs::write(&body, "a=b").expect("written");
    let body = body.to_str().expect("a path in UTF-8");
    let server = nginx();
    let cases: [(&[&str], &str); 17] = [
        (&["-n", "1"], "/"),
        (&["-n", "100", "-c", "5"], "/"),
        (&["-n", "400", "-c", "4"], "/"),
        (&["-n", "400", "-c", "4", "-q"], "/"),
        (&["-n", "300", "-c", "3", "-k"], "/"),
        (&["-n", "20", "-i"], "/"),
        (&["-n", "20", "-c", "2"], "/no"),
        (&["-n", "20", "-l"], "/"),
        (&["-n", "20", "-S"], "/"),
        (&["-n", "20", "-d"], "/"),
        (&["-n", "20", "-p", body, "-T", "text/x"], "/named"),
        (&["-n", "20", "-u", body, "-C", "x=y"], "/named"),
        (&["-n", "20", "-b", "16384"], "/"),
        (&["-n", "20", "-w"], "/"),
        (&["-n", "200", "-x", "border=1"], "/no"),
        (&["-n", "20", "-q", "-k", "-y", "align=\"left\"", "-z", "class=x", "-l"], "/"),
        (&["-n", "20", "-w", "-S", "-d", "-p", body], "/named"),
    ];
    for (words, path) in cases {
        let url = server.url(path);
        let words = [words, &[&url]].concat();
        let (theirs, ours) = (real("ab", &words), ours(&words));
        assert_eq!((theirs.code, ours.code), (0, 0), "{words:?}: {ours:?}");
        assert_eq!(lines(&theirs.stdout), lines(&ours.stdout), "{words:?}");
        assert_eq!(theirs.stderr, ours.stderr, "{words:?}");
    }
}

#[test]
fn tables_show_failures() {
    if !have("ab") {
        return;
    }
    let _alone = alone();
    let server = Scripted::start(|n, _| reply(200, if n % 2 == 0 { "four" } else { "five!" }));
    let url = format!("http://{}/", server.address());
    let failed = |ended: &Ended| {
        let lines = ended.stdout.lines().skip_while(|l| !l.contains("Failed"));
        lines.take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let words = ["-n", "6", "-w", &url];
    let (theirs, ours) = (real("ab", &words), ours(&words));
    assert_eq!(failed(&theirs), failed(&ours), "{theirs:?} {ours:?}");
}

#[test]
fn reports_tls_servers_as_ab_does() {
    if !have("ab") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let certificates = Certificates::new();
    let server = tls::nginx(&certificates, "server", "ssl_protocols TLSv1.2 TLSv1.3;");
    let own = certificates.path("both.pem");
    let both = [certificates.path("client.pem"), certificates.path("client.key")];
    fs::write(&own, both.map(|path| fs::read_to_string(path).expect("a file")).concat())
        .expect("written");
    let at = tls::url(&server, "/");
    let named = at.replace("127.0.0.1", "localhost");
    let cases: [(&[&str], &str); 8] = [
        (&[], &at),
        (&[], &named),
        (&["-k", "-c", "2"], &at),
        (&["-f", "TLS1.2"], &at),
        (&["-f", "TLS1.3", "-Z", "TLS_AES_128_GCM_SHA256"], &at),
        (&["-Z", "ECDHE-ECDSA-AES128-GCM-SHA256"], &at),
        (&["-f", "TLS1.2", "-Z", "ECDHE-ECDSA-AES128-GCM-SHA256:AES256-SHA"], &at),
        (&["-E", &own, "-w"], &at),
    ];
    for (words, url) in cases {
        let words = [&["-n", "20"], words, &[url]].concat();
        let (theirs, ours) = (real("ab", &words), ours(&words));
        assert_eq!((theirs.code, ours.code), (0, 0), "{words:?}: {ours:?}");
        assert_eq!(lines(&theirs.stdout), lines(&ours.stdout), "{words:?}");
    }
}

#[test]
fn time_limit_ends_the_run() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = nginx();
    let ended = ours(&["-t", "1", "-c", "2", "-k", &server.url("/")]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let taken: f64 = value(&ended.stdout, "Time taken for tests:")
        .split(' ')
        .next()
        .expect("a word")
        .parse()
        .expect("a number");
    let done: f64 = value(&ended.stdout, "Complete requests:").parse().expect("a number");
    // As many of the implied 50,000 requests as the time allowed.
    assert!(taken <= 1.0 + 1e-9 && (10.0..=50_000.0).contains(&done), "{ended:?}");
    let rate: f64 = value(&ended.stdout, "Requests per second:")
        .split(' ')
        .next()
        .expect("a word")
        .parse()
        .expect("a number");
    assert!((rate / (done / taken) - 1.0).abs() < 0.01, "{ended:?}");
}

#[test]
fn writes_the_same_files_as_ab() {
    if !have("ab") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let server = nginx();
    let path = |name: &str| folder.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let mut reported = Vec::new();
    for (name, program) in
        [("real", real as fn(&str, &[&str]) -> Ended), ("ours", |_, words| ours(words))]
    {
        let (csv, gnuplot) = (path(&format!("{name}.csv")), path(&format!("{name}.tsv")));
        let words = ["-q", "-n", "300", "-c", "3", "-e", &csv, "-g", &gnuplot, &server.url("/")];
        assert_eq!(program("ab", &words).code, 0);
        let (csv, gnuplot) = (fs::read_to_string(csv), fs::read_to_string(gnuplot));
        reported.push((csv.expect("a file"), gnuplot.expect("a file")));
    }
    let shapes = |text: &str| text.lines().map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(&reported[0].0), shapes(&reported[1].0));
    for (csv, gnuplot) in &reported {
        let times: Vec<f64> = csv
            .lines()
            .skip(1)
            .map(|l| l.split(',').nth(1).expect("two").parse().expect("a number"))
            .collect();
        assert!(times.len() == 101 && times.is_sorted(), "{csv}");
        let (head, rows) = gnuplot.split_once('\n').expect("lines");
        assert_eq!(head, "starttime\tseconds\tctime\tdtime\tttime\twait");
        let rows: Vec<Vec<&str>> = rows.lines().map(|l| l.split('\t').collect()).collect();
        assert_eq!(rows.len(), 300);
        for row in &rows {
            assert_eq!((row.len(), row[0].len(), row[1].len()), (6, 24, 10), "{row:?}");
            let [connect, process, total] =
                [2, 3, 4].map(|i| row[i].parse::<i64>().expect("a number"));
            assert!((connect + process - total).abs() <= 1, "{row:?}");
        }
        assert!(rows.is_sorted_by_key(|r| r[4].parse::<u64>().expect("a number")));
    }
}

#[test]
fn reports_failures_with_the_names_of_ab() {
    let _alone = alone();
    let lengths = |n: usize, _: &str| reply(200, if n < 5 { "four" } else { "five!" });
    let cut = |n: usize, _: &str| match n {
        3 => send("HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfo"),
        4 => send(""),
        5 => send("junk that is no HTTP\r\n\r\n"),
        6 => Deed::Reset,
        _ => reply(200, "four"),
    };
    let cases: [(Scripted, &[&str], &str, &str); 3] = [
        (Scripted::start(lengths), &[], "5", "(Connect: 0, Receive: 0, Length: 5, Exceptions: 0)"),
        (Scripted::start(lengths), &["-l"], "0", ""),
        (Scripted::start(cut), &["-r"], "4", "(Connect: 0, Receive: 2, Length: 1, Exceptions: 1)"),
    ];
    for (server, words, failed, kinds) in cases {
        let url = format!("http://{}/", server.address());
        let ended = ours(&[words, &["-n", "10", &url]].concat());
        assert_eq!(value(&ended.stdout, "Complete requests:"), "10", "{ended:?}");
        assert_eq!(value(&ended.stdout, "Failed requests:"), failed, "{ended:?}");
        assert!(ended.stdout.contains(kinds), "{ended:?}");
    }
}

#[test]
fn a_lost_request_ends_the_run_without_option_r() {
    let _alone = alone();
    let lost = |n: usize, _: &str| if n == 6 { Deed::Reset } else { reply(200, "four") };
    let server = Scripted::start(lost);
    let url = format!("http://{}/", server.address());
    let ended = ours(&["-n", "10000000", &url]);
    assert_eq!(ended.code, 104, "{ended:?}");
    assert!(
        ended.stderr.ends_with("apr_socket_recv: Connection reset by peer (104)\n"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("Total of "), "{ended:?}");
    assert!(!ended.stdout.contains("Requests per second"), "{ended:?}");

    let port = reserved_port();
    let nobody = format!("http://127.0.0.1:{port}/");
    let (theirs, ours_) =
        (have("ab").then(|| real("ab", &["-n", "5", &nobody])), ours(&["-n", "5", &nobody]));
    assert_eq!(ours_.code, 111, "{ours_:?}");
    if let Some(theirs) = theirs {
        assert_eq!((theirs.code, &theirs.stderr), (111, &ours_.stderr));
    }
}

/// Compares line by line, except for failures, some of which ab counts more than once.
#[test]
fn prints_tables_of_zeros_for_a_refused_port() {
    let _alone = alone();
    let port = reserved_port();
    let nobody = format!("http://127.0.0.1:{port}/");
    let words = ["-n", "10", "-c", "2", "-r", &nobody];
    let tables = |ended: &Ended| {
        assert_eq!(ended.code, 0, "{ended:?}");
        let at = ended.stdout.find("\nConnection Times (ms)\n");
        ended.stdout[at.unwrap_or_else(|| panic!("no table: {ended:?}"))..].to_owned()
    };
    let ended = ours(&words);
    assert_eq!(value(&ended.stdout, "Failed requests:"), "10", "{ended:?}");
    assert!(ended.stdout.contains("(Connect: 10, Receive: 0, Length: 0, Exceptions: 0)"));
    let ours = tables(&ended);
    assert!(ours.contains("Total:          0    0   0.0      0       0\n"), "{ours}");
    assert!(ours.ends_with(" 100%      0 (longest request)\n"), "{ours}");
    if have("ab") {
        // How long its refused connects take depends on the machine; the form does not.
        let form = |table: &str| -> Vec<String> {
            let word = |word: &str| word.replace(|c: char| c.is_ascii_digit() || c == '.', "");
            table.split_whitespace().map(word).collect()
        };
        assert_eq!(form(&tables(&real("ab", &words))), form(&ours));
    }
}

#[test]
fn verbose_output_shows_requests_and_replies_as_ab_does() {
    let _alone = alone();
    let server = Scripted::start(|_, _| reply(200, "four"));
    let url = format!("http://{}/", server.address());
    for verbosity in ["2", "3"] {
        let words = ["-n", "2", "-v", verbosity, &url];
        let shown = |ended: &Ended| {
            assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
            let (_, rest) = ended.stdout.split_once("(be patient)...").expect("the start");
            rest.split_once("..done").expect("the end").0.to_owned()
        };
        let ours = shown(&ours(&words));
        assert!(ours.starts_with("INFO: GET header == \n---\nGET / HTTP/1.0\r\n"), "{ours}");
        assert_eq!(ours.matches("LOG: header received:\nHTTP/1.").count(), 2, "{ours}");
        let codes = if verbosity == "3" { 2 } else { 0 };
        assert_eq!(ours.matches("LOG: Response code = 200\n").count(), codes, "{ours}");
        if have("ab") {
            assert_eq!(shown(&real("ab", &words)), ours);
        }
    }
}

/// An unknown option ends the options with a message; the run continues.
#[test]
fn ignores_unknown_options_as_ab_does() {
    let _alone = alone();
    let server = Scripted::start(|_, _| reply(200, "four"));
    let url = format!("http://{}/", server.address());
    for words in [vec!["-n", "2", "-Q", &url], vec!["-Q", "-n", "2", &url]] {
        let ours = ours(&words);
        let code = if words[0] == "-Q" { 22 } else { 0 };
        assert_eq!(ours.code, code, "{ours:?}");
        assert!(ours.stderr.starts_with("ab: illegal option -- Q\n"), "{ours:?}");
        if have("ab") {
            let theirs = real("ab", &words);
            assert_eq!(
                (theirs.code, theirs.stderr.lines().next()),
                (code, ours.stderr.lines().next())
            );
        }
    }
}

#[test]
fn rejects_invalid_input_with_the_exit_codes_of_ab() {
    let folder = TempDir::new().expect("a folder");
    let inside = folder.path().join("none/x").to_str().expect("a path in UTF-8").to_owned();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["-E", &inside, "https://127.0.0.1:1/"], 1, "ab: unable to get certificate from '"),
        (
            &["-Z", "RC4", "https://127.0.0.1:1/"],
            1,
            "ab: -Z `RC4`: none of these suites is supported",
        ),
        (&[], 22, "ab: wrong number of arguments\nUsage: "),
        (&["-n", "5", "-c", "9", "http://127.0.0.1:1/"], 22, "ab: Cannot use concurrency level"),
        (&["-n", "x", "http://127.0.0.1:1/"], 1, "Invalid number of requests\n"),
        (&["-p", &inside, "http://127.0.0.1:1/"], 1, "ab: Could not open POST data file"),
        (&["-g", &inside, "http://127.0.0.1:1/"], 1, "ab: Cannot open gnuplot output file"),
        (
            &["http://a..b/"],
            1,
            "apr_sockaddr_info_get() for a..b: Name or service not known (670002)",
        ),
        (&["ftp://127.0.0.1:1/"], 22, "ab: invalid URL"),
    ];
    for (words, code, start) in cases {
        let ended = ours(words);
        assert!(ended.code == code && ended.stderr.starts_with(start), "{words:?}: {ended:?}");
    }
}

#[test]
fn adds_lines_that_ab_lacks() {
    let server = Scripted::start(|n, _| reply(if n == 3 { 500 } else { 200 }, "four"));
    let url = format!("http://{}/", server.address());
    let ended = prony(&["ab", "-n", "40", "-c", "4", "-q", &url]);
    let (_, extras) = ended.stdout.split_once("(longest request)").expect("the table");
    for words in ["one over the rate", "1 replies have a status of 400 or above", "p50", "verdict"]
    {
        let flat: Vec<&str> = extras.split_whitespace().collect();
        assert!(flat.join(" ").contains(words), "{words}: {extras}");
    }
}
