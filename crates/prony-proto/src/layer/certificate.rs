//! Reads the key size, the times and the purpose from a server's certificate.

/// Object identifiers of curves (RFC 5480, 2.1.1.1) and of Ed25519 (RFC 8410, 3), with the bits of
/// their keys.
const CURVES: [(&[u8], u32); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 256),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], 384),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], 521),
    (&[0x2b, 0x65, 0x70], 253),
];

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
/// `[0]`, the version, which is optional.
const VERSION: u8 = 0xa0;
/// `[3]`, the extensions.
const EXTENSIONS: u8 = 0xa3;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The extension with purposes (RFC 5280, 4.2.1.12), and those of servers: theirs, and any.
const PURPOSES: &[u8] = &[0x55, 0x1d, 0x25];
const OF_SERVERS: [&[u8]; 2] =
    [&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01], &[0x55, 0x1d, 0x25, 0x00]];

/// What a certificate says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The time for which it is valid, in seconds since 1970.
    pub(super) from: i64,
    /// The last second of it.
    pub(super) until: i64,
    /// Whether its purposes, if it names any, have that of a server.
    pub(super) is_for_servers: bool,
}

/// What a certificate (X.509, DER) says about itself. `None` if it is malformed.
pub(super) fn facts(certificate: &[u8]) -> Option<Facts> {
    let mut fields = Reader(certificate).expect(SEQUENCE)?.expect(SEQUENCE)?;
    if fields.0.first() == Some(&VERSION) {
        fields.expect(VERSION)?;
    }
    fields.expect(INTEGER)?;
    // Signature algorithm, issuer.
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    let mut validity = fields.expect(SEQUENCE)?;
    let (from, until) = (validity.time()?, validity.time()?);
    // Subject, key.
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    let mut is_for_servers = true;
    while let Some(&tag) = fields.0.first() {
        let mut field = fields.expect(tag)?;
        if tag != EXTENSIONS {
            continue;
        }
        let mut extensions = field.expect(SEQUENCE)?;
        while !extensions.0.is_empty() {
            let mut extension = extensions.expect(SEQUENCE)?;
            if extension.expect(OBJECT_ID)?.0 != PURPOSES {
                continue;
            }
            if extension.0.first() == Some(&BOOLEAN) {
                extension.expect(BOOLEAN)?;
            }
            let mut purposes = extension.expect(OCTET_STRING)?.expect(SEQUENCE)?;
            is_for_servers = false;
            while !purposes.0.is_empty() {
                is_for_servers |= OF_SERVERS.contains(&purposes.expect(OBJECT_ID)?.0);
            }
        }
    }
    Some(Facts { from, until, is_for_servers })
}

/// The size in bits of the public key in a certificate (X.509, DER): of the modulus of an RSA key,
/// else of the curve. `None` if it cannot be found.
pub(super) fn key_bits(certificate: &[u8]) -> Option<u32> {
    let mut whole = Reader(certificate).expect(SEQUENCE)?;
    let mut fields = whole.expect(SEQUENCE)?;
    if fields.0.first() == Some(&VERSION) {
        fields.expect(VERSION)?;
    }
    fields.expect(INTEGER)?;
    // Signature algorithm, issuer, validity, subject.
    for _ in 0..4 {
        fields.expect(SEQUENCE)?;
    }
    let mut info = fields.expect(SEQUENCE)?;
    let mut algorithm = info.expect(SEQUENCE)?;
    let first = algorithm.expect(OBJECT_ID)?.0;
    let curve = algorithm.expect(OBJECT_ID).map_or(first, |curve| curve.0);
    if let Some(&(_, bits)) = CURVES.iter().find(|(id, _)| *id == curve) {
        return Some(bits);
    }
    let (0, key) = info.expect(BIT_STRING)?.0.split_first()? else { return None };
    let modulus = Reader(key).expect(SEQUENCE)?.expect(INTEGER)?.0;
    let start = modulus.iter().position(|&byte| byte != 0)?;
    let bytes = u32::try_from(modulus.len() - start).ok()?;
    Some(bytes * 8 - modulus[start].leading_zeros())
}

/// Values of DER, one after another.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next value, which must be a time, in seconds since 1970: RFC 5280 has them in UTC, with
    /// seconds.
    fn time(&mut self) -> Option<i64> {
        let tag = *self.0.first()?;
        let text = str::from_utf8(self.expect(tag)?.0).ok()?.strip_suffix('Z')?;
        let digits = match tag {
            UTC_TIME => 2,
            GENERALIZED_TIME => 4,
            _ => return None,
        };
        if text.len() != digits + 10 || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number = |from: usize, length: usize| text[from..from + length].parse::<i64>().ok();
        let year = match (tag, number(0, digits)?) {
            (UTC_TIME, year @ 50..) => 1_900 + year,
            (UTC_TIME, year) => 2_000 + year,
            (_, year) => year,
        };
        let two = |nth: usize| number(digits + 2 * nth, 2);
        let (month, day) = (two(0)?, two(1)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        Some(days(year, month, day) * 86_400 + two(2)? * 3_600 + two(3)? * 60 + two(4)?)
    }

    /// The next value, which must be of this kind.
    fn expect(&mut self, kind: u8) -> Option<Self> {
        let (&[tag, length], rest) = self.0.split_first_chunk()?;
        let (length, rest) = if length < 0x80 {
            (usize::from(length), rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            if bytes.len() > 3 {
                return None;
            }
            (bytes.iter().fold(0, |n, &byte| n << 8 | usize::from(byte)), rest)
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (tag == kind).then_some(Self(value))
    }
}

/// The days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March, so that a leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // From 0000-03-01 to 1970-01-01 there are 719,468 days.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of DER.
    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let value = parts.concat();
        let n = value.len();
        let mut out = vec![tag];
        match n {
            0..0x80 => out.push(n as u8),
            0x80..0x100 => out.extend([0x81, n as u8]),
            _ => out.extend([0x82, (n >> 8) as u8, n as u8]),
        }
        out.extend(value);
        out
    }

    /// A certificate with this algorithm and key.
    fn certificate(version: bool, algorithm: &[&[u8]], key: &[u8]) -> Vec<u8> {
        let empty = der(SEQUENCE, &[]);
        let version = if version { der(VERSION, &[&der(INTEGER, &[&[2]])]) } else { Vec::new() };
        let serial = der(INTEGER, &[&[1]]);
        let info = der(SEQUENCE, &[&der(SEQUENCE, algorithm), &der(BIT_STRING, &[&[0], key])]);
        let fields = [&version[..], &serial, &empty, &empty, &empty, &empty, &info];
        der(SEQUENCE, &[&der(SEQUENCE, &fields), &empty])
    }

    #[test]
    fn reads_the_size_of_each_kind_of_key() {
        let rsa = der(OBJECT_ID, &[&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]]);
        for (bytes, first, bits) in [(256, 0x80, 2_048), (256, 0x40, 2_047), (384, 0xff, 3_072)] {
            let mut modulus = vec![0, first];
            modulus.resize(1 + bytes, 0x55);
            let key = der(SEQUENCE, &[&der(INTEGER, &[&modulus]), &der(INTEGER, &[&[1, 0, 1]])]);
            for version in [false, true] {
                let made = certificate(version, &[&rsa, &[0x05, 0x00]], &key);
                assert_eq!(key_bits(&made), Some(bits));
            }
        }
        let ec = der(OBJECT_ID, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]]);
        let p384 = der(OBJECT_ID, &[CURVES[1].0]);
        assert_eq!(key_bits(&certificate(true, &[&ec, &p384], &[4; 97])), Some(384));
        let ed25519 = der(OBJECT_ID, &[CURVES[3].0]);
        assert_eq!(key_bits(&certificate(true, &[&ed25519], &[7; 32])), Some(253));
    }

    #[test]
    fn knows_the_calendar() {
        for ((year, month, day), wanted) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2026, 11, 28), 20_785),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days(year, month, day), wanted, "{year}-{month}-{day}");
        }
        let time = |tag, text: &str| Reader(&der(tag, &[text.as_bytes()])).time();
        assert_eq!(time(UTC_TIME, "700101000001Z"), Some(1));
        assert_eq!(time(UTC_TIME, "261128010203Z"), Some(20_785 * 86_400 + 3_723));
        assert_eq!(time(GENERALIZED_TIME, "21000301000000Z"), Some(47_541 * 86_400));
        for wrong in ["701301000000Z", "70010100000Z", "7001010000001", "7a0101000000Z", ""] {
            assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn finds_no_key_in_malformed_certificates() {
        let ed25519 = der(OBJECT_ID, &[CURVES[3].0]);
        let whole = certificate(true, &[&ed25519], &[7; 32]);
        for cut in 0..whole.len() {
            assert_eq!(key_bits(&whole[..cut]), None, "cut at {cut}");
        }
        let other = der(OBJECT_ID, &[&[1, 2, 3]]);
        assert_eq!(key_bits(&certificate(true, &[&other], &[7; 32])), None);
    }
}
