//! Puts what a guest brought out into a folder.
//!
//! In: an archive that the guest made. Out: files, folders and links in the folder; nothing outside of
//! it, whatever the archive says. Not here: devices, owners and times.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::cpio::{Header, Kind, Reader, stays_inside};

const LINK_BYTES_MAX: u64 = 4096;

/// Checks that `folder` is empty or not there, before anything is run for it.
pub(crate) fn check_empty(folder: &Path) -> Result<(), LabError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                let text =
                    format!("'{}' is not empty; name another folder by --out", folder.display());
                Err(LabError::WrongRequest(text))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(LabError::reading(folder, error)),
    }
}

/// Unpacks an archive into `folder`, which is made if it is not there.
///
/// Links are made after everything else, so that none is followed.
pub(crate) fn unpack(archive: impl io::Read, folder: &Path) -> Result<(), LabError> {
    let unreadable = |error| LabError::io("read what the guest brought out", error);
    let mut reader = Reader::new(archive);
    fs::create_dir_all(folder)
        .map_err(|error| LabError::io(format!("make '{}'", folder.display()), error))?;
    let mut links = Vec::new();
    while let Some(header) = reader.next_entry().map_err(unreadable)? {
        let path = folder.join(&header.path);
        if !stays_inside(&header.path) {
            let error = io::Error::other(format!("it names '{}'", header.path.display()));
            return Err(unreadable(error));
        }
        let fail = |error| LabError::io(format!("write '{}'", path.display()), error);
        match header.kind {
            Kind::Directory => fs::create_dir_all(&path).map_err(fail)?,
            Kind::File => write_file(&path, &header, &mut reader.content()).map_err(fail)?,
            Kind::Symlink => links.push((target_of(&mut reader, &header)?, path)),
            Kind::Device(..) | Kind::Other(_) => {}
        }
    }
    for (target, path) in links {
        symlink(target, &path)
            .map_err(|error| LabError::io(format!("make the link '{}'", path.display()), error))?;
    }
    Ok(())
}

fn write_file(path: &Path, header: &Header, content: &mut impl io::Read) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mode = header.permissions & 0o777 | 0o600;
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    io::copy(content, &mut file).map(drop)
}

fn target_of(reader: &mut Reader<impl io::Read>, header: &Header) -> Result<PathBuf, LabError> {
    let fail = |error| LabError::io("read what the guest brought out", error);
    if header.size > LINK_BYTES_MAX {
        return Err(fail(io::Error::other("a link that is too long")));
    }
    let mut target = Vec::new();
    io::Read::read_to_end(&mut reader.content(), &mut target).map_err(fail)?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpio::Writer;

    fn archive(entries: &[(&str, Kind, &[u8])]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for (path, kind, content) in entries {
            let header = Header {
                path: path.into(),
                kind: *kind,
                permissions: 0o640,
                size: content.len() as u64,
            };
            writer.append(&header, &mut &content[..]).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn files_folders_and_links_arrive() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("new");
        let bytes = archive(&[
            ("a", Kind::Directory, b""),
            ("a/link", Kind::Symlink, b"../b"),
            ("b", Kind::File, b"content"),
        ]);
        unpack(bytes.as_slice(), &folder).unwrap();
        assert_eq!(fs::read(folder.join("a/link")).unwrap(), b"content");
    }

    #[test]
    fn nothing_is_written_outside_of_the_folder() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("new");
        for entries in [
            [("x", Kind::Directory, b"".as_slice()), ("../evil", Kind::File, b"x".as_slice())],
            [("x", Kind::Directory, b""), ("/tmp/durio-evil", Kind::File, b"x")],
        ] {
            assert!(unpack(archive(&entries).as_slice(), &folder).is_err());
        }
        // A link comes after the file of the same place, and cannot lead it astray.
        let entries =
            [("d", Kind::Symlink, b"..".as_slice()), ("d/evil", Kind::File, b"x".as_slice())];
        assert!(unpack(archive(&entries).as_slice(), &folder).is_err());
        assert!(!out.path().join("evil").exists());
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let out = tempfile::tempdir().unwrap();
        assert!(check_empty(out.path()).is_ok());
        assert!(check_empty(&out.path().join("none")).is_ok());
        fs::write(out.path().join("b"), "mine").unwrap();
        assert!(check_empty(out.path()).is_err());
        let bytes = archive(&[("b", Kind::File, b"theirs")]);
        assert!(unpack(bytes.as_slice(), out.path()).is_err());
        assert_eq!(fs::read(out.path().join("b")).unwrap(), b"mine");
    }
}
