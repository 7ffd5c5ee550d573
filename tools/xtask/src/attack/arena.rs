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
//!
//! In it lie a user's files, next to durio's and with names like them, which `witness` checks, and good
//! inputs: those of the checkout, and records that durio makes when they are first asked for.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use super::launch::Launch;
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
            let point = mounted_filesystem(&self.root.join("users"))?;
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
    let is_kept = |entry: &PathBuf| {
        SHARED.iter().any(|shared| entry == Path::new(shared)) || checkout.starts_with(entry)
    };
    for folder in all.filter(|entry| !is_kept(entry)) {
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
        let device = words.iter().skip_while(|&&word| word != "-").nth(2).map(Path::new);
        words.get(4).is_some_and(|point| Path::new(point).starts_with(folder))
            || device.is_some_and(|source| devices.iter().any(|(device, _)| device == source))
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
        let is_folder =
            |entry: &PathBuf| entry.symlink_metadata().is_ok_and(|facts| facts.is_dir());
        open.extend(entries(&folder).into_iter().filter(is_folder));
    }
}

/// A folder: paths in it, and the files' contents.
pub(super) type FolderFiles = Vec<(PathBuf, Vec<u8>)>;

/// Good inputs, each kind non-empty except for benches, which only root can make.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) specs: Vec<Vec<u8>>,
    pub(super) stack_specs: Vec<Vec<u8>>,
    pub(super) profiles: Vec<Vec<u8>>,
    pub(super) job_files: Vec<Vec<u8>>,
    pub(super) fio_json: Vec<Vec<u8>>,
    pub(super) tables: Vec<Vec<u8>>,
    pub(super) runs: Vec<FolderFiles>,
    pub(super) benches: Vec<FolderFiles>,
}

/// A campaign of a few short steps.
pub(super) const CAMPAIGN: &str = r#"schema = 1
name = "small"
summary = "a campaign for attacks"
self_cost = false
[[target]]
name = "data"
size = "4MiB"
[defaults]
duration = "100ms"
[[step]]
name = "read"
reads = "100%"
[[step]]
name = "commit"
reads = "0%"
sync = "fdatasync"
jobs = [1, 2]
"#;

/// A published table with typical defects.
const TABLE: &str = "\
workload,block size,iops,bandwidth,p50,p99,jobs,depth,sync\n\
commit,8KiB,12000,96 MB/s,80us,200us,1,1,fdatasync\n\
lookup,8KiB,450000,3.6 GB/s,60us,0.2ms,8,4,\n\
scan,256KiB,11000,2.8 GB/s,2ms,9ms,2,16,\n";

impl Corpus {
    pub(super) fn make(arena: &Arena) -> Result<Self> {
        let root = cargo::workspace_root();
        let files = |folder: &str, ending: &str| -> Result<Vec<Vec<u8>>> {
            let found = read(&root.join(folder), ending)?;
            ensure!(!found.is_empty(), "no *.{ending} in {folder}");
            Ok(found)
        };
        // A mutation of a good input gets further into a reader than random bytes.
        let mut specs = files("crates/measure/spec/specs", "toml")?;
        specs.push(CAMPAIGN.into());
        let golden = root.join("crates/core/record/tests/golden");
        let mut corpus = Self {
            specs,
            stack_specs: files("crates/measure/spec/specs/stacks", "toml")?,
            profiles: files("crates/measure/spec/profiles", "toml")?,
            job_files: files("crates/durio/tests/fio", "fio")?,
            fio_json: files("crates/measure/fio/tests/fixtures", "json")?,
            tables: vec![TABLE.into()],
            runs: vec![folder(&golden.join("v1"))?, folder(&golden.join("v2"))?],
            benches: vec![folder(&golden.join("bench1"))?],
        };
        corpus.add_records(arena).context("cannot make records to begin with")?;
        Ok(corpus)
    }

    fn add_records(&mut self, arena: &Arena) -> Result<()> {
        let case = arena.clean_case()?;
        fs::write(case.path("small.toml"), CAMPAIGN)?;
        let commands = [
            "run --engine null --ops 500",
            "run --target data --size 1MiB --rw randrw --ops 300 --depth 4 --engine uring",
            "run small.toml --target data --scale-time 0.5",
            "check data --size 4MiB --duration 100ms",
            "sweep --engine null --goal p99=2ms --from 100 --duration 100ms --trials 3",
        ];
        for (number, command) in commands.iter().enumerate() {
            let out = case.path(&format!("out{number}"));
            let tail = "--quiet --seed 1 --format fio-json --out";
            let launch = case.durio(&format!("{command} {tail}")).word(&out);
            let ended = launch.limit(Duration::from_secs(120)).run()?;
            // A search that did not reach its goal ends with 1.
            ensure!(ended.code() < 2, "{command}: {}", ended.stderr_text());
            self.fio_json.push(ended.stdout);
            let run = the_only(&out)?;
            let table = case.durio("report --format csv").word(&run).run()?;
            self.tables.push(table.stdout);
            self.runs.push(folder(&run)?);
        }
        if arena.is_root() {
            self.benches.push(folder(&bench(&case)?)?);
        }
        Ok(())
    }
}

/// Two layers, measured for a moment each.
pub(super) fn stack_spec(case: &AttackCase, duration: &str) -> String {
    let folder = case.path("data");
    let folder = folder.display();
    format!(
        "schema = 1\nname = \"small\"\nself_cost = false\n[target]\nsize = \"2MiB\"\n\
         [[stack]]\nname = \"first\"\nlayers = [\n\
         {{ loop = {{ size = \"16MiB\", directory = \"{folder}\" }} }},\n{{ ext4 = {{}} }},\n]\n\
         [defaults]\nduration = \"{duration}\"\n[[step]]\nname = \"write\"\nreads = \"0%\"\n"
    )
}

fn bench(case: &AttackCase) -> Result<PathBuf> {
    fs::write(case.path("stack.toml"), stack_spec(case, "100ms"))?;
    let launch = case.durio("stack bench --quiet --seed 1 stack.toml --out bench");
    let ended = launch.limit(Duration::from_secs(120)).run()?;
    ensure!(ended.code() == 0, "stack bench: {}", ended.stderr_text());
    the_only(&case.path("bench"))
}

fn the_only(folder: &Path) -> Result<PathBuf> {
    entries(folder).pop().with_context(|| format!("nothing in {}", folder.display()))
}

/// Files of a folder with an ending, in the order of their names.
fn read(folder: &Path, ending: &str) -> Result<Vec<Vec<u8>>> {
    let mut paths = entries(folder);
    paths.retain(|path| path.extension() == Some(OsStr::new(ending)));
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| path.display().to_string())).collect()
}

/// All files of a folder and its folders, in the order of their names.
fn folder(root: &Path) -> Result<FolderFiles> {
    let (mut files, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(entries(&path));
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.push((name, fs::read(&path).with_context(|| path.display().to_string())?));
        }
    }
    ensure!(!files.is_empty(), "{} is empty", root.display());
    files.sort();
    Ok(files)
}

/// Writes a folder's files.
pub(super) fn write(files: &FolderFiles, root: &Path) -> Result<()> {
    for (name, bytes) in files {
        let path = root.join(name);
        let parent = path.parent().unwrap_or(root);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Bytes of a file that has contents everywhere.
const FULL_BYTES: usize = 64 << 10;
const SPARSE_BYTES: u64 = 8 << 20;

/// Files in a folder where durio works, next to durio's.
pub(super) fn user_files(folder: &Path) -> Result<()> {
    let bytes: Vec<u8> = (0..=250).cycle().take(FULL_BYTES).collect();
    for name in
        ["notes.txt", "user.db", "new.bak", "ne", "new2", "keep", ".durio-mine", "durio-0.tmp"]
    {
        fs::write(folder.join(name), &bytes).with_context(|| format!("cannot write {name}"))?;
    }
    fs::hard_link(folder.join("user.db"), folder.join("user.link"))?;
    symlink("user.db", folder.join("user.symlink"))?;
    let sparse = File::create_new(folder.join("sparse"))?;
    sparse.set_len(SPARSE_BYTES)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"the user's", SPARSE_BYTES / 2)?;
    mknodat(CWD, folder.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    fs::create_dir(folder.join("deep"))?;
    Ok(fs::write(folder.join("deep/new"), "the user's\n")?)
}

/// Makes an ext4 on a loop device and mounts it, with files.
pub(super) fn mounted_filesystem(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let (image, point) = (folder.join("image"), folder.join("mounted"));
    ext4(&image, 16)?;
    fs::create_dir(&point)?;
    sh(&format!("mount -o loop '{}' '{}'", image.display(), point.display()))?;
    user_files(&point)?;
    Ok(point)
}

/// A file with an empty ext4 in it.
pub(super) fn ext4(image: &Path, mib: u64) -> Result<()> {
    File::create_new(image).context("cannot make an image")?.set_len(mib << 20)?;
    // Else the kernel writes inode tables after the mount, and durio would be blamed for it.
    let quickly = "-q -F -E lazy_itable_init=0,lazy_journal_init=0";
    sh(&format!("mkfs.ext4 {quickly} '{}'", image.display())).map(drop)
}
