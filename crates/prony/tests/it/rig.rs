//! Starts and stops the programs of a test, each with a time limit.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use crate::installed::have;
pub(crate) use crate::reserved::reserved_port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The time limit of a command.
const LIMIT: Duration = Duration::from_secs(90);

thread_local! {
    /// Whether the test of this thread has a turn.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
    /// The turn of a test that starts a program, until the end of its thread.
    static TURN: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Waits for the turn of this test in one of the three queues of tests.
fn turn(queue: &'static Mutex<()>) -> MutexGuard<'static, ()> {
    HAS_TURN.set(true);
    // Not in two queues at once.
    TURN.take();
    // A failed test poisons the lock; the others continue.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serializes tests that load the machine or measure times.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    turn(&ALONE)
}

/// Serializes tests that load the machine a little, and mostly wait. They run beside others.
pub(crate) fn waiting() -> MutexGuard<'static, ()> {
    static WAITING: Mutex<()> = Mutex::new(());
    turn(&WAITING)
}

/// Serializes all other tests that start a program, so that there may be as many threads as keep
/// each queue busy.
fn in_turn() {
    static OTHERS: Mutex<()> = Mutex::new(());
    // A thread without a name was started by a test.
    if !HAS_TURN.get() && thread::current().name().is_some() {
        let turn = turn(&OTHERS);
        TURN.set(Some(turn));
    }
}

/// Runs the function for all items in parallel, each in a thread.
pub(crate) fn side_by_side<T: Send>(all: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    thread::scope(|scope| all.into_iter().for_each(|one| drop(scope.spawn(move || test(one)))));
}

/// Waits for a condition, for as long as a slow machine may need.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether to run tests at full length.
pub(crate) fn slow() -> bool {
    std::env::var_os("SLOW").is_some()
}

/// The drivers that this kernel allows: epoll, and io_uring if it is not disabled.
pub(crate) fn drivers() -> Vec<&'static str> {
    let server = Serve::start(&[]);
    let tried = prony(&["--driver", "uring", "-c", "1", "-n", "1", &server.url("/")]);
    if tried.code == 2 {
        eprintln!("io_uring is not tested: {}", tried.stderr.trim());
        return vec!["epoll"];
    }
    vec!["epoll", "uring"]
}

/// The binary under test, with a clean environment.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
    command.args(args).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS", "LANG", "LC_ALL"] {
        command.env_remove(name);
    }
    // Reports of tests must not refer to a self-test of this machine.
    command.env("XDG_STATE_HOME", "/nowhere");
    command
}

/// The result of a run of the binary.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The report of a run with `--json`.
    pub(crate) fn report(&self) -> Report {
        let json = serde_json::from_str(&self.stdout);
        Report(json.unwrap_or_else(|e| panic!("no JSON on stdout ({e}): {self:?}")))
    }
}

/// Runs the binary.
pub(crate) fn prony(args: &[&str]) -> Ended {
    Running::start(args).wait()
}

/// Runs the binary with `--json`; the run must be valid.
pub(crate) fn measure(args: &[&str]) -> Report {
    let ended = prony(&[args, &["--json", "--quiet", "--accept-invalid"]].concat());
    assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
    ended.report()
}

/// The running binary, which is killed on drop.
pub(crate) struct Running {
    child: Child,
    args: String,
    begun: Instant,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::of(command(args), args)
    }

    /// Starts a command that the test has configured.
    pub(crate) fn of(mut command: Command, args: &[&str]) -> Self {
        in_turn();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the binary starts");
        Self { child, args: format!("{args:?}"), begun: Instant::now() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(&self.child, signal);
    }

    /// Waits until the binary prints this line to standard error. Later output is left to `wait`.
    pub(crate) fn reported(&mut self, line: &str) {
        self.reported_any(|read| (read == line).then_some(()));
    }

    /// Waits until something is found in a line that the binary prints to standard error, or in its
    /// beginning, and returns it. A whole line ends with its line feed.
    pub(crate) fn reported_any<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> T {
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        let (mut all, mut begin, mut byte) = (String::new(), 0, [0]);
        let deadline = Instant::now() + LIMIT;
        loop {
            if !is_readable(stderr, deadline) {
                panic!("{}: a line was not reported within {LIMIT:?}: {all}", self.args);
            }
            if let Err(e) = stderr.read_exact(&mut byte) {
                panic!("{}: a line was not reported ({e}): {all}", self.args);
            }
            all.push(byte[0].into());
            if let Some(found) = find(&all[begin..]) {
                return found;
            }
            if byte == *b"\n" {
                begin = all.len();
            }
        }
    }

    pub(crate) fn wait(mut self) -> Ended {
        // Read in a thread: a full pipe would block the child.
        let mut stdout = self.child.stdout.take().expect("a pipe");
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let out = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let err = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let status = self.exit_status();
        let text = |t: thread::JoinHandle<std::io::Result<String>>| {
            t.join().expect("no panic").expect("text")
        };
        let (stdout, stderr) = (text(out), text(err));
        let code = status.code().unwrap_or_else(|| panic!("{}: {status}: {stderr}", self.args));
        Ended { code, stdout, stderr }
    }

    fn exit_status(&mut self) -> ExitStatus {
        while self.begun.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{} did not end within {LIMIT:?}", self.args);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// `prony serve` on a free port.
pub(crate) struct Serve {
    child: Child,
    stderr: BufReader<ChildStderr>,
    url: String,
}

impl Serve {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::at("127.0.0.1:0", args)
    }

    /// Starts the server on this address.
    pub(crate) fn at(address: &str, args: &[&str]) -> Self {
        in_turn();
        let mut command = command(&[&["serve", address, "--json"], args].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let Some(url) = line.trim().strip_prefix("listening on ") else {
            end(&mut child);
            panic!("the server did not start: {line}");
        };
        Self { url: url.to_owned(), child, stderr }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The number of open files without a connection. Sends a request first, after which the server
    /// has opened its own files.
    pub(crate) fn descriptors_when_idle(&self) -> usize {
        let port = self.url.rsplit_once(':').expect("a port").1.parse().expect("a number");
        assert!(fetch(port, "/").starts_with("HTTP/1.1"));
        // Wait for the close of this connection.
        let mut seen = Vec::new();
        wait_until("the connection's end", || {
            thread::sleep(Duration::from_millis(20));
            seen.push(descriptors(self.pid()));
            seen.len() > 10 && seen[seen.len() - 10..].iter().all(|n| *n == seen[seen.len() - 1])
        });
        seen.pop().flatten().expect("the server runs")
    }

    /// Stops the server, and returns its counters.
    pub(crate) fn stop(mut self) -> Value {
        kill(&self.child, Signal::INT);
        let mut text = String::new();
        self.child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        let status = self.child.wait().expect("a child");
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("text");
        assert!(status.success(), "prony serve: {status}: {rest}");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{rest}"))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Another server program, with its own directory.
pub(crate) struct Other {
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
}

impl Other {
    /// Starts a server with a configuration file (with `@PORT@` and `@DIR@` filled in) after the
    /// arguments, and waits until it listens.
    pub(crate) fn start(program: &str, args: &[&str], config: &str) -> Self {
        in_turn();
        // Another process may take the port in the meantime.
        let mut last = String::new();
        for _ in 0..5 {
            match Self::try_start(program, args, config) {
                Ok(other) => return other,
                Err(log) => last = log,
            }
        }
        panic!("{program}: {last}");
    }

    /// nginx in one process. `http` is the HTTP part of its configuration, without the paths of its
    /// own files.
    pub(crate) fn nginx(http: &str) -> Self {
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|name| format!("{name}_temp_path @DIR@/{name};\n")).concat();
        let config = format!(
            "daemon off; master_process off; pid @DIR@/pid; error_log @DIR@/error.log info;\n\
             events {{ worker_connections 1024; }}\nhttp {{\n{paths}{http}}}\n"
        );
        Self::start("nginx", &["-p", "@DIR@", "-e", "@DIR@/error.log", "-c"], &config)
    }

    fn try_start(program: &str, args: &[&str], config: &str) -> Result<Self, String> {
        let folder = TempDir::new().expect("a folder");
        let port = reserved_port();
        let dir = folder.path().to_str().expect("a path in UTF-8");
        let config = config.replace("@PORT@", &port.to_string()).replace("@DIR@", dir);
        let file = folder.path().join("config");
        fs::write(&file, config).expect("a file");
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let child = Command::new(program)
            .env("PATH", path)
            .args(args.iter().map(|a| a.replace("@DIR@", dir)))
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}"));
        let mut other = Self { child, folder, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = other.child.try_wait().expect("a child");
            let log = fs::read_to_string(other.file("log")).unwrap_or_default();
            if ended.is_some() {
                return Err(format!("{ended:?}: {log}"));
            }
            assert!(begun.elapsed() < LIMIT, "{program} does not listen: {log}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(other)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        kill(&self.child, Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        end(&mut self.child);
    }
}

/// Waits until something can be read, or the pipe is closed. `false` if the time is over.
fn is_readable(pipe: &ChildStderr, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut polled, Some(&left)).is_ok_and(|ready| ready > 0)
}

/// Sends one request, and returns the whole reply.
pub(crate) fn fetch(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// The number of open files of a process.
pub(crate) fn descriptors(pid: u32) -> Option<usize> {
    fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).ok().map(Iterator::count)
}

/// The number of sockets of a process and of its children: of workers on other hosts, too.
pub(crate) fn sockets(pid: u32) -> usize {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    let own = links.filter(|link| link.to_string_lossy().starts_with("socket:")).count();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: String = children.collect();
    own + children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(sockets).sum::<usize>()
}

/// The number of files that a child process has open at its start: at least three.
pub(crate) fn inherited_descriptors() -> usize {
    let list = Command::new("ls").arg("/proc/self/fd").stdin(Stdio::null()).output();
    let list = String::from_utf8(list.expect("ls").stdout).expect("numbers");
    // One of them is the directory that it reads.
    list.lines().count() - 1
}

pub(crate) fn kill(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    // It may have exited.
    let _ = kill_process(pid, signal);
}

fn end(child: &mut Child) {
    drop(child.kill());
    drop(child.wait());
}

/// A JSON report.
#[derive(Debug)]
pub(crate) struct Report(pub(crate) Value);

impl Report {
    /// A counter of the measurement.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let value = &self.0["measurement"]["tally"][name];
        value.as_u64().unwrap_or_else(|| panic!("{name} is {value}"))
    }

    /// The number of requests that failed with this error.
    pub(crate) fn errors(&self, name: &str) -> u64 {
        let all = self.0["measurement"]["errors"].as_array().expect("a list");
        let found = all.iter().find(|e| e["error"] == name);
        found.map_or(0, |e| e["requests"].as_u64().expect("a count"))
    }

    /// The number of complete replies with this status.
    pub(crate) fn status(&self, status: u16) -> u64 {
        self.0["measurement"]["tally"]["statuses"][status.to_string()].as_u64().unwrap_or(0)
    }

    /// A figure of a distribution in milliseconds: `ms("response", "p99")`.
    pub(crate) fn ms(&self, times: &str, figure: &str) -> f64 {
        let value = &self.0["measurement"]["times"][times][format!("{figure}_ns")];
        value.as_f64().unwrap_or_else(|| panic!("{times} {figure} is {value}")) / 1e6
    }

    pub(crate) fn verdict(&self) -> &str {
        self.0["verdict"]["verdict"].as_str().expect("a word")
    }

    /// Checks that each request has exactly one result.
    pub(crate) fn check_sums(&self) {
        let ends = self.count("replies") + self.count("failed") + self.count("unfinished");
        assert_eq!(self.count("started"), ends, "{:#}", self.0["measurement"]["errors"]);
        let all = self.0["measurement"]["errors"].as_array().expect("a list");
        let failed: u64 = all.iter().map(|e| e["requests"].as_u64().expect("a count")).sum();
        assert_eq!(self.count("failed"), failed);
        let timeouts = self.errors("request-timeout") + self.errors("connect-timeout");
        let recorded = &self.0["measurement"]["times"]["response"]["count"];
        assert_eq!(recorded.as_u64(), Some(self.count("replies") + timeouts));
    }
}

/// A counter of the server.
pub(crate) fn served(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("{name} is {}", counters[name]))
}
