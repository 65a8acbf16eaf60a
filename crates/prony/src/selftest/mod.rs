//! The self-test: what is known, held against what the meter says of it on this host; how far the
//! meter goes here; and what would help. `docs/selftest.md` tells of it.

pub(crate) mod advice;
mod bench;
pub(crate) mod cite;
mod floor;
mod limits;
mod proofs;
pub(crate) mod record;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prony_core::units::Span;
use prony_io::Control;
use prony_io::cpu;
use prony_io::held::Accounts;
use prony_io::host::Host;

use advice::GoneBy;
use bench::{Bench, Why};
use limits::KINDS;
use prony_run::error::Error;
use record::{Record, SCHEMA};
pub(crate) use text::text;

/// From then on nothing is tried again and no search goes on.
const ENOUGH: Duration = Duration::from_secs(26);
/// Proofs are not tried again from then on.
const PROVED: Duration = Duration::from_secs(9);

/// How much is done, and who is told of it.
pub(crate) struct Ask<'a> {
    /// Whether a few seconds must do.
    pub(crate) quick: bool,
    /// Whether standard error is left alone.
    pub(crate) quiet: bool,
    /// What the user ends it with.
    pub(crate) control: Arc<Control>,
    /// Is told what comes next.
    pub(crate) tell: &'a mut dyn FnMut(&str),
}

/// Make the self-test. What the user ended before its time is told as far as it went.
///
/// # Errors
/// The host refuses what every run needs.
pub(crate) fn run(ask: Ask<'_>) -> Result<Record, Error> {
    let (begun, before, host) = (Instant::now(), Accounts::read(), Host::look());
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    let bench = Bench { quiet: ask.quiet, ..Bench::new(ask.control) };
    let mut record = Record {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix: started,
        seconds: 0.0,
        quick: ask.quick,
        interrupted: false,
        passed: false,
        host,
        client_cores: bench.client.clone(),
        server_cores: bench.server.clone(),
        proofs: Vec::new(),
        floor: None,
        lags: Vec::new(),
        rates: Vec::new(),
        advice: Vec::new(),
    };
    let stages = Stages { bench: &bench, quick: ask.quick, begun };
    match stages.all(&mut record, ask.tell) {
        Ok(()) => record.passed = record.proofs.iter().all(|p| p.held),
        Err(Why::Ended) => record.interrupted = true,
        Err(Why::Refused(e)) => return Err(e),
    }
    record.seconds = begun.elapsed().as_secs_f64();
    let (user, system) = cpu::process_times();
    let gone_by = GoneBy {
        length: Span::from_secs_f64(record.seconds),
        own: user + system,
        withheld: Accounts::read().since(&before),
    };
    record.advice = advice::advice(&record.host, &gone_by);
    Ok(record)
}

/// One thing after another.
struct Stages<'a> {
    bench: &'a Bench,
    quick: bool,
    begun: Instant,
}

impl Stages<'_> {
    fn all(&self, record: &mut Record, tell: &mut dyn FnMut(&str)) -> Result<(), Why> {
        let drivers: &[&str] = if self.quick { &["auto"] } else { &["epoll", "uring"] };
        for experiment in proofs::experiments(self.quick, self.bench.connections_max()) {
            tell(&format!("proof: {}", experiment.name()));
            record.proofs.push(experiment.prove(self.bench, self.proved())?);
        }
        tell("the smallest times");
        record.floor = Some(floor::floor(self.bench, drivers, self.quick));
        let target = self.bench.strong_target(limits::SERVICE, false)?;
        let secured = self.bench.strong_target(limits::SERVICE, true)?;
        let rates: &[u64] = if self.quick { &[200, 5_000] } else { &[100, 1_000, 10_000, 50_000] };
        for &rate in rates {
            tell(&format!("send lag at {rate} requests a second"));
            record.lags.push(limits::lag(self.bench, &target.url, rate, self.quick)?);
        }
        let (runs, length) = if self.quick { (3, 100) } else { (4, 300) };
        for &driver in drivers {
            for kind in KINDS {
                tell(&format!("highest rate: {} load, {driver}", kind.name));
                let effort = (runs, Span::from_millis(length));
                let until = self.begun + ENOUGH;
                let url = if kind.is_secured { &secured.url } else { &target.url };
                let found = limits::highest(self.bench, url, (kind, driver), effort, until)?;
                record.rates.push(found);
                // What was found until then stands, and is not all.
                if self.bench.is_ended() {
                    return Err(Why::Ended);
                }
            }
        }
        Ok(())
    }

    /// Until when a proof may be tried again.
    fn proved(&self) -> Instant {
        self.begun + if self.quick { PROVED / 3 } else { PROVED }
    }
}
