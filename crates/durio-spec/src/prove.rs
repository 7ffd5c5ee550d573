//! Proof specs: which targets are tried on which paths, how often their power is cut.
//!
//! In: the text of a spec. Out: a [`ProofPlan`], or the fault at its line and column. Not here: cutting.

use durio_plan::proof::{
    Arm, DurablePath, Expected, LossClass, PROOF_PLAN_SCHEMA, ProofPlan, ProofSeries, ProofTarget,
    SimulatedVia,
};
use durio_simdisk::{Lie, NamedProfile, Symptom, ZOO, named};
use durio_units::Bytes;
use durio_workload::did_you_mean;

use crate::SpecError;
use crate::table::value::{Amount, Name, Texts, Value, Version, words};
use crate::table::{Levels, One, Placed, Source, Table, reference, table};

/// Version of the format of proof specs.
pub const PROOF_SPEC_SCHEMA: u32 = 1;

/// Bytes of a simulated disk for which no size is given: 256 cells.
const SIZE_DEFAULT: Bytes = Bytes::from_mib(1);
/// A larger one is read whole after each cut, twice.
const SIZE_MAX: Bytes = Bytes::from_gib(4);
/// Cuts of a series: the preset `standard`.
const CUTS_DEFAULT: u32 = 59;
/// 1 % of the targets that fail once in 300 cuts pass 1 400.
const CUTS_MAX: u32 = 1_000_000;
const DEPTH_MAX: u32 = 64;
const CELL: u64 = 4096;
/// As many cells as a stamp can number, 128 KiB short of it.
const WRITE_MAX: Bytes = Bytes::from_mib(1);

table! {
    /// The whole file.
    struct ProofFile {
        /// Version of this format: 1.
        schema: Placed<Version<PROOF_SPEC_SCHEMA>>,
        /// Short name.
        name: Placed<Name>,
        /// One sentence: what it shows.
        summary: One<String>,
        /// Effective cuts without a loss after which a series ends: 5 rule out what fails in every
        /// second cut (confidence 95 %), 59 one in 20, 299 one in 100, 3000 one in 1000. Default: 59.
        cuts: One<u32>,
        /// Simulated disks. At least one.
        disk: Vec<Placed<DiskTable>>,
        /// What is done to each. At least one.
        arm: Vec<Placed<ArmTable>>,
    }
}

table! {
    /// `[[disk]]`.
    struct DiskTable {
        /// Names of profiles, as durio simdisk list shows them; "all" is each of them.
        profile: Placed<Texts>,
        /// Bytes of the disk, a multiple of 4 KiB, at least 256 KiB. Default: 1 MiB.
        size: One<Amount>,
    }
}

table! {
    /// `[[arm]]`.
    struct ArmTable {
        /// What makes a write durable.
        path: Levels<DurablePath>,
        /// Writes in flight. Default: 1.
        depth: Levels<u32>,
        /// How disks are reached: by a call in durio's process, or over NBD by a socket. Default:
        /// process.
        via: Levels<SimulatedVia>,
        /// Bytes of a write, a multiple of 4 KiB. Default: 4 KiB.
        write_size: One<Amount>,
    }
}

words! {
    SimulatedVia { "process" => Process, "nbd" => Nbd }
    DurablePath {
        "fsync" => Fsync,
        "fdatasync" => Fdatasync,
        "rwf_dsync" => RwfDsync,
        "o_dsync" => ODsync,
    }
}

/// The JSON schema (draft 2020-12) of proof specs, for editors that check TOML by one.
#[must_use]
pub fn proof_spec_json_schema() -> String {
    format!("{:#}\n", reference::file("durio proof spec", &ProofFile::all_keys(), &[]))
}

/// The keys of a proof spec, in Markdown.
#[must_use]
pub fn proof_spec_reference() -> String {
    reference::tables(&[
        ("The file", ProofFile::keys()),
        ("`[[disk]]`", DiskTable::keys()),
        ("`[[arm]]`", ArmTable::keys()),
    ])
}

/// Reads a spec and makes its plan; `source_name` is its path or name, for messages.
///
/// # Errors
/// If it is not TOML, has an unknown key or a wrong value, or names a profile that there is not. The
/// message begins with `NAME:LINE:COLUMN`.
pub fn plan_proof(source_name: &str, text: &str, seed: u64) -> Result<ProofPlan, SpecError> {
    let source = Source { name: source_name, text };
    let table = source.parse()?;
    let file: ProofFile = source.table("", 0, &table)?;
    let cuts = file.cuts.get().unwrap_or(CUTS_DEFAULT);
    if !(1..=CUTS_MAX).contains(&cuts) {
        return Err(source.error(file.cuts.at, format!("'cuts' takes 1 to {CUTS_MAX}")));
    }
    if file.disk.is_empty() || file.arm.is_empty() {
        let missing = if file.disk.is_empty() { "[[disk]]" } else { "[[arm]]" };
        return Err(source.error(text.len(), format!("'{missing}' is missing")));
    }
    let mut series = Vec::new();
    for table in &file.arm {
        for (via, arm) in arms(source, table)? {
            for disk in &file.disk {
                let size = size(source, &disk.size)?;
                let profiles = profiles(source, &disk.profile)?;
                series.extend(profiles.into_iter().map(|it| one((it, size, via), arm, cuts)));
            }
        }
    }
    let too_large = |it: &ProofSeries| {
        let ProofTarget::Simulated { size, .. } = &it.target;
        it.arm.write_cells * CELL * 8 > size.get()
    };
    if let Some(series) = series.iter().find(|it| too_large(it)) {
        let message = format!("{}: a disk holds at least 8 writes; make it larger", series.name);
        return Err(source.error(0, message));
    }
    let (name, summary) = (file.name.value.0.clone(), file.summary.get().unwrap_or_default());
    Ok(ProofPlan { schema: PROOF_PLAN_SCHEMA, name, summary, seed, series })
}

fn profiles(
    source: Source<'_>,
    names: &Placed<Texts>,
) -> Result<Vec<&'static NamedProfile>, SpecError> {
    let mut found = Vec::new();
    for text in &names.value.0 {
        let name = text.value.as_str();
        match named(name) {
            _ if name == "all" => found.extend(ZOO),
            Some(profile) => found.push(profile),
            None => {
                let known: Vec<&str> = ZOO.iter().map(|it| it.name).collect();
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

fn size(source: Source<'_>, given: &One<Amount>) -> Result<Bytes, SpecError> {
    match given.get() {
        None => Ok(SIZE_DEFAULT),
        Some(Amount::Bytes(size))
            if size.get().is_multiple_of(CELL)
                && size >= Bytes::from_kib(256)
                && size <= SIZE_MAX =>
        {
            Ok(size)
        }
        Some(_) => Err(source.error(given.at, "a disk has 256 KiB to 4 GiB, a multiple of 4 KiB")),
    }
}

fn arms(source: Source<'_>, arm: &ArmTable) -> Result<Vec<(SimulatedVia, Arm)>, SpecError> {
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
            arms.extend(vias.into_iter().map(|via| (via, Arm { path, depth, write_cells })));
        }
    }
    Ok(arms)
}

fn one(
    (named, size, via): (&NamedProfile, Bytes, SimulatedVia),
    arm: Arm,
    cuts: u32,
) -> ProofSeries {
    let written = match arm.write_cells {
        1 => String::new(),
        cells => format!("/{}", Bytes::new(cells * CELL)),
    };
    let reached = if via == SimulatedVia::Nbd { "nbd/" } else { "" };
    let name = format!("{reached}{}/{}/{}{written}", named.name, arm.path.word(), arm.depth);
    let target = ProofTarget::Simulated { profile: named.name.to_owned(), size, via };
    let expected = expected(named, arm, via);
    let cuts = match expected {
        Expected::Holds => cuts,
        Expected::Breaks { within, .. } => cuts.max(within),
    };
    ProofSeries { name, target, arm, cuts, expected: Some(expected) }
}

fn expected(named: &NamedProfile, arm: Arm, via: SimulatedVia) -> Expected {
    let tells = if arm.path.syncs() { named.on_flush } else { named.on_fua };
    // Over NBD there is one connection, whose writes each flush covers.
    let tells = tells && !(via == SimulatedVia::Nbd && named.lie == Some(Lie::FlushOneConnection));
    match named.symptom() {
        Some(symptom) if tells && arm.depth >= named.depth => {
            Expected::Breaks { class: class_of(symptom), within: named.cuts }
        }
        _ => Expected::Holds,
    }
}

/// The values of a key, or what holds without it.
fn levels<T: Value>(given: &Levels<T>, default: T) -> Vec<T> {
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
