//! The report of a run, in every format.

use std::path::PathBuf;

use prony_report::{Format, Style};
use prony_run::exit::{Accepted, Exit};
use prony_run::output::Outputs;
use prony_stats::summary::Summary;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::refused;

/// The report of a run.
#[pyclass(frozen, module = "prony._prony")]
pub(crate) struct Report {
    summary: Summary,
}

impl Report {
    pub(crate) fn new(summary: Summary) -> Self {
        Self { summary }
    }
}

#[pymethods]
impl Report {
    /// The report as `text`, `json`, `csv`, `hgrm`, `hlog`, `html`, `svg`, `png`, `xml` (JUnit)
    /// or `md` (Markdown).
    fn render(&self, py: Python<'_>, format: &str) -> PyResult<Vec<u8>> {
        let format = match format {
            "text" => Format::Text,
            other => Format::from_extension(other).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "format '{other}' is unknown; write text, json, csv, hgrm, hlog, html, svg, \
                     png, xml or md"
                ))
            })?,
        };
        let style = Style::default();
        Ok(py.detach(|| prony_report::render(format, &self.summary, &style)))
    }

    /// The exit code that the command line would have, if it accepted nothing.
    fn exit_code(&self) -> u8 {
        Exit::of(&self.summary, Accepted::default()).code()
    }

    /// Write the report to files, whose name endings choose the formats.
    fn write(&self, py: Python<'_>, files: Vec<PathBuf>) -> PyResult<()> {
        py.detach(|| Outputs::prepare(&files).and_then(|files| files.write(&self.summary)))
            .map_err(|e| refused(&e))
    }
}
