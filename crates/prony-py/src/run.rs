//! A run in a thread of its own, and its events.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use prony::commands::embedded;
use prony::embedding::{self, Embedding, Event, Tick};
use prony_base::units::Span;
use prony_io::Control;
use prony_report::phased::Phased as Phases;
use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::phases::Stops;
use prony_stats::summary::Summary;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::found::Found;
use crate::phases::Phased;
use crate::report::Report;
use crate::{Refused, kind, users};

/// A run. It starts at once, in a thread that never holds the interpreter's lock.
#[pyclass(frozen, module = "prony._prony")]
pub(crate) struct Run {
    control: Arc<Control>,
    stops: Arc<Stops>,
    state: Mutex<State>,
}

struct State {
    events: Receiver<Event>,
    thread: Option<JoinHandle<Result<Exit, Error>>>,
    report: Option<Box<Summary>>,
    found: Option<embedding::Found>,
    phased: Option<(Box<Phases>, Accepted)>,
    /// The exit code, or the error; `None` while it runs.
    end: Option<Result<u8, (&'static str, String)>>,
}

/// What came within the time.
enum Came {
    Nothing,
    Event(Event),
    Finished,
    End(Result<u8, (&'static str, String)>),
}

#[pymethods]
impl Run {
    /// Start the run of these words; the first is the name of the program. `program` is the path
    /// of the program for worker processes, `python` that of the interpreter, `plan_text` the text
    /// of the plan file, `users` the functions of users in Python, with names and weights.
    #[new]
    #[pyo3(signature = (words, program, python, plan_text=None, users=None))]
    fn new(
        words: Vec<OsString>,
        program: PathBuf,
        python: PathBuf,
        plan_text: Option<String>,
        users: Option<Vec<(Py<PyAny>, String, u32)>>,
    ) -> PyResult<Self> {
        let (sender, events) = mpsc::channel();
        let (control, stops) = (Arc::new(Control::new()), Arc::new(Stops::default()));
        let embedding = Embedding {
            control: Arc::clone(&control),
            stops: Arc::clone(&stops),
            program,
            python,
            plan_text,
            users: users.map(|users| users::users(users, sender.clone())),
            events: sender,
        };
        let thread = thread::Builder::new()
            .name("prony".into())
            .spawn(move || embedded::run(words, embedding))
            .map_err(|e| PyRuntimeError::new_err(format!("a thread cannot be started: {e}")))?;
        let (report, found, phased) = (None, None, None);
        let state = State { events, thread: Some(thread), report, found, phased, end: None };
        Ok(Self { control, stops, state: Mutex::new(state) })
    }

    /// Wait up to `seconds` for the next event, without the interpreter's lock. Events are pairs
    /// of a kind and a value: `tick` with a dictionary, `said`, `progress` and `explained` with a
    /// text, `finished` once there is a report, and at last, again and again, `end` with the exit
    /// code.
    /// None: nothing came.
    fn next<'py>(
        &self,
        py: Python<'py>,
        seconds: f64,
    ) -> PyResult<Option<(&'static str, Bound<'py, PyAny>)>> {
        let wait = Duration::try_from_secs_f64(seconds)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        let came = py.detach(|| self.came(wait));
        Ok(Some(match came {
            Came::Nothing => return Ok(None),
            Came::Event(Event::Tick(tick)) => ("tick", dictionary(py, &tick)?.into_any()),
            Came::Event(Event::Said(sentence)) => ("said", text(py, &sentence)?),
            Came::Event(Event::Explained(plan)) => ("explained", text(py, &plan)?),
            Came::Event(Event::Progress(line)) => ("progress", text(py, &line)?),
            Came::Event(Event::Finished(_) | Event::Found(_) | Event::Phased(..))
            | Came::Finished => ("finished", py.None().into_bound(py)),
            Came::End(Ok(code)) => ("end", code.into_pyobject(py)?.into_any()),
            Came::End(Err(refusal)) => return Err(Refused::new_err(refusal)),
        }))
    }

    /// The report, once it has arrived.
    fn report(&self) -> Option<Report> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.report.as_deref().cloned().map(Report::new)
    }

    /// The report of a search or a comparison, once it has arrived.
    fn found(&self) -> Option<Found> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.found.clone().map(Found::new)
    }

    /// The report of a plan with phases, once it has arrived.
    fn phased(&self) -> Option<Phased> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let phased = state.phased.as_ref();
        phased.map(|(report, accepted)| Phased::new((**report).clone(), *accepted))
    }

    /// Ask the run to stop: the first time it waits for the replies to requests in flight, the
    /// second time it ends at once.
    fn interrupt(&self) {
        self.control.interrupt();
        self.stops.interrupt();
    }
}

impl Run {
    fn came(&self, wait: Duration) -> Came {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.events.recv_timeout(wait) {
            Ok(Event::Finished(summary)) => {
                state.report = Some(summary);
                Came::Finished
            }
            Ok(Event::Found(found)) => {
                state.found = Some(found);
                Came::Finished
            }
            Ok(Event::Phased(report, accepted)) => {
                state.phased = Some((report, accepted));
                Came::Finished
            }
            Ok(event) => Came::Event(event),
            Err(RecvTimeoutError::Timeout) => Came::Nothing,
            Err(RecvTimeoutError::Disconnected) => {
                if let Some(thread) = state.thread.take() {
                    let bug = || Err(("bug", "prony failed; please report this".to_owned()));
                    let result = thread.join().map_or_else(
                        |_| bug(),
                        |result| {
                            result.map(Exit::code).map_err(|e| (kind(&e), embedded::sentence(&e)))
                        },
                    );
                    state.end = Some(result);
                }
                state.end.clone().map_or(Came::Nothing, Came::End)
            }
        }
    }
}

impl Drop for Run {
    /// Nobody waits for the run any more.
    fn drop(&mut self) {
        self.control.stop_now();
        self.stops.stop_now();
    }
}

fn text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok(text.into_pyobject(py)?.into_any())
}

fn dictionary<'py>(py: Python<'py>, tick: &Tick) -> PyResult<Bound<'py, PyDict>> {
    let seconds = |span: Span| span.as_secs_f64();
    let dict = PyDict::new(py);
    dict.set_item("plan_phase", tick.plan_phase.as_deref())?;
    dict.set_item("elapsed", seconds(tick.elapsed))?;
    dict.set_item("phase", tick.phase)?;
    dict.set_item("started", tick.started)?;
    dict.set_item("replies", tick.replies)?;
    dict.set_item("failed", tick.failed)?;
    dict.set_item("in_flight", tick.in_flight)?;
    dict.set_item("rate", tick.rate)?;
    dict.set_item("target_rate", tick.target_rate)?;
    dict.set_item("p50", tick.p50.map(seconds))?;
    dict.set_item("p99", tick.p99.map(seconds))?;
    dict.set_item("max", tick.max.map(seconds))?;
    dict.set_item("hosts", tick.hosts.map(|(at_work, _)| at_work))?;
    dict.set_item("of_hosts", tick.hosts.map(|(_, all)| all))?;
    Ok(dict)
}
