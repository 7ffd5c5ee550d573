//! Summaries of captures and replays, of benches of stacks, and of proofs by power cuts.

use durio_analyse::attribution::{
    Base, BaseKind, RowFigures, StackFindings, StepKey, WorkloadRows,
};
use durio_analyse::capture::{CaptureFindings, ReplayFindings};
use durio_analyse::{FOREIGN_CPUS_MAX, grouped};
use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos, counted};
use durio_plan::proof::{ExpectedVerdict, ProofTarget};
use durio_record::Outcome;
use durio_record::proof::{ProofFindings, ProofVerdict, SeriesFindings};

use super::{
    Summary, SummaryFigure, SummaryParts, SummaryReason, SummaryRule, bare_rate, joined, rate,
    whole,
};

/// What a database did to its storage, or whether storage kept up with that.
pub fn of_capture(findings: &CaptureFindings) -> Summary {
    let mut parts = SummaryParts::default();
    if let Some(why) = &findings.ended_early {
        let text = format!("it ended early ({why})");
        parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
    }
    match &findings.replay {
        Some(replay) => replayed(replay, &mut parts),
        None => captured(findings, &mut parts),
    }
    parts.finish()
}

fn replayed(replay: &ReplayFindings, parts: &mut SummaryParts) {
    let [taken, planned] = [replay.taken_seconds, replay.planned_seconds].map(seconds);
    let operations = counted(replay.done as u64, "operation");
    match replay.kept_up {
        Some(true) => {
            parts.results = format!("the storage kept up with the trace, {operations} in {taken}");
        }
        Some(false) => {
            let text = format!(
                "the storage did not keep up with the trace ({operations} in {taken}, {planned} planned)"
            );
            parts.reasons.push(SummaryReason::new(SummaryRule::NotKeptUp, text));
        }
        None => {
            parts.results = format!("{operations} in {taken}");
            if parts.reasons.is_empty() {
                let text = "the replay is not whole";
                parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
            }
        }
    }
    if let Some(others) = replay.others.filter(|others| *others > FOREIGN_CPUS_MAX) {
        let text = format!("other work used {others:.1} CPUs");
        parts.reasons.push(SummaryReason::new(SummaryRule::OtherWork, text));
    }
}

fn captured(findings: &CaptureFindings, parts: &mut SummaryParts) {
    let per_second = |count: u64| {
        if findings.seconds > 0.0 { float(count) / findings.seconds } else { 0.0 }
    };
    let figures = [
        ("writes", per_second(findings.writes)),
        ("syncs and durable writes", per_second(findings.durable)),
    ];
    for (label, value) in figures {
        parts.headline.push(SummaryFigure { label: label.to_owned(), value, unit: "per second" });
    }
    let [(_, writes), (_, durable)] = figures;
    parts.results = format!(
        "{} writes/s ({}/s) and {} syncs and durable writes/s by {} in {}",
        bare_rate(writes),
        Bytes::new(whole(per_second(findings.written_bytes))),
        bare_rate(durable),
        match findings.processes {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        },
        seconds(findings.seconds)
    );
    let text = "no limit applies to a capture";
    parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
}

fn seconds(seconds: f64) -> Nanos {
    Nanos::new(whole(seconds * 1e9))
}

/// The fastest stack of a bench, or the one with the least software cost where instructions were
/// counted, which are not speeds. Stacks on unlike devices are not compared with each other: their
/// difference would be that of the devices.
pub fn of_stacks(findings: &StackFindings) -> Option<Summary> {
    let workload = answering(findings)?;
    let is_counted = findings.label.is_some();
    let groups = ranked(findings, workload);
    let mut parts = SummaryParts::default();
    let unit = if is_counted { "ns per operation" } else { "per second" };
    for stack in groups.iter().flatten() {
        let label = format!("{}, {}", stack.name, workload.label);
        parts.headline.push(SummaryFigure { label, value: stack.value(is_counted), unit });
    }
    let in_workload = format!(" in {}", workload.label);
    let mut clauses = vec![ranking(groups.first()?, &in_workload, is_counted)];
    let further = groups.iter().skip(1);
    clauses.extend(further.take(GROUPS_NAMED_MAX - 1).map(|group| ranking(group, "", is_counted)));
    if let Some(more @ 1..) = groups.len().checked_sub(GROUPS_NAMED_MAX) {
        clauses.push(format!("{} of devices", counted(more as u64, "further kind")));
    }
    clauses.extend(place(findings));
    parts.results = joined(clauses);
    let failed = findings.points.iter().filter_map(|point| Some((point, point.failure.as_ref()?)));
    let failed: Vec<_> = failed.collect();
    let reason = match failed.first() {
        Some((point, why)) => {
            let count = counted(failed.len() as u64, "layer");
            let text = format!("{count} failed ({}: {why})", point.stack);
            SummaryReason::new(SummaryRule::Incomplete, text)
        }
        None => {
            let text = "stacks are compared with each other, not with a limit";
            SummaryReason::new(SummaryRule::NoLimit, text)
        }
    };
    parts.reasons.push(reason);
    Some(parts.finish())
}

/// Kinds of devices whose stacks a sentence ranks; the others are counted.
const GROUPS_NAMED_MAX: usize = 3;

/// The workload that a bench is ranked by: its first one, of a ladder the highest level.
fn answering(findings: &StackFindings) -> Option<&WorkloadRows> {
    let first = findings.workloads.first()?;
    let Some((axis, _)) = first.key.level() else { return Some(first) };
    let ladder = |key: &StepKey| (key.workload.clone(), key.section.clone(), key.stream);
    let levels = findings.workloads.iter().filter_map(|workload| {
        let (other, level) = workload.key.level()?;
        let is_same = other == axis && ladder(&workload.key) == ladder(&first.key);
        is_same.then_some((level, workload))
    });
    levels.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, workload)| workload)
}

/// A stack with the results of its topmost layer.
struct RankedStack<'f> {
    name: &'f str,
    base: &'f Base,
    figures: &'f RowFigures,
}

impl RankedStack<'_> {
    const fn value(&self, is_counted: bool) -> f64 {
        match is_counted {
            true => self.figures.time_per_operation_ns,
            false => self.figures.rate_per_second,
        }
    }

    fn words(&self, is_counted: bool) -> String {
        let value = self.value(is_counted);
        match is_counted {
            true => Nanos::new(whole(value)).to_string(),
            false => rate(value),
        }
    }
}

/// The stacks with results, those on like devices together, the fastest first.
fn ranked<'f>(
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
) -> Vec<Vec<RankedStack<'f>>> {
    let is_top = |at: usize| findings.points.iter().all(|point| point.below != Some(at));
    let tops = workload.rows.iter().filter(|row| is_top(row.point));
    let stacks = tops.filter_map(|row| {
        let (point, figures) = (findings.points.get(row.point)?, row.figures.as_ref()?);
        Some(RankedStack { name: &point.stack, base: &point.base, figures })
    });
    let mut groups = grouped(stacks, |a, b| a.base.is_like(b.base));
    for group in &mut groups {
        group.sort_by(|a, b| b.figures.rate_per_second.total_cmp(&a.figures.rate_per_second));
    }
    groups
}

/// The first and the last of stacks on like devices; `in_workload` where a sentence begins.
fn ranking(group: &[RankedStack<'_>], in_workload: &str, is_counted: bool) -> String {
    let (Some(best), Some(worst)) = (group.first(), group.last()) else { return String::new() };
    let (name, devices) = (best.name, devices(best.base));
    let each = if is_counted { " per operation" } else { "" };
    let most = format!("{}{each}", best.words(is_counted));
    if group.len() == 1 {
        return format!("{name} on {devices}{in_workload}: {most}");
    }
    let (is_best, is_worst) = match is_counted {
        true => ("has the least software cost", "the highest"),
        false => ("is the fastest", "the slowest"),
    };
    let (count, least) = (group.len(), worst.words(is_counted));
    format!(
        "{name} {is_best} of {count} stacks on {devices}{in_workload}: {most}, against {least} of \
         {}, {is_worst}",
        worst.name
    )
}

fn devices(base: &Base) -> String {
    let kind = match base.kind {
        BaseKind::Ram => "RAM disks",
        BaseKind::Zram => "zram",
        BaseKind::Null => "null_blk devices",
        BaseKind::Loop => "loop devices",
        BaseKind::Device => "existing devices",
    };
    match base.completion() {
        Some(completion) => format!("{kind} ({completion})"),
        None => kind.to_owned(),
    }
}

/// Where the devices are that durio made; `None` without any.
fn place(findings: &StackFindings) -> Option<String> {
    let has = |is_wanted: fn(BaseKind) -> bool| {
        findings.points.iter().any(|point| is_wanted(point.base.kind))
    };
    let in_files = has(|kind| kind == BaseKind::Loop);
    let in_memory = has(|kind| !matches!(kind, BaseKind::Loop | BaseKind::Device));
    let what = match (in_files, in_memory) {
        (false, false) => return None,
        (true, false) => "files",
        (false, true) => "memory",
        (true, true) => "files and memory",
    };
    let machine = if findings.timing.is_some() { " of a virtual machine" } else { "" };
    Some(format!("devices that durio made ({what}{machine}) are not your storage"))
}

/// Whether acknowledged writes survived, and as expected.
pub fn of_proof(findings: &ProofFindings) -> Summary {
    let mut parts = SummaryParts::default();
    let total = findings.series.len();
    let unexpected: Vec<&SeriesFindings> = findings.unexpected().collect();
    for series in &unexpected {
        let name = &series.series.name;
        let text = match series.verdict {
            ProofVerdict::Breaks { class } => format!("{name} {}", class.meaning()),
            ProofVerdict::NoLoss | ProofVerdict::Inconclusive => {
                format!("{name} did not come out as expected")
            }
        };
        parts.reasons.push(SummaryReason::new(SummaryRule::Lost, text));
    }
    if findings.outcome != Some(Outcome::Complete) || findings.not_begun > 0 {
        let text = "the proof is not finished";
        parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
    }
    let open = findings.series.iter().filter(|series| is_open(series)).count();
    match open {
        0 => {}
        _ if findings.series.iter().all(|series| series.verdict == ProofVerdict::Inconclusive) => {
            let text = "no power cut counts for a verdict";
            parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
        }
        _ => {
            let text = format!("{open} of {total} series are undecided");
            parts.reasons.push(SummaryReason::new(SummaryRule::Unfinished, text));
        }
    }
    parts.results = match findings.series.as_slice() {
        _ if !unexpected.is_empty() => String::new(),
        [] => String::new(),
        [series] => survived(series),
        all if all.iter().all(|series| series.as_expected == Some(true)) => {
            format!("all {total} series came out as expected: {}", outcomes(all))
        }
        _ => format!("{} of {total} series came out as expected", total - open),
    };
    parts.finish()
}

/// How many series lost nothing, and how many lost data, by whether they had to.
fn outcomes(all: &[SeriesFindings]) -> String {
    let has_lost = |series: &&SeriesFindings| matches!(series.verdict, ProofVerdict::Breaks { .. });
    let lost = all.iter().filter(has_lost);
    let may = lost.clone().filter(|lost| lost.series.expected == Some(ExpectedVerdict::MayLose));
    let (lost, may) = (lost.count(), may.count());
    let (kept, lied) = (all.len() - lost, lost - may);
    let counts = [
        (kept, "lost nothing"),
        (lied, if lied == 1 { "lied and was caught" } else { "lied and were caught" }),
        (may, "lost data, which was expected to be possible"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0);
    said.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn is_open(series: &SeriesFindings) -> bool {
    matches!(series.verdict, ProofVerdict::Inconclusive)
        || (series.series.expected.is_some() && series.as_expected.is_none())
}

/// What one series shows, if it shows no loss that was not expected.
fn survived(series: &SeriesFindings) -> String {
    let target = &series.series.target;
    let cuts = match target.is_enumerated() {
        true => counted(series.effective, "crash state"),
        false => counted(series.effective, "effective power cut"),
    };
    match series.verdict {
        ProofVerdict::Inconclusive => String::new(),
        ProofVerdict::Breaks { class } => {
            format!("as expected, {} {}", series.series.name, class.meaning())
        }
        ProofVerdict::NoLoss if matches!(target, ProofTarget::Command(_)) => {
            format!("{} passed its check after {cuts}", series.series.name)
        }
        ProofVerdict::NoLoss => {
            format!("{} lost no acknowledged write in {cuts}", series.series.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use durio_analyse::attribution::{LayerRow, PointFacts, PointKind, STACK_FINDINGS_SCHEMA};
    use durio_plan::proof::{LossClass, ProofSeries, SimulatedVia};
    use durio_record::proof::{Controls, InFlightWrites};

    use super::super::SummaryVerdict;
    use super::*;

    /// A workload whose rows are those of `bench`, `times` as fast.
    fn workload(name: &str, levels: &[&str], rates: &[f64], times: f64) -> WorkloadRows {
        let levels: Vec<String> = levels.iter().map(|level| (*level).to_owned()).collect();
        let key = StepKey { workload: name.to_owned(), section: None, levels, stream: 0 };
        let row = |(point, rate): (usize, &f64)| {
            let rate_per_second = rate * times;
            let time_per_operation_ns = 1e9 / rate_per_second;
            let figures =
                RowFigures { rate_per_second, time_per_operation_ns, ..RowFigures::default() };
            LayerRow { point, absent: None, figures: Some(figures) }
        };
        let rows = rates.iter().enumerate().map(row).collect();
        WorkloadRows { label: key.label(), key, rows, waterfalls: Vec::new(), published: None }
    }

    /// Stacks of one filesystem each, with these devices and rates; the raw devices are twice as fast.
    fn bench(stacks: &[(&str, BaseKind, &str, f64)]) -> StackFindings {
        let rates: Vec<f64> = stacks.iter().flat_map(|stack| [stack.3 * 2.0, stack.3]).collect();
        let point = |at: usize| {
            let (stack, kind, label, _) = stacks[at / 2];
            let (kind_of_layer, below) = match at % 2 {
                0 => (PointKind::Raw, None),
                _ => (PointKind::Filesystem, Some(at - 1)),
            };
            PointFacts {
                stack: stack.to_owned(),
                layer: "layer".to_owned(),
                name: "layer".to_owned(),
                kind: kind_of_layer,
                base: Base { kind, label: label.to_owned() },
                below,
                raid: None,
                failure: None,
            }
        };
        StackFindings {
            schema: STACK_FINDINGS_SCHEMA.to_owned(),
            name: "bench".to_owned(),
            summary: String::new(),
            timing: None,
            label: None,
            provisional: None,
            kernels: Vec::new(),
            points: (0..rates.len()).map(point).collect(),
            workloads: vec![workload("write", &[], &rates, 1.0)],
            warnings: Vec::new(),
        }
    }

    fn sentence(findings: &StackFindings) -> String {
        of_stacks(findings).unwrap().sentence
    }

    const LOOP: (BaseKind, &str) = (BaseKind::Loop, "loop devices of 320 MiB in /tmp");
    const ZRAM: (BaseKind, &str) = (BaseKind::Zram, "zram of 320 MiB");

    #[test]
    fn stacks_are_compared_with_those_on_devices_of_the_same_kind_alone() {
        let found = bench(&[
            ("btrfs-on-loop", LOOP.0, LOOP.1, 8000.0),
            ("ext4-on-zram", ZRAM.0, ZRAM.1, 150_000.0),
            ("xfs-on-loop", LOOP.0, LOOP.1, 9000.0),
            ("ext4-on-loop", LOOP.0, "loop devices of 64 MiB in /srv", 12_500.0),
            ("xfs-on-zram", ZRAM.0, ZRAM.1, 310_000.0),
        ]);
        assert_eq!(
            sentence(&found),
            "ext4-on-loop is the fastest of 3 stacks on loop devices in write: 12.5 k/s, against \
             8 k/s of btrfs-on-loop, the slowest; xfs-on-zram is the fastest of 2 stacks on zram: \
             310 k/s, against 150 k/s of ext4-on-zram, the slowest; devices that durio made (files \
             and memory) are not your storage."
        );
        let summary = of_stacks(&found).unwrap();
        let labels: Vec<_> = summary.headline.iter().map(|figure| figure.label.as_str()).collect();
        let stacks =
            ["ext4-on-loop", "xfs-on-loop", "btrfs-on-loop", "xfs-on-zram", "ext4-on-zram"];
        assert_eq!(labels, stacks.map(|stack| format!("{stack}, write")));
    }

    #[test]
    fn null_devices_are_alike_if_they_complete_at_the_same_time_whatever_their_size_and_number() {
        let null = BaseKind::Null;
        let found = bench(&[
            ("c", null, "null_blk of 1 GiB, done at once", 4000.0),
            ("b", null, "4 × null_blk of 256 MiB, done after 4 ms, 2 at a time", 750.0),
            ("a", null, "4 × null_blk of 256 MiB, done at once", 5000.0),
        ]);
        assert_eq!(
            sentence(&found),
            "a is the fastest of 2 stacks on null_blk devices (done at once) in write: 5 k/s, against \
             4 k/s of c, the slowest; b on null_blk devices (done after 4 ms, 2 at a time): 750 /s; \
             devices that durio made (memory) are not your storage."
        );
    }

    #[test]
    fn existing_devices_are_not_called_durios_and_a_single_stack_is_not_compared() {
        let device = BaseKind::Device;
        let (one, other) = (("a", device, "/dev/sdb", 700.0), ("b", device, "/dev/sdc", 900.0));
        assert_eq!(sentence(&bench(&[one])), "a on existing devices in write: 700 /s.");
        assert_eq!(
            sentence(&bench(&[one, other])),
            "b is the fastest of 2 stacks on existing devices in write: 900 /s, against 700 /s of a, \
             the slowest."
        );
        let mixed = sentence(&bench(&[one, ("l", LOOP.0, LOOP.1, 5.0)]));
        let made =
            "; l on loop devices: 5 /s; devices that durio made (files) are not your storage.";
        assert!(mixed.ends_with(made), "{mixed}");
    }

    #[test]
    fn three_kinds_of_devices_are_named_and_more_are_counted() {
        let all = [
            ("r", BaseKind::Ram, "RAM disks of 1 GiB", 1.0),
            ("l", LOOP.0, LOOP.1, 2.0),
            ("z", ZRAM.0, ZRAM.1, 3.0),
            ("d", BaseKind::Device, "/dev/sdb", 4.0),
            ("n", BaseKind::Null, "null_blk of 1 GiB, done at once", 5.0),
        ];
        let place = "devices that durio made (files and memory) are not your storage.";
        let named = "r on RAM disks in write: 1 /s; l on loop devices: 2 /s; z on zram: 3 /s";
        assert_eq!(sentence(&bench(&all[..3])), format!("{named}; {place}"));
        let four = format!("{named}; 1 further kind of devices; {place}");
        assert_eq!(sentence(&bench(&all[..4])), four);
        let five = format!("{named}; 2 further kinds of devices; {place}");
        assert_eq!(sentence(&bench(&all)), five);
    }

    #[test]
    fn a_bench_is_ranked_by_the_highest_level_of_its_first_ladder() {
        let mut found = bench(&[("a", ZRAM.0, ZRAM.1, 100.0)]);
        let rates = [200.0, 100.0];
        found.workloads = vec![
            workload("write", &["jobs 4"], &rates, 4.0),
            workload("write", &["jobs 16"], &rates, 16.0),
            workload("write", &["jobs 1"], &rates, 1.0),
            workload("write", &["depth 64"], &rates, 64.0),
            workload("read", &["jobs 32"], &rates, 32.0),
        ];
        let said = sentence(&found);
        assert!(said.starts_with("a on zram in write, jobs 16: 1.6 k/s; "), "{said}");
        found.workloads.remove(1);
        let said = sentence(&found);
        assert!(said.starts_with("a on zram in write, jobs 4: 400 /s; "), "{said}");
        found.workloads.clear();
        assert_eq!(of_stacks(&found), None);
    }

    #[test]
    fn a_layer_that_failed_is_the_reason_and_the_results_follow() {
        let mut found = bench(&[("a", ZRAM.0, ZRAM.1, 100.0), ("b", ZRAM.0, ZRAM.1, 50.0)]);
        let summary = of_stacks(&found).unwrap();
        assert_eq!(summary.reasons, ["stacks are compared with each other, not with a limit"]);
        found.points[3].failure = Some("no space".to_owned());
        found.workloads[0].rows[3].figures = None;
        let summary = of_stacks(&found).unwrap();
        assert_eq!(summary.verdict, SummaryVerdict::Unknown);
        assert_eq!(summary.reasons, ["1 layer failed (b: no space)"]);
        assert_eq!(
            summary.sentence,
            "Unknown: 1 layer failed (b: no space); a on zram in write: 100 /s; devices that durio \
             made (memory) are not your storage."
        );
    }

    /// A series that should keep everything, with this result so far.
    fn kept(verdict: ProofVerdict, as_expected: Option<bool>) -> SeriesFindings {
        let (profile, size, via) = ("honest".to_owned(), Bytes::from_mib(64), SimulatedVia::Nbd);
        let target = ProofTarget::Simulated { profile, size, via };
        let expected = Some(ExpectedVerdict::Holds);
        SeriesFindings {
            series: ProofSeries { name: "honest".into(), target, arm: None, cuts: 59, expected },
            verdict,
            cuts_done: 8,
            effective: if verdict == ProofVerdict::Inconclusive { 0 } else { 7 },
            ineffective: Vec::new(),
            losing: 0,
            interval: None,
            acknowledged: 900,
            at_risk: 70,
            controls: Controls::default(),
            cuts_with_lost_control: 0,
            cuts_with_counter: 0,
            cuts_with_reboot: 0,
            in_flight: InFlightWrites::default(),
            checks: Vec::new(),
            loss: None,
            inventory: None,
            as_expected,
        }
    }

    fn proved(outcome: Outcome, series: &[&SeriesFindings]) -> Summary {
        of_proof(&ProofFindings {
            schema: "durio-proof-1",
            name: "proof".to_owned(),
            summary: String::new(),
            seed: 3,
            started: "2026-11-27T09:10:11Z".to_owned(),
            durio_version: "0.9.1".to_owned(),
            outcome: Some(outcome),
            series: series.iter().map(|series| (*series).clone()).collect(),
            not_begun: 0,
        })
    }

    #[test]
    fn a_series_with_too_few_cuts_for_its_expectation_is_undecided() {
        let decided = kept(ProofVerdict::NoLoss, Some(true));
        let none_yet = kept(ProofVerdict::NoLoss, None);
        // A liar that has not been caught yet.
        let mut liar = none_yet.clone();
        liar.series.expected =
            Some(ExpectedVerdict::Breaks { class: LossClass::Lost, within: 230 });
        let inconclusive = kept(ProofVerdict::Inconclusive, None);
        let rows: [(&[&SeriesFindings], &str, &str); 4] = [
            (&[&decided, &none_yet], "1 of 2", "1 of 2"),
            (&[&liar, &decided, &decided], "2 of 3", "1 of 3"),
            (&[&decided, &none_yet, &liar, &inconclusive], "1 of 4", "3 of 4"),
            (&[&inconclusive, &decided, &decided, &decided, &liar], "3 of 5", "2 of 5"),
        ];
        for (series, came_out, undecided) in rows {
            let summary = proved(Outcome::Interrupted, series);
            let sentence = format!(
                "Unknown: the proof is not finished; {came_out} series came out as expected."
            );
            assert_eq!(summary.sentence, sentence);
            let undecided = format!("{undecided} series are undecided");
            assert_eq!(summary.reasons, ["the proof is not finished", undecided.as_str()]);
        }
    }

    #[test]
    fn a_series_with_effective_cuts_never_has_no_cut_that_counts() {
        let none_yet = kept(ProofVerdict::NoLoss, None);
        let inconclusive = kept(ProofVerdict::Inconclusive, None);
        let last = |series: &[&SeriesFindings]| {
            proved(Outcome::Interrupted, series).reasons.pop().unwrap()
        };
        assert_eq!(last(&[&none_yet]), "1 of 1 series are undecided");
        assert_eq!(last(&[&none_yet, &inconclusive]), "2 of 2 series are undecided");
        assert_eq!(last(&[&inconclusive, &inconclusive]), "no power cut counts for a verdict");
    }

    #[test]
    fn a_finished_proof_with_a_series_without_a_verdict_is_told_with_caution() {
        let decided = kept(ProofVerdict::NoLoss, Some(true));
        let open = kept(ProofVerdict::Inconclusive, None);
        let sentence = |series: &[&SeriesFindings]| proved(Outcome::Complete, series).sentence;
        assert_eq!(
            sentence(&[&decided, &open, &decided]),
            "Caution: 2 of 3 series came out as expected, but 1 of 3 series are undecided."
        );
        assert_eq!(
            sentence(&[&decided, &decided]),
            "Good: all 2 series came out as expected: 2 lost nothing."
        );
    }
}
