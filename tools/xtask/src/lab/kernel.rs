//! `cargo xtask lab kernel`: a kernel for `durio lab`, and for the tests that boot one.
//!
//! Unpacks Debian's packages into the folder where durio looks for kernels. Installs nothing and
//! needs no privileges.
//!
//! Debian's kernels are one package with image and modules, `linux-image-RELEASE`, or, since 6.19,
//! three that this one only names: `linux-binary-RELEASE` with the image, `linux-modules-RELEASE`,
//! and `linux-base-RELEASE` with the list of built-in modules.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::debian::{Apt, kernels_folder};

pub(super) const DEFAULT_PACKAGE: &str = "linux-image-amd64";
/// Prefixes of the names of a kernel's packages, before its release.
const PARTS: [&str; 4] = ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"];

/// Fetches a kernel of this distribution unless one exists; without it the tests that boot one are
/// skipped, with a message.
pub(crate) fn provide_kernel() {
    let has_one = kernels_folder().and_then(|folder| {
        Ok(fs::read_dir(folder)?.flatten().any(|entry| has_kernel(&entry.path())))
    });
    if !has_one.unwrap_or(false)
        && let Err(error) = fetch(DEFAULT_PACKAGE, None)
    {
        println!("no kernel for the lab: {error:#}");
    }
}

/// Fetches a kernel's packages and unpacks them, unless they exist.
pub(super) fn fetch(package: &str, suite: Option<&str>) -> Result<()> {
    let apt = Apt::with(package, suite)?;
    let parts = parts_of(package, &|name| apt.depends(name))?;
    let Some(release) = parts.first().and_then(|name| release_of(name)) else {
        bail!("{package} is not a kernel, and names none");
    };
    let folder = kernels_folder()?.join(release);
    if has_kernel(&folder) {
        println!("{} is there already", folder.display());
        return Ok(());
    }
    fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
    // Next to the destination: a rename stays within one filesystem.
    let scratch = tempfile::tempdir_in(folder.parent().unwrap_or(&folder))?;
    let unpacked = scratch.path().join("unpacked");
    apt.unpack(&parts, scratch.path(), &unpacked)?;
    if !has_kernel(&unpacked) {
        bail!("there is no kernel image in {}", parts.join(", "));
    }
    // Only a complete tree gets its final name.
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
    println!("{}", folder.display());
    Ok(())
}

/// Whether this is an unpacked kernel.
pub(super) fn has_kernel(folder: &Path) -> bool {
    let modules = fs::read_dir(folder.join("usr/lib/modules")).into_iter().flatten().flatten();
    folder.join("boot").is_dir()
        || modules.into_iter().any(|entry| entry.path().join("vmlinuz").is_file())
}

/// The packages of parts of a kernel that a package leads to, itself among them.
fn parts_of(
    package: &str,
    depends: &dyn Fn(&str) -> Result<Option<Vec<String>>>,
) -> Result<Vec<String>> {
    let mut found = vec![package.to_owned()];
    let mut next = 0;
    while let Some(name) = found.get(next).cloned() {
        next += 1;
        let named = depends(&name)?.unwrap_or_default();
        let is_part = |depended: &String| PARTS.iter().any(|part| depended.starts_with(part));
        for name in named.into_iter().filter(is_part) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found.retain(|name| release_of(name).is_some());
    let release = found.iter().find(|name| name.starts_with(PARTS[0])).or(found.first());
    let release = release.and_then(|name| release_of(name)).map(str::to_owned);
    // Packages that name the newest may name parts of different ones.
    found.retain(|name| release_of(name) == release.as_deref());
    Ok(found)
}

/// The kernel's release in the name of a package of its parts; none for one that names the newest.
fn release_of(package: &str) -> Option<&str> {
    let release = PARTS.iter().find_map(|part| package.strip_prefix(part))?;
    release.starts_with(|c: char| c.is_ascii_digit()).then_some(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(package: &str) -> Vec<String> {
        let depends = |name: &str| {
            let names: &[&str] = match name {
                "old" => &["kmod", "linux-image-6.1.0-56-amd64"],
                "linux-image-6.1.0-56-amd64" => &["kmod", "linux-base"],
                "new" => &["linux-base-amd64", "linux-image-7.3-amd64", "linux-modules-amd64"],
                "linux-image-7.3-amd64" => {
                    &["linux-base", "linux-base-7.3-amd64", "linux-binary-7.3-amd64"]
                }
                "linux-modules-amd64" => &["linux-modules-7.3-amd64"],
                "linux-binary-7.3-amd64" => &["linux-modules-7.3-amd64"],
                "linux-base-amd64" => &["linux-base-7.2-amd64"],
                _ => &[],
            };
            Ok(Some(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        parts_of(package, &depends).expect("parts")
    }

    #[test]
    fn a_package_is_followed_to_the_kernel_whole_or_in_parts() {
        assert_eq!(parts("old"), ["linux-image-6.1.0-56-amd64"]);
        assert_eq!(parts("linux-image-6.1.0-56-amd64"), ["linux-image-6.1.0-56-amd64"]);
        for package in ["new", "linux-image-7.3-amd64"] {
            let mut found = parts(package);
            found.sort();
            let split = ["base", "binary", "image", "modules"];
            assert_eq!(found, split.map(|part| format!("linux-{part}-7.3-amd64")), "{package}");
        }
        assert_eq!(parts("kmod"), [""; 0]);
    }

    #[test]
    fn a_kernel_is_in_boot_or_beside_its_modules() {
        for image in ["boot/vmlinuz-6", "usr/lib/modules/7.3/vmlinuz"] {
            let tree = tempfile::tempdir().expect("a folder");
            assert!(!has_kernel(tree.path()));
            let image = tree.path().join(image);
            fs::create_dir_all(image.parent().expect("a parent")).expect("a folder");
            fs::write(image, "").expect("a file");
            assert!(has_kernel(tree.path()));
        }
    }
}
