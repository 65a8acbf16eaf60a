//! What the host is and how it is set up, as far as that bears on measuring. Everything is read
//! from files of the kernel; what cannot be read is not known, which is no error.

use std::fs;

use serde::{Deserialize, Serialize};

use super::{cpu, limits, pressure, qdisc};

/// The host, and the settings that cost a meter time or means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name, as it calls itself.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor, as the kernel names it; empty where it does not.
    pub processor: String,
    /// Cores that are switched on; 0 = unknown.
    pub cores: usize,
    /// The cores that the process may use.
    pub cores_allowed: Vec<usize>,
    /// What the cores' frequency follows.
    pub governor: Option<String>,
    /// Where the clock takes its time from.
    pub clock_source: Option<String>,
    /// From where else it could.
    pub clock_sources: Vec<String>,
    /// The highest limit of open files that the process may give itself.
    pub descriptors: u64,
    /// Local ports for outgoing connections.
    pub local_ports: Option<u64>,
    /// Connections that may wait to be accepted.
    pub backlog: Option<u64>,
    /// Why the kernel refuses io_uring: 1 = to processes without rights, 2 = to all.
    pub io_uring_disabled: Option<u64>,
    /// Bytes that all rings of the user may lock together; `None`: no limit, or not known.
    #[serde(default)]
    pub ring_memory: Option<u64>,
    /// What queues packets on the loopback device, where anything does.
    pub loopback_queue: Option<String>,
    /// The process's control group.
    pub cgroup: Option<String>,
    /// The cores' worth of time that it, or one around it, may have at most, in thousandths.
    pub quota_millicores: Option<u64>,
    /// The kernel's file that says so.
    #[serde(default)]
    pub quota_file: Option<String>,
}

impl Host {
    /// The host as it is now.
    pub fn look() -> Self {
        let quota = pressure::quota();
        let clock = "/sys/devices/system/clocksource/clocksource0";
        let sources = read(&format!("{clock}/available_clocksource")).unwrap_or_default();
        let number = |path| read(path)?.parse().ok();
        Self {
            name: read("/proc/sys/kernel/hostname").unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            processor: read("/proc/cpuinfo").as_deref().and_then(processor).unwrap_or_default(),
            cores: read("/sys/devices/system/cpu/online").as_deref().map_or(0, listed),
            cores_allowed: cpu::allowed(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: read(&format!("{clock}/current_clocksource")),
            clock_sources: sources.split_whitespace().map(str::to_owned).collect(),
            descriptors: limits::raise_descriptors().0,
            local_ports: limits::local_ports(),
            backlog: number("/proc/sys/net/core/somaxconn"),
            io_uring_disabled: number("/proc/sys/kernel/io_uring_disabled"),
            ring_memory: ring_memory(),
            loopback_queue: qdisc::of("lo"),
            cgroup: read("/proc/self/cgroup").as_deref().and_then(unified),
            quota_millicores: quota.as_ref().map(|q| q.millicores),
            quota_file: quota.map(|q| q.file.display().to_string()),
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// What the limit of locked memory leaves for rings.
pub(crate) fn ring_memory() -> Option<u64> {
    let status = read("/proc/self/status").unwrap_or_default();
    let ids = read("/proc/self/uid_map").unwrap_or_default();
    if may_lock_all(&status, &ids) {
        return None;
    }
    let limits = read("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether the process may lock memory without limit: it has the capability, and not just within
/// a namespace of users, from where it does not count for this.
fn may_lock_all(status: &str, uid_map: &str) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let capable = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capable = capable.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    let ids: Vec<&str> = uid_map.split_whitespace().collect();
    capable >> CAP_IPC_LOCK & 1 == 1 && ids == ["0", "0", "4294967295"]
}

/// How many numbers a list such as `0-3,8` has.
fn listed(list: &str) -> usize {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some((last + 1).saturating_sub(first))
    };
    list.split(',').filter_map(range).sum()
}

fn processor(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// The group's path in the one tree of control groups (version 2).
fn unified(cgroup: &str) -> Option<String> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(["0", "0-3", "0-3,8", "0,2-4", ""].map(listed), [1, 4, 5, 4, 0]);
        let info = "processor\t: 0\nmodel name\t: A: B\nmodel name\t: C\n";
        assert_eq!(processor(info).as_deref(), Some("A: B"));
        assert_eq!(unified("1:name=x:/y\n0::/a.slice/b.service").unwrap(), "/a.slice/b.service");
        assert_eq!(unified("4:cpu:/x"), None);
    }

    #[test]
    fn only_the_right_to_lock_memory_lifts_its_limit() {
        let (all, none) = ("Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff:\t0000000000003fff\n");
        let own = "         0          0 4294967295";
        assert!(may_lock_all(all, own));
        assert!(!may_lock_all(none, own) && !may_lock_all("", own));
        assert!(!may_lock_all(all, "0 1000 1") && !may_lock_all(all, ""));
    }

    #[test]
    fn this_host_is_known() {
        let host = Host::look();
        assert!(!host.kernel.is_empty() && !host.cores_allowed.is_empty() && host.descriptors > 0);
        assert!(host.cores >= host.cores_allowed.len(), "{host:?}");
    }
}
