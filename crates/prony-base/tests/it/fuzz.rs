//! The documentation of the fuzz targets.

use std::fs;
use std::path::Path;

/// The table of the fuzz targets has a row for each, and no other.
#[test]
fn the_readme_lists_every_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let readme = fs::read_to_string(folder.join("README.md")).expect("a file");
    let mut listed: Vec<&str> = readme
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0))
        .collect();
    listed.sort_unstable();
    let mut targets: Vec<String> = fs::read_dir(folder.join("fuzz_targets"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    targets.sort_unstable();
    assert_eq!(listed, targets);
}
