//! Raw results as Parquet: columns, in groups of rows.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use prony_base::fault::Fault;
use prony_base::units::Nanos;
use prony_plan::plan::Plan;

use crate::Destination;
use crate::line::{Line, NONE, Names, STREAM};

/// How many rows are kept until they are written as a group: 12 MB.
const ROWS: usize = 1 << 17;

/// The columns, as those of the other formats.
const SCHEMA: &str = "
    required int64 intended_ns;
    optional int64 sent_ns;
    optional int64 first_byte_ns;
    required int64 done_ns;
    optional binary request (STRING);
    optional int64 status;
    optional binary error (STRING);
    required int64 head_bytes;
    required int64 body_bytes;
    required int64 worker;
    optional int64 connection;
    required boolean warmup;
";

/// Those of plans that read bodies as streams of messages.
const STREAM_SCHEMA: &str = "
    optional int64 messages;
    optional int64 first_message_ns;
    optional int64 last_message_ns;
    optional int64 first_content_ns;
    optional int64 ttft_ns;
    optional int64 itl_ns;
    optional int64 input_tokens;
    optional int64 output_tokens;
";

/// A file of columns that is being written.
pub(super) struct Columns {
    writer: SerializedFileWriter<Sink>,
    rows: Vec<Line>,
    calls: Vec<ByteArray>,
    faults: Vec<ByteArray>,
    /// The end of the warm-up.
    start: Nanos,
    has_streams: bool,
}

/// The file.
struct Sink(Box<dyn Destination>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.add(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An error of the file itself, or what else is wrong.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}

impl Columns {
    pub(super) fn new(file: Box<dyn Destination>, plan: &Plan) -> io::Result<Self> {
        let has_streams = plan.stream.is_some();
        let streams = if has_streams { STREAM_SCHEMA } else { "" };
        let schema = parse_message_type(&format!("message requests {{{SCHEMA}{streams}}}"));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // Of each group; pages need none, as a group is read as a whole.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(format!("prony {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(
            Sink(file),
            Arc::new(schema.map_err(failed)?),
            Arc::new(properties),
        );
        let Names { calls, faults } = Names::of(plan);
        let bytes = |names: Vec<String>| -> Vec<ByteArray> {
            names.iter().map(|name| name.as_str().into()).collect()
        };
        Ok(Self {
            writer: writer.map_err(failed)?,
            rows: Vec::with_capacity(ROWS),
            calls: bytes(calls),
            faults: bytes(faults),
            start: Nanos::ZERO + plan.warmup,
            has_streams,
        })
    }

    pub(super) fn add(&mut self, line: Line) -> io::Result<()> {
        self.rows.push(line);
        if self.rows.len() == ROWS { self.write_rows() } else { Ok(()) }
    }

    /// Completes the file.
    pub(super) fn complete(mut self) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.write_rows()?;
        }
        let Sink(file) = self.writer.into_inner().map_err(failed)?;
        file.complete()
    }

    /// Writes a group of rows.
    fn write_rows(&mut self) -> io::Result<()> {
        self.write_group().map_err(failed)?;
        self.rows.clear();
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let Self { writer, rows, calls, faults, start, has_streams } = self;
        let mut group = Group { writer: writer.next_row_group()?, rows };
        let time = |at: Nanos| (at < Nanos::MAX).then_some(at.0 as i64);
        let number = |n: u64| n as i64;
        group.all::<Int64Type>(|line| number(line.intended.0))?;
        group.some::<Int64Type>(|line| time(line.sent))?;
        group.some::<Int64Type>(|line| time(line.first))?;
        group.all::<Int64Type>(|line| number(line.done.0))?;
        group.some::<ByteArrayType>(|line| calls.get(line.call as usize).cloned())?;
        group.some::<Int64Type>(|line| (line.status > 0).then_some(line.status.into()))?;
        let fault = |fault: Fault| faults.get(fault as usize).cloned();
        group.some::<ByteArrayType>(|line| line.fault.and_then(fault))?;
        group.all::<Int64Type>(|line| number(line.head))?;
        group.all::<Int64Type>(|line| number(line.body))?;
        group.all::<Int64Type>(|line| line.worker.into())?;
        let connection = |n: u32| (n < NONE).then_some(i64::from(n));
        group.some::<Int64Type>(|line| connection(line.connection))?;
        group.all::<BoolType>(|line| line.intended < *start)?;
        for column in 0..if *has_streams { STREAM } else { 0 } {
            group.some::<Int64Type>(|line| line.stream()[column].map(|n| n as i64))?;
        }
        group.writer.close().map(drop)
    }
}

/// Rows that are written column by column.
struct Group<'a> {
    writer: SerializedRowGroupWriter<'a, Sink>,
    rows: &'a [Line],
}

impl Group<'_> {
    /// The next column: a value of each row.
    fn all<T: DataType>(&mut self, of: impl Fn(&Line) -> T::T) -> Result<(), ParquetError> {
        let values: Vec<T::T> = self.rows.iter().map(of).collect();
        self.write::<T>(&values, None)
    }

    /// The next column: a value of each row that has one.
    fn some<T: DataType>(
        &mut self,
        of: impl Fn(&Line) -> Option<T::T>,
    ) -> Result<(), ParquetError> {
        let cells: Vec<Option<T::T>> = self.rows.iter().map(of).collect();
        let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
        let values: Vec<T::T> = cells.into_iter().flatten().collect();
        self.write::<T>(&values, Some(&levels))
    }

    fn write<T: DataType>(
        &mut self,
        values: &[T::T],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("the schema has fewer columns".into());
        let mut column = self.writer.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()
    }
}

impl std::fmt::Debug for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Columns")
    }
}
