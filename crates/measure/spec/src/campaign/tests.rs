//! Specs to plans: known expansions, errors with their places, all built-in specs, and
//! damaged files.

mod keys;

use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_command::CommandErrorKind;
use durio_plan::{LocationFacts, Plan, RawPath, Role, SectionKind, Step, Until};
use durio_workload::{PerMille, RegionRule, SyncMethod};

use super::*;
use crate::{shipped_spec, shipped_specs};

const DIRECTORY: LocationFacts =
    LocationFacts::Directory { free: Bytes::from_gib(4000), filesystem: 1 };
const DEVICE: LocationFacts = LocationFacts::Device { size: Bytes::from_gib(1024) };

/// A place of its own per target, or one for all of them.
fn request(text: &str, facts: LocationFacts) -> Result<CampaignRequest, SpecError> {
    let spec = CampaignSpec::parse("x.toml", text)?;
    let of = |target: SpecTarget| {
        let path = match facts {
            LocationFacts::Directory { .. } => "/data".to_owned(),
            _ => format!("/dev/{}", target.name),
        };
        vec![Location { path: RawPath::from(path), facts, destroy: true }]
    };
    Ok(CampaignRequest {
        places: spec.targets().into_iter().map(of).collect(),
        spec,
        time_scale_per_mille: 1000,
        size_scale_per_mille: 1000,
        steps_confirmed: 0,
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-1".to_owned(),
    })
}

fn plan_of(text: &str) -> Plan {
    let made = request(text, DIRECTORY).and_then(|request| plan_campaign(&request));
    let made = made.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(made.obstacles.is_empty(), "{text}: {:?}", made.obstacles);
    made.plan
}

fn error_of(text: &str) -> SpecError {
    let made = request(text, DIRECTORY).and_then(|request| plan_campaign(&request));
    made.expect_err(text)
}

/// A spec with one target around `rest`.
fn spec(rest: &str) -> String {
    format!("schema = 1\nname = \"x\"\n[[target]]\nname = \"data\"\nsize = \"1GiB\"\n{rest}")
}

fn measured(plan: &Plan) -> Vec<&Step> {
    plan.measured_steps().collect()
}

fn sections(plan: &Plan) -> Vec<(&str, u32)> {
    let campaign = plan.campaign.as_ref().unwrap();
    campaign.sections.iter().map(|section| (section.name.as_str(), section.steps)).collect()
}

#[test]
fn ladders_are_run_in_the_order_of_the_file_with_the_last_list_fastest() {
    let plan = plan_of(&spec(
        "[[step]]\nname = \"write\"\nreads = \"0%\"\nsync = [\"none\", \"o_dsync\"]\njobs = [4, 2, 1]\n\
         [[step]]\nname = \"read\"\njobs = [2, 1]\n",
    ));
    let shown: Vec<_> = measured(&plan)
        .iter()
        .map(|step| (step.load.workload.sync.method, step.load.workload.jobs))
        .collect();
    let (none, dsync) = (SyncMethod::None, SyncMethod::ODsync);
    assert_eq!(
        shown,
        [(none, 4), (none, 2), (none, 1), (dsync, 4), (dsync, 2), (dsync, 1), (none, 2), (none, 1)]
    );
    assert_eq!(sections(&plan), [("write, no sync", 3), ("write, o_dsync", 3), ("read", 2)]);
    let kind = &plan.campaign.as_ref().unwrap().sections[0].kind;
    assert_eq!(*kind, SectionKind::Ladder { axis: "jobs".to_owned() });
    assert_eq!(measured(&plan)[3].load.workload.name, "write, o_dsync");
    assert_eq!(measured(&plan)[3].levels.len(), 1);
    assert_eq!(measured(&plan)[3].levels[0].value, 4.0);
}

#[test]
fn the_order_can_be_another_and_repeats_run_the_whole_ladder_again() {
    let plan = plan_of(&spec(
        "[[step]]\nname = \"w\"\nreads = \"0%\"\nsync = [\"none\", \"fsync\"]\njobs = [2, 1]\n\
         order = [\"jobs\", \"sync\"]\nrepeats = 2\n",
    ));
    let shown: Vec<_> = measured(&plan)
        .iter()
        .map(|step| (step.load.workload.jobs, step.repeat, step.load.workload.sync.method))
        .collect();
    let (none, fsync) = (SyncMethod::None, SyncMethod::Fsync);
    assert_eq!(
        shown,
        [
            (2, 0, none),
            (2, 0, fsync),
            (2, 1, none),
            (2, 1, fsync),
            (1, 0, none),
            (1, 0, fsync),
            (1, 1, none),
            (1, 1, fsync)
        ]
    );
    let kinds = &plan.campaign.as_ref().unwrap().sections;
    assert!(kinds.iter().all(|section| section.kind == SectionKind::Single));
}

#[test]
fn an_order_names_every_axis() {
    let of = |order: &str| {
        let step =
            "[[step]]\nname = \"w\"\nreads = \"0%\"\nsync = [\"none\", \"fsync\"]\njobs = [2, 1]\n";
        error_of(&spec(&format!("{step}order = {order}\n"))).to_string()
    };
    for (order, said) in [
        ("[\"jobs\"]", "'order' leaves out the axis 'sync'"),
        ("[\"sync\"]", "'order' leaves out the axis 'jobs'"),
        ("[\"sync\", \"depth\", \"jobs\"]", "'depth' is not an axis of this step"),
        ("[\"sync\", \"sync\", \"jobs\"]", "'sync' is not an axis of this step"),
    ] {
        let message = of(order);
        assert!(message.contains(said), "{order}: {message}");
    }
}

#[test]
fn the_database_ladder_is_as_it_was_published() {
    let shipped = shipped_spec("db-ladder-as-published").unwrap();
    let plan = plan_of(shipped.text);
    let steps = measured(&plan);
    assert_eq!(steps.len(), 9 + 7 + 7 + 9);
    let jobs: Vec<_> = steps[..9].iter().map(|step| step.load.workload.jobs).collect();
    assert_eq!(jobs, [192, 160, 128, 96, 64, 32, 16, 4, 1]);
    assert!(steps[..9].iter().all(|step| step.load.workload.read_share == PerMille::NONE));
    assert!(steps.iter().all(|step| !step.load.workload.is_durable()));
    let conditions: Vec<_> =
        plan.steps.iter().filter(|step| step.role == Role::Precondition).collect();
    let [condition] = conditions[..] else { panic!("{conditions:?}") };
    let by = Bytes::new(Bytes::from_gib(64).get() * 12 / 100);
    assert_eq!(condition.load.workload.region, RegionRule::OffsetEach { by });
    assert!(condition.first_job_ends_all);
}

#[test]
fn the_snia_iops_test_is_56_steps_of_a_minute_that_follow_the_4_kib_writes() {
    let plan = plan_of(shipped_spec("snia-iops").unwrap().text);
    let section = plan.campaign.as_ref().unwrap().sections.last().unwrap();
    assert_eq!(section.steps, 56);
    let Some(rounds) = section.rounds else { panic!("{section:?}") };
    let Until::SteadyState { tracked, window, excursion_per_mille, slope_per_mille, .. } =
        rounds.until
    else {
        panic!("{rounds:?}")
    };
    assert_eq!((rounds.max, window, excursion_per_mille, slope_per_mille), (25, 5, 200, 100));
    let step = &plan.steps[section.first_step as usize + tracked as usize];
    let workload = &step.load.workload;
    assert_eq!((workload.read_share, workload.block_size), (PerMille::NONE, Bytes::from_kib(4)));
    assert_eq!(plan.duration(), Nanos::from_secs(56 * 60));
    let condition = plan.steps.iter().find(|step| step.role == Role::Precondition).unwrap();
    assert_eq!(condition.write_bytes_max(), Some(Bytes::from_gib(16)));
}

#[test]
fn every_spec_that_durio_brings_along_plans_on_a_directory_and_on_devices() {
    for shipped in shipped_specs() {
        for facts in [DIRECTORY, DEVICE] {
            let made = request(shipped.text, facts).and_then(|request| plan_campaign(&request));
            let per_job_files = shipped.name.starts_with("write-back-cliff");
            match (made, facts) {
                (Ok(made), _) => {
                    assert!(made.obstacles.is_empty(), "{}: {:?}", shipped.name, made.obstacles);
                    made.plan.validate().unwrap();
                    let text = serde_json::to_string(&made.plan).unwrap();
                    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), made.plan);
                    let campaign = made.plan.campaign.unwrap();
                    assert_eq!(campaign.name, shipped.name);
                    assert!(campaign.summary.contains("after"), "{}", shipped.name);
                }
                (Err(error), LocationFacts::Device { .. }) if per_job_files => {
                    assert!(error.to_string().contains("needs one directory"), "{error}");
                }
                (Err(error), _) => panic!("{}: {error} {:?}", shipped.name, error.hints),
            }
        }
    }
}

#[test]
fn every_spec_in_the_repository_is_within_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut names: Vec<&str> = shipped_specs().iter().map(|spec| spec.name).collect();
    files.sort_unstable();
    names.sort_unstable();
    assert_eq!(files, names);
    assert_eq!(shipped_spec("specs/db-ladder.toml"), shipped_spec("db-ladder"));
    assert_eq!(shipped_spec("nothing"), None);
}

#[test]
fn groups_files_per_job_and_loads_beside_have_their_targets() {
    let text = "schema = 1\nname = \"x\"\n[[target]]\nname = \"drives\"\n[[target]]\nname = \"log\"\n\
                [[step]]\nname = \"r\"\njobs = [3, 1]\njobs_are = \"per-target\"\npattern = \"random\"\n\
                rate = [100, \"2k\"]\nx = \"log.jobs\"\ny = \"jobs\"\n\
                [[step.beside]]\nname = \"log\"\ntarget = \"log\"\nreads = \"0%\"\njobs = [1, 2]\n";
    let mut request = request(text, DEVICE).unwrap();
    let second = Location { path: RawPath::from("/dev/b"), ..request.places[0][0].clone() };
    request.places[0].push(second);
    let plan = plan_campaign(&request).unwrap().plan;
    let names: Vec<_> = plan.targets.iter().skip(1).map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["drives-1", "drives-2", "log"]);
    let step = measured(&plan)[0];
    assert_eq!((step.load.workload.jobs, step.load.more_targets.len()), (6, 1));
    assert_eq!((step.beside[0].target, step.beside[0].workload.jobs), (3, 1));
    assert_eq!(sections(&plan), [("r, rate 100/s", 4), ("r, rate 2000/s", 4)]);

    let per_job = "schema = 1\nname = \"x\"\n[[target]]\nname = \"f\"\nsize = \"1MiB\"\nfiles = \"per-job\"\n\
                   [[step]]\nname = \"w\"\nreads = \"0%\"\njobs = [1, 5]\n";
    let plan = plan_of(per_job);
    let used: Vec<_> = measured(&plan).iter().map(|step| step.load.targets().count()).collect();
    assert_eq!((plan.targets.len(), used), (1 + 5, vec![1, 5]));
}

#[test]
fn one_by_one_gives_a_section_per_path_with_its_baseline() {
    let plan = plan_of(shipped_spec("layer-cost").unwrap().text);
    let sections = &plan.campaign.as_ref().unwrap().sections;
    let shown: Vec<_> = sections
        .iter()
        .map(|section| (section.name.as_str(), section.baseline.as_deref()))
        .collect();
    assert_eq!(shown[..2], [("write", None), ("write", Some("raw"))]);
    assert_eq!(shown.len(), 6);
}

#[test]
fn shares_follow_the_target_and_the_scales_what_they_are_for() {
    let text = spec(
        "[[precondition]]\nname = \"p\"\nreads = \"0%\"\nvolume = \"200%\"\n\
         [[step]]\nname = \"s\"\nwithin = \"50%..100%\"\nduration = \"60s\"\nramp = \"2s\"\npause = \"10s\"\n",
    );
    let mut request = request(&text, DIRECTORY).unwrap();
    request.time_scale_per_mille = 20;
    request.size_scale_per_mille = 100;
    let plan = plan_campaign(&request).unwrap().plan;
    let size = Bytes::from_mib(102);
    assert_eq!(plan.targets[1].size, size);
    let [condition, step] = &plan.steps[plan.steps.len() - 2..] else { panic!("{plan:?}") };
    assert_eq!(condition.write_bytes_max(), Some(Bytes::from_mib(204)));
    assert_eq!(step.limit, durio_plan::Limit::Duration(Nanos::from_millis(1200)));
    assert_eq!((step.ramp, step.pause_before), (Nanos::from_millis(100), Nanos::from_millis(200)));
    let within = step.load.workload.within.unwrap();
    assert_eq!((within.offset, within.length), (Bytes::from_mib(51), Bytes::from_mib(51)));
    assert_eq!(plan.campaign.unwrap().time_scale_per_mille, 20);
}

#[test]
fn what_is_said_of_a_target_stands_with_each_of_its_paths() {
    let text = "schema = 1\nname = \"x\"\n[[target]]\nname = \"a\"\n\
                declared = { raid = \"raid10\", members = 8, copies = 2 }\n\
                sheet = { price = 1299.5, currency = \"EUR\", read_bandwidth = \"14GB\" }\n\
                [[step]]\nname = \"s\"\njobs = 2\n";
    let mut request = request(text, DEVICE).unwrap();
    let second = Location { path: RawPath::from("/dev/b"), ..request.places[0][0].clone() };
    request.places[0].push(second);
    let declared = plan_campaign(&request).unwrap().plan.campaign.unwrap().declared;
    assert_eq!(declared.len(), 2);
    let said = &declared[1];
    assert_eq!((said.target.as_str(), said.declared.members), ("a-2", Some(8)));
    let sheet = said.declared.sheet.as_ref().unwrap();
    assert_eq!(
        (sheet.price, sheet.read_bandwidth),
        (Some(1299.5), Some(Bytes::new(14_000_000_000)))
    );
}

#[test]
fn points_change_several_keys_together_mixes_too() {
    let plan = plan_of(&spec(
        "[defaults]\njobs = [9, 8]\n[[step]]\nname = \"s\"\npattern = \"random\"\npoints = [\n\
         { jobs = 1, block_mix = { \"4KiB\" = 500, \"8KiB\" = 500 } },\n\
         { jobs = 3, write_block_mix = { \"16KiB\" = 1000 } },\n]\n",
    ));
    let steps = measured(&plan);
    let [first, second] = steps[..] else { panic!("{steps:?}") };
    assert_eq!((first.load.workload.jobs, second.load.workload.jobs), (1, 3));
    assert_eq!(first.load.workload.block_size, Bytes::from_kib(8));
    assert_eq!(first.levels[1].label, "mix: 50 % of 4 KiB + 50 % of 8 KiB");
    // Reads keep their size beside the mix of writes.
    let reads = &second.load.workload.block_mix;
    assert_eq!((reads.len(), reads[0].size), (1, Bytes::from_kib(4)));
    let kind = &plan.campaign.as_ref().unwrap().sections[0].kind;
    assert_eq!(*kind, SectionKind::Ladder { axis: "jobs".to_owned() });
}

#[test]
fn the_axes_of_a_shortened_campaign_have_the_values_that_are_run() {
    let text = spec(
        "[[step]]\nname = \"v\"\nreads = \"0%\"\nvolume = [\"100MiB\", \"50MiB\"]\n\
         [[step]]\nname = \"p\"\nduration = \"60s\"\npause = [\"50s\", \"5s\"]\n",
    );
    let mut request = request(&text, DIRECTORY).unwrap();
    (request.time_scale_per_mille, request.size_scale_per_mille) = (20, 100);
    let plan = plan_campaign(&request).unwrap().plan;
    for step in measured(&plan) {
        let level = &step.levels[0];
        let run = match step.limit {
            durio_plan::Limit::Volume(bytes) => bytes.get(),
            _ => step.pause_before.get(),
        };
        assert_eq!(level.value, run as f64, "{level:?}");
    }
    assert_eq!(measured(&plan)[0].levels[0].label, "10 MiB");
}

#[test]
fn the_hash_tells_spec_places_and_scale_apart() {
    let text = spec("[[step]]\nname = \"s\"\n");
    let hash = |request: &CampaignRequest| {
        plan_campaign(request).unwrap().plan.campaign.unwrap().spec_hash
    };
    let first = request(&text, DIRECTORY).unwrap();
    let mut others = vec![first.clone(), first.clone(), request(&(text + "#"), DIRECTORY).unwrap()];
    others[0].places[0][0].path = RawPath::from("/elsewhere");
    others[1].time_scale_per_mille = 999;
    assert_eq!(hash(&first), hash(&CampaignRequest { seed: 9, ..first.clone() }));
    for other in &others {
        assert_ne!(hash(&first), hash(other));
    }
}

#[test]
fn what_exists_needs_permission_and_what_is_made_needs_room() {
    let text = spec("[[step]]\nname = \"s\"\nreads = \"0%\"\n");
    let mut on_device = request(&text, DEVICE).unwrap();
    on_device.places[0][0].destroy = false;
    let obstacles = plan_campaign(&on_device).unwrap().obstacles;
    assert_eq!(obstacles[0].kind, CommandErrorKind::WrongUse);
    assert!(obstacles[0].hints[0].starts_with("permit it with --destroy"), "{obstacles:?}");
    let free = Bytes::from_mib(100);
    let full = LocationFacts::Directory { free, filesystem: 1 };
    let obstacles = plan_campaign(&request(&text, full).unwrap()).unwrap().obstacles;
    assert_eq!(obstacles[0].kind, CommandErrorKind::CannotMeasure);
}

#[test]
fn files_that_one_filesystem_holds_need_room_together() {
    let text = |last| {
        let target = |(name, mib): (&str, u32)| {
            format!("[[target]]\nname = \"{name}\"\nsize = \"{mib}MiB\"\n")
        };
        let targets = [("a", 50), ("b", 20), ("c", last)].map(target).concat();
        format!("schema = 1\nname = \"x\"\n{targets}[[step]]\nname = \"s\"\ntarget = \"a\"\n")
    };
    let facts = LocationFacts::Directory { free: Bytes::from_mib(100), filesystem: 1 };
    let obstacles = |last| {
        let made = plan_campaign(&request(&text(last), facts).unwrap());
        made.unwrap_or_else(|error| panic!("{error}")).obstacles
    };
    assert!(obstacles(30).is_empty());
    let message = "the files at '/data' need 101 MiB, but 100 MiB is free";
    assert_eq!(obstacles(31)[0].to_string(), message);
}

/// Message and hint of a refusal must have these words.
fn check_refused(rest: &str, words: &[&str]) {
    let error = error_of(&spec(rest));
    let all = format!("{error} {}", error.hints.join(" "));
    for word in words {
        assert!(all.contains(word), "{word} is not in: {all}");
    }
}

#[test]
fn mistakes_are_named_with_their_place_and_what_was_meant() {
    check_refused("[[step]]\nname = \"s\"\nblocksize = \"4KiB\"\n", &["x.toml:8:1:", "block_size"]);
    check_refused("[[stp]]\nname = \"s\"\n", &["x.toml:6:3:", "'step'"]);
    check_refused(
        "[[step]]\nname = \"s\"\nduration = \"60 parsecs\"\n",
        &["x.toml:8:12:", "parsecs"],
    );
    check_refused("[[step]]\nname = \"s\"\nduration = 60\n", &["unit", "60s"]);
    check_refused("[[step]]\nname = \"s\"\nsync = \"dsync\"\n", &["o_dsync"]);
    check_refused(
        "[[step]]\nname = \"s\"\ntarget = \"dat\"\n",
        &["unknown target 'dat'", "'data'"],
    );
    check_refused("[[step]]\nname = \"s\"\njobs = []\n", &["jobs", "1 to"]);
    check_refused("[[step]]\nname = \"s\"\nramp = [\"1s\"]\n", &["ramp", "not a list"]);
    check_refused(
        "[[step]]\nname = \"s\"\njobs = 1\njobs = 2\n",
        &["x.toml:9:1:", "duplicate key"],
    );
    check_refused("[[step]]\nname = \"s\"\njobs = 5000000000\n", &["x.toml:8:8: jobs:", "between"]);
    check_refused("[[step]]\n", &["x.toml:6:1: 'name' of the step", "add name = "]);
    check_refused("[[step]]\nreads = \"x\"\njbos = 1\ndepth = \"y\"\n", &["x.toml:7:9: reads:"]);
    check_refused("[[step]]\njbos = 1\nreads = \"x\"\n", &["x.toml:7:1:", "did you mean 'jobs'"]);
    check_refused("[step]\nname = \"s\"\n", &["x.toml:6:1:", "write [[step]]"]);
    check_refused("[[defaults]]\njobs = 1\n", &["x.toml:6:1: defaults: expected a table"]);
    check_refused(
        "[[step]]\nname = \"s\"\npoints = [{ jobs = [1, 2] }]\n",
        &["x.toml:8:20: 'jobs' of a point needs one value, not a list"],
    );
    check_refused(
        "[defaults]\nduration = [\"2s\", \"1s\"]\n[[step]]\nname = \"s\"\n\
         points = [{ volume = \"1MiB\" }]\n",
        &["x.toml:7:12: 'duration' is swept"],
    );
    check_refused("", &["no step"]);
    check_refused(
        "[[step]]\nname = \"s\"\n[[step]]\nname = \"s\"\n",
        &["'s' names more than one step"],
    );
    check_refused(
        "[[step]]\nname = \"s\"\njobs = [2, 1]\norder = [\"job\"]\n",
        &["did you mean 'jobs'"],
    );
    check_refused("[[step]]\nname = \"s\"\njobs = [2, 1]\nx = \"jobs\"\n", &["a map needs two"]);
    check_refused(
        "[[step]]\nname = \"s\"\ndepth = 4\nengine = \"sync\"\n",
        &["step 's'", "sync engine"],
    );
    check_refused("[[step]]\nname = \"s\"\njobs = 5000\n", &["4096"]);
    check_refused("[[step]]\nname = \"s\"\nblock_size = \"2GiB\"\n", &["block size"]);
    check_refused("[[step]]\nname = \"s\"\nblock_mix = { \"4KiB\" = 999 }\n", &["1000"]);
    check_refused(
        "[[step]]\nname = \"s\"\nduration = \"1s\"\nvolume = \"1GiB\"\n",
        &["'duration' and 'volume'"],
    );
    check_refused("[[step]]\nname = \"s\"\nvolume = \"1GiB\"\nramp = \"1s\"\n", &["ramp"]);
    check_refused("[[step]]\nname = \"s\"\nduration = \"60d\"\n", &["month"]);
    check_refused("[[step]]\nname = \"s\"\nrounds = {}\n", &["steady_state"]);
    check_refused(
        "[[step]]\nname = \"s\"\nrounds = { steady_state = \"iops\", max = 3 }\n",
        &["window"],
    );
    check_refused(
        "[[step]]\nname = \"s\"\nrounds = { steady_state = \"iops\", tracked = { jobs = 2 } }\n",
        &["one step", "0"],
    );
    check_refused("[[step]]\nname = \"s\"\nrounds = { goal = \"p99 <= 1ms\" }\n", &["rate"]);
    let schema = "schema = 2\nname = \"x\"\n";
    assert!(CampaignSpec::parse("x", schema).unwrap_err().to_string().contains("schema 2"));
    assert!(CampaignSpec::parse("x", "").unwrap_err().to_string().contains("'schema' is missing"));
}

#[test]
fn ladders_that_explode_need_to_be_meant() {
    let list = (1..=101).map(|jobs| jobs.to_string()).collect::<Vec<_>>().join(", ");
    let text = spec(&format!("[[step]]\nname = \"s\"\njobs = [{list}]\nbatch = [{list}]\n"));
    let mut request = request(&text, DIRECTORY).unwrap();
    let refused = plan_campaign(&request).unwrap_err();
    assert!(refused.hints[0].contains("--confirm-steps 10201"));
    request.steps_confirmed = 10_200;
    assert!(plan_campaign(&request).is_err());
    request.steps_confirmed = 10_201;
    assert_eq!(plan_campaign(&request).unwrap().plan.measured_steps().count(), 10_201);
    let more = format!(
        "[[step]]\nname = \"s\"\njobs = [{list}]\nbatch = [{list}]\ndepth = [{list}]\n\
                        run_length = [{list}]\nrepeats = 4000000000\nreads = [\"0%\", \"1%\"]\n"
    );
    assert!(error_of(&spec(&more)).to_string().contains("more than 1000000"));
}

#[test]
fn a_spec_has_a_target_and_no_two_of_the_same_name() {
    let step = "[[step]]\nname = \"s\"\n";
    let parsed = |text: &str| CampaignSpec::parse("x.toml", text).unwrap_err();
    let none = parsed(&format!("schema = 1\nname = \"x\"\n{step}"));
    assert!(none.to_string().contains("no target"), "{none}");
    assert_eq!(none.hints, ["add [[target]] with name = \"data\""]);
    let twice = parsed(&spec(&format!("[[target]]\nname = \"data\"\n{step}")));
    assert!(twice.to_string().contains("'data' names more than one target"), "{twice}");
}

#[test]
fn two_targets_on_one_device_overlap() {
    let text = format!("{}[[step]]\nname = \"s\"\n", spec("[[target]]\nname = \"log\"\n"));
    let mut request = request(&text, DEVICE).unwrap();
    request.places[1] = request.places[0].clone();
    assert!(plan_campaign(&request).unwrap_err().to_string().contains("overlap"));
}

/// Splits, repeats, drops and replaces bytes of shipped specs: every outcome is a plan or an error
/// with a message, never a panic, and nothing runs for long.
#[test]
fn damaged_specs_are_errors_or_plans_and_never_a_panic() {
    let seed = std::env::var("DURIO_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or(0x5eed);
    eprintln!("DURIO_TEST_SEED={seed}");
    let mut random = seed;
    let mut next = move |below: usize| {
        // splitmix64 (Steele, Lea, Flood 2014).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % below.max(1) as u64).unwrap()
    };
    let words = [
        "99999999999999999999",
        "-1",
        "0",
        "\"\"",
        "\"0%\"",
        "[]",
        "[[",
        "{}",
        "=",
        "nan",
        "\"7%..3%\"",
        "18446744073709551615",
        "\"16777215t\"",
        "true",
        "\u{0}",
        "\"offset:100%\"",
        "1e308",
    ];
    let texts: Vec<&str> = shipped_specs().iter().map(|spec| spec.text).collect();
    let (mut plans, mut refused) = (0, 0);
    for _ in 0..600 {
        let mut bytes = texts[next(texts.len())].as_bytes().to_vec();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(5) {
                0 => drop(bytes.drain(at..(at + next(20)).min(bytes.len()))),
                1 => bytes.truncate(at),
                2 => {
                    let part = bytes[at..(at + next(60)).min(bytes.len())].to_vec();
                    let to = next(bytes.len());
                    bytes.splice(to..to, part);
                }
                3 => {
                    let word = words[next(words.len())].bytes();
                    let end = bytes[at..]
                        .iter()
                        .position(|&byte| byte == b'\n')
                        .map_or(at, |length| at + length);
                    let begin = bytes[at..end]
                        .iter()
                        .position(|&byte| byte == b'=')
                        .map_or(end, |length| at + length + 1);
                    bytes.splice(begin..end, word);
                }
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = b' ' + (*byte % 90)),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let facts = if next(2) == 0 { DIRECTORY } else { DEVICE };
        match request(&text, facts).and_then(|request| plan_campaign(&request)) {
            Ok(made) => {
                made.plan.validate().unwrap();
                plans += 1;
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.len() > 10 && !message.contains('\0'), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(plans > 20 && refused > 100, "{plans} plans, {refused} refusals");
}

#[test]
fn operations_are_followed_at_the_end_once_for_a_ladder() {
    let ladder = "[[step]]\nname = \"a\"\nreads = \"0%\"\njobs = [1, 4]\n";
    let quiet = "[[step]]\nname = \"b\"\nreads = \"0%\"\nblock_size = \"8KiB\"\n";
    let roles = |rest: &str| -> Vec<Role> {
        let steps = plan_of(&spec(rest)).steps.into_iter();
        steps.map(|step| step.role).filter(|role| *role != Role::SelfCost).collect()
    };
    let of_one = roles(&format!("{ladder}trace_path = true\n{quiet}"));
    assert_eq!(of_one, [Role::Measure, Role::Measure, Role::Measure, Role::TracePath]);
    let of_all = roles(&format!("[defaults]\ntrace_path = true\n{ladder}{quiet}"));
    assert_eq!(of_all[3..], [Role::TracePath, Role::TracePath]);
}
