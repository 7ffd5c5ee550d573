//! Reading the small text files of `/sys` and `/proc`.
//!
//! In tests the directory is a made-up tree. Files that are absent, empty or refused give `None`.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// The longest file that is read; a list of 100,000 mounts has as much.
const FILE_LEN_MAX: u64 = 16 << 20;

/// A named value, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The name, such as `consistency_policy`.
    pub name: String,
    /// The value, such as `bitmap`.
    pub value: String,
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// Those of the rows that have a value.
    pub(crate) fn known<N: Into<String>>(
        rows: impl IntoIterator<Item = (N, Option<String>)>,
    ) -> Vec<Self> {
        rows.into_iter().filter_map(|(name, value)| Some(Self::new(name, value?))).collect()
    }
}

/// How a file's content becomes a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContentForm {
    Text,
    /// The word in brackets.
    Choice,
}

/// A directory whose files are read by relative path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SystemDir {
    path: PathBuf,
}

impl SystemDir {
    pub(crate) fn live_root() -> Self {
        Self::at("/")
    }

    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The last component, which in sysfs is the kernel's name of the thing.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The directory at `relative`, whether or not it exists; symbolic links are kept.
    pub(crate) fn join(&self, relative: impl AsRef<Path>) -> Self {
        Self::at(self.path.join(relative))
    }

    /// The directory that `relative` leads to, with every symbolic link resolved.
    pub(crate) fn follow(&self, relative: impl AsRef<Path>) -> Option<Self> {
        // The real path shows the devices above: the bus, the host adapter.
        let path = fs::canonicalize(self.path.join(relative)).ok()?;
        path.is_dir().then_some(Self { path })
    }

    /// This directory and those above it, nearest first.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        self.path.ancestors().map(Self::at)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn contains(&self, relative: impl AsRef<Path>) -> bool {
        self.path.join(relative).exists()
    }

    /// The content, at most [`FILE_LEN_MAX`] of it.
    pub(crate) fn bytes(&self, relative: impl AsRef<Path>) -> Option<Vec<u8>> {
        // A pipe in a copied tree would make the reader wait for a writer.
        let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
        let path = self.path.join(relative);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let mut bytes = Vec::new();
        file.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The content without surrounding blanks; `None` if nothing is left.
    pub(crate) fn text(&self, relative: impl AsRef<Path>) -> Option<String> {
        let bytes = self.bytes(relative)?;
        // Texts of the device tree end with a zero byte, fields of SCSI with blanks.
        let text = String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ', '\n', '\t']).to_owned();
        (!text.is_empty()).then_some(text)
    }

    pub(crate) fn number<T: FromStr>(&self, relative: impl AsRef<Path>) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    pub(crate) fn flag(&self, relative: impl AsRef<Path>) -> Option<bool> {
        match self.text(relative)?.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// As [`line_after`], of a file.
    pub(crate) fn line_after(&self, relative: impl AsRef<Path>, start: &str) -> Option<String> {
        line_after(&self.text(relative)?, start).map(str::to_owned)
    }

    pub(crate) fn value(&self, relative: impl AsRef<Path>, form: ContentForm) -> Option<String> {
        match form {
            ContentForm::Text => self.text(relative),
            ContentForm::Choice => self.choice(relative),
        }
    }

    /// The chosen one of a list such as `none [mq-deadline] kyber`.
    pub(crate) fn choice(&self, relative: impl AsRef<Path>) -> Option<String> {
        self.text(relative).map(|list| chosen(&list))
    }

    /// A path that a file holds, whatever its bytes, without the newline that sysfs adds.
    pub(crate) fn path_value(&self, relative: impl AsRef<Path>) -> Option<PathBuf> {
        let mut bytes = self.bytes(relative)?;
        // Only the one that the kernel adds: a path may end with blanks and line ends.
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        (!bytes.is_empty()).then(|| PathBuf::from(OsString::from_vec(bytes)))
    }

    /// The last component of what the symbolic link at `relative` points to, there or not.
    pub(crate) fn link_name(&self, relative: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path.join(relative)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The names in the directory at `relative`, sorted; none if it is absent.
    pub(crate) fn names(&self, relative: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path.join(relative)) else { return Vec::new() };
        // The kernel's own names are text; another one is of nothing that is looked for.
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_by_cached_key(|name| natural_key(name));
        names
    }

    pub(crate) fn children(&self, relative: impl AsRef<Path>) -> Vec<Self> {
        let dir = self.join(relative);
        dir.names("").iter().map(|name| dir.join(name)).collect()
    }
}

/// The rest of the first line that begins with `start`, without surrounding blanks.
pub(crate) fn line_after<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(start)).map(str::trim)
}

/// Sorts `sda2` before `sda10`.
fn natural_key(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().unwrap_or(0);
    (stem.to_owned(), number, name.to_owned())
}

fn chosen(list: &str) -> String {
    let bracketed = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(list, |(choice, _)| choice).to_owned()
}

/// How many processors or nodes a list such as `0-3,8` names.
pub(crate) fn count_in_list(list: &str) -> Option<u32> {
    u32::try_from(numbers_in_list(list)?.len()).ok()
}

fn ends_of_range(range: &str) -> Option<(u32, u32)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// More processors than any machine has: a list beyond it is a mistake.
const PROCESSORS_MAX: u32 = 1 << 16;

/// The processors or nodes in a list such as `0-3,8`; none if the text is not such a list.
pub fn numbers_in_list(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for range in list.split(',') {
        let (first, last) = ends_of_range(range)?;
        // A list from a file may be damaged: it must not fill the memory.
        if first > last || last >= PROCESSORS_MAX || numbers.len() > PROCESSORS_MAX as usize {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

    #[test]
    fn the_choice_of_a_list_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count_in_list("0-3,8,10-11"), Some(7));
        assert_eq!(count_in_list("0"), Some(1));
        assert_eq!(count_in_list("3-1"), None);
        assert_eq!(count_in_list(""), None);
    }

    #[test]
    fn lists_of_processors_are_read_in_their_order() {
        assert_eq!(numbers_in_list("4-6,0"), Some(vec![4, 5, 6, 0]));
        for wrong in ["", "3-1", "a", "1-", "0-4294967295", "1,,2"] {
            assert_eq!(numbers_in_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_absent_or_empty_is_none() {
        let fixture = Fixture::new();
        fixture.file("sys/empty", "\n");
        fixture.file("sys/padded", "  ATA     \n");
        let root = fixture.root();
        assert_eq!(root.text("sys/empty"), None);
        assert_eq!(root.text("sys/absent"), None);
        assert_eq!(root.text("sys/padded").as_deref(), Some("ATA"));
        assert_eq!(root.number::<u64>("sys/padded"), None);
        assert!(root.names("sys/absent").is_empty());
    }

    #[test]
    fn a_pipe_is_empty_and_an_endless_file_is_cut() {
        use rustix::fs::{CWD, FileType, Mode};

        let fixture = Fixture::new();
        fixture.file("sys/huge", "");
        let root = fixture.root();
        let pipe = root.path().join("sys/pipe");
        rustix::fs::mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(root.bytes("sys/pipe"), Some(Vec::new()));
        let huge = OpenOptions::new().write(true).open(root.path().join("sys/huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        assert_eq!(root.bytes("sys/huge").unwrap().len(), 16_777_216);
    }

    #[test]
    fn a_list_has_processors_below_65_536() {
        assert_eq!(numbers_in_list("65535"), Some(vec![65_535]));
        assert_eq!(numbers_in_list("65536"), None);
        assert_eq!(numbers_in_list("0-65535").unwrap().len(), 65_536);
        // Which may be named twice, and not without end.
        assert_eq!(numbers_in_list("0-65535,0-9"), Some((0..65_536).chain(0..10).collect()));
        assert_eq!(numbers_in_list("0-65535,0-9,7"), None);
    }

    #[test]
    fn a_link_tells_its_last_component_there_or_not() {
        let fixture = Fixture::new();
        fixture.link("sys/driver", "sys/bus/pci/drivers/nvme");
        assert_eq!(fixture.root().link_name("sys/driver").as_deref(), Some("nvme"));
        assert_eq!(fixture.root().link_name("sys"), None);
    }

    #[test]
    fn names_are_sorted_by_their_number() {
        let fixture = Fixture::new();
        for name in ["sda10", "sda2", "sda1"] {
            fixture.file(&format!("sys/{name}"), "");
        }
        assert_eq!(fixture.root().names("sys"), ["sda1", "sda2", "sda10"]);
    }
}
