//! Data that sessions use: tables of rows, and variables.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::vars::Table;
use prony_base::secret::Secret;

/// Tables and variables of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Tables; each session has a row of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Arc<Table>>,
    /// Variables, and templates of their values at the start of a session. The templates may name
    /// tables and earlier variables. They are evaluated once per session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
    /// The environment variables that templates name, with their values. They are not saved with a
    /// plan; its reader takes them from its own environment.
    #[serde(skip)]
    pub environment: Vec<(String, Secret)>,
}

impl Data {
    /// The value of a variable that an import has left to be filled in. Plan files with it are
    /// refused.
    pub const BLANK: &str = "FILL-IN";

    /// How many sessions have rows in all tables whose rows limit their number; `u64::MAX`: all.
    pub fn sessions_max(&self) -> u64 {
        self.tables.iter().filter_map(|table| table.sessions_max()).min().unwrap_or(u64::MAX)
    }

    /// Whether there are no tables, variables and environment variables.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.variables.is_empty()
    }
}
