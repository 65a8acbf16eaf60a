//! Messages in bodies: any split of the bytes has the same messages.

use crate::events::{Ending, MESSAGE_MAX, Message, Reader, Rules, TooLong};
use crate::plan::{StreamFormat, StreamPlan};

/// What a reader finds in a body, and the error that ends it.
type Found = (Vec<Message>, Result<Ending, TooLong>);

/// The body of the fuzz target `events`: the first byte chooses the format, the second the length
/// of the pieces; the rest is the body.
///
/// # Panics
/// If a guarantee is violated.
pub fn events(data: &[u8]) {
    let [format, cut, body @ ..] = data else { return };
    let format = match format % 3 {
        0 => StreamFormat::Sse,
        1 => StreamFormat::Ndjson,
        _ => StreamFormat::Chunks,
    };
    let content = (format != StreamFormat::Chunks).then(|| "/a/0".into());
    let plan = StreamPlan { content, until: Some("end".into()), ..StreamPlan::new(format) };
    let (rules, mut reader) = (Rules::new(&plan), Reader::default());
    let whole = read(&rules, &mut reader, body, body.len());
    assert_eq!(read(&rules, &mut reader, body, usize::from(*cut)), whole);
    assert_eq!(read(&rules, &mut reader, body, 1), whole);
    assert!(whole.0.len() <= body.len() && (whole.1.is_ok() || body.len() > MESSAGE_MAX));
}

fn read(rules: &Rules, reader: &mut Reader, body: &[u8], cut: usize) -> Found {
    reader.clear();
    let mut messages = Vec::new();
    for piece in body.chunks(cut.max(1)) {
        if let Err(error) = reader.read(rules, piece, |message| messages.push(message)) {
            return (messages, Err(error));
        }
    }
    let ending = reader.end(rules);
    (messages, Ok(ending))
}
