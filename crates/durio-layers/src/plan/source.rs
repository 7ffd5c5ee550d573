//! Sources of devices: RAM disks, null_blk, files, existing devices.

use std::path::Path;

use durio_units::{Bytes, Nanos};

use super::Draft;
use crate::Made;
use crate::command::{Action, Check};
use crate::undo::Undo;

/// Where null_blk is configured.
pub(crate) const NULL_CONFIG: &str = "/sys/kernel/config/nullb";

/// The file of the kernel that makes a compressed RAM disk when it is read.
pub(crate) const HOT_ADD: &str = "/sys/class/zram-control/hot_add";

/// How long a device of null_blk takes, and for how many requests at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    pub(super) completion: Option<Nanos>,
    pub(super) queue_depth: Option<u32>,
}

impl Draft<'_> {
    /// brd has one size for all and one set of disks: it must not be loaded by anybody else.
    pub(super) fn ram(&mut self, made: Made) -> Vec<String> {
        let size_kib = made.size.get() / 1024;
        self.check(Check::NoRamDisks);
        let words = [format!("rd_nr={}", made.count), format!("rd_size={size_kib}")];
        let words = ["brd", &words[0], &words[1]];
        self.run("modprobe", &words, Some(Undo::UnloadBrd { count: made.count, size_kib }));
        let devices: Vec<String> = (0..made.count).map(|n| format!("/dev/ram{n}")).collect();
        self.wait_for(&devices, made.size);
        devices
    }

    pub(super) fn zram(&mut self, made: Made) -> Vec<String> {
        self.load("zram", &["num_devices=0"]);
        let devices: Vec<String> = (0..made.count).map(|n| self.one_zram(n, made.size)).collect();
        self.wait_for(&devices, made.size);
        devices
    }

    fn one_zram(&mut self, n: u32, size: Bytes) -> String {
        let name = format!("zram{n}");
        let undo = Undo::RemoveZram { number: format!("{{{name}}}") };
        self.ask("cat", &[HOT_ADD], &name, Some(undo));
        self.write(format!("/sys/block/zram{{{name}}}/disksize"), size.get());
        format!("/dev/zram{{{name}}}")
    }

    pub(super) fn null(&mut self, made: Made, timed: Timed) -> Vec<String> {
        self.load("configfs", &[]);
        self.push(Action::MountConfigfs, None);
        self.load("null_blk", &["nr_devices=0"]);
        let mut devices = Vec::new();
        for n in 0..made.count {
            devices.push(self.one_null(n, made.size, timed));
        }
        self.wait_for(&devices, made.size);
        devices
    }

    /// Since Linux 5.19 the device has the name of its directory in configfs.
    fn one_null(&mut self, n: u32, size: Bytes, timed: Timed) -> String {
        let name = format!("{}n{n}", self.place.tag());
        let path = format!("{NULL_CONFIG}/{name}");
        let undo = Undo::RemoveNull { name: name.clone() };
        self.push(Action::MakeDirectory { path: path.clone() }, Some(undo));
        self.write(format!("{path}/memory_backed"), 1);
        self.write(format!("{path}/size"), size.get() >> 20);
        if let Some(completion) = timed.completion {
            // Completion by a timer (Documentation/block/null_blk.rst).
            self.write(format!("{path}/irqmode"), 2);
            self.write(format!("{path}/completion_nsec"), completion.get());
        }
        if let Some(depth) = timed.queue_depth {
            // One queue has all of the device's tags, whichever processor submits.
            self.write(format!("{path}/submit_queues"), 1);
            self.write(format!("{path}/hw_queue_depth"), depth.into());
        }
        self.write(format!("{path}/power"), 1);
        format!("/dev/{name}")
    }

    pub(super) fn loops(&mut self, made: Made, directory: Option<&str>) -> Vec<String> {
        let directory = directory.map_or(self.place.files.as_path(), Path::new);
        let place = directory.join(self.place.tag()).display().to_string();
        self.load("loop", &[]);
        let undo = Undo::RemoveDirectory { path: place.clone() };
        self.push(Action::MakeDirectory { path: place.clone() }, Some(undo));
        let devices: Vec<String> =
            (0..made.count).map(|n| self.one_loop(&place, n, made.size)).collect();
        self.wait_for(&devices, made.size);
        devices
    }

    fn one_loop(&mut self, place: &str, n: u32, size: Bytes) -> String {
        let name = format!("loop{n}");
        let file = format!("{place}/{name}");
        let undo = Undo::RemoveFile { path: file.clone() };
        self.push(Action::MakeFile { path: file.clone(), size }, Some(undo));
        let undo = Undo::DetachLoop { file: file.clone(), device: format!("{{{name}}}") };
        let words = ["--find", "--show", "--direct-io=on", &file];
        self.ask("losetup", &words, &name, Some(undo));
        format!("{{{name}}}")
    }

    /// First all are looked at, then all are wiped: a refusal leaves every device as it is.
    pub(super) fn existing(&mut self, paths: &[String]) -> Vec<String> {
        for device in paths {
            let named = |path: &std::path::PathBuf| path.as_path() == Path::new(device);
            let destroy = self.place.destroy.iter().any(named);
            let (device, force) = (device.clone(), self.place.force);
            self.check(Check::Unused { device, destroy, force });
        }
        for device in paths {
            let undo = Undo::Wipe { device: device.clone(), tag: self.place.tag() };
            self.run("wipefs", &["--all", "--quiet", device], Some(undo));
        }
        paths.to_vec()
    }

    fn wait_for(&mut self, devices: &[String], size: Bytes) {
        for device in devices {
            self.check(Check::Present { device: device.clone(), size: Some(size) });
        }
    }
}
