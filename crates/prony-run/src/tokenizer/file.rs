//! A file `tokenizer.json`.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use prony_plan::tokenizer::CountTokens;
use tokenizers::Tokenizer;

use crate::error::Error;
use crate::files;

/// The longest file that is read: 128 MiB. Those of large vocabularies have 40.
const TOKENIZER_MAX: u64 = 128 << 20;

/// The tokenizer that was read last, and its file as it was then. Reading a large one takes a
/// second, and a search has many trials.
static LAST: Mutex<Option<(File, Arc<dyn CountTokens>)>> = Mutex::new(None);

/// What changes if a file does.
#[derive(PartialEq)]
struct File {
    path: Box<str>,
    length: u64,
    modified: Option<SystemTime>,
}

struct Counter(Tokenizer);

/// The tokenizer in this file.
pub(super) fn read(path: &str) -> Result<Arc<dyn CountTokens>, Error> {
    let unreadable =
        |why| Error::Unreadable { what: "--tokenizer", path: Path::new(path).to_owned(), why };
    let about = std::fs::metadata(path).map_err(unreadable)?;
    let file = File { path: path.into(), length: about.len(), modified: about.modified().ok() };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, tokenizer)) = &*last
        && *known == file
    {
        return Ok(Arc::clone(tokenizer));
    }
    let bytes = files::bounded(Path::new(path), TOKENIZER_MAX).map_err(unreadable)?;
    let tokenizer: Arc<dyn CountTokens> = Arc::new(parse(path, &bytes)?);
    *last = Some((file, Arc::clone(&tokenizer)));
    Ok(tokenizer)
}

fn parse(path: &str, bytes: &[u8]) -> Result<Counter, Error> {
    let no_tokenizer = |why: tokenizers::Error| {
        let why = why.to_string();
        let why = why.lines().next().unwrap_or_default();
        Error::Argument(format!("--tokenizer {path}: this is no tokenizer.json: {why}"))
    };
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(no_tokenizer)?;
    // Files may have them for the inputs of a model. Replies are counted to their end.
    tokenizer.with_truncation(None).map_err(no_tokenizer)?;
    tokenizer.with_padding(None);
    Ok(Counter(tokenizer))
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokenizer")
    }
}

impl CountTokens for Counter {
    fn count(&self, text: &str) -> Option<u32> {
        let encoding = self.0.encode_fast(text, false).ok()?;
        u32::try_from(encoding.len()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<const N: usize>(json: &str, texts: [&str; N]) -> [Option<u32>; N] {
        let tokenizer = parse("t", json.as_bytes()).expect("a tokenizer");
        texts.map(|text| tokenizer.count(text))
    }

    /// A vocabulary of words, with marks for the start and the end that do not count.
    #[test]
    fn counts_the_tokens_of_a_known_vocabulary() {
        const WORDS: &str = r#"{
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 2]},
            "decoder": null,
            "model": {"type": "WordLevel", "unk_token": "[UNK]",
                "vocab": {"[UNK]": 0, "[SEP]": 1, "[CLS]": 2, "hello": 3, "world": 4, "!": 5}}
        }"#;
        let texts = ["", "hello", "hello world!", " hello\n hello  unknown ", "a-b"];
        assert_eq!(counts(WORDS, texts), [0, 1, 3, 3, 3].map(Some));
        // A word that is not in the vocabulary cannot be counted without a token for such words.
        let strict = WORDS.replace("\"[UNK]\": 0, ", "");
        assert_eq!(counts(&strict, ["hello", "hello unknown"]), [Some(1), None]);
    }

    /// Pairs of bytes, as in the vocabularies of most models.
    #[test]
    fn counts_the_tokens_of_pairs_of_bytes() {
        const PAIRS: &str = r#"{
            "version": "1.0",
            "truncation": {"max_length": 2, "stride": 0, "strategy": "LongestFirst",
                "direction": "Right"},
            "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "a"},
            "added_tokens": [{"id": 7, "content": "<|end|>", "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": " ?\\p{L}+|\\s+(?!\\S)|\\s+|[^\\s\\p{L}]+"},
                 "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                 "use_regex": false}]},
            "post_processor": null,
            "decoder": null,
            "model": {"type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "abab": 4, "\u0120a": 5,
                    "\u00c3": 6, "\u00bc": 8},
                "merges": [["a", "b"], ["ab", "ab"], ["\u0120", "a"]]}
        }"#;
        let texts = ["ab", "abab", "ababab", "ab ab", "ab a", "a  a", "aü", "ab<|end|>ab"];
        let tokens = [1, 1, 2, 3, 2, 3, 3, 3];
        assert_eq!(counts(PAIRS, texts), tokens.map(Some));
    }

    #[test]
    fn a_file_that_has_changed_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        let name = path.to_str().expect("UTF-8");
        let write = |pre_tokenizer: &str| {
            let text = format!(
                "{{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {pre_tokenizer}, \
                 \"model\": {{\"type\": \"WordLevel\", \"unk_token\": \"u\", \
                 \"vocab\": {{\"u\": 0}}}}}}"
            );
            std::fs::write(&path, text).expect("a file");
            read(name).expect("a tokenizer")
        };
        let words = write("{\"type\": \"WhitespaceSplit\"}");
        assert!(Arc::ptr_eq(&words, &read(name).expect("the same")));
        assert_eq!(words.count("a-b c"), Some(2));
        assert_eq!(write("null").count("a-b c"), Some(1));
    }
}
