//! How a test says that it cannot run on this machine.

use std::fs::File;
use std::io::Write;

/// Reports the running test as skipped: one line, in one call, so that parallel tests do not mix.
pub(crate) fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("durio-lab::{}: {reason}\n", thread.name().unwrap_or("unknown"));
    // Not by eprintln, which libtest swallows in a test that passes.
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("DURIO_TEST_SKIPS") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
