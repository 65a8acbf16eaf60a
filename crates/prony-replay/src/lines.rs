//! The lines of a stream of any length, in constant memory.

use std::io::{self, Read};
use std::ops::Range;

/// The longest line that is read; of a longer one, the rest is skipped.
pub(crate) const LONGEST: usize = 1 << 20;
const CHUNK: usize = 256 << 10;

/// Finds the lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// What of the buffer is filled, and not yet handed out.
    filled: Range<usize>,
    /// How much of it has been searched for the end of the line.
    searched: usize,
    ended: bool,
    /// The line before was too long, and its rest is skipped.
    skips: bool,
    /// Bytes that have been read.
    pub(crate) bytes: u64,
}

/// A line in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Without its end.
    Whole(Range<usize>),
    TooLong,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        let buffer = vec![0; CHUNK];
        Self { from, buffer, filled: 0..0, searched: 0, ended: false, skips: false, bytes: 0 }
    }

    /// The bytes of a line that `next` has found.
    #[inline]
    pub(crate) fn text(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The beginning of the stream, up to the end of its first lines.
    pub(crate) fn beginning(&mut self, lines: usize) -> io::Result<&[u8]> {
        while !self.ended
            && self.filled.len() < CHUNK
            && memchr::memchr_iter(b'\n', &self.buffer[self.filled.clone()]).count() < lines
        {
            self.fill()?;
        }
        Ok(&self.buffer[self.filled.clone()])
    }

    /// The next line, or `None` after the last.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let unsearched = &self.buffer[self.filled.start + self.searched..self.filled.end];
            let end = memchr::memchr(b'\n', unsearched).map(|i| self.searched + i);
            let (len, with_end) = match end {
                Some(end) => (end, end + 1),
                None if self.filled.len() >= LONGEST => {
                    self.filled.start = self.filled.end;
                    self.searched = 0;
                    if !std::mem::replace(&mut self.skips, true) {
                        return Ok(Some(Line::TooLong));
                    }
                    continue;
                }
                None if !self.ended => {
                    self.searched = self.filled.len();
                    self.fill()?;
                    continue;
                }
                None if self.filled.is_empty() => return Ok(None),
                None => (self.filled.len(), self.filled.len()),
            };
            let begin = self.filled.start;
            self.filled.start += with_end;
            self.searched = 0;
            if std::mem::take(&mut self.skips) {
                continue;
            }
            if len > LONGEST {
                return Ok(Some(Line::TooLong));
            }
            let is_cr = len > 0 && self.buffer[begin + len - 1] == b'\r';
            return Ok(Some(Line::Whole(begin..begin + len - usize::from(is_cr))));
        }
    }

    /// Read once more.
    fn fill(&mut self) -> io::Result<()> {
        if self.filled.start > 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        if self.filled.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() + CHUNK, 0);
        }
        loop {
            match self.from.read(&mut self.buffer[self.filled.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    self.filled.end += n;
                    self.bytes += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns at most this many bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(self.1).min(buf.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn all(text: &[u8], at_once: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Slow(text, at_once));
        let mut all = Vec::new();
        while let Some(line) = lines.next().expect("no error") {
            all.push(match line {
                Line::Whole(range) => Some(lines.text(range).to_vec()),
                Line::TooLong => None,
            });
        }
        assert_eq!(lines.bytes, text.len() as u64);
        all
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\r\n]{0,60}", at_once in 1_usize..9) {
            let mut expected: Vec<_> = text
                .split('\n')
                .map(|line| Some(line.strip_suffix('\r').unwrap_or(line).as_bytes().to_vec()))
                .collect();
            if text.is_empty() || text.ends_with('\n') {
                expected.pop();
            }
            prop_assert_eq!(all(text.as_bytes(), at_once), expected);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut text = vec![b'x'; 5 * LONGEST];
        text.extend(b"\nshort\n");
        text.extend(vec![b'y'; LONGEST]);
        text.extend(b"\nlast");
        for at_once in [1000, usize::MAX] {
            let lines = all(&text, at_once);
            let lens: Vec<_> = lines.iter().map(|line| line.as_ref().map(Vec::len)).collect();
            // One of just the limit may be either.
            assert_eq!((lens[0], lens[1], lens.last()), (None, Some(5), Some(&Some(4))));
            assert_eq!(lens.len(), 4);
        }
        let mut lines = Lines::new(&text[..]);
        while lines.next().expect("no error").is_some() {}
        assert!(lines.buffer.len() <= LONGEST + CHUNK, "{}", lines.buffer.len());
    }
}
