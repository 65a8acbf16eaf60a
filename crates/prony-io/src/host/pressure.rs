//! CPU pressure: what kept the process from running, as the kernel reports it: waits in the run
//! queue, throttling by quotas of control groups, time stolen by the hypervisor. Each is read
//! before and after a run; a value that the kernel does not report is unknown.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use prony_base::meter::{CpuPressure, SchedDelay};
use prony_base::units::Span;
use rustix::param::clock_ticks_per_second;

use crate::host::cpu;

/// How often the calling thread was scheduled so far, and how long it waited in the run queue.
/// `None` if the kernel does not count this.
pub fn sched_delay() -> Option<SchedDelay> {
    parse_sched_delay(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Reads the run-queue delay of a thread repeatedly.
#[derive(Debug)]
pub(crate) struct SchedWaits {
    file: File,
    last: Span,
}

impl SchedWaits {
    /// For the calling thread. `None` if the kernel does not count this.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let file = File::open("/proc/thread-self/schedstat").ok()?;
        let mut waits = Self { file, last: Span::ZERO };
        waits.take()?;
        Some(waits)
    }

    /// The delay since the last call. Takes less than a microsecond.
    pub(crate) fn take(&mut self) -> Option<Span> {
        let mut text = [0; 64];
        let n = self.file.read_at(&mut text, 0).ok()?;
        let total = waited(&text[..n])?;
        Some(total - std::mem::replace(&mut self.last, total))
    }
}

/// The difference between two readings.
pub fn sched_delay_since(
    before: Option<SchedDelay>,
    after: Option<SchedDelay>,
) -> Option<SchedDelay> {
    let (before, after) = (before?, after?);
    Some(SchedDelay {
        total: after.total - before.total,
        count: after.count.saturating_sub(before.count),
    })
}

/// The CPU quota of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The quota in thousandths of a core.
    pub(crate) millicores: u64,
    /// The file that contains it.
    pub(crate) file: PathBuf,
}

/// The lowest quota of the process's control group and its parents.
pub(crate) fn quota() -> Option<Quota> {
    let own = own_groups("cpu").into_iter();
    own.filter_map(|group| quota_of(&group)).min_by_key(|quota| quota.millicores)
}

/// Counters of throttled and stolen CPU time.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// The throttled time of the process's control group and its parents.
    throttled: Vec<(PathBuf, Span)>,
    /// Stolen time, and the sum of busy and stolen time, of the allowed CPUs.
    processors: Option<(Span, Span)>,
}

impl Accounts {
    /// Read the current counters.
    pub fn read() -> Self {
        let throttled = own_groups("cpu").into_iter().filter_map(|group| {
            let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
            Some((group, throttled(&stat)?))
        });
        let processors = processors(&text("/proc/stat"), &cpu::allowed(), clock_ticks_per_second());
        Self { throttled: throttled.collect(), processors }
    }

    /// The throttled and stolen CPU time since `before`. The throttled times of nested control
    /// groups overlap, so the longest counts.
    pub fn since(&self, before: &Self) -> CpuPressure {
        let groups = self.throttled.iter().filter_map(|(group, now)| {
            let (_, then) = before.throttled.iter().find(|(g, _)| g == group)?;
            Some(*now - *then)
        });
        let processors = self.processors.zip(before.processors);
        CpuPressure {
            throttled: groups.max(),
            stolen: processors.map(|(now, then)| now.0 - then.0),
            wanted: processors.map(|(now, then)| now.1 - then.1),
        }
    }
}

/// The second of the three numbers. Optimized, because it is read ten thousand times per second.
fn waited(text: &[u8]) -> Option<Span> {
    let digits = text.split(|&c| c == b' ').nth(1)?;
    let digit = |n: u64, &c: &u8| {
        let digit = u64::from(c.wrapping_sub(b'0'));
        (digit < 10).then(|| n.wrapping_mul(10).wrapping_add(digit))
    };
    digits.iter().try_fold(0, digit).filter(|_| !digits.is_empty()).map(Span)
}

/// Parses `RUN WAITED COUNT`, in nanoseconds.
fn parse_sched_delay(text: &str) -> Option<SchedDelay> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (_, waited, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(SchedDelay { total: Span(waited), count })
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The directories of the control groups that limit the process with this controller.
pub(crate) fn own_groups(controller: &str) -> Vec<PathBuf> {
    groups(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), controller)
}

/// The quota of one group: version 1 has separate files for quota and period, both in microseconds;
/// version 2 has both numbers in one file.
fn quota_of(group: &Path) -> Option<Quota> {
    let (v1, v2) = (group.join("cpu.cfs_quota_us"), group.join("cpu.max"));
    let (file, text) = match fs::read_to_string(&v2) {
        Ok(text) => (v2, text),
        Err(_) => {
            let period = fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?;
            let text = format!("{} {period}", fs::read_to_string(&v1).ok()?.trim());
            (v1, text)
        }
    };
    Some(Quota { millicores: millicores(&text)?, file })
}

/// Converts `QUOTA PERIOD`; `None` if the quota is `max` or negative.
fn millicores(text: &str) -> Option<u64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period) = (quota.parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (quota * 1_000).checked_div(period)
}

/// From the process's group to the outermost mounted one. `own` is /proc/self/cgroup, `mounts`
/// /proc/self/mountinfo.
fn groups(own: &str, mounts: &str, controller: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(kinds), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let unified = kinds.is_empty();
        if !unified && !kinds.split(',').any(|k| k == controller) {
            continue;
        }
        let Some((root, point)) = mounts.lines().find_map(|m| mount(m, controller, unified)) else {
            continue;
        };
        // Only a part of the tree may be mounted: in a container, its own group is the root.
        let below = Path::new(path).strip_prefix(root).unwrap_or_else(|_| Path::new(""));
        let mut group: PathBuf = point.components().chain(below.components()).collect();
        while group.starts_with(&point) {
            all.push(group.clone());
            if !group.pop() {
                break;
            }
        }
    }
    all
}

/// Parses a line of mountinfo: which part of the controller's hierarchy is mounted, and where.
fn mount<'a>(line: &'a str, controller: &str, unified: bool) -> Option<(&'a str, PathBuf)> {
    let (place, kind) = line.split_once(" - ")?;
    let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
    let fits = match kind.next()? {
        "cgroup2" => unified,
        "cgroup" => !unified && kind.nth(1)?.split(',').any(|option| option == controller),
        _ => false,
    };
    let (root, point) = (place.next()?, place.next()?);
    fits.then(|| (root, PathBuf::from(point)))
}

/// The throttled time of a control group: in nanoseconds in version 1, in microseconds in version
/// 2.
fn throttled(stat: &str) -> Option<Span> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", n) => n.parse().ok().map(Span),
        ("throttled_usec", n) => n.parse().ok().map(Span::from_micros),
        _ => None,
    })
}

/// Parses /proc/stat: the stolen time of these CPUs, and the sum of their busy and stolen time.
fn processors(stat: &str, allowed: &[usize], per_second: u64) -> Option<(Span, Span)> {
    let mut sums = None;
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let index = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        if !index.is_some_and(|i| allowed.contains(&i)) {
            continue;
        }
        let ticks: Vec<u64> = fields.map_while(|f| f.parse().ok()).collect();
        let &[user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = &ticks[..] else {
            continue;
        };
        let (all_stolen, all_wanted) = sums.get_or_insert((0, 0));
        *all_stolen += stolen;
        *all_wanted += user + nice + system + irq + softirq + stolen;
    }
    let span = |ticks: u64| Span(ticks.saturating_mul(1_000_000_000 / per_second.max(1)));
    sums.map(|(stolen, wanted)| (span(stolen), span(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_run_queue_delays() {
        let delay = parse_sched_delay("154542072 69132575 188\n").expect("three numbers");
        assert_eq!((delay.total, delay.count), (Span(69_132_575), 188));
        assert_eq!(waited(b"154542072 69132575 188\n"), Some(Span(69_132_575)));
        assert_eq!([waited(b"12 "), waited(b"12 x 3"), waited(b"12")], [None; 3]);
        assert_eq!(parse_sched_delay("12 7"), None);
        let later = SchedDelay { total: Span(70_000_000), count: 200 };
        let since = sched_delay_since(Some(delay), Some(later)).expect("both readings exist");
        assert_eq!((since.total, since.count), (Span(867_425), 12));
        assert_eq!(sched_delay_since(None, Some(later)), None);
    }

    #[test]
    fn groups_are_the_own_one_and_its_parents() {
        let v1 = "30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n\
                  31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let v2 = "29 24 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let paths = |own: &str, mounts: &str| -> Vec<String> {
            groups(own, mounts, "cpu").iter().map(|g| g.display().to_string()).collect()
        };
        assert_eq!(
            paths("3:cpuset:/x\n1:cpu:/a/b\n", v1),
            ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"]
        );
        assert_eq!(paths("0::/a\n", v2), ["/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        // A container whose group is mounted as the root.
        let inside = "29 24 0:25 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(paths("0::/docker/7\n", inside), ["/sys/fs/cgroup"]);
        assert_eq!(paths("0::/a\n", v1), Vec::<String>::new());
    }

    #[test]
    fn parses_throttled_time_of_both_versions() {
        assert_eq!(throttled("nr_periods 4\nthrottled_time 1500\n"), Some(Span(1_500)));
        let v2 = "usage_usec 9\nnr_throttled 1\nthrottled_usec 1500\n";
        assert_eq!(throttled(v2), Some(Span::from_micros(1_500)));
        assert_eq!(throttled("usage_usec 9\n"), None);
    }

    #[test]
    fn reads_quotas_of_both_versions() {
        let of = |files: &[(&str, &str)]| {
            let group = tempfile::tempdir().expect("a directory");
            for (name, text) in files {
                fs::write(group.path().join(name), text).expect("disk space");
            }
            let quota = quota_of(group.path())?;
            Some((quota.millicores, quota.file.strip_prefix(group.path()).ok()?.to_owned()))
        };
        let v1 = |quota| [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000\n")];
        assert_eq!(of(&v1("50000\n")), Some((500, "cpu.cfs_quota_us".into())));
        assert_eq!(of(&[("cpu.max", "150000 100000\n")]), Some((1_500, "cpu.max".into())));
        assert_eq!((of(&v1("-1\n")), of(&[("cpu.max", "max 100000\n")])), (None, None));
        assert_eq!((of(&[("cpu.max", "5 0\n")]), of(&[])), (None, None));
    }

    #[test]
    fn counts_stolen_time_of_allowed_cpus_only() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                    cpu0 10 20 30 1000 1000 1 2 7 0 0\n\
                    cpu1 1 1 1 1 1 1 1 100 0 0\n\
                    cpu2 0 0 0 50 0 0 0 3 0 0\nintr 5\n";
        let ms = Span::from_millis;
        assert_eq!(processors(stat, &[0, 2], 100), Some((ms(100), ms(730))));
        assert_eq!(processors(stat, &[9], 100), None);
    }

    #[test]
    fn since_reports_the_most_throttled_group() {
        let accounts = |a: u64, b: u64, stolen: u64| Accounts {
            throttled: vec![("/a".into(), Span(a)), ("/".into(), Span(b))],
            processors: Some((Span(stolen), Span(stolen * 10))),
        };
        let pressure = accounts(70, 500, 9).since(&accounts(10, 480, 5));
        assert_eq!((pressure.throttled, pressure.stolen), (Some(Span(60)), Some(Span(4))));
        assert_eq!(pressure.wanted, Some(Span(40)));
        assert_eq!(Accounts::default().since(&Accounts::default()), CpuPressure::default());
    }

    #[test]
    fn reads_counters_of_this_machine() {
        let now = Accounts::read();
        assert!(now.processors.is_some(), "every Linux has /proc/stat");
        assert!(Accounts::read().since(&now).stolen.is_some());
    }
}
