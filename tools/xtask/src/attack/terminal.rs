//! A pseudo-terminal that can be closed under a command, as a window is.
//!
//! Starts a command in the foreground of the terminal.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::launch::{Launch, Running};

/// The window's side; dropping it closes the terminal.
#[derive(Debug)]
pub(super) struct PseudoTerminal(File);

impl PseudoTerminal {
    /// Starts a command with a new terminal.
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

    /// Reads all output, until the last process has closed the terminal.
    pub(super) fn read_to_end(mut self) -> Vec<u8> {
        let mut printed = Vec::new();
        // A closed terminal gives an error (EIO); the output before it is kept.
        let _ = self.0.read_to_end(&mut printed);
        printed
    }
}
