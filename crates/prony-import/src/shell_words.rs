//! The words of command lines, as a POSIX shell or bash separates them. Nothing is expanded.

/// A command line: where it starts, and its words.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// The number of the first line in the file, from 1.
    pub(crate) at: usize,
    pub(crate) words: Vec<String>,
}

/// The most words of a command line.
const WORDS: usize = 10_000;

/// All command lines of a script, one after the other. A pipe, `;`, `&` or a line break ends one.
/// An error is `:LINE: why`; nothing follows it.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Result<Line, String>> {
    let mut reader = Reader { rest: text, line: 1 };
    std::iter::from_fn(move || {
        let line = next_line(&mut reader);
        if line.is_err() {
            reader.rest = "";
        }
        line.transpose()
    })
}

/// The next line that has words.
fn next_line(reader: &mut Reader<'_>) -> Result<Option<Line>, String> {
    let mut line = Line { at: 1, words: Vec::new() };
    loop {
        match reader.next()? {
            Found::Word(word) => {
                if line.words.is_empty() {
                    line.at = reader.line - word.matches('\n').count();
                }
                line.words.push(word);
                if line.words.len() > WORDS {
                    return Err(format!(":{}: this command line has over 10,000 words", line.at));
                }
            }
            Found::Break if line.words.is_empty() => {}
            Found::End if line.words.is_empty() => return Ok(None),
            Found::Break | Found::End => return Ok(Some(line)),
        }
    }
}

#[derive(PartialEq)]
enum Found {
    Word(String),
    Break,
    End,
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn skip(&mut self, start: &str) -> bool {
        let rest = self.rest.strip_prefix(start);
        if let Some(rest) = rest {
            self.line += start.matches('\n').count();
            self.rest = rest;
        }
        rest.is_some()
    }

    fn next(&mut self) -> Result<Found, String> {
        while self.skip(" ") || self.skip("\t") || self.skip("\\\r\n") || self.skip("\\\n") {}
        if self.skip("#") {
            while !self.rest.is_empty() && !self.rest.starts_with('\n') {
                self.take();
            }
        }
        match self.rest.chars().next() {
            None => return Ok(Found::End),
            Some('\n' | '\r' | ';' | '|' | '&') => {
                self.take();
                return Ok(Found::Break);
            }
            Some(_) => {}
        }
        let mut word = String::new();
        let start = self.line;
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '\n' | '\r' | ';' | '|' | '&' => break,
                '\'' => self.single(&mut word, start)?,
                '"' => self.double(&mut word, start)?,
                '$' if self.rest.starts_with("$'") => self.ansi(&mut word, start)?,
                '\\' => {
                    self.take();
                    match self.take() {
                        Some('\n') => {}
                        Some('\r') if self.skip("\n") => {}
                        Some(c) => word.push(c),
                        None => break,
                    }
                }
                c => {
                    self.take();
                    word.push(c);
                }
            }
        }
        Ok(Found::Word(word))
    }

    fn single(&mut self, word: &mut String, start: usize) -> Result<(), String> {
        self.take();
        loop {
            match self.take() {
                Some('\'') => return Ok(()),
                Some(c) => word.push(c),
                None => return Err(open_quote('\'', start)),
            }
        }
    }

    fn double(&mut self, word: &mut String, start: usize) -> Result<(), String> {
        self.take();
        loop {
            match self.take() {
                Some('"') => return Ok(()),
                Some('\\') => match self.take() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                    Some('\n') => {}
                    Some(c) => word.extend(['\\', c]),
                    None => return Err(open_quote('"', start)),
                },
                Some(c) => word.push(c),
                None => return Err(open_quote('"', start)),
            }
        }
    }

    /// `$'...'` of bash, which browsers write.
    fn ansi(&mut self, word: &mut String, start: usize) -> Result<(), String> {
        self.take();
        self.take();
        loop {
            match self.take() {
                Some('\'') => return Ok(()),
                Some('\\') => {
                    let c = match self.take() {
                        Some('n') => '\n',
                        Some('r') => '\r',
                        Some('t') => '\t',
                        Some('x') => self.code(2),
                        Some('u') => self.code(4),
                        Some('U') => self.code(8),
                        Some(c) => c,
                        None => return Err(open_quote('\'', start)),
                    };
                    word.push(c);
                }
                Some(c) => word.push(c),
                None => return Err(open_quote('\'', start)),
            }
        }
    }

    /// The character with the code of up to `most` hexadecimal digits that follow.
    fn code(&mut self, most: usize) -> char {
        let is_digit = |b: &u8| b.is_ascii_hexdigit();
        let n = self.rest.bytes().take(most).take_while(is_digit).count();
        let (digits, rest) = self.rest.split_at(n);
        self.rest = rest;
        let code = u32::from_str_radix(digits, 16).ok();
        code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

fn open_quote(quote: char, line: usize) -> String {
    format!(":{line}: a word starts with {quote}, and there is no {quote} that ends it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_words() {
        let script = "# a comment\ncurl 'a b' \"c\\\"$d\\x\" \\\n \
                      -H $'x\\u0021\\n\\x41' e\\ f # end\n\
                      \ncurl ''| jq . ; echo a&&b";
        let lines: Vec<Line> = lines(script).map(Result::unwrap).collect();
        let words: Vec<(usize, Vec<&str>)> =
            lines.iter().map(|l| (l.at, l.words.iter().map(String::as_str).collect())).collect();
        let wanted: Vec<(usize, Vec<&str>)> = vec![
            (2, vec!["curl", "a b", "c\"$d\\x", "-H", "x!\nA", "e f"]),
            (5, vec!["curl", ""]),
            (5, vec!["jq", "."]),
            (5, vec!["echo", "a"]),
            (5, vec!["b"]),
        ];
        assert_eq!(words, wanted);
        let error = |text| super::lines(text).find_map(Result::err).unwrap();
        assert!(error("a\n'b").starts_with(":2: a word starts with '"));
        assert!(error("\"b").starts_with(":1: "));
        let long = format!("a\ncurl{}", " b".repeat(WORDS));
        assert_eq!(error(&long), ":2: this command line has over 10,000 words");
        assert_eq!(super::lines(&long).count(), 2);
    }
}
