//! `cargo xtask lab kernel`: a kernel for `durio lab`, and for the tests that boot one.
//!
//! In: Debian's package lists, as apt has them. Out: an unpacked kernel package in the folder where
//! durio looks for kernels. Not here: installing anything; no right is needed.

use std::fs;

use anyhow::{Context, Result, bail};

use super::{debian, kernels_folder};

pub(super) const DEFAULT_PACKAGE: &str = "linux-image-amd64";

/// Fetches the distribution's own kernel unless there is one; without it the tests that boot one are
/// skipped, and say so.
pub(crate) fn provide_kernel() {
    let has_one = kernels_folder().and_then(|folder| {
        Ok(fs::read_dir(folder)?.flatten().any(|it| it.path().join("boot").is_dir()))
    });
    if !has_one.unwrap_or(false)
        && let Err(error) = fetch(DEFAULT_PACKAGE)
    {
        println!("no kernel for the lab: {error:#}");
    }
}

/// Fetches the image of a kernel package and unpacks it, unless it is there.
pub(super) fn fetch(package: &str) -> Result<()> {
    let package = image_package(package)?;
    let folder = kernels_folder()?.join(package.trim_start_matches("linux-image-"));
    if folder.join("boot").is_dir() {
        println!("{} is there already", folder.display());
        return Ok(());
    }
    fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
    // Beside the destination: a rename stays within one filesystem.
    let scratch = tempfile::tempdir_in(folder.parent().unwrap_or(&folder))?;
    let unpacked = scratch.path().join("unpacked");
    debian::unpack(&[package], scratch.path(), &unpacked)?;
    // Only a whole tree gets the name under which it is found.
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
    println!("{}", folder.display());
    Ok(())
}

/// The package with the image: the one itself, or the first image that it depends on.
fn image_package(package: &str) -> Result<String> {
    let Some(depends) = debian::depends(package)? else {
        bail!("apt knows no package {package}; apt-get update may help");
    };
    Ok(image_among(&depends).unwrap_or(package).to_owned())
}

fn image_among(depends: &[String]) -> Option<&str> {
    depends.iter().map(String::as_str).find(|name| name.starts_with("linux-image-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_found_among_what_a_package_depends_on() {
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let names = owned(&["kmod", "linux-image-6.1.0-56-amd64"]);
        assert_eq!(image_among(&names), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(image_among(&owned(&["kmod"])), None);
    }
}
