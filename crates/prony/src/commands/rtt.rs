//! `prony rtt`: round-trip times.

use prony_io::{Options, SocketOptions};
use prony_plan::plan::Plan;
use prony_run::builder::Planned;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::run::{self, Provenance};
use prony_server::serve::ServerBehavior;

use super::carried::{accepted, finish};
use super::execution::on_the_network;
use crate::cli::exec_options::ExecArgs;
use crate::cli::rtt::{self, MessageArgs, RttArgs};
use crate::cli::shown::recorded;
use crate::exec_options::{environment, options};

/// Runs the exchanges and reports them.
pub(super) fn rtt(args: &RttArgs, typed: Vec<String>) -> Result<Exit, Error> {
    let local = args.target.starts_with("unix:");
    let Planned { mut plan, notes, .. } = rtt::plan(args, &environment(&args.exec, local))?;
    plan.thresholds.clone_from(&args.until.threshold);
    run::check_thresholds(&plan)?;
    let outputs = args.output.to.prepare()?;
    let goals = &args.until.until;
    let provenance = Provenance { notes, ..Provenance::default() };
    let mut summary = match args.exec.simulate {
        Some(seed) => {
            let threads = args.exec.threads.unwrap_or(1);
            let server = ServerBehavior::default();
            let simulate = |plan: &Plan| {
                run::simulate(plan, threads, seed, &server, goals, provenance.clone())
            };
            run::until(&plan, goals, &simulate)
        }
        None => {
            let options = with_sockets(&plan, &args.exec, &args.messages);
            on_the_network(&plan, goals, &options, &args.output, provenance)?
        }
    };
    summary.run.command = recorded(typed);
    summary.run.percentile = args.exec.percentile;
    finish(&mut summary, outputs, &args.output, accepted(&args.exec, &args.until))
}

/// The options of execution, including those of sockets.
pub(super) fn with_sockets(plan: &Plan, exec: &ExecArgs, args: &MessageArgs) -> Options {
    let exchange = plan.exchange.as_deref();
    let short = exchange.is_some_and(|e| e.framing == prony_plan::plan::Framing::Short);
    let sockets = SocketOptions {
        // A responder of the ACE tests exits if a connection closes normally before the announced
        // number of exchanges. It survives a reset.
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
    Options { sockets, realtime: args.realtime, ..options(exec) }
}
