//! A second host in its own network namespace, with one or more slow links that can be cut. This
//! needs root, which the virtual machine has.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::program::{LIMIT, Server};

/// Links and namespaces have fixed names, so there is one second host at a time.
static ONE: Mutex<()> = Mutex::new(());

/// The state of a path in the kernel's table.
pub(super) const GIVEN_UP: &str = "0";
pub(super) const ACTIVE: &str = "2";
const UNCONFIRMED: &str = "3";

/// The other host; link I goes from `10.9.I.1` here to `10.9.I.2` there.
pub(super) struct Far {
    links: u8,
    delay: &'static str,
    /// The previous settings of this host, by file.
    settings: Vec<(String, String)>,
    _one: MutexGuard<'static, ()>,
}

impl Far {
    /// Create links with this delay in each direction.
    pub(super) fn new(links: u8, delay: &'static str) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let far = Self { links, delay, settings: Vec::new(), _one: one };
        shell("ip netns add far; ip netns exec far ip link set lo up");
        for i in 1..=links {
            shell(&format!(
                "ip link add v{i} type veth peer name w{i}
                 ip link set w{i} netns far
                 ip addr add 10.9.{i}.1/24 dev v{i}
                 ip link set v{i} up
                 ip netns exec far ip addr add 10.9.{i}.2/24 dev w{i}
                 ip netns exec far ip link set w{i} up
                 tc qdisc add dev v{i} root netem
                 ip netns exec far tc qdisc add dev w{i} root netem
                 # A new link takes a moment to come up.
                 until ping -c 1 -W 1 10.9.{i}.2 >/dev/null; do n=$((n + 1)); [ $n -lt 30 ]; done"
            ));
            far.mend(i);
        }
        far
    }

    /// Set an SCTP parameter on both hosts. On this host, it is restored at the end.
    pub(super) fn set(mut self, name: &str, value: u32) -> Self {
        let file = format!("/proc/sys/net/sctp/{name}");
        let before = fs::read_to_string(&file).expect("a setting");
        shell(&format!("echo {value} > {file}; ip netns exec far sh -c 'echo {value} > {file}'"));
        self.settings.push((file, before));
        self
    }

    /// Start `prony` on the other host, and wait until it listens.
    pub(super) fn server(&self, args: &[&str]) -> Server {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", "far", env!("CARGO_BIN_EXE_prony")]).args(args);
        Server::spawn(command)
    }

    /// Drop all packets in both directions.
    pub(super) fn cut(&self, link: u8) {
        self.netem(link, "loss 100%");
    }

    pub(super) fn mend(&self, link: u8) {
        self.netem(link, &format!("loss 0% delay {}", self.delay));
    }

    fn netem(&self, link: u8, how: &str) {
        shell(&format!(
            "tc qdisc change dev v{link} root netem {how}
             ip netns exec far tc qdisc change dev w{link} root netem {how}"
        ));
    }

    /// Wait until this host's kernel reports this state of a link's path.
    pub(super) fn wait_for(&self, link: u8, what: &str, is_it: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !state(link).is_some_and(|state| is_it(&state)) {
            assert!(begun.elapsed() < LIMIT, "the path over link {link} is never {what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Wait until an association uses all links as paths.
    pub(super) fn wait_for_paths(&self) {
        for link in 1..=self.links {
            self.wait_for(link, "confirmed", |state| state != UNCONFIRMED);
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        for (file, before) in self.settings.drain(..).rev() {
            drop(fs::write(file, before));
        }
        // After a failed test, some of them may not exist.
        let lines = "for i in $(seq $0); do ip link del v$i; done; ip netns del far";
        let links = self.links.to_string();
        drop(Command::new("sh").args(["-c", lines, &links]).stderr(Stdio::null()).status());
    }
}

/// The state of the path over a link, if there is an association.
fn state(link: u8) -> Option<String> {
    let table = fs::read_to_string("/proc/net/sctp/remaddr").expect("the kernel's paths");
    let addr = format!("10.9.{link}.2");
    let line = table.lines().find(|l| l.split_whitespace().next() == Some(&addr))?;
    line.split_whitespace().last().map(str::to_owned)
}

/// Run a shell script as root.
fn shell(lines: &str) {
    let status = Command::new("sh").args(["-e", "-c", lines]).status().expect("a shell");
    assert!(status.success(), "{lines}: {status}");
}
