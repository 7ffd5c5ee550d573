//! Files that a command writes in addition to its report: new ones, never over existing files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use durio_bench::BenchError;

/// Checks before the work whether the file can be written.
pub(super) fn refuse_existing(path: &Path) -> Result<(), BenchError> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.symlink_metadata().is_ok() {
        let text = format!("'{}' exists, and is not overwritten", path.display());
        return Err(BenchError::wrong_use(text).hint("name a new file"));
    }
    match folder.is_dir() {
        true => Ok(()),
        false => {
            Err(BenchError::wrong_use(format!("there is no directory '{}'", folder.display())))
        }
    }
}

pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    write_new_by(path, |file| file.write_all(bytes))
}

/// The same, written piece by piece. A partial file is removed.
pub(super) fn write_new_by(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), BenchError> {
    let fail = |error| BenchError::io("write", path, error);
    let mut file = BufWriter::new(File::create_new(path).map_err(fail)?);
    write(&mut file).and_then(|()| file.flush()).map_err(|error| {
        let _ = fs::remove_file(path);
        fail(error)
    })
}

/// The path of a profile as a command takes it: one without a slash or `.toml` would be the name of a built-in
/// profile.
pub(super) fn named_as_file(path: &Path) -> String {
    let is_plain = path.extension().is_none_or(|it| it != "toml");
    let shown = path.display().to_string();
    if is_plain && !shown.contains('/') { format!("./{shown}") } else { shown }
}
