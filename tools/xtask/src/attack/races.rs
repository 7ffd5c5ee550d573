//! Links, renames and reuse: names that change their meaning while durio is at work.
//!
//! Changes names at a moment of a command; reports changed or missing files of the user. `devices`
//! has devices, `kills` signals alone.
//!
//! In state folders, another user has put links and folders; durio runs there as another user, and
//! nothing may be removed or made where they lead.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

use super::arena::{self, Arena, AttackCase, CAMPAIGN, sh, stack_spec};
use super::launch::{Launch, Running};
use super::random::Random;
use super::rows::{AttackRow, nothing, root};
use super::witness::{FolderTree, entries, faults, faults_but};

const LIMIT: Duration = Duration::from_secs(30);
/// The folder of files that the user did not name.
const VICTIMS: &str = "victims";
const NAMED: &str =
    "run --quiet --rw randwrite --size 1MiB --duration 300ms --no-self-cost --target";
const ENDLESS: &str =
    "run --quiet --rw randwrite --size 1MiB --duration 20s --no-self-cost --target";
const NEXT: &str = "run --quiet --engine null --ops 10";

pub(super) fn rows() -> Vec<AttackRow> {
    let row = |name, small, missing, attack| AttackRow { name, small, full: 100, missing, attack };
    vec![
        row("races:target-replaced", 6, nothing, target_replaced),
        row("races:parent-replaced", 2, nothing, parent_replaced),
        row("races:destroy-exchanged", 2, root, destroy_exchanged),
        row("races:name-reused", 4, nothing, name_reused),
        row("races:record-links", 4, nothing, record_links),
        row("races:bench-links", 4, root, bench_links),
        row("races:resume-links", 3, nothing, resume_links),
        row("races:man-links", 1, root, man_links),
        row("races:state-links", 8, nothing, state_links),
        row("races:bind-mount", 2, root, bind_mount),
        row("races:two-runs", 2, nothing, two_runs),
    ]
}

/// A case with victims, and its tree before the attack.
fn begin(arena: &Arena) -> Result<(AttackCase, FolderTree)> {
    let case = arena.clean_case()?;
    fs::create_dir(case.path(VICTIMS))?;
    arena::user_files(&case.path(VICTIMS))?;
    fs::write(case.path("victims/new"), "the user's, with a name as the target has it\n")?;
    let before = FolderTree::of(&case.path(VICTIMS));
    Ok((case, before))
}

fn changes(case: &AttackCase, before: &FolderTree) -> Vec<String> {
    let differences = before.differences(&FolderTree::of(&case.path(VICTIMS)));
    differences.iter().map(|difference| format!("victims: {difference}")).collect()
}

/// Waits until durio has a record of events, so its file is made or about to be; durio may have
/// ended before. The file itself has no name where the filesystem supports that.
fn begins(case: &AttackCase, running: &mut Running) -> bool {
    let runs = case.path("state/durio/runs");
    let has_begun = || {
        let mut runs = fs::read_dir(&runs).into_iter().flatten().flatten();
        runs.any(|run| {
            run.path().join("events.jsonl").metadata().is_ok_and(|events| events.len() > 0)
        })
    };
    let begin = Instant::now();
    while begin.elapsed() < LIMIT && running.is_alive() {
        if has_begun() {
            return true;
        }
        thread::sleep(Duration::from_micros(200));
    }
    false
}

/// durio's file is replaced by a user's file, or a link to one.
fn target_replaced(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    let (new, victim) = (case.path("data/new"), case.path("victims/keep"));
    let mut running = case.durio(NAMED).word("data/new").start()?;
    let mut wrong = Vec::new();
    if begins(&case, &mut running) {
        thread::sleep(Duration::from_micros(random.below(400_000) as u64));
        let mine = case.path("data/mine");
        match number % 3 {
            0 => symlink(&victim, &mine)?,
            1 => fs::hard_link(case.path("victims/notes.txt"), &mine)?,
            _ => fs::write(&mine, "mine\n")?,
        }
        // A rename never frees the name: durio's file is replaced while it is written to.
        let is_there = new.symlink_metadata().is_ok();
        let look = NameLookup::at(&mine)?;
        fs::rename(&mine, &new)?;
        wrong.extend(faults(&running.wait(LIMIT)?));
        if NameLookup::at(&new).ok() != Some(look) {
            wrong.push(format!("the user's file with the target's name is not as it was (durio's was there: {is_there})"));
        }
    } else {
        wrong.extend(faults(&running.wait(LIMIT)?));
    }
    // The link was ours.
    let _ = fs::remove_file(&new);
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

/// The meaning of a name.
#[derive(Debug, PartialEq, Eq)]
struct NameLookup(u64, PathBuf, Vec<u8>);

impl NameLookup {
    fn at(path: &Path) -> Result<Self> {
        let link = fs::read_link(path).unwrap_or_default();
        Ok(Self(path.symlink_metadata()?.ino(), link, fs::read(path)?))
    }
}

/// The folder of the target becomes a link to a user's, where the target's name is taken.
fn parent_replaced(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    let folder = case.path("data/sub");
    fs::create_dir(&folder)?;
    let mut running = case.durio(NAMED).word("data/sub/new").start()?;
    if begins(&case, &mut running) {
        thread::sleep(Duration::from_micros(random.below(400_000) as u64));
        fs::rename(&folder, case.path("data/old"))?;
        symlink(case.path(VICTIMS), &folder)?;
    }
    let mut wrong = faults(&running.wait(LIMIT)?);
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

/// The file that `--destroy` names, repeatedly exchanged with a link to a file in use that would be
/// refused: a mounted image.
fn destroy_exchanged(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, _) = begin(arena)?;
    let (file, image) = (case.path("data/file"), case.path("image"));
    fs::write(&file, vec![7; 1 << 20])?;
    arena::ext4(&image, 8)?;
    super::devices::mounted(&case, &image)?;
    let link = case.path("data/link");
    match number % 2 {
        0 => symlink(&image, &link)?,
        _ => fs::hard_link(&image, &link)?,
    }
    let before = super::witness::hash(&image)?;
    let pause = Duration::from_micros(random.below(300) as u64);
    let launch = case.durio(NAMED).word("data/file").words("--destroy data/file");
    let ended = exchanging(&file, &link, pause, || launch.limit(LIMIT).run())?;
    let mut wrong = faults_but(&ended, &[]);
    if super::witness::hash(&image)? != before {
        wrong.push("a mounted image was written to".to_owned());
    }
    Ok(wrong)
}

/// Exchanges two names while `work` lasts.
fn exchanging<T>(a: &Path, b: &Path, pause: Duration, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // One of them may be gone for a moment.
                // In one step: with two renames the name would be free in between.
                let _ = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
                thread::sleep(pause);
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// After a kill the user writes to the name that was durio's: a new file with, most often, the same
/// inode, or the same file in place.
fn name_reused(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    let new = case.path("data/new");
    let mut running = case.durio(ENDLESS).word("data/new").start()?;
    if begins(&case, &mut running) {
        thread::sleep(Duration::from_millis(random.below(600) as u64));
    }
    running.signal(Signal::KILL);
    running.wait(LIMIT)?;
    let mine: &[u8] = b"echo mine\n";
    match number % 4 {
        0 => {
            let _ = fs::remove_file(&new);
            fs::write(&new, mine)?;
        }
        1 => fs::write(&new, mine)?,
        2 => {
            let _ = fs::remove_file(&new);
            fs::hard_link(case.path("victims/keep"), &new)?;
        }
        _ => {
            let _ = fs::rename(&new, case.path("data/aside"));
            symlink(case.path("victims/keep"), &new)?;
        }
    }
    let look = NameLookup::at(&new)?;
    let mut wrong = faults(&case.durio(NEXT).limit(LIMIT).run()?);
    if NameLookup::at(&new).ok() != Some(look) {
        wrong.push("what the user put into the name of a killed run's file is gone".to_owned());
    }
    let _ = fs::remove_file(&new);
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

/// During a run the files of its record become links to a user's files, as another owner of the
/// folder could make them.
fn record_links(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let line = "run --quiet --rw randwrite --size 1MiB --duration 600ms --no-self-cost --out out \
                --interval 10ms --target data";
    linked_record(arena, line, "events.jsonl", NAMES[number % NAMES.len()], random)
}

/// The same with a bench.
fn bench_links(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let line = "stack bench stack.toml --quiet --out out";
    linked_record(arena, line, "bench.json", NAMES[number % NAMES.len()], random)
}

/// The files of a record, and the names under which they are made before a rename.
const NAMES: [&str; 6] = [
    "report.html",
    ".report.html.new",
    "findings.json",
    ".findings.json.new",
    ".run.json.new",
    ".bench.json.new",
];

/// Runs a command, and replaces one file of its record by a link once the folder has `first`.
fn linked_record(
    arena: &Arena,
    line: &str,
    first: &str,
    name: &str,
    random: &mut Random,
) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    let out = case.path("out");
    fs::create_dir(&out)?;
    fs::write(case.path("stack.toml"), stack_spec(&case, "200ms"))?;
    let mut running = case.durio(line).start()?;
    if let Some(run) = folder_in(&out, first, &mut running) {
        thread::sleep(Duration::from_micros(random.below(300_000) as u64));
        plant(&run.join(name), &case.path("victims/keep"))?;
    }
    let mut wrong = faults(&running.wait(LIMIT)?);
    wrong.extend(changes(&case, &before).iter().map(|difference| format!("{name}: {difference}")));
    Ok(wrong)
}

fn folder_in(out: &Path, first: &str, running: &mut Running) -> Option<PathBuf> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT && running.is_alive() {
        if let Some(run) = entries(out).pop().filter(|run| run.join(first).exists()) {
            return Some(run);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// A link in the place of a file.
fn plant(path: &Path, victim: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    symlink(victim, path).with_context(|| format!("cannot make a link at {}", path.display()))
}

/// The files that a resumed run writes to.
const FILES: [&str; 6] =
    ["findings.json", "events.jsonl", "histograms.hlog", "run.json", "journal.jsonl", "plan.json"];

/// An interrupted campaign continues in a folder into which links were put.
fn resume_links(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, _) = begin(arena)?;
    fs::write(case.path("small.toml"), CAMPAIGN)?;
    let line = "run small.toml --quiet --target data --scale-time 10 --seed 1";
    let running = case.durio(line).start()?;
    thread::sleep(Duration::from_millis(900 + random.below(800) as u64));
    running.signal(if random.once_in(2) { Signal::INT } else { Signal::KILL });
    running.wait(LIMIT)?;
    let Some(run) = entries(&case.path("state/durio/runs")).pop() else { return Ok(Vec::new()) };
    for name in [FILES[number % FILES.len()], "report.html"] {
        // The link's target has the original contents, so that the campaign continues with it.
        let victim = case.path(VICTIMS).join(name);
        if fs::rename(run.join(name), &victim).is_err() && !victim.exists() {
            fs::write(&victim, "the user's\n")?;
        }
        plant(&run.join(name), &victim)?;
    }
    let before = FolderTree::of(&case.path(VICTIMS));
    if arena.is_root() {
        // A foreign owner can put links into the folder, and durio runs as root.
        chown(&run, Some(65_534), Some(65_534))?;
    }
    let mut wrong = faults(&case.durio(line).limit(LIMIT).run()?);
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

/// Pages of a manual, with links put into their folder.
fn man_links(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    fs::create_dir(case.path("man"))?;
    ensure!(case.durio("man man").run()?.code() == 0, "durio man does not work");
    let pages = entries(&case.path("man"));
    plant(&random.pick(&pages), &case.path("victims/keep"))?;
    if arena.is_root() {
        chown(case.path("man"), Some(65_534), Some(65_534))?;
    }
    let mut wrong = faults(&case.durio("man man").run()?);
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

/// A user's file is mounted over the target's name while it is written to.
fn bind_mount(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    let (new, victim) = (case.path("data/new"), case.path("victims/keep"));
    let launch: Launch = case.durio(if number.is_multiple_of(2) { NAMED } else { ENDLESS });
    let mut running = launch.word("data/new").start()?;
    let mut is_mounted = false;
    if begins(&case, &mut running) {
        thread::sleep(Duration::from_micros(random.below(300_000) as u64));
        // durio may have ended in the meantime.
        is_mounted =
            sh(&format!("mount --bind '{}' '{}'", victim.display(), new.display())).is_ok();
    }
    if !number.is_multiple_of(2) {
        running.signal(Signal::KILL);
    }
    let mut wrong = faults_but(&running.wait(LIMIT)?, &[137]);
    wrong.extend(faults(&case.durio(NEXT).limit(LIMIT).run()?));
    if is_mounted {
        sh(&format!("umount '{}'", new.display()))?;
    }
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

/// Two runs on one file at once must not both have results. They last longer than the 2 s for which
/// the second one waits until the first releases the file.
fn two_runs(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, before) = begin(arena)?;
    fs::write(case.path("data/file"), vec![7; 1 << 20])?;
    fs::hard_link(case.path("data/file"), case.path("data/other"))?;
    let run = |name: &str| {
        let line = "run --quiet --rw randwrite --size 1MiB --duration 4s --no-self-cost --target";
        let launch = case.durio(line).word(name).word("--destroy").word(name);
        launch.start()
    };
    let first = run("data/file")?;
    thread::sleep(Duration::from_millis(random.below(500) as u64));
    let second = run(if number.is_multiple_of(2) { "data/file" } else { "data/other" })?;
    let ended = [first.wait(LIMIT)?, second.wait(LIMIT)?];
    let mut wrong: Vec<_> = ended.iter().flat_map(faults).collect();
    if ended.iter().all(|process| process.code() == 0) {
        wrong.push("two runs measured one file at once".to_owned());
    }
    wrong.extend(changes(&case, &before));
    Ok(wrong)
}

const NOBODY: u32 = 65_534;
const PARTS: [&str; 6] = ["runs", "watch", "replays", "leftovers", "stacks", "settings"];
const COMMANDS: [&str; 7] = [
    "run --quiet --engine null --ops 10",
    "replay t.trace data --quiet",
    "runs prune --yes --keep 0 --older-than 0d",
    "runs --probes prune --yes --keep 0 --older-than 0d",
    "runs",
    "stack clean",
    "run --quiet --engine null --ops 10 --out out",
];
/// strace's lines of a write and a sync.
const TRACE: &str = "800 1000.000000 pwrite64(3</old/log>, \"\"..., 8192, 0) = 8192 <0.000020>\n\
                     800 1000.000100 fdatasync(3</old/log>) = 0 <0.000100>\n";

/// Files of a user that look like durio's.
fn bait(folder: &Path) -> Result<()> {
    for command in ["run", "watch", "replay"] {
        let run = folder.join(format!("2026-01-02T030405-678Z-{command}-4711"));
        fs::create_dir_all(&run)?;
        fs::write(run.join("run.json"), "{ damaged")?;
        fs::write(run.join("the-users"), "the user's\n")?;
        File::open(&run)?.set_modified(SystemTime::now() - Duration::from_secs(7200))?;
    }
    Ok(())
}

/// A part of the state folder, or the folder itself, leads to a user's files, or is a user's.
fn state_links(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let (case, _) = begin(arena)?;
    let victims = case.path(VICTIMS);
    bait(&victims)?;
    fs::write(case.path("strace.txt"), TRACE)?;
    case.durio("capture --strace strace.txt --trace t.trace").limit(LIMIT).run()?;
    let (base, state) = (case.path("state"), case.path("state/durio"));
    let part = state.join(PARTS[number % PARTS.len()]);
    fs::create_dir_all(&base)?;
    match random.below(if arena.is_root() { 4 } else { 1 }) {
        0 => {
            fs::create_dir_all(&state)?;
            let _ = fs::remove_dir_all(&part);
            symlink(&victims, &part)?;
        }
        // The whole state folder is the user's, in which the parts lead elsewhere.
        1 => {
            fs::create_dir_all(&state)?;
            let _ = fs::remove_dir_all(&part);
            symlink(&victims, &part)?;
            chown(&state, Some(NOBODY), Some(NOBODY))?;
        }
        // The user's link leads to the state folder.
        2 => {
            let _ = fs::remove_dir_all(&state);
            symlink(&victims, &state)?;
            lchown(&state, Some(NOBODY), Some(NOBODY))?;
        }
        _ => {
            let _ = fs::remove_dir_all(&base);
            symlink(&victims, &base)?;
            lchown(&base, Some(NOBODY), Some(NOBODY))?;
        }
    }
    let before = FolderTree::of(&victims);
    let mut wrong = Vec::new();
    for line in COMMANDS {
        let ended = case.durio(line).limit(LIMIT).run()?;
        wrong.extend(faults(&ended));
        wrong.extend(
            changes(&case, &before).iter().map(|difference| format!("{line}: {difference}")),
        );
    }
    Ok(wrong)
}
