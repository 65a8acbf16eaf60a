//! `prony rtt`: round trips to a responder.

use prony_core::plan::Plan;
use prony_core::serve::ServeLaw;
use prony_io::{Options, SocketOptions};
use prony_run::builder::Planned;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output::Outputs;
use prony_run::run::{self, Provenance};

use super::load::{finish, on_the_network};
use crate::cli::means::MeansArgs;
use crate::cli::rtt::{self, MessageArgs, RttArgs};
use crate::cli::shown::recorded;
use crate::means::{environment, options};

/// Exchange what the options ask for, report, and say how it ended.
pub(super) fn rtt(args: &RttArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let local = args.target.starts_with("unix:");
    let Planned { plan, notes, .. } = rtt::plan(args, &environment(&args.means, local))?;
    let outputs = Outputs::prepare(&args.output.to.output)?;
    let goals = &args.until.until;
    let provenance = Provenance { command: recorded(typed), notes };
    let mut summary = match args.means.simulate {
        Some(seed) => {
            let threads = args.means.threads.unwrap_or(1);
            let server = ServeLaw::default();
            let simulate = |plan: &Plan| {
                run::simulate(plan, threads, seed, &server, goals, provenance.clone())
            };
            run::until(&plan, goals, &simulate)
        }
        None => {
            let options = with_sockets(&plan, &args.means, &args.messages);
            on_the_network(&plan, goals, &options, &args.output, provenance)?
        }
    };
    summary.run.percentile = args.means.percentile;
    finish(&mut summary, outputs, &args.output, args.means.accept_invalid)
}

/// How the run is carried out, and how its sockets are made.
pub(super) fn with_sockets(plan: &Plan, means: &MeansArgs, args: &MessageArgs) -> Options {
    let exchange = plan.exchange.as_deref();
    let short = exchange.is_some_and(|e| e.framing == prony_core::plan::Framing::Short);
    let sockets = SocketOptions {
        // A responder of the ACE tests dies when a connection ends in good order before the
        // exchanges that it was told of; a reset it survives.
        reset: short && plan.exchanges().is_none(),
        nagle: args.nagle,
        rto: args.sctp.rto.rto(),
        userspace: args.sctp.settings(),
        send_buffer: args.send_buffer,
        recv_buffer: args.recv_buffer,
        tos: args.tos(),
        busy_poll_us: args.busy_poll.map(|t| u32::try_from(t.0 / 1_000).unwrap_or(u32::MAX)),
        ..SocketOptions::default()
    };
    Options { sockets, realtime: args.realtime, ..options(means) }
}
