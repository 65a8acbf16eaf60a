//! The table `[tls]` of a plan file.

use std::fmt::Write as _;

use prony_plan::plan::TlsSpec;
use prony_proto::layer::{check_certificates, check_key};

use super::keyed;
use super::reader::{Item, Section};
use super::requests::Requests;
use super::written::{line, quoted};
use crate::builder::Draft;
use crate::keys::Keyed as _;

const FILE: &str = "the name of a file, or its text (PEM)";

impl<'a> Requests<'a> {
    /// Reads the table `[tls]`, if it exists.
    pub(super) fn tls(&mut self, top: &mut Section<'a>, draft: &mut Draft) {
        let table = top.table("tls", "[tls]", &mut self.problems);
        let Some(mut section) = table else { return };
        if !self.endpoints.iter().any(|e| e.tls_name().is_some()) {
            let what = "[tls] has no effect: no URL of the plan starts with https://";
            self.problems.add(section.at, what);
        }
        let spec = self.tls_spec(&mut section);
        let name = section.take("sni").and_then(|i| i.string(&mut self.problems, "a name"));
        draft.server_name = name.map(str::to_owned);
        section.finish(&mut self.problems);
        draft.tls = spec.boxed();
    }

    fn tls_spec(&mut self, section: &mut Section<'a>) -> TlsSpec {
        let (cert, key) = (section.take("cert"), section.take("key"));
        if let (Some(key), None) = (key, cert) {
            self.problems.add(key.at, "`key` needs `cert`; give both");
        }
        // One file can contain both.
        let key = key.or(cert).filter(|_| cert.is_some());
        let key = key.and_then(|item| self.pem(item, check_key));
        let cert = cert.and_then(|item| self.pem(item, check_certificates));
        let ca = section.take("cacert").and_then(|item| self.pem(item, check_certificates));
        let insecure = section.take("insecure").and_then(|item| item.boolean(&mut self.problems));
        TlsSpec {
            verify: !insecure.unwrap_or(false),
            ca,
            cert,
            key: key.map(Into::into),
            ..keyed::read(section, &mut self.problems)
        }
    }

    /// Reads PEM text, or a file with PEM text.
    fn pem(&mut self, item: Item<'a>, check: fn(&str) -> Result<(), String>) -> Option<String> {
        let text = item.string(&mut self.problems, FILE)?;
        let text = if text.contains("-----BEGIN ") {
            text.to_owned()
        } else {
            String::from_utf8_lossy(&self.file(item, text)?.1).into_owned()
        };
        let wrong = |why| self.problems.add(item.at, format!("`{}`: {why}", item.key));
        check(&text).map_err(wrong).ok()?;
        Some(text)
    }
}

/// Writes the table `[tls]`.
pub(super) fn explain(spec: &TlsSpec, out: &mut String) {
    out.push_str("\n[tls]\n");
    if !spec.verify {
        line(out, "insecure", "true");
    }
    let secret = spec.key.as_ref().map(|key| key.expose().to_owned());
    for (key, pem) in [("cacert", &spec.ca), ("cert", &spec.cert), ("key", &secret)] {
        if let Some(pem) = pem {
            let _ = writeln!(out, "{key} = {}", quoted(pem));
        }
    }
    keyed::explain(spec, out);
}
