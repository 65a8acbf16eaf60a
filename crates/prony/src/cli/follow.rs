//! Options of redirects.

use clap::Args;
use prony_plan::plan::{Follow, RedirectServer, Redirects};
use prony_plan::target::Url;
use prony_run::builder::Targets;
use prony_run::values;

use super::REQUEST;

/// Options of redirects.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct FollowArgs {
    /// Follow redirects, each by a request of its own
    ///
    /// The times of the whole chains are those of the group redirects. A redirect is followed only
    /// to the servers of the URLs and of --redirect-to; the report names the others.
    #[arg(short = 'L', long, help_heading = REQUEST)]
    pub location: bool,
    /// How many redirects to follow one after another; one more fails the request [default: 10]
    #[arg(
        long, value_name = "N", help_heading = REQUEST, requires = "location",
        value_parser = values::redirects,
    )]
    pub max_redirs: Option<u32>,
    /// Also follow redirects to this server: http://HOST:PORT
    ///
    /// This option can be repeated.
    #[arg(
        long, value_name = "URL", help_heading = REQUEST, requires = "location",
        value_parser = values::server,
    )]
    pub redirect_to: Vec<Url>,
}

impl FollowArgs {
    /// Which redirects are followed.
    pub(super) fn redirects(&self) -> Option<Redirects> {
        self.location.then(|| Redirects::Most(self.max_redirs.unwrap_or(Follow::MOST)))
    }

    /// Add the servers to which redirects may lead.
    pub(super) fn add_servers(&self, targets: &mut Targets) {
        for url in &self.redirect_to {
            let endpoint = targets.endpoint(url.endpoint());
            targets.redirect_to.push(RedirectServer { endpoint, authority: url.authority() });
        }
    }
}
