//! What kept the process from running when it wanted to, as the kernel tells: waits in the queue of
//! a processor, quotas of control groups, time that a host took. Each is read before and after a
//! run; what a kernel does not tell stays unknown.

use std::fs;
use std::path::{Path, PathBuf};

use prony_core::summary::{Turned, Withheld};
use prony_core::units::Span;
use rustix::param::clock_ticks_per_second;

use crate::host::cpu;

/// How often the calling thread was given a processor so far, and how long it waited for one.
/// `None` where the kernel keeps no such account.
pub fn turned() -> Option<Turned> {
    parse_turned(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// From the first reading to the second.
pub fn turned_since(before: Option<Turned>, after: Option<Turned>) -> Option<Turned> {
    let (before, after) = (before?, after?);
    Some(Turned {
        waited: after.waited - before.waited,
        times: after.times.saturating_sub(before.times),
    })
}

/// What a control group may have of the processors' time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The cores' worth of it, in thousandths.
    pub(crate) millicores: u64,
    /// The file that sets it.
    pub(crate) file: PathBuf,
}

/// The tightest quota of the process's control group and of those around it.
pub(crate) fn quota() -> Option<Quota> {
    let own = own_groups("cpu").into_iter();
    own.filter_map(|group| quota_of(&group)).min_by_key(|quota| quota.millicores)
}

/// What the machine has kept from the process so far.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// By control group, the own one and those around it.
    throttled: Vec<(PathBuf, Span)>,
    /// Stolen time, and time that was wanted, of the processors that may be used.
    processors: Option<(Span, Span)>,
}

impl Accounts {
    /// As they stand now.
    pub fn read() -> Self {
        let throttled = own_groups("cpu").into_iter().filter_map(|group| {
            let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
            Some((group, throttled(&stat)?))
        });
        let processors = processors(&text("/proc/stat"), &cpu::allowed(), clock_ticks_per_second());
        Self { throttled: throttled.collect(), processors }
    }

    /// What was kept from the process since then. Of several control groups with a quota the one
    /// that held it back for longest counts: they overlap.
    pub fn since(&self, before: &Self) -> Withheld {
        let groups = self.throttled.iter().filter_map(|(group, now)| {
            let (_, then) = before.throttled.iter().find(|(g, _)| g == group)?;
            Some(*now - *then)
        });
        let processors = self.processors.zip(before.processors);
        Withheld {
            throttled: groups.max(),
            stolen: processors.map(|(now, then)| now.0 - then.0),
            wanted: processors.map(|(now, then)| now.1 - then.1),
        }
    }
}

/// `RUN WAITED TIMES`, in nanoseconds.
fn parse_turned(text: &str) -> Option<Turned> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (_, waited, times) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Turned { waited: Span(waited), times })
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The folders of the control groups by which that controller can limit the process.
pub(crate) fn own_groups(controller: &str) -> Vec<PathBuf> {
    groups(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), controller)
}

/// The quota of that group alone: version 1 has a file for it and one for its period, both in
/// microseconds, version 2 both numbers in one file.
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

/// Of a quota and its period; none where the quota is `max` or below zero.
fn millicores(text: &str) -> Option<u64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period) = (quota.parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (quota * 1_000).checked_div(period)
}

/// From its own to the outermost that is mounted. `own` is /proc/self/cgroup, `mounts`
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
        // A part of the tree may be mounted: a container sees its own as the root.
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

/// Of a line of mountinfo: which part of the controller's hierarchy is mounted, and where.
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

/// How long a control group has been throttled: version 1 tells nanoseconds, version 2
/// microseconds.
fn throttled(stat: &str) -> Option<Span> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", n) => n.parse().ok().map(Span),
        ("throttled_usec", n) => n.parse().ok().map(Span::from_micros),
        _ => None,
    })
}

/// Of /proc/stat: the stolen time of those processors, and the time for which they had work to do.
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
    fn waits_are_read_as_the_kernel_writes_them() {
        let turned = parse_turned("154542072 69132575 188\n").expect("three numbers");
        assert_eq!((turned.waited, turned.times), (Span(69_132_575), 188));
        assert_eq!(parse_turned("12 7"), None);
        let later = Turned { waited: Span(70_000_000), times: 200 };
        let since = turned_since(Some(turned), Some(later)).expect("both are there");
        assert_eq!((since.waited, since.times), (Span(867_425), 12));
        assert_eq!(turned_since(None, Some(later)), None);
    }

    #[test]
    fn groups_are_the_own_one_and_those_around_it() {
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
    fn both_versions_tell_how_long_a_group_was_throttled() {
        assert_eq!(throttled("nr_periods 4\nthrottled_time 1500\n"), Some(Span(1_500)));
        let v2 = "usage_usec 9\nnr_throttled 1\nthrottled_usec 1500\n";
        assert_eq!(throttled(v2), Some(Span::from_micros(1_500)));
        assert_eq!(throttled("usage_usec 9\n"), None);
    }

    #[test]
    fn both_versions_tell_their_quota_and_where_it_is_set() {
        let of = |files: &[(&str, &str)]| {
            let group = tempfile::tempdir().expect("a folder");
            for (name, text) in files {
                fs::write(group.path().join(name), text).expect("room");
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
    fn stolen_time_is_that_of_the_allowed_processors() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                    cpu0 10 20 30 1000 1000 1 2 7 0 0\n\
                    cpu1 1 1 1 1 1 1 1 100 0 0\n\
                    cpu2 0 0 0 50 0 0 0 3 0 0\nintr 5\n";
        let ms = Span::from_millis;
        assert_eq!(processors(stat, &[0, 2], 100), Some((ms(100), ms(730))));
        assert_eq!(processors(stat, &[9], 100), None);
    }

    #[test]
    fn what_was_kept_is_the_difference_of_the_worst_group() {
        let accounts = |a: u64, b: u64, stolen: u64| Accounts {
            throttled: vec![("/a".into(), Span(a)), ("/".into(), Span(b))],
            processors: Some((Span(stolen), Span(stolen * 10))),
        };
        let kept = accounts(70, 500, 9).since(&accounts(10, 480, 5));
        assert_eq!((kept.throttled, kept.stolen), (Some(Span(60)), Some(Span(4))));
        assert_eq!(kept.wanted, Some(Span(40)));
        assert_eq!(Accounts::default().since(&Accounts::default()), Withheld::default());
    }

    #[test]
    fn this_machine_tells_something() {
        let now = Accounts::read();
        assert!(now.processors.is_some(), "every Linux has /proc/stat");
        assert!(Accounts::read().since(&now).stolen.is_some());
    }
}
