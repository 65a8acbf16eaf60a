//! Requests that are signed for AWS.

use serde::{Deserialize, Serialize};

use super::{CallSpec, Plan};
use crate::vars::Template;
use prony_base::secret::Secret;

/// How requests are signed for AWS (Signature Version 4). The parts of the key are texts whose only
/// fields are environment variables (`{{env NAME}}`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsSigning {
    /// The region, as `eu-central-1`.
    pub region: String,
    /// The service, as `execute-api`.
    pub service: String,
    /// The ID of the key.
    pub access_key: Secret,
    /// The secret of the key.
    pub secret_key: Secret,
    /// The session token of temporary credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
}

impl AwsSigning {
    /// The texts of a key that is in the variables that AWS's tools read: its ID, its secret, the
    /// session token.
    pub const ENVIRONMENT: [&str; 3] =
        ["{{env AWS_ACCESS_KEY_ID}}", "{{env AWS_SECRET_ACCESS_KEY}}", "{{env AWS_SESSION_TOKEN}}"];

    /// Region and service of curl's text for them: `aws:amz:REGION:SERVICE`.
    ///
    /// # Errors
    /// What is wrong with the text, as the end of a sentence that names it.
    pub fn parse(text: &str) -> Result<(String, String), String> {
        const SHAPE: &str = "write aws:amz:REGION:SERVICE, as aws:amz:eu-central-1:execute-api";
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["aws", "amz", region, service] => {
                check_name("region", region)?;
                check_name("service", service)?;
                Ok((region.to_owned(), service.to_owned()))
            }
            ["aws"] | ["aws", "amz", ..] => Err(SHAPE.to_owned()),
            _ => Err(format!("prony signs only for AWS; {SHAPE}")),
        }
    }

    /// The texts of the key: their names in plan files, and the texts.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &Secret)> {
        let token = self.token.iter().map(|token| ("token", token));
        [("access-key", &self.access_key), ("secret-key", &self.secret_key)]
            .into_iter()
            .chain(token)
    }

    /// Hide the key.
    pub(super) fn hide(&mut self) {
        for text in [&mut self.access_key, &mut self.secret_key].into_iter().chain(&mut self.token)
        {
            *text = Secret::hidden();
        }
    }

    /// The key: its ID, its secret, the session token.
    ///
    /// # Errors
    /// One sentence about the first text without a usable value.
    pub fn key(
        &self,
        environment: &[(String, Secret)],
    ) -> Result<(Secret, Secret, Option<Secret>), String> {
        let value = |name: &str, text: &Secret| {
            let wrong = |why: String| format!("the {name} of the key for AWS: {why}");
            let value = Template::with_environment(text.expose(), environment).map_err(wrong)?;
            if value.expose().is_empty() || value.expose().contains(|c: char| !c.is_ascii_graphic())
            {
                let what = "it is empty, or has other characters than letters, digits and signs";
                return Err(wrong(what.to_owned()));
            }
            Ok(value)
        };
        Ok((
            value("ID", &self.access_key)?,
            value("secret", &self.secret_key)?,
            self.token.as_ref().map(|token| value("token", token)).transpose()?,
        ))
    }
}

/// Check the name of a region or of a service.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match name.is_empty() || !name.chars().all(is_name) {
        true => Err(format!("'{}' is not the name of a {what}", name.escape_debug())),
        false => Ok(()),
    }
}

impl CallSpec {
    /// Whether the request is signed if the plan signs requests.
    pub fn is_signable(&self) -> bool {
        !self.unsigned && self.socket.is_none()
    }
}

impl Plan {
    /// Check whether requests can be signed.
    pub(crate) fn check_signing(&self) -> Result<(), String> {
        const OWN: [&str; 3] = ["authorization", "x-amz-date", "x-amz-security-token"];
        let Some(signing) = self.aws_sigv4.as_deref() else {
            return match self.calls.iter().any(|call| call.unsigned) {
                true => Err("a request is not to be signed, but the plan signs none".into()),
                false => Ok(()),
            };
        };
        check_name("region", &signing.region)?;
        check_name("service", &signing.service)?;
        signing.key(&self.data.environment)?;
        let has_grpc = self.calls.iter().any(|call| call.grpc.is_some());
        if self.exchange.is_some() || self.websocket.is_some() || has_grpc {
            return Err(
                "only requests of HTTP are signed for AWS, neither gRPC nor WebSocket".into()
            );
        }
        let mut signed = (0..).zip(&self.calls).filter(|(_, call)| call.is_signable()).peekable();
        if signed.peek().is_none() {
            return Err("requests are to be signed for AWS, but none is".into());
        }
        for (index, call) in signed {
            let wrong = |why: String| Err(format!("request {}: {why}", index + 1_u32));
            if call.bare {
                return wrong("a `bare` request gets no headers, so it cannot be signed".into());
            }
            let is_own = |name: &str| OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
            if let Some((name, _)) = call.headers.iter().find(|(name, _)| is_own(name)) {
                return wrong(format!("its own header {name} excludes its signature for AWS"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_text_of_curl() {
        let parsed = AwsSigning::parse("aws:amz:eu-central-1:execute-api");
        assert_eq!(parsed, Ok(("eu-central-1".to_owned(), "execute-api".to_owned())));
        for (text, why) in [
            ("aws", "write aws:amz:REGION:SERVICE"),
            ("aws:amz", "write aws:amz:REGION:SERVICE"),
            ("aws:amz:us-east-1", "write aws:amz:REGION:SERVICE"),
            ("osc:amz:us-east-1:s3", "prony signs only for AWS; write aws:amz"),
            ("", "prony signs only for AWS"),
            ("aws:amz::s3", "'' is not the name of a region"),
            ("aws:amz:us east:s3", "'us east' is not the name of a region"),
            ("aws:amz:us-east-1:s3/x", "'s3/x' is not the name of a service"),
        ] {
            let refused = AwsSigning::parse(text).expect_err(text);
            assert!(refused.starts_with(why), "{text}: {refused}");
        }
    }

    #[test]
    fn keys_have_values_of_the_environment() {
        let [access_key, secret_key, token] = AwsSigning::ENVIRONMENT.map(Secret::from);
        let (region, service) = ("r".to_owned(), "s".to_owned());
        let mut signing =
            AwsSigning { region, service, access_key, secret_key, token: Some(token) };
        let variable = |name: &str, value: &str| (name.to_owned(), Secret::from(value));
        let mut environment = vec![
            variable("AWS_ACCESS_KEY_ID", "AK"),
            variable("AWS_SECRET_ACCESS_KEY", "sk/+"),
            variable("AWS_SESSION_TOKEN", "t=="),
        ];
        let key = signing.key(&environment).expect("a key");
        assert_eq!(key, ("AK".into(), "sk/+".into(), Some("t==".into())));
        environment[1].1 = "two words".into();
        let refused = signing.key(&environment).expect_err("a blank");
        assert!(refused.starts_with("the secret of the key for AWS: it is empty"), "{refused}");
        environment.remove(1);
        let refused = signing.key(&environment).expect_err("it is not set");
        assert!(refused.contains("'AWS_SECRET_ACCESS_KEY' is not set"), "{refused}");
        signing.secret_key = "{{session}}".into();
        let refused = signing.key(&environment).expect_err("no environment");
        assert!(refused.contains("can only be environment variables"), "{refused}");
        signing.hide();
        assert!(signing.texts().all(|(_, text)| *text == Secret::hidden()));
    }
}
