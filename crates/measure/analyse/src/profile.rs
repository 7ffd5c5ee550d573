//! The results of a profile's run: the foreground idle against the same under the background's
//! load. The plan and the findings of its steps give [`ProfileFindings`].

use durio_base::Bytes;
use durio_base::stats::least_squares::{float, saturating_sum};
use durio_plan::{FileLayout, ParameterValue, Plan, Purpose, TargetKind};
use durio_record::OperationName;
use durio_workload::AtEnd;
use serde::{Deserialize, Serialize};

use crate::OperationFindings;
use crate::measurement::{Measurement, Measurements};

/// The axis on which idle is 0 and under load is 1.
const STATE_AXIS: &str = "state";

/// The results of a profile's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileFindings {
    pub name: String,
    /// The compared stream: the log, or the first writer.
    pub foreground: String,
    /// True if the foreground makes anything durable.
    pub durable: bool,
    /// How many commit to each log and share its syncs: the profile's default, not a request;
    /// `None` where each commit is one write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committers: Option<u32>,
    /// Its operations, the one that it is about first.
    pub comparisons: Vec<LoadComparison>,
    /// Differences from the real database, and other notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One operation of the foreground in both states.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadComparison {
    pub operation: OperationName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<StateLatency>,
    /// Together with everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<StateLatency>,
    pub ratio: LoadRatio,
}

/// Results of one operation in one state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StateLatency {
    pub rate_per_second: f64,
    /// 50th percentile; absent with too few samples, as the others.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p99_9_ns: Option<u64>,
    pub max_ns: u64,
}

/// Results under load divided by the same idle; absent if either is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadRatio {
    pub rate: Option<f64>,
    /// Ratio of the medians.
    pub p50: Option<f64>,
    /// Ratio of the 99th percentiles.
    pub p99: Option<f64>,
    /// Ratio of the 99.9th percentiles.
    pub p99_9: Option<f64>,
}

/// The findings of a profile's plan; `None` for other plans, or before any measurement.
pub(crate) fn findings(plan: &Plan, table: &Measurements<'_>) -> Option<ProfileFindings> {
    let campaign = plan.campaign.as_ref().filter(|_| plan.purpose == Purpose::Profile)?;
    let state = |value: f64| table.iter().find(|row| is_foreground(row, value));
    let (idle, loaded) = (state(0.0), state(1.0));
    let first = idle.or(loaded)?;
    let comparison = |name: OperationName| {
        let of = |row: Option<&Measurement<'_>>| row?.operation(name).map(StateLatency::of);
        let (idle, loaded) = (of(idle), of(loaded));
        LoadComparison { operation: name, idle, loaded, ratio: ratio(idle, loaded) }
    };
    let mut notes = campaign.notes.clone();
    notes.extend(table.iter().filter_map(wrapped));
    Some(ProfileFindings {
        name: campaign.name.clone(),
        foreground: first.name.clone(),
        durable: first.durable,
        committers: first.load().and_then(|load| Some(load.workload.group_commit?.committers)),
        comparisons: first
            .operations
            .iter()
            .map(|operation| comparison(operation.operation))
            .collect(),
        notes,
    })
}

fn is_foreground(row: &Measurement<'_>, value: f64) -> bool {
    let is_it = |level: &ParameterValue| {
        level.axis == STATE_AXIS && (level.value - value).abs() < f64::EPSILON
    };
    // The first load of both steps; under load the background stands behind it.
    row.stream == 0 && row.levels.iter().any(is_it)
}

impl StateLatency {
    fn of(operation: &OperationFindings) -> Self {
        let service = &operation.service;
        Self {
            rate_per_second: operation.rate,
            p50_ns: service.p50_ns,
            p99_ns: service.p99_ns,
            p99_9_ns: service.p99_9_ns,
            max_ns: service.max_ns,
        }
    }
}

fn ratio(idle: Option<StateLatency>, loaded: Option<StateLatency>) -> LoadRatio {
    let of = |figure: fn(StateLatency) -> Option<f64>| {
        let (idle, loaded) = (figure(idle?)?, figure(loaded?)?);
        (idle > 0.0).then_some(loaded / idle)
    };
    LoadRatio {
        rate: of(|state| Some(state.rate_per_second)),
        p50: of(|state| state.p50_ns.map(float)),
        p99: of(|state| state.p99_ns.map(float)),
        p99_9: of(|state| state.p99_9_ns.map(float)),
    }
}

/// A growing or preallocated file that filled up: from then on it was overwritten in place.
fn wrapped(row: &Measurement<'_>) -> Option<String> {
    let load = row.load()?;
    let is_used_up = |index: usize| {
        let target = row.plan.targets.get(index)?;
        let TargetKind::NewFile { layout, .. } = &target.kind else { return None };
        let wraps = load.workload.at_end == AtEnd::WrapAround;
        let uses_up = match layout {
            FileLayout::Empty => true,
            FileLayout::Preallocated => wraps,
            _ => false,
        };
        uses_up.then_some(target.size)
    };
    let sizes: Vec<u64> = load.targets().filter_map(is_used_up).map(Bytes::get).collect();
    let size = saturating_sum(sizes.iter().copied());
    let written = row.bandwidth * row.measured.as_secs_f64();
    if sizes.is_empty() || written <= float(size) {
        return None;
    }
    let state = row.levels.first().map_or("", |level| level.label.as_str());
    Some(format!(
        "{}, {state}: it filled its {} before the end and then overwrote them in place, which \
         costs less than growing",
        row.name,
        Bytes::new(size)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadFindings;
    use crate::tests::sample::sample;
    use durio_plan::Campaign;

    fn findings(plan: &Plan, workloads: &[WorkloadFindings]) -> Option<ProfileFindings> {
        super::findings(plan, &Measurements::of_run(plan, workloads))
    }

    fn in_state(value: f64, p99: u64) -> WorkloadFindings {
        let mut log = sample().workloads.remove(0);
        let level = |axis: &str, value| ParameterValue {
            axis: axis.to_owned(),
            value,
            label: String::new(),
        };
        // A level of another axis: its value 1 must not count as a state.
        log.levels = vec![level("state", value), level("jobs", 1.0)];
        for operation in &mut log.operations {
            operation.service.p99_ns = Some(p99);
            operation.service.p99_9_ns = None;
        }
        log
    }

    fn plan() -> Plan {
        let campaign = Campaign { name: "etcd".into(), ..Campaign::default() };
        Plan { purpose: Purpose::Profile, campaign: Some(campaign), ..sample().plan }
    }

    #[test]
    fn the_ratio_is_that_of_the_figures_and_absent_where_one_is() {
        let found = findings(&plan(), &[in_state(0.0, 100), in_state(1.0, 350)]).unwrap();
        let commit = &found.comparisons[0];
        assert_eq!(commit.operation, OperationName::Commit);
        assert_eq!(commit.ratio.p99, Some(3.5));
        assert_eq!(commit.ratio.p99_9, None);
        assert_eq!(found.comparisons.len(), 3, "commit, write, sync");
    }

    #[test]
    fn a_state_that_was_not_reached_leaves_the_other() {
        let found = findings(&plan(), &[in_state(0.0, 100)]).unwrap();
        assert!(found.comparisons[0].loaded.is_none());
        assert_eq!(found.comparisons[0].ratio.p99, None);
        assert_eq!(findings(&plan(), &[]), None);
    }

    #[test]
    fn the_committers_are_those_of_the_plan() {
        let mut plan = plan();
        let committers = |plan: &Plan| findings(plan, &[in_state(0.0, 100)]).unwrap().committers;
        for step in &mut plan.steps {
            step.load.workload.group_commit = None;
        }
        assert_eq!(committers(&plan), None);
        for step in &mut plan.steps {
            step.load.workload.group_commit = Some(durio_workload::GroupCommit::of(32));
        }
        assert_eq!(committers(&plan), Some(32));
    }

    #[test]
    fn other_plans_have_no_such_findings() {
        assert_eq!(findings(&sample().plan, &[in_state(0.0, 1)]), None);
    }

    #[test]
    fn a_growing_file_that_came_to_its_end_is_named_and_a_recycled_one_is_not() {
        let full = |layout, bandwidth| {
            let mut plan = plan();
            let place = durio_plan::RawPath::from("/data");
            let (directory, file_name) = (place.clone(), place);
            plan.targets[0].kind =
                TargetKind::NewFile { directory, file_name, named: false, layout };
            let mut log = in_state(0.0, 100);
            log.bandwidth = bandwidth;
            findings(&plan, &[log]).unwrap().notes.len()
        };
        assert_eq!(full(FileLayout::Empty, 1e15), 1);
        assert_eq!(full(FileLayout::Empty, 1.0), 0);
        assert_eq!(full(FileLayout::ZeroFilled, 1e15), 0);
    }

    #[test]
    fn what_was_full_is_the_files_of_the_log_that_grow_or_are_used_up() {
        use durio_plan::RawPath;
        let notes = |layouts: [FileLayout; 2], at_end, bandwidth| {
            let mut plan = plan();
            let place = RawPath::from("/data");
            plan.targets.push(plan.targets[0].clone());
            for (target, layout) in plan.targets.iter_mut().zip(layouts) {
                let (directory, file_name) = (place.clone(), place.clone());
                target.kind = TargetKind::NewFile { directory, file_name, named: false, layout };
            }
            plan.targets[1].size = Bytes::from_gib(3);
            plan.steps[0].load.more_targets = vec![1];
            plan.steps[0].load.workload.at_end = at_end;
            let mut log = in_state(1.0, 100);
            log.levels[0].label = "under load".to_owned();
            (log.bandwidth, log.measured) = (bandwidth, durio_base::Nanos::from_secs(4));
            findings(&plan, &[log]).unwrap().notes
        };
        const GIB: f64 = 1_073_741_824.0;
        let both = [FileLayout::Empty, FileLayout::Empty];
        // Of 1 and 3 GiB in 4 s.
        let full = notes(both, AtEnd::WrapAround, 1.01 * GIB);
        let words = "commit, under load: it filled its 4 GiB before the end and";
        assert!(full.len() == 1 && full[0].starts_with(words), "{full:?}");
        assert_eq!(notes(both, AtEnd::WrapAround, 0.99 * GIB), [""; 0]);
        let one = notes([FileLayout::ZeroFilled, FileLayout::Empty], AtEnd::WrapAround, GIB);
        assert!(one[0].contains("it filled its 3 GiB"), "{one:?}");
        // A preallocated file is used up where it starts over, and not where it is made new.
        let used = [FileLayout::Preallocated, FileLayout::ZeroFilled];
        assert_eq!(notes(used, AtEnd::WrapAround, GIB).len(), 1);
        assert_eq!(notes(used, AtEnd::Reallocate, GIB), [""; 0]);
    }

    #[test]
    fn each_ratio_is_of_its_own_figure() {
        let with = |state: f64, figures: StateLatency| {
            let mut log = in_state(state, 0);
            for operation in &mut log.operations {
                operation.rate = figures.rate_per_second;
                operation.service.p50_ns = figures.p50_ns;
                operation.service.p99_ns = figures.p99_ns;
                operation.service.p99_9_ns = figures.p99_9_ns;
                operation.service.max_ns = figures.max_ns;
            }
            log
        };
        let idle = StateLatency {
            rate_per_second: 400.0,
            p50_ns: Some(10),
            p99_ns: Some(100),
            p99_9_ns: Some(1000),
            max_ns: 9000,
        };
        let loaded = StateLatency {
            rate_per_second: 100.0,
            p50_ns: Some(15),
            p99_ns: Some(250),
            p99_9_ns: Some(3500),
            max_ns: 20_000,
        };
        let found = findings(&plan(), &[with(0.0, idle), with(1.0, loaded)]).unwrap();
        let commit = found.comparisons[0];
        assert_eq!((commit.idle, commit.loaded), (Some(idle), Some(loaded)));
        let expected =
            LoadRatio { rate: Some(0.25), p50: Some(1.5), p99: Some(2.5), p99_9: Some(3.5) };
        assert_eq!(commit.ratio, expected);
        let nothing = StateLatency { rate_per_second: 0.0, p99_ns: None, ..idle };
        let found = findings(&plan(), &[with(0.0, nothing), with(1.0, loaded)]).unwrap();
        assert_eq!(found.comparisons[0].ratio, LoadRatio { rate: None, p99: None, ..expected });
    }
}
