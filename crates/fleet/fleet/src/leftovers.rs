//! What campaigns leave on a host: folders that were not removed at their end, programs that were copied
//! for them, and the folders of relays that were killed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use durio_agree::host::HostMemory;
use durio_agree::message::is_campaign;
use durio_agree::sign::EndedCampaigns;
use durio_base::Bytes;
use durio_block::{Folder, read_bounded};
use durio_command::error_chain;
use durio_record::fleet::HostState;

use crate::host_disk::read_memory;
use crate::words::remark;

/// How long a host has the folder of a campaign that was not collected, and the coordinator its key.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);
/// In the folder of copied programs: the session that copied them removes them at its end.
const PUSHED_FILE: &str = "pushed";
/// The same, once an agent removes them.
const KEPT_FILE: &str = "kept";
const PROGRAMS: [&str; 2] = ["durio-fleet", "durio"];
/// In the campaign's folder: where its copied programs are.
const PROGRAMS_FILE: &str = "programs";
const PATH_BYTES_MAX: Bytes = Bytes::from_kib(8);
/// The beginning of the names of relays' folders, among temporary files.
pub(crate) const RELAY_FOLDER: &str = "durio-relay-";
/// A relay locks its folder long before the folder has this age.
const UNLOCKED_MAX: Duration = Duration::from_secs(60);
/// Another process has a list for milliseconds, or for the time of a slow disk.
const LOCK_TRIES: u32 = 200;
const LOCK_EVERY: Duration = Duration::from_millis(20);

/// Removes the folders of campaigns that were collected, or to which nothing has happened for 30 days.
pub(crate) fn remove_old_campaigns(fleet: &Folder) -> io::Result<()> {
    let names = fleet.names()?.into_iter().filter_map(|name| name.into_string().ok());
    for name in names.filter(|name| is_campaign(name)) {
        if let Err(error) = remove_old_campaign(fleet, &name) {
            remark(&format!("cannot remove the campaign {name}: {error}"));
        }
    }
    Ok(())
}

fn remove_old_campaign(fleet: &Folder, name: &str) -> io::Result<()> {
    let Some(folder) = fleet.own_folder(name)? else { return Ok(()) };
    let memory = read_memory(&folder).unwrap_or_default();
    // An agent that serves it has the lock.
    if !is_over(&memory, folder.age()?) || !folder.try_lock()? {
        return Ok(());
    }
    remove_noted_programs(&folder);
    end_campaign(fleet, name)?;
    fleet.remove_own_folder(name)
}

/// Whether the folder of a campaign has nothing that a coordinator could still ask for.
pub(crate) fn is_over(memory: &HostMemory, age: Duration) -> bool {
    let has_result = memory.has_run && memory.done != Some(HostState::Collected);
    age > KEPT_FOR || memory.done.is_some() && !has_result
}

/// Notes that a campaign is not joined again.
pub(crate) fn end_campaign(fleet: &Folder, name: &str) -> io::Result<()> {
    // The agents of two campaigns may end at the same time, and each writes the whole list.
    let lock = Folder::open(fleet.path())?;
    await_lock(&lock)?;
    EndedCampaigns::open(fleet)
        .and_then(|mut ended| ended.end(fleet, name))
        .map_err(|error| io::Error::other(error_chain(&error)))
}

/// Waits a while for the lock of a folder in which another process writes a list.
pub(crate) fn await_lock(folder: &Folder) -> io::Result<()> {
    let mut tries = 0..LOCK_TRIES;
    while !folder.try_lock()? {
        tries.next().ok_or(io::ErrorKind::WouldBlock)?;
        thread::sleep(LOCK_EVERY);
    }
    Ok(())
}

/// Removes the folders of this user's relays that were killed. A relay that lives has locked its own.
pub(crate) fn remove_dead_relays(parent: &Path) -> io::Result<()> {
    let parent = Folder::open(parent)?;
    let is_relay = |name: &OsString| name.as_bytes().starts_with(RELAY_FOLDER.as_bytes());
    for name in parent.names()?.into_iter().filter(is_relay) {
        // Other users and other relays make and remove theirs at any time.
        let Ok(Some(folder)) = parent.own_folder(&name) else { continue };
        if folder.is_own()? && folder.age()? > UNLOCKED_MAX && folder.try_lock()? {
            parent.remove_own_folder(&name)?;
        }
    }
    Ok(())
}

/// Takes over the programs of this process, if a session has copied them for its own time: the run may
/// outlast it. They are at the path that is returned.
pub(crate) fn keep_programs(folder: &Folder) -> io::Result<Option<PathBuf>> {
    let own = env::current_exe()?;
    keep_programs_in(own.parent().unwrap_or(Path::new("/")), folder)
}

fn keep_programs_in(place: &Path, folder: &Folder) -> io::Result<Option<PathBuf>> {
    let programs = Folder::open(place)?;
    if !programs.is_own()? || !programs.has(PUSHED_FILE)? {
        return Ok(None);
    }
    // Of an agent that was killed.
    remove_noted_programs(folder);
    // Without a sync: the session waits, and the place seldom outlasts a power loss either.
    folder.remove_file(PROGRAMS_FILE)?;
    let mut note = folder.make_file_with(PROGRAMS_FILE, 0o600)?;
    note.write_all(place.as_os_str().as_bytes())?;
    // Last: the session removes what is not noted.
    programs.rename(PUSHED_FILE, KEPT_FILE)?;
    Ok(Some(place.to_owned()))
}

/// A failure is reported and ends nothing: another user may have put something in the place.
fn remove_noted_programs(folder: &Folder) {
    let note = folder.open_own(PROGRAMS_FILE).and_then(|file| read_bounded(file, PATH_BYTES_MAX));
    let removed = match note {
        Ok(path) if path.is_empty() => Ok(()),
        Ok(path) => remove_programs(Path::new(&OsString::from_vec(path))),
        Err(error) => Err(error),
    };
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        remark(&format!("cannot remove programs that were copied: {error}"));
    }
}

/// Removes copied programs, if they are there and an agent has taken them over.
pub(crate) fn remove_programs(place: &Path) -> io::Result<()> {
    let Some(programs) = Folder::open_own_path(place)? else { return Ok(()) };
    if !programs.has(KEPT_FILE)? {
        return Ok(());
    }
    // The mark is the last: what is interrupted here is done by the next agent.
    for name in PROGRAMS.into_iter().chain([KEPT_FILE]) {
        programs.remove_file(name)?;
    }
    fs::remove_dir(place)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};
    use std::time::SystemTime;

    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::carrier::MEMORY_FILE;
    use crate::launch::pushed;

    /// 30 days in minutes.
    const MONTH: u64 = 30 * 24 * 60;

    /// A campaign's folder, of this age, with this memory.
    fn campaign(fleet: &Path, digit: char, minutes: u64, memory: Option<HostMemory>) -> String {
        let name = digit.to_string().repeat(32);
        let path = fleet.join(&name);
        fs::create_dir_all(path.join("runs/r")).unwrap();
        fs::write(path.join("runs/r/run.json"), "{}").unwrap();
        if let Some(memory) = memory {
            fs::write(path.join(MEMORY_FILE), serde_json::to_vec(&memory).unwrap()).unwrap();
        }
        let modified = SystemTime::now() - Duration::from_secs(minutes * 60);
        File::open(&path).unwrap().set_modified(modified).unwrap();
        name
    }

    #[test]
    fn folders_are_removed_once_they_are_collected_or_30_days_old_and_never_from_an_agent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let memory = |has_run, done| Some(HostMemory { has_run, done, ..HostMemory::default() });
        let removed = [
            campaign(path, '0', 0, memory(true, Some(HostState::Collected))),
            campaign(path, '1', 0, memory(false, Some(HostState::Refused))),
            campaign(path, '2', MONTH, memory(true, None)),
            campaign(path, '3', MONTH, memory(true, Some(HostState::Failed))),
            campaign(path, '4', MONTH, None),
        ];
        let mut kept = vec![
            campaign(path, '5', MONTH - 1, memory(true, None)),
            campaign(path, '6', MONTH - 1, memory(true, Some(HostState::Failed))),
            campaign(path, '7', MONTH - 1, None),
            campaign(path, '8', MONTH, memory(true, Some(HostState::Collected))),
            "ended-campaigns".to_owned(),
            "lock".to_owned(),
        ];
        fs::create_dir(path.join("lock")).unwrap();
        let agent = Folder::open(&path.join(&kept[3])).unwrap();
        assert!(agent.try_lock().unwrap());
        let fleet = Folder::open(path).unwrap();
        remove_old_campaigns(&fleet).unwrap();
        let mut names: Vec<String> =
            fleet.names().unwrap().into_iter().map(|name| name.into_string().unwrap()).collect();
        names.sort();
        kept.sort();
        assert_eq!(names, kept);
        let ended = EndedCampaigns::open(&fleet).unwrap();
        for name in &removed {
            ended.check(name).unwrap_err();
        }
        ended.check(&kept[0]).unwrap();
    }

    /// A folder of copied programs with this mark.
    fn copied(parent: &Path, name: &str, mark: &str) -> PathBuf {
        let place = parent.join(name);
        fs::create_dir(&place).unwrap();
        for file in PROGRAMS.into_iter().chain([mark]) {
            fs::write(place.join(file), "").unwrap();
        }
        place
    }

    #[test]
    fn copied_programs_are_taken_over_from_their_session_and_removed_by_the_agent_or_the_next_one()
    {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path().canonicalize().unwrap();
        let folder = Folder::make(&parent.join("campaign")).unwrap();
        let first = copied(&parent, "first", PUSHED_FILE);
        assert_eq!(keep_programs_in(&first, &folder).unwrap(), Some(first.clone()));
        assert!(first.join(KEPT_FILE).exists() && !first.join(PUSHED_FILE).exists());
        // Its agent was killed; that of the next session removes them.
        let second = copied(&parent, "second", PUSHED_FILE);
        assert_eq!(keep_programs_in(&second, &folder).unwrap(), Some(second.clone()));
        assert!(!first.exists() && second.exists());
        remove_programs(&second).unwrap();
        assert!(!second.exists());
        remove_programs(&second).unwrap();
        remove_noted_programs(&folder);
        // Something else is in the place: the next agent has its programs all the same.
        fs::write(&second, "").unwrap();
        let third = copied(&parent, "third", PUSHED_FILE);
        assert_eq!(keep_programs_in(&third, &folder).unwrap(), Some(third.clone()));
        assert!(second.is_file());
    }

    #[test]
    fn the_folder_of_a_relay_that_was_killed_is_removed_and_those_of_living_and_other_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let folder = |name: &str, seconds: u64| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.join("bus")).unwrap();
            fs::write(path.join("bus/nats.conf"), "").unwrap();
            let modified = SystemTime::now() - Duration::from_secs(seconds);
            File::open(&path).unwrap().set_modified(modified).unwrap();
            path
        };
        let dead = ["durio-relay-1", "durio-relay-2"].map(|name| folder(name, 61));
        let living = Folder::open(&folder("durio-relay-3", 3_600)).unwrap();
        assert!(living.try_lock().unwrap());
        // Its relay may not have locked it yet.
        folder("durio-relay-4", 50);
        let other = folder("durio-other", 3_600);
        std::os::unix::fs::symlink(&other, directory.path().join("durio-relay-5")).unwrap();
        fs::write(directory.path().join("durio-relay-6"), "").unwrap();
        let mut kept: Vec<String> = [3, 4, 5, 6].map(|at| format!("durio-relay-{at}")).into();
        if rustix::process::geteuid().is_root() {
            let foreign = folder("durio-relay-7", 3_600);
            std::os::unix::fs::chown(&foreign, Some(12_345), None).unwrap();
            kept.push("durio-relay-7".to_owned());
        }
        remove_dead_relays(directory.path()).unwrap();
        let names = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        kept.insert(0, "durio-other".to_owned());
        assert_eq!(names, kept);
        assert!(dead.iter().all(|path| !path.exists()) && other.join("bus/nats.conf").exists());
        // Its relay has ended since.
        drop(living);
        remove_dead_relays(directory.path()).unwrap();
        assert!(!directory.path().join("durio-relay-3").exists());
    }

    #[test]
    fn campaigns_that_end_at_the_same_time_are_all_in_the_list() {
        let directory = tempfile::tempdir().unwrap();
        let fleet = || Folder::open(directory.path()).unwrap();
        let names: Vec<String> = (0..4).map(|digit: u8| digit.to_string().repeat(32)).collect();
        thread::scope(|scope| {
            for name in &names {
                let fleet = fleet();
                scope.spawn(move || end_campaign(&fleet, name).unwrap());
            }
        });
        let ended = EndedCampaigns::open(&fleet()).unwrap();
        assert!(names.iter().all(|name| ended.check(name).is_err()));
    }

    #[test]
    fn programs_that_are_installed_or_belong_to_a_session_stay() {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path().canonicalize().unwrap();
        let folder = Folder::make(&parent.join("campaign")).unwrap();
        let installed = copied(&parent, "bin", "README");
        assert_eq!(keep_programs_in(&installed, &folder).unwrap(), None);
        let of_session = copied(&parent, "session", PUSHED_FILE);
        for place in [&installed, &of_session] {
            remove_programs(place).unwrap();
            assert_eq!(fs::read_dir(place).unwrap().count(), 3);
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&of_session, Some(12_345), None).unwrap();
            assert_eq!(keep_programs_in(&of_session, &folder).unwrap(), None, "another user's");
        }
        assert!(folder.names().unwrap().is_empty());
    }

    #[test]
    fn a_session_removes_the_programs_that_it_copied_unless_an_agent_has_taken_them_over() {
        let agents = ["exit 0", "mv \"${0%/*}/pushed\" \"${0%/*}/kept\"", "exit 3"];
        for (agent, left) in agents.into_iter().zip([0, 1, 0]) {
            let directory = tempfile::tempdir().unwrap();
            let agent = format!("#!/bin/sh\n[ \"$1\" = join ] || exit 4\n{agent}\n");
            let (first, second) = (Sha256::digest(&agent), Sha256::digest("durio"));
            let header = format!("{} 5 {first:x} {second:x}\n", agent.len());
            let mut session = Command::new("sh")
                .args(["-c", &pushed("join")])
                .env("TMPDIR", directory.path())
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = session.stdin.take().unwrap();
            input.write_all(&[header.as_bytes(), agent.as_bytes(), b"durio"].concat()).unwrap();
            drop(input);
            let code = session.wait().unwrap().code();
            assert_eq!(code, Some(if agent.contains("exit 3") { 3 } else { 0 }), "{agent}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), left, "{agent}");
        }
    }
}
