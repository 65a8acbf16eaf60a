//! Random fields. Their values depend only on the seed, the session, the request and the field, so
//! that a plan sends the same bytes on any number of threads.

use std::io::Write as _;

use super::Moment;
use super::quotes::quoted;
use prony_base::rng::{self, Stream};

/// One kind of random field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// A whole number, both bounds included.
    Int(i64, i64),
    /// Hexadecimal digits: their number.
    Hex(u32),
    /// Letters and digits: their number.
    Text(u32),
    /// A random UUID (RFC 9562, version 4).
    Uuid,
    /// One of these, with equal probabilities.
    Pick(Vec<String>),
}

/// The maximum length of a random text. Larger numbers are refused as typing errors.
const LONGEST: u32 = 1 << 20;

/// Parse the words of a field, the first of which starts with `random`.
pub(super) fn parse(words: &[&str]) -> Result<Draw, String> {
    match words {
        ["random.int", low, high] => {
            let number = |text: &str| {
                let wrong = |_| format!("'{}' is not a whole number", text.escape_debug());
                text.parse::<i64>().map_err(wrong)
            };
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(format!("the bounds {low} and {high} are swapped"));
            }
            Ok(Draw::Int(low, high))
        }
        ["random.int", ..] => Err("write 'random.int LOW HIGH'".into()),
        ["random.hex", length] => Ok(Draw::Hex(length_of(length)?)),
        ["random.hex", ..] => Err("write 'random.hex DIGITS'".into()),
        ["random.text", length] => Ok(Draw::Text(length_of(length)?)),
        ["random.text", ..] => Err("write 'random.text LENGTH'".into()),
        ["random.uuid"] => Ok(Draw::Uuid),
        ["random.uuid", ..] => Err("'random.uuid' takes no arguments".into()),
        ["random.pick", first, rest @ ..] => {
            let word = |w: &&str| quoted(w).unwrap_or(w).to_owned();
            Ok(Draw::Pick(std::iter::once(first).chain(rest).map(word).collect()))
        }
        ["random.pick"] => Err("write 'random.pick A B ...'".into()),
        _ => Err(format!(
            "'{}' is unknown; the random fields are: random.int LOW HIGH, random.hex DIGITS, \
             random.text LENGTH, random.uuid, random.pick A B ...",
            words.first().map_or("", |w| w).escape_debug()
        )),
    }
}

fn length_of(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=LONGEST).contains(n))
        .ok_or_else(|| format!("'{}' is not a length from 1 to {LONGEST}", text.escape_debug()))
}

impl Draw {
    pub(super) fn write(&self, moment: Moment, field: u64, out: &mut Vec<u8>) {
        let key = rng::keyed(moment.seed, Stream::Template, moment.session, moment.request);
        let word = |i: u64| rng::keyed(key, Stream::Template, field, i);
        match self {
            Self::Int(low, high) => {
                let choices = i128::from(*high) - i128::from(*low) + 1;
                let up = ((u128::from(word(0)) * choices as u128) >> 64) as i128;
                write(out, format_args!("{}", i128::from(*low) + up));
            }
            Self::Hex(digits) => hex(*digits, word, out),
            Self::Text(length) => letters(*length, word, out),
            Self::Uuid => {
                let bits = u128::from(word(0)) << 64 | u128::from(word(1));
                uuid(bits, out);
            }
            Self::Pick(words) => {
                let index = (u128::from(word(0)) * words.len() as u128) >> 64;
                out.extend_from_slice(words[index as usize].as_bytes());
            }
        }
    }
}

/// A decimal number.
pub(super) fn number(n: u64, out: &mut Vec<u8>) {
    write(out, format_args!("{n}"));
}

/// A decimal number, with a sign if it is negative.
pub(super) fn whole(n: i128, out: &mut Vec<u8>) {
    write(out, format_args!("{n}"));
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes what is written to it");
}

fn hex(digits: u32, word: impl Fn(u64) -> u64, out: &mut Vec<u8>) {
    for i in 0..digits {
        let nibble = word(u64::from(i / 16)) >> (60 - i % 16 * 4) & 15;
        out.push(b"0123456789abcdef"[nibble as usize]);
    }
}

fn letters(length: u32, word: impl Fn(u64) -> u64, out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // Six characters use 36 bits of each word; the remaining bits keep the bias below 2^-28.
    for i in 0..length {
        let left = word(u64::from(i / 6)) / 62_u64.pow(i % 6);
        out.push(ALPHABET[(left % 62) as usize]);
    }
}

fn uuid(bits: u128, out: &mut Vec<u8>) {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let group = |shift: u32, digits: u32| bits >> shift & ((1 << (digits * 4)) - 1);
    let (a, b, c, d, e) = (group(96, 8), group(80, 4), group(64, 4), group(48, 4), group(0, 12));
    write(out, format_args!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(words: &[&str], session: u64, request: u64, field: u64) -> String {
        let moment = Moment { seed: 7, session, request, counter: 0 };
        let mut out = Vec::new();
        parse(words).expect("a draw").write(moment, field, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn draws_have_the_right_form_and_cover_their_range() {
        let of =
            |words: &[&str]| -> Vec<String> { (0..2000).map(|s| drawn(words, s, 1, 0)).collect() };
        let numbers = of(&["random.int", "-3", "6"]);
        for n in -3..=6 {
            let count = numbers.iter().filter(|d| **d == n.to_string()).count();
            assert!((120..=280).contains(&count), "{n} was drawn {count} times of 2000");
        }
        let all = of(&["random.int", "-9223372036854775808", "9223372036854775807"]);
        assert!(all.iter().all(|d| d.parse::<i64>().is_ok()));
        for text in of(&["random.hex", "19"]) {
            assert!(text.len() == 19 && text.bytes().all(|b| b"0123456789abcdef".contains(&b)));
        }
        let texts = of(&["random.text", "13"]);
        let mut seen: Vec<u8> = texts.iter().flat_map(|t| t.bytes()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 62);
        assert!(seen.iter().all(u8::is_ascii_alphanumeric));
        assert!(texts.iter().all(|t| t.len() == 13));
        for id in of(&["random.uuid"]) {
            let groups: Vec<_> = id.split('-').map(str::len).collect();
            assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
            assert!(id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
        let picks = of(&["random.pick", "red", "'dark blue'"]);
        let red = picks.iter().filter(|p| *p == "red").count();
        assert!((900..=1100).contains(&red), "{red}");
        assert_eq!(picks.iter().filter(|p| *p == "dark blue").count(), 2000 - red);
    }

    #[test]
    fn draws_differ_by_session_request_and_field() {
        let of = |s, r, f| drawn(&["random.hex", "16"], s, r, f);
        let mut draws = vec![];
        for s in 0..10 {
            for r in 0..10 {
                draws.extend((0..10).map(|f| of(s, r, f)));
            }
        }
        assert_eq!(of(3, 4, 5), draws[345], "the same again");
        draws.sort();
        draws.dedup();
        assert_eq!(draws.len(), 1000);
    }

    #[test]
    fn draws_stay_the_same_across_versions() {
        let text: Vec<_> = [
            &["random.int", "1", "100"][..],
            &["random.hex", "20"],
            &["random.text", "20"],
            &["random.uuid"],
        ]
        .iter()
        .map(|words| drawn(words, 1, 2, 3))
        .collect();
        expect_test::expect![
            "79 c92e3f1cdd715e843e04 g9pSaWnLwZilPCs0fUfo c92e3f1c-dd71-4e84-be04-a0f6dba375b7"
        ]
        .assert_eq(&text.join(" "));
    }

    #[test]
    fn rejects_malformed_random_fields() {
        for (words, what) in [
            (&["random.int", "1"][..], "write 'random.int LOW HIGH'"),
            (&["random.int", "1", "x"], "'x' is not a whole number"),
            (&["random.int", "2", "1"], "the bounds 2 and 1 are swapped"),
            (&["random.hex"], "write 'random.hex DIGITS'"),
            (&["random.hex", "0"], "'0' is not a length from 1 to 1048576"),
            (&["random.text", "1048577"], "'1048577' is not a length from 1 to 1048576"),
            (&["random.text", "a", "b"], "write 'random.text LENGTH'"),
            (&["random.uuid", "4"], "'random.uuid' takes no arguments"),
            (&["random.pick"], "write 'random.pick A B ...'"),
        ] {
            assert_eq!(parse(words), Err(what.to_owned()), "{words:?}");
        }
        assert!(parse(&["random.float"]).is_err_and(|e| e.contains("random.int LOW HIGH")));
    }
}
