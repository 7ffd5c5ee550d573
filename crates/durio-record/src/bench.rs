//! The bench folder: one manifest, and beside it a run folder for each point of each stack.
//!
//! In: what a bench is about to do, and what has become of each layer. Out: the same, read back, also
//! from the folder of a bench that was killed. The format is described in
//! docs/formats/bench-folder.md. Not here: the runs themselves ([`crate::RunFolder`]).

mod folder;
mod manifest;

pub use folder::{BENCH_FOLDER_SCHEMA, BENCH_MANIFEST, BenchFolder, BenchWriter, is_bench_folder};
pub use manifest::{
    BenchLayer, BenchManifest, BenchPublished, BenchStack, LayerState, SeveralDevices, TearDown,
};
