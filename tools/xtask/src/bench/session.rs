//! One bench: the current durio, a folder for files, and trials, one after the other. Returns what
//! trials print. The folder is in cargo's target folder, and is removed when it is dropped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::Advice;
use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::TempDir;

use super::durio::Durio;
use crate::cargo;

/// Round-robin at the lowest real-time priority: tenants of the machine cannot take the core away
/// in the middle of a short trial.
// The lowest: the kernel's real-time threads still take precedence.
const REALTIME: [&str; 3] = ["chrt", "-r", "1"];

/// The wish to end early.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, Ctrl-C and SIGTERM are recorded instead of killing this process.
    pub(crate) fn watch() -> Result<Self> {
        let came = Self::never();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&came.0))
                .context("cannot watch for signals")?;
        }
        Ok(came)
    }

    /// A signal that never comes.
    pub(crate) fn never() -> Self {
        Self(Arc::default())
    }

    /// A signal that has come.
    #[cfg(test)]
    pub(crate) fn that_came() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if it came.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.came(), "interrupted");
        Ok(())
    }
}

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// With real-time priority, if permitted: for times.
    Realtime,
    /// As any program: for counts.
    Plain,
}

/// A command's output.
#[derive(Debug)]
pub(super) struct PrintedOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The built durio, and a folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct BenchSession {
    scratch: TempDir,
    program: PathBuf,
    realtime: bool,
    interrupt: Interrupt,
}

impl BenchSession {
    /// Builds durio and keeps a copy, which no concurrent build can replace.
    pub(super) fn begin(interrupt: &Interrupt) -> Result<Self> {
        let target_folder = cargo::metadata()?.target_directory.into_std_path_buf();
        build()?;
        interrupt.check()?;
        let scratch = folder(&target_folder)?;
        let program = scratch.path().join("durio");
        let built = target_folder.join("release/durio");
        fs::copy(&built, &program).with_context(|| format!("no {}", built.display()))?;
        // Tried: a limit, a capability and a container's filter each may forbid it.
        let realtime = is_permitted(&REALTIME);
        Ok(Self { scratch, program, realtime, interrupt: interrupt.clone() })
    }

    /// The folder for files.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// durio with its run folders in the folder for files.
    pub(super) fn durio(&self) -> Durio<'_> {
        Durio { program: &self.program, out: self.scratch() }
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// For the header.
    pub(super) fn priority(&self) -> &'static str {
        if self.realtime { "chrt -r 1" } else { "ordinary: chrt is not permitted" }
    }

    /// The prefix of commands.
    pub(super) fn prefix(&self, priority: Priority) -> &'static [&'static str] {
        match self.realtime && priority == Priority::Realtime {
            true => &REALTIME,
            false => &[],
        }
    }

    /// Runs a command to its end; it must succeed.
    pub(super) fn run(&self, words: &[OsString], priority: Priority) -> Result<PrintedOutput> {
        self.interrupt.check()?;
        let mut all = self.prefix(priority).iter().map(OsString::from).chain(words.iter().cloned());
        let program = all.next().context("no command")?;
        let output = Command::new(&program)
            .args(all)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        // Before the exit code: Ctrl-C reaches the program too, which then fails as expected.
        self.interrupt.check()?;
        let printed = PrintedOutput {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if !output.status.success() {
            let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            bail!("{}: {}\n{}", output.status, line.join(" "), printed.stderr.trim());
        }
        Ok(printed)
    }
}

fn build() -> Result<()> {
    let mut command = cargo::command(&["build", "--release", "-p", "durio"]);
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "durio cannot be built");
    Ok(())
}

fn is_permitted(prefix: &[&str]) -> bool {
    let (program, arguments) = (prefix[0], &prefix[1..]);
    let mut command = Command::new(program);
    command.args(arguments).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Bytes per write and read.
const CHUNK: usize = 1 << 20;

/// A new folder on the storage of cargo's target folder.
pub(super) fn folder(target_folder: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(target_folder)
        .with_context(|| format!("cannot make a folder in {}", target_folder.display()))
}

/// Lays out a file in full, with contents that do not compress, and makes it durable. It is in the
/// page cache afterwards.
pub(super) fn lay_out(folder: &Path, mebibytes: usize, interrupt: &Interrupt) -> Result<PathBuf> {
    let path = folder.join("data");
    let mut file = File::create_new(&path).context("cannot make the data file")?;
    // Any number but 0, which xorshift never leaves.
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut chunk = vec![0_u8; CHUNK];
    for _ in 0..mebibytes {
        interrupt.check()?;
        fill(&mut chunk, &mut random);
        file.write_all(&chunk).context("cannot lay out the data file")?;
    }
    // Pending writeback would be load in the first trial, and the kernel drops only clean pages
    // from its cache.
    file.sync_all().context("cannot sync the data file")?;
    Ok(path)
}

/// Reads a file once, so that the page cache holds it.
pub(super) fn warm(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0_u8; CHUNK];
    while file.read(&mut chunk)? > 0 {}
    Ok(())
}

/// Bytes that are dropped of each hundred times as many: runs that are larger than the page cache's
/// folios, of which only whole ones go.
const DROPPED: u64 = 2 << 20;

/// Reads a file once and drops a hundredth of it from the page cache again.
pub(super) fn cool_a_hundredth(path: &Path) -> io::Result<()> {
    warm(path)?;
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    for offset in (0..length).step_by(usize::try_from(100 * DROPPED).unwrap_or(usize::MAX)) {
        rustix::fs::fadvise(&file, offset, NonZero::new(DROPPED), Advice::DontNeed)?;
    }
    Ok(())
}

/// A fresh folder below `folder`.
pub(super) fn subfolder(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// xorshift64: nothing here needs better randomness.
fn fill(chunk: &mut [u8], state: &mut u64) {
    for word in chunk.chunks_exact_mut(size_of::<u64>()) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_that_came_is_an_error_at_the_next_check() {
        let interrupt = Interrupt::never();
        assert!(interrupt.check().is_ok());
        interrupt.0.store(true, Ordering::Relaxed);
        assert!(interrupt.check().is_err());
    }

    #[test]
    fn a_prefix_that_does_not_exist_is_not_permitted() {
        assert!(!is_permitted(&["no-such-program-anywhere"]));
    }

    #[test]
    fn a_file_is_laid_out_in_full_and_goes_with_its_folder() {
        let scratch = folder(&std::env::temp_dir()).expect("a folder");
        let path = lay_out(scratch.path(), 1, &Interrupt::never()).expect("a file");
        let data = fs::read(&path).expect("it can be read");
        assert_eq!(data.len(), CHUNK);
        assert!(data.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
        warm(&path).expect("it can be read");
        drop(scratch);
        assert!(!path.exists());
    }
}
