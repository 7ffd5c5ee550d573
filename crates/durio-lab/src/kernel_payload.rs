//! The kernel inside an image, unpacked here.
//!
//! In: an image as distributions ship it. Out: the kernel as an ELF file that QEMU starts directly, or
//! nothing, if there is none in it: then the image itself is booted. Not here: what an image says of
//! itself.
//!
//! An image unpacks itself when it is booted, which under emulation takes longer than all else before
//! the first process. Offsets and fields are those of the kernel's documentation, arch/x86/boot; the
//! note that names the entry point is Xen's XEN_ELFNOTE_PHYS32_ENTRY.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use object::LittleEndian;
use object::elf::{FileHeader64, NoteType, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::compression::unpacked;
use crate::kernel_image::setup_bytes;

const IMAGE_BYTES_MAX: u64 = 256 << 20;
const PROTOCOL: usize = 0x206;
/// The first version of the header that says where the packed kernel is.
const PROTOCOL_MIN: u32 = 0x208;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// The kernel's length before it was packed, after the packed one.
const LENGTH_BYTES: usize = 4;
const XEN_PHYS32_ENTRY: NoteType = NoteType(18);

/// The kernel of an image in memory that goes when the file is closed; none if it is packed in a way
/// that is not known here, or cannot be started directly.
pub(crate) fn kernel_of_image(path: &Path) -> Option<File> {
    let is_small = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= IMAGE_BYTES_MAX);
    let image = is_small.then(|| fs::read(path).ok()).flatten()?;
    let kernel = kernel_in(&image)?;
    let mut file = File::from(memfd_create("durio-lab-kernel", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&kernel).ok()?;
    Some(file)
}

fn kernel_in(image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload_of(image)?;
    let (packed, length) = payload.split_at_checked(payload.len().checked_sub(LENGTH_BYTES)?)?;
    // What gzip packed has its length at its own end, which is the same place.
    let packed = if packed.starts_with(b"\x1f\x8b") { payload } else { packed };
    let kernel = unpacked(packed.to_vec()).ok()?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    (kernel.len() == length as usize && starts_directly(&kernel)).then_some(kernel)
}

fn payload_of(image: &[u8]) -> Option<&[u8]> {
    if number(image, PROTOCOL)? & 0xffff < PROTOCOL_MIN {
        return None;
    }
    let code = image.get(usize::try_from(setup_bytes(image)?).ok()?..)?;
    let offset = number(image, PAYLOAD_OFFSET)? as usize;
    let length = number(image, PAYLOAD_LENGTH)? as usize;
    code.get(offset..offset.checked_add(length)?)
}

fn number(image: &[u8], at: usize) -> Option<u32> {
    image.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// Whether one of its notes names the place where a machine without firmware enters.
fn starts_directly(kernel: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<LittleEndian>::parse(kernel) else { return false };
    let Ok(segments) = header.program_headers(LittleEndian, kernel) else { return false };
    segments.iter().filter(|it| it.p_type(LittleEndian) == PT_NOTE).any(|segment| {
        let Ok(Some(mut notes)) = segment.notes(LittleEndian, kernel) else { return false };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"Xen" && note.n_type(LittleEndian) == XEN_PHYS32_ENTRY {
                return true;
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::GzEncoder;

    use super::*;

    /// A program of 64 bits with one segment, which holds one note of `owner`.
    fn program(owner: &[u8; 4], kind: NoteType) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[16] = 2;
        bytes[18] = 62;
        bytes[20] = 1;
        bytes[32] = 64;
        bytes[52] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64..68].copy_from_slice(&PT_NOTE.0.to_le_bytes());
        bytes[64 + 8] = 120;
        bytes[64 + 32] = 24;
        bytes[64 + 40] = 24;
        bytes[64 + 48] = 4;
        for word in [4, 8, kind.0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(owner);
        bytes.extend([0; 8]);
        bytes
    }

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[PROTOCOL..PROTOCOL + 2].copy_from_slice(&[0x0f, 0x02]);
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16_u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend([0xcc; 16]);
        image.extend(payload);
        image
    }

    fn gzipped(kernel: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        GzEncoder::new(kernel, Compression::fast()).read_to_end(&mut packed).unwrap();
        packed
    }

    #[test]
    fn a_packed_kernel_that_can_be_started_directly_comes_out() {
        let kernel = program(b"Xen\0", XEN_PHYS32_ENTRY);
        assert_eq!(kernel_in(&image(&gzipped(&kernel))), Some(kernel));
    }

    #[test]
    fn a_kernel_without_that_entry_is_left_in_its_image() {
        for (owner, kind) in [(b"Xen\0", NoteType(17)), (b"GNU\0", XEN_PHYS32_ENTRY)] {
            assert_eq!(kernel_in(&image(&gzipped(&program(owner, kind)))), None);
        }
    }

    #[test]
    fn an_image_that_is_cut_or_wrong_anywhere_has_none() {
        let whole = image(&gzipped(&program(b"Xen\0", XEN_PHYS32_ENTRY)));
        for length in 0..whole.len() {
            assert_eq!(kernel_in(&whole[..length]), None, "{length}");
        }
        let mut old = whole.clone();
        old[PROTOCOL] = 7;
        assert_eq!(kernel_in(&old), None);
        for at in [PAYLOAD_OFFSET, PAYLOAD_LENGTH] {
            let mut wrong = whole.clone();
            wrong[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            assert_eq!(kernel_in(&wrong), None, "{at}");
        }
        let mut other = whole.clone();
        let last = other.len() - 1;
        other[last] ^= 1;
        assert_eq!(kernel_in(&other), None, "another length than it unpacks to");
    }

    #[test]
    fn the_kernels_of_this_machine_can_be_started_directly() {
        let kernels = crate::kernels::usable();
        if kernels.is_empty() {
            return crate::skipped::skip("no kernel for the lab");
        }
        for kernel in kernels {
            assert!(kernel_of_image(&kernel.image).is_some(), "{}", kernel.image.display());
        }
    }
}
