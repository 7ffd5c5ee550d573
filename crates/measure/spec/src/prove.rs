//! Proof specs: which targets are tried on which paths, how often their power is cut.
//!
//! Turns the text of a spec into a [`ProofPlan`], or the fault at its line and column.

mod arrays;
mod guests;

use durio_base::{Bytes, Nanos, RaidLevel, did_you_mean};
use durio_plan::EngineKind;
use durio_plan::proof::{
    AgentTarget, Arm, ArrayTarget, DurablePath, ExpectedVerdict, FileWrites, GuestFrontEnd,
    GuestLayers, LossClass, PROOF_PLAN_SCHEMA, ProofPlan, ProofSeries, ProofTarget, SimulatedVia,
};
use durio_simdisk::{Lie, NamedProfile, Symptom, ZOO, named};

use crate::SpecError;
use crate::table::value::{
    Amount, FormatVersion, KeyedValue, LevelValue, Name, Time, WordValue, own_words, parsed,
};
use crate::table::{
    Levels, OptionalValue, PlacedValue, ReferenceKey, SpecTable, SpecText, Texts, reference, table,
};

/// Version of the format of proof specs.
pub const PROOF_SPEC_SCHEMA: u32 = 1;

/// Bytes of a simulated disk for which no size is given: 256 cells.
const SIZE_DEFAULT: Bytes = Bytes::from_mib(1);
/// A larger one is read whole after each cut, twice.
const SIZE_MAX: Bytes = Bytes::from_gib(4);
/// Cuts of a series: the preset `standard`.
const CUTS_DEFAULT: u32 = 59;
/// 1 % of the targets that fail once in 300 cuts pass 1 400.
pub(crate) const CUTS_MAX: u32 = 1_000_000;
/// Instead of a command that cuts.
const BY_HAND: &str = "by hand";
const DEPTH_MAX: u32 = 64;
const CELL: u64 = 4096;
/// As many cells as a stamp can number, 128 KiB short of it.
const WRITE_MAX: Bytes = Bytes::from_mib(1);

table! {
    /// The whole file.
    pub(crate) struct ProofFile {
        /// Version of this format: 1.
        schema: PlacedValue<FormatVersion<PROOF_SPEC_SCHEMA>>,
        /// Short name.
        name: PlacedValue<Name>,
        /// Purpose, in one sentence.
        summary: OptionalValue<String>,
        /// Effective cuts without a loss after which a series ends: 5 rule out what fails in every
        /// second cut (confidence 95 %), 59 one in 20, 299 one in 100, 3000 one in 1000. Default: 59.
        cuts: OptionalValue<u32>,
        /// Simulated disks.
        disk: Vec<PlacedValue<DiskTable>>,
        /// Durio's own arrays of simulated disks.
        array: Vec<PlacedValue<ArrayTable>>,
        /// Storage of other machines, whose agents connect to this one. At least one disk, array,
        /// target or guest.
        target: Vec<PlacedValue<ProveTargetTable>>,
        /// Simulated disks in guests of the lab, behind QEMU's devices and the guest's kernel.
        guest: Vec<PlacedValue<GuestTable>>,
        /// What is done to each. At least one.
        arm: Vec<PlacedValue<ArmTable>>,
    }
}

table! {
    /// `[[disk]]`.
    pub(crate) struct DiskTable {
        /// Names of profiles, as durio simdisk list shows them; "all" is each of them.
        profile: PlacedValue<Texts>,
        /// Bytes of the disk, a multiple of 4 KiB, at least 256 KiB. Default: 1 MiB.
        size: OptionalValue<Amount>,
    }
}

table! {
    /// `[[array]]`.
    pub(crate) struct ArrayTable {
        /// raid1, the same on all members; raid5 or raid6, stripes with one or two parities; or raid10, chunks in turn over
        /// pairs of members. Default: raid1.
        level: Levels<ProvedLevel>,
        /// How many members: 2 to 4 of raid1, 3 to 16 of raid5, 4 to 16 of raid6, an even number from 4 to 32 of raid10. Default: the fewest.
        members: OptionalValue<u32>,
        /// Names of profiles, as durio simdisk list shows them; "all" is each of them. A lie begins when
        /// the array was created.
        profile: PlacedValue<Texts>,
        /// The member that has the profile, from 0, while the others are such disks without its lie.
        /// Default: all have it.
        liar: Levels<u32>,
        /// Bytes of each member, a multiple of 4 KiB, at least 512 KiB. Default: 1 MiB.
        size: OptionalValue<Amount>,
    }
}

table! {
    /// `[[target]]`. Commands are lists of words; no shell reads them.
    pub(crate) struct ProveTargetTable {
        /// Short name; the path is the agent's matter.
        name: PlacedValue<Name>,
        /// Where this machine waits for the agent. Default: 127.0.0.1:0, any free port.
        listen: OptionalValue<String>,
        /// What the agent must know (durio prove write --token-file). Default: that of durio prove run
        /// --token-file, or a random one.
        token: OptionalValue<String>,
        /// Starts an agent, durio prove write at the target; "{witness}" is replaced by the address.
        /// The command gets the token in $DURIO_TOKEN; "{token}" inserts it into a word. Without
        /// this key the agent must start when its machine boots.
        start: OptionalValue<Texts>,
        /// Takes the power away; when the command ends, it is gone. Without it, or as "by hand",
        /// durio says when you are to cut it, and notices that you did.
        cut: OptionalValue<Texts>,
        /// Gives it back. Without it, nothing needs to be done.
        restore: OptionalValue<Texts>,
        /// How long the power stays away. Default: 10s.
        off: OptionalValue<Time>,
        /// How long the target is written to at least; up to twice as long. Default: 2s.
        load: OptionalValue<Time>,
        /// How long its machine may take to come back. Default: 10m.
        patience: OptionalValue<Time>,
        /// Bytes to use, from the start, at least 256 KiB; all of it is read twice after each cut.
        /// Default: 1 GiB, at most all.
        size: OptionalValue<Amount>,
    }
}

table! {
    /// `[[guest]]`.
    pub(crate) struct GuestTable {
        /// Names of profiles, as durio simdisk list shows them; "all" is each of them. A lie begins
        /// when the guest has made its layers.
        profile: PlacedValue<Texts>,
        /// The device that QEMU shows. Default: virtio-blk.
        front_end: Levels<GuestFrontEnd>,
        /// Whether that device has a volatile write cache; without it QEMU sends every write with
        /// FUA. Default: true.
        write_cache: Levels<bool>,
        /// Layers on the disk: none (raw), a filesystem with a file that was fully written before
        /// (ext4, xfs, btrfs), an array of the kernel's md or of durio by ublk (md-raid1,
        /// durio-raid5; levels 0 and 1 have two disks, 5 three, 6 and 10 four), or a filesystem on
        /// an array (md-raid1-ext4). The disks of an array lose their power in the same instant.
        /// Default: raw.
        layers: Levels<GuestLayers>,
        /// The disk of an array that lies as in the profile, from 0, while the others are honest.
        /// Default: all lie.
        liar: OptionalValue<u32>,
        /// How the guest's writer submits: sync, uring or aio. A durable write of sync on a raw device
        /// is followed by a flush of the kernel's, one of uring and aio is not. Default: uring.
        engine: Levels<EngineKind>,
        /// Bytes of each disk, a multiple of 4 KiB; a quarter is used, 4 MiB at most. Default, and the
        /// least: 16 MiB, under btrfs 128 MiB, under xfs 320 MiB.
        size: OptionalValue<Amount>,
        /// The kernel's release, as durio lab kernels shows it, or its image. Default: the newest.
        kernel: OptionalValue<String>,
        /// Record one life and verify this many of its crash states, instead of cutting the power:
        /// each is put on the disk, mounted and verified. Needs an honest disk, write-back or
        /// write-through.
        states: OptionalValue<u32>,
    }
}

table! {
    /// `[[arm]]`.
    pub(crate) struct ArmTable {
        /// What makes a write durable.
        path: Levels<DurablePath>,
        /// Writes in flight. Default: 1.
        depth: Levels<u32>,
        /// How disks are reached: by a call in durio's process, or over NBD by a socket. Default:
        /// process.
        via: Levels<SimulatedVia>,
        /// Bytes of a write, a multiple of 4 KiB. Default: 4 KiB.
        write_size: OptionalValue<Amount>,
        /// How a guest's file is written: overwrite changes only data; append grows a log at its
        /// end; replace syncs a new file, renames it over the old one and syncs the folder; rename
        /// omits that last sync, as some programs do, and so loses data on an honest disk. All but
        /// overwrite take layers with a filesystem, and replace and rename one write of 4 KiB at a
        /// time. Default: overwrite.
        writes: Levels<FileWrites>,
    }
}

/// A level of [`ArrayTarget::LEVELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProvedLevel(RaidLevel);

impl WordValue for ProvedLevel {
    fn words() -> Vec<(&'static str, Self)> {
        ArrayTarget::LEVELS.map(|level| (level.word(), Self(level))).into()
    }
}

own_words! { GuestFrontEnd FileWrites SimulatedVia DurablePath }

parsed! {
    GuestLayers str::parse, "\"ext4\"", "raw, ext4, xfs, btrfs, or an array such as md-raid1, or both: durio-raid1-ext4", LAYERS;
}

const LAYERS: &str = "^(raw|ext4|xfs|btrfs|(md|durio)-raid(0|1|5|6|10)(-(ext4|xfs|btrfs))?)$";

impl LevelValue for GuestLayers {
    fn label(&self) -> String {
        self.to_string()
    }
}

/// The JSON schema (draft 2020-12) of proof specs, for editors that check TOML by one.
pub fn proof_spec_json_schema() -> String {
    format!("{:#}\n", reference::file("durio proof spec", &ProofFile::all_keys(), &[]))
}

/// The keys of a proof spec, in Markdown.
pub fn proof_spec_reference() -> String {
    reference::tables(&sections())
}

/// Every table with the heading under which it is described.
fn sections() -> [(&'static str, Vec<ReferenceKey>); 6] {
    [
        ("The file", ProofFile::keys()),
        ("[[disk]]", DiskTable::keys()),
        ("[[array]]", ArrayTable::keys()),
        ("[[target]]", ProveTargetTable::keys()),
        ("[[guest]]", GuestTable::keys()),
        ("[[arm]]", ArmTable::keys()),
    ]
}

/// Reads a spec and makes its plan; `source_name` is its path or name, for messages.
///
/// # Errors
/// If it is not TOML, has an unknown key or a wrong value, or names a profile that there is not. The
/// message begins with `NAME:LINE:COLUMN`.
pub fn plan_proof(source_name: &str, text: &str, seed: u64) -> Result<ProofPlan, SpecError> {
    let source = SpecText { name: source_name, text };
    let table = source.parse("a spec")?;
    let file: ProofFile = source.table("", 0, &table)?;
    let cuts = file.cuts.get().unwrap_or(CUTS_DEFAULT);
    if !(1..=CUTS_MAX).contains(&cuts) {
        return Err(source.error(file.cuts.at, format!("'cuts' takes 1 to {CUTS_MAX}")));
    }
    let has_target = !(file.disk.is_empty()
        && file.array.is_empty()
        && file.target.is_empty()
        && file.guest.is_empty());
    if !has_target || file.arm.is_empty() {
        let any = "[[disk]], [[array]], [[target]] or [[guest]]";
        let missing = if has_target { "[[arm]]" } else { any };
        return Err(source.error(text.len(), format!("'{missing}' is missing")));
    }
    let mut series = Vec::new();
    for table in &file.arm {
        let first = series.len();
        for (via, arm) in arms(source, table)? {
            // Once for each way to a disk, of which a target has but one.
            if via == SimulatedVia::Process || table.via.values().len() < 2 {
                for target in &file.target {
                    series.push(of_agent(agent(source, target)?, arm, cuts));
                }
                for table in &file.array {
                    series.extend(arrays::series(source, table, arm, cuts)?);
                }
                for table in &file.guest {
                    series.extend(guests::series(source, table, arm, cuts)?);
                }
            }
            for disk in &file.disk {
                let size = size(source, &disk.size)?;
                let profiles = profiles(source, &disk.profile)?;
                series.extend(
                    profiles.into_iter().map(|profile| one((profile, size, via), arm, cuts)),
                );
            }
        }
        let needs_files =
            |series: &&ProofSeries| series.arm.is_some_and(|arm| !takes(&series.target, arm));
        if let Some(series) = series[first..].iter().find(needs_files) {
            let message = format!(
                "{}: only a file in a guest's filesystem can be written this way",
                series.name
            );
            let hint = "layers = \"ext4\", \"xfs\" or \"btrfs\" in a [[guest]], and nothing else in the spec";
            return Err(source.error(table.writes.at, message).hint(hint));
        }
    }
    if let Some(series) = series.iter().find(|series| is_too_small(series)) {
        let message = format!("{}: disk too small: it needs room for 8 writes", series.name);
        return Err(source.error(0, message));
    }
    let (name, summary) = (file.name.value.0.clone(), file.summary.get().unwrap_or_default());
    Ok(ProofPlan { schema: PROOF_PLAN_SCHEMA, name, summary, seed, series })
}

fn is_too_small(series: &ProofSeries) -> bool {
    let size = match &series.target {
        ProofTarget::Simulated { size, .. } => *size,
        ProofTarget::Array(array) => arrays::data(array),
        // A quarter is written to, 4 MiB at most.
        ProofTarget::Guest(guest) => Bytes::new((guest.size.get() / 4).min(guests::USED_MAX.get())),
        ProofTarget::Agent(_) | ProofTarget::Command(_) => return false,
    };
    series.arm.is_some_and(|arm| arm.write_cells.saturating_mul(CELL * 8) > size.get())
}

/// The first series of a plan from a folder that no spec could have asked for: another version of
/// durio, or anything else, may have written the folder.
pub fn impossible_series(plan: &ProofPlan) -> Option<&ProofSeries> {
    let is_possible = |series: &ProofSeries| {
        let is_disk = match &series.target {
            ProofTarget::Simulated { profile, size, .. } => {
                named(profile).is_some() && is_size(*size)
            }
            ProofTarget::Array(array) => arrays::is_possible(array),
            ProofTarget::Agent(_) => true,
            ProofTarget::Guest(guest) => guests::is_possible(guest),
            ProofTarget::Command(command) => guests::runs_a_command(command),
        };
        // Every target but a user's command gets an arm.
        let is_arm = match series.arm {
            None => matches!(series.target, ProofTarget::Command(_)),
            Some(arm) => {
                let is_write = (1..=WRITE_MAX.get() / CELL).contains(&arm.write_cells);
                let is_depth = (1..=DEPTH_MAX).contains(&arm.depth);
                is_write && is_depth && is_arm(arm) && takes(&series.target, arm)
            }
        };
        is_disk && is_arm && !is_too_small(series) && series.cuts > 0
    };
    plan.series.iter().find(|series| !is_possible(series))
}

/// Whether its writes can be made in this way.
fn is_arm(arm: Arm) -> bool {
    !arm.writes.makes_files() || (arm.depth, arm.write_cells) == (1, 1)
}

/// Whether a target has files that can grow and be replaced, if the arm wants that.
fn takes(target: &ProofTarget, arm: Arm) -> bool {
    let has_files = matches!(target, ProofTarget::Guest(guest) if !guest.layers.is_device());
    arm.writes.is_overwrite() || has_files
}

/// Whether a simulated disk may have this size.
fn is_size(size: Bytes) -> bool {
    let is_whole = size.get().is_multiple_of(CELL);
    is_whole && (Bytes::from_kib(256)..=SIZE_MAX).contains(&size)
}

fn agent(source: SpecText<'_>, table: &ProveTargetTable) -> Result<AgentTarget, SpecError> {
    let words =
        |given: &OptionalValue<Texts>| given.get().map_or_else(Vec::new, |texts| texts.to_vec());
    let cut = words(&table.cut);
    let cut = if cut == [BY_HAND] { Vec::new() } else { cut };
    let start = words(&table.start);
    if cut.is_empty() && !start.is_empty() {
        let text = "start: leave it out; the agent of a target that is cut by hand starts when \
                    its machine boots";
        return Err(source.error(table.start.at, text));
    }
    if cut.iter().any(|word| word.is_empty()) {
        return Err(source.error(table.cut.at, "cut: a command begins with a program"));
    }
    let size = match table.size.get() {
        None => None,
        Some(Amount::Bytes(size)) if size >= Bytes::from_kib(256) => Some(size),
        Some(_) => return Err(source.error(table.size.at, "a target has at least 256 KiB")),
    };
    let listen = table.listen.get().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    if listen.parse::<std::net::SocketAddr>().is_err() {
        let message = format!("'{listen}' is not an address and port, such as 192.168.1.5:9119");
        return Err(source.error(table.listen.at, message));
    }
    let time = |given: &OptionalValue<Time>, seconds| {
        given.get().map_or(Nanos::from_secs(seconds), |span| span.0)
    };
    Ok(AgentTarget {
        name: table.name.value.0.clone(),
        listen,
        token: table.token.get().unwrap_or_default(),
        start,
        cut,
        restore: words(&table.restore),
        off: time(&table.off, 10),
        load: time(&table.load, 2),
        patience: time(&table.patience, 600),
        size,
    })
}

fn of_agent(target: AgentTarget, arm: Arm, cuts: u32) -> ProofSeries {
    let name = format!("{}/{}/{}{}", target.name, arm.words(), arm.depth, written(arm));
    ProofSeries { name, target: ProofTarget::Agent(target), arm: Some(arm), cuts, expected: None }
}

/// The size of writes, where it is not a cell.
fn written(arm: Arm) -> String {
    match arm.write_cells {
        1 => String::new(),
        cells => format!("/{}", Bytes::new(cells * CELL)),
    }
}

fn profiles(
    source: SpecText<'_>,
    names: &PlacedValue<Texts>,
) -> Result<Vec<&'static NamedProfile>, SpecError> {
    let mut found = Vec::new();
    for text in &names.value.0 {
        let name = text.value.as_str();
        match named(name) {
            _ if name == "all" => found.extend(ZOO),
            Some(profile) => found.push(profile),
            None => {
                let known: Vec<&str> = ZOO.iter().map(|profile| profile.name).collect();
                let what = format!("unknown profile '{name}'");
                return Err(source.error(text.at, what).hint(did_you_mean(
                    name,
                    &known,
                    "there are",
                )));
            }
        }
    }
    Ok(found)
}

fn size(source: SpecText<'_>, given: &OptionalValue<Amount>) -> Result<Bytes, SpecError> {
    match given.get() {
        None => Ok(SIZE_DEFAULT),
        Some(Amount::Bytes(size)) if is_size(size) => Ok(size),
        Some(_) => Err(source.error(given.at, "a disk has 256 KiB to 4 GiB, a multiple of 4 KiB")),
    }
}

fn arms(source: SpecText<'_>, arm: &ArmTable) -> Result<Vec<(SimulatedVia, Arm)>, SpecError> {
    let write_cells = match arm.write_size.get() {
        None => 1,
        Some(Amount::Bytes(size))
            if size.get() > 0 && size.get().is_multiple_of(CELL) && size <= WRITE_MAX =>
        {
            size.get() / CELL
        }
        Some(_) => {
            return Err(
                source.error(arm.write_size.at, "a write has 4 KiB to 1 MiB, a multiple of 4 KiB")
            );
        }
    };
    let mut arms = Vec::new();
    for path in levels(&arm.path, DurablePath::Fdatasync) {
        for depth in levels(&arm.depth, 1) {
            if !(1..=DEPTH_MAX).contains(&depth) {
                return Err(source.error(arm.depth.at, format!("'depth' takes 1 to {DEPTH_MAX}")));
            }
            let vias = levels(&arm.via, SimulatedVia::Process);
            for writes in levels(&arm.writes, FileWrites::Overwrite) {
                let it = Arm { write_cells, writes, ..Arm::new(path, depth) };
                if !is_arm(it) {
                    let message = format!("'{}' takes one write of 4 KiB at a time", writes.word());
                    return Err(source.error(arm.writes.at, message));
                }
                arms.extend(vias.iter().map(|&via| (via, it)));
            }
        }
    }
    Ok(arms)
}

fn one(
    (named, size, via): (&NamedProfile, Bytes, SimulatedVia),
    arm: Arm,
    cuts: u32,
) -> ProofSeries {
    let written = written(arm);
    let reached = if via == SimulatedVia::Nbd { "nbd/" } else { "" };
    let name = format!("{reached}{}/{}/{}{written}", named.name, arm.words(), arm.depth);
    let target = ProofTarget::Simulated { profile: named.name.to_owned(), size, via };
    let expected = expected(named, arm, via);
    series_of(name, target, arm, cuts, Some(expected))
}

/// A series with enough cuts for its expected result.
fn series_of(
    name: String,
    target: ProofTarget,
    arm: Arm,
    cuts: u32,
    expected: Option<ExpectedVerdict>,
) -> ProofSeries {
    let cuts = match expected {
        Some(ExpectedVerdict::Breaks { within, .. } | ExpectedVerdict::Loses { within }) => {
            cuts.max(within)
        }
        Some(ExpectedVerdict::Holds | ExpectedVerdict::MayLose) | None => cuts,
    };
    ProofSeries { name, target, arm: Some(arm), cuts, expected }
}

fn expected(named: &NamedProfile, arm: Arm, via: SimulatedVia) -> ExpectedVerdict {
    let tells = if arm.path.syncs() { named.on_flush } else { named.on_fua };
    // Over NBD there is one connection, whose writes each flush covers.
    let tells = tells && !(via == SimulatedVia::Nbd && named.lie == Some(Lie::FlushOneConnection));
    match named.symptom() {
        Some(symptom) if tells && arm.depth >= named.depth => {
            ExpectedVerdict::Breaks { class: class_of(symptom), within: named.cuts }
        }
        _ => ExpectedVerdict::Holds,
    }
}

/// The values of a key, or its default.
fn levels<T: KeyedValue>(given: &Levels<T>, default: T) -> Vec<T> {
    if given.values().is_empty() { vec![default] } else { given.values().to_vec() }
}

/// What the prover calls it.
fn class_of(symptom: Symptom) -> LossClass {
    match symptom {
        Symptom::Lost => LossClass::Lost,
        Symptom::Torn => LossClass::Torn,
        Symptom::Misdirected => LossClass::Misdirected,
        Symptom::Unstable => LossClass::Unstable,
        Symptom::Corrupt => LossClass::Corrupt,
        Symptom::Unreadable => LossClass::Unreadable,
        Symptom::Gone => LossClass::Gone,
    }
}

#[cfg(test)]
mod tests;
