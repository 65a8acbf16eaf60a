//! httperf's command line as shown in saved reports.

use prony_base::secret::{HIDDEN, shown_path};

use super::table::{Key, TABLE};
use crate::getopt::Item;

/// The words after the program's name, without secrets. If there are no secrets, the words are
/// unchanged; otherwise all option names are written in full. `None` if an option is invalid.
pub(crate) fn shown(words: &[String]) -> Option<Vec<String>> {
    let mut is_hidden = false;
    let mut line = Vec::with_capacity(words.len());
    for item in TABLE.read("", words) {
        let (key, value) = match item {
            Item::Option(key, value) => (key, value),
            Item::Operand(word) => {
                line.push(word);
                continue;
            }
            Item::Refused(_) => return None,
        };
        let name = TABLE.words.iter().chain(TABLE.newer).find(|word| word.2 == key)?.0;
        let shown = value.as_deref().map(|value| match key {
            Key::AddHeader => HIDDEN.to_owned(),
            Key::Uri => shown_path(value).into_owned(),
            _ => value.to_owned(),
        });
        is_hidden |= shown != value;
        line.push(match shown {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
    }
    Some(if is_hidden { line } else { words.to_vec() })
}
