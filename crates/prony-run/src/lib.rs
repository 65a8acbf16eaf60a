//! The common parts of prony's front ends: from values, options and plan files to a plan, from a
//! plan to a summary ([`run::run`]), and from a summary to output files. Knows neither command
//! lines nor terminals.

pub mod abort;
pub mod builder;
pub mod capacity;
pub mod compare;
pub mod contact;
pub mod environment;
pub mod error;
pub mod exit;
pub mod files;
pub mod form;
pub mod glob;
pub mod goals;
pub mod grpc;
mod here;
pub mod interrupt;
pub mod keys;
pub mod local_server;
pub mod merge;
pub mod output;
pub mod phases;
pub mod plan_file;
pub mod progress;
pub mod raw;
mod redirects;
mod rows;
pub mod run;
pub mod target_process;
pub mod tls;
mod tokenizer;
pub mod trace;
pub mod values;
pub mod websocket;
