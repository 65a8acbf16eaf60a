//! Blocks to fields.

use std::ops::Range;

use super::table::{DynamicTable, ENTRY_OVERHEAD, STATIC};
use super::{HpackError, huffman, integer};

/// A larger buffer for decoded strings is given back after a block that needs no more than this.
const KEPT: usize = 1024;

/// Decodes blocks, and keeps the table that the peer fills.
#[derive(Clone, Debug)]
pub struct Decoder {
    table: DynamicTable,
    max_size: usize,
    /// Huffman codes are decoded to here.
    scratch: Vec<u8>,
}

impl Default for Decoder {
    /// With a table of 4,096 bytes, as without a setting.
    fn default() -> Self {
        Self::new(4_096)
    }
}

/// A string of the field that is being decoded.
enum Text<'a> {
    Plain(&'a [u8]),
    Scratch(Range<usize>),
}

impl<'a> Text<'a> {
    fn bytes<'b>(&'b self, scratch: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Scratch(range) => &scratch[range.clone()],
        }
    }
}

impl Decoder {
    /// `max_size`: SETTINGS_HEADER_TABLE_SIZE as announced to the peer.
    pub fn new(max_size: u32) -> Self {
        let max_size = max_size as usize;
        Self { table: DynamicTable::new(max_size), max_size, scratch: Vec::new() }
    }

    /// Decode one complete block. `on_field` gets the name and value of each field, in order.
    /// `max_list` bounds the sum of the fields' sizes: name, value and 32 bytes each. Fields beyond
    /// it only change the table.
    ///
    /// # Errors
    /// The block is malformed, or its fields exceed `max_list`. Some fields may have been passed
    /// on.
    pub fn decode(
        &mut self,
        block: &[u8],
        max_list: usize,
        mut on_field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut list = 0_usize;
        let mut pass_on = |name: &[u8], value: &[u8]| {
            list = list.saturating_add(name.len() + value.len() + ENTRY_OVERHEAD);
            if list <= max_list {
                on_field(name, value);
            }
        };
        let mut rest = block;
        let mut is_start = true;
        let mut longest = 0;
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let size = integer::read(&mut rest, 5)?;
                if !is_start || size > self.max_size {
                    return Err(HpackError::Invalid);
                }
                self.table.resize(size);
                continue;
            }
            is_start = false;
            if first & 0x80 != 0 {
                let index = integer::read(&mut rest, 7)?;
                let (name, value) = self.field(index)?;
                pass_on(name, value);
            } else {
                self.literal(&mut rest, first & 0x40 != 0, &mut pass_on)?;
                longest = longest.max(self.scratch.len());
            }
        }
        if longest <= KEPT && self.scratch.capacity() > KEPT {
            self.scratch = Vec::new();
        }
        if list > max_list { Err(HpackError::TooLarge) } else { Ok(()) }
    }

    /// Counts the changes of the table: insertions, evictions, new sizes. Two equal blocks that are
    /// decoded in the same state have the same fields.
    pub fn state(&self) -> u64 {
        self.table.changes()
    }

    /// The bytes of memory that it owns.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.table.memory() + self.scratch.capacity()
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &DynamicTable {
        &self.table
    }

    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let from_zero = index.checked_sub(1).ok_or(HpackError::Invalid)?;
        match STATIC.get(from_zero) {
            Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
            None => self.table.get(from_zero - STATIC.len()).ok_or(HpackError::Invalid),
        }
    }

    /// A literal field; with `inserts`, it becomes an entry of the table.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        inserts: bool,
        pass_on: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        self.scratch.clear();
        let index = integer::read(rest, if inserts { 6 } else { 4 })?;
        let name = match index.checked_sub(1) {
            None => string(rest, &mut self.scratch)?,
            Some(i) if i < STATIC.len() => Text::Plain(STATIC[i].0.as_bytes()),
            Some(i) => {
                // Copied, because the insertion can evict the entry.
                let (name, _) = self.table.get(i - STATIC.len()).ok_or(HpackError::Invalid)?;
                self.scratch.extend_from_slice(name);
                Text::Scratch(0..name.len())
            }
        };
        let value = string(rest, &mut self.scratch)?;
        let (name, value) = (name.bytes(&self.scratch), value.bytes(&self.scratch));
        if inserts {
            self.table.insert(name, value);
        }
        pass_on(name, value);
        Ok(())
    }
}

/// Read a string from the start of `rest`.
fn string<'a>(rest: &mut &'a [u8], scratch: &mut Vec<u8>) -> Result<Text<'a>, HpackError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::read(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(HpackError::Invalid)?;
    *rest = after;
    if !is_huffman {
        return Ok(Text::Plain(bytes));
    }
    let start = scratch.len();
    huffman::decode(bytes, scratch).ok_or(HpackError::Invalid)?;
    Ok(Text::Scratch(start..scratch.len()))
}
