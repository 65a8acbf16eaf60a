//! Runs on several hosts.

use prony_base::units::Span;
use prony_stats::summary::{ClockOffset, Host, Hosts, Loss, PART_FORMAT, Part, Summary};
use prony_tally::record::FirstHandshake;

use super::super::sample;
use super::{report, under_cpu_pressure};

/// The report of a share, and a run on three hosts: one was too slow, one was lost, one is missing.
pub(super) fn on_hosts() -> [Summary; 3] {
    let ms = Span::from_millis;
    let mut part = sample::closed();
    part.plan = part.plan.shard(1, 4);
    part.run.part = Some(Part {
        format: PART_FORMAT,
        plan_digest: "ab".repeat(32),
        host: "web2".into(),
        start_at_unix: Some(1_700_000_000.5),
        start_late: Some(ms(1)),
    });
    let first = FirstHandshake {
        version: "1.3".into(),
        suite: "TLS_AES_128_GCM_SHA256".into(),
        group: Some("x25519".into()),
        key_bits: Some(256),
    };
    part.main.tls.get_or_insert_default().first = Some(first);
    let mut slow = Host::of("web1".into(), &under_cpu_pressure());
    slow.send_lag_p99 = Some(ms(3));
    slow.clock = Some(ClockOffset { offset_ns: -7_000, bound: ms(1), drift_ns: Some(-90) });
    let mut lost = Host::of("web2".into(), &part);
    lost.lost = Some(Loss { after: ms(7_000), cause: "killed by signal 9".into(), offered: 0.5 });
    let mut whole = sample::closed();
    whole.run.hosts = Some(Box::new(Hosts {
        shards: 3,
        hosts: vec![slow, lost],
        missing: vec![2],
        start_at_unix: Some(1_700_000_000.5),
    }));
    let reported = &report(&whole)["verdict"]["reasons"];
    let reported: Vec<_> = reported.as_array().into_iter().flatten().map(|r| &r["kind"]).collect();
    assert_eq!(reported, ["on-host", "on-host", "on-host", "on-host", "partial"]);
    let mut open = sample::open();
    open.run.hosts.clone_from(&whole.run.hosts);
    [part, whole, open]
}
