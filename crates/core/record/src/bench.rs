//! The folders that hold several runs. The bench folder: one manifest, and a run folder
//! ([`crate::RunFolder`]) for each point of each stack. The folder of a comparison of kernels: one
//! manifest, and a bench folder for each repeat on each kernel.
//!
//! The folder of a killed bench or comparison can be read back too. docs/formats/bench-folder.md
//! and docs/formats/lab-compare-folder.md describe the formats.

use std::fs;
use std::path::PathBuf;

use durio_base::Nanos;
use durio_plan::{PublishedShare, SeveralDevices};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::folder::{FolderManifest, ManifestFolder, within};

/// Version of the bench folder. A reader reads its own version and older ones.
pub const BENCH_FOLDER_SCHEMA: u32 = 1;
/// The file that makes a folder a bench folder.
pub const BENCH_MANIFEST: &str = "bench.json";

/// A bench folder, that is written or read.
pub type BenchFolder<S> = ManifestFolder<BenchManifest<S>>;

impl<S: Serialize + DeserializeOwned> FolderManifest for BenchManifest<S> {
    const FILE: &'static str = BENCH_MANIFEST;
    const SCHEMA: u32 = BENCH_FOLDER_SCHEMA;
    const MAKING: &'static str = "make the bench folder";
    const READING: &'static str = "read the bench folder";
}

impl<S: Serialize + DeserializeOwned> BenchFolder<S> {
    /// The path of a run folder of this bench; none for a name that leads out of it.
    pub fn run(&self, name: &str) -> Option<PathBuf> {
        within(self.path(), name)
    }
}

/// A bench: the request, and its state so far. `S` is a stack as it was declared: what that is, the
/// crate says that builds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchManifest<S> {
    /// [`BENCH_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    /// The name of the folder as it was made.
    pub bench: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are not text are replaced.
    pub command: Vec<String>,
    /// The name that its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name of the spec.
    pub name: String,
    /// What the stack shows, in a sentence of the user's spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The spec as it was.
    pub spec: String,
    /// Seed of every random choice, the same on every point.
    pub seed: u64,
    /// Durations in thousandths of what the spec says.
    pub time_scale_per_mille: u32,
    /// Sizes in thousandths of what the spec says; those of `stacks` are scaled.
    pub size_scale_per_mille: u32,
    /// The devices measured in a layer with several.
    pub several_devices: SeveralDevices,
    /// What others found on points of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedShare>,
    /// How it ended; nothing while it runs, and for ever if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The stacks in the order in which they are built.
    pub stacks: Vec<BenchStack<S>>,
}

/// A stack and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchStack<S> {
    /// The stack as it was to be built, scaled.
    pub declared: S,
    /// One per layer, from the bottom.
    pub layers: Vec<BenchLayer>,
    /// Why it could not be built or measured to its top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether it is gone again; nothing before its turn, while it is there, and if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tear_down: Option<TearDown>,
}

/// A layer and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchLayer {
    /// Its word in a spec: `md`, `xfs`.
    pub word: String,
    /// What it is, in a line: `md RAID10 n2 chunk 16 KiB bitmap none`.
    pub label: String,
    /// How far it has come.
    pub state: LayerState,
    /// Name of the run folder, next to the manifest; nothing if no run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Its devices; for a filesystem, the devices below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Where the filesystem was mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// What ran to build it, with all names filled in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// How long that took.
    #[serde(rename = "build_ns", default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Nanos>,
}

/// How far a layer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// It is not there yet, or never was.
    Waiting,
    /// It is there; no workload has been run on it.
    Built,
    /// All workloads were run on it.
    Measured,
    /// Its run was started and did not finish.
    Partial,
    /// It could not be built, or its run not be started.
    Failed,
    // A bench of a newer durio is shown as far as this one knows it.
    /// Something that this durio does not know.
    #[serde(other)]
    Unknown,
}

/// Whether a stack is gone again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum TearDown {
    Done,
    /// Something is left; `durio stack clean` tries again.
    Failed {
        reason: String,
    },
}

impl<S> BenchStack<S> {
    /// A stack before its turn; `layers` are its layers' words and labels.
    pub fn waiting(declared: S, layers: Vec<(String, String)>) -> Self {
        let of = |(word, label)| BenchLayer {
            word,
            label,
            state: LayerState::Waiting,
            run: None,
            devices: Vec::new(),
            mount: None,
            commands: Vec::new(),
            build: None,
        };
        let layers = layers.into_iter().map(of).collect();
        Self { declared, layers, failure: None, tear_down: None }
    }
}

/// Version of the folder. A reader reads its own version and older ones.
pub const LAB_COMPARE_FOLDER_SCHEMA: u32 = 1;
/// The file that makes a folder one of a comparison.
pub const LAB_COMPARE_MANIFEST: &str = "lab-compare.json";

/// A comparison: the request, and its state so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabCompareManifest {
    /// [`LAB_COMPARE_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    /// The name of the folder as it was made.
    pub comparison: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are not text are replaced.
    pub command: Vec<String>,
    /// The kernels as they were given, the baseline first; bytes that are not text are replaced.
    pub kernels: [String; 2],
    /// How many benches of each kernel were asked for.
    pub repeats: u32,
    /// Seed of every random choice, the same in all benches.
    pub seed: u64,
    /// How it ended; nothing while it runs, and for ever if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The benches that are there, in the order in which they were made.
    pub benches: Vec<LabCompareBench>,
}

/// One bench of one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabCompareBench {
    /// The kernel of this bench.
    pub side: LabCompareSide,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// Name of its bench folder.
    pub folder: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabCompareSide {
    /// The kernel that the other is compared with.
    A,
    B,
}

impl LabCompareSide {
    /// Both, in the order in which they take turns.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Its letter, in upper case.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }

    /// The name of the folder of one of its benches, `repeat` from 1: `b2`.
    pub fn folder(self, repeat: u32) -> String {
        format!("{}{repeat}", self.letter().to_lowercase())
    }
}

/// The folder of a comparison, that is written or read.
pub type LabCompareFolder = ManifestFolder<LabCompareManifest>;

impl FolderManifest for LabCompareManifest {
    const FILE: &'static str = LAB_COMPARE_MANIFEST;
    const SCHEMA: u32 = LAB_COMPARE_FOLDER_SCHEMA;
    const MAKING: &'static str = "make the folder of the comparison";
    const READING: &'static str = "read the folder of the comparison";
}

impl LabCompareFolder {
    /// Removes the folder if it holds nothing but its manifest.
    pub fn discard(self) {
        // One entry is the manifest itself.
        let benches = fs::read_dir(self.path()).map_or(0, |entries| entries.count());
        if benches <= 1 {
            // If it stays, it says itself that it holds nothing.
            let _ = fs::remove_dir_all(self.path());
        }
    }

    /// The bench folders of a side, in the order in which they were made; names that lead out of
    /// this folder are left out.
    pub fn benches(&self, side: LabCompareSide) -> impl Iterator<Item = PathBuf> {
        let of_side = self.manifest.benches.iter().filter(move |bench| bench.side == side);
        of_side.filter_map(|bench| within(self.path(), &bench.folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordErrorKind;

    fn manifest() -> LabCompareManifest {
        let bench = |side: LabCompareSide, repeat| LabCompareBench {
            side,
            repeat,
            folder: side.folder(repeat),
        };
        LabCompareManifest {
            schema: LAB_COMPARE_FOLDER_SCHEMA,
            comparison: "2026-11-21T200000-000Z-lab-compare-42".into(),
            durio_version: "0.1.0".into(),
            started: "2026-11-21T20:00:00Z".into(),
            command: vec!["durio".into()],
            kernels: ["6.1".into(), "6.12".into()],
            repeats: 2,
            seed: 1,
            outcome: Some(Outcome::Interrupted),
            benches: [(LabCompareSide::A, 1), (LabCompareSide::B, 1), (LabCompareSide::A, 2)]
                .map(|(side, repeat)| bench(side, repeat))
                .into(),
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_benches_are_of_their_side() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("deep/comparison");
        LabCompareFolder::create(&path, manifest()).unwrap();
        assert!(LabCompareFolder::is_at(&path) && !LabCompareFolder::is_at(place.path()));
        let mut read = LabCompareFolder::open(&path).unwrap();
        assert_eq!(read.manifest, manifest());
        read.manifest.benches[1].folder = "../b1".into();
        let names = |side| read.benches(side).collect::<Vec<_>>();
        assert_eq!(names(LabCompareSide::A), [path.join("a1"), path.join("a2")]);
        assert_eq!(names(LabCompareSide::B), [""; 0].map(PathBuf::from), "it leads out");
        assert!(LabCompareFolder::create(&path, manifest()).is_err(), "it is there");
    }

    #[test]
    fn every_field_of_the_manifest_is_described() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/lab-compare-folder.md");
        let text = fs::read_to_string(path).unwrap();
        let (text, _) = text.split_once("## What it shows").unwrap();
        let value = serde_json::to_value(manifest()).unwrap();
        let fields = value.as_object().unwrap().keys();
        let of_bench = value["benches"][0].as_object().unwrap().keys();
        for field in fields.chain(of_bench) {
            assert!(text.contains(&format!("`{field}`")), "{field}");
        }
        assert!(text.contains(&format!("schema: {LAB_COMPARE_FOLDER_SCHEMA}\n")));
    }

    #[test]
    fn what_is_not_one_or_is_newer_or_garbage_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let kind = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(place.path().join(LAB_COMPARE_MANIFEST), text).unwrap();
            }
            LabCompareFolder::open(place.path()).unwrap_err().kind
        };
        assert_eq!(kind(None), RecordErrorKind::NotARunFolder);
        assert_eq!(kind(Some("{\"schema\": 2}")), RecordErrorKind::NewerSchema);
        for text in ["", "{", "{\"schema\": 1}", "\0\u{1}"] {
            assert_eq!(kind(Some(text)), RecordErrorKind::Malformed, "{text}");
        }
    }

    #[test]
    fn only_a_folder_with_nothing_but_its_manifest_is_discarded() {
        let place = tempfile::tempdir().unwrap();
        for (name, benches) in [("empty", 0), ("one", 1), ("two", 2)] {
            let path = place.path().join(name);
            let folder = LabCompareFolder::create(&path, manifest()).unwrap();
            (0..benches).for_each(|at| fs::create_dir(path.join(format!("a{at}"))).unwrap());
            folder.discard();
            assert_eq!(path.exists(), benches > 0, "{name}");
        }
        let folders = LabCompareSide::BOTH.map(|side| (side.letter(), side.folder(12)));
        assert_eq!(folders, [("A", "a12".to_owned()), ("B", "b12".to_owned())]);
    }
}
