//! `durio plan` and `durio run SPEC`: what would be done, what is refused, and a campaign that runs.

use std::fs;

use crate::sandbox::Sandbox;

const SPEC: &str = "schema = 1\nname = \"small\"\n[[target]]\nname = \"data\"\nsize = \"4MiB\"\n\
                    [[precondition]]\nname = \"fill\"\nreads = \"0%\"\nblock_size = \"128KiB\"\nloops = 1\n\
                    [[step]]\nname = \"write\"\npattern = \"random\"\nreads = \"0%\"\njobs = [2, 1]\n\
                    duration = \"10s\"\nramp = \"1s\"\n";

fn with_spec(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("spec.toml"), text).unwrap();
    sandbox
}

#[test]
fn a_plan_shows_every_step_and_every_write_and_writes_nothing() {
    let sandbox = with_spec(SPEC);
    let ended = sandbox.durio("plan spec.toml --target data").run().expect_exit(0);
    let ended = ended.expect_no_stderr();
    for words in [
        "4 MiB of random bytes are written first",
        "1 step writes at most 4 MiB",
        "2 steps rewrite up to 4 MiB for 22 s",
        "fill: preconditioning",
        "write: ladder over jobs",
        "3 steps, 22 s",
    ] {
        let text = ended.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert!(sandbox.runs().is_empty());
}

#[test]
fn a_built_in_spec_is_printed_and_its_copy_is_the_same_campaign() {
    let sandbox = Sandbox::new();
    let listed = sandbox.durio("spec list").run().expect_exit(0).expect_no_stderr();
    for line in ["Campaigns: durio run NAME", "  raid-modes ", "  prove-smoke ", "  postgresql "] {
        assert!(listed.text().contains(line), "{line} is not in {}", listed.text());
    }
    let columns = listed.text().lines().map(|line| line.chars().count()).max();
    assert!(columns.is_some_and(|columns| columns <= 100), "{columns:?}");
    for (name, plan) in [
        ("read-ahead", "plan X --target data --format json"),
        ("loop-layers", "stack plan X"),
        ("prove-smoke", "prove plan X"),
    ] {
        let shown = sandbox.durio("spec show").word(name).run().expect_exit(0).expect_no_stderr();
        fs::write(sandbox.root().join("copy.toml"), &shown.stdout).unwrap();
        let plan = |spec: &str| sandbox.durio(&plan.replace('X', spec)).run().expect_exit(0).text();
        assert_eq!(plan("./copy.toml"), plan(name));
    }
    let profile = sandbox.durio("spec show profile:etcd").run().expect_exit(0);
    profile.expect_stdout("name = \"etcd\"");
    let wrong = sandbox.durio("spec show raid-mods").run().expect_exit(2).expect_no_stdout();
    wrong.expect_stderr("unknown built-in spec").expect_stderr("did you mean raid-modes?");
}

#[test]
fn the_plan_as_a_document_is_the_plan_of_the_run() {
    let sandbox = with_spec(SPEC);
    let line = "plan spec.toml --target data --format json --scale-time 0.02";
    let plan = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(plan["campaign"]["time_scale_per_mille"], 20);
    let run = "run --quiet --format json spec.toml --target data --scale-time 0.02 --seed 0";
    sandbox.durio(run).run().expect_exit(0);
    let text = fs::read_to_string(sandbox.the_run().join("plan.json")).unwrap();
    let ran: serde_json::Value = serde_json::from_str(&text).unwrap();
    for part in ["steps", "campaign"] {
        assert_eq!(plan[part], ran[part], "{part}");
    }
}

#[test]
fn the_document_of_a_plan_has_the_most_that_is_written_if_no_step_ends_by_time_alone() {
    let timed = "duration = \"10s\"\nramp = \"1s\"\n";
    let rate = "rate = 100\narrivals = \"constant\"\n";
    let writes = |limit: &str| {
        let sandbox = with_spec(&SPEC.replace(timed, limit));
        let line = "plan spec.toml --target data --format json";
        sandbox.durio(line).run().expect_exit(0).json()["writes"].clone()
    };
    assert_eq!(writes(timed), serde_json::json!([{ "target": 1 }]));
    // Layout and filling of 4 MiB each, and 2 steps of 1 MiB.
    let expected = serde_json::json!([{ "target": 1, "written_max_bytes": 10 << 20 }]);
    assert_eq!(writes("volume = \"1MiB\"\n"), expected);
    // 100 per second for 11 s and 2, of 4 KiB, twice.
    let expected = (8 << 20) + 2 * 1_102 * 4096;
    let expected = serde_json::json!([{ "target": 1, "written_max_bytes": expected }]);
    assert_eq!(writes(&format!("{timed}{rate}")), expected);
}

#[test]
fn all_specs_that_durio_brings_along_are_listed_and_can_be_planned() {
    let sandbox = Sandbox::new();
    let listing = sandbox.durio("plan").run().expect_exit(0);
    let names: Vec<String> = listing
        .text()
        .lines()
        // A description that is continued below stands further in.
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    assert!(names.len() >= 27, "{names:?}");
    for name in names {
        let line = format!("plan {name} --target data --scale-size 0.001");
        sandbox.durio(&line).run().expect_exit(0).expect_no_stderr().expect_stdout("In all");
    }
    fs::create_dir(sandbox.root().join("db-ladder")).unwrap();
    sandbox.durio("plan db-ladder --target data --scale-size 0.001").run().expect_exit(0);
    sandbox.durio("plan db-laddr").run().expect_exit(2).expect_stderr("db-ladder");
    sandbox.durio("plan --schema").run().expect_exit(0).expect_stdout("\"block_size\"");
}

#[test]
fn mistakes_in_a_spec_are_named_with_line_and_column() {
    let sandbox = with_spec(&SPEC.replace("loops = 1", "lops = 1"));
    let ended = sandbox.durio("plan spec.toml --target data").run().expect_exit(2);
    let ended = ended.expect_no_stdout().expect_stderr("spec.toml:10:1: unknown key 'lops'");
    ended.expect_stderr("did you mean 'loops'?");
    fs::write(sandbox.root().join("spec.toml"), [0xff, 0x00]).unwrap();
    sandbox.durio("plan spec.toml --target data").run().expect_exit(2).expect_stderr("not text");
    sandbox.durio("plan data --target data").run().expect_exit(3).expect_stderr("cannot read");
}

#[test]
fn targets_are_asked_for_named_and_never_overlap() {
    let sandbox = Sandbox::new();
    let asks = sandbox.durio("plan four-tests").run().expect_exit(2);
    asks.expect_stderr("target 'log'").expect_stderr("--target log=PATH");
    let line = "plan four-tests --target lgo=data";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("the spec has no target 'lgo'");
    let same = "plan four-tests --target log=data/user.db --target data=data/user.db";
    sandbox.durio(same).run().expect_exit(2).expect_stderr("overlap");
    let both = "plan four-tests --target data --scale-size 0.01";
    sandbox.durio(both).run().expect_exit(0).expect_stdout("log at data");
}

#[test]
fn a_campaign_runs_shortened_and_leaves_nothing() {
    let sandbox = with_spec(SPEC);
    let line =
        "run --quiet --format json spec.toml --target data=data/new --create --scale-time 0.01";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    let labels: Vec<&str> = document["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|workload| workload["name"] == "write")
        .filter_map(|workload| workload["levels"][0]["label"].as_str())
        .collect();
    assert!(labels.contains(&"2") && labels.contains(&"1"), "{labels:?}");
    assert!(!sandbox.data().join("new").exists());
}

#[test]
fn rounds_go_on_until_they_are_used_up_or_steady() {
    let text = SPEC.replace("jobs = [2, 1]", "rounds = { steady_state = \"iops\", max = 5 }");
    let sandbox = with_spec(&text);
    let line = "run --quiet --format json spec.toml --target data --scale-time 0.01";
    sandbox.durio(line).run().expect_exit(0);
    let events = fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap();
    let rounds = events.lines().filter(|line| line.contains("round_ended")).count();
    assert_eq!(rounds, 5, "{events}");
}

#[test]
fn a_spec_that_writes_to_what_exists_needs_permission() {
    let sandbox = with_spec(SPEC);
    let plan = sandbox.durio("plan spec.toml --target data/user.db").run().expect_exit(0);
    plan.expect_stdout("Before this can run").expect_stdout("--destroy");
    let run = sandbox.durio("run spec.toml --target data/user.db").run().expect_exit(2);
    run.expect_stderr("'data/user.db' exists").expect_stderr("--destroy");
    assert!(sandbox.runs().is_empty());
}

#[test]
fn options_of_one_job_do_not_go_with_a_spec() {
    let sandbox = with_spec(SPEC);
    for option in ["--rw read", "--bs 8k", "--jobs 2", "--duration 1s", "--no-self-cost"] {
        let line = format!("run spec.toml --target data {option}");
        sandbox.durio(&line).run().expect_exit(2).expect_stderr("cannot be used with");
    }
    sandbox.durio("run --target data --scale-time 0.5").run().expect_exit(2);
    let line = "run --target data --target data/user.db --ops 1";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("one target");
    sandbox.durio("plan spec.toml --scale-time 0").run().expect_exit(2).expect_stderr("factor");
}

#[test]
fn ladders_that_explode_are_refused_until_confirmed() {
    let list = (1..=101).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let text = SPEC.replace("jobs = [2, 1]", &format!("jobs = [{list}]\nbatch = [{list}]"));
    let sandbox = with_spec(&text);
    let ended = sandbox.durio("plan spec.toml --target data").run().expect_exit(2);
    ended.expect_stderr("10202 steps").expect_stderr("--confirm-steps 10202");
    let confirmed = "plan spec.toml --target data --confirm-steps 10202 --format json";
    let plan = sandbox.durio(confirmed).run().expect_exit(0).json();
    assert!(plan["steps"].as_array().unwrap().len() > 10_202);
}
