//! What a device says of itself when it is asked, which may differ from what the kernel takes it
//! for.
//!
//! In: the path of a device node. Out: [`NvmeWord`], [`ScsiWord`], [`DmTable`], the file below a
//! loop device. Not here: files of
//! the kernel (`durio-observe`), and any judgement.
//!
//! Everything is asked through a descriptor that is open for reading only, by commands that change
//! nothing: NVMe Identify and Get Features, SCSI MODE SENSE, the table of a device-mapper volume, a loop device's state.
//! The kernel decides who may ask; a refusal is an error with its reason.

mod device_mapper;
mod loop_backing;
mod nvme;
mod scsi;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

pub use device_mapper::{DmSegment, DmTable, dm_table, parse_dm_table};
pub use loop_backing::loop_backing;
pub use nvme::{NvmeWord, nvme_word};
pub use scsi::{ScsiWord, scsi_word};

use crate::BlockError;

/// Opens a device node for reading; `is_block` says which of the two kinds it must be.
fn open_node(operation: &'static str, path: &Path, is_block: bool) -> Result<File, BlockError> {
    let at = |source| BlockError::at(operation, path, source);
    // Without O_NONBLOCK a drive for removable media may wait for one.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(at)?;
    let kind = file.metadata().map_err(at)?.file_type();
    match is_block && kind.is_block_device() || !is_block && kind.is_char_device() {
        true => Ok(file),
        false => Err(BlockError::at(operation, path, Errno::NOTTY)),
    }
}

/// The text of a field that is padded with blanks or zeros; none if nothing is left.
fn padded_text(field: Option<&[u8]>) -> Option<String> {
    let text = String::from_utf8_lossy(field?);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_is_no_device_is_not_asked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = nvme_word(file.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error:?}");
        assert!(scsi_word(file.path()).is_err());
        assert_eq!(nvme_word(Path::new("/dev/none")).unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(scsi_word(Path::new("/dev/null")).unwrap_err().kind, ErrorKind::Unsupported);
    }

    #[test]
    fn a_padded_field_is_its_text() {
        assert_eq!(padded_text(Some(b"QEMU NVMe Ctrl   \0")).as_deref(), Some("QEMU NVMe Ctrl"));
        assert_eq!(padded_text(Some(b"   ")), None);
        assert_eq!(padded_text(None), None);
    }
}
