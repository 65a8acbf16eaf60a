//! What the fuzz target of cookies does with its input.

use prony_base::units::Nanos;
use prony_plan::plan::Cookies;
use prony_plan::script::{Jar, Origin};

/// Fuzz target: cookies. The first line is the target of the requests (a host and a path), the
/// others are values of Set-Cookie headers. Only cookies that were set are sent, and a limited
/// number of them.
///
/// # Panics
/// If not.
pub(crate) fn cookies(data: &[u8]) {
    let mut lines = data.split(|&b| b == b'\n');
    let target = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let (authority, path) = target.split_at(target.find('/').unwrap_or(target.len()));
    // The codec lets no control characters through, so they are replaced here.
    let plain = |line: &[u8]| -> Vec<u8> {
        line.iter().map(|&b| if b.is_ascii_control() && b != b'\t' { b' ' } else { b }).collect()
    };
    let lines: Vec<_> = lines.map(plain).collect();
    for kind in [Cookies::Session, Cookies::Always] {
        let mut jar = Jar::new(kind);
        for (i, line) in lines.iter().enumerate() {
            let origin = Origin { authority, path: path.as_bytes(), secure: i % 2 == 0 };
            let date = lines.get(i / 2).map(Vec::as_slice);
            jar.set(line, origin, date, Nanos(i as u64));
            let mut out = Vec::new();
            jar.write(origin, Nanos(i as u64), &mut out);
            assert!(!out.iter().any(|b| b.is_ascii_control() && *b != b'\t'), "{out:?}");
            assert!(out.len() <= 180 * (4096 + 3), "{} bytes of cookies", out.len());
            let set: usize = lines[..=i].iter().map(|line| line.len() + 3).sum();
            assert!(out.len() <= set, "more is sent than was set");
        }
    }
}
