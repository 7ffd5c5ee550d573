//! The layers below a block device that a process serves (ublk): the files that the process has
//! open, and the array facts of a durio superblock on them.
//!
//! The kernel links such a device to nothing. Its server has the character device of the same
//! number open, and its own devices too; `/proc` shows them, which needs the right to look at the
//! process, and no answer of a server that may hang.

use std::fs;
use std::path::PathBuf;

use crate::Fact;
use crate::device_probe::first_bytes_of;
use crate::system_dir::SystemDir;

/// What a superblock of durio's arrays begins with; fields as in docs/formats/raid-superblock.md.
const MAGIC: &[u8] = b"durioRDS";
const LEVEL: usize = 10;
const MEMBERS: usize = 11;
const CHUNK: usize = 64;
const NAME: std::ops::Range<usize> = 104..136;

/// A device and its server.
#[derive(Debug, Default)]
pub(crate) struct DeviceServer {
    /// What the server has open of block devices and of images that are members.
    pub(crate) below: Vec<PathBuf>,
    pub(crate) facts: Vec<Fact>,
}

/// What serves the device `ublkbN`; nothing where that is not shown.
pub(crate) fn served(
    root: &SystemDir,
    device: &str,
    is_block: impl Fn(&PathBuf) -> bool,
) -> DeviceServer {
    let character = device.replacen("ublkb", "ublkc", 1);
    let is_server = |process: &SystemDir| {
        let files = process.names("fd");
        files
            .iter()
            .any(|file| process.link_name(format!("fd/{file}")).as_deref() == Some(&character))
    };
    let processes = root.children("proc").into_iter();
    let mut numbered =
        processes.filter(|entry| entry.name().bytes().all(|byte| byte.is_ascii_digit()));
    let Some(server) = numbered.find(is_server) else { return DeviceServer::default() };
    let mut found =
        DeviceServer { facts: vec![Fact::new("pid", server.name())], ..DeviceServer::default() };
    for file in server.names("fd") {
        let link = server.join(format!("fd/{file}"));
        let Ok(path) = fs::read_link(link.path()) else { continue };
        let is_device = is_block(&path);
        // A pipe or a socket is not a path, and would block a reader.
        let is_file = !is_device && path.is_absolute() && link.path().is_file();
        let head = (is_device || is_file).then(|| first_bytes_of(link.path())).flatten();
        let facts = head.as_deref().and_then(array_facts);
        if (is_device || facts.is_some()) && !found.below.contains(&path) {
            found.below.push(path);
        }
        if found.facts.len() == 1 {
            found.facts.extend(facts.unwrap_or_default());
        }
    }
    found
}

/// What the first superblock of a member says.
fn array_facts(head: &[u8]) -> Option<Vec<Fact>> {
    if !head.starts_with(MAGIC) {
        return None;
    }
    let name = String::from_utf8_lossy(head.get(NAME)?).trim_end_matches('\0').to_owned();
    let chunk = u32::from_le_bytes(head.get(CHUNK..CHUNK + 4)?.try_into().ok()?);
    Some(Fact::known([
        ("array", Some(name)),
        ("level", Some(format!("raid{}", head.get(LEVEL)?))),
        ("raid_disks", Some(head.get(MEMBERS)?.to_string())),
        ("chunk_size", Some(chunk.to_string())),
    ]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::Fixture;

    fn superblock() -> Vec<u8> {
        let mut block = vec![0; 4096];
        block[..8].copy_from_slice(MAGIC);
        (block[LEVEL], block[MEMBERS]) = (10, 4);
        block[CHUNK..CHUNK + 4].copy_from_slice(&(64_u32 << 10).to_le_bytes());
        block[NAME.start..NAME.start + 4].copy_from_slice(b"data");
        block
    }

    /// A process with these files open, from 0.
    fn process(fixture: &Fixture, pid: &str, files: &[&str]) {
        let folder = fixture.root().path().join("proc").join(pid).join("fd");
        fs::create_dir_all(&folder).unwrap();
        for (number, file) in files.iter().enumerate() {
            symlink(file, folder.join(number.to_string())).unwrap();
        }
    }

    #[test]
    fn below_a_served_device_is_what_its_server_has_open() {
        let fixture = Fixture::new();
        fixture.file("images/a", superblock());
        fixture.file("images/log", "a file of the server's that is no member");
        let inside = |name: &str| fixture.root().path().join(name).display().to_string();
        let (image, log) = (inside("images/a"), inside("images/log"));
        process(&fixture, "7", &["/dev/null", "/dev/ublkc10", "/dev/vdz"]);
        let files = ["socket:[5]", &log, "/dev/ublkc1", "/dev/vdb", "/dev/vdc", "/dev/vdb", &image];
        process(&fixture, "8", &files);
        let is_block = |path: &PathBuf| path.starts_with("/dev") && path.ends_with("vdb");
        let is_block = |path: &PathBuf| is_block(path) || path.ends_with("vdc");
        let found = served(&fixture.root(), "ublkb1", is_block);
        assert_eq!(found.below, ["/dev/vdb", "/dev/vdc", &image].map(PathBuf::from));
        let facts: Vec<(&str, &str)> =
            found.facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())).collect();
        let of_array = [("level", "raid10"), ("raid_disks", "4"), ("chunk_size", "65536")];
        assert_eq!(facts[..2], [("pid", "8"), ("array", "data")]);
        assert_eq!(facts[2..], of_array);
        assert!(served(&fixture.root(), "ublkb2", is_block).below.is_empty());
    }

    #[test]
    fn what_is_no_superblock_says_nothing_of_an_array() {
        assert_eq!((array_facts(b""), array_facts(&[0; 4096])), (None, None));
        assert_eq!(array_facts(&superblock()[..120]), None);
    }
}
