//! A load from plan to tallies: names resolved, limits checked, workers run, their counts gathered.

use std::io;
use std::net::SocketAddr;

use prony_core::engine::Engine;
use prony_core::layer::TlsContext;
use prony_core::plan::{Load, Plan, Think};
use prony_core::proto;
use prony_core::proto::echo::Echo;
use prony_core::proto::h1::H1;
use prony_core::record::Tally;
use prony_core::summary::{Meter, Withheld};
use prony_core::target::{Carrier, Endpoint};
use prony_core::units::Nanos;

use super::control::Control;
use super::crew::{Crew, Done};
use super::gauges::{Gauge, Live};
use super::options::{Options, Taps};
use crate::drivers::config::{Config, DriverChoice};
use crate::drivers::userspace;
use crate::error::{Refusal, SetupError};
use crate::host::cpu;
use crate::host::limits;
use crate::host::memory;
use crate::host::pressure::Accounts;
use crate::net::errno;
use crate::net::ports;
use crate::net::resolve::{self, Resolver};
use crate::net::socket::options::SocketOptions;
use crate::net::socket::{self, Mode, Remote, sctp};
use crate::net::timestamps;

/// What a load came to.
#[derive(Debug)]
pub struct Outcome {
    /// The plan as it was carried out: the limits of the machine may have lowered its cap on
    /// connections, and the rate may have been changed on the way.
    pub plan: Plan,
    /// Warm-up (where the plan has one) and measurement, per worker.
    pub tallies: Vec<(Option<Tally>, Tally)>,
    /// The meter about itself, per worker.
    pub meters: Vec<Meter>,
    /// The driver's name.
    pub driver: &'static str,
    /// The addresses that the plan's endpoints stand for.
    pub addresses: Vec<Vec<String>>,
    /// The descriptor limit in force.
    pub descriptor_limit: u64,
    /// Whether the user ended the run before its time.
    pub interrupted: bool,
    /// Processor time that the machine kept from the run.
    pub withheld: Withheld,
    /// What the reader must know, in whole sentences.
    pub notes: Vec<String>,
}

impl Outcome {
    /// What all workers counted together: warm-up and measurement.
    pub fn merged(&self) -> (Option<Tally>, Tally) {
        let mut all = self.tallies.iter();
        let Some((warm, main)) = all.next() else { return (None, Tally::default()) };
        let (mut warm, mut main) = (warm.clone(), main.clone());
        for (w, m) in all {
            main.merge(m);
            match (&mut warm, w) {
                (Some(sum), Some(w)) => sum.merge(w),
                (None, Some(w)) => warm = Some(w.clone()),
                (_, None) => {}
            }
        }
        (warm, main)
    }
}

/// Run a load from its first request to its last. Everything that can be refused is refused before
/// any load starts. `on_progress` is called from this thread about 20 times a second.
pub fn run(
    plan: &Plan,
    options: &Options,
    control: &Control,
    on_progress: &mut dyn FnMut(&Live),
) -> Result<Outcome, SetupError> {
    match plan.exchange {
        None => run_over(plan, options, control, on_progress, &H1::new),
        Some(_) => run_over(plan, options, control, on_progress, &Echo::new),
    }
}

/// Whether that load could be started: what [`run`] refuses before it begins.
///
/// # Errors
/// The same.
pub fn check(plan: &Plan, options: &Options) -> Result<(), SetupError> {
    Setup::new(plan, options).map(drop)
}

/// The same over that carrier; `make` makes one for a share of the plan.
fn run_over<P: proto::Carrier<Conn: Send> + Send>(
    plan: &Plan,
    options: &Options,
    control: &Control,
    on_progress: &mut dyn FnMut(&Live),
    make: &(dyn Fn(&Plan) -> P + Sync),
) -> Result<Outcome, SetupError> {
    let setup = Setup::new(plan, options)?;
    let _keeper = options.timestamps.then(|| timestamps::ready(&setup.endpoints)).transpose()?;
    let shards: Vec<Plan> =
        (0..setup.workers).map(|i| setup.plan.shard(i as u32, setup.workers as u32)).collect();
    let gauges: Vec<Gauge> = shards.iter().map(|_| Gauge::default()).collect();
    let crew = Crew {
        control,
        driver: setup.driver,
        cores: if options.pin { cpu::allowed() } else { Vec::new() },
        realtime: options.realtime,
    };
    let accounts = Accounts::read();
    let backlog = memory::backlog(setup.workers);
    let done = crew.work(
        setup.configs(options),
        &|i| {
            let tls = options.tls.as_ref().map(TlsContext::for_worker);
            let mut engine = Engine::new(&shards[i], make(&shards[i])).with_tls(tls);
            engine.limit_backlog(backlog);
            if options.timestamps {
                engine.expect_stamps();
            }
            if options.keep_requests {
                engine.keep_requests();
            }
            if options.keep_service {
                engine.keep_service();
            }
            if options.steerable {
                engine.expect_steers();
            }
            if let Some(observer) = &options.observer {
                engine.observe(observer.clone());
            }
            if let Some(Taps(make)) = &options.taps {
                engine.tap(make());
            }
            engine
        },
        &|i, engine, now, spun| {
            if options.steerable {
                gauges[i].apply_changes(control, engine, now);
            }
            gauges[i].show(engine, now, options.detail, spun);
            if options.blocks {
                gauges[i].show_blocks(engine);
            }
        },
        Some(&mut |now| on_progress(&Live::of(&gauges, now, options.detail))),
    )?;
    let withheld = Accounts::read().since(&accounts);
    Ok(Outcome { withheld, ..setup.outcome(done, control)? })
}

/// All that is settled before the first worker starts.
struct Setup {
    plan: Plan,
    workers: usize,
    driver: DriverChoice,
    endpoints: Vec<Vec<Remote>>,
    /// Whose SCTP it is, where it is not the kernel's.
    userspace: Option<userspace::Settings>,
    descriptor_limit: u64,
    notes: Vec<String>,
}

impl Setup {
    fn new(plan: &Plan, options: &Options) -> Result<Self, SetupError> {
        let resolver = Resolver {
            family: options.family,
            connect_to: options.connect_to.as_ref(),
            unix_socket: options.unix_socket.as_ref(),
            sources: &options.sources,
        };
        let endpoints: Vec<Vec<Remote>> =
            plan.endpoints.iter().map(|e| resolver.resolve(e)).collect::<Result<_, _>>()?;
        resolve::check_sources(&options.sources)?;
        let userspace = options.sockets.userspace.filter(|_| plan.endpoints.iter().any(is_sctp));
        match &userspace {
            Some(settings) => check_userspace(plan, options, settings)?,
            None => endpoints.iter().flatten().try_for_each(check_kind)?,
        }
        let mut notes = Vec::new();
        for remote in endpoints.iter().flatten() {
            let datagrams = userspace.map(|_| remote.clone().over(Carrier::Udp));
            let remote = datagrams.as_ref().unwrap_or(remote);
            notes.extend(socket::options::check(remote, &options.sockets)?);
        }
        notes.sort();
        notes.dedup();
        notes.extend(stamps_remark(options.timestamps, options.driver));

        let threads = options.threads.unwrap_or_else(|| cpu::allowed().len());
        let connections = plan.connections_max();
        let workers = threads.min(plan.shards_max() as usize).max(1);
        let (descriptor_limit, _) = limits::raise_descriptors();
        let mut setup = Self {
            plan: plan.clone(),
            workers,
            driver: match options.driver {
                DriverChoice::Auto if is_ping_pong(plan, workers) => DriverChoice::Direct,
                // It has no error queue, and brings no control data along.
                _ if options.timestamps => DriverChoice::Epoll,
                DriverChoice::Uring if plan.endpoints.iter().all(is_sctp) => DriverChoice::Uring,
                // io_uring reads into buffers of its own, in which datagrams would be cut. (What is
                // left of a message of SCTP comes with the next read.)
                _ if plan.endpoints.iter().any(Endpoint::keeps_boundaries) => DriverChoice::Epoll,
                DriverChoice::Auto if auto_prefers_uring(plan) => DriverChoice::Auto,
                DriverChoice::Auto => DriverChoice::Epoll,
                chosen => chosen,
            },
            endpoints,
            userspace,
            descriptor_limit,
            notes,
        };
        if !(options.over_limits && matches!(plan.load, Load::Open { .. })) {
            setup.check_descriptors(connections)?;
            setup.check_ports(connections, options)?;
        }
        Ok(setup)
    }

    fn check_descriptors(&mut self, asked: u64) -> Result<(), SetupError> {
        let limit = self.descriptor_limit;
        let fit = limits::connections_that_fit(limit, self.workers);
        // A closed-loop connection stands for one to each endpoint.
        let most = asked * self.plan.endpoints.len() as u64;
        if asked > fit {
            if !self.lower_cap(asked, fit) {
                return Err(SetupError::Descriptors { asked, fit, limit });
            }
        } else if most > fit && matches!(self.plan.load, Load::Closed { .. }) {
            self.notes.push(format!(
                "Each of the {asked} connections may become one to each of the {} targets, {most} \
                 in all, but the limit of {limit} open files allows {fit}.",
                self.plan.endpoints.len(),
            ));
        }
        Ok(())
    }

    fn check_ports(&mut self, asked: u64, options: &Options) -> Result<(), SetupError> {
        let mut to: Vec<SocketAddr> = Vec::new();
        for all in &self.endpoints {
            // A unix socket needs no port.
            let Some(first) = all.first().and_then(Remote::as_inet) else { return Ok(()) };
            if !to.contains(&first) {
                to.push(first);
            }
        }
        let all = options.sockets.all_ports.then_some(u64::from(ports::COUNT));
        let Some(ports) = all.or_else(limits::local_ports) else { return Ok(()) };
        let fit = limits::port_pairs(ports, &options.sources, to.len());
        if asked > fit && !self.lower_cap(asked, fit) {
            return Err(SetupError::Ports { asked, fit });
        }
        Ok(())
    }

    /// An open loop's connections are a cap, which can be lower than asked: whether it was one.
    fn lower_cap(&mut self, asked: u64, fit: u64) -> bool {
        let Load::Open { connections, .. } = &mut self.plan.load else { return false };
        if fit == 0 {
            return false;
        }
        // The cap is of the whole plan, of which this may be a share.
        let whole = fit * u64::from(self.plan.shard.of);
        *connections = u32::try_from(whole).unwrap_or(u32::MAX).min(*connections);
        self.notes.push(format!(
            "Of the {asked} connections that were allowed, the limits of this machine leave {fit}."
        ));
        true
    }

    fn configs(&self, options: &Options) -> Vec<Config> {
        (0..self.workers)
            .map(|i| {
                let mut sources = options.sources.clone();
                let n = sources.len().max(1);
                sources.rotate_left(i % n);
                Config {
                    endpoints: self.endpoints.clone(),
                    listeners: Vec::new(),
                    desk: None,
                    sources,
                    sockets: SocketOptions { userspace: self.userspace, ..options.sockets },
                    worker: (i, self.workers),
                    precision: options.precision,
                    tcp_info: options.tcp_info,
                    timestamps: options.timestamps,
                }
            })
            .collect()
    }

    fn outcome<P: proto::Carrier>(
        mut self,
        done: Vec<Option<Done<Engine<P>>>>,
        control: &Control,
    ) -> Result<Outcome, SetupError> {
        let lost = done.iter().filter(|d| d.is_none()).count();
        if lost > 0 {
            self.notes.push(format!(
                "{lost} of {} workers died of a defect in prony itself; what they counted is \
                 missing.",
                done.len()
            ));
        }
        let done: Vec<_> = done.into_iter().flatten().collect();
        let driver = done.first().ok_or(SetupError::Died)?.driver;
        let (tallies, meters) = done.into_iter().map(|d| (d.machine.finish(), d.meter)).unzip();
        let steers = control.steers();
        let begin = Nanos::ZERO + self.plan.warmup;
        if let Some(rate) = self.plan.load.steerable().filter(|_| !steers.is_empty()) {
            *rate = rate.steered(begin, &steers);
        }
        let names = |all: &Vec<Remote>| all.iter().map(ToString::to_string).collect();
        Ok(Outcome {
            plan: self.plan,
            tallies,
            meters,
            driver,
            addresses: self.endpoints.iter().map(names).collect(),
            descriptor_limit: self.descriptor_limit,
            interrupted: control.stop_request().is_some(),
            withheld: Withheld::default(),
            notes: self.notes,
        })
    }
}

/// What the report says where stamps were `wanted`, but a driver asked for that cannot read them.
fn stamps_remark(wanted: bool, asked: DriverChoice) -> Option<String> {
    let text = "The kernel's time stamps cannot be read by io_uring: epoll was taken in its place.";
    (wanted && asked == DriverChoice::Uring).then(|| text.to_owned())
}

/// Whether each worker has one connection, and one exchange of messages under way on it: nothing
/// else to wait for, so that its calls can wait by themselves.
fn is_ping_pong(plan: &Plan, workers: usize) -> bool {
    let Load::Closed { connections, think: Think::None } = plan.load else { return false };
    let alone = plan.exchange.is_some() && plan.pipeline == 1 && plan.endpoints.len() == 1;
    alone && plan.shard.share_of(u64::from(connections)) <= workers as u64
}

/// Whether io_uring is measured to be at least as fast as epoll for such a plan: in a closed loop
/// with one request in flight on a connection, and where every request has a connection of its own.
/// Elsewhere the two are equal within the noise, and epoll takes less memory
/// (docs/design/2026-11-21-drivers.md). Sessions are not measured yet.
pub fn auto_prefers_uring(plan: &Plan) -> bool {
    let closed = matches!(plan.load, Load::Closed { .. }) && plan.sessions.is_none();
    plan.requests_per_connection == Some(1) || (closed && plan.pipeline == 1)
}

/// Whether the kernel has sockets of the kind that is asked for.
fn check_kind(remote: &Remote) -> Result<(), SetupError> {
    if remote.is_usual() {
        return Ok(());
    }
    if let Some(style) = remote.sctp() {
        let socket = sctp::socket(style, false, Mode::Blocking);
        return socket.map(drop).map_err(|error| SetupError::NoSctp { error });
    }
    match remote.socket(None, Mode::NonBlocking) {
        Ok(_) => Ok(()),
        Err(e) => {
            let error = io::Error::from_raw_os_error(e);
            // Other shortages are met, and counted, when connections are made.
            if errno::lacks(&error) {
                return Err(SetupError::Lacks { to: remote.to_string(), error });
            }
            Ok(())
        }
    }
}

fn is_sctp(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Inet { over: Carrier::Sctp | Carrier::SctpSeqpacket, .. })
}

/// Whether SCTP without the kernel's can do what the plan asks for.
fn check_userspace(
    plan: &Plan,
    options: &Options,
    settings: &userspace::Settings,
) -> Result<(), Refusal> {
    userspace::ready(settings)?;
    let several = |e: &Endpoint| matches!(e, Endpoint::Inet { host, .. } if host.contains(','));
    if plan.endpoints.iter().any(several) {
        return Err(Refusal::OnePath { what: "the target" });
    }
    if options.sources.len() > 1 {
        return Err(Refusal::OnePath { what: "this side (--source)" });
    }
    let messages = plan.exchange.iter().flat_map(|e| &e.messages);
    let max = userspace::SIZE_MAX;
    match messages.map(|m| m.request.max(m.reply)).find(|&size| size > max) {
        Some(size) => Err(Refusal::TooLong { size, max }),
        None => Ok(()),
    }
}
