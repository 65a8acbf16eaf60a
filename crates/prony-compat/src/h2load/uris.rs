//! The URIs of a run: from the command line, a file, or a script of times.

use std::path::Path;

use prony_base::units::Span;
use prony_plan::target::{Endpoint, Url};
use prony_run::error::Error;
use prony_run::files;

use super::options::Options;

/// Where connections go, and what is requested in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Uris {
    pub(super) endpoint: Endpoint,
    pub(super) tls: bool,
    pub(super) authority: String,
    pub(super) paths: Vec<String>,
    /// The times of a script, one for each path.
    pub(super) times: Vec<Span>,
}

/// The URIs of these options; reads their file.
pub(super) fn of(options: &Options) -> Result<Uris, Error> {
    let mut times = Vec::new();
    let texts = match (&options.script, &options.input_file) {
        (Some(path), _) => {
            let (offsets, uris) = script(&read(path)?)?;
            times = offsets;
            uris
        }
        (None, Some(path)) => {
            read(path)?.lines().filter(|l| !l.is_empty()).map(Into::into).collect()
        }
        (None, None) => options.uris.clone(),
    };
    let first = texts.first().ok_or_else(|| refused("no URI available"))?;
    let socket = options.base.as_deref().and_then(|base| base.strip_prefix("unix:"));
    let from = match (&options.base, socket) {
        (_, Some("")) => {
            return Err(refused("--base-uri: invalid UNIX domain socket path: unix:"));
        }
        (Some(base), None) => absolute(base)
            .ok_or_else(|| refused(format!("--base-uri: invalid base URI: {}", shown(base))))?,
        _ => absolute(first).ok_or_else(|| refused(format!("invalid URI: {}", shown(first))))?,
    };
    let paths = texts.iter().map(|text| path(text)).collect::<Result<_, _>>()?;
    Ok(Uris {
        endpoint: endpoint(&from, socket, options.sni.as_deref()),
        tls: from.tls,
        authority: from.authority(),
        paths,
        times,
    })
}

fn endpoint(from: &Url, socket: Option<&str>, sni: Option<&str>) -> Endpoint {
    let plain = match socket {
        Some(path) => Endpoint::Unix { path: path.into() },
        None => Endpoint::Tcp { host: from.host.clone(), port: from.port },
    };
    let name = sni.unwrap_or(&from.host).to_owned();
    if from.tls { Endpoint::Tls { name, over: Box::new(plain) } } else { plain }
}

/// An `http` or `https` URL.
fn absolute(text: &str) -> Option<Url> {
    let without_fragment = text.split('#').next().unwrap_or_default();
    Url::parse(without_fragment).ok().filter(|_| text.contains("://"))
}

/// The path of a URI, which may be one without scheme and host.
fn path(text: &str) -> Result<String, Error> {
    let without_fragment = text.split('#').next().unwrap_or_default();
    match absolute(text) {
        Some(url) => Ok(url.path),
        None if text.starts_with('/') && !text.contains([' ', '\t']) => Ok(without_fragment.into()),
        None => Err(refused(format!("invalid URI: {}", shown(text)))),
    }
}

fn read(path: &str) -> Result<String, Error> {
    files::bounded_text(Path::new(path))
        .map_err(|_| refused(format!("cannot read input file: {}", shown(path))))
}

/// Lines of an offset in milliseconds, a tab and a URI.
fn script(text: &str) -> Result<(Vec<Span>, Vec<String>), Error> {
    let mut all = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let parsed = line.split_once('\t').and_then(|(offset, uri)| {
            let ms = crate::strto::float(offset).filter(|ms| (0.0..=1e12).contains(ms))?;
            Some((Span((ms * 1e3).round() as u64 * 1_000), uri.to_owned()))
        });
        all.push(parsed.ok_or_else(|| {
            refused(format!("Wrong line format encountered in script file: {}", shown(line)))
        })?);
    }
    if let Some(at) = all.windows(2).position(|pair| pair[0].0 > pair[1].0) {
        return Err(refused(format!(
            "--timing-script-file: the time in line {} is before that of the line above it",
            at + 2
        )));
    }
    Ok(all.into_iter().unzip())
}

fn refused(why: impl Into<String>) -> Error {
    Error::Argument(why.into())
}

/// Printable, and without what a URL may hide.
fn shown(text: &str) -> String {
    prony_base::secret::shown_url(text).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &Options) -> String {
        match of(options) {
            Ok(uris) => {
                let at = match &uris.endpoint {
                    Endpoint::Tls { over, .. } => &**over,
                    plain => plain,
                };
                let at = match at {
                    Endpoint::Tcp { host, port } => format!("{host}:{port}"),
                    Endpoint::Unix { path } => format!("unix:{path}"),
                    other => format!("{other:?}"),
                };
                format!("{at} {:?} {}", uris.paths, uris.authority)
            }
            Err(e) => e.to_string(),
        }
    }

    fn with(uris: &[&str], base: Option<&str>) -> Options {
        let uris = uris.iter().map(|&uri| uri.to_owned()).collect();
        Options { uris, base: base.map(str::to_owned), ..Options::default() }
    }

    #[test]
    fn the_first_uri_decides_where_connections_go() {
        for (uris, base, expected) in [
            (&["http://h/a?b#c"][..], None, r#"h:80 ["/a?b"] h"#),
            (
                &["https://h:8443", "http://other/x", "/y"],
                None,
                r#"h:8443 ["/", "/x", "/y"] h:8443"#,
            ),
            (&["/a"], Some("http://b:81/"), r#"b:81 ["/a"] b:81"#),
            (&["http://h/"], Some("unix:/run/s"), r#"unix:/run/s ["/"] h"#),
            (&["foo"], None, "invalid URI: foo"),
            (&["http://[::1"], None, "invalid URI: http://[::1"),
            (&["ftp://x/"], None, "invalid URI: ftp://x/"),
            (&["http://h/", "foo"], None, "invalid URI: foo"),
            (&["http://h/"], Some("foo"), "--base-uri: invalid base URI: foo"),
            (&["http://h/"], Some("unix:"), "--base-uri: invalid UNIX domain socket path: unix:"),
        ] {
            assert_eq!(check(&with(uris, base)), expected, "{uris:?} {base:?}");
        }
        let tls = of(&Options { sni: Some("s".into()), ..with(&["https://h/"], None) }).unwrap();
        assert_eq!(tls.endpoint.tls_name(), Some("s"));
    }

    #[test]
    fn reads_scripts() {
        let (times, uris) = script("0.0\thttp://h/\n100.5\t/k\n\n").unwrap();
        assert_eq!(times, [Span::ZERO, Span::from_micros(100_500)]);
        assert_eq!(uris, ["http://h/", "/k"]);
        for (text, why) in [
            ("x\t/", "Wrong line format encountered in script file: x\\t/"),
            ("1 /", "Wrong line format encountered in script file: 1 /"),
            ("-1\t/", "Wrong line format encountered in script file: -1\\t/"),
            ("2\t/\n1\t/", "--timing-script-file: the time in line 2 is before"),
        ] {
            let e = script(text).unwrap_err().to_string();
            assert!(e.starts_with(why), "{text:?}: {e}");
        }
    }
}
