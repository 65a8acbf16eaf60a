//! Why a format is refused.

use std::fmt;

/// Why a format is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// It is no name, and has neither `$` nor `%`.
    Unknown(String),
    /// It has no time.
    NoTime,
    /// It has no request and no path.
    NoPath,
    /// It has no method.
    NoMethod,
    /// An `escape=` of nginx that does not exist.
    Escape(String),
    /// Tomcat's path with its query.
    NoQuery,
    /// A directive of a configuration that cannot be read.
    Directive,
    /// A `$` or `%` without a name after it.
    NoName,
    /// Two parts without a text between them.
    Adjacent(String, String),
    /// A form of a time that cannot be read.
    TimeForm(String),
    /// Of names of JSON, a word that is not `PART=NAME`.
    Word(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "'{}' is not a format; give {NAMES}, or a format string of nginx ($) or Apache (%)",
                name.escape_debug()
            ),
            Self::NoTime => write!(
                f,
                "the format has no time; of nginx, add $time_local, $time_iso8601 or $msec, of \
                 Apache, %t, of JSON, start=NAME or time=NAME"
            ),
            Self::NoPath => write!(
                f,
                "the format has no path; of nginx, add $request or $request_uri, of Apache, %r or \
                 %U, of JSON, path=NAME"
            ),
            Self::NoMethod => write!(
                f,
                "the format has no method; of nginx, add $request or $request_method, of Apache, \
                 %r or %m"
            ),
            Self::Escape(kind) => {
                write!(f, "escape={} is not one of default, json and none", kind.escape_debug())
            }
            Self::NoQuery => write!(
                f,
                "%U%q of Tomcat ends in - or not if there is no query, by its version; use %r, or a \
                 text between %U and %q"
            ),
            Self::Directive => {
                write!(f, "the directive has no string in quotation marks; give the string alone")
            }
            Self::NoName => write!(f, "the format has a $ or % without a name after it"),
            Self::Adjacent(a, b) => write!(f, "there is no text between {a} and {b}"),
            Self::TimeForm(form) => write!(
                f,
                "%{{{form}}}t is not a time that can be read; use %t, or sec, msec or usec"
            ),
            Self::Word(word) => write!(
                f,
                "'{}' is not PART=NAME with one of the parts start, time, request, method, path, \
                 query, status, client, cookie, body, took-s, took-ms, took-us, took-ns",
                word.escape_debug()
            ),
        }
    }
}

/// The names of formats.
pub(crate) const NAMES: &str = "common, combined, tomcat FORMAT, haproxy, alb, elb, s3, \
     cloudfront, w3c, caddy, traefik, envoy, envoy-text, json, json PART=NAME...";
