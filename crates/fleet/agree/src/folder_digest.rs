//! The SHA-256 of a run folder: a collected copy has that of the host's.

use std::io::{self, Read as _};
use std::path::Path;

use durio_block::Folder;
use durio_record::file_names;

use crate::message::{FILES_MAX, FolderDigest, RunFile, RunSummary};

/// The files of a run folder in the order of their names, and the SHA-256 over them: of each the
/// length of the name, the name, the length of the contents, the contents. Lengths are 8 bytes,
/// little-endian. Findings and report are left out, since `durio report` makes them again, and names
/// with a dot, which were not finished.
///
/// # Errors
/// If the folder has more than 1000 entries or one that is not a regular file, if a file becomes
/// shorter while it is read, or if reading fails.
pub fn run_summary(folder: &Folder, name: String) -> io::Result<RunSummary> {
    let names = folder.names()?;
    if names.len() > FILES_MAX {
        let reason = format!("it has more than {FILES_MAX} files");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut names: Vec<String> =
        names.into_iter().filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| {
        name != file_names::FINDINGS && name != file_names::REPORT && !name.starts_with('.')
    });
    names.sort();
    let mut digest = FolderDigest::default();
    let mut files = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    for name in names {
        let opened = folder.open_file(&name)?;
        let file = RunFile { name, bytes: opened.metadata()?.len() };
        digest.begin_file(&file);
        let mut rest = opened.take(file.bytes);
        loop {
            let count = rest.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
        }
        if rest.limit() > 0 {
            let reason = format!("'{}' became shorter while it was read", file.name);
            return Err(io::Error::other(reason));
        }
        files.push(file);
    }
    Ok(RunSummary { name, partial: false, digest: digest.finish(), files })
}

/// The digest alone, as of [`run_summary`].
///
/// # Errors
/// If a file of the folder cannot be read.
pub fn folder_digest(path: &Path) -> io::Result<String> {
    Ok(run_summary(&Folder::open(path)?, String::new())?.digest)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_digest_is_that_of_names_lengths_and_contents() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // By Python's hashlib over the same bytes.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(folder_digest(directory.path()).unwrap(), empty);
        fs::write(at("run.json"), "{}\n").unwrap();
        fs::write(at("events.jsonl"), "").unwrap();
        let both = "41d9c81f4cc423e0eb713e2ba2a9c1268b0fe609bb7e68cd3497329404c23e1f";
        assert_eq!(folder_digest(directory.path()).unwrap(), both);
        // Derived files come and go.
        fs::write(at("findings.json"), "{}").unwrap();
        fs::write(at("report.html"), "<p>").unwrap();
        assert_eq!(folder_digest(directory.path()).unwrap(), both);
        fs::write(at("run.json"), "{ }").unwrap();
        assert_ne!(folder_digest(directory.path()).unwrap(), both);
        fs::write(at("run.json"), "{}\n").unwrap();
        fs::rename(at("events.jsonl"), at("events.json")).unwrap();
        assert_ne!(folder_digest(directory.path()).unwrap(), both);
    }

    #[test]
    fn a_link_or_a_folder_in_a_run_folder_has_no_digest() {
        let directory = tempfile::tempdir().unwrap();
        symlink("/etc/passwd", directory.path().join("events.jsonl")).unwrap();
        folder_digest(directory.path()).unwrap_err();
        fs::remove_file(directory.path().join("events.jsonl")).unwrap();
        fs::create_dir(directory.path().join("more")).unwrap();
        folder_digest(directory.path()).unwrap_err();
        folder_digest(&directory.path().join("missing")).unwrap_err();
    }

    #[test]
    fn a_folder_of_more_than_1000_files_has_no_digest() {
        let directory = tempfile::tempdir().unwrap();
        (0..1000).for_each(|number| {
            fs::write(directory.path().join(number.to_string()), "").unwrap();
        });
        folder_digest(directory.path()).unwrap();
        fs::write(directory.path().join("one more"), "").unwrap();
        let error = folder_digest(directory.path()).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 1000 files");
    }
}
