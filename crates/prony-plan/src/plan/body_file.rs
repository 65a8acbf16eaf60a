//! A body that stays in its file: its requests send it in pieces, so that it may be longer than the
//! memory.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CallSpec, Plan};

/// The bytes of an open file.
pub trait ReadAt: Send + Sync {
    /// Read bytes from this position on into `into`, which is not empty. Returns how many were
    /// read, which may be fewer; 0: the file ends there. `None`: it cannot be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<usize>;
}

/// A body that is read from its file while it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyFile {
    /// The file's name, as the user wrote it.
    pub name: String,
    /// How many bytes it had when it was opened. Each request sends that many, or fails.
    pub length: u64,
    /// The open file. It is not saved with a plan.
    #[serde(skip)]
    pub source: Source,
}

/// An open file, shared by the copies of a plan.
#[derive(Clone, Default)]
pub struct Source(Option<Arc<dyn ReadAt>>);

impl BodyFile {
    /// An open file of this name and length.
    pub fn new(name: String, length: u64, source: impl ReadAt + 'static) -> Self {
        Self { name, length, source: Source(Some(Arc::new(source))) }
    }

    /// Fill `into` with the bytes from this position on. Returns whether the file has them.
    #[must_use]
    pub fn fill(&self, mut at: u64, mut into: &mut [u8]) -> bool {
        let Some(source) = self.source.0.as_deref() else { return false };
        while !into.is_empty() {
            match source.read_at(at, into) {
                None | Some(0) => return false,
                Some(n) => {
                    at += n as u64;
                    into = &mut into[n..];
                }
            }
        }
        true
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "open" } else { "not open" })
    }
}

/// Plans are compared by what they say: a file's name and length.
impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Source {}

impl CallSpec {
    /// How many bytes its body has, in the plan or in a file.
    pub fn body_length(&self) -> u64 {
        self.file.as_ref().map_or(self.body.len() as u64, |file| file.length)
    }

    /// Whether it has a body.
    pub fn has_body(&self) -> bool {
        self.body_length() > 0
    }

    fn check_body_file(&self, file: &BodyFile) -> Result<(), String> {
        let names_body = |(_, value): &(String, String)| value.contains("request.body");
        let why = match self {
            _ if file.length == 0 => "it is empty",
            _ if !self.body.is_empty() => "the request has another body",
            _ if self.grpc.is_some() || self.socket.is_some() => "it cannot be a message",
            _ if self.template && self.headers.iter().any(names_body) => {
                "no header can depend on it (request.body)"
            }
            _ if file.source.0.is_none() => "only the process that has opened it can send it",
            _ => return Ok(()),
        };
        Err(format!("the body is sent from its file {}: {why}", file.name.escape_debug()))
    }
}

impl Plan {
    /// The first body that is sent from its file.
    pub fn body_file(&self) -> Option<&BodyFile> {
        self.calls.iter().find_map(|call| call.file.as_deref())
    }

    /// Whether bodies are sent from their files, which needs a carrier that reads them.
    pub fn has_body_files(&self) -> bool {
        self.body_file().is_some()
    }

    /// Check that nothing has to look into the bodies that are sent from their files.
    pub(crate) fn check_body_files(&self) -> Result<(), String> {
        let Some(first) = self.body_file() else { return Ok(()) };
        let no = |why: &str| {
            Err(format!("the body is sent from its file {}: {why}", first.name.escape_debug()))
        };
        let signs = self.aws_sigv4.is_some();
        if self.websocket.is_some() || self.exchange.is_some() || self.has_sockets() {
            return no("it cannot be in a plan with WebSockets or round trips");
        }
        if self.is_logged() || self.sessions.as_ref().is_some_and(|s| s.directed) {
            return no("it cannot be in a replay, or in requests of a program");
        }
        for (i, call) in self.calls.iter().enumerate() {
            let Some(file) = call.file.as_deref() else { continue };
            let checked = match signs && !call.unsigned {
                true => Err(format!(
                    "the body is sent from its file {}: it cannot be signed for AWS, as the \
                     signature comes before it",
                    file.name.escape_debug()
                )),
                false => call.check_body_file(file),
            };
            checked.map_err(|why| format!("request {}: {why}", i + 1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    /// A file of which each read returns at most 3 bytes.
    struct Slow(Vec<u8>);

    impl ReadAt for Slow {
        fn read_at(&self, at: u64, into: &mut [u8]) -> Option<usize> {
            let rest = self.0.get(at as usize..)?;
            let n = rest.len().min(into.len()).min(3);
            into[..n].copy_from_slice(&rest[..n]);
            Some(n)
        }
    }

    fn file(bytes: &[u8], length: u64) -> BodyFile {
        BodyFile::new("f.bin".into(), length, Slow(bytes.to_vec()))
    }

    #[test]
    fn pieces_are_filled_by_short_reads_or_not_at_all() {
        let file = file(b"0123456789", 12);
        let mut into = [0; 8];
        assert!(file.fill(1, &mut into) && &into == b"12345678");
        assert!(file.fill(9, &mut into[..1]) && into[0] == b'9');
        assert!(!file.fill(3, &mut into), "it has 7 bytes there");
        assert!(!file.fill(10, &mut into) && !file.fill(11, &mut into), "behind its end");
        let unopened = BodyFile { source: Source::default(), ..file };
        assert!(!unopened.fill(0, &mut into));
    }

    #[test]
    fn what_looks_into_a_body_excludes_that_it_stays_in_its_file() {
        let with = |change: &dyn Fn(&mut Plan)| {
            let mut plan = plan();
            plan.calls[0].method = "POST".into();
            plan.calls[0].file = Some(Box::new(file(b"0123456789", 10)));
            change(&mut plan);
            plan.check()
        };
        assert_eq!(with(&|_| {}), Ok(()));
        let refused = |what: &str, change: &dyn Fn(&mut Plan)| {
            let why = with(change).expect_err(what);
            assert!(why.contains("f.bin: ") && why.contains(what), "{why}");
        };
        refused("it is empty", &|plan| {
            plan.calls[0].file.as_mut().expect("a file").length = 0;
        });
        refused("another body", &|plan| plan.calls[0].body = b"x".to_vec());
        refused("only the process", &|plan| {
            plan.calls[0].file.as_mut().expect("a file").source = Source::default();
        });
        refused("no header can depend on it", &|plan| {
            plan.calls[0].template = true;
            plan.calls[0].headers.push(("X-Sum".into(), "{{request.body | sha256}}".into()));
        });
    }
}
