//! What a bench of layers measures of several devices, and what others published.

use serde::{Deserialize, Serialize};

/// The devices that are measured in a layer with several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeveralDevices {
    /// The first alone.
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
