//! The redirects that a plan file follows: `location`, `max-redirs`, `redirect-to`.

use prony_plan::plan::{CallSpec, Follow, Plan, RedirectServer, Redirects};
use prony_plan::target::Url;
use toml::de::DeValue;

use super::reader::{Item, Section};
use super::requests::Requests;
use super::written::{array, line, quoted};
use crate::values;

const SERVER: &str = "a URL, as \"http://host:port\"";

impl<'a> Requests<'a> {
    /// Reads whether redirects are followed, of a plan or of one request.
    pub(super) fn redirects(&mut self, section: &mut Section<'a>) -> Option<Redirects> {
        let (location, most) = (section.take("location"), section.take("max-redirs"));
        let problems = &mut self.problems;
        let follows = location.and_then(|item| item.boolean(problems));
        let number = most.and_then(|item| item.parse(problems, "a number", values::redirects));
        if let Some(item) = most.filter(|_| follows != Some(true)) {
            let what = "`max-redirs` is about redirects that are followed; add `location = true`";
            problems.add(item.at, what);
        }
        self.is_redirected |= follows == Some(true);
        match follows? {
            true => Some(Redirects::Most(number.unwrap_or(Follow::MOST))),
            false => Some(Redirects::Off),
        }
    }

    /// Reads the servers to which redirects may lead.
    pub(super) fn redirect_to(&mut self, top: &mut Section<'a>) -> Vec<RedirectServer> {
        let Some(item) = top.take("redirect-to") else { return Vec::new() };
        if !self.is_redirected {
            let what = "`redirect-to` is about redirects that are followed; add `location = true`";
            self.problems.add(item.at, what);
        }
        let expected = "a list of URLs, as [\"http://host:port\"]";
        let items = item.list(&mut self.problems, expected).into_iter().flatten();
        items.filter_map(|item| self.redirect_server(item)).collect()
    }

    fn redirect_server(&mut self, item: Item<'a>) -> Option<RedirectServer> {
        if let DeValue::Table(table) = item.value {
            let mut section = Section::new("a server of redirects", item.at, table);
            let endpoint = section
                .take("endpoint")
                .and_then(|i| i.parse(&mut self.problems, "a number", values::number));
            let host = section.take("host").and_then(|i| i.string(&mut self.problems, "a host"));
            section.finish(&mut self.problems);
            let (Some(endpoint), Some(host)) = (endpoint, host) else {
                let what = "a server of redirects has an `endpoint` and a `host`";
                self.problems.add(item.at, what);
                return None;
            };
            return Some(RedirectServer { endpoint, authority: host.to_owned() });
        }
        let url = item.parse(&mut self.problems, SERVER, values::server)?;
        Some(RedirectServer { endpoint: self.endpoint(url.endpoint()), authority: url.authority() })
    }
}

/// Writes what a plan follows.
pub(super) fn explain(plan: &Plan, out: &mut String) {
    let Some(follow) = plan.follow.as_deref() else { return };
    for (key, value) in of(follow.redirects) {
        if value != "false" {
            line(out, key, value);
        }
    }
    if !follow.servers.is_empty() {
        let servers: Vec<_> = follow.servers.iter().map(|one| server(plan, one)).collect();
        line(out, "redirect-to", array(&servers));
    }
}

/// The keys of one request.
pub(super) fn of_call(call: &CallSpec) -> Vec<(&'static str, String)> {
    call.redirects.map(of).unwrap_or_default()
}

fn of(redirects: Redirects) -> Vec<(&'static str, String)> {
    match redirects {
        Redirects::Off => vec![("location", "false".into())],
        Redirects::Most(Follow::MOST) => vec![("location", "true".into())],
        Redirects::Most(most) => {
            vec![("location", "true".into()), ("max-redirs", most.to_string())]
        }
    }
}

/// The URL of a server, if its endpoint is that of the URL.
fn server(plan: &Plan, server: &RedirectServer) -> String {
    let RedirectServer { endpoint, authority } = server;
    let spec = &plan.endpoints[*endpoint as usize];
    let scheme = if spec.tls_name().is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{authority}");
    match Url::parse(&url) {
        Ok(parsed) if parsed.endpoint() == *spec && parsed.authority() == *authority => {
            quoted(&url)
        }
        _ => format!("{{ endpoint = {endpoint}, host = {} }}", quoted(authority)),
    }
}
