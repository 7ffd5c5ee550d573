//! The disks of a guest, by the serial numbers that their host gave them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use durio_observe::device_serial;

use super::port::{link, shown};
use crate::disk::LINKS;

/// Waits for each disk, and makes a link to it: the kernel's order of two disks varies.
pub(super) fn link_all(serials: &[String]) -> io::Result<()> {
    for serial in serials {
        let device = shown(&format!("disk '{serial}'"), || device_of(serial))?;
        link(&device, &Path::new(LINKS).join(serial))?;
    }
    Ok(())
}

fn device_of(serial: &str) -> Option<PathBuf> {
    let disks = fs::read_dir("/sys/block").ok()?;
    let is_it = |folder: &PathBuf| device_serial(folder).as_deref() == Some(serial);
    let folder = disks.filter_map(|it| Some(it.ok()?.path())).find(is_it)?;
    let device = Path::new("/dev").join(folder.file_name()?);
    device.exists().then_some(device)
}
