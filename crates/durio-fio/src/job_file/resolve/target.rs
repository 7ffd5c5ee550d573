//! Where the accesses go: files, devices, regions.

use super::super::values;
use super::super::{Fallocate, Given, SizeValue, TargetOptions};
use super::settings::{Settings, complaint};
use crate::FioError;

/// Reads the options of targets.
pub(super) fn target(settings: &Settings<'_>) -> Result<TargetOptions, FioError> {
    let names = |name| settings.read(name, |text, _| values::name_list(text));
    let scaled = |name| settings.read(name, scaled_size);
    Ok(TargetOptions {
        filenames: settings.read_together("filename", values::name_list)?,
        directories: names("directory")?,
        name_format: settings.read("filename_format", |text, _| Ok(text.to_owned()))?,
        files: settings.positive("nrfiles")?,
        open_files: settings.integer("openfiles")?,
        file_service: settings.read("file_service_type", |text, _| values::file_service(text))?,
        file_bytes: settings.read("filesize", file_bytes)?,
        size: scaled("size")?,
        io_size: scaled("io_size")?,
        accesses: settings.size("number_ios")?,
        offset: scaled("offset")?,
        offset_increment: scaled("offset_increment")?,
        offset_align_bytes: settings.size("offset_align")?,
        fallocate: settings.read("fallocate", |text, _| fallocate(text))?,
        overwrite: settings.boolean("overwrite")?,
        append: settings.boolean("file_append")?,
        create_on_open: settings.boolean("create_on_open")?,
        create_only: settings.boolean("create_only")?,
        allow_create: settings.boolean("allow_file_create")?,
        unlink: settings.boolean("unlink")?,
        invalidate: settings.boolean("invalidate")?,
        pre_read: settings.boolean("pre_read")?,
        direct: direct(settings)?,
    })
}

fn scaled_size(text: &str, base: values::KbBase) -> Result<SizeValue, String> {
    values::check_uncut(text)?;
    values::scaled_size(text, base)
}

/// `filesize`: one size, or the least and the most.
fn file_bytes(text: &str, base: values::KbBase) -> Result<(u64, u64), String> {
    let parts = values::pieces(text);
    match parts.as_slice() {
        [one] => values::size(one, base).map(|it| (it, it)),
        [least, most] => {
            let (least, most) = (values::size(least, base)?, values::size(most, base)?);
            if least > most {
                return Err(format!("{text:?}: the smaller size comes first"));
            }
            Ok((least, most))
        }
        _ => Err(format!("{text:?} is neither a size nor a range of sizes")),
    }
}

fn fallocate(text: &str) -> Result<Fallocate, String> {
    match text {
        "none" | "0" => Ok(Fallocate::None),
        "native" => Ok(Fallocate::Native),
        "posix" | "1" => Ok(Fallocate::Posix),
        "keep" => Ok(Fallocate::Keep),
        "truncate" => Ok(Fallocate::Truncate),
        _ => Err(format!("{text:?} is none of: none, native, posix, keep, truncate, 0, 1")),
    }
}

/// `direct` and `buffered` set the same thing: the later one counts.
fn direct(settings: &Settings<'_>) -> Result<Option<Given<bool>>, FioError> {
    let Some(setting) = settings.later("direct", "buffered") else { return Ok(None) };
    let value = setting.value.as_deref().ok_or_else(|| complaint(setting, "it needs a value"))?;
    let value = values::boolean(value).map_err(|what| complaint(setting, &what))?;
    let value = value == (setting.name == "direct");
    Ok(Some(Given { value, at: setting.at.clone() }))
}
