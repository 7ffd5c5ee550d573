//! A plan before it is run, as a document: every write to come, every step with its time, the sums.
//!
//! Shows a [`Plan`] and the obstacles to running it; the targets themselves are not read.

use durio_analyse::each_once;
use durio_base::{Bytes, Nanos};
use durio_plan::{
    FileLayout, Limit, Load, Plan, Role, Rounds, SectionKind, Step, Target, TargetKind,
    TargetWrites, Until,
};
use durio_workload::{CacheMode, Pattern, PerMille, Skew};
use serde::{Serialize, Serializer};

use crate::Report;
use crate::document::{Cell, Document, Section, Table, Tone};
use crate::figures::counted;

/// A plan, and the obstacles to running it. The JSON document is the plan as a run folder has it, with
/// the most that it writes to each target.
#[derive(Debug)]
pub struct ShownPlan<'a> {
    /// The plan to show.
    pub plan: &'a Plan,
    /// Why it cannot run here, a sentence each.
    pub obstacles: &'a [String],
}

impl Serialize for ShownPlan<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct PlanDocument<'p> {
            #[serde(flatten)]
            plan: &'p Plan,
            writes: Vec<TargetWrites>,
        }
        PlanDocument { plan: self.plan, writes: self.plan.writes() }.serialize(serializer)
    }
}

impl Report for ShownPlan<'_> {
    fn document(&self) -> Document {
        let Self { plan, obstacles } = self;
        let title = plan.campaign.as_ref().map(|campaign| format!("Plan of {}", campaign.name));
        let mut document = Document::new("", title.unwrap_or_default());
        document.push(head(plan));
        document.push(writes(plan));
        document.push(steps(plan));
        document.push(shared_walks(plan));
        document.push(sums(plan));
        let mut before = Section::new("Before this can run");
        obstacles.iter().for_each(|obstacle| before.toned(Tone::Warning, "!", obstacle));
        document.push(before);
        document
    }
}

fn head(plan: &Plan) -> Section {
    let mut head = Section::default();
    let Some(campaign) = &plan.campaign else { return head };
    if !campaign.summary.is_empty() {
        head.say(Tone::Plain, &campaign.summary);
    }
    campaign.notes.iter().for_each(|note| head.fact("note", note));
    if campaign.time_scale_per_mille != 1000 {
        let scale = f64::from(campaign.time_scale_per_mille) / 1000.0;
        let text = format!("times are {scale} of the spec's: results will be provisional");
        head.warn(text);
    }
    head
}

/// Files to be made and data to be written, per target.
fn writes(plan: &Plan) -> Section {
    let mut section = Section::new("Every write to come");
    let used = plan.targets.iter().enumerate().filter(|(index, _)| is_used(plan, *index));
    for (index, target) in used {
        let place = target.location.as_ref().map_or(String::new(), |path| format!(" at {path}"));
        let mut group = Section::new(format!("{}{place}", target.name));
        group.say(Tone::Plain, layout(target));
        group.say(Tone::Plain, written(plan, index, target.size));
        let loads = plan.steps.iter().flat_map(Step::loads);
        let loads = loads.filter(|load| load.targets().any(|target| target == index));
        for data in each_once(loads.filter_map(|load| load.workload.data_words())) {
            group.say(Tone::Plain, format!("data: {data}"));
        }
        section.group(group);
    }
    section
}

// The null target of durio's own cost is read in memory only.
fn is_used(plan: &Plan, index: usize) -> bool {
    let uses = |step: &Step| step.loads().any(|load| load.targets().any(|target| target == index));
    plan.steps.iter().any(|step| step.role != Role::SelfCost && uses(step))
}

fn layout(target: &Target) -> String {
    let size = target.size;
    match &target.kind {
        TargetKind::NewFile { directory, file_name, named, layout } => {
            let what = match layout {
                FileLayout::Incompressible => format!("{size} of random bytes are written first"),
                FileLayout::ZeroFilled => format!("{size} of zeros are written first"),
                FileLayout::Preallocated => format!("{size} are allocated first, not written"),
                FileLayout::Empty => format!("it starts empty, and may grow to {size}"),
            };
            let name = match named {
                true => format!("a file in '{directory}' in place of '{file_name}'"),
                false => format!("an unnamed temporary file in '{directory}'"),
            };
            format!("{name} is created, and removed at the end; {what}")
        }
        TargetKind::ExistingFile { .. } => format!("an existing file, used whole: {size}"),
        TargetKind::Device { .. } => format!("a device, used whole: {size}"),
        TargetKind::NullDevice { .. } => "a null device".to_owned(),
        TargetKind::Scripted => "no I/O".to_owned(),
    }
}

/// What steps write to a target, with all rounds.
fn written(plan: &Plan, target: usize, size: Bytes) -> String {
    let writing = plan.steps.iter().filter(|step| step.writes_to(target));
    let (bounded, timed): (Vec<&Step>, Vec<&Step>) =
        writing.partition(|step| step.write_bytes_max().is_some());
    let sum = |steps: &[&Step], each: fn(&Step) -> u64| {
        let rounds = |step| u64::from(plan.rounds_of(step).map_or(1, |rounds| rounds.max));
        let all = steps.iter().map(|step| each(step).saturating_mul(rounds(step)));
        all.fold(0, u64::saturating_add)
    };
    let subject = |steps: &[&Step], verb: &str| {
        let ending = if steps.len() == 1 { "s" } else { "" };
        format!("{} {verb}{ending}", counted(steps.len() as u64, "step"))
    };
    let mut words = Vec::new();
    if !bounded.is_empty() {
        let steps = subject(&bounded, "write");
        let bytes = sum(&bounded, |step| step.write_bytes_max().map_or(0, Bytes::get));
        words.push(format!("{steps} at most {}", Bytes::new(bytes)));
    }
    if !timed.is_empty() {
        let steps = subject(&timed, "rewrite");
        let time = clock(Nanos::new(sum(&timed, |step| step.span().get())));
        words.push(format!("{steps} up to {size} for {time}, as fast as possible"));
    }
    if words.is_empty() { "it is only read".to_owned() } else { words.join("; ") }
}

fn steps(plan: &Plan) -> Section {
    let mut section = Section::new("Steps");
    let own = plan.steps.iter().filter(|step| step.role == Role::SelfCost).count() as u64;
    if own > 0 {
        let text =
            format!("first {} of durio's own cost, on /dev/zero", counted(own, "measurement"));
        section.note(text);
    }
    let sections = plan.campaign.iter().flat_map(|campaign| &campaign.sections);
    for it in sections {
        let Some(steps) = plan.steps.get(it.range()) else { continue };
        section.group(of_section(plan, it, steps));
    }
    // Plans of one job have no section.
    let loose = plan.steps.iter();
    let loose = loose.filter(|step| step.section.is_none() && step.role != Role::SelfCost);
    section.table(table(plan, loose));
    section
}

/// Sequential jobs that walk the same blocks: how many at most, and in which steps.
fn shared_walks(plan: &Plan) -> Section {
    let mut section = Section::default();
    let walks = plan.steps.iter().map(|step| (step, plan.shared_walks(step)));
    let walking: Vec<(&Step, u32)> = walks
        .filter_map(|(step, walks)| Some((step, walks.iter().map(|walk| walk.jobs).max()?)))
        .collect();
    let Some(most) = walking.iter().map(|(_, jobs)| *jobs).max() else {
        return section;
    };
    let mut names: Vec<&str> = walking.iter().map(|(step, _)| &*step.load.workload.name).collect();
    // The steps of a sweep have one name and follow each other.
    names.dedup();
    let text = format!(
        "up to {} access the same blocks sequentially ({}): the first to reach a block brings it into \
         caches for the others; give each a share of its own unless that is intended",
        counted(most.into(), "job"),
        names.join(", ")
    );
    section.toned(Tone::Warning, "!", text);
    section
}

fn of_section(plan: &Plan, section: &durio_plan::PlanSection, steps: &[Step]) -> Section {
    let kind = match &section.kind {
        SectionKind::Precondition => "preconditioning".to_owned(),
        SectionKind::Single => counted(steps.len() as u64, "step"),
        SectionKind::Ladder { axis } => format!("ladder over {}", axis.replace('_', " ")),
        SectionKind::Experiment { .. } => counted(steps.len() as u64, "step"),
        SectionKind::Map { x, y } => format!("map of {x} and {y}"),
    };
    let mut group = Section::new(format!("{}: {kind}", section.name));
    if !section.summary.is_empty() {
        group.say(Tone::Plain, &section.summary);
    }
    if let Some(rounds) = &section.rounds {
        group.say(Tone::Plain, rounds_words(rounds, steps));
    }
    group.table(table(plan, steps));
    group
}

fn rounds_words(rounds: &Rounds, steps: &[Step]) -> String {
    let percent = |per_mille: u16| format!("{} %", f64::from(per_mille) / 10.0);
    let max = rounds.max;
    match rounds.until {
        Until::SteadyState { tracked, window, excursion_per_mille, slope_per_mille, .. } => {
            let step = steps.get(tracked as usize).map_or("", |step| &step.load.workload.name);
            format!(
                "in rounds, {window} to {max}, until '{step}' is steady: over {window} rounds an \
                 excursion of at most {} and a slope of at most {}",
                percent(excursion_per_mille),
                percent(slope_per_mille)
            )
        }
        Until::GoalFound { goal, precision_per_mille, .. } => format!(
            "in rounds, at most {max}, until the highest rate with p{} <= {} is known to {}",
            goal.percentile,
            goal.latency,
            percent(precision_per_mille)
        ),
    }
}

fn table<'p>(plan: &Plan, steps: impl IntoIterator<Item = &'p Step>) -> Table {
    let titles = ["step", "target", "accesses", "size", "jobs × depth", "engine", "rate", "until"];
    let mut table = Table::new(titles);
    for step in steps {
        for (stream, load) in step.loads().enumerate() {
            let index = if stream == 0 { step.index.to_string() } else { "+".to_owned() };
            let until = if stream == 0 { until(step) } else { String::new() };
            table.row(row(plan, index, load, until));
        }
    }
    table
}

fn row(plan: &Plan, index: String, load: &Load, until: String) -> Vec<Cell> {
    let workload = &load.workload;
    let targets: Vec<&str> = load
        .targets()
        .filter_map(|target| plan.targets.get(target))
        .map(|target| target.name.as_str())
        .collect();
    let targets = match targets[..] {
        // The first and the last of many targets say which; the list would break the table.
        [one] => one.to_owned(),
        [first, .., last] => format!("{first}…{last}"),
        [] => String::new(),
    };
    let rate = load.arrivals.rate_per_second().map_or("-".to_owned(), |rate| format!("{rate}/s"));
    [
        index,
        targets,
        accesses(load),
        if workload.has_mix() { "mix".to_owned() } else { workload.block_size.to_string() },
        format!("{} × {}", workload.jobs, workload.depth),
        load.fio_engine.as_ref().map_or(load.engine.to_string(), |engine| format!("fio {engine}")),
        rate,
        until,
    ]
    .map(Cell::Text)
    .into()
}

fn accesses(load: &Load) -> String {
    let workload = &load.workload;
    let order = match workload.pattern {
        Pattern::Sequential => "seq.",
        Pattern::Random => "random",
    };
    let what = match workload.read_share {
        PerMille::ALL => "read".to_owned(),
        PerMille::NONE => "write".to_owned(),
        PerMille(share) => format!("{} % read", f64::from(share) / 10.0),
    };
    let mut words = format!("{order} {what}");
    if workload.own_cursors {
        words.push_str(", own cursors");
    }
    for (skew, of) in [(Some(&workload.skew), ""), (workload.write_skew.as_ref(), " of writes")] {
        let zones = match skew {
            Some(Skew::Zones { zones }) => zones.len(),
            Some(Skew::ByteZones { zones }) => zones.len(),
            _ => continue,
        };
        words.push_str(&format!(", {}{of}", counted(zones as u64, "zone")));
    }
    if workload.is_durable() {
        words.push_str(&format!(", {}", workload.sync.method));
        if workload.sync.every > 1 {
            words.push_str(&format!(" every {}", workload.sync.every));
        }
    }
    if workload.cache == CacheMode::Buffered {
        words.push_str(", buffered");
    }
    words
}

/// When a step ends, and the work before it begins.
fn until(step: &Step) -> String {
    let end = match step.limit {
        Limit::Duration(span) => clock(span),
        Limit::Operations(count) => format!("{count} ops"),
        Limit::Volume(bytes) => bytes.to_string(),
        Limit::VolumeWithin { volume, duration } => format!("{volume} or {}", clock(duration)),
    };
    let ramp = match step.ramp {
        Nanos::ZERO => String::new(),
        ramp => format!(" + {ramp}"),
    };
    let pause = match step.pause_before {
        Nanos::ZERO => String::new(),
        pause => format!(" after {} idle", clock(pause)),
    };
    format!("{end}{ramp}{pause}")
}

fn sums(plan: &Plan) -> Section {
    let (mut least, mut most, mut runs) = (0_u64, 0_u64, 0_u64);
    for step in &plan.steps {
        let (fewest, highest) = plan.rounds_of(step).map_or((1, 1), |rounds| match rounds.until {
            // Steady can be said no sooner than after a whole window; a goal may be found in the
            // first round.
            Until::SteadyState { window, .. } => (u64::from(window), u64::from(rounds.max)),
            Until::GoalFound { .. } => (1, u64::from(rounds.max)),
        });
        least = least.saturating_add(step.span().get().saturating_mul(fewest));
        most = most.saturating_add(step.span().get().saturating_mul(highest));
        runs += u64::from(step.role != Role::SelfCost);
    }
    let by_volume = plan.steps.iter().filter(|step| is_by_volume(step)).count() as u64;
    let time = match (least, most) {
        (0, 0) if by_volume > 0 => "as long as their volumes take".to_owned(),
        _ if least == most => clock(Nanos::new(least)),
        _ => format!("{} to {}", clock(Nanos::new(least)), clock(Nanos::new(most))),
    };
    let further = match by_volume {
        count if count > 0 && most > 0 => {
            format!(", plus {} of a fixed volume", counted(count, "step"))
        }
        _ => String::new(),
    };
    let mut section = Section::new("In all");
    let text = format!("{}, {time}{further}, plus file creation", counted(runs, "step"));
    section.say(Tone::Plain, text);
    section
}

// Bytes or operations end it, after an unknown time.
fn is_by_volume(step: &Step) -> bool {
    step.role != Role::SelfCost && !matches!(step.limit, Limit::Duration(_))
}

/// A span in the units of a day: "2 h 30 min", "90 s".
pub fn clock(span: Nanos) -> String {
    let seconds = span.get() / 1_000_000_000;
    // Two units are enough for a plan: the seconds of a day do not matter.
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => span.to_string(),
        (0, 0, 1) => format!("{seconds} s"),
        (0, 0, minutes) => joined(minutes, "min", seconds % 60, "s"),
        (0, hours, minutes) => joined(hours, "h", minutes, "min"),
        (days, hours, _) => joined(days, "d", hours, "h"),
    }
}

fn joined(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use durio_plan::{
        Campaign, ClockChoice, EngineKind, Goal, PLAN_SCHEMA, PlanSection, Purpose, RawPath,
        Tracking,
    };
    use durio_workload::{Arrivals, ByteZone, Workload, Zone};

    use super::*;
    use crate::{Format, Options, write};

    /// A plan of one section with these steps and rounds, on a device.
    fn plan(steps: Vec<Step>, rounds: Option<Rounds>) -> Plan {
        let path = RawPath::from("/dev/x\u{1b}[2J");
        let kind = TargetKind::Device { path: path.clone() };
        let size = Bytes::from_gib(10);
        let target = Target { name: "d".into(), location: Some(path), kind, size, destroy: true };
        let section = PlanSection {
            name: "s".to_owned(),
            summary: String::new(),
            kind: SectionKind::Single,
            first_step: 0,
            steps: u32::try_from(steps.len()).unwrap(),
            rounds,
            baseline: None,
        };
        let steps = (0..).zip(steps).map(|(index, step)| Step { index, section: Some(0), ..step });
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![target],
            steps: steps.collect(),
            campaign: Some(Campaign {
                sections: vec![section],
                time_scale_per_mille: 1000,
                ..Campaign::default()
            }),
            thresholds: Vec::new(),
        }
    }

    fn writes(limit: Limit) -> Step {
        let workload = Workload { read_share: PerMille::NONE, ..Workload::default() };
        let load = Load::new(0, workload, EngineKind::Sync);
        Step::new(Role::Measure, load, limit, Nanos::from_secs(1))
    }

    /// The text with single blanks.
    fn shown(plan: &Plan) -> String {
        let mut bytes = Vec::new();
        let shown = ShownPlan { plan, obstacles: &["no room".to_owned()] };
        write(Format::Text, &shown, &Options::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains('\u{1b}'), "{text:?}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn check(plan: &Plan, words: &[&str]) {
        let text = shown(plan);
        for word in words {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
    }

    #[test]
    fn the_cost_of_a_plan_has_all_rounds_and_what_is_laid_out() {
        let goal = Goal { percentile: 99.0, latency: Nanos::from_millis(1) };
        let until = Until::GoalFound { goal, precision_per_mille: 50, ceiling_step: None };
        let rounds = Rounds { max: 25, until };
        let steps = vec![
            writes(Limit::Volume(Bytes::from_gib(2))),
            writes(Limit::Duration(Nanos::from_secs(60))),
        ];
        let mut plan = plan(steps, Some(rounds));
        let cost = plan.cost();
        assert_eq!((cost.time, cost.writing), (Nanos::from_secs(1500), Nanos::from_secs(1500)));
        assert_eq!((cost.written, cost.space), (Bytes::from_gib(50), Bytes::ZERO));
        plan.targets[0].kind = TargetKind::NewFile {
            directory: RawPath::from("/d"),
            file_name: RawPath::from("f"),
            named: false,
            layout: FileLayout::Incompressible,
        };
        let cost = plan.cost();
        assert_eq!((cost.written, cost.space), (Bytes::from_gib(60), Bytes::from_gib(10)));
    }

    #[test]
    fn writes_are_counted_with_all_rounds() {
        let until = Until::SteadyState {
            tracked: 0,
            tracking: Tracking::Iops,
            window: 5,
            excursion_per_mille: 200,
            slope_per_mille: 100,
        };
        let rounds = Some(Rounds { max: 25, until });
        let volume = writes(Limit::Volume(Bytes::from_gib(2)));
        let timed = writes(Limit::Duration(Nanos::from_secs(60)));
        check(
            &plan(vec![timed, volume], rounds),
            &[
                "1 step writes at most 50 GiB; 1 step rewrites up to 10 GiB for 25 min",
                "in rounds, 5 to 25",
                "2 steps, 5 min to 25 min, plus 1 step of a fixed volume, plus file creation",
                "Before this can run ! no room",
            ],
        );
    }

    #[test]
    fn rates_pauses_and_what_is_only_read_are_said() {
        let load = Load {
            arrivals: Arrivals::Poisson { rate_per_second: 500.0 },
            ..Load::new(0, Workload::default(), EngineKind::Uring)
        };
        let limit = Limit::Duration(Nanos::from_secs(90));
        let step = Step {
            pause_before: Nanos::from_secs(5),
            ..Step::new(Role::Measure, load, limit, Nanos::from_secs(1))
        };
        let goal = Goal { percentile: 99.0, latency: Nanos::from_millis(2) };
        let until = Until::GoalFound { goal, precision_per_mille: 20, ceiling_step: None };
        check(
            &plan(vec![step], Some(Rounds { max: 4, until })),
            &[
                "it is only read",
                "500/s 90 s after 5 s idle",
                "until the highest rate with p99 <= 2 ms is known to 2 %",
                "1 step, 95 s to 6 min 20 s",
            ],
        );
    }

    #[test]
    fn zones_and_cursors_of_reads_and_writes_are_said() {
        let zone = |accesses, size| Zone { accesses: PerMille(accesses), size: PerMille(size) };
        let bytes =
            |accesses, size| ByteZone { accesses: PerMille(accesses), size: Bytes::from_mib(size) };
        let halves = Skew::Zones { zones: vec![zone(900, 100), zone(100, 900)] };
        let by_bytes = Skew::ByteZones { zones: vec![bytes(700, 1), bytes(200, 2), bytes(100, 4)] };
        let mixed =
            Workload { pattern: Pattern::Random, read_share: PerMille(700), ..Workload::default() };
        let accesses =
            |workload: Workload| super::accesses(&Load::new(0, workload, EngineKind::Sync));
        let random = accesses(mixed.clone());
        assert!(random.starts_with("random 70 % read") && !random.contains("zone"), "{random}");
        for (workload, words) in [
            (Workload { own_cursors: true, ..mixed.clone() }, "70 % read, own cursors"),
            (Workload { skew: halves.clone(), ..mixed.clone() }, "70 % read, 2 zones"),
            (
                Workload { skew: halves, write_skew: Some(by_bytes), ..mixed },
                "70 % read, 2 zones, 3 zones of writes",
            ),
        ] {
            assert!(accesses(workload).contains(words), "{words}");
        }
    }

    #[test]
    fn a_plan_of_volumes_alone_promises_no_time() {
        let step = writes(Limit::Volume(Bytes::from_gib(2)));
        check(&plan(vec![step], None), &["1 step, as long as their volumes take"]);
    }
}
