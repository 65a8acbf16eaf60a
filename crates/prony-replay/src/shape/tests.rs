use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::log::Options;

const MS: u64 = 1_000_000;

/// A log with requests for `/0`, `/1` and so on at these times, in milliseconds.
fn log(folder: &Path, times: &[u64]) -> Source {
    let line = |(k, ms): (usize, &u64)| {
        let (s, ms) = (ms / 1000, ms % 1000);
        format!("{{\"time\":{}.{ms:03},\"path\":\"/{k}\",\"client\":\"c{}\"}}\n", 100 + s, k % 10)
    };
    let text: String = times.iter().enumerate().map(line).collect();
    let path = folder.join("a.log");
    std::fs::write(&path, text).expect("written");
    Source { paths: vec![path], options: Options::default(), ..Source::default() }
}

/// The arrivals: the time in nanoseconds and the path of each.
fn arrivals(source: &Source, shape: &Shape, most: usize) -> Vec<(u64, String)> {
    let mut log = source.open().expect("a log");
    let (mut record, source) = (Record::default(), Arc::new(source.clone()));
    log.next(&mut record).expect("a log").expect("a request");
    let mut shaped = Shaped::new(&source, shape, record.at, None).expect("a log");
    let mut all = Vec::new();
    while all.len() < most
        && let Some(at) = shaped.next(&mut record).expect("a log")
    {
        all.push((at, String::from_utf8(record.path.clone()).expect("text")));
    }
    all
}

fn sorted(mut times: Vec<u64>) -> Vec<u64> {
    times.sort_unstable();
    times
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each copy has each request once, at its time in the log plus a shift that wraps.
    #[test]
    fn copies_are_the_log_shifted_around_its_length(
        gaps in prop::collection::vec(0_u64..500, 1..60),
        copies in 1_u32..5,
        shift in 1_u64..5_000,
        speed in 1_u64..5_000_000,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut at = 0;
        let mut times = vec![0];
        times.extend(gaps.iter().map(|gap| { at += gap; at }));
        let source = log(folder.path(), &times);
        let period = (at * MS + at * MS / gaps.len() as u64).max(1);
        let shape = Shape { copies, shift: shift * MS, speed, ..Shape::default() };
        let scaled = |at: u64| (u128::from(at) * u128::from(SPEED) / u128::from(speed)) as u64;
        let mut expected = Vec::new();
        for copy in 0..u64::from(copies) {
            for (k, &time) in times.iter().enumerate() {
                let behind = copy * shift * MS % period;
                let at = (time * MS + period - behind) % period;
                expected.push((scaled(at), format!("/{k}")));
            }
        }
        expected.sort();
        let mut got = arrivals(&source, &shape, usize::MAX);
        prop_assert!(got.is_sorted_by_key(|(at, _)| *at));
        got.sort();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn a_log_that_repeats_has_the_same_gaps_each_time(
        gaps in prop::collection::vec(1_u64..500, 1..20),
        laps in 1_usize..4,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut at = 0;
        let mut times = vec![0];
        times.extend(gaps.iter().map(|gap| { at += gap; at }));
        let source = log(folder.path(), &times);
        let period = at * MS + at * MS / gaps.len() as u64;
        let shape = Shape { repeats: true, ..Shape::default() };
        let got = arrivals(&source, &shape, times.len() * laps);
        for (i, (at, path)) in got.iter().enumerate() {
            let (lap, k) = (i / times.len(), i % times.len());
            let expected = lap as u64 * period + times[k] * MS;
            prop_assert_eq!((*at, &path[1..]), (expected, &k.to_string()[..]));
        }
    }
}

#[test]
fn samples_have_the_share_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let times: Vec<u64> = (0..10_000).collect();
    let source = log(folder.path(), &times);
    let of = |sample, copies, seed| {
        let shape = Shape { sample, copies, seed, shift: 1000 * MS, ..Shape::default() };
        arrivals(&source, &shape, usize::MAX)
    };
    let some = of(Sample::Requests(0.1), 1, 1);
    // A standard deviation is 30.
    assert!((880..1120).contains(&some.len()), "{}", some.len());
    assert_eq!(some, of(Sample::Requests(0.1), 1, 1), "the seed decides");
    assert_ne!(some, of(Sample::Requests(0.1), 1, 2));
    // Copies are drawn independently.
    let two = of(Sample::Requests(0.1), 2, 1);
    let once: Vec<_> = two.iter().map(|(_, path)| path).collect();
    let twice = once.iter().filter(|path| once.iter().filter(|p| p == path).count() == 2).count();
    assert!((100..320).contains(&twice), "{twice}");
    // All of a client or nothing.
    let clients = of(Sample::Clients(0.5), 1, 3);
    assert!(clients.len() % 1000 == 0 && !clients.is_empty() && clients.len() < 10_000);
    assert_eq!(of(Sample::All, 1, 1).len(), 10_000);
    assert!(of(Sample::Requests(0.0), 1, 1).is_empty());
}

#[test]
fn parts_and_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let times: Vec<u64> = (0..100).map(|k| k * 100).collect();
    let whole = log(folder.path(), &times);
    let second = 1_000_000_000;
    let part = Source { from: Some(102 * second), to: Some(104 * second), ..whole.clone() };
    let got = arrivals(&part, &Shape::default(), usize::MAX);
    assert_eq!((got.len(), &got[0]), (20, &(0, "/20".to_owned())));
    let shape = Shape { requests: Some(7), duration: Some(500 * MS), ..Shape::default() };
    assert_eq!(arrivals(&whole, &shape, usize::MAX).len(), 5);
    let shape = Shape { requests: Some(3), ..shape };
    assert_eq!(arrivals(&whole, &shape, usize::MAX).len(), 3);
    // The same log twice, as of two servers.
    let twice = Source { paths: [whole.paths.clone(), whole.paths.clone()].concat(), ..whole };
    let got: Vec<u64> =
        arrivals(&twice, &Shape::default(), usize::MAX).into_iter().map(|(at, _)| at).collect();
    assert_eq!(got, sorted(times.iter().flat_map(|ms| [ms * MS; 2]).collect()));
}
