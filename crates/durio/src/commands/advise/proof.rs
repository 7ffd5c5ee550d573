//! `durio advise --prove`: a rule measured before and after, in turns, with durio's own runner.
//!
//! In: a rule, a place. Out: a comparison, and the old value back where it was.
//! Not here: the loads, which are specs; the turns; how a setting is remembered.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_advise::{PROOF_SCHEMA, Proof, Prove, Rule, Subject, SwitchedSetting, rule_named};
use durio_block::Folder;
use durio_compare::Settings;
use durio_observe::{LayerKind, Stack, read_stack};
use durio_record::FolderName;

use super::proof_spec::{Load, spec};
use super::proof_turns::{Turns, turns};
use super::{cannot_look, cannot_write};
use crate::args::Advise;
use crate::commands::compare::comparison;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::state_folder::runs_folder;
use crate::stop_signals::stop_in_order;
use crate::switched::{Switched, choices, current};

/// Larger values of a number are no setting.
const NUMBER_MAX: u64 = 1 << 20;

/// The two sides.
struct Sides {
    /// The file of the setting; none for what is durio's own.
    file: Option<PathBuf>,
    before: String,
    after: String,
}

pub(super) fn prove(arguments: &Advise, name: &str) -> Result<Exit, Failure> {
    let rule = rule_named(name)?;
    let Some(prove) = &rule.prove else { return Err(not_provable(rule)) };
    // Nobody hurries it: the old value comes back.
    let stop = stop_in_order()?;
    let stack = read_stack(&arguments.path).map_err(cannot_look)?;
    let sides = sides(arguments, rule, prove, &stack)?;
    let switched = match &sides.file {
        Some(file) => Some(Switched::begin(file, &sides.before, &sides.after)?),
        None => None,
    };
    let folder = folder(arguments, prove, &sides)?;
    let outcome = turns(&Turns {
        sides: &folder,
        values: [&sides.before, &sides.after],
        pairs: arguments.pairs,
        place: &arguments.path,
        switched: switched.as_ref(),
        stop: &stop,
    });
    // Whatever came of the runs: first of all the old value.
    let restored = switched.map(Switched::restore).transpose()?;
    if let Some(value) = &restored {
        output::remark(&format!("durio: restored: {value}"));
    }
    match outcome? {
        Exit::Fine => report(arguments, rule, sides, restored, &folder),
        other => Ok(other),
    }
}

fn not_provable(rule: &Rule) -> Failure {
    let message = format!("durio cannot switch what {} ({}) is about", rule.id, rule.name);
    let rules = durio_advise::rules().unwrap_or_default();
    let provable = rules.iter().filter(|it| it.prove.is_some()).map(|it| it.id.as_str());
    let list = provable.collect::<Vec<_>>().join(", ");
    Failure::new(Exit::WrongUse, message).hint(format!("it can prove {list}"))
}

fn sides(arguments: &Advise, rule: &Rule, prove: &Prove, stack: &Stack) -> Result<Sides, Failure> {
    let after = arguments.value.clone().unwrap_or_else(|| prove.to.clone());
    let sides = match prove.switch.file() {
        Some(name) => of_setting(&device(rule, stack)?, name, after)?,
        None => of_durio(prove, after)?,
    };
    if sides.before == sides.after {
        let message = format!("{} is {} already", prove.switch.name(), sides.before);
        return Err(Failure::new(Exit::CannotMeasure, message)
            .hint("name another value to compare it with: --value VALUE"));
    }
    Ok(sides)
}

fn of_setting(device: &str, name: &str, after: String) -> Result<Sides, Failure> {
    let file = Path::new("/sys/class/block").join(device).join(name);
    let before = current(&file).map_err(|error| {
        let message = format!("cannot read '{}': {error}", file.display());
        Failure::new(Exit::CannotMeasure, message)
    })?;
    check_value(&file, &after)?;
    Ok(Sides { file: Some(file), before, after })
}

fn of_durio(prove: &Prove, after: String) -> Result<Sides, Failure> {
    use durio_advise::Switch;
    let list: &[&str] = match prove.switch {
        Switch::FileMode => &["incompressible", "zeros", "preallocated", "empty"],
        _ => &["fsync", "fdatasync", "o_dsync", "o_sync", "rwf_dsync", "rwf_sync"],
    };
    if !list.contains(&after.as_str()) {
        let message = format!("'{after}' is none of {}", list.join(", "));
        return Err(Failure::new(Exit::WrongUse, message));
    }
    Ok(Sides { file: None, before: prove.from.clone().unwrap_or_default(), after })
}

/// The one device that the rule is about.
fn device(rule: &Rule, stack: &Stack) -> Result<String, Failure> {
    let blocks = stack.walk().map(|(_, layer)| layer).filter(|layer| layer.block.is_some());
    let mut names: Vec<&str> = match rule.subject {
        Subject::Disk => {
            blocks.filter(|it| it.kind == LayerKind::Disk).map(|it| it.name.as_str()).collect()
        }
        _ => blocks
            .filter(|it| it.kind != LayerKind::Partition)
            .map(|it| it.name.as_str())
            .take(1)
            .collect(),
    };
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::new(Exit::CannotMeasure, "there is no block device below the target")),
        many => {
            let message = format!("there are several disks below the target: {}", many.join(", "));
            Err(Failure::new(Exit::CannotMeasure, message)
                .hint("prove the rule on a place with one disk below"))
        }
    }
}

/// A value of the list, or a number where there is none.
fn check_value(file: &Path, value: &str) -> Result<(), Failure> {
    let wrong = |reason: String| Err(Failure::new(Exit::WrongUse, reason));
    match choices(file) {
        Ok(Some(list)) if !list.iter().any(|it| it == value) => {
            wrong(format!("'{value}' is none of {} ({})", list.join(", "), file.display()))
        }
        Ok(None) if value.parse::<u64>().ok().is_none_or(|it| it == 0 || it > NUMBER_MAX) => {
            wrong(format!("'{value}' is no number from 1 to {NUMBER_MAX}"))
        }
        _ => Ok(()),
    }
}

/// Per side its spec and the directory of its runs.
fn folder(
    arguments: &Advise,
    prove: &Prove,
    sides: &Sides,
) -> Result<[(PathBuf, PathBuf); 2], Failure> {
    let name = FolderName::new("proof", SystemTime::now(), std::process::id());
    let folder = runs_folder(None)?.join(name.as_str());
    let load = Load { load: prove.load, size: arguments.size, duration: arguments.duration };
    let made = Folder::make(&folder).map_err(|error| {
        let message = format!("cannot make '{}': {error}", folder.display());
        Failure::new(Exit::CannotMeasure, message)
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
                Failure::new(Exit::CannotMeasure, message)
            })
    };
    Ok([make("a", &sides.before)?, make("b", &sides.after)?])
}

fn report(
    arguments: &Advise,
    rule: &Rule,
    sides: Sides,
    restored: Option<String>,
    folder: &[(PathBuf, PathBuf); 2],
) -> Result<Exit, Failure> {
    let runs: Vec<PathBuf> = folder.iter().map(|(_, runs)| runs.clone()).collect();
    let (comparison, is_damaged) = comparison(&runs, &Settings::default())?;
    let what = rule.prove.as_ref().map(|prove| prove.switch.name()).unwrap_or_default();
    let proof = Proof {
        schema: PROOF_SCHEMA.to_owned(),
        rule: rule.id.clone(),
        name: rule.name.clone(),
        title: rule.title.clone(),
        target: arguments.path.display().to_string(),
        switched: SwitchedSetting {
            what: what.to_owned(),
            file: sides.file.map(|file| file.display().to_string()),
            before: sides.before,
            after: sides.after,
            restored,
        },
        pairs: arguments.pairs,
        comparison,
    };
    let mut bytes = Vec::new();
    let options = output::terminal_options();
    durio_report::write_proof(arguments.format, &proof, &options, &mut bytes)
        .map_err(cannot_write)?;
    output::answer(&bytes)?;
    Ok(if is_damaged { Exit::CannotMeasure } else { Exit::Fine })
}
