//! The filled-in parts of one request, in reused memory.

/// Path, header values and body of a request, and the cookies that go with it.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    bytes: Vec<u8>,
    /// Where the parts end: the path, each header value, the body. Empty: the request is as the
    /// plan has it.
    ends: Vec<usize>,
    /// The value of its Cookie header; empty: none.
    pub(super) cookies: Vec<u8>,
    /// Any buffer.
    pub(super) scratch: Vec<u8>,
}

impl Filled {
    /// What is sent in place of the plan's path; `None`: the plan's.
    pub fn path(&self) -> Option<&[u8]> {
        self.part(0)
    }

    /// What is sent in place of the plan's header value of that index; `None`: the plan's.
    pub fn header(&self, index: usize) -> Option<&[u8]> {
        if index + 2 < self.ends.len() { self.part(index + 1) } else { None }
    }

    /// What is sent in place of the plan's body; `None`: the plan's.
    pub fn body(&self) -> Option<&[u8]> {
        self.part(self.ends.len().checked_sub(1)?)
    }

    /// The value of the Cookie header; empty: none is sent.
    pub fn cookies(&self) -> &[u8] {
        &self.cookies
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.cookies.clear();
    }

    /// The buffer to which the next part is appended, and any buffer.
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.bytes, &mut self.scratch)
    }

    /// The part is whole; returns it.
    pub(super) fn end_part(&mut self) -> &[u8] {
        let begin = self.ends.last().copied().unwrap_or(0);
        self.ends.push(self.bytes.len());
        &self.bytes[begin..]
    }

    fn part(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[begin..end])
    }
}
