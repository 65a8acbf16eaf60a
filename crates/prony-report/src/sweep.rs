//! Renders a spectrum, and a capacity, in each of their formats.

use super::capacity::Capacity;
use super::spectrum::Spectrum;
use super::{Format, html, layout, plot};

impl Spectrum {
    /// The complete report; `None` if it has no such format.
    pub fn render(&self, format: Format) -> Option<Vec<u8>> {
        Some(match format {
            Format::Text => self.text().into_bytes(),
            Format::Csv => self.csv().into_bytes(),
            Format::Json => layout::json(self).into_bytes(),
            Format::Svg => plot::spectrum_svg(self).into_bytes(),
            Format::Png => plot::spectrum_png(self),
            Format::Html => html::spectrum(self).into_bytes(),
            Format::Hgrm | Format::Hlog | Format::Junit | Format::Markdown => return None,
        })
    }
}

impl Capacity {
    /// The complete report; `None` if it has no such format.
    pub fn render(&self, format: Format) -> Option<Vec<u8>> {
        Some(match format {
            Format::Text => self.text().into_bytes(),
            Format::Json => layout::json(self).into_bytes(),
            Format::Svg => plot::capacity_svg(self).into_bytes(),
            Format::Png => plot::capacity_png(self),
            Format::Html => html::capacity(self).into_bytes(),
            Format::Csv | Format::Hgrm | Format::Hlog | Format::Junit | Format::Markdown => {
                return None;
            }
        })
    }
}
