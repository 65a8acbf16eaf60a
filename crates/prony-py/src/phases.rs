//! The report of a plan with phases, in every format, and the report of each phase.

use std::path::PathBuf;

use prony_report::phased::{Phased as Inner, Start};
use prony_report::{Format, Style};
use prony_run::error::Error;
use prony_run::exit::{Accepted, Exit};
use prony_run::output::Outputs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::refused;
use crate::report::Report;

/// The report of a plan with phases.
#[pyclass(frozen, module = "prony._prony")]
pub(crate) struct Phased {
    inner: Inner,
    accepted: Accepted,
}

impl Phased {
    pub(crate) fn new(inner: Inner, accepted: Accepted) -> Self {
        Self { inner, accepted }
    }
}

#[pymethods]
impl Phased {
    /// The report as `text`, `json`, `html`, `svg`, `png`, `xml` (JUnit) or `md` (Markdown).
    fn render(&self, py: Python<'_>, format: &str) -> PyResult<Vec<u8>> {
        let known = match format {
            "text" => Some(Format::Text),
            other => Format::from_extension(other),
        };
        let render = |format| self.inner.render(format, &Style::default());
        let bytes = py.detach(|| known.and_then(render));
        bytes.ok_or_else(|| PyValueError::new_err(format!("there is no format '{format}'")))
    }

    /// Write the report to files, whose name endings choose the formats.
    fn write(&self, py: Python<'_>, files: Vec<PathBuf>) -> PyResult<()> {
        let render = |format| self.inner.render(format, &Style::default()).unwrap_or_default();
        py.detach(|| {
            Outputs::prepare_only(&files, &Inner::FORMATS, Inner::WRITTEN_AS)?.write_with(render)
        })
        .map_err(|e: Error| refused(&e))
    }

    /// The exit code that the command line would have.
    fn exit_code(&self) -> u8 {
        Exit::of_phases(&self.inner, self.accepted).code()
    }

    /// The phases that were run, in the order of the plan: the name of each, its start (`after` or
    /// `with`), its delay in seconds, its report and its own exit code.
    fn phases(&self) -> Vec<(String, &'static str, f64, Report, u8)> {
        let run = self.inner.phases.iter().filter_map(|phase| {
            let summary = phase.outcome.summary()?;
            let start = match phase.start {
                Start::After => "after",
                Start::With => "with",
            };
            let code = Exit::of(summary, self.accepted).code();
            let delay = phase.delay.as_secs_f64();
            Some((phase.name.clone(), start, delay, Report::new(summary.clone()), code))
        });
        run.collect()
    }
}
