//! The table `[aws-sigv4]` of a plan file, and the key in the environment.

use std::env;

use prony_plan::plan::{AwsSigning, Data, Secret};
use prony_plan::script::{Template, is_name};

use super::reader::Section;
use super::requests::Requests;
use super::written::{line, quoted};

impl<'a> Requests<'a> {
    /// Reads the table `[aws-sigv4]`, if it exists.
    pub(super) fn aws_sigv4(&mut self, top: &mut Section<'a>) -> Option<Box<AwsSigning>> {
        let mut section = top.table("aws-sigv4", "[aws-sigv4]", &mut self.problems)?;
        let mut text = |key: &'static str| {
            section.take(key).and_then(|item| item.string(&mut self.problems, "a text"))
        };
        let names = (text("region"), text("service"));
        let key = [text("access-key"), text("secret-key"), text("token")];
        let at = section.at;
        section.finish(&mut self.problems);
        let (Some(region), Some(service)) = names else {
            let what = "[aws-sigv4] needs a region and a service, as region = \"eu-central-1\" and \
                        service = \"execute-api\"";
            self.problems.add(at, what);
            return None;
        };
        Some(Box::new(aws_signing((region.to_owned(), service.to_owned()), key)))
    }

    /// Reads whether a request is signed.
    pub(super) fn unsigned(&mut self, section: &mut Section<'a>) -> bool {
        let item = section.take("aws-sigv4");
        item.and_then(|item| item.boolean(&mut self.problems)) == Some(false)
    }
}

/// Signatures for a region and a service, with the texts of a key (its ID, its secret, the session
/// token); without an ID, they are those of the variables that AWS's tools read.
pub fn aws_signing(
    (region, service): (String, String),
    [access_key, secret_key, token]: [Option<&str>; 3],
) -> AwsSigning {
    let [usual_key, usual_secret, usual_token] = AwsSigning::ENVIRONMENT;
    let has_token = || env::var_os("AWS_SESSION_TOKEN").is_some_and(|value| !value.is_empty());
    // The token belongs to the key.
    let usual_token = (access_key.is_none() && has_token()).then_some(usual_token);
    AwsSigning {
        region,
        service,
        access_key: access_key.unwrap_or(usual_key).into(),
        secret_key: secret_key.unwrap_or(usual_secret).into(),
        token: token.or(usual_token).map(Secret::from),
    }
}

/// Reads the environment variables that the key names. Leaves out unset ones, so that the check of
/// the plan reports them.
pub fn read_key(signing: Option<&AwsSigning>, data: &mut Data) {
    let texts = signing.into_iter().flat_map(AwsSigning::texts);
    let names = texts.flat_map(|(_, text)| Template::environment(text.expose().as_bytes()));
    for name in names.filter(|name| is_name(name)) {
        let is_known = data.environment.iter().any(|(known, _)| *known == name);
        if let Some(value) = env::var(&name).ok().filter(|_| !is_known) {
            data.environment.push((name, value.into()));
        }
    }
    data.environment.sort_by(|(one, _), (other, _)| one.cmp(other));
}

/// Writes the table.
pub(super) fn explain(signing: &AwsSigning, out: &mut String) {
    out.push_str("\n[aws-sigv4]\n");
    line(out, "region", quoted(&signing.region));
    line(out, "service", quoted(&signing.service));
    for (name, text) in signing.texts() {
        line(out, name, quoted(text.expose()));
    }
}
