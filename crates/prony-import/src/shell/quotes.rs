//! What stands for a byte or a character in `$'...'` of bash.

/// Reads what follows a `\`: what it stands for, and how many bytes it takes.
pub(super) fn escape(rest: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(&first) = rest.first() else {
        out.push(b'\\');
        return 0;
    };
    let plain = match first {
        b'a' => 7,
        b'b' => 8,
        b'e' | b'E' => 0x1b,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' | b'?' => first,
        b'0'..=b'7' => {
            let (code, length) = number(rest, 3, 8);
            // Of a number over 255, the low byte counts.
            out.push(code as u8);
            return length;
        }
        b'c' if rest.len() > 1 => {
            out.push(if rest[1] == b'?' { 0x7f } else { rest[1].to_ascii_uppercase() & 0x1f });
            // A backslash there is itself written as two.
            return if rest[1..].starts_with(b"\\\\") { 3 } else { 2 };
        }
        b'x' | b'u' | b'U' => {
            let most = [2, 4, 8][usize::from(first == b'u') + 2 * usize::from(first == b'U')];
            let (code, length) = number(&rest[1..], most, 16);
            match first {
                _ if length == 0 => out.extend([b'\\', first]),
                b'x' => out.push(code as u8),
                _ => character(code, out),
            }
            return 1 + length;
        }
        _ => {
            out.extend([b'\\', first]);
            return 1;
        }
    };
    out.push(plain);
    1
}

/// The number of up to `most` digits, and how many there are.
fn number(text: &[u8], most: usize, radix: u32) -> (u32, usize) {
    let is_digit = |b: &&u8| char::from(**b).is_digit(radix);
    let length = text.iter().take(most).take_while(is_digit).count();
    let digit = |b: &u8| char::from(*b).to_digit(radix).unwrap_or_default();
    (text[..length].iter().fold(0, |code, b| code.wrapping_mul(radix) + digit(b)), length)
}

/// The bytes of a code in UTF-8. As bash does, halves of pairs and codes beyond Unicode, too.
fn character(code: u32, out: &mut Vec<u8>) {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    match code {
        0..0x80 => out.push(code as u8),
        0x80..0x800 => out.extend([0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => out.extend([0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        0x1_0000..0x20_0000 => {
            out.extend([0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)]);
        }
        0x20_0000..0x400_0000 => {
            out.extend([0xf8 | (code >> 24) as u8, tail(18), tail(12), tail(6), tail(0)]);
        }
        _ => {
            let first = 0xfc | (code >> 30) as u8;
            out.extend([first, tail(24), tail(18), tail(12), tail(6), tail(0)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_for_bytes() {
        for (text, wanted, length) in [
            (&b"xe9"[..], &b"\xe9"[..], 3),
            (b"x4", b"\x04", 2),
            (b"xg", b"\\x", 1),
            (b"351z", b"\xe9", 3),
            (b"0", b"\0", 1),
            (b"777", b"\xff", 3),
            (b"u20ac", "\u{20ac}".as_bytes(), 5),
            (b"ud83d", b"\xed\xa0\xbd", 5),
            (b"U0001f600", "\u{1f600}".as_bytes(), 9),
            (b"cA", b"\x01", 2),
            (b"c?", b"\x7f", 2),
            (b"c\\\\", b"\x1c", 3),
            (b"e", b"\x1b", 1),
            (b"q", b"\\q", 1),
            (b"", b"\\", 0),
        ] {
            let mut out = Vec::new();
            assert_eq!((escape(text, &mut out), &out[..]), (length, wanted), "{text:?}");
        }
    }
}
