//! Sessions that decide which steps they make, against nginx, compared with its log.

use std::fs;

use serde_json::json;

use tempfile::TempDir;

use crate::rig::{Other, Serve, drivers, have, measure, prony, served, wait_until};

const NGINX: &str = "
    log_format path '$request_uri';
    access_log @DIR@/access path;
    server {
        listen 127.0.0.1:@PORT@;
        default_type application/json;
        location /number { return 200 '{\"number\": $arg_n}'; }
        location /busy { return 503; }
        location / { return 200 'hello'; }
    }
";

const PLAN: &str = r#"
url = "@URL@"
users = 4
sessions = 40
on-failure = "continue"

[[session]]
request = [
  { path = "/number?n={{session}}", extract = { number = { json = "/number" } } },
  { path = "/odd", when = "{{number}} matches '[13579]$'" },
  { path = "/low", unless = "{{number}} > 10" },
  { path = "/number/poll?n={{request}}", repeat = 9, until = "{{number}} >= 6", extract = { number = { json = "/number" } } },
  { path = "/busy", retry = { times = 2, wait = "5ms", jitter = 0.5 } },
  { when = "{{status}} == 503", switch = [
    { request = ["/chosen"] },
    { weight = 0, request = ["/never"] },
  ] },
]
"#;

#[test]
fn makes_the_steps_that_the_replies_decide() {
    if !have("nginx") {
        return;
    }
    for driver in drivers() {
        let server = Other::nginx(NGINX);
        let plan = server.file("plan.toml");
        fs::write(&plan, PLAN.replace("@URL@", &server.url(""))).expect("a file");
        let plan = plan.to_str().expect("UTF-8");
        let report = measure(&["run", plan, "--driver", driver, "-t", "2"]);
        let log = || fs::read_to_string(server.file("access")).unwrap_or_default();
        // Each session polls with the numbers of its requests, up to 6.
        let made = 40 + 20 + 10 + (200 - 20 - 10) + 3 * 40 + 40;
        wait_until("nginx has logged all of it", || log().lines().count() >= made);
        let log = log();
        let count = |path: &str| log.lines().filter(|line| *line == path).count();
        assert_eq!(log.lines().count(), made, "{driver}");
        for (path, times) in [
            ("/odd", 20),
            ("/low", 10),
            ("/number/poll?n=2", 15),
            ("/number/poll?n=6", 40),
            ("/busy", 120),
            ("/chosen", 40),
        ] {
            assert_eq!(count(path), times, "{driver}: {path}");
        }
        assert_eq!(report.count("started"), made as u64, "{driver}");
        assert_eq!(report.errors("unexpected-status"), 120, "{driver}");
        let sessions = &report.0["measurement"]["tally"]["sessions"];
        assert_eq!((&sessions["failed"], &sessions["completed"]), (&json!(40), &json!(0)));
        let steps = &sessions["steps"];
        let counts = ["skipped", "limited", "retried", "exhausted"].map(|name| &steps[name]);
        assert_eq!(counts, [&json!(50), &json!(0), &json!(80), &json!(40)], "{driver}");
    }
}

const GROUPS: &str = r#"
url = "@URL@"
rate = 100
sessions = 200
seed = 3
thresholds = ["group.buy.failed = 0"]

[[session]]
request = [
  "/first",
  { group = "buy", request = [
    "/cart",
    { switch = [{ weight = 3, request = ["/pay", "/receipt"] }, { request = [] }] },
  ] },
  { switch = [{ request = [{ group = "once", request = ["/leave"] }] }, { request = ["/stay"] }] },
]
"#;

/// Groups with a switch, and in a switch, are those of the requests that were made.
#[test]
fn groups_and_switches_are_in_each_other() {
    let folder = TempDir::new().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let server = Serve::start(&["--latency", "5ms"]);
    fs::write(&plan, GROUPS.replace("@URL@", &server.url(""))).expect("written");
    let plan = plan.to_str().expect("UTF-8");
    let ended = prony(&["run", plan, "-t", "2", "--json", "--quiet", "--accept-invalid"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    let section = &report.0["measurement"];
    let of = |list: &str, name: &str| {
        let all = section[list].as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).expect(name).clone()
    };
    let made = |path: &str| of("names", &format!("GET {path}"))["replies"].as_u64().expect("n");
    let (paid, left) = (made("/pay"), made("/leave"));
    assert!((120..180).contains(&paid) && (70..130).contains(&left), "{paid} {left}");
    assert_eq!((made("/cart"), made("/receipt"), made("/stay")), (200, paid, 200 - left));
    let (buy, once) = (of("groups", "buy"), of("groups", "once"));
    assert_eq!((&buy["completed"], &buy["failed"]), (&json!(200), &json!(0)));
    assert_eq!((&once["started"], &once["completed"]), (&json!(left), &json!(left)));
    // A reply takes 5 ms: three for those who pay, who are more than half, and one for the others.
    let ms = |field: &str| buy["duration"][field].as_f64().expect("a time") / 1e6;
    assert!(ms("min_ns") >= 5.0 && ms("p50_ns") >= 15.0, "{buy}");
    let all = 200 + 200 + 2 * paid + 200;
    assert_eq!(served(&server.stop(), "requests"), all);
    // The plan that is explained is the same.
    let explained = prony(&["run", plan, "--explain"]);
    assert_eq!(explained.code, 0, "{explained:?}");
    for part in ["group = \"buy\", request = [", "group = \"once\", request = [\"/leave\"]"] {
        assert!(explained.stdout.contains(part), "{part}: {}", explained.stdout);
    }
}
