//! The sets and ranges in curl's URLs: `{a,b}`, `[1-3]`, `[a-c]`, `[0-10:2]`.

/// The most texts of one.
const MOST: usize = 100_000;

/// A part of a pattern: one of these texts.
type Choices = Vec<Vec<u8>>;

/// All texts of a pattern, in curl's order: the last part varies first. A `\` before a bracket
/// takes its meaning.
///
/// # Errors
/// It is no pattern, or has too many texts: why, as curl says it.
pub(super) fn expanded(pattern: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut all: Vec<Vec<u8>> = vec![Vec::new()];
    for choices in parts(pattern)? {
        if all.len().saturating_mul(choices.len()) > MOST {
            return Err("a URL with a pattern of more than 100,000 URLs".into());
        }
        let mut next = Vec::with_capacity(all.len() * choices.len());
        for start in &all {
            next.extend(choices.iter().map(|choice| [&start[..], choice].concat()));
        }
        all = next;
    }
    Ok(all)
}

fn parts(pattern: &[u8]) -> Result<Vec<Choices>, String> {
    let wrong =
        |what: &str| format!("a URL with {what}, which curl refuses (-g takes it as it is)");
    let mut all = Vec::new();
    let mut plain = Vec::new();
    let mut rest = pattern;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'\\' if rest.first().is_some_and(|b| b"{}[]".contains(b)) => {
                plain.push(rest[0]);
                rest = &rest[1..];
            }
            b'{' | b'[' => {
                let close = if first == b'{' { b'}' } else { b']' };
                let end = rest.iter().position(|&b| b == close);
                let Some(end) = end else { return Err(wrong("a bracket that does not end")) };
                if first == b'[' && is_address(&rest[..end]) {
                    plain.push(b'[');
                    plain.extend_from_slice(&rest[..=end]);
                    rest = &rest[end + 1..];
                    continue;
                }
                all.push(vec![std::mem::take(&mut plain)]);
                let (choices, length) = match first {
                    b'{' => set(rest).ok_or_else(|| wrong("an empty or nested set in braces"))?,
                    _ => {
                        let range = range(&rest[..end]);
                        (range.ok_or_else(|| wrong("a bad range in brackets"))?, end + 1)
                    }
                };
                all.push(choices);
                rest = &rest[length..];
            }
            b'}' | b']' => return Err(wrong("a bracket that closes nothing")),
            b => plain.push(b),
        }
    }
    all.push(vec![plain]);
    Ok(all)
}

/// An address of IPv6.
fn is_address(text: &[u8]) -> bool {
    let (text, zone) = match text.iter().position(|&b| b == b'%') {
        Some(at) => text.split_at(at),
        None => (text, &b""[..]),
    };
    let text = str::from_utf8(text).unwrap_or_default();
    text.parse::<std::net::Ipv6Addr>().is_ok() && !zone.contains(&b'[')
}

/// What is between braces and commas, and how many bytes up to the closing brace.
fn set(rest: &[u8]) -> Option<(Choices, usize)> {
    let mut choices = vec![Vec::new()];
    let mut bytes = rest.iter().enumerate();
    while let Some((at, &b)) = bytes.next() {
        let choice = choices.last_mut()?;
        match b {
            b'}' if at == 0 => return None,
            b'}' => return Some((choices, at + 1)),
            b'{' | b'[' | b']' => return None,
            b',' => choices.push(Vec::new()),
            b'\\' if rest.get(at + 1).is_some_and(|b| b"{}[],".contains(b)) => {
                choice.push(rest[at + 1]);
                bytes.next();
            }
            b => choice.push(b),
        }
    }
    None
}

/// `a-c`, `a-i:2`, `1-3`, `001-100`, `0-10:2`.
fn range(inner: &[u8]) -> Option<Choices> {
    let text = str::from_utf8(inner).ok()?;
    let (text, step) = match text.split_once(':') {
        Some((text, step)) => (text, step.parse::<u64>().ok().filter(|&step| step > 0)?),
        None => (text, 1),
    };
    let (first, last) = text.split_once('-')?;
    if let ([a], [z]) = (first.as_bytes(), last.as_bytes())
        && a.is_ascii_alphabetic()
        && z.is_ascii_alphabetic()
    {
        let is_range = a <= z && u64::from(z - a) >= step || a == z && step == 1;
        let steps = usize::try_from(step).ok()?;
        return is_range.then(|| (*a..=*z).step_by(steps).map(|b| vec![b]).collect());
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return None;
    }
    let width = if first.starts_with('0') { first.len() } else { 0 };
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    let is_range = first < last && last - first >= step || first == last && step == 1;
    // One more than are allowed is refused where they are counted.
    let numbers = (first..=last).step_by(usize::try_from(step).ok()?).take(MOST + 1);
    is_range.then(|| numbers.map(|n| format!("{n:0width$}").into_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_several_texts() {
        for (pattern, wanted) in [
            ("http://h/[1-3]", "http://h/1 http://h/2 http://h/3"),
            ("[08-10]", "08 09 10"),
            ("[0-10:5]", "0 5 10"),
            ("[a-c]{x,y}", "ax ay bx by cx cy"),
            ("[a-e:2]", "a c e"),
            ("{a,,b\\,c}", "a  b,c"),
            ("http://[::1]:80/\\[a\\]\\{", "http://[::1]:80/[a]{"),
            ("a\\b", "a\\b"),
        ] {
            let all = expanded(pattern.as_bytes()).expect(pattern);
            let all: Vec<_> = all.into_iter().map(|b| String::from_utf8(b).unwrap()).collect();
            assert_eq!(all.join(" "), wanted, "{pattern}");
        }
        for pattern in ["{a", "[1-", "[3-1]", "[a-9]", "{}", "a}", "a]", "[]", "{a{b}}", "[1]"] {
            assert!(expanded(pattern.as_bytes()).is_err(), "{pattern}");
        }
        let error = expanded(b"[1-1000][1-1000]").expect_err("too many");
        assert_eq!(error, "a URL with a pattern of more than 100,000 URLs");
        assert!(expanded(b"[1-99999999999999]").is_err());
    }
}
