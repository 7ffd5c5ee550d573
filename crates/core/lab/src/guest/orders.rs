//! What host and guest agree on: names and places, and the orders, which the host writes into the
//! guest's files and its first process reads.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use durio_observe::LabFacts;
use serde::{Deserialize, Serialize};

/// The argument that makes a program a guest's first process.
pub const GUEST_COMMAND: &str = "lab-init";
/// The name of the port between guest and host.
pub(crate) const PORT_NAME: &str = "durio.lab";
/// The name of the port between guest and witness, which is the last part of its path.
pub(crate) const WITNESS_NAME: &str = "durio.witness";
/// Where durio is in a guest.
pub(crate) const INIT_PATH: &str = "/usr/bin/durio";
/// The folder of the guest's orders.
pub(crate) const ORDERS: &str = "/lab";
/// The layer over a shared root.
pub(crate) const LAYER: &str = "/lab/layer";
/// The tag of the shared root.
pub(crate) const ROOT_TAG: &str = "durio-root";
/// Where a command puts files to bring out.
pub(crate) const OUT_FOLDER: &str = "/run/durio/out";

/// The orders. Host and guest run the same program, so no other program depends on the format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Modules to load first, in this order.
    pub(crate) modules: Vec<PathBuf>,
    /// The serial numbers of the disks that must exist before the command starts.
    pub(crate) disks: Vec<String>,
    /// There is a second port.
    pub(crate) has_witness: bool,
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Variables for it.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The working directory, if it exists. Not a path, which as JSON must be UTF-8.
    pub(crate) directory: OsString,
    /// The facts about the lab.
    pub(crate) facts: LabFacts,
    /// Send the contents of [`OUT_FOLDER`] at the end.
    pub(crate) brings_out: bool,
    /// The root is the host's, below a layer of memory.
    pub(crate) shares_root: bool,
}

impl Orders {
    pub(crate) const FILE: &'static str = "orders";

    pub(crate) fn to_text(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads them from the folder that the host put them into.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(folder.join(Self::FILE))?)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use durio_observe::LabTiming;

    use super::*;

    fn text(bytes: &[u8]) -> OsString {
        OsString::from_vec(bytes.to_vec())
    }

    #[test]
    fn words_may_be_empty_and_have_any_bytes_and_a_value_an_equals_sign() {
        let facts = LabFacts {
            timing: LabTiming::Wall,
            accelerator: "tcg".into(),
            without_kvm: None,
            qemu_version: "7.2".into(),
            cpu_model: "Westmere".into(),
            icount_shift: None,
            root: "hermetic".into(),
        };
        let orders = Orders {
            modules: vec!["/lab/modules/x.ko".into()],
            disks: vec!["a-1".into()],
            has_witness: true,
            command: vec![text(b"a"), text(b""), text(b"\xff b")],
            environment: vec![(text(b"A"), text(b"b=c"))],
            directory: text(b"/home/\xe4"),
            facts,
            brings_out: true,
            shares_root: false,
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(Orders::FILE), orders.to_text().unwrap()).unwrap();
        assert_eq!(Orders::read(folder.path()).unwrap(), orders);
    }

    #[test]
    fn orders_that_are_missing_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Orders::read(folder.path()).is_err());
    }
}
