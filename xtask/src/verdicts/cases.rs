//! The cases: every way to spoil a run, by every model of load and driver.

use super::spoil::{Hold, Spoil};

/// Options of a load, with and without a limit to what it asks for.
struct Model {
    name: &'static str,
    /// As much as the meter can do.
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
    Model { name: "open", full: "-r 200k -c 64 --timeout 1s", calm: "-r 150", few: "-r 2k -c 19" },
    Model {
        name: "poisson",
        full: "-r 200k -c 64 --timeout 1s --arrivals poisson",
        calm: "-r 150 --arrivals poisson",
        few: "-r 2k -c 19 --arrivals poisson",
    },
];

const DRIVERS: [&str; 2] = ["epoll", "uring"];

/// Servers that change or fail: the name, and their options.
const SERVERS: [(&str, &str, &str); 7] = [
    ("steps up", "--latency uniform:15ms..25ms --step 3@5s", "10s"),
    ("steps down", "--latency uniform:35ms..45ms --step 0.4@5s", "10s"),
    ("drifts up", "--latency uniform:15ms..25ms --drift 4@10s", "10s"),
    ("drifts down", "--latency uniform:55ms..65ms --drift 0.2@10s", "10s"),
    ("answers 503", "--latency 10ms --status 200:1,503:3", "1500ms"),
    ("resets", "--latency 10ms --reset 80%", "1500ms"),
    ("cuts off", "--latency 10ms --truncate 80%", "1500ms"),
];

/// Servers that do nothing wrong.
const CLEAN: [&str; 3] =
    ["--latency 20ms", "--latency uniform:15ms..45ms", "--latency bimodal:10ms,60ms,10%"];

/// One run.
pub(super) struct Case {
    pub(super) spoil: Spoil,
    model: &'static str,
    driver: &'static str,
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

    /// Whether the server spoils it.
    pub(super) fn expects_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Whether it needs little of a processor, and others may run beside it.
    pub(super) fn is_calm(&self) -> bool {
        let calm = [Spoil::None, Spoil::Short, Spoil::Interrupted];
        calm.contains(&self.spoil)
    }

    /// The server's options.
    pub(super) fn serve(&self) -> Vec<&str> {
        self.serve.split(' ').filter(|s| !s.is_empty()).collect()
    }

    /// The load's options, without the URL.
    pub(super) fn load(&self) -> Vec<&str> {
        let json = ["--json", "--quiet", "--driver", self.driver];
        self.load.split(' ').chain(json).collect()
    }
}

/// All of them.
pub(super) fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for model in &MODELS {
        for driver in DRIVERS {
            let case = |spoil, load: String, serve| Case {
                spoil,
                model: model.name,
                driver,
                trouble: None,
                serve,
                load,
            };
            for percent in [5, 20, 50] {
                for (hold, threads) in [(Hold::Quota, 1), (Hold::Quota, 2), (Hold::Signals, 1)] {
                    let load = format!("{} -t {threads} -d 1500ms", model.full);
                    all.push(case(Spoil::Held(hold, percent), load, ""));
                }
            }
            let load = format!("{} -t 1 -d 1500ms", model.full);
            all.push(case(Spoil::SecondLoad, load, ""));
            for (trouble, serve, length) in SERVERS {
                let load = format!("{} -d {length}", model.calm);
                all.push(Case { trouble: Some(trouble), ..case(Spoil::None, load, serve) });
            }
            let load = format!("{} -d 1s --percentile 99.9", model.calm);
            all.push(case(Spoil::Short, load, CLEAN[0]));
            let load = format!("{} -d 5s", model.calm);
            all.push(case(Spoil::Interrupted, load, CLEAN[0]));
            for serve in CLEAN {
                all.push(case(Spoil::None, format!("{} -d 9s", model.calm), serve));
            }
            let again = format!("{} --no-reuse -t 1 -d 2s", model.few);
            if model.name != "pipelined" {
                all.push(case(Spoil::Descriptors, again, "--latency 5ms"));
            }
            all.push(case(Spoil::Ports, format!("{} -d 1s", model.few), ""));
        }
    }
    all
}
