//! Tables of values from CSV files. Each session uses one row of each table.

use serde::{Deserialize, Serialize};

use prony_base::rng::{self, Stream};

/// A table in contiguous memory, with at least one row and one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct Table {
    name: String,
    pick: PickRow,
    exhausted: Exhausted,
    columns: Vec<String>,
    /// All cells, concatenated.
    text: String,
    /// The position in `text` at which each cell ends.
    ends: Vec<u32>,
}

/// How a session picks its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PickRow {
    /// Session k has row k modulo their number.
    #[default]
    InTurn,
    /// At random with equal probabilities; depends only on the seed and the session's number.
    Random,
    /// Session k has row k. No two sessions of the run have the same row, whatever its threads and
    /// shares: the numbers of their sessions are disjoint. What follows the last row is
    /// [`Exhausted`].
    Unique,
}

/// What happens to sessions for which a table with [`PickRow::Unique`] has no row left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exhausted {
    /// They do not start: the load ends.
    #[default]
    Stop,
    /// They use the rows again, from the first on.
    Reuse,
    /// They have no row: their requests that need one fail unsent.
    Fail,
}

/// What stands for the row of a session for which the table has none. A table has fewer rows.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// Why a table is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// There is no column.
    NoColumns,
    /// There is no row.
    NoRows,
    /// Two columns have this name.
    SameName(String),
    /// A row (from 0) does not have one cell per column.
    Uneven {
        /// The row.
        row: usize,
        /// Its cells.
        cells: usize,
    },
    /// More than 4 GiB.
    TooLarge,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoColumns => write!(f, "the table has no columns"),
            Self::NoRows => write!(f, "the table has no rows"),
            Self::SameName(name) => write!(f, "two columns are called '{}'", name.escape_debug()),
            Self::Uneven { row, cells } => {
                write!(f, "row {} has {cells} cells, which is not one per column", row + 1)
            }
            Self::TooLarge => write!(f, "the table has more than 4 GiB"),
        }
    }
}

/// A table in its serialized form.
#[derive(Serialize, Deserialize)]
struct Plain {
    name: String,
    #[serde(default)]
    pick: PickRow,
    #[serde(default, skip_serializing_if = "Exhausted::is_stop")]
    exhausted: Exhausted,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table to be filled by [`Table::push`].
    ///
    /// # Errors
    /// No columns, or two with the same name.
    pub fn new(name: &str, pick: PickRow, columns: Vec<String>) -> Result<Self, TableError> {
        if columns.is_empty() {
            return Err(TableError::NoColumns);
        }
        if let Some(i) = (1..columns.len()).find(|&i| columns[..i].contains(&columns[i])) {
            return Err(TableError::SameName(columns[i].clone()));
        }
        let name = name.to_owned();
        let (text, ends) = (String::new(), Vec::new());
        Ok(Self { name, pick, exhausted: Exhausted::default(), columns, text, ends })
    }

    /// The same table, with this policy for sessions for which it has no row left.
    #[must_use]
    pub fn when_exhausted(mut self, exhausted: Exhausted) -> Self {
        self.exhausted = exhausted;
        self
    }

    /// Append a row.
    ///
    /// # Errors
    /// A number of cells that is not that of the columns; more than 4 GiB of text or 2^32 rows.
    pub fn push<'a>(&mut self, row: impl IntoIterator<Item = &'a str>) -> Result<(), TableError> {
        let before = self.ends.len();
        for cell in row {
            self.text.push_str(cell);
            let end = u32::try_from(self.text.len()).map_err(|_| TableError::TooLarge)?;
            self.ends.push(end);
        }
        let cells = self.ends.len() - before;
        if cells != self.columns.len() {
            return Err(TableError::Uneven { row: before / self.columns.len(), cells });
        }
        u32::try_from(self.rows()).map(drop).map_err(|_| TableError::TooLarge)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How a session picks its row.
    pub fn pick(&self) -> PickRow {
        self.pick
    }

    /// What happens to sessions for which it has no row left, with [`PickRow::Unique`].
    pub fn exhausted(&self) -> Exhausted {
        self.exhausted
    }

    /// How many sessions can start, if its rows limit their number.
    pub fn sessions_max(&self) -> Option<u64> {
        let limits = self.pick == PickRow::Unique && self.exhausted == Exhausted::Stop;
        limits.then_some(self.rows() as u64)
    }

    /// The names of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.columns.len()
    }

    /// A cell, rows and columns counted from 0.
    ///
    /// # Panics
    /// If the table has no such cell.
    pub fn cell(&self, row: u32, column: usize) -> &str {
        let index = row as usize * self.columns.len() + column;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin as usize..self.ends[index] as usize]
    }

    /// A table with the same columns and one row, which has `text` in each cell.
    pub fn hidden(&self, text: &str) -> Self {
        let columns = self.columns.clone();
        let mut table = Self::new(&self.name, self.pick, columns)
            .expect("the columns are those of a table")
            .when_exhausted(self.exhausted);
        table.push(self.columns.iter().map(|_| text)).expect("one cell for each column");
        table
    }

    /// A copy of the table with its first `rows` rows, at least one.
    pub fn first_rows(&self, rows: u32) -> Self {
        let cells = self.columns.len() * (rows.max(1) as usize).min(self.rows());
        let ends = self.ends[..cells].to_vec();
        let text = ends.last().map_or("", |&end| &self.text[..end as usize]).to_owned();
        let (name, columns) = (self.name.clone(), self.columns.clone());
        Self { name, pick: self.pick, exhausted: self.exhausted, columns, text, ends }
    }

    /// The row of session `session` (its number in the run, from 0), or [`NO_ROW`]. `index` is the
    /// index of the table in the plan.
    pub(crate) fn row_of(&self, session: u64, index: usize, seed: u64) -> u32 {
        let rows = self.rows() as u64;
        let row = match self.pick {
            PickRow::InTurn => session % rows,
            PickRow::Unique if session < rows => session,
            PickRow::Unique if self.exhausted == Exhausted::Reuse => session % rows,
            PickRow::Unique => return NO_ROW,
            PickRow::Random => {
                let bits = rng::keyed(seed, Stream::Rows, session, index as u64);
                ((u128::from(bits) * u128::from(rows)) >> 64) as u64
            }
        };
        row as u32
    }
}

impl Exhausted {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_stop(&self) -> bool {
        *self == Self::Stop
    }
}

impl TryFrom<Plain> for Table {
    type Error = TableError;

    fn try_from(plain: Plain) -> Result<Self, TableError> {
        let table = Self::new(&plain.name, plain.pick, plain.columns)?;
        let mut table = table.when_exhausted(plain.exhausted);
        for row in &plain.rows {
            table.push(row.iter().map(String::as_str))?;
        }
        if table.rows() == 0 { Err(TableError::NoRows) } else { Ok(table) }
    }
}

impl From<Table> for Plain {
    fn from(table: Table) -> Self {
        let row = |row| {
            let cell = |column| table.cell(row, column).to_owned();
            (0..table.columns.len()).map(cell).collect()
        };
        let rows = (0..table.rows() as u32).map(row).collect();
        let Table { name, pick, exhausted, columns, .. } = table;
        Self { name, pick, exhausted, columns, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(pick: PickRow) -> Table {
        let columns = vec!["name".to_owned(), "mail".to_owned()];
        let mut table = Table::new("users", pick, columns).expect("columns");
        for row in [["ann", "a@x"], ["", ""], ["zoë", "z@x"]] {
            table.push(row).expect("two cells");
        }
        table
    }

    #[test]
    fn returns_the_cells_that_were_added() {
        let t = users(PickRow::InTurn);
        assert_eq!((t.rows(), t.cell(0, 0), t.cell(0, 1)), (3, "ann", "a@x"));
        assert_eq!(
            (t.cell(1, 0), t.cell(1, 1), t.cell(2, 0), t.cell(2, 1)),
            ("", "", "zoë", "z@x")
        );
        let text = serde_json::to_string(&t).expect("JSON");
        assert_eq!(serde_json::from_str::<Table>(&text).expect("a table"), t);
        let first = t.first_rows(2);
        assert_eq!((first.rows(), first.cell(0, 1), t.first_rows(9)), (2, "a@x", t.clone()));
        let hidden = t.hidden("-");
        assert_eq!((hidden.rows(), hidden.cell(0, 1), hidden.columns()), (1, "-", t.columns()));
    }

    #[test]
    fn rows_are_picked_in_turn_or_at_random() {
        let in_turn = users(PickRow::InTurn);
        let rows: Vec<_> = (0..7).map(|s| in_turn.row_of(s, 0, 1)).collect();
        assert_eq!(rows, [0, 1, 2, 0, 1, 2, 0]);
        let random = users(PickRow::Random);
        let mut counts = [0_u32; 3];
        for session in 0..3000 {
            let row = random.row_of(session, 0, 1);
            assert_eq!(row, random.row_of(session, 0, 1));
            counts[row as usize] += 1;
        }
        // Three and a half standard deviations.
        assert!(counts.iter().all(|n| (910..=1090).contains(n)), "{counts:?}");
        assert!((0..50).any(|s| random.row_of(s, 0, 1) != random.row_of(s, 1, 1)), "by table");
    }

    #[test]
    fn unique_rows_are_used_once_and_what_follows_is_the_policy() {
        let rows = |exhausted| {
            let table = users(PickRow::Unique).when_exhausted(exhausted);
            let rows: Vec<_> = (0..5).map(|session| table.row_of(session, 0, 1)).collect();
            (rows, table.sessions_max())
        };
        assert_eq!(rows(Exhausted::Stop), (vec![0, 1, 2, NO_ROW, NO_ROW], Some(3)));
        assert_eq!(rows(Exhausted::Fail), (vec![0, 1, 2, NO_ROW, NO_ROW], None));
        assert_eq!(rows(Exhausted::Reuse), (vec![0, 1, 2, 0, 1], None));
        assert_eq!(users(PickRow::InTurn).sessions_max(), None);
        let table = users(PickRow::Unique).when_exhausted(Exhausted::Fail);
        let text = serde_json::to_string(&table).expect("JSON");
        assert!(text.contains(r#""pick":"unique","exhausted":"fail""#), "{text}");
        assert_eq!(serde_json::from_str::<Table>(&text).expect("a table"), table);
        assert_eq!(table.hidden("-").exhausted(), Exhausted::Fail);
        assert_eq!(table.first_rows(2).exhausted(), Exhausted::Fail);
    }

    #[test]
    fn rejects_malformed_tables() {
        let new = |columns: &[&str]| {
            let columns = columns.iter().map(|c| (*c).to_owned()).collect();
            Table::new("t", PickRow::InTurn, columns)
        };
        assert_eq!(new(&[]).err(), Some(TableError::NoColumns));
        assert_eq!(new(&["a", "b", "a"]).err(), Some(TableError::SameName("a".into())));
        let mut table = new(&["a", "b"]).expect("columns");
        assert_eq!(table.push(["1", "2"]), Ok(()));
        assert_eq!(table.push(["1"]), Err(TableError::Uneven { row: 1, cells: 1 }));
        let wrong = serde_json::from_str::<Table>(r#"{"name":"t","columns":["a"],"rows":[]}"#);
        assert_eq!(wrong.expect_err("no rows").to_string(), "the table has no rows");
    }
}
