//! Requests to a lab, and the disks of a guest.
//!
//! The URI of an NBD server and a front end become QEMU's arguments. The server is the caller's and
//! decides what a power cut takes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_base::Bytes;
use durio_command::CommandError;
use durio_observe::LabTiming;
use durio_plan::proof::GuestFrontEnd;
use serde_json::json;

use crate::error::{cannot_read, failed};
use crate::kernels::Kernel;

durio_base::worded! {
    /// The guest's root directory.
    pub enum LabRoot {
        /// This machine's, read-only below a layer of memory: every installed program can be used,
        /// changes are visible only in the guest and end with it. `/tmp`, `/run`, `/mnt` and `/var/tmp`
        /// are empty.
        Shared = "shared",
        /// The guest's memory: durio, a shell, the usual programs, those that make filesystems and
        /// arrays, and the requested files. The guest reads nothing of this machine while it runs.
        Hermetic = "hermetic",
    }
}

durio_base::worded! {
    /// How the guest's instructions are carried out.
    pub enum Accelerator {
        /// By KVM if the timing is the host's and a trial shows that it works, else by emulation.
        Auto = "auto",
        /// By KVM; an error if it does not work.
        Kvm = "kvm",
        /// By emulation; KVM is not tried.
        Tcg = "tcg",
    }
}

/// A file or folder of this machine to copy into the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFile {
    /// Where it is here.
    pub source: PathBuf,
    /// Its absolute path in the guest.
    pub guest: PathBuf,
}

/// A guest and its command.
#[derive(Debug, Clone)]
pub struct LabRequest {
    /// The kernel to boot.
    pub kernel: Kernel,
    /// The unit of the guest's clock.
    pub timing: LabTiming,
    /// How its instructions are carried out.
    pub accelerator: Accelerator,
    /// Virtual processors, 1 to 64; 1 if the timing is counted.
    pub cpus: u32,
    /// The guest's memory, including its files in memory.
    pub memory: Bytes,
    /// How long the guest may live, from its start, in this machine's time.
    pub limit: Duration,
    pub root: LabRoot,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Variables for the command, in addition to PATH, HOME, `DURIO_LAB` (the timing's word) and
    /// `DURIO_LAB_OUT` (a folder for files to bring out).
    pub environment: Vec<(OsString, OsString)>,
    /// The program that becomes the guest's first process and its command `durio`: called with
    /// [`crate::GUEST_COMMAND`] as its only argument it must call [`crate::guest_main`].
    pub program: PathBuf,
    /// Further programs for a hermetic guest; each must exist here.
    pub tools: Vec<String>,
    /// Modules that the kernel must have, in addition to those that every guest needs.
    pub modules: Vec<String>,
    /// Files for the guest.
    pub files: Vec<LabFile>,
    /// Files of this boot alone, by their paths in the guest; another boot may have others.
    pub texts: Vec<(PathBuf, Vec<u8>)>,
    /// Disks, each with a link to it at [`LabDisk::path_in_guest`].
    pub disks: Vec<LabDisk>,
    /// The guest has a port to its witness at [`LabRequest::WITNESS_PATH`], which the command also
    /// finds in `DURIO_LAB_WITNESS`. The host has the written bytes when the call returns, as long
    /// as it reads its pipe before that is full (64 KiB).
    pub has_witness: bool,
    /// The folder for files from `DURIO_LAB_OUT`: empty, or not existing yet.
    pub out: Option<PathBuf>,
}

impl LabRequest {
    /// The default memory of a guest.
    pub const MEMORY_DEFAULT: Bytes = Bytes::from_gib(2);
    /// The default limit of a guest: 30 minutes.
    pub const LIMIT_DEFAULT: Duration = Duration::from_secs(1800);
    /// The guest's path of the port to its witness.
    pub const WITNESS_PATH: &'static str = "/dev/virtio-ports/durio.witness";
    /// Virtual processors at most.
    pub const CPUS_MAX: u32 = 64;

    /// A guest of one processor with a separate root, counted timing and the default memory and
    /// limit.
    #[must_use]
    pub fn new(kernel: Kernel, program: PathBuf, command: Vec<OsString>) -> Self {
        Self {
            kernel,
            timing: LabTiming::Counted,
            accelerator: Accelerator::Auto,
            cpus: 1,
            memory: Self::MEMORY_DEFAULT,
            limit: Self::LIMIT_DEFAULT,
            root: LabRoot::Hermetic,
            command,
            environment: Vec::new(),
            program,
            tools: Vec::new(),
            modules: Vec::new(),
            files: Vec::new(),
            texts: Vec::new(),
            disks: Vec::new(),
            has_witness: false,
            out: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), CommandError> {
        let wrong = |text: &str| Err(failed(text));
        if self.command.is_empty() {
            return wrong("no command to run");
        }
        if self.cpus == 0 || self.cpus > Self::CPUS_MAX {
            return wrong(&format!("a guest has 1 to {} processors", Self::CPUS_MAX));
        }
        // QEMU counts instructions in one thread alone.
        if self.timing == LabTiming::Counted && self.cpus != 1 {
            return wrong(
                "counted timing works with one CPU only; leave --cpus out, or use --timing wall",
            );
        }
        if self.timing == LabTiming::Counted && self.accelerator == Accelerator::Kvm {
            return wrong("KVM counts no instructions; --accelerator kvm needs --timing wall");
        }
        let mut places = self.files.iter().map(|file| &file.guest);
        if !places.all(|place| place.is_absolute())
            || !self.texts.iter().all(|text| text.0.is_absolute())
        {
            return wrong("the path of a file in the guest must be absolute");
        }
        // A program's arguments cannot contain zero bytes (execve(2)).
        let has_zero = |text: &OsString| text.as_encoded_bytes().contains(&0);
        if self.command.iter().any(has_zero) {
            return wrong("an argument contains a NUL byte");
        }
        check_disks(&self.disks)
    }
}

/// A disk that a server keeps.
///
/// QEMU caches nothing of such a disk: each write, flush and FUA of the guest is a request to the
/// server. QEMU does not reconnect to a server that goes away, so the guest gets errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabDisk {
    /// The Unix socket of an NBD server, which must exist when the guest is started.
    pub socket: PathBuf,
    /// The name of the server's export; empty for its default.
    pub export: String,
    /// The kind of disk that the guest sees.
    pub front_end: GuestFrontEnd,
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
    fn words(&self, number: usize) -> Result<Vec<OsString>, CommandError> {
        let node = format!("disk{number}");
        let mut words = vec!["-blockdev".into(), self.node(&node)?.into()];
        let write_cache = if self.write_cache { "on" } else { "off" };
        for device in devices_of(self.front_end, &node, &self.serial, write_cache) {
            words.extend(["-device".into(), device.into()]);
        }
        Ok(words)
    }

    /// As JSON, in which a path may contain commas.
    fn node(&self, name: &str) -> Result<String, CommandError> {
        let fail = |source| cannot_read(&self.socket, source);
        let socket = std::path::absolute(&self.socket).map_err(fail)?;
        let socket = socket.to_str().ok_or_else(|| {
            let text = format!("the socket's path '{}' is not UTF-8", self.socket.display());
            failed(text)
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

    fn check(&self) -> Result<(), CommandError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_name = |serial: &str| serial != "." && serial != ".." && serial.chars().all(allowed);
        if is_name(&self.serial) && (1..=SERIAL_BYTES_MAX).contains(&self.serial.len()) {
            return Ok(());
        }
        Err(failed(format!(
            "the serial number '{}' is not of 1 to {SERIAL_BYTES_MAX} letters, digits, '.', '_' or '-'",
            self.serial
        )))
    }
}

/// The drivers of a front end in the guest.
pub(crate) fn modules_of(front_end: GuestFrontEnd) -> &'static [&'static str] {
    match front_end {
        GuestFrontEnd::VirtioBlk => &["virtio_blk"],
        GuestFrontEnd::Nvme => &["nvme"],
        GuestFrontEnd::Scsi => &["virtio_scsi", "sd_mod"],
    }
}

/// The devices of the disk `node`, each an argument for `-device`.
fn devices_of(
    front_end: GuestFrontEnd,
    node: &str,
    serial: &str,
    write_cache: &str,
) -> Vec<String> {
    let drive = format!("drive={node},serial={serial},write-cache={write_cache}");
    // The guest must see errors; QEMU would stop the guest for some.
    let errors = "rerror=report,werror=report";
    match front_end {
        GuestFrontEnd::VirtioBlk => vec![format!("virtio-blk-pci,{drive},{errors}")],
        GuestFrontEnd::Nvme => vec![format!("nvme,{drive}")],
        GuestFrontEnd::Scsi => vec![
            format!("virtio-scsi-pci,id={node}-bus"),
            format!("scsi-hd,bus={node}-bus.0,{drive},dpofua=on,{errors}"),
        ],
    }
}

/// The words for all disks of a guest.
pub(crate) fn disk_words(disks: &[LabDisk]) -> Result<Vec<OsString>, CommandError> {
    let words = disks.iter().enumerate().map(|(number, disk)| disk.words(number));
    Ok(words.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Refuses disks that QEMU or the guest would not accept.
fn check_disks(disks: &[LabDisk]) -> Result<(), CommandError> {
    if disks.len() > DISKS_MAX {
        return Err(failed(format!("a guest has at most {DISKS_MAX} disks")));
    }
    disks.iter().try_for_each(LabDisk::check)?;
    // The serial names a link in the guest, so it must be unique.
    let serials: BTreeSet<_> = disks.iter().map(|disk| &disk.serial).collect();
    match serials.len() == disks.len() {
        true => Ok(()),
        false => Err(failed("two disks have the same serial number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> LabRequest {
        let kernel = Kernel { release: "6".into(), image: "/k".into(), modules: "/m".into() };
        LabRequest::new(kernel, "/durio".into(), vec!["true".into()])
    }

    #[test]
    fn a_guest_of_which_nothing_is_said_has_one_processor_2_gib_and_half_an_hour() {
        let request = request();
        let given = (request.cpus, request.memory.get(), request.limit.as_secs());
        assert_eq!(given, (1, 2_147_483_648, 1800));
    }

    #[test]
    fn a_guest_has_1_to_64_processors() {
        let of = |cpus| {
            let request = LabRequest { cpus, timing: LabTiming::Wall, ..request() };
            request.check().map_err(|error| error.to_string())
        };
        assert_eq!([of(1), of(64)], [Ok(()), Ok(())]);
        for cpus in [0, 65] {
            assert!(of(cpus).unwrap_err().contains("a guest has 1 to 64 processors"), "{cpus}");
        }
    }

    fn disk(front_end: GuestFrontEnd, serial: &str) -> LabDisk {
        LabDisk {
            socket: "/a,b/\"s".into(),
            export: "e".into(),
            front_end,
            write_cache: false,
            serial: serial.into(),
        }
    }

    fn line(front_end: GuestFrontEnd) -> String {
        let words = disk_words(&[disk(front_end, "x"), disk(front_end, "y")]).unwrap();
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn each_front_end_has_its_serial_and_its_write_cache() {
        for front_end in GuestFrontEnd::ALL {
            let line = line(front_end);
            assert!(line.contains("drive=disk1,serial=y,write-cache=off"), "{line}");
        }
        assert!(line(GuestFrontEnd::Scsi).contains("virtio-scsi-pci,id=disk1-bus"));
        // Else the guest's kernel sends a flush instead of FUA.
        assert!(line(GuestFrontEnd::Scsi).contains("dpofua=on"));
        let cached = LabDisk { write_cache: true, ..disk(GuestFrontEnd::Nvme, "z") };
        let words = disk_words(&[cached]).unwrap().join(" ".as_ref()).into_string().unwrap();
        assert!(words.contains("drive=disk0,serial=z,write-cache=on"), "{words}");
    }

    #[test]
    fn a_path_may_have_any_characters_and_a_server_that_is_gone_stays_gone() {
        let line = line(GuestFrontEnd::Nvme);
        assert!(line.contains(r#""path":"/a,b/\"s""#), "{line}");
        assert!(line.contains(r#""reconnect-delay":0"#), "{line}");
    }

    #[test]
    fn serials_that_are_wrong_or_the_same_are_refused() {
        let check = |serials: &[&str]| {
            let disks =
                serials.iter().map(|serial| disk(GuestFrontEnd::Nvme, serial)).collect::<Vec<_>>();
            check_disks(&disks).map_err(|error| error.to_string())
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
