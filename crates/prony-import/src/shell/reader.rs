//! The tokens of a script.

use std::collections::HashMap;

use super::{Break, Mark, Pending, Redirect, Token, Word, quotes};

type Variables = HashMap<String, Vec<u8>>;

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// The current line, from 1, and that on which the last word starts.
    pub(super) line: usize,
    pub(super) start: usize,
}

/// What separates commands, the longest ones first.
const BREAKS: [(&[u8], Break); 12] = [
    (b"\r\n", Break::Line),
    (b"\n", Break::Line),
    (b"\r", Break::Line),
    (b"&&", Break::And),
    (b"||", Break::Or),
    (b"|&", Break::Pipe),
    (b"|", Break::Pipe),
    (b";;", Break::Next),
    (b";", Break::Next),
    (b"&", Break::Background),
    (b"(", Break::Next),
    (b")", Break::Next),
];

/// What leads elsewhere, the longest ones first.
const REDIRECTS: [&str; 12] =
    ["<<<", "<<-", "<<", "<&", "<>", "<", "&>>", "&>", ">>", ">&", ">|", ">"];

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest, line: 1, start: 1 }
    }

    fn take(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.line += usize::from(first == b'\n');
        Some(first)
    }

    fn skip(&mut self, start: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(start);
        if let Some(rest) = rest {
            self.line += start.iter().filter(|&&b| b == b'\n').count();
            self.rest = rest;
        }
        rest.is_some()
    }

    /// The next token.
    pub(super) fn next(
        &mut self,
        variables: &Variables,
        odd: &mut Vec<String>,
    ) -> Result<Token, String> {
        while [&b" "[..], b"\t", b"\\\r\n", b"\\\n"].iter().any(|blank| self.skip(blank)) {}
        if self.rest.starts_with(b"#") {
            let end = self.rest.iter().position(|&b| b == b'\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
        self.start = self.line;
        if self.rest.is_empty() {
            return Ok(Token::Break(Break::End));
        }
        if let Some(redirect) = self.redirect(variables, odd)? {
            return Ok(Token::Redirect(redirect));
        }
        // A program that writes what is read like a file, or reads it so.
        let is_process = self.rest.starts_with(b"<(") || self.rest.starts_with(b">(");
        if let Some((_, found)) = BREAKS.into_iter().find(|(text, _)| self.skip(text)) {
            return Ok(Token::Break(found));
        }
        let mut word = Word::default();
        if is_process {
            odd.push("a command in <(...) is not run".to_owned());
            let start = self.rest;
            self.take();
            self.nested(b'(', b')')?;
            word.extend(&start[..start.len() - self.rest.len()], Mark::Quoted);
        }
        self.word(&mut word, variables, odd)?;
        Ok(Token::Word(word))
    }

    /// A redirection, if there is one.
    fn redirect(
        &mut self,
        variables: &Variables,
        odd: &mut Vec<String>,
    ) -> Result<Option<Redirect>, String> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let after = &self.rest[digits..];
        let operator = REDIRECTS.into_iter().find(|text| after.starts_with(text.as_bytes()));
        let Some(operator) = operator.filter(|text| {
            let is_process = after.starts_with(b"<(") || after.starts_with(b">(");
            !is_process && (digits == 0 || !text.starts_with('&'))
        }) else {
            return Ok(None);
        };
        let number = str::from_utf8(&self.rest[..digits]).ok().and_then(|text| text.parse().ok());
        self.rest = &after[operator.len()..];
        while self.skip(b" ") || self.skip(b"\t") {}
        let mut word = Word::default();
        if operator.starts_with("<<") && operator != "<<<" {
            // The end of a here document is taken as it is.
            self.word(&mut word, &Variables::new(), &mut Vec::new())?;
        } else {
            self.word(&mut word, variables, odd)?;
        }
        Ok(Some(Redirect { descriptor: number, operator, word }))
    }

    /// The rest of a word.
    fn word(
        &mut self,
        word: &mut Word,
        variables: &Variables,
        odd: &mut Vec<String>,
    ) -> Result<(), String> {
        let start = self.line;
        while let Some(&b) = self.rest.first() {
            match b {
                b' ' | b'\t' | b'\n' | b'\r' | b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')' => {
                    break;
                }
                b'\'' => {
                    self.take();
                    self.single(word, start)?;
                }
                b'"' => {
                    self.take();
                    self.double(word, start, variables, odd)?;
                }
                b'$' if self.skip(b"$'") => self.ansi(word, start)?,
                b'$' if self.skip(b"$\"") => self.double(word, start, variables, odd)?,
                b'$' | b'`' => self.expand(word, Mark::Value, variables, odd)?,
                b'\\' => {
                    self.take();
                    match self.take() {
                        Some(b'\n') => {}
                        Some(b'\r') if self.skip(b"\n") => {}
                        Some(b) => word.push(b, Mark::Quoted),
                        None => break,
                    }
                }
                b'~' if word.bytes.is_empty() && !word.is_quoted => {
                    self.take();
                    odd.push("~ (a home folder) is not known".to_owned());
                    word.push(b'~', Mark::Plain);
                }
                b => {
                    self.take();
                    word.push(b, Mark::Plain);
                }
            }
        }
        Ok(())
    }

    fn single(&mut self, word: &mut Word, start: usize) -> Result<(), String> {
        word.is_quoted = true;
        loop {
            match self.take() {
                Some(b'\'') => return Ok(()),
                Some(b) => word.push(b, Mark::Quoted),
                None => return Err(open_quote('\'', start)),
            }
        }
    }

    fn double(
        &mut self,
        word: &mut Word,
        start: usize,
        variables: &Variables,
        odd: &mut Vec<String>,
    ) -> Result<(), String> {
        word.is_quoted = true;
        loop {
            match self.rest.first() {
                Some(b'"') => {
                    self.take();
                    return Ok(());
                }
                Some(b'$' | b'`') => self.expand(word, Mark::Quoted, variables, odd)?,
                Some(b'\\') => self.escaped(word, b"\"\\$`", start)?,
                Some(&b) => {
                    self.take();
                    word.push(b, Mark::Quoted);
                }
                None => return Err(open_quote('"', start)),
            }
        }
    }

    /// A `\` that counts only before these.
    fn escaped(&mut self, word: &mut Word, special: &[u8], start: usize) -> Result<(), String> {
        self.take();
        match self.take() {
            Some(b'\n') => {}
            Some(b'\r') if self.skip(b"\n") => {}
            Some(b) if special.contains(&b) => word.push(b, Mark::Quoted),
            Some(b) => word.extend(&[b'\\', b], Mark::Quoted),
            None => return Err(open_quote('"', start)),
        }
        Ok(())
    }

    /// `$'...'` of bash, which browsers write.
    fn ansi(&mut self, word: &mut Word, start: usize) -> Result<(), String> {
        word.is_quoted = true;
        let mut text = Vec::new();
        loop {
            match self.take() {
                Some(b'\'') => break,
                Some(b'\\') if !self.rest.is_empty() => {
                    let length = quotes::escape(self.rest, &mut text);
                    self.line += self.rest[..length].iter().filter(|&&b| b == b'\n').count();
                    self.rest = &self.rest[length..];
                }
                Some(b) => text.push(b),
                None => return Err(open_quote('\'', start)),
            }
        }
        // A NUL ends the text.
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        word.extend(&text[..end], Mark::Quoted);
        Ok(())
    }

    /// What `$` or a backquote starts.
    fn expand(
        &mut self,
        word: &mut Word,
        mark: Mark,
        variables: &Variables,
        odd: &mut Vec<String>,
    ) -> Result<(), String> {
        let start = self.rest;
        if self.skip(b"`") {
            self.until_backquote();
            odd.push("a command in `...` is not run".to_owned());
        } else if start.starts_with(b"$(") {
            self.take();
            self.nested(b'(', b')')?;
            odd.push("a command in $(...) is not run".to_owned());
        } else if start.starts_with(b"${") {
            self.take();
            self.nested(b'{', b'}')?;
            let inner = &start[2..start.len() - self.rest.len() - 1];
            match parameter(inner, variables) {
                Ok(value) => {
                    word.extend(value, mark);
                    return Ok(());
                }
                Err(what) => odd.push(what),
            }
        } else {
            self.take();
            let is_letter = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
            let is_digit = self.rest.first().is_some_and(u8::is_ascii_digit);
            let length = self.rest.iter().take_while(is_letter).count();
            let length = if is_digit { 1 } else { length };
            let (name, rest) = self.rest.split_at(length);
            self.rest = rest;
            let name = String::from_utf8_lossy(name);
            if let Some(value) = variables.get(&*name) {
                word.extend(value, mark);
                return Ok(());
            }
            match rest.first() {
                _ if length > 0 => odd.push(unset(&name)),
                Some(&b) if b"@*#?-$!".contains(&b) => {
                    self.take();
                    odd.push(unset(&char::from(b).to_string()));
                }
                _ => {}
            }
        }
        word.extend(&start[..start.len() - self.rest.len()], Mark::Quoted);
        Ok(())
    }

    fn until_backquote(&mut self) {
        while let Some(b) = self.take() {
            match b {
                b'`' => return,
                b'\\' => drop(self.take()),
                _ => {}
            }
        }
    }

    /// What is between parentheses or braces, with those in it. Quotes in it hide others.
    fn nested(&mut self, open: u8, close: u8) -> Result<(), String> {
        let (start, mut depth) = (self.line, 0);
        while let Some(b) = self.take() {
            match b {
                b'\\' => drop(self.take()),
                b'\'' => self.single(&mut Word::default(), start)?,
                b'"' => self.double(&mut Word::default(), start, &Variables::new(), &mut vec![])?,
                b if b == open => depth += 1,
                b if b == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(open_quote(char::from(open), start))
    }

    /// A here document, with its end.
    pub(super) fn document(
        &mut self,
        document: &Pending,
        variables: &Variables,
        odd: &mut Vec<String>,
    ) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        loop {
            let end = self.rest.iter().position(|&b| b == b'\n');
            let (line, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
            self.rest = rest;
            self.line += usize::from(end.is_some());
            let line = match document.is_indented {
                true => line.trim_ascii_start_of(b'\t'),
                false => line,
            };
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
            if bare == document.end || end.is_none() && line.is_empty() {
                break;
            }
            text.extend_from_slice(line);
        }
        if document.is_literal {
            return Ok(text);
        }
        // Its inner part is like that of double quotes, in which quotes are plain.
        let mut inner = Reader::new(&text);
        let mut word = Word::default();
        while let Some(&b) = inner.rest.first() {
            match b {
                b'$' | b'`' => inner.expand(&mut word, Mark::Quoted, variables, odd)?,
                b'\\' if inner.rest.len() > 1 => inner.escaped(&mut word, b"\\$`", self.line)?,
                b => {
                    inner.take();
                    word.push(b, Mark::Quoted);
                }
            }
        }
        Ok(word.bytes)
    }
}

/// The value of `${...}`: that of a variable, or the one in its place if it has none.
fn parameter<'v>(inner: &'v [u8], variables: &'v Variables) -> Result<&'v [u8], String> {
    let text = String::from_utf8_lossy(inner).into_owned();
    let is_letter = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let length = inner.iter().take_while(is_letter).count();
    let (name, rest) = inner.split_at(length);
    let value = str::from_utf8(name).ok().and_then(|name| variables.get(name));
    let value = value.map(Vec::as_slice);
    let other = rest.strip_prefix(b":-").or_else(|| rest.strip_prefix(b"-"));
    match (value, other) {
        (Some(value), None) if rest.is_empty() => Ok(value),
        (Some(value), Some(_)) if !(value.is_empty() && rest.starts_with(b":")) => Ok(value),
        (_, Some(other)) if !other.iter().any(|b| b"$`\"'\\".contains(b)) => Ok(other),
        _ => Err(unset(&format!("{{{text}}}"))),
    }
}

fn unset(name: &str) -> String {
    format!("${name} has no value in the file: it stays as it is")
}

fn open_quote(quote: char, line: usize) -> String {
    let close = match quote {
        '(' => ')',
        '{' => '}',
        quote => quote,
    };
    format!(":{line}: a word starts with {quote}, and there is no {close} that ends it")
}

/// Bytes without those at their start.
trait Trimmed {
    fn trim_ascii_start_of(&self, byte: u8) -> &Self;
}

impl Trimmed for [u8] {
    fn trim_ascii_start_of(&self, byte: u8) -> &Self {
        let start = self.iter().take_while(|&&b| b == byte).count();
        &self[start..]
    }
}
