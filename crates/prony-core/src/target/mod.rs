//! Where requests go: scheme, host, port, path; verbatim, never normalised.

mod file;
mod header;
mod url;

use serde::{Deserialize, Serialize};

pub use file::{UrlEntry, parse_url_file};
pub use header::{check_header, check_method, parse_header};
pub use url::Url;

/// Something a connection can be opened to. Names are resolved by the driver's side, before the
/// run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    /// A host (name or address, without brackets) and a TCP port.
    Tcp {
        /// Name or literal address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix domain stream socket.
    Unix {
        /// Its path.
        path: String,
    },
}

#[cfg(test)]
mod tests;
