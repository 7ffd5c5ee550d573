//! Folders of records: one of the files mutated, or something else in its place.
//!
//! Runs durio's readers of records on them. `races` has links to a user's files in folders that
//! durio writes to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{PLACE_ONCE_IN, WatchedCase, with_place};
use crate::attack::arena::{Arena, AttackCase, FolderFiles, write};
use crate::attack::mutate::{TextForm, mutate};
use crate::attack::random::Random;

const READERS: [&str; 8] = [
    "report run",
    "report --format json run",
    "report --format html run",
    "report --format csv run",
    "report --format fio-json run",
    "audit run",
    "advise data --run run",
    "compare good run --force",
];

pub(super) fn run_folder(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let runs = &arena.corpus()?.runs;
    let mut files = random.pick(runs);
    let line = random.pick(&READERS);
    if line.contains("good") {
        write(&files, &case.path("good"))?;
    }
    let place = spoil_one(&mut files, runs, &case.path("run"), |_| true, random)?;
    read(&case, line, place.as_deref())
}

pub(super) fn bench_folder(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let benches = &arena.corpus()?.benches;
    let mut files = random.pick(benches);
    let is_manifest = random.once_in(2);
    let chosen = |name: &Path| !is_manifest || name.ends_with("bench.json");
    let place = spoil_one(&mut files, benches, &case.path("run"), chosen, random)?;
    read(&case, random.pick(&READERS[..5]), place.as_deref())
}

pub(super) fn histogram_log(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let runs = &arena.corpus()?.runs;
    let mut files = random.pick(runs);
    let is_log = |name: &Path| name.extension().is_some_and(|ending| ending == "hlog");
    let place = spoil_one(&mut files, runs, &case.path("run"), is_log, random)?;
    read(&case, random.pick(&READERS[..5]), place.as_deref())
}

fn read(case: &AttackCase, line: &str, place: Option<&str>) -> Result<Vec<String>> {
    let wrong = WatchedCase::begin(case).run(case.durio(line))?;
    Ok(with_place(wrong, place))
}

/// Writes the folder with one file of it spoilt; returns the name of any other object in its place.
fn spoil_one(
    files: &mut FolderFiles,
    others: &[FolderFiles],
    folder: &Path,
    is_chosen: impl Fn(&Path) -> bool,
    random: &mut Random,
) -> Result<Option<String>> {
    let chosen: Vec<_> = (0..files.len()).filter(|&at| is_chosen(&files[at].0)).collect();
    let at = random.pick(&chosen);
    let alike = |other: &FolderFiles| other.iter().find(|(name, _)| *name == files[at].0).cloned();
    let alike: Vec<_> = others.iter().filter_map(alike).map(|(_, bytes)| bytes).collect();
    let form = form_of(&files[at].0);
    files[at].1 = mutate(&files[at].1, form, &alike, random);
    let is_elsewhere = random.once_in(PLACE_ONCE_IN);
    let spoilt = is_elsewhere.then(|| files.remove(at));
    write(files, folder)?;
    match spoilt {
        Some((name, text)) => {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            let what = super::put_place(&path, &text, random)?;
            Ok(Some(format!("{what} as {}", path.file_name().unwrap_or_default().display())))
        }
        None => Ok(None),
    }
}

fn form_of(name: &Path) -> TextForm {
    match name.extension().and_then(|ending| ending.to_str()) {
        Some("json") => TextForm::Json,
        Some("jsonl") => TextForm::JsonLines,
        Some("hlog") => TextForm::Cells,
        _ => TextForm::Bytes,
    }
}

/// Journals in the state folder, which the next run follows: with names of a user's files.
pub(super) fn journal(
    arena: &Arena,
    case_number: usize,
    random: &mut Random,
) -> Result<Vec<String>> {
    let case = arena.case()?;
    let victim = case.path("data/victim");
    fs::write(&victim, "the user's\n")?;
    let left = left_behind(&case)?;
    let name = if case_number.is_multiple_of(3) { left.clone() } else { victim };
    let identity = match random.below(4) {
        0 => "null".to_owned(),
        1 => format!("[{},{}]", random.number(), random.number()),
        2 => "[0,0]".to_owned(),
        _ => "[64769,12]".to_owned(),
    };
    let line =
        format!("{{\"path\":{:?},\"identity\":{identity},\"removed\":false}}\n", name.display());
    let line = line.repeat(1 + random.below(3)).into_bytes();
    let text =
        if random.once_in(2) { mutate(&line, TextForm::JsonLines, &[], random) } else { line };
    let journal = case.path("state/durio/runs/killed/journal.jsonl");
    fs::create_dir_all(journal.parent().unwrap_or(&journal))?;
    fs::write(&journal, text)?;
    let pointers = case.path("state/durio/leftovers");
    fs::create_dir_all(&pointers)?;
    let pointer = if random.once_in(4) {
        mutate(journal.as_os_str().as_encoded_bytes(), TextForm::Cells, &[], random)
    } else {
        journal.as_os_str().as_encoded_bytes().to_vec()
    };
    fs::write(pointers.join("killed"), pointer)?;
    WatchedCase::begin(&case).run(case.durio("run --quiet --engine null --ops 10"))
}

/// A user's file with a name as durio gives them, from no actual run.
fn left_behind(case: &AttackCase) -> Result<PathBuf> {
    let path = case.path("data/.durio-mine");
    fs::write(&path, "the user's too\n").context("cannot write")?;
    Ok(path)
}
