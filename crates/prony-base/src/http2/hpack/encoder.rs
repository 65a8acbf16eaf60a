//! Fields to blocks.

use super::table::{DynamicTable, ENTRY_OVERHEAD, Match, STATIC, find_static};
use super::{huffman, integer};

/// The peer's table is used up to this size, however large the peer allows it to be.
const MAX_SIZE: u32 = 4_096;

/// How a literal field may be put into tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// It becomes an entry of the peer's table, if it fits.
    Incremental,
    /// It does not.
    Without,
    /// No proxy may do so either, because it is a secret.
    Never,
}

/// Encodes blocks, and keeps the peer's table as these blocks fill it.
#[derive(Clone, Debug)]
pub struct Encoder {
    table: DynamicTable,
    /// The lowest and the last size since the last block.
    new_size: Option<(u32, u32)>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder for a new connection, with a table of 4,096 bytes.
    pub fn new() -> Self {
        Self { table: DynamicTable::new(MAX_SIZE as usize), new_size: None }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE. Call it between blocks: the next block starts with
    /// the new size. At most 4,096 bytes are used.
    pub fn set_max_size(&mut self, size: u32) {
        let size = size.min(MAX_SIZE);
        if let Some((lowest, last)) = &mut self.new_size {
            (*lowest, *last) = (size.min(*lowest), size);
        } else if size as usize != self.table.limit() {
            self.new_size = Some((size, size));
        }
    }

    /// Append a field to a block. A field that is in a table is sent as its index (unless it may
    /// never be indexed), and a name likewise. An incremental field that does not fit into the
    /// table is sent without indexing.
    pub fn literal(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], how: Indexing) {
        self.announce_size(out);
        let known = match find_static(name, value) {
            Some(known) if known.whole => Some(known),
            named => {
                let own = self
                    .table
                    .find(name, value)
                    .map(|found| Match { index: found.index + STATIC.len() + 1, ..found });
                own.filter(|own| own.whole || named.is_none()).or(named)
            }
        };
        if let Some(known) = known
            && known.whole
            && how != Indexing::Never
        {
            return integer::write(out, 0x80, 7, known.index);
        }
        let fits = name.len() + value.len() + ENTRY_OVERHEAD <= self.table.limit();
        let (pattern, bits) = match how {
            Indexing::Incremental if fits => (0x40, 6),
            Indexing::Incremental | Indexing::Without => (0x00, 4),
            Indexing::Never => (0x10, 4),
        };
        write_literal(out, (pattern, bits), known, name, value);
        if pattern == 0x40 {
            self.table.insert(name, value);
        }
    }

    fn announce_size(&mut self, out: &mut Vec<u8>) {
        let Some((lowest, last)) = self.new_size.take() else { return };
        if lowest < last {
            integer::write(out, 0x20, 5, lowest as usize);
            self.table.resize(lowest as usize);
        }
        integer::write(out, 0x20, 5, last as usize);
        self.table.resize(last as usize);
    }
}

/// Append a field to a block without using the peer's table: as an index of the static table, or
/// as a literal without indexing. The bytes mean the same in any block of any connection.
pub fn encode_static(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match find_static(name, value) {
        Some(known) if known.whole => integer::write(out, 0x80, 7, known.index),
        known => write_literal(out, (0x00, 4), known, name, value),
    }
}

fn write_literal(
    out: &mut Vec<u8>,
    (pattern, bits): (u8, u32),
    known: Option<Match>,
    name: &[u8],
    value: &[u8],
) {
    integer::write(out, pattern, bits, known.map_or(0, |known| known.index));
    if known.is_none() {
        write_string(out, name);
    }
    write_string(out, value);
}

/// Append a string, as a Huffman code where that is shorter.
fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    let length = huffman::encoded_len(text);
    if length < text.len() {
        integer::write(out, 0x80, 7, length);
        huffman::encode(text, out);
    } else {
        integer::write(out, 0x00, 7, text.len());
        out.extend_from_slice(text);
    }
}
