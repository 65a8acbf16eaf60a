//! What would help a host to measure better, each with its command: a pure function of what the
//! host is and of what went on while it was tested.

use prony_core::summary::Withheld;
use prony_core::units::Span;
use prony_io::host::Host;
use serde::{Deserialize, Serialize};

use prony_report::units;

/// What would help, and how it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Advice {
    /// What was found, in a sentence.
    pub finding: String,
    /// The command; `None` where no command of this host mends it.
    pub command: Option<String>,
}

/// What went on while the host was tested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GoneBy {
    /// How long that was.
    pub length: Span,
    /// Processor time that this process used.
    pub own: Span,
    /// What the machine kept from it.
    pub withheld: Withheld,
}

/// Fewer descriptors than that hold tests with many connections back.
const DESCRIPTORS_FEW: u64 = 65_536;
/// Fewer local ports than that can be had more.
const PORTS_FEW: u64 = 50_000;
/// Less memory than that holds a few rings only.
const RING_MEMORY_LITTLE: u64 = 64 << 20;
/// A shorter queue before a server on this host loses connects.
const BACKLOG_SHORT: u64 = 4_096;
/// From this share of the processors on, others are in the way.
const OTHERS_MANY: f64 = 0.05;
/// From this share on, the hypervisor is.
const STOLEN_MUCH: f64 = 0.005;

/// All that applies to this host, the weightiest first.
pub(crate) fn advice(host: &Host, gone_by: &GoneBy) -> Vec<Advice> {
    let all = [
        stolen(gone_by),
        throttled(host, gone_by),
        quota(host),
        others(host, gone_by),
        clock(host),
        governor(host),
        loopback(host),
        cores(host),
        apart(host),
        io_uring(host),
        ring_memory(host),
        descriptors(host),
        ports(host),
        backlog(host),
    ];
    all.into_iter().flatten().collect()
}

fn told(finding: String, command: String) -> Option<Advice> {
    Some(Advice { finding, command: Some(command) })
}

fn stolen(gone_by: &GoneBy) -> Option<Advice> {
    let (stolen, wanted) = (gone_by.withheld.stolen?, gone_by.withheld.wanted?);
    let share = stolen.0 as f64 / wanted.0.max(1) as f64;
    (share > STOLEN_MUCH).then(|| Advice {
        finding: format!(
            "the hypervisor took {} of the processor time that was wanted: a host with dedicated \
             cores would measure better",
            units::percent(share)
        ),
        command: None,
    })
}

fn throttled(host: &Host, gone_by: &GoneBy) -> Option<Advice> {
    let time = gone_by.withheld.throttled.filter(|&t| t > Span::ZERO)?;
    let finding =
        format!("the control group's quota stopped this process for {}", units::span(time));
    Some(Advice { finding, command: lift_quota(host) })
}

fn quota(host: &Host) -> Option<Advice> {
    let quota = host.quota_millicores?;
    (quota < 1_000 * host.cores_allowed.len() as u64).then_some(())?;
    let cores = units::round(quota as f64 / 1e3);
    let finding = format!(
        "the control group may use {cores} of {} cores' time",
        units::count(host.cores_allowed.len() as u64)
    );
    Some(Advice { finding, command: lift_quota(host) })
}

/// What gives a control group all the time that there is.
fn lift_quota(host: &Host) -> Option<String> {
    let path = host.quota_file.as_deref()?;
    let (folder, file) = path.rsplit_once('/')?;
    let unit = folder.rsplit('/').next().unwrap_or_default();
    Some(if [".service", ".scope", ".slice"].iter().any(|kind| unit.ends_with(kind)) {
        format!("sudo systemctl set-property --runtime {unit} CPUQuota=")
    } else {
        // Version 1 of control groups says it by a number.
        let all = if file == "cpu.max" { "max" } else { "-1" };
        format!("echo {all} | sudo tee {path}")
    })
}

fn others(host: &Host, gone_by: &GoneBy) -> Option<Advice> {
    let (stolen, wanted) = (gone_by.withheld.stolen?, gone_by.withheld.wanted?);
    let all = gone_by.length.0 * host.cores_allowed.len() as u64;
    let share = (wanted - stolen - gone_by.own).0 as f64 / all.max(1) as f64;
    (share > OTHERS_MANY).then_some(())?;
    let share = units::percent(share);
    let finding = format!("other processes used {share} of the processors during this test");
    told(format!("{finding}: see which, and end them"), "top -b -n 1 -o %CPU | head -20".into())
}

fn clock(host: &Host) -> Option<Advice> {
    let now = host.clock_source.as_deref()?;
    let better = ["tsc", "kvm-clock", "arch_sys_counter"];
    let better = better.iter().find(|b| host.clock_sources.iter().any(|s| s == **b))?;
    (!["tsc", "kvm-clock", "arch_sys_counter"].contains(&now)).then_some(())?;
    told(
        format!("the clock is read from {now}, which is slow, and {better} is there"),
        format!(
            "echo {better} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
    )
}

fn governor(host: &Host) -> Option<Advice> {
    let governor = host.governor.as_deref().filter(|g| *g != "performance")?;
    told(
        format!("the cores' frequency follows the governor `{governor}`, so that speed varies"),
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".into(),
    )
}

fn loopback(host: &Host) -> Option<Advice> {
    let queue = host.loopback_queue.as_deref()?;
    told(
        format!("packets on the loopback device go through a queue ({queue}), which takes time"),
        "sudo tc qdisc del dev lo root".into(),
    )
}

fn cores(host: &Host) -> Option<Advice> {
    let allowed = host.cores_allowed.len();
    (allowed < host.cores).then_some(())?;
    told(
        format!("this process may use {allowed} of {} cores", host.cores),
        format!("taskset -a -c -p 0-{} $$", host.cores - 1),
    )
}

fn apart(host: &Host) -> Option<Advice> {
    let (first, rest) = host.cores_allowed.split_first()?;
    let Some(last) = rest.last() else {
        return Some(Advice {
            finding: "there is one core: a target on this host takes its time from the meter; \
                      load one on another host"
                .into(),
            command: None,
        });
    };
    let half = host.cores_allowed[host.cores_allowed.len() / 2];
    let range = |a: &usize, b: &usize| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let client = range(first, &host.cores_allowed[host.cores_allowed.len() / 2 - 1]);
    told(
        "a target on this host takes its time from the meter, unless the two are kept on cores of \
         their own, as in this test"
            .into(),
        format!("taskset -c {} TARGET & taskset -c {client} prony URL", range(&half, last)),
    )
}

fn io_uring(host: &Host) -> Option<Advice> {
    let why = match host.io_uring_disabled? {
        0 => return None,
        1 => "to processes without rights",
        _ => "to everybody",
    };
    told(
        format!("the kernel refuses io_uring {why}"),
        "sudo sysctl -w kernel.io_uring_disabled=0".into(),
    )
}

fn ring_memory(host: &Host) -> Option<Advice> {
    let bytes = host.ring_memory.filter(|&n| n < RING_MEMORY_LITTLE)?;
    told(
        format!(
            "io_uring may lock {} for all rings of this user together: threads get small rings, \
             and many of them none",
            units::bytes(bytes as f64)
        ),
        "sudo prlimit --pid $$ --memlock=unlimited:unlimited".into(),
    )
}

fn descriptors(host: &Host) -> Option<Advice> {
    (host.descriptors < DESCRIPTORS_FEW).then_some(())?;
    let limit = units::count(host.descriptors);
    told(
        format!("at most {limit} files can be open, and each connection is one"),
        "sudo prlimit --pid $$ --nofile=1048576:1048576".into(),
    )
}

fn ports(host: &Host) -> Option<Advice> {
    let ports = host.local_ports.filter(|&n| n < PORTS_FEW)?;
    told(
        format!(
            "there are {} local ports, which limits connections to one target",
            units::count(ports)
        ),
        "sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"".into(),
    )
}

fn backlog(host: &Host) -> Option<Advice> {
    let backlog = host.backlog.filter(|&n| n < BACKLOG_SHORT)?;
    told(
        format!(
            "a server on this host can have {} connections waiting, so that a burst of more waits \
             for a second",
            units::count(backlog)
        ),
        "sudo sysctl -w net.core.somaxconn=65535".into(),
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// A host with nothing to be said about, but that it has two cores.
    fn good() -> Host {
        Host {
            cores: 2,
            cores_allowed: vec![0, 1],
            governor: Some("performance".into()),
            clock_source: Some("tsc".into()),
            clock_sources: vec!["tsc".into(), "hpet".into()],
            descriptors: 1 << 20,
            local_ports: Some(64_512),
            backlog: Some(4_096),
            io_uring_disabled: Some(0),
            ..Host::default()
        }
    }

    /// A second, with times in ms.
    fn gone_by(own: u64, stolen: u64, wanted: u64) -> GoneBy {
        let ms = |n| Some(Span::from_millis(n));
        let withheld = Withheld { throttled: None, stolen: ms(stolen), wanted: ms(wanted) };
        GoneBy { length: Span::from_secs(1), own: Span::from_millis(own), withheld }
    }

    fn said(host: &Host, gone_by: &GoneBy) -> String {
        let line = |a: Advice| {
            a.finding + &a.command.map(|c| format!("\n    {c}")).unwrap_or_default() + "\n"
        };
        advice(host, gone_by).into_iter().map(line).collect()
    }

    #[test]
    fn a_good_host_hears_one_thing() {
        let quiet = gone_by(280, 0, 300);
        expect![[r#"
            a target on this host takes its time from the meter, unless the two are kept on cores of their own, as in this test
                taskset -c 1 TARGET & taskset -c 0 prony URL
        "#]]
        .assert_eq(&said(&good(), &quiet));
        // What is not known is no reason for advice.
        let unknown = Host { cores_allowed: vec![0], descriptors: 1 << 20, ..Host::default() };
        expect![[r#"
            there is one core: a target on this host takes its time from the meter; load one on another host
        "#]]
        .assert_eq(&said(&unknown, &GoneBy::default()));
    }

    #[test]
    fn every_shortage_is_told_with_its_command() {
        let poor = Host {
            cores: 8,
            cores_allowed: vec![2, 3, 4, 5],
            governor: Some("powersave".into()),
            clock_source: Some("hpet".into()),
            descriptors: 1_024,
            local_ports: Some(28_232),
            backlog: Some(128),
            io_uring_disabled: Some(2),
            ring_memory: Some(8 << 20),
            loopback_queue: Some("netem".into()),
            quota_millicores: Some(1_500),
            quota_file: Some("/sys/fs/cgroup/user.slice/a.service/cpu.max".into()),
            ..good()
        };
        let mut busy = gone_by(200, 100, 1_000);
        busy.withheld.throttled = Some(Span::from_millis(30));
        expect![[r#"
            the hypervisor took 10.0 % of the processor time that was wanted: a host with dedicated cores would measure better
            the control group's quota stopped this process for 30.0 ms
                sudo systemctl set-property --runtime a.service CPUQuota=
            the control group may use 1.5 of 4 cores' time
                sudo systemctl set-property --runtime a.service CPUQuota=
            other processes used 17.5 % of the processors during this test: see which, and end them
                top -b -n 1 -o %CPU | head -20
            the clock is read from hpet, which is slow, and tsc is there
                echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource
            the cores' frequency follows the governor `powersave`, so that speed varies
                echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor
            packets on the loopback device go through a queue (netem), which takes time
                sudo tc qdisc del dev lo root
            this process may use 4 of 8 cores
                taskset -a -c -p 0-7 $$
            a target on this host takes its time from the meter, unless the two are kept on cores of their own, as in this test
                taskset -c 4-5 TARGET & taskset -c 2-3 prony URL
            the kernel refuses io_uring to everybody
                sudo sysctl -w kernel.io_uring_disabled=0
            io_uring may lock 8.00 MiB for all rings of this user together: threads get small rings, and many of them none
                sudo prlimit --pid $$ --memlock=unlimited:unlimited
            at most 1,024 files can be open, and each connection is one
                sudo prlimit --pid $$ --nofile=1048576:1048576
            there are 28,232 local ports, which limits connections to one target
                sudo sysctl -w net.ipv4.ip_local_port_range="1024 65535"
            a server on this host can have 128 connections waiting, so that a burst of more waits for a second
                sudo sysctl -w net.core.somaxconn=65535
        "#]]
        .assert_eq(&said(&poor, &busy));
        let lifted =
            |file: &str| lift_quota(&Host { quota_file: Some(file.into()), ..Host::default() });
        assert_eq!(
            ["/sys/fs/cgroup/x/cpu.max", "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us"].map(lifted),
            [
                Some("echo max | sudo tee /sys/fs/cgroup/x/cpu.max".into()),
                Some("echo -1 | sudo tee /sys/fs/cgroup/cpu/x/cpu.cfs_quota_us".into()),
            ]
        );
        assert_eq!(lift_quota(&Host::default()), None);
    }
}
