//! Logical volumes.

use durio_units::Bytes;

use super::Draft;
use crate::LvmLayout;
use crate::command::Check;
use crate::place::volume_uuid;
use crate::undo::Undo;

/// The one volume of a group.
const VOLUME: &str = "data";

impl Draft<'_> {
    pub(super) fn lvm(
        &mut self,
        layout: LvmLayout,
        chunk: Option<Bytes>,
        group: usize,
        below: &[String],
    ) -> String {
        self.load("dm_mod", &[]);
        if matches!(layout, LvmLayout::Raid1 | LvmLayout::Raid10) {
            self.load("dm_raid", &[]);
        }
        // No hyphens: the device mapper doubles them.
        let name = format!("{}v{}g{group}", self.place.tag(), self.layer);
        let config = config_for(below);
        let lvm = |command: &str, words: &[&str]| -> Vec<String> {
            let words = words.iter().map(|word| (*word).to_owned());
            let head = [command, "--config", &config, "--yes", "--quiet"].map(str::to_owned);
            head.into_iter().chain(words).collect()
        };
        let devices: Vec<&str> = below.iter().map(String::as_str).collect();
        let first = u32::try_from(group * below.len()).unwrap_or(u32::MAX);
        for (n, device) in (first..).zip(&devices) {
            // By its identifier the volume is known again; LVM asks for a backup with one.
            let uuid = volume_uuid(&self.place.tag(), self.layer, n);
            self.run("lvm", &lvm("pvcreate", &["--uuid", &uuid, "--norestorefile", device]), None);
        }
        let words: Vec<&str> = [name.as_str()].into_iter().chain(devices.clone()).collect();
        let undo = Undo::RemoveVolumeGroup { name: name.clone(), config: config.clone() };
        self.run("lvm", &lvm("vgcreate", &words), Some(undo));
        let mut words = lvm("lvcreate", &["--name", VOLUME, "--extents", "100%FREE"]);
        words.extend(layout_words(layout, chunk, below.len()));
        words.extend(["--wipesignatures".to_owned(), "n".to_owned(), name.clone()]);
        self.run("lvm", &words, None);
        let device = format!("/dev/mapper/{name}-{VOLUME}");
        self.check(Check::Present { device: device.clone(), size: None });
        device
    }
}

/// LVM must neither scan nor change anything but the devices of this layer, keep no copies in
/// /etc, start no daemon, and make device nodes itself where no udev runs.
fn config_for(below: &[String]) -> String {
    let accept = |device: &String| format!("\"a|^{}$|\"", in_pattern(device));
    let accepted = below.iter().map(accept).collect::<Vec<_>>();
    let accepted = accepted.join(",");
    format!(
        "devices {{ filter=[{accepted},\"r|.*|\"] global_filter=[{accepted},\"r|.*|\"] \
         use_devicesfile=0 obtain_device_list_from_udev=0 }} \
         backup {{ backup=0 archive=0 }} \
         activation {{ udev_sync=0 udev_rules=0 verify_udev_operations=1 monitoring=0 }}"
    )
}

/// A dot or a plus sign in the name of a device must match itself alone: another device must not.
fn in_pattern(device: &str) -> String {
    let literal = |c: char| match c {
        '.' | '+' => format!("[{c}]"),
        c => c.to_string(),
    };
    device.chars().map(literal).collect()
}

fn layout_words(layout: LvmLayout, chunk: Option<Bytes>, devices: usize) -> Vec<String> {
    let mut words: Vec<String> = match layout {
        LvmLayout::Linear => words(&["--type", "linear"]),
        LvmLayout::Striped => words(&["--type", "striped", "--stripes", &devices.to_string()]),
        LvmLayout::Raid1 => {
            let mirrors = devices.saturating_sub(1).to_string();
            words(&["--type", "raid1", "--nosync", "--mirrors", &mirrors])
        }
        LvmLayout::Raid10 => {
            let stripes = (devices / 2).to_string();
            words(&["--type", "raid10", "--nosync", "--mirrors", "1", "--stripes", &stripes])
        }
    };
    if let Some(chunk) = chunk {
        words.extend(["--stripesize".to_owned(), format!("{}k", chunk.get() / 1024)]);
    }
    words
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
