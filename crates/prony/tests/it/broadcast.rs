//! Broadcasts over WebSocket: by prony's own target server, whose mistakes are known, and by nginx
//! with nchan.

use serde_json::Value;

use crate::rig::{Other, Report, Serve, alone, measure, prony, served};

fn broadcast(report: &Report) -> &Value {
    &report.0["measurement"]["tally"]["broadcast"]
}

fn count(report: &Report, name: &str) -> u64 {
    broadcast(report)[name].as_u64().expect(name)
}

/// The URL of a server with another scheme.
fn ws(url: &str) -> String {
    url.replacen("http", "ws", 1)
}

/// Two threads, whose publishers and subscribers belong together.
const LOAD: [&str; 10] =
    ["-t", "2", "-c", "22", "--publishers", "2", "--messages", "100/s", "--messages-count", "100"];

/// A busy machine makes times longer, not shorter, and changes no count.
#[test]
fn a_correct_server_reaches_all_subscribers() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "broadcast", "--latency", "fixed:2ms"]);
    let url = ws(&server.url("/room"));
    let limits = ["--threshold", "reach >= 100%", "--threshold", "spread.p50 < 1s"];
    let load = [&LOAD[..], &["-b", "hello", "--publish-after", "200ms"], &limits, &[&url]].concat();
    let report = measure(&load);
    report.check_sums();
    assert_eq!((report.status(1000), report.count("failed")), (22, 0));
    let names = ["subscribers", "published", "expected", "delivered", "complete"];
    assert_eq!(names.map(|name| count(&report, name)), [20, 200, 4_000, 4_000, 200]);
    let names = ["reordered", "duplicates", "unstamped"];
    assert_eq!(names.map(|name| count(&report, name)), [0; 3]);
    assert_eq!(report.0["measurement"]["broadcast"]["reach"], 1.0);
    assert!(report.ms("delivery", "min") >= 2.0, "{:#}", report.0["measurement"]["times"]);
    let counters = server.stop();
    assert_eq!(served(&counters, "socket_messages_received"), 200);
    // A publisher that has sent its last message receives no more.
    let sent = served(&counters, "socket_messages_sent");
    assert!((4_100..=200 * 21).contains(&sent), "{sent}");
}

/// With one publisher, all mistakes of the server are about subscribers: both sides count the same.
#[test]
fn mistakes_of_a_server_are_counted_as_it_made_them() {
    let _alone = alone();
    let server = Serve::start(&["--ws", "broadcast:lose=2%,duplicate=3%,swap=4%"]);
    let url = ws(&server.url("/room"));
    let load = ["-t", "2", "-c", "21", "--publishers", "1", "--messages", "200/s"];
    let more = ["--messages-count", "200", "-b", "{\"text\":\"{{stamp}}\"}"];
    let report = measure(&[&load[..], &more, &["--publish-after", "300ms", &url]].concat());
    let found = [
        count(&report, "expected") - count(&report, "delivered"),
        count(&report, "duplicates"),
        count(&report, "reordered"),
    ];
    let counters = server.stop();
    let names = ["deliveries_lost", "deliveries_duplicated", "deliveries_swapped"];
    assert_eq!(found, names.map(|name| served(&counters, name)));
    assert!(found.iter().all(|&n| n > 20), "{found:?}");
}

/// `--explain` writes a plan file that gives the same run, on any number of threads.
#[test]
fn broadcasts_are_explained_and_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let file = file.to_str().expect("UTF-8");
    let load = ["ws://127.0.0.1/room", "-b", "hi", "--simulate", "7", "--subscribers-wait", "1s"];
    let explained = prony(&[&LOAD[2..], &load, &["--explain"]].concat());
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    std::fs::write(file, &explained.stdout).expect("written");
    let direct = prony(&[&LOAD[2..], &load, &["--json", "-t", "3"]].concat());
    let read = prony(&["run", file, "--simulate", "7", "--json", "-t", "1"]);
    let text = prony(&["run", file, "--simulate", "7"]).stdout;
    let line = "200 published, 20 subscribers, reach 100 % (4,000 of 4,000)";
    assert!(text.contains(line), "{text}");
    let [direct, read] = [direct, read].map(|ended| ended.report());
    assert_eq!(broadcast(&direct), broadcast(&read));
    assert_eq!((count(&direct, "expected"), count(&direct, "delivered")), (4_000, 4_000));
    // 50 us to the server, and 50 us to each subscriber.
    assert_eq!(direct.0["measurement"]["times"]["delivery"]["max_ns"], 100_000);
    assert_eq!(direct.0["measurement"]["times"]["spread"]["max_ns"], 0);
}

/// nginx with nchan, by which publishers are subscribers, too.
#[test]
fn nchan_reaches_all_subscribers() {
    let Ok(module) = std::env::var("PRONY_TEST_NCHAN") else {
        eprintln!("skipped: PRONY_TEST_NCHAN names no module of nginx");
        return;
    };
    let _alone = alone();
    let config = format!(
        "load_module {module};
        daemon off; master_process off; pid @DIR@/pid; error_log @DIR@/error.log info;
        events {{ worker_connections 1024; }}
        http {{
            client_body_temp_path @DIR@/client; proxy_temp_path @DIR@/proxy;
            fastcgi_temp_path @DIR@/fastcgi; uwsgi_temp_path @DIR@/uwsgi;
            scgi_temp_path @DIR@/scgi; access_log off;
            server {{
                listen 127.0.0.1:@PORT@;
                location /room {{
                    nchan_pubsub websocket;
                    nchan_channel_id room;
                    nchan_subscriber_first_message newest;
                    nchan_message_buffer_length 1000;
                    nchan_message_timeout 60s;
                }}
            }}
        }}"
    );
    let server = Other::start("nginx", &["-p", "@DIR@", "-e", "@DIR@/error.log", "-c"], &config);
    let url = format!("ws://127.0.0.1:{}/room", server.port);
    let report = measure(&[&LOAD[..], &["-b", "hello", &url]].concat());
    report.check_sums();
    assert_eq!((report.status(1000), report.count("failed")), (22, 0), "{:#}", report.0);
    let names = ["subscribers", "published", "expected", "delivered", "complete"];
    assert_eq!(names.map(|name| count(&report, name)), [20, 200, 4_000, 4_000, 200]);
    let names = ["reordered", "duplicates", "unstamped"];
    assert_eq!(names.map(|name| count(&report, name)), [0; 3]);
}
