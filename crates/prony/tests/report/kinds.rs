//! The kinds of times are rows of one table (`Timed`), the numbers of another (`Scalar`). What
//! lists them is compared with these: the schema, docs/json.md, docs/terms.md, docs/thresholds.md.
//! `UPDATE_GOLDEN=1 cargo test` writes the lists.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use prony_base::units::Span;
use prony_plan::threshold::{InJson, Scalar, Timed};
use prony_report::terms;
use prony_stats::summary::Summary;
use prony_tally::record::Times;
use prony_tally::record::hist::Hist;
use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde_json::Value;

use super::sample;

/// Takes the names of a structure's fields from its `Deserialize`.
struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("it is a structure"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The names of all histograms in a tally's times.
fn histograms() -> &'static [&'static str] {
    let mut fields: &[&str] = &[];
    Times::deserialize(Fields(&mut fields)).expect_err("it has no values");
    fields
}

/// A run with times of every kind that is in them.
pub(super) fn every_kind() -> Summary {
    let mut hist = Hist::new();
    hist.record(Span::from_millis(1));
    let hist = serde_json::to_value(hist).expect("it is JSON");
    let all: BTreeMap<&str, Value> =
        histograms().iter().map(|name| (*name, hist.clone())).collect();
    let mut summary = sample::closed();
    let times = serde_json::to_value(all).and_then(serde_json::from_value);
    summary.main.times = times.expect("these are all of its fields");
    summary
}

/// The lines of a file after the line `begin`, up to the next line `end`, are these.
fn lists(file: &str, begin: &str, end: &str, lines: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let page = std::fs::read_to_string(&path).expect("the file is in the tree");
    let from = page.find(&format!("{begin}\n")).expect(begin) + begin.len() + 1;
    let until = from + page[from..].find(&format!("{end}\n")).expect(end);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let page = format!("{}{lines}{}", &page[..from], &page[until..]);
        std::fs::write(&path, page).expect("the file can be written");
        return;
    }
    assert!(&page[from..until] == lines, "{file} is outdated: run with UPDATE_GOLDEN=1");
}

/// The members of a schema's object: its names, which of them it must have, and what each is.
fn members(names: &[String], required: &[String], what: &str) -> String {
    let quoted: Vec<String> = required.iter().map(|name| format!("\"{name}\"")).collect();
    let of = |name: &String| format!("        \"{name}\": {{\"$ref\": \"#/$defs/{what}\"}}");
    let properties: Vec<String> = names.iter().map(of).collect();
    format!(
        "      \"type\": \"object\",\n      \"additionalProperties\": false,\n      \
         \"required\": [{}],\n      \
         \"properties\": {{\n{}\n      }}\n",
        quoted.join(", "),
        properties.join(",\n")
    )
}

#[test]
fn the_schema_has_every_kind_of_time() {
    let those = |wanted: &[InJson]| -> Vec<String> {
        let all = Timed::ALL.iter().filter(|timed| wanted.contains(&timed.in_json()));
        all.map(|timed| timed.json_key()).collect()
    };
    let always = those(&[InJson::Always]);
    let kinds = members(&those(&[InJson::Always, InJson::IfAny]), &always, "figures");
    let schema = "docs/schema/report-1.json";
    lists(schema, "    \"kinds_of_times\": {", "    },", &kinds);
    let names: Vec<String> = histograms().iter().map(|&name| name.to_owned()).collect();
    lists(schema, "    \"histograms\": {", "    },", &members(&names, &always, "histogram"));
}

#[test]
fn the_documents_have_every_kind_of_time() {
    let mut rows = String::from("\n| time | in JSON | in thresholds |\n|---|---|---|\n");
    for timed in Timed::ALL {
        let key = match timed.in_json() {
            InJson::Always => format!("`{}`", timed.json_key()),
            InJson::IfAny => format!("`{}` if any was measured", timed.json_key()),
            InJson::Elsewhere => format!("with the {}s", timed.label()),
        };
        let threshold = match timed {
            Timed::Response => "`p99`".to_owned(),
            Timed::Group => "`group.NAME.p99`".to_owned(),
            _ => format!("`{}.p99`", timed.key()),
        };
        let _ = writeln!(rows, "| {} | {key} | {threshold} |", timed.label());
    }
    rows.push('\n');
    lists("docs/json.md", "<!-- every kind of time -->", "<!-- end -->", &rows);
}

#[test]
fn every_number_has_its_name_in_the_document_of_thresholds() {
    let page = std::fs::read_to_string(
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/thresholds.md"),
    );
    let page = page.expect("the file is in the tree");
    for scalar in Scalar::ALL {
        let key = format!("`{}`", scalar.key());
        assert!(page.contains(&key), "docs/thresholds.md lacks {key}");
    }
}

#[test]
fn every_kind_of_time_is_defined() {
    let (entries, _) = terms::read();
    for timed in Timed::ALL {
        let asked = timed.label().to_lowercase();
        assert!(entries.iter().any(|entry| entry.is_of(&asked)), "docs/terms.md lacks `{asked}`");
    }
}
