//! Figures of one check or of the groups of one name: `check.NAME`, `group.NAME.p99`.

use super::Figure;

/// The figure of that name, and the name of the check or group in it.
///
/// # Errors
/// There is none: one sentence.
pub(super) fn parse(name: &str) -> Result<(Figure, Option<String>), String> {
    if let Some(check) = name.strip_prefix("check.").filter(|check| !check.is_empty()) {
        return Ok((Figure::parse("check")?, Some(check.to_owned())));
    }
    if name == "check" || name == "check." {
        return Err(format!("'{name}' lacks the name of its check; write check.NAME"));
    }
    if let Some(rest) = name.strip_prefix("group.") {
        // The name may contain dots, and so may a percentile: the shortest name counts.
        let dots = rest.match_indices('.').map(|(at, _)| rest.split_at(at));
        let mut found = dots.filter(|(group, _)| !group.is_empty()).filter_map(|(group, rest)| {
            let figure = Figure::parse(&format!("group{rest}")).ok()?;
            figure.is_of_group().then(|| (figure, Some(group.to_owned())))
        });
        return found.next().ok_or_else(|| {
            format!(
                "'{name}' lacks the name of its group; write group.NAME.p99, group.NAME.failed or \
                 group.NAME.completed"
            )
        });
    }
    Figure::parse(name).map(|figure| (figure, None))
}

/// The name of the figure, with that of its check or group.
pub(super) fn shown(figure: Figure, part: Option<&str>) -> String {
    let name = figure.to_string();
    match (part, name.split_once('.')) {
        (None, _) => name,
        (Some(part), None) => format!("{name}.{part}"),
        (Some(part), Some((kind, statistic))) => format!("{kind}.{part}.{statistic}"),
    }
}
