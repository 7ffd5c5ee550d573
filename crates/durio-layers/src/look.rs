//! The programs that only look at something.
//!
//! In: what is asked. Out: the program and its words. Not here: what the answer means.

/// A question to a program, which changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look<'a> {
    /// The version of mdadm.
    MdadmVersion,
    /// What an array is.
    Array { node: &'a str },
    /// Name and identifier of the volume groups on the devices of LVM's settings.
    Groups { config: &'a str },
    /// Every loop device with the filesystem and inode of its file.
    Loops,
    /// The identifier of a ZFS pool.
    Pool { name: &'a str },
}

impl Look<'_> {
    pub(super) fn command(self) -> (&'static str, Vec<String>) {
        let (program, words): (_, &[&str]) = match self {
            Self::MdadmVersion => ("mdadm", &["--version"]),
            Self::Array { node } => ("mdadm", &["--detail", "--export", node]),
            Self::Groups { config } => {
                let options = "vg_name,vg_uuid";
                ("lvm", &["vgs", "--config", config, "--noheadings", "--options", options])
            }
            Self::Loops => {
                let columns = "NAME,BACK-MAJ:MIN,BACK-INO";
                ("losetup", &["--list", "--noheadings", "--raw", "--output", columns])
            }
            Self::Pool { name } => ("zpool", &["get", "-H", "-o", "value", "guid", name]),
        };
        (program, words.iter().map(|word| (*word).to_owned()).collect())
    }
}
