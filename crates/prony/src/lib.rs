//! What the `prony` binary, its tests and other front ends share: options to a plan, a plan to a
//! summary ([`run::run`]), a summary to reports.

pub mod cli;
pub mod commands;
pub mod error;
pub mod exit;
mod here;
mod interrupt;
mod means;
pub mod output;
pub mod personality;
pub mod plan_file;
pub mod progress;
pub use prony_report as report;
pub mod run;
pub mod selftest;
mod target;
pub mod tls;
pub mod tui;
