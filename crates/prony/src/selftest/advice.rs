//! Suggestions to improve measurements on a host, with commands: a pure function of the host's
//! settings and of the CPU usage during the test.

use prony_base::meter::CpuPressure;
use prony_base::units::Span;
use prony_io::host::Host;
use serde::{Deserialize, Serialize};

use prony_report::units;

/// A suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Advice {
    /// The problem, as a sentence.
    pub finding: String,
    /// The command that fixes it; `None` if no command on this host can.
    pub command: Option<String>,
}

/// CPU usage during the test.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// The duration of the test.
    pub duration: Span,
    /// CPU time used by this process.
    pub own: Span,
    /// CPU time kept from this process.
    pub cpu_pressure: CpuPressure,
}

/// The minimum number of file descriptors for tests with many connections.
const DESCRIPTORS_MIN: u64 = 65_536;
/// The minimum number of local ports; more are available.
const PORTS_MIN: u64 = 50_000;
/// The minimum of locked memory; less is enough for only a few rings.
const RING_MEMORY_MIN: u64 = 64 << 20;
/// The minimum backlog; a server on this host drops connects that exceed it.
const BACKLOG_MIN: u64 = 4_096;
/// The maximum share of CPU time used by other processes.
const OTHERS_MAX: f64 = 0.05;
/// The maximum share of stolen CPU time.
const STOLEN_MAX: f64 = 0.005;

/// The suggestions for this host, most important first.
pub(crate) fn advice(host: &Host, usage: &Usage) -> Vec<Advice> {
    let all = [
        stolen(usage),
        throttled(host, usage),
        quota(host),
        others(host, usage),
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

fn with_command(finding: String, command: String) -> Option<Advice> {
    Some(Advice { finding, command: Some(command) })
}

fn stolen(usage: &Usage) -> Option<Advice> {
    let (stolen, wanted) = (usage.cpu_pressure.stolen?, usage.cpu_pressure.wanted?);
    let share = stolen.0 as f64 / wanted.0.max(1) as f64;
    (share > STOLEN_MAX).then(|| Advice {
        finding: format!(
            "the hypervisor stole {} of the requested CPU time; use a host with dedicated cores",
            units::percent(share)
        ),
        command: None,
    })
}

fn throttled(host: &Host, usage: &Usage) -> Option<Advice> {
    let time = usage.cpu_pressure.throttled.filter(|&t| t > Span::ZERO)?;
    let finding = format!(
        "the CPU quota of the control group stopped this process for {}",
        units::span(time)
    );
    Some(Advice { finding, command: lift_quota(host) })
}

fn quota(host: &Host) -> Option<Advice> {
    let quota = host.quota_millicores?;
    (quota < 1_000 * host.cores_allowed.len() as u64).then_some(())?;
    let cores = units::round(quota as f64 / 1e3);
    let finding = format!(
        "the CPU quota of the control group allows the time of {cores} of {} cores",
        units::count(host.cores_allowed.len() as u64)
    );
    Some(Advice { finding, command: lift_quota(host) })
}

/// The command that removes the CPU quota of the control group.
fn lift_quota(host: &Host) -> Option<String> {
    let path = host.quota_file.as_deref()?;
    let (folder, file) = path.rsplit_once('/')?;
    let unit = folder.rsplit('/').next().unwrap_or_default();
    Some(if [".service", ".scope", ".slice"].iter().any(|kind| unit.ends_with(kind)) {
        format!("sudo systemctl set-property --runtime {unit} CPUQuota=")
    } else {
        // Version 1 of control groups uses -1 for no quota.
        let all = if file == "cpu.max" { "max" } else { "-1" };
        format!("echo {all} | sudo tee {path}")
    })
}

/// The share of the CPU time that other processes used.
pub(crate) fn share_of_others(host: &Host, usage: &Usage) -> Option<f64> {
    let (stolen, wanted) = (usage.cpu_pressure.stolen?, usage.cpu_pressure.wanted?);
    let all = usage.duration.0 * host.cores_allowed.len() as u64;
    Some(((wanted - stolen - usage.own).0 as f64 / all.max(1) as f64).clamp(0.0, 1.0))
}

fn others(host: &Host, usage: &Usage) -> Option<Advice> {
    let share = share_of_others(host, usage)?;
    (share > OTHERS_MAX).then_some(())?;
    let share = units::percent(share);
    let finding = format!("other processes used {share} of the CPU time during this test");
    with_command(format!("{finding}; find and stop them"), "top -b -n 1 -o %CPU | head -20".into())
}

fn clock(host: &Host) -> Option<Advice> {
    let now = host.clock_source.as_deref()?;
    let better = ["tsc", "kvm-clock", "arch_sys_counter"];
    let better = better.iter().find(|b| host.clock_sources.iter().any(|s| s == **b))?;
    (!["tsc", "kvm-clock", "arch_sys_counter"].contains(&now)).then_some(())?;
    with_command(
        format!("the clock source {now} is slow; {better} is available"),
        format!(
            "echo {better} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
    )
}

fn governor(host: &Host) -> Option<Advice> {
    let governor = host.governor.as_deref().filter(|g| *g != "performance")?;
    with_command(
        format!("the CPU frequency varies with the governor `{governor}`"),
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".into(),
    )
}

fn loopback(host: &Host) -> Option<Advice> {
    let queue = host.loopback_queue.as_deref()?;
    with_command(
        format!("a queueing discipline ({queue}) delays packets on the loopback device"),
        "sudo tc qdisc del dev lo root".into(),
    )
}

fn cores(host: &Host) -> Option<Advice> {
    let allowed = host.cores_allowed.len();
    (allowed < host.cores).then_some(())?;
    with_command(
        format!("this process may use {allowed} of {} cores", host.cores),
        format!("taskset -a -c -p 0-{} $$", host.cores - 1),
    )
}

fn apart(host: &Host) -> Option<Advice> {
    let (first, rest) = host.cores_allowed.split_first()?;
    let Some(last) = rest.last() else {
        return Some(Advice {
            finding: "this process has one core, which a target on this host would share; use a \
                      target on another host"
                .into(),
            command: None,
        });
    };
    let half = host.cores_allowed[host.cores_allowed.len() / 2];
    let range = |a: &usize, b: &usize| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let client = range(first, &host.cores_allowed[host.cores_allowed.len() / 2 - 1]);
    with_command(
        "a target on this host competes with prony for CPU time; pin both to separate cores, as \
         this test does"
            .into(),
        format!("taskset -c {} TARGET & taskset -c {client} prony URL", range(&half, last)),
    )
}

fn io_uring(host: &Host) -> Option<Advice> {
    let why = match host.io_uring_disabled? {
        0 => return None,
        1 => "to unprivileged processes",
        _ => "to all processes",
    };
    with_command(
        format!("the kernel refuses io_uring {why}"),
        "sudo sysctl -w kernel.io_uring_disabled=0".into(),
    )
}

fn ring_memory(host: &Host) -> Option<Advice> {
    let bytes = host.ring_memory.filter(|&n| n < RING_MEMORY_MIN)?;
    with_command(
        format!(
            "the rings of io_uring can lock only {} of memory per user; threads get small rings or \
             none",
            units::bytes(bytes as f64)
        ),
        "sudo prlimit --pid $$ --memlock=unlimited:unlimited".into(),
    )
}

fn descriptors(host: &Host) -> Option<Advice> {
    (host.descriptors < DESCRIPTORS_MIN).then_some(())?;
    let limit = units::count(host.descriptors);
    with_command(
        format!("the limit of open files is {limit}, and each connection needs one"),
        "sudo prlimit --pid $$ --nofile=1048576:1048576".into(),
    )
}

fn ports(host: &Host) -> Option<Advice> {
    let ports = host.local_ports.filter(|&n| n < PORTS_MIN)?;
    with_command(
        format!(
            "there are only {} local ports, which limits the connections to one target",
            units::count(ports)
        ),
        "sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"".into(),
    )
}

fn backlog(host: &Host) -> Option<Advice> {
    let backlog = host.backlog.filter(|&n| n < BACKLOG_MIN)?;
    with_command(
        format!(
            "the listen backlog of servers on this host is at most {}; connects that exceed it are \
             retried after 1 s",
            units::count(backlog)
        ),
        "sudo sysctl -w net.core.somaxconn=65535".into(),
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// A well-configured host with two cores.
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

    /// The usage of a test of one second, with times in ms.
    fn usage(own: u64, stolen: u64, wanted: u64) -> Usage {
        let ms = |n| Some(Span::from_millis(n));
        let cpu_pressure = CpuPressure { throttled: None, stolen: ms(stolen), wanted: ms(wanted) };
        Usage { duration: Span::from_secs(1), own: Span::from_millis(own), cpu_pressure }
    }

    fn shown(host: &Host, usage: &Usage) -> String {
        let line = |a: Advice| {
            a.finding + &a.command.map(|c| format!("\n    {c}")).unwrap_or_default() + "\n"
        };
        advice(host, usage).into_iter().map(line).collect()
    }

    #[test]
    fn suggests_only_pinning_on_a_good_host() {
        let quiet = usage(280, 0, 300);
        expect![[r#"
            a target on this host competes with prony for CPU time; pin both to separate cores, as this test does
                taskset -c 1 TARGET & taskset -c 0 prony URL
        "#]]
        .assert_eq(&shown(&good(), &quiet));
        // Unknown settings cause no suggestions.
        let unknown = Host { cores_allowed: vec![0], descriptors: 1 << 20, ..Host::default() };
        expect![[r#"
            this process has one core, which a target on this host would share; use a target on another host
        "#]]
        .assert_eq(&shown(&unknown, &Usage::default()));
    }

    #[test]
    fn suggests_a_command_for_every_problem() {
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
        let mut busy = usage(200, 100, 1_000);
        busy.cpu_pressure.throttled = Some(Span::from_millis(30));
        expect![[r#"
            the hypervisor stole 10.0 % of the requested CPU time; use a host with dedicated cores
            the CPU quota of the control group stopped this process for 30.0 ms
                sudo systemctl set-property --runtime a.service CPUQuota=
            the CPU quota of the control group allows the time of 1.5 of 4 cores
                sudo systemctl set-property --runtime a.service CPUQuota=
            other processes used 17.5 % of the CPU time during this test; find and stop them
                top -b -n 1 -o %CPU | head -20
            the clock source hpet is slow; tsc is available
                echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource
            the CPU frequency varies with the governor `powersave`
                echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor
            a queueing discipline (netem) delays packets on the loopback device
                sudo tc qdisc del dev lo root
            this process may use 4 of 8 cores
                taskset -a -c -p 0-7 $$
            a target on this host competes with prony for CPU time; pin both to separate cores, as this test does
                taskset -c 4-5 TARGET & taskset -c 2-3 prony URL
            the kernel refuses io_uring to all processes
                sudo sysctl -w kernel.io_uring_disabled=0
            the rings of io_uring can lock only 8.00 MiB of memory per user; threads get small rings or none
                sudo prlimit --pid $$ --memlock=unlimited:unlimited
            the limit of open files is 1,024, and each connection needs one
                sudo prlimit --pid $$ --nofile=1048576:1048576
            there are only 28,232 local ports, which limits the connections to one target
                sudo sysctl -w net.ipv4.ip_local_port_range="1024 65535"
            the listen backlog of servers on this host is at most 128; connects that exceed it are retried after 1 s
                sudo sysctl -w net.core.somaxconn=65535
        "#]]
        .assert_eq(&shown(&poor, &busy));
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
