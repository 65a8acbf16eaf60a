//! Command lines of curl: one session, a step for each request.

mod address;
mod form;
mod glob;
mod operation;
mod options;
mod requests;

use std::cell::RefCell;

use crate::context::Context;
use crate::notes::Notes;
use crate::shell::{self, Command, Follows, Input, Script};
use crate::{Import, Session, Step};
use operation::Operation;

/// The requests of the command lines, one after another.
///
/// # Errors
/// The file is no script, or too long: a sentence with the place.
pub(crate) fn read(text: &[u8], context: &Context<'_>) -> Result<Import, String> {
    let has = |part: &[u8]| text.windows(part.len()).any(|found| found == part);
    if has(b"^\"") && has(b"^\r\n") || has(b"^\n") {
        return Err(": these are command lines for Windows' cmd; copy them as cURL (bash)".into());
    }
    let mut import = Import::default();
    let mut session = Session::default();
    let mut script = Script::new(text);
    loop {
        let commands = script.line()?;
        if commands.is_empty() {
            break;
        }
        // What the command before writes, if it is known.
        let mut written = None;
        for (nth, command) in commands.iter().enumerate() {
            let feeds = commands.get(nth + 1).is_some_and(|next| next.follows == Follows::Pipe);
            let source = Source::of(command, written.take(), context);
            let place = source.place.clone();
            let wrong = |e: String| format!(":{}: {e}", command.at);
            let words = command_of(command, &place, &mut import.notes);
            if !is_curl(words) {
                written = source.written(command);
                let is_used = feeds && written.is_some();
                note_program(words, is_used, &place, &mut import.notes);
                continue;
            }
            if let Some(why) = why_not(command, &place, &mut import.notes) {
                import.notes.add(why, &place);
                continue;
            }
            match Operation::read_all(&words[1..], &source, &mut import.notes) {
                Ok(operations) => {
                    for operation in operations {
                        import.insecure |= operation.insecure;
                        import.http2 |= operation.http2;
                        add(operation, &source, &mut session, &mut import.notes).map_err(wrong)?;
                    }
                }
                Err(why) => import.notes.add(&why, &place),
            }
            context.check().map_err(wrong)?;
        }
    }
    import.sessions.push(session);
    Ok(import)
}

/// Adds the requests of an operation, or notes why it has none.
fn add(
    operation: Operation,
    source: &Source<'_>,
    session: &mut Session,
    notes: &mut Notes,
) -> Result<(), String> {
    let mut given = Vec::new();
    if let Err(why) = operation.requests(source, notes, &mut given) {
        source.context.check()?;
        notes.add(&why, &source.place);
    }
    session.steps.extend(given.into_iter().map(Step::from));
    Ok(())
}

fn is_curl(words: &[Vec<u8>]) -> bool {
    let program = words.first().map(Vec::as_slice).unwrap_or_default();
    let name = program.rsplit(|b| b"/\\".contains(b)).next().unwrap_or_default();
    name.strip_suffix(b".exe").unwrap_or(name) == b"curl"
}

/// The words of a command without those of the shell before it, which are noted.
fn command_of<'c>(command: &'c Command, place: &str, notes: &mut Notes) -> &'c [Vec<u8>] {
    const CONDITIONS: [&[u8]; 7] = [b"if", b"then", b"elif", b"else", b"while", b"until", b"do"];
    const PLAIN: [&[u8]; 8] =
        [b"{", b"}", b"!", b"time", b"command", b"exec", b"nohup", b"builtin"];
    let mut words = &command.words[..];
    while let [first, rest @ ..] = words {
        if CONDITIONS.contains(&first.as_slice()) {
            let what = "a condition or loop, whose commands are sent once";
            notes.add(what, place);
        } else if !PLAIN.contains(&first.as_slice()) {
            break;
        }
        words = rest;
    }
    if is_curl(words) || words.is_empty() {
        command.odd.iter().for_each(|what| notes.add(what, place));
    }
    words
}

/// Notes a program that is not curl.
fn note_program(words: &[Vec<u8>], is_used: bool, place: &str, notes: &mut Notes) {
    let Some(program) = words.first() else { return };
    // Their variables are known.
    if is_used || [&b"export"[..], b"readonly"].contains(&program.as_slice()) {
        return;
    }
    let name = String::from_utf8_lossy(program);
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    notes.add(&format!("the program {name} is not curl"), place);
}

/// Why a command is not sent. Notes what is not the same if it is.
fn why_not(command: &Command, place: &str, notes: &mut Notes) -> Option<&'static str> {
    match command.follows {
        Follows::Or => return Some("a command after ||, which runs only if another fails"),
        Follows::Beside => {
            notes.add("beside a command in the background (&): sent one after the other", place);
        }
        Follows::Always | Follows::Pipe => {}
    }
    for name in &command.environment {
        notes.add(&format!("the environment of a command ({name}) is not used"), place);
    }
    None
}

/// Where a command reads files, and its standard input.
pub(super) struct Source<'a> {
    place: String,
    context: &'a Context<'a>,
    /// What is left of the standard input, or why it is not known.
    input: RefCell<Result<Vec<u8>, String>>,
}

impl<'a> Source<'a> {
    fn of(command: &Command, written: Option<Vec<u8>>, context: &'a Context<'a>) -> Self {
        let place = format!("line {}", command.at);
        let unknown = || "its standard input is not in the file".to_owned();
        let input = match &command.input {
            Input::Bytes(bytes) => Ok(bytes.clone()),
            Input::File(name) => file(context, name, &place),
            Input::Inherited => written.ok_or_else(unknown),
            Input::Unknown => Err(unknown()),
        };
        Self { place, context, input: RefCell::new(input) }
    }

    /// The content of a file, or the standard input for `-`: once, and then nothing.
    fn read(&self, name: &[u8]) -> Result<Vec<u8>, String> {
        match name {
            b"-" => self.input.replace(Ok(Vec::new())),
            name => file(self.context, name, &self.place),
        }
    }

    /// What a simple program writes.
    fn written(&self, command: &Command) -> Option<Vec<u8>> {
        let input = self.input.borrow().clone().ok();
        shell::output(command, input, |name| self.read(name).ok())
    }
}

fn file(context: &Context<'_>, name: &[u8], place: &str) -> Result<Vec<u8>, String> {
    let name = str::from_utf8(name).map_err(|_| "the name of a file is no UTF-8 text")?;
    context.read(name, place).map_err(String::from)
}
