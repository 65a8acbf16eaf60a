//! HTTP Archives (HAR 1.2) as data: what is read from browsers, and written by prony.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::context::REQUESTS;

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    /// All of it.
    pub log: Log,
}

/// The exchanges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    /// The version of the format.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// The program that has written the archive.
    #[serde(default, deserialize_with = "or_default")]
    pub creator: Creator,
    /// The exchanges, in the order of their starts.
    #[serde(default, deserialize_with = "entries")]
    pub entries: Vec<Entry>,
}

/// The program that has written an archive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Creator {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The page that needed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pageref: Option<String>,
    /// When it started, as in RFC 3339.
    pub started_date_time: String,
    /// How long it took, in milliseconds.
    #[serde(default, deserialize_with = "or_default")]
    pub time: f64,
    /// The request.
    pub request: Sent,
    /// The reply; its status is 0 if there was none.
    pub response: Reply,
    /// What a cache had: nothing is read from it.
    #[serde(default, deserialize_with = "or_default")]
    pub cache: Cache,
    /// The parts of the time.
    #[serde(default, deserialize_with = "or_default")]
    pub timings: Timings,
    /// The connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The session that it belongs to: a key of prony.
    #[serde(rename = "_session", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether the browser's cache answered: a key of Chromium.
    #[serde(rename = "_fromCache", default, skip_serializing_if = "Option::is_none")]
    pub from_cache: Option<serde_json::Value>,
    /// What it is for: a key of Chromium.
    #[serde(rename = "_resourceType", default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// The state of a cache, which is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {}

/// The parts of the time of an exchange, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Until the request was sent.
    #[serde(default, deserialize_with = "or_default")]
    pub send: f64,
    /// Until the reply began.
    #[serde(default, deserialize_with = "or_default")]
    pub wait: f64,
    /// Until the reply was complete.
    #[serde(default, deserialize_with = "or_default")]
    pub receive: f64,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// The method.
    pub method: String,
    /// The complete URL.
    pub url: String,
    /// The version of HTTP.
    #[serde(default, deserialize_with = "or_default")]
    pub http_version: String,
    /// The cookies, which are in the headers too.
    #[serde(default, deserialize_with = "or_default")]
    pub cookies: Vec<Pair>,
    /// The headers.
    #[serde(default, deserialize_with = "or_default")]
    pub headers: Vec<Pair>,
    /// The parameters of the URL, which are in it too.
    #[serde(default, deserialize_with = "or_default")]
    pub query_string: Vec<Pair>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_data: Option<Post>,
    /// The length of the head in bytes; -1 if it is not known.
    #[serde(default, deserialize_with = "or_default")]
    pub headers_size: i64,
    /// The length of the body in bytes; -1 if it is not known.
    #[serde(default, deserialize_with = "or_default")]
    pub body_size: i64,
}

/// A name and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The name.
    pub name: String,
    /// The value.
    #[serde(default, deserialize_with = "or_default")]
    pub value: String,
}

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Post {
    /// The value of `Content-Type`.
    #[serde(default, deserialize_with = "or_default")]
    pub mime_type: String,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `base64` if the text is so encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// The fields of a form.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Field>,
    /// Whether the text is only the start of the body: a key of prony.
    #[serde(
        rename = "_truncated",
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_truncated: bool,
}

/// A field of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// The name.
    pub name: String,
    /// The value, or the content of a file.
    #[serde(default, deserialize_with = "or_default")]
    pub value: String,
    /// The name of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The status; 0 if there was no reply.
    #[serde(default, deserialize_with = "or_default")]
    pub status: i32,
    /// The words after the status.
    #[serde(default, deserialize_with = "or_default")]
    pub status_text: String,
    /// The version of HTTP.
    #[serde(default, deserialize_with = "or_default")]
    pub http_version: String,
    /// The cookies, which are in the headers too.
    #[serde(default, deserialize_with = "or_default")]
    pub cookies: Vec<Pair>,
    /// The headers.
    #[serde(default, deserialize_with = "or_default")]
    pub headers: Vec<Pair>,
    /// The body.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Content,
    /// Where it leads to.
    #[serde(rename = "redirectURL", default, deserialize_with = "or_default")]
    pub redirect_url: String,
    /// The length of the head in bytes; -1 if it is not known.
    #[serde(default, deserialize_with = "or_default")]
    pub headers_size: i64,
    /// The length of the body in bytes, as sent; -1 if it is not known.
    #[serde(default, deserialize_with = "or_default")]
    pub body_size: i64,
}

/// The body of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// Its length in bytes, without compression.
    #[serde(default, deserialize_with = "or_default")]
    pub size: i64,
    /// The value of `Content-Type`.
    #[serde(default, deserialize_with = "or_default")]
    pub mime_type: String,
    /// The body, without compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `base64` if the text is so encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// Not too many of them, or none in place of a `null`.
fn entries<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Entry>, D::Error> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<Entry>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of entries")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(entry) = list.next_element()? {
                if all.len() == REQUESTS {
                    return Err(A::Error::custom("more than 100,000 entries"));
                }
                all.push(entry);
            }
            Ok(all)
        }
    }
    from.deserialize_any(Entries)
}

/// A value, or the default in place of a `null`: Firefox and Charles write it for what they do not
/// know.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
