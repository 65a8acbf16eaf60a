//! `prony spectrum`: round trips over lengths and transports.

use prony_core::fault::Fault;
use prony_core::plan::{Exchange, Plan};
use prony_core::record::Tally;
use prony_core::rng::{Sequence, Stream};
use prony_core::summary::Summary;
use prony_io::Control;

use super::load::stoppable;
use super::rtt::with_sockets;
use crate::cli::plan::{check_sources, drawn_seed, means};
use crate::cli::rtt::{Transport, exchange};
use crate::cli::spectrum::SpectrumArgs;
use crate::cli::tls;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{self, Outputs};
use crate::report::spectrum::Spectrum;
use crate::report::{Format, units, words};
use crate::run;

/// What is measured over and over: one length over one transport.
struct Cell {
    transport: String,
    size: u32,
    plan: Plan,
}

/// All that is asked for.
#[derive(Default)]
struct Asked {
    cells: Vec<Cell>,
    transports: Vec<String>,
    /// What cannot be, as a sentence.
    left_out: Option<String>,
}

/// Measure every length over every transport, as often as is asked, in random order; Ctrl-C keeps
/// what there is.
pub(super) fn spectrum(args: &SpectrumArgs, typed: Vec<String>) -> Result<Exit, Error> {
    check_sources(&args.means)?;
    let seed = args.means.seed.unwrap_or_else(drawn_seed);
    let Asked { cells, transports, left_out } = asked(args, seed)?;
    if args.means.timestamps {
        let why = "it tells one figure of each run; `prony rtt --timestamps` tells the phases";
        return Err(Error::Conflict("--timestamps", "prony spectrum", why));
    }
    let outputs = Outputs::prepare(&args.output)?;
    outputs.only(&[Format::Svg, Format::Png, Format::Json, Format::Csv])?;
    for cell in &cells {
        // What this kernel lacks is said before anything is measured.
        run::check(&cell.plan, &with_sockets(&cell.plan, &args.means, &args.messages))?;
    }
    let control = stoppable()?;
    let mut found = Spectrum::new();
    let refused = measure(args, &cells, seed, &control, &mut found).err();
    found.notes = means(&args.means);
    found.notes.extend(args.messages.sctp.note());
    found.notes.extend(left_out);
    found.tell_doubts(cells.len() * args.repeat as usize);
    found.interrupted = control.stop_request().is_some();
    found.seed = seed;
    found.command = typed;
    found.sort(&transports);
    match refused {
        // What there is until then is told, and then why there is no more.
        Some(refusal) if found.is_empty() => Err(refusal),
        Some(refusal) => finish(args, &found, outputs).and(Err(refusal)),
        None => finish(args, &found, outputs),
    }
}

/// Measure every cell as often as is asked, each time in another order, until the user ends it.
fn measure(
    args: &SpectrumArgs,
    cells: &[Cell],
    seed: u64,
    control: &Control,
    found: &mut Spectrum,
) -> Result<(), Error> {
    let mut rng = Sequence::new(seed, Stream::Pick);
    let all = cells.len() * args.repeat as usize;
    let mut done = 0;
    for _ in 0..args.repeat {
        for i in shuffled(cells.len(), &mut rng) {
            if control.stop_request().is_some() {
                return Ok(());
            }
            let Cell { transport, size, plan } = &cells[i];
            let options = with_sockets(plan, &args.means, &args.messages);
            let mut one = run::run(plan, &options, control, &mut |_| {}, Vec::new(), Vec::new())?;
            one.run.percentile = args.means.percentile;
            found.doubts.extend(doubt(&one, transport, *size, control.stop_request().is_some()));
            if one.main.started > 0 {
                found.add(transport, *size, args.messages.reply_size, &one.main);
            }
            (found.version, found.host) = (one.run.version.clone(), one.run.host.clone());
            done += 1;
            if !args.quiet {
                output::to_stderr(&format!(
                    "prony: {done} of {all}: {transport}, {}: {}",
                    units::counted(u64::from(*size), "byte", "bytes"),
                    brief(&one.main),
                ));
            }
        }
    }
    Ok(())
}

/// What came of one measurement, in a few words.
fn brief(tally: &Tally) -> String {
    if let Some(p50) = tally.times.service.quantile(0.5).filter(|_| tally.replies > 0) {
        return format!("p50 {}", units::span(p50));
    }
    let fault = Fault::ALL.into_iter().max_by_key(|&f| tally.fault(f));
    match fault.filter(|&f| tally.replies == 0 && tally.fault(f) > 0) {
        Some(fault) => format!("no reply: {}", words::sentence(fault)),
        None => format!("{}, too few for a p50", units::counted(tally.replies, "reply", "replies")),
    }
}

/// Why the figures of one measurement cannot be defended; nothing of one that the user has ended.
fn doubt(one: &Summary, transport: &str, size: u32, ended: bool) -> Option<String> {
    let judgement = one.verdict();
    let reason = judgement.reasons.first().filter(|_| !ended)?;
    let size = units::counted(u64::from(size), "byte", "bytes");
    let (word, reason) = (judgement.verdict.word(), words::limit(reason, one));
    Some(format!("{transport}, {size}: {word}: {reason}"))
}

fn asked(args: &SpectrumArgs, seed: u64) -> Result<Asked, Error> {
    let mut asked = Asked::default();
    let secured = tls::spec(&args.tls)?;
    let pairs = args.pairs()?;
    let named: Vec<_> = pairs.iter().map(|(transport, _)| *transport).collect();
    args.messages.check(&named, args.means.driver)?;
    let endpoints = pairs.iter().map(|(transport, place)| transport.endpoint(place));
    let mut endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    tls::rename(&args.tls, &mut endpoints, "--transport tls")?;
    for (transport, endpoint) in named.into_iter().zip(endpoints) {
        let name = transport.name().to_owned();
        let fits = |size: &u32| *size <= Exchange::DATAGRAM_MAX || transport != Transport::Udp;
        let (mut sizes, too_long) = args.size.0.iter().partition::<Vec<u32>, _>(|size| fits(size));
        if sizes.is_empty() {
            // The plan's refusal says what is wrong.
            sizes.clone_from(&too_long);
        } else {
            asked.left_out = asked.left_out.or_else(|| left_out(&too_long));
        }
        for size in sizes {
            let mut plan = exchange(endpoint.clone(), &[size], &args.messages);
            plan.stop.requests = Some(args.exchanges);
            plan.stop.duration = args.duration;
            plan.tls.clone_from(&secured);
            plan.seed = seed;
            plan.check().map_err(|why| {
                Error::Plan(format!(
                    "{name}, {}: {why}",
                    units::counted(size.into(), "byte", "bytes")
                ))
            })?;
            asked.cells.push(Cell { transport: name.clone(), size, plan });
        }
        asked.transports.push(name);
    }
    Ok(asked)
}

/// Which lengths were left out, as a sentence of the report.
fn left_out(sizes: &[u32]) -> Option<String> {
    let most = units::count(Exchange::DATAGRAM_MAX.into());
    let sizes: Vec<_> = sizes.iter().map(|&size| units::count(size.into())).collect();
    let sizes = (!sizes.is_empty()).then(|| sizes.join(", "))?;
    Some(format!("A message over UDP has at most {most} bytes: left out there: {sizes}."))
}

/// The numbers below `n` in random order.
fn shuffled(n: usize, rng: &mut Sequence) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
}

fn finish(args: &SpectrumArgs, found: &Spectrum, outputs: Outputs) -> Result<Exit, Error> {
    let written = outputs.write_with(|format| found.render(format).unwrap_or_default());
    if let Some(bytes) = found.render(args.stdout_format()) {
        output::to_stdout(&bytes)?;
    }
    written?;
    Ok(match (found.interrupted, found.is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::NoAnswer,
        (false, false) if found.doubts.is_empty() || args.means.accept_invalid => Exit::Done,
        (false, false) => Exit::NotValid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_every_cell_once() {
        let mut rng = Sequence::new(7, Stream::Pick);
        let orders: Vec<_> = (0..4).map(|_| shuffled(17, &mut rng)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..17).collect::<Vec<_>>());
        }
        assert_ne!(orders[0], orders[1]);
    }
}
