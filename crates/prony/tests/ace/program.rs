//! Runs prony's versions of the ACE tests, by their names and with a time limit.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of a run, ten times as long as needed.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The program under an old name, through a link in the current directory.
pub(crate) fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
    command.arg0(format!("./{name}")).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("POSIXLY_CORRECT");
    command
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The number after a field's name in a histogram.
    pub(crate) fn field(&self, name: &str) -> f64 {
        let line = self.stdout.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
        let value = line.unwrap_or_else(|| panic!("no {name}: {self:?}"));
        value.parse().unwrap_or_else(|e| panic!("{name}: {e}: {self:?}"))
    }

    /// Assert that the run is complete and has this number of iterations.
    pub(crate) fn assert_whole(&self, iterations: u32, size: u32) {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        let title = format!("(Message Size {size}, Message Type octet)");
        assert!(self.stdout.contains(&title), "{self:?}");
        assert_eq!(self.field("num_points"), f64::from(iterations));
        assert!(self.field("minimum") > 0.0 && self.field("mean") <= self.field("maximum"));
    }
}

/// Run a program to its end.
pub(crate) fn run(name: &str, args: &[&str]) -> Ended {
    finish(program(name, args))
}

pub(crate) fn run_in(folder: &Path, name: &str, args: &[&str]) -> Ended {
    let mut command = program(name, args);
    command.current_dir(folder);
    finish(command)
}

fn finish(mut command: Command) -> Ended {
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.expect("a pipe").read_to_end(&mut bytes).expect("readable");
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(out.map(|p| Box::new(p) as _));
    let err = read(err.map(|p| Box::new(p) as _));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if begun.elapsed() > LIMIT {
            drop(child.kill());
            panic!("{command:?} is not over after {LIMIT:?}: {:?}", err.join());
        }
        thread::sleep(Duration::from_millis(2));
    };
    let text = |t: thread::JoinHandle<String>| t.join().expect("no panic");
    Ended { code: status.code(), stdout: text(out), stderr: text(err) }
}

/// A running server, which is killed on drop.
pub(crate) struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) port: u16,
}

impl Server {
    /// Start a server on a free port.
    pub(crate) fn start(name: &str, args: &[&str]) -> Self {
        Self::spawn(program(name, &[&["-p", "0"], args].concat()))
    }

    /// Start a server with this command line, and wait until it listens.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|n| n > 0) {
                seen.lock().expect("no panic").push(line.trim_end().to_owned());
                line.clear();
            }
        });
        let mut server = Self { child, lines, port: 0 };
        let begun = Instant::now();
        while server.port == 0 {
            let ended = server.child.try_wait().expect("a child");
            let said = server.said();
            assert!(ended.is_none() && begun.elapsed() < LIMIT, "{command:?}: {ended:?}: {said:?}");
            server.port = said.iter().find_map(|l| port_in(l)).unwrap_or(0);
            thread::sleep(Duration::from_millis(2));
        }
        server
    }

    /// Its output so far, without process numbers.
    pub(crate) fn said(&self) -> Vec<String> {
        let id = self.child.id();
        let own = format!("({id}|{id}) ");
        let lines = self.lines.lock().expect("no panic");
        lines
            .iter()
            .map(|l| l.strip_prefix(&own).map_or_else(|| l.clone(), |l| format!("(P|T) {l}")))
            .collect()
    }

    /// Wait until it has printed a line that contains this text.
    pub(crate) fn wait_for(&self, part: &str) {
        let begun = Instant::now();
        while !self.said().iter().any(|l| l.contains(part)) {
            assert!(begun.elapsed() < LIMIT, "never {part:?}: {:?}", self.said());
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }
}

/// The port in the line of a server, or of `prony echo`.
fn port_in(line: &str) -> Option<u16> {
    if let Some(places) = line.strip_prefix("listening on ") {
        return places.rsplit(':').next()?.parse().ok();
    }
    let rest = line.split_once("starting server at port ").map(|(_, rest)| rest);
    let seqpack = || line.split_once("using IPPROTO_SCTP on port ").map(|(_, rest)| rest);
    let text = rest.or_else(seqpack)?;
    text.split(' ').next()?.parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
