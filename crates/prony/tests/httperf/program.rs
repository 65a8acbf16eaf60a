//! Runs httperf, the original and ours, with a time limit.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) use crate::installed::have;
use crate::text::Printed;

/// The time limit of a run, four times as long as needed.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

/// The program to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The installed httperf.
    Old,
    /// prony under the name httperf.
    Ours,
    /// prony under its own name.
    Prony,
}

/// A command line to run in its own directory.
pub(crate) struct Run {
    args: Vec<String>,
    folder: TempDir,
    signal: Option<(Duration, Signal)>,
    descriptors: Option<u32>,
}

impl Run {
    /// The arguments of httperf, as one text.
    pub(crate) fn new<S: AsRef<str>>(args: &[S]) -> Self {
        let args = args.iter().map(|a| a.as_ref().to_owned()).collect();
        let folder = TempDir::new().expect("a folder");
        Self { args, folder, signal: None, descriptors: None }
    }

    /// Put a file into the directory of the run.
    pub(crate) fn file(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.folder.path().join(name), bytes).expect("a file");
        self
    }

    /// Send a signal after this time.
    pub(crate) fn signal(mut self, after: Duration, signal: Signal) -> Self {
        self.signal = Some((after, signal));
        self
    }

    /// Limit the number of open descriptors.
    pub(crate) fn descriptors(mut self, most: u32) -> Self {
        self.descriptors = Some(most);
        self
    }

    /// A file of the directory, after the run.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn command(&self, which: Which) -> Command {
        let ours = Path::new(env!("CARGO_BIN_EXE_prony"));
        let mut command = match (self.descriptors, which) {
            (None, Which::Old) => Command::new("httperf"),
            (None, Which::Ours) => Command::new(ours),
            (None, Which::Prony) => {
                let mut command = Command::new(ours);
                command.args(&self.args);
                return command;
            }
            (Some(most), which) => {
                let program = if which == Which::Old { "httperf" } else { "prony" };
                let mut command = Command::new("bash");
                let line = format!("ulimit -n {most}; exec -a httperf {program} \"$@\"");
                let dir = ours.parent().expect("a folder").to_str().expect("UTF-8");
                let path = std::env::var("PATH").unwrap_or_default();
                command.args(["-c", &line]).env("PATH", format!("{dir}:{path}"));
                command.arg("bash").args(&self.args);
                return command;
            }
        };
        command.arg0("httperf").args(&self.args);
        command
    }

    /// Run it to its end, or until the time limit.
    pub(crate) fn run(&self, which: Which) -> Ended {
        self.spawn(which).wait(self)
    }

    /// Start it.
    pub(crate) fn spawn(&self, which: Which) -> Running {
        let mut command = self.command(which);
        let child = command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running { child }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Its exit code, or 128 plus the signal that ended it, as in a shell; `None` if it was killed
    /// at the time limit.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    /// The peak of its memory in kB, from samples.
    pub(crate) memory_kb: u64,
}

impl Ended {
    /// The report of a successful run.
    pub(crate) fn report(&self) -> Printed {
        assert_eq!(self.code, Some(0), "{self:?}");
        Printed::parse(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// A running process, which is killed on drop.
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    /// Its output.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("a pipe that was not taken")
    }

    fn wait(mut self, run: &Run) -> Ended {
        let start = Instant::now();
        // Read in a thread: a full pipe would block the child.
        let mut stdout = self.stdout();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let out = thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        });
        let err = thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).map(|_| bytes)
        });
        let (code, memory_kb) = self.code(run, start);
        let took = start.elapsed();
        // Kill it if it is still running, so that its pipes are closed.
        drop(self);
        let text = |thread: thread::JoinHandle<std::io::Result<Vec<u8>>>| {
            let bytes = thread.join().expect("no panic").expect("a pipe");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ended { code, stdout: text(out), stderr: text(err), took, memory_kb }
    }

    fn code(&mut self, run: &Run, start: Instant) -> (Option<i32>, u64) {
        let mut signal = run.signal;
        let mut memory = 0;
        while start.elapsed() < LIMIT {
            memory = memory.max(memory_kb(&self.child).unwrap_or(0));
            if let Some(status) = self.child.try_wait().expect("a child") {
                let code = status.code().or_else(|| status.signal().map(|s| 128 + s));
                return (code, memory);
            }
            if let Some((after, which)) = signal
                && start.elapsed() > after
            {
                signal = None;
                // It may have exited already.
                let _ = kill_process(Pid::from_child(&self.child), which);
            }
            thread::sleep(Duration::from_millis(5));
        }
        (None, memory)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A process' memory, in kB, without its program: how much of that is in memory depends on the
/// machine.
fn memory_kb(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Another server program, on its own port; stopped on drop.
pub(crate) struct Serve {
    child: Child,
    pub(crate) port: u16,
    /// Its directory, which is removed after it has exited.
    _folder: TempDir,
}

impl Serve {
    /// `prony serve`.
    pub(crate) fn start(args: &[&str]) -> Self {
        let port = crate::reserved::reserved_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        command.args(["serve", &format!("127.0.0.1:{port}")]).args(args);
        Self::listening(command, port, TempDir::new().expect("a folder"))
    }

    /// nginx with this configuration, in which `@PORT@` and `@DIR@` are filled in, and files in its
    /// directory.
    pub(crate) fn nginx(config: &str, files: &[(&str, String)]) -> Self {
        Self::configured("nginx", config, files, |command, dir| {
            command.args(["-p", dir, "-e", &format!("{dir}/error.log"), "-c", "config"]);
        })
    }

    /// The same for haproxy.
    pub(crate) fn haproxy(config: &str, files: &[(&str, String)]) -> Self {
        Self::configured("haproxy", config, files, |command, dir| {
            command.args(["-f", &format!("{dir}/config")]);
        })
    }

    fn configured(
        program: &str,
        config: &str,
        files: &[(&str, String)],
        arguments: impl FnOnce(&mut Command, &str),
    ) -> Self {
        let (port, folder) = (crate::reserved::reserved_port(), TempDir::new().expect("a folder"));
        let dir = folder.path().to_str().expect("UTF-8").to_owned();
        let config = config.replace("@PORT@", &port.to_string()).replace("@DIR@", &dir);
        for (name, text) in [("config", config)].iter().chain(files) {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let mut command = Command::new(program);
        command.env("PATH", path);
        arguments(&mut command, &dir);
        Self::listening(command, port, folder)
    }

    fn listening(mut command: Command, port: u16, folder: TempDir) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none() && start.elapsed() < LIMIT, "{command:?}: {ended:?}");
            thread::sleep(Duration::from_millis(10));
        }
        Self { child, port, _folder: folder }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
