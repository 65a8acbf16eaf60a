//! `idleconn`: opens idle connections to a server and keeps them open. A connection that the server
//! closes is opened again. Shows how a server copes with many idle connections.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prony_run::interrupt;
use prony_run::output::{lines_to_stderr, to_stdout};
use rustix::event::epoll;

use super::{Call, printf};

/// The old program's exit code for invalid arguments.
const WRONG: u8 = 255;
/// The pause between two attempts if the server refuses a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Run until interrupted.
pub(super) fn main(call: &Call) -> u8 {
    match Options::read(call).and_then(|options| options.keep()) {
        Ok(never) => match never {},
        Err(sentence) => {
            lines_to_stderr(&sentence);
            WRONG
        }
    }
}

/// A type without values: only a signal ends the program.
enum Never {}

#[derive(Debug, PartialEq)]
struct Options {
    program: String,
    server: SocketAddr,
    connections: usize,
}

impl Options {
    fn read(call: &Call) -> Result<Self, String> {
        let program = call.program.clone();
        let [server, port, connections] = &call.args[..] else {
            return Err(format!("Usage: {program} server port numidle"));
        };
        let port: u16 = port.parse().map_err(|_| {
            format!("{program}: invalid port `{port}`: a number up to 65535 is expected")
        })?;
        let connections = connections.parse().map_err(|_| {
            format!("{program}: invalid numidle `{connections}`: a whole number is expected")
        })?;
        let host = server.trim_start_matches('[').trim_end_matches(']');
        let address = (host, port).to_socket_addrs().ok().and_then(|mut all| all.next());
        let server =
            address.ok_or_else(|| format!("{program}: invalid server address {server}"))?;
        Ok(Self { program, server, connections })
    }

    fn keep(self) -> Result<Never, String> {
        prony_io::limits::raise_descriptors();
        let connections = self.connections;
        let program = self.program.clone();
        say(&format!("{program}: creating and maintaining {connections} idle connections"));
        let counts = Arc::<Counts>::default();
        let at_the_end = Arc::clone(&counts);
        let start = Instant::now();
        interrupt::catch(0, 1, move |_| say(&at_the_end.line(&program, start.elapsed())))
            .map_err(|e| format!("{}: {e}", self.program))?;
        let failed = |e: io::Error| format!("{}: cannot watch connections: {e}", self.program);
        self.watch(&counts).map_err(failed)
    }

    fn watch(&self, counts: &Counts) -> io::Result<Never> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let open = |index: usize| -> io::Result<TcpStream> {
            let stream = self.connect(counts);
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
            Ok(stream)
        };
        let mut streams = Vec::new();
        for index in 0..self.connections {
            streams.push(open(index)?);
        }
        let mut events = Vec::with_capacity(1024);
        loop {
            events.clear();
            match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                let index = event.data.u64() as usize;
                // Remove the old connection from epoll before its slot is used again.
                streams[index].shutdown(std::net::Shutdown::Both).ok();
                epoll::delete(&poll, &streams[index])?;
                counts.closed.fetch_add(1, Ordering::Relaxed);
                streams[index] = open(index)?;
            }
        }
    }

    /// Open a connection; try until it succeeds.
    fn connect(&self, counts: &Counts) -> TcpStream {
        loop {
            match TcpStream::connect(self.server) {
                Ok(stream) => {
                    counts.created.fetch_add(1, Ordering::Relaxed);
                    return stream;
                }
                Err(e) => {
                    let text = e.to_string();
                    say(&format!("connect: {}", text.split(" (os error").next().unwrap_or("")));
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    created: AtomicU64,
    closed: AtomicU64,
}

impl Counts {
    /// The line that is printed at the end.
    fn line(&self, program: &str, time: Duration) -> String {
        let created = self.created.load(Ordering::Relaxed);
        let rate = self.closed.load(Ordering::Relaxed) as f64 / time.as_secs_f64().max(1e-6);
        let rate = printf::general(rate);
        format!("{program}: total # conn. created = {created}, close() rate = {rate} conn/sec")
    }
}

/// Print a line. A closed standard output does not end the program.
fn say(line: &str) {
    drop(to_stdout(format!("{line}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&Call {
            tool: "idleconn",
            program: "idleconn".to_owned(),
            typed: args.clone(),
            args,
        })
    }

    #[test]
    fn requires_server_port_and_number() {
        let lines =
            ["", "127.0.0.1 80", "127.0.0.1 x 5", "127.0.0.1 80 many", "no-such-host.invalid 80 1"];
        let all: String = lines.map(|l| read(l).expect_err(l) + "\n").concat();
        expect![[r#"
            Usage: idleconn server port numidle
            Usage: idleconn server port numidle
            idleconn: invalid port `x`: a number up to 65535 is expected
            idleconn: invalid numidle `many`: a whole number is expected
            idleconn: invalid server address no-such-host.invalid
        "#]]
        .assert_eq(&all);
        let options = read("[::1] 80 7").expect("an address");
        assert_eq!((options.server.to_string().as_str(), options.connections), ("[::1]:80", 7));
    }
}
