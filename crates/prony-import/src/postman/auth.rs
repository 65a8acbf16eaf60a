//! The authorization of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::Request;
use crate::text::Text;

use super::{Around, Reader};

impl Reader<'_> {
    /// Adds what the authorization adds to a request.
    pub(super) fn authorize(&mut self, auth: &Value, sent: &mut Request, around: &Around<'_, '_>) {
        let Some(kind) = auth["type"].as_str() else { return };
        let mut field = |name: &str| {
            // A list of pairs, or the object of collections 2.0.
            let value = match &auth[kind] {
                Value::Array(all) => all.iter().find(|p| p["key"] == name).map(|p| &p["value"]),
                object => object.get(name),
            };
            let text = match value {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            self.text(&text, around)
        };
        match kind {
            "noauth" => {}
            "basic" => {
                let [name, password] = ["username", "password"].map(field);
                self.basic(name, password, sent);
            }
            "bearer" => {
                let token = field("token");
                if !token.is_empty() {
                    set_header(sent, "Authorization", token.after("Bearer "));
                }
            }
            "apikey" => {
                let [name, value, place] = ["key", "value", "in"].map(field);
                match name.literal() {
                    Some("") => {}
                    Some(name) if place.literal() == Some("query") => set_query(sent, name, value),
                    Some(name) => set_header(sent, name, value),
                    None => {
                        let what = "sent without its API key, whose name is a variable";
                        self.import.notes.add(what, &sent.place);
                    }
                }
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
                    let has_prefix = auth_has(auth, "headerPrefix");
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

fn auth_has(auth: &Value, name: &str) -> bool {
    let kind = auth["type"].as_str().unwrap_or_default();
    match &auth[kind] {
        Value::Array(all) => all.iter().any(|pair| pair["key"] == name && !pair["value"].is_null()),
        object => object.get(name).is_some_and(|value| !value.is_null()),
    }
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
