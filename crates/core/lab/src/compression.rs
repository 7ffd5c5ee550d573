//! Unpacks modules and kernels, choosing the method by their first bytes.
//!
//! Takes a file or bytes and returns the unpacked bytes. Callers choose which parts of an image to
//! unpack.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use xz4rust::XzReader;

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
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::skipped::skip;

    fn packed_by(program: &str, content: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new(program);
        command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(content).ok()?;
        Some(child.wait_with_output().ok()?.stdout)
    }

    #[test]
    fn what_the_usual_programs_packed_comes_back() {
        let content: Vec<u8> = (0..20_000_u32).flat_map(|it| (it / 3).to_le_bytes()).collect();
        for program in ["gzip", "xz", "zstd"] {
            let Some(packed) = packed_by(program, &content) else {
                skip(&format!("{program} is missing"));
                continue;
            };
            assert!(packed.len() < content.len());
            assert_eq!(unpacked(packed.clone()).unwrap(), content, "{program}");
            assert!(unpacked(packed[..packed.len() / 2].to_vec()).is_err(), "{program}, cut off");
        }
    }

    #[test]
    fn what_unpacks_to_more_than_256_mib_is_refused() {
        let of = |bytes: u64| read_limited(io::repeat(0).take(bytes)).map(|it| it.len() >> 20);
        assert_eq!(of(268_435_456).unwrap(), 256);
        assert_eq!(of(268_435_457).unwrap_err().to_string(), "it unpacks to more than 256 MiB");
    }

    #[test]
    fn what_is_not_packed_is_taken_as_it_is() {
        assert_eq!(unpacked(b"\x7fELF".to_vec()).unwrap(), b"\x7fELF");
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
    }
}
