use prony_base::units::Nanos;
use prony_plan::plan::{Stop, Think};
use prony_plan::rate::RatePlan;
use prony_tally::record::{Row, SessionTally, TokenTally};

use super::*;

fn plan(load: Load) -> Plan {
    Plan::new(
        Vec::new(),
        Vec::new(),
        load,
        Stop { requests: None, sessions: None, duration: Some(Span::from_secs(10)) },
    )
}

pub(crate) fn closed() -> Plan {
    plan(Load::Closed { connections: 10, think: Think::None })
}

/// Uniformly distributed inter-arrival times, 100 arrivals per second.
pub(crate) fn open() -> Plan {
    let arrivals = Arrivals::Uniform(Span::from_millis(5), Span::from_millis(15));
    plan(Load::Open { rate: RatePlan::default(), arrivals, connections: 50 })
}

/// Ten seconds, 1,000 requests of 2 ms each, sent when due.
pub(crate) fn tally() -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    t.end = Nanos(10_000_000_000);
    (t.started, t.sent, t.replies) = (1_000, 1_000, 1_000);
    t.times.response.record_n(Span::from_millis(2), 1_000);
    t.times.service.record_n(Span::from_millis(2), 1_000);
    t.times.lag.record_n(Span::ZERO, 1_000);
    t
}

pub(crate) fn meter(busy_ms: u64) -> WorkerStats {
    WorkerStats {
        cpu_user: Span::from_millis(busy_ms),
        wall: Span::from_millis(10_000),
        ..WorkerStats::default()
    }
}

pub(crate) fn summary(plan: Plan, t: Tally, m: WorkerStats) -> Summary {
    Summary::from_parts(plan, RunInfo::default(), vec![(None, t, m)])
}

#[test]
fn derives_the_figures_of_a_known_run() {
    let mut t = tally();
    (t.replies, t.failed, t.replies_in_drain) = (990, 10, 40);
    (t.bytes_head, t.bytes_body, t.bytes_in_drain) = (20_000, 80_000, 5_000);
    t.faults[Fault::RequestTimeout as usize] = 3;
    t.faults[Fault::ConnectTimeout as usize] = 2;
    t.faults[Fault::Reset as usize] = 5;
    assert_eq!(t.window(), Span::from_secs(10));
    assert_eq!((t.rate(), t.bytes_per_second()), (95.0, 9_500.0));
    assert_eq!((t.error_share(), t.timeouts()), (Some(0.01), 5));
    assert!((t.concurrency() - 0.2).abs() < 1e-12, "100 requests per second of 2 ms each");
    let empty = Tally::default();
    assert_eq!((empty.rate(), empty.error_share(), empty.concurrency()), (0.0, None, 0.0));
}

#[test]
fn merges_the_parts_of_workers() {
    let parts = vec![(Some(tally()), tally(), meter(100)), (Some(tally()), tally(), meter(300))];
    let s = Summary::from_parts(closed(), RunInfo::default(), parts);
    assert_eq!((s.main.started, s.warmup.as_ref().map(|w| w.started)), (2_000, Some(2_000)));
    assert_eq!((s.cpu(), s.ended(), s.workers.len()), (Span::from_millis(400), 4_000, 2));
    assert_eq!(s.busiest(), Some((1, 0.03)));
    let none = Summary::from_parts(closed(), RunInfo::default(), vec![]);
    assert_eq!((none.main, none.workers.len()), (Tally::default(), 0));
}

#[test]
fn rows_show_the_series() {
    let mut t = tally();
    t.series.started(Nanos(1));
    t.series.replied(Nanos(1_500_000_000), Span::from_millis(1), 10);
    t.series.close();
    let rows: Vec<Row> = t.rows().collect();
    assert_eq!((rows.len(), rows[0].started, rows[0].max), (2, 1, None));
    let last = (rows[1].at, rows[1].length, rows[1].replies, rows[1].bytes, rows[1].max);
    let second = Span::from_secs(1);
    assert_eq!(last, (second, second, 1, 10, Some(Span::from_millis(1))));
}

#[test]
fn target_rate_follows_from_the_arrivals() {
    assert_eq!(summary(open(), tally(), meter(0)).target_rate(), Some(100.0));
    assert_eq!(summary(closed(), tally(), meter(0)).target_rate(), None);
    let trace = Arrivals::Trace([Span::ZERO, Span::from_secs(1)].into());
    let load = Load::Open { rate: RatePlan::default(), arrivals: trace, connections: 1 };
    assert_eq!(summary(plan(load), tally(), meter(0)).target_rate(), Some(100.0));
}

#[test]
fn derives_the_rates_of_sessions_and_tokens() {
    let mut t = tally();
    assert_eq!((t.session_rate(), t.tokens_per_chunk(), t.token_rate()), (None, None, None));
    t.sessions =
        Some(Box::new(SessionTally { completed: 30, completed_in_drain: 5, ..Default::default() }));
    assert_eq!(t.session_rate(), Some(2.5), "25 in 10 s");
    t.tokens =
        Some(Box::new(TokenTally { chunks: 110, chunks_in_drain: 10, ..Default::default() }));
    assert_eq!((t.tokens_per_chunk(), t.token_rate()), (None, None), "no reply says how many");
    let tokens = t.tokens.as_deref_mut().unwrap();
    (tokens.counted_chunks, tokens.output_tokens) = (40, 60);
    assert_eq!((t.tokens_per_chunk(), t.token_rate()), (Some(1.5), Some(15.0)));
    assert_eq!(t.token_rate_of_one(), None);
    t.tokens.as_deref_mut().unwrap().itl.record(Span::from_millis(20));
    assert_eq!(t.token_rate_of_one(), Some(50.0));
}
