use expect_test::{Expect, expect, expect_file};
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::Modifier;
use ratatui_core::terminal::Terminal;

use super::*;
use crate::tui::tests::{after, before};

const COLORS: Look = Look { color: true, unicode: true };
const PLAIN: Look = Look { color: false, unicode: true };
const ASCII: Look = Look { color: false, unicode: false };

/// The screen of a terminal of this size.
fn shown(state: &State, look: Look, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, look, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> String {
    let mut reported = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        reported += line.trim_end();
        reported.push('\n');
    }
    reported
}

/// One letter for each cell with a style: that of its color, in upper case if it is bold.
fn inks(buffer: &Buffer) -> String {
    let mut plain = buffer.clone();
    for cell in &mut plain.content {
        let name = format!("{:?}", cell.fg);
        let letter = match name.as_str() {
            "Reset" if cell.modifier.contains(Modifier::BOLD) => "*".to_owned(),
            "Reset" => " ".to_owned(),
            name if cell.modifier.contains(Modifier::BOLD) => name[..1].to_owned(),
            name => name[..1].to_lowercase(),
        };
        cell.set_symbol(&letter);
    }
    lines(&plain)
}

fn golden(name: &str, reported: &str) {
    let path = format!("{}/tests/golden/tui/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    expect_file![path].assert_eq(reported);
}

#[test]
fn an_open_loop_on_80_columns() {
    let state = after("-r 20k -d 100s", 95, 20_000);
    let screen = lines(&shown(&state, COLORS, (80, 24)));
    golden("open-80x24", &screen);
    let page = include_str!("../../../../../docs/live-view.md");
    assert!(page.contains(&screen), "docs/live-view.md shows another screen");
    golden("open-80x24-ascii", &lines(&shown(&state, ASCII, (80, 24))));
}

#[test]
fn a_closed_loop_on_a_large_screen() {
    let state = after("-n 1m -c 50", 30, 18_400);
    golden("closed-130x40", &lines(&shown(&state, COLORS, (130, 40))));
}

#[test]
fn marks_differ_without_colors() {
    let state = after("-r 20k -d 100s", 25, 20_000);
    let [colors, plain] = [COLORS, PLAIN].map(|look| shown(&state, look, (60, 16)));
    assert_eq!(lines(&colors), lines(&plain));
    golden("inks-60x16", &(lines(&colors) + &inks(&colors) + &inks(&plain)));
    assert!(plain.content.iter().all(|cell| cell.fg == ratatui_core::style::Color::Reset));
}

#[test]
fn uses_ascii_without_utf8() {
    for size in [(80, 24), (20, 5), (200, 50)] {
        for help in [false, true] {
            let mut state = after("-r 20k -d 100s", 95, 20_000);
            state.help = help;
            assert!(lines(&shown(&state, ASCII, size)).is_ascii(), "{size:?}");
        }
    }
}

fn check(size: (u16, u16), expected: &Expect) {
    let state = after("-r 20k -d 100s", 24, 20_000);
    expected.assert_eq(&lines(&shown(&state, COLORS, size)));
}

#[test]
fn small_terminals_show_the_figures() {
    check(
        (20, 5),
        &expect![[r#"
            running 24 s
            16.0k/s of 20.0k/s
            p99 40.4 ms
            16,000 failures
            q stop  p + -  ?
        "#]],
    );
    check(
        (39, 8),
        &expect![[r#"
            running 24 s, 1:16 left
            16.0k/s of 20.0k/s
            p50 40.4 ms  p99 40.4 ms
            16,000 failures, 7 in flight



            q stop  p + -  ?
        "#]],
    );
    check(
        (12, 2),
        &expect![[r#"
            running 24 s
            16.0k/s
        "#]],
    );
}

#[test]
fn draws_at_any_size() {
    let mut state = after("-r 20k -d 100s", 95, 20_000);
    for help in [false, true] {
        state.help = help;
        for width in [1, 2, 5, 19, 39, 40, 41, 80, 300] {
            for height in [1, 2, 3, 4, 5, 11, 12, 13, 14, 24] {
                shown(&state, COLORS, (width, height));
                shown(&before("-c 3"), ASCII, (width, height));
            }
        }
    }
}

#[test]
fn omits_unknown_figures() {
    golden("begin-80x24", &lines(&shown(&before("-r 20k --warmup 3s"), COLORS, (80, 24))));
}

#[test]
fn the_help() {
    let mut state = after("-r 20k -d 100s", 10, 20_000);
    state.help = true;
    golden("help-80x24", &lines(&shown(&state, COLORS, (80, 24))));
}

#[test]
fn the_end_of_a_run() {
    let reported =
        |state: &State| lines(&shown(state, COLORS, (60, 8))).lines().next().map(str::to_owned);
    let mut state = after("-r 20k -d 20s", 20, 20_000);
    let drained = reported(&state);
    state.stopping = Some(Stopping::Now);
    let ended = reported(&state);
    let counted = reported(&after("-n 600k -c 9", 10, 20_000));
    expect![[r#"
        Some("draining 20 s, last replies")
        Some("stopping 20 s, last replies")
        Some("running 10 s, about 20 s left")
    "#]]
    .assert_eq(&format!("{drained:?}\n{ended:?}\n{counted:?}\n"));
}
