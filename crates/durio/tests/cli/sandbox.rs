//! A place of its own for each test: a directory to measure in, with a user's files, and a state
//! folder. When the test ends, the user's files are as they were, nothing of durio's is beside them,
//! and no pointer to files left behind remains.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::durio::Durio;
use crate::watch::Watch;

/// Large enough for every workload of `check` that reads.
const USER_FILE_BLOCKS: u32 = 1280;
const BLOCK_BYTES: usize = 4096;
const COMPANIONS_END_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Sandbox {
    // Before the root: it looks at the directory for the last time while that exists.
    watch: Watch,
    root: TempDir,
    may_leave_pointers: bool,
}

impl Sandbox {
    /// On the disk that the build is on, for a memory filesystem is no storage.
    pub(crate) fn new() -> Self {
        Self::in_directory(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// Where every user may go; the build may be in somebody's home.
    pub(crate) fn for_everyone() -> Self {
        Self::in_directory(&std::env::temp_dir())
    }

    /// In memory, where no disk is waited for.
    pub(crate) fn in_memory() -> Self {
        Self::in_directory(Path::new("/dev/shm"))
    }

    fn in_directory(directory: &Path) -> Self {
        let root = TempDir::with_prefix_in("cli-", directory).unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = root.path().join("data");
        for name in ["data", "home"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        fs::write(data.join("notes.txt"), "the user's\n").unwrap();
        // Every block other than the rest.
        let block = |number: u32| number.to_le_bytes().repeat(BLOCK_BYTES / 4);
        let bytes = (0..USER_FILE_BLOCKS).map(block).collect::<Vec<_>>().concat();
        fs::write(data.join("user.db"), bytes).unwrap();
        Self { watch: Watch::new(&data), root, may_leave_pointers: false }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The directory that is measured in and watched.
    pub(crate) fn data(&self) -> PathBuf {
        self.root().join("data")
    }

    /// A user's file of 5 MiB in it.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.data().join("user.db")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// durio with this sandbox's home and state folder, in this sandbox's root.
    pub(crate) fn durio(&self, line: &str) -> Durio {
        Durio::new()
            .env("HOME", self.root().join("home"))
            .env("XDG_STATE_HOME", self.state())
            // Whoever runs the tests may have defaults.
            .env("DURIO_CONFIG", "")
            .directory(self.root())
            .words(line)
    }

    /// As [`Self::durio`], for nobody: `setpriv` gives up every right, the program is a copy that
    /// nobody may run, the state folder is nobody's.
    pub(crate) fn durio_as_nobody(&self, line: &str) -> Durio {
        const NOBODY: u32 = 65_534;
        let program = self.root().join("durio");
        if !program.exists() {
            let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_durio")).arg(&program).status();
            assert!(copied.unwrap().success());
            fs::create_dir_all(self.state()).unwrap();
            std::os::unix::fs::chown(self.state(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let wrapper = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
        self.durio(line).program(&program).within(wrapper)
    }

    /// A program that does what `script` says, in a folder for PATH. A shell writes it: one that this
    /// process has open for writing, or a child of it that another test has just forked, cannot be
    /// started ("text file busy").
    pub(crate) fn program(&self, name: &str, script: &str) -> PathBuf {
        let folder = self.root().join("bin");
        fs::create_dir_all(&folder).unwrap();
        let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
        let written =
            Command::new("sh").args(["-c", write, "sh", script]).arg(folder.join(name)).status();
        assert!(written.unwrap().success());
        folder
    }

    /// The run folders in the state folder, oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        entries(&self.state().join("durio/runs"))
    }

    /// The only run folder.
    #[track_caller]
    pub(crate) fn the_run(&self) -> PathBuf {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// The time for which the only run was to measure, its ramps and its pauses: unlike the time that
    /// it took, the same on a busy machine.
    #[track_caller]
    pub(crate) fn planned_seconds(&self) -> f64 {
        let plan = fs::read(self.the_run().join("plan.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
        let steps = plan["steps"].as_array().unwrap().iter();
        let times = |step: &serde_json::Value| {
            let times = [&step["ramp_ns"], &step["limit"]["duration_ns"], &step["pause_before_ns"]];
            times.iter().filter_map(|it| it.as_f64()).sum::<f64>()
        };
        steps.map(times).sum::<f64>() / 1e9
    }

    /// The time that a command is to measure: it is interrupted as soon as its record says so.
    #[track_caller]
    pub(crate) fn planned_by(&self, command: Durio) -> f64 {
        let mut running = command.start();
        // The manifest is written last.
        while !self.runs().iter().any(|run| run.join("run.json").exists()) {
            assert!(running.is_alive(), "{}", running.stderr());
            thread::sleep(Duration::from_millis(20));
        }
        let seconds = self.planned_seconds();
        running.signal(Signal::INT);
        running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
        seconds
    }

    /// The pointers to journals of runs that live or were killed.
    pub(crate) fn pointers(&self) -> Vec<PathBuf> {
        entries(&self.state().join("durio/leftovers"))
    }

    /// What is other in the measured directory than it was.
    pub(crate) fn differences(&self) -> Vec<String> {
        self.watch.differences()
    }

    /// From now on what is in the measured directory now is right.
    pub(crate) fn accept_changes(&mut self) {
        self.watch.accept();
    }

    /// A run was killed so hard that its pointer stays for the next run.
    pub(crate) fn may_leave_pointers(&mut self) {
        self.may_leave_pointers = true;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let left = left_in(self.root());
        let described: Vec<String> = left.iter().map(|process| describe(process)).collect();
        assert!(left.is_empty(), "still running: {described:?}");
        if !self.may_leave_pointers {
            assert_eq!(self.pointers(), [""; 0].map(PathBuf::from), "pointers to journals");
        }
    }
}

/// What is in a directory, in the order of names; nothing if there is no directory.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Processes that still work in the directory a while later. Companions of a command, such as
/// `strace -D`, end after it.
fn left_in(directory: &Path) -> Vec<PathBuf> {
    let begin = Instant::now();
    loop {
        let processes = processes_in(directory);
        if processes.is_empty() {
            return processes;
        }
        if begin.elapsed() > COMPANIONS_END_WITHIN {
            return processes.into_iter().filter(|process| !end_companion(process)).collect();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a `strace -D` whose command was killed while it attached: such a one may wait forever.
fn end_companion(process: &Path) -> bool {
    let is_strace = fs::read_to_string(process.join("comm")).is_ok_and(|name| name == "strace\n");
    let number = process.file_name().and_then(|name| name.to_str()?.parse().ok());
    let number = number.and_then(Pid::from_raw).filter(|_| is_strace);
    number.is_some_and(|number| kill_process(number, Signal::KILL).is_ok())
}

/// Processes that work in the directory, as all of a sandbox do.
fn processes_in(directory: &Path) -> Vec<PathBuf> {
    let works_there = |process: &PathBuf| {
        fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(directory))
    };
    entries(Path::new("/proc")).into_iter().filter(works_there).collect()
}

/// The path, command line and state of a process.
fn describe(process: &Path) -> String {
    let read = |name| fs::read_to_string(process.join(name)).unwrap_or_default();
    let (command, status) = (read("cmdline").replace('\0', " "), read("status"));
    let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
    format!("{}: {command}, {state}", process.display())
}

/// Copies a directory without folders in it, as a run folder is.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for path in entries(from) {
        let name: &OsStr = path.file_name().unwrap();
        fs::copy(&path, to.join(name)).unwrap();
    }
}
