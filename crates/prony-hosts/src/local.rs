//! The engine that needs no cluster: worker processes on this machine.

use std::io::{BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use prony_run::error::Error;

use crate::engine::{Engine, Event};
use crate::protocol;

/// How long workers may take to end once their input has ended.
const END: Duration = Duration::from_secs(3);
/// How long a worker whose output has ended may take to end.
const EXIT: Duration = Duration::from_millis(500);

/// Workers as child processes.
#[derive(Debug)]
pub struct Local {
    program: PathBuf,
    args: Vec<String>,
    workers: Vec<Worker>,
    events: Receiver<Came>,
    sender: Sender<Came>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// What a thread has read from a worker's output.
#[derive(Debug)]
enum Came {
    Line(usize, String),
    End(usize),
}

impl Local {
    /// An engine that runs `program` with these arguments as workers.
    pub fn new(program: PathBuf, args: Vec<String>) -> Self {
        let (sender, events) = mpsc::channel();
        Self { program, args, workers: Vec::new(), events, sender }
    }

    fn start(&self, index: usize) -> Result<Worker, Error> {
        let failed = |why: std::io::Error| {
            let program = self.program.display();
            Error::Machine(format!("the worker {program} cannot be started: {why}"))
        };
        // A separate process group: the driver handles Ctrl-C and stops the workers.
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let sender = self.sender.clone();
        let read = move || {
            let mut output = BufReader::new(stdout.expect("it is piped"));
            while let Ok(Some(line)) = protocol::read_line(&mut output) {
                if sender.send(Came::Line(index, line)).is_err() {
                    return;
                }
            }
            // The driver may have ended.
            let _ = sender.send(Came::End(index));
        };
        match thread::Builder::new().name(format!("worker-{index}")).spawn(read) {
            Ok(_) => Ok(Worker { child, stdin }),
            Err(why) => {
                end(&mut child);
                Err(failed(why))
            }
        }
    }

    fn event(&mut self, came: Came) -> Event {
        match came {
            Came::Line(index, line) => Event::Line(index, line),
            Came::End(index) => {
                let worker = &mut self.workers[index];
                worker.stdin = None;
                let cause = waited(&mut worker.child, EXIT)
                    .map_or_else(|| "it closed its output".to_owned(), cause);
                Event::Gone(index, cause)
            }
        }
    }
}

impl Engine for Local {
    fn open(&mut self, workers: usize) -> Result<(), Error> {
        for index in 0..workers {
            match self.start(index) {
                Ok(worker) => self.workers.push(worker),
                Err(e) => {
                    self.close();
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, worker: usize, line: &str) {
        let Some(stdin) = self.workers.get_mut(worker).and_then(|w| w.stdin.as_mut()) else {
            return;
        };
        // A broken pipe shows as the end of its output.
        let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
    }

    fn events(&mut self, wait: Duration) -> Vec<Event> {
        let first = match self.events.recv_timeout(wait) {
            Ok(came) => came,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Vec::new(),
        };
        let mut came = vec![first];
        came.extend(self.events.try_iter());
        came.into_iter().map(|came| self.event(came)).collect()
    }

    fn close(&mut self) {
        for worker in &mut self.workers {
            worker.stdin = None;
        }
        let end_by = Instant::now() + END;
        for worker in &mut self.workers {
            let left = end_by.saturating_duration_since(Instant::now());
            if waited(&mut worker.child, left).is_none() {
                end(&mut worker.child);
            }
        }
        self.workers.clear();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.close();
    }
}

/// Its exit status, if it ends within this time.
fn waited(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn end(child: &mut Child) {
    // It may have ended meanwhile.
    let _ = child.kill();
    let _ = child.wait();
}

fn cause(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process was killed by signal {signal}"),
        (None, Some(code)) => format!("its process ended with exit code {code}"),
        (None, None) => "its process ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Local {
        Local::new("/bin/sh".into(), vec!["-c".into(), script.into()])
    }

    fn next(engine: &mut Local) -> Vec<Event> {
        let mut all = Vec::new();
        let end = Instant::now() + Duration::from_secs(20);
        while all.is_empty() && Instant::now() < end {
            all = engine.events(Duration::from_millis(200));
        }
        all
    }

    #[test]
    fn lines_go_there_and_back() {
        let mut engine = shell("read line; echo \"got $line\"; read line; exit 3");
        engine.open(2).expect("shells");
        engine.send(1, "one\n");
        assert_eq!(next(&mut engine), [Event::Line(1, "got one\n".into())]);
        engine.send(1, "two\n");
        let gone = Event::Gone(1, "its process ended with exit code 3".into());
        assert_eq!(next(&mut engine), [gone]);
        engine.send(1, "three\n");
        engine.close();
        assert!(engine.workers.is_empty());
    }

    #[test]
    fn a_killed_worker_is_named_with_its_signal() {
        let mut engine = shell("kill -9 $$");
        engine.open(1).expect("a shell");
        let gone = Event::Gone(0, "its process was killed by signal 9".into());
        assert_eq!(next(&mut engine), [gone]);
    }

    #[test]
    fn workers_end_with_their_input_and_others_are_killed() {
        let mut engine = shell("cat > /dev/null");
        engine.open(2).expect("shells");
        let pids: Vec<u32> = engine.workers.iter().map(|w| w.child.id()).collect();
        engine.close();
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
        }
        let mut stubborn = shell("exec sleep 1000");
        stubborn.open(1).expect("a shell");
        let pid = stubborn.workers[0].child.id();
        drop(stubborn);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }

    #[test]
    fn what_cannot_be_started_is_refused() {
        let mut engine = Local::new("/nowhere/prony".into(), Vec::new());
        let why = engine.open(3).unwrap_err().to_string();
        assert!(why.starts_with("the worker /nowhere/prony cannot be started: "), "{why}");
    }
}
