//! The table `[proxy]` of a plan file.

use prony_plan::plan::ProxySpec;

use super::reader::Section;
use super::requests::Requests;
use super::written::{line, quoted};

impl<'a> Requests<'a> {
    /// Reads the table `[proxy]`, if it exists.
    pub(super) fn proxy(&mut self, top: &mut Section<'a>) -> Option<Box<ProxySpec>> {
        let mut section = top.table("proxy", "[proxy]", &mut self.problems)?;
        let problems = &mut self.problems;
        let address = section.take("address");
        if address.is_none() {
            let what = "[proxy] needs an address: address = \"http://HOST:PORT\"";
            problems.add(section.at, what);
        }
        let spec =
            address.and_then(|i| i.parse(problems, "\"http://HOST:PORT\"", ProxySpec::parse));
        let value = section.take("authorization").and_then(|i| i.string(problems, "a text"));
        let tunnel = section.take("tunnel").and_then(|i| i.boolean(problems));
        section.finish(problems);
        let mut spec = spec?;
        if let Some(value) = value {
            spec.authorization = Some(value.into());
        }
        spec.tunnel = tunnel.unwrap_or(false);
        Some(Box::new(spec))
    }
}

/// Writes the table.
pub(super) fn explain(spec: &ProxySpec, out: &mut String) {
    out.push_str("\n[proxy]\n");
    line(out, "address", quoted(&format!("http://{}", spec.address())));
    if let Some(value) = &spec.authorization {
        line(out, "authorization", quoted(value.expose()));
    }
    if spec.tunnel {
        line(out, "tunnel", "true");
    }
}
