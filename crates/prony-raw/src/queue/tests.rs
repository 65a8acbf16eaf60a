use std::mem;

use prony_base::units::{ConnId, RequestId};
use prony_plan::plan::{CallSpec, Load, Stop, Think};
use prony_plan::target::Endpoint;
use prony_tally::record::Stamps;

use super::*;

fn plan() -> Plan {
    Plan::new(
        vec![Endpoint::Tcp { host: "h".into(), port: 80 }],
        vec![CallSpec { method: "GET".into(), path: "/".into(), ..CallSpec::default() }],
        Load::Closed { connections: 1, think: Think::None },
        Stop::default(),
    )
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<File>>);

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    is_complete: bool,
}

impl Memory {
    /// What was written, if it is complete.
    fn take(&self) -> Option<Vec<u8>> {
        let mut file = self.0.lock().unwrap();
        file.is_complete.then(|| mem::take(&mut file.bytes))
    }
}

impl Destination for Memory {
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn complete(self: Box<Self>) -> io::Result<()> {
        self.0.lock().unwrap().is_complete = true;
        Ok(())
    }
}

/// An ended request of the first connection.
fn ended(intended: u64) -> EndedRequest {
    EndedRequest {
        id: RequestId { slot: 0, generation: 0 },
        stamps: Stamps { intended: Nanos(intended), ..Stamps::default() },
        was_sent: true,
        has_begun: true,
        call: 0,
        conn: Some(ConnId { slot: 0, generation: 0 }),
        reply: None,
        fault: None,
        stream: None,
    }
}

#[test]
fn a_full_queue_is_counted_and_holds_up_nobody() {
    let shared = Arc::new(Shared::default());
    let mut tap = RawTap::new(&shared, false);
    for n in 0..QUEUE as u64 + 89 {
        tap.request_ended(&ended(n));
    }
    assert_eq!(shared.left_out.load(Ordering::Relaxed), 89);
    // What is in the queue is written.
    let file = Memory::default();
    shared.is_over.store(true, Ordering::Release);
    let sheet = Sheet::new(Format::Csv, Box::new(file.clone()), &plan()).unwrap();
    let written = write(sheet, &shared).unwrap();
    assert_eq!(written, QUEUE as u64);
    let text = String::from_utf8(file.take().unwrap()).unwrap();
    assert_eq!(text.lines().count(), QUEUE + 1);
}

#[test]
fn counts_what_is_written_and_what_is_left_out() {
    let file = Memory::default();
    let begun = Writer::begin(Format::JsonLines, Box::new(file.clone()), &plan(), false);
    let (writer, taps) = begun.unwrap();
    let mut tap = RawTap::new(&writer.shared, false);
    (0..2).for_each(|n| tap.request_ended(&ended(n)));
    writer.shared.left_out.store(89, Ordering::Relaxed);
    drop((tap, taps));
    assert_eq!(writer.counts().left_out, 89);
    assert_eq!(writer.end(None).unwrap(), Counts { written: 2, left_out: 89 });
    assert_eq!(String::from_utf8(file.take().unwrap()).unwrap().lines().count(), 2);
}

/// A file that takes one piece, and then nothing any more.
struct StuckFile(bool);

impl Destination for StuckFile {
    fn add(&mut self, _: &[u8]) -> io::Result<()> {
        while mem::replace(&mut self.0, true) {
            thread::park();
        }
        Ok(())
    }

    fn complete(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// What a file does not take in time is counted, and the end comes.
#[test]
fn a_stuck_file_does_not_hold_up_the_end() {
    const N: u64 = 20_000;
    let begun = Writer::begin(Format::JsonLines, Box::new(StuckFile(false)), &plan(), false);
    let (writer, taps) = begun.unwrap();
    let mut tap = RawTap::new(&writer.shared, false);
    (0..N).for_each(|n| tap.request_ended(&ended(n)));
    drop((tap, taps));
    assert_eq!(writer.counts(), Counts { written: N, left_out: 0 });
    while writer.shared.taken.load(Ordering::Relaxed) == 0 {
        thread::sleep(PAUSE);
    }
    let Err(EndError::Stuck(counts)) = writer.end(Some(Duration::from_millis(50))) else {
        panic!("it takes nothing")
    };
    assert_eq!(counts.written + counts.left_out, N);
    assert!(counts.written > 0 && counts.left_out > 0, "{counts:?}");
}

#[test]
fn without_an_end_the_file_is_not_complete() {
    let file = Memory::default();
    let begun = Writer::begin(Format::Csv, Box::new(file.clone()), &plan(), false);
    let (mut writer, _) = begun.unwrap();
    let thread = writer.thread.take().unwrap();
    drop(writer);
    assert_eq!(thread.join().unwrap().unwrap(), 0);
    assert!(file.take().is_none());
}

#[test]
fn connections_have_consecutive_numbers() {
    let shared = Arc::new(Shared::default());
    let mut tap = RawTap::new(&shared, false);
    let ids = [(5, 0), (2, 7), (5, 0), (5, 1), (2, 7), (0, 0), (5, 2)];
    let numbers = ids.map(|(slot, generation)| tap.number(slot, generation));
    assert_eq!(numbers, [0, 1, 0, 2, 1, 3, 4]);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_written_in_groups() {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    const N: u64 = 300_000;
    let file = Memory::default();
    let shared = Arc::new(Shared::default());
    let mut tap = RawTap::new(&shared, true);
    let sheet = Sheet::new(Format::Parquet, Box::new(file.clone()), &plan()).unwrap();
    let writer = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || write(sheet, &shared))
    };
    (0..N).for_each(|n| tap.request_ended(&ended(n)));
    shared.is_over.store(true, Ordering::Release);
    assert_eq!(writer.join().unwrap().unwrap(), N);
    let reader = SerializedFileReader::new(Bytes::from(file.take().unwrap())).unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|g| g.num_rows()).collect();
    assert_eq!(groups, [131_072, 131_072, 300_000 - 2 * 131_072]);
    let first = reader.metadata().row_group(0).column(0).compression();
    assert_eq!(first, parquet::basic::Compression::SNAPPY);
    let mut intended = 0;
    for (n, row) in (0..).zip(reader.get_row_iter(None).unwrap()) {
        intended += u64::from(row.unwrap().get_long(0).unwrap() == n);
    }
    assert_eq!(intended, N);
}
