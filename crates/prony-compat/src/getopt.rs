//! Reads command lines as glibc's `getopt_long` does: options and operands in any order, grouped
//! letters, abbreviated long names, and the same messages.

/// Whether an option takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None.
    Nothing,
    /// Required: the rest of the word, the part after `=`, or the next word, whatever it is.
    Argument,
    /// Optional: only the rest of the word, or the part after `=`.
    Perhaps,
}

/// The options of a program; `K` identifies an option for the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<K: 'static> {
    /// One-letter options.
    pub letters: &'static [(char, Takes, K)],
    /// Long options of the old program. Abbreviations mean these first.
    pub words: &'static [(&'static str, Takes, K)],
    /// Long options of prony. Abbreviations that the old program accepted never mean these.
    pub newer: &'static [(&'static str, Takes, K)],
}

/// An item, in the order of the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item<K> {
    /// An option, and its argument.
    Option(K, Option<String>),
    /// An operand.
    Operand(String),
    /// The message that `getopt_long` prints when it returns `?`, without the newline.
    Refused(String),
}

impl<K: Copy + PartialEq> Table<K> {
    /// Read the words after the program's name, which is used in messages.
    pub(crate) fn read(&self, program: &str, words: &[String]) -> Vec<Item<K>> {
        let mut items = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                items.extend(words.by_ref().cloned().map(Item::Operand));
            } else if let Some(long) = word.strip_prefix("--") {
                items.push(self.long(program, long, &mut words));
            } else if let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) {
                self.group(program, letters, &mut words, &mut items);
            } else {
                items.push(Item::Operand(word.clone()));
            }
        }
        items
    }

    fn long<'a>(
        &self,
        program: &str,
        text: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Item<K> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let (full, takes, key) = match self.find(name) {
            Ok(found) => found,
            Err(named) if named.is_empty() => {
                return Item::Refused(format!("{program}: unrecognized option '--{text}'"));
            }
            Err(named) => {
                let named: String = named.iter().map(|n| format!(" '--{n}'")).collect();
                return Item::Refused(format!(
                    "{program}: option '--{text}' is ambiguous; possibilities:{named}"
                ));
            }
        };
        match (takes, value) {
            (Takes::Nothing, Some(_)) => {
                Item::Refused(format!("{program}: option '--{full}' doesn't allow an argument"))
            }
            (Takes::Argument, None) => match words.next() {
                Some(next) => Item::Option(key, Some(next.clone())),
                None => Item::Refused(format!("{program}: option '--{full}' requires an argument")),
            },
            (_, value) => Item::Option(key, value),
        }
    }

    /// The long option with this name or prefix; else all candidates, possibly none.
    fn find(&self, name: &str) -> Result<(&'static str, Takes, K), Vec<&'static str>> {
        let mut all = self.words.iter().chain(self.newer);
        if let Some(exact) = all.find(|w| w.0 == name) {
            return Ok(*exact);
        }
        for words in [self.words, self.newer] {
            let fit: Vec<_> = words.iter().filter(|w| w.0.starts_with(name)).collect();
            if let Some((first, more)) = fit.split_first() {
                // Two names of the same option are not ambiguous.
                let same = more.iter().all(|w| (w.1, w.2) == (first.1, first.2));
                return if same { Ok(**first) } else { Err(fit.iter().map(|w| w.0).collect()) };
            }
        }
        Err(Vec::new())
    }

    /// `-abc`: grouped letters; the last can have an argument.
    fn group<'a>(
        &self,
        program: &str,
        letters: &str,
        words: &mut impl Iterator<Item = &'a String>,
        items: &mut Vec<Item<K>>,
    ) {
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            let rest = (!rest.is_empty()).then(|| rest.to_owned());
            let Some(&(_, takes, key)) = self.letters.iter().find(|l| l.0 == letter) else {
                items.push(Item::Refused(format!("{program}: invalid option -- '{letter}'")));
                continue;
            };
            match (takes, rest) {
                (Takes::Nothing, _) => items.push(Item::Option(key, None)),
                (Takes::Perhaps, rest) | (Takes::Argument, rest @ Some(_)) => {
                    items.push(Item::Option(key, rest));
                    return;
                }
                (Takes::Argument, None) => items.push(match words.next() {
                    Some(next) => Item::Option(key, Some(next.clone())),
                    None => Item::Refused(format!(
                        "{program}: option requires an argument -- '{letter}'"
                    )),
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Takes::{Argument, Nothing, Perhaps};
    use super::*;

    const TABLE: Table<char> = Table {
        letters: &[('n', Argument, 'n'), ('d', Nothing, 'd'), ('v', Perhaps, 'v')],
        words: &[
            ("number", Argument, 'n'),
            ("num-calls", Argument, 'N'),
            ("debug", Nothing, 'd'),
            ("verbose", Perhaps, 'v'),
            ("host", Argument, 'h'),
            ("hostname", Argument, 'h'),
        ],
        newer: &[("no-extras", Nothing, 'x'), ("debug-more", Nothing, 'D')],
    };

    fn check(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let reported = TABLE.read("prog", &words).into_iter().map(|item| match item {
            Item::Option(key, None) => format!("{key}"),
            Item::Option(key, Some(value)) => format!("{key}={value}"),
            Item::Operand(word) => format!("<{word}>"),
            Item::Refused(message) => format!("[{message}]"),
        });
        reported.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn letters() {
        assert_eq!(check("-n 5 url -d"), "n=5 <url> d");
        assert_eq!(check("-n5 -dn 6 -dn7"), "n=5 d n=6 d n=7");
        assert_eq!(check("-n -d"), "n=-d");
        assert_eq!(check("-v 3 -v3 -dv"), "v <3> v=3 d v");
        assert_eq!(check("- -- -n 5"), "<-> <-n> <5>");
        assert_eq!(
            check("-q -dqd"),
            "[prog: invalid option -- 'q'] d [prog: invalid option -- 'q'] d"
        );
        assert_eq!(check("-dn"), "d [prog: option requires an argument -- 'n']");
    }

    #[test]
    fn words() {
        assert_eq!(check("--number 5 --number=6 --numb 7"), "n=5 n=6 n=7");
        assert_eq!(check("--number --debug"), "n=--debug");
        assert_eq!(check("--verbose 3 --verb=3 --number="), "v <3> v=3 n=");
        assert_eq!(check("--debug=1"), "[prog: option '--debug' doesn't allow an argument]");
        assert_eq!(check("--numbe"), "[prog: option '--number' requires an argument]");
        assert_eq!(check("--nosuch=2"), "[prog: unrecognized option '--nosuch=2']");
    }

    #[test]
    fn abbreviations_keep_their_meaning() {
        assert_eq!(
            check("--num=1"),
            "[prog: option '--num=1' is ambiguous; possibilities: '--number' '--num-calls']"
        );
        // Two names of one option.
        assert_eq!(check("--ho x"), "h=x");
        // `--de` meant `--debug` before there was `--debug-more`; an exact name always wins.
        assert_eq!(check("--de --debug --debug-m"), "d d D");
        assert_eq!(check("--no"), "x");
    }
}
