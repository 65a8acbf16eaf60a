//! The cases of messages in streams and of round trips: every kind of load in which one request
//! lasts long, and what is measured are its messages.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::cases::{Case, DRIVERS, PERCENTS};
use super::faults::{Fault, Throttle};
use crate::server::Server;
use crate::shell::target_dir;

/// What the client is pointed at.
#[derive(Clone)]
pub(super) enum Target {
    /// The server, by a URL of this scheme.
    Url(&'static str),
    /// The server, by a plan file in which `URL` stands for its URL.
    Plan(String),
    /// A responder for round trips.
    Responder,
}

/// A kind of load. `TIME` is how long it lasts, without the time for connects.
struct Kind {
    name: &'static str,
    target: Target,
    /// A plan file, in which `LOAD` stands for the load.
    plan: Option<&'static str>,
    serve: &'static str,
    /// A small load, which any machine can carry in time.
    small: &'static str,
    /// More than one processor can do; with it the server has the options of `serve_full`.
    full: &'static str,
    serve_full: &'static str,
}

const KINDS: [Kind; 13] = [
    Kind {
        name: "websocket open",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws echo --latency 5ms",
        small: "-c 10 -n 10 --messages 20/s --messages-time TIME -b hello",
        full: "-c 10 -n 10 --messages 20k/s --messages-time TIME -b hello",
        serve_full: "--ws echo",
    },
    Kind {
        name: "websocket all",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws echo --latency 5ms",
        small: "-c 10 -n 10 --messages 200/s --messages-over all --messages-time TIME -b hello",
        full: "-c 10 -n 10 --messages 200k/s --messages-over all --messages-time TIME -b hello",
        serve_full: "--ws echo",
    },
    Kind {
        name: "websocket once",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws echo --latency 5ms",
        small: "-c 10 -d TIME -b hello",
        full: "-c 64 -d TIME -b hello",
        serve_full: "--ws echo",
    },
    Kind {
        name: "websocket closed",
        target: Target::Url("http"),
        plan: Some(STEPS),
        serve: "--ws echo --latency 5ms",
        small: "10",
        full: "64",
        serve_full: "--ws echo",
    },
    Kind {
        name: "websocket http2",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws echo --latency 5ms",
        small: "--h2c -c 2 --streams 5 -n 10 --messages 20/s --messages-time TIME -b hello",
        full: "--h2c -c 2 --streams 5 -n 10 --messages 20k/s --messages-time TIME -b hello",
        serve_full: "--ws echo",
    },
    Kind {
        name: "broadcast",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws broadcast --latency 5ms",
        small: "-c 10 --publishers 2 --publish-after 200ms --subscribers-wait 400ms \
                --messages 20/s --messages-time TIME -b hello",
        full: "-c 40 --publishers 2 --publish-after 200ms --subscribers-wait 400ms \
               --messages 4k/s --messages-time TIME -b hello",
        serve_full: "--ws broadcast",
    },
    Kind {
        name: "push",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws push:50",
        small: "-c 10 -n 10 --stream messages --stream-time TIME",
        full: "-c 40 -n 40 --stream messages --stream-time TIME",
        serve_full: "--ws push:10000",
    },
    Kind {
        name: "pings",
        target: Target::Url("ws"),
        plan: None,
        serve: "--ws echo",
        small: "-c 10 -n 10 --stream messages --stream-time TIME --ping-every 50ms",
        full: "-c 200 -n 200 --stream messages --stream-time TIME --ping-every 1ms",
        serve_full: "--ws echo",
    },
    Kind {
        name: "grpc bidirectional",
        target: Target::Url("http"),
        plan: Some(CALLS),
        serve: "--grpc --latency 5ms",
        small: "20",
        full: "20k",
        serve_full: "--grpc",
    },
    Kind {
        name: "sse gaps",
        target: Target::Url("http"),
        plan: None,
        serve: "--sse gap=fixed:20ms,count=100000",
        small: "-c 10 -n 10 --stream sse --stream-time TIME",
        full: "-c 40 -n 40 --stream sse --stream-time TIME",
        serve_full: "--sse gap=fixed:100us,count=1000000",
    },
    Kind {
        name: "sse rate",
        target: Target::Url("http"),
        plan: None,
        serve: "--sse ttft=fixed:20ms,gap=fixed:20ms,count=20",
        small: "-r 10 -d TIME --stream sse",
        full: "-r 200 -d TIME --stream sse",
        serve_full: "--sse gap=fixed:100us,count=1000",
    },
    Kind {
        name: "llm",
        target: Target::Url("http"),
        plan: None,
        serve: "--sse ttft=fixed:100ms,gap=fixed:20ms,count=100000",
        small: "llm --model m -c 10 -d TIME --output-tokens 20 --prompt-count 5",
        full: "llm --model m -c 40 -d TIME --output-tokens 1000 --prompt-count 5",
        serve_full: "--sse gap=fixed:100us,count=1000000",
    },
    Kind {
        name: "round trips",
        target: Target::Responder,
        plan: None,
        serve: "",
        small: "-r 100 -c 4 -d TIME",
        full: "-c 16 -d TIME",
        serve_full: "",
    },
];

/// Users that send their next message when they have the reply to the last one.
const STEPS: &str = r#"
url = "URL"
users = LOAD
duration = "TIME"
timeout = "LIMIT"

[[session]]
request = [
  { open = "/", name = "open" },
  { send = "hello", wait-for = "hello", name = "say", repeat = 20 },
  { close = 1000, name = "close" },
]
"#;

/// Ten streams, in each of which messages ask for replies of ten bytes. Its messages are encoded,
/// because a program without schemas of gRPC can send them, too.
const CALLS: &str = r#"
url = "URL"
connections = 2
requests = 10
http = "2-only"
timeout = "LIMIT"

request = [
  { path = "/grpc.testing.TestService/FullDuplexCall", body = "\u0000\u0000\u0000\u0000\u0004\u0012\u0002\b\n", grpc = { streams = true, takes = true } },
]

[http2]
streams = 5

[grpc]
encoded = true
messages = "LOAD"
messages-time = "TIME"
"#;

/// How long faulty runs last, and clean ones.
const FAULTY: &str = "1400ms";
const QUICK: &str = "1s";
const CLEAN: &str = "9s";

impl Kind {
    fn case(&self, driver: &'static str, fault: Fault, is_full: bool, time: &str) -> Case {
        let (serve, load) =
            if is_full { (self.serve_full, self.full) } else { (self.serve, self.small) };
        // What a throttled meter cannot send in time is given up.
        let timeout = if is_full { "4s" } else { "30s" };
        let fill = |text: &str| text.replace("TIME", time).replace("LIMIT", timeout);
        let (load, target) = match self.plan {
            Some(plan) => (String::new(), Target::Plan(fill(plan).replace("LOAD", load))),
            None => (fill(load) + " --timeout " + timeout, self.target.clone()),
        };
        let load = format!("{load} -t 1 --driver {driver}");
        let (model, expected, server_fault) = (self.name, fault.expected(), None);
        // What a clean case measures takes so little time that others would make it late.
        let can_run_concurrently = !is_full && fault != Fault::None;
        Case {
            fault,
            model,
            driver,
            expected,
            server_fault,
            serve,
            load,
            target,
            can_run_concurrently,
        }
    }

    /// Cases with a meter that is late.
    fn late(&self, driver: &'static str) -> Vec<Case> {
        let mut cases = Vec::new();
        for percent in PERCENTS {
            let stopped = Fault::Throttled(Throttle::Signals, percent);
            cases.push(self.case(driver, stopped, false, FAULTY));
            let quota = Fault::Throttled(Throttle::Quota, percent);
            cases.push(self.case(driver, quota, true, FAULTY));
        }
        for fault in [Fault::SecondLoad, Fault::BesideServer] {
            cases.push(self.case(driver, fault, true, FAULTY));
        }
        cases
    }
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for kind in &KINDS {
        for driver in DRIVERS {
            all.extend(kind.late(driver));
            // A round trip takes so little time that any machine makes some of them late.
            if !matches!(kind.target, Target::Responder) {
                all.push(kind.case(driver, Fault::None, false, CLEAN));
            }
        }
    }
    all
}

/// One case of each kind that cannot be valid however busy the machine is.
pub(super) fn quick() -> Vec<Case> {
    let of_kind = |(i, kind): (usize, &Kind)| {
        let percent = PERCENTS[PERCENTS.len() - 1 - i % 2];
        let stopped = Fault::Throttled(Throttle::Signals, percent);
        kind.case(DRIVERS[i % 2], stopped, false, QUICK)
    };
    KINDS.iter().enumerate().map(of_kind).collect()
}

impl Target {
    /// Start what the client is pointed at, and give the client all its options.
    pub(super) fn start(
        &self,
        prony: &mut Command,
        case: &Case,
        client: &mut Command,
    ) -> Result<Server> {
        let server = match self {
            Self::Responder => Server::responder(prony)?,
            Self::Url(_) | Self::Plan(_) => Server::start_with(prony, &case.serve())?,
        };
        let url = server.url();
        match self {
            Self::Responder => client.arg("rtt").args(case.load()).arg(url),
            Self::Url(scheme) => client.args(case.load()).arg(url.replacen("http", scheme, 1)),
            Self::Plan(plan) => {
                let base = url.trim_end_matches('/');
                // Cases that run at the same time have different ports.
                let port = base.rsplit(':').next().unwrap_or_default();
                let path = target_dir()?.join(format!("verdicts-{port}.toml"));
                fs::write(&path, plan.replace("URL", base))
                    .with_context(|| format!("cannot write {}", path.display()))?;
                client.arg("run").arg(path).args(case.load())
            }
        };
        client.args(["--json", "--quiet"]);
        Ok(server)
    }
}
