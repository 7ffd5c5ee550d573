//! What a kernel's image says of itself.
//!
//! In: a file. Out: the kernel's release. Not here: modules, other forms than the bzImage that
//! distributions ship.
//!
//! Offsets and fields are those of the kernel's documentation, arch/x86/boot.

use std::io::{self, Read};
use std::path::Path;

use durio_block::open_input;

use crate::LabError;

/// As much as holds the header and the text of the version.
const HEAD_BYTES: u64 = 64 * 1024;
const BOOT_FLAG: usize = 0x1fe;
const MAGIC: usize = 0x202;
const VERSION_POINTER: usize = 0x20e;
/// Fields of the header that say how long the image is.
const SETUP_SECTORS: usize = 0x1f1;
const CODE_PARAGRAPHS: usize = 0x1f4;
const LOAD_FLAGS_64: usize = 0x236;
/// The kernel has an entry point for 64 bits.
const IS_64_BIT: u16 = 1;

/// The release of the kernel in this image, such as `6.12.95+deb12-amd64`.
///
/// # Errors
/// [`LabError::NotAKernel`] for anything but a whole 64-bit bzImage; [`LabError::Io`] if it cannot be
/// read.
pub fn release_of_image(path: &Path) -> Result<String, LabError> {
    let fail = |source| LabError::reading(path, source);
    let not_ours = |why| LabError::NotAKernel { path: path.to_owned(), why };
    let file = open_input(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => not_ours("it is no regular file".to_owned()),
        _ => fail(error),
    })?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(not_ours("it is no regular file".to_owned()));
    }
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(fail)?;
    release_of(&head, metadata.len())
        .map_err(|why| LabError::NotAKernel { path: path.to_owned(), why: why.to_owned() })
}

fn release_of(head: &[u8], length: u64) -> Result<String, &'static str> {
    if length == 0 {
        return Err("it is empty");
    }
    if word(head, BOOT_FLAG) != Some(0xaa55) || head.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err("it has no boot header");
    }
    let flags = word(head, LOAD_FLAGS_64).ok_or("it is cut off")?;
    if flags & IS_64_BIT == 0 {
        return Err("it is of 32 bits");
    }
    if length < whole_length(head).ok_or("it is cut off")? {
        return Err("it is cut off");
    }
    let pointer = word(head, VERSION_POINTER).filter(|pointer| *pointer > 0);
    let text = pointer.and_then(|pointer| head.get(usize::from(pointer) + 0x200..));
    let words = text.and_then(|text| text.split(|byte| matches!(byte, 0 | b' ')).next());
    let release = words.and_then(|word| std::str::from_utf8(word).ok());
    release.filter(|it| is_release(it)).map(str::to_owned).ok_or("it names no release")
}

/// Bytes of setup code: its sectors and the boot sector.
pub(crate) fn setup_bytes(head: &[u8]) -> Option<u64> {
    let sectors = match *head.get(SETUP_SECTORS)? {
        0 => 4,
        given => u64::from(given),
    };
    Some((sectors + 1) * 512)
}

/// Bytes of setup code and of what follows it.
fn whole_length(head: &[u8]) -> Option<u64> {
    let paragraphs = head.get(CODE_PARAGRAPHS..CODE_PARAGRAPHS + 4)?;
    let paragraphs = u32::from_le_bytes(paragraphs.try_into().ok()?);
    Some(setup_bytes(head)? + u64::from(paragraphs) * 16)
}

fn word(head: &[u8], at: usize) -> Option<u16> {
    head.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
}

/// A release is used as the name of a folder.
pub(crate) fn is_release(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+~-".contains(c);
    text.starts_with(|c: char| c.is_ascii_digit()) && text.len() < 65 && text.chars().all(allowed)
}

/// An image with nothing but a header.
#[cfg(test)]
pub(crate) fn image_with(release: &str) -> Vec<u8> {
    let mut image = vec![0; 2048];
    image[SETUP_SECTORS] = 1;
    image[CODE_PARAGRAPHS] = 64;
    image[BOOT_FLAG..BOOT_FLAG + 2].copy_from_slice(&[0x55, 0xaa]);
    image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
    image[VERSION_POINTER..VERSION_POINTER + 2].copy_from_slice(&[0x80, 0]);
    image[LOAD_FLAGS_64] = 1;
    image[0x280..0x280 + release.len()].copy_from_slice(release.as_bytes());
    image[0x280 + release.len()] = b' ';
    image
}

#[cfg(test)]
mod tests {
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
        assert_eq!(found(&image), Err("it is of 32 bits"));
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
        assert_eq!(found(&image_with("../x")), Err("it names no release"));
    }

    #[test]
    fn a_folder_or_a_missing_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(release_of_image(folder.path()).unwrap_err().to_string().contains("regular"));
        assert!(release_of_image(&folder.path().join("x")).is_err());
    }
}
