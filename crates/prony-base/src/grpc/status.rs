//! The status of a call.

/// A status: 0 (`OK`) to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u8);

/// The names, by number.
const NAMES: [&str; Status::COUNT] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Status {
    /// The number of statuses.
    pub const COUNT: usize = 17;

    /// Success.
    pub const OK: Self = Self(0);
    /// The call was cancelled.
    pub const CANCELLED: Self = Self(1);
    /// Unknown, or not stated.
    pub const UNKNOWN: Self = Self(2);
    /// The request is invalid.
    pub const INVALID_ARGUMENT: Self = Self(3);
    /// The deadline has passed.
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    /// Something that the request names does not exist.
    pub const NOT_FOUND: Self = Self(5);
    /// The caller lacks a permission.
    pub const PERMISSION_DENIED: Self = Self(7);
    /// A quota or a limit is exceeded.
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    /// The server has no such method.
    pub const UNIMPLEMENTED: Self = Self(12);
    /// An error of the implementation.
    pub const INTERNAL: Self = Self(13);
    /// The server cannot serve now.
    pub const UNAVAILABLE: Self = Self(14);
    /// The caller is not authenticated.
    pub const UNAUTHENTICATED: Self = Self(16);

    /// The status with this number; `None` over 16.
    #[inline]
    pub fn new(number: u32) -> Option<Self> {
        ((number as usize) < Self::COUNT).then_some(Self(number as u8))
    }

    /// The value of `grpc-status`: `None` if it is not a number; an unknown number is `UNKNOWN`.
    #[inline]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let digits = (1..=9).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        let number = value.iter().fold(0, |n: u32, d| n.wrapping_mul(10).wrapping_add(number(*d)));
        digits.then(|| Self::new(number).unwrap_or(Self::UNKNOWN))
    }

    /// The status of a reply without `grpc-status`, by its status of HTTP.
    pub fn from_http(status: u16) -> Self {
        match status {
            400 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            429 | 502 | 503 | 504 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }

    /// Its number.
    #[inline]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name, such as `NOT_FOUND`.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// The status with this name, in upper or lower case, with `_` or `-`; or with this number.
    pub fn from_name(name: &str) -> Option<Self> {
        let same = |known: &&str| known.eq_ignore_ascii_case(&name.replace('-', "_"));
        match NAMES.iter().position(same) {
            Some(number) => Some(Self(number as u8)),
            None => name.parse().ok().and_then(Self::new),
        }
    }

    /// All statuses.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }
}

fn number(digit: u8) -> u32 {
    u32::from(digit.wrapping_sub(b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_statuses() {
        assert_eq!(Status::parse(b"0"), Some(Status::OK));
        assert_eq!(Status::parse(b"16"), Some(Status::UNAUTHENTICATED));
        assert_eq!(Status::parse(b"17"), Some(Status::UNKNOWN));
        for value in [&b""[..], b"-1", b"x", b"1 ", b"0000000001"] {
            assert_eq!(Status::parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn names_and_numbers_agree() {
        for status in Status::all() {
            assert_eq!(Status::from_name(status.name()), Some(status));
            assert_eq!(Status::from_name(&status.number().to_string()), Some(status));
        }
        assert_eq!(Status::from_name("deadline-exceeded"), Some(Status::DEADLINE_EXCEEDED));
        assert_eq!(Status::NOT_FOUND.name(), "NOT_FOUND");
        assert_eq!(Status::UNAVAILABLE.name(), "UNAVAILABLE");
        assert_eq!((Status::from_name("17"), Status::from_name("OKAY")), (None, None));
    }

    #[test]
    fn a_reply_of_http_has_a_status() {
        assert_eq!(Status::from_http(401), Status::UNAUTHENTICATED);
        assert_eq!(Status::from_http(503), Status::UNAVAILABLE);
        assert_eq!(Status::from_http(404), Status::UNIMPLEMENTED);
        assert_eq!(Status::from_http(200), Status::UNKNOWN);
    }
}
