//! The `prony` binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(prony::commands::main(std::env::args_os()))
}
