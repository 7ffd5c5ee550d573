//! Writes a campaign folder and reads it back.
//!
//! A reader takes regular files of a bounded length. Names of hosts and runs become parts of paths
//! only after [`check_name`].

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_block::{Folder, read_bounded};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{
    CAMPAIGN_FOLDER_SCHEMA, CampaignEvent, CampaignManifest, HostChange, TimedCampaignEvent,
};
use crate::error::{failed, malformed, reading};
use crate::writer::{append, end_of_whole_lines};
use crate::{RecordError, RecordErrorKind, folder};

/// The files of a campaign folder.
pub mod campaign_files {
    pub const MANIFEST: &str = "fleet.json";
    pub const HOSTS: &str = "hosts.jsonl";
    pub const EVENTS: &str = "events.jsonl";
    /// A folder with a folder for each host, which holds its run folders.
    pub const RUNS: &str = "hosts";
}

use campaign_files::{EVENTS, HOSTS, MANIFEST, RUNS};

/// The longest name of a host: DNS has no longer ones (RFC 1035), and filesystems stop at 255.
const NAME_LENGTH_MAX: usize = 253;

/// Ten states of 10,000 hosts, some 200 bytes each, fit ten times.
const LINES_LENGTH_MAX: Bytes = Bytes::from_mib(256);

/// The longest line; a list of 10,000 silent hosts has less than a third of it.
const LINE_LENGTH_MAX: usize = 8 << 20;

/// More hosts than any campaign has, and more runs of a host.
const CHILDREN_MAX: usize = 100_000;

/// Checks a name of a host or a run before it is part of a path or of a command line.
///
/// # Errors
/// The reason, as the end of a sentence that begins with the name.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name.len() > NAME_LENGTH_MAX {
        return Err("is longer than 253 bytes");
    }
    if name.contains('/') {
        return Err("contains a slash");
    }
    if name.chars().any(char::is_control) {
        return Err("contains a control character");
    }
    match name.starts_with(['-', '.']) {
        true => Err("begins with a dash or a dot"),
        false => Ok(()),
    }
}

/// The folders in a folder, by names that may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedFolders {
    /// Sorted by their bytes.
    pub names: Vec<String>,
    /// What was passed over, each as a sentence.
    pub refused: Vec<String>,
}

/// Lists the folders in `path`; links and names that fail [`check_name`] are refused, other files
/// passed over.
///
/// # Errors
/// If `path` cannot be read, or has more than 100,000 entries.
pub fn named_folders(path: &Path) -> Result<NamedFolders, RecordError> {
    const OPERATION: &str = "list the folders in";
    let entries = folder::open_folder(path, OPERATION)?
        .names()
        .map_err(|error| failed(OPERATION, path, error))?;
    if entries.len() > CHILDREN_MAX {
        let reason = format!("it has more than {CHILDREN_MAX} entries");
        return Err(malformed(OPERATION, path, reason));
    }
    let mut found = NamedFolders::default();
    for name in entries.into_iter().collect::<BTreeSet<_>>() {
        let Ok(facts) = fs::symlink_metadata(path.join(&name)) else { continue };
        if !facts.is_dir() && !facts.is_symlink() {
            continue;
        }
        let text = name.to_string_lossy();
        let reason = match name.to_str().map(check_name) {
            None => Some("is not UTF-8"),
            Some(Err(reason)) => Some(reason),
            // A link could lead to files of this machine, which no host has sent.
            Some(Ok(())) => facts.is_symlink().then_some("is a symbolic link"),
        };
        match reason {
            Some(reason) => {
                let shown: String = text.escape_debug().take(80).collect();
                found.refused.push(format!("the name '{shown}' in {} {reason}", path.display()));
            }
            None => found.names.push(text.into_owned()),
        }
    }
    Ok(found)
}

/// The lines of a file, as far as they can be read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadLines<T> {
    pub lines: Vec<T>,
    /// Whole JSON lines that this version does not understand.
    pub unknown: u64,
    /// Why the file was not read to its end; an incomplete last line is not damage.
    pub damage: Option<String>,
}

/// The folder of a campaign, read or written.
#[derive(Debug)]
pub struct CampaignFolder {
    folder: Folder,
    pub manifest: CampaignManifest,
}

impl CampaignFolder {
    /// True if there is a campaign folder at the path.
    pub fn is_at(path: &Path) -> bool {
        fs::symlink_metadata(path.join(MANIFEST)).is_ok_and(|facts| facts.is_file())
    }

    /// Makes the folder, which must not exist, and locks it for this process.
    ///
    /// # Errors
    /// If the folder exists, a host has a name that fails [`check_name`], or a file cannot be
    /// written.
    pub fn create(path: &Path, manifest: CampaignManifest) -> Result<Self, RecordError> {
        const MAKING: &str = "make the campaign folder";
        check_hosts(path, &manifest)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let campaign = Self { folder: folder::make_folder(path, MAKING)?, manifest };
        campaign.lock()?;
        let held = &campaign.folder;
        for name in [HOSTS, EVENTS] {
            held.make_file(name).map_err(|error| failed("make", &path.join(name), error))?;
        }
        held.make_folder(RUNS).map_err(|error| failed("make", &path.join(RUNS), error))?;
        // Last: a folder with a manifest has everything else.
        folder::replace(held, MANIFEST, &campaign.manifest)?;
        let parent = folder::open_folder(parent, "sync")?;
        parent.sync().map_err(|error| failed("sync", parent.path(), error))?;
        Ok(campaign)
    }

    /// Opens the folder at `path` to read it.
    ///
    /// # Errors
    /// If it is not a campaign folder, is of a newer schema, or names hosts that fail
    /// [`check_name`].
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        const READING: &str = "read the campaign folder";
        let held = folder::open_folder(path, READING)?;
        let manifest = folder::read(&held, MANIFEST, CAMPAIGN_FOLDER_SCHEMA, READING)?;
        check_hosts(path, &manifest)?;
        Ok(Self { folder: held, manifest })
    }

    /// Opens the folder at `path` to continue the campaign: locks it, and cuts off lines that a kill
    /// left incomplete.
    ///
    /// # Errors
    /// As [`Self::open`], and if it belongs to another user or another process has it.
    pub fn resume(path: &Path) -> Result<Self, RecordError> {
        let campaign = Self::open(path)?;
        folder::check_owner(&campaign.folder)?;
        campaign.lock()?;
        for name in [HOSTS, EVENTS] {
            append(&campaign.folder, name, end_of_whole_lines)?;
        }
        Ok(campaign)
    }

    // Until this value is dropped. NFS refuses locks of folders: there the user is trusted.
    fn lock(&self) -> Result<(), RecordError> {
        match self.folder.try_lock() {
            Ok(false) => {
                let reason = "another process writes to it: the campaign is running";
                let kind = RecordErrorKind::Io;
                Err(RecordError::because(kind, "lock the campaign folder", reason)
                    .about(self.path().display()))
            }
            Ok(true) | Err(_) => Ok(()),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Appends a line to hosts.jsonl; a final state is synced.
    ///
    /// # Errors
    /// If it cannot be written, for example because the disk is full; the file is as before then.
    pub fn append_change(&self, change: &HostChange) -> Result<(), RecordError> {
        self.append_line(HOSTS, change, change.state.is_final())
    }

    /// Appends a line to events.jsonl; synced unless it only counts messages.
    ///
    /// # Errors
    /// As [`Self::append_change`], for example with a full disk.
    pub fn append_event(&self, event: &TimedCampaignEvent) -> Result<(), RecordError> {
        let counts_only = matches!(event.event, CampaignEvent::MessagesIgnored { .. });
        self.append_line(EVENTS, event, !counts_only)
    }

    fn append_line(
        &self,
        name: &str,
        line: &impl Serialize,
        must_last: bool,
    ) -> Result<(), RecordError> {
        let path = self.path().join(name);
        let fail = |error| failed("write", &path, error);
        let mut text =
            serde_json::to_vec(line).map_err(|error| malformed("write", &path, error))?;
        text.push(b'\n');
        let mut file = self.folder.append_own(name).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        if let Err(error) = file.write_all(&text) {
            // Half a line would make the next one unreadable.
            let _ = file.set_len(length);
            return Err(fail(error));
        }
        if must_last {
            file.sync_data().map_err(fail)?;
        }
        Ok(())
    }

    /// The changes of hosts, in the order in which they were written. Lines with a name that fails
    /// [`check_name`] count as unknown.
    ///
    /// # Errors
    /// If the file is not a regular one, is longer than 256 MiB, or cannot be read.
    pub fn changes(&self) -> Result<ReadLines<HostChange>, RecordError> {
        let mut read: ReadLines<HostChange> = self.read_lines(HOSTS)?;
        let before = read.lines.len();
        read.lines.retain(|change| {
            let names = [Some(&change.host), change.run.as_ref()];
            names.into_iter().flatten().all(|name| check_name(name).is_ok())
        });
        read.unknown += (before - read.lines.len()) as u64;
        Ok(read)
    }

    /// The events of the campaign, in the order in which they were written.
    ///
    /// # Errors
    /// As [`Self::changes`], of the other file.
    pub fn events(&self) -> Result<ReadLines<TimedCampaignEvent>, RecordError> {
        self.read_lines(EVENTS)
    }

    fn read_lines<T: DeserializeOwned>(&self, name: &str) -> Result<ReadLines<T>, RecordError> {
        let file = self.folder.open_file(name);
        let text = match file.and_then(|file| read_bounded(file, LINES_LENGTH_MAX)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(reading(&self.path().join(name), error)),
        };
        Ok(parse_lines(name, &text))
    }

    /// The hosts that have a folder.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn host_folders(&self) -> Result<NamedFolders, RecordError> {
        named_folders(&self.path().join(RUNS))
    }

    /// The path of a host's folder, which need not exist.
    ///
    /// # Errors
    /// If the name fails [`check_name`].
    pub fn host_path(&self, host: &str) -> Result<PathBuf, RecordError> {
        self.check_part(host)?;
        Ok(self.path().join(RUNS).join(host))
    }

    /// Opens the folder of a run to write its files, made where it does not exist.
    ///
    /// # Errors
    /// If a name fails [`check_name`], or a folder on the way is a link, belongs to another user, or
    /// cannot be made.
    pub fn make_run(&self, host: &str, run: &str) -> Result<Folder, RecordError> {
        self.check_part(host)?;
        self.check_part(run)?;
        let path = self.path().join(RUNS).join(host).join(run);
        let made = self.folder.own_folder_or_make(RUNS);
        let made = made.and_then(|hosts| hosts.own_folder_or_make(host));
        let made = made.and_then(|host| host.own_folder_or_make(run));
        made.map_err(|error| failed("make the run folder", &path, error))
    }

    fn check_part(&self, name: &str) -> Result<(), RecordError> {
        check_name(name).map_err(|reason| refused_name(self.path(), name, reason))
    }

    /// Saves a file that was derived from the record, such as the report.
    ///
    /// # Errors
    /// If it cannot be written, or must not be.
    pub fn save(&self, name: &str, contents: &[u8]) -> Result<(), RecordError> {
        folder::replace_bytes(&self.folder, name, contents)
    }
}

fn refused_name(path: &Path, name: &str, reason: &str) -> RecordError {
    let shown: String = name.escape_debug().take(80).collect();
    malformed("use the campaign folder", path, format!("the name '{shown}' {reason}"))
}

fn check_hosts(path: &Path, manifest: &CampaignManifest) -> Result<(), RecordError> {
    let mut known = BTreeSet::new();
    for host in &manifest.hosts {
        check_name(host).map_err(|reason| refused_name(path, host, reason))?;
        if !known.insert(host) {
            return Err(refused_name(path, host, "is listed twice"));
        }
    }
    Ok(())
}

fn parse_lines<T: DeserializeOwned>(name: &str, text: &[u8]) -> ReadLines<T> {
    let mut read = ReadLines { lines: Vec::new(), unknown: 0, damage: None };
    for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        if line.len() > LINE_LENGTH_MAX {
            read.damage = Some(format!("line {number} of {name} is longer than 8 MiB"));
            break;
        }
        // A kill or a power cut leaves the last line incomplete.
        let Some(line) = line.strip_suffix(b"\n") else { break };
        match serde_json::from_slice(line) {
            Ok(value) => read.lines.push(value),
            // An event of a newer durio, or one with a field that means something else.
            Err(_) if serde_json::from_slice::<IgnoredAny>(line).is_ok() => read.unknown += 1,
            Err(error) => {
                read.damage = Some(format!("line {number} of {name}: {error}"));
                break;
            }
        }
    }
    read
}

#[cfg(test)]
mod tests;
