//! Texts with fields: literal parts, and expressions that prony evaluates for each request.

/// What marks a field in a text: a character that nothing else should use.
pub(crate) const MARK: char = '\u{f8ff}';

/// A text of which some parts are fields of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    /// What stands between the braces.
    Field(String),
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut all = Self::default();
        all.push(text);
        all
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Text {
    pub(crate) fn push(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Literal(last)) => last.push_str(text),
            _ => self.0.push(Part::Literal(text.to_owned())),
        }
    }

    pub(crate) fn push_field(&mut self, expression: &str) {
        self.0.push(Part::Field(expression.to_owned()));
    }

    pub(crate) fn append(&mut self, more: Self) {
        for part in more.0 {
            match part {
                Part::Literal(text) => self.push(&text),
                field => self.0.push(field),
            }
        }
    }

    /// The text after this one.
    pub(crate) fn after(self, start: &str) -> Self {
        let mut all = Self::from(start);
        all.append(self);
        all
    }

    pub(crate) fn starts_with_field(&self) -> bool {
        matches!(self.0.first(), Some(Part::Field(_)))
    }

    /// The field right after the first literal part.
    pub(crate) fn field_after_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Literal(_), Part::Field(field), ..] => Some(field),
            _ => None,
        }
    }

    /// Its parts in order: whether one is a field, and its text.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (bool, &str)> {
        self.0.iter().map(|part| match part {
            Part::Literal(text) => (false, text.as_str()),
            Part::Field(expression) => (true, expression.as_str()),
        })
    }

    /// Adds a filter to each field.
    pub(crate) fn filter_fields(&mut self, filter: &str) {
        for part in &mut self.0 {
            if let Part::Field(expression) = part {
                expression.push_str(" | ");
                expression.push_str(filter);
            }
        }
    }

    /// The whole text as one expression; none if it cannot be written as one.
    pub(crate) fn expression(&self) -> Option<String> {
        let mut values = Vec::new();
        for part in &self.0 {
            match part {
                Part::Field(expression) if expression.contains('|') => return None,
                Part::Field(expression) => values.push(expression.clone()),
                Part::Literal(text) if text.contains("}}") => return None,
                // Quoted, in the quotes that a piece has not.
                Part::Literal(text) => values.extend(text.split_inclusive('"').flat_map(|piece| {
                    let plain = piece.strip_suffix('"');
                    let quoted = plain.unwrap_or(piece);
                    let first = (!quoted.is_empty()).then(|| format!("\"{quoted}\""));
                    first.into_iter().chain(plain.map(|_| "'\"'".to_owned()))
                })),
            }
        }
        (!values.is_empty()).then(|| values.join(" | append "))
    }

    /// What stands between the braces of each field.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Field(expression) => Some(expression.as_str()),
            Part::Literal(_) => None,
        })
    }

    pub(crate) fn has_fields(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Field(_)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes, with what stands between the braces.
    pub(crate) fn len(&self) -> usize {
        let length = |part: &Part| match part {
            Part::Literal(text) => text.len(),
            Part::Field(expression) => expression.len() + "{{}}".len(),
        };
        self.0.iter().map(length).sum()
    }

    /// The text, if it has no fields.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text without its fields.
    pub(crate) fn literals(&self) -> String {
        let literal = |part: &Part| match part {
            Part::Literal(text) => text.clone(),
            Part::Field(_) => String::new(),
        };
        self.0.iter().map(literal).collect()
    }

    /// Replaces the whole text by what the function makes of it. There, fields stand as
    /// [`MARK`]s with their numbers between them, which must stay.
    pub(crate) fn map_whole(&mut self, to: impl FnOnce(&str) -> Self) {
        let mut fields = Vec::new();
        let mut whole = String::new();
        for part in std::mem::take(&mut self.0) {
            match part {
                Part::Literal(text) => whole.push_str(&text),
                Part::Field(expression) => {
                    whole.push_str(&format!("{MARK}{}{MARK}", fields.len()));
                    fields.push(expression);
                }
            }
        }
        *self = to(&whole);
        if !fields.is_empty() {
            self.map_literals(|text| with_fields(text, &fields));
        }
    }

    /// The text with each part as the functions write it.
    pub(crate) fn rendered(
        &self,
        literal: impl Fn(&str) -> String,
        field: impl Fn(&str) -> String,
    ) -> String {
        let written = |part: &Part| match part {
            Part::Literal(text) => literal(text),
            Part::Field(expression) => field(expression),
        };
        self.0.iter().map(written).collect()
    }

    /// Replaces each literal part by what the function makes of it.
    pub(crate) fn map_literals(&mut self, mut to: impl FnMut(&str) -> Self) {
        let mut all = Self::default();
        for part in std::mem::take(&mut self.0) {
            match part {
                Part::Literal(text) => all.append(to(&text)),
                field => all.0.push(field),
            }
        }
        *self = all;
    }

    /// As a template.
    pub(crate) fn template(&self) -> String {
        let written = |part: &Part| match part {
            Part::Literal(text) => text.replace("{{", r#"{{"{{"}}"#),
            Part::Field(expression) => format!("{{{{{expression}}}}}"),
        };
        self.0.iter().map(written).collect()
    }
}

/// The text with fields in the places of their marks.
fn with_fields(text: &str, fields: &[String]) -> Text {
    let mut all = Text::default();
    for (nth, piece) in text.split(MARK).enumerate() {
        let field = piece.parse::<usize>().ok().filter(|_| nth % 2 == 1);
        match field.and_then(|n| fields.get(n)) {
            Some(field) => all.push_field(field),
            None => all.push(piece),
        }
    }
    all
}

/// The most bytes of a name.
const NAME: usize = 100;

/// A name of a variable, like this one.
pub(crate) fn variable_name(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let mut out = String::new();
    for c in name.chars().map(letter) {
        if c != '_' || !(out.is_empty() || out.ends_with('_')) {
            out.push(c);
        }
    }
    // What others call so may have any length.
    let out = out[..out.len().min(NAME)].trim_end_matches('_');
    let is_free = !prony_plan::script::BUILT_IN.contains(&out);
    if is_free && out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.into()
    } else {
        format!("value_{out}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_templates() {
        let mut text = Text::from("a{{b");
        text.push("");
        text.push_field("token");
        text.push("}}");
        assert_eq!(text.template(), r#"a{{"{{"}}b{{token}}}}"#);
        assert_eq!((text.literal(), text.literals().as_str()), (None, "a{{b}}"));
        assert!(text.has_fields() && !text.is_empty());
        text.map_literals(|literal| literal.to_uppercase().into());
        assert_eq!(text.template(), r#"A{{"{{"}}B{{token}}}}"#);
        text.map_whole(|whole| whole.replace("}}", "!").into());
        assert_eq!(text.template(), r#"A{{"{{"}}B{{token}}!"#);
        assert_eq!(text.clone().after("<").template(), r#"<A{{"{{"}}B{{token}}!"#);
        assert!(!text.starts_with_field());
        assert_eq!(Text::from("}}").expression(), None);
        let mut user = Text::from("it's \"x\":");
        user.push_field("pw");
        let expression =
            r#""it's " | append '"' | append "x" | append '"' | append ":" | append pw"#;
        assert_eq!(user.expression().as_deref(), Some(expression));
        user.filter_fields("json");
        assert_eq!(user.template(), r#"it's "x":{{pw | json}}"#);
        assert_eq!(variable_name("a.$.b[0]"), "a_b_0");
        assert_eq!((variable_name("1"), variable_name("")), ("value_1".into(), "value_".into()));
        assert_eq!(variable_name("Session"), "value_session");
        assert_eq!(Text::from("x").literal(), Some("x"));
        assert_eq!(Text::default().literal(), Some(""));
    }
}
