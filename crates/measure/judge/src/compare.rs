//! Runs against runs: what differs, by how much, and whether chance explains it.
//!
//! [`RunReader`] makes [`Side`]s from events; [`Comparison`] is plain data.
//!
//! The compared units are runs, or blocks of a run's intervals; never single I/Os, which depend too
//! much on their neighbours.

mod again;
mod answer;
mod bins;
mod bootstrap;
mod comparison;
mod differences;
mod effect;
mod gate;
pub mod published;
mod side;
#[cfg(test)]
mod simulation_tests;
mod units;

use durio_analyse::{CurvePoint, IntervalPoint, OperationFindings, WorkloadFindings, each_once};
use durio_base::Nanos;
use durio_base::stats::least_squares::float;
use durio_record::{OperationName, Phase};

use effect::Repeat;
use units::{UnitMember, WorkloadUnit};

pub use answer::{PlacesAnswer, between_places};
pub use comparison::{
    COMPARE_SCHEMA, CompareAnswer, CompareSettings, Comparison, Difference, FigureComparison,
    FigureName, Gate, Method, Pair, PairAnswer, RunFacts, SideFacts, SideWord, StepComparison,
};
pub use side::{ComparedRun, RunReader, Side};

/// Compares every further side with the first.
///
/// Sides without a run have no step in common with anything. The same sides and settings give the
/// same comparison, to the last bit.
pub fn compare(sides: &[Side], settings: &CompareSettings) -> Comparison {
    compare_named(sides, &[], settings)
}

/// The same; `names` are the labels of the sides, if there is one for each.
pub fn compare_named(sides: &[Side], names: &[String], settings: &CompareSettings) -> Comparison {
    let labels = if names.len() == sides.len() { names.to_vec() } else { labels(sides) };
    let mut comparison = Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        settings: *settings,
        resamples: bootstrap::RESAMPLES,
        sides: sides.iter().zip(&labels).map(side_facts).collect(),
        answer: CompareAnswer::default(),
        pairs: Vec::new(),
        gate: None,
    };
    if let (Some((baseline, others)), Some((first, rest))) =
        (sides.split_first(), labels.split_first())
    {
        let others = others.iter().zip(rest).enumerate();
        let number = |(index, (side, label)): (usize, (&Side, &String))| {
            let labels = [first.clone(), label.clone()];
            pair(baseline, (index + 1, side), labels, settings)
        };
        comparison.pairs = others.map(number).collect();
    }
    let gate = |share| gate::gate(&comparison.pairs, share, settings.forced);
    comparison.gate = settings.fail_over.map(gate);
    comparison.answer = answer::answer(sides, &comparison);
    comparison
}

/// The names that the user gave the runs, if each side is one run and the names differ; else letters.
fn labels(sides: &[Side]) -> Vec<String> {
    let name = |side: &Side| match side.runs.as_slice() {
        [one] => one.findings.run.label.clone(),
        _ => None,
    };
    let names: Option<Vec<String>> = sides.iter().map(name).collect();
    let is_clear = |names: &Vec<String>| each_once(names).len() == sides.len();
    names.filter(is_clear).unwrap_or_else(|| (0..sides.len()).map(label).collect())
}

/// A, B, … Z, then numbers.
fn label(index: usize) -> String {
    let letter =
        u8::try_from(index).ok().filter(|index| *index < 26).map(|index| char::from(b'A' + index));
    letter.map_or_else(|| (index + 1).to_string(), String::from)
}

fn side_facts((side, label): (&Side, &String)) -> SideFacts {
    let run = |run: &ComparedRun| RunFacts {
        run: run.findings.run.run.clone(),
        run_folder: run.findings.run_folder.clone(),
        started: run.findings.run.started.clone(),
        state: run.findings.state,
    };
    SideFacts {
        label: label.clone(),
        source: side.source.clone(),
        runs: side.runs.iter().map(run).collect(),
    }
}

fn pair(
    baseline: &Side,
    (index, other): (usize, &Side),
    labels: [String; 2],
    settings: &CompareSettings,
) -> Pair {
    let (units_a, units_b) = (units::units(baseline), units::units(other));
    let matched = units::matched(&units_a, &units_b);
    let step = |&(a, b): &(usize, usize)| {
        let units = [units_a.get(a)?, units_b.get(b)?];
        Some(step(units, &labels, index, settings))
    };
    let titles = |units: &[WorkloadUnit<'_>], places: &[usize]| {
        places.iter().filter_map(|&place| units.get(place)).map(WorkloadUnit::title).collect()
    };
    let environment = differences::of_environment(baseline, other);
    let steps = in_parallel(&matched.pairs, step);
    let is_alike = environment.is_empty() && steps.iter().all(|step| step.differences.is_empty());
    let shared = differences::shared_device(baseline, other);
    let shared = shared.and_then(|shared| shared.remark(&labels, is_alike));
    let remarks = shared.into_iter().chain(remarks(baseline, other, &labels)).collect();
    let [baseline, other] = labels;
    Pair {
        remarks,
        environment,
        steps,
        only_baseline: titles(&units_a, &matched.only_baseline),
        only_other: titles(&units_b, &matched.only_other),
        baseline,
        other,
    }
}

/// Applies `work` to every item, on all processors; the results are in the items' order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    // Each step is drawn again a thousand times on either side; steps know nothing of each other.
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(workers).max(1);
    let work = &work;
    std::thread::scope(|scope| {
        let start =
            |part| scope.spawn(move || -> Vec<R> { <[T]>::iter(part).filter_map(work).collect() });
        let running: Vec<_> = items.chunks(share).map(start).collect();
        let join = |part: std::thread::ScopedJoinHandle<'_, Vec<R>>| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect()
    })
}

fn remarks(baseline: &Side, other: &Side, labels: &[String; 2]) -> Vec<String> {
    let [a, b] = labels;
    let mut remarks = Vec::new();
    for run in &baseline.runs {
        if other.runs.iter().any(|other| other.findings.run == run.findings.run) {
            let name = &run.findings.run.run;
            remarks.push(format!("run {name} is on both sides, {a} and {b}: it is no evidence"));
        }
    }
    // As much as it costs, one side is slower for no reason of its storage.
    let has_recorded = |side: &Side| side.runs.iter().any(ComparedRun::has_recorded);
    if has_recorded(baseline) != has_recorded(other) {
        let label = if has_recorded(baseline) { a } else { b };
        let cost = "which cost some of its rate";
        remarks.push(format!("only {label} recorded slow commits (--why), {cost}"));
    }
    for (label, side) in [(a, baseline), (b, other)] {
        for run in &side.runs {
            let errors = run.findings.errors.iter();
            remarks.extend(
                errors.map(|error| format!("{label}, run {}: {error}", run.findings.run.run)),
            );
        }
    }
    remarks
}

fn step(
    units: [&WorkloadUnit<'_>; 2],
    labels: &[String; 2],
    side: usize,
    settings: &CompareSettings,
) -> StepComparison {
    let [a, b] = units;
    let (different_workload, differences) = differences::of_steps(a, b);
    let (first, second) = (a.first.workload, b.first.workload);
    let (mut faults, mut drifts) = (Vec::new(), Vec::new());
    for (label, unit) in labels.iter().zip(units) {
        let found = units::faults(label, &unit.members);
        faults.extend(found.faults);
        drifts.extend(found.drifts);
    }
    // --force makes faults cautions; commits against reads stay apart.
    let hard = other_operation([first, second], labels);
    let (not_comparable, cautions): (Vec<String>, Vec<String>) = match settings.forced {
        true => (hard.into_iter().collect(), faults.into_iter().chain(drifts).collect()),
        false => (hard.into_iter().chain(faults).collect(), drifts),
    };
    let figures = match Vec::is_empty(&not_comparable) {
        true => figures([&a.members, &b.members], side, settings),
        false => Vec::new(),
    };
    StepComparison {
        name: units::named(first),
        locations: [first.location.clone(), second.location.clone()],
        target: first.target.clone(),
        repeats: [a.members.len(), b.members.len()],
        different_workload,
        differences,
        not_comparable,
        cautions,
        headline: first.headline,
        figures,
        curves: [curves(&a.members), curves(&b.members)],
        rates: [rates(&a.members), rates(&b.members)],
    }
}

/// Latencies of different kinds of operations are never compared.
fn other_operation(steps: [&WorkloadFindings; 2], labels: &[String; 2]) -> Option<String> {
    let [a, b] = steps.map(|workload| workload.headline);
    (a != b).then(|| {
        let [label_a, label_b] = labels;
        format!("{label_a} measures {}s, {label_b} {}s", a.name(), b.name())
    })
}

fn headline(workload: &WorkloadFindings) -> Option<&OperationFindings> {
    workload.operation(workload.headline)
}

fn curves(members: &[UnitMember<'_>]) -> Vec<Vec<CurvePoint>> {
    members.iter().filter_map(|member| Some(headline(member.workload)?.curve.clone())).collect()
}

/// The rate of each repeat at the middle of its intervals.
fn rates(members: &[UnitMember<'_>]) -> Vec<Vec<(f64, f64)>> {
    let point = |interval: &IntervalPoint| {
        let ends = [interval.from, interval.to].map(Nanos::as_secs_f64);
        (f64::midpoint(ends[0], ends[1]), interval.rate)
    };
    let line = |member: &UnitMember<'_>| -> Vec<(f64, f64)> {
        let intervals = member.workload.intervals.iter();
        let is_counted =
            |interval: &&IntervalPoint| interval.phase == Phase::Measure && !interval.cut_short;
        intervals.filter(is_counted).map(point).collect()
    };
    members.iter().map(line).collect()
}

fn figures(
    sides: [&[UnitMember<'_>]; 2],
    side: usize,
    settings: &CompareSettings,
) -> Vec<FigureComparison> {
    let repeats = |side: usize, members: &[UnitMember<'_>]| -> Vec<Repeat> {
        members.iter().map(|member| repeat(member, seed(settings.seed, side, member))).collect()
    };
    let [a, b] = [repeats(0, sides[0]), repeats(side, sides[1])];
    let one = |&figure: &FigureName| effect::figure(figure, &a, &b, settings);
    FigureName::ALL.iter().filter_map(one).collect()
}

/// A separate seed for every step of every run, by position: mixed as SplitMix64 does.
fn seed(seed: u64, side: usize, member: &UnitMember<'_>) -> u64 {
    // With one seed all runs would draw the same blocks, and their errors would go the same way.
    let parts = [side as u64, member.run_index as u64, u64::from(member.workload.step)];
    mixed_seed(seed, parts)
}

fn mixed_seed<const PARTS: usize>(seed: u64, parts: [u64; PARTS]) -> u64 {
    parts.iter().fold(seed, |state, part| {
        let mut mixed = (state ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

fn repeat(member: &UnitMember<'_>, seed: u64) -> Repeat {
    let cells = member.series.map(|series| series.cells()).unwrap_or_default();
    Repeat {
        values: FigureName::ALL.map(|figure| value(member.workload, figure)),
        replicates: bootstrap::replicates(cells, seed),
    }
}

/// The result as the run's report has it.
fn value(workload: &WorkloadFindings, figure: FigureName) -> Option<f64> {
    let service = headline(workload).map(|operation| &operation.service);
    // Where syncs are the headline's part they are the commit's; both are shown.
    let sync = workload.operation(OperationName::Sync).map(|operation| &operation.service);
    let value = match figure {
        FigureName::Rate => Some(workload.headline_rate()),
        FigureName::Bandwidth => Some(workload.bandwidth),
        FigureName::Mean => service.map(|latencies| latencies.mean_ns),
        FigureName::P50 => service?.p50_ns.map(float),
        FigureName::P99 => service?.p99_ns.map(float),
        FigureName::P99_9 => service?.p99_9_ns.map(float),
        FigureName::SyncMean => sync.map(|latencies| latencies.mean_ns),
        FigureName::SyncP50 => sync?.p50_ns.map(float),
        FigureName::SyncP99 => sync?.p99_ns.map(float),
        FigureName::SyncP99_9 => sync?.p99_9_ns.map(float),
        FigureName::CpuPerOperation => Some(workload.cpu.per_operation_ns),
    };
    // Effects are quotients in logarithms, which zero does not have.
    value.filter(|value| *value > 0.0 && value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_called_by_letters_and_after_those_by_numbers() {
        assert_eq!([0, 1, 25, 26, 300].map(label), ["A", "B", "Z", "27", "301"]);
    }

    #[test]
    fn work_in_parallel_gives_its_results_in_order() {
        for count in [0, 1, 2, 3, 7, 100] {
            let items: Vec<u32> = (0..count).collect();
            let found = in_parallel(&items, |&item| (item % 3 != 1).then_some(item * 2));
            let expected: Vec<u32> =
                items.iter().filter(|item| *item % 3 != 1).map(|item| item * 2).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn draws_of_sides_runs_and_steps_have_the_seeds_of_splitmix64() {
        // From 0 the first output of SplitMix64, and each part is mixed into the one before.
        let first = mixed_seed(0, [0]);
        assert_eq!(first, 0xE220_A839_7B1D_CDAF);
        assert_eq!(mixed_seed(0, [0, 0]), mixed_seed(first, [0]));
        let plain = |state: u64, part: u64| {
            let z = (state ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        assert_eq!(mixed_seed(9, [3, 5, 7]), plain(plain(plain(9, 3), 5), 7));
    }
}
