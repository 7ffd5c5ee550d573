//! Long-running programs: quiet on success, ended with us, with the end of their output on failure.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bench::Interrupt;

/// Six times the duration of a build of ZFS on two busy processors.
const LIMIT: Duration = Duration::from_secs(3600);
const PAUSE: Duration = Duration::from_millis(100);
/// Lines shown from the end of a failed program's output.
const LINES: usize = 25;

/// Runs a program with its output in `log`.
pub(super) fn run(command: &mut Command, log: &Path, interrupt: &Interrupt) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file = File::create(log)?;
    command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
    // Variables set by cargo, or by a make around us, must not reach another build.
    for variable in ["MAKEFLAGS", "MFLAGS", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT"] {
        command.env_remove(variable);
    }
    // A separate group: the signal that ends us must also end all its children.
    command.env("LC_ALL", "C").process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let status = wait(&mut child, interrupt).with_context(|| name.clone())?;
    ensure!(status.success(), "{name} ended with {status}:\n{}", last_lines(log));
    Ok(())
}

fn wait(child: &mut Child, interrupt: &Interrupt) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let why = match start.elapsed() > LIMIT {
            true => format!("not done after {} s", LIMIT.as_secs()),
            false if interrupt.came() => "interrupted".to_owned(),
            false => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        end_group(child)?;
        bail!(why);
    }
}

/// The program was not waited for yet, so its number cannot have been reused.
fn end_group(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("cannot run kill")?;
    child.wait()?;
    Ok(())
}

fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, interrupt: &Interrupt) -> Result<()> {
        let log = tempfile::NamedTempFile::new()?;
        run(Command::new("sh").args(["-c", script]), log.path(), interrupt)
    }

    #[test]
    fn a_program_that_fails_is_told_with_what_it_said_last() {
        let never = Interrupt::never();
        shell("echo fine", &never).expect("success");
        let script = "for i in $(seq 40); do echo line $i; done; echo why >&2; exit 3";
        let error = shell(script, &never).expect_err("a failure").to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("line 40\nwhy") && !error.contains("line 15\n"), "{error}");
    }

    #[test]
    fn an_interrupt_ends_the_program_and_all_that_it_has_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let late = folder.path().join("late");
        let script = format!("(sleep 1; touch {}) & sleep 60", late.display());
        let start = Instant::now();
        let error = shell(&script, &Interrupt::that_came()).expect_err("interrupted");
        assert!(format!("{error:#}").contains("interrupted"), "{error:#}");
        assert!(start.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(1500));
        assert!(!late.exists());
    }
}
