//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: the lengths of its codes determine it. So only these are written down
//! here, and the compiler derives the tables.

/// The length of each symbol's code in bits. Symbol 256 marks the end and never appears.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
    30, // the end
];

const END: u16 = 256;
const LONGEST: usize = 30;

/// The bits of one look-up.
const LOOK: u32 = 12;

/// The codes of one length: the first of them, how many there are, and the rank of the first among
/// all symbols.
#[derive(Clone, Copy)]
struct Class {
    first: u32,
    count: u32,
    rank: u32,
}

const CLASSES: [Class; LONGEST + 1] = classes();
const RANKED: [u16; 257] = ranked();
const CODES: [u32; 257] = codes();

/// For the next [`LOOK`] bits: which symbols they are.
static STEPS: [Step; 1 << LOOK] = steps();

/// Up to two symbols. `bits` of both together, `first_bits` of the first alone; 0: a longer code.
#[derive(Clone, Copy)]
struct Step {
    symbols: [u8; 2],
    bits: u8,
    first_bits: u8,
}

const fn classes() -> [Class; LONGEST + 1] {
    let mut classes = [Class { first: 0, count: 0, rank: 0 }; LONGEST + 1];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        classes[LENGTHS[symbol] as usize].count += 1;
        symbol += 1;
    }
    let mut length = 1;
    while length <= LONGEST {
        let shorter = classes[length - 1];
        classes[length].first = (shorter.first + shorter.count) << 1;
        classes[length].rank = shorter.rank + shorter.count;
        length += 1;
    }
    classes
}

const fn ranked() -> [u16; 257] {
    let mut ranked = [0; 257];
    let (mut rank, mut length) = (0, 1);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                ranked[rank] = symbol as u16;
                rank += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    ranked
}

const fn codes() -> [u32; 257] {
    let mut codes = [0; 257];
    let mut rank = 0;
    while rank < codes.len() {
        let symbol = RANKED[rank] as usize;
        let class = CLASSES[LENGTHS[symbol] as usize];
        codes[symbol] = class.first + rank as u32 - class.rank;
        rank += 1;
    }
    codes
}

const fn steps() -> [Step; 1 << LOOK] {
    let mut steps = [Step { symbols: [0; 2], bits: 0, first_bits: 0 }; 1 << LOOK];
    let mut bits = 0;
    while bits < steps.len() {
        let (symbol, length) = shortest(bits as u32, LOOK);
        if length > 0 {
            let left = LOOK - length;
            let (next, next_length) = shortest(bits as u32 & ((1 << left) - 1), left);
            steps[bits] = Step {
                symbols: [symbol, next],
                bits: (length + next_length) as u8,
                first_bits: length as u8,
            };
        }
        bits += 1;
    }
    steps
}

/// The symbol at the start of `have` bits, and the length of its code; 0 if it is longer.
const fn shortest(bits: u32, have: u32) -> (u8, u32) {
    let mut length = 1;
    while length <= have {
        let (code, class) = (bits >> (have - length), CLASSES[length as usize]);
        if code < class.first + class.count {
            return (RANKED[(class.rank + code - class.first) as usize] as u8, length);
        }
        length += 1;
    }
    (0, 0)
}

/// The symbol at the start of 64 bits, if its code has more than [`LOOK`] bits, and its length.
#[cold]
fn long(bits: u64) -> (u16, u32) {
    let mut length = LOOK as usize + 1;
    loop {
        let (code, class) = ((bits >> (64 - length)) as u32, CLASSES[length]);
        // The longest codes are complete: any 30 bits that are no shorter code are one of them.
        if code < class.first + class.count || length == LONGEST {
            return (RANKED[(class.rank + code - class.first) as usize], length as u32);
        }
        length += 1;
    }
}

/// Decode `code`, and append the text to `out`. `None`: it contains the end symbol, or its padding
/// is longer than 7 bits or not all ones; then `out` has some of the text.
pub(super) fn decode(code: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut at = out.len();
    // No code is shorter than 5 bits; and the second symbol of a step is always written.
    out.resize(at + code.len() * 8 / 5 + 2, 0);
    // The next `have` bits, from the top.
    let (mut bits, mut have, mut rest) = (0_u64, 0_u32, code);
    loop {
        if let Some((next, after)) = rest.split_first_chunk::<4>() {
            bits |= u64::from(u32::from_be_bytes(*next)) << (32 - have);
            (have, rest) = (have + 32, after);
        } else {
            while have <= 56
                && let Some((&next, after)) = rest.split_first()
            {
                bits |= u64::from(next) << (56 - have);
                (have, rest) = (have + 8, after);
            }
        }
        while have > 32 || (have >= LONGEST as u32 && rest.is_empty()) {
            let step = STEPS[(bits >> (64 - LOOK)) as usize];
            let used = if step.bits > 0 {
                out[at..at + 2].copy_from_slice(&step.symbols);
                at += 1 + usize::from(step.bits > step.first_bits);
                u32::from(step.bits)
            } else {
                let (symbol, length) = long(bits);
                out[at] = u8::try_from(symbol).ok()?;
                at += 1;
                length
            };
            bits <<= used;
            have -= used;
        }
        if rest.is_empty() {
            break;
        }
    }
    at = last(bits, have, out, at)?;
    out.truncate(at);
    Some(())
}

/// Decode the last `have` bits, fewer than the longest code has.
fn last(mut bits: u64, mut have: u32, out: &mut [u8], mut at: usize) -> Option<usize> {
    bits |= u64::MAX >> have;
    loop {
        let step = STEPS[(bits >> (64 - LOOK)) as usize];
        let (symbol, used) = match u32::from(step.first_bits) {
            0 => long(bits),
            length => (u16::from(step.symbols[0]), length),
        };
        if used > have {
            return (have < 8 && bits == u64::MAX).then_some(at);
        }
        debug_assert_ne!(symbol, END, "its code is longer");
        out[at] = symbol as u8;
        at += 1;
        // What comes in from the right continues the padding.
        bits = (bits << used) | ((1 << used) - 1);
        have -= used;
    }
}

/// The length of a text's code in bytes.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&b| usize::from(LENGTHS[usize::from(b)])).sum();
    bits.div_ceil(8)
}

/// Append the code of `text` to `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut have) = (0_u64, 0);
    for &byte in text {
        let length = LENGTHS[usize::from(byte)];
        bits = (bits << length) | u64::from(CODES[usize::from(byte)]);
        have += length;
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        let padding = 8 - have;
        out.push((bits << padding) as u8 | ((1 << padding) - 1));
    }
}
