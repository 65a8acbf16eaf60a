//! The cases: every way to spoil a run, by every model of load and driver.

use std::collections::BTreeMap;

use super::spoil::{Hold, Spoil};

/// Options of a load.
struct Model {
    name: &'static str,
    /// As much as the meter can do; `RATE` stands for a rate that it can keep up with for the most
    /// of a processor.
    full: &'static str,
    /// Little, against a server that takes its time.
    calm: &'static str,
    /// Under twenty connections at once, again and again.
    few: &'static str,
}

const MODELS: [Model; 5] = [
    Model { name: "closed", full: "-c 32", calm: "-c 4", few: "-c 16" },
    Model { name: "pipelined", full: "-c 8 -p 16", calm: "-c 2 -p 4", few: "-c 16 -p 4" },
    Model {
        name: "thinking",
        full: "-c 400 --think 1ms",
        calm: "-c 8 --think 20ms",
        few: "-c 19 --think 1ms",
    },
    Model { name: "open", full: "-r RATE -c 64 --timeout 1s", calm: "-r 150", few: "-r 2k -c 19" },
    Model {
        name: "poisson",
        full: "-r RATE -c 64 --timeout 1s --arrivals poisson",
        calm: "-r 150 --arrivals poisson",
        few: "-r 2k -c 19 --arrivals poisson",
    },
];

pub(super) const DRIVERS: [&str; 2] = ["epoll", "uring"];

/// Shares of a processor that a meter is held to, in percent.
pub(super) const PERCENTS: [u32; 3] = [5, 20, 50];

/// Servers that change or fail: what they do, their options, how long the run is, and what it must
/// be called.
const SERVERS: [(&str, &str, &str, &str); 7] = [
    ("steps up", "--latency uniform:15ms..25ms --step 3@5s", "10s", CHANGED),
    ("steps down", "--latency uniform:35ms..45ms --step 0.4@5s", "10s", CHANGED),
    ("drifts up", "--latency uniform:15ms..25ms --drift 4@10s", "10s", CHANGED),
    ("drifts down", "--latency uniform:55ms..65ms --drift 0.2@10s", "10s", CHANGED),
    ("answers 503", "--latency 10ms --status 200:1,503:3", "1500ms", FAILED),
    ("resets", "--latency 10ms --reset 80%", "1500ms", FAILED),
    ("cuts off", "--latency 10ms --truncate 80%", "1500ms", FAILED),
];
const CHANGED: &str = "NOT-STATIONARY";
const FAILED: &str = "TARGET-FAILED";

/// Servers that do nothing wrong.
const CLEAN: [&str; 5] = [
    "--latency 20ms",
    "--latency uniform:15ms..45ms",
    "--latency bimodal:10ms,60ms,10%",
    "--latency exp:25ms",
    "--latency lognormal:20ms,0.5",
];

/// One run.
pub(super) struct Case {
    pub(super) spoil: Spoil,
    pub(super) model: &'static str,
    pub(super) driver: &'static str,
    /// What it must be called.
    pub(super) deserves: &'static str,
    /// What is wrong with the server.
    trouble: Option<&'static str>,
    serve: &'static str,
    load: String,
}

impl Case {
    /// What distinguishes it.
    pub(super) fn name(&self) -> String {
        format!("{}, {}, {}", self.kind(), self.model, self.driver)
    }

    /// What is done to the run.
    pub(super) fn kind(&self) -> String {
        match self.trouble {
            Some(trouble) => format!("the server {trouble}"),
            None => self.spoil.name(),
        }
    }

    /// Whether nothing is wrong with it.
    pub(super) fn is_clean(&self) -> bool {
        self.spoil == Spoil::None && self.trouble.is_none()
    }

    /// Whether it needs little of a processor, and others may run beside it.
    pub(super) fn is_calm(&self) -> bool {
        let calm = [Spoil::None, Spoil::Short, Spoil::Interrupted];
        calm.contains(&self.spoil)
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

/// The rate at which each open loop can keep up for the most of a processor, by model and driver;
/// without one, it is not asked for all that it can do.
pub(super) type Rates = BTreeMap<(&'static str, &'static str), u64>;

/// The loads for which such a rate is looked for.
pub(super) fn open_loops() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let open = MODELS.iter().filter(|m| m.full.contains("RATE"));
    open.flat_map(|m| DRIVERS.map(|driver| (m.name, driver, m.full)))
}

/// A closed loop that does what it can.
pub(super) fn closed_loop(driver: &str) -> String {
    format!("{} --driver {driver}", MODELS[0].full)
}

impl Model {
    fn case(&self, driver: &'static str, spoil: Spoil, load: &str, serve: &'static str) -> Case {
        let load = format!("{load} --driver {driver}");
        let deserves = spoil.deserves();
        Case { spoil, model: self.name, driver, deserves, trouble: None, serve, load }
    }

    fn full(&self, driver: &'static str, rates: &Rates) -> Option<String> {
        if !self.full.contains("RATE") {
            return Some(self.full.into());
        }
        let rate = rates.get(&(self.name, driver))?;
        Some(self.full.replace("RATE", &rate.to_string()))
    }

    /// Held back while it does all that it can.
    fn held(&self, driver: &'static str, full: &str) -> Vec<Case> {
        let mut cases = Vec::new();
        for percent in PERCENTS {
            for (hold, threads) in [(Hold::Quota, 1), (Hold::Quota, 2), (Hold::Signals, 1)] {
                let load = format!("{full} -t {threads} -d 1500ms");
                cases.push(self.case(driver, Spoil::Held(hold, percent), &load, ""));
            }
        }
        let load = format!("{full} -t 1 -d 1500ms");
        cases.push(self.case(driver, Spoil::SecondLoad, &load, ""));
        cases
    }

    /// Against servers that spoil it.
    fn against(&self, driver: &'static str) -> impl Iterator<Item = Case> {
        SERVERS.into_iter().map(move |(trouble, serve, length, deserves)| {
            let load = format!("{} -d {length}", self.calm);
            let case = self.case(driver, Spoil::None, &load, serve);
            Case { trouble: Some(trouble), deserves, ..case }
        })
    }

    /// Too short, interrupted, without descriptors or ports.
    fn otherwise(&self, driver: &'static str) -> Vec<Case> {
        let short = format!("{} -d 1s --percentile 99.9", self.calm);
        let long = format!("{} -d 5s", self.calm);
        let ports = format!("{} -d 1s", self.few);
        let mut cases = vec![
            self.case(driver, Spoil::Short, &short, CLEAN[0]),
            self.case(driver, Spoil::Interrupted, &long, CLEAN[0]),
            self.case(driver, Spoil::Ports, &ports, ""),
        ];
        // Pipelines keep their connections.
        if self.name != "pipelined" {
            let again = format!("{} --no-reuse -t 1 -d 2s", self.few);
            cases.push(self.case(driver, Spoil::Descriptors, &again, "--latency 5ms"));
        }
        cases
    }
}

/// All of them.
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
                let load = format!("{} -d 9s", model.calm);
                all.push(model.case(driver, Spoil::None, &load, serve));
            }
        }
    }
    all
}

/// A few that can be called valid by no means, however busy the machine is besides: loads without
/// a schedule by quotas, as they take all that they get, and the others by signals.
pub(super) fn quick() -> Vec<Case> {
    let mut few = Vec::new();
    for (i, model) in MODELS.iter().enumerate() {
        let (driver, other) = (DRIVERS[i % 2], DRIVERS[(i + 1) % 2]);
        let is_open = model.full.contains("RATE");
        let full = if is_open { model.few } else { model.full };
        let hold = if is_open { Hold::Signals } else { Hold::Quota };
        let load = format!("{full} -t 1 -d 1200ms");
        few.push(model.case(driver, Spoil::Held(hold, PERCENTS[i % 2]), &load, ""));
        few.extend(model.against(driver).filter(|c| c.deserves == FAILED));
        few.extend(model.otherwise(other).into_iter().filter(|c| c.spoil == Spoil::Short));
    }
    few.extend(MODELS[0].otherwise(DRIVERS[0]).into_iter().filter(|c| c.spoil == Spoil::Ports));
    few
}
