//! Command lines of bash or a POSIX shell: the commands, their words as bytes, and their standard
//! input. Variables that the script sets have their values; nothing is run, and what is not known
//! is named.

mod braces;
mod output;
mod quotes;
mod reader;

use std::collections::HashMap;
use std::ops::Range;

pub(crate) use output::output;
use reader::Reader;

/// A command: where it starts, and its words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Command {
    /// The number of its first line in the file, from 1.
    pub(crate) at: usize,
    pub(crate) words: Vec<Vec<u8>>,
    /// The names of variables before it, which are its environment.
    pub(crate) environment: Vec<String>,
    pub(crate) input: Input,
    pub(crate) follows: Follows,
    /// What is not understood in it, as the texts of notes.
    pub(crate) odd: Vec<String>,
}

/// What a command reads from its standard input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Input {
    /// That of the script.
    #[default]
    Inherited,
    /// A here document or here string.
    Bytes(Vec<u8>),
    /// A file of this name.
    File(Vec<u8>),
    /// It is closed, or another descriptor.
    Unknown,
}

/// How a command follows the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Follows {
    /// After it, or after it if it succeeds.
    #[default]
    Always,
    /// Only if it fails.
    Or,
    /// It reads what that one writes.
    Pipe,
    /// Beside it: that one is in the background.
    Beside,
}

/// Whether a byte of a word has a meaning for the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Plain,
    Quoted,
    /// It is of the value of a variable, whose spaces separate words.
    Value,
}

/// A word that is being read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Word {
    bytes: Vec<u8>,
    /// One for each byte.
    marks: Vec<Mark>,
    /// A part of it is in quotes: it is a word even if it is empty.
    is_quoted: bool,
}

impl Word {
    fn plain(text: &[u8]) -> Self {
        let mut word = Self::default();
        word.extend(text, Mark::Plain);
        word
    }

    fn push(&mut self, byte: u8, mark: Mark) {
        self.bytes.push(byte);
        self.marks.push(mark);
    }

    fn extend(&mut self, text: &[u8], mark: Mark) {
        self.bytes.extend_from_slice(text);
        self.marks.resize(self.bytes.len(), mark);
    }

    fn append(&mut self, more: &Self) {
        self.bytes.extend_from_slice(&more.bytes);
        self.marks.extend_from_slice(&more.marks);
    }

    fn part(&self, range: Range<usize>) -> Self {
        let (bytes, marks) = (self.bytes[range.clone()].to_vec(), self.marks[range].to_vec());
        Self { bytes, marks, is_quoted: false }
    }

    /// The name and the value, if it sets a variable.
    fn assignment(&self) -> Option<(String, &[u8])> {
        let equals = self.bytes.iter().position(|&b| b == b'=')?;
        let name = self.bytes[..equals].strip_suffix(b"+").unwrap_or(&self.bytes[..equals]);
        let is_plain = self.marks[..=equals].iter().all(|mark| *mark == Mark::Plain);
        let name = str::from_utf8(name).ok().filter(|name| is_plain && is_name(name))?;
        Some((name.to_owned(), &self.bytes[equals + 1..]))
    }

    /// The words of which it consists, after braces and the spaces of values.
    fn split(self) -> Option<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        for word in braces::expanded(self)? {
            if word.marks.contains(&Mark::Value) {
                let is_space = |at: &usize| {
                    word.marks[*at] == Mark::Value && b" \t\n".contains(&word.bytes[*at])
                };
                let mut start = 0;
                for at in (0..word.bytes.len()).filter(is_space).chain([word.bytes.len()]) {
                    if start < at {
                        all.push(word.bytes[start..at].to_vec());
                    }
                    start = at + 1;
                }
            } else if word.is_quoted || !word.bytes.is_empty() {
                all.push(word.bytes);
            }
        }
        Some(all)
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The most words of a command line.
const WORDS: usize = 10_000;
/// The most commands on a line.
const COMMANDS: usize = 100_000;

/// A script, line after line. A line may have several commands.
pub(crate) struct Script<'a> {
    reader: Reader<'a>,
    variables: HashMap<String, Vec<u8>>,
}

/// A here document that is on the next lines.
struct Pending {
    command: usize,
    end: Vec<u8>,
    /// Tabs before its lines are no part of it.
    is_indented: bool,
    is_literal: bool,
}

/// What ends a command.
#[derive(Clone, Copy, PartialEq)]
enum Break {
    /// `;`, or a parenthesis.
    Next,
    And,
    Or,
    Pipe,
    Background,
    Line,
    End,
}

/// What is between two breaks.
enum Token {
    Word(Word),
    /// Where a descriptor leads to, or comes from.
    Redirect(Redirect),
    Break(Break),
}

struct Redirect {
    descriptor: Option<u32>,
    operator: &'static str,
    word: Word,
}

impl<'a> Script<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { reader: Reader::new(text), variables: HashMap::new() }
    }

    /// The commands of the next line that has some; none at the end of the script.
    ///
    /// # Errors
    /// `:LINE: why`: the rest of the script cannot be read.
    pub(crate) fn line(&mut self) -> Result<Vec<Command>, String> {
        let mut all: Vec<Command> = Vec::new();
        let mut pending = Vec::new();
        let mut follows = Follows::Always;
        loop {
            let mut command = Command { follows, ..Command::default() };
            let end = self.command(&mut command, &mut pending, all.len())?;
            let is_empty = command.words.is_empty();
            // What is odd in a line of variables must be named, too.
            if !is_empty || !command.odd.is_empty() {
                all.push(command);
            }
            if all.len() > COMMANDS {
                return Err(format!(":{}: over 100,000 commands on a line", self.reader.line));
            }
            // An operator continues on the next line.
            let is_open = is_empty && follows != Follows::Always && !all.is_empty();
            match end {
                Break::Line | Break::End => {
                    for document in pending.drain(..) {
                        self.document(document, &mut all)?;
                    }
                    if end == Break::End || !(is_open || all.is_empty()) {
                        return Ok(all);
                    }
                }
                Break::Next => follows = Follows::Always,
                Break::And if is_empty => {}
                // What follows must wait for another line.
                Break::And => follows = Follows::Always,
                Break::Or => follows = Follows::Or,
                Break::Pipe => follows = Follows::Pipe,
                Break::Background => follows = Follows::Beside,
            }
        }
    }

    /// Reads a command up to what ends it.
    fn command(
        &mut self,
        command: &mut Command,
        pending: &mut Vec<Pending>,
        number: usize,
    ) -> Result<Break, String> {
        let mut assignments: Vec<(String, Vec<u8>)> = Vec::new();
        let end = loop {
            let token = self.reader.next(&self.variables, &mut command.odd)?;
            let line = self.reader.line;
            match token {
                Token::Break(end) => break end,
                Token::Redirect(redirect) => {
                    if let Some(document) = redirected(redirect, command, number) {
                        pending.push(document);
                    }
                }
                Token::Word(word) => {
                    if command.words.is_empty() {
                        command.at = self.reader.start;
                        if let Some((name, value)) = word.assignment() {
                            assignments.push((name, value.to_vec()));
                            continue;
                        }
                    }
                    let room = WORDS - command.words.len();
                    let Some(words) = word.split().filter(|words| words.len() <= room) else {
                        return Err(format!(":{line}: this command line has over 10,000 words"));
                    };
                    command.words.extend(words);
                }
            }
        };
        if command.words.is_empty() {
            // A value that is not known is none.
            if command.odd.is_empty() {
                self.variables.extend(assignments);
            }
        } else {
            self.export(&command.words);
            command.environment = assignments.into_iter().map(|(name, _)| name).collect();
        }
        Ok(end)
    }

    /// Sets the variables of `export NAME=VALUE` and the like.
    fn export(&mut self, words: &[Vec<u8>]) {
        const SETTERS: [&[u8]; 4] = [b"export", b"readonly", b"declare", b"local"];
        if !SETTERS.contains(&words[0].as_slice()) {
            return;
        }
        for word in &words[1..] {
            if let Some((name, value)) = Word::plain(word).assignment() {
                self.variables.insert(name, value.to_vec());
            }
        }
    }

    /// Reads a here document, the input of its command.
    fn document(&mut self, document: Pending, all: &mut [Command]) -> Result<(), String> {
        let mut odd = Vec::new();
        let text = self.reader.document(&document, &self.variables, &mut odd)?;
        if let Some(command) = all.get_mut(document.command) {
            command.odd.extend(odd);
            // A later redirection counts.
            if command.input == Input::Bytes(document.end) {
                command.input = Input::Bytes(text);
            }
        }
        Ok(())
    }
}

/// Applies a redirection to a command. Where its output goes means nothing.
fn redirected(redirect: Redirect, command: &mut Command, number: usize) -> Option<Pending> {
    let Redirect { descriptor, operator, word } = redirect;
    let is_input = descriptor.unwrap_or(0) == 0;
    let input = match operator {
        "<" | "<>" => Input::File(word.bytes),
        "<<<" => Input::Bytes([&word.bytes[..], b"\n"].concat()),
        "<<" | "<<-" => {
            let pending = Pending {
                command: number,
                end: word.bytes.clone(),
                is_indented: operator == "<<-",
                is_literal: word.is_quoted,
            };
            if is_input {
                // Until the document is read.
                command.input = Input::Bytes(word.bytes);
            }
            return Some(pending);
        }
        "<&" => Input::Unknown,
        _ => return None,
    };
    if is_input {
        command.input = input;
    }
    None
}

#[cfg(test)]
mod tests;
