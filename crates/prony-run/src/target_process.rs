//! A target server that is started for a block of load, with all its processes.
//!
//! A guard starts the command, and adopts its descendants whose parents end: those that fork, call
//! setsid or leave their process group stay below the guard, where prony finds and ends them. The
//! guard's process group is its own: Ctrl-C is for prony. A process of the guard waits for the end
//! of prony and then ends all of them, so that no server outlives a prony that was killed.
//!
//! The address must be free before the start, and what listens there afterwards must belong to a
//! process below the guard; if that is not known, [`TargetProcess::doubt`] says so.

mod listener;
mod tree;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_base::units::Span;
use prony_plan::plan::Plan;
use prony_plan::target::Endpoint;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Error;
use listener::Owner;
pub use tree::cpu_of_process;

/// Where the number of a free port stands in commands and URLs.
pub const PORT: &str = "{port}";
/// The time between attempts to connect.
const RETRY: Duration = Duration::from_millis(10);
/// How long a server may take to end after SIGTERM.
const END: Duration = Duration::from_secs(5);
/// The same when the user waits for prony.
const END_SOON: Duration = Duration::from_secs(1);
/// How long its processes may take to disappear after SIGKILL.
const KILLED: Duration = Duration::from_secs(1);
/// How much of a server's output an error shows.
const SHOWN_LINES: usize = 20;
const SHOWN_BYTES: u64 = 16 << 10;

/// The guard. First it starts the process that waits for the end of prony, which closes the pipe;
/// that process then ends the guard's children until there are none, as these are also the orphans
/// of those that have ended; the guard itself must survive the end of prony until then. Its number
/// goes to prony, like the exit status of the command.
const GUARD: &str = r#"exec 3<&0 </dev/null 4>&1 >&2
trap : PIPE
{
  cat <&3 >/dev/null 2>&1
  read me rest </proc/self/stat
  turns=0
  while [ $turns -lt 200 ]; do
    others=
    for child in $(cat /proc/$$/task/$$/children 2>/dev/null); do
      [ "$child" = "$me" ] || others="$others $child"
    done
    [ -n "$others" ] || break
    kill -KILL $others 2>/dev/null
    turns=$((turns + 1))
    sleep 0.01
  done
  kill -KILL 0
} 4>&- &
echo $! >&4
sh -c "$1" 3<&- 4>&-
echo $? >&4
exec 4>&-
wait"#;

/// The guards that run, for [`kill_all`].
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub struct TargetProcess {
    command: String,
    guard: Child,
    group: Pid,
    /// The process that waits for the end of prony.
    watcher: Option<i32>,
    /// Closed with prony.
    _alive: Option<ChildStdin>,
    /// What the guard says.
    says: Option<BufReader<ChildStdout>>,
    /// The exit status of the command, once it has ended.
    status: Option<i32>,
    output: File,
    /// How long it may take to end.
    patience: Duration,
}

impl TargetProcess {
    /// Starts the command with a shell, for this plan, whose addresses must be free; [`PORT`] in it
    /// becomes `port`.
    ///
    /// # Errors
    /// It cannot be started, or somebody else listens there.
    pub fn start(command: &str, port: u16, plan: &Plan) -> Result<Self, Error> {
        check_free(plan)?;
        let command = command.replace(PORT, &port.to_string());
        let failed = |why: io::Error| Error::Server(format!("'{command}' cannot start: {why}"));
        let output = scratch_file().map_err(failed)?;
        let mut guard = Command::new("sh");
        guard
            .args(["-c", GUARD, "sh", &command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output.try_clone().map_err(failed)?);
        std::os::unix::process::CommandExt::process_group(&mut guard, 0);
        prony_io::adopt_orphans(&mut guard);
        let mut guard = guard.spawn().map_err(failed)?;
        let alive = guard.stdin.take();
        let group = Pid::from_child(&guard);
        running().push(group);
        let mut says = guard.stdout.take().map(BufReader::new);
        let mut line = String::new();
        // It comes at once, or the pipe is closed.
        let read = says.as_mut().map(|says| says.read_line(&mut line));
        let watcher = line.trim().parse().ok();
        if let (Some(Ok(_)), Some(says)) = (read, &says) {
            rustix::io::ioctl_fionbio(says.get_ref(), true).map_err(|e| failed(e.into()))?;
        }
        let (status, patience) = (None, END);
        Ok(Self { command, guard, group, watcher, _alive: alive, says, status, output, patience })
    }

    /// Waits until all endpoints of the plan accept connections. Returns false if `is_stopped` says
    /// so before.
    ///
    /// # Errors
    /// The server ends, or does not accept in time: what it printed last.
    pub fn wait_until_ready(
        &mut self,
        plan: &Plan,
        timeout: Span,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let begun = Instant::now();
        let limit = Duration::from_nanos(timeout.0);
        for endpoint in &plan.endpoints {
            while !listener::accepts(endpoint) {
                if is_stopped() {
                    return Ok(false);
                }
                if let Some(status) = self.ended() {
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
        Ok(true)
    }

    /// Why it is not known whether the load reaches the server that was started, if so.
    pub fn doubt(&self, plan: &Plan) -> Option<String> {
        let started: BTreeSet<i32> = self.processes().iter().map(|process| process.pid).collect();
        plan.endpoints.iter().find_map(|endpoint| {
            let place = endpoint_name(endpoint);
            let why = match listener::owner(endpoint, &started) {
                Owner::Started => return None,
                Owner::Other(name) => {
                    format!("{name} listens at {place}, and '{}' did not start it", self.command)
                }
                Owner::Unknown(why) => format!("of {place}, {why}"),
            };
            Some(format!(
                "It is not known whether each block measured the server that was started for it: \
                 {why}."
            ))
        })
    }

    /// An error if the server has ended by itself.
    ///
    /// # Errors
    /// It has: what it printed last.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.ended() {
            Some(status) => Err(self.error(&format!("ended during the load ({status})"))),
            None => Ok(()),
        }
    }

    /// CPU time of all processes of the server so far.
    pub fn cpu(&self) -> Option<Span> {
        tree::cpu(self.group.as_raw_nonzero().get())
    }

    /// The user waits for prony: the server is to end soon.
    pub fn hurry(&mut self) {
        self.patience = END_SOON;
    }

    /// Ends all processes of the server. Returns a sentence about those that are left.
    pub fn end(mut self) -> Option<String> {
        self.finish();
        let left = self.processes();
        let first = left.first()?;
        Some(format!("{} of '{}' could not be ended.", tree::name(first.pid), self.command))
    }

    /// The processes of the server: all below the guard but its own.
    fn processes(&self) -> Vec<tree::Process> {
        tree::below(self.group.as_raw_nonzero().get(), self.watcher)
    }

    /// How the server has ended, if it has: the command has failed, or nothing of it is left. A
    /// command that succeeds may leave a server behind.
    fn ended(&mut self) -> Option<String> {
        if self.status.is_none() {
            let mut line = String::new();
            let read = self.says.as_mut().map(|says| says.read_line(&mut line));
            match read {
                // Not yet.
                Some(Err(_)) => return None,
                // Without a line, the guard was killed.
                _ => self.status = Some(line.trim().parse().unwrap_or(-1)),
            }
        }
        let status = self.status?;
        if status == 0 && !self.processes().is_empty() {
            return None;
        }
        Some(match status {
            -1 => "killed".to_owned(),
            129.. => format!("signal {}", status - 128),
            _ => format!("exit status {status}"),
        })
    }

    /// Ends all: by SIGTERM, and what is left then by SIGKILL, with what it has started meanwhile.
    fn finish(&mut self) {
        tree::signal(&self.processes(), Signal::TERM);
        self.wait_for_end(self.patience, None);
        self.wait_for_end(KILLED, Some(Signal::KILL));
        // The guard last: without it, orphans would get lost.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.guard.wait();
        running().retain(|group| *group != self.group);
    }

    fn wait_for_end(&self, limit: Duration, signal: Option<Signal>) {
        let begun = Instant::now();
        loop {
            let processes = self.processes();
            if processes.is_empty() || begun.elapsed() >= limit {
                return;
            }
            if let Some(signal) = signal {
                tree::signal(&processes, signal);
            }
            thread::sleep(RETRY);
        }
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
        if running().contains(&self.group) {
            self.finish();
        }
    }
}

/// Refuses a plan whose addresses are in use. The server of the last block may need a moment to
/// give them back.
fn check_free(plan: &Plan) -> Result<(), Error> {
    let begun = Instant::now();
    for endpoint in plan.endpoints.iter().filter(|endpoint| listener::can_be_free(endpoint)) {
        while let Some(name) = listener::in_use(endpoint) {
            if begun.elapsed() >= KILLED {
                return Err(Error::Server(format!(
                    "{name} listens at {} before the server is started: end it, or write {PORT} in \
                     the command and in the URL",
                    endpoint_name(endpoint)
                )));
            }
            thread::sleep(RETRY);
        }
    }
    Ok(())
}

fn running() -> std::sync::MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all servers at once, for a prony that ends without dropping them. The guards' watchers end
/// what is left.
pub(crate) fn kill_all() {
    // A lock that is held by the thread that ends must not keep it.
    if let Ok(guards) = RUNNING.try_lock() {
        for guard in guards.iter() {
            tree::signal(&tree::below(guard.as_raw_nonzero().get(), None), Signal::KILL);
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

/// An endpoint as users know it.
pub(crate) fn endpoint_name(endpoint: &Endpoint) -> String {
    match endpoint.transport() {
        Endpoint::Tcp { host, port } | Endpoint::Inet { host, port, .. } => {
            format!("{host}:{port}")
        }
        Endpoint::Unix { path } | Endpoint::UnixSeqpacket { path } => path.clone(),
        Endpoint::Tls { .. } => "its address".to_owned(),
    }
}

/// A file without a name, which disappears when it is closed.
fn scratch_file() -> io::Result<File> {
    tempfile::tempfile().or_else(|_| OpenOptions::new().read(true).write(true).open("/dev/null"))
}

#[cfg(test)]
mod tests;
