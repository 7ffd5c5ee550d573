//! What joins the steps of a campaign: sections, their axes, what decides how often they are run.

use durio_base::{Bytes, Nanos, RaidLevel};
use serde::{Deserialize, Serialize};

use crate::RawPath;

/// Which question about durable writes the steps of a section answer, one axis or two at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// Which requests a commit sends to the device, per method.
    Commands,
    /// Whether sync calls are what they say: the C library's against the kernel's own.
    SyncCalls,
    /// Sync methods side by side.
    Methods,
    /// A sync after every N writes.
    SyncEvery,
    /// The time of one flush against the blocks that were written before it.
    FlushSlope,
    /// A log that extends, is preallocated, zero-filled or recycled.
    FileModes,
    /// Sizes of one writer's writes, durable and not.
    Sizes,
    /// Writers on one file, and on a file each.
    Writers,
    /// Sizes and writers, at equal volume.
    SizesAndWriters,
    /// Committers that share a log's syncs.
    GroupCommit,
    /// Commit delays and batch bounds of a log.
    CommitDelay,
    /// Every method in every file mode, at every size and number of writers.
    Cross,
}

/// What the steps of a section are to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SectionKind {
    /// They bring the targets into their state.
    Precondition,
    Single,
    /// They are the points of a ladder.
    Ladder {
        /// The varied parameter: the axis of the steps' levels.
        axis: String,
    },
    /// They answer one question about durable writes; the levels of a step say where it is.
    #[serde(rename = "slice")]
    Experiment {
        /// The question.
        // Folders of earlier runs have this word.
        #[serde(rename = "slice")]
        experiment: Experiment,
    },
    /// They are the cells of a map.
    Map {
        /// The axis to the right.
        x: String,
        /// The axis upwards.
        y: String,
    },
}

/// The result by which rounds are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tracking {
    /// Accesses per second (commits, where there are any).
    Iops,
    Bandwidth,
    /// Mean service latency of the operation that the workload is about.
    LatencyMean,
}

/// A percentile that a latency must keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// The percentile, above 0 and below 100.
    pub percentile: f64,
    /// The limit of that percentile.
    #[serde(rename = "latency_ns")]
    pub latency: Nanos,
}

/// What ends the rounds of a section.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "until")]
pub enum Until {
    /// The SNIA rule over the last `window` rounds: (max − min) / mean and
    /// |slope| × (window − 1) / mean at most these shares.
    SteadyState {
        /// Position of the tracked step within the section.
        tracked: u32,
        tracking: Tracking,
        /// Rounds of the window.
        window: u32,
        /// Largest excursion, in thousandths of the mean.
        excursion_per_mille: u16,
        /// Largest rise or fall of the fitted line over the window, in thousandths of the mean.
        slope_per_mille: u16,
    },
    /// The highest rate that keeps the goal is known this well. Each round has its own rate.
    GoalFound {
        /// What must be kept.
        goal: Goal,
        /// Width of the interval in thousandths of the rate.
        precision_per_mille: u16,
        /// The step that shows what a closed loop reaches, where the search may begin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ceiling_step: Option<u32>,
    },
}

/// A section that is run round after round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// At most this many.
    pub max: u32,
    /// What ends them earlier.
    #[serde(flatten)]
    pub until: Until,
}

/// Steps that follow each other and are shown together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSection {
    pub name: String,
    /// Purpose, in one sentence.
    pub summary: String,
    /// What its steps are to each other.
    #[serde(flatten)]
    pub kind: SectionKind,
    /// Index of its first step.
    pub first_step: u32,
    /// Number of its steps.
    pub steps: u32,
    /// If it is run again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
    /// A target whose sections give the baseline: same drives below, same section name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

impl PlanSection {
    /// The indices of its steps.
    pub fn range(&self) -> std::ops::Range<usize> {
        let first = self.first_step as usize;
        first..first + self.steps as usize
    }
}

/// What a device's maker and seller say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
// Users write it in specs: a misspelt key must be an error, not a missing value.
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Price of all devices of the target, in `currency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// USD unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Random reads per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_read_iops: Option<f64>,
    /// Random writes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_write_iops: Option<f64>,
    /// Sequential reads in bytes per second.
    #[serde(rename = "read_bandwidth_bytes_per_second", skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<Bytes>,
    /// Sequential writes in bytes per second.
    #[serde(rename = "write_bandwidth_bytes_per_second", skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bytes>,
}

/// A target's layout and environment, as declared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredLayout {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidLevel>,
    /// Members of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    /// Copies of each block (RAID1, RAID10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// How often everything is replicated above the storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<Sheet>,
}

/// The user's declarations about one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeclaredTarget {
    /// The target's name in the plan.
    pub target: String,
    /// Its place, as the user named it.
    pub location: Option<RawPath>,
    #[serde(flatten)]
    pub declared: DeclaredLayout,
}

/// A campaign: what joins the steps of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Short name.
    pub name: String,
    /// What it shows, and the work that it follows.
    pub summary: String,
    /// Its sections, in the order of the steps.
    pub sections: Vec<PlanSection>,
    /// Declarations about the targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<DeclaredTarget>,
    /// What a wider campaign of the same kind would measure and this one does not, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Durations are this many thousandths of the spec's; below 1000, results are provisional.
    // Plans without the field are whole.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub time_scale_per_mille: u32,
    /// Deviations from the modelled benchmark, and other facts a reader of the results needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Hash of the spec, by which an interrupted campaign is known again.
    #[serde(default)]
    pub spec_hash: String,
}

const fn whole() -> u32 {
    1000
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_whole(value: &u32) -> bool {
    *value == 1000
}

impl Default for Campaign {
    /// An empty one, not scaled.
    fn default() -> Self {
        Self {
            name: String::new(),
            summary: String::new(),
            sections: Vec::new(),
            declared: Vec::new(),
            left_out: Vec::new(),
            time_scale_per_mille: whole(),
            notes: Vec::new(),
            spec_hash: String::new(),
        }
    }
}

impl Campaign {
    /// Checks that the sections hold every step at most once and in order.
    pub(crate) fn validate(&self, steps: usize) -> Result<(), String> {
        let mut end = 0;
        for section in &self.sections {
            let fail = |what: &str| Err(format!("section '{}' {what}", section.name));
            let range = section.range();
            // Reports take a section's steps by this range without asking again.
            if range.start < end || range.end > steps {
                return fail("has steps of another section");
            }
            end = range.end;
            let Some(rounds) = section.rounds else { continue };
            if rounds.max == 0 || section.steps == 0 {
                return fail("has no rounds");
            }
            // A slope needs two rounds, and the judge takes the tracked step by its index.
            if let Until::SteadyState { tracked, window, .. } = rounds.until
                && (tracked >= section.steps || window < 2)
            {
                return fail("tracks a step that does not exist");
            }
        }
        Ok(())
    }
}

/// The devices that are measured in a layer with several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeveralDevices {
    One,
    /// All of them concurrently, jobs assigned round-robin; fewer jobs than devices use only the first
    /// ones.
    All,
}

/// A published result for a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedShare {
    /// Name of the stack.
    pub stack: String,
    /// Index of the layer, from 0 at the bottom.
    pub layer: usize,
    /// Name of the step; where it is several workloads, with the words of the one: `write, o_dsync`.
    pub workload: String,
    /// Which point of its ladder, where jobs are an axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Its rate as a share of the raw device's; 1 is as fast as raw.
    pub share_of_raw: f64,
    /// Its rate in accesses per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}
