//! Messages in bodies: any split of the bytes has the same messages.

use crate::events::{Ending, MESSAGE_MAX, Message, Reader, Rules, TooLong};
use crate::plan::{StreamFormat, StreamPlan, TokenDialect, TokenPlan};

/// What a reader finds in a body, and the error that ends it.
type Found = (Vec<Message>, Result<Ending, TooLong>);

/// The body of the fuzz target `events`: the first byte chooses the format, the second the length
/// of the pieces; the rest is the body.
///
/// # Panics
/// If a guarantee is violated.
pub fn events(data: &[u8]) {
    let [format, cut, body @ ..] = data else { return };
    let (format, dialect) = match format % 7 {
        0 => (StreamFormat::Sse, None),
        1 => (StreamFormat::Ndjson, None),
        2 => (StreamFormat::Chunks, None),
        3 => (StreamFormat::Sse, Some(TokenDialect::OpenAi)),
        4 => (StreamFormat::Sse, Some(TokenDialect::Anthropic)),
        5 => (StreamFormat::Whole, Some(TokenDialect::OpenAi)),
        _ => (StreamFormat::Whole, Some(TokenDialect::Anthropic)),
    };
    let has_place = format != StreamFormat::Chunks && dialect.is_none();
    let content = has_place.then(|| "/a/0".into());
    let (tokens, until) = (dialect.map(TokenPlan::new), Some("end".into()));
    let plan = StreamPlan { content, until, tokens, ..StreamPlan::new(format) };
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
