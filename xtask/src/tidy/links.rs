//! Checks that the relative links of the documents lead to existing files.

use std::path::{Component, Path, PathBuf};

use super::Finding;

/// Check the relative links of a document. Links to the web are not followed.
pub(super) fn check(
    path: &str,
    text: &str,
    exists: impl Fn(&Path) -> bool,
    findings: &mut Vec<Finding>,
) {
    let folder = Path::new(path).parent().unwrap_or_else(|| Path::new(""));
    for (i, line) in text.lines().enumerate() {
        for target in targets(line) {
            if target.contains("://") || target.starts_with('#') || target.starts_with("mailto:") {
                continue;
            }
            let file = target.split('#').next().unwrap_or_default();
            if !exists(&plain(&folder.join(file))) {
                let what = format!("broken link to {target}");
                findings.push(Finding { path: path.to_owned(), line: i + 1, what });
            }
        }
    }
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
        let text = "[a](b.md), [c](../d.md#e), [f](#g), [h](https://i/j.md)\n[k](nowhere.md)\n";
        let exists = |path: &Path| ["docs/b.md", "d.md"].iter().any(|p| Path::new(p) == path);
        let mut findings = Vec::new();
        check("docs/x.md", text, exists, &mut findings);
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["docs/x.md:2: broken link to nowhere.md"]);
    }
}
