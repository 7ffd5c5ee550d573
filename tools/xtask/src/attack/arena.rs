//! The place of attacks: one folder, and for root, namespaces of mounts and processes that end with
//! it.
//!
//! Runs commands of a built durio that reach nothing but the folder, and removes all remains of an
//! attack.
//!
//! The suite starts itself again inside the namespaces (`unshare`), where /tmp, /run and /dev/shm
//! are empty memory filesystems: leftover processes and mounts are seen at once, and end with the
//! namespaces, even if the suite is killed. Loop devices and swap belong to the whole kernel; the
//! outer process takes down those over files of the folder.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use rustix::process::{Pid, Signal, kill_process};

use super::corpus::Corpus;
use super::launch::Launch;
use super::users;
use super::witness::{
    SystemState, entries, loop_devices, processes, swap_files, tracing_instances,
};
use crate::bench::Interrupt;
use crate::cargo;

/// The time limit of commands that only read.
pub(super) const READING_LIMIT: Duration = Duration::from_secs(5);
/// The folders that are empty inside.
// Empty at the start, so all later contents were left by a command.
const COVERED: [&str; 3] = ["/tmp", "/run", "/dev/shm"];
/// Folders in them that may stay once made: mount's, and the one above durio's mounts.
const SHARED: [&str; 2] = ["/run/mount", "/run/durio"];
const TRACEFS: &str = "/sys/kernel/tracing";
/// The folders of administration tools.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The place of all attacks.
#[derive(Debug)]
pub(super) struct Arena {
    root: PathBuf,
    is_root: bool,
    interrupt: Interrupt,
    corpus: OnceCell<Corpus>,
    mounted: OnceCell<PathBuf>,
}

impl Arena {
    /// Enters the folder that contains `durio`; for root, inside the namespaces.
    pub(super) fn enter(root: &Path) -> Result<Self> {
        // Without namespaces, root's actions would reach the machine.
        let is_root = is_root() && std::process::id() == 1;
        if is_root {
            cover(root, &cargo::workspace_root())?;
            for folder in SHARED {
                fs::create_dir_all(folder).with_context(|| format!("cannot make {folder}"))?;
            }
            if !Path::new(TRACEFS).join("instances").exists() {
                // Without it the rows that trace report that they are not run.
                let _ = sh(&format!("mount -t tracefs attack {TRACEFS}"));
            }
        }
        let interrupt = Interrupt::watch()?;
        Ok(Self {
            root: root.to_owned(),
            is_root,
            interrupt,
            corpus: OnceCell::new(),
            mounted: OnceCell::new(),
        })
    }

    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Good inputs, made when they are first asked for.
    pub(super) fn corpus(&self) -> Result<&Corpus> {
        if let Some(corpus) = self.corpus.get() {
            return Ok(corpus);
        }
        let corpus = Corpus::make(self)?;
        Ok(self.corpus.get_or_init(|| corpus))
    }

    /// A user's filesystem on a loop device, mounted: made at the first call. `None` without root.
    pub(super) fn mounted(&self) -> Result<Option<&Path>> {
        if !self.is_root {
            return Ok(None);
        }
        if self.mounted.get().is_none() {
            let point = users::mounted_filesystem(&self.root.join("users"))?;
            let _ = self.mounted.set(point);
        }
        Ok(self.mounted.get().map(PathBuf::as_path))
    }

    /// True if the kernel's tracing can be switched on here.
    pub(super) fn has_tracing(&self) -> bool {
        self.is_root && Path::new(TRACEFS).join("instances").exists()
    }

    /// The same, after removing everything that the last case may have left in the system.
    pub(super) fn clean_case(&self) -> Result<AttackCase> {
        if self.is_root {
            end_leftovers();
        }
        take_down(&self.root.join("case"));
        self.case()
    }

    /// An empty folder with home, state and temporary files of durio's, in place of the last one.
    pub(super) fn case(&self) -> Result<AttackCase> {
        let root = self.root.join("case");
        remove(&root)?;
        let case = AttackCase { program: self.root.join("durio"), root };
        for name in ["", "home", "state", "temporary", "data"] {
            fs::create_dir(case.root.join(name)).context("cannot make a folder for a case")?;
        }
        Ok(case)
    }

    /// The system state that durio could change.
    pub(super) fn system(&self) -> SystemState {
        SystemState::now(&self.root, self.is_root)
    }
}

/// True for root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Covers the folders. A checkout in one of them, where people clone to try, stays visible.
fn cover(scratch: &Path, checkout: &Path) -> Result<()> {
    let is_covered = is_in_covered(checkout);
    let aside = scratch.join("checkout");
    let (shown, kept) = (quoted(checkout), quoted(&aside));
    if is_covered {
        fs::create_dir(&aside).context("no place for the checkout")?;
        sh(&format!("mount --bind {kept} {kept} && mount --make-private {kept}"))?;
        sh(&format!("mount --bind {shown} {kept}"))?;
    }
    for place in COVERED {
        sh(&format!("mount -t tmpfs attack {place}"))?;
    }
    if is_covered {
        fs::create_dir_all(checkout).context("no place for the checkout")?;
        sh(&format!("mount --move {kept} {shown}"))?;
        sh(&format!("umount {kept}"))?;
    }
    Ok(())
}

fn is_in_covered(path: &Path) -> bool {
    COVERED.iter().any(|place| path.starts_with(place))
}

/// A path as a word of sh.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// The place of one case.
#[derive(Debug)]
pub(super) struct AttackCase {
    root: PathBuf,
    program: PathBuf,
}

impl AttackCase {
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// durio in this place, isolated from any other.
    pub(super) fn durio(&self, line: &str) -> Launch {
        let folder = |name: &str| OsString::from(self.path(name));
        // Nothing in the caller's environment may affect durio here.
        let environment = [
            ("PATH", PATH.into()),
            ("HOME", folder("home")),
            ("XDG_STATE_HOME", folder("state")),
            ("XDG_CACHE_HOME", folder("home")),
            ("TMPDIR", folder("temporary")),
            ("LANG", "C.UTF-8".into()),
            ("RUST_BACKTRACE", "0".into()),
        ];
        let launch = Launch {
            words: vec![self.program.clone().into()],
            environment: environment.map(|(name, value)| (name.into(), value)).to_vec(),
            folder: self.root.clone(),
            limit: READING_LIMIT,
        };
        launch.words(line)
    }
}

/// Ends processes that the last case left in our namespaces, so that the next case is not blamed.
fn end_leftovers() {
    for (number, _) in processes() {
        // This namespace has only our processes.
        if let Some(pid) = Pid::from_raw(number) {
            // A process that has ended by itself is fine.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    for instance in tracing_instances() {
        let _ = fs::remove_dir(instance);
    }
    let all = COVERED.iter().flat_map(|folder| entries(Path::new(folder)));
    let checkout = cargo::workspace_root();
    let is_kept = |it: &PathBuf| {
        SHARED.iter().any(|shared| it == Path::new(shared)) || checkout.starts_with(it)
    };
    for folder in all.filter(|it| !is_kept(it)) {
        let _ = if folder.is_dir() { fs::remove_dir_all(folder) } else { fs::remove_file(folder) };
    }
}

/// Runs an administrator's command, which must succeed.
pub(super) fn sh(line: &str) -> Result<String> {
    let command =
        Command::new("sh").args(["-c", line]).env("PATH", PATH).stdin(Stdio::null()).output();
    let output = command.context("cannot run sh")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Ends swap, mounts and loop devices over files of a folder.
pub(super) fn take_down(folder: &Path) {
    // From the top down: a loop device cannot end before the swap or mount over it.
    for file in swap_files(folder) {
        let _ = sh(&format!("swapoff '{}'", file.display()));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let devices: Vec<_> = loop_devices(folder).collect();
    let is_ours = |words: &[&str]| {
        let device = words.iter().skip_while(|&&it| it != "-").nth(2).map(Path::new);
        words.get(4).is_some_and(|point| Path::new(point).starts_with(folder))
            || device.is_some_and(|it| devices.iter().any(|(device, _)| device == it))
    };
    let lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let points: Vec<_> =
        lines.filter(|words| is_ours(words)).map(|words| words[4].to_owned()).collect();
    // The last mounted first.
    for point in points.iter().rev() {
        // Lazily if a process has a file open: such a mount goes when that ends.
        let _ = sh(&format!("umount '{point}' || umount -l '{point}'"));
    }
    for (device, _) in devices {
        let _ = sh(&format!("losetup -d {}", device.display()));
    }
    // A device is freed when its last reader ends.
    for _ in 0..100 {
        if loop_devices(folder).next().is_none() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Removes a folder whatever its permissions; it may be missing.
pub(super) fn remove(folder: &Path) -> Result<()> {
    for _ in 0..2 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => unlock(folder),
            _ => return Ok(()),
        }
    }
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

fn unlock(folder: &Path) {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        // If this fails, the removal reports it.
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let is_folder = |it: &PathBuf| it.symlink_metadata().is_ok_and(|it| it.is_dir());
        open.extend(entries(&folder).into_iter().filter(is_folder));
    }
}
