//! The kernels that can be booted on this machine, and their drivers.
//!
//! Searches folders and returns [`Kernel`]s, newest first.
//!
//! A kernel is looked for in `/` (`boot/vmlinuz-*` with `lib/modules/RELEASE`), in the folders of the
//! user's cache (`durio/kernels`), and in those that `DURIO_KERNELS` names, between colons. Each of
//! the latter is either such a tree or holds several. A tree has the image as `boot/vmlinuz-*`,
//! `vmlinuz-*`, `vmlinuz` or `vmlinuz` among the modules, which are in `lib/modules/RELEASE`,
//! `usr/lib/modules/RELEASE`, `modules/RELEASE` or `modules`; unpacked packages of Debian are one, also
//! where image and modules come apart (since 6.19).

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::{env, fs};

use durio_command::CommandError;

use crate::error::failed;
use crate::kernel_image::release_of_image;
use crate::modules::ModuleTree;

pub use crate::modules::DriverState;

/// A kernel and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As printed by `uname -r`.
    pub release: String,
    pub image: PathBuf,
    /// The folder with the modules.
    pub modules: PathBuf,
}

/// The drivers that stacks are built of, by the names of their modules.
pub const STACK_DRIVERS: [&str; 16] = [
    "brd", "null_blk", "loop", "zram", "nbd", "ublk_drv", "md_mod", "raid0", "raid1", "raid10",
    "raid456", "dm_mod", "ext4", "xfs", "btrfs", "zfs",
];

impl Kernel {
    /// The kernel of an image; its modules are searched for next to it if no folder is given.
    ///
    /// `modules` may be the folder `lib/modules/RELEASE`, or a folder that leads there.
    ///
    /// # Errors
    /// If the image is not a kernel, or has no modules.
    pub fn from_paths(image: &Path, modules: Option<&Path>) -> Result<Self, CommandError> {
        let release = release_of_image(image)?;
        let found = match modules {
            Some(folder) => modules_in(folder, &release).or_else(|| modules_itself(folder)),
            None => modules_beside(image, &release),
        };
        let modules = found.ok_or_else(|| {
            let folder = modules.or_else(|| image.parent()).unwrap_or(Path::new("/"));
            failed(format!("no modules of kernel {release} in '{}'", folder.display())).hint(
                format!(
                    "name the folder lib/modules/{release} of this kernel's package by --modules"
                ),
            )
        })?;
        Ok(Self { release, image: image.to_owned(), modules })
    }

    /// Where each of [`STACK_DRIVERS`] is.
    ///
    /// # Errors
    /// If the modules cannot be listed.
    pub fn drivers(&self) -> Result<Vec<(&'static str, DriverState)>, CommandError> {
        let tree = ModuleTree::open(&self.modules)?;
        Ok(STACK_DRIVERS.into_iter().map(|name| (name, tree.state(name))).collect())
    }
}

/// The kernels of this machine that have their modules, newest first.
#[must_use]
pub fn usable() -> Vec<Kernel> {
    let mut kernels = kernels_in(Path::new("/"));
    for folder in folders_of_trees() {
        kernels.extend(kernels_in(&folder));
        kernels.extend(entries(&folder).iter().flat_map(|tree| kernels_in(tree)));
    }
    kernels.sort_by(|a, b| newer_first(&a.release, &b.release).then_with(|| a.image.cmp(&b.image)));
    // A folder may be in DURIO_KERNELS and also be the cache, and the image may be in /boot and
    // next to its modules.
    kernels.dedup_by(|a, b| a.modules == b.modules && a.release == b.release);
    kernels
}

/// The error where none is [`usable`].
#[must_use]
pub fn none_found() -> CommandError {
    let places = [PathBuf::from("/boot")].into_iter().chain(folders_of_trees());
    let places: Vec<_> = places.map(|path| format!("'{}'", path.display())).collect();
    failed(format!("no kernel with its modules was found in {}", places.join(", "))).hint(
        "name one with --kernel and --modules, or unpack a kernel package below \
         ~/.cache/durio/kernels: apt-get download linux-image-VERSION-amd64 (since Linux \
         6.19 linux-binary-VERSION-amd64 and linux-modules-VERSION-amd64), then for each \
         dpkg-deb -x PACKAGE ~/.cache/durio/kernels/VERSION; in durio's checkout cargo xtask \
         lab kernel does both",
    )
}

/// The user's folder for kernels: `$XDG_CACHE_HOME/durio/kernels`, or below `~/.cache`.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("durio/kernels"))
}

fn folders_of_trees() -> Vec<PathBuf> {
    let named = env::var_os("DURIO_KERNELS").unwrap_or_default();
    let named = env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
    named.chain(cache_folder()).collect()
}

fn kernels_in(tree: &Path) -> Vec<Kernel> {
    // Where packages split image and modules, the image is in the folder of the release's modules.
    let of_releases = ["lib/modules", "usr/lib/modules"].map(|folder| tree.join(folder));
    let of_releases = of_releases.iter().flat_map(|folder| entries(folder)).collect::<Vec<_>>();
    let folders = [tree.join("boot"), tree.to_owned()].into_iter().chain(of_releases);
    let named = folders.flat_map(|folder| entries(&folder));
    let is_image = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A link leads to one of the others.
        (name == "vmlinuz" || name.starts_with("vmlinuz-")) && !path.is_symlink()
    };
    let of_image = |image: PathBuf| {
        let release = release_of_image(&image).ok()?;
        // Without its modules a distribution's kernel lacks even the driver of the port.
        let modules = modules_in(tree, &release)?;
        Some(Kernel { release, image, modules })
    };
    let mut kernels: Vec<_> = named.filter(is_image).filter_map(of_image).collect();
    // If lib is a link to usr/lib, both are the same folder.
    kernels.dedup_by(|a, b| a.release == b.release && a.modules == b.modules);
    kernels
}

/// The tree of an image: the folder with `boot` and the folders of modules.
pub(crate) fn tree_of_image(image: &Path) -> Option<&Path> {
    let folder = image.parent()?;
    if folder.ends_with("boot") {
        return folder.parent();
    }
    let modules = folder.parent().filter(|folder| folder.ends_with("lib/modules"));
    let tree = modules.and_then(|folder| folder.ancestors().nth(2));
    match tree {
        Some(tree) if tree.ends_with("usr") => tree.parent(),
        Some(tree) => Some(tree),
        None => Some(folder),
    }
}

fn modules_in(tree: &Path, release: &str) -> Option<PathBuf> {
    let below = ["lib/modules", "usr/lib/modules", "modules", ""];
    let of_release = below.iter().map(|folder| tree.join(folder).join(release));
    of_release.chain([tree.join("modules")]).find_map(|folder| modules_itself(&folder))
}

/// The folder, if it holds modules.
fn modules_itself(folder: &Path) -> Option<PathBuf> {
    let has = |name: &str| folder.join(name).exists();
    (has("kernel") || has("modules.builtin")).then(|| folder.to_owned())
}

fn modules_beside(image: &Path, release: &str) -> Option<PathBuf> {
    let image = image.canonicalize().ok()?;
    let trees = image.ancestors().skip(1).take(2);
    trees.chain([Path::new("/")]).find_map(|tree| modules_in(tree, release))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// Orders releases by their numbers, then as text.
fn newer_first(a: &str, b: &str) -> Ordering {
    numbers(b).cmp(&numbers(a)).then_with(|| b.cmp(a))
}

fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    // By number 6.12.9 is older than 6.12.10; as text it is newer.
    parts.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}

/// The kernel of an image, or of a release that `durio lab kernels` shows; the newest without either.
///
/// # Errors
/// If no such kernel exists.
pub fn kernel_named(wanted: Option<&Path>, modules: Option<&Path>) -> Result<Kernel, CommandError> {
    let Some(wanted) = wanted else {
        return usable().into_iter().next().ok_or_else(none_found);
    };
    // Releases are those in the list of kernels; paths are for the user's images.
    let of_release = usable().into_iter().find(|kernel| Path::new(&kernel.release) == wanted);
    match of_release {
        Some(kernel) => Ok(kernel),
        None => Kernel::from_paths(wanted, modules)
            .map_err(|error| error.hint("durio lab kernels lists the releases that can be named")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_image::image_with;

    fn tree_with(image: &str, modules: &str, release: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let image = tree.path().join(image);
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        fs::write(image, image_with(release)).unwrap();
        fs::create_dir_all(tree.path().join(modules).join("kernel")).unwrap();
        tree
    }

    #[test]
    fn an_unpacked_package_and_a_plain_folder_are_found() {
        for (image, modules) in [
            ("boot/vmlinuz-6.1.0-9", "lib/modules/6.1.0-9"),
            ("boot/vmlinuz-6.1.0-9", "usr/lib/modules/6.1.0-9"),
            ("lib/modules/6.1.0-9/vmlinuz", "lib/modules/6.1.0-9"),
            ("usr/lib/modules/6.1.0-9/vmlinuz", "usr/lib/modules/6.1.0-9"),
            ("vmlinuz", "modules"),
            ("vmlinuz", "modules/6.1.0-9"),
        ] {
            let tree = tree_with(image, modules, "6.1.0-9");
            let found = kernels_in(tree.path());
            assert_eq!(found.len(), 1, "{image} {modules}");
            assert_eq!(found[0].modules, tree.path().join(modules));
            let alone = Kernel::from_paths(&tree.path().join(image), None).unwrap();
            assert_eq!(alone.modules, tree.path().canonicalize().unwrap().join(modules));
        }
    }

    #[test]
    fn a_tree_is_known_from_each_place_of_its_image() {
        for image in [
            "/t/boot/vmlinuz-6",
            "/t/vmlinuz",
            "/t/lib/modules/6/vmlinuz",
            "/t/usr/lib/modules/6/vmlinuz",
        ] {
            assert_eq!(tree_of_image(Path::new(image)), Some(Path::new("/t")), "{image}");
        }
    }

    #[test]
    fn a_kernel_without_its_modules_is_not_usable_and_an_error_if_it_is_named() {
        let tree = tree_with("vmlinuz", "lib/modules/5.4.0-1", "6.1.0-9");
        assert_eq!(kernels_in(tree.path()), []);
        let other = tempfile::tempdir().unwrap();
        let error = Kernel::from_paths(&tree.path().join("vmlinuz"), Some(other.path()));
        let error = error.unwrap_err();
        assert!(error.to_string().starts_with("no modules of kernel 6.1.0-9 in '"), "{error}");
    }

    #[test]
    fn the_newest_comes_first_by_number_not_by_letter() {
        let mut releases = ["6.9.1", "6.12.95+deb12-amd64", "6.1.0-56-amd64", "6.1.0-9-amd64"];
        releases.sort_by(|a, b| newer_first(a, b));
        assert_eq!(releases, ["6.12.95+deb12-amd64", "6.9.1", "6.1.0-56-amd64", "6.1.0-9-amd64"]);
    }
}
