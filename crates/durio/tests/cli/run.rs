//! `durio run`: targets that are made, targets that exist, and the user's data.

use std::fs;

use crate::sandbox::Sandbox;

const WRITES: &str = "run --quiet --rw randwrite --bs 4k --ops 50";

#[test]
fn a_directory_gets_an_unnamed_file_and_is_as_before() {
    let sandbox = Sandbox::new();
    let line = format!("{WRITES} --sync fdatasync --size 4MiB --target data --format json");
    let document = sandbox.durio(&line).run().expect_exit(0).json();
    assert_eq!(document["workloads"][0]["headline"], "commit");
    assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 50);
}

#[test]
fn a_path_that_does_not_exist_is_measured_and_never_appears() {
    let sandbox = Sandbox::new();
    sandbox.durio(&format!("{WRITES} --size 4MiB --target data/new --create")).run().expect_exit(0);
    assert!(!sandbox.data().join("new").exists());
    let journal = fs::read_to_string(sandbox.the_run().join("journal.jsonl")).unwrap();
    assert_eq!(journal, "", "nothing has to be undone");
}

#[test]
fn every_engine_reads_an_existing_file_and_leaves_it_alone() {
    let sandbox = Sandbox::new();
    for engine in ["sync --jobs 2", "uring --depth 8", "aio --depth 8"] {
        let line = format!("run --quiet --rw randread --ops 200 --engine {engine} --target");
        let run = sandbox.durio(&line).word(sandbox.user_file()).words("--format json").run();
        let document = run.expect_exit(0).json();
        assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 200, "{engine}");
    }
}

#[test]
fn writing_to_what_exists_is_refused_with_the_option_that_permits_it() {
    let sandbox = Sandbox::new();
    let line = format!("{WRITES} --target data/user.db");
    let ended = sandbox.durio(&line).run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("'data/user.db' exists").expect_stderr("--destroy");
    assert!(sandbox.runs().is_empty());
}

#[test]
fn permission_for_another_file_is_no_permission() {
    let sandbox = Sandbox::new();
    for other in ["data/notes.txt", "data", "user.db", "data/user.db.old", "serial", "/", "*"] {
        let line = format!("{WRITES} --target data/user.db --destroy");
        sandbox.durio(&line).word(other).run().expect_exit(2).expect_stderr("data/user.db");
    }
}

#[test]
fn a_mix_with_one_write_in_a_thousand_is_writing() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --rw randrw --mix 99.9 --ops 10 --target data/user.db";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("exists");
}

#[test]
fn what_destroy_names_is_written_and_the_file_beside_it_is_not() {
    let mut sandbox = Sandbox::new();
    let line = format!("{WRITES} --target data/user.db --destroy data/./user.db");
    sandbox.durio(&line).run().expect_exit(0);
    let changed = format!("{} has changed", sandbox.user_file().display());
    assert_eq!(sandbox.differences(), [changed]);
    assert_eq!(fs::metadata(sandbox.user_file()).unwrap().len(), 5 << 20, "its size");
    sandbox.accept_changes();
}

#[test]
fn a_link_to_what_destroy_names_leads_to_the_very_thing() {
    let mut sandbox = Sandbox::new();
    std::os::unix::fs::symlink("user.db", sandbox.data().join("link")).unwrap();
    sandbox.accept_changes();
    let line = format!("{WRITES} --target data/link");
    sandbox.durio(&line).run().expect_exit(2).expect_stderr("exists");
    sandbox.durio(&format!("{line} --destroy data/user.db")).run().expect_exit(0);
    assert_eq!(sandbox.differences().len(), 1);
    sandbox.accept_changes();
}

#[test]
fn zeros_are_a_target_and_no_storage() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --target /dev/zero --engine uring --depth 32 --ops 20000 --format json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 20_000);
    sandbox.durio("check /dev/zero").run().expect_exit(3).expect_stderr("not storage");
}

#[test]
fn a_file_that_is_all_holes_is_not_filled_by_reading() {
    let mut sandbox = Sandbox::new();
    let holes = sandbox.data().join("holes");
    crate::loops::sparse_file(&holes, 4);
    sandbox.accept_changes();
    sandbox.durio("run --quiet --ops 100 --target data/holes").run().expect_exit(0);
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(holes).unwrap()), 0);
}

#[test]
fn a_linked_sync_chooses_its_engine_and_every_write_is_a_commit() {
    let sandbox = Sandbox::new();
    let line = format!("{WRITES} --sync linked_fdatasync --size 4MiB --target data --format json");
    let document = sandbox.durio(&line).run().expect_exit(0).json();
    let workload = &document["workloads"][0];
    assert_eq!(workload["headline"], "commit");
    assert_eq!(workload["operations"][0]["service"]["count"], 50);
    // Where io_uring is forbidden it is said that the calls were separate ones.
    let engine = &workload["effective"]["engine"];
    let fallbacks = workload["effective"]["fallbacks"].to_string();
    assert_eq!(engine == "uring", !fallbacks.contains("linked_fdatasync needs io_uring"));
    let other = format!("{WRITES} --sync linked_fsync --engine sync --size 4MiB --target data");
    let ended = sandbox.durio(&other).run().expect_exit(2).expect_no_stdout();
    ended
        .expect_stderr("linked_fsync needs io_uring: sync cannot link operations")
        .expect_stderr("--sync fsync");
}

#[test]
fn a_rewrite_touches_the_first_block_alone() {
    let mut sandbox = Sandbox::new();
    let before = fs::read(sandbox.user_file()).unwrap();
    let line = "run --quiet --rw write --bs 8k --ops 20 --rewrite --sync fdatasync --buffered \
                --target data/user.db --destroy data/user.db";
    sandbox.durio(line).run().expect_exit(0);
    let after = fs::read(sandbox.user_file()).unwrap();
    assert_ne!(after[..8192], before[..8192]);
    assert!(after[8192..] == before[8192..], "what follows is as it was");
    sandbox.accept_changes();
}

#[test]
fn committers_share_the_writes_and_syncs_of_a_log() {
    let sandbox = Sandbox::new();
    let log = "run --quiet --engine null --null-latency 100us,900us --rw write --bs 256B \
               --sync fdatasync --ops 640 --committers 64";
    let document = sandbox.durio(&format!("{log} --format json")).run().expect_exit(0).json();
    let workload = &document["workloads"][0];
    assert_eq!(workload["headline"], "commit");
    assert_eq!(workload["operations"][0]["service"]["count"], 640);
    assert_eq!(workload["batches"]["commits_per_sync"], 64.0);
    let text = sandbox.durio(log).run().expect_exit(0).text();
    assert!(text.contains("64.0 records per batch"), "{text}");
    let threads = format!("{log} --committer-threads");
    sandbox.durio(&threads).run().expect_exit(2).expect_stderr("engine sync");
    let reads = log.replace("--rw write", "--rw read").replace("--sync fdatasync", "");
    sandbox.durio(&reads).run().expect_exit(2).expect_stderr("committers write to a log");
    let alone = "run --target data --rw write --commit-delay 1ms";
    sandbox.durio(alone).run().expect_exit(2).expect_stderr("--committers");
}

#[test]
fn much_memory_is_announced_before_anything_is_begun() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --target data --size 4MiB --duration 100ms --rw randread --bs 4k";
    let ended = sandbox.durio(line).words("--jobs 1024").run().expect_exit(0);
    ended
        .expect_stderr("needs up to 1.68")
        .expect_stderr("GiB of memory")
        .expect_stderr("1024 jobs");
    sandbox.durio(line).words("--jobs 2").run().expect_exit(0).expect_no_stderr();
}

#[test]
fn a_target_that_does_not_exist_is_refused_unless_create_says_so() {
    let sandbox = Sandbox::new();
    let lines = [
        "run --rw write --ops 100 --size 1MiB --target data/missing",
        "sweep --rw randread --goal p99=5ms --duration 100ms --size 1MiB --target data/missing",
        "run db-ladder --quick --target data/missing",
    ];
    for line in lines {
        let ended = sandbox.durio(line).run().expect_exit(2);
        ended.expect_stderr("missing' does not exist").expect_stderr("--create");
    }
    sandbox.durio(lines[0]).words("--create --quiet").run().expect_exit(0);
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}
