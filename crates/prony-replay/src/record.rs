//! A request, as a log has it.

/// A request of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it began, in nanoseconds since 1970 in UTC. If the log has only the time of its end,
    /// and not how long it took, that of its end.
    pub at: i64,
    /// The number of its line, from 1.
    pub line: u64,
    /// Index into [`METHODS`](prony_base::director::METHODS).
    pub method: u8,
    /// Path and query.
    pub path: Vec<u8>,
    /// The status of its reply.
    pub status: Option<u16>,
    /// How long it took, in nanoseconds.
    pub took: Option<u64>,
    /// A hash of the client's address; 0 if the log has none. The same on every machine.
    pub client: u64,
    /// A hash of its cookie; 0 if it has none.
    pub cookie: u64,
    /// The key of its body; empty if the log has none.
    pub key: Vec<u8>,
}
