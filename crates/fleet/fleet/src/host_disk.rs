//! What an agent has on its host, and what that lets it do: the locks and the memory of a campaign, the
//! first key that ordered it, the plan and its permits. All of it may wait for the disk.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use durio_agree::host::HostMemory;
use durio_agree::host_file::{self, HOST_FILE, HostFile};
use durio_agree::message::{HostFacts, PlaceFacts, PlanSummary, is_campaign};
use durio_agree::permit::{PermitSource, PermittedTime, WriteWatch, permitted};
use durio_base::{Bytes, Nanos};
use durio_block::{Clock as _, Folder, MonotonicClock, read_bounded};
use durio_command::CommandError;
use durio_observe::{free_space, mounted_at};
use rustix::process::{Resource, getrlimit};

use crate::carrier::MEMORY_FILE;
use crate::child::{self, HostPlan, PermittedDevice};
use crate::invitation::Invitation;
use crate::launch::HostTarget;
use crate::programs::output_of;

/// The lock of this user's campaigns, and the file that names its holder.
const LOCK_FOLDER: &str = "lock";
const HOLDER_FILE: &str = "holder";
const MEMORY_BYTES_MAX: Bytes = Bytes::from_kib(64);

/// Of this user's campaigns, and of those of all users.
pub(crate) type HostLock = (Folder, MachineLock);

/// A plan that may be run, and what has to be watched then.
pub(crate) struct PermittedPlan {
    pub(crate) summary: PlanSummary,
    pub(crate) watch: Option<WriteWatch>,
    pub(crate) time: PermittedTime,
    pub(crate) devices: Vec<PermittedDevice>,
}

/// Why an invitation is refused: a later coordinator could otherwise take over the run of the first.
pub(crate) fn other_key(memory: &HostMemory, invitation: &Invitation) -> Option<&'static str> {
    memory.coordinator.as_ref().filter(|first| **first != invitation.coordinator)?;
    Some("the host obeys only the key that began the campaign; --key FILE gives it")
}

pub(crate) fn now() -> Nanos {
    Nanos::new(MonotonicClock.now().0)
}

/// One campaign at a time; an error names the one that has the lock.
pub(crate) fn take_lock(fleet: &Folder, campaign: &str) -> io::Result<Result<HostLock, String>> {
    let lock = fleet.own_folder_or_make(LOCK_FOLDER)?;
    if lock.try_lock()? {
        // Hosts of a test share a network namespace, and have an ID each.
        let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let machine = lock_as(id.trim(), campaign)?;
        lock.replace(HOLDER_FILE, campaign.as_bytes())?;
        return Ok(machine.map(|machine| (lock, machine)));
    }
    let holder = lock.open_own(HOLDER_FILE);
    let holder = holder.and_then(|file| read_bounded(file, MEMORY_BYTES_MAX));
    let holder = holder.map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(Err(holder.unwrap_or_else(|_| "of an unknown name".to_owned())))
}

/// The lock of a machine, until this is dropped; and the name of its campaign, for others. Users cannot
/// see the locks in each other's folders. An abstract socket needs no file: all users of a network
/// namespace see its name, and the end of its process frees it.
type MachineLock = Vec<UnixListener>;

/// An error names the campaign that has the lock.
fn lock_as(machine_id: &str, campaign: &str) -> io::Result<Result<MachineLock, String>> {
    let machine: String = "durio-fleet-".chars().chain(machine_id.chars().take(32)).collect();
    let Some(named) = bind(&format!("{machine}.{campaign}"))? else {
        // The machine takes part under two names: the coordinator says which.
        return Ok(Ok(Vec::new()));
    };
    Ok(match bind(&machine)? {
        Some(lock) => Ok(vec![lock, named]),
        None => {
            Err(other_campaign(&machine, campaign).unwrap_or_else(|| "of another user".to_owned()))
        }
    })
}

/// `None` if another process has the name.
fn bind(name: &str) -> io::Result<Option<UnixListener>> {
    match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

fn other_campaign(machine: &str, own: &str) -> Option<String> {
    let sockets = fs::read("/proc/net/unix").ok()?;
    let sockets = String::from_utf8_lossy(&sockets);
    let prefix = format!("@{machine}.");
    let names = sockets.lines().filter_map(|line| line.rsplit(' ').next());
    let mut campaigns = names.filter_map(|name| name.strip_prefix(&*prefix));
    campaigns.find(|name| *name != own && is_campaign(name)).map(str::to_owned)
}

pub(crate) fn read_memory(folder: &Folder) -> Result<HostMemory, CommandError> {
    let path = folder.path().join(MEMORY_FILE);
    let failed = |error| CommandError::io("read", &path, error);
    match folder.open_own(MEMORY_FILE).and_then(|file| read_bounded(file, MEMORY_BYTES_MAX)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HostMemory::default()),
        // Not as if nothing had run: the run would be made twice.
        Err(error) => Err(failed(error)),
        Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into())),
    }
}

pub(crate) fn store_memory(folder: &Folder, memory: &HostMemory) -> io::Result<()> {
    folder.replace(MEMORY_FILE, &serde_json::to_vec(memory)?)
}

/// The plan of this host, if the host file or, without one, the login permits all that it writes.
pub(crate) fn check_plan(
    durio: &Path,
    folder: &Folder,
    spec: &str,
    invitation: &Invitation,
) -> Result<PermittedPlan, CommandError> {
    let path = folder.path().join(child::SPEC_FILE);
    let written = folder.replace(child::SPEC_FILE, spec.as_bytes());
    written.map_err(|error| CommandError::io("write the spec", &path, error))?;
    let Invitation { targets, coordinator: key, .. } = invitation;
    let file: Option<HostFile> = host_file::read(HOST_FILE.as_ref())?;
    if file.is_none() && invitation.is_joined {
        return Err(CommandError::cannot_measure(format!("the host file {HOST_FILE} is gone")));
    }
    let devices = child::permitted_devices(file.as_ref(), key, targets, child::serial_at);
    let HostPlan { mut summary, writes } = child::plan(durio, &path, targets, &devices)?;
    summary.facts = Some(Box::new(facts(durio, targets, file.is_some())));
    let by_login: Vec<(String, PathBuf)> =
        targets.iter().map(|target| (target.name.clone(), target.path.clone())).collect();
    let source = match &file {
        Some(file) => PermitSource::File(file),
        None => PermitSource::Targets(&by_login),
    };
    let times = (SystemTime::now(), now());
    let watch = permitted(&writes, source, times.0, key)?;
    let limits = file.map(|file| file.limits).unwrap_or_default();
    let time = PermittedTime::new(&writes, &limits, times);
    Ok(PermittedPlan { summary, watch, time, devices })
}

/// What this host says of itself.
fn facts(durio: &Path, targets: &[HostTarget], has_host_file: bool) -> HostFacts {
    let version = output_of(durio, &["--version".as_ref()]).unwrap_or_default();
    let place = |target: &HostTarget| {
        let stat = rustix::fs::statvfs(&target.path).ok()?;
        let mounts = target.path.ancestors().map(mounted_at).find(|mounts| !mounts.is_empty());
        Some(PlaceFacts {
            target: target.name.clone(),
            filesystem: mounts?.pop()?.filesystem,
            free_bytes: free_space(&stat).get(),
        })
    };
    HostFacts {
        durio: version.trim().strip_prefix("durio ").unwrap_or(version.trim()).to_owned(),
        fleet: env!("CARGO_PKG_VERSION").to_owned(),
        epoch_ns: epoch(),
        open_files_max: getrlimit(Resource::Nofile).maximum,
        has_host_file,
        places: targets.iter().filter_map(place).collect(),
    }
}

/// The time of day, less the monotonic clock.
pub(crate) fn epoch() -> u64 {
    let monotonic = MonotonicClock.now().0;
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(today).get().saturating_sub(monotonic)
}

#[cfg(test)]
mod tests {
    use durio_command::random_token;
    use durio_record::fleet::HostState;

    use super::*;
    use crate::tests::invitation;

    #[test]
    fn the_first_key_of_a_campaign_is_the_only_one_until_it_ends() {
        let invitation = Invitation { coordinator: "UFIRST".to_owned(), ..invitation() };
        let memory = |key: Option<&str>| HostMemory {
            coordinator: key.map(str::to_owned),
            ..HostMemory::default()
        };
        assert_eq!(other_key(&memory(None), &invitation), None);
        assert_eq!(other_key(&memory(Some("UFIRST")), &invitation), None);
        let sentence = "the host obeys only the key that began the campaign; --key FILE gives it";
        assert_eq!(other_key(&memory(Some("UOTHER")), &invitation), Some(sentence));
    }

    #[test]
    fn one_campaign_has_the_lock_of_a_user_and_the_others_learn_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let fleet = Folder::open(directory.path()).unwrap();
        let held = fleet.own_folder_or_make(LOCK_FOLDER).unwrap();
        assert!(held.try_lock().unwrap());
        let named = || take_lock(&fleet, "b").unwrap().map(|_| ());
        assert_eq!(named(), Err("of an unknown name".to_owned()));
        held.replace(HOLDER_FILE, b"a").unwrap();
        assert_eq!(named(), Err("a".to_owned()));
    }

    #[test]
    fn a_memory_that_cannot_be_read_is_not_taken_for_none() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(directory.path()).unwrap();
        assert_eq!(read_memory(&folder).unwrap(), HostMemory::default());
        folder.replace(MEMORY_FILE, br#"{"has_run":true,"newest":[3,4]}"#).unwrap();
        let mut memory = HostMemory { has_run: true, newest: (3, 4), ..HostMemory::default() };
        assert_eq!(read_memory(&folder).unwrap(), memory);
        (memory.done, memory.coordinator) = (Some(HostState::Failed), Some("U".to_owned()));
        store_memory(&folder, &memory).unwrap();
        assert_eq!(read_memory(&folder).unwrap(), memory);
        folder.replace(MEMORY_FILE, b"{").unwrap();
        read_memory(&folder).unwrap_err();
    }

    #[test]
    fn a_machine_has_one_campaign_at_a_time_whose_name_others_learn() {
        let [id, first, second] = [(); 3].map(|()| random_token());
        let held = lock_as(&id, &first).unwrap().unwrap();
        assert_eq!(held.len(), 2);
        assert_eq!(lock_as(&id, &second).unwrap().map(|_| ()), Err(first.clone()));
        // Another name of the same machine.
        assert!(lock_as(&id, &first).unwrap().unwrap().is_empty());
        assert!(lock_as(&random_token(), &second).unwrap().is_ok());
        drop(held);
        assert!(lock_as(&id, &second).unwrap().is_ok());
    }

    #[test]
    fn a_lock_without_a_campaign_is_another_users() {
        let id = random_token();
        let _other = bind(&format!("durio-fleet-{id}")).unwrap().unwrap();
        // Any user can choose a name; one that no campaign has is not shown.
        let _named = bind(&format!("durio-fleet-{id}.<b>")).unwrap().unwrap();
        let refused = lock_as(&id, &random_token()).unwrap().map(|_| ());
        assert_eq!(refused, Err("of another user".to_owned()));
    }

    #[test]
    fn a_host_says_where_its_targets_are_and_leaves_out_those_that_are_missing() {
        let targets = ["data=/proc/self", "log=/no/such/place"].map(|text| text.parse().unwrap());
        let found = facts(Path::new("/no/such/durio"), &targets, true);
        let (target, filesystem) = ("data".to_owned(), "proc".to_owned());
        assert_eq!(found.places, [PlaceFacts { target, filesystem, free_bytes: 0 }]);
        assert!(found.has_host_file && found.durio.is_empty(), "{found:?}");
        assert_eq!(found.fleet, env!("CARGO_PKG_VERSION"));
    }
}
