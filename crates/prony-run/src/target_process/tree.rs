//! The processes below another one, in whatever process group or session they are.

use std::collections::BTreeMap;
use std::fs;

use prony_base::units::Span;
use rustix::process::{Pid, Signal, kill_process};

/// The ticks of the CPU time of a process per second, on every Linux but those of Alpha and IA-64.
const TICKS: u64 = 100;

/// A process that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    /// User and system time, with that of children that it has waited for.
    cpu: Span,
}

/// The living processes below `root`, without it, and without `besides` and those below that.
pub(super) fn below(root: i32, besides: Option<i32>) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all().filter(|process| Some(process.pid) != besides) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        // Taken out, so that each is found once even if numbers are used again meanwhile.
        let of_parent = children.remove(&parent).unwrap_or_default();
        parents.extend(of_parent.iter().map(|process| process.pid));
        found.extend(of_parent);
    }
    found
}

/// The CPU time of a process and of all below it.
pub(super) fn cpu(root: i32) -> Option<Span> {
    let own = stat(root)?.cpu;
    Some(below(root, None).into_iter().fold(own, |sum, process| sum + process.cpu))
}

/// The CPU time (user and system) of a process, with its ended threads.
pub fn cpu_of_process(pid: u32) -> Option<Span> {
    stat(i32::try_from(pid).ok()?).map(|process| process.cpu)
}

pub(super) fn signal(processes: &[Process], signal: Signal) {
    for process in processes {
        // It may have ended.
        let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, signal));
    }
}

/// The name of a process.
pub(super) fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name: String = name.trim_end().chars().filter(|c| !c.is_control()).collect();
    if name.is_empty() { format!("process {pid}") } else { format!("'{name}' (process {pid})") }
}

/// The numbers of all processes.
pub(super) fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn all() -> impl Iterator<Item = Process> {
    numbers().filter_map(stat)
}

/// What `/proc/PID/stat` says of a process that has not ended.
fn stat(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name of the program may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // One that has ended, and that nobody has waited for.
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let parent = fields.get(1)?.parse().ok()?;
    let ticks = |i: usize| fields.get(i)?.parse::<u64>().ok();
    // User and system time, and those of children that were waited for.
    let ticks = (11..15).map(ticks).sum::<Option<u64>>()?;
    Some(Process { pid, parent, cpu: Span(ticks * (1_000_000_000 / TICKS)) })
}
