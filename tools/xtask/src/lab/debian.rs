//! Finds, fetches and unpacks Debian's packages.
//!
//! Takes names and the mirror that apt is set up for; writes files into a folder. Needs no
//! privileges and changes nothing in the system: package lists are fetched into a private folder.
//!
//! A package is searched for in the backports of this release, which have the newer kernels and
//! their companions, then in apt's configured sources.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A source of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PackageSource {
    /// One suite of the mirror, such as `trixie-backports`.
    Suite(String),
    /// All sources in apt's configuration.
    System,
}

/// Private package lists, and apt set up to use them.
#[derive(Debug)]
pub(super) struct Apt {
    /// apt's configuration.
    settings: PathBuf,
}

impl Apt {
    /// The up-to-date lists with this package: of this suite, or else the first that have it.
    pub(super) fn with(package: &str, suite: Option<&str>) -> Result<Self> {
        let sources = match suite {
            Some(suite) => vec![PackageSource::Suite(suite.to_owned())],
            None => vec![
                PackageSource::Suite(format!("{}-backports", codename()?)),
                PackageSource::System,
            ],
        };
        for source in &sources {
            let apt = Self::updated(source)?;
            if apt.depends(package)?.is_some() {
                return Ok(apt);
            }
        }
        let named: Vec<_> = sources.iter().map(PackageSource::name).collect();
        bail!("no package {package} in {}", named.join(" or "))
    }

    fn updated(source: &PackageSource) -> Result<Self> {
        let folder = cache_folder()?.join("apt").join(source.name().replace(' ', "-"));
        for needed in ["lists/partial", "cache/archives/partial", "none"] {
            fs::create_dir_all(folder.join(needed))?;
        }
        let settings = folder.join("apt.conf");
        fs::write(&settings, source.settings(&folder))?;
        if let PackageSource::Suite(suite) = source {
            fs::write(folder.join("durio.sources"), sources_of(&mirror()?, suite))?;
        }
        let apt = Self { settings };
        // Yesterday's lists may do, and apt has reported the error.
        if let Err(error) = succeed(apt.get().arg("update")) {
            println!("package lists of {}: {error:#}", source.name());
        }
        Ok(apt)
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.arg("--quiet=2").arg("--config-file").arg(&self.settings);
        command
    }

    /// Fetches packages into `scratch`, each `NAME` or `NAME=VERSION`, and unpacks all of them into
    /// `folder`.
    pub(super) fn unpack(&self, packages: &[String], scratch: &Path, folder: &Path) -> Result<()> {
        let packed = tempfile::tempdir_in(scratch)?;
        let mut apt = self.get();
        apt.arg("download").args(packages).current_dir(packed.path());
        succeed(&mut apt).with_context(|| format!("cannot fetch {}", packages.join(", ")))?;
        for entry in fs::read_dir(packed.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "deb") {
                succeed(Command::new("dpkg-deb").arg("-x").arg(path).arg(folder))?;
            }
        }
        Ok(())
    }

    /// The newest version of a package that can be fetched, if there is any.
    pub(super) fn newest_version(&self, package: &str) -> Result<Option<String>> {
        let text = self.cache(&["madison", package])?.unwrap_or_default();
        Ok(text.lines().next().and_then(version_of_line).map(str::to_owned))
    }

    /// The dependencies of a package, without versions and alternatives; `None` if the package does
    /// not exist.
    pub(super) fn depends(&self, package: &str) -> Result<Option<Vec<String>>> {
        let text = self.cache(&["depends", "--important", package])?;
        Ok(text.map(|text| depends_in(&text)))
    }

    fn cache(&self, words: &[&str]) -> Result<Option<String>> {
        let mut command = Command::new("apt-cache");
        output_of(command.arg("--config-file").arg(&self.settings).args(words))
    }
}

impl PackageSource {
    fn name(&self) -> &str {
        match self {
            Self::Suite(suite) => suite,
            Self::System => "the suites of apt",
        }
    }

    /// Settings that override the system's, of which only those of proxies matter.
    fn settings(&self, folder: &Path) -> String {
        let folder = folder.display();
        let sources = match self {
            Self::Suite(_) => format!(
                "Dir::Etc::SourceList \"{folder}/durio.sources\";\n\
                 Dir::Etc::SourceParts \"{folder}/none\";\n"
            ),
            Self::System => String::new(),
        };
        // Hooks clean up the system's cache. As root apt would fetch as another user, who cannot
        // write here. Translations and the like take longer to fetch than the lists.
        format!(
            "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\nAPT::Sandbox::User \"\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Dir::State::Lists \"{folder}/lists\";\nDir::Cache \"{folder}/cache\";\n{sources}"
        )
    }
}

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

fn sources_of(mirror: &str, suite: &str) -> String {
    let keys = match Path::new(KEYS).is_file() {
        true => format!("Signed-By: {KEYS}\n"),
        false => String::new(),
    };
    // ZFS is in contrib.
    format!("Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main contrib\n{keys}")
}

/// Where apt is set up to fetch Debian from.
fn mirror() -> Result<String> {
    let mut command = Command::new("apt-get");
    // Without release info also where no list was fetched yet.
    command.args(["indextargets", "--no-release-info", "Created-By: Packages"]);
    let text = output_of(command.args(["--format", "$(RELEASE) $(REPO_URI)"]))?;
    mirror_in(&text.unwrap_or_default(), &codename()?)
        .context("apt is set up for no mirror of this release of Debian")
}

fn mirror_in(targets: &str, codename: &str) -> Option<String> {
    let mut targets = targets.lines().filter_map(|line| line.split_once(' '));
    targets.find(|(release, _)| *release == codename).map(|(_, mirror)| mirror.trim().to_owned())
}

/// The name of this release of Debian, such as `trixie`.
fn codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release names no VERSION_CODENAME")?.trim_matches('"').to_owned())
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", program.display());
    }
    Ok(())
}

/// `PACKAGE | VERSION | SOURCE`; the newest comes first.
fn version_of_line(line: &str) -> Option<&str> {
    line.split('|').nth(1).map(str::trim).filter(|version| !version.is_empty())
}

fn depends_in(text: &str) -> Vec<String> {
    let named = text.lines().filter_map(|line| {
        // apt-cache puts a bar before an alternative that has another one after it.
        let line = line.trim().trim_start_matches('|');
        line.strip_prefix("Depends: ").or_else(|| line.strip_prefix("PreDepends: "))
    });
    named.map(|name| name.trim().to_owned()).collect()
}

fn output_of(command: &mut Command) -> Result<Option<String>> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("cannot run apt: packages are fetched on Debian only")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success() && !text.is_empty()).then_some(text))
}

/// Where durio looks for kernels (`durio_lab::kernels::cache_folder`).
pub(super) fn kernels_folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("kernels"))
}

/// Files that can be fetched or made again.
pub(super) fn cache_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("durio"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_this_release_not_of_its_security_updates() {
        let targets = "bookworm-security http://x/debian-security/\nbookworm http://x/debian/\n";
        assert_eq!(mirror_in(targets, "bookworm").as_deref(), Some("http://x/debian/"));
        assert_eq!(mirror_in(targets, "trixie"), None);
    }

    #[test]
    fn lists_and_caches_are_our_own_and_the_systems_sources_only_where_they_are_meant() {
        let own = PackageSource::Suite("sid".to_owned()).settings(Path::new("/c"));
        let system = PackageSource::System.settings(Path::new("/c"));
        for text in [&own, &system] {
            assert!(text.contains("Dir::State::Lists \"/c/lists\";\nDir::Cache \"/c/cache\";"));
        }
        assert!(own.contains("SourceList \"/c/durio.sources\"") && !system.contains("SourceList"));
        assert!(sources_of("http://x/debian/", "sid").contains("Suites: sid\n"));
    }

    #[test]
    fn the_version_is_the_second_column() {
        let line = "  zfs-dkms | 2.3.2-2~bpo12+2 | http://deb.debian.org/debian x/contrib Packages";
        assert_eq!(version_of_line(line), Some("2.3.2-2~bpo12+2"));
        assert_eq!(version_of_line(""), None);
    }

    #[test]
    fn what_a_package_depends_on_is_read_with_alternatives() {
        let text = "linux-headers-6.12.95\n  Depends: linux-base\n |Depends: linux-image-6.12.95\n  \
                    PreDepends: x\n  Breaks: y\n  Depends: <libc-dev>\n    libc6-dev\n";
        assert_eq!(depends_in(text), ["linux-base", "linux-image-6.12.95", "x", "<libc-dev>"]);
    }
}
