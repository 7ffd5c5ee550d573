//! Warnings: what was seen, why it matters, what to do.
//!
//! A rule is a function that reports what it sees, with its threshold as a constant that names its
//! source, and a row of [`RULES`] with its condition, its meaning and what the function looks at
//! ([`WarningCheck`]).

mod campaign;
mod figures;
mod machine;
mod storage;
#[cfg(test)]
mod threshold_tests;

pub(crate) use storage::invalid;

use durio_analyse::campaign::SectionFindings;
use durio_analyse::grouping::grouped;
use durio_analyse::{Explanation, ExplanationKind, WarningFinding, WorkloadFindings};
use durio_base::counted;
use durio_plan::EngineKind;

use crate::Basis;

/// The workloads, sections or locations of a warning, and the observation.
type Sight = (Vec<String>, String);

/// What a rule looks at; it says what it sees, or nothing.
enum WarningCheck {
    /// Each workload by itself.
    Workload(fn(&Basis<'_>, &WorkloadFindings) -> Option<String>),
    /// As that, without those on virtual time: the machine had no part in their figures.
    Real(fn(&Basis<'_>, &WorkloadFindings) -> Option<String>),
    /// Each section of a campaign by itself.
    Section(fn(&Basis<'_>, &SectionFindings) -> Vec<String>),
    /// The locations, which it names.
    Locations(fn(&Basis<'_>) -> Option<Sight>),
    Run(fn(&Basis<'_>) -> Option<String>),
}

/// A rule: its code, which does not change, when it speaks, why that matters, and what to do.
struct WarningRule {
    code: &'static str,
    look: WarningCheck,
    what: &'static str,
    why: &'static str,
    advice: &'static str,
}

macro_rules! rules {
    ($($look:ident $code:literal $seen:path: $what:literal, $why:literal, $advice:literal;)*) => {
        /// Every rule, most severe first.
        const RULES: &[WarningRule] = &[$(WarningRule {
            code: $code,
            look: WarningCheck::$look($seen),
            what: $what,
            why: $why,
            advice: $advice,
        }),*];
    };
}

rules! {
    Workload "stopped" machine::stopped:
        "durio itself did not run for a while during the measurement",
        "the process was stopped, the machine suspended, or others had its processors: what was in \
         flight seems to last that long, and nothing begins meanwhile",
        "do not read these latencies as the storage's; run again";
    Workload "unmeasured" figures::unmeasured:
        "no operation was completed after the ramp",
        "nothing was measured: there is no figure, and a rate of 0 would be a wrong one",
        "give it more to do, or a shorter ramp; run again";
    Workload "inconsistent" figures::inconsistent:
        "mean latency × rate and an independent count of operations in flight differ by more \
         than 2 %",
        "Little's law does not hold between the latencies and an independent count: a figure of \
         this workload is wrong",
        "do not use these figures; run again, and report it as a fault of durio if it stays";
    Workload "clock" figures::clock:
        "the clock that stamps operations runs more than 0.1 % fast or slow against the \
         kernel's",
        "all latencies and rates of this workload are off by as much",
        "run again with --clock monotonic";
    Run "time-scale" campaign::time_scale:
        "a campaign ran with --scale-time below 1",
        "a shorter step sees less of the state that the campaign is about; nothing in it compares \
         with published figures",
        "use these figures to try the campaign out, and run it without a time scale";
    Section "not-steady" campaign::not_steady:
        "a section that was to reach a steady state ended without reaching it",
        "figures of a storage that still changes depend on when they were taken",
        "precondition for longer, or allow more rounds";
    Section "left-state" campaign::left_state:
        "the rate left its initial state within a step, and got worse",
        "the rate at the end differs from that at the start: a mean over the step describes \
         neither",
        "look at the rate over time in the report; plan with what lasts";
    Workload "offered-rate" campaign::offered_rate:
        "an open loop achieved less than the rate that was offered",
        "the storage did not keep up: the queue grows for as long as the step lasts, and response \
         latencies say how long that was",
        "read these points as beyond the limit; offer less for latencies that last";
    Workload "idle-gap" campaign::idle_gap:
        "nothing was in flight for more than 50 ms between preconditioning and the step after \
         it",
        "an idle drive leaves the state that it was brought into",
        "prepare targets before the campaign, not between its steps; look at what held the run up";
    Locations "memory" storage::memory_backed:
        "the target lies in memory (tmpfs), and no write was to be durable",
        "memory is not storage: nothing survives a power cut, and no figure here is a device's",
        "name a directory on the storage that the database will use";
    Workload "page-cache" figures::page_cache:
        "reads, or writes that are not synced one by one, went through the page cache",
        "the figures are of memory as much as of the storage below",
        "measure where O_DIRECT works, or read these figures as the page cache's";
    Workload "fallback" figures::fallback:
        "O_DIRECT, io_uring, registered buffers or something else that was asked for was \
         refused, and another way was taken",
        "the workload did not run as it is defined; compare only with runs that did the same",
        "run where the kernel and the user's limits allow it (ulimit -l, io_uring_disabled)";
    Run "too-short" figures::too_short:
        "a workload or step was measured for less than 300 s",
        "a short run sees neither garbage collection nor throttling nor the end of a burst credit",
        "run with --thorough before you buy, size or blame anything";
    Run "too-short" figures::too_short_campaign:
        "a workload or step was measured for less than 300 s",
        "a short run sees neither garbage collection nor throttling nor the end of a burst credit",
        "give each step its full time before you buy, size or blame anything";
    Workload "stalls" figures::stalls:
        "intervals without any completion, or with less than half of the average rate",
        "a database waits that long, and its clients with it; averages do not show it",
        "look at the rate over time in the report; check what else uses the device";
    Workload "noisy" figures::noisy:
        "the standard deviation of the intervals' rates is more than 20 % of their mean",
        "another run may give other figures; small differences between runs mean nothing",
        "run longer, run several times, and stop what else uses the machine or the storage";
    Workload "tail" figures::tail_gap:
        "p99.99 is more than ten times p99",
        "one operation in ten thousand is far slower than the p99 tells; a transaction of many \
         operations meets it often",
        "judge by p99.9 and p99.99; look for background work of the device or the host";
    Workload "submit" figures::submit_latency:
        "the median time of submitting an operation is above 10 µs",
        "asynchronous submission that blocks keeps the job from its other operations; the rate is \
         bound by the submitting thread",
        "expect more from more jobs or a larger --batch than from more depth; check the filesystem \
         and the scheduler";
    Workload "trace-lost" figures::trace_lost:
        "the kernel could not keep all events of a trace of the path (--trace-path)",
        "operations with a missing event are left out: what is left may be another mix than all of \
         them, and where the time goes is known of fewer",
        "trace again with less else on the machine; trust the times of a path that lost nothing";
    Workload "outside-device" figures::outside_device:
        "more than a quarter of each operation's time, and more than 50 µs, was not spent in \
         the device (by the kernel's counters)",
        "part of the latency arises above the device",
        "compare with another engine and with less depth; durio check --verbose shows the layers, \
         durio stack bench what each of them costs";
    Workload "unwatched" figures::unwatched:
        "in a quarter of the intervals or more a job went at least 1 ms, and twice its usual \
         latency, without looking for completions",
        "what completed meanwhile was seen late: part of the tail latency is durio's own",
        "leave more processors to durio, or give fewer --jobs; if nothing else runs, report it as \
         a fault of durio";
    Real "one-core" machine::one_core:
        "the busiest job used more than 90 % of a core",
        "the speed of a single thread bounds the rate, not the storage",
        "expect more from more jobs; compare only with machines of the same single-thread speed";
    Real "durio-limit" machine::durio_limit:
        "a job reached more than half of the rate that it reaches without any storage",
        "durio itself is a large part of the time of each operation",
        "read the rate as a lower bound; use larger blocks or more jobs";
    Real "system-cpu" machine::system_time:
        "more than 30 % of the machine's processor time was spent in the kernel",
        "the kernel's path to the storage, not the device, may set the rate; a database has to \
         share these processors",
        "check filesystem, encryption, and interrupt placement; compare with the raw device";
    Real "steal" machine::steal:
        "the hypervisor withheld more than 1 % of the processor time",
        "processor time went to other guests: latencies contain their work",
        "run again at another time, or on a machine of its own";
    Real "throttled" machine::throttled:
        "the control group's processor quota (cpu.max) stopped the process",
        "latencies contain waits for the processor quota",
        "raise cpu.max of the group, or read the figures as those of this quota";
    Run "tracing" machine::tracing:
        "tracers or trace events of the kernel were on when the run began",
        "what is traced costs each operation: rates are lower than without it, latencies longer",
        "end the tracer, or write 0 to events/enable and nop to current_tracer there; then run \
         again";
    Run "limits" machine::limits:
        "the control group limits I/O or processors, or the process may use only some of the \
         processors",
        "the kernel caps what this process can reach, whatever the storage could",
        "run outside of the limit to measure the storage, inside to measure what a database there \
         gets";
    Run "governor" machine::governor:
        "the processor's frequency governor is not 'performance'",
        "a processor that clocks down between operations adds microseconds to each",
        "set it to performance for the measurement, as for the database";
    Locations "raw-reads" storage::raw_reads:
        "a block device was read directly",
        "blocks that were never written, or trimmed, are answered without reading the medium",
        "read figures of a new or trimmed device as an upper bound; overwrite it first";
    Workload "sparse" storage::sparse:
        "an existing file is allocated only in part",
        "blocks of a file that were never written, or are compressed, are answered without reading \
         the medium, and writing them allocates first",
        "take a file that is written fully, or name its directory and let durio make one";
    Workload "shared-blocks" storage::shared_walks:
        "several sequential jobs go over the same blocks",
        "the first job to reach a block brings it into caches for the others, or has just written \
         it: the rate is higher than that of the storage",
        "give each job a share of its own (--share-each; region = \"share-each\" in a spec; \
         offset_increment in a fio job), or a file each";
}

/// All warnings that the basis gives, the runner's own notes last.
pub(crate) fn warnings(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let found = RULES.iter().filter_map(|rule| {
        let (about, seen) = rule.look.at(basis)?;
        Some(warning(rule.code, about, seen, rule.why, rule.advice))
    });
    found.chain(notes(basis)).collect()
}

/// What each warning means, most severe first.
pub(crate) fn explanations() -> Vec<Explanation> {
    let told = |rule: &WarningRule| [rule.code, rule.what, rule.why, rule.advice];
    let note = [
        NOTE,
        "the runner could not do something as planned, and says what",
        NOTE_WHY,
        NOTE_ADVICE,
    ];
    let mut all: Vec<Explanation> = Vec::new();
    for words in RULES.iter().map(told).chain([note]) {
        // A code may have both a rule for campaigns and one for runs.
        if all.iter().all(|it| it.id != words[0]) {
            all.push(Explanation::new(ExplanationKind::Warning, words));
        }
    }
    all
}

const NOTE: &str = "note";
const NOTE_WHY: &str = "the runner could not do everything as planned";
const NOTE_ADVICE: &str = "consider it when you read the figures";

/// What the runner noted: a warning each, and of a campaign, which may have hundreds, one.
fn notes(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let notes = match basis.campaign {
        Some(_) if !basis.notes.is_empty() => &[joined(basis, basis.notes, "note")],
        _ => basis.notes,
    };
    let noted = |seen: &String| warning(NOTE, Vec::new(), seen.clone(), NOTE_WHY, NOTE_ADVICE);
    notes.iter().map(noted).collect()
}

fn warning(
    code: &str,
    about: Vec<String>,
    seen: String,
    why: &str,
    advice: &str,
) -> WarningFinding {
    let [code, why, advice] = [code, why, advice].map(str::to_owned);
    WarningFinding { code, about, seen, why, advice }
}

impl WarningCheck {
    fn at(&self, basis: &Basis<'_>) -> Option<Sight> {
        match self {
            Self::Workload(seen) => per_workload(basis, |it| seen(basis, it)),
            Self::Real(seen) => per_workload(basis, |it| {
                seen(basis, it).filter(|_| it.effective.engine != EngineKind::Null)
            }),
            Self::Section(seen) => {
                let sections = basis.campaign?.sections.iter();
                let found = sections.map(|it| (it.name.clone(), seen(basis, it)));
                let (about, texts): (_, Vec<_>) = found.filter(|it| !it.1.is_empty()).unzip();
                Some((about, some_joined(basis, &texts.concat())?))
            }
            Self::Locations(seen) => seen(basis),
            Self::Run(seen) => Some((Vec::new(), seen(basis)?)),
        }
    }
}

fn per_workload(
    basis: &Basis<'_>,
    seen: impl Fn(&WorkloadFindings) -> Option<String>,
) -> Option<Sight> {
    let several = basis.plan.locations().len() > 1;
    let (mut about, mut found) = (Vec::new(), Vec::new());
    for workload in basis.workloads {
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
    Some((about, some_joined(basis, &texts)?))
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
fn some_joined(basis: &Basis<'_>, texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| joined(basis, texts, "step"))
}

/// A campaign's steps are named up to this many; the others are counted.
const NAMED_MAX: usize = 4;

fn joined(basis: &Basis<'_>, texts: &[String], what: &str) -> String {
    match texts.get(..NAMED_MAX) {
        Some(first) if basis.campaign.is_some() && texts.len() > NAMED_MAX => {
            let more = (texts.len() - NAMED_MAX) as u64;
            format!("{}; and {}", first.join("; "), counted(more, &format!("more {what}")))
        }
        _ => texts.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use durio_analyse::campaign::CampaignFindings;

    use super::{WorkloadFindings, joined, warnings};
    use crate::tests::sample;

    #[test]
    fn four_steps_of_a_campaign_are_named_and_the_others_counted() {
        let mut sample = sample();
        let texts = ["a", "b", "c", "d", "e", "f"].map(str::to_owned);
        let of = |sample: &crate::tests::Sample, count: usize| {
            joined(&sample.basis(), &texts[..count], "step")
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
        let warnings = warnings(&sample.basis());
        let found = warnings.iter().find(|warning| warning.code == "page-cache").unwrap();
        assert_eq!(found.about, ["reader", "other"]);
        assert_eq!(
            found.seen,
            "reader: went through the page cache; and 31 more of it; other: went through the page cache"
        );
    }

    #[test]
    fn a_clean_run_gives_no_warning() {
        assert_eq!(warnings(&sample().basis()), []);
    }
}
