//! Cookie jars: that of RFC 6265, and a simple one that sends all cookies with all requests.
//!
//! The crate `cookie` parses the headers. `cookie_store`, the usual jar for it, reads the wall
//! clock and iterates over hash maps in random order, so the jar is implemented here. It uses only
//! the time of the run; an absolute date counts relative to the `Date` header of the reply.

use cookie::Cookie;

use crate::plan::Cookies;
use prony_base::units::{Nanos, Span};

/// The maximum number of cookies in a jar; another one evicts the oldest.
const MOST: usize = 180;
/// A longer cookie (name and value, in bytes) is ignored. Browsers have both limits.
const LONGEST: usize = 4096;
/// In a reply without `Date`, an absolute date has passed if it is before this one (2020-01-01, in
/// seconds of the Unix epoch): servers without a clock expire cookies with dates long past.
const LONG_GONE: i64 = 1_577_836_800;

/// The cookies of a session, or of several.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    /// Whether cookies are sent with every request; path and domain are ignored.
    always: bool,
    /// In the order in which they are sent.
    kept: Vec<Kept>,
    /// The number of cookies that were ever stored.
    created: u64,
}

/// The target of a request, which decides who may set a cookie and who gets it.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The host, with or without a port.
    pub authority: &'a str,
    /// The request's path; a query is ignored.
    pub path: &'a [u8],
    /// Whether the connection is encrypted.
    pub secure: bool,
}

#[derive(Clone, Debug)]
struct Kept {
    name: Vec<u8>,
    /// As it is sent, `name=value`.
    pair: Vec<u8>,
    domain: String,
    /// Whether hosts under the domain get it too.
    subdomains: bool,
    path: Vec<u8>,
    secure: bool,
    expires: Nanos,
    created: u64,
}

impl Jar {
    /// An empty jar.
    pub fn new(kind: Cookies) -> Self {
        Self { always: kind == Cookies::Always, ..Self::default() }
    }

    /// Remove all cookies.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.created = 0;
    }

    /// Whether there are no cookies.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Store the cookie of a Set-Cookie header. `date` is the value of the reply's Date header. As
    /// the RFC requires, malformed cookies and those for other hosts are ignored.
    pub fn set(&mut self, line: &[u8], origin: Origin<'_>, date: Option<&[u8]>, now: Nanos) {
        if self.always {
            self.set_always(line);
        } else if let Some((kept, gone)) = read(line, origin, date, now) {
            self.put(kept, gone);
        }
    }

    /// Append the value of the Cookie header for a request; nothing if no cookie matches.
    pub fn write(&mut self, origin: Origin<'_>, now: Nanos, out: &mut Vec<u8>) {
        if self.kept.is_empty() {
            return;
        }
        self.kept.retain(|kept| kept.expires > now);
        let host = host_of(origin.authority);
        let path = path_of(origin.path);
        let start = out.len();
        for kept in &self.kept {
            if self.always || kept.belongs_to(host, path, origin.secure) {
                if out.len() > start {
                    out.extend_from_slice(b"; ");
                }
                out.extend_from_slice(&kept.pair);
            }
        }
    }

    /// Store the text up to the first semicolon unchecked. A later cookie with the same name
    /// replaces an earlier one.
    fn set_always(&mut self, line: &[u8]) {
        let pair = line.split(|&b| b == b';').next().unwrap_or(line).trim_ascii();
        if pair.is_empty() || pair.len() > LONGEST {
            return;
        }
        let name = pair.split(|&b| b == b'=').next().unwrap_or(pair).trim_ascii_end();
        self.created += 1;
        let kept = Kept {
            name: name.to_vec(),
            pair: pair.to_vec(),
            domain: String::new(),
            subdomains: true,
            path: Vec::new(),
            secure: false,
            expires: Nanos::MAX,
            created: self.created,
        };
        self.put(kept, false);
    }

    fn put(&mut self, mut kept: Kept, gone: bool) {
        let same = |k: &Kept| k.name == kept.name && k.domain == kept.domain && k.path == kept.path;
        if let Some(old) = self.kept.iter().position(same) {
            if gone {
                self.kept.remove(old);
            } else {
                kept.created = self.kept[old].created;
                self.kept[old] = kept;
            }
            return;
        }
        if gone {
            return;
        }
        if self.kept.len() == MOST {
            let oldest = (0..MOST).min_by_key(|&i| self.kept[i].created);
            self.kept.remove(oldest.expect("a full jar is not empty"));
        }
        self.created += 1;
        kept.created = self.created;
        // RFC 6265, 5.4: longer paths first, then older cookies. In the simple jar, paths are
        // empty.
        let at = self.kept.partition_point(|k| k.path.len() >= kept.path.len());
        self.kept.insert(at, kept);
    }
}

impl Kept {
    fn belongs_to(&self, host: &str, path: &[u8], secure: bool) -> bool {
        let domain = if self.subdomains {
            domain_matches(host, &self.domain)
        } else {
            host.eq_ignore_ascii_case(&self.domain)
        };
        domain && path_matches(path, &self.path) && (secure || !self.secure)
    }
}

/// The cookie of a Set-Cookie line, and whether it has expired already, so that it only removes one
/// (RFC 6265, 5.3).
fn read(line: &[u8], origin: Origin<'_>, date: Option<&[u8]>, now: Nanos) -> Option<(Kept, bool)> {
    let cookie = Cookie::parse(std::str::from_utf8(line).ok()?).ok()?;
    let (name, value) = cookie.name_value();
    let control = |text: &str| text.bytes().any(|b| b.is_ascii_control() && b != b'\t');
    if name.len() + value.len() > LONGEST || control(name) || control(value) {
        return None;
    }
    let host = host_of(origin.authority);
    let subdomains = cookie.domain().is_some_and(|domain| !domain.is_empty());
    let domain = match cookie.domain() {
        Some(domain) if subdomains && domain_matches(host, domain) => domain,
        Some(_) if subdomains => return None,
        _ => host,
    };
    let secure = cookie.secure() == Some(true);
    if secure && !origin.secure {
        return None;
    }
    let path = match cookie.path() {
        Some(path) if path.starts_with('/') => path.as_bytes(),
        _ => default_path(path_of(origin.path)),
    };
    let expires = expiry(&cookie, date, now);
    let kept = Kept {
        name: name.as_bytes().to_vec(),
        pair: [name.as_bytes(), b"=", value.as_bytes()].concat(),
        domain: domain.to_ascii_lowercase(),
        subdomains,
        path: path.to_vec(),
        secure,
        expires,
        created: 0,
    };
    Some((kept, expires <= now))
}

/// When a cookie expires, in the run's time.
fn expiry(cookie: &Cookie<'_>, date: Option<&[u8]>, now: Nanos) -> Nanos {
    let after = |seconds: i64| match u64::try_from(seconds) {
        Ok(seconds) if seconds > 0 => {
            let span = Span(seconds.saturating_mul(1_000_000_000));
            Nanos(now.0.saturating_add(span.0))
        }
        _ => now,
    };
    if let Some(age) = cookie.max_age() {
        return after(age.whole_seconds());
    }
    let Some(end) = cookie.expires_datetime() else { return Nanos::MAX };
    match date.and_then(|date| std::str::from_utf8(date).ok()).and_then(seconds_of_date) {
        Some(today) => after(end.unix_timestamp().saturating_sub(today)),
        None if end.unix_timestamp() < LONG_GONE => now,
        None => Nanos::MAX,
    }
}

/// Parse an HTTP date like that of a cookie. In seconds of the Unix epoch.
fn seconds_of_date(date: &str) -> Option<i64> {
    let cookie = Cookie::parse(format!("d=; Expires={date}")).ok()?;
    cookie.expires_datetime().map(|time| time.unix_timestamp())
}

/// The host of an authority, without port and brackets.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// The path without its query.
fn path_of(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|&b| b == b'?' || b == b'#').unwrap_or(target.len());
    &target[..end]
}

/// RFC 6265, 5.1.3. A numeric address matches only itself.
fn domain_matches(host: &str, domain: &str) -> bool {
    if host.eq_ignore_ascii_case(domain) {
        return true;
    }
    let numeric = host.contains(':') || host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let (host, domain) = (host.as_bytes(), domain.as_bytes());
    !numeric
        && host.len() > domain.len()
        && host[host.len() - domain.len()..].eq_ignore_ascii_case(domain)
        && host[host.len() - domain.len() - 1] == b'.'
}

/// RFC 6265, 5.1.4.
fn path_matches(request: &[u8], path: &[u8]) -> bool {
    request.starts_with(path)
        && (request.len() == path.len()
            || path.ends_with(b"/")
            || request.get(path.len()) == Some(&b'/'))
}

/// The default path of a cookie: that of the request, up to its last slash.
fn default_path(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&b| b == b'/') {
        Some(last) if last > 0 && path[0] == b'/' => &path[..last],
        _ => b"/",
    }
}

#[cfg(test)]
mod tests;
