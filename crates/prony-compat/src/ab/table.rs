//! ab's report as an HTML table, line by line.

use std::fmt::Write as _;

use super::report::{Figures, Row, Run};

/// The banner as a paragraph, and the start of the next one.
pub(super) fn head(banner: &str) -> String {
    let mut out = "<p>\n".to_owned();
    for line in banner.lines().filter(|line| !line.is_empty()) {
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(out, " {line}<br>");
    }
    out + "</p>\n<p>\n"
}

/// A table under construction, with the attributes of its rows and cells.
struct Table<'a> {
    out: String,
    row: &'a str,
    cell: &'a str,
}

/// A text, which may be a server's, as text of HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Table<'_> {
    fn line(&mut self, name: &str, value: &str) {
        let Self { out, row, cell } = self;
        let value = escaped(value);
        let _ = writeln!(
            out,
            "<tr {row}><th colspan=2 {cell}>{name}:</th><td colspan=2 {cell}>{value}</td></tr>"
        );
    }

    /// A line that continues the one before.
    fn more(&mut self, value: &str) {
        let Self { out, row, cell } = self;
        let value = escaped(value);
        let _ = writeln!(
            out,
            "<tr {row}><td colspan=2 {cell}>&nbsp;</td><td colspan=2 {cell}>{value}</td></tr>"
        );
    }

    fn times(&mut self, name: &str, f: &Figures) {
        let Self { out, row, cell } = self;
        let _ = writeln!(
            out,
            "<tr {row}><th {cell}>{name}:</th><td {cell}>{:>5}</td><td {cell}>{:>5}</td>\
             <td {cell}>{:>5}</td></tr>",
            f.min, f.mean, f.max
        );
    }
}

impl Run<'_> {
    /// The report as a table; the attributes are those of the table, its rows and its cells.
    pub(super) fn table(&self, [whole, row, cell]: &[String; 3]) -> String {
        let mut table = Table { out: format!("\n\n<table {whole}>\n"), row, cell };
        let url = &self.planned.url;
        table.line("Server Software", self.seen.server());
        table.line("Server Hostname", &url.host);
        table.line("Server Port", &url.port.to_string());
        table.line("Document Path", &url.path);
        table.line("Document Length", &self.document_length());
        table.line("Concurrency Level", &self.options.concurrency.to_string());
        table.line("Time taken for tests", &format!("{:.3} seconds", self.taken()));
        table.line("Complete requests", &self.done().to_string());
        self.table_counts(&mut table);
        self.table_rates(&mut table);
        if !self.rows.is_empty() {
            let Table { out, row, cell } = &mut table;
            let _ = writeln!(
                out,
                "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>\n\
                 <tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   \
                 <th {cell}>max</th></tr>"
            );
            table.times("Connect", &self.figures(Row::connect));
            table.times("Processing", &self.figures(Row::processing));
            table.times("Total", &self.figures(Row::total));
        }
        table.out + "</table>\n"
    }

    fn table_counts(&self, table: &mut Table<'_>) {
        let t = &self.summary.main;
        let failed = self.failed();
        table.line("Failed requests", &failed.to_string());
        if failed > 0 {
            let [connect, _, length, other] = self.failures();
            let Table { out, row, cell } = table;
            let _ = writeln!(
                out,
                "<tr {row}><td colspan=4 {cell} >   (Connect: {connect}, Length: {length}, \
                 Exceptions: {other})</td></tr>"
            );
        }
        let other = self.other_statuses();
        if other > 0 {
            table.line("Non-2xx responses", &other.to_string());
        }
        if self.options.keep_alive {
            table.line("Keep-Alive requests", &self.kept_alive().to_string());
        }
        table.line("Total transferred", &format!("{} bytes", self.received()));
        if self.options.body.is_some() {
            table.line("Total body sent", &t.bytes_sent.to_string());
        }
        table.line("HTML transferred", &format!("{} bytes", t.bytes_body));
    }

    fn table_rates(&self, table: &mut Table<'_>) {
        let Some(rates) = self.rates_of() else { return };
        table.line("Requests per second", &format!("{:.2}", rates.requests));
        table.line("Transfer rate", &format!("{:.2} kb/s received", rates.received));
        if self.options.body.is_some() {
            table.more(&format!("{:.2} kb/s sent", rates.sent));
            table.more(&format!("{:.2} kb/s total", rates.received + rates.sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_server_is_no_markup() {
        let mut table = Table { out: String::new(), row: "", cell: "" };
        table.line("Server Software", "<script>&");
        assert!(table.out.contains("&lt;script&gt;&amp;</td>"), "{}", table.out);
    }
}
