//! Braces outside of quotes: bash makes several words of `a{b,c}` and `a{1..3}`.

use super::{Mark, Word};

/// The most words of one.
const MOST: usize = 10_000;

/// The words that bash makes of one, or none if there are too many.
pub(super) fn expanded(word: Word) -> Option<Vec<Word>> {
    let mut done = Vec::new();
    // The next one to look at is the last: words stay in their order.
    let mut waiting = vec![word];
    while let Some(word) = waiting.pop() {
        let Some((open, close, parts)) = group(&word) else {
            done.push(word);
            continue;
        };
        let (before, after) = (word.part(0..open), word.part(close + 1..word.bytes.len()));
        for part in parts.into_iter().rev() {
            let mut next = before.clone();
            next.append(&part);
            next.append(&after);
            next.is_quoted |= word.is_quoted;
            waiting.push(next);
        }
        if done.len() + waiting.len() > MOST {
            return None;
        }
    }
    Some(done)
}

/// The first braces that are several words: where they are, and what is between their commas.
fn group(word: &Word) -> Option<(usize, usize, Vec<Word>)> {
    let is = |at: usize, b: u8| word.bytes[at] == b && word.marks[at] == Mark::Plain;
    (0..word.bytes.len()).filter(|&at| is(at, b'{')).find_map(|open| {
        let (mut depth, mut commas) = (0, Vec::new());
        for at in open..word.bytes.len() {
            if is(at, b'{') {
                depth += 1;
            } else if is(at, b',') && depth == 1 {
                commas.push(at);
            } else if is(at, b'}') {
                depth -= 1;
                if depth > 0 {
                    continue;
                }
                if commas.is_empty() {
                    let inner = word.part(open + 1..at);
                    return range(&inner).map(|parts| (open, at, parts));
                }
                let starts = std::iter::once(open).chain(commas.iter().copied());
                let ends = commas.iter().copied().chain([at]);
                let parts = starts.zip(ends).map(|(from, to)| word.part(from + 1..to)).collect();
                return Some((open, at, parts));
            }
        }
        None
    })
}

/// `1..3`, `3..1`, `01..10..2`, `a..e`.
fn range(inner: &Word) -> Option<Vec<Word>> {
    if inner.marks.iter().any(|mark| *mark != Mark::Plain) {
        return None;
    }
    let text = str::from_utf8(&inner.bytes).ok()?;
    let parts: Vec<&str> = text.split("..").collect();
    let (from, to, step) = match parts.as_slice() {
        [from, to] => (*from, *to, 1),
        [from, to, step] => (*from, *to, step.parse::<i64>().ok()?.unsigned_abs().max(1)),
        _ => return None,
    };
    let letter = |text: &str| match text.as_bytes() {
        [b] if b.is_ascii_alphabetic() => Some(i64::from(*b)),
        _ => None,
    };
    if let (Some(first), Some(last)) = (letter(from), letter(to)) {
        let one = |n: i64| Word::plain(&[n as u8]);
        return Some(numbers(first, last, step).map(one).collect());
    }
    let (first, last) = (from.parse::<i64>().ok()?, to.parse::<i64>().ok()?);
    let zero = |text: &str| text.trim_start_matches('-').starts_with('0') && text.len() > 1;
    let width = if zero(from) || zero(to) { from.len().max(to.len()) } else { 0 };
    let one = |n: i64| Word::plain(format!("{n:0width$}").as_bytes());
    Some(numbers(first, last, step).map(one).collect())
}

fn numbers(first: i64, last: i64, step: u64) -> impl Iterator<Item = i64> {
    let step = i64::try_from(step).unwrap_or(i64::MAX);
    let count = first.abs_diff(last) / step.unsigned_abs();
    let sign = if first <= last { 1 } else { -1 };
    // More than fit are refused.
    (0..=count.min(MOST as u64)).map(move |n| first + sign * step * n as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_several_words() {
        for (text, wanted) in [
            ("a{b,c}d", "abd acd"),
            ("{1..3}", "1 2 3"),
            ("{3..1}", "3 2 1"),
            ("{08..10}", "08 09 10"),
            ("{1..10..4}", "1 5 9"),
            ("{a..c}{x,y}", "ax ay bx by cx cy"),
            ("{a,b{c,d}}", "a bc bd"),
            ("{a}", "{a}"),
            ("{}", "{}"),
            ("{a,b", "{a,b"),
            ("{x..9}", "{x..9}"),
            ("x{,y}", "x xy"),
        ] {
            let words = expanded(Word::plain(text.as_bytes())).expect(text);
            let words: Vec<_> =
                words.iter().map(|w| String::from_utf8(w.bytes.clone()).unwrap()).collect();
            assert_eq!(words.join(" "), wanted, "{text}");
        }
        assert!(expanded(Word::plain(b"{1..999999999}")).is_none());
        let mut quoted = Word::plain(b"{a,b}");
        quoted.marks.fill(Mark::Quoted);
        assert_eq!(expanded(quoted.clone()), Some(vec![quoted]));
    }
}
