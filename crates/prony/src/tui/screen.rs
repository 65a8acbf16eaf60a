//! The layout of one frame, for screens of any size.

use prony_base::fault::Fault;
use prony_base::plain;
use prony_base::units::{Nanos, Span};
use prony_io::Interval;
use prony_plan::plan::status_text;
use prony_report::{units, words};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::text::Line;

use super::charts;
use super::hosts;
use super::look::{Ink, Look};
use super::state::{Left, State, Stopping};

/// The minimum size for charts; smaller screens show only figures.
const CHARTS_MIN: (u16, u16) = (40, 12);
/// The lines besides the charts: two at the top, five of figures, one of keys.
const LINES: u16 = 8;
/// At most one in this number of the other lines is that of a host.
const HOSTS_SHARE: u16 = 3;
/// The column at which figures start.
const LABEL: usize = 12;

/// Draws the screen.
pub(super) fn draw(state: &State, look: Look, area: Rect, buffer: &mut Buffer) {
    let mut page = Page { look, area, buffer, row: 0 };
    if state.help {
        page.help(state);
    } else if area.width < CHARTS_MIN.0 || area.height < CHARTS_MIN.1 {
        page.small(state);
    } else {
        page.whole(state);
    }
}

/// The screen, written line by line.
struct Page<'a> {
    look: Look,
    area: Rect,
    buffer: &'a mut Buffer,
    row: u16,
}

/// A piece of a line.
type Piece = (Ink, String);

impl Page<'_> {
    fn whole(&mut self, state: &State) {
        self.head(state);
        let hosts = hosts::lines(state, (self.area.height - LINES) / HOSTS_SHARE);
        let charts_height = self.area.height - LINES - hosts.len() as u16;
        // Two headings; the charts share the rest.
        let rows = charts_height.saturating_sub(2);
        let upper = rows / 2;
        self.rates(state, upper);
        self.times(state, rows - upper);
        for (label, parts) in hosts {
            self.figures(&cut(&label, LABEL - 1, self.look), parts);
        }
        for (label, parts) in figures(state) {
            self.figures(label, parts);
        }
        self.row = self.area.height - 1;
        self.keys(state);
    }

    /// Only figures, most important first, in their long or short form.
    fn small(&mut self, state: &State) {
        let (rates, live) = (state.rates(), &state.live);
        let target = state.target_rate().map(|target| format!(" of {}", units::rate(target)));
        let failed = units::counted(live.failed, "failure", "failures");
        let ink = if live.failed > 0 { Ink::Bad } else { Ink::Plain };
        let (going, word) = status(state);
        let gone = clock(live.now.since(Nanos::ZERO));
        let lines = [
            (going, [word.clone() + &progressed(state), word + &gone]),
            (
                Ink::Plain,
                [
                    units::rate(rates.replies) + target.as_deref().unwrap_or_default(),
                    units::rate(rates.replies),
                ],
            ),
            (
                Ink::Plain,
                [
                    quantiles(state, &[("p50", 0.5), ("p99", 0.99)]),
                    quantiles(state, &[("p99", 0.99)]),
                ],
            ),
            (ink, [format!("{failed}, {} in flight", live.in_flight), failed]),
        ];
        let last = lines.len() as u16;
        for (ink, [long, short]) in lines {
            let fits = width(&long) <= usize::from(self.area.width);
            self.line(&[(ink, if fits { long } else { short })]);
        }
        if self.area.height > last {
            self.row = self.area.height - 1;
            self.keys(state);
        }
    }

    /// The target, the state and the progress of the run.
    fn head(&mut self, state: &State) {
        let (ink, word) = status(state);
        let room = usize::from(self.area.width).saturating_sub(width(&word) + 9);
        let target = cut(&state.target, room, self.look);
        self.line(&[(Ink::Title, "prony  ".into()), plain(target)]);
        let x = self.area.right().saturating_sub(width(word.trim_end()) as u16);
        self.buffer.set_string(x, self.area.y, word.trim_end(), self.look.style(ink));

        let text = progressed(state);
        let room = usize::from(self.area.width).saturating_sub(width(&text) + 2);
        let Some(share) = state.share().filter(|_| room >= 10) else {
            self.line(&[plain(text)]);
            return;
        };
        let done = (share * room as f64) as usize;
        let [full, rest] = self.look.gauge();
        self.line(&[
            (Ink::Good, full.to_string().repeat(done)),
            (Ink::Faint, rest.to_string().repeat(room - done)),
            plain(format!("  {text}")),
        ]);
    }

    fn rates(&mut self, state: &State, rows: u16) {
        let rates = state.rates();
        let mut parts = vec![
            (Ink::Title, "requests per second  ".into()),
            (Ink::Good, units::rate(rates.replies)),
            plain(" completed".into()),
        ];
        if rates.failed > 0.0 {
            parts.push((Ink::Bad, format!("  {} failed", units::rate(rates.failed))));
        }
        if let Some(target) = state.target_rate() {
            let pace = state.rate_control.keys.pace();
            let changed =
                if pace == 1.0 { String::new() } else { format!(" ({})", units::percent(pace)) };
            parts.push((Ink::Target, format!("  target {}{changed}", units::rate(target))));
        }
        self.heading(parts, over(state, self.area.width));
        let area = self.take(rows);
        let target = |i: &Interval| {
            let middle = i.begin + i.length / 2;
            state.plan.target_rate(middle)
        };
        charts::rates(area, self.buffer, self.look, &state.history, &target);
    }

    fn times(&mut self, state: &State, rows: u16) {
        let all = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
        let parts = quantiles(state, &all);
        self.heading(vec![(Ink::Title, "response times  ".into()), plain(parts)], String::new());
        let area = self.take(rows);
        charts::heat(area, self.buffer, self.look, &state.history);
    }

    /// The available keys, or the message of the last one.
    fn keys(&mut self, state: &State) {
        if let Some(notice) = state.notice() {
            self.line(&[(Ink::Notice, notice.into())]);
            return;
        }
        let [long, short] = if state.is_steerable() {
            [
                "q stop and report   q q stop at once   p pause   + - rate   ? help",
                "q stop  p + -  ?",
            ]
        } else {
            ["q stop and report   q q stop at once   ? help", "q stop  ? help"]
        };
        let room = usize::from(self.area.width);
        let parts = if long.len() <= room { long } else { short };
        self.line(&[(Ink::Faint, parts.into())]);
    }

    fn help(&mut self, state: &State) {
        let lines = [
            ("q", "stop: wait for the requests in flight, then report"),
            ("q q", "stop at once; requests in flight count as unfinished"),
            ("Ctrl-C", "the same as q"),
            ("p", "pause the arrivals; press p again to continue"),
            ("+  -", "raise or lower the target rate by a tenth, after 0.2 s"),
            ("?", "close this help"),
        ];
        self.line(&[(Ink::Title, "prony  ".into()), plain(state.load.clone())]);
        for (key, what) in lines {
            self.line(&[(Ink::Notice, format!("{key:8}")), plain(what.into())]);
        }
        self.row += 1;
        let marks = [
            (self.look.bar(8), Ink::Good, "successes per second"),
            (self.look.failures(), Ink::Bad, "failed"),
            (self.look.level(), Ink::Target, "target rate"),
            (self.look.heat(1), Ink::Heat(1), "under 1 % of the replies in this column"),
            (self.look.heat(2), Ink::Heat(2), "under 5 %"),
            (self.look.heat(3), Ink::Heat(3), "under 20 %"),
            (self.look.heat(4), Ink::Heat(4), "20 % and more"),
        ];
        for (mark, ink, what) in marks {
            self.line(&[(ink, format!("{mark:<8}")), plain(what.into())]);
        }
        self.row += 1;
        self.line(&[plain("Figures cover the last second.".into())]);
        self.line(&[plain("The report covers the whole run, with all rate changes.".into())]);
    }

    fn heading(&mut self, mut parts: Vec<Piece>, end: String) {
        let used: usize = parts.iter().map(|(_, text)| width(text)).sum();
        let room = usize::from(self.area.width).saturating_sub(used + width(&end) + 2);
        if room > 1 {
            parts.push((
                Ink::Faint,
                format!(" {} {end}", self.look.rule().to_string().repeat(room)),
            ));
        }
        self.line(&parts);
    }

    fn figures(&mut self, label: &str, parts: Vec<Piece>) {
        let mut line = vec![(Ink::Faint, format!("{label:LABEL$}"))];
        let mut used = LABEL;
        for (i, (ink, text)) in parts.into_iter().enumerate() {
            let text = if i == 0 { text } else { format!(", {text}") };
            used += width(&text);
            // Omit parts that do not fit.
            if i > 0 && used > usize::from(self.area.width) {
                break;
            }
            line.push((ink, text));
        }
        self.line(&line);
    }

    fn line(&mut self, pieces: &[Piece]) {
        let y = self.area.y + self.row;
        self.row += 1;
        if y >= self.area.bottom() {
            return;
        }
        let mut x = self.area.x;
        for (ink, text) in pieces {
            let room = usize::from(self.area.right() - x);
            let text = plain::line(text);
            let (end, _) = self.buffer.set_stringn(x, y, text, room, self.look.style(*ink));
            x = end;
        }
    }

    fn take(&mut self, rows: u16) -> Rect {
        let area = Rect { y: self.area.y + self.row, height: rows, ..self.area };
        self.row += rows;
        area
    }
}

/// The width of a text in columns.
fn width(text: &str) -> usize {
    Line::raw(text).width()
}

fn plain(text: String) -> Piece {
    (Ink::Plain, text)
}

/// The state of the run, followed by a space.
fn status(state: &State) -> Piece {
    let now = state.live.now;
    match (state.stopping, state.left()) {
        (Some(Stopping::Now), _) => (Ink::Notice, "stopping ".into()),
        (Some(Stopping::Drain), _) | (None, Left::Drain) => (Ink::Notice, "draining ".into()),
        _ if now.since(Nanos::ZERO) < state.plan.warmup => (Ink::Notice, "warm-up ".into()),
        _ if state.rate_control.keys.paused => (Ink::Notice, "paused ".into()),
        _ => (Ink::Good, "running ".into()),
    }
}

/// The elapsed time and the remaining time.
fn progressed(state: &State) -> String {
    let gone = clock(state.live.now.since(Nanos::ZERO));
    match state.left() {
        Left::Time(left) => format!("{gone}, {} left", clock(left + Span(999_999_999))),
        Left::About(left) => format!("{gone}, about {} left", clock(left)),
        Left::Drain => format!("{gone}, last replies"),
        Left::Unknown => gone,
    }
}

/// Whole seconds, with minutes and hours if necessary.
fn clock(t: Span) -> String {
    let s = t.0 / 1_000_000_000;
    match (s / 3_600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// The time span of the charts.
fn over(state: &State, width: u16) -> String {
    let columns = state.history.len().min(charts::columns(width));
    match state.history.back() {
        None => String::new(),
        Some(last) if last.length == Span::from_secs(1) => format!("last {columns} s"),
        Some(last) => format!("one column {}", units::exact(last.length)),
    }
}

/// Quantiles of the newest interval; `-` with too few replies.
fn quantiles(state: &State, wanted: &[(&str, f64)]) -> String {
    let Some(last) = state.history.back().filter(|i| !i.cell.bins.is_empty()) else {
        return "no replies in the last second".into();
    };
    let parts = wanted.iter().map(|&(name, q)| {
        let value = last.cell.quantile(q).map_or_else(|| "-".to_owned(), units::span);
        format!("{name} {value}")
    });
    parts.collect::<Vec<_>>().join("  ")
}

/// The figures below the charts: label and parts.
fn figures(state: &State) -> Vec<(&'static str, Vec<Piece>)> {
    let live = &state.live;
    let detail = live.detail.as_ref();
    let mut requests = vec![plain(units::counted(live.replies, "reply", "replies"))];
    let ink = if live.failed > 0 { Ink::Bad } else { Ink::Plain };
    requests.push((ink, format!("{} failed", units::count(live.failed))));
    requests.push(plain(format!("{} in flight", units::count(live.in_flight))));
    if state.plan.sessions.is_some() {
        requests.push(plain(format!(
            "{} completed",
            units::counted(live.sessions, "session", "sessions")
        )));
    }
    let statuses = detail.iter().flat_map(|d| &d.statuses);
    let statuses = statuses
        .map(|(s, n)| plain(format!("{}: {}", status_text(*s), units::count(*n))))
        .collect();
    let mut faults: Vec<(u64, Fault)> =
        detail.iter().flat_map(|d| d.faults.into_iter().zip(Fault::ALL)).collect();
    faults.retain(|&(n, _)| n > 0);
    faults.sort_by_key(|&(n, fault)| (std::cmp::Reverse(n), fault));
    let errors = faults
        .into_iter()
        .map(|(n, fault)| (Ink::Bad, format!("{} {}", words::name(fault), units::count(n))));
    let mut errors: Vec<Piece> = errors.collect();
    if errors.is_empty() {
        errors.push(plain("none".into()));
    }
    let connections = detail.map_or(0, |d| d.connections);
    // Workers do not report their connections while they run.
    let open = state.hosts.is_empty().then(|| plain(units::count(connections)));
    vec![
        ("requests", requests),
        ("statuses", statuses),
        ("errors", errors),
        ("connections", open.into_iter().chain([plain(state.load.clone())]).collect()),
        ("meter", meter(state)),
    ]
}

/// The load of the client itself.
fn meter(state: &State) -> Vec<Piece> {
    let rates = state.rates();
    let mut parts = Vec::new();
    if !state.hosts.is_empty() {
        parts.extend(hosts::at_work(&state.hosts));
    } else if let Some(detail) = &state.live.detail {
        // Above this limit the verdict is CLIENT-LIMITED.
        let ink = if rates.busiest > 0.9 { Ink::Bad } else { Ink::Plain };
        parts.push((ink, format!("busiest thread {}", units::percent(rates.busiest))));
        if let Some(lag) = rates.lag {
            let max = units::span(detail.lag.max);
            parts.push(plain(format!("send lag {} max {max}", units::span(lag))));
        }
        parts.push(plain(format!("CPU {}", units::percent(rates.cpu))));
    }
    parts.push(plain(format!("this view {}", units::percent(rates.own))));
    parts
}

/// Truncates the text to this number of columns, with a mark.
fn cut(text: &str, room: usize, look: Look) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mark = if look.unicode { "…" } else { ".." };
    let mut kept = String::new();
    for c in text.chars() {
        if width(&kept) + width(&c.to_string()) + width(mark) > room {
            break;
        }
        kept.push(c);
    }
    kept + mark
}

#[cfg(test)]
mod tests;
