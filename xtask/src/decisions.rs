//! Two steps of `cargo xtask soak` on the real kernel: comparisons of `prony serve` with itself and
//! with a slower one, and the capacity of nginx and haproxy. They need an idle machine: beside
//! other work their runs are `CLIENT-LIMITED`, and say so.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{program, prony, target_dir, which};

/// Comparisons of equal servers, and how many may find a difference: 5 %.
const EQUAL: u64 = 100;
const ALARMS_MAX: usize = 5;
/// Comparisons with a slower server, and how many must find it.
const SLOWER: u64 = 10;
const FOUND_MIN: usize = 8;

/// A comparison with a server whose times are this distribution, against one of 2 ms.
fn compare(binary: &Path, latency: &str, seed: u64, until: &[&str]) -> Result<Value> {
    let serve = |latency: &str| format!("{} serve {{port}} --latency {latency}", binary.display());
    let url = "http://127.0.0.1:{port}/";
    let load =
        ["-r", "500", "--arrivals", "poisson", "-t", "1", "-d", "1200ms", "--warmup", "200ms"];
    let mut command = program(binary, &["compare", url, url, "--quiet", "--json"]);
    command.args(load).args(until).args(["--seed", &seed.to_string()]);
    command.args(["--start-a", &serve("lognormal:2ms:0.2"), "--start-b", &serve(latency)]);
    // Its exit status says whether the blocks were valid, which the report says too.
    let out = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let out = out.context("cannot run prony compare")?;
    serde_json::from_slice(&out.stdout).context("prony compare printed no report")
}

fn has_outcome(report: &Value, of: &str, outcomes: &[&str]) -> bool {
    let all = report[of].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().any(|one| one["outcome"].as_str().is_some_and(|o| outcomes.contains(&o)))
}

/// `prony serve` against itself, and against one that is 5 % slower.
pub(crate) fn same_server() -> Result<()> {
    let binary = prony("release")?;
    let (mut alarms, mut doubtful) = (Vec::new(), 0);
    for seed in 0..EQUAL {
        let report = compare(&binary, "lognormal:2ms:0.2", seed, &["--blocks", "6"])?;
        doubtful += usize::from(report["doubts"].as_array().is_some_and(|d| !d.is_empty()));
        if has_outcome(&report, "changes", &["higher", "lower"])
            || has_outcome(&report, "distributions", &["differs"])
        {
            alarms.push(seed);
        }
    }
    println!("equal servers: {} alarms in {EQUAL} comparisons (seeds {alarms:?})", alarms.len());
    let mut found = 0;
    for seed in 0..SLOWER {
        let figures = ["--figures", "mean,p50"];
        let report = compare(&binary, "lognormal:2100us:0.2", seed, &figures)?;
        doubtful += usize::from(report["doubts"].as_array().is_some_and(|d| !d.is_empty()));
        found += usize::from(has_outcome(&report, "changes", &["higher"]));
    }
    println!("5 % slower: found in {found} of {SLOWER}; {doubtful} comparisons were not valid");
    if alarms.len() > ALARMS_MAX || found < FOUND_MIN {
        bail!("more than {ALARMS_MAX} alarms, or fewer than {FOUND_MIN} found");
    }
    Ok(())
}

/// The capacity of nginx and haproxy: a number, or what was the limit.
pub(crate) fn servers() -> Result<()> {
    let binary = prony("release")?;
    let dir = target_dir()?.join("servers");
    fs::create_dir_all(&dir)?;
    for name in ["nginx", "haproxy"] {
        let Some(server) = which(name) else {
            println!("{name} is not installed");
            continue;
        };
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut running = Running(start(name, &server, &dir, port)?);
        thread::sleep(Duration::from_secs(1));
        if let Some(status) = running.0.try_wait()? {
            bail!("{name} ended: {status}");
        }
        let url = format!("http://127.0.0.1:{port}/");
        let words = ["capacity", &url, "--threshold", "p99 < 50ms", "--from", "1000", "-t", "1"];
        let out =
            program(&binary, &words).args(["--budget", "2m", "--json", "--quiet"]).output()?;
        let report: Value = serde_json::from_slice(&out.stdout)
            .with_context(|| String::from_utf8_lossy(&out.stderr).into_owned())?;
        println!("{name}: {}", report["sentence"]);
        let kind = report["finding"]["kind"].as_str().unwrap_or_default();
        if !["capacity", "at-least"].contains(&kind) {
            bail!("{name}: {kind} is no answer");
        }
    }
    Ok(())
}

/// A server that is ended with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a server with one worker that replies a few bytes.
fn start(name: &str, server: &PathBuf, dir: &Path, port: u16) -> Result<Child> {
    let file = dir.join(format!("{name}.conf"));
    let at = dir.display();
    let text = if name == "nginx" {
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths: String = paths.map(|p| format!("{p}_temp_path {at}/{p};\n")).concat();
        format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 8192; }}\n\
             http {{ access_log off; keepalive_requests 1000000000;\n{paths}\
             server {{ listen 127.0.0.1:{port} backlog=4096;\n\
             location / {{ return 200 \"hello\\n\"; }} }} }}\n"
        )
    } else {
        format!(
            "global\n  maxconn 8000\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 5s\n  \
             timeout client 30s\n  timeout server 30s\nfrontend f\n  bind 127.0.0.1:{port}\n  \
             http-request return status 200 content-type text/plain string hello\n"
        )
    };
    fs::write(&file, text)?;
    let mut command = Command::new(server);
    if name == "nginx" {
        command.arg("-c").arg(&file);
    } else {
        command.args(["-db", "-f"]).arg(&file);
    }
    command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {name}"))
}
