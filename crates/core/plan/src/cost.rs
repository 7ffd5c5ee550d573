//! The upper bound of a plan's time, bytes written and space, as far as the plan determines them.

use durio_base::{Bytes, Nanos};

use crate::{FileLayout, Limit, Plan, Rounds, Step, TargetKind};

/// What a plan costs at most, with all rounds. Steps that end by operations or bytes take an
/// unknown time, and steps that end by time write as fast as the storage accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Duration of the steps that end by time.
    pub time: Nanos,
    /// Bytes of the laid-out files, and of the steps that end by bytes or operations.
    pub written: Bytes,
    /// Time for which steps that end by time write.
    pub writing: Nanos,
    /// The files to make.
    pub space: Bytes,
}

impl Cost {
    /// Both together, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let bytes = |a: Bytes, b: Bytes| Bytes::new(a.get().saturating_add(b.get()));
        let nanos = |a: Nanos, b: Nanos| Nanos::new(a.get().saturating_add(b.get()));
        Self {
            time: nanos(self.time, other.time),
            written: bytes(self.written, other.written),
            writing: nanos(self.writing, other.writing),
            // Files of one are gone before those of the other are made.
            space: self.space.max(other.space),
        }
    }
}

impl Plan {
    /// What it costs at most.
    pub fn cost(&self) -> Cost {
        let layout = self.targets.iter().map(|target| match &target.kind {
            TargetKind::NewFile { layout, .. } => {
                let is_written =
                    matches!(layout, FileLayout::Incompressible | FileLayout::ZeroFilled);
                let written = if is_written { target.size } else { Bytes::ZERO };
                Cost { written, space: target.size, ..Cost::default() }
            }
            _ => Cost::default(),
        });
        let layout = layout.fold(Cost::default(), |sum, target| {
            let space = Bytes::new(sum.space.get().saturating_add(target.space.get()));
            Cost { space, ..sum.and(target) }
        });
        // On the virtual clock no time passes, and nothing is written.
        let is_real = |step: &&Step| {
            let scripted = Some(&TargetKind::Scripted);
            let is_scripted =
                |at: usize| self.targets.get(at).map(|target| &target.kind) == scripted;
            !step.loads().flat_map(|load| load.targets()).all(is_scripted)
        };
        let steps = self.steps.iter().filter(is_real).map(|step| {
            let rounds = u64::from(self.rounds_of(step).map_or(1, |rounds| rounds.max));
            let time = Nanos::new(step.span().get().saturating_mul(rounds));
            let (written, writing) = match step.write_bytes_max() {
                Some(bytes) => (Bytes::new(bytes.get().saturating_mul(rounds)), Nanos::ZERO),
                None => (Bytes::ZERO, time),
            };
            Cost { time, written, writing, space: Bytes::ZERO }
        });
        steps.fold(layout, Cost::and)
    }

    /// The rounds in which a step is repeated.
    pub fn rounds_of(&self, step: &Step) -> Option<&Rounds> {
        self.section_of(step)?.rounds.as_ref()
    }
}

impl Step {
    /// The time of one round that is known before: only the pause, if the step ends by bytes or
    /// operations.
    pub fn span(&self) -> Nanos {
        let limit = match self.limit {
            Limit::Duration(span) | Limit::VolumeWithin { duration: span, .. } => {
                span.get().saturating_add(self.ramp.get())
            }
            Limit::Operations(_) | Limit::Volume(_) => 0,
        };
        Nanos::new(limit.saturating_add(self.pause_before.get()))
    }
}
