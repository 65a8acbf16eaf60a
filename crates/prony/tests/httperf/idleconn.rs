//! `idleconn`, the original and ours.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{LIMIT, Which, have};
use crate::reserved::reserved_port;

/// A running process, which is killed on drop.
struct Idle {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Idle {
    fn start(which: Which, port: u16, connections: usize) -> Self {
        let mut command = match which {
            Which::Old => Command::new("idleconn"),
            _ => Command::new(env!("CARGO_BIN_EXE_prony")),
        };
        let mut child = command
            .arg0("idleconn")
            .args(["127.0.0.1".to_owned(), port.to_string(), connections.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("idleconn starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdout }
    }

    /// Interrupt it. Returns its output.
    fn interrupt(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("text");
        assert_eq!(self.child.wait().expect("a child").code(), Some(0), "{text}");
        text
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Accept the next connection.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a listener");
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if let Ok((stream, _)) = listener.accept() {
            return stream;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("no connection came");
}

/// The last line of the report: connections created, and closed per second.
fn reported(text: &str) -> (u64, f64) {
    let line = text.lines().last().expect("a line");
    let rest = line.strip_prefix("idleconn: total # conn. created = ").expect(line);
    let (created, rest) = rest.split_once(", close() rate = ").expect(line);
    let rate = rest.strip_suffix(" conn/sec").expect(line);
    (created.parse().expect("a number"), rate.parse().expect("a number"))
}

#[test]
fn reopens_closed_connections() {
    for which in [Which::Old, Which::Ours] {
        if which == Which::Old && !have("idleconn") {
            continue;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let begun = Instant::now();
        let idle = Idle::start(which, listener.local_addr().expect("an address").port(), 3);
        let mut streams: Vec<_> = (0..3).map(|_| accept(&listener)).collect();
        drop(streams.remove(0));
        drop(streams.remove(0));
        streams.extend((0..2).map(|_| accept(&listener)));
        // No more connections and no output.
        thread::sleep(Duration::from_millis(500));
        assert!(listener.accept().is_err());
        for stream in &streams {
            stream.set_nonblocking(true).expect("a socket");
            let kind = stream.peek(&mut [0]).expect_err("neither bytes nor an end").kind();
            assert_eq!(kind, std::io::ErrorKind::WouldBlock);
        }
        let text = idle.interrupt();
        let first = "idleconn: creating and maintaining 3 idle connections\n";
        assert!(text.starts_with(first), "{text}");
        let (created, rate) = reported(&text);
        assert_eq!(created, 5, "{which:?}");
        let most = 2.0 / 0.5;
        let least = 2.0 / begun.elapsed().as_secs_f64() * 0.99;
        assert!((least..=most).contains(&rate), "{which:?}: {rate}");
    }
}

#[test]
fn retries_refused_connections() {
    let port = reserved_port();
    let mut idle = Idle::start(Which::Ours, port, 1);
    let mut line = String::new();
    idle.stdout.read_line(&mut line).expect("a line");
    line.clear();
    idle.stdout.read_line(&mut line).expect("a line");
    assert_eq!(line, "connect: Connection refused\n");
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let _stream = accept(&listener);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(reported(&idle.interrupt()), (1, 0.0));
}

#[test]
fn requires_three_arguments() {
    let wrong = Command::new(env!("CARGO_BIN_EXE_prony")).args(["idleconn", "127.0.0.1"]).output();
    let wrong = wrong.expect("it runs");
    assert_eq!(wrong.status.code(), Some(255));
    assert_eq!(String::from_utf8_lossy(&wrong.stderr), "Usage: idleconn server port numidle\n");
}
