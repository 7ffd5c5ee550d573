//! The hosts that are invited to a bus that stays: the public key of each is in a folder of its name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use durio_agree::bus_rights::{BusUser, standing_permissions};
use durio_agree::sign::check_public_key;
use durio_command::CommandError;

use crate::secrets::read_secret;

pub(super) const HOST_KEY_FILE: &str = "key.pub";

/// The keys of all hosts, as they were read last. A file is read again when it has changed.
#[derive(Debug, Default)]
pub(super) struct InvitedHosts(BTreeMap<String, (KeyFileState, String)>);

/// Device, inode, size, time in seconds and nanoseconds after them, and mode: one of them differs once a
/// file is written again, replaced or opened to other users.
type KeyFileState = (u64, u64, u64, i64, i64, u32);

/// `None` for a file that is not there: it is being made or revoked.
fn file_state(path: &Path) -> Option<KeyFileState> {
    let facts = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let modified = (facts.mtime(), facts.mtime_nsec());
    Some((facts.dev(), facts.ino(), facts.size(), modified.0, modified.1, facts.mode()))
}

impl InvitedHosts {
    /// Reads new and changed files; false if there are none, and none has gone.
    ///
    /// # Errors
    /// If the folder cannot be read, or one of its keys is not a key. The known keys stay.
    pub(super) fn update(&mut self, folder: &Path) -> Result<bool, CommandError> {
        let failed = |error| CommandError::io("read", folder, error);
        let mut found = BTreeMap::new();
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.map_err(failed)?),
        };
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(failed)?;
            let path = entry.path().join(HOST_KEY_FILE);
            // Before the text, so that a change in between is seen the next time.
            let Some(state) = file_state(&path) else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            let known = self.0.get(&name).filter(|(before, _)| *before == state);
            let key = match known {
                Some((_, key)) => key.clone(),
                None => read_key(&path)?,
            };
            found.insert(name, (state, key));
        }
        let has_changed = found != self.0;
        self.0 = found;
        Ok(has_changed)
    }

    /// As users of the server.
    pub(super) fn users(&self) -> Vec<BusUser> {
        let user = |(name, (_, key)): (&String, &(KeyFileState, String))| BusUser {
            key: key.clone(),
            rights: standing_permissions(name),
        };
        self.0.iter().map(user).collect()
    }
}

fn read_key(path: &Path) -> Result<String, CommandError> {
    let key = read_secret("read the key in", path)?.trim().to_owned();
    check_public_key(&key)?;
    Ok(key)
}

/// The public key of each host that was invited, by name.
///
/// # Errors
/// As [`InvitedHosts::update`].
pub(crate) fn invited_keys(folder: &Path) -> Result<BTreeMap<String, String>, CommandError> {
    let mut hosts = InvitedHosts::default();
    hosts.update(folder)?;
    Ok(hosts.0.into_iter().map(|(name, (_, key))| (name, key)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, SystemTime};

    use durio_agree::sign::SigningKey;
    use durio_command::error_chain;

    use super::*;

    /// Whether something has changed, and the keys.
    type Known = Result<(bool, Vec<String>), String>;

    fn set_modified(path: &Path, time: SystemTime) {
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn write_key(path: &Path, text: &str) {
        fs::write(path, format!("{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_key_is_read_again_when_its_file_has_another_time_size_or_inode_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("db1");
        fs::create_dir(&host).unwrap();
        let (path, new) = (host.join(HOST_KEY_FILE), host.join("new"));
        let keys: Vec<String> = (0..4).map(|_| SigningKey::generate().public()).collect();
        let (early, late) =
            (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_nanos(1));
        let mut hosts = InvitedHosts::default();
        let mut known = |folder: &Path| -> Known {
            let has_changed = hosts.update(folder).map_err(|error| error_chain(&error))?;
            Ok((has_changed, hosts.0.values().map(|(_, key)| key.clone()).collect()))
        };
        let read = |key: &String| -> Known { Ok((true, vec![key.clone()])) };
        let kept = |key: &String| -> Known { Ok((false, vec![key.clone()])) };
        write_key(&path, &keys[0]);
        set_modified(&path, early);
        assert_eq!(known(folder.path()), read(&keys[0]));
        // Neither a new text nor one that is not a key is seen as long as time and size are the same.
        for text in [&keys[1], &"x".repeat(keys[0].len())] {
            write_key(&path, text);
            set_modified(&path, early);
            assert_eq!(known(folder.path()), kept(&keys[0]));
        }
        write_key(&path, &keys[1]);
        set_modified(&path, late);
        assert_eq!(known(folder.path()), read(&keys[1]));
        assert_eq!(known(folder.path()), kept(&keys[1]));
        write_key(&path, &format!("{}\n", keys[2]));
        set_modified(&path, late);
        assert_eq!(known(folder.path()), read(&keys[2]));
        write_key(&new, &format!("{}\n", keys[3]));
        set_modified(&new, late);
        fs::rename(&new, &path).unwrap();
        assert_eq!(known(folder.path()), read(&keys[3]));
        // A file that other users can read is refused until that is mended, and the key stays.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = known(folder.path()).unwrap_err();
        assert!(error.starts_with("other users can read"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(known(folder.path()), kept(&keys[3]));
        fs::remove_file(&path).unwrap();
        assert_eq!(known(folder.path()), Ok((true, Vec::new())));
        fs::remove_dir(&host).unwrap();
        assert_eq!(known(folder.path()), Ok((false, Vec::new())));
        assert_eq!(known(&folder.path().join("absent")), Ok((false, Vec::new())));
    }
}
