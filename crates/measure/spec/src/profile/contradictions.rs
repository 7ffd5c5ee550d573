//! Fields that are right by themselves and contradict each other: the first contradiction, as a
//! sentence.

use std::collections::BTreeSet;

use durio_base::Bytes;

use durio_plan::{Provenance, ThresholdBound};
use durio_workload::{BlockShare, Pattern, SyncMethod, WorkloadFile, check_workloads};

use super::{
    CachePath, FileHandling, LogProfile, Profile, ProfileThreshold, StreamKind, StreamProfile,
};

// The smallest sector: O_DIRECT takes only multiples of it.
const SECTOR: Bytes = Bytes::new(512);

/// Names under which steps and files of a plan are known already.
const TAKEN: [&str; 3] = ["log", "data", "null"];

pub(super) fn check(profile: &Profile) -> Result<(), String> {
    name(&profile.name)?;
    if profile.log.is_none() && profile.streams.is_empty() {
        return Err("it has neither a log nor any other stream".to_owned());
    }
    let mut names = BTreeSet::new();
    for stream in &profile.streams {
        self::stream(stream).map_err(|reason| format!("{}: {reason}", stream.name))?;
        if TAKEN.contains(&stream.name.as_str()) || !names.insert(stream.name.as_str()) {
            return Err(format!("the name '{}' is taken", stream.name));
        }
    }
    if let Some(log) = &profile.log {
        self::log(log).map_err(|reason| format!("[log]: {reason}"))?;
    }
    if let Some(software) = &profile.software {
        if profile.log.is_none() {
            return Err("[software] needs a [log]".to_owned());
        }
        software.software().validate().map_err(|reason| format!("[software]: {reason}"))?;
    }
    check_workload("check", &profile.check.value)?;
    for threshold in &profile.thresholds {
        self::threshold(profile, threshold)
            .map_err(|reason| format!("threshold '{}': {reason}", threshold.criterion))?;
    }
    unused_source(profile)
}

// Letters, digits and dashes: it is part of paths and commands.
fn name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !name.is_empty() && name.len() <= 40 && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "the name '{}' is not made of small letters, digits and dashes",
            name.escape_debug()
        )),
    }
}

fn log(log: &LogProfile) -> Result<(), String> {
    if log.file_size.value == Bytes::ZERO
        || log.batch_max.as_ref().is_some_and(|most| most.value == Bytes::ZERO)
    {
        return Err("'file_size' and 'batch_max' must be more than 0 B".to_owned());
    }
    let is_grouped = log.committers.value.get() > 1;
    let parts = [
        ("batch_max", log.batch_max.is_some()),
        ("commit_delay", log.commit_delay.is_some()),
        ("commit_siblings", log.commit_siblings.is_some()),
    ];
    if let Some((key, _)) = parts.iter().find(|(_, is_there)| *is_there && !is_grouped) {
        return Err(format!("'{key}' is meaningless with one committer"));
    }
    if is_grouped && log.batch_max.is_none() {
        return Err("several committers share batches: 'batch_max' is missing".to_owned());
    }
    if log.commit_siblings.is_some() && log.commit_delay.is_none() {
        return Err("'commit_siblings' is meaningless without 'commit_delay'".to_owned());
    }
    if (is_grouped || log.rewrites_tail()) && log.sync_every.value.get() != 1 {
        return Err(
            "batches of several committers, and batches that rewrite the last block, each have a \
             sync: sync_every is 1"
                .to_owned(),
        );
    }
    // A program cannot learn when a page of a map reaches the storage.
    if log.cache.value == CachePath::Mmap {
        return Err("a log that is written through a memory map has no commits".to_owned());
    }
    if log.cache.value == CachePath::Direct {
        let padding = log.padding.value.0;
        if padding > Bytes::ZERO && !padding.is_multiple_of(SECTOR) {
            return Err(format!("O_DIRECT does not take a padding of {padding}"));
        }
        if padding == Bytes::ZERO {
            aligned(&log.records.value.0)?;
        }
    }
    log.workload().validate().map_err(|error| error.0)
}

fn aligned(mix: &[BlockShare]) -> Result<(), String> {
    match mix.iter().find(|share| !share.size.is_multiple_of(SECTOR)) {
        None => Ok(()),
        Some(share) => {
            Err(format!("O_DIRECT does not take {}, only multiples of 512 B", share.size))
        }
    }
}

fn stream(stream: &StreamProfile) -> Result<(), String> {
    name(&stream.name)?;
    if stream.cache.value == CachePath::Direct {
        aligned(&stream.sizes.value.0)?;
    }
    if stream.cache.value == CachePath::Mmap {
        if stream.kind == StreamKind::Write {
            return Err(
                "writes through a memory map cannot be measured: say what replaces them".to_owned()
            );
        }
        if stream.fitting.is_none() {
            return Err(
                "durio has no memory maps: 'fitting' must say what replaces them".to_owned()
            );
        }
    }
    let syncs = stream.sync.as_ref().is_some_and(|sync| sync.value != SyncMethod::None);
    if stream.runs_always() && !syncs {
        return Err("a part of every commit needs a sync".to_owned());
    }
    let is_append = stream.file.as_ref().is_some_and(|file| file.value == FileHandling::Extend);
    if is_append && stream.access.value.pattern == Pattern::Random {
        return Err("a file that grows by appending is not written at random".to_owned());
    }
    stream.workload().validate().map_err(|error| error.0)
}

fn threshold(profile: &Profile, limit: &ProfileThreshold) -> Result<(), String> {
    if let Some(stream) = &limit.of {
        let is_log = stream == "log" && profile.log.is_some();
        if !is_log && !profile.streams.iter().any(|known| known.name == *stream) {
            return Err(format!("unknown stream '{}'", stream.escape_debug()));
        }
    }
    if let Some(workload) = &limit.check {
        check_workload("check", workload)?;
    }
    match (&limit.of, &limit.check) {
        (Some(_), _) => {}
        (None, Some(workload)) if is_of_data(workload) => {}
        (None, Some(_)) => return Err("'of' says which stream of the profile it limits".to_owned()),
        (None, None) => {
            return Err("neither 'of' nor 'check' says which results it limits".to_owned());
        }
    }
    let source = profile.source(&limit.from).ok_or("its source is missing")?;
    // A verdict needs a source that can be asked.
    let nobody = matches!(source.kind, Provenance::DurioGuess | Provenance::GeneralKnowledge);
    if nobody || limit.bound == ThresholdBound::Undocumented {
        return Err(format!("a limit needs a document, which '{}' is not", source.name));
    }
    Ok(())
}

/// True for a workload of check that a run of the profile does too, on its data file.
fn is_of_data(name: &str) -> bool {
    check_workloads()
        .iter()
        .any(|(files, workload)| *files == WorkloadFile::Data && workload.name == name)
}

fn check_workload(key: &str, name: &str) -> Result<(), String> {
    let known: Vec<String> =
        check_workloads().into_iter().map(|(_, workload)| workload.name).collect();
    match known.iter().any(|known| known == name) {
        true => Ok(()),
        false => Err(format!(
            "{key}: '{}' is not a workload of check; they are {}",
            name.escape_debug(),
            known.join(", ")
        )),
    }
}

// A source that nothing names was probably forgotten.
fn unused_source(profile: &Profile) -> Result<(), String> {
    let facts = profile.facts();
    let mut used: BTreeSet<&str> = facts.iter().map(|fact| fact.source.name.as_str()).collect();
    used.extend(profile.thresholds.iter().map(|limit| limit.from.as_str()));
    match profile.sources.iter().find(|source| !used.contains(source.name.as_str())) {
        None => Ok(()),
        Some(source) => Err(format!("no field uses the source '{}'", source.name)),
    }
}
