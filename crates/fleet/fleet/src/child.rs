//! The durio of this host: what it plans, the run that it makes, and the run folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use durio_agree::folder_digest::run_summary;
use durio_agree::host::{ChildEvent, GateAnswer};
use durio_agree::message::{
    CampaignStep, PlanSummary, PlannedStep, PlannedWrite, RunSummary, WritePlace, digest,
};
use durio_agree::permit::PlannedWrites;
use durio_base::{Bytes, Nanos};
use durio_block::Folder;
use durio_command::CommandError;
use durio_observe::written_bytes;
use durio_record::file_names;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::Command;

use crate::invitation::HostTarget;
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
) -> Result<HostPlan, CommandError> {
    let mut arguments: Vec<OsString> =
        ["plan", "--format", "json"].into_iter().map(OsString::from).collect();
    arguments.extend(target_arguments(targets));
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

/// `None` for a target that is only read: durio writes to what exists if it is to destroy that.
fn write_to(target: PlannedTarget, limits: Option<&WritesDocument>) -> Option<PlannedWrite> {
    let place = match target.kind.as_str() {
        "new_file" => WritePlace::Folder(target.directory?),
        _ if target.destroy => WritePlace::Folder(target.path?),
        _ => return None,
    };
    let size = target.size_bytes.map_or(Bytes::ZERO, Bytes::new);
    let written = limits.and_then(|limits| limits.written_max_bytes).map(Bytes::new);
    let rate = limits.and_then(|limits| limits.rate_max_bytes_per_second).map(Bytes::new);
    let (target, destroys) = (target.name, target.destroy);
    Some(PlannedWrite { target, place, size, written, rate, destroys })
}

fn target_arguments(targets: &[HostTarget]) -> impl Iterator<Item = OsString> + '_ {
    targets.iter().flat_map(|HostTarget { name, path }| {
        let mut place = OsString::from(format!("{name}="));
        place.push(path);
        [OsString::from("--target"), place]
    })
}

/// What a child says.
pub(crate) enum ChildWord {
    Event(ChildEvent),
    /// With a failure in words.
    Exited(Option<String>),
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
    pub(crate) name: Option<&'o str>,
}

impl RunningChild {
    /// Starts durio behind a gate: it ends when this process does.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start<F>(order: &ChildOrder<'_>, hear: F) -> io::Result<Self>
    where
        F: Fn(ChildWord) + Clone + Send + Sync + 'static,
    {
        let (ours, theirs) = BlockingStream::pair()?;
        // The only program that is started while this is open.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let path = order.folder.path();
        order.folder.remove_file(OUTPUT_FILE)?;
        let output = order.folder.make_file_with(OUTPUT_FILE, 0o600)?;
        let mut command = Command::new(order.durio);
        command.args(["run", "--fresh", "--yes", "--quiet", "--gate"]);
        command.arg(theirs.as_raw_fd().to_string());
        command.arg("--out").arg(path.join(RUNS_FOLDER));
        if let Some(name) = order.name {
            command.args(["--name", name]);
        }
        command.args(target_arguments(order.targets)).arg(path.join(SPEC_FILE));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let mut child = command.spawn()?;
        drop(theirs);
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        ours.set_nonblocking(true)?;
        let (reader, gate) = UnixStream::from_std(ours)?.into_split();
        let output = path.join(OUTPUT_FILE);
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<ChildEvent>(&line) {
                    Ok(event) => hear(ChildWord::Event(event)),
                    Err(_) => break,
                }
            }
            let failure = match child.wait().await {
                // A goal of the spec may be missed: the run is whole.
                Ok(status) if matches!(status.code(), Some(0 | 1)) => None,
                Ok(_) => Some(last_line(&fs::read(&output).unwrap_or_default())),
                Err(error) => Some(error.to_string()),
            };
            hear(ChildWord::Exited(failure));
        });
        Ok(Self { gate, pid })
    }

    pub(crate) async fn answer(&mut self, answer: &GateAnswer) {
        if let Ok(mut line) = serde_json::to_vec(answer) {
            line.push(b'\n');
            // A child that is gone has said so.
            let _ = self.gate.write_all(&line).await;
        }
    }

    /// Bytes that it has written so far; `None` if the kernel does not tell.
    pub(crate) fn written(&self) -> Option<Bytes> {
        let process = u32::try_from(self.pid?.as_raw_nonzero().get()).ok()?;
        written_bytes(Path::new("/"), process).map(Bytes::new)
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
/// If there is none, or it cannot be read.
pub(crate) fn inspect(runs: &Path) -> Result<RunSummary, String> {
    let inspected = || -> io::Result<Option<RunSummary>> {
        let folder = Folder::open(runs)?;
        let Some(name) = run_name(&folder)? else { return Ok(None) };
        let folder = folder.folder(&name)?;
        await_end(&folder);
        run_summary(&folder, name).map(Some)
    };
    match inspected() {
        Ok(Some(run)) => Ok(run),
        Ok(None) => Err("durio left no run folder".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("durio left no run folder".to_owned())
        }
        Err(error) => Err(format!("cannot read the run folder: {error}")),
    }
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
        // A limit that the plan does not have is absent, and fio's writes cannot be counted.
        let timed =
            PLAN.replace(r#""written_max_bytes":12288,"#, "").replace("uring\"}]", "fio\"}]");
        let plan = read_plan(&timed).unwrap();
        assert_eq!((plan.writes.writes[0].written, plan.writes.is_watchable), (None, false));
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
