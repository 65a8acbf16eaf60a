//! The command line of `prony`: options, commands, the live view, the self-test.

pub mod cli;
pub mod commands;
mod live_line;
mod means;
mod progress;
mod selftest;
mod tui;
