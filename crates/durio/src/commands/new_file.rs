//! Files that a command writes beside its report: new ones, never over what exists.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use durio_bench::BenchError;

/// Says before the work whether the file can be written.
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
    let written = File::create_new(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| BenchError::io("write", path, error))
}

/// The path of a profile as a command takes it: one without a slash or `.toml` would be the name of a built-in
/// profile.
pub(super) fn named_as_file(path: &Path) -> String {
    let is_plain = path.extension().is_none_or(|it| it != "toml");
    let shown = path.display().to_string();
    if is_plain && !shown.contains('/') { format!("./{shown}") } else { shown }
}
