//! The dynamic parts of a plan file: tables, variables, templates, and values extracted from
//! replies.

use std::env;
use std::sync::Arc;

use prony_plan::plan::{Burst, CallSpec, Data, Plan};
use prony_plan::script::{
    Exhausted, Extract, Part, PickRow, Place, Script, ScriptError, Table, Template, is_name,
};
use toml::de::DeValue;

use super::reader::{Item, Section};
use super::requests::Requests;
use super::words::{EXHAUSTED, ROWS, word};
use super::written::{array, line, quoted};
use crate::builder::Targets;

const TABLE: &str =
    "[data.NAME] with file = \"FILE.csv\", with lines = \"FILE\", or with columns and rows";
const EXTRACT: &str = "{ variable = { header = ... }, ... }; or regex, json or between \
                       instead of header";

/// How many errors of templates get their places, which takes time.
const PLACED: usize = 1_000;

/// Whether a request without the key `templates` is a template. A literal body makes none.
pub(super) fn looks_like_template(call: &CallSpec, has_literal_body: bool) -> bool {
    let body = (!has_literal_body).then_some(&call.body[..]);
    !call.bare && texts_before_body(call).chain(body).any(Template::has_fields)
}

/// Reads the environment variables that templates name. Leaves out unset ones, so that the check of
/// the templates reports their positions.
pub(super) fn read_environment(targets: &mut Targets) {
    let templates = targets.calls.iter().filter(|call| call.template);
    let mut names: Vec<String> =
        templates.flat_map(texts).flat_map(Template::environment).collect();
    let variables = targets.data.variables.iter().map(|(_, text)| text.as_bytes());
    names.extend(variables.flat_map(Template::environment));
    let kinds = targets.sessions.iter().flat_map(|sessions| &sessions.kinds);
    let conditions = kinds.flat_map(|kind| &kind.bursts).flat_map(Burst::conditions);
    names.extend(conditions.flat_map(|text| Template::environment(text.as_bytes())));
    names.sort();
    names.dedup();
    // `var` may panic on a name with '=' or a NUL byte, which is invalid.
    names.retain(|name| is_name(name));
    let value = |name: String| env::var(&name).ok().map(|value| (name, value.into()));
    targets.data.environment = names.into_iter().filter_map(value).collect();
}

/// The parts of a request that can contain template fields.
fn texts(call: &CallSpec) -> impl Iterator<Item = &[u8]> {
    texts_before_body(call).chain([&call.body[..]])
}

fn texts_before_body(call: &CallSpec) -> impl Iterator<Item = &[u8]> {
    let values = call.headers.iter().map(|(_, value)| value.as_bytes());
    let awaited = call.awaited_text().map(str::as_bytes);
    values.chain([call.path.as_bytes()]).chain(awaited)
}

impl<'a> Requests<'a> {
    /// Reads the tables and the variables.
    pub(super) fn data(&mut self, top: &mut Section<'a>) -> Data {
        let mut data = Data::default();
        for (name, item) in
            top.take("data").and_then(|i| self.entries(i, TABLE)).unwrap_or_default()
        {
            data.tables.extend(self.table(name, item).map(Arc::new));
        }
        let expected = "[variables] with name = \"value\"";
        let variables = top.take("variables").and_then(|i| self.entries(i, expected));
        for (name, item) in variables.unwrap_or_default() {
            if let Some(value) = item.scalar() {
                if value == Data::BLANK {
                    let what = format!(
                        "`{name}` is still to be filled in: write its value instead of {}, or \
                         \"{{{{env NAME}}}}\" to read the environment",
                        Data::BLANK
                    );
                    self.problems.add(item.at, what);
                }
                data.variables.push((name.to_owned(), value.into_owned()));
            } else {
                item.wrong_type(&mut self.problems, "a string");
            }
        }
        data
    }

    /// Reads the values that a session extracts from the reply.
    pub(super) fn extracts(&mut self, section: &mut Section<'a>) -> Vec<Extract> {
        let Some(item) = section.take("extract") else { return Vec::new() };
        let entries = self.entries(item, EXTRACT).unwrap_or_default();
        entries.into_iter().filter_map(|(name, item)| self.extract(name, item)).collect()
    }

    /// Adds the errors in templates and extracts. Returns whether there are any.
    pub(super) fn check_script(&mut self, plan: &Plan) -> bool {
        let problems = Script::problems(plan);
        self.add_script(plan, &problems);
        !problems.is_empty()
    }

    /// Adds the errors in the templates of a plan with other errors: only those that do not depend
    /// on the invalid parts.
    pub(super) fn check_fields(&mut self, plan: &Plan) {
        let mut problems = Script::problems(plan);
        problems.retain(|error| {
            // What is wrong with a whole request may follow from an invalid part.
            let is_own = match error.part {
                Part::Call => false,
                Part::Condition(_) => error.at.is_some(),
                _ => true,
            };
            let field = field_of(error, plan);
            // A name that the file gives to something may belong to an invalid part.
            is_own && field.is_none_or(|name| !is_named(self.problems.text(), &name))
        });
        self.add_script(plan, &problems);
    }

    fn add_script(&mut self, plan: &Plan, problems: &[ScriptError]) {
        for (nth, error) in problems.iter().enumerate() {
            // Only the first ones are shown.
            let at = if nth < PLACED { self.place_of(error, plan) } else { usize::MAX };
            let what = match error.part {
                Part::Call | Part::Path | Part::Body => error.what.clone(),
                Part::Header(i) => {
                    let call = error.call.and_then(|call| plan.calls.get(call));
                    let name = call.and_then(|call| call.headers.get(i)).map_or("", |(n, _)| n);
                    format!("`{name}`: {}", error.what)
                }
                Part::Extract(_) => format!("`extract`: {}", error.what),
                Part::Awaited => format!("`wait-for`: {}", error.what),
                Part::Variable(_) => format!("`variables`: {}", error.what),
                Part::Table(_) => format!("`data`: {}", error.what),
                Part::Condition(place) => format!("`{}`: {}", place.key.name(), error.what),
            };
            self.problems.add(at, what);
        }
    }

    /// The position of an error: that of its template field if the file contains it literally,
    /// otherwise that of its request.
    fn place_of(&self, error: &ScriptError, plan: &Plan) -> usize {
        let file = self.problems.text();
        let from = error.call.and_then(|call| self.places.get(call)).copied().unwrap_or(0);
        let call = error.call.and_then(|call| plan.calls.get(call));
        let text = match (error.part, call) {
            (Part::Path, Some(call)) => call.path.as_bytes(),
            (Part::Header(index), Some(call)) => call.headers[index].1.as_bytes(),
            (Part::Awaited, Some(call)) => call.awaited_text().unwrap_or_default().as_bytes(),
            (Part::Body, Some(call)) => &call.body,
            (Part::Variable(index), _) => {
                let (name, text) = &plan.data.variables[index];
                if error.at.is_none() {
                    let section = found(file, 0, "variables").map_or(0, |at| at + 9);
                    return found(file, section, name).unwrap_or(section);
                }
                text.as_bytes()
            }
            (Part::Table(index), _) => {
                let name = format!("data.{}", plan.data.tables[index].name());
                return found(file, 0, &name).unwrap_or(0);
            }
            (Part::Condition(place), _) => {
                let text = place.text(plan).unwrap_or_default();
                let at = error.at.unwrap_or(0).min(text.len());
                return found(file, 0, text).map_or(0, |place| place + at);
            }
            (Part::Extract(index), Some(call)) => {
                let name = &call.extract[index].variable;
                let key = found(file, from, &format!("{name} ="));
                return key.or_else(|| found(file, from, name)).unwrap_or(from);
            }
            _ => return from,
        };
        let Some(at) = error.at else { return from };
        let begin = text[..at].windows(2).rposition(|pair| pair == b"{{").unwrap_or(at);
        let field = &text[begin..];
        let end = field.windows(2).position(|pair| pair == b"}}").map_or(field.len(), |n| n + 2);
        let Ok(field) = std::str::from_utf8(&field[..end]) else { return from };
        let in_file = found(file, from, field).or_else(|| found(file, 0, field));
        in_file.map_or(from, |place| place + (at - begin))
    }

    /// The keys of a table with their values, in the order of the file.
    pub(super) fn entries(
        &mut self,
        item: Item<'a>,
        expected: &str,
    ) -> Option<Vec<(&'a str, Item<'a>)>> {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, expected);
            return None;
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let named = |(name, value): (&'a toml::Spanned<_>, _)| {
            let name: &'a str = std::borrow::Cow::as_ref(name.get_ref());
            (name, Item::new(name, value))
        };
        Some(entries.into_iter().map(named).collect())
    }

    fn table(&mut self, name: &str, item: Item<'a>) -> Option<Table> {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, TABLE);
            return None;
        };
        let mut section = Section::new("a table", item.at, table);
        let columns = section.take("columns").and_then(|i| self.texts(i));
        let pick = section.take("pick").and_then(|i| i.word(&mut self.problems, ROWS));
        let policy = section.take("exhausted");
        let exhausted = policy.as_ref().and_then(|i| i.word(&mut self.problems, EXHAUSTED));
        let separator = section.take("separator").and_then(|i| self.separator(i));
        let (file, rows) = (section.take("file"), section.take("rows"));
        let lines = section.take("lines");
        section.finish(&mut self.problems);
        let pick = pick.unwrap_or_default();
        if let Some(item) = policy.filter(|_| pick != PickRow::Unique) {
            let what = "`exhausted` is for rows that are used once: add pick = \"unique\"";
            self.problems.add(item.at, what);
        }
        let exhausted = exhausted.unwrap_or_default();
        let table = match (file, rows, columns) {
            (None, None, None) if lines.is_some() => lines.and_then(|i| self.lines(i, name, pick)),
            _ if lines.is_some() => {
                let what = format!("`{name}`: `lines` is a whole table; omit the other keys");
                self.problems.add(item.at, what);
                None
            }
            (Some(file), None, columns) => self.csv(file, separator.unwrap_or(b','), |first| {
                let columns = columns.clone().or(first)?;
                Some(Table::new(name, pick, columns).map_err(|e| e.to_string()))
            }),
            (None, Some(rows), Some(columns)) => {
                let table = Table::new(name, pick, columns);
                let table = table.map_err(|e| self.problems.add(item.at, e.to_string())).ok()?;
                self.rows(rows, table)
            }
            _ => {
                self.problems.add(item.at, format!("`{name}`: a table is {TABLE}"));
                None
            }
        };
        table.map(|table| table.when_exhausted(exhausted))
    }

    /// Reads the rows of a CSV file. `begin` creates the table, from the first line if necessary.
    fn csv(
        &mut self,
        item: Item<'a>,
        separator: u8,
        begin: impl Fn(Option<Vec<String>>) -> Option<Result<Table, String>>,
    ) -> Option<Table> {
        let name = item.string(&mut self.problems, "a file's name")?;
        let (shown, bytes) = self.file(item, name)?;
        let Ok(text) = String::from_utf8(bytes) else {
            let what = format!("`file`: the file {shown} is not UTF-8 text");
            self.problems.add(item.at, what);
            return None;
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut reader = csv::ReaderBuilder::new();
        let mut reader =
            reader.delimiter(separator).has_headers(false).from_reader(text.as_bytes());
        let mut table = begin(None).transpose();
        let mut record = csv::StringRecord::new();
        loop {
            match reader.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) => {}
                Err(error) => {
                    self.problems.add_foreign(format!("{shown}:{}", csv_error(&error)));
                    return None;
                }
            }
            let row = || record.iter().map(str::to_owned).collect();
            table = match table {
                Ok(None) => begin(Some(row())).transpose(),
                Ok(Some(mut table)) => match table.push(&record) {
                    Ok(()) => Ok(Some(table)),
                    Err(error) => Err(error.to_string()),
                },
                Err(why) => Err(why),
            };
            if let Err(why) = table {
                let line = record.position().map_or(1, csv::Position::line);
                self.problems.add_foreign(format!("{shown}:{line}: {why}"));
                return None;
            }
        }
        match table {
            Ok(Some(table)) if table.rows() > 0 => return Some(table),
            Err(why) => self.problems.add(item.at, why),
            _ => self.problems.add_foreign(format!("{shown}:1: the table has no rows")),
        }
        None
    }

    /// Reads a table whose rows are the lines of a file.
    fn lines(&mut self, item: Item<'a>, name: &str, pick: PickRow) -> Option<Table> {
        let file = item.string(&mut self.problems, "a file's name")?;
        let (shown, bytes) = self.file(item, file)?;
        match table_of_lines(name, pick, &bytes) {
            Ok(table) => Some(table),
            Err(why) => {
                self.problems.add(item.at, format!("`lines`: the file {shown} {why}"));
                None
            }
        }
    }

    fn rows(&mut self, item: Item<'a>, mut table: Table) -> Option<Table> {
        let rows: Vec<_> = item.list(&mut self.problems, "a list of rows")?.collect();
        let mut is_valid = true;
        if rows.is_empty() {
            self.problems.add(item.at, "the table has no rows");
            return None;
        }
        for row in rows {
            match self.texts(row) {
                Some(cells) if cells.len() != table.columns().len() => {
                    let (cells, columns) = (cells.len(), table.columns().len());
                    let what = format!("the row has {cells} cells, the table {columns} columns");
                    self.problems.add(row.at, what);
                    is_valid = false;
                }
                Some(cells) => {
                    let pushed = table.push(cells.iter().map(String::as_str));
                    is_valid &=
                        pushed.map_err(|e| self.problems.add(row.at, e.to_string())).is_ok();
                }
                None => is_valid = false,
            }
        }
        is_valid.then_some(table)
    }

    /// Reads an array of strings; numbers are kept as written.
    fn texts(&mut self, item: Item<'a>) -> Option<Vec<String>> {
        let parts: Vec<_> = item.list(&mut self.problems, "an array of strings")?.collect();
        let mut texts = Vec::with_capacity(parts.len());
        for part in &parts {
            match part.scalar() {
                Some(text) => texts.push(text.into_owned()),
                None => part.wrong_type(&mut self.problems, "a string"),
            }
        }
        (texts.len() == parts.len()).then_some(texts)
    }

    fn separator(&mut self, item: Item<'a>) -> Option<u8> {
        let one = |text: &str| match text.as_bytes() {
            [byte] if *byte != b'"' && *byte != b'\n' && *byte != b'\r' => Ok(*byte),
            _ => Err("write one character, as \";\" or \"\\t\"".to_owned()),
        };
        item.parse(&mut self.problems, "one character", one)
    }

    fn extract(&mut self, variable: &str, item: Item<'a>) -> Option<Extract> {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, "{ header = ... }, or with regex, json or between");
            return None;
        };
        let mut section = Section::new("an extract", item.at, table);
        let mut text = |key: &'static str| {
            section
                .take(key)
                .and_then(|i| i.string(&mut self.problems, "a string"))
                .map(str::to_owned)
        };
        let (header, regex, json) = (text("header"), text("regex"), text("json"));
        let default = text("default");
        let between = section.take("between").and_then(|i| self.texts(i));
        section.finish(&mut self.problems);
        let place = match (header, regex, json, between.as_deref()) {
            (Some(name), regex, None, None) => Place::Header { name, regex },
            (None, Some(regex), None, None) => Place::Regex(regex),
            (None, None, Some(pointer), None) => Place::Json(pointer),
            (None, None, None, Some([left, right])) => Place::Between(left.clone(), right.clone()),
            _ => {
                let what = format!(
                    "`{variable}`: give the place of the value as header (optionally with regex), \
                     regex, json or between = [\"before\", \"after\"]"
                );
                self.problems.add(item.at, what);
                return None;
            }
        };
        Some(Extract { variable: variable.to_owned(), place, default })
    }
}

/// The name of the column of a table of lines.
pub const LINE: &str = "line";

/// A table with a row for each line of a text that is not empty.
///
/// # Errors
/// What is wrong with the text, as the end of a sentence about its file.
pub fn table_of_lines(name: &str, pick: PickRow, bytes: &[u8]) -> Result<Table, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8 text")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let table = Table::new(name, pick, vec![LINE.to_owned()]);
    let mut table = table.map_err(|e| e.to_string())?;
    for line in text.lines().filter(|line| !line.is_empty()) {
        table.push([line]).map_err(|e| format!("cannot be used: {e}"))?;
    }
    if table.rows() == 0 { Err("has no lines".to_owned()) } else { Ok(table) }
}

/// The name in the template field of an error; `None` if there is no such field.
fn field_of(error: &ScriptError, plan: &Plan) -> Option<String> {
    let call = error.call.and_then(|call| plan.calls.get(call));
    let text = match (error.part, call) {
        (Part::Path, Some(call)) => call.path.as_bytes(),
        (Part::Header(index), Some(call)) => call.headers[index].1.as_bytes(),
        (Part::Awaited, Some(call)) => call.awaited_text()?.as_bytes(),
        (Part::Body, Some(call)) => &call.body,
        (Part::Variable(index), _) => plan.data.variables[index].1.as_bytes(),
        (Part::Condition(place), _) => place.text(plan)?.as_bytes(),
        _ => return None,
    };
    let at = error.at?.min(text.len());
    let begin = text[..at].windows(2).rposition(|pair| pair == b"{{").map_or(at, |open| open + 2);
    let name = String::from_utf8_lossy(&text[begin..]).trim_start().to_owned();
    let end = name.find(|c: char| !c.is_alphanumeric() && !"_-".contains(c));
    let name = name[..end.unwrap_or(name.len())].to_owned();
    (!name.is_empty()).then_some(name)
}

/// Whether the file gives something this name: it is a key, the name of a table, or a text alone,
/// as the names of columns are.
fn is_named(file: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || "_-".contains(c);
    file.match_indices(name).any(|(at, _)| {
        let (before, after) = (&file[..at], &file[at + name.len()..]);
        if before.ends_with(is_word) || after.starts_with(is_word) {
            return false;
        }
        let rest = after.trim_start_matches(['"', '\'']).trim_start();
        let is_quoted = before.ends_with(['"', '\'']) && after.starts_with(['"', '\'']);
        is_quoted || rest.starts_with('=') && !rest.starts_with("==") || rest.starts_with(']')
    })
}

/// The error as `LINE: sentence`.
fn csv_error(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(1, csv::Position::line);
            format!("{line}: the row has {len} cells, those before it {expected_len}")
        }
        _ => format!("1: {error}"),
    }
}

fn found(text: &str, from: usize, part: &str) -> Option<usize> {
    text.get(from..)?.find(part).map(|at| from + at)
}

/// Writes the extracts of a request.
pub(super) fn extracts(extracts: &[Extract]) -> String {
    let one = |extract: &Extract| {
        let mut parts = match &extract.place {
            Place::Header { name, regex } => {
                let mut parts = vec![format!("header = {}", quoted(name))];
                parts.extend(regex.iter().map(|regex| format!("regex = {}", quoted(regex))));
                parts
            }
            Place::Regex(text) => vec![format!("regex = {}", quoted(text))],
            Place::Json(pointer) => vec![format!("json = {}", quoted(pointer))],
            Place::Between(left, right) => {
                vec![format!("between = {}", array(&[quoted(left), quoted(right)]))]
            }
        };
        parts.extend(extract.default.iter().map(|text| format!("default = {}", quoted(text))));
        format!("{} = {{ {} }}", extract.variable, parts.join(", "))
    };
    format!("{{ {} }}", extracts.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Writes the tables and variables.
pub(super) fn data(data: &Data, out: &mut String) {
    for table in &data.tables {
        out.push_str(&format!("\n[data.{}]\n", table.name()));
        if table.pick() != PickRow::InTurn {
            line(out, "pick", quoted(word(ROWS, &table.pick())));
        }
        if table.exhausted() != Exhausted::Stop {
            line(out, "exhausted", quoted(word(EXHAUSTED, &table.exhausted())));
        }
        let texts = |cells: Vec<&str>| array(&cells.into_iter().map(quoted).collect::<Vec<_>>());
        line(out, "columns", texts(table.columns().iter().map(String::as_str).collect()));
        out.push_str("rows = [\n");
        for row in 0..table.rows() as u32 {
            let cells = (0..table.columns().len()).map(|column| table.cell(row, column));
            out.push_str(&format!("  {},\n", texts(cells.collect())));
        }
        out.push_str("]\n");
    }
    if !data.variables.is_empty() {
        out.push_str("\n[variables]\n");
    }
    for (name, value) in &data.variables {
        line(out, name, quoted(value));
    }
}
