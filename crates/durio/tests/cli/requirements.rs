//! What a test needs of the machine, and how it says that it cannot run.

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The search path with the administrators' folders, where the programs are that make filesystems.
pub(crate) fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default())
}

/// True if all is there; `root` stands for the right to mount, the rest are programs. If not, the
/// running test is reported as skipped and must return.
pub(crate) fn has(requirements: &[&str]) -> bool {
    let lacking = requirements.iter().find(|requirement| !is_there(requirement));
    if let Some(lacking) = lacking {
        let reason = match *lacking {
            "root" => "only root may do this".to_owned(),
            program => format!("{program} is missing"),
        };
        skip(&reason);
    }
    lacking.is_none()
}

fn is_there(requirement: &str) -> bool {
    let missing = env::var("DURIO_TEST_MISSING").unwrap_or_default();
    if missing.split(',').any(|name| name.trim() == requirement) {
        return false;
    }
    match requirement {
        "root" => rustix::process::geteuid().is_root(),
        // A module, which `cargo xtask test` has looked for; without that, using it will tell.
        "python3-venv" => true,
        program => program_path(program).is_some(),
    }
}

/// Where a program is.
pub(crate) fn program_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&search_path()).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Reports the running test as skipped: one line, in one call, so that parallel tests do not mix.
pub(crate) fn skip(reason: &str) {
    let thread = thread::current();
    let line = format!("cli::{}: {reason}\n", thread.name().unwrap_or("unknown"));
    // Not by eprintln, which libtest swallows in a test that passes.
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).unwrap();
    if let Some(path) = env::var_os("DURIO_TEST_SKIPS") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Python with a library from its registry, made once per build folder; the reason, if it cannot be had.
pub(crate) fn python_with(library: &str, module: &str) -> Result<PathBuf, String> {
    // Two tests that need one library would make its folder at the same time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{module}"));
    let python = home.join("bin/python");
    let import = format!("import {module}");
    if output_of(&python, &["-c", &import]).is_err() {
        let home = home.to_str().unwrap();
        output_of(Path::new("python3"), &["-m", "venv", "--clear", home])?;
        output_of(&python, &["-m", "pip", "install", "--quiet", "--retries", "1", library])?;
    }
    Ok(python)
}

/// What a program prints; the last line of its errors, if it fails.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or("failed").to_owned();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(reason)
    }
}
