//! The durio of this host: what it plans, the run that it makes, and the run folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use durio_agree::folder_digest::run_summary;
use durio_agree::host::{ChildEvent, GateAnswer, HostInput};
use durio_agree::host_file::HostFile;
use durio_agree::message::{
    CampaignStep, PlanSummary, PlannedStep, PlannedWrite, RunSummary, WritePlace, digest,
};
use durio_agree::permit::{PlannedWrites, overwritable};
use durio_base::{Bytes, Nanos};
use durio_block::{Folder, HeldTarget, TargetIdentity, TargetType};
use durio_command::CommandError;
use durio_observe::{device_serial, moved_bytes};
use durio_record::file_names;
use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;

use crate::launch::HostTarget;
use crate::programs::{last_line, output_of};

/// Where the run of a campaign is, in the campaign's folder of this host.
pub(crate) const RUNS_FOLDER: &str = "runs";
pub(crate) const SPEC_FILE: &str = "spec.toml";
const OUTPUT_FILE: &str = "durio.log";

/// The parts of `durio plan --format json` that a campaign depends on.
#[derive(Deserialize)]
struct ChildPlan {
    targets: Vec<PlannedTarget>,
    steps: Vec<StepDocument>,
    writes: Vec<WritesDocument>,
}

/// The most that is written to a target, by its index.
#[derive(Deserialize)]
struct WritesDocument {
    target: usize,
    written_max_bytes: Option<u64>,
    rate_max_bytes_per_second: Option<u64>,
}

#[derive(Deserialize)]
struct PlannedTarget {
    name: String,
    kind: String,
    #[serde(default)]
    directory: Option<PathBuf>,
    #[serde(default)]
    path: Option<PathBuf>,
    size_bytes: Option<u64>,
    destroy: bool,
}

#[derive(Deserialize)]
struct StepDocument {
    index: u32,
    role: String,
    #[serde(default)]
    section: Option<u32>,
    limit: LimitDocument,
    ramp_ns: u64,
    engine: String,
    #[serde(default)]
    beside: Vec<LoadDocument>,
}

#[derive(Deserialize)]
struct LoadDocument {
    engine: String,
}

#[derive(Deserialize)]
struct LimitDocument {
    #[serde(default)]
    duration_ns: Option<u64>,
}

impl StepDocument {
    fn length(&self) -> Option<u64> {
        Some(self.limit.duration_ns?.saturating_add(self.ramp_ns))
    }

    /// By fio, whose bytes are not counted as durio's while it runs.
    fn is_of_fio(&self) -> bool {
        self.engine == "fio" || self.beside.iter().any(|load| load.engine == "fio")
    }
}

/// A plan of this host, and all that it would write.
#[derive(Debug)]
pub(crate) struct HostPlan {
    pub(crate) summary: PlanSummary,
    pub(crate) writes: PlannedWrites,
}

/// Lets durio plan; nothing is written.
///
/// # Errors
/// What durio refuses, or a plan that is not understood.
pub(crate) fn plan(
    durio: &Path,
    spec: &Path,
    targets: &[HostTarget],
    devices: &[PermittedDevice],
) -> Result<HostPlan, CommandError> {
    let mut arguments: Vec<OsString> =
        ["plan", "--format", "json"].into_iter().map(OsString::from).collect();
    arguments.extend(target_arguments(targets, devices));
    arguments.push(spec.into());
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    read_plan(&output_of(durio, &arguments)?)
}

fn read_plan(text: &str) -> Result<HostPlan, CommandError> {
    let document: ChildPlan = serde_json::from_str(text)
        .map_err(|error| CommandError::cannot(error).context("cannot understand durio's plan"))?;
    let measured = document.steps.iter().filter(|step| step.role == "measure");
    let steps = measured.map(|step| PlannedStep {
        step: CampaignStep { section: Some(step.section.unwrap_or(0)), round: 0, step: step.index },
        length_ns: step.length(),
    });
    let mut summary = PlanSummary::new(digest(text), steps.collect());
    let lengths: Option<Vec<u64>> = document.steps.iter().map(StepDocument::length).collect();
    let duration = lengths.map(|lengths| Nanos::new(lengths.iter().sum()));
    let is_watchable = !document.steps.iter().any(StepDocument::is_of_fio);
    let limits = |index: usize| document.writes.iter().find(|writes| writes.target == index);
    let targets = document.targets.into_iter().enumerate();
    let writes: Vec<PlannedWrite> =
        targets.filter_map(|(index, target)| write_to(target, limits(index))).collect();
    summary.writes.clone_from(&writes);
    Ok(HostPlan { summary, writes: PlannedWrites { writes, duration, is_watchable } })
}

/// `None` for a target that is only read.
fn write_to(target: PlannedTarget, limits: Option<&WritesDocument>) -> Option<PlannedWrite> {
    // durio also plans what it would refuse to overwrite.
    let is_written = limits.is_some_and(|limits| limits.written_max_bytes != Some(0));
    let destroys = target.kind != "new_file";
    let place = match target.kind.as_str() {
        // A place that is missing is permitted nowhere.
        "new_file" => WritePlace::Folder(target.directory.unwrap_or_default()),
        _ if !(target.destroy || is_written) => return None,
        "device" => {
            let path = target.path.unwrap_or_default();
            WritePlace::Device { serial: serial_at(&path).unwrap_or_default(), path }
        }
        _ => WritePlace::Folder(target.path?),
    };
    let size = target.size_bytes.map_or(Bytes::ZERO, Bytes::new);
    let written = limits.and_then(|limits| limits.written_max_bytes).map(Bytes::new);
    let rate = limits.and_then(|limits| limits.rate_max_bytes_per_second).map(Bytes::new);
    Some(PlannedWrite { target: target.name, place, size, written, rate, destroys })
}

/// A device that a run may overwrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PermittedDevice {
    path: PathBuf,
    serial: String,
    /// Also if it holds a filesystem or an array's member.
    force_signature: bool,
}

/// The targets that are devices which the host's file lets the coordinator of this key overwrite.
pub(crate) fn permitted_devices(
    file: Option<&HostFile>,
    key: &str,
    targets: &[HostTarget],
    serial_at: impl Fn(&Path) -> Option<String>,
) -> Vec<PermittedDevice> {
    let device = |target: &HostTarget| {
        let (permitted, force_signature) = overwritable(file?, key, &target.name)?;
        let serial = serial_at(&target.path).filter(|serial| serial == permitted)?;
        Some(PermittedDevice { path: target.path.clone(), serial, force_signature })
    };
    targets.iter().filter_map(device).collect()
}

/// The serial number of the whole device at a path.
pub(crate) fn serial_at(path: &Path) -> Option<String> {
    let held = HeldTarget::open(path).ok()?;
    let (TargetType::BlockDevice(_), TargetIdentity::Device(number)) =
        (held.kind(), held.identity())
    else {
        return None;
    };
    let name = format!("{}:{}", major(number), minor(number));
    device_serial(&Path::new("/sys/dev/block").join(name))
}

/// durio compares a serial number with the device that it holds open and writes to. Its
/// --force-signature is for all devices of a run, so all their permits have to allow it.
fn target_arguments(
    targets: &[HostTarget],
    devices: &[PermittedDevice],
) -> impl Iterator<Item = OsString> {
    let places = targets.iter().flat_map(|HostTarget { name, path }| {
        let mut place = OsString::from(format!("{name}="));
        place.push(path);
        [OsString::from("--target"), place]
    });
    let destroy = |device: &PermittedDevice| OsString::from(format!("--destroy={}", device.serial));
    let is_forced = !devices.is_empty() && devices.iter().all(|device| device.force_signature);
    let force = is_forced.then(|| OsString::from("--force-signature"));
    places.chain(devices.iter().map(destroy)).chain(force)
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct RunningChild {
    gate: OwnedWriteHalf,
    pid: Option<Pid>,
}

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct ChildOrder<'o> {
    pub(crate) durio: &'o Path,
    /// The campaign's folder of this host.
    pub(crate) folder: &'o Folder,
    pub(crate) targets: &'o [HostTarget],
    pub(crate) devices: &'o [PermittedDevice],
    pub(crate) name: Option<&'o str>,
}

impl ChildOrder<'_> {
    fn arguments(&self, gate: RawFd) -> Vec<OsString> {
        let path = self.folder.path();
        let gate = gate.to_string();
        let words = ["run", "--fresh", "--yes", "--quiet", "--gate", gate.as_str(), "--out"];
        let mut arguments: Vec<OsString> = words.map(OsString::from).into();
        arguments.push(path.join(RUNS_FOLDER).into());
        if let Some(name) = self.name {
            arguments.extend(["--name", name].map(OsString::from));
        }
        arguments.extend(target_arguments(self.targets, self.devices));
        arguments.push(path.join(SPEC_FILE).into());
        arguments
    }

    /// Starts durio behind a gate: it ends when this process does. This may wait for a disk.
    ///
    /// # Errors
    /// If it cannot be started, or a device is another one than when it was permitted.
    pub(crate) fn start(&self) -> io::Result<StartedChild> {
        let is_other =
            |device: &&PermittedDevice| serial_at(&device.path).as_ref() != Some(&device.serial);
        if let Some(PermittedDevice { path, serial, .. }) = self.devices.iter().find(is_other) {
            let path = path.display();
            let text = format!("'{path}' is not the device with serial '{serial}' any more");
            return Err(io::Error::other(text));
        }
        self.folder.own_folder_or_make(RUNS_FOLDER)?;
        self.folder.remove_file(OUTPUT_FILE)?;
        let output = self.folder.make_file_with(OUTPUT_FILE, 0o600)?;
        let (gate, theirs) = BlockingStream::pair()?;
        // The only program that is started while this is open.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let mut command = Command::new(self.durio);
        command.args(self.arguments(theirs.as_raw_fd()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child = command.spawn()?;
        Ok(StartedChild { child, gate, output: self.folder.path().join(OUTPUT_FILE) })
    }
}

/// A durio that nothing is heard of yet.
#[derive(Debug)]
pub(crate) struct StartedChild {
    child: Child,
    gate: BlockingStream,
    output: PathBuf,
}

impl StartedChild {
    /// Hears its events and its exit.
    ///
    /// # Errors
    /// If it cannot be heard.
    pub(crate) fn follow<F>(self, hear: F) -> io::Result<RunningChild>
    where
        F: Fn(HostInput) + Send + Sync + 'static,
    {
        let Self { mut child, gate, output } = self;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        gate.set_nonblocking(true)?;
        let (reader, gate) = UnixStream::from_std(gate)?.into_split();
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<ChildEvent>(&line) {
                    Ok(event) => hear(HostInput::Child(event)),
                    Err(_) => break,
                }
            }
            let failure = match child.wait().await {
                // A goal of the spec may be missed: the run is whole.
                Ok(status) if matches!(status.code(), Some(0 | 1)) => None,
                Ok(_) => {
                    let read = spawn_blocking(move || fs::read(output).unwrap_or_default());
                    Some(last_line(&read.await.unwrap_or_default()))
                }
                Err(error) => Some(error.to_string()),
            };
            hear(HostInput::ChildExited(failure));
        });
        Ok(RunningChild { gate, pid })
    }
}

impl RunningChild {
    pub(crate) async fn answer(&mut self, answer: &GateAnswer) {
        if let Ok(mut line) = serde_json::to_vec(answer) {
            line.push(b'\n');
            // A child that is gone has said so.
            let _ = self.gate.write_all(&line).await;
        }
    }

    /// Bytes that it has written so far, and read from storage; `None` if the kernel does not tell.
    pub(crate) fn moved(&self) -> Option<[Bytes; 2]> {
        let process = u32::try_from(self.pid?.as_raw_nonzero().get()).ok()?;
        moved_bytes(Path::new("/"), process).map(|counts| counts.map(Bytes::new))
    }

    /// True if its exit is about to be heard.
    pub(crate) fn has_exited(&self) -> bool {
        self.pid.is_none_or(|pid| test_kill_process(pid).is_err())
    }

    /// Asks it to end in order; its exit is heard later.
    pub(crate) fn stop(&self) {
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

/// The run folder of the campaign, with its digest.
///
/// # Errors
/// If it is missing, or cannot be read.
pub(crate) fn inspect(runs: &Path) -> Result<RunSummary, String> {
    let inspected = || -> io::Result<RunSummary> {
        let folder = Folder::open(runs)?;
        let name = run_name(&folder)?.ok_or(io::ErrorKind::NotFound)?;
        let folder = folder.folder(&name)?;
        await_end(&folder);
        run_summary(&folder, name)
    };
    inspected().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "durio left no run folder".to_owned(),
        _ => format!("cannot read the run folder: {error}"),
    })
}

/// The run in a folder of runs; a name with a dot is not finished.
pub(crate) fn run_name(runs: &Folder) -> io::Result<Option<String>> {
    let names = runs.names()?.into_iter().filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| !name.starts_with('.')).max())
}

/// Waits for a run whose agent was killed: it ends by its gate, and removes its files. A run that lives
/// has its journal locked.
fn await_end(folder: &Folder) {
    const LOOKS: u32 = 600;
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    for _ in 0..LOOKS {
        let Ok(journal) = folder.open_file(file_names::JOURNAL) else { return };
        if flock(&journal, FlockOperation::NonBlockingLockShared).is_ok() {
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// A piece of a file of a run.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read_piece(
    runs: &Path,
    run: &str,
    (file, offset, length): (&str, u64, u64),
) -> io::Result<Vec<u8>> {
    let folder = Folder::open(runs)?.folder(run)?;
    let mut opened = folder.open_file(file)?;
    opened.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    opened.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use durio_agree::host_file;
    use durio_agree::sign::SigningKey;

    use super::*;

    const PLAN: &str = r#"{"schema":1,"targets":[
        {"name":"null","kind":"null_device","path":"/dev/zero","size_bytes":1,"destroy":false},
        {"name":"data","kind":"new_file","directory":"/srv/x","size_bytes":4096,"destroy":false},
        {"name":"raw","kind":"device","path":"/dev/sdx","size_bytes":1,"destroy":false}],
        "steps":[
        {"index":0,"role":"self_cost","limit":{"operations":5},"ramp_ns":0,"engine":"sync"},
        {"index":1,"role":"measure","section":0,"limit":{"duration_ns":7},"ramp_ns":2,
         "engine":"sync","beside":[{"engine":"uring"}]},
        {"index":2,"role":"measure","section":3,"limit":{"operations":9},"ramp_ns":0,
         "engine":"uring"}],
        "writes":[{"target":1,"written_max_bytes":12288,"rate_max_bytes_per_second":512},
        {"target":2,"written_max_bytes":0}]}"#;

    #[test]
    fn a_plan_gives_its_measured_steps_and_its_writes() {
        let plan = read_plan(PLAN).unwrap();
        let steps: Vec<(Option<u32>, u32, Option<u64>)> = plan
            .summary
            .steps
            .iter()
            .map(|planned| (planned.step.section, planned.step.step, planned.length_ns))
            .collect();
        assert_eq!(steps, [(Some(0), 1, Some(9)), (Some(3), 2, None)]);
        assert_eq!(plan.summary.plan_digest, digest(PLAN));
        let [write] = &plan.writes.writes[..] else { panic!("{:?}", plan.writes) };
        assert_eq!(write.place, WritePlace::Folder("/srv/x".into()));
        assert_eq!((write.target.as_str(), write.size), ("data", Bytes::new(4096)));
        assert_eq!((write.destroys, plan.writes.duration), (false, None));
        assert_eq!((write.written, write.rate), (Some(Bytes::new(12288)), Some(Bytes::new(512))));
        assert!(plan.writes.is_watchable);
        let text = PLAN.replace(r#""directory":"/srv/x","#, "");
        let plan = read_plan(&text).unwrap();
        let nowhere = WritePlace::Folder(PathBuf::new());
        assert_eq!(plan.writes.writes[0].place, nowhere);
        // What exists is overwritten by consent alone, so it is shown to the permits.
        for (kind, place) in [
            ("device", WritePlace::Device { path: "/dev/sdx".into(), serial: String::new() }),
            ("existing_file", WritePlace::Folder("/dev/sdx".into())),
        ] {
            let kind = format!(r#""kind":"{kind}","path":"/dev/sdx""#);
            let known = PLAN.replace(r#""kind":"device","path":"/dev/sdx""#, &kind);
            let destroyed = known.replace(r#""destroy":false}],"#, r#""destroy":true}],"#);
            let written = known.replace(r#""written_max_bytes":0}"#, r#""written_max_bytes":8}"#);
            let unlimited = written.replace(r#","written_max_bytes":8"#, "");
            for text in [destroyed, written, unlimited] {
                let plan = read_plan(&text).unwrap();
                let [_, raw] = &plan.writes.writes[..] else { panic!("{:?}", plan.writes) };
                assert_eq!((raw.target.as_str(), &raw.place, raw.destroys), ("raw", &place, true));
            }
        }
        // A limit that the plan does not have is absent, and fio's writes cannot be counted.
        let timed =
            PLAN.replace(r#""written_max_bytes":12288,"#, "").replace("uring\"}]", "fio\"}]");
        let plan = read_plan(&timed).unwrap();
        assert_eq!((plan.writes.writes[0].written, plan.writes.is_watchable), (None, false));
    }

    #[test]
    fn a_device_is_named_to_durio_by_serial_if_the_hosts_file_lets_this_key_overwrite_it() {
        let [own, other] = [(); 2].map(|()| SigningKey::generate().public());
        let text = format!(
            "schema = 1\n[[coordinator]]\nname = \"a\"\nkey = \"{own}\"\n\
             [[coordinator]]\nname = \"b\"\nkey = \"{other}\"\n\
             [[permit]]\ncoordinator = \"a\"\ntarget = \"raw\"\ndevice = \"serial:S1\"\n\
             destroy = true\n<more>\
             [[permit]]\ncoordinator = \"a\"\ntarget = \"log\"\ndevice = \"serial:S2\"\n\
             [[permit]]\ncoordinator = \"a\"\ntarget = \"data\"\npath = \"/srv\"\n"
        );
        let parse =
            |more: &str| host_file::parse(&text.replace("<more>", more), "fleet.toml").unwrap();
        let (file, forced) = (parse(""), parse("force_signature = true\n"));
        let targets = ["raw=/dev/x1", "log=/dev/x2", "data=/dev/x1", "more=/dev/x1"];
        let targets = targets.map(|target| target.parse::<HostTarget>().unwrap());
        let asked = |file: Option<&HostFile>, key: &str, first: &str| {
            let serial = |path: &Path| match path == Path::new("/dev/x1") {
                true => Some(first.to_owned()),
                false => Some("S2".to_owned()),
            };
            permitted_devices(file, key, &targets, serial)
        };
        let path = PathBuf::from("/dev/x1");
        let device = PermittedDevice { path, serial: "S1".to_owned(), force_signature: false };
        assert_eq!(asked(Some(&file), &own, "S1"), std::slice::from_ref(&device));
        assert_eq!(asked(Some(&file), &own, "S3"), [], "another device");
        assert_eq!(asked(Some(&file), &other, "S1"), [], "another coordinator");
        assert_eq!(asked(None, &own, "S1"), [], "no file");
        let forced_device = PermittedDevice { force_signature: true, ..device.clone() };
        assert_eq!(asked(Some(&forced), &own, "S1"), std::slice::from_ref(&forced_device));
        assert_eq!(asked(Some(&forced), &other, "S1"), [], "another coordinator");

        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(directory.path()).unwrap();
        let (durio, name) = (Path::new("/no/durio"), None);
        let devices = std::slice::from_ref(&device);
        let order = ChildOrder { durio, folder: &folder, targets: &targets[..1], devices, name };
        let arguments = order.arguments(7);
        let end: Vec<&OsStr> =
            arguments.iter().rev().take(4).rev().map(OsString::as_os_str).collect();
        let spec = directory.path().join(SPEC_FILE);
        let expected: [&OsStr; 4] =
            ["--target".as_ref(), "raw=/dev/x1".as_ref(), "--destroy=S1".as_ref(), spec.as_ref()];
        assert_eq!(end, expected);
        let is_destroy = |word: &OsString| word.to_string_lossy().starts_with("--destroy");
        assert!(!ChildOrder { devices: &[], ..order }.arguments(7).iter().any(is_destroy));
        // One permit that does not allow it keeps the others from it.
        for (devices, is_forced) in [
            (vec![forced_device.clone()], true),
            (vec![forced_device.clone(), forced_device.clone()], true),
            (vec![forced_device, device.clone()], false),
            (vec![device.clone()], false),
            (Vec::new(), false),
        ] {
            let words: Vec<OsString> = target_arguments(&targets, &devices).collect();
            let found = words.iter().filter(|word| *word == "--force-signature").count();
            assert_eq!(found, usize::from(is_forced), "{words:?}");
        }
        // The place has no such device.
        let error = order.start().unwrap_err();
        assert_eq!(error.to_string(), "'/dev/x1' is not the device with serial 'S1' any more");
        assert!(folder.names().unwrap().is_empty());
        assert_eq!(serial_at(directory.path()), None);
    }

    #[test]
    fn a_plan_whose_steps_all_end_by_time_takes_their_sum_with_ramps() {
        let timed = PLAN
            .replace(r#""limit":{"operations":5}"#, r#""limit":{"duration_ns":3}"#)
            .replace(r#""limit":{"operations":9}"#, r#""limit":{"duration_ns":20}"#);
        let plan = read_plan(&timed).unwrap();
        assert_eq!(plan.writes.duration, Some(Nanos::new(3 + 7 + 2 + 20)));
        let lengths: Vec<Option<u64>> =
            plan.summary.steps.iter().map(|planned| planned.length_ns).collect();
        assert_eq!(lengths, [Some(9), Some(20)]);
    }

    #[test]
    fn of_several_runs_the_newest_that_has_its_name_is_told() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["20270102-run", "20270101-run", ".20270103-run"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(inspect(directory.path()).unwrap().name, "20270102-run");
        let missing = inspect(&directory.path().join("missing")).unwrap_err();
        assert_eq!(missing, "durio left no run folder");
    }

    #[test]
    fn a_run_folder_is_told_with_its_digest_and_read_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(inspect(directory.path()).unwrap_err(), "durio left no run folder");
        let run = directory.path().join("20270101-run");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("run.json"), "{}\n").unwrap();
        fs::write(run.join("events.jsonl"), "").unwrap();
        fs::write(run.join(file_names::REPORT), "<p>").unwrap();
        let found = inspect(directory.path()).unwrap();
        assert_eq!(found.name, "20270101-run");
        let files: Vec<(&str, u64)> =
            found.files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
        assert_eq!(files, [("events.jsonl", 0), ("run.json", 3)]);
        // As durio_agree::folder_digest has it.
        let expected = durio_agree::folder_digest::folder_digest(&run).unwrap();
        assert_eq!(found.digest, expected);
        let piece = read_piece(directory.path(), &found.name, ("run.json", 1, 2)).unwrap();
        assert_eq!(piece, b"}\n");
        read_piece(directory.path(), &found.name, ("../x", 0, 1)).unwrap_err();
    }
}
