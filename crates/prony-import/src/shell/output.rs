//! What simple programs before a pipe write: what is known without running them.

use super::Command;

/// What a command writes to its standard output, if that is known. `input` is what it reads.
pub(crate) fn output(
    command: &Command,
    input: Option<Vec<u8>>,
    file: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let (program, words) = command.words.split_first()?;
    match program.as_slice() {
        b"cat" if words.is_empty() => input,
        b"cat" if words.iter().all(|word| !word.starts_with(b"-")) => {
            words.iter().map(|name| file(name)).collect::<Option<Vec<_>>>().map(|all| all.concat())
        }
        b"echo" => echo(words),
        b"printf" => printf(words),
        _ => None,
    }
}

fn echo(words: &[Vec<u8>]) -> Option<Vec<u8>> {
    let is_option = |word: &[u8]| {
        word.len() > 1 && word[0] == b'-' && word[1..].iter().all(|b| b"neE".contains(b))
    };
    let options = words.iter().take_while(|word| is_option(word)).count();
    let (options, words) = words.split_at(options);
    if options.iter().any(|word| word.contains(&b'e')) {
        return None;
    }
    let mut out = words.join(&b' ');
    if !options.iter().any(|word| word.contains(&b'n')) {
        out.push(b'\n');
    }
    Some(out)
}

/// A format with `%s` and the usual escapes, used once.
fn printf(words: &[Vec<u8>]) -> Option<Vec<u8>> {
    let (format, words) = words.split_first()?;
    let mut words = words.iter();
    let mut out = Vec::new();
    let mut rest = &format[..];
    while let [first, after @ ..] = rest {
        let two = (*first, after.first());
        match two {
            (b'%', Some(b's')) => out.extend(words.next().into_iter().flatten()),
            (b'%', Some(b'%')) => out.push(b'%'),
            (b'\\', Some(b'n')) => out.push(b'\n'),
            (b'\\', Some(b'r')) => out.push(b'\r'),
            (b'\\', Some(b't')) => out.push(b'\t'),
            (b'\\', Some(b'\\')) => out.push(b'\\'),
            (b'%' | b'\\', _) => return None,
            (b, _) => {
                out.push(b);
                rest = after;
                continue;
            }
        }
        rest = &after[1..];
    }
    // With words left, the format is used again.
    words.next().is_none().then_some(out)
}
