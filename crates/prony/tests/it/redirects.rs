//! Redirects that are followed, against nginx and `prony serve`.

use std::fs;

use crate::rig::{Other, Report, Serve, alone, drivers, have, measure, prony, served, wait_until};

/// Chains of two redirects, a loop, and one to another host; with a log of all requests.
const NGINX: &str = "
    log_format line '$request_method $uri $http_host $content_length';
    access_log @DIR@/access.log line;
    server {
        listen 127.0.0.1:@PORT@ backlog=4096 @VERSION@;
        absolute_redirect off;
        location = /a { return 302 /b?x=1; }
        location = /b { return 307 c; }
        location = /c { return 200 'arrived'; }
        location = /absolute { return 308 http://127.0.0.1:@PORT@/c; }
        location = /loop { return 301 /loop; }
        location = /away { return 302 http://127.0.0.1:1/secret; }
        location = /form { return 303 /c; }
    }
";

fn group(report: &Report) -> (u64, u64, u64) {
    let group = &report.0["measurement"]["groups"][0];
    assert_eq!(group["name"], "redirects");
    let count = |name: &str| group[name].as_u64().expect("a count");
    (count("started"), count("completed"), count("failed"))
}

fn nginx(version: &str) -> Other {
    Other::nginx(&NGINX.replace("@VERSION@", version))
}

/// The requests that nginx has logged since the last call, by line: this number of them.
fn logged(server: &Other, seen: &mut usize, number: usize) -> Vec<String> {
    let lines = || {
        let text = fs::read_to_string(server.file("access.log")).expect("the log");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // A line may be written after the reply.
    wait_until("all requests in the log", || lines().len() >= *seen + number);
    let new = lines()[*seen..].to_vec();
    assert_eq!(new.len(), number);
    *seen += number;
    new
}

fn count(lines: &[String], start: &str) -> u64 {
    lines.iter().filter(|line| line.starts_with(start)).count() as u64
}

#[test]
fn follows_redirects_of_nginx() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    for (version, option) in [("", &[][..]), ("http2", &["--h2c"])] {
        let server = nginx(version);
        let mut seen = 0;
        for driver in drivers() {
            let run = |path: &str, more: &[&str]| {
                let url = server.url(path);
                let load = ["-L", "-c", "3", "-n", "50", "--expect", "200", "--driver", driver];
                measure(&[&load[..], option, more, &[&url]].concat())
            };
            let report = run("/a", &["--expect-body", "arrived"]);
            assert_eq!((report.count("replies"), report.count("failed")), (150, 0));
            assert_eq!(group(&report), (50, 50, 0));
            assert_eq!(report.0["measurement"]["tally"]["redirects"]["followed"], 100);
            assert_eq!(report.count("connected"), 3, "{driver} {version}");
            let lines = logged(&server, &mut seen, 150);
            for line in ["GET /a ", "GET /b ", "GET /c "] {
                assert_eq!(count(&lines, line), 50, "{driver} {version}: {line}");
            }

            let report = run("/absolute", &[]);
            assert_eq!((report.count("replies"), group(&report)), (100, (50, 50, 0)));
            let lines = logged(&server, &mut seen, 100);
            assert_eq!((count(&lines, "GET /absolute "), count(&lines, "GET /c ")), (50, 50));

            run("/form", &["-b", "a=b", "-T", "text/plain"]);
            let lines = logged(&server, &mut seen, 100);
            let host = format!("127.0.0.1:{}", server.port);
            assert_eq!(count(&lines, &format!("POST /form {host} 3")), 50);
            assert_eq!(count(&lines, &format!("GET /c {host} -")), 50);
        }
    }
}

#[test]
fn ends_loops_and_leaves_other_hosts_alone() {
    if !have("nginx") {
        return;
    }
    let server = nginx("");
    let mut seen = 0;
    let load = ["-L", "-c", "1", "-n", "5", "--accept-invalid", "--json", "--quiet"];
    let run = |more: &[&str], path: &str| {
        prony(&[&load[..], more, &[&server.url(path)]].concat()).report()
    };
    let report = run(&["--max-redirs", "4"], "/loop");
    assert_eq!((report.count("replies"), report.errors("too-many-redirects")), (20, 5));
    assert_eq!(group(&report), (5, 0, 5));
    assert_eq!(count(&logged(&server, &mut seen, 25), "GET /loop "), 25);

    let report = run(&[], "/away");
    assert_eq!((report.count("replies"), report.status(302)), (5, 5));
    let notes = report.0["run"]["notes"].to_string();
    let note = "5 redirects led to other hosts (http://127.0.0.1:1) and were not followed: name \
                them with --redirect-to http://127.0.0.1:1";
    assert!(notes.contains(note), "{notes}");
}

/// Another host gets the request if it is named, on the command line or in a plan file.
#[test]
fn follows_redirects_to_hosts_that_are_named() {
    if !have("nginx") {
        return;
    }
    let to = Serve::start(&[]);
    let config = NGINX.replace("http://127.0.0.1:1/secret", &to.url("/there"));
    let server = Other::nginx(&config.replace("@VERSION@", ""));
    let (from, there) = (server.url("/away"), to.url(""));
    let named = there.trim_end_matches('/');
    let report = measure(&["-L", "--redirect-to", named, "-r", "100", "-n", "20", &from]);
    assert_eq!((report.count("replies"), group(&report)), (40, (20, 20, 0)));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let plan = format!(
        "url = '{from}'\nlocation = true\nredirect-to = ['{named}']\nrequests = 20\n\
         connections = 2\n"
    );
    fs::write(&file, plan).expect("a file");
    let report = measure(&["run", file.to_str().expect("text")]);
    assert_eq!((report.count("replies"), group(&report)), (40, (20, 20, 0)));
    assert_eq!(served(&to.stop(), "requests"), 40);
}

/// The target server redirects a known number of times.
#[test]
fn follows_redirects_of_the_target_server() {
    for driver in drivers() {
        let server = Serve::start(&["--driver", driver]);
        for version in [&[][..], &["--h2c"]] {
            let url = server.url("/redirect/3");
            let load = ["-L", "-r", "200", "-n", "40", "--driver", driver, &url];
            let report = measure(&[&load[..], version].concat());
            assert_eq!((report.count("replies"), group(&report)), (160, (40, 40, 0)), "{driver}");
            assert_eq!((report.status(302), report.status(200)), (120, 40));
        }
        assert_eq!(served(&server.stop(), "requests"), 320);
    }
}

#[test]
fn refuses_options_of_redirects_that_have_no_effect() {
    for (args, why) in [
        (&["--max-redirs", "3", "http://h/"][..], "--location"),
        (&["--redirect-to", "http://g", "http://h/"], "--location"),
        (&["-L", "--max-redirs", "1001", "http://h/"], "must be at most 1000"),
        (&["-L", "--redirect-to", "http://g/path", "http://h/"], "the server alone"),
        (&["-L", "--redirect-to", "ftp://g", "http://h/"], "the scheme 'ftp' is not supported"),
        (&["-L", "ws://h/"], "only requests of HTTP follow redirects"),
        (&["-L", "--stream", "sse", "http://h/"], "streams follow no redirects"),
    ] {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
    }
}
