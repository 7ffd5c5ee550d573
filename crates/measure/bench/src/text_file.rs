//! Reads a text that a user wrote: a spec, a profile.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use durio_base::did_you_mean;
use durio_block::open_input;
use durio_command::CommandError;
use durio_spec::ShippedSpec;

// A byte more than such a text may have: what reads it says that it is too long.
const LENGTH_READ: u64 = (1 << 20) + 1;

/// The path as a possible name of a built-in text: it does not exist, or it is a folder, which is
/// never meant as a file.
pub fn name_if_no_file(path: &Path) -> Option<&str> {
    path.to_str().filter(|_| !path.exists() || path.is_dir())
}

/// The name and the text of a spec: of a file, or of the built-in one of this name.
pub(crate) fn read_spec<'p>(
    path: &'p Path,
    what: &str,
    shipped: &[ShippedSpec],
) -> Result<(Cow<'p, str>, Cow<'static, str>), CommandError> {
    if let Some(name) = name_if_no_file(path) {
        match shipped.iter().find(|spec| spec.name == name) {
            Some(spec) => return Ok((spec.name.into(), spec.text.into())),
            // Reading it says that it is a folder.
            None if path.is_dir() => {}
            None => {
                let names: Vec<&str> = shipped.iter().map(|spec| spec.name).collect();
                let text = format!("'{name}' is neither a file nor a built-in {what}");
                return Err(CommandError::wrong_use(text).hint(did_you_mean(
                    name,
                    &names,
                    &format!("built-in {what}s:"),
                )));
            }
        }
    }
    Ok((path.display().to_string().into(), read_text(path, "spec")?.into()))
}

/// The text of a file that should be a `what`, to its end or one byte beyond the limit.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub fn read_text(path: &Path, what: &str) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(LENGTH_READ).read_to_end(&mut bytes))
        .map_err(|error| CommandError::io("read", path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = format!("'{}' is no {what}: byte {at} is no text (UTF-8)", path.display());
        CommandError::wrong_use(text)
    })
}
