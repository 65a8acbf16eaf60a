//! Sessions that decide which steps they make, against nginx, compared with its log.

use std::fs;

use serde_json::json;

use crate::rig::{Other, drivers, have, measure, wait_until};

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
