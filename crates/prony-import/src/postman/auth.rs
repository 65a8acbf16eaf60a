//! The authorization of a request.

use crate::Request;
use crate::ledger::Node;
use crate::text::Text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Around, Reader};

/// The kinds of authorization that are sent.
const KINDS: [&str; 4] = ["basic", "bearer", "apikey", "oauth2"];
/// Where an API key can be.
const PLACES: [&str; 3] = ["", "header", "query"];

impl Reader<'_> {
    /// Adds what the authorization adds to a request.
    pub(super) fn authorize(
        &mut self,
        auth: Node<'_>,
        sent: &mut Request,
        around: &Around<'_, '_>,
    ) {
        let Some(kind) = auth.at("type").text() else { return };
        let own = auth.at(kind);
        let mut field = |name: &str| {
            let value = field_of(own, name);
            let text = match value.is_null() {
                true => String::new(),
                false => value.scalar().unwrap_or_else(|| value.whole().to_string()),
            };
            self.text(&text, around)
        };
        if settle(auth, kind) == 0 && KINDS.contains(&kind) {
            let what = format!("sent without its authorization ({kind}), which has no fields");
            self.import.notes.add(&what, &sent.place);
            return;
        }
        match kind {
            "noauth" => {}
            "basic" => {
                let [name, password] = ["username", "password"].map(field);
                if name.is_empty() && password.is_empty() {
                    let what = "sent with an empty name and password (basic)";
                    self.import.notes.add(what, &sent.place);
                }
                self.basic(name, password, sent);
            }
            "bearer" => {
                let token = field("token");
                match token.is_empty() {
                    true => {
                        let what = "sent without its authorization (bearer), which has no token";
                        self.import.notes.add(what, &sent.place);
                    }
                    false => set_header(sent, "Authorization", token.after("Bearer ")),
                }
            }
            "apikey" => {
                let [name, value, place] = ["key", "value", "in"].map(field);
                self.api_key(&name, value, &place, sent);
            }
            "oauth2" => {
                let names = ["accessToken", "addTokenTo", "tokenType", "headerPrefix"];
                let [token, place, kind, prefix] = names.map(field);
                let is_mac = kind.literal().is_some_and(|kind| kind.eq_ignore_ascii_case("mac"));
                if token.is_empty() || is_mac {
                    let what = "sent without its authorization (oauth2), of which the collection \
                                has no token that can be sent as it is";
                    self.import.notes.add(what, &sent.place);
                } else if place.literal() == Some("queryParams") {
                    set_query(sent, "access_token", token);
                } else {
                    let has_prefix = !field_of(own, "headerPrefix").is_null();
                    let prefix = if has_prefix { prefix } else { "Bearer".into() };
                    let prefix = prefix.literal().unwrap_or("Bearer").trim().to_owned();
                    let space = if prefix.is_empty() { "" } else { " " };
                    set_header(sent, "Authorization", token.after(&format!("{prefix}{space}")));
                }
            }
            _ => {
                let what = format!("sent without its authorization ({kind})");
                self.import.notes.add(&what, &sent.place);
            }
        }
    }

    /// Adds an API key.
    fn api_key(&mut self, name: &Text, value: Text, place: &Text, sent: &mut Request) {
        if let Some(odd) = place.literal().filter(|at| !PLACES.contains(at)) {
            let what = format!("its API key is sent in a header, not in '{odd}'");
            self.import.notes.add(&what, &sent.place);
        }
        match name.literal() {
            Some("") => {
                let what = "sent without its API key, which has no name";
                self.import.notes.add(what, &sent.place);
            }
            Some(name) if place.literal() == Some("query") => set_query(sent, name, value),
            Some(name) => set_header(sent, name, value),
            None => {
                let what = "sent without its API key, whose name is a variable";
                self.import.notes.add(what, &sent.place);
            }
        }
    }

    /// Adds the header of a user and a password, of which any part can be a variable.
    pub(super) fn basic(&mut self, name: Text, password: Text, sent: &mut Request) {
        let mut pair = name.clone();
        pair.push(":");
        pair.append(password.clone());
        let mut value = Text::default();
        match pair.literal() {
            Some(literal) => value.push(&STANDARD.encode(literal)),
            None => {
                // A field shows its texts: no part of a password is in it.
                let is_shown = self.context.options.with_secrets || password.literals().is_empty();
                if !is_shown {
                    pair = name;
                    pair.push(":");
                    pair.push_field(&self.names.blank("password of basic authorization"));
                }
                let whole = pair
                    .expression()
                    .unwrap_or_else(|| self.names.blank("user:password of basic authorization"));
                value.push_field(&format!("{whole} | base64"));
            }
        }
        set_header(sent, "Authorization", value.after("Basic "));
    }
}

/// The value of a field: of a list of pairs, or of the object of collections 2.0. Null if there is
/// none.
fn field_of<'a>(own: Node<'a>, name: &str) -> Node<'a> {
    match own.is_list() {
        true => {
            let is_it = |pair: &Node<'a>| pair.is_object() && pair.at("key").text() == Some(name);
            own.items().find(is_it).map_or_else(|| own.nothing(), |pair| pair.at("value"))
        }
        false => own.at(name),
    }
}

/// Fields that Postman keeps and does not send are used, as are those of other kinds of
/// authorization; what is no field is not. Returns how many fields there are.
fn settle(auth: Node<'_>, kind: &str) -> usize {
    let others = auth.members().filter(|(name, _)| ![kind, "type"].contains(name));
    others.for_each(|(_, other)| {
        other.whole();
    });
    let own = auth.at(kind);
    let fields = own.is_list().then(|| own.items()).into_iter().flatten();
    let fields = fields.filter(|field| field.at("key").text().is_some());
    let members = own.is_object().then(|| own.members()).into_iter().flatten();
    let all = fields.chain(members.map(|(_, field)| field));
    all.inspect(|field| {
        field.whole();
    })
    .count()
}

/// Sets a header in place of others of its name.
fn set_header(sent: &mut Request, name: &str, value: Text) {
    sent.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    sent.headers.push((name.to_owned(), value));
}

/// Adds a parameter to the query, in place of others of its name.
fn set_query(sent: &mut Request, name: &str, mut value: Text) {
    let escaped = |text: &str| crate::url::escaped(text.as_bytes());
    sent.path.map_whole(|whole| {
        let Some((path, query)) = whole.split_once('?') else { return whole.into() };
        let is_other = |pair: &&str| pair.split('=').next() != Some(&escaped(name));
        let others: Vec<&str> = query.split('&').filter(is_other).collect();
        let mark = if others.is_empty() { "" } else { "?" };
        format!("{path}{mark}{}", others.join("&")).into()
    });
    value.map_literals(|text| escaped(text).into());
    value.filter_fields("url");
    let join = if sent.path.literals().contains('?') { '&' } else { '?' };
    sent.path.push(&format!("{join}{}=", escaped(name)));
    sent.path.append(value);
}
