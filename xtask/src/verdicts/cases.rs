//! The cases: every fault, with every load model and driver.

use std::collections::BTreeMap;

use super::faults::{Fault, Throttle};
use super::streams::{self, Target};

/// Options of a load.
struct Model {
    name: &'static str,
    /// As much load as the meter can send. `RATE` is replaced by a rate that takes most of a
    /// processor, and that the meter can keep.
    full: &'static str,
    /// A small load, against a slow server.
    concurrent: &'static str,
    /// Fewer than 20 connections at the same time, with many connects.
    few: &'static str,
}

const MODELS: [Model; 6] = [
    Model { name: "closed", full: "-c 32", concurrent: "-c 4", few: "-c 16" },
    Model { name: "pipelined", full: "-c 8 -p 16", concurrent: "-c 2 -p 4", few: "-c 16 -p 4" },
    Model {
        name: "thinking",
        full: "-c 400 --think 1ms",
        concurrent: "-c 8 --think 20ms",
        few: "-c 19 --think 1ms",
    },
    Model {
        name: "open",
        full: "-r RATE -c 64 --timeout 1s",
        concurrent: "-r 150",
        few: "-r 2k -c 19",
    },
    Model {
        name: "poisson",
        full: "-r RATE -c 64 --timeout 1s --arrivals poisson",
        concurrent: "-r 150 --arrivals poisson",
        few: "-r 2k -c 19 --arrivals poisson",
    },
    Model {
        name: "streams",
        full: "--h2c -c 8 --streams 16",
        concurrent: "--h2c -c 2 --streams 2",
        few: "--h2c -c 16 --streams 4",
    },
];

pub(super) const DRIVERS: [&str; 2] = ["epoll", "uring"];

/// The shares of a processor that a throttled meter gets, in percent.
pub(super) const PERCENTS: [u32; 3] = [5, 20, 50];

/// Servers that change or fail: the fault, the server's options, the duration of the run, and the
/// expected verdict.
const SERVERS: [(&str, &str, &str, &str); 7] = [
    ("steps up", "--latency uniform:15ms:25ms --step 3@5s", "10s", NOT_STATIONARY),
    ("steps down", "--latency uniform:35ms:45ms --step 0.4@5s", "10s", NOT_STATIONARY),
    ("drifts up", "--latency uniform:15ms:25ms --drift 4@10s", "10s", NOT_STATIONARY),
    ("drifts down", "--latency uniform:55ms:65ms --drift 0.2@10s", "10s", NOT_STATIONARY),
    ("replies 503", "--latency 10ms --status 200:1,503:3", "1500ms", FAILED),
    ("resets", "--latency 10ms --reset 80%", "1500ms", FAILED),
    ("truncates replies", "--latency 10ms --truncate 80%", "1500ms", FAILED),
];
const NOT_STATIONARY: &str = "NOT-STATIONARY";
const FAILED: &str = "TARGET-FAILED";

/// Servers without a fault.
const CLEAN: [&str; 5] = [
    "--latency 20ms",
    "--latency uniform:15ms:45ms",
    "--latency bimodal:10ms:60ms:10%",
    "--latency exp:25ms",
    "--latency lognormal:20ms:0.5",
];

/// A run.
pub(super) struct Case {
    pub(super) fault: Fault,
    pub(super) model: &'static str,
    pub(super) driver: &'static str,
    /// The expected verdict.
    pub(super) expected: &'static str,
    /// The fault of the server.
    pub(super) server_fault: Option<&'static str>,
    pub(super) serve: &'static str,
    pub(super) load: String,
    pub(super) target: Target,
    /// Whether it needs so little processor time, and measures such long times, that others can
    /// run at the same time.
    pub(super) can_run_concurrently: bool,
}

impl Case {
    /// A name for messages.
    pub(super) fn name(&self) -> String {
        format!("{}, {}, {}", self.kind(), self.model, self.driver)
    }

    /// The name of the fault.
    pub(super) fn kind(&self) -> String {
        match self.server_fault {
            Some(server_fault) => format!("the server {server_fault}"),
            None => self.fault.name(),
        }
    }

    /// Whether it has no fault.
    pub(super) fn is_clean(&self) -> bool {
        self.fault == Fault::None && self.server_fault.is_none()
    }

    /// The server's options.
    pub(super) fn serve(&self) -> Vec<&str> {
        words(self.serve)
    }

    /// The load's options, without the URL.
    pub(super) fn load(&self) -> Vec<&str> {
        words(&self.load)
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').filter(|s| !s.is_empty()).collect()
}

/// For each model and driver of an open loop, a rate that takes most of a processor. Without one,
/// the cases that need such a rate are skipped.
pub(super) type Rates = BTreeMap<(&'static str, &'static str), u64>;

/// The loads that need such a rate.
pub(super) fn open_loops() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let open = MODELS.iter().filter(|m| m.full.contains("RATE"));
    open.flat_map(|m| DRIVERS.map(|driver| (m.name, driver, m.full)))
}

/// A closed loop at its maximum rate.
pub(super) fn closed_loop(driver: &str) -> String {
    format!("{} --driver {driver}", MODELS[0].full)
}

impl Model {
    fn case(&self, driver: &'static str, fault: Fault, load: &str, serve: &'static str) -> Case {
        let load = format!("{load} --driver {driver}");
        let target = Target::Url("http");
        let expected = fault.expected();
        let (model, server_fault) = (self.name, None);
        let concurrent = [Fault::None, Fault::Short, Fault::Interrupted];
        let can_run_concurrently = concurrent.contains(&fault);
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

    fn full(&self, driver: &'static str, rates: &Rates) -> Option<String> {
        if !self.full.contains("RATE") {
            return Some(self.full.into());
        }
        let rate = rates.get(&(self.name, driver))?;
        Some(self.full.replace("RATE", &rate.to_string()))
    }

    /// Cases with a throttled meter at its maximum rate.
    fn held(&self, driver: &'static str, full: &str) -> Vec<Case> {
        let mut cases = Vec::new();
        for percent in PERCENTS {
            for (hold, threads) in
                [(Throttle::Quota, 1), (Throttle::Quota, 2), (Throttle::Signals, 1)]
            {
                let load = format!("{full} -t {threads} -d 1500ms");
                cases.push(self.case(driver, Fault::Throttled(hold, percent), &load, ""));
            }
        }
        let load = format!("{full} -t 1 -d 1500ms");
        cases.push(self.case(driver, Fault::SecondLoad, &load, ""));
        cases
    }

    /// Cases with a faulty server.
    fn against(&self, driver: &'static str) -> impl Iterator<Item = Case> {
        SERVERS.into_iter().map(move |(server_fault, serve, length, expected)| {
            let load = format!("{} -d {length}", self.concurrent);
            let case = self.case(driver, Fault::None, &load, serve);
            Case { server_fault: Some(server_fault), expected, ..case }
        })
    }

    /// Cases that are too short, interrupted, or without descriptors or ports.
    fn otherwise(&self, driver: &'static str) -> Vec<Case> {
        let short = format!("{} -d 1s --percentile 99.9", self.concurrent);
        let long = format!("{} -d 5s", self.concurrent);
        let ports = format!("{} -d 1s", self.few);
        let mut cases = vec![
            self.case(driver, Fault::Short, &short, CLEAN[0]),
            self.case(driver, Fault::Interrupted, &long, CLEAN[0]),
            self.case(driver, Fault::Ports, &ports, ""),
        ];
        // Pipelines reuse their connections.
        if self.name != "pipelined" {
            let again = format!("{} --no-reuse -t 1 -d 2s", self.few);
            cases.push(self.case(driver, Fault::Descriptors, &again, "--latency 5ms"));
        }
        cases
    }
}

/// All cases.
pub(super) fn all(rates: &Rates) -> Vec<Case> {
    let mut all = Vec::new();
    for model in &MODELS {
        for driver in DRIVERS {
            if let Some(full) = model.full(driver, rates) {
                all.extend(model.held(driver, &full));
            }
            all.extend(model.against(driver));
            all.extend(model.otherwise(driver));
            for serve in CLEAN {
                let load = format!("{} -d 9s", model.concurrent);
                all.push(model.case(driver, Fault::None, &load, serve));
            }
        }
    }
    all.extend(streams::all());
    all
}

/// A few cases that other load on the machine cannot distort. Closed loops are throttled with
/// quotas, because they use all of their processor time, and open loops with signals.
pub(super) fn quick() -> Vec<Case> {
    let mut few = Vec::new();
    for (i, model) in MODELS.iter().enumerate() {
        let (driver, other) = (DRIVERS[i % 2], DRIVERS[(i + 1) % 2]);
        let is_open = model.full.contains("RATE");
        let full = if is_open { model.few } else { model.full };
        let hold = if is_open { Throttle::Signals } else { Throttle::Quota };
        let load = format!("{full} -t 1 -d 1200ms");
        few.push(model.case(driver, Fault::Throttled(hold, PERCENTS[i % 2]), &load, ""));
        few.extend(model.against(driver).filter(|c| c.expected == FAILED));
        few.extend(model.otherwise(other).into_iter().filter(|c| c.fault == Fault::Short));
    }
    few.extend(streams::quick());
    few.extend(MODELS[0].otherwise(DRIVERS[0]).into_iter().filter(|c| c.fault == Fault::Ports));
    few
}
