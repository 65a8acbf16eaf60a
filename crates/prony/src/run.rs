//! A plan to a summary: on the network, or in the virtual world.

use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use prony_core::plan::Plan;
use prony_core::serve::ServeLaw;
use prony_core::summary::{RunInfo, Summary};
use prony_io::{Control, Live, Options};

use crate::error::{self, Error};

/// Carry out the plan on the network. Everything that can be refused is refused before the load
/// starts. `control` ends the run before its time; `watch` is told how the load goes, about 20
/// times a second. `command` is what was typed, `notes` what the report must say of how the plan
/// came to be.
pub fn run(
    plan: &Plan,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Live),
    command: Vec<String>,
    mut notes: Vec<String>,
) -> Result<Summary, Error> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|d| d.as_secs_f64());
    let outcome = prony_io::run(plan, options, control, watch)
        .map_err(|e| Error::Setup(error::plain(&e.to_string())))?;
    notes.extend(outcome.notes);
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        command,
        started_unix: started,
        driver: outcome.driver.into(),
        addresses: outcome.addresses,
        host: host(),
        descriptor_limit: outcome.descriptor_limit,
        interrupted: outcome.interrupted,
        notes,
    };
    let parts = outcome.tallies.into_iter().zip(outcome.meters);
    let parts = parts.map(|((warmup, main), meter)| (warmup, main, meter)).collect();
    Ok(Summary::from_parts(outcome.plan, info, parts))
}

/// Carry out the plan in virtual time against a target server with that law: the same for the same
/// arguments, to the byte. `threads` shares of the plan run side by side,
/// as far as it can be split.
pub fn simulate(
    plan: &Plan,
    threads: u32,
    seed: u64,
    server: &ServeLaw,
    command: Vec<String>,
    notes: Vec<String>,
) -> Summary {
    let parts = prony_sim::simulate(plan, threads, seed, server);
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        command,
        driver: "simulation".into(),
        notes,
        ..RunInfo::default()
    };
    Summary::from_parts(plan.clone(), info, parts)
}

/// Operating system, kernel and processors, for the report.
fn host() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {}, {cores} cores", kernel.trim())
}
