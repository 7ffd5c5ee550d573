//! Warnings: what was seen, why it matters, what to do.
//!
//! A rule is a function that says what it sees, with its threshold as a constant that says where it
//! comes from, and a row of [`RULES`] with what that means. The row also says what the function looks
//! at ([`Look`]).

mod campaign;
mod figures;
mod machine;
mod storage;

pub(crate) use storage::invalid;

use durio_analyse::campaign::SectionFindings;
use durio_analyse::{WarningFinding, WorkloadFindings};
use durio_plan::EngineKind;
use durio_units::counted;

use crate::Basis;

/// The workloads, sections or locations that a warning is about, and what was seen.
type Sight = (Vec<String>, String);

/// What a rule looks at; it says what it sees, or nothing.
enum Look {
    /// Each workload by itself.
    Workload(fn(&Basis<'_>, &WorkloadFindings) -> Option<String>),
    /// As that, without those on virtual time: the machine had no part in their figures.
    Real(fn(&Basis<'_>, &WorkloadFindings) -> Option<String>),
    /// Each section of a campaign by itself.
    Section(fn(&Basis<'_>, &SectionFindings) -> Vec<String>),
    /// The locations, which it names.
    Locations(fn(&Basis<'_>) -> Option<Sight>),
    /// The whole run.
    Run(fn(&Basis<'_>) -> Option<String>),
}

/// A rule: its code, which does not change, why it matters what it sees, and what to do.
struct Rule {
    code: &'static str,
    look: Look,
    why: &'static str,
    advice: &'static str,
}

macro_rules! rules {
    ($($look:ident $code:literal $seen:path: $why:literal, $advice:literal;)*) => {
        /// Every rule, most severe first.
        const RULES: &[Rule] = &[$(Rule {
            code: $code,
            look: Look::$look($seen),
            why: $why,
            advice: $advice,
        }),*];
    };
}

rules! {
    Workload "stopped" machine::stopped:
        "the process was stopped, the machine suspended, or others had its processors: what was in \
         flight seems to last that long, and nothing begins meanwhile",
        "do not read these latencies as the storage's; run again";
    Workload "inconsistent" figures::inconsistent:
        "Little's law does not hold between the latencies and an independent count: a figure of \
         this workload is wrong",
        "do not use these figures; run again, and report it as a fault of durio if it stays";
    Workload "clock" figures::clock:
        "all latencies and rates of this workload are off by as much",
        "run again with --clock monotonic";
    Run "time-scale" campaign::time_scale:
        "a shorter step sees less of the state that the campaign is about; nothing in it compares \
         with published figures",
        "use these figures to try the campaign out, and run it without a time scale";
    Section "not-steady" campaign::not_steady:
        "figures of a storage that still changes depend on when they were taken",
        "precondition for longer, or allow more rounds";
    Section "left-state" campaign::left_state:
        "the rate at the end differs from that at the start: a mean over the step describes \
         neither",
        "look at the rate over time in the report; plan with what lasts";
    Workload "offered-rate" campaign::offered_rate:
        "the storage did not keep up: the queue grows for as long as the step lasts, and response \
         latencies say how long that was",
        "read these points as beyond the limit; offer less for latencies that last";
    Workload "idle-gap" campaign::idle_gap:
        "an idle drive leaves the state that it was brought into",
        "prepare targets before the campaign, not between its steps; look at what held the run up";
    Locations "memory" storage::memory_backed:
        "memory is not storage: nothing survives a power cut, and no figure here is a device's",
        "name a directory on the storage that the database will use";
    Workload "page-cache" figures::page_cache:
        "the figures are of memory as much as of the storage below",
        "measure where O_DIRECT works, or read these figures as the page cache's";
    Workload "fallback" figures::fallback:
        "the workload did not run as it is defined; compare only with runs that did the same",
        "run where the kernel and the user's limits allow it (ulimit -l, io_uring_disabled)";
    Run "too-short" figures::too_short:
        "a short run sees neither garbage collection nor throttling nor the end of a burst credit",
        "run with --thorough before you buy, size or blame anything";
    Run "too-short" figures::too_short_campaign:
        "a short run sees neither garbage collection nor throttling nor the end of a burst credit",
        "give each step its full time before you buy, size or blame anything";
    Workload "stalls" figures::stalls:
        "a database waits that long, and its clients with it; averages do not show it",
        "look at the rate over time in the report; check what else uses the device";
    Workload "noisy" figures::noisy:
        "another run may give other figures; small differences between runs mean nothing",
        "run longer, run several times, and stop what else uses the machine or the storage";
    Workload "tail" figures::tail_gap:
        "one operation in ten thousand is far slower than the p99 tells; a transaction of many \
         operations meets it often",
        "judge by p99.9 and p99.99; look for background work of the device or the host";
    Workload "submit" figures::submit_latency:
        "asynchronous submission that blocks keeps the job from its other operations; the rate is \
         bound by the submitting thread",
        "expect more from more jobs or a larger --batch than from more depth; check the filesystem \
         and the scheduler";
    Workload "outside-device" figures::outside_device:
        "part of the latency arises above the device",
        "compare with another engine and with less depth; durio check --verbose shows the layers, \
         durio stack bench what each of them costs";
    Workload "unwatched" figures::unwatched:
        "what completed meanwhile was seen late: part of the tail latency is durio's own",
        "leave more processors to durio, or give fewer --jobs; if nothing else runs, report it as \
         a fault of durio";
    Real "one-core" machine::one_core:
        "the speed of a single thread bounds the rate, not the storage",
        "expect more from more jobs; compare only with machines of the same single-thread speed";
    Real "durio-limit" machine::durio_limit:
        "durio itself is a large part of the time of each operation",
        "read the rate as a lower bound; use larger blocks or more jobs";
    Real "system-cpu" machine::system_time:
        "the kernel's path to the storage, not the device, may set the rate; a database has to \
         share these processors",
        "check filesystem, encryption, and interrupt placement; compare with the raw device";
    Real "steal" machine::steal:
        "processor time went to other guests: latencies contain their work",
        "run again at another time, or on a machine of its own";
    Real "throttled" machine::throttled:
        "latencies contain waits for the processor quota",
        "raise cpu.max of the group, or read the figures as those of this quota";
    Run "tracing" machine::tracing:
        "what is traced costs each operation: rates are lower than without it, latencies longer",
        "end the tracer, or write 0 to events/enable and nop to current_tracer there; then run \
         again";
    Run "limits" machine::limits:
        "the kernel caps what this process can reach, whatever the storage could",
        "run outside of the limit to measure the storage, inside to measure what a database there \
         gets";
    Run "governor" machine::governor:
        "a processor that clocks down between operations adds microseconds to each",
        "set it to performance for the measurement, as for the database";
    Locations "raw-reads" storage::raw_reads:
        "blocks that were never written, or trimmed, are answered without reading the medium",
        "read figures of a new or trimmed device as an upper bound; overwrite it first";
    Workload "sparse" storage::sparse:
        "blocks of a file that were never written, or are compressed, are answered without reading \
         the medium, and writing them allocates first",
        "take a file that is written fully, or name its directory and let durio make one";
    Workload "shared-blocks" storage::shared_walks:
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

/// What the runner noted: a warning each, and of a campaign, which may have hundreds, one.
fn notes(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let notes = match basis.campaign {
        Some(_) if !basis.notes.is_empty() => &[joined(basis, basis.notes, "note")],
        _ => basis.notes,
    };
    let why = "the runner could not do everything as planned";
    let advice = "consider it when you read the figures";
    notes.iter().map(|seen| warning("note", Vec::new(), seen.clone(), why, advice)).collect()
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

impl Look {
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
    let (mut about, mut texts) = (Vec::new(), Vec::new());
    for workload in basis.workloads {
        let Some(text) = seen(workload) else { continue };
        let name = match several {
            true => format!("{} on {}", workload.name, workload.location),
            false => workload.name.clone(),
        };
        texts.push(format!("{}: {text}", place(workload, &name)));
        // A campaign measures a workload in many steps.
        if basis.campaign.is_none() || !about.contains(&name) {
            about.push(name);
        }
    }
    Some((about, some_joined(basis, &texts)?))
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

/// What was seen in steps, unless that is nothing.
fn some_joined(basis: &Basis<'_>, texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| joined(basis, texts, "step"))
}

/// So many steps of a campaign are named one by one; the others are counted.
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
    use super::warnings;
    use crate::tests::sample;

    #[test]
    fn a_clean_run_gives_no_warning() {
        assert_eq!(warnings(&sample().basis()), []);
    }
}
