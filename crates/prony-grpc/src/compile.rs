//! `.proto` files: protox parses and checks them. It knows no editions: a file in one is parsed as
//! proto3, whose grammar is nearest, checked as proto2, which allows most, and its features are
//! left to `features`.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use protox::file::{File as Source, FileResolver, GoogleFileResolver, IncludeFileResolver};
use protox::prost::Message as _;
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    UninterpretedOption,
};
use protox::{Compiler, Error};

use crate::features::Syntax;
use crate::file::{self, Budget, File};

/// How many bytes of `.proto` files are read.
const BYTES_MAX: usize = 64 << 20;
/// How many files.
const FILES_MAX: usize = 4_096;
/// How deep brackets may be nested. The parser of some of them is recursive.
const DEPTH_MAX: usize = 200;
/// The stack of the compiler: imports are compiled within the file that imports them.
const STACK: usize = 256 << 20;

/// Compiles files. Their imports are searched in `folders`, then in their own folders.
pub(crate) fn compile(files: &[PathBuf], folders: &[PathBuf]) -> Result<Vec<File>, String> {
    let mut includes: Vec<PathBuf> = folders.to_vec();
    for file in files {
        let own = match file.parent() {
            Some(folder) if folder != Path::new("") => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !includes.contains(&own) {
            includes.push(own);
        }
    }
    for file in files {
        let opened = std::fs::File::open(file);
        opened.map_err(|why| format!("{} cannot be read: {why}", file.display()))?;
    }
    // A thread of its own has the stack, and ends alone if a file makes the compiler fail.
    std::thread::scope(|scope| {
        let compiler = std::thread::Builder::new().stack_size(STACK);
        let thread = compiler.spawn_scoped(scope, || with_protox(files, includes));
        let thread = thread.map_err(|why| format!("there is no thread for the compiler: {why}"))?;
        thread.join().unwrap_or_else(|_| Err("the compiler fails at these files".into()))
    })
}

fn with_protox(files: &[PathBuf], includes: Vec<PathBuf>) -> Result<Vec<File>, String> {
    let known = Known::default();
    let (seen, google) = (known.clone(), GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(Sources { includes, google, seen });
    compiler.include_imports(true);
    for file in files {
        // Only this form has the place.
        compiler.open_file(file).map_err(|error| format!("{error:?}"))?;
    }
    let mut budget = Budget::default();
    let mut all = file::files(&compiler.file_descriptor_set().encode_to_vec(), &mut budget)?;
    let known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
    for file in &mut all {
        if let Some(parsed) = known.editions.get(&file.name) {
            *file = File { syntax: Syntax::Edition, ..File::read(&parsed[..], &mut budget)? };
        }
    }
    Ok(all)
}

/// What is known of the files so far.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<Opened>>);

#[derive(Default)]
struct Opened {
    /// The parsed files in an edition, by their names.
    editions: HashMap<String, Vec<u8>>,
    files: usize,
    bytes: usize,
}

/// Finds files in folders.
struct Sources {
    includes: Vec<PathBuf>,
    google: GoogleFileResolver,
    seen: Known,
}

impl FileResolver for Sources {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        let mut includes = self.includes.iter();
        includes.find_map(|folder| IncludeFileResolver::new(folder.clone()).resolve_path(path))
    }

    fn open_file(&self, name: &str) -> Result<Source, Error> {
        for folder in &self.includes {
            let path = folder.join(name);
            let Ok(text) = self.text_of(&path) else {
                // The parser says why, or that it is not there.
                match Source::open(name, &path) {
                    Err(why) if why.is_file_not_found() => continue,
                    other => return other,
                }
            };
            if let Some(why) = self.refused(name, &text) {
                return Err(Error::new(Refused(why)));
            }
            return match edition(&text) {
                Some(edition) => self.open_edition(name, &text, &edition),
                None => Source::open(name, &path),
            };
        }
        self.google.open_file(name)
    }
}

impl Sources {
    fn text_of(&self, path: &Path) -> std::io::Result<String> {
        let file = std::fs::File::open(path)?;
        let mut text = String::new();
        // One byte more shows that there is more.
        file.take(BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Why the parser does not get a text.
    fn refused(&self, name: &str, text: &str) -> Option<String> {
        let mut seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.files += 1;
        seen.bytes += text.len();
        if seen.files > FILES_MAX || seen.bytes > BYTES_MAX {
            let most = BYTES_MAX >> 20;
            return Some(format!(
                "{name}: it and all imports have more than {FILES_MAX} files, or {most} MiB"
            ));
        }
        let line = too_deep(text)?;
        Some(format!("{name}:{line}: brackets are nested more than {DEPTH_MAX} deep"))
    }

    fn open_edition(&self, name: &str, text: &str, edition: &Edition<'_>) -> Result<Source, Error> {
        if !Syntax::is_edition(edition.name) {
            let line = 1 + text[..edition.at].matches('\n').count();
            let shown = crate::wire::shown(edition.name);
            return Err(Error::new(Refused(format!(
                "{name}:{line}: the edition '{shown}' is not supported; prony knows the editions \
                 2023 and 2024"
            ))));
        }
        let (before, after) = (&text[..edition.at], &text[edition.end..]);
        // Lines stay what they are.
        let blank = text[edition.at..edition.end].matches('\n').map(|_| '\n');
        let text = format!("{before}syntax = \"proto3\"{}{after}", blank.collect::<String>());
        let parsed = Source::from_source(name, &text).map_err(|why| {
            Error::new(Refused(format!(
                "{why:?} (of editions, prony reads features, but not all of the grammar; if protoc \
                 accepts the file, give what it compiles with --protoset)"
            )))
        })?;
        let mut parsed = FileDescriptorProto::from(parsed);
        let mut known = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.editions.insert(name.to_owned(), parsed.encode_to_vec());
        parsed.syntax = None;
        if let Some(options) = &mut parsed.options {
            options.uninterpreted_option.retain(is_no_feature);
        }
        parsed.message_type.iter_mut().for_each(without_features);
        parsed.enum_type.iter_mut().for_each(without_features_of_enum);
        parsed.extension.iter_mut().for_each(without_features_of_field);
        Ok(Source::from_file_descriptor_proto(parsed))
    }
}

/// Why a file is refused.
struct Refused(String);

impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// The line where brackets are nested too deep. What is in quotes or a comment is none.
fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut line) = (0, 0_usize, 1);
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        match byte {
            b'\n' => line += 1,
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let length = rest[2..].windows(2).position(|two| two == b"*/");
                let length = length.map_or(rest.len(), |length| length + 4);
                line += rest[..length].iter().filter(|b| **b == b'\n').count();
                at += length;
                continue;
            }
            b'"' | b'\'' => {
                let mut end = 1;
                // A text ends with its line at the latest.
                while let Some(&next) = rest.get(end).filter(|b| **b != byte && **b != b'\n') {
                    end += 1 + usize::from(next == b'\\');
                }
                at += end.min(rest.len());
            }
            b'{' | b'[' | b'(' | b'<' => depth += 1,
            b'}' | b']' | b')' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Some(line);
        }
        at += 1;
    }
    None
}

/// The statement with the edition of a file.
struct Edition<'t> {
    name: &'t str,
    /// Where the statement starts, and where its value ends.
    at: usize,
    end: usize,
}

/// The edition of a file, which is its first statement.
fn edition(text: &str) -> Option<Edition<'_>> {
    let start = skip(text, 0)?;
    let at = skip(text, start + text[start..].strip_prefix("edition").map(|_| 7)?)?;
    let at = skip(text, at + text[at..].strip_prefix('=').map(|_| 1)?)?;
    let quote = text[at..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let length = text[at + 1..].find(quote)?;
    Some(Edition { name: &text[at + 1..at + 1 + length], at: start, end: at + length + 2 })
}

/// Skips blanks and comments from a position on.
fn skip(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start_matches('\u{feff}').trim_start();
        at += rest.len() - trimmed.len();
        at += if trimmed.starts_with("//") {
            trimmed.find('\n')?
        } else if trimmed.starts_with("/*") {
            trimmed.find("*/")? + 2
        } else {
            return Some(at);
        };
    }
}

fn is_no_feature(option: &UninterpretedOption) -> bool {
    option.name.first().is_none_or(|part| part.is_extension || part.name_part != "features")
}

fn without_features(message: &mut DescriptorProto) {
    if let Some(options) = &mut message.options {
        options.uninterpreted_option.retain(is_no_feature);
    }
    message.field.iter_mut().for_each(without_features_of_field);
    message.extension.iter_mut().for_each(without_features_of_field);
    message.enum_type.iter_mut().for_each(without_features_of_enum);
    message.nested_type.iter_mut().for_each(without_features);
    for options in message.oneof_decl.iter_mut().filter_map(|oneof| oneof.options.as_mut()) {
        options.uninterpreted_option.retain(is_no_feature);
    }
    for options in message.extension_range.iter_mut().filter_map(|range| range.options.as_mut()) {
        options.uninterpreted_option.retain(is_no_feature);
    }
}

fn without_features_of_field(field: &mut FieldDescriptorProto) {
    if let Some(options) = &mut field.options {
        options.uninterpreted_option.retain(is_no_feature);
    }
}

fn without_features_of_enum(kind: &mut EnumDescriptorProto) {
    if let Some(options) = &mut kind.options {
        options.uninterpreted_option.retain(is_no_feature);
    }
    for options in kind.value.iter_mut().filter_map(|value| value.options.as_mut()) {
        options.uninterpreted_option.retain(is_no_feature);
    }
}
