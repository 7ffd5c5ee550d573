//! The header above the tables: program, machine, place and time of the measurement.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use super::session::BenchSession;

const UNKNOWN: &str = "unknown";

/// Prints the header of a bench of durio's cost.
pub(super) fn print(title: &str, session: &BenchSession) {
    print_machine(title);
    println!("- fio: {}", first_line("fio", &["--version"]));
    println!("- durio: {}", first_line(session.program(), &["--version"]));
    println!("- files: {}", filesystem(session.scratch()));
    println!("- priority of timed trials: {}", session.priority());
}

/// Prints the start of every header.
pub(crate) fn print_machine(title: &str) {
    println!("{title}\n");
    println!("- date: {}", humantime::format_rfc3339_seconds(SystemTime::now()));
    println!("- commit: {}", commit());
    println!("- machine: {}", machine());
    println!("- kernel: {}", kernel());
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    read("/proc/sys/kernel/osrelease")
}

/// The measured commit, and whether the checkout differs from it.
fn commit() -> String {
    let root = crate::cargo::workspace_root();
    let folder = root.to_string_lossy();
    let commit = first_line("git", &["-C", &folder, "rev-parse", "--short", "HEAD"]);
    match first_line("git", &["-C", &folder, "status", "--porcelain", "-uno"]).as_str() {
        // No line, and so no change.
        UNKNOWN => commit,
        _ => format!("{commit}, with changes"),
    }
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let model = value_of(&info, "model name").unwrap_or(UNKNOWN);
    let kib: f64 = value_of(&memory, "MemTotal")
        .and_then(|value| value.trim_end_matches("kB").trim().parse().ok())
        .unwrap_or_default();
    let guest = if info.contains(" hypervisor") { ", virtual" } else { "" };
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{processors} × {model}{guest}, {:.0} GiB", kib / 1024.0 / 1024.0)
}

/// The value of the first line `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

/// Type and source of the filesystem of a folder.
pub(crate) fn filesystem(folder: &Path) -> String {
    let folder = folder.to_string_lossy();
    first_line("findmnt", &["-n", "-o", "FSTYPE,SOURCE", "-T", &folder])
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
}

/// The first line of a program's output, with single blanks.
fn first_line(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.ok().and_then(|text| text.lines().next().map(str::to_owned));
    let line = line.unwrap_or_else(|| UNKNOWN.to_owned());
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_name() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\nMemTotal:       100 kB\n";
        assert_eq!(value_of(text, "model name"), Some("AMD EPYC"));
        assert_eq!(value_of(text, "MemTotal"), Some("100 kB"));
        assert_eq!(value_of(text, "none"), None);
    }
}
