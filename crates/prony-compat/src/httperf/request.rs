//! The bytes of httperf's requests.

use std::path::Path;
use std::sync::Arc;

use prony_plan::plan::{CallSpec, Shared};
use prony_plan::target::parse_header;
use prony_run::files::{self, FILE_MAX};

use super::options::Opts;
use super::values::Refusal;

/// What all requests to one server have in common.
#[derive(Clone, Debug)]
pub(super) struct Template {
    endpoint: u32,
    authority: Arc<str>,
    headers: Shared<(String, String)>,
    /// Lines that are not well-formed headers, sent unchanged.
    raw: Vec<u8>,
}

/// httperf's default User-Agent.
const USER_AGENT: &str = "httperf/0.9.0";

impl Template {
    /// What requests to this server have in common. `added` is the text of additional headers.
    pub(super) fn new(o: &Opts, endpoint: u32, server: &str, added: &[u8]) -> Self {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = Vec::new();
        let agent = o.more.user_agent.as_deref().unwrap_or(USER_AGENT);
        if !agent.is_empty() {
            headers.push(header("User-Agent", agent));
        }
        if o.http_version == (1, 0) {
            headers.push(header("Connection", "keep-alive"));
        }
        // The name may contain line ends, which a header must not.
        let authority = o.server_name.as_deref().unwrap_or(server);
        let authority = authority.split(['\r', '\n']).next().unwrap_or_default();
        if !o.no_host_hdr {
            headers.push(header("Host", authority));
        }
        let mut raw = Vec::new();
        match lines(added) {
            Some(more) => headers.extend(more),
            None => raw = added.to_vec(),
        }
        Self { endpoint, authority: authority.into(), headers: headers.into(), raw }
    }

    /// A request with additional headers `own`.
    pub(super) fn call(
        &self,
        method: &str,
        uri: &str,
        body: Vec<u8>,
        own: &[(String, String)],
    ) -> CallSpec {
        let (mut headers, mut raw) = (self.headers.clone(), self.raw.clone());
        if !body.is_empty() {
            let length = body.len().to_string();
            if raw.is_empty() {
                headers.push(("Content-length".into(), length));
            } else {
                raw.extend_from_slice(format!("Content-length: {length}\r\n").as_bytes());
            }
        }
        own.iter().cloned().for_each(|header| headers.push(header));
        CallSpec {
            endpoint: self.endpoint,
            method: CallSpec::method_of(method),
            path: uri.into(),
            authority: self.authority.clone(),
            headers,
            body,
            bare: true,
            raw,
            ..CallSpec::default()
        }
    }
}

/// Parse text that consists only of lines `Name: value`; `None` for any other text.
fn lines(text: &[u8]) -> Option<Vec<(String, String)>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let text = std::str::from_utf8(text).ok()?.strip_suffix("\r\n")?;
    let header = |line: &str| {
        let (name, value) = parse_header(line).ok()?;
        (format!("{name}: {value}") == line).then_some((name, value))
    };
    text.split("\r\n").map(header).collect()
}

/// The additional headers of `--add-header` and `--add-header-file`.
pub(super) fn added(o: &Opts, warn: &mut dyn FnMut(&str)) -> Result<Vec<u8>, Refusal> {
    let mut text = Vec::new();
    if let Some(typed) = &o.add_header {
        text = unescape(&o.program, typed, warn);
        complete(&o.program, "--add-header", &mut text, warn);
    }
    if let Some(file) = &o.add_header_file {
        let mut more = read(file)?;
        complete(&o.program, "--add-header-file", &mut more, warn);
        text.extend_from_slice(&more);
    }
    Ok(text)
}

fn read(file: &Path) -> Result<Vec<u8>, Refusal> {
    let failed = |e| Refusal::new(format!("failed to open header file {}: {e}", file.display()));
    files::bounded(file, FILE_MAX).map_err(failed)
}

/// Add a missing line end, for which the server would wait.
fn complete(program: &str, option: &str, text: &mut Vec<u8>, warn: &mut dyn FnMut(&str)) {
    if !text.is_empty() && !text.ends_with(b"\n") {
        warn(&format!("{program}: {option} does not end with \\n; the end of the line is added"));
        text.extend_from_slice(b"\r\n");
    }
}

/// Replace the escapes in a text: `\n` becomes CR LF, `\a` a line feed.
fn unescape(program: &str, typed: &str, warn: &mut dyn FnMut(&str)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = typed;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else {
            out.push(b'\\');
            break;
        };
        if c.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_digit(8)).unwrap_or(rest.len());
            let digits = rest[..length].bytes().map(|d| u32::from(d - b'0'));
            out.push(digits.fold(0_u32, |n, d| n.wrapping_mul(8).wrapping_add(d)) as u8);
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            'n' => out.extend_from_slice(b"\r\n"),
            'r' => out.push(b'\r'),
            'a' => out.push(b'\n'),
            '\\' => out.push(b'\\'),
            _ => {
                warn(&format!(
                    "{program}: ignoring unknown escape sequence `\\{c}' in --add-header"
                ));
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescaped(typed: &str) -> (Vec<u8>, Vec<String>) {
        let mut warnings = Vec::new();
        let o = Opts { add_header: Some(typed.into()), ..Opts::new("httperf") };
        let text = added(&o, &mut |line| warnings.push(line.to_owned())).unwrap();
        (text, warnings)
    }

    #[test]
    fn escapes() {
        for (typed, bytes) in [
            (r"A: b\n", &b"A: b\r\n"[..]),
            (r"A: b\nC:d\r\a", b"A: b\r\nC:d\r\n"),
            (r"A: \\\101\1011\8\n", b"A: \\A\t\x008\r\n"),
        ] {
            assert_eq!(unescaped(typed), (bytes.to_vec(), vec![]), "{typed}");
        }
        let (text, warnings) = unescaped(r"A: \q\n");
        assert_eq!(text, b"A: q\r\n");
        assert_eq!(warnings, [r"httperf: ignoring unknown escape sequence `\q' in --add-header"]);
        // A missing line end is added; a lone backslash is sent as it is.
        let (text, warnings) = unescaped("A: b\\");
        assert_eq!(text, b"A: b\\\r\n");
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn well_formed_headers_are_recognized() {
        let header = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        assert_eq!(lines(b"A: b\r\nC: \r\n"), Some(vec![header("A", "b"), header("C", "")]));
        for other in ["A:b\r\n", "A: b\n", "A: b", "A:  b\r\n", "\r\n", "A: b\r\n\r\nC: d\r\n"] {
            assert_eq!(lines(other.as_bytes()), None, "{other:?}");
        }
    }
}
