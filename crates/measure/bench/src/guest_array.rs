//! durio's mirror in a guest under proof: a separate server process, started by this program's
//! commands. Only the proof's end or the power ends it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{BenchError, BenchErrorKind};
use crate::guest_layers::run;

/// The server's control socket, and the file with its output.
const SOCKET: &str = "/tmp/proof-raid";
const SAID: &str = "/tmp/proof-raid.said";
/// How often the output is read.
const LOOK: Duration = Duration::from_millis(20);
/// The server's line with its address starts with this.
const READY: &str = "ready: ";

/// Writes a new array to empty disks.
pub(crate) fn create(level: u8, disks: &[PathBuf]) -> Result<(), BenchError> {
    let level = level.to_string();
    let words = ["raid", "create", "proof", "--level", &level, "--assume-clean"].map(String::from);
    let named = disks.iter().map(|it| it.display().to_string());
    let permits = named.clone().flat_map(|it| ["--destroy".to_owned(), it]);
    run(&durio()?, &words.into_iter().chain(permits).chain(named).collect::<Vec<_>>())
}

/// Serves the array of these disks, and says where, when it does.
pub(crate) fn start(disks: &[PathBuf], within: Duration) -> Result<PathBuf, BenchError> {
    let said = Path::new(SAID);
    let file = || File::create(said).map_err(|error| BenchError::io("make", said, error));
    let mut command = Command::new(durio()?);
    command.args(["raid", "start", "--front", "ublk", "--socket", SOCKET]).args(disks);
    let both = file()?;
    let errors = both.try_clone().map_err(|error| BenchError::io("share", said, error))?;
    let mut server =
        command.stdin(Stdio::null()).stdout(both).stderr(errors).spawn().map_err(|error| {
            BenchError::cannot_measure(format!("cannot start durio raid: {error}"))
        })?;
    let begin = Instant::now();
    loop {
        // Whether it has ended is asked first, so that all of its output is there.
        let has_ended = server.try_wait().ok().flatten().is_some();
        let text = fs::read_to_string(said).unwrap_or_default();
        let whole = text.lines().filter(|it| text.contains(&format!("{it}\n")));
        if let Some(device) = whole.filter_map(|it| it.strip_prefix(READY)).next() {
            return Ok(PathBuf::from(device));
        }
        let why = || format!("durio raid start: {}", text.trim());
        if has_ended {
            return Err(BenchError::cannot_measure(why()));
        }
        if begin.elapsed() > within {
            return Err(BenchError::new(BenchErrorKind::TimeLimit, why()));
        }
        thread::sleep(LOOK);
    }
}

/// Ends it in order.
pub(crate) fn stop() -> Result<(), BenchError> {
    run(&durio()?, &["raid", "stop", "--socket", SOCKET].map(String::from))
}

fn durio() -> Result<String, BenchError> {
    let program = std::env::current_exe();
    let program = program
        .map_err(|error| BenchError::io("find durio's own program,", Path::new("durio"), error))?;
    Ok(program.display().to_string())
}
