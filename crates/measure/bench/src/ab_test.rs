//! A rule of advice measured before and after, in turns, with durio's runner. The old value is
//! restored at the end. Each side is a campaign of one step,
//! under the rule's load.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::SystemTime;

use durio_base::{Bytes, Nanos};
use durio_block::{Folder, lead_process_group};
use durio_command::{CommandError, CommandErrorKind, Ending, StopFlag};
use durio_judge::advise::{
    PROOF_SCHEMA, ProofMethod, ProveLoad, Rule, RuleProof, Subject, Switch, SwitchedSetting,
    rule_named,
};
use durio_judge::compare::CompareSettings;
use durio_observe::{LayerKind, Stack, read_stack};
use durio_record::FolderName;

use crate::interleave::{durio_run, follow, turns};
use crate::observer::Observer;
use crate::read_back::read_comparison;
use crate::setting_guard::{SettingGuard, choices, current};
use crate::state_folder::runs_folder;

// Larger numbers are not valid settings.
const NUMBER_MAX: u64 = 1 << 20;

struct TestSides {
    /// The file of the setting; `None` for an option of durio.
    file: Option<PathBuf>,
    before: String,
    after: String,
}

/// The rule to prove, and the place.
#[derive(Debug, Clone, Copy)]
pub struct AbTestRequest<'a> {
    /// The rule, by its identifier or name.
    pub rule: &'a str,
    /// Where durio lays out its file.
    pub path: &'a Path,
    /// Another value than the rule's.
    pub value: Option<&'a str>,
    /// Runs of each side.
    pub pairs: u32,
    /// Time of each run.
    pub duration: Nanos,
    /// Size of durio's file.
    pub size: Bytes,
}

/// A proof that is over.
#[derive(Debug)]
pub struct AbTestOutcome {
    /// The result; `None` if a run failed.
    pub proof: Option<RuleProof>,
    /// How the runs ended.
    pub ending: Ending,
}

/// Measures with and without the advised setting. The old value is always restored at the end.
///
/// # Errors
/// If the rule cannot be proved here, or the old value not be set back.
pub fn prove(
    request: &AbTestRequest<'_>,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<AbTestOutcome, CommandError> {
    let rule = rule_named(request.rule)?;
    let Some(prove) = &rule.prove else { return Err(not_provable(rule)) };
    let stack = read_stack(request.path).map_err(CommandError::cannot)?;
    let sides = sides(request, rule, prove, &stack)?;
    // Before anything else is made: the old value is on disk before the first change.
    let guard = match &sides.file {
        Some(file) => Some(SettingGuard::begin(file, &sides.before, &sides.after, observer)?),
        None => None,
    };
    let folders = folders(request, prove, &sides)?;
    let values = [sides.before.as_str(), sides.after.as_str()];
    let outcome = turns(request.pairs, stop, |turn, side| {
        if let Some(guard) = &guard {
            guard.set(values[side])?;
        }
        let (value, all) = (values[side], request.pairs * 2);
        observer.progress(&format!("durio: run {turn} of {all}: {value}"));
        follow(start(&folders[side], request.path)?, stop, || {
            guard.as_ref().map_or(Ok(()), |guard| guard.set(&sides.before))
        })
    });
    // Whatever came of the runs: first of all the old value.
    let restored = guard.map(SettingGuard::restore).transpose()?;
    if let Some(value) = &restored {
        observer.remark(&format!("durio: restored: {value}"));
    }
    match outcome? {
        Ending::Complete => conclude(request, rule, sides, restored, &folders, observer),
        ending => Ok(AbTestOutcome { proof: None, ending }),
    }
}

/// One run, in a separate process group.
// A signal reaches this durio first, which restores and hands it on.
fn start((spec, runs): &(PathBuf, PathBuf), place: &Path) -> Result<Child, CommandError> {
    // Bytes, because a path need not be UTF-8.
    let mut target = OsString::from("data=");
    target.push(place);
    let mut command = durio_run(spec, runs)?;
    command.arg("--quiet").arg("--target").arg(target);
    lead_process_group(&mut command)
        .spawn()
        .map_err(|error| CommandError::cannot_measure(format!("cannot run durio itself: {error}")))
}

fn not_provable(rule: &Rule) -> CommandError {
    let message = format!("durio cannot switch what {} ({}) is about", rule.id, rule.name);
    let rules = durio_judge::advise::rules().unwrap_or_default();
    let provable = rules.iter().filter(|rule| rule.prove.is_some()).map(|rule| rule.id.as_str());
    let list = provable.collect::<Vec<_>>().join(", ");
    CommandError::wrong_use(message).hint(format!("it can prove {list}"))
}

fn sides(
    request: &AbTestRequest<'_>,
    rule: &Rule,
    prove: &ProofMethod,
    stack: &Stack,
) -> Result<TestSides, CommandError> {
    let after = request.value.map_or_else(|| prove.to.clone(), str::to_owned);
    let sides = match prove.switch.file() {
        Some(name) => of_setting(&device(rule, stack)?, name, after)?,
        None => of_durio(prove, after)?,
    };
    // Two equal sides would show nothing but how runs scatter.
    if sides.before == sides.after {
        let message = format!("{} is {} already", prove.switch.name(), sides.before);
        return Err(CommandError::cannot_measure(message)
            .hint("name another value to compare it with: --value VALUE"));
    }
    Ok(sides)
}

fn of_setting(device: &str, name: &str, after: String) -> Result<TestSides, CommandError> {
    let file = Path::new("/sys/class/block").join(device).join(name);
    let before = current(&file).map_err(|error| {
        let message = format!("cannot read '{}': {error}", file.display());
        CommandError::cannot_measure(message)
    })?;
    check_value(&file, &after)?;
    Ok(TestSides { file: Some(file), before, after })
}

fn of_durio(prove: &ProofMethod, after: String) -> Result<TestSides, CommandError> {
    let list: &[&str] = match prove.switch {
        Switch::FileMode => &["incompressible", "zeros", "preallocated", "empty"],
        _ => &["fsync", "fdatasync", "o_dsync", "o_sync", "rwf_dsync", "rwf_sync"],
    };
    if !list.contains(&after.as_str()) {
        let message = format!("'{after}' is none of {}", list.join(", "));
        return Err(CommandError::wrong_use(message));
    }
    Ok(TestSides { file: None, before: prove.from.clone().unwrap_or_default(), after })
}

/// The one device that the rule is about.
fn device(rule: &Rule, stack: &Stack) -> Result<String, CommandError> {
    let blocks = stack.walk().map(|(_, layer)| layer).filter(|layer| layer.block.is_some());
    let mut names: Vec<&str> = match rule.subject {
        // A disk below several layers is met once for each.
        Subject::Disk => blocks
            .filter(|block| block.kind == LayerKind::Disk)
            .map(|block| block.name.as_str())
            .collect(),
        _ => blocks
            .filter(|block| block.kind != LayerKind::Partition)
            .map(|block| block.name.as_str())
            // The topmost: its settings are those that a filesystem above it meets.
            .take(1)
            .collect(),
    };
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(CommandError::cannot_measure("there is no block device below the target")),
        many => {
            let message = format!("there are several disks below the target: {}", many.join(", "));
            Err(CommandError::cannot_measure(message)
                .hint("prove the rule on a place with one disk below"))
        }
    }
}

/// Accepts a value of the list, or a number if there is no list.
fn check_value(file: &Path, value: &str) -> Result<(), CommandError> {
    let wrong = |reason: String| Err(CommandError::wrong_use(reason));
    match choices(file) {
        Ok(Some(list)) if !list.iter().any(|choice| choice == value) => {
            wrong(format!("'{value}' is none of {} ({})", list.join(", "), file.display()))
        }
        Ok(None)
            if value
                .parse::<u64>()
                .ok()
                .is_none_or(|number| number == 0 || number > NUMBER_MAX) =>
        {
            wrong(format!("'{value}' is not a number from 1 to {NUMBER_MAX}"))
        }
        _ => Ok(()),
    }
}

/// Per side its spec and the directory of its runs.
fn folders(
    request: &AbTestRequest<'_>,
    prove: &ProofMethod,
    sides: &TestSides,
) -> Result<[(PathBuf, PathBuf); 2], CommandError> {
    let name = FolderName::new("proof", SystemTime::now(), std::process::id());
    let folder = runs_folder(None)?.join(name.as_str());
    let load = SideLoad { load: prove.load, size: request.size, duration: request.duration };
    let made = Folder::make(&folder).map_err(|error| {
        let message = format!("cannot make '{}': {error}", folder.display());
        CommandError::cannot_measure(message)
    })?;
    let make = |side: &str, value: &str| {
        let own = sides.file.is_none().then_some((prove.switch, value));
        let (file, runs) = (folder.join(format!("{side}.toml")), folder.join(side));
        Folder::open_or_make(&runs)
            .and_then(|_| made.make_file(format!("{side}.toml")))
            .and_then(|mut file| file.write_all(spec(load, own).as_bytes()))
            .map(|()| (file, runs))
            .map_err(|error| {
                let message = format!("cannot write below '{}': {error}", folder.display());
                CommandError::cannot_measure(message)
            })
    };
    Ok([make("a", &sides.before)?, make("b", &sides.after)?])
}

fn conclude(
    request: &AbTestRequest<'_>,
    rule: &Rule,
    sides: TestSides,
    restored: Option<String>,
    folders: &[(PathBuf, PathBuf); 2],
    observer: &dyn Observer,
) -> Result<AbTestOutcome, CommandError> {
    let runs: Vec<PathBuf> = folders.iter().map(|(_, runs)| runs.clone()).collect();
    let mut read = read_comparison(&runs, &[], &CompareSettings::default(), observer)?;
    // Both sides are one place, with a setting between them that a record does not hold.
    read.findings.pairs.iter_mut().for_each(|pair| pair.remarks.clear());
    let what = rule.prove.as_ref().map(|prove| prove.switch.name()).unwrap_or_default();
    let proof = RuleProof {
        schema: PROOF_SCHEMA.to_owned(),
        rule: rule.id.clone(),
        name: rule.name.clone(),
        title: rule.title.clone(),
        target: request.path.display().to_string(),
        switched: SwitchedSetting {
            what: what.to_owned(),
            file: sides.file.map(|file| file.display().to_string()),
            before: sides.before,
            after: sides.after,
            restored,
        },
        pairs: request.pairs,
        comparison: read.findings,
    };
    let ending = match read.is_damaged {
        true => Ending::Failed(CommandErrorKind::CannotMeasure),
        false => Ending::Complete,
    };
    Ok(AbTestOutcome { proof: Some(proof), ending })
}

/// What both sides have in common.
#[derive(Debug, Clone, Copy)]
struct SideLoad {
    load: ProveLoad,
    size: Bytes,
    duration: Nanos,
}

// A quarter of the file, in blocks of 8 KiB: of random reads from an empty page cache few hit what
// another has brought in.
const RANDOM_SHARE: u64 = 4;

/// The spec of one side; `own` is the value of a switch in durio.
fn spec(load: SideLoad, own: Option<(Switch, &str)>) -> String {
    let layout = match own {
        Some((Switch::FileMode, layout)) => layout,
        _ => "incompressible",
    };
    let method = match own {
        Some((Switch::SyncMethod, method)) => method,
        _ => "fdatasync",
    };
    format!(
        "schema = 1\nname = \"proof\"\nself_cost = false\n\n[[target]]\nname = \"data\"\n\
         size = \"{}B\"\nlayout = \"{layout}\"\n\n[[step]]\nname = \"proof\"\n{}",
        load.size.get(),
        step(load, method)
    )
}

fn step(SideLoad { load, size, duration }: SideLoad, method: &str) -> String {
    let duration = duration.get();
    match load {
        // One pass: nothing is read twice, so no read hits the cache. The page cache fills during
        // it and no rate is steady: what counts is the time of the whole, one interval.
        ProveLoad::BufferedScan => "pattern = \"sequential\"\nblock_size = \"16KiB\"\n\
             cache = \"buffered\"\ndrop_cache = true\nloops = 1\ninterval = \"1h\"\n"
            .to_owned(),
        ProveLoad::BufferedRandom => {
            let blocks = (size.get() / 8192 / RANDOM_SHARE).max(1);
            format!(
                "pattern = \"random\"\nrun_length = 3\nblock_size = \"8KiB\"\njobs = 4\n\
                 cache = \"buffered\"\ndrop_cache = true\noperations = {blocks}\n\
                 interval = \"1h\"\n"
            )
        }
        ProveLoad::Mixed => format!(
            "pattern = \"random\"\nreads = \"70%\"\nblock_size = \"8KiB\"\njobs = 4\ndepth = 32\n\
             duration = \"{duration}ns\"\n"
        ),
        ProveLoad::Commits => format!(
            "pattern = \"sequential\"\nreads = \"0%\"\nblock_size = \"8KiB\"\n\
             cache = \"buffered\"\nsync = \"{method}\"\nduration = \"{duration}ns\"\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use durio_observe::{BlockFacts, Layer};
    use durio_spec::CampaignSpec;

    use super::*;

    fn layer(kind: LayerKind, name: &str, block: Option<BlockFacts>, below: Vec<Layer>) -> Layer {
        let (name, facts) = (name.to_owned(), Vec::new());
        Layer { kind, name, device: None, filesystem: None, block, facts, below }
    }

    /// The device that a rule about a disk, and one about a volume, is proved on.
    fn devices(below: Vec<Layer>) -> [Result<String, String>; 2] {
        let root = layer(LayerKind::Filesystem, "/data", None, below);
        let stack = Stack { target: "/data".to_owned(), root };
        // Of the scheduler, and of read-ahead.
        ["B01", "A01"]
            .map(|id| device(rule_named(id).unwrap(), &stack).map_err(|error| error.to_string()))
    }

    #[test]
    fn a_rule_is_proved_on_the_only_disk_or_on_the_topmost_volume() {
        let over = |kind, name: &str, below| layer(kind, name, Some(BlockFacts::default()), below);
        let disk = |name: &str| over(LayerKind::Disk, name, Vec::new());
        let part = |name: &str, of: &str| over(LayerKind::Partition, name, vec![disk(of)]);
        let named = |name: &str| -> Result<String, String> { Ok(name.to_owned()) };
        let refused = |message: &str| -> Result<String, String> { Err(message.to_owned()) };
        assert_eq!(devices(vec![part("sdb1", "sdb")]), [named("sdb"), named("sdb")]);
        // A disk below two members of an array is one.
        let members = vec![part("sda1", "sda"), part("sda2", "sda")];
        let array = over(LayerKind::Md, "md7", members);
        assert_eq!(devices(vec![array]), [named("sda"), named("md7")]);
        let members = vec![part("sdc1", "sdc"), disk("sdb"), part("sdb1", "sdb")];
        let array = over(LayerKind::Md, "md7", members);
        let several = refused("there are several disks below the target: sdb, sdc");
        let volume = over(LayerKind::Dm, "dm-3", vec![array]);
        assert_eq!(devices(vec![volume]), [several, named("dm-3")]);
        let none = refused("there is no block device below the target");
        assert_eq!(devices(Vec::new()), [none.clone(), none]);
    }

    #[test]
    fn a_side_is_the_rule_s_load_with_the_value_of_its_side_alone() {
        let text = |load, own| {
            let size = Bytes::from_mib(96);
            let text = spec(SideLoad { load, size, duration: Nanos::from_secs(7) }, own);
            CampaignSpec::parse("proof.toml", &text).unwrap();
            text
        };
        let scan = ProveLoad::BufferedScan;
        // A quarter of 96 MiB in blocks of 8 KiB.
        let random = ["pattern = \"random\"", "jobs = 4", "run_length = 3", "operations = 3072"];
        let timed = ["reads = \"70%\"", "depth = 32", "jobs = 4", "duration = \"7000000000ns\""];
        let log = ["reads = \"0%\"", "sync = \"o_dsync\"", "duration = \"7000000000ns\""];
        let usual = ["sync = \"fdatasync\"", "layout = \"incompressible\"", "self_cost = false"];
        let empty = ["sync = \"fdatasync\"", "layout = \"empty\"", "size = \"100663296B\""];
        for (load, own, lines) in [
            (scan, None, &["pattern = \"sequential\"", "drop_cache = true", "loops = 1"][..]),
            (ProveLoad::BufferedRandom, None, &random[..]),
            (ProveLoad::Mixed, None, &timed[..]),
            (ProveLoad::Commits, Some((Switch::SyncMethod, "o_dsync")), &log[..]),
            (ProveLoad::Commits, Some((Switch::ReadAheadKb, "64")), &usual[..]),
            (ProveLoad::Commits, Some((Switch::FileMode, "empty")), &empty[..]),
        ] {
            let text = text(load, own);
            for line in lines {
                assert!(text.lines().any(|found| found == *line), "{line} in:\n{text}");
            }
        }
        let size = Bytes::from_kib(8);
        let (load, duration) = (ProveLoad::BufferedRandom, Nanos::from_secs(1));
        let small = spec(SideLoad { load, size, duration }, None);
        assert!(small.contains("operations = 1\n"), "{small}");
    }

    #[test]
    fn a_setting_takes_a_word_of_its_list_or_a_number_from_1_to_1048576() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("setting");
        let fits = |text: &str, value: &str| {
            std::fs::write(&file, text).unwrap();
            check_value(&file, value).is_ok()
        };
        for (value, is_taken) in
            [("0", false), ("1", true), ("1048576", true), ("1048577", false), ("none", false)]
        {
            assert_eq!(fits("128\n", value), is_taken, "{value}");
        }
        let list = "none [mq-deadline] kyber\n";
        for (value, is_taken) in
            [("none", true), ("mq-deadline", true), ("[mq-deadline]", false), ("bfq", false)]
        {
            assert_eq!(fits(list, value), is_taken, "{value}");
        }
    }
}
