//! The bench folder: one manifest, and a run folder ([`crate::RunFolder`]) for each point of each
//! stack.
//!
//! The folder of a killed bench can be read back too. docs/formats/bench-folder.md describes the
//! format.

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
