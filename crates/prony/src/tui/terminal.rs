//! The terminal: sets it up, draws on it, reads keys, and restores it however the run ends.
//!
//! The output is plain ECMA-48 with the sixteen colors, with one write per frame. Reading keys does
//! not block. Ctrl-C still sends a signal.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, TryLockError};
use std::time::Duration;
use std::{panic, thread};

use prony_base::plain;
use prony_io::quit;
use prony_run::interrupt;
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};

/// The original settings of the terminal; `None` while the live view is not active.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
/// Switch to the alternate screen, and hide the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
/// Reset colors, show the cursor, and switch back to the main screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// The terminal at standard error.
#[derive(Debug)]
pub(super) struct Ansi {
    /// The output of the next frame.
    out: Vec<u8>,
    /// The source of keys.
    keys: Option<File>,
}

/// Whether standard error is a terminal with this process in its foreground.
pub(super) fn is_ours() -> bool {
    let group = rustix::process::getpgrp();
    io::stderr().is_terminal() && tcgetpgrp(io::stderr()).is_ok_and(|front| front == group)
}

/// Whether the terminal is back in line mode.
pub(super) fn is_reset() -> bool {
    tcgetattr(io::stderr()).is_ok_and(|now| now.local_modes.contains(LocalModes::ICANON))
}

/// Restores the terminal. Can be called at any time and from any thread; does nothing if the live
/// view is not active.
pub(crate) fn restore() {
    // A frame whose write blocks must not prevent the process from ending.
    for _ in 0..50 {
        let mut before = match BEFORE.try_lock() {
            Ok(before) => before,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        if let Some(settings) = before.take() {
            let _ = io::stderr().lock().write_all(LEAVE);
            let _ = tcsetattr(io::stderr(), OptionalActions::Now, &settings);
        }
        return;
    }
}

impl Ansi {
    /// Sets up the terminal. From now on, [`restore`] runs before the message of a panic, and
    /// before a signal ends the process.
    pub(super) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                previous(info);
            }));
            // If this fails, only a SIGQUIT leaves the terminal unrestored.
            let _ = quit::before_quit(restore);
            interrupt::restore_by(restore);
        });
        let settings = tcgetattr(io::stderr())?;
        tcsetattr(io::stderr(), OptionalActions::Now, &quiet(&settings))?;
        let mut before = BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *before = Some(settings);
        io::stderr().lock().write_all(ENTER)?;
        // If standard input is a file, read keys from the controlling terminal.
        let keys = if io::stdin().is_terminal() {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open("/dev/tty")
        };
        Ok(Self { out: Vec::new(), keys: keys.ok() })
    }

    /// Whether the live view is still active: a panic or a signal may have restored the terminal.
    pub(super) fn is_entered() -> bool {
        BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_some()
    }

    /// Sets the terminal up again after another job used it.
    pub(super) fn enter_again(&self) -> io::Result<()> {
        let settings = tcgetattr(io::stderr())?;
        tcsetattr(io::stderr(), OptionalActions::Now, &quiet(&settings))?;
        io::stderr().lock().write_all(ENTER)
    }

    /// The keys pressed since the last call. Does not block.
    pub(super) fn keys(&mut self) -> Vec<u8> {
        let Some(from) = &self.keys else { return Vec::new() };
        let mut bytes = [0; 64];
        // The settings make reads return at once. A closed terminal has no keys.
        let n = rustix::io::read(from, &mut bytes).unwrap_or(0);
        keys_of(&bytes[..n])
    }
}

/// The characters before an escape sequence (such as of an arrow key).
fn keys_of(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|&b| b != 0x1b).collect()
}

/// Settings for single keys without echo and for reads that return at once. Ctrl-C still sends a
/// signal; the keys for SIGQUIT and SIGTSTP are off.
fn quiet(settings: &Termios) -> Termios {
    let mut quiet = settings.clone();
    quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
    quiet.input_modes.remove(InputModes::IXON);
    for (code, value) in [
        (SpecialCodeIndex::VMIN, 0),
        (SpecialCodeIndex::VTIME, 0),
        (SpecialCodeIndex::VQUIT, 0),
        (SpecialCodeIndex::VSUSP, 0),
    ] {
        quiet.special_codes[code] = value;
    }
    quiet
}

impl Backend for Ansi {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        encode(&mut self.out, content);
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.out.extend_from_slice(b"\x1b[0m\x1b[2J");
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(io::stderr())?;
        // A serial line has no size.
        let or = |n, default| if n == 0 { default } else { n };
        Ok(Size::new(or(size.ws_col, 80), or(size.ws_row, 24)))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::new(0, 0) })
    }

    fn flush(&mut self) -> io::Result<()> {
        let before = BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let written = match *before {
            Some(_) => io::stderr().lock().write_all(&self.out),
            None => Ok(()),
        };
        self.out.clear();
        written
    }
}

/// Encodes the cells for a terminal.
fn encode<'a>(out: &mut Vec<u8>, content: impl Iterator<Item = (u16, u16, &'a Cell)>) {
    let mut at = None;
    let mut inked = None;
    for (x, y, cell) in content {
        if at != Some((x, y)) {
            let _ = write!(out, "\x1b[{};{}H", y + 1, x + 1);
        }
        at = Some((x + 1, y));
        let ink = (cell.fg, cell.modifier);
        if inked != Some(ink) {
            inked = Some(ink);
            out.extend_from_slice(b"\x1b[0");
            if cell.modifier.contains(Modifier::BOLD) {
                out.extend_from_slice(b";1");
            }
            if let Some(code) = code(cell.fg) {
                let _ = write!(out, ";{code}");
            }
            out.push(b'm');
        }
        let is_plain = cell.symbol().chars().all(plain::is_plain);
        out.extend_from_slice(if is_plain { cell.symbol().as_bytes() } else { b"?" });
    }
    if inked.is_some() {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// The code of a foreground color; `None` for the default color.
fn code(color: Color) -> Option<u8> {
    Some(match color {
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
        Color::Cyan => 36,
        Color::DarkGray => 90,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
