//! Bodies of requests, and files that a plan names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use toml::de::DeValue;

use super::reader::{Item, Problems};
use super::request::Requests;
use crate::files;

const BODY: &str = "a string, \"@FILE\", { text = ... }, { file = ... } or { base64 = ... }";

impl<'a> Requests<'a> {
    /// Reads a body in any form.
    pub(super) fn body(&mut self, item: Item<'a>) -> Option<Vec<u8>> {
        if let DeValue::String(text) = item.value
            && let Some(file) = text.strip_prefix('@')
        {
            return self.file(item, file).map(|(_, bytes)| bytes);
        }
        if let DeValue::Table(table) = item.value
            && let Some((_, file)) = table.get_key_value("file").filter(|_| table.len() == 1)
        {
            let item = Item::new(item.key, file);
            let file = item.string(&mut self.problems, "a file's name")?;
            return self.file(item, file).map(|(_, bytes)| bytes);
        }
        bytes(&mut self.problems, item, BODY)
    }

    /// Reads a file relative to the plan's directory. Returns its name for messages and its
    /// contents.
    pub(super) fn file(&mut self, item: Item<'_>, name: &str) -> Option<(String, Vec<u8>)> {
        let Some(folder) = self.folder else {
            let what = format!("`{}`: no files are read for this plan", item.key);
            self.problems.add(item.at, what);
            return None;
        };
        let path = folder.join(name);
        match files::read("the file", &path) {
            Ok(bytes) => Some((path.display().to_string(), bytes)),
            Err(why) => {
                self.problems.add(item.at, format!("`{}`: {why}", item.key));
                None
            }
        }
    }
}

/// Reads text, or bytes in base64.
pub(super) fn bytes(
    problems: &mut Problems<'_>,
    item: Item<'_>,
    expected: &str,
) -> Option<Vec<u8>> {
    let table = match item.value {
        DeValue::String(text) => return Some(text.as_bytes().to_vec()),
        DeValue::Table(table) if table.len() == 1 => table,
        _ => {
            item.wrong_type(problems, expected);
            return None;
        }
    };
    if let Some(text) = table.get("text") {
        let text = Item::new(item.key, text).string(problems, "a string")?;
        return Some(text.as_bytes().to_vec());
    }
    let Some(code) = table.get("base64") else {
        item.wrong_type(problems, expected);
        return None;
    };
    let decode = |text: &str| {
        let text: String = text.split_ascii_whitespace().collect();
        let wrong = |_| "this is not base64: letters, digits, + and /, padded with =".to_owned();
        BASE64.decode(text).map_err(wrong)
    };
    Item::new(item.key, code).parse(problems, "a string in base64", decode)
}
