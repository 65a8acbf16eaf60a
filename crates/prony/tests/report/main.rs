//! The report in every format, from summaries whose figures are known.

mod figures;
mod golden;
mod pictures;
mod readers;
mod sample;
mod schema;
