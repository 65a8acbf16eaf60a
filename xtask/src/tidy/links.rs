//! Checks that the relative links of the documents lead to existing files and headings.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Finding;

/// Check the relative links of a document, and that the headings exist to which they lead. `read`
/// returns the text of a document, an empty text for any other file or folder, and `None` if there
/// is none. Links to the web are not followed.
pub(super) fn check(
    path: &str,
    text: &str,
    read: impl Fn(&Path) -> Option<String>,
    findings: &mut Vec<Finding>,
) {
    let folder = Path::new(path).parent().unwrap_or_else(|| Path::new(""));
    for (i, line) in text.lines().enumerate() {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let there = match file {
                "" => Some(text.to_owned()),
                file => read(&plain(&folder.join(file))),
            };
            let what = match there {
                None => format!("broken link to {target}"),
                Some(there) if !heading.is_empty() && !has_heading(&there, heading) => {
                    format!("broken link to {target}: there is no such heading")
                }
                Some(_) => continue,
            };
            findings.push(Finding { path: path.to_owned(), line: i + 1, what });
        }
    }
}

/// The text of a document; an empty one for any other file or folder.
pub(super) fn read(path: &Path) -> Option<String> {
    let is_document = path.extension().is_some_and(|extension| extension == "md");
    if is_document { fs::read_to_string(path).ok() } else { path.exists().then(String::new) }
}

/// Whether a document has a heading with this anchor.
fn has_heading(text: &str, anchor: &str) -> bool {
    let mut code = false;
    text.lines().any(|line| {
        code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        !code && title.len() < line.len() && title.starts_with(' ') && anchor_of(title) == anchor
    })
}

/// The anchor of a heading: lower case, `-` for blanks, without punctuation.
fn anchor_of(title: &str) -> String {
    let letters = title.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    letters.collect()
}

/// The text between `](` and `)`.
fn targets(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The path with its `..` resolved, even if a folder in between does not exist.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_broken_links() {
        let text = "# G h\n[a](b.md), [c](../d.md#e-f), [f](#g-h), [h](https://i/j.md)\n\
                    [k](nowhere.md), [l](b.md#e), [m](#n)\n";
        let read = |path: &Path| match path.to_str()? {
            "docs/b.md" => Some("```sh\n# e\n```\n".to_owned()),
            "d.md" => Some("## E, `f`\n".to_owned()),
            _ => None,
        };
        let mut findings = Vec::new();
        check("docs/x.md", text, read, &mut findings);
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let no_heading = ["b.md#e", "#n"]
            .map(|to| format!("docs/x.md:3: broken link to {to}: there is no such heading"));
        let broken = "docs/x.md:3: broken link to nowhere.md".to_owned();
        assert_eq!(shown, [&[broken][..], &no_heading].concat());
    }
}
