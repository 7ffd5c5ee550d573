//! A pseudo-terminal that can be closed under a command, as a window is.
//!
//! In: a command. Out: it runs in the foreground of the terminal. Not here: what closing it does.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::launch::{Launch, Running};

/// The side that a window holds; the terminal is closed when this goes.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    /// Starts a command with a terminal of its own.
    pub(super) fn start(launch: Launch) -> Result<(Self, Running)> {
        // NOCTTY: it must not become the terminal of the suite itself.
        let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .context("no pseudo-terminal")?;
        grantpt(&window)?;
        unlockpt(&window)?;
        let name = ptsname(&window, Vec::new())?;
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(path, flags, Mode::empty());
        let terminal = terminal.with_context(|| format!("cannot open {}", path.display()))?.into();
        let running = launch.start_on(&terminal)?;
        Ok((Self(window.into()), running))
    }

    /// Reads all that is printed, until the last process has let go of the terminal.
    pub(super) fn read_to_end(mut self) -> Vec<u8> {
        let mut printed = Vec::new();
        // The end of a terminal is an error (EIO), and what came before it is kept.
        let _ = self.0.read_to_end(&mut printed);
        printed
    }
}
