//! A spectrum in every format that it has.

use super::spectrum::Spectrum;
use super::{Format, layout, plot};

impl Spectrum {
    /// The whole in that format; `None` where it cannot be told in it.
    pub fn render(&self, format: Format) -> Option<Vec<u8>> {
        Some(match format {
            Format::Text => self.text().into_bytes(),
            Format::Csv => self.csv().into_bytes(),
            Format::Json => layout::json(self).into_bytes(),
            Format::Svg => plot::spectrum_svg(self).into_bytes(),
            Format::Png => plot::spectrum_png(self),
            Format::Html | Format::Hgrm | Format::Hlog => return None,
        })
    }
}
