//! The SHA-256 of a run folder: a collected copy has that of the host's.

use std::io::{self, Read as _};
use std::path::Path;

use durio_block::Folder;
use durio_record::file_names;
use sha2::{Digest as _, Sha256};

use crate::message::{FILES_MAX, RunFile, RunSummary};

/// The digest of a run folder: of its files' names, sizes and bytes, in the order of its list.
#[derive(Debug, Clone, Default)]
pub struct FolderDigest(Sha256);

impl FolderDigest {
    pub fn begin_file(&mut self, file: &RunFile) {
        self.0.update((file.name.len() as u64).to_le_bytes());
        self.0.update(&file.name);
        self.0.update(file.bytes.to_le_bytes());
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> String {
        format!("{:x}", self.0.finalize())
    }
}

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
    fn files_are_in_the_order_of_their_names_whole_and_without_unfinished_ones() {
        let directory = tempfile::tempdir().unwrap();
        // More than is read at a time.
        let long: Vec<u8> = (0..=250).cycle().take(200_000).collect();
        for (name, content) in
            [("b", &long[..]), (".new", &b"x"[..]), ("a", &b"y"[..]), ("Z", &b""[..])]
        {
            fs::write(directory.path().join(name), content).unwrap();
        }
        let folder = Folder::open(directory.path()).unwrap();
        let run = run_summary(&folder, "run-7".to_owned()).unwrap();
        let files: Vec<(&str, u64)> =
            run.files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
        assert_eq!(files, [("Z", 0), ("a", 1), ("b", 200_000)]);
        assert_eq!((run.name.as_str(), run.partial), ("run-7", false));
        let mut expected = FolderDigest::default();
        for (file, content) in run.files.iter().zip([&b""[..], &b"y"[..], &long[..]]) {
            expected.begin_file(file);
            expected.update(content);
        }
        assert_eq!(run.digest, expected.finish());
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
