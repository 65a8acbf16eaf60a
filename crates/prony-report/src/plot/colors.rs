//! The colors of plots.

/// Steps of the color scale.
pub(super) const LEVELS: usize = 6;

/// The colors of the curves, on light and dark backgrounds, each with a contrast of at least 4.5 to
/// 1. Starts again after the last.
pub(super) const TONES: [(&str, &str); 8] = [
    ("#0a5fb4", "#6cb0f5"),
    ("#b5400b", "#ff9b5e"),
    ("#0b7a53", "#57cf9f"),
    ("#7f3fae", "#cfa2f7"),
    ("#8a6100", "#e2bd4f"),
    ("#b0246a", "#ff8fc4"),
    ("#0c7786", "#5dd0df"),
    ("#5c5c5c", "#b9b9b9"),
];

/// The steps of the color scale of heat maps, from few to many, on light and dark backgrounds. The
/// first steps have little contrast; the table next to the map has the numbers.
pub(super) const HEATS: [(&str, &str); LEVELS] = [
    ("#cfe1f4", "#1c334b"),
    ("#9fc4e8", "#24507c"),
    ("#6aa3d9", "#2f74b3"),
    ("#3a7fc2", "#4d9ce0"),
    ("#185a9a", "#8cc3f4"),
    ("#0b3566", "#d8ecff"),
];

/// The colors of everything else: text, faint text and axes, grid, warning, background, boxes,
/// shadows.
pub(super) const INKS: [(&str, &str, &str); 7] = [
    ("ink", "#1b1f24", "#e8eaed"),
    ("faint", "#57606a", "#a3abb4"),
    ("grid", "#dfe3e8", "#343a42"),
    ("bad", "#b3151d", "#ff8f87"),
    ("paper", "#ffffff", "#15181c"),
    ("tint", "#f3f5f7", "#20252b"),
    ("shade", "#8c959f", "#8c959f"),
];
