//! WebSocket to a server in Node.js, with the package `ws`: it counts what prony counts.

use std::path::Path;

use serde_json::Value;

use crate::http2_peers::lines;
use crate::rig::{Other, alone, have, measure, wait_until};

/// Echoes what it receives, broadcasts it to all others at `/room`, and logs connections as they
/// end.
const SERVER: &str = "
const { WebSocketServer } = require(process.env.PRONY_TEST_NODE_WS);
const log = require('fs').createWriteStream('@DIR@/served');
const server = new WebSocketServer({
    host: '127.0.0.1', port: @PORT@, perMessageDeflate: { threshold: 0 },
    handleProtocols: protocols => protocols.has('v2.chat') ? 'v2.chat' : false,
});
server.on('connection', (ws, request) => {
    let messages = 0, pings = 0;
    ws.on('message', (data, isBinary) => {
        messages += 1;
        if (request.url === '/room') {
            server.clients.forEach(other => other !== ws && other.send(data, { binary: isBinary }));
        } else {
            ws.send(data, { binary: isBinary });
        }
    });
    ws.on('ping', () => { pings += 1; });
    ws.on('error', error => log.write('error ' + error + '\\n'));
    ws.on('close', code => log.write(
        `close ${code} ${ws.protocol || '-'} ${ws.extensions || '-'} ${messages} ${pings > 0}\\n`));
});
";

#[test]
fn counters_agree_with_a_server_in_node() {
    if !have("node") || std::env::var_os("PRONY_TEST_NODE_WS").is_none() {
        eprintln!("skipped: PRONY_TEST_NODE_WS names no package of Node.js");
        return;
    }
    let _alone = alone();
    let server = Other::start("node", &[], SERVER);
    let url = |path: &str| server.url(path).replacen("http", "ws", 1);
    let ended = |text: &str, n: u64| {
        wait_until("the server's log", || lines(&server, "served", text) >= n);
        assert_eq!(lines(&server, "served", text), n, "{text}");
    };
    let load = ["-c", "3", "-n", "12", "--messages", "100/s", "--messages-count", "20"];
    let text = "{\"id\":\"{{stamp}}\",\"more\":[1,2,3,1,2,3,1,2,3]}";
    let more = ["-b", text, "--messages-reply", "token", "--ping-every", "50ms"];
    let chat = ["--subprotocol", "chat", "--subprotocol", "v2.chat", "--binary"];
    for (more, line) in [
        (&[][..], "close 1000 - - 20 true"),
        (&["--ws-compress"], "close 1000 - permessage-deflate 20 true"),
        (&chat, "close 1000 v2.chat - 20 true"),
    ]
    .map(|(options, line)| ([&more[..], options].concat(), line))
    {
        let report = measure(&[&load[..], &more, &[&url("/")]].concat());
        report.check_sums();
        let tally = &report.0["measurement"]["tally"];
        let counts = |part: &str, names: [&str; 2]| names.map(|name| tally[part][name].clone());
        assert_eq!((report.status(1000), report.count("failed")), (12, 0), "{more:?}");
        assert_eq!(counts("stream_messages", ["sent", "answered"]), [240, 240].map(Value::from));
        let [sent, answered] = counts("pings", ["sent", "answered"]);
        // Three for each connection, and fewer if the client was late.
        assert!(sent == answered && sent.as_u64() >= Some(12), "{sent} {answered}");
        ended(line, 12);
    }
    ended("close ", 36);
    let room = ["-c", "12", "--publishers", "2", "--messages", "100/s", "--messages-count", "50"];
    for compress in [&[][..], &["--ws-compress"]] {
        let report = measure(&[&room[..], &["-b", "hi"], compress, &[&url("/room")]].concat());
        let all = &report.0["measurement"]["tally"]["broadcast"];
        let names = ["published", "expected", "delivered", "reordered", "duplicates"];
        let counts = names.map(|name| all[name].as_u64());
        assert_eq!(counts, [100, 1_000, 1_000, 0, 0].map(Some), "{compress:?}");
    }
    ended("close 1000", 60);
    assert_eq!(lines(&server, "served", "error"), 0);
    assert!(Path::new(&std::env::var("PRONY_TEST_NODE_WS").unwrap_or_default()).exists());
}
