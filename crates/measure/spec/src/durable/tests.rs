//! What the plans of `durio durable` keep: time, room, validity, order; and what they leave out.

use std::collections::BTreeSet;

use durio_base::{Bytes, Nanos};
use durio_command::CommandErrorKind;
use durio_plan::{
    ClockChoice, Experiment, FileLayout, Limit, Location, LocationFacts, Plan, RawPath, Role,
    SectionKind, Step, TargetKind,
};
use durio_workload::{CacheMode, SyncMethod};

use super::{DurableLength, DurableRequest, EXPERIMENTS, plan_durable};

const LENGTHS: [DurableLength; 3] =
    [DurableLength::Quick, DurableLength::Usual, DurableLength::Full];

fn request(facts: LocationFacts, length: DurableLength) -> DurableRequest {
    DurableRequest {
        location: Location { path: RawPath::from("/x"), facts, destroy: false },
        length,
        size: None,
        only: Vec::new(),
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-1".to_owned(),
    }
}

fn directory(free: Bytes) -> LocationFacts {
    LocationFacts::Directory { free, filesystem: 1 }
}

fn roomy(length: DurableLength) -> DurableRequest {
    request(directory(Bytes::from_gib(80)), length)
}

fn plan(request: &DurableRequest) -> Plan {
    let plan = plan_durable(request).unwrap();
    plan.validate().unwrap();
    plan
}

fn only(names: &[&str], length: DurableLength) -> DurableRequest {
    let only = names.iter().map(|&name| name.to_owned()).collect();
    DurableRequest { only, ..roomy(length) }
}

fn experiments(plan: &Plan) -> Vec<Experiment> {
    let sections = &plan.campaign.as_ref().unwrap().sections;
    let experiment = |kind: &SectionKind| match kind {
        SectionKind::Experiment { experiment } => *experiment,
        other => panic!("{other:?}"),
    };
    sections.iter().map(|section| experiment(&section.kind)).collect()
}

fn steps_of(plan: &Plan, experiment: Experiment) -> Vec<&Step> {
    let place = experiments(plan).iter().position(|known| *known == experiment);
    let sections = &plan.campaign.as_ref().unwrap().sections;
    place.map_or_else(Vec::new, |place| plan.steps[sections[place].range()].iter().collect())
}

fn left_out(plan: &Plan) -> String {
    plan.campaign.as_ref().unwrap().left_out.join("\n")
}

fn label<'a>(step: &'a Step, axis: &str) -> &'a str {
    &step.levels.iter().find(|level| level.axis == axis).unwrap().label
}

#[test]
fn quick_takes_less_than_30_seconds_and_the_usual_run_about_three_minutes() {
    let seconds = |length| plan(&roomy(length)).duration().get() / 1_000_000_000;
    assert!((20..26).contains(&seconds(DurableLength::Quick)));
    assert!((150..170).contains(&seconds(DurableLength::Usual)));
    assert!((600..1800).contains(&seconds(DurableLength::Full)));
}

#[test]
fn a_step_lasts_as_long_alone_as_among_all_and_never_too_short() {
    for length in LENGTHS {
        let all = plan(&roomy(length));
        let one = plan(&only(&["methods"], length));
        let limits = |plan: &Plan| -> Vec<Limit> {
            steps_of(plan, Experiment::Methods).iter().map(|step| step.limit).collect()
        };
        assert_eq!(limits(&all), limits(&one));
        for step in all.measured_steps() {
            let (Limit::Duration(span) | Limit::VolumeWithin { duration: span, .. }) = step.limit
            else {
                panic!("{:?}", step.limit)
            };
            assert!(span >= Nanos::from_millis(150), "{span}");
            assert!(step.interval <= span);
        }
    }
}

#[test]
fn the_short_experiments_come_first_in_the_order_of_the_list_and_the_cross_only_in_full() {
    let known = |length| experiments(&plan(&roomy(length)));
    let all = EXPERIMENTS.map(|(experiment, _)| experiment);
    assert_eq!(known(DurableLength::Quick), all[..11]);
    assert_eq!(known(DurableLength::Usual), all[..11]);
    assert_eq!(known(DurableLength::Full), all);
    assert_eq!(all[..2], [Experiment::Commands, Experiment::SyncCalls]);
}

#[test]
fn sections_hold_every_step_but_the_one_about_durio_itself() {
    for length in LENGTHS {
        let plan = plan(&roomy(length));
        let sections = &plan.campaign.as_ref().unwrap().sections;
        let mut next = 1;
        for (number, section) in (0_u32..).zip(sections) {
            assert_eq!(section.range().start, next);
            next = section.range().end;
            for step in &plan.steps[section.range()] {
                assert_eq!(step.section, Some(number));
                assert_eq!(step.load.workload.name, section.name);
                assert!(step.declinable);
            }
        }
        assert_eq!(next, plan.steps.len());
        assert_eq!(plan.steps[0].role, Role::SelfCost);
    }
}

#[test]
fn no_step_is_there_twice() {
    for length in LENGTHS {
        let plan = plan(&roomy(length));
        let mut seen = BTreeSet::new();
        for step in &plan.steps[1..] {
            let words: Vec<String> =
                step.levels.iter().map(durio_plan::ParameterValue::words).collect();
            let fresh = |index: usize| match &plan.targets[index].kind {
                TargetKind::NewFile { layout, .. } => format!("{layout:?}"),
                _ => String::new(),
            };
            let what = format!("{:?} {}", step.load.workload, step.load.more_targets.len());
            let what = format!("{what} {} {}", fresh(step.load.target), step.load.engine);
            assert!(seen.insert((step.section, words, what.clone())), "{what}");
        }
        // Nor with other words, within its section.
        let without_words: BTreeSet<_> =
            seen.into_iter().map(|(section, _, what)| (section, what)).collect();
        assert_eq!(without_words.len(), plan.steps.len() - 1);
    }
}

#[test]
fn every_writer_has_room_for_its_writes() {
    for free_mib in [80, 1000] {
        for length in LENGTHS {
            let plan = plan(&request(directory(Bytes::from_mib(free_mib)), length));
            for step in &plan.steps[1..] {
                let load = &step.load;
                // The first and the last have the largest and the smallest share.
                for job in [0, load.workload.jobs - 1] {
                    let place = load.place_of(job);
                    let size = plan.targets[place.target].size;
                    load.workload.region_among(place.place, place.sharers, size).unwrap();
                }
            }
        }
    }
}

/// Files whose last step is over are gone: only those that exist at the same time count.
#[test]
fn files_that_are_there_together_take_at_most_a_tenth_of_the_free_space() {
    for free_mib in [80, 100, 3000] {
        for length in LENGTHS {
            let free = Bytes::from_mib(free_mib);
            let plan = plan(&request(directory(free), length));
            let mut last = vec![0; plan.targets.len()];
            for step in &plan.steps {
                step.load.targets().for_each(|target| last[target] = step.index);
            }
            let mut there = BTreeSet::new();
            for step in &plan.steps[1..] {
                there.extend(step.load.targets());
                let sum: u64 = there.iter().map(|&target| plan.targets[target].size.get()).sum();
                assert!(sum <= free.get() / 10, "{length:?}, {free}");
                there.retain(|&target| last[target] > step.index);
            }
        }
    }
}

#[test]
fn files_have_names_of_their_own() {
    let plan = plan(&roomy(DurableLength::Full));
    let names: BTreeSet<_> = plan.targets[1..]
        .iter()
        .map(|target| match &target.kind {
            TargetKind::NewFile { file_name, .. } => file_name.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names.len(), plan.targets.len() - 1);
    assert!(names.iter().all(|name| name.starts_with(".durio-1.")));
}

#[test]
fn each_method_is_there_past_and_through_the_page_cache_and_the_unsynced_one_last() {
    let plan = plan(&roomy(DurableLength::Quick));
    let steps = steps_of(&plan, Experiment::Methods);
    for method in SyncMethod::ALL {
        for cache in [CacheMode::Direct, CacheMode::Buffered] {
            let is_it = |step: &&&Step| {
                let workload = &step.load.workload;
                workload.sync.method == method && workload.cache == cache
            };
            assert_eq!(steps.iter().filter(is_it).count(), 1, "{method} {cache:?}");
        }
    }
    let last = steps.last().unwrap();
    assert_eq!(last.load.workload.sync.method, SyncMethod::None);
    // What it left dirty is not paid by the next one.
    assert!(plan.steps[last.index as usize + 1].drop_cache);
}

#[test]
fn a_file_mode_is_measured_on_a_file_of_that_mode_which_is_never_written_twice() {
    let plan = plan(&roomy(DurableLength::Usual));
    let mut fresh = BTreeSet::new();
    let mut layouts = BTreeSet::new();
    for step in steps_of(&plan, Experiment::FileModes) {
        let target = &plan.targets[step.load.target];
        let TargetKind::NewFile { layout, .. } = target.kind else { panic!() };
        layouts.insert(label(step, "layout").to_owned());
        let expected = match layout {
            FileLayout::Empty => "extending",
            FileLayout::Preallocated => "preallocated",
            FileLayout::ZeroFilled => "zero-filled",
            FileLayout::Incompressible => continue,
        };
        assert_eq!(label(step, "layout"), expected);
        assert!(fresh.insert(step.load.target), "used before");
        assert!(matches!(step.limit, Limit::VolumeWithin { volume, .. } if volume <= target.size));
    }
    assert_eq!(layouts.len(), 4);
}

#[test]
fn cells_of_sizes_and_writers_write_the_same_volume() {
    let plan = plan(&roomy(DurableLength::Usual));
    let steps = steps_of(&plan, Experiment::SizesAndWriters);
    let limits: BTreeSet<_> = steps.iter().map(|step| format!("{:?}", step.limit)).collect();
    assert_eq!((steps.len(), limits.len()), (20, 1));
}

#[test]
fn each_group_of_committers_stands_beside_as_many_independent_writers() {
    let plan = plan(&roomy(DurableLength::Usual));
    let steps = steps_of(&plan, Experiment::GroupCommit);
    let arm = |name: &str| -> Vec<(&str, &str)> {
        let steps = steps.iter().filter(|step| label(step, "arm") == name);
        steps.map(|step| (label(step, "committers"), label(step, "record"))).collect()
    };
    assert_eq!(arm("group commit"), arm("independent writers"));
    assert_eq!(arm("group commit").len(), 6);
    for step in &steps {
        let workload = &step.load.workload;
        let committers = workload.group_commit.map_or(workload.jobs, |policy| policy.committers);
        assert_eq!(committers.to_string(), label(step, "committers"));
    }
}

#[test]
fn what_is_left_out_is_said() {
    let quick = left_out(&plan(&roomy(DurableLength::Quick)));
    for part in
        ["sizes: 1 KiB, 2 KiB", "every 2, every 8", "records of 8 KiB", "--quick", "--thorough"]
    {
        assert!(quick.contains(part), "{part}: {quick}");
    }
    let usual = left_out(&plan(&roomy(DurableLength::Usual)));
    assert!(usual.starts_with("cross: ") && usual.lines().count() == 1, "{usual}");
    assert_eq!(left_out(&plan(&roomy(DurableLength::Full))), "");
    let small =
        DurableRequest { size: Some(Bytes::from_mib(8)), ..only(&["sizes"], DurableLength::Usual) };
    let small = left_out(&plan(&small));
    assert!(small.contains("too large for the free space: block size 16 MiB"), "{small}");
    assert!(small.contains("by --only: commands, sync calls, methods"), "{small}");
    assert!(!small.contains("cross: "), "{small}");
}

#[test]
fn a_device_is_written_only_with_permission_and_has_no_file_modes() {
    let facts = LocationFacts::Device { size: Bytes::from_gib(10) };
    let mut request = request(facts, DurableLength::Usual);
    let refused = plan_durable(&request).unwrap_err();
    assert_eq!(refused.kind, CommandErrorKind::WrongUse);
    assert!(refused.hints[0].starts_with("permit it with --destroy"), "{refused:?}");
    request.location.destroy = true;
    let plan = plan(&request);
    assert!(!experiments(&plan).contains(&Experiment::FileModes));
    assert_eq!(plan.targets.len(), 2, "the null target and the device");
    assert!(plan.targets[1].may_be_written());
    let said = left_out(&plan);
    for part in ["file modes: ", "writers: a file each", "commands: all file modes", "cross: "] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_cannot_be_measured_or_asked_is_refused() {
    let check = |request: &DurableRequest, kind| {
        assert_eq!(plan_durable(request).unwrap_err().kind, kind, "{request:?}");
    };
    let good = roomy(DurableLength::Usual);
    let (wrong, cannot) = (CommandErrorKind::WrongUse, CommandErrorKind::CannotMeasure);
    check(&only(&["nothing"], DurableLength::Usual), wrong);
    check(&only(&["cross"], DurableLength::Usual), wrong);
    check(&DurableRequest { size: Some(Bytes::ZERO), ..good.clone() }, wrong);
    check(&DurableRequest { size: Some(Bytes::new(u64::MAX)), ..good.clone() }, cannot);
    check(&DurableRequest { size: Some(Bytes::from_gib(80)), ..good }, cannot);
    let length = DurableLength::Quick;
    check(&request(directory(Bytes::from_mib(79)), length), cannot);
    check(&request(LocationFacts::Absent { free: Bytes::from_gib(1) }, length), wrong);
    check(&request(LocationFacts::NullDevice, length), cannot);
    let mut small = request(LocationFacts::File { size: Bytes::from_mib(1) }, length);
    small.location.destroy = true;
    check(&small, cannot);
}

#[test]
fn a_named_size_needs_room_for_all_files_beside_the_log() {
    let of = |free| {
        let request = request(directory(free), DurableLength::Usual);
        DurableRequest { size: Some(Bytes::from_mib(100)), ..request }
    };
    // Beside the log of 100 MiB 128 of 400 KiB, and 50 MiB of fresh ones.
    let enough = Bytes::from_mib(200);
    plan(&of(enough));
    let refused = plan_durable(&of(Bytes::new(enough.get() - 1))).unwrap_err();
    assert_eq!(refused.kind, CommandErrorKind::CannotMeasure);
    let said = "--size 100 MiB needs 200 MiB with its other files";
    assert!(refused.to_string().contains(said), "{refused:?}");
}

#[test]
fn a_log_on_a_file_or_device_is_as_large_as_that_at_most() {
    let size = Bytes::from_mib(48);
    for facts in [LocationFacts::File { size }, LocationFacts::Device { size }] {
        let mut request = request(facts, DurableLength::Usual);
        request.location.destroy = true;
        request.size = Some(size);
        assert_eq!(plan(&request).targets[1].size, size);
        request.size = Some(Bytes::new(size.get() + 4096));
        let refused = plan_durable(&request).unwrap_err();
        assert_eq!(refused.kind, CommandErrorKind::CannotMeasure);
        assert!(refused.to_string().contains("'/x' has 48 MiB"), "{refused:?}");
    }
}

#[test]
fn every_experiment_has_a_name_of_its_own_that_chooses_it() {
    for (experiment, name) in
        EXPERIMENTS.into_iter().filter(|(experiment, _)| *experiment != Experiment::Cross)
    {
        let length = DurableLength::Quick;
        assert_eq!(experiments(&plan(&only(&[name], length))), [experiment]);
    }
    let cross = plan(&only(&["cross"], DurableLength::Full));
    assert_eq!(experiments(&cross), [Experiment::Cross]);
}
