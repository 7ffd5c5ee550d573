//! What a test needs of the machine, and how it says that it cannot run.

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
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
    eprintln!("SKIPPED {line}");
    if let Some(path) = env::var_os("DURIO_TEST_SKIPS") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
