//! The dynamic parts of one call, compiled.

use super::problem::Part;
use super::{Filled, Sent, Source, Unsent};
use crate::vars::message::Message;
use crate::vars::{Extractor, Template};

#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    /// Path, header values and body, if the call is a template.
    pub(super) parts: Option<Box<[Template]>>,
    /// The messages of a call of gRPC, which replace the body.
    pub(super) messages: Box<[Message]>,
    pub(super) extractors: Box<[Extractor]>,
    /// The variables that it sets, also those whose extracts have errors.
    pub(super) sets: Vec<usize>,
    /// Whether the part before the body is the text that an awaited message equals.
    pub(super) equals: bool,
    pub(super) headers: bool,
    pub body: bool,
    /// Whether the body is filled in before the headers, which may have it.
    pub(super) body_first: bool,
    /// Whether the body is compressed.
    pub(super) gzip: bool,
}

impl Call {
    /// The part of a request that the template with this index makes, of `parts` in total.
    pub(super) fn part_of(&self, index: usize, parts: usize) -> Part {
        match index {
            0 => Part::Path,
            _ if index + 1 == parts => Part::Body,
            _ if index + 2 == parts && self.equals => Part::Awaited,
            _ => Part::Header(index - 1),
        }
    }

    /// Fill in the parts of a request. `body` is its body, if it is known already.
    pub(super) fn fill_parts(
        &self,
        parts: &[Template],
        source: Source<'_>,
        body: Option<&[u8]>,
        filled: &mut Filled,
    ) -> Result<(), Unsent> {
        for (index, template) in parts.iter().enumerate() {
            let (out, scratch) = filled.buffers();
            match body.filter(|_| index + 1 == parts.len()) {
                Some(body) => out.extend_from_slice(body),
                None if index + 1 == parts.len() && !self.messages.is_empty() => {
                    filled.fill_messages(&self.messages, source)?;
                }
                None => template.fill(source, out, scratch)?,
            }
            let part = filled.end_part();
            let kind = self.part_of(index, parts.len());
            if misfit(kind, part).is_some() || (index == 0 && part.first() != Some(&b'/')) {
                return Err(Unsent::Unfit);
            }
        }
        Ok(())
    }

    /// The same for a request whose headers may have its path or its body, or whose body is
    /// compressed.
    pub(super) fn fill_body_first(
        &self,
        parts: &[Template],
        source: Source<'_>,
        filled: &mut Filled,
    ) -> Result<(), Unsent> {
        let (mut path, mut body) = filled.take_sent();
        let (_, scratch) = filled.buffers();
        let ends = (parts.first(), parts.last());
        let known = match ends {
            (Some(first), Some(last)) => first
                .fill(source, &mut path, scratch)
                .and_then(|()| last.fill(source, &mut body, scratch)),
            _ => Ok(()),
        };
        let done = known.and_then(|()| {
            if self.gzip {
                filled.pack(&mut body);
            }
            let source = Source { sent: Sent { path: &path, body: &body }, ..source };
            self.fill_parts(parts, source, Some(&body), filled)
        });
        filled.put_back_sent(path, body);
        done
    }

    pub(super) fn first_unknown(&self, known: &[bool]) -> Option<(Part, usize)> {
        let parts = self.parts.as_ref()?;
        let unknown = parts.iter().enumerate().find_map(|(index, template)| {
            let unknown = template.variables().find(|&v| !known[v])?;
            Some((self.part_of(index, parts.len()), unknown))
        });
        unknown.or_else(|| {
            let variable =
                self.messages.iter().flat_map(Message::variables).find(|&v| !known[v])?;
            Some((Part::Body, variable))
        })
    }
}

/// The first byte that is not allowed in this part of a request.
pub(super) fn misfit(part: Part, text: &[u8]) -> Option<usize> {
    match part {
        Part::Path => text.iter().position(|&b| b <= b' ' || b == 0x7f),
        Part::Header(_) => text.iter().position(|&b| b.is_ascii_control() && b != b'\t'),
        _ => None,
    }
}
