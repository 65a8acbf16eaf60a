//! `idleconn`: open connections to a server, keep them and say nothing; one that the server ends is
//! opened again. To see what a server makes of many that only wait.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prony_run::interrupt;
use prony_run::output::{to_stderr, to_stdout};
use rustix::event::epoll;

use super::{Call, printf};

/// What the old program ends with when it is called wrongly.
const WRONG: u8 = 255;
/// Between two attempts at a server that refuses.
const PAUSE: Duration = Duration::from_secs(1);

/// Run until somebody ends it.
pub(super) fn main(call: &Call) -> u8 {
    match Wanted::read(call).and_then(|wanted| wanted.keep()) {
        Ok(never) => match never {},
        Err(sentence) => {
            to_stderr(&sentence);
            WRONG
        }
    }
}

/// A value that there cannot be: the program ends by a signal.
enum Never {}

#[derive(Debug, PartialEq)]
struct Wanted {
    program: String,
    server: SocketAddr,
    connections: usize,
}

impl Wanted {
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
        let theirs = Arc::clone(&counts);
        let begun = Instant::now();
        interrupt::catch(0, 1, move |_| say(&theirs.told(&program, begun.elapsed())))
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
                // The old one goes before its place is taken; with it goes its registration.
                streams[index].shutdown(std::net::Shutdown::Both).ok();
                epoll::delete(&poll, &streams[index])?;
                counts.closed.fetch_add(1, Ordering::Relaxed);
                streams[index] = open(index)?;
            }
        }
    }

    /// A connection, however long that takes.
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
    fn told(&self, program: &str, time: Duration) -> String {
        let created = self.created.load(Ordering::Relaxed);
        let rate = self.closed.load(Ordering::Relaxed) as f64 / time.as_secs_f64().max(1e-6);
        let rate = printf::general(rate);
        format!("{program}: total # conn. created = {created}, close() rate = {rate} conn/sec")
    }
}

/// A reader that has gone away is no reason to end.
fn say(line: &str) {
    drop(to_stdout(format!("{line}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn read(line: &str) -> Result<Wanted, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Wanted::read(&Call {
            tool: "idleconn",
            program: "idleconn".to_owned(),
            typed: args.clone(),
            args,
        })
    }

    #[test]
    fn three_words_are_wanted() {
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
        let wanted = read("[::1] 80 7").expect("an address");
        assert_eq!((wanted.server.to_string().as_str(), wanted.connections), ("[::1]:80", 7));
    }
}
