//! Messages in bodies: any split of the bytes has the same messages.

use prony_base::units::Span;
use prony_plan::events::{Ending, ID_MAX, MESSAGE_MAX, Message, Reader, Rules, TooLong};
use prony_plan::plan::{StreamFormat, StreamPlan, TokenDialect, TokenPlan};

/// What a reader finds in a body, the error that ends it, and the position at its end: the last ID,
/// and when to open the stream again.
type Found = (Vec<Message>, Result<Ending, TooLong>, Option<(Vec<u8>, Option<Span>)>);

/// The body of the fuzz target `events`: the first byte chooses the format, the second the length
/// of the pieces; the rest is the body.
///
/// # Panics
/// If a guarantee is violated.
pub fn events(data: &[u8]) {
    let [choice, cut, body @ ..] = data else { return };
    let (format, dialect) = match choice % 8 {
        0 => (StreamFormat::Sse, None),
        1 => (StreamFormat::Ndjson, None),
        2 => (StreamFormat::Chunks, None),
        3 => (StreamFormat::Sse, Some(TokenDialect::OpenAi)),
        4 => (StreamFormat::Sse, Some(TokenDialect::Anthropic)),
        5 => (StreamFormat::Whole, Some(TokenDialect::OpenAi)),
        6 => (StreamFormat::Whole, Some(TokenDialect::Anthropic)),
        _ => (StreamFormat::Sse, None),
    };
    let reconnect = *choice % 8 == 7;
    let has_place = format != StreamFormat::Chunks && dialect.is_none();
    let content = has_place.then(|| "/a/0".into());
    let tokens = dialect.map(TokenPlan::new);
    let (until, end) = (Some("end".into()), Some("last".into()));
    let plan = StreamPlan { content, until, end, tokens, reconnect, ..StreamPlan::new(format) };
    let (rules, mut reader) = (Rules::new(&plan), Reader::default());
    let whole = read(&rules, &mut reader, body, body.len());
    assert_eq!(read(&rules, &mut reader, body, usize::from(*cut)), whole);
    assert_eq!(read(&rules, &mut reader, body, 1), whole);
    assert!(
        whole.0.len() <= body.len()
            && (whole.1.is_ok() || body.len() > MESSAGE_MAX || reconnect && body.len() > ID_MAX)
    );
}

fn read(rules: &Rules, reader: &mut Reader, body: &[u8], cut: usize) -> Found {
    reader.clear(rules);
    let mut messages = Vec::new();
    for piece in body.chunks(cut.max(1)) {
        if let Err(error) = reader.read(rules, piece, |message| messages.push(message)) {
            return (messages, Err(error), None);
        }
    }
    let ending = reader.end(rules);
    let position = reader.position().map(|position| (position.id().to_vec(), position.retry()));
    (messages, Ok(ending), position)
}
