//! Disks of a guest, and how the guest sees each.
//!
//! Turns the URI of an NBD server and a front end into QEMU's arguments. The server is the caller's
//! and decides what a power cut takes.
//!
//! QEMU caches nothing of such a disk: each write, flush and FUA of the guest is a request to the
//! server. QEMU does not reconnect to a server that goes away, so the guest gets errors.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::LabError;

/// The kind of disk that the guest's kernel sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskFrontEnd {
    /// `/dev/vdX`. It has no FUA: the guest's kernel sends a flush after the write.
    VirtioBlk,
    /// `/dev/nvmeXn1`. QEMU promises FUA and drops it (seen in 7.2) unless the write cache is off.
    Nvme,
    /// `/dev/sdX` behind virtio-scsi. FUA is offered; QEMU makes a write and a flush of it.
    Scsi,
}

impl DiskFrontEnd {
    pub const ALL: [Self; 3] = [Self::VirtioBlk, Self::Nvme, Self::Scsi];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::VirtioBlk => "virtio-blk",
            Self::Nvme => "nvme",
            Self::Scsi => "scsi",
        }
    }

    /// The drivers for it in the guest.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::VirtioBlk => &["virtio_blk"],
            Self::Nvme => &["nvme"],
            Self::Scsi => &["virtio_scsi", "sd_mod"],
        }
    }

    /// The devices of the disk `node`, each an argument for `-device`.
    fn devices(self, node: &str, serial: &str, write_cache: &str) -> Vec<String> {
        let drive = format!("drive={node},serial={serial},write-cache={write_cache}");
        // The guest must see errors; QEMU would stop the guest for some.
        let errors = "rerror=report,werror=report";
        match self {
            Self::VirtioBlk => vec![format!("virtio-blk-pci,{drive},{errors}")],
            Self::Nvme => vec![format!("nvme,{drive}")],
            Self::Scsi => vec![
                format!("virtio-scsi-pci,id={node}-bus"),
                format!("scsi-hd,bus={node}-bus.0,{drive},dpofua=on,{errors}"),
            ],
        }
    }
}

/// A disk that a server keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabDisk {
    /// The Unix socket of an NBD server, which must exist when the guest is started.
    pub socket: PathBuf,
    /// The name of the server's export; empty for its default.
    pub export: String,
    /// The kind of disk that the guest sees.
    pub front_end: DiskFrontEnd,
    /// Whether the guest's disk has a volatile write cache. Without it QEMU sends every write with
    /// FUA.
    pub write_cache: bool,
    /// The serial number that the guest sees: 1 to 20 letters, digits, `.`, `_` or `-`, the limit
    /// of virtio-blk and NVMe.
    pub serial: String,
}

/// PCI devices of a guest are few.
const DISKS_MAX: usize = 8;
const SERIAL_BYTES_MAX: usize = 20;
/// Where the guest has links to its disks.
pub(crate) const LINKS: &str = "/dev/disk/by-id";

impl LabDisk {
    /// The disk's path in the guest, which exists when the command starts.
    #[must_use]
    pub fn path_in_guest(&self) -> PathBuf {
        Path::new(LINKS).join(&self.serial)
    }

    /// QEMU's arguments; `number` distinguishes the disks of a guest.
    fn words(&self, number: usize) -> Result<Vec<OsString>, LabError> {
        let node = format!("disk{number}");
        let mut words = vec!["-blockdev".into(), self.node(&node)?.into()];
        let write_cache = if self.write_cache { "on" } else { "off" };
        for device in self.front_end.devices(&node, &self.serial, write_cache) {
            words.extend(["-device".into(), device.into()]);
        }
        Ok(words)
    }

    /// As JSON, in which a path may contain commas.
    fn node(&self, name: &str) -> Result<String, LabError> {
        let fail = |source| LabError::reading(&self.socket, source);
        let socket = std::path::absolute(&self.socket).map_err(fail)?;
        let socket = socket.to_str().ok_or_else(|| {
            let text = format!("the socket's path '{}' is not UTF-8", self.socket.display());
            LabError::WrongRequest(text)
        })?;
        let node = json!({
            "driver": "nbd",
            "node-name": name,
            "server": { "type": "unix", "path": socket },
            "export": self.export,
            // Requests to a lost server fail at once.
            "reconnect-delay": 0,
            "discard": "unmap",
        });
        Ok(node.to_string())
    }

    fn check(&self) -> Result<(), LabError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_name = |it: &str| it != "." && it != ".." && it.chars().all(allowed);
        if is_name(&self.serial) && (1..=SERIAL_BYTES_MAX).contains(&self.serial.len()) {
            return Ok(());
        }
        Err(LabError::WrongRequest(format!(
            "the serial number '{}' is not of 1 to {SERIAL_BYTES_MAX} letters, digits, '.', '_' or '-'",
            self.serial
        )))
    }
}

/// The words for all disks of a guest.
pub(crate) fn words(disks: &[LabDisk]) -> Result<Vec<OsString>, LabError> {
    let words = disks.iter().enumerate().map(|(number, disk)| disk.words(number));
    Ok(words.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Refuses disks that QEMU or the guest would not accept.
pub(crate) fn check(disks: &[LabDisk]) -> Result<(), LabError> {
    if disks.len() > DISKS_MAX {
        return Err(LabError::WrongRequest(format!("a guest has at most {DISKS_MAX} disks")));
    }
    disks.iter().try_for_each(LabDisk::check)?;
    // The serial names a link in the guest, so it must be unique.
    let serials: BTreeSet<_> = disks.iter().map(|disk| &disk.serial).collect();
    match serials.len() == disks.len() {
        true => Ok(()),
        false => Err(LabError::WrongRequest("two disks have the same serial number".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(front_end: DiskFrontEnd, serial: &str) -> LabDisk {
        LabDisk {
            socket: "/a,b/\"s".into(),
            export: "e".into(),
            front_end,
            write_cache: false,
            serial: serial.into(),
        }
    }

    fn line(front_end: DiskFrontEnd) -> String {
        let words = words(&[disk(front_end, "x"), disk(front_end, "y")]).unwrap();
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn each_front_end_has_its_serial_and_its_write_cache() {
        for front_end in DiskFrontEnd::ALL {
            let line = line(front_end);
            assert!(line.contains("drive=disk1,serial=y,write-cache=off"), "{line}");
        }
        assert!(line(DiskFrontEnd::Scsi).contains("virtio-scsi-pci,id=disk1-bus"));
    }

    #[test]
    fn a_path_may_have_any_characters_and_a_server_that_is_gone_stays_gone() {
        let line = line(DiskFrontEnd::Nvme);
        assert!(line.contains(r#""path":"/a,b/\"s""#), "{line}");
        assert!(line.contains(r#""reconnect-delay":0"#), "{line}");
    }

    #[test]
    fn serials_that_are_wrong_or_the_same_are_refused() {
        let check = |serials: &[&str]| {
            let disks = serials.iter().map(|it| disk(DiskFrontEnd::Nvme, it)).collect::<Vec<_>>();
            check(&disks).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a.b_c-1", "b", "c".repeat(20).as_str()]), Ok(()));
        for wrong in ["", "..", "a/b", "a,b", "ä", "a".repeat(21).as_str()] {
            assert!(check(&[wrong]).unwrap_err().contains("serial number"), "{wrong}");
        }
        assert!(check(&["a", "a"]).unwrap_err().contains("two disks"));
        let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(check(&nine[..8]), Ok(()));
        assert!(check(&nine).unwrap_err().contains("a guest has at most 8 disks"));
    }
}
