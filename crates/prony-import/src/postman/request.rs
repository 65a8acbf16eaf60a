//! A request of a collection: its URL, headers and what they become.

use std::borrow::Cow;

use crate::http_file::split;
use crate::ledger::Node;
use crate::text::{MARK, Text};
use crate::{Request, url};

use super::body::FORM;
use super::{Around, Reader};

/// What Postman encodes in a path, and in a query, beside what no request line can have.
const IN_PATHS: &str = "\"<>`?{}";
const IN_QUERIES: &str = "\"'<>";

impl Reader<'_> {
    /// # Errors
    /// It cannot be sent: why, as a note.
    pub(super) fn request<'a>(
        &mut self,
        request: Node<'a>,
        place: &str,
        around: &Around<'_, 'a>,
    ) -> Result<Request, String> {
        let inner = Around::of(request, Some(around));
        let around = &Around { behavior: around.behavior, ..inner };
        let url = if request.is_object() { request.at("url") } else { request };
        let address = self.address(url, place).ok_or("left out: a request without a URL")?;
        let (address, user) = without_user(&address);
        let address = self.moved(&address, place, around);
        let (origin, mut path) = split(&address, |_| false)?;
        if around.setting("disableUrlEncoding") != Some(true) {
            encode(&mut path);
        }
        let method = request.at("method").scalar().unwrap_or_else(|| "GET".to_owned());
        let mut sent = Request {
            place: place.to_owned(),
            origin,
            method: method.to_uppercase(),
            path,
            headers: self.headers(request.at("header"), place, around),
            ..Request::default()
        };
        if let Some(auth) = around.auth() {
            self.authorize(auth, &mut sent, around);
        }
        url::add_credentials(&address.template(), &mut sent.headers);
        let has_auth = |sent: &Request| {
            sent.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        };
        if let Some((name, password)) = user.filter(|_| !has_auth(&sent)) {
            let [name, password] = [name, password].map(|text| self.text(&text, around));
            self.basic(name, password, &mut sent);
        }
        let kind = self.body(request.at("body"), &mut sent, around);
        let is_kind = |name: &str| name.eq_ignore_ascii_case("content-type");
        let is_added = !around.is_not_added("content-type");
        // A form has no other type, and the text between its parts is in it.
        if let Some(form) = kind.as_deref().filter(|kind| is_added && is_form(kind)) {
            let is_same = |value: &Text| !form.contains(';') && value.literals().starts_with(form);
            sent.headers.retain(|(name, value)| !is_kind(name) || is_same(value));
        }
        let has_kind = sent.headers.iter().any(|(name, _)| is_kind(name));
        if let (true, Some(kind)) = (is_added && !has_kind, kind) {
            sent.headers.push(("Content-Type".into(), kind.into()));
        }
        Ok(sent)
    }

    /// The address with its variables, at the server of `--to` if its own is not known.
    fn moved(&mut self, address: &str, place: &str, around: &Around<'_, '_>) -> Text {
        let to = self.context.options.to;
        let moved = to.and_then(|to| {
            let is_set = |name: &str| self.set.contains_key(name);
            let has_value = |name: &str| around.variable(name).is_some_and(|text| !text.is_empty());
            let is_known = |name: &str| {
                is_set(name) || has_value(name) || self.variables.is_complete(name, &has_value)
            };
            url::at_server(address, to, is_known)
        });
        if moved.is_some() {
            self.import.notes.add(url::MOVED, place);
        }
        let address = self.text(moved.as_deref().unwrap_or(address), around);
        if address.template().contains("://") {
            return address;
        }
        let is_path = address.literals().starts_with('/') && !address.starts_with_field();
        match (is_path, to) {
            (true, Some(to)) => address.after(to.trim_end_matches('/')),
            _ if address.starts_with_field() => address,
            _ => address.after("http://"),
        }
    }

    fn headers(
        &mut self,
        headers: Node<'_>,
        place: &str,
        around: &Around<'_, '_>,
    ) -> Vec<(String, Text)> {
        let mut all = Vec::new();
        let lines: Vec<&str> = match headers.text() {
            Some(text) => text.lines().collect(),
            None => headers.items().filter_map(Node::text).collect(),
        };
        for line in lines.into_iter().filter(|line| !line.trim().is_empty()) {
            match line.split_once(':') {
                Some((name, value)) if !name.trim().is_empty() => {
                    all.push((name.trim().to_owned(), self.text(value.trim(), around)));
                }
                _ => self.import.notes.add("left out: a header without a name", place),
            }
        }
        for (name, value, _) in self.pairs(headers, "header", place) {
            let name = self.text(&name, around);
            match name.literal() {
                Some(name) => all.push((name.to_owned(), self.value(value, around))),
                None => {
                    value.whole();
                    let what = "left out: a header whose name is a variable without a value";
                    self.import.notes.add(what, place);
                }
            }
        }
        all
    }

    /// A URL, as a text or in its parts, with the values of its path (`/orders/:id`).
    fn address(&mut self, url: Node<'_>, place: &str) -> Option<String> {
        let notes = &mut self.import.notes;
        let mut list = |node: Node<'_>, between: &str| match node.is_list() {
            true => {
                // A segment may be an object with a value.
                let one = |part: Node<'_>| match part.scalar() {
                    Some(text) => Some(text),
                    None => {
                        part.at("type").whole();
                        part.at("value").scalar()
                    }
                };
                let known: Vec<_> = node.items().map(one).collect();
                if known.iter().any(Option::is_none) {
                    notes.add("left out: a part of a URL without a value", place);
                }
                Some(known.into_iter().flatten().collect::<Vec<_>>().join(between))
            }
            false => node.scalar(),
        };
        let whole = url.text().map(str::to_owned);
        let host = list(url.at("host"), ".").filter(|host| !host.is_empty());
        let raw = url.at("raw");
        let mut address = match (whole, host) {
            (Some(text), _) => text,
            (None, Some(host)) => {
                // It says the same again, or what has been edited since.
                raw.whole();
                let protocol = url.at("protocol").scalar().filter(|text| !text.is_empty());
                let scheme = protocol.map(|text| format!("{}://", text.trim_end_matches("://")));
                let user = url.at("auth").at("user").scalar().map(|user| {
                    let password = url.at("auth").at("password").scalar().unwrap_or_default();
                    format!("{user}:{password}@")
                });
                let port = url.at("port").scalar().filter(|port| !port.is_empty());
                let port = port.map_or(String::new(), |port| format!(":{port}"));
                let path = list(url.at("path"), "/").unwrap_or_default();
                let query = self.query(url.at("query"));
                let path = path.strip_prefix('/').unwrap_or(&path);
                let [scheme, user] = [scheme, user].map(Option::unwrap_or_default);
                format!("{scheme}{user}{host}{port}/{path}{query}")
            }
            (None, None) => raw.text()?.to_owned(),
        };
        url.at("hash").whole();
        for (name, value, _) in self.pairs(url.at("variable"), "variable", place) {
            let end = address.find('?').unwrap_or(address.len());
            let (path, query) = address.split_at(end);
            let value = value.scalar().filter(|value| !value.is_empty());
            let value = value.unwrap_or_else(|| format!("{{{{{name}}}}}"));
            let filled = |part: &str| {
                let (own, rest) = part.split_at(part.find('.').unwrap_or(part.len()));
                let is_it = own.strip_prefix(':') == Some(&name);
                if is_it { format!("{value}{rest}") } else { part.to_owned() }
            };
            let parts: Vec<String> = path.split('/').map(filled).collect();
            address = format!("{}{query}", parts.join("/"));
        }
        Some(address)
    }

    /// The query of a URL in its parts, with its `?`; what is in a pair cannot end it.
    fn query(&mut self, query: Node<'_>) -> String {
        if let Some(text) = query.text() {
            return format!("?{text}");
        }
        let mut all: Vec<String> =
            query.items().filter_map(Node::text).map(str::to_owned).collect();
        let inner = |text: &str| text.replace('&', "%26").replace('#', "%23");
        let of_objects: Vec<Node<'_>> = query.items().filter(|item| item.is_object()).collect();
        for item in of_objects {
            if item.at("disabled").flag() == Some(true) {
                item.whole();
                continue;
            }
            let name = item.at("key").scalar().unwrap_or_default();
            let value = item.at("value").scalar().map(|value| format!("={}", inner(&value)));
            all.push(inner(&name).replace('=', "%3D") + &value.unwrap_or_default());
        }
        for (name, value) in query.members() {
            let value = value.scalar().unwrap_or_default();
            all.push(format!("{}={}", inner(name).replace('=', "%3D"), inner(&value)));
        }
        if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
    }
}

fn is_form(kind: &str) -> bool {
    kind == FORM || kind.starts_with("multipart/")
}

/// The address without a user that has variables, and this user with the password.
fn without_user(address: &str) -> (Cow<'_, str>, Option<(String, String)>) {
    let start = address.find("://").map_or(0, |at| at + "://".len());
    let end = address[start..].find(['/', '?', '#']).map_or(address.len(), |at| start + at);
    match address[start..end].rsplit_once('@') {
        Some((user, host)) if user.contains("{{") => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let rest = format!("{}{host}{}", &address[..start], &address[end..]);
            (rest.into(), Some((name.to_owned(), password.to_owned())))
        }
        _ => (address.into(), None),
    }
}

/// Encodes what Postman encodes, and cuts what is after a `#`.
fn encode(path: &mut Text) {
    path.map_whole(|whole| {
        let whole = whole.split('#').next().unwrap_or_default();
        let (path, query) = match whole.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (whole, None),
        };
        let encoded = |text: &str, odd: &str| {
            let one = |c: char| match c {
                MARK => c.to_string(),
                c if odd.contains(c) => format!("%{:02X}", u32::from(c)),
                c => c.to_string(),
            };
            text.chars().map(one).collect::<String>()
        };
        let query = query.map(|query| format!("?{}", encoded(query, IN_QUERIES)));
        (encoded(path, IN_PATHS) + &query.unwrap_or_default()).into()
    });
}
