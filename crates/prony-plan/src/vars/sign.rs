//! Digests and signatures of values: SHA-256, HMAC-SHA-256, JSON Web Tokens.

use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::{digest, hmac};

/// How the bytes of a digest are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Lowercase hexadecimal digits.
    Hex,
    /// Base64 with padding (RFC 4648, 4).
    Base64,
    /// Base64 with the alphabet for URLs, without padding (RFC 4648, 5).
    Base64Url,
}

impl Encoding {
    /// The encoding of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "hex" => Some(Self::Hex),
            "base64" => Some(Self::Base64),
            "base64url" => Some(Self::Base64Url),
            _ => None,
        }
    }

    /// Append bytes in this encoding.
    fn write(self, bytes: &[u8], out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        match self {
            Self::Hex => out.extend(bytes.iter().flat_map(|&byte| {
                [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
            })),
            Self::Base64 => base64(&STANDARD, bytes, out),
            Self::Base64Url => base64(&URL_SAFE_NO_PAD, bytes, out),
        }
    }
}

/// Append bytes in base64, in memory that `out` keeps.
fn base64(engine: &impl base64::Engine, bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let length = engine.encode_slice(bytes, &mut out[start..]).expect("the buffer is long enough");
    out.truncate(start + length);
}

/// Append the SHA-256 digest of a value.
pub(super) fn sha256(value: &[u8], encoding: Encoding, out: &mut Vec<u8>) {
    encoding.write(digest::digest(&digest::SHA256, value).as_ref(), out);
}

/// Append the HMAC-SHA-256 (RFC 2104) of a value.
pub(super) fn hmac_sha256(key: &hmac::Key, value: &[u8], encoding: Encoding, out: &mut Vec<u8>) {
    encoding.write(hmac::sign(key, value).as_ref(), out);
}

/// A key for [`hmac_sha256`] and [`jwt`].
pub(super) fn key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

/// Append a JSON Web Token with these claims, signed with HMAC-SHA-256 (RFC 7519, HS256).
pub(super) fn jwt(key: &hmac::Key, claims: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    Encoding::Base64Url.write(br#"{"alg":"HS256","typ":"JWT"}"#, out);
    out.push(b'.');
    Encoding::Base64Url.write(claims, out);
    let tag = hmac::sign(key, &out[start..]);
    out.push(b'.');
    Encoding::Base64Url.write(tag.as_ref(), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"<".to_vec();
        write(&mut out);
        String::from_utf8(out).expect("text").split_off(1)
    }

    /// The examples of FIPS 180-2 (appendix B) and RFC 4231 (test cases 1, 2 and 6).
    #[test]
    fn digests_are_those_of_the_standards() {
        use Encoding::{Base64, Base64Url, Hex};
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text(|out| sha256(b"", Hex, out)), empty);
        assert_eq!(text(|out| sha256(b"abc", Hex, out)), abc);
        let encoded = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        assert_eq!(text(|out| sha256(b"abc", Base64, out)), encoded);
        let encoded = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";
        assert_eq!(text(|out| sha256(b"abc", Base64Url, out)), encoded);
        let long =
            (vec![0xaa; 131], &b"Test Using Larger Than Block-Size Key - Hash Key First"[..]);
        for ((bytes, value), tag) in [
            (
                (vec![0x0b; 20], &b"Hi There"[..]),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                (b"Jefe".to_vec(), b"what do ya want for nothing?"),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (long, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
        ] {
            assert_eq!(text(|out| hmac_sha256(&key(&bytes), value, Hex, out)), tag);
        }
    }

    /// The example of jwt.io: its key is `your-256-bit-secret`.
    #[test]
    fn tokens_are_signed_as_others_sign_them() {
        let claims = br#"{"sub":"1234567890","name":"John Doe","iat":1516239022}"#;
        assert_eq!(
            text(|out| jwt(&key(b"your-256-bit-secret"), claims, out)),
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l\
             IiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
        );
    }
}
