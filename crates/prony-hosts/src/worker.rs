//! The worker: executes the orders on its standard input, and ends at the end of its input.

use std::io::{self, BufRead, Write};
use std::mem;
use std::process;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};
use prony_io::{Control, Live, Options, clock};
use prony_plan::schedule::RateChange;
use prony_report::{Format, Style};
use prony_run::error::Error;
use prony_run::merge;
use prony_run::run::{self, Provenance};
use prony_tally::record::series::Block;

use crate::clocks::translated;
use crate::protocol::{self, Order, PROTOCOL, PlanOrder, Reply, Tick, TickBlock, TickInterval};

/// The maximum time between two reports of a worker.
const EVERY: Span = Span::from_secs(1);
/// How long a load may take to stop after the driver has ended, before the process is ended.
const GRACE: Duration = Duration::from_secs(1);

/// The options of a worker.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How the load is run on this machine.
    pub options: Options,
    /// The error of the worker's wall clock in nanoseconds, for tests.
    pub clock_offset_ns: i64,
    /// Whether the process ends at the end of its input, even during a load.
    pub exits: bool,
}

/// The state that its threads share.
struct Shared<W> {
    output: Mutex<W>,
    control: Control,
    clock_offset_ns: i64,
}

impl<W: Write> Shared<W> {
    /// Send a reply. Errors are ignored, as they mean that the driver has ended.
    fn say(&self, reply: &Reply) {
        let line = protocol::line(reply);
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
            self.control.stop_now();
        }
    }

    /// The wall clock of this worker.
    fn now(&self) -> u64 {
        translated(clock::realtime(), self.clock_offset_ns)
    }
}

/// Serve one driver until the input ends.
///
/// # Errors
/// No thread can be started.
pub fn serve<R, W>(settings: &Settings, input: R, output: W) -> io::Result<()>
where
    R: BufRead + Send + 'static,
    W: Write + Send + 'static,
{
    let shared = Arc::new(Shared {
        output: Mutex::new(output),
        control: Control::new(),
        clock_offset_ns: settings.clock_offset_ns,
    });
    let (orders, received) = mpsc::channel();
    let exits = settings.exits;
    let reader = Arc::clone(&shared);
    thread::Builder::new().name("orders".into()).spawn(move || {
        read(input, &reader, &orders);
        reader.control.stop_now();
        drop(orders);
        if exits {
            thread::sleep(GRACE);
            process::exit(0);
        }
    })?;
    obey(settings, &shared, &received);
    Ok(())
}

/// Read orders until the end of the input. Orders that must not wait for a load are executed here.
fn read<W: Write>(mut input: impl BufRead, shared: &Shared<W>, orders: &Sender<Order>) {
    loop {
        let line = match protocol::read_line(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(e) => return shared.say(&Reply::Refused { why: format!("the input: {e}") }),
        };
        if line.trim().is_empty() {
            continue;
        }
        match protocol::parse::<Order>(&line) {
            Ok(Order::Ping { id }) => shared.say(&Reply::Pong { id, unix_ns: shared.now() }),
            Ok(Order::Stop { now: true }) => shared.control.stop_now(),
            Ok(Order::Stop { now: false }) => shared.control.interrupt(),
            Ok(Order::Rate { factor, .. }) if !(factor.is_finite() && factor >= 0.0) => {
                shared
                    .say(&Reply::Refused { why: format!("{factor} is not a multiple of a rate") });
            }
            Ok(Order::Rate { factor, from_ns }) => {
                shared.control.change_rate_from(RateChange { from: Nanos(from_ns), factor });
            }
            Ok(order) => {
                if orders.send(order).is_err() {
                    return;
                }
            }
            Err(why) => shared.say(&Reply::Refused { why }),
        }
    }
}

/// Execute orders, one after another.
fn obey<W: Write>(settings: &Settings, shared: &Shared<W>, orders: &Receiver<Order>) {
    let mut greeted = false;
    let mut planned = None;
    for order in orders {
        let refused = |why: &str| shared.say(&Reply::Refused { why: why.to_owned() });
        match order {
            Order::Hello { protocol, version } => match greet(protocol, &version) {
                Ok(reply) => {
                    greeted = true;
                    shared.say(&reply);
                }
                Err(why) => refused(&why),
            },
            _ if !greeted => refused("the first line must be hello"),
            Order::Plan(mut order) => {
                // A plan is sent without the variables that it names.
                order.plan.data.environment.clone_from(&order.environment);
                match check(&order, settings) {
                    Ok(()) => {
                        planned = Some(order);
                        shared.say(&Reply::Ready);
                    }
                    Err(e) => refused(&e.printed()),
                }
            }
            Order::Start { at_unix_ns, run_unix_ns } => {
                let Some(order) = planned.take() else {
                    refused("there is no plan to start, or it was started before");
                    continue;
                };
                if let Some(by_ns) = shared.now().checked_sub(at_unix_ns) {
                    shared.say(&Reply::Late { by_ns });
                    continue;
                }
                shared.say(&Reply::Armed { at_unix_ns });
                match load(*order, settings, shared, at_unix_ns, run_unix_ns) {
                    Ok(report) => shared.say(&Reply::Final { report }),
                    Err(e) => refused(&e.printed()),
                }
            }
            // Executed by the reader.
            Order::Ping { .. } | Order::Rate { .. } | Order::Stop { .. } => {}
        }
    }
}

fn greet(protocol: u32, version: &str) -> Result<Reply, String> {
    let own = env!("CARGO_PKG_VERSION");
    if protocol != PROTOCOL || version != own {
        return Err(format!(
            "this worker is prony {own} with protocol {PROTOCOL}, its driver prony {version} with \
             protocol {protocol}: install the same version on all hosts"
        ));
    }
    Ok(Reply::Hello {
        protocol: PROTOCOL,
        version: own.to_owned(),
        host: merge::host_name(),
        pid: process::id(),
    })
}

/// Check that the share can run on this host.
fn check(order: &PlanOrder, settings: &Settings) -> Result<(), Error> {
    order.plan.check().map_err(Error::Plan)?;
    run::check(&merge::share(&order.plan, order.shard)?, &settings.options)
}

/// Run the share. Returns its JSON report.
fn load<W: Write>(
    order: PlanOrder,
    settings: &Settings,
    shared: &Shared<W>,
    at_unix_ns: u64,
    run_unix_ns: u64,
) -> Result<serde_json::Value, Error> {
    let PlanOrder { plan, shard, command, notes, .. } = order;
    let share = merge::share(&plan, shard)?;
    let options = Options {
        start_at: Some(translated(at_unix_ns, -settings.clock_offset_ns)),
        detail: true,
        adjustable_rate: order.adjustable_rate,
        blocks: order.blocks,
        keep_service: order.service_blocks,
        // The driver limits it, with its second order to stop.
        drain: Span::MAX,
        ..settings.options.clone()
    };
    let part = merge::part_of(&plan, Some(run_unix_ns as f64 / 1e9));
    let provenance = Provenance { command, notes, part: Some(part), ..Provenance::default() };
    let mut ticks = Ticks::default();
    let mut last = None;
    let mut watch = |live: &Live| {
        if let Some(tick) = ticks.next(live) {
            shared.say(&Reply::Tick(Box::new(tick.clone())));
            let (blocks, service_blocks) = Default::default();
            last = Some(Tick { interval: None, blocks, service_blocks, ..tick });
        }
    };
    let summary = run::run(&share, &options, &shared.control, &mut watch, provenance)?;
    // A large report takes a while to write, and a worker must not be silent for long.
    if let Some(tick) = last {
        shared.say(&Reply::Tick(Box::new(tick)));
    }
    let report = prony_report::render(Format::Json, &summary, &Style::default());
    serde_json::from_slice(&report).map_err(|e| Error::Machine(format!("the report: {e}")))
}

/// When to report, and what was reported.
#[derive(Debug, Default)]
struct Ticks {
    last: Nanos,
    interval: Option<Nanos>,
    blocks: Vec<TickBlock>,
    service_blocks: Vec<TickBlock>,
}

impl Ticks {
    fn next(&mut self, live: &Live) -> Option<Tick> {
        self.blocks.extend(live.blocks.iter().map(tick_block));
        self.service_blocks.extend(live.served.iter().map(tick_block));
        let begin = live.last.as_ref().map(|interval| interval.begin);
        let is_new = begin.is_some() && begin != self.interval;
        if live.now == Nanos::ZERO || !(is_new || live.now.since(self.last) >= EVERY) {
            return None;
        }
        self.last = live.now;
        let interval = live.last.as_ref().filter(|_| is_new).map(|interval| TickInterval {
            begin_ns: interval.begin.0,
            length_ns: interval.length.0,
            cell: interval.cell.clone(),
        });
        self.interval = begin.or(self.interval);
        let detail = live.detail.as_ref();
        let faults = detail.into_iter().flat_map(|d| Fault::ALL.into_iter().zip(d.faults));
        Some(Tick {
            now_ns: live.now.0,
            started: live.started,
            replies: live.replies,
            failed: live.failed,
            faults: faults.filter(|&(_, n)| n > 0).collect(),
            statuses: detail.into_iter().flat_map(|d| d.statuses.clone()).collect(),
            interval,
            blocks: mem::take(&mut self.blocks),
            service_blocks: mem::take(&mut self.service_blocks),
        })
    }
}

fn tick_block((begin, block): &(Span, Block)) -> TickBlock {
    TickBlock { begin_ns: begin.0, block: block.clone() }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use prony_io::Interval;
    use prony_tally::record::series::Cell;

    use super::*;

    /// The replies of a worker to these lines.
    fn said(lines: &str) -> Vec<Reply> {
        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("nobody panics").extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let input = Cursor::new(lines.to_owned());
        serve(&Settings::default(), input, kept.clone()).expect("a thread");
        let text = String::from_utf8(kept.0.lock().expect("nobody panics").clone()).expect("text");
        text.lines().map(|line| protocol::parse(line).expect(line)).collect()
    }

    fn hello(version: &str) -> String {
        protocol::line(&Order::Hello { protocol: PROTOCOL, version: version.into() })
    }

    #[test]
    fn greets_its_own_version_only() {
        let own = env!("CARGO_PKG_VERSION");
        let replies = said(&hello(own));
        assert!(matches!(&replies[..], [Reply::Hello { protocol: PROTOCOL, version, .. }]
            if version == own));
        let [Reply::Refused { why }] = &said(&hello("9.9.9"))[..] else { panic!("it is refused") };
        assert!(
            why.contains("driver prony 9.9.9") && why.ends_with("version on all hosts"),
            "{why}"
        );
    }

    #[test]
    fn refuses_orders_out_of_turn_and_goes_on() {
        let start = protocol::line(&Order::Start { at_unix_ns: 1, run_unix_ns: 1 });
        let ping = protocol::line(&Order::Ping { id: 7 });
        let own = hello(env!("CARGO_PKG_VERSION"));
        let replies = said(&format!("{start}what?\n\n{own}{start}{ping}"));
        let refused: Vec<&str> = replies
            .iter()
            .filter_map(|reply| match reply {
                Reply::Refused { why } => Some(why.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(refused.len(), 3, "{replies:?}");
        assert!(refused.contains(&"the first line must be hello"));
        assert!(refused.contains(&"there is no plan to start, or it was started before"));
        assert!(refused.iter().any(|why| why.ends_with(": what?\\n")), "{refused:?}");
        assert!(replies.iter().any(|reply| matches!(reply, Reply::Pong { id: 7, .. })));
    }

    #[test]
    fn reports_each_interval_once_and_at_least_every_second() {
        let at = |ms| Nanos::ZERO + Span::from_millis(ms);
        let live = |ms, second: Option<u64>| Live {
            now: at(ms),
            last: second.map(|second| Interval {
                begin: at(second * 1_000),
                length: Span::from_secs(1),
                cell: Cell { started: second + 1, ..Cell::default() },
            }),
            ..Live::default()
        };
        let mut ticks = Ticks::default();
        let mut reported = Vec::new();
        for (ms, second) in [
            (0, None),
            (50, None),
            (950, None),
            (1_000, None),
            (1_150, Some(0)),
            (1_200, Some(0)),
            (2_150, Some(0)),
            (2_200, Some(1)),
            (2_250, Some(1)),
        ] {
            if let Some(tick) = ticks.next(&live(ms, second)) {
                reported.push((ms, tick.interval.map(|interval| interval.cell.started)));
            }
        }
        assert_eq!(reported, [(1_000, None), (1_150, Some(1)), (2_150, None), (2_200, Some(2))]);
    }
}
