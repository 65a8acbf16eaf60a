use std::env;
use std::process::Command;
use std::time::Instant;

use ratatui_core::buffer::Buffer;
use ratatui_core::style::Style;

use super::*;

#[test]
fn adjacent_cells_are_drawn_together() {
    let mut cells = Buffer::empty(ratatui_core::layout::Rect::new(0, 0, 6, 2));
    cells.set_string(1, 0, "ab", Style::new());
    cells.set_string(3, 0, "c", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
    cells.set_string(0, 1, "─", Style::new().fg(Color::DarkGray));
    let mut out = Vec::new();
    let area = [(1, 0), (2, 0), (3, 0), (0, 1)];
    encode(&mut out, area.map(|(x, y)| (x, y, &cells[(x, y)])).into_iter());
    let reported = String::from_utf8(out).unwrap().replace('\x1b', "ESC");
    assert_eq!(reported, "ESC[1;2HESC[0mabESC[0;1;31mcESC[2;1HESC[0;90m─ESC[0m");
}

#[test]
fn no_cell_controls_the_terminal() {
    let mut cells = Buffer::empty(ratatui_core::layout::Rect::new(0, 0, 3, 1));
    for (x, symbol) in (0..).zip(["\u{9b}", "\u{202e}", "a\u{200b}"]) {
        cells[(x, 0)].set_symbol(symbol);
    }
    let mut out = Vec::new();
    encode(&mut out, (0..3).map(|x| (x, 0, &cells[(x, 0)])));
    assert_eq!(String::from_utf8(out).unwrap(), "\x1b[1;1H\x1b[0m???\x1b[0m");
}

#[test]
fn ignores_arrow_keys() {
    assert_eq!(keys_of(b"q+?"), b"q+?");
    assert_eq!(keys_of(b"p\x1b[A"), b"p");
    assert!(keys_of(b"\x1b[<0;1;1M").is_empty());
}

/// A panic in a real terminal (tmux). The test runs itself there, and that process panics.
#[test]
fn a_panic_restores_the_terminal() {
    const INSIDE: &str = "PRONY_TEST_IN_A_TERMINAL";
    if env::var_os(INSIDE).is_some() {
        let _entered = Ansi::enter().unwrap();
        let worker = thread::spawn(|| panic!("a defect"));
        assert!(worker.join().is_err() && !Ansi::is_entered());
        return;
    }
    if Command::new("tmux").arg("-V").output().is_err() {
        assert!(env::var_os("CI").is_none(), "tmux is not installed, but CI needs it");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tmux = |args: &[&str]| {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(dir.path().join("tmux")).args(args).env_remove("TMUX");
        String::from_utf8_lossy(&tmux.output().unwrap().stdout).into_owned()
    };
    let this = env::current_exe().unwrap();
    let script = format!(
        "{INSIDE}=1 {} --exact tui::terminal::tests::a_panic_restores_the_terminal \
         --nocapture; stty -a | grep -q -e -icanon -e '-echo ' && echo raw || echo restored; \
         exec sleep 100",
        this.display()
    );
    tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", &script]);
    let begun = Instant::now();
    let mut screen = String::new();
    while !screen.contains("restored") && begun.elapsed().as_secs() < 60 {
        thread::sleep(Duration::from_millis(20));
        screen = tmux(&["capture-pane", "-p"]);
    }
    let state = tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
    tmux(&["kill-server"]);
    assert!(screen.contains("a defect") && screen.contains("1 passed"), "{screen}");
    assert!(screen.contains("restored") && state.trim() == "0 1", "{state} {screen}");
}
