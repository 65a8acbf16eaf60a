//! Descriptions in several files: those that a document refers to become a part of it, so that
//! all references are within one document. Nothing is fetched.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::parsed;
use crate::context::Context;
use crate::notes::Notes;

/// The member of the document that has the other files, by their names.
const FILES: &str = "x-prony-files";
/// The most files of a description.
const MOST: usize = 1_000;

/// Adds the files that a document refers to, and those that they refer to.
///
/// # Errors
/// A bound on what may be read does not hold.
pub(super) fn add(
    document: &mut Value,
    context: &Context<'_>,
    notes: &mut Notes,
) -> Result<(), String> {
    let mut files = Map::new();
    // What is still to be read: the name of a file, and the first place that refers to it.
    let mut wanted: Vec<(String, String)> = Vec::new();
    let mut known: HashMap<String, ()> = HashMap::new();
    rewrite(document, "", "", &mut wanted);
    while let Some((name, place)) = wanted.pop() {
        if known.insert(name.clone(), ()).is_some() {
            continue;
        }
        if known.len() > MOST {
            return Err(": it refers to more than 1,000 files".into());
        }
        if name.contains("://") {
            notes.add(&format!("a reference to {name}, which is not fetched"), &place);
            continue;
        }
        let read = context.read(&name, &place).map_err(String::from).and_then(|bytes| {
            let text = String::from_utf8(bytes).map_err(|_| format!("{name}: no UTF-8 text"))?;
            parsed(&text).map_err(|why| format!("{name}{why}"))
        });
        context.check().map_err(|why| format!(": {why}"))?;
        match read {
            Ok(mut file) => {
                rewrite(&mut file, &name, "", &mut wanted);
                files.insert(name, file);
            }
            Err(why) => {
                notes.add(&format!("a reference to a file that is not read: {why}"), &place)
            }
        }
    }
    if let (Value::Object(members), false) = (document, files.is_empty()) {
        members.insert(FILES.to_owned(), Value::Object(files));
    }
    Ok(())
}

/// Makes the references of a file ones within the whole document. `of` is its name, empty for the
/// document itself; `at` is the place of the value in the file.
fn rewrite(value: &mut Value, of: &str, at: &str, wanted: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            for (nth, item) in items.iter_mut().enumerate() {
                rewrite(item, of, &format!("{at}/{nth}"), wanted);
            }
        }
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                let place = if of.is_empty() { at.to_owned() } else { format!("{of}#{at}") };
                if let Some(whole) = within(reference, of, &place, wanted) {
                    *reference = whole;
                }
            }
            if let Some(Value::Object(mapping)) =
                members.get_mut("discriminator").and_then(|inner| inner.get_mut("mapping"))
            {
                for target in mapping.values_mut() {
                    let Value::String(reference) = target else { continue };
                    let is_file = reference.contains(['/', '#']) || reference.contains(".y");
                    if is_file && let Some(whole) = within(reference, of, at, wanted) {
                        *reference = whole;
                    }
                }
            }
            for (name, inner) in members.iter_mut() {
                rewrite(inner, of, &format!("{at}/{}", escaped(name)), wanted);
            }
        }
        _ => {}
    }
}

/// The reference within the whole document; none if it is one already.
fn within(
    reference: &str,
    of: &str,
    place: &str,
    wanted: &mut Vec<(String, String)>,
) -> Option<String> {
    let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
    let file = match (file, of) {
        ("", "") => return None,
        ("", of) => of.to_owned(),
        (file, _) if file.contains("://") => file.to_owned(),
        (file, of) => {
            let folder = of.rsplit_once('/').map_or("", |(folder, _)| folder);
            let file = String::from_utf8(crate::url::unescaped(file)).ok()?;
            joined(folder, &file)
        }
    };
    if file != of {
        wanted.push((file.clone(), place.to_owned()));
    }
    Some(format!("#/{FILES}/{}{pointer}", escaped(&file).replace('%', "%25")))
}

/// The path of a file beside another one, without `.` and `..` where it can be.
fn joined(folder: &str, file: &str) -> String {
    if file.starts_with('/') {
        return file.to_owned();
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if folder.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A place in the whole document as it is shown: one in another file begins with the file's name.
pub(super) fn shown(pointer: &str) -> String {
    let inner =
        pointer.strip_prefix('/').and_then(|rest| rest.strip_prefix(FILES)?.strip_prefix('/'));
    let Some(inner) = inner else { return pointer.to_owned() };
    let (file, rest) = inner.split_at(inner.find('/').unwrap_or(inner.len()));
    format!("{}#{rest}", file.replace("~1", "/").replace("~0", "~"))
}
