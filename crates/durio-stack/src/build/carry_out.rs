//! Carries out what undoes a step.
//!
//! In: an [`Undo`], the values of its placeholders, what is known of the thing that was made. Out:
//! nothing, or why it could not be undone. Not here: in which order, and the journal.
//!
//! A thing is told to be ours by something that nobody else's has: the tag in its name, the file
//! behind it, the identifier of the array, the kernel's running number of the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_units::Bytes;

use super::command::in_shell;
use super::journal::absent_or;
use super::names::{Values, filled, is_open};
use super::plan::NULL_CONFIG;
use super::system::System;
use super::undo::Undo;

/// What is known of a step that is undone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) values: &'a Values,
    /// The kernel's running number of the disk that was made, if the step was done.
    pub(super) identity: Option<&'a str>,
    /// The step's end is in the journal.
    pub(super) done: bool,
    /// The machine has not been started anew since; disks in memory are gone otherwise.
    pub(super) same_boot: bool,
}

/// Why something could not be undone.
type Failure = String;

/// Carries out undos on a machine.
#[derive(Debug)]
pub(super) struct Undoer<'a> {
    pub(super) system: &'a mut dyn System,
    /// Where the output of programs goes.
    pub(super) output: PathBuf,
}

/// A device may be opened for a moment by those who look what is on it; so long is tried again.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

impl Undoer<'_> {
    pub(super) fn carry_out(&mut self, undo: &Undo, known: Known<'_>) -> Result<(), Failure> {
        match undo {
            Undo::RemoveFile { path } => in_words(self.system.remove_file(Path::new(path))),
            Undo::RemoveDirectory { path } => {
                in_words(self.system.remove_directory(Path::new(path)))
            }
            Undo::DetachLoop { file } => self.detach_loops(file),
            Undo::RemoveZram { number } => self.remove_zram(&filled(number, known.values), known),
            Undo::UnloadBrd { count, size_kib } => self.unload_brd(*count, *size_kib, known),
            Undo::RemoveNull { name } => self.remove_null(name),
            Undo::StopArray { uuid, link, bitmap } => {
                self.stop_array(uuid, link, bitmap.as_deref())
            }
            Undo::RemoveVolumeGroup { name, config } => {
                self.remove_group(name, &filled(config, known.values))
            }
            Undo::RemoveMapped { name } => self.remove_mapped(name),
            Undo::DestroyPool { name } => self.destroy_pool(name),
            Undo::Unmount { mount_point } => self.unmount(mount_point),
            Undo::Wipe { device, tag } => self.wipe(device, tag),
        }
    }

    /// Runs a program until the thing is gone, for a while.
    fn run_until(
        &mut self,
        program: &str,
        words: &[&str],
        is_gone: impl Fn(&dyn System) -> bool,
    ) -> Result<(), Failure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            if is_gone(self.system) {
                return Ok(());
            }
            failure = self.run(program, words).err().unwrap_or_else(|| "it is still there".into());
            if is_gone(self.system) {
                return Ok(());
            }
            self.system.pause(PAUSE);
        }
        Err(format!("`{}`: {failure}", in_shell(program, words)))
    }

    /// Its standard output, or what went wrong.
    fn run(&mut self, program: &str, words: &[&str]) -> Result<String, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let ended = self.system.run(program, &words, &self.output);
        let ended = ended.map_err(|error| error.to_string())?;
        match ended.failure {
            None => Ok(ended.stdout),
            Some(how) => Err(format!("{how}: {}", ended.stderr.trim())),
        }
    }

    fn detach_loops(&mut self, file: &str) -> Result<(), Failure> {
        for device in loops_of(self.system, file) {
            let node = format!("/dev/{device}");
            let gone = |system: &dyn System| !loops_of(system, file).contains(&device);
            self.run_until("losetup", &["--detach", &node], gone)?;
        }
        Ok(())
    }

    fn remove_zram(&mut self, number: &str, known: Known<'_>) -> Result<(), Failure> {
        // Without a number its driver was not asked, or did not answer.
        if !known.same_boot || is_open(number) || number.parse::<u32>().is_err() {
            return Ok(());
        }
        let disk = format!("/sys/block/zram{number}");
        let has = |name: &str| -> Option<String> {
            self.system.read(Path::new(&format!("{disk}/{name}")))
        };
        let ours = match known.identity {
            Some(identity) => has("diskseq").as_deref() == Some(identity),
            // Only a disk that nobody has given a size can be the one that was just made.
            None => has("disksize").as_deref() == Some("0"),
        };
        if !ours {
            return Ok(());
        }
        self.write_until_gone("/sys/class/zram-control/hot_remove", number, &disk)
    }

    fn write_until_gone(&mut self, file: &str, text: &str, thing: &str) -> Result<(), Failure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            let written = self.system.write(Path::new(file), text);
            if !self.system.is_there(Path::new(thing)) {
                return Ok(());
            }
            failure = written.err().map_or_else(|| "it is still there".into(), |e| e.to_string());
            self.system.pause(PAUSE);
        }
        Err(format!("write {text} to {file}: {failure}"))
    }

    fn unload_brd(&mut self, count: u32, size_kib: u64, known: Known<'_>) -> Result<(), Failure> {
        let parameter =
            |name: &str| self.system.read(Path::new(&format!("/sys/module/brd/parameters/{name}")));
        let as_asked = parameter("rd_nr") == Some(count.to_string())
            && parameter("rd_size") == Some(size_kib.to_string());
        let first = self.system.read(Path::new("/sys/block/ram0/diskseq"));
        let ours = as_asked
            && known.same_boot
            && match known.identity {
                Some(identity) => first.as_deref() == Some(identity),
                None => !known.done && self.are_blank(count),
            };
        if !ours {
            return Ok(());
        }
        self.run_until("rmmod", &["brd"], |system| !system.is_there(Path::new("/sys/module/brd")))
    }

    /// Nothing is on the RAM disks: they can be those that had just been made.
    fn are_blank(&self, count: u32) -> bool {
        (0..count).all(|n| {
            let usage = self.system.usage(Path::new(&format!("/dev/ram{n}")));
            usage.is_ok_and(|usage| !usage.is_in_use() && usage.signatures.is_empty())
        })
    }

    fn remove_null(&mut self, name: &str) -> Result<(), Failure> {
        let directory = PathBuf::from(format!("{NULL_CONFIG}/{name}"));
        if !self.system.is_there(&directory) {
            return Ok(());
        }
        let power = directory.join("power");
        in_words(self.system.write(&power, "0"))?;
        in_words(self.system.remove_directory(&directory))
    }

    fn stop_array(&mut self, uuid: &str, link: &str, bitmap: Option<&str>) -> Result<(), Failure> {
        for device in self.arrays() {
            let node = format!("/dev/{device}");
            // One that was stopped meanwhile has no details.
            let detail = self.run("mdadm", &["--detail", "--export", &node]).unwrap_or_default();
            let ours = detail.lines().any(|line| line.strip_prefix("MD_UUID=") == Some(uuid));
            if ours {
                let array = format!("/sys/block/{device}/md");
                let gone = move |system: &dyn System| has_no_array(system, &array);
                self.run_until("mdadm", &["--stop", "--quiet", &node], gone)?;
            }
        }
        self.remove_link(link)?;
        bitmap.map_or(Ok(()), |file| self.remove_bitmap(file))
    }

    fn arrays(&self) -> Vec<String> {
        let disks = self.system.names(Path::new("/sys/block"));
        disks.into_iter().filter(|name| name.starts_with("md")).collect()
    }

    /// Without udev nobody takes the link away.
    fn remove_link(&mut self, link: &str) -> Result<(), Failure> {
        let link = Path::new(link);
        let node = self.system.resolve(link);
        let disk = node.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let array = disk.map(|disk| format!("/sys/block/{disk}/md"));
        let leads_nowhere = array.is_none_or(|array| has_no_array(self.system, &array));
        if self.system.is_there(link) && leads_nowhere {
            return in_words(self.system.remove_file(link));
        }
        Ok(())
    }

    /// md's bitmaps begin with these letters (drivers/md/md-bitmap.h, `BITMAP_MAGIC`).
    fn remove_bitmap(&mut self, file: &str) -> Result<(), Failure> {
        let head = self.system.head(Path::new(file), Bytes::new(4)).unwrap_or_default();
        if head != b"bitm" {
            return Ok(());
        }
        in_words(self.system.remove_file(Path::new(file)))
    }

    fn remove_group(&mut self, name: &str, config: &str) -> Result<(), Failure> {
        let words = ["vgs", "--config", config, "--noheadings", "--options", "vg_name"];
        let groups = self.run("lvm", &words)?;
        if !groups.lines().any(|line| line.trim() == name) {
            return Ok(());
        }
        let words = ["vgremove", "--config", config, "--yes", "--force", "--quiet", name];
        self.run("lvm", &words).map(|_| ()).map_err(|how| format!("`lvm vgremove {name}`: {how}"))
    }

    fn remove_mapped(&mut self, name: &str) -> Result<(), Failure> {
        let gone = |system: &dyn System| !is_mapped(system, name);
        self.run_until("dmsetup", &["remove", "--verifyudev", name], gone)
    }

    fn destroy_pool(&mut self, name: &str) -> Result<(), Failure> {
        if !self.system.is_there(Path::new("/proc/spl/kstat/zfs").join(name).as_path()) {
            return Ok(());
        }
        self.run("zpool", &["destroy", "-f", name]).map(|_| ())
    }

    fn unmount(&mut self, mount_point: &str) -> Result<(), Failure> {
        let gone = |system: &dyn System| system.mounted_at(Path::new(mount_point)).is_empty();
        self.run_until("umount", &[mount_point], gone)
    }

    /// Wipes a device of the user's if what is on it carries our tag.
    fn wipe(&mut self, device: &str, tag: &str) -> Result<(), Failure> {
        let Ok(usage) = self.system.usage(Path::new(device)) else { return Ok(()) };
        if usage.signatures.is_empty() && !usage.is_in_use() {
            return Ok(());
        }
        if usage.is_in_use() {
            return Err(format!("{device} is in use"));
        }
        let head = self.system.head(Path::new(device), TAG_WITHIN);
        let head = head.map_err(|error| format!("{device}: {error}"))?;
        if !head.windows(tag.len().max(1)).any(|window| window == tag.as_bytes()) {
            return Ok(());
        }
        self.run("wipefs", &["--all", "--quiet", device]).map(|_| ())
    }
}

/// Labels, names of arrays and LVM's metadata lie within the first MiB; two to be sure.
const TAG_WITHIN: Bytes = Bytes::from_mib(2);

/// The loop devices that stand on the file, by the kernel's names.
fn loops_of(system: &dyn System, file: &str) -> Vec<String> {
    let file = as_the_kernel_says(system, file);
    let disks = system.names(Path::new("/sys/block")).into_iter();
    let stands_on = |name: &String| {
        let path = format!("/sys/block/{name}/loop/backing_file");
        system.read(Path::new(&path)).is_some_and(|behind| {
            // The kernel says so if the file has lost its name.
            behind.strip_suffix(" (deleted)").unwrap_or(&behind) == file.as_str()
        })
    };
    disks.filter(|name| name.starts_with("loop")).filter(stands_on).collect()
}

/// Without links, also if the file itself is gone.
fn as_the_kernel_says(system: &dyn System, file: &str) -> String {
    let path = Path::new(file);
    let in_parent = || Some(system.resolve(path.parent()?)?.join(path.file_name()?));
    let resolved = system.resolve(path).or_else(in_parent);
    resolved.map_or_else(|| file.to_owned(), |path| path.display().to_string())
}

fn is_mapped(system: &dyn System, name: &str) -> bool {
    let disks = system.names(Path::new("/sys/block"));
    disks.iter().any(|disk| {
        let path = format!("/sys/block/{disk}/dm/name");
        system.read(Path::new(&path)).as_deref() == Some(name)
    })
}

/// A stopped array may keep its name for a while, without a level.
fn has_no_array(system: &dyn System, array: &str) -> bool {
    let state = system.read(Path::new(&format!("{array}/array_state")));
    state.is_none_or(|state| state == "clear")
}

fn in_words(result: io::Result<()>) -> Result<(), Failure> {
    absent_or(result).map_err(|error| error.to_string())
}

/// Where the kernel's running number of the disk stands that the step makes.
pub(super) fn identity_path(undo: &Undo, values: &Values) -> Option<PathBuf> {
    match undo {
        Undo::RemoveZram { number } => {
            Some(format!("/sys/block/zram{}/diskseq", filled(number, values)).into())
        }
        Undo::UnloadBrd { .. } => Some("/sys/block/ram0/diskseq".into()),
        _ => None,
    }
}

impl Undo {
    /// With the placeholders filled in that are known.
    pub(super) fn filled(&self, values: &Values) -> Self {
        match self {
            Self::RemoveVolumeGroup { name, config } => {
                Self::RemoveVolumeGroup { name: name.clone(), config: filled(config, values) }
            }
            Self::RemoveZram { number } => Self::RemoveZram { number: filled(number, values) },
            other => other.clone(),
        }
    }
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RemoveFile { path } => write!(f, "remove file {path}"),
            Self::RemoveDirectory { path } => write!(f, "remove directory {path}"),
            Self::DetachLoop { file } => write!(f, "losetup --detach the loop device of {file}"),
            Self::RemoveZram { number } => {
                write!(f, "write {number} to /sys/class/zram-control/hot_remove")
            }
            Self::UnloadBrd { .. } => f.write_str("rmmod brd"),
            Self::RemoveNull { name } => write!(
                f,
                "write 0 to {NULL_CONFIG}/{name}/power, remove directory {NULL_CONFIG}/{name}"
            ),
            Self::StopArray { link, bitmap: None, .. } => write!(f, "mdadm --stop {link}"),
            Self::StopArray { link, bitmap: Some(file), .. } => {
                write!(f, "mdadm --stop {link}, remove file {file}")
            }
            Self::RemoveVolumeGroup { name, .. } => write!(f, "lvm vgremove --force {name}"),
            Self::RemoveMapped { name } => write!(f, "dmsetup remove {name}"),
            Self::DestroyPool { name } => write!(f, "zpool destroy -f {name}"),
            Self::Unmount { mount_point } => write!(f, "umount {mount_point}"),
            Self::Wipe { device, .. } => write!(f, "wipefs --all {device}"),
        }
    }
}
