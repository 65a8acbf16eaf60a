//! `prony record`: the sessions of clients, and their pauses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::Recorder;
use crate::rig::Serve;

/// `--by client` has a session for each address, in which a pause is as long as the client made it.
#[test]
fn sessions_of_clients_have_the_pauses_of_their_connections() {
    let server = Serve::start(&[]);
    let mut recorder = Recorder::start(&server.url(""), &["--by", "client"]);
    let get = |from: [u8; 4], path: &str| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("a local address");
        let to = SocketAddr::from(([127, 0, 0, 1], recorder.port()));
        socket.connect(&to.into()).expect("a connection");
        let mut stream = TcpStream::from(socket);
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        stream.read_to_end(&mut Vec::new()).expect("a reply");
    };
    let begun = Instant::now();
    get([127, 0, 0, 1], "/one");
    get([127, 0, 0, 2], "/other");
    thread::sleep(Duration::from_millis(400));
    get([127, 0, 0, 1], "/two");
    let elapsed = begun.elapsed().as_millis();
    let ended = recorder.finish();
    assert!(ended.stderr.contains("recorded 3 requests on 3 connections"), "{ended:?}");
    assert!(ended.stderr.contains("in 2 sessions"), "{ended:?}");
    let plan = recorder.plan();
    let sessions: Vec<&str> = plan.split("[[session]]").skip(1).collect();
    let [first, other] = sessions.as_slice() else { panic!("{plan}") };
    assert!(first.contains("\"/one\"") && first.contains("\"/two\""), "{plan}");
    assert!(other.contains("\"/other\"") && !other.contains("think"), "{plan}");
    let pause = first.split("think = \"").nth(1).and_then(|text| text.split("ms\"").next());
    let pause: u128 = pause.and_then(|ms| ms.parse().ok()).unwrap_or_else(|| panic!("{plan}"));
    assert!((399..=elapsed).contains(&pause), "{pause} ms of {elapsed} ms");
}
