//! Users written in Python: the director calls their coroutines in the engine's thread, and their
//! requests go through the engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prony::embedding::Event;
use prony::users::{Shared, Users};
use prony_base::director::{Director, Received, Step, Written};
use prony_base::fault::Fault;
use prony_base::rng::{self, Stream};
use prony_base::units::Span;
use prony_io::Directors;
use prony_plan::plan::Think;
use prony_report::words;
use prony_stats::summary::DirectorCost;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

/// Headers that prony sets itself.
const OWN_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// The users of these functions, each with its name and weight. The first exception of one goes to
/// `events`.
pub(crate) fn users(all: Vec<(Py<PyAny>, String, u32)>, events: Sender<Event>) -> Users {
    let shared = Arc::new(Shared::default());
    let kinds = all.iter().map(|(_, name, weight)| (name.clone(), *weight)).collect();
    let functions: Arc<[Py<PyAny>]> = all.into_iter().map(|(function, ..)| function).collect();
    let of_director = Arc::clone(&shared);
    let directors = Directors::new(move || Directing {
        functions: Arc::clone(&functions),
        shared: Arc::clone(&of_director),
        thinks: Arc::default(),
        sessions: Vec::new(),
        cost: DirectorCost::default(),
        failed: 0,
        first: None,
        events: events.clone(),
    });
    Users { kinds, directors, shared }
}

/// Decides the steps of sessions by coroutines.
struct Directing {
    functions: Arc<[Py<PyAny>]>,
    shared: Arc<Shared>,
    thinks: Thinks,
    sessions: Vec<Option<Session>>,
    cost: DirectorCost,
    /// Sessions that ended with an exception, and the first exception.
    failed: u64,
    first: Option<String>,
    events: Sender<Event>,
}

/// Think times by their texts.
type Thinks = Arc<Mutex<HashMap<String, Think>>>;

/// A running session.
struct Session {
    /// Its coroutine, and the method `send` of that.
    coroutine: Py<PyAny>,
    send: Py<PyAny>,
    /// What it waits for.
    awaited: Option<Py<Awaited>>,
}

impl Directing {
    fn counted<T>(&mut self, work: impl FnOnce(&mut Self, Python<'_>) -> T) -> T {
        // Waiting for the interpreter's lock is a part of the cost.
        let start = Instant::now();
        let done = Python::attach(|py| work(self, py));
        let time = Span(start.elapsed().as_nanos() as u64);
        self.cost.time += time;
        self.cost.longest = self.cost.longest.max(time);
        done
    }

    fn started(&self, py: Python<'_>, kind: u32, number: u64) -> PyResult<Session> {
        let client = Client {
            shared: Arc::clone(&self.shared),
            thinks: Arc::clone(&self.thinks),
            number,
            draws: AtomicU64::new(0),
        };
        let coroutine = self.functions[kind as usize].bind(py).call1((client,))?;
        let send = coroutine.getattr(intern!(py, "send"))?.unbind();
        Ok(Session { coroutine: coroutine.unbind(), send, awaited: None })
    }

    /// Continues a coroutine until it awaits something, or ends.
    fn continued(
        &mut self,
        py: Python<'_>,
        slot: u32,
        last: &Received,
        next: &mut Written,
    ) -> PyResult<Step> {
        // Its start has failed.
        let Some(session) = &mut self.sessions[slot as usize] else { return Ok(Step::Failed) };
        if let Some(awaited) = session.awaited.take() {
            awaited.borrow_mut(py).arrived(py, last)?;
        }
        let yielded = match session.send.bind(py).call1((py.None(),)) {
            Ok(yielded) => yielded,
            Err(e) if e.is_instance_of::<PyStopIteration>(py) => return Ok(Step::Done),
            Err(e) => return Err(e),
        };
        let awaited = yielded.cast_into::<Awaited>().map_err(|_| {
            PyTypeError::new_err(
                "a user can await only the methods of its client, such as u.get() and u.think()",
            )
        })?;
        let step = awaited.borrow_mut().step(next);
        session.awaited = Some(awaited.unbind());
        Ok(step)
    }

    /// A session has failed with an exception.
    fn raised(&mut self, py: Python<'_>, error: &PyErr) -> Step {
        self.failed += 1;
        if self.first.is_none() {
            let shown = shown(py, error).unwrap_or_else(|_| error.to_string());
            let sentence = format!("a user ended with an exception:\n{}", shown.trim_end());
            // Nobody may be listening any more.
            let _ = self.events.send(Event::Said(sentence));
            self.first = Some(error.to_string());
        }
        Step::Failed
    }
}

/// An exception with its traceback.
fn shown(py: Python<'_>, error: &PyErr) -> PyResult<String> {
    let traceback = py.import("traceback")?;
    // With its traceback, which `value` does not have.
    let value = error.clone_ref(py).into_value(py);
    let lines = traceback.call_method1("format_exception", (value,))?;
    lines.try_iter()?.map(|line| line?.extract::<String>()).collect()
}

impl Director for Directing {
    fn begin(&mut self, slot: u32, kind: u32, number: u64) {
        let slot = slot as usize;
        if self.sessions.len() <= slot {
            self.sessions.resize_with(slot + 1, || None);
        }
        self.counted(|all, py| {
            all.sessions[slot] = match all.started(py, kind, number) {
                Ok(session) => Some(session),
                Err(e) => {
                    all.raised(py, &e);
                    None
                }
            };
        });
    }

    fn step(&mut self, slot: u32, last: &Received, next: &mut Written) -> Step {
        self.cost.steps += 1;
        self.counted(|all, py| {
            all.continued(py, slot, last, next).unwrap_or_else(|e| all.raised(py, &e))
        })
    }

    fn leave(&mut self, slot: u32) {
        let Some(session) = self.sessions.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.counted(|all, py| {
            if let Err(e) = session.coroutine.bind(py).call_method0(intern!(py, "close")) {
                all.raised(py, &e);
            }
            drop(session);
        });
    }
}

impl Drop for Directing {
    fn drop(&mut self) {
        self.shared.add_cost(&self.cost);
        if let Some(first) = &self.first {
            let n = self.failed;
            let sessions = if n == 1 { "session" } else { "sessions" };
            let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
            self.shared.note(format!(
                "{n} {sessions} ended with an exception of the user's function. The first: {first}."
            ));
        }
    }
}

/// What a user can do.
#[pyclass(frozen, module = "prony._prony")]
pub(crate) struct Client {
    shared: Arc<Shared>,
    thinks: Thinks,
    number: u64,
    /// Think times so far.
    draws: AtomicU64,
}

#[pymethods]
impl Client {
    /// The number of the session in the whole run, from 0.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Sends a request.
    #[pyo3(signature = (method, path, *, headers=None, body=None, json=None, name=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of Python")]
    fn request(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        body: Option<&Bound<'_, PyAny>>,
        json: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        let call = self.shared.call(method, name).map_err(PyValueError::new_err)?;
        let mut written = Written::default();
        check_path(path)?;
        written.path.extend_from_slice(path.as_bytes());
        if let Some(headers) = headers {
            add_headers(headers, &mut written.headers)?;
        }
        match (body, json) {
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("give body or json, not both"));
            }
            (Some(body), None) => written.body = bytes(body)?,
            (None, Some(json)) => {
                let text = py.import(intern!(py, "json"))?.call_method1("dumps", (json,))?;
                written.body = text.extract::<String>()?.into_bytes();
                if !headers.is_some_and(|headers| has(headers, "content-type")) {
                    written.headers.extend_from_slice(b"Content-Type: application/json\r\n");
                }
            }
            (None, None) => {}
        }
        Ok(Awaited::new(Wanted::Request { call, written }))
    }

    /// Sends a GET request.
    #[pyo3(signature = (path, *, headers=None, name=None))]
    fn get(
        &self,
        py: Python<'_>,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        self.request(py, "GET", path, headers, None, None, name)
    }

    /// Sends a HEAD request.
    #[pyo3(signature = (path, *, headers=None, name=None))]
    fn head(
        &self,
        py: Python<'_>,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        self.request(py, "HEAD", path, headers, None, None, name)
    }

    /// Sends a DELETE request.
    #[pyo3(signature = (path, *, headers=None, name=None))]
    fn delete(
        &self,
        py: Python<'_>,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        self.request(py, "DELETE", path, headers, None, None, name)
    }

    /// Sends a POST request.
    #[pyo3(signature = (path, *, headers=None, body=None, json=None, name=None))]
    fn post(
        &self,
        py: Python<'_>,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        body: Option<&Bound<'_, PyAny>>,
        json: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        self.request(py, "POST", path, headers, body, json, name)
    }

    /// Sends a PUT request.
    #[pyo3(signature = (path, *, headers=None, body=None, json=None, name=None))]
    fn put(
        &self,
        py: Python<'_>,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        body: Option<&Bound<'_, PyAny>>,
        json: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        self.request(py, "PUT", path, headers, body, json, name)
    }

    /// Sends a PATCH request.
    #[pyo3(signature = (path, *, headers=None, body=None, json=None, name=None))]
    fn patch(
        &self,
        py: Python<'_>,
        path: &str,
        headers: Option<&Bound<'_, PyDict>>,
        body: Option<&Bound<'_, PyAny>>,
        json: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
    ) -> PyResult<Awaited> {
        self.request(py, "PATCH", path, headers, body, json, name)
    }

    /// Pauses: seconds, or a text such as "exp:2s".
    fn think(&self, time: &Bound<'_, PyAny>) -> PyResult<Awaited> {
        if let Ok(text) = time.cast::<PyString>() {
            let think = self.parsed(&text.to_string_lossy())?;
            let nth = self.draws.fetch_add(1, Ordering::Relaxed);
            let bits = rng::keyed(self.shared.seed(), Stream::Pause, self.number, nth);
            return Ok(Awaited::new(Wanted::Pause(think.draw(bits).0)));
        }
        let seconds: f64 = time.extract()?;
        if !(0.0..=1e9).contains(&seconds) {
            return Err(PyValueError::new_err(format!("{seconds} s is no time to think")));
        }
        Ok(Awaited::new(Wanted::Pause((seconds * 1e9) as u64)))
    }
}

impl Client {
    fn parsed(&self, text: &str) -> PyResult<Think> {
        let mut known = self.thinks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(think) = known.get(text) {
            return Ok(*think);
        }
        let think = prony_run::values::think(text)
            .map_err(|why| PyValueError::new_err(format!("think time '{text}': {why}")))?;
        known.insert(text.to_owned(), think);
        Ok(think)
    }
}

fn check_path(path: &str) -> PyResult<()> {
    let fits = path.starts_with('/') && path.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if fits {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{path:?} is not a path: it must start with '/', and have no spaces and no characters other \
         than ASCII (see urllib.parse.quote)"
    )))
}

fn has(headers: &Bound<'_, PyDict>, name: &str) -> bool {
    headers.keys().iter().any(|key| key.to_string().eq_ignore_ascii_case(name))
}

fn add_headers(headers: &Bound<'_, PyDict>, lines: &mut Vec<u8>) -> PyResult<()> {
    for (name, value) in headers {
        let (name, value): (String, String) = (name.extract()?, value.extract()?);
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(PyValueError::new_err(format!("{name:?} is not the name of a header")));
        }
        if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(PyValueError::new_err(format!("prony sets the header {name} itself")));
        }
        if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(PyValueError::new_err(format!(
                "the value of the header {name} has a line break"
            )));
        }
        for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    Ok(())
}

fn bytes(body: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match body.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.as_bytes().to_vec()),
        Err(_) => Ok(body.extract::<Vec<u8>>()?),
    }
}

/// What a user awaits: a request, or a pause.
#[pyclass(module = "prony._prony")]
pub(crate) struct Awaited {
    wanted: Wanted,
    state: State,
}

enum Wanted {
    Request { call: u32, written: Written },
    Pause(u64),
}

enum State {
    New,
    /// The coroutine has yielded it.
    Out,
    Arrived(Option<Py<Reply>>),
    Over,
}

impl Awaited {
    fn new(wanted: Wanted) -> Self {
        Self { wanted, state: State::New }
    }

    /// The step that it is.
    fn step(&mut self, next: &mut Written) -> Step {
        match &mut self.wanted {
            Wanted::Request { call, written } => {
                std::mem::swap(next, written);
                Step::Request { call: *call }
            }
            Wanted::Pause(ns) => Step::Pause(*ns),
        }
    }

    /// The step has ended.
    fn arrived(&mut self, py: Python<'_>, last: &Received) -> PyResult<()> {
        let reply = match self.wanted {
            Wanted::Request { .. } => Some(Py::new(py, Reply::of(last))?),
            Wanted::Pause(_) => None,
        };
        self.state = State::Arrived(reply);
        Ok(())
    }
}

#[pymethods]
impl Awaited {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let state = std::mem::replace(&mut slf.borrow_mut().state, State::Over);
        match state {
            State::New => {
                slf.borrow_mut().state = State::Out;
                Ok(slf)
            }
            State::Arrived(Some(reply)) => Err(PyStopIteration::new_err((reply,))),
            State::Arrived(None) => Err(PyStopIteration::new_err(())),
            State::Out | State::Over => {
                Err(PyRuntimeError::new_err("a step of a user can be awaited once, by the user"))
            }
        }
    }
}

/// What a request came to.
#[pyclass(frozen, module = "prony._prony")]
pub(crate) struct Reply {
    status: Option<u16>,
    fault: Option<Fault>,
    headers: Vec<u8>,
    body: Vec<u8>,
    is_cut: bool,
}

impl Reply {
    fn of(last: &Received) -> Self {
        Self {
            status: last.status,
            fault: last.fault,
            headers: last.headers.clone(),
            body: last.body.clone(),
            is_cut: last.is_cut,
        }
    }

    /// The headers: names in lower case, and values.
    fn fields(&self) -> impl Iterator<Item = (String, String)> {
        self.headers.split(|&byte| byte == b'\n').filter_map(|line| {
            let at = line.iter().position(|&byte| byte == b':')?;
            let text = |part: &[u8]| String::from_utf8_lossy(part).trim().to_owned();
            Some((text(&line[..at]).to_ascii_lowercase(), text(&line[at + 1..])))
        })
    }
}

#[pymethods]
impl Reply {
    /// The status; None without a complete reply.
    #[getter]
    fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether the request succeeded.
    #[getter]
    fn ok(&self) -> bool {
        self.fault.is_none()
    }

    /// The error, such as `request-timeout`; None if it succeeded.
    #[getter]
    fn error(&self) -> Option<&'static str> {
        self.fault.map(words::name)
    }

    /// The body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.body)
    }

    /// Whether the body is longer than what is kept of it (1 MiB).
    #[getter]
    fn truncated(&self) -> bool {
        self.is_cut
    }

    /// The headers by name, in lower case; values of a repeated one are joined by commas.
    #[getter]
    fn headers(&self) -> HashMap<String, String> {
        let mut all: HashMap<String, String> = HashMap::new();
        for (name, value) in self.fields() {
            all.entry(name).and_modify(|known| *known += &format!(", {value}")).or_insert(value);
        }
        all
    }

    /// The body as text (UTF-8).
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import(intern!(py, "json"))?.call_method1("loads", (self.body(py),))
    }

    fn __repr__(&self) -> String {
        match (self.status, self.fault) {
            (Some(status), None) => format!("<Reply {status}, {} bytes>", self.body.len()),
            (Some(status), Some(fault)) => format!("<Reply {status}, {}>", words::name(fault)),
            (None, fault) => format!("<Reply {}>", fault.map_or("none", words::name)),
        }
    }
}
