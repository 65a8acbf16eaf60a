//! The static and the dynamic table (RFC 7541, sections 2.3 and 4, appendix A).

use std::collections::VecDeque;

/// What an entry counts beside the lengths of its name and value.
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// The static table. Its first entry has index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The index of a field, and whether its value matches as well as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) index: usize,
    pub(super) whole: bool,
}

/// The best match for a field in the static table.
pub(super) fn find_static(name: &[u8], value: &[u8]) -> Option<Match> {
    let mut found = None;
    for (i, (n, v)) in STATIC.iter().enumerate() {
        if n.as_bytes() == name {
            let whole = v.as_bytes() == value;
            if whole || found.is_none() {
                found = Some(Match { index: i + 1, whole });
            }
        }
    }
    found
}

/// A dynamic table. It owns no memory before its first entry, and then as much as its entries need.
#[derive(Clone, Debug, Default)]
pub(super) struct DynamicTable {
    /// Names and values, each entry's in one piece, oldest first. Those of evicted entries are
    /// still at the front.
    bytes: Vec<u8>,
    /// The position of `bytes[0]`, counted modulo 2^32.
    base: u32,
    /// Oldest first.
    entries: VecDeque<Entry>,
    size: usize,
    limit: usize,
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    name: u32,
    value: u32,
}

impl DynamicTable {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// How often the table has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The bytes of memory that it owns.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The name and value of an entry. The newest has index 0.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let oldest_first = self.entries.len().checked_sub(index + 1)?;
        Some(self.field(*self.entries.get(oldest_first)?))
    }

    /// The best match for a field; the newest entry has index 0.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Option<Match> {
        let mut found = None;
        for (index, &entry) in self.entries.iter().rev().enumerate() {
            let (n, v) = self.field(entry);
            if n == name {
                let whole = v == value;
                if whole {
                    return Some(Match { index, whole });
                }
                found = found.or(Some(Match { index, whole }));
            }
        }
        found
    }

    /// Insert an entry, after evicting as many as it needs. One that is too large empties the
    /// table.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let length = name.len() + value.len();
        let size = length + ENTRY_OVERHEAD;
        self.evict(self.limit.saturating_sub(size));
        self.changes += 1;
        if size > self.limit {
            return;
        }
        if self.bytes.len() + length > self.bytes.capacity() {
            self.make_room(length);
        }
        let at = self.base.wrapping_add(self.bytes.len() as u32);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        let (name, value) = (name.len() as u32, value.len() as u32);
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(4 + self.entries.len() / 4);
        }
        self.entries.push_back(Entry { at, name, value });
        self.size += size;
    }

    /// Set the maximum size, and evict what exceeds it.
    pub(super) fn resize(&mut self, limit: usize) {
        self.changes += 1;
        self.limit = limit;
        self.evict(limit);
    }

    fn field(&self, entry: Entry) -> (&[u8], &[u8]) {
        let at = entry.at.wrapping_sub(self.base) as usize;
        let (name, value) = (entry.name as usize, entry.value as usize);
        self.bytes[at..at + name + value].split_at(name)
    }

    /// Evict the oldest entries until at most `size` is left.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.name as usize + oldest.value as usize + ENTRY_OVERHEAD;
            self.changes += 1;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    /// Make room for `length` bytes: forget those of evicted entries, and grow if the room would be
    /// used up again soon.
    #[cold]
    fn make_room(&mut self, length: usize) {
        if let Some(oldest) = self.entries.front() {
            let evicted = oldest.at.wrapping_sub(self.base);
            self.bytes.drain(..evicted as usize);
            self.base = self.base.wrapping_add(evicted);
        }
        let used = self.bytes.len() + length;
        let room = used + used / 4;
        if room > self.bytes.capacity() {
            self.bytes.reserve_exact(room - self.bytes.len());
        }
    }
}
