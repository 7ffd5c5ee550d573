//! What a test makes on the machine, and what must not change meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use durio_layers::BuildPlace;
use durio_layers::DeclaredStack;

/// The tests look at the whole machine, so one is on at a time.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// True if this machine can do it; if not, the test is skipped with its reason.
pub(crate) fn ready(test: &str, programs: &[&str], source: &str) -> bool {
    let filesystem = programs.first().and_then(|program| program.strip_prefix("mkfs."));
    let lacks = if !is_root() {
        Some("not root".to_owned())
    } else if let Some(program) = programs.iter().find(|program| !is_installed(program)) {
        Some(format!("no {program}"))
    } else if source == "loop" && !Path::new("/dev/loop-control").exists() {
        Some("no loop devices".to_owned())
    } else if source == "zram" && !Path::new("/sys/class/zram-control").exists() {
        Some("no zram".to_owned())
    } else {
        let lists = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let has = |name: &str| lists.split_ascii_whitespace().any(|word| word == name);
        filesystem.filter(|name| !has(name)).map(|name| format!("the kernel has no {name}"))
    };
    if let Some(reason) = &lacks {
        skip(test, reason);
    }
    lacks.is_none()
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn skip(test: &str, reason: &str) {
    let mut line = format!("{test}: {reason}\n");
    if let Some(path) = std::env::var_os("DURIO_TEST_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    line.insert_str(0, "SKIPPED ");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

pub(crate) fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop device of the test's own, detached in the end.
pub(crate) struct LoopDevice {
    pub(crate) node: String,
}

impl LoopDevice {
    pub(crate) fn with_ext4(file: &Path) -> Self {
        fs::File::create(file).unwrap().set_len(16 << 20).unwrap();
        let text = file.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-F", text]);
        Self::over(file)
    }

    pub(crate) fn blank(file: &Path, bytes: u64) -> Self {
        fs::File::create(file).unwrap().set_len(bytes).unwrap();
        Self::over(file)
    }

    fn over(file: &Path) -> Self {
        Self { node: run("losetup", &["--find", "--show", file.to_str().unwrap()]) }
    }

    pub(crate) fn mounted(&self, place: &Path) -> Mounted {
        fs::create_dir_all(place).unwrap();
        run("mount", &[&self.node, place.to_str().unwrap()]);
        Mounted(place.to_owned())
    }

    fn backing_file(&self) -> Option<String> {
        let name = self.node.strip_prefix("/dev/")?;
        fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.node]).status());
    }
}

/// A mount of the test's own, unmounted in the end.
pub(crate) struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.0).status());
    }
}

/// A loop device and a mount that somebody else has made.
pub(crate) struct Users {
    there: Option<(Mounted, LoopDevice, PathBuf)>,
    _folder: tempfile::TempDir,
}

impl Users {
    pub(crate) fn new() -> Self {
        let folder = in_memory();
        let can = is_root() && Path::new("/dev/loop-control").exists() && is_installed("mkfs.ext4");
        let there = can.then(|| {
            let device = LoopDevice::with_ext4(&folder.path().join("image"));
            let place = folder.path().join("mnt");
            let mounted = device.mounted(&place);
            fs::write(place.join("letter"), "dear reader").unwrap();
            (mounted, device, place.join("letter"))
        });
        Self { there, _folder: folder }
    }

    pub(crate) fn assert_untouched(&self) {
        if let Some((_, device, letter)) = &self.there {
            assert_eq!(fs::read_to_string(letter).unwrap(), "dear reader");
            assert!(device.backing_file().unwrap().contains("image"));
        }
    }
}

/// Builds are many here, and each syncs files, devices and journals.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Folders of one build.
pub(crate) struct Ours {
    pub(crate) journals: PathBuf,
    pub(crate) files: PathBuf,
    folder: tempfile::TempDir,
}

impl Ours {
    pub(crate) fn new() -> Self {
        Self::in_folder(in_memory())
    }

    pub(crate) fn on_disk() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    fn in_folder(folder: tempfile::TempDir) -> Self {
        let (journals, files) = (folder.path().join("journals"), folder.path().join("files"));
        fs::create_dir_all(&journals).unwrap();
        fs::create_dir_all(&files).unwrap();
        Self { journals, files, folder }
    }

    /// A path of the test's own, which the build does not know.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn place(&self) -> BuildPlace {
        BuildPlace::new(&self.files)
    }

    /// The example as a process of its own, which builds and then waits.
    pub(crate) fn start(&self, stack: &DeclaredStack, first_in_path: Option<&Path>) -> Child {
        self.start_on(stack, first_in_path, &[])
    }

    /// As [`Ours::start`], with devices that may be overwritten.
    pub(crate) fn start_on(
        &self,
        stack: &DeclaredStack,
        first_in_path: Option<&Path>,
        destroy: &[&str],
    ) -> Child {
        let spec = self.files.with_extension("json");
        fs::write(&spec, serde_json::to_string(stack).unwrap()).unwrap();
        let mut command = Command::new(example());
        command.arg("build").args([&self.journals, &self.files, &spec]);
        command.args(destroy.iter().flat_map(|device| ["--destroy", device]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = first_in_path {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", folder.display()));
        }
        command.spawn().unwrap()
    }

    /// The loop devices that stand on our files.
    pub(crate) fn loops(&self) -> Vec<String> {
        let files = self.files.to_str().unwrap();
        let disks = fs::read_dir("/sys/block").unwrap().flatten();
        let behind =
            disks.filter_map(|disk| fs::read_to_string(disk.path().join("loop/backing_file")).ok());
        behind.filter(|file| file.starts_with(files)).collect()
    }

    /// Nothing is left of builds with these ids, in our folders, of loop devices and of mounts.
    pub(crate) fn assert_gone(&self, ids: &[String]) {
        assert_eq!(self.loops(), Vec::<String>::new());
        let left = |folder: &Path| fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).last();
        assert_eq!(left(&self.journals), None);
        assert_eq!(left(&self.files), None);
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        for id in ids {
            assert!(!mounts.contains(id), "{mounts}");
            assert!(!Path::new(&format!("/run/durio/durio{id}")).exists());
        }
    }
}

/// Cargo builds examples with the tests, beside them.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/build_stack")
}

/// From the start of a builder until all is built.
pub(crate) fn time_of_build(stack: &DeclaredStack) -> Duration {
    let ours = Ours::new();
    let since = Instant::now();
    let mut builder = ours.start(stack, None);
    wait_until_built(&mut builder);
    let taken = since.elapsed();
    drop(builder.stdin.take());
    assert!(builder.wait().unwrap().success());
    ours.assert_gone(&[]);
    taken
}

pub(crate) fn wait_until_built(builder: &mut Child) {
    let stdout = builder.stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "built"), "the build ended early");
    // Whoever writes to a pipe that nobody reads dies; nothing is to die here.
    std::thread::spawn(move || lines.count());
}

/// The compressed disks that have no size: what a builder leaves that dies right after making one.
pub(crate) fn unsized_zram() -> BTreeSet<String> {
    let disks = fs::read_dir("/sys/block").unwrap().flatten();
    let unsized_disk = |path: &Path| {
        fs::read_to_string(path.join("disksize")).is_ok_and(|size| size.trim() == "0")
    };
    let paths = disks.map(|disk| disk.path()).filter(|path| unsized_disk(path));
    paths.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

/// Others on the machine may make some for a moment; ours would stay.
pub(crate) fn assert_no_new_zram(before: &BTreeSet<String>) {
    let until = Instant::now() + Duration::from_secs(3);
    while unsized_zram().difference(before).next().is_some() {
        assert!(Instant::now() < until, "{:?}", unsized_zram());
        std::thread::sleep(Duration::from_millis(50));
    }
    let ours = ZRAM_BYTES.to_string();
    let disks = fs::read_dir("/sys/block").unwrap().flatten();
    let sizes = disks.filter_map(|disk| fs::read_to_string(disk.path().join("disksize")).ok());
    assert!(sizes.filter(|size| size.trim() == ours).count() == 0, "a disk of ours is left");
}

/// A size that nobody else gives to a compressed disk.
pub(crate) const ZRAM_BYTES: u64 = (128 << 20) + 12_288;

/// The generator of Steele, Lea and Flood (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// From 0 up to 1.05: also a little after all is built.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let draw = u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or_default();
        f64::from(draw) / f64::from(u32::MAX) * 1.05
    }
}
