//! A test of our behavior for each defect of the original program.

mod clocks;
mod input;
mod limits;
mod output;
mod replies;
mod sessions;
mod tls;

pub(crate) use tls::nginx_with_tls;

use crate::program::{Ended, Run, Which};
use crate::server::Server;

/// Run our httperf against a scripted server.
fn ours(server: &Server, args: &[&str]) -> Ended {
    run(server.port, args).run(Which::Ours)
}

/// A command line of our httperf for a local port.
fn run(port: u16, args: &[&str]) -> Run {
    let own = ["--server=127.0.0.1".to_owned(), format!("--port={port}")];
    Run::new(&own.into_iter().chain(args.iter().map(|&a| a.to_owned())).collect::<Vec<_>>())
}

/// The numbers of a report, by name.
fn numbers<const N: usize>(ended: &Ended, names: [&str; N]) -> [f64; N] {
    let report = ended.report();
    names.map(|name| report.get(name))
}

/// The extra lines, as one text.
fn extras(ended: &Ended) -> String {
    ended.report().after.join("\n")
}
