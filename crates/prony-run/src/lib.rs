//! What every front end of prony shares: values, options and plan files to a plan, a plan to a
//! summary ([`run::run`]), a summary to output files. No command line and no terminal.

pub mod builder;
pub mod environment;
pub mod error;
pub mod exit;
pub mod files;
pub mod goals;
mod here;
pub mod interrupt;
pub mod local_server;
pub mod output;
pub mod plan_file;
pub mod progress;
pub mod run;
pub mod tls;
pub mod values;
