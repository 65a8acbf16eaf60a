//! Comparisons and trends in each format that shows them.

use super::comparison::Comparison;
use super::trend::Trend;
use super::{Format, html, layout, plot};

impl Comparison {
    /// The report in a format; `None` if that has no comparisons.
    pub fn render(&self, format: Format) -> Option<Vec<u8>> {
        match format {
            Format::Text => Some(self.text().into_bytes()),
            Format::Json => Some(layout::json(self).into_bytes()),
            Format::Markdown => Some(self.markdown().into_bytes()),
            Format::Html => Some(html::comparison(self).into_bytes()),
            Format::Svg => Some(plot::shift_svg(self).into_bytes()),
            Format::Png => Some(plot::shift_png(self)),
            Format::Csv | Format::Hgrm | Format::Hlog | Format::Junit => None,
        }
    }
}

impl Trend {
    /// The report in a format; `None` if that has no trends.
    pub fn render(&self, format: Format) -> Option<Vec<u8>> {
        match format {
            Format::Text => Some(self.text().into_bytes()),
            Format::Json => Some(layout::json(self).into_bytes()),
            Format::Html => Some(html::trend(self).into_bytes()),
            _ => None,
        }
    }
}
