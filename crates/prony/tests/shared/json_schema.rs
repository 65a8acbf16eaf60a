//! The committed JSON schemas of reports.

use std::path::PathBuf;

use serde_json::Value;

/// A schema in `docs/schema`.
pub(crate) fn read(name: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = std::fs::read_to_string(folder.join(name)).expect("the schema is in the tree");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Fails with every place at which a report differs from a schema in `docs/schema`.
pub(crate) fn check(name: &str, report: &Value) {
    let schema = jsonschema::validator_for(&read(name)).expect("the schema is valid");
    let errors: Vec<String> =
        schema.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {}", errors.join("\n"));
}
