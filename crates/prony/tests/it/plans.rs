//! Plan files and sessions against nginx, compared with its log.

use std::fs;

use crate::rig::{Other, alone, drivers, have, measure, prony, wait_until};

const NGINX: &str = "
    log_format whole '$request|$http_host|$http_a|$http_user_agent|$content_length|$request_length';
    access_log @DIR@/access whole;
    server {
        listen 127.0.0.1:@PORT@ backlog=4096;
        location / { return 200 'hello'; }
    }
";

const LOG: &str = "\
/index.html think=exp:2ms
 /style.css
 /logo.png headers='A: b\\nHost: other'
/form method=POST contents='a=\"1\"\\n'

/next method=PUT contents=\"\\0\" think=1ms
/last method=OPTIONS
";

/// The lines that nginx logs during a run, sorted.
fn logged(server: &Other, lines: usize, run: impl FnOnce()) -> Vec<String> {
    let log = || fs::read_to_string(server.file("access")).unwrap_or_default();
    let before = log().lines().count();
    run();
    wait_until("nginx has logged all of it", || log().lines().count() >= before + lines);
    let mut new: Vec<_> = log().lines().skip(before).map(str::to_owned).collect();
    new.sort();
    new
}

#[test]
fn explained_plans_send_the_same_requests() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Other::nginx(NGINX);
    let log = server.file("shop.wsesslog");
    fs::write(&log, LOG).expect("a file");
    let (log, url) = (log.to_str().expect("UTF-8"), server.url("/"));
    for (load, sessions, requests) in [
        (&["--sessions", "40", "-c", "7"][..], 40, 120),
        (&["--sessions", "30", "-r", "300", "--session-connections", "3"], 30, 90),
    ] {
        for driver in drivers() {
            let words = [load, &["--session", log, "-H", "A: x", "--seed", "5", &url]].concat();
            let typed = logged(&server, requests, || {
                let report = measure(&[&words[..], &["--driver", driver]].concat());
                assert_eq!(report.count("replies"), requests as u64, "{load:?}");
            });
            assert_eq!(typed.len(), requests);
            // Sessions alternate, so both kinds have the same number.
            for (request, of_each) in [("GET /style.css HTTP/1.1|", 2), ("PUT /next HTTP/1.1|", 2)]
            {
                let count = typed.iter().filter(|line| line.starts_with(request)).count();
                assert_eq!(count, sessions / of_each, "{request}");
            }
            let plan = server.file("explained.toml");
            let explained = prony(&[&words[..], &["--explain"]].concat());
            assert_eq!(explained.code, 0, "{explained:?}");
            fs::write(&plan, &explained.stdout).expect("a file");
            let plan = plan.to_str().expect("UTF-8");
            let run = logged(&server, requests, || {
                let report = measure(&["run", plan, "--driver", driver]);
                assert_eq!(report.count("replies"), requests as u64, "{load:?}");
            });
            assert_eq!(run, typed, "{load:?}\n{}", explained.stdout);
        }
    }
}

/// In a simulation both runs are identical, except for the command line.
#[test]
fn explained_plans_give_identical_simulations() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, plan) = (folder.path().join("log"), folder.path().join("plan.toml"));
    fs::write(&log, LOG).expect("a file");
    let (log, plan) = (log.to_str().expect("UTF-8"), plan.to_str().expect("UTF-8"));
    let virtual_world = ["--simulate", "9", "--simulate-latency", "exp:3ms", "-t", "2"];
    for load in [
        &["--sessions", "50", "-c", "7", "--think", "lognormal:5ms:0.5", "--session", log][..],
        &["-d", "2s", "-r", "10..90@2s", "--arrivals", "poisson", "--session", log],
        &["-n", "500", "-m", "PUT", "-b", "a body"],
        &["-d", "1s", "--arrivals", "uniform:1ms:9ms", "--pick", "random", "http://virtual/b"],
    ] {
        let words = [load, &["http://virtual:81/a?b"], &virtual_world].concat();
        let report = |words: &[&str]| {
            let ended = prony(&[words, &["--json"]].concat());
            assert_eq!(ended.code, 0, "{ended:?}");
            let mut report = ended.report().0;
            report["run"]["command"].take();
            report["run"]["notes"].take();
            report
        };
        fs::write(plan, prony(&[&words[..], &["--explain"]].concat()).stdout).expect("a file");
        let again = report(&[&["run", plan][..], &virtual_world].concat());
        assert!(report(&words) == again, "{load:?}");
        assert!(again["requests"].as_u64() > Some(100), "{load:?}");
    }
}
