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

#[cfg(test)]
mod tests {
    use durio_plan::{EngineKind, Limit, Load, Role};
    use durio_units::Nanos;
    use durio_workload::Workload;

    use super::*;

    #[test]
    fn the_step_and_the_systems_reason_are_told() {
        let workload = Workload { name: "methods".into(), ..Workload::default() };
        let load = Load::new(0, workload, EngineKind::Sync);
        let step = Step::new(Role::Measure, load, Limit::Operations(1), Nanos::from_secs(1));
        let level = Level { axis: "method".into(), value: 5.0, label: "rwf_dsync".into() };
        let step = Step { levels: vec![level], ..step };
        let message = "cannot write".to_owned();
        let refused = StepDeclined { step: 0, round: 0, message, errno: Some(95) };
        let words = DeclinedStep::new(&step, &refused).words();
        assert!(words.starts_with("methods, rwf_dsync is not supported here: cannot write: "));
        assert!(words.contains("os error 95"), "{words}");
        let silent = StepDeclined { errno: None, ..refused };
        assert_eq!(DeclinedStep::new(&step, &silent).reason, "cannot write");
    }
}
