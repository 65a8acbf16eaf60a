//! Comparisons, trends and phases in each format that shows them.

use super::comparison::Comparison;
use super::phased::Phased;
use super::trend::Trend;
use super::{
    Format, Saved, Style, github, html, json, junit, layout, markdown, pictured, plot, text,
};

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

impl Phased {
    /// The report in a format; `None` if that cannot show phases. Secrets are hidden as in the
    /// report of one run.
    pub fn render(&self, format: Format, style: &Style) -> Option<Vec<u8>> {
        let shown = &self.shown();
        Some(match format {
            Format::Text => text::render_phases(shown, *style).into_bytes(),
            Format::Json => json::phased::render(shown).into_bytes(),
            Format::Junit => junit::render_all(shown).into_bytes(),
            Format::Markdown => markdown::render_phases(shown).into_bytes(),
            Format::Html => html::phased(shown).into_bytes(),
            Format::Svg | Format::Png => {
                let runs = shown.runs().map(|(name, summary)| Saved { name, summary });
                pictured(format, &runs.collect::<Vec<_>>())
            }
            Format::Csv | Format::Hgrm | Format::Hlog => return None,
        })
    }

    /// The annotations for GitHub Actions.
    pub fn annotations(&self) -> String {
        self.runs().map(|(name, summary)| github::of_phase(name, summary)).collect()
    }
}
