//! Steps that were refused by the target or the kernel, and why.

use durio_plan::{Level, Step};
use durio_record::StepDeclined;
use serde::{Deserialize, Serialize};

/// A step that has no figures because the target or the kernel refused what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeclinedStep {
    /// Index of the step in the plan.
    pub step: u32,
    /// The name of its workload.
    pub workload: String,
    /// Where it is on the axes of its section.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// What was refused, with the system's words.
    pub reason: String,
}

impl DeclinedStep {
    pub(crate) fn new(step: &Step, declined: &StepDeclined) -> Self {
        let reason = match declined.errno.map(std::io::Error::from_raw_os_error) {
            Some(cause) => format!("{}: {cause}", declined.message),
            None => declined.message.clone(),
        };
        let workload = step.load.workload.name.clone();
        Self { step: step.index, workload, levels: step.levels.clone(), reason }
    }

    /// The step as it is shown, and the reason.
    pub(crate) fn words(&self) -> String {
        let levels = self.levels.iter().map(Level::words);
        let name = std::iter::once(self.workload.clone()).chain(levels).collect::<Vec<_>>();
        format!("{} is not supported here: {}", name.join(", "), self.reason)
    }
}
