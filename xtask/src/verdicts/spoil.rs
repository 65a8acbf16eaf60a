//! What is done to the meter while it runs.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cases::{Case, PERCENTS};
use crate::shell::program;

/// A way to spoil a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoil {
    /// Nothing is done to the meter.
    None,
    /// It gets so many percent of a processor.
    Held(Hold, u32),
    /// Others spin on its processor.
    SecondLoad,
    /// It has hardly a descriptor left.
    Descriptors,
    /// It has hardly a port.
    Ports,
    /// It is asked for a percentile that its second cannot carry.
    Short,
    /// The user ends it.
    Interrupted,
}

/// A way to hold a process back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The quota of a control group.
    Quota,
    /// Signals that stop and continue it.
    Signals,
}

/// How often a quota, or a pair of signals, comes round.
const PERIOD: Duration = Duration::from_millis(100);
/// How many programs spin beside a meter.
const SPINNING: usize = 3;

impl Spoil {
    /// What it is, for people.
    pub(super) fn name(self) -> String {
        match self {
            Self::None => "clean".into(),
            Self::Held(Hold::Quota, percent) => format!("a quota of {percent} %"),
            Self::Held(Hold::Signals, percent) => format!("stopped but for {percent} %"),
            Self::SecondLoad => "others on its processor".into(),
            Self::Descriptors => "no descriptors".into(),
            Self::Ports => "no ports".into(),
            Self::Short => "a percentile of one second".into(),
            Self::Interrupted => "interrupted".into(),
        }
    }

    /// What a run must be called to which that is done.
    pub(super) fn deserves(self) -> &'static str {
        match self {
            Self::None => "VALID",
            Self::Held(..) | Self::SecondLoad | Self::Descriptors | Self::Ports => "CLIENT-LIMITED",
            Self::Short => "TOO-SHORT",
            Self::Interrupted => "INTERRUPTED",
        }
    }
}

/// The folder under which control groups with quotas can be made, where there is one.
pub(super) struct Holder {
    groups: Option<(PathBuf, Version)>,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

impl Holder {
    /// Look for what this machine allows.
    pub(super) fn new() -> Self {
        let candidates = [("/sys/fs/cgroup/cpu", Version::One), ("/sys/fs/cgroup", Version::Two)];
        let works = |&(root, version): &(&str, Version)| {
            let group = PathBuf::from(root).join(format!("prony-{}", std::process::id()));
            let works = fs::create_dir(&group).is_ok() && limit(&group, version, 50).is_ok();
            // What could not be made cannot be removed either.
            let _ = fs::remove_dir(&group);
            works
        };
        let found = candidates.into_iter().find(works);
        Self { groups: found.map(|(root, version)| (root.into(), version)) }
    }

    /// What is done instead where no quota can be given.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        let lack = "quotas: no control group with one can be made here (root can, where they are \
                    mounted to be written), so signals stop the meter instead";
        self.groups.is_none().then_some(lack)
    }

    /// The group for a quota of so many percent.
    fn group(&self, percent: u32) -> Option<PathBuf> {
        let (root, version) = self.groups.as_ref()?;
        let group = root.join(format!("prony-{}-{percent}", std::process::id()));
        // It may be there from the case before.
        let _ = fs::create_dir(&group);
        limit(&group, *version, percent).ok()?;
        Some(group)
    }

    /// The client's program with what must be around it from its begin.
    pub(super) fn command(&self, spoil: Spoil, prony: &Path) -> Command {
        let prony_text = prony.display().to_string();
        match spoil {
            Spoil::Held(Hold::Quota, percent) => match self.group(percent) {
                Some(group) => {
                    let enter =
                        format!("echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"", group.display());
                    program("sh", &["-c", &enter, &prony_text])
                }
                None => Command::new(prony),
            },
            Spoil::SecondLoad => program("taskset", &["-c", "0", &prony_text]),
            _ => Command::new(prony),
        }
    }
}

impl Drop for Holder {
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

/// Spoil the run of that process; its standard output in the end.
pub(super) fn meanwhile(spoil: Spoil, holder: &Holder, mut child: Child) -> Result<String> {
    let mut out = child.stdout.take().context("no pipe")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let id = child.id();
    match spoil {
        Spoil::Held(Hold::Quota, _) if holder.groups.is_some() => {}
        Spoil::Held(_, percent) => stop_and_go(&mut child, percent)?,
        Spoil::SecondLoad => beside_others(&mut child)?,
        Spoil::Descriptors => {
            thread::sleep(Duration::from_millis(800));
            let limit = ["--pid", &id.to_string(), "--nofile=12:12"];
            let status = program("prlimit", &limit).status().context("prlimit (util-linux)")?;
            if !status.success() {
                bail!("prlimit: {status}");
            }
        }
        Spoil::Interrupted => {
            thread::sleep(Duration::from_millis(1_500));
            signal(id, "-INT")?;
        }
        _ => {}
    }
    child.wait().context("the client")?;
    reader.join().expect("it does not panic").context("the client's report")
}

fn stop_and_go(child: &mut Child, percent: u32) -> Result<()> {
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

/// A process that has just ended takes no signal, and needs none.
fn signal(id: u32, which: &str) -> Result<()> {
    let mut kill = program("kill", &[which, &id.to_string()]);
    kill.stderr(Stdio::null()).status().context("kill").map(drop)
}

fn beside_others(child: &mut Child) -> Result<()> {
    let spin = ["-c", "0", "sh", "-c", "while :; do :; done"];
    let spawned: Vec<_> = (0..SPINNING).map(|_| program("taskset", &spin).spawn()).collect();
    let ended = child.wait();
    for other in spawned {
        let mut other = other.context("taskset (util-linux)")?;
        other.kill().context("what spins")?;
        other.wait().context("what spins")?;
    }
    ended.context("the client").map(drop)
}

/// How a network of one's own is made: by root, or by who may be root in a namespace.
fn network() -> Option<Vec<&'static str>> {
    let ways = [vec!["-n"], vec!["-r", "-n"]];
    ways.into_iter().find(|way| {
        let script = ["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin ip link set lo up"];
        let mut unshare = program("unshare", &[&way[..], &script].concat());
        unshare.stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    })
}

/// What is left out where there can be none.
pub(super) fn lacks_networks() -> Option<&'static str> {
    let lack = "ports that run out: no network namespace can be made here (`unshare -n`, `ip`)";
    network().is_none().then_some(lack)
}

/// Run client and server in a network of their own that has forty ports, of which another client
/// has all but four.
pub(super) fn without_ports(prony: &Path, case: &Case) -> Result<String> {
    let load = case.load().join(" ");
    let prony = prony.display();
    let url = "http://127.0.0.1:8080/";
    // Each connection has two ends here, and state 01 is an established one.
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
    let way = network().context("no network of its own")?;
    let out = program("unshare", &[&way[..], &["sh", "-c", &script]].concat()).output();
    String::from_utf8(out.context("unshare")?.stdout).context("a report")
}
