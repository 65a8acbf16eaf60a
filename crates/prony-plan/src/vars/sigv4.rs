//! Signatures of requests for AWS: Signature Version 4.
//!
//! What is signed is described in "Create a signed AWS API request" of AWS's documentation: a
//! canonical form of the request, with the digest of its body, and the date.

use std::fmt;
use std::io::Write as _;
use std::ops::Range;

use ring::{digest, hmac};
use time::UtcDateTime;

use prony_base::secret::Secret;

const ALGORITHM: &[u8] = b"AWS4-HMAC-SHA256";
const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;

/// Headers that are not signed, because they are of the connection, because those who pass a
/// request on change them, or because prony adds to them later.
const NOT_SIGNED: [&str; 13] = [
    "authorization",
    "connection",
    "cookie",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-amz-date",
    "x-amzn-trace-id",
];

/// The services whose paths are signed as they are sent.
const VERBATIM: [&str; 3] = ["s3", "s3-object-lambda", "s3express"];

/// The SHA-256 digest of a body, in lower-case hexadecimal digits.
pub type BodyDigest = [u8; 64];

/// Signs requests with one key.
#[derive(Clone)]
pub struct Signer {
    region: String,
    service: String,
    access_key: Secret,
    secret_key: Secret,
    token: Option<Secret>,
    /// The key of a day, which is derived once, and that day since 1970.
    daily: Option<(u64, hmac::Key)>,
    /// Scratch: names and values of the headers, or of the parameters of a query.
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Scratch: the canonical request.
    canonical: Vec<u8>,
}

/// A name and its value in the scratch of a signer.
#[derive(Clone, Debug)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

/// A request, as it is sent.
#[derive(Clone, Copy, Debug)]
pub struct ToSign<'a> {
    /// The method.
    pub method: &'a [u8],
    /// Path and query.
    pub path: &'a [u8],
    /// The host, unless a header has it.
    pub host: &'a [u8],
    /// The digest of its body.
    pub body: &'a BodyDigest,
}

/// The digest of a body.
pub fn body_digest(body: &[u8]) -> BodyDigest {
    hex(digest::digest(&digest::SHA256, body).as_ref())
}

impl Signer {
    /// A signer for a service in a region, with the parts of a key.
    pub fn new(region: &str, service: &str, key: (Secret, Secret, Option<Secret>)) -> Self {
        let (access_key, secret_key, token) = key;
        Self {
            region: region.to_owned(),
            service: service.to_owned(),
            access_key,
            secret_key,
            token,
            daily: None,
            text: Vec::new(),
            fields: Vec::new(),
            canonical: Vec::new(),
        }
    }

    /// Append the header lines that sign a request, each with its line break. `headers` are those
    /// that it has otherwise; the time is in nanoseconds since 1970.
    pub fn sign<'a>(
        &mut self,
        request: ToSign<'a>,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) {
        let unix_s = unix_ns / NS_PER_S;
        let date = date_of(unix_s);
        self.canonical.clear();
        for part in [request.method, b"\n"] {
            self.canonical.extend_from_slice(part);
        }
        self.put_path(request.path);
        let payload = self.collect(request, headers, &date, out);
        self.put_headers(payload.as_deref().unwrap_or(request.body));
        let digest = hex(digest::digest(&digest::SHA256, &self.canonical).as_ref());
        // What is signed in the end.
        self.canonical.clear();
        let text = &mut self.canonical;
        for part in [ALGORITHM, b"\n", &date, b"\n"] {
            text.extend_from_slice(part);
        }
        put_scope(&date[..8], &self.region, &self.service, text);
        text.push(b'\n');
        text.extend_from_slice(&digest);
        let scope = [&*self.region, &*self.service];
        let key = daily_key(&mut self.daily, (unix_s, &date), &self.secret_key, scope);
        let signature = hex(hmac::sign(key, text).as_ref());
        for part in [&b"Authorization: "[..], ALGORITHM, b" Credential="] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(self.access_key.expose().as_bytes());
        out.push(b'/');
        put_scope(&date[..8], &self.region, &self.service, out);
        out.extend_from_slice(b", SignedHeaders=");
        put_names(&self.text, &self.fields, out);
        out.extend_from_slice(b", Signature=");
        out.extend_from_slice(&signature);
        out.extend_from_slice(b"\r\n");
    }

    /// Append the canonical path and the canonical query, each with its line break.
    fn put_path(&mut self, path: &[u8]) {
        let end = path.iter().position(|&byte| byte == b'?').unwrap_or(path.len());
        let (path, query) = path.split_at(end);
        match VERBATIM.contains(&&*self.service) {
            true => self.canonical.extend_from_slice(path),
            false => put_normal(path, &mut self.text, &mut self.canonical),
        }
        self.canonical.push(b'\n');
        self.text.clear();
        self.fields.clear();
        let pairs = query.get(1..).unwrap_or_default().split(|&byte| byte == b'&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let middle = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let name = put_decoded(&pair[..middle], &mut self.text);
            let value = put_decoded(pair.get(middle + 1..).unwrap_or_default(), &mut self.text);
            self.fields.push(Field { name, value });
        }
        let text = &self.text;
        let key = |field: &Field| (&text[field.name.clone()], &text[field.value.clone()]);
        self.fields.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                self.canonical.push(b'&');
            }
            self.canonical.extend_from_slice(&text[field.name.clone()]);
            self.canonical.push(b'=');
            self.canonical.extend_from_slice(&text[field.value.clone()]);
        }
        self.canonical.push(b'\n');
    }

    /// Collect the headers to sign, in order; append those that are added to the request. Returns
    /// the digest of the body that a header of the user has instead of the true one.
    fn collect<'a>(
        &mut self,
        request: ToSign<'a>,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        date: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Vec<u8>> {
        const DIGEST: &str = "x-amz-content-sha256";
        self.text.clear();
        self.fields.clear();
        let mut has_host = false;
        let mut payload = None;
        for (name, value) in headers {
            let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
            if NOT_SIGNED.iter().any(&is) {
                continue;
            }
            has_host |= is(&"host");
            if is(&DIGEST) {
                payload = Some(value.trim_ascii().to_vec());
            }
            self.put_field(name, value);
        }
        if !has_host {
            self.put_field(b"host", request.host);
        }
        let mut add = |signer: &mut Self, name: &str, value: &[u8]| {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
            signer.put_field(name.as_bytes(), value);
        };
        add(self, "X-Amz-Date", date);
        if VERBATIM.contains(&&*self.service) && payload.is_none() {
            add(self, "X-Amz-Content-Sha256", request.body);
        }
        if let Some(token) = self.token.take() {
            add(self, "X-Amz-Security-Token", token.expose().as_bytes());
            self.token = Some(token);
        }
        let text = &self.text;
        let key = |field: &Field| (&text[field.name.clone()], field.name.start);
        self.fields.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        payload
    }

    /// Add a header: its name in lower case, and its value with single blanks.
    fn put_field(&mut self, name: &[u8], value: &[u8]) {
        let start = self.text.len();
        self.text.extend(name.iter().map(u8::to_ascii_lowercase));
        let name = start..self.text.len();
        let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for word in words {
            if self.text.len() > name.end {
                self.text.push(b' ');
            }
            self.text.extend_from_slice(word);
        }
        let value = name.end..self.text.len();
        self.fields.push(Field { name, value });
    }

    /// Append the canonical headers, their names, and the digest of the body.
    fn put_headers(&mut self, payload: &[u8]) {
        let (text, out) = (&self.text, &mut self.canonical);
        for (index, field) in self.fields.iter().enumerate() {
            let name = &text[field.name.clone()];
            let before = index.checked_sub(1).map(|before| &text[self.fields[before].name.clone()]);
            // The values of one name are one line.
            if before == Some(name) {
                out.push(b',');
            } else {
                if index > 0 {
                    out.push(b'\n');
                }
                out.extend_from_slice(name);
                out.push(b':');
            }
            out.extend_from_slice(&text[field.value.clone()]);
        }
        out.extend_from_slice(b"\n\n");
        put_names(text, &self.fields, out);
        out.push(b'\n');
        out.extend_from_slice(payload);
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { region, service, .. } = self;
        f.debug_struct("Signer")
            .field("region", region)
            .field("service", service)
            .finish_non_exhaustive()
    }
}

/// Append the names of the headers, each once.
fn put_names(text: &[u8], fields: &[Field], out: &mut Vec<u8>) {
    let mut last: &[u8] = b"";
    for field in fields {
        let name = &text[field.name.clone()];
        if name == last {
            continue;
        }
        if !last.is_empty() {
            out.push(b';');
        }
        out.extend_from_slice(name);
        last = name;
    }
}

/// Append what a key is for: the day, the region, the service.
fn put_scope(day: &[u8], region: &str, service: &str, out: &mut Vec<u8>) {
    for part in [day, b"/", region.as_bytes(), b"/", service.as_bytes(), b"/aws4_request"] {
        out.extend_from_slice(part);
    }
}

/// The key of the day of this time. It is derived from the secret once a day.
fn daily_key<'k>(
    daily: &'k mut Option<(u64, hmac::Key)>,
    (unix_s, date): (u64, &[u8]),
    secret: &Secret,
    [region, service]: [&str; 2],
) -> &'k hmac::Key {
    let day = unix_s / S_PER_DAY;
    if daily.as_ref().is_none_or(|(of, _)| *of != day) {
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let mut last = key(&[b"AWS4", secret.expose().as_bytes()].concat());
        for part in [&date[..8], region.as_bytes(), service.as_bytes(), b"aws4_request"] {
            last = key(hmac::sign(&last, part).as_ref());
        }
        *daily = Some((day, last));
    }
    &daily.as_ref().expect("it is the key of this day").1
}

/// The date of a signature: `20150830T123600Z`.
fn date_of(unix_s: u64) -> [u8; 16] {
    let at = i64::try_from(unix_s).ok().and_then(|s| UtcDateTime::from_unix_timestamp(s).ok());
    let at = at.unwrap_or(UtcDateTime::MAX);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.as_hms();
    let month = u8::from(month);
    let mut date = [b'0'; 16];
    write!(&mut date[..], "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
        .expect("there is room for it");
    date
}

/// 32 bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    digits
}

/// Append a byte, percent-encoded unless it is unreserved (RFC 3986, 2.3).
fn put_encoded(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
        _ => {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        }
    }
}

/// Append a name or a value of a query in the only form that is signed: decoded, and encoded again.
fn put_decoded(text: &[u8], out: &mut Vec<u8>) -> Range<usize> {
    let start = out.len();
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escaped = (byte == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?)).flatten();
        match (byte, escaped) {
            (_, Some(escaped)) => {
                put_encoded(escaped as u8, out);
                at += 2;
            }
            // As in forms.
            (b'+', None) => put_encoded(b' ', out),
            (_, None) => put_encoded(byte, out),
        }
        at += 1;
    }
    start..out.len()
}

/// Append a path without empty segments, `.` and `..`, with its segments encoded once more.
fn put_normal(path: &[u8], kept: &mut Vec<u8>, out: &mut Vec<u8>) {
    kept.clear();
    for segment in path.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => kept.truncate(kept.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
            _ => {
                kept.push(b'/');
                kept.extend_from_slice(segment);
            }
        }
    }
    if kept.is_empty() || path.ends_with(b"/") {
        kept.push(b'/');
    }
    for &byte in kept.iter() {
        if byte == b'/' { out.push(byte) } else { put_encoded(byte, out) }
    }
}

#[cfg(test)]
mod tests;
