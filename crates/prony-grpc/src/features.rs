//! Syntaxes, editions and their features: what an element has of itself, and what it inherits.

/// The language of a `.proto` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Syntax {
    #[default]
    Proto2,
    Proto3,
    /// Edition 2023 or 2024, whose defaults are the same for what is encoded.
    Edition,
}

/// The editions, with their numbers in descriptors.
const EDITIONS: [(u64, &str); 2] = [(1000, "2023"), (1001, "2024")];

impl Syntax {
    /// From the two fields of a descriptor.
    pub(crate) fn new(syntax: &str, edition: Option<u64>) -> Result<Self, String> {
        match syntax {
            "" | "proto2" => Ok(Self::Proto2),
            "proto3" => Ok(Self::Proto3),
            "editions" => {
                let edition = edition.unwrap_or_default();
                match EDITIONS.iter().any(|(number, _)| *number == edition) {
                    true => Ok(Self::Edition),
                    false => Err(format!(
                        "its edition (number {edition}) is not supported; prony knows the \
                         editions 2023 and 2024"
                    )),
                }
            }
            other => Err(format!(
                "its syntax '{}' is not known; it is proto2, proto3 or editions",
                crate::wire::shown(other)
            )),
        }
    }

    /// From the text of an `edition` statement.
    pub(crate) fn is_edition(text: &str) -> bool {
        EDITIONS.iter().any(|(_, name)| *name == text)
    }
}

/// Whether no value differs from the default value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Explicit,
    Implicit,
    Required,
}

/// The features that an element sets itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    presence: Option<Presence>,
    is_closed: Option<bool>,
    is_packed: Option<bool>,
    is_delimited: Option<bool>,
}

/// The features of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) presence: Presence,
    pub(crate) is_closed: bool,
    pub(crate) is_packed: bool,
    pub(crate) is_delimited: bool,
}

/// The names of the features in `google.protobuf.FeatureSet`, and of their values from 1 on. Texts
/// in JSON are always valid UTF-8, and the names in JSON are in the descriptor: two say nothing for
/// messages that are encoded.
const NAMES: [(&str, &[&str]); 6] = [
    ("field_presence", &["EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"]),
    ("enum_type", &["OPEN", "CLOSED"]),
    ("repeated_field_encoding", &["PACKED", "EXPANDED"]),
    ("utf8_validation", &["", "VERIFY", "NONE"]),
    ("message_encoding", &["LENGTH_PREFIXED", "DELIMITED"]),
    ("json_format", &["ALLOW", "LEGACY_BEST_EFFORT"]),
];

impl Features {
    /// By the numbers of feature and value. Those that say nothing for messages are not looked at.
    pub(crate) fn set(&mut self, feature: u32, value: u64) -> Result<(), String> {
        match (feature, value) {
            (1, 1) => self.presence = Some(Presence::Explicit),
            (1, 2) => self.presence = Some(Presence::Implicit),
            (1, 3) => self.presence = Some(Presence::Required),
            (2, 1 | 2) => self.is_closed = Some(value == 2),
            (3, 1 | 2) => self.is_packed = Some(value == 1),
            (5, 1 | 2) => self.is_delimited = Some(value == 2),
            (1 | 2 | 3 | 5, _) => {
                let name = NAMES[feature as usize - 1].0;
                return Err(format!("the feature {name} has the unknown value {value}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// By their names.
    pub(crate) fn set_text(&mut self, feature: &str, value: &str) -> Result<(), String> {
        let Some(number) = NAMES.iter().position(|(name, _)| *name == feature) else {
            // Features of languages, and of style.
            return Ok(());
        };
        let known = NAMES[number].1.iter().position(|name| *name == value && !name.is_empty());
        let Some(of_value) = known else {
            let value = crate::wire::shown(value);
            return Err(format!("the feature {feature} has the unknown value {value}"));
        };
        self.set(number as u32 + 1, of_value as u64 + 1)
    }
}

impl Resolved {
    /// The defaults of a syntax.
    pub(crate) fn of(syntax: Syntax) -> Self {
        Self {
            presence: match syntax {
                Syntax::Proto3 => Presence::Implicit,
                Syntax::Proto2 | Syntax::Edition => Presence::Explicit,
            },
            is_closed: syntax == Syntax::Proto2,
            is_packed: syntax != Syntax::Proto2,
            is_delimited: false,
        }
    }

    /// Those of an element within.
    pub(crate) fn with(self, own: &Features) -> Self {
        Self {
            presence: own.presence.unwrap_or(self.presence),
            is_closed: own.is_closed.unwrap_or(self.is_closed),
            is_packed: own.is_packed.unwrap_or(self.is_packed),
            is_delimited: own.is_delimited.unwrap_or(self.is_delimited),
        }
    }
}
