//! An engine that is another program: it starts the workers on hosts, and carries their lines as
//! JSON objects ([`crate::relay`]) over its own standard input and output. `python -m prony.ray` is
//! one.
//!
//! The program gets `open`, then `send` for each line to a worker, and at last `close` or the end
//! of its input, upon which it ends all workers and itself. It replies to `open` with `opened` or
//! `refused`, and reports `line` and `gone`. With `hosts` in `open`, the workers are aggregators,
//! which start the workers on the hosts through the program.

use std::io::{BufReader, BufWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use prony_io::Control;
use prony_run::error::Error;

use crate::engine::{Engine, Event};
use crate::protocol;
use crate::relay::{Hosts, Relay};

/// How long the program may take to start the workers.
const OPEN: Duration = Duration::from_secs(240);
/// How long it may take to end.
const CLOSE: Duration = Duration::from_secs(20);
/// How long to wait at a time.
const TURN: Duration = Duration::from_millis(50);

/// What the thread has read from the program's output.
#[derive(Debug)]
enum Came {
    Relay(Relay),
    /// It has ended, or sent something else.
    Ended(String),
}

/// Workers that another program starts and carries lines for.
#[derive(Debug)]
pub struct Carrier {
    name: &'static str,
    command: Command,
    args: Vec<String>,
    control: Arc<Control>,
    hosts: Option<Hosts>,
    running: Option<Running>,
    workers: usize,
}

#[derive(Debug)]
struct Running {
    child: Child,
    stdin: Option<BufWriter<ChildStdin>>,
    reports: Receiver<Came>,
}

impl Carrier {
    /// `name` stands for the program in messages, `args` are the words after `prony` for each
    /// worker. `control` ends the wait for their start.
    pub fn new(
        name: &'static str,
        command: Command,
        args: Vec<String>,
        control: Arc<Control>,
    ) -> Self {
        Self { name, command, args, control, hosts: None, running: None, workers: 0 }
    }

    /// Its workers are aggregators, of these hosts.
    #[must_use]
    pub fn of_aggregators(mut self, hosts: Hosts) -> Self {
        self.hosts = Some(hosts);
        self
    }

    fn start(&mut self) -> Result<Running, Error> {
        let failed = |name: &str, program: &Command, why: std::io::Error| {
            let program = program.get_program().to_string_lossy().into_owned();
            Error::Machine(format!("engine {name}: {program} cannot be started: {why}"))
        };
        // A process group of its own: Ctrl-C is for the driver, which passes it on.
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|why| failed(self.name, &self.command, why))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, reports) = mpsc::channel();
        let read = move || {
            let mut output = BufReader::new(stdout.expect("it is piped"));
            loop {
                let came = match protocol::read_line(&mut output) {
                    Ok(Some(line)) => serde_json::from_str(&line).map_or_else(
                        |e| Came::Ended(format!("it said what is unknown: {e}")),
                        Came::Relay,
                    ),
                    Ok(None) => Came::Ended("it has ended".to_owned()),
                    Err(e) => Came::Ended(format!("its output cannot be read: {e}")),
                };
                let is_end = matches!(came, Came::Ended(_));
                // The driver may be gone.
                if sender.send(came).is_err() || is_end {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("engine-{}", self.name)).spawn(read);
        if let Err(why) = thread {
            end(&mut child);
            return Err(failed(self.name, &self.command, why));
        }
        Ok(Running { child, stdin: stdin.map(BufWriter::new), reports })
    }

    /// Wait until all workers have started, or none.
    fn opened(&self, running: &Running) -> Result<(), Error> {
        let refused = |why: &str| Error::Machine(format!("engine {}: {why}", self.name));
        let end = Instant::now() + OPEN;
        while Instant::now() < end {
            match running.reports.recv_timeout(TURN) {
                Ok(Came::Relay(Relay::Opened)) => return Ok(()),
                Ok(Came::Relay(Relay::Refused { why }) | Came::Ended(why)) => {
                    return Err(refused(&why));
                }
                Ok(Came::Relay(_)) => {}
                Err(RecvTimeoutError::Timeout) if self.control.stop_request().is_none() => {}
                Err(RecvTimeoutError::Timeout) => return Err(Error::Stopped),
                Err(RecvTimeoutError::Disconnected) => return Err(refused("it has ended")),
            }
        }
        Err(refused(&format!("the workers did not start within {} s", OPEN.as_secs())))
    }
}

impl Running {
    fn say(&mut self, request: &Relay) {
        let Some(stdin) = &mut self.stdin else { return };
        // A broken pipe shows as the end of its output.
        let _ = stdin.write_all(protocol::line(request).as_bytes()).and_then(|()| stdin.flush());
    }
}

impl Engine for Carrier {
    fn open(&mut self, workers: usize) -> Result<(), Error> {
        let mut running = self.start()?;
        running.say(&Relay::Open { workers, args: self.args.clone(), hosts: self.hosts });
        let result = self.opened(&running);
        self.running = Some(running);
        self.workers = workers;
        if result.is_err() {
            self.close();
        }
        result
    }

    fn send(&mut self, worker: usize, line: &str) {
        if let Some(running) = &mut self.running {
            let line = line.trim_end_matches('\n').to_owned();
            running.say(&Relay::Send { worker, line });
        }
    }

    fn events(&mut self, wait: Duration) -> Vec<Event> {
        let Some(running) = &self.running else { return Vec::new() };
        let Ok(first) = running.reports.recv_timeout(wait) else { return Vec::new() };
        let mut events = Vec::new();
        for came in std::iter::once(first).chain(running.reports.try_iter()) {
            match came {
                Came::Relay(Relay::Line { worker, line }) if worker < self.workers => {
                    events.push(Event::Line(worker, line));
                }
                Came::Relay(Relay::Gone { worker, cause }) if worker < self.workers => {
                    events.push(Event::Gone(worker, cause));
                }
                Came::Ended(why) | Came::Relay(Relay::Refused { why }) => {
                    let cause = format!("the engine {} failed: {why}", self.name);
                    events.extend((0..self.workers).map(|i| Event::Gone(i, cause.clone())));
                }
                Came::Relay(_) => {}
            }
        }
        events
    }

    fn close(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.say(&Relay::Close);
        running.stdin = None;
        let end_by = Instant::now() + CLOSE;
        while Instant::now() < end_by {
            if let Ok(Some(_)) = running.child.try_wait() {
                return;
            }
            thread::sleep(TURN);
        }
        end(&mut running.child);
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.close();
    }
}

fn end(child: &mut Child) {
    // It may have ended meanwhile.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrier(script: &str) -> Carrier {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let args = vec!["worker".into()];
        Carrier::new("test", command, args, Arc::new(Control::new()))
    }

    fn next(engine: &mut Carrier) -> Vec<Event> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut all = Vec::new();
        while all.is_empty() && Instant::now() < end {
            all = engine.events(Duration::from_millis(200));
        }
        all
    }

    #[test]
    fn lines_go_there_and_back() {
        let mut engine = carrier(
            r#"read open; [ "$open" = '{"type":"open","workers":2,"args":["worker"]}' ] || exit 1
               echo '{"type":"opened"}'
               read -r sent; [ "$sent" = '{"type":"send","worker":1,"line":"{\"a\":1}"}' ] || exit 2
               echo '{"type":"line","worker":1,"line":"yes"}'
               echo '{"type":"gone","worker":0,"cause":"its host is gone"}'
               read close; [ "$close" = '{"type":"close"}' ] || exit 3"#,
        );
        engine.open(2).expect("workers");
        engine.send(1, "{\"a\":1}\n");
        let mut events = next(&mut engine);
        if events.len() == 1 {
            events.extend(next(&mut engine));
        }
        let expected = [Event::Line(1, "yes".into()), Event::Gone(0, "its host is gone".into())];
        assert_eq!(events, expected);
        engine.close();
        assert!(engine.running.is_none());
    }

    #[test]
    fn refusals_and_ends_are_reported() {
        for (script, why) in [
            (r#"read o; echo '{"type":"refused","why":"4 hosts"}'"#, "engine test: 4 hosts"),
            ("read o", "engine test: it has ended"),
            ("read o; echo no", "engine test: it said what is unknown"),
        ] {
            let refused = carrier(script).open(3).unwrap_err().to_string();
            assert!(refused.starts_with(why), "{refused}");
        }
        let mut engine = carrier(r#"read o; echo '{"type":"opened"}'"#);
        engine.open(2).expect("workers");
        let cause = "the engine test failed: it has ended".to_owned();
        assert_eq!(next(&mut engine), [Event::Gone(0, cause.clone()), Event::Gone(1, cause)]);
    }

    #[test]
    fn an_interruption_ends_the_wait_for_workers() {
        let mut engine = carrier("cat > /dev/null");
        engine.control.stop();
        let refused = engine.open(2).unwrap_err().to_string();
        assert!(refused.ends_with("interrupted before the start; nothing was sent"), "{refused}");
    }
}
