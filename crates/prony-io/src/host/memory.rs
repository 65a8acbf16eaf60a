//! The memory limit of the process, and the share of it that waiting requests may use.

use std::fs;

use rustix::process::{Resource, getrlimit};

use crate::host::pressure;

/// The divisor of the share of memory for requests that wait for a connection.
const SHARE: u64 = 16;
/// The maximum share in bytes: 30 seconds of 90,000 requests per second.
const MOST: u64 = 256 << 20;

/// The memory limit for the waiting requests of each worker, in bytes.
pub(crate) fn backlog(workers: usize) -> u64 {
    share(limit(), workers)
}

fn share(limit: u64, workers: usize) -> u64 {
    (limit / SHARE).min(MOST) / workers.max(1) as u64
}

/// The memory that the process may use, in bytes: the minimum of the machine's memory, the limits
/// of its control groups and its own limits (`ulimit -v`, `ulimit -d`).
fn limit() -> u64 {
    let own = [Resource::As, Resource::Data].map(|r| getrlimit(r).current);
    let info = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "c_ulong has 32 bits on some machines")]
    let machine = u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit));
    let groups = pressure::own_groups("memory").into_iter().flat_map(|group| {
        // Versions 2 and 1. "max" is not a number.
        ["memory.max", "memory.limit_in_bytes"]
            .map(|file| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok())
    });
    let limits = own.into_iter().chain(groups).flatten().chain([machine]);
    limits.filter(|&bytes| bytes > 0).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlog_is_a_sixteenth_of_the_memory_within_bounds() {
        assert_eq!(share(512 << 20, 1), 32 << 20);
        assert_eq!(share(512 << 20, 4), 8 << 20);
        assert_eq!(share(64 << 30, 2), 128 << 20);
    }

    #[test]
    fn limit_is_not_above_the_memory_of_the_machine() {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        let total = meminfo.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
        let limit = limit();
        assert!(limit > 0 && limit <= total + (1 << 20), "{limit} of {total}");
    }
}
