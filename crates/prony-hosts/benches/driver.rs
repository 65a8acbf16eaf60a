//! Measures what the driver spends on its workers: `cargo bench -p prony-hosts --bench driver --
//! [HOSTS] [RATE]`. One worker runs for some seconds at `RATE` requests per second against a server
//! in this process; then its lines are played to a driver as those of `HOSTS` workers, each second
//! at the time at which they came. Without `--bench`, as a test, there are only a few hosts.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use prony_base::units::Span;
use prony_hosts::driver::{self, Job, OnLoss, Watchers};
use prony_hosts::engine::{Engine, Event};
use prony_hosts::protocol::{self, Order, PROTOCOL, PlanOrder, Reply};
use prony_hosts::worker::{self, Settings};
use prony_io::{Control, clock};
use prony_plan::plan::{Plan, Shard};
use prony_run::environment::Environment;
use prony_run::error::Error;
use prony_run::local_server::{LocalServer, ServerConfig};
use prony_run::plan_file;
use prony_server::serve::{Latency, ServerBehavior};
use prony_stats::summary::CommandLine;

/// How long the recorded worker runs.
const SECONDS: u64 = 6;

/// What a worker has said.
struct Recorded {
    /// Its ticks, with the time since the start at which each came.
    ticks: Vec<(Duration, String)>,
    report: serde_json::Value,
}

fn main() {
    let mut args: Vec<String> = env::args().skip(1).collect();
    let is_bench = args.iter().any(|arg| arg == "--bench");
    args.retain(|arg| !arg.starts_with("--"));
    let number = |i: usize, default| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let (hosts, rate) = if is_bench { (number(0, 2_000), number(1, 800)) } else { (3, 100) };
    let latency = Latency::Exponential(Span::from_millis(2));
    let behavior = ServerBehavior { latency, ..ServerBehavior::default() };
    let config = ServerConfig { behavior, ..ServerConfig::default() };
    let server = LocalServer::start(config).expect("a server");
    for blocks in [false, true] {
        let plan = plan(&server.url, u64::from(hosts) * u64::from(rate));
        let recorded = recorded(&plan, hosts, blocks);
        measure(&plan, hosts, &recorded, blocks);
    }
}

fn plan(url: &str, rate: u64) -> Plan {
    let text = format!(
        "url = '{url}'\nrate = {rate}\narrivals = 'poisson'\nduration = '{SECONDS}s'\n\
         connections = 1000000\n"
    );
    let around = Environment {
        connections_max: 1,
        connections_why: String::new(),
        seed: 1,
        simulated: false,
    };
    plan_file::parse("bench", &text, None, &around).expect("a plan").plan
}

/// Runs the first share of the plan.
fn recorded(plan: &Plan, hosts: u32, blocks: bool) -> Recorded {
    let (input, mut orders) = std::io::pipe().expect("a pipe");
    let (output, replies) = std::io::pipe().expect("a pipe");
    let options = prony_io::Options { threads: Some(1), ..prony_io::Options::default() };
    let settings = Settings { options, ..Settings::default() };
    let worker = thread::spawn(move || worker::serve(&settings, BufReader::new(input), replies));
    let mut lines = BufReader::new(output).lines();
    let mut say = |order: &Order| orders.write_all(protocol::line(order).as_bytes()).expect("sent");
    say(&Order::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").into() });
    say(&Order::Plan(Box::new(PlanOrder {
        plan: plan.clone(),
        shard: Shard { index: 0, of: hosts },
        environment: Vec::new(),
        command: CommandLine::default(),
        notes: Vec::new(),
        adjustable_rate: false,
        blocks,
        service_blocks: false,
    })));
    let at = clock::realtime() + 300_000_000;
    say(&Order::Start { at_unix_ns: at, run_unix_ns: at });
    let start = Instant::now() + Duration::from_millis(300);
    let mut ticks = Vec::new();
    loop {
        let line = lines.next().expect("a line").expect("text");
        match protocol::parse::<Reply>(&line).expect("a reply") {
            Reply::Tick(_) => ticks.push((start.elapsed(), line + "\n")),
            Reply::Final { report } => {
                drop(orders);
                worker.join().expect("no panic").expect("a worker");
                return Recorded { ticks, report };
            }
            Reply::Refused { why } => panic!("{why}"),
            _ => {}
        }
    }
}

/// Plays the lines of one worker as those of many.
struct Replay<'a> {
    recorded: &'a Recorded,
    hosts: usize,
    ready: VecDeque<Event>,
    /// When the run starts, and the next tick.
    start: Option<Instant>,
    tick: usize,
    is_over: bool,
    /// CPU time of this thread at the start, at the first report, and what the replay itself took.
    cpu: [u64; 2],
    own: u64,
}

/// CPU time of this thread in nanoseconds.
fn cpu() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    stat.split_whitespace().next().expect("a field").parse().expect("a number")
}

impl Replay<'_> {
    fn play(&mut self) {
        let Some(start) = self.start else { return };
        let due = |at: Duration| start.elapsed() >= at;
        if let Some((_, line)) = self.recorded.ticks.get(self.tick).filter(|(at, _)| due(*at)) {
            self.ready.extend((0..self.hosts).map(|host| Event::Line(host, line.clone())));
            self.tick += 1;
        } else if self.tick == self.recorded.ticks.len() && !self.is_over {
            self.is_over = true;
            self.cpu[1] = cpu();
            for host in 0..self.hosts {
                let mut report = self.recorded.report.clone();
                report["plan"]["shard"]["index"] = host.into();
                let line = protocol::line(&Reply::Final { report });
                self.ready.push_back(Event::Line(host, line));
            }
            self.own += cpu() - self.cpu[1];
        }
    }
}

impl Engine for Replay<'_> {
    fn open(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn send(&mut self, host: usize, line: &str) {
        let reply = match protocol::parse::<Order>(line).expect("an order") {
            Order::Hello { version, .. } => {
                Reply::Hello { protocol: PROTOCOL, version, host: format!("host-{host}"), pid: 1 }
            }
            Order::Plan(_) => Reply::Ready,
            Order::Ping { id } => Reply::Pong { id, unix_ns: clock::realtime() },
            Order::Start { at_unix_ns, .. } => {
                let left = at_unix_ns.saturating_sub(clock::realtime());
                self.start = Some(Instant::now() + Duration::from_nanos(left));
                self.cpu[0] = cpu();
                Reply::Armed { at_unix_ns }
            }
            Order::Rate { .. } | Order::Stop { .. } => return,
        };
        self.ready.push_back(Event::Line(host, protocol::line(&reply)));
    }

    fn events(&mut self, wait: Duration) -> Vec<Event> {
        self.play();
        if self.ready.is_empty() {
            thread::sleep(wait.min(Duration::from_millis(5)));
            self.play();
        }
        self.ready.drain(..).collect()
    }

    fn close(&mut self) {}
}

fn measure(plan: &Plan, hosts: u32, recorded: &Recorded, blocks: bool) {
    let job = Job {
        plan: plan.clone(),
        hosts,
        on_loss: OnLoss::Continue,
        command: CommandLine::default(),
        notes: Vec::new(),
        blocks: (blocks, false),
        adjustable_rate: false,
        beside: None,
    };
    let ready = VecDeque::new();
    let (start, tick, is_over, cpu_at, own) = Default::default();
    let mut engine =
        Replay { recorded, hosts: hosts as usize, ready, start, tick, is_over, cpu: cpu_at, own };
    let mut said = Vec::new();
    let mut say = |sentence: &str| said.push(sentence.to_owned());
    let watchers = Watchers { say: &mut say, status: &mut |_| {}, live: &mut |_| {}, view: None };
    let control = Arc::new(Control::new());
    let summary = driver::run(&job, &mut engine, &control, watchers).expect("a run");
    let end = cpu();
    assert_eq!(said, [""; 0], "no host is lost");
    let of_one = recorded.report["measurement"]["tally"]["replies"].as_u64().expect("a count");
    assert_eq!(summary.main.replies, of_one * u64::from(hosts), "every report is merged");
    let n = recorded.ticks.len() as f64 * f64::from(hosts);
    let bytes: usize = recorded.ticks.iter().map(|(_, line)| line.len()).sum();
    let [first, last] = engine.cpu;
    let per_tick = (last - first) as f64 / n;
    println!(
        "{hosts} hosts{}: {:.0} bytes per host and second, {:.1} us of CPU time per tally, {:.1} % of \
         a core; {:.0} bytes and {:.1} us per final report",
        if blocks { " with blocks" } else { "" },
        bytes as f64 / SECONDS as f64,
        per_tick / 1e3,
        (last - first) as f64 / (SECONDS as f64 * 1e9) * 100.0,
        recorded.report.to_string().len(),
        (end - last - engine.own) as f64 / f64::from(hosts) / 1e3,
    );
}
