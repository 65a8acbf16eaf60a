//! `cargo xtask bench`: runs the rig in bench/, which compares a release build of prony with other
//! tools.

use anyhow::{Result, bail};

use crate::shell::{self, program};

const USAGE: &str = "\
cargo xtask bench rig up|down|status       start or stop the servers under test
cargo xtask bench compare [--list] CASE... alternated runs of all tools, medians per case
cargo xtask bench idle [CONNECTIONS]       resident memory per idle connection
cargo xtask bench rtt [--rounds N]         ping-pong beside sockperf and qperf
cargo xtask bench freeze [--places LIST]   what each tool reports of a server that freezes
cargo xtask bench start [--runs N]         the time from exec to the first request
cargo xtask bench gaps [--runs N]          how like the log's the gaps of a replay are at the server
cargo xtask bench streams [--runs N]       CPU per request over HTTP/2, beside h2load
cargo xtask bench websocket [--runs N]     CPU per echoed message, beside a floor, k6 and autobahn
cargo xtask bench grpc [--runs N]          CPU per unary call of gRPC, beside h2load and ghz
cargo xtask bench llm [--client N=COMMAND] CPU per token of a language model
cargo xtask bench hosts [HOSTS] [RATE]     what the driver of a run on many hosts spends on each
cargo xtask bench users [--rounds N]       users in Python beside Locust and k6 (needs both packages)";

/// `cargo xtask bench`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let Some((what, rest)) = args.split_first() else { bail!("no command given\n{USAGE}") };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match what.as_str() {
        "rig" => shell::run(&mut program("bench/rig", &rest)),
        "compare" | "idle" | "freeze" | "rtt" | "start" | "gaps" | "streams" | "websocket"
        | "grpc" | "llm" => {
            let prony = shell::prony(if what == "start" { "release" } else { "dist" })?;
            let script = format!("bench/{what}");
            shell::run(program("python3", &[&script]).args(rest).env("PRONY", prony))
        }
        "hosts" => {
            let bench = ["bench", "-p", "prony-hosts", "--bench", "driver", "--"];
            shell::run(program("cargo", &bench).args(rest))
        }
        "users" => shell::run(program("python3", &["bench/users"]).args(rest)),
        other => bail!("unknown command `{other}`\n{USAGE}"),
    }
}
