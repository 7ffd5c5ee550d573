//! pg_test_fsync of an installed PostgreSQL: its command line and output.
//!
//! Takes a file and seconds per test; returns operations per second of its four methods with one
//! write of 8 KiB each.
//!
//! As read in its source (src/bin/pg_test_fsync/pg_test_fsync.c, PostgreSQL 15 and 18): it writes a
//! file of 16 MiB in full and syncs it; then each method writes the same 8 KiB at offset 0 again
//! and again until an alarm ends it, and prints the mean rate. open_datasync and open_sync are
//! O_DSYNC and O_SYNC with O_DIRECT, fdatasync and fsync are calls after a buffered write. A method
//! that the filesystem refuses is `n/a`. durio has no counterpart to the tests after these, so the
//! program is ended when it starts the second list.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Its methods that Linux has, in its order.
pub(super) const METHODS: [&str; 4] = ["open_datasync", "fdatasync", "fsync", "open_sync"];

const PROGRAM: &str = "pg_test_fsync";

/// Where Debian's packages have PostgreSQL's programs, a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The first list is whole when the second one begins.
const SECOND_LIST: &str = "two 8kB writes";

/// The newest one that is installed.
///
/// # Errors
/// If none is installed; names the package that has it.
pub(super) fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    newest(Path::new(DEBIAN))
        .or_else(|| on_path.into_iter().find(|program| program.is_file()))
        .context(
            "pg_test_fsync is not installed. On Debian the package postgresql-15 (or another \
             version) has it: sudo apt-get install --no-install-recommends postgresql-15; with \
             'create_main_cluster = false' in /etc/postgresql-common/createcluster.conf \
             beforehand no server is set up",
        )
}

/// The folder of programs of the newest PostgreSQL that Debian's packages have brought.
pub(crate) fn newest_postgresql() -> Option<PathBuf> {
    newest(Path::new(DEBIAN))?.parent().map(Path::to_owned)
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let version = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir(folder).ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let program = path.join("bin").join(PROGRAM);
        Some((version(path.file_name()?)?, program)).filter(|(_, program)| program.is_file())
    });
    versions.max().map(|(_, program)| program)
}

/// Its version, as it says it.
pub(super) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output().context("cannot run it")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs the tests with one write on `file`, which stays, and returns operations per second of each
/// method; `None` if the filesystem refuses it. `prefix` is the command that runs the program.
///
/// # Errors
/// If it cannot be run or has unexpected output.
pub(super) fn run(
    prefix: &[&str],
    program: &Path,
    file: &Path,
    seconds: u32,
) -> Result<[Option<f64>; METHODS.len()]> {
    let mut words = prefix.iter().map(OsStr::new).chain([program.as_os_str()]);
    let first = words.next().context("no command")?;
    let mut child = Command::new(first)
        .args(words)
        .arg("-f")
        .arg(file)
        .args(["-s", &seconds.to_string()])
        // Its output is translated.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = first_list(&mut child);
    // Not asked to end, it cannot remove the file, which durio writes to next. It may have ended.
    let _ = child.kill();
    child.wait().context("cannot wait for pg_test_fsync")?;
    parse(&text?)
}

/// Its output until the second list begins.
fn first_list(child: &mut Child) -> Result<String> {
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let mut text = String::new();
    let mut part = [0; 256];
    while !text.contains(SECOND_LIST) {
        let count = output.read(&mut part).context("cannot read what pg_test_fsync prints")?;
        ensure!(count > 0, "pg_test_fsync ended early, after:\n{text}");
        text.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<[Option<f64>; METHODS.len()]> {
    let list = text.split(SECOND_LIST).next().unwrap_or_default();
    let mut rates = [None; METHODS.len()];
    for (method, rate) in METHODS.iter().zip(&mut rates) {
        let mut lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(method));
        *rate = match line.as_deref() {
            Some([_, rate, "ops/sec", ..]) => {
                Some(rate.parse().with_context(|| format!("{rate} is no rate of {method}"))?)
            }
            Some([_, "n/a" | "n/a*", ..]) => None,
            _ => bail!("pg_test_fsync prints no {method}:\n{text}"),
        };
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 15.14 prints it, with other figures.
    const SAMPLE: &str = "1 second per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                      1000.500 ops/sec     999 usecs/op
        fdatasync                          2000.000 ops/sec     500 usecs/op
        fsync                               500.250 ops/sec    1999 usecs/op
        fsync_writethrough                              n/a
        open_sync                           400.000 ops/sec    2500 usecs/op

Compare file sync methods using two 8kB writes:
        open_datasync                         1.000 ops/sec 1000000 usecs/op
";

    #[test]
    fn rates_are_those_of_the_first_list() {
        let rates = parse(SAMPLE).expect("the sample is whole");
        assert_eq!(rates, [Some(1000.5), Some(2000.0), Some(500.25), Some(400.0)]);
    }

    #[test]
    fn a_method_that_the_filesystem_refuses_has_no_rate() {
        let refused = SAMPLE.replace("1000.500 ops/sec     999 usecs/op", "n/a*");
        assert_eq!(parse(&refused).expect("it is whole")[0], None);
    }

    #[test]
    fn a_method_that_is_missing_or_no_number_is_an_error() {
        assert!(parse(&SAMPLE.replace("open_sync", "other")).is_err());
        assert!(parse(&SAMPLE.replace("500.250", "many")).is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn the_newest_version_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(newest(folder.path()), None);
        for version in ["9", "15", "17", "other"] {
            let bin = folder.path().join(version).join("bin");
            fs::create_dir_all(&bin).expect("a folder");
            // The newest one is not whole.
            if version != "17" {
                fs::write(bin.join(PROGRAM), "").expect("a file");
            }
        }
        assert_eq!(newest(folder.path()), Some(folder.path().join("15/bin").join(PROGRAM)));
        assert_eq!(newest(&folder.path().join("none")), None);
    }
}
