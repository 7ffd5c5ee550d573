//! A record after a power cut: the calls by which it was written are traced, and at each of them the
//! power is cut: of what had not been synced any part is lost. What is left is read as far as it goes,
//! holds every step that had ended, and never shows what was not recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use durio_plan::Role;
use durio_record::{Event, RunFolder, TimedEvent, file_names};

use crate::requirements::has;
use crate::sandbox::Sandbox;
use crate::seeded::Seeded;

const SPEC: &str = r#"
schema = 1
name = "tiny"
summary = "two steps after a pass of writes"
[[target]]
name = "data"
size = "1MiB"
[defaults]
block_size = "4KiB"
pattern = "random"
duration = "300ms"
interval = "100ms"
[[precondition]]
name = "condition"
summary = "one pass"
reads = "0%"
loops = 1
[[step]]
name = "read"
summary = "reads"
jobs = [2, 1]
"#;

/// How often each moment is cut: what is lost is another part each time.
const CUTS_PER_CALL: usize = 6;
/// Storage loses and keeps whole sectors.
const SECTOR: usize = 512;
const CALLS: &str = "openat,write,fsync,fdatasync,renameat,renameat2";

/// A call that changed the run folder or made it last; names within it, the folder itself is "".
#[derive(Debug, Clone, PartialEq)]
enum Call {
    Create(String),
    Write(String, usize),
    Sync(String),
    Rename(String, String),
}

/// A recorded run, and the calls that made its folder.
struct Traced {
    sandbox: Sandbox,
    run: PathBuf,
    calls: Vec<Call>,
}

impl Traced {
    fn new() -> Option<Self> {
        if !has(&["strace"]) {
            return None;
        }
        let mut sandbox = Sandbox::new();
        fs::write(sandbox.root().join("tiny.toml"), SPEC).unwrap();
        sandbox.accept_changes();
        let trace = sandbox.root().join("trace.txt");
        let strace = ["strace", "-f", "-y", "-qq", "-s0", "-e", CALLS, "-o"];
        let words = strace.iter().map(Path::new).chain([trace.as_path()]);
        let line = sandbox.durio("run tiny.toml --quiet --format json --target data");
        line.within(words).run().expect_exit(0);
        let run = sandbox.the_run();
        let text = fs::read_to_string(&trace).unwrap();
        let calls = calls_in(&text, &run.canonicalize().unwrap());
        Some(Self { sandbox, run, calls })
    }

    /// A file's bytes at the end; a new one that was renamed later is known by its last name.
    fn bytes(&self, name: &str) -> Vec<u8> {
        let renamed = self.calls.iter().find_map(|call| match call {
            Call::Rename(from, to) if from == name => Some(to.as_str()),
            _ => None,
        });
        fs::read(self.run.join(renamed.unwrap_or(name))).unwrap()
    }
}

/// The calls in a trace whose file is in `run`.
fn calls_in(trace: &str, run: &Path) -> Vec<Call> {
    let mut unfinished: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let (process, text) = line.split_once(' ').unwrap();
        if let Some(begun) = text.strip_suffix(" <unfinished ...>") {
            unfinished.insert(process, begun);
        } else if let Some((_, end)) = text.split_once(" resumed>") {
            let begun = unfinished.remove(process).unwrap_or_default();
            calls.extend(call_of(&format!("{begun}{end}"), run));
        } else {
            calls.extend(call_of(text.trim_start(), run));
        }
    }
    calls
}

fn call_of(text: &str, run: &Path) -> Option<Call> {
    let (name, rest) = text.trim_start().split_once('(')?;
    let (words, result) = rest.rsplit_once(" = ")?;
    let file = |text: &str| {
        let path = Path::new(text.split_once('<')?.1.split_once('>')?.0);
        Some(path.strip_prefix(run).ok()?.to_str()?.to_owned())
    };
    // `7</the/folder>, "name"`
    let named = |folder: &str, name: &str| {
        file(folder).filter(String::is_empty)?;
        Some(name.split('"').nth(1)?.to_owned())
    };
    match name {
        "openat" if words.contains("O_CREAT") => file(result).map(Call::Create),
        "write" => Some(Call::Write(file(words)?, result.trim().parse().ok()?)),
        "fsync" | "fdatasync" if result.trim() == "0" => file(words).map(Call::Sync),
        "renameat" | "renameat2" => {
            let words: Vec<&str> = words.split(", ").collect();
            let [from, old, to, new, ..] = words[..] else { return None };
            Some(Call::Rename(named(from, old)?, named(to, new)?))
        }
        _ => None,
    }
}

/// What is in the folder, and what of it lasts.
#[derive(Debug, Clone, Default)]
struct Storage {
    /// Bytes written and bytes synced of each file, by the name that it got when it was made.
    files: BTreeMap<String, (usize, usize)>,
    /// Names and the files that have them.
    names: BTreeMap<String, String>,
    /// The same as it is on the storage, and what was done to names since; they last in their order.
    lasting_names: BTreeMap<String, String>,
    pending: Vec<Call>,
}

impl Storage {
    fn take(&mut self, call: &Call) {
        match call {
            Call::Create(name) => {
                self.files.insert(name.clone(), (0, 0));
                rename(&mut self.names, call);
                self.pending.push(call.clone());
            }
            Call::Rename(..) => {
                rename(&mut self.names, call);
                self.pending.push(call.clone());
            }
            Call::Write(name, length) => self.file(name).0 += length,
            Call::Sync(folder) if folder.is_empty() => {
                self.lasting_names = self.names.clone();
                self.pending.clear();
            }
            Call::Sync(name) => {
                let file = self.file(name);
                file.1 = file.0;
            }
        }
    }

    fn file(&mut self, name: &str) -> &mut (usize, usize) {
        let made = self.names.get(name).cloned().unwrap_or_else(|| panic!("{name} is not made"));
        self.files.get_mut(&made).unwrap()
    }

    /// The folder after a power cut now, in `folder`.
    fn cut(&self, traced: &Traced, seeded: &mut Seeded, folder: &Path) {
        let mut names = self.lasting_names.clone();
        let kept = seeded.below(self.pending.len() + 1);
        self.pending.iter().take(kept).for_each(|call| rename(&mut names, call));
        for (name, made) in names {
            let (written, synced) = self.files[&made];
            let bytes = torn(&traced.bytes(&made)[..written], synced, seeded);
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

fn rename(names: &mut BTreeMap<String, String>, call: &Call) {
    match call {
        Call::Create(name) => drop(names.insert(name.clone(), name.clone())),
        Call::Rename(from, to) => {
            if let Some(made) = names.remove(from) {
                names.insert(to.clone(), made);
            }
        }
        Call::Write(..) | Call::Sync(_) => {}
    }
}

/// What is left of `bytes`, of which the first `synced` last: of the others some length, and in it any
/// sectors, the rest zeros.
fn torn(bytes: &[u8], synced: usize, seeded: &mut Seeded) -> Vec<u8> {
    let length = synced + seeded.below(bytes.len() - synced + 1);
    let mut left = bytes[..length].to_vec();
    let may_have_holes = seeded.below(2) == 0;
    for begin in (0..length).step_by(SECTOR) {
        if may_have_holes && seeded.below(3) == 0 {
            let end = (begin + SECTOR).min(length);
            left[begin.max(synced).min(end)..end].fill(0);
        }
    }
    left
}

fn read(run: &Path) -> (Vec<TimedEvent>, Vec<String>, u64) {
    let mut reader = RunFolder::open(run).unwrap().events().unwrap();
    let (mut events, mut errors) = (Vec::new(), Vec::new());
    for event in reader.by_ref() {
        match event {
            Ok(event) => events.push(event),
            Err(error) => errors.push(error.source.to_string()),
        }
    }
    (events, errors, reader.whole_bytes())
}

/// The step ends of a record that last with the first `synced` bytes of its events.
fn lines_within(events: &[u8], synced: usize) -> usize {
    events[..synced].iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn a_power_cut_at_any_call_leaves_every_synced_step_and_nothing_that_was_not_recorded() {
    let Some(traced) = Traced::new() else { return };
    let mut seeded = Seeded::new();
    let (all, errors, _) = read(&traced.run);
    assert!(errors.is_empty() && all.len() > 10, "{errors:?}");
    let events = traced.bytes(file_names::EVENTS);
    let mut storage = Storage::default();
    let (mut cuts, mut torn_ends) = (0, 0);
    for (number, call) in traced.calls.iter().enumerate() {
        storage.take(call);
        for _ in 0..CUTS_PER_CALL {
            let folder = tempfile::tempdir().unwrap();
            storage.cut(&traced, &mut seeded, folder.path());
            let about = format!("after call {number}, {call:?}");
            if !storage.lasting_names.contains_key(file_names::MANIFEST) {
                // Not begun, or begun whole.
                if folder.path().join(file_names::MANIFEST).exists() {
                    read(folder.path());
                }
                continue;
            }
            let (found, errors, whole) = read(folder.path());
            assert_eq!(found, all[..found.len()], "{about}");
            let lasting = lines_within(&events, storage.files[file_names::EVENTS].1);
            assert!(found.len() >= lasting, "{about}: {} of {lasting}: {errors:?}", found.len());
            let length = fs::metadata(folder.path().join(file_names::EVENTS)).unwrap().len();
            assert_eq!(errors.len(), usize::from(whole < length), "{about}: {errors:?}");
            (cuts, torn_ends) = (cuts + 1, torn_ends + errors.len());
        }
    }
    assert!(cuts > 100 && torn_ends > 10, "{cuts} cuts, {torn_ends} torn");
    // The last of all calls made the reports last.
    assert!(storage.pending.is_empty(), "{:?}", storage.pending);
    assert_eq!(storage.files[file_names::EVENTS].1, events.len(), "the end of the run is synced");
}

#[test]
fn reports_of_torn_records_say_what_is_missing() {
    let Some(traced) = Traced::new() else { return };
    let mut seeded = Seeded::new();
    let mut storage = Storage::default();
    let mut torn_ends = 0;
    for (number, call) in traced.calls.iter().enumerate() {
        storage.take(call);
        let has_begun = storage.lasting_names.contains_key(file_names::MANIFEST);
        if !has_begun || number % 4 != 0 {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        storage.cut(&traced, &mut seeded, folder.path());
        let (_, errors, _) = read(folder.path());
        let line = traced.sandbox.durio("report --format json").word(folder.path());
        let ended = line.run().expect_exit(if errors.is_empty() { 0 } else { 3 });
        let document = ended.json();
        for error in &errors {
            torn_ends += 1;
            assert!(
                ended.stderr.contains(error) && error.contains("bytes are left out"),
                "{error}"
            );
            assert_eq!(document["state"], "partial");
        }
    }
    assert!(torn_ends > 0);
}

#[test]
fn histograms_are_synced_before_the_event_that_ends_their_step_and_that_event_at_once() {
    let Some(traced) = Traced::new() else { return };
    let plan = RunFolder::open(&traced.run).unwrap().plan;
    let events = traced.bytes(file_names::EVENTS);
    let mut written = 0;
    let (mut synced, mut deferred) = (0, 0);
    for (number, call) in traced.calls.iter().enumerate() {
        let Call::Write(name, length) = call else { continue };
        if name != file_names::EVENTS {
            continue;
        }
        let line = &events[written..written + length];
        written += length;
        let Ok(timed) = TimedEvent::read(line) else { continue };
        let prepares = match &timed.event {
            Event::StepEnded(ended) => plan.steps[ended.step as usize].role == Role::Precondition,
            Event::RunEnded(_) => false,
            _ => continue,
        };
        let is = |at: usize, name: &str| traced.calls[at] == Call::Sync(name.to_owned());
        let before = is(number - 1, file_names::HISTOGRAMS);
        let after = is(number + 1, file_names::EVENTS);
        // The step after preconditioning waits for nothing.
        assert_eq!((before, after), (!prepares, !prepares), "call {number}");
        *(if prepares { &mut deferred } else { &mut synced }) += 1;
    }
    assert!(
        synced >= 3 && deferred == 1,
        "two steps and the run; preconditioning: {synced}, {deferred}"
    );
}

/// Cuts the power while `begun` is measured: its end is not recorded, and the histograms of steps from
/// `lost` on are not there.
#[track_caller]
fn tear(run: &Path, (lost, begun): (u32, u32)) {
    let shorten = |name: &str, from: String| {
        let path = run.join(name);
        let text = fs::read_to_string(&path).unwrap();
        let kept: String =
            text.split_inclusive('\n').take_while(|it| !it.contains(&from)).collect();
        assert!(kept.len() < text.len(), "{name}: {from}");
        fs::write(&path, kept).unwrap();
    };
    shorten(file_names::HISTOGRAMS, format!("Tag=step{lost}."));
    shorten(file_names::EVENTS, format!("step_ended\",\"step\":{begun}"));
    let (_, errors, _) = read(run);
    assert!(errors[0].contains(&format!("no readable entry 'step{lost}.")), "{errors:?}");
}

#[test]
fn a_campaign_that_a_power_cut_tore_goes_on() {
    // Step 1 is preconditioning: its end is written, and not synced before that of step 2.
    for torn in [(2, 2), (1, 2)] {
        let Some(traced) = Traced::new() else { return };
        let (all, ..) = read(&traced.run);
        tear(&traced.run, torn);
        let line = "run tiny.toml --quiet --format json --target data";
        let ended = traced.sandbox.durio(line).run().expect_exit(0).expect_stderr("resuming ");
        assert_eq!(ended.json()["state"], "complete");
        let (found, errors, _) = read(&traced.sandbox.the_run());
        assert!(errors.is_empty(), "{errors:?}");
        assert!(found.len() > all.len() / 2);
    }
}
