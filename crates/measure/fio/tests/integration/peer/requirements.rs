//! A fio to compare with, a folder to work in, and how a test says that there is no fio.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::thread;

use durio_fio::installed::Fio as Installed;
use durio_fio::json::{self, FioFile};
use tempfile::TempDir;

/// fio in a folder of its own.
pub(crate) struct Fio {
    pub(crate) folder: TempDir,
}

impl Fio {
    /// `None`, and the running test is reported as skipped, if there is no fio or an old one.
    pub(crate) fn new() -> Option<Self> {
        if !has("fio") {
            return None;
        }
        if let Err(error) = Installed::find(None) {
            skip(&error.to_string());
            return None;
        }
        Some(Self { folder: TempDir::new().unwrap() })
    }

    /// What fio prints for these arguments, separated by blanks; files are in the folder.
    pub(crate) fn text(&self, arguments: &str) -> String {
        let result = self.folder.path().join("result");
        let output = Command::new("fio")
            .current_dir(self.folder.path())
            .arg(format!("--output={}", result.display()))
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {errors}");
        fs::read_to_string(result).unwrap()
    }

    pub(crate) fn file(&self, arguments: &str) -> FioFile {
        json::read(self.text(arguments).as_bytes()).unwrap()
    }
}

/// True if the program is there; if not, the running test is reported as skipped and must return.
pub(crate) fn has(program: &str) -> bool {
    let missing = env::var("DURIO_TEST_MISSING").unwrap_or_default();
    let is_hidden = missing.split(',').any(|name| name.trim() == program);
    let answers = || Command::new(program).arg("--version").output().is_ok();
    if is_hidden || !answers() {
        skip(&format!("{program} is missing"));
        return false;
    }
    true
}

fn skip(reason: &str) {
    let thread = thread::current();
    let line = format!("durio-fio peer::{}: {reason}\n", thread.name().unwrap_or("unknown"));
    // Not by eprintln, which libtest swallows in a test that passes.
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).unwrap();
    if let Some(path) = env::var_os("DURIO_TEST_SKIPS") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
