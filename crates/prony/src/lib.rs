//! The command line of `prony`: options, commands, the live view, the self-test.

pub mod cli;
pub mod commands;
pub mod embedding;
mod exec_options;
mod live_line;
mod progress;
mod selftest;
mod tui;
pub mod users;
