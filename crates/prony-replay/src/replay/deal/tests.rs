use std::io::Write as _;
use std::time::{Duration, Instant};

use super::*;
use crate::replay::{By, Settings};
use crate::shape::Shape;
use crate::source::Source;

/// A log of `n` requests, one each millisecond, of seven clients in turn.
fn replay(folder: &tempfile::TempDir, n: u64, by: By, shape: Shape) -> Replay {
    let path = folder.path().join("a.log");
    let mut file = std::fs::File::create(&path).expect("created");
    let mut text = String::new();
    for i in 0..n {
        let (s, ms) = (1_700_000_000 + i / 1000, i % 1000);
        text += &format!("{{\"time\":{s}.{ms:03},\"path\":\"/{i}\",\"client\":\"c{}\"}}\n", i % 7);
    }
    file.write_all(text.as_bytes()).expect("written");
    let source = Source { paths: vec![path], ..Source::default() };
    Replay::open(Settings { source, shape, by, ..Settings::default() }).expect("a log")
}

/// What a feed has: the time in milliseconds and the number in the path of each request.
fn drain(feed: &mut Box<dyn Feed>, now: Span) -> Vec<(u64, u64)> {
    let (mut entry, mut all) = (Entry::default(), Vec::new());
    let begun = Instant::now();
    loop {
        match feed.next(&mut entry, now) {
            Fed::Entry => {
                let number = std::str::from_utf8(&entry.own.path[1..]).expect("text");
                all.push((entry.at.0 / 1_000_000, number.parse().expect("a number")));
            }
            Fed::Later(_) => {
                assert!(begun.elapsed() < Duration::from_secs(60), "{} so far", all.len());
                thread::yield_now();
            }
            Fed::Ended => return all,
        }
    }
}

#[test]
fn each_request_is_dealt_once_and_in_order() {
    const N: u64 = 300_000;
    let folder = tempfile::tempdir().expect("a folder");
    let replay = replay(&folder, N, By::Nobody, Shape::default());
    let mut feeds = replay.feeds().make(3);
    let dealt: Vec<Vec<(u64, u64)>> = thread::scope(|scope| {
        let threads: Vec<_> =
            feeds.iter_mut().map(|feed| scope.spawn(move || drain(feed, Span::ZERO))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for (i, own) in (0..).zip(&dealt) {
        let expected: Vec<_> = (0..N).filter(|k| k % 3 == i).map(|k| (k, k)).collect();
        assert!(*own == expected, "worker {i} has {} requests", own.len());
    }
    drop(feeds);
    let handed = replay.handed();
    assert_eq!((handed.requests, handed.failed, handed.late), (N, None, 0));
    assert_eq!(handed.files[0].facts.requests, N);
    assert_eq!((handed.logged[3], handed.replayed[3]), (Some(0.0), Some(0.0)));
}

#[test]
fn the_log_is_read_only_as_far_as_the_queues_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let replay = replay(&folder, 200_000, By::Nobody, Shape::default());
    let feeds = replay.feeds().make(2);
    // One request a millisecond for two workers: 25 in each batch.
    let read_to =
        |replay: &Replay| replay.lock().files.first().map_or(0, |file| file.facts.requests);
    thread::sleep(Duration::from_millis(300));
    // Besides the beginning and the window in which lines are put in order.
    assert!((20_000..40_000).contains(&read_to(&replay)), "{}", read_to(&replay));
    drop(feeds);
    assert!(replay.handed().requests == 0 && replay.handed().failed.is_none());
}

#[test]
fn a_worker_without_requests_knows_until_when() {
    let folder = tempfile::tempdir().expect("a folder");
    let replay = replay(&folder, 100_000, By::Client, Shape::default());
    let mut feeds = replay.feeds().make(20);
    let mut entry = Entry::default();
    let mut without = 0;
    for feed in &mut feeds {
        match feed.next(&mut entry, Span::ZERO) {
            Fed::Later(until) => {
                assert!(until > Span::from_millis(500), "{until}");
                without += 1;
            }
            fed => assert_eq!(fed, Fed::Entry),
        }
    }
    // Seven clients at most.
    assert!((13..20).contains(&without), "{without}");
}

#[test]
fn what_is_read_after_it_was_due_is_counted() {
    let replay = {
        let folder = tempfile::tempdir().expect("a folder");
        replay(&folder, 10, By::Nobody, Shape::default())
    };
    let (queue, taken) = sync_channel(QUEUE);
    let mut feed = Dealt {
        queue: taken,
        back: mpsc::channel().0,
        batch: Batch::default(),
        next: 0,
        horizon: Arc::new(AtomicU64::new(5)),
        was_late: false,
        counts: Counts::new(&replay),
    };
    let mut entry = Entry::default();
    assert_eq!(feed.next(&mut entry, Span(3)), Fed::Later(Span(5)));
    assert!(!feed.was_late, "nothing was due");
    assert_eq!(feed.next(&mut entry, Span(6)), Fed::Later(Span(5)));
    let entries = [6, 9].map(|at| Entry { at: Span(at), ..Entry::default() }).to_vec();
    queue.send(Batch { len: entries.len(), entries }).expect("room");
    assert_eq!(feed.next(&mut entry, Span(10)), Fed::Entry);
    assert_eq!((feed.counts.late, feed.counts.late_most), (1, Span(4)));
    assert_eq!((feed.due_before(Span(9)), feed.due_before(Span(10))), (0, 1));
    assert_eq!(feed.next(&mut entry, Span(10)), Fed::Entry);
    assert_eq!(feed.counts.late, 1, "this one was there");
    drop(queue);
    assert_eq!(feed.next(&mut entry, Span(10)), Fed::Ended);
}
