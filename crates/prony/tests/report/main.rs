//! The report in every format, from summaries with known figures.

mod figures;
mod golden;
mod pictures;
mod readers;
mod sample;
mod schema;
