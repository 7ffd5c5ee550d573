//! What a step needs of the kernel apart from its files: a cold page cache, a bound on the memory
//! that the page cache may use, another read-ahead. All of it ends with the step.

mod memory_bound;
mod read_ahead;

use std::path::Path;

use durio_plan::{Plan, Step, TargetKind};
use durio_record::StateFolder;

use crate::error::RunError;
use crate::layout::PreparedTarget;
use memory_bound::MemoryBound;
pub(crate) use memory_bound::remove_left;
use read_ahead::ReadAhead;

/// Conditions that hold while it lives.
#[derive(Debug)]
pub(crate) struct HeldConditions {
    /// Files keep the read-ahead that they were opened with.
    read_ahead: Vec<ReadAhead>,
}

impl HeldConditions {
    /// Sets the conditions for opening the files.
    pub(crate) fn before_opening(
        step: &Step,
        plan: &Plan,
        prepared: &[Option<PreparedTarget>],
        state: Option<&StateFolder>,
    ) -> Result<Self, RunError> {
        let mut read_ahead = Vec::new();
        for target in step.loads().flat_map(|load| load.targets()) {
            if let (Some(prepared), true) = (&prepared[target], step.drop_cache) {
                prepared.drop_cache()?;
            }
            let Some(path) = path_of(&plan.targets[target].kind) else { continue };
            if let Some(bytes) = step.read_ahead {
                read_ahead.extend(ReadAhead::set(path, bytes, state)?);
            }
        }
        Ok(Self { read_ahead })
    }

    /// Sets the conditions for running the step, now that its memory is taken and its files are
    /// open; undoes those for opening alone.
    pub(crate) fn after_opening(self, step: &Step) -> Result<Option<MemoryBound>, RunError> {
        // Files keep the read-ahead they were opened with; other programs get theirs back as soon
        // as possible.
        for read_ahead in self.read_ahead {
            read_ahead.restore()?;
        }
        step.memory_bound.map(MemoryBound::enter).transpose()
    }
}

/// Where a target is, or will be; none for targets without storage.
pub(crate) fn path_of(kind: &TargetKind) -> Option<&Path> {
    match kind {
        TargetKind::NewFile { directory, .. } => Some(directory.as_path()),
        TargetKind::ExistingFile { path } | TargetKind::Device { path } => Some(path.as_path()),
        TargetKind::NullDevice { .. } | TargetKind::Scripted => None,
    }
}
