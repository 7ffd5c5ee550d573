//! A user's defaults: applied, replaced, recorded, refused where they are wrong.

use std::fs;

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn defaults_of_the_file_are_used_recorded_and_replaced_by_options() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("config.toml");
    let text =
        "[check]\nsize = \"8MiB\"\nduration = \"150ms\"\nworkload = [\"commit\"]\nquiet = true\n";
    fs::write(&file, text).unwrap();
    let durio = |line: &str| sandbox.durio(line).env("DURIO_CONFIG", &file).run();
    durio("config")
        .expect_exit(0)
        .expect_stdout("durio check --duration 150ms --quiet --size 8MiB");
    let document = durio("check data --size 4MiB --format json").expect_exit(0).json();
    assert_eq!(document["workloads"].as_array().unwrap().len(), 1);
    let command: Vec<&str> =
        document["run"]["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(command.contains(&"150ms") && command.contains(&"4MiB"), "{command:?}");
    assert!(!command.contains(&"8MiB"), "{command:?}");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn a_file_that_is_wrong_stops_every_command_with_what_to_do() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("config.toml");
    let rows = [
        ("[chek]\nsize = \"1G\"\n", "did you mean 'check'"),
        ("[check]\nsise = \"1G\"\n", "did you mean 'size'"),
        ("[check\n", "cannot read"),
        ("\u{0}\u{1}", "cannot read"),
    ];
    for (text, word) in rows {
        fs::write(&file, text).unwrap();
        let ended = sandbox.durio("check data").env("DURIO_CONFIG", &file).run().expect_exit(2);
        ended.expect_stderr(word).expect_stderr("DURIO_CONFIG= runs without it");
    }
    // What clap finds wrong of a value names the option, which is the file's.
    fs::write(&file, "[check]\nsize = \"many\"\n").unwrap();
    let ended = sandbox.durio("check data").env("DURIO_CONFIG", &file).run().expect_exit(2);
    ended.expect_stderr("--size").expect_stderr("many");
    fs::remove_file(&file).unwrap();
    let none = sandbox.durio("config").env("DURIO_CONFIG", &file).run();
    none.expect_exit(0).expect_stdout("sets nothing");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}
