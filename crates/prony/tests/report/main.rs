//! The report in every format, from summaries with known figures.

mod abreast;
mod decisions;
mod figures;
mod golden;
#[path = "../shared/json_schema.rs"]
mod json_schema;
mod kinds;
mod pictures;
mod plainness;
mod readers;
mod sample;
mod schema;
mod streams;
