//! The report of a search or a comparison, in every format.

use std::path::PathBuf;

use prony::embedding::Found as Inner;
use prony_report::Format;
use prony_run::error::Error;
use prony_run::output::Outputs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::refused;

/// The report of a search for a capacity, or of a comparison.
#[pyclass(frozen, module = "prony._prony")]
pub(crate) struct Found {
    inner: Inner,
}

impl Found {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Found {
    /// The report as `text`, `json`, `html`, `svg`, `png` or, for a comparison, `md`.
    fn render(&self, py: Python<'_>, format: &str) -> PyResult<Vec<u8>> {
        let known = match format {
            "text" => Some(Format::Text),
            other => Format::from_extension(other),
        };
        let bytes = py.detach(|| known.and_then(|format| self.inner.render(format)));
        bytes.ok_or_else(|| PyValueError::new_err(format!("there is no format '{format}'")))
    }

    /// Write the report to files, whose name endings choose the formats.
    fn write(&self, py: Python<'_>, files: Vec<PathBuf>) -> PyResult<()> {
        py.detach(|| {
            let (formats, why) = self.formats();
            let outputs = Outputs::prepare_only(&files, formats, why)?;
            outputs.write_with(|format| self.inner.render(format).unwrap_or_default())
        })
        .map_err(|e: Error| refused(&e))
    }
}

impl Found {
    /// The formats that it can be written in, and the sentence about others.
    fn formats(&self) -> (&'static [Format], &'static str) {
        match self.inner {
            Inner::Capacity(_) => (
                &[Format::Html, Format::Svg, Format::Png, Format::Json],
                "a capacity can be written as .html, .svg, .png or .json",
            ),
            Inner::Comparison(_) => (
                &[Format::Html, Format::Svg, Format::Png, Format::Json, Format::Markdown],
                "a comparison can be written as .html, .svg, .png, .json or .md",
            ),
        }
    }
}
