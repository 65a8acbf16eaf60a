//! Compares the reports of two programs: the same lines in the same layout, with other figures.

use std::process::{Command, Stdio};

use crate::rig::{Ended, Other};

/// The server of the comparisons: nginx with a few pages and keep-alive.
const NGINX: &str = "
    access_log off;
    keepalive_requests 100000;
    server {
        listen 127.0.0.1:@PORT@ backlog=4096;
        location / { return 200 'hello'; }
        location /no { return 404 'no such page'; }
        location /named { return 200 '$request_method $content_type $http_cookie'; }
    }
";

pub(crate) fn nginx() -> Other {
    Other::nginx(NGINX)
}

/// Runs the real program.
pub(crate) fn real(program: &str, args: &[&str]) -> Ended {
    let out = Command::new(program).args(args).stdin(Stdio::null()).output();
    let out = out.unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = out.status.code().expect("no signal");
    Ended { code, stdout: text(out.stdout), stderr: text(out.stderr) }
}

/// The column at which ab's figures start after their names.
const NAMED: usize = 24;

/// A line with its figures masked: a figure in a column (after at least two spaces) is replaced by
/// the column of its last digit, others by their number of decimals.
pub(crate) fn shape(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let (mut out, mut at) = (String::new(), 0);
    while at < chars.len() {
        let is_figure = |i: usize| chars.get(i).is_some_and(char::is_ascii_digit);
        let word = at > 0 && chars[at - 1].is_ascii_alphanumeric();
        if !is_figure(at) || word {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let (mut end, mut point) = (at, None);
        while is_figure(end) || (chars.get(end) == Some(&'.') && is_figure(end + 1)) {
            if chars[end] == '.' {
                point = Some(end);
            }
            end += 1;
        }
        let decimals = point.map_or(0, |p| end - p - 1);
        // Figures after a name are left-aligned; others are right-aligned.
        let named = at == NAMED && (out.trim_end().ends_with(':') || out.trim().is_empty());
        if out.ends_with("  ") && !named {
            out.truncate(out.trim_end().len());
            out += &format!(" <{decimals} to {end}>");
        } else {
            out += &format!("<{decimals}>");
        }
        at = end;
    }
    out
}

#[test]
fn masks_figures() {
    assert_eq!(shape("Connect:        0   12   0.1"), "Connect: <0 to 17> <0 to 22> <1 to 28>");
    assert_eq!(shape("Rate: 12.50 [#/sec], 2 of p50"), "Rate: <2> [#/sec], <0> of p50");
    assert_eq!(shape("Time taken for tests:   1.234 s"), "Time taken for tests:   <3> s");
    assert_ne!(shape("  50%      0"), shape("  50%     0"));
    assert_eq!(shape("  50%      0"), shape("  66%     12"));
}
