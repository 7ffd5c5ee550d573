//! Traces of the kernel: what a killed run left on is ended, what others have on is told.
//!
//! The tracing files are mounted in a mount namespace of each command's own, so that no other test
//! sees them; what they show is the kernel's, and the same for all.

use crate::durio::Durio;
use crate::loops::sh;
use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

const MOUNT: &str = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || exit 77";
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// True if this kernel traces and a test may look at it.
fn has_tracing() -> bool {
    if !has(&["root", "unshare"]) {
        return false;
    }
    let found = sh(&format!("unshare -m sh -c '({MOUNT}; ls -d {INSTANCES})' || true"));
    if found.is_empty() {
        skip("tracefs cannot be mounted, or has no instances");
    }
    !found.is_empty()
}

/// The command where the tracing files are mounted, with `before` and `after` around it.
fn traced(sandbox: &Sandbox, line: &str, before: &str, after: &str) -> Durio {
    let script = format!("{MOUNT}; {before} \"$@\"; code=$?; {after} exit $code");
    sandbox.durio(line).within(["unshare", "-m", "sh", "-c", &script, "sh"])
}

const TRACED: &str = "run --quiet --no-self-cost --rw randwrite --sync fdatasync --ops 20 \
                      --size 4MiB --target data --trace-path";

/// Kills a run as soon as it traces; gives the instance that it left, if it had not ended before.
fn kill_while_it_traces(sandbox: &Sandbox) -> Option<String> {
    let script = format!("{MOUNT}; exec \"$@\"");
    let running =
        sandbox.durio(TRACED).within(["unshare", "-m", "sh", "-c", &script, "sh"]).start();
    let process = running.id();
    let find = format!("ls {INSTANCES} | grep ^durio-{process}-");
    let wait = format!("while kill -0 {process} 2>/dev/null && ! {find} >/dev/null; do :; done");
    sh(&format!("unshare -m sh -c '{MOUNT}; {wait}; kill -KILL {process}' || true"));
    running.wait();
    let left = sh(&format!("unshare -m sh -c '{MOUNT}; {find}' || true"));
    (!left.is_empty()).then_some(left)
}

fn is_there(instance: &str) -> bool {
    let found = sh(&format!("unshare -m sh -c '{MOUNT}; ls -d {INSTANCES}/{instance}' || true"));
    !found.is_empty()
}

#[test]
fn the_trace_of_a_killed_run_is_ended_by_the_next_run_and_by_stack_clean() {
    if !has_tracing() {
        return;
    }
    for line in ["run --quiet --engine null --ops 10", "stack clean"] {
        let is_told = || {
            let sandbox = Sandbox::new();
            let left = (0..20).find_map(|_| kill_while_it_traces(&sandbox));
            let left = left.expect("a run that was killed while it traced");
            let ended = traced(&sandbox, line, "", "").run().expect_exit(0);
            let told = format!("{}{}", ended.stderr, ended.text());
            assert!(!is_there(&left), "{left}: {told}");
            told.contains(&left)
        };
        // The kernel's tracing is one for all: another durio may have been quicker to end it.
        assert!((0..5).any(|_| is_told()), "{line} ended none of five traces");
    }
}

#[test]
fn a_tracer_that_is_on_is_a_warning_with_its_place_and_an_idle_instance_is_none() {
    if !has_tracing() {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "run --quiet --no-self-cost --ops 20 --size 4MiB --target data --format json";
    let make = format!("i={INSTANCES}/test-$$; mkdir $i || exit 77;");
    let on = format!("{make} echo 1 > $i/events/block/block_rq_issue/enable;");
    for (before, is_warned) in [(make, false), (on, true)] {
        let report = traced(&sandbox, line, &before, "rmdir $i;").run().expect_exit(0).json();
        let all = report["warnings"].as_array().unwrap();
        let found =
            all.iter().filter(|it| it["code"] == "tracing").filter_map(|it| it["seen"].as_str());
        // Others may trace at the same time.
        let ours = found.filter(|seen| seen.contains("/instances/test-")).collect::<Vec<_>>();
        let names = |seen: &&str| seen.contains("block:block_rq_issue");
        assert_eq!(ours.iter().any(names), is_warned, "{all:?}");
    }
}

#[test]
fn a_trace_of_the_path_needs_no_mount_of_tracefs_and_ends_those_of_killed_runs() {
    if !has_tracing() {
        return;
    }
    let sandbox = Sandbox::new();
    let left = (0..20).find_map(|_| kill_while_it_traces(&sandbox));
    let left = left.expect("a run that was killed while it traced");
    let script = "umount -l /sys/kernel/debug 2>/dev/null; umount -l /sys/kernel/tracing 2>/dev/null; exec \"$@\"";
    let line = format!("{TRACED} --verbose");
    let unmounted = ["unshare", "-m", "sh", "-c", script, "sh"];
    let ended = sandbox.durio("doctor").within(unmounted).run();
    ended.expect_stdout("an instance of tracefs was made");
    let ended = sandbox.durio(&line).within(unmounted).run();
    let text = ended.expect_exit(0).text();
    assert!(
        !text.contains("nothing was traced") && text.contains("of their time on no processor"),
        "{text}"
    );
    assert!(!is_there(&left), "{left}");
}
