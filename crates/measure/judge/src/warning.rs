//! Warnings: what was seen, why it matters, what to do.
//!
//! A rule is a function that reports what it sees, with its threshold as a constant that names its
//! source, a row of [`RULES`] that says what the function looks at ([`WarningCheck`]), and its
//! condition and meaning in `data/rules` ([`TEXTS`]).

mod campaign;
mod figures;
mod machine;

use durio_analyse::campaign::SectionFindings;
use durio_analyse::{Explanation, ExplanationKind, WarningFinding, WorkloadFindings, grouped};
use durio_base::counted;
use durio_plan::EngineKind;

use crate::RuleInput;
use crate::rule_text::{RuleText, RuleTexts};

pub(crate) use machine::invalid;

/// The workloads, sections or locations of a warning, and the observation.
type Sight = (Vec<String>, String);

/// What a rule looks at; it says what it sees, or nothing.
enum WarningCheck {
    /// Each workload by itself.
    Workload(fn(&RuleInput<'_>, &WorkloadFindings) -> Option<String>),
    /// As that, without those on virtual time: the machine had no part in their figures.
    Real(fn(&RuleInput<'_>, &WorkloadFindings) -> Option<String>),
    /// Each section of a campaign by itself.
    Section(fn(&RuleInput<'_>, &SectionFindings) -> Vec<String>),
    /// The locations, which it names.
    Locations(fn(&RuleInput<'_>) -> Option<Sight>),
    Run(fn(&RuleInput<'_>) -> Option<String>),
}

/// Every rule, most severe first.
const RULES: &[(&str, WarningCheck)] = &[
    ("stopped", WarningCheck::Workload(machine::stopped)),
    ("unmeasured", WarningCheck::Workload(figures::unmeasured)),
    ("inconsistent", WarningCheck::Workload(figures::inconsistent)),
    ("clock", WarningCheck::Workload(figures::clock)),
    ("time-scale", WarningCheck::Run(campaign::time_scale)),
    ("not-steady", WarningCheck::Section(campaign::not_steady)),
    ("left-state", WarningCheck::Section(campaign::left_state)),
    ("offered-rate", WarningCheck::Workload(campaign::offered_rate)),
    ("idle-gap", WarningCheck::Workload(campaign::idle_gap)),
    ("skewed", WarningCheck::Workload(campaign::skewed)),
    ("memory", WarningCheck::Locations(machine::memory_backed)),
    ("page-cache", WarningCheck::Workload(figures::page_cache)),
    ("fallback", WarningCheck::Workload(figures::fallback)),
    ("too-short", WarningCheck::Run(figures::too_short)),
    ("too-short:campaign", WarningCheck::Run(figures::too_short_campaign)),
    ("stalls", WarningCheck::Workload(figures::stalls)),
    ("noisy", WarningCheck::Workload(figures::noisy)),
    ("tail", WarningCheck::Workload(figures::tail_gap)),
    ("submit", WarningCheck::Workload(figures::submit_latency)),
    ("trace-lost", WarningCheck::Workload(figures::trace_lost)),
    ("outside-device", WarningCheck::Workload(figures::outside_device)),
    ("unwatched", WarningCheck::Workload(figures::unwatched)),
    ("one-core", WarningCheck::Real(machine::one_core)),
    ("durio-limit", WarningCheck::Real(machine::durio_limit)),
    ("system-cpu", WarningCheck::Real(machine::system_time)),
    ("steal", WarningCheck::Real(machine::steal)),
    ("throttled", WarningCheck::Real(machine::throttled)),
    ("tracing", WarningCheck::Run(machine::tracing)),
    ("limits", WarningCheck::Run(machine::limits)),
    ("governor", WarningCheck::Run(machine::governor)),
    ("raw-reads", WarningCheck::Locations(machine::raw_reads)),
    ("sparse", WarningCheck::Workload(machine::sparse)),
    ("shared-blocks", WarningCheck::Workload(machine::shared_walks)),
];

static TEXTS: RuleTexts = RuleTexts::new(&[
    include_str!("../data/rules/warning-campaign.toml"),
    include_str!("../data/rules/warning-figures.toml"),
    include_str!("../data/rules/warning-machine.toml"),
]);

/// A warning without a rule: the runner says what it sees.
const NOTE: &str = "note";

/// All warnings that the input gives, the runner's own notes last.
pub(crate) fn warnings(input: &RuleInput<'_>) -> Vec<WarningFinding> {
    let found = RULES.iter().filter_map(|(id, check)| {
        let (about, seen) = check.at(input)?;
        warning(id, about, seen)
    });
    found.chain(notes(input)).collect()
}

/// What each warning means, most severe first.
pub(crate) fn explanations() -> impl Iterator<Item = Explanation> {
    // A case of a warning has other advice, and the same meaning.
    let ids = RULES.iter().map(|(id, _)| *id).filter(|id| !id.contains(':')).chain([NOTE]);
    ids.filter_map(|id| Some(TEXTS.get(id)?.explanation(ExplanationKind::Warning)))
}

/// What the runner noted: a warning each, and of a campaign, which may have hundreds, one.
fn notes(input: &RuleInput<'_>) -> Vec<WarningFinding> {
    let notes = match input.campaign {
        Some(_) if !input.notes.is_empty() => &[joined(input, input.notes, "note")],
        _ => input.notes,
    };
    notes.iter().filter_map(|seen| warning(NOTE, Vec::new(), seen.clone())).collect()
}

/// With the words that the data has for `id`; a test finds those for every rule.
fn warning(id: &str, about: Vec<String>, seen: String) -> Option<WarningFinding> {
    let RuleText { why, advice, .. } = TEXTS.get(id)?.clone();
    let code = id.split(':').next().unwrap_or(id).to_owned();
    Some(WarningFinding { code, about, seen, why, advice })
}

impl WarningCheck {
    fn at(&self, input: &RuleInput<'_>) -> Option<Sight> {
        match self {
            Self::Workload(seen) => per_workload(input, |workload| seen(input, workload)),
            Self::Real(seen) => per_workload(input, |workload| {
                seen(input, workload).filter(|_| workload.effective.engine != EngineKind::Null)
            }),
            Self::Section(seen) => {
                let sections = input.campaign?.sections.iter();
                let found = sections.map(|section| (section.name.clone(), seen(input, section)));
                let (about, texts): (_, Vec<_>) = found.filter(|found| !found.1.is_empty()).unzip();
                Some((about, some_joined(input, &texts.concat())?))
            }
            Self::Locations(seen) => seen(input),
            Self::Run(seen) => Some((Vec::new(), seen(input)?)),
        }
    }
}

fn per_workload(
    input: &RuleInput<'_>,
    seen: impl Fn(&WorkloadFindings) -> Option<String>,
) -> Option<Sight> {
    let several = input.plan.locations().len() > 1;
    let (mut about, mut found) = (Vec::new(), Vec::new());
    for workload in input.workloads {
        let Some(text) = seen(workload) else { continue };
        let name = match several {
            true => format!("{} on {}", workload.name, workload.location),
            false => workload.name.clone(),
        };
        found.push((place(workload, &name), text));
        // A campaign measures a workload in many steps, and fio's jobs may share a name.
        if !about.contains(&name) {
            about.push(name);
        }
    }
    let alike = grouped(found, |(one, _), (other, _)| one == other);
    let texts: Vec<String> = alike.iter().map(|alike| in_short(alike)).collect();
    Some((about, some_joined(input, &texts)?))
}

/// Observations of the workloads at one place: the first in full, the others counted.
fn in_short(alike: &[(String, String)]) -> String {
    match alike {
        [] => String::new(),
        [(place, text)] => format!("{place}: {text}"),
        [(place, text), others @ ..] => format!("{place}: {text}; and {} more of it", others.len()),
    }
}

/// The name with the levels of its ladder and the round.
fn place(workload: &WorkloadFindings, name: &str) -> String {
    let mut place = name.to_owned();
    for level in &workload.levels {
        place.push_str(&format!(", {} {}", level.axis, level.label));
    }
    if workload.round > 0 {
        place.push_str(&format!(", round {}", workload.round + 1));
    }
    place
}

/// Observations of steps joined; `None` if there are none.
fn some_joined(input: &RuleInput<'_>, texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| joined(input, texts, "step"))
}

/// A campaign's steps are named up to this many; the others are counted.
const NAMED_MAX: usize = 4;

fn joined(input: &RuleInput<'_>, texts: &[String], what: &str) -> String {
    match texts.get(..NAMED_MAX) {
        Some(first) if input.campaign.is_some() && texts.len() > NAMED_MAX => {
            let more = (texts.len() - NAMED_MAX) as u64;
            format!("{}; and {}", first.join("; "), counted(more, &format!("more {what}")))
        }
        _ => texts.join("; "),
    }
}

#[cfg(test)]
mod several_tests;

#[cfg(test)]
mod tests {
    use durio_analyse::campaign::CampaignFindings;
    use durio_analyse::{DeviceTime, IntervalPoint, OpenLoop, SelfCost};
    use durio_base::Nanos;
    use durio_plan::EngineKind;
    use durio_record::{OperationName, Phase};

    use super::{NOTE, RULES, TEXTS, WorkloadFindings, explanations, joined, warnings};
    use crate::tests::{Sample, sample, seen};

    #[test]
    fn four_steps_of_a_campaign_are_named_and_the_others_counted() {
        let mut sample = sample();
        let texts = ["a", "b", "c", "d", "e", "f"].map(str::to_owned);
        let of = |sample: &crate::tests::Sample, count: usize| {
            joined(&sample.input(), &texts[..count], "step")
        };
        assert_eq!(of(&sample, 6), "a; b; c; d; e; f");
        sample.campaign = Some(CampaignFindings {
            name: "c".to_owned(),
            summary: String::new(),
            provisional: None,
            sections: Vec::new(),
            targets: Vec::new(),
        });
        assert_eq!(of(&sample, 4), "a; b; c; d");
        assert_eq!(of(&sample, 6), "a; b; c; d; and 2 more steps");
    }

    #[test]
    fn a_warning_names_jobs_of_one_name_once_with_their_number() {
        let mut sample = sample();
        let cache = durio_workload::CacheMode::Buffered;
        sample.workloads[0].definition.sync = durio_workload::SyncPolicy::NONE;
        sample.workloads[0].effective.cache = cache;
        sample.workloads[0].name = "reader".into();
        let first = sample.workloads[0].clone();
        sample.workloads.extend((1..32).map(|stream| WorkloadFindings { stream, ..first.clone() }));
        sample.workloads.push(WorkloadFindings { name: "other".into(), ..first });
        let warnings = warnings(&sample.input());
        let found = warnings.iter().find(|warning| warning.code == "page-cache").unwrap();
        assert_eq!(found.about, ["reader", "other"]);
        assert_eq!(
            found.seen,
            "reader: went through the page cache; and 31 more of it; other: went through the page cache"
        );
    }

    #[test]
    fn every_warning_has_its_words_and_no_words_are_left() {
        let ids: Vec<&str> = RULES.iter().map(|(id, _)| *id).chain([NOTE]).collect();
        let words = |id: &str| super::warning(id, Vec::new(), String::new());
        for id in &ids {
            let warning = words(id).unwrap_or_else(|| panic!("no words for {id}"));
            assert!(!warning.why.is_empty() && !warning.advice.is_empty(), "{id}");
        }
        let unused: Vec<_> =
            TEXTS.all().iter().filter(|text| !ids.contains(&text.id.as_str())).collect();
        assert!(unused.is_empty(), "{unused:?}");
        assert_eq!((TEXTS.all().len(), ids.len()), (34, 34));
        let explained: Vec<String> = explanations().map(|explanation| explanation.id).collect();
        let meanings: Vec<&str> = ids.into_iter().filter(|id| !id.contains(':')).collect();
        assert_eq!(explained, meanings);
    }

    #[test]
    fn a_short_campaign_has_other_advice_under_the_same_code() {
        let advice = |id: &str| {
            let found = super::warning(id, Vec::new(), String::new()).unwrap();
            (found.code, found.why, found.advice)
        };
        let (run, campaign) = (advice("too-short"), advice("too-short:campaign"));
        assert_eq!(
            (run.0.as_str(), run.0 == campaign.0, run.1 == campaign.1),
            ("too-short", true, true)
        );
        assert_eq!(run.2, "use --thorough before you buy, size or blame anything");
        assert_eq!(
            campaign.2,
            "give each step its full time before you buy, size or blame anything"
        );
    }

    #[test]
    fn a_clean_run_gives_no_warning() {
        assert_eq!(warnings(&sample().input()), []);
    }

    /// Sets what a rule looks at.
    type Set = fn(&mut Sample, f64);

    const DEVICE: &str = "outside-device";

    /// Code, what is set, the last value without the warning and the first with it.
    const THRESHOLDS: [(&str, Set, f64, f64); 23] = [
        // Little's law: 2 %, in both directions, over 50 ms at the least.
        (
            "inconsistent",
            |sample, value| sample.workloads[0].in_flight.deviation = value,
            0.02,
            0.020_1,
        ),
        (
            "inconsistent",
            |sample, value| sample.workloads[0].in_flight.deviation = value,
            -0.02,
            -0.020_1,
        ),
        ("inconsistent", deviating_for_millis, 49.0, 50.0),
        // In an open loop 10 µs for each operation, and 10 ms of the whole, are explained.
        ("inconsistent", open_loop_apart, 0.029_9, 0.030_1),
        // No look for 1 ms, or twice as long as an operation takes, in a quarter of the intervals.
        ("unwatched", |sample, value| unwatched(sample, whole(value), 4), 999_999.0, 1_000_000.0),
        ("unwatched", |sample, value| unwatched(sample, 1_000_000, whole(value)), 5.0, 4.0),
        // Clocks: 0.1 %.
        (
            "clock",
            |sample, value| sample.workloads[0].in_flight.clock_deviation = value,
            0.001,
            0.001_01,
        ),
        (
            "clock",
            |sample, value| sample.workloads[0].in_flight.clock_deviation = value,
            -0.001,
            -0.001_01,
        ),
        // 20 % of variation, of 8 intervals at the least.
        ("noisy", |sample, value| sample.evenness().coefficient_of_variation = value, 0.2, 0.201),
        ("noisy", varying_intervals, 7.0, 8.0),
        // p99.99 of ten times the p99, which is 700 µs here.
        (
            "tail",
            |sample, value| sample.headline().service.p99_99_ns = Some(whole(value)),
            7.0e6,
            7.1e6,
        ),
        // 10 µs of submission.
        ("submit", submitting_nanos, 10_000.0, 10_001.0),
        // A quarter of the latency, and 50 µs.
        (DEVICE, |sample, value| outside(sample, value, 100_000.0), 0.25, 0.251),
        (DEVICE, |sample, value| outside(sample, 0.6, value), 50_000.0, 50_001.0),
        // Shares of processors: 90 % of a core, half of what a job can do, 30 % in the kernel, 1 % stolen.
        ("one-core", |sample, value| sample.workloads[0].cpu.busiest_job_share = value, 0.9, 0.901),
        ("durio-limit", |sample, value| reached(sample, value), 0.5, 0.501),
        (
            "system-cpu",
            |sample, value| sample.workloads[0].cpu.machine_system_share = Some(value),
            0.3,
            0.301,
        ),
        (
            "steal",
            |sample, value| sample.workloads[0].cpu.machine_steal_share = Some(value),
            0.01,
            0.010_1,
        ),
        // One interval of many.
        ("stalls", |sample, value| sample.evenness().intervals_empty = whole(value), 0.0, 1.0),
        ("stalls", |sample, value| sample.evenness().intervals_under_half = whole(value), 0.0, 1.0),
        // A hundredth of the arrivals.
        ("offered-rate", |sample, value| started(sample, value), 0.99, 0.989_9),
        // Any time by a quota, any processor less.
        (
            "throttled",
            |sample, value| sample.workloads[0].cpu.throttled = Some(Nanos::new(whole(value))),
            0.0,
            1.0,
        ),
        (
            "limits",
            |sample, value| sample.environment.host.cgroup.cpu_quota_cores = Some(value),
            4.0,
            3.9,
        ),
    ];

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and whole")]
    fn whole(value: f64) -> u64 {
        value as u64
    }

    fn deviating_for_millis(it: &mut Sample, millis: f64) {
        it.workloads[0].in_flight.deviation = 0.1;
        it.workloads[0].in_flight.span = Nanos::from_millis(whole(millis));
    }

    /// 2000 operations per second over a second: 10 µs of each are 0.02, 10 ms are 0.01 of the whole.
    fn open_loop_apart(it: &mut Sample, apart: f64) {
        started(it, 1.0);
        it.workloads[0].iops = 2000.0;
        let in_flight = &mut it.workloads[0].in_flight;
        in_flight.span = Nanos::from_secs(1);
        (in_flight.deviation, in_flight.by_latency, in_flight.counted) = (0.1, 1.0, 1.0 + apart);
    }

    /// Operations of 400 µs; so long nobody looked in one of this many intervals.
    fn unwatched(it: &mut Sample, nanos: u64, intervals: u64) {
        it.headline().service.p50_ns = Some(400_000);
        it.workloads[0].unwatched_max = Some(Nanos::new(nanos));
        let interval = |at| IntervalPoint {
            phase: Phase::Measure,
            from: Nanos::from_secs(at),
            to: Nanos::from_secs(at + 1),
            rate: 1.0,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            unwatched_max: Some(Nanos::new(if at == 0 { nanos } else { 10 })),
            cut_short: false,
            kept: Vec::new(),
        };
        it.workloads[0].intervals = (0..intervals).map(interval).collect();
    }

    fn varying_intervals(it: &mut Sample, intervals: f64) {
        it.evenness().coefficient_of_variation = 0.3;
        it.evenness().intervals = whole(intervals);
    }

    fn submitting_nanos(it: &mut Sample, nanos: f64) {
        let write = it.operation(OperationName::Write);
        let mut submit = write.service.clone();
        submit.p50_ns = Some(whole(nanos));
        write.submit = Some(submit);
    }

    fn outside(it: &mut Sample, share: f64, nanos: f64) {
        it.workloads[0].device_time = Some(DeviceTime {
            device: "sda".to_owned(),
            requests_per_access: 1.0,
            request_ns_mean: 200_000.0,
            outside_ns_mean: nanos,
            outside_share: share,
            shares: None,
        });
    }

    /// Each of two jobs reaches this share of 8000 operations per second.
    fn reached(it: &mut Sample, share: f64) {
        it.workloads[0].effective.jobs = 2;
        it.workloads[0].iops = 16_000.0 * share;
        for (engine, iops) in [(EngineKind::Uring, 900.0), (EngineKind::Sync, 8000.0)] {
            it.self_cost.push(SelfCost { engine, depth: 1, per_operation_ns: 1.0, iops });
        }
    }

    fn started(it: &mut Sample, started_share: f64) {
        it.workloads[0].open_loop = Some(OpenLoop {
            arrivals: durio_workload::Arrivals::Constant { rate_per_second: 2000.0 },
            offered_per_second: 2000.0,
            achieved_per_second: 1970.0,
            due: 4000,
            never_started: 40,
            started_share,
            lag_ns_mean: 5.0,
            lag_ns_max: 7,
            behind_ns_max: 9,
        });
    }

    #[test]
    fn each_warning_speaks_above_its_threshold_and_not_at_it() {
        let mut wrong = Vec::new();
        for (at, (code, set, quiet, speaking)) in THRESHOLDS.into_iter().enumerate() {
            if seen(code, |sample| set(sample, quiet)).is_some() {
                wrong.push(format!("{at}: {code} speaks at {quiet}"));
            }
            if seen(code, |sample| set(sample, speaking)).is_none() {
                wrong.push(format!("{at}: {code} is quiet at {speaking}"));
            }
        }
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn a_warning_says_the_figure_that_it_is_about() {
        let said =
            |code: &str, set: Set, value: f64| seen(code, |sample| set(sample, value)).unwrap();
        let one = |at: usize, value: f64| {
            let (code, set, ..) = THRESHOLDS[at];
            said(code, set, value)
        };
        assert_eq!(one(6, 0.0123), "commit: the tsc clock is off by 1.23 %");
        assert_eq!(one(8, 0.314), "commit: rates of intervals differ by 31 % (σ / mean)");
        assert_eq!(one(10, 9.1e6), "commit: p99.99 9.1 ms is 13 × p99 700 µs");
        assert_eq!(one(11, 12_300.0), "commit: submission takes 12.3 µs (p50)");
        assert_eq!(one(14, 0.97), "commit: the busiest job used 97 % of a core");
        assert_eq!(
            one(15, 0.75),
            "commit: each job reached 6000 I/Os per second; without storage it reaches 8000"
        );
        assert_eq!(one(16, 0.41), "commit: 41 % of the machine's time was spent in the kernel");
        assert_eq!(one(17, 0.023), "commit: the hypervisor took 2.3 % of the CPU time");
        assert_eq!(
            one(20, 0.985),
            "commit: 1970 of 2000 per second; 2 % of the arrivals never started"
        );
        assert_eq!(one(22, 1.5), "cpu.max allows 1.50 of 4 CPUs");
        let stalled = seen("stalls", |sample| {
            sample.evenness().intervals_empty = 3;
            sample.evenness().intervals_under_half = 5;
        });
        let expected = "commit: of 300 intervals, 3 had no completion and 5 ran at less than half the median rate";
        assert_eq!(stalled.unwrap(), expected);
    }
}
