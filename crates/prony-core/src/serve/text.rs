//! Times as text.

use std::fmt;
use std::str::FromStr;

use crate::units::Span;

impl FromStr for Span {
    type Err = String;
    fn from_str(t: &str) -> Result<Self, String> {
        let err = || format!("'{t}' is not a time");
        let at = t.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(t.len());
        let unit = match &t[at..] {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(err()),
        };
        let n: f64 = t[..at].parse().map_err(|_| err())?;
        if n >= 0.0 && n < 1e9 { Ok(Self::from_secs_f64(n * unit)) } else { Err(err()) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
            if n >= unit && n % unit == 0 {
                return write!(f, "{}{name}", n / unit);
            }
        }
        write!(f, "{n}ns")
    }
}
