//! The field `{{now}}` on the kernel: requests have the time of the wall clock.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::rig::{Other, drivers, have, measure, wait_until};

const NGINX: &str = "
    log_format line '$msec $uri';
    access_log @DIR@/access.log line;
    server {
        listen 127.0.0.1:@PORT@;
        location / { return 200 'ok'; }
    }
";

#[test]
fn requests_have_the_time_of_the_wall_clock() {
    if !have("nginx") {
        return;
    }
    let server = Other::nginx(NGINX);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let plan = format!(
        "url = '{}'\nrate = 50\nsessions = 20\n[[session]]\n\
         request = ['/{{{{now unix-ms}}}}', '/{{{{now +1h unix-ms}}}}/x']\n",
        server.url("")
    );
    fs::write(&file, plan).expect("a file");
    let log = || fs::read_to_string(server.file("access.log")).unwrap_or_default();
    for (i, driver) in drivers().into_iter().enumerate() {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let report = measure(&["run", file.to_str().expect("text"), "--driver", driver]);
        assert_eq!(report.count("replies"), 40, "{driver}");
        wait_until("all requests in the log", || log().lines().count() == 40 * (i + 1));
        for line in log().lines().skip(40 * i) {
            let (logged, path) = line.split_once(" /").expect("a time and a path");
            let logged = (logged.parse::<f64>().expect("seconds") * 1e3).round() as u128;
            let (sent, hour) = match path.split_once('/') {
                Some((sent, _)) => (sent, 3_600_000),
                None => (path, 0),
            };
            let sent = sent.parse::<u128>().expect("milliseconds") - hour;
            // nginx reads its own clock once per turn, and rounds it down.
            assert!(begun <= sent && sent <= logged + 50, "{driver}: {line}, begun {begun}");
            assert!(logged <= sent + 5_000, "{driver}: {line}");
        }
    }
}
