//! Options of credentials: basic authentication, and signatures for AWS.

use clap::Args;
use prony_plan::plan::{AwsSigning, Secret};
use prony_plan::script::Template;
use prony_run::error::Error;
use prony_run::plan_file;

use super::{REQUEST, values};

/// Options of credentials.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct AuthArgs {
    /// Name and password for basic authentication, or @FILE [default: from the URL]
    ///
    /// The file contains one line, NAME:PASS. @- reads standard input.
    #[arg(
        short, long, value_name = "NAME:PASS", help_heading = REQUEST,
        value_parser = values::user,
    )]
    pub user: Option<Secret>,
    /// Sign each request for AWS when it is sent: aws:amz:REGION:SERVICE
    ///
    /// As curl's --aws-sigv4 (Signature Version 4). The key is that of --user ID:SECRET; without
    /// it, those of the environment variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
    /// AWS_SESSION_TOKEN.
    #[arg(
        long = "aws-sigv4", value_name = "SCOPE", help_heading = REQUEST,
        value_parser = AwsSigning::parse,
    )]
    pub aws_sigv4: Option<(String, String)>,
}

impl AuthArgs {
    /// The same, with the contents of the file that `user` names.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) fn read(&self) -> Result<Self, Error> {
        Ok(Self { user: values::user_of("--user", self.user.as_ref())?, ..self.clone() })
    }

    /// The user of basic authentication.
    pub(super) fn basic(&self) -> Option<&Secret> {
        self.user.as_ref().filter(|_| self.aws_sigv4.is_none())
    }

    /// How requests are signed.
    pub(super) fn signing(&self) -> Option<Box<AwsSigning>> {
        let scope = self.aws_sigv4.clone()?;
        // A key on the command line has no fields.
        let text = |text: &str| {
            let mut escaped = Vec::new();
            Template::escape(text.as_bytes(), &mut escaped);
            String::from_utf8_lossy(&escaped).into_owned()
        };
        let key = self.user.as_ref().and_then(|user| user.expose().split_once(':'));
        let key = key.map(|(id, secret)| (text(id), text(secret)));
        let (id, secret) = key.as_ref().map(|(id, secret)| (&**id, &**secret)).unzip();
        Some(Box::new(plan_file::aws_signing(scope, [id, secret, None])))
    }
}
