//! The native module of the Python package `prony`: runs a command line of prony in this process,
//! without the interpreter's lock, and keeps the report. python/prony has the rest.

mod found;
mod phases;
mod report;
mod run;
mod users;

use std::path::Path;

use prony::commands::embedded::{self, Document};
use prony_run::environment::Environment;
use prony_run::error::Error;
use prony_run::exit::Accepted;
use prony_run::plan_file;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(_prony, Refused, PyException, "An error: its kind, and its sentence.");

/// The module.
#[pymodule]
mod _prony {
    #[pymodule_export]
    use super::{
        Refused, check_plan, found::Found, phases::Phased, read, report::Report, run::Run,
        users::Client, users::Reply,
    };

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python modules use")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Checks a plan file, or the text of one, and summarizes it in one line.
#[pyfunction]
#[pyo3(signature = (path, text=None))]
fn check_plan(path: &str, text: Option<&str>) -> PyResult<String> {
    let around = Environment::of_machine(None, &[], false);
    let checked = match text {
        None => plan_file::check(Path::new(path), &around),
        Some(text) => {
            plan_file::check_text(path, text, Some(Path::new("")), &around).map_err(Error::PlanFile)
        }
    };
    checked.map_err(|e| refused(&e))
}

/// A saved JSON report, of a run (`Report`) or of a plan with phases (`Phased`).
#[pyfunction]
fn read(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    Ok(match embedded::read_report(text).map_err(PyValueError::new_err)? {
        Document::Run(summary) => Py::new(py, report::Report::new(*summary))?.into_any(),
        Document::Phases(all) => {
            Py::new(py, phases::Phased::new(*all, Accepted::default()))?.into_any()
        }
    })
}

/// The exception for an error.
fn refused(error: &Error) -> PyErr {
    Refused::new_err((kind(error), embedded::sentence(error)))
}

/// Which of the package's exceptions an error is.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Setup(_) | Error::Machine(_) | Error::Stopped | Error::Certificate { .. } => "setup",
        Error::Report { .. }
        | Error::Stdout(_)
        | Error::Written { .. }
        | Error::OutputPlace { .. } => "output",
        Error::Several(all) => all.first().map_or("usage", kind),
        _ => "usage",
    }
}
