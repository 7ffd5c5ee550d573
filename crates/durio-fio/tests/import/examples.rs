//! The examples that come with fio: each is a plan, or refused by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use durio_fio::import::{ImportSettings, ImportedPlan, import, named_paths};
use durio_fio::job_file::{Source, Surroundings, parse_job_file, resolve};
use durio_plan::{ClockChoice, EngineKind, Limit};
use durio_units::{Bytes, Nanos};
use durio_workload::{CacheMode, Pattern, Skew, SyncMethod};

use super::{MACHINE, facts, skip};

/// The plan, or what is said of it.
fn import_file(path: &Path) -> Result<ImportedPlan, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap().to_owned();
    let mut read = |name: &str, _: Option<&str>| {
        let text = fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())?;
        Ok(Source { name: name.to_owned(), text })
    };
    let environment = |_: &str| Some("1".to_owned());
    let mut surroundings =
        Surroundings { read: &mut read, environment: &environment, machine: MACHINE };
    let jobs = parse_job_file(&Source { name, text }, &mut surroundings)
        .and_then(|file| resolve(&file))
        .map_err(|error| error.to_string())?;
    let _ = named_paths(&jobs);
    let settings = ImportSettings { seed: 1, clock: ClockChoice::Auto, file_name: "f".to_owned() };
    import(&jobs, &facts, &settings).map_err(|refusals| {
        assert!(refusals.iter().all(|refusal| !refusal.option.is_empty()));
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

#[test]
fn every_example_of_fio_is_a_plan_or_refused_by_name() {
    let test = "every_example_of_fio_is_a_plan_or_refused_by_name";
    let Some(folder) = std::env::var_os("DURIO_FIO_EXAMPLES") else {
        return skip(test, "DURIO_FIO_EXAMPLES is not set");
    };
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
    let _ = (Skew::Uniform, SyncMethod::None);
}
