//! The host and its settings, as far as they affect measurements. Everything is read from files of
//! the kernel. An unreadable value is unknown, not an error.

use std::fs;

use serde::{Deserialize, Serialize};

use super::{cpu, limits, pressure, qdisc};

/// The host, and the settings that affect a meter's speed or capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The host name.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The CPU model, as the kernel reports it; empty if unknown.
    pub processor: String,
    /// The number of online cores; 0 = unknown.
    pub cores: usize,
    /// The cores that the process may use.
    pub cores_allowed: Vec<usize>,
    /// The CPU frequency governor.
    pub governor: Option<String>,
    /// The clock source.
    pub clock_source: Option<String>,
    /// The available clock sources.
    pub clock_sources: Vec<String>,
    /// The highest limit of open files that the process may set.
    pub descriptors: u64,
    /// The number of local ports for outgoing connections.
    pub local_ports: Option<u64>,
    /// The maximum listen backlog.
    pub backlog: Option<u64>,
    /// Whether io_uring is disabled: 1 = for unprivileged processes, 2 = for all.
    pub io_uring_disabled: Option<u64>,
    /// The locked memory that all rings of the user may use, in bytes; `None`: no limit, or
    /// unknown.
    #[serde(default)]
    pub ring_memory: Option<u64>,
    /// The queueing discipline of the loopback device, if it has one.
    pub loopback_queue: Option<String>,
    /// The process's control group.
    pub cgroup: Option<String>,
    /// The CPU quota of the control group or of one of its parents, in thousandths of a core.
    pub quota_millicores: Option<u64>,
    /// The file that contains the quota.
    #[serde(default)]
    pub quota_file: Option<String>,
}

impl Host {
    /// Read the current state of the host.
    pub fn look() -> Self {
        let quota = pressure::quota();
        let clock = "/sys/devices/system/clocksource/clocksource0";
        let sources = read(&format!("{clock}/available_clocksource")).unwrap_or_default();
        let number = |path| read(path)?.parse().ok();
        Self {
            name: read("/proc/sys/kernel/hostname").unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            processor: read("/proc/cpuinfo").as_deref().and_then(processor).unwrap_or_default(),
            cores: read("/sys/devices/system/cpu/online").as_deref().map_or(0, count_of_list),
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

/// The limit of locked memory for rings.
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

/// Whether the process may lock memory without limit: it has the capability in the initial user
/// namespace. In another user namespace the capability has no effect here.
fn may_lock_all(status: &str, uid_map: &str) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities =
        capabilities.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    let ids: Vec<&str> = uid_map.split_whitespace().collect();
    capabilities >> CAP_IPC_LOCK & 1 == 1 && ids == ["0", "0", "4294967295"]
}

/// The number of elements in a list such as `0-3,8`.
fn count_of_list(list: &str) -> usize {
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

/// The path in the unified hierarchy (cgroup version 2).
fn unified(cgroup: &str) -> Option<String> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_kernels_files() {
        assert_eq!(["0", "0-3", "0-3,8", "0,2-4", ""].map(count_of_list), [1, 4, 5, 4, 0]);
        let info = "processor\t: 0\nmodel name\t: A: B\nmodel name\t: C\n";
        assert_eq!(processor(info).as_deref(), Some("A: B"));
        assert_eq!(unified("1:name=x:/y\n0::/a.slice/b.service").unwrap(), "/a.slice/b.service");
        assert_eq!(unified("4:cpu:/x"), None);
    }

    #[test]
    fn only_the_capability_lifts_the_limit_of_locked_memory() {
        let (all, none) = ("Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff:\t0000000000003fff\n");
        let own = "         0          0 4294967295";
        assert!(may_lock_all(all, own));
        assert!(!may_lock_all(none, own) && !may_lock_all("", own));
        assert!(!may_lock_all(all, "0 1000 1") && !may_lock_all(all, ""));
    }

    #[test]
    fn reads_this_host() {
        let host = Host::look();
        assert!(!host.kernel.is_empty() && !host.cores_allowed.is_empty() && host.descriptors > 0);
        assert!(host.cores >= host.cores_allowed.len(), "{host:?}");
    }
}
