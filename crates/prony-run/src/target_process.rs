//! A target server that is started for a block of load, with all its processes.
//!
//! The command runs in a process group of its own: Ctrl-C is for prony, which ends the group. A
//! process of the group waits for the end of prony and then ends the group, so that no server
//! outlives a prony that was killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_core::plan::Plan;
use prony_core::target::Endpoint;
use prony_core::units::Span;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Error;

/// Where the number of a free port stands in commands and URLs.
pub const PORT: &str = "{port}";
/// The time between attempts to connect.
const RETRY: Duration = Duration::from_millis(10);
/// The timeout of an attempt.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a server may take to end after SIGTERM.
const END: Duration = Duration::from_secs(5);
/// How long its processes may take to disappear after SIGKILL.
const KILLED: Duration = Duration::from_secs(1);
/// How much of a server's output an error shows.
const SHOWN_LINES: usize = 20;
const SHOWN_BYTES: u64 = 16 << 10;
/// The ticks of the CPU time of a process per second, on every Linux but those of Alpha and IA-64.
const TICKS: u64 = 100;

/// Waits for the end of prony, which closes the pipe; then the command runs in its place, without
/// the pipe.
const GUARDED: &str = "exec 3<&0 </dev/null; { cat <&3 >/dev/null 2>&1; kill -KILL 0; } & \
                       exec 3<&-; exec sh -c \"$1\"";

/// The process groups that run, for [`kill_all`].
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub struct TargetProcess {
    command: String,
    child: Child,
    group: Pid,
    /// Closed with prony.
    _alive: Option<ChildStdin>,
    output: File,
}

impl TargetProcess {
    /// Starts the command with a shell; [`PORT`] in it becomes `port`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &str, port: u16) -> Result<Self, Error> {
        let command = command.replace(PORT, &port.to_string());
        let failed = |why: io::Error| Error::Server(format!("'{command}' cannot start: {why}"));
        let output = scratch_file().map_err(failed)?;
        let mut child = Command::new("sh")
            .args(["-c", GUARDED, "sh", &command])
            .stdin(Stdio::piped())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output.try_clone().map_err(failed)?)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let alive = child.stdin.take();
        let group = Pid::from_child(&child);
        running().push(group);
        Ok(Self { command, child, group, _alive: alive, output })
    }

    /// Waits until all endpoints of the plan accept connections.
    ///
    /// # Errors
    /// The server ends, or does not accept in time: what it printed last.
    pub fn wait_until_ready(&mut self, plan: &Plan, timeout: Span) -> Result<(), Error> {
        let begun = Instant::now();
        let limit = Duration::from_nanos(timeout.0);
        for endpoint in &plan.endpoints {
            while !accepts(endpoint) {
                if let Ok(Some(status)) = self.child.try_wait() {
                    return Err(self.error(&format!("ended before it was ready ({status})")));
                }
                if begun.elapsed() >= limit {
                    let why = format!(
                        "did not accept connections at {} within {timeout}",
                        endpoint_name(endpoint)
                    );
                    return Err(self.error(&why));
                }
                thread::sleep(RETRY);
            }
        }
        Ok(())
    }

    /// An error if the server has ended by itself.
    ///
    /// # Errors
    /// It has: what it printed last.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(self.error(&format!("ended during the load ({status})"))),
            _ => Ok(()),
        }
    }

    /// CPU time of all processes of the server so far.
    pub fn cpu(&self) -> Option<Span> {
        cpu_of_group(self.group.as_raw_nonzero().get())
    }

    fn error(&mut self, why: &str) -> Error {
        let output = self.printed();
        let output = if output.is_empty() {
            "it printed nothing".to_owned()
        } else {
            format!("it printed: {output}")
        };
        Error::Server(format!("the server '{}' {why}; {output}", self.command))
    }

    /// The last lines of its output, in one line.
    fn printed(&mut self) -> String {
        let length = self.output.seek(SeekFrom::End(0)).unwrap_or(0);
        let from = length.saturating_sub(SHOWN_BYTES);
        let mut bytes = Vec::new();
        // What cannot be read is not shown.
        let _ = self.output.seek(SeekFrom::Start(from));
        let _ = self.output.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" | ")
    }
}

impl Drop for TargetProcess {
    fn drop(&mut self) {
        // The group may be gone.
        let _ = kill_process_group(self.group, Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < END && !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            thread::sleep(RETRY);
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        // The others end at the same time, but nobody waits for them.
        let begun = Instant::now();
        while begun.elapsed() < KILLED && self.cpu().is_some() {
            thread::sleep(RETRY);
        }
        running().retain(|group| *group != self.group);
    }
}

fn running() -> std::sync::MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all servers at once, for a prony that ends without dropping them.
pub(crate) fn kill_all() {
    // A lock that is held by the thread that ends must not keep it.
    if let Ok(groups) = RUNNING.try_lock() {
        for group in groups.iter() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

/// A free TCP port of the loopback address.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, Error> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    port.map(|address| address.port())
        .map_err(|why| Error::Machine(format!("there is no free port: {why}")))
}

/// The plan with another port of its endpoints and in its Host headers.
#[must_use]
pub fn with_port(plan: &Plan, from: u16, to: u16) -> Plan {
    let mut plan = plan.clone();
    for endpoint in &mut plan.endpoints {
        let name = endpoint.tls_name().map(str::to_owned);
        if let Endpoint::Tcp { host, port } = endpoint.transport()
            && *port == from
        {
            let moved = Endpoint::Tcp { host: host.clone(), port: to };
            *endpoint = match name {
                Some(name) => moved.secured(&name),
                None => moved,
            };
        }
    }
    let (old, new) = (format!(":{from}"), format!(":{to}"));
    let mut calls = plan.calls.to_vec();
    for call in &mut calls {
        if let Some(host) = call.authority.strip_suffix(&old) {
            call.authority = format!("{host}{new}").into();
        }
    }
    plan.calls = calls.into();
    plan
}

/// CPU time (user and system) of a process, with its ended threads.
pub fn cpu_of_process(pid: u32) -> Option<Span> {
    stat(&format!("/proc/{pid}/stat")).map(|(_, cpu)| cpu)
}

/// The same of all living processes of a group, and of their children that have ended.
fn cpu_of_group(group: i32) -> Option<Span> {
    let mut all = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let is_process = name.to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        if is_process
            && let Some((of, cpu)) = stat(&entry.path().join("stat").to_string_lossy())
            && of == group
        {
            all = Some(all.unwrap_or(Span::ZERO) + cpu);
        }
    }
    all
}

/// The process group and the CPU time in a line of `/proc/PID/stat`.
fn stat(path: &str) -> Option<(i32, Span)> {
    let text = fs::read_to_string(path).ok()?;
    // The name of the program may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // One that has ended, and that nobody has waited for.
    if fields.first() == Some(&"Z") {
        return None;
    }
    let group = fields.get(2)?.parse().ok()?;
    let ticks = |i: usize| fields.get(i)?.parse::<u64>().ok();
    // User and system time, and those of children that were waited for.
    let ticks = (11..15).map(ticks).sum::<Option<u64>>()?;
    Some((group, Span(ticks * (1_000_000_000 / TICKS))))
}

fn accepts(endpoint: &Endpoint) -> bool {
    match endpoint.transport() {
        Endpoint::Tcp { host, port } => {
            let addresses = (host.as_str(), *port).to_socket_addrs();
            addresses
                .is_ok_and(|mut all| all.any(|a| TcpStream::connect_timeout(&a, CONNECT).is_ok()))
        }
        Endpoint::Unix { path } => UnixStream::connect(path).is_ok(),
        // Nothing to wait for.
        _ => true,
    }
}

fn endpoint_name(endpoint: &Endpoint) -> String {
    match endpoint.transport() {
        Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        Endpoint::Unix { path } => path.clone(),
        _ => "its address".to_owned(),
    }
}

/// A file without a name, which disappears when it is closed.
fn scratch_file() -> io::Result<File> {
    tempfile::tempfile().or_else(|_| OpenOptions::new().read(true).write(true).open("/dev/null"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    fn plan(port: u16) -> Plan {
        plan_file::tests::plan(&format!("url = 'http://127.0.0.1:{port}/'\nrequests = 1"))
    }

    fn seconds(n: u64) -> Span {
        Span::from_secs(n)
    }

    fn is_alive(group: Pid) -> bool {
        cpu_of_group(group.as_raw_nonzero().get()).is_some()
    }

    #[test]
    fn a_server_that_ends_is_an_error_with_its_output() {
        let port = free_port().expect("a port");
        let command = "echo no such option: --port {port} >&2; exit 3";
        let mut server = TargetProcess::start(command, port).expect("a shell");
        let error = server.wait_until_ready(&plan(port), seconds(20)).expect_err("it ended");
        let text = error.to_string();
        let wanted = format!("it printed: no such option: --port {port}");
        assert!(text.contains("ended before it was ready") && text.contains(&wanted), "{text}");
    }

    #[test]
    fn a_server_that_never_listens_is_an_error_and_ends() {
        let port = free_port().expect("a port");
        let mut server = TargetProcess::start("sleep 1000 & sleep 1000", port).expect("a shell");
        let group = server.group;
        let error = server.wait_until_ready(&plan(port), Span::from_millis(50));
        let text = error.expect_err("nothing listens").to_string();
        assert!(
            text.contains(&format!("did not accept connections at 127.0.0.1:{port}")),
            "{text}"
        );
        assert!(is_alive(group));
        drop(server);
        assert!(!is_alive(group), "no process is left");
    }

    #[test]
    fn a_server_is_ready_when_it_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut server = TargetProcess::start("sleep 1000", port).expect("a shell");
        server.wait_until_ready(&plan(port), seconds(20)).expect("it accepts");
        server.check().expect("it runs");
        assert!(server.cpu().is_some());
    }

    #[test]
    fn a_plan_moves_to_another_port() {
        let moved = with_port(&plan(8080), 8080, 9090);
        assert_eq!(moved.endpoints, plan(9090).endpoints);
        assert_eq!(moved.calls.to_vec(), plan(9090).calls.to_vec());
        assert_eq!(with_port(&plan(8080), 80, 9090), plan(8080));
    }

    #[test]
    fn cpu_time_of_this_process_grows() {
        let before = cpu_of_process(std::process::id()).expect("its statistics");
        let begun = Instant::now();
        let mut n = 0_u64;
        while cpu_of_process(std::process::id()).expect("its statistics") <= before {
            n = std::hint::black_box(n + 1);
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    }
}
