//! The faults of the meter, and how they are injected while it runs.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cases::{Case, PERCENTS};
use crate::shell::program;

/// A fault of the meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// None.
    None,
    /// It gets this percentage of a processor.
    Throttled(Throttle, u32),
    /// Busy loops run on its processor.
    SecondLoad,
    /// The server runs on its processor.
    BesideServer,
    /// It has very few descriptors.
    Descriptors,
    /// It has very few local ports.
    Ports,
    /// It runs for a second, too short for the requested percentile.
    Short,
    /// The user stops it.
    Interrupted,
}

/// A way to throttle a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Throttle {
    /// The quota of a control group.
    Quota,
    /// Signals that stop and continue it.
    Signals,
}

/// The period of a quota, or of the signals.
const PERIOD: Duration = Duration::from_millis(100);
/// How many busy loops run beside a meter.
const SPINNING: usize = 3;

impl Fault {
    /// Its name for messages.
    pub(super) fn name(self) -> String {
        match self {
            Self::None => "clean".into(),
            Self::Throttled(Throttle::Quota, percent) => format!("a quota of {percent} %"),
            Self::Throttled(Throttle::Signals, percent) => {
                format!("stopped except for {percent} %")
            }
            Self::SecondLoad => "busy loops on its processor".into(),
            Self::BesideServer => "the server on its processor".into(),
            Self::Descriptors => "no descriptors".into(),
            Self::Ports => "no ports".into(),
            Self::Short => "a percentile of one second".into(),
            Self::Interrupted => "interrupted".into(),
        }
    }

    /// The verdict that a run with this fault must get.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::None => "VALID",
            Self::Throttled(..)
            | Self::SecondLoad
            | Self::BesideServer
            | Self::Descriptors
            | Self::Ports => "CLIENT-LIMITED",
            Self::Short => "TOO-SHORT",
            Self::Interrupted => "INTERRUPTED",
        }
    }

    /// The server's program.
    pub(super) fn server(self, prony: &Path) -> Command {
        match self {
            Self::BesideServer => on_first_processor(prony),
            _ => Command::new(prony),
        }
    }
}

fn on_first_processor(prony: &Path) -> Command {
    program("taskset", &["-c", "0", &prony.display().to_string()])
}

/// What this machine allows: the folder in which control groups with quotas can be made, if any.
pub(super) struct Environment {
    groups: Option<(PathBuf, Version)>,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

impl Environment {
    /// Look for what this machine allows.
    pub(super) fn new() -> Self {
        let candidates = [("/sys/fs/cgroup/cpu", Version::One), ("/sys/fs/cgroup", Version::Two)];
        let works = |&(root, version): &(&str, Version)| {
            let group = PathBuf::from(root).join(format!("prony-{}", std::process::id()));
            let works = fs::create_dir(&group).is_ok() && limit(&group, version, 50).is_ok();
            // An error means that it was not created.
            let _ = fs::remove_dir(&group);
            works
        };
        let found = candidates.into_iter().find(works);
        Self { groups: found.map(|(root, version)| (root.into(), version)) }
    }

    /// A message if quotas are not possible, and what is used instead.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        let lack = "CPU quotas, which need write access to the control groups; signals stop the \
                    meter instead";
        self.groups.is_none().then_some(lack)
    }

    /// The control group with this quota, in percent.
    fn group(&self, percent: u32) -> Option<PathBuf> {
        let (root, version) = self.groups.as_ref()?;
        let group = root.join(format!("prony-{}-{percent}", std::process::id()));
        // It may exist already, from an earlier case.
        let _ = fs::create_dir(&group);
        limit(&group, *version, percent).ok()?;
        Some(group)
    }

    /// The client's program, with the wrappers that it needs from its start.
    pub(super) fn command(&self, fault: Fault, prony: &Path) -> Command {
        let prony_text = prony.display().to_string();
        match fault {
            Fault::Throttled(Throttle::Quota, percent) => match self.group(percent) {
                Some(group) => {
                    let enter =
                        format!("echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"", group.display());
                    program("sh", &["-c", &enter, &prony_text])
                }
                None => Command::new(prony),
            },
            Fault::SecondLoad | Fault::BesideServer => on_first_processor(prony),
            _ => Command::new(prony),
        }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if let Some((root, _)) = &self.groups {
            for percent in PERCENTS {
                // Only those that were needed are there.
                let _ =
                    fs::remove_dir(root.join(format!("prony-{}-{percent}", std::process::id())));
            }
        }
    }
}

fn limit(group: &Path, version: Version, percent: u32) -> std::io::Result<()> {
    let (period, quota) = (100_000, percent * 1_000);
    match version {
        Version::One => {
            fs::write(group.join("cpu.cfs_period_us"), period.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())
        }
        Version::Two => fs::write(group.join("cpu.max"), format!("{quota} {period}")),
    }
}

/// Inject the fault into the run of this process; returns its standard output.
pub(super) fn inject(fault: Fault, environment: &Environment, mut child: Child) -> Result<String> {
    let mut out = child.stdout.take().context("no pipe")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let id = child.id();
    match fault {
        Fault::Throttled(Throttle::Quota, _) if environment.groups.is_some() => {}
        Fault::Throttled(_, percent) => stop_and_continue(&mut child, percent)?,
        Fault::SecondLoad => run_busy_loops(&mut child)?,
        Fault::Descriptors => {
            thread::sleep(Duration::from_millis(800));
            let limit = ["--pid", &id.to_string(), "--nofile=12:12"];
            let status = program("prlimit", &limit).status().context("prlimit (util-linux)")?;
            if !status.success() {
                bail!("prlimit: {status}");
            }
        }
        Fault::Interrupted => {
            thread::sleep(Duration::from_millis(1_500));
            signal(id, "-INT")?;
        }
        _ => {}
    }
    child.wait().context("the client")?;
    reader.join().expect("the reader does not panic").context("the client's report")
}

fn stop_and_continue(child: &mut Child, percent: u32) -> Result<()> {
    let go = PERIOD * percent / 100;
    let id = child.id();
    while child.try_wait()?.is_none() {
        signal(id, "-STOP")?;
        thread::sleep(PERIOD - go);
        signal(id, "-CONT")?;
        thread::sleep(go);
    }
    Ok(())
}

/// Send a signal. A process that has just exited needs none, so errors are ignored.
fn signal(id: u32, which: &str) -> Result<()> {
    let mut kill = program("kill", &[which, &id.to_string()]);
    kill.stderr(Stdio::null()).status().context("kill").map(drop)
}

fn run_busy_loops(child: &mut Child) -> Result<()> {
    let spin = ["-c", "0", "sh", "-c", "while :; do :; done"];
    let spawned: Vec<_> = (0..SPINNING).map(|_| program("taskset", &spin).spawn()).collect();
    let ended = child.wait();
    for other in spawned {
        let mut other = other.context("taskset (util-linux)")?;
        other.kill().context("a busy loop")?;
        other.wait().context("a busy loop")?;
    }
    ended.context("the client").map(drop)
}

/// The options of `unshare` for a new network namespace: as root, or as root of a user namespace.
fn network() -> Option<Vec<&'static str>> {
    let ways = [vec!["-n"], vec!["-r", "-n"]];
    ways.into_iter().find(|way| {
        let script = ["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin ip link set lo up"];
        let mut unshare = program("unshare", &[&way[..], &script].concat());
        unshare.stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    })
}

/// A message if network namespaces are not possible.
pub(super) fn lacks_networks() -> Option<&'static str> {
    let lack = "exhausted ports, which need a network namespace (`unshare -n`, `ip`)";
    network().is_none().then_some(lack)
}

/// Run client and server in a network namespace with 40 local ports, of which another client uses
/// all but four.
pub(super) fn without_ports(prony: &Path, case: &Case) -> Result<String> {
    let load = case.load().join(" ");
    let prony = prony.display();
    let url = "http://127.0.0.1:8080/";
    // Both ends of each connection are in this namespace; state 01 is ESTABLISHED.
    let script = format!(
        "PATH=$PATH:/usr/sbin:/sbin ip link set lo up || exit 3\n\
         echo 40000 40039 >/proc/sys/net/ipv4/ip_local_port_range || exit 3\n\
         there() {{ grep -c \" $1 \" /proc/self/net/tcp; }}\n\
         {prony} serve 127.0.0.1:8080 --latency 20ms --quiet >/dev/null & S=$!\n\
         for i in $(seq 600); do [ $(there 0A) -ge 1 ] && break; sleep 0.05; done\n\
         {prony} -c 36 -d 60s --quiet {url} >/dev/null & H=$!\n\
         for i in $(seq 600); do [ $(there 01) -ge 72 ] && break; sleep 0.05; done\n\
         {prony} {load} --json --quiet {url}\n\
         kill $H $S; wait"
    );
    let way = network().context("cannot make a network namespace")?;
    let out = program("unshare", &[&way[..], &["sh", "-c", &script]].concat()).output();
    String::from_utf8(out.context("unshare")?.stdout).context("a report")
}
