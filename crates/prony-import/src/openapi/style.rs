//! How a parameter's value is written: `style` and `explode` of OpenAPI 3, `collectionFormat` of
//! Swagger 2.0 (RFC 6570).

use serde_json::Value;

use crate::url::escaped;

/// How a value is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style<'a> {
    name: &'a str,
    is_exploded: bool,
    /// Reserved characters stay as they are.
    is_reserved: bool,
    /// Between the items of a list that is not exploded, if the style does not say.
    between: &'a str,
    /// Labels have the form of OpenAPI 3.0, in which lists have dots in any case.
    is_old: bool,
}

impl<'a> Style<'a> {
    /// The style of a parameter in this place, or of a field of a form (in `query`). `version` is
    /// that of the document.
    pub(super) fn of(parameter: &'a Value, at: &str, version: &str) -> Self {
        let usual = if ["query", "cookie"].contains(&at) { "form" } else { "simple" };
        let name = parameter["style"].as_str().unwrap_or(usual);
        let explode = parameter["explode"].as_bool();
        let own = Self {
            name,
            is_exploded: explode.unwrap_or(name == "form" || name == "cookie"),
            is_reserved: parameter["allowReserved"] == true,
            between: ",",
            is_old: version.starts_with("3.0"),
        };
        if version != "2.0" {
            return own;
        }
        let format = parameter["collectionFormat"].as_str().unwrap_or("csv");
        let between = match format {
            "ssv" => "%20",
            "tsv" => "%09",
            "pipes" => "%7C",
            _ => ",",
        };
        Self { is_exploded: format == "multi", between, ..own }
    }

    fn escaped(&self, text: &str) -> String {
        if !self.is_reserved {
            return escaped(text.as_bytes());
        }
        let one = |c: char| match c {
            // They would end the value.
            '#' | '&' | '+' | '[' | ']' => escaped(c.to_string().as_bytes()),
            c if ":/?@!$'()*,;=".contains(c) => c.to_string(),
            c => escaped(c.to_string().as_bytes()),
        };
        text.chars().map(one).collect()
    }

    /// A parameter of a query or a form: pairs with `&` between them.
    pub(super) fn query(&self, name: &str, value: &Value) -> String {
        let key = escaped(name.as_bytes());
        let one = |value: &Value| format!("{key}={}", self.escaped(&plain(value)));
        let between = match self.name {
            "spaceDelimited" => "%20",
            "pipeDelimited" => "%7C",
            _ => self.between,
        };
        let part = |value: &Value| self.escaped(&plain(value));
        match value {
            Value::Array(all) if self.is_exploded || self.name == "deepObject" => {
                all.iter().map(one).collect::<Vec<_>>().join("&")
            }
            Value::Array(all) => {
                format!("{key}={}", all.iter().map(part).collect::<Vec<_>>().join(between))
            }
            Value::Object(all) => {
                let pair = |(inner, value): (&String, &Value)| match self.name {
                    "deepObject" => {
                        format!("{key}%5B{}%5D={}", escaped(inner.as_bytes()), part(value))
                    }
                    _ => format!("{}={}", escaped(inner.as_bytes()), part(value)),
                };
                if self.name == "deepObject" || self.is_exploded {
                    return all.iter().map(pair).collect::<Vec<_>>().join("&");
                }
                let both = all.iter().flat_map(|(n, v)| [escaped(n.as_bytes()), part(v)]);
                format!("{key}={}", both.collect::<Vec<_>>().join(between))
            }
            value => one(value),
        }
    }

    /// A parameter of a path.
    pub(super) fn path(&self, name: &str, value: &Value) -> String {
        let part = |value: &Value| self.escaped(&plain(value));
        let (start, between) = match (self.name, self.is_exploded || self.is_old) {
            ("label", true) => (".".to_owned(), "."),
            ("label", false) => (".".to_owned(), ","),
            ("matrix", _) => (format!(";{name}="), self.between),
            _ => (String::new(), self.between),
        };
        let is_matrix = self.name == "matrix" && self.is_exploded;
        match value {
            Value::Array(all) if is_matrix => {
                all.iter().map(|value| format!(";{name}={}", part(value))).collect()
            }
            Value::Object(all) if is_matrix => {
                let pair = |(inner, value): (&String, &Value)| format!(";{inner}={}", part(value));
                all.iter().map(pair).collect()
            }
            value => start + &self.listed(value, between, &part),
        }
    }

    /// A value of a header.
    pub(super) fn header(&self, value: &Value) -> String {
        self.listed(value, ",", &plain)
    }

    /// A cookie: its name and value.
    ///
    /// No cookie has a comma in its value: it is encoded with the rest.
    pub(super) fn cookie(&self, name: &str, value: &Value) -> String {
        let part = |value: &Value| match self.name {
            "cookie" => plain(value),
            _ => escaped(plain(value).as_bytes()),
        };
        let pair = |(name, value): (&String, &Value)| format!("{name}={}", part(value));
        match value {
            Value::Array(all) if self.is_exploded => {
                let one = |value: &Value| format!("{name}={}", part(value));
                all.iter().map(one).collect::<Vec<_>>().join("&")
            }
            Value::Object(all) if self.is_exploded => {
                all.iter().map(pair).collect::<Vec<_>>().join("&")
            }
            value => {
                let listed = Value::String(self.listed(value, ",", &plain));
                format!("{name}={}", part(&listed))
            }
        }
    }

    /// The parts of a value with a text between them.
    fn listed(&self, value: &Value, between: &str, part: &dyn Fn(&Value) -> String) -> String {
        match value {
            Value::Array(all) => all.iter().map(part).collect::<Vec<_>>().join(between),
            Value::Object(all) => {
                let join = if self.is_exploded { "=" } else { between };
                let pair = |(name, value): (&String, &Value)| {
                    format!("{}{join}{}", part(&Value::from(name.as_str())), part(value))
                };
                all.iter().map(pair).collect::<Vec<_>>().join(between)
            }
            value => part(value),
        }
    }
}

/// A value as a text; what has parts is JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of the specification, 4.8.12.4 of OpenAPI 3.0.
    #[test]
    fn values_are_those_of_the_specification() {
        let list = json!(["blue", "black", "brown"]);
        let object = json!({"R": 100, "G": 200, "B": 150});
        for (at, style, explode, of_list, of_object) in [
            ("path", "matrix", false, ";c=blue,black,brown", ";c=R,100,G,200,B,150"),
            ("path", "matrix", true, ";c=blue;c=black;c=brown", ";R=100;G=200;B=150"),
            ("path", "label", false, ".blue.black.brown", ".R.100.G.200.B.150"),
            ("path", "label", true, ".blue.black.brown", ".R=100.G=200.B=150"),
            ("path", "simple", false, "blue,black,brown", "R,100,G,200,B,150"),
            ("path", "simple", true, "blue,black,brown", "R=100,G=200,B=150"),
            ("query", "form", false, "c=blue,black,brown", "c=R,100,G,200,B,150"),
            ("query", "form", true, "c=blue&c=black&c=brown", "R=100&G=200&B=150"),
            (
                "query",
                "spaceDelimited",
                false,
                "c=blue%20black%20brown",
                "c=R%20100%20G%20200%20B%20150",
            ),
            (
                "query",
                "deepObject",
                true,
                "c=blue&c=black&c=brown",
                "c%5BR%5D=100&c%5BG%5D=200&c%5BB%5D=150",
            ),
        ] {
            let parameter = json!({"style": style, "explode": explode});
            let style = Style::of(&parameter, at, "3.0.3");
            let write = |value: &Value| match at {
                "path" => style.path("c", value),
                _ => style.query("c", value),
            };
            assert_eq!(write(&list), of_list, "{parameter}");
            assert_eq!(write(&object), of_object, "{parameter}");
        }
    }

    #[test]
    fn collections_have_formats() {
        let list = json!(["a b", "c"]);
        for (format, wanted) in [
            (json!(null), "n=a%20b,c"),
            (json!("csv"), "n=a%20b,c"),
            (json!("ssv"), "n=a%20b%20c"),
            (json!("tsv"), "n=a%20b%09c"),
            (json!("pipes"), "n=a%20b%7Cc"),
            (json!("multi"), "n=a%20b&n=c"),
        ] {
            let parameter = json!({"collectionFormat": format});
            assert_eq!(Style::of(&parameter, "query", "2.0").query("n", &list), wanted);
        }
        let reserved = json!({"allowReserved": true});
        let style = Style::of(&reserved, "query", "3.1.0");
        assert_eq!(style.query("n", &json!("a/b?c&d e")), "n=a/b?c%26d%20e");
        let usual = Value::Null;
        let cookie = Style::of(&usual, "cookie", "3.0.0");
        assert_eq!(cookie.cookie("n", &list), "n=a%20b&n=c");
        assert_eq!(Style::of(&usual, "header", "3.0.0").header(&list), "a b,c");
        assert_eq!(cookie.query("n", &json!([{"a": 1}, null])), "n=%7B%22a%22%3A1%7D&n=");
    }
}
