//! Reads the release from a kernel's image and unpacks the kernel inside it.
//!
//! Takes a bzImage, as distributions ship it, and returns an ELF file that QEMU starts directly. If
//! the image contains none, the image itself is booted.
//!
//! An image unpacks itself when it is booted, which under emulation takes longer than all else before
//! the first process. Offsets and fields are those of the kernel's documentation, arch/x86/boot; the
//! note that names the entry point is Xen's XEN_ELFNOTE_PHYS32_ENTRY.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use durio_block::open_input;
use durio_command::CommandError;
use flate2::read::MultiGzDecoder;
use object::LittleEndian;
use object::elf::{FileHeader64, NoteType, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::fs::{MemfdFlags, memfd_create};
use xz4rust::XzReader;

use crate::error::{cannot_read, failed};

/// Enough for the header and the text of the version.
const HEAD_BYTES: u64 = 64 * 1024;
const BOOT_FLAG: usize = 0x1fe;
const MAGIC: usize = 0x202;
const VERSION_POINTER: usize = 0x20e;
/// Fields of the header with the length of the image.
const SETUP_SECTORS: usize = 0x1f1;
const CODE_PARAGRAPHS: usize = 0x1f4;
const LOAD_FLAGS_64: usize = 0x236;
/// The kernel has an entry point for 64 bits.
const IS_64_BIT: u16 = 1;
const IMAGE_BYTES_MAX: u64 = 256 << 20;
const PROTOCOL: usize = 0x206;
/// The first version of the header with the place of the packed kernel.
const PROTOCOL_MIN: u32 = 0x208;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// The length of the unpacked kernel, stored after the packed one.
const LENGTH_BYTES: usize = 4;
const XEN_PHYS32_ENTRY: NoteType = NoteType(18);

/// The release of the kernel in this image, such as `6.12.95+deb12-amd64`; an error if it is not a
/// whole 64-bit bzImage.
pub(crate) fn release_of_image(path: &Path) -> Result<String, CommandError> {
    let fail = |source| cannot_read(path, source);
    let not_ours =
        |why: &str| failed(format!("'{}' is not an x86-64 kernel image: {why}", path.display()));
    let file = open_input(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => not_ours("it is not a regular file"),
        _ => fail(error),
    })?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(not_ours("it is not a regular file"));
    }
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(fail)?;
    release_of(&head, metadata.len()).map_err(not_ours)
}

fn release_of(head: &[u8], length: u64) -> Result<String, &'static str> {
    if length == 0 {
        return Err("it is empty");
    }
    if word(head, BOOT_FLAG) != Some(0xaa55) || head.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err("it has no boot header");
    }
    let flags = word(head, LOAD_FLAGS_64).ok_or("it is truncated")?;
    if flags & IS_64_BIT == 0 {
        return Err("it is a 32-bit kernel");
    }
    if length < whole_length(head).ok_or("it is truncated")? {
        return Err("it is truncated");
    }
    let pointer = word(head, VERSION_POINTER).filter(|pointer| *pointer > 0);
    // The pointer counts from the end of the boot sector.
    let text = pointer.and_then(|pointer| head.get(usize::from(pointer) + 0x200..));
    let words = text.and_then(|text| text.split(|byte| matches!(byte, 0 | b' ')).next());
    let release = words.and_then(|word| std::str::from_utf8(word).ok());
    release.filter(|release| is_release(release)).map(str::to_owned).ok_or("it has no release name")
}

/// Bytes of setup code: its sectors and the boot sector.
fn setup_bytes(head: &[u8]) -> Option<u64> {
    let sectors = match *head.get(SETUP_SECTORS)? {
        // Images of the first protocols have zero there, and four sectors.
        0 => 4,
        given => u64::from(given),
    };
    Some((sectors + 1) * 512)
}

/// Bytes of setup code and of the code after it.
fn whole_length(head: &[u8]) -> Option<u64> {
    // The length is given in paragraphs of 16 bytes.
    Some(setup_bytes(head)? + u64::from(number(head, CODE_PARAGRAPHS)?) * 16)
}

fn word(head: &[u8], at: usize) -> Option<u16> {
    head.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
}

/// Whether a text is a release, which is used as the name of a folder.
pub(crate) fn is_release(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+~-".contains(c);
    text.starts_with(|c: char| c.is_ascii_digit()) && text.len() < 65 && text.chars().all(allowed)
}

/// The kernel of an image, in memory that is freed when the file is closed; `None` if its
/// compression is not supported, or if it cannot be started directly.
pub(crate) fn kernel_of_image(path: &Path) -> Option<File> {
    // Do not read a file into memory that cannot be an image.
    let is_small = fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= IMAGE_BYTES_MAX);
    let image = is_small.then(|| fs::read(path).ok()).flatten()?;
    let kernel = kernel_in(&image)?;
    let file = memfd_create("durio-lab-kernel", MemfdFlags::CLOEXEC).ok()?;
    with_contents(file.into(), &kernel)
}

/// `None` if there is no room for all of it.
fn with_contents(mut file: File, kernel: &[u8]) -> Option<File> {
    file.write_all(kernel).ok()?;
    Some(file)
}

fn kernel_in(image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload_of(image)?;
    let (packed, length) = payload.split_at_checked(payload.len().checked_sub(LENGTH_BYTES)?)?;
    // gzip stores the length at its own end, which is the same place.
    let packed = if packed.starts_with(b"\x1f\x8b") { payload } else { packed };
    let kernel = unpacked(packed.to_vec()).ok()?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    // A kernel that was damaged on disk may still unpack.
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

/// Whether one of its notes names the entry point for machines without firmware.
fn starts_directly(kernel: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<LittleEndian>::parse(kernel) else { return false };
    let Ok(segments) = header.program_headers(LittleEndian, kernel) else { return false };
    segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_NOTE).any(|segment| {
        let Ok(Some(mut notes)) = segment.notes(LittleEndian, kernel) else { return false };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"Xen" && note.n_type(LittleEndian) == XEN_PHYS32_ENTRY {
                return true;
            }
        }
        false
    })
}

/// An image with only a header, its fields as in the kernel's boot protocol
/// (Documentation/arch/x86/boot.rst).
#[cfg(test)]
pub(crate) fn image_with(release: &str) -> Vec<u8> {
    let mut image = vec![0; 2048];
    image[0x1f1] = 1;
    image[0x1f4] = 64;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e] = 0x80;
    image[0x236] = 1;
    image[0x280..0x280 + release.len()].copy_from_slice(release.as_bytes());
    image[0x280 + release.len()] = b' ';
    image
}

/// Far more than any module or kernel has; larger contents are damaged or hostile.
const BYTES_MAX: u64 = 256 << 20;

/// The module's bytes as the kernel loads them.
pub(crate) fn read_module(path: &Path) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut packed)?;
    unpacked(packed)
}

/// Unpacks xz, zstd and gzip; returns anything else unchanged.
pub(crate) fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
    if packed.starts_with(b"\xfd7zXZ\0") {
        read_limited(XzReader::new(io::Cursor::new(packed)))
    } else if packed.starts_with(b"\x28\xb5\x2f\xfd") {
        let decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice());
        read_limited(decoder.map_err(io::Error::other)?)
    } else if packed.starts_with(b"\x1f\x8b") {
        read_limited(MultiGzDecoder::new(packed.as_slice()))
    } else {
        Ok(packed)
    }
}

fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more byte distinguishes contents that are too long from those that just fit.
    source.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it unpacks to more than 256 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use flate2::Compression;
    use flate2::read::GzEncoder;

    use durio_block::testkit::note_skip;

    use super::*;

    fn found(image: &[u8]) -> Result<String, &'static str> {
        release_of(image, image.len() as u64)
    }

    #[test]
    fn the_release_is_the_first_word_of_the_version() {
        assert_eq!(found(&image_with("6.12.95+deb12-amd64")).unwrap(), "6.12.95+deb12-amd64");
    }

    #[test]
    fn what_is_no_kernel_is_told_by_what_it_lacks() {
        assert_eq!(found(b""), Err("it is empty"));
        assert_eq!(found(b"\x7fELF"), Err("it has no boot header"));
        assert_eq!(found(&[0xff; 4096]), Err("it has no boot header"));
    }

    #[test]
    fn an_image_of_32_bits_is_told() {
        let mut image = image_with("6.1.0");
        image[LOAD_FLAGS_64] = 0;
        assert_eq!(found(&image), Err("it is a 32-bit kernel"));
    }

    #[test]
    fn a_truncated_image_is_told_at_every_length() {
        let image = image_with("6.1.0");
        for length in 1..image.len() {
            assert!(found(&image[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_release_that_leads_elsewhere_is_none() {
        for release in ["../../etc", "6/..", "", "x", ".."] {
            assert!(!is_release(release), "{release}");
        }
        assert_eq!(found(&image_with("../x")), Err("it has no release name"));
    }

    #[test]
    fn a_folder_or_a_missing_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(release_of_image(folder.path()).unwrap_err().to_string().contains("regular"));
        assert!(release_of_image(&folder.path().join("x")).is_err());
    }

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

    fn image_of(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        // Version 2.8, the first that says where the payload is.
        image[0x206..0x208].copy_from_slice(&[0x08, 0x02]);
        image[0x248] = 16;
        let length = u32::try_from(payload.len()).unwrap();
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
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
        let kernel = program(b"Xen\0", NoteType(18));
        assert_eq!(kernel_in(&image_of(&gzipped(&kernel))), Some(kernel));
    }

    #[test]
    fn a_kernel_that_does_not_fit_into_memory_is_left_in_its_image() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kernel) = (folder.path().join("image"), program(b"Xen\0", XEN_PHYS32_ENTRY));
        fs::write(&path, image_of(&gzipped(&kernel))).unwrap();
        let unpacked = kernel_of_image(&path).unwrap();
        let mut found = vec![0; 200];
        let count = std::os::unix::fs::FileExt::read_at(&unpacked, &mut found, 0).unwrap();
        assert_eq!(found[..count], kernel);
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(with_contents(full, &kernel).is_none());
    }

    #[test]
    fn a_kernel_without_that_entry_is_left_in_its_image() {
        for (owner, kind) in [(b"Xen\0", NoteType(17)), (b"GNU\0", XEN_PHYS32_ENTRY)] {
            assert_eq!(kernel_in(&image_of(&gzipped(&program(owner, kind)))), None);
        }
    }

    #[test]
    fn an_image_that_is_cut_or_wrong_anywhere_has_none() {
        let whole = image_of(&gzipped(&program(b"Xen\0", XEN_PHYS32_ENTRY)));
        for length in 0..whole.len() {
            assert_eq!(kernel_in(&whole[..length]), None, "{length}");
        }
        let mut old = whole.clone();
        old[0x206] = 7;
        assert_eq!(kernel_in(&old), None);
        for at in [0x248, 0x24c] {
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
            return note_skip("the_kernels_of_this_machine", &"no kernel for the lab");
        }
        for kernel in kernels {
            assert!(kernel_of_image(&kernel.image).is_some(), "{}", kernel.image.display());
        }
    }

    fn packed_by(program: &str, content: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new(program);
        command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(content).ok()?;
        Some(child.wait_with_output().ok()?.stdout)
    }

    #[test]
    fn what_the_usual_programs_packed_comes_back() {
        let content: Vec<u8> =
            (0..20_000_u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
        for program in ["gzip", "xz", "zstd"] {
            let Some(packed) = packed_by(program, &content) else {
                note_skip("what_the_usual_programs_packed", &format_args!("{program} is missing"));
                continue;
            };
            assert!(packed.len() < content.len());
            assert_eq!(unpacked(packed.clone()).unwrap(), content, "{program}");
            assert!(unpacked(packed[..packed.len() / 2].to_vec()).is_err(), "{program}, cut off");
        }
    }

    #[test]
    fn what_unpacks_to_more_than_256_mib_is_refused() {
        let of =
            |bytes: u64| read_limited(io::repeat(0).take(bytes)).map(|content| content.len() >> 20);
        assert_eq!(of(268_435_456).unwrap(), 256);
        assert_eq!(of(268_435_457).unwrap_err().to_string(), "it unpacks to more than 256 MiB");
    }

    #[test]
    fn what_is_not_packed_is_taken_as_it_is() {
        assert_eq!(unpacked(b"\x7fELF".to_vec()).unwrap(), b"\x7fELF");
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
    }
}
