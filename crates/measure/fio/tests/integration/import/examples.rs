//! The examples that come with fio: each is a plan, or refused by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_fio::import::{ImportSettings, ImportedPlan, import, named_paths};
use durio_fio::job_file::{HostParameters, JobSource, parse_job_file, resolve};
use durio_plan::{ClockChoice, EngineKind, Limit, Plan, Step};
use durio_workload::{CacheMode, Coverage, Pattern, PerMille, Skew, SyncPolicy};

use super::{EXAMPLES, MACHINE, locate, skip};

/// The plan, or what is said of it.
fn import_file(path: &Path) -> Result<ImportedPlan, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap().to_owned();
    let mut read = |name: &str, _: Option<&str>| {
        let text = fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())?;
        Ok(JobSource { name: name.to_owned(), text })
    };
    let environment = |_: &str| Some("1".to_owned());
    let mut host = HostParameters { read: &mut read, environment: &environment, machine: MACHINE };
    let jobs = parse_job_file(&JobSource { name, text }, &mut host)
        .and_then(|file| resolve(&file))
        .map_err(|error| error.to_string())?;
    let _ = named_paths(&jobs, &|_| false);
    let settings = ImportSettings {
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: "f".to_owned(),
        copies_apart: true,
    };
    import(&jobs, &locate, &settings).map_err(|refusals| {
        assert!(refusals.iter().all(|refusal| !refusal.option.is_empty()));
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

#[test]
fn every_example_of_fio_is_a_plan_or_refused_by_name() {
    let test = "every_example_of_fio_is_a_plan_or_refused_by_name";
    let folder = Path::new(EXAMPLES);
    if !folder.is_dir() {
        return skip(test, "fio-examples is not installed");
    }
    let mut plans = BTreeMap::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "fio") {
            continue;
        }
        count += 1;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match import_file(&path) {
            Ok(imported) => {
                assert_eq!(imported.plan.validate(), Ok(()), "{name}");
                plans.insert(name, imported.plan);
            }
            Err(reasons) => {
                assert!(reasons.contains(".fio:") || reasons.contains(&name), "{name}: {reasons}");
                eprintln!("refused {name}: {}", reasons.lines().next().unwrap_or_default());
            }
        }
    }
    eprintln!("{} of {count} are plans: {:?}", plans.len(), plans.keys());
    assert!(count > 50, "{count} examples");
    let ssd = plans.get("ssd-test.fio").expect("ssd-test.fio");
    assert_eq!(ssd.steps.len(), 4, "four jobs, one after the other");
    let first = &ssd.steps[0];
    assert_eq!(first.load.engine, EngineKind::Aio);
    assert_eq!((first.load.workload.depth, first.load.workload.cache), (4, CacheMode::Direct));
    let (volume, duration) = (Bytes::from_gib(10), Nanos::from_secs(60));
    assert_eq!(first.limit, Limit::VolumeWithin { volume, duration });
    assert_eq!(ssd.steps[1].load.workload.pattern, Pattern::Random);
    zones_and_mixes(&plans);
    one_after_the_other(&plans);
}

fn zones_and_mixes(plans: &BTreeMap<String, Plan>) {
    let load = &plans["rand-zones.fio"].steps[0].load;
    let Skew::Zones { zones } = &load.workload.skew else { panic!("{load:?}") };
    let zones: Vec<_> = zones.iter().map(|zone| (zone.accesses.0, zone.size.0)).collect();
    assert_eq!(zones, [(500, 50), (300, 150), (200, 800)]);
    assert_eq!(load.workload.coverage, Coverage::Independent);
    let mixed = &plans["fio-rand-RW.fio"].steps[0];
    let workload = &mixed.load.workload;
    assert_eq!((workload.read_share, workload.depth), (PerMille(600), 16));
    assert_eq!(jobs(mixed), 4);
    assert_eq!((workload.cache, workload.coverage), (CacheMode::Buffered, Coverage::EachOnce));
    assert_eq!(mixed.limit, Limit::Duration(Nanos::from_secs(900)));
}

/// Of all its loads.
fn jobs(step: &Step) -> u32 {
    step.loads().map(|load| load.workload.jobs).sum()
}

fn one_after_the_other(plans: &BTreeMap<String, Plan>) {
    let plan = &plans["tiobench-example.fio"];
    assert_eq!((plan.steps.len(), plan.targets.len()), (4, 16), "a file for each copy");
    assert!(plan.steps.iter().all(|step| jobs(step) == 4));
    // Of each of the four copies.
    let (volume, duration) = (Bytes::from_mib(512), Nanos::from_secs(60));
    assert_eq!(plan.steps[3].limit, Limit::VolumeWithin { volume, duration });
    let steady = &plans["ssd-steadystate.fio"].steps;
    assert_eq!((steady[0].load.workload.depth, steady[1].load.workload.depth), (16, 32));
    assert_eq!(steady[1].load.workload.sync, SyncPolicy::NONE);
}
