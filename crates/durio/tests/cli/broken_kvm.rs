//! Machines where KVM is there and does not work, played by a QEMU that emulates where KVM is asked for
//! and holds its guest still at some moment, as QEMU does after a "KVM internal error".

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::durio::Durio;
use crate::guests::{bootable, with_kernels};
use crate::requirements::{program_path, search_path};
use crate::sandbox::Sandbox;

/// Enough for two boots of an emulated guest on any host. That a guest which stands still was not waited
/// for until it was given up is seen by the reason that is told.
const PATIENCE: Duration = Duration::from_secs(900);
/// On a quiet machine it takes a few milliseconds.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Puts a QEMU into the sandbox whose words are `words`, with KVM replaced by emulation; `of_trial` and
/// `of_guest` are what it is called with besides where KVM was asked for.
pub(crate) fn pretend(sandbox: &Sandbox, of_trial: &str, of_guest: &str) {
    let qemu = program_path("qemu-system-x86_64").unwrap();
    let script = format!(
        "#!/bin/bash\nwords=(); more=; is_trial=; is_kvm=\n\
         for word; do case $word in kvm) is_kvm=1; word=tcg;; host) word=max;; \
         isa-debug-exit*) is_trial=1;; esac; words+=(\"$word\"); done\n\
         if [ $is_kvm ]; then if [ $is_trial ]; then more='{of_trial}'; else more='{of_guest}'; fi; fi\n\
         exec {} \"${{words[@]}}\" $more\n",
        qemu.display()
    );
    sandbox.program("qemu-system-x86_64", &script);
}

/// `durio lab run` by the host's clock with that QEMU.
fn lab(sandbox: &Sandbox, script: &str) -> Durio {
    lab_by(sandbox, "auto", script)
}

fn lab_by(sandbox: &Sandbox, accelerator: &str, script: &str) -> Durio {
    let path = format!("{}/bin:{}", sandbox.root().display(), search_path());
    let line =
        format!("lab run --accelerator {accelerator} --timing wall --root hermetic -- sh -c");
    with_kernels(sandbox, &line).word(script).env("PATH", path)
}

/// Prints the facts about the guest that runs it.
pub(crate) const FACTS: &str = "cat /run/durio/lab";

#[test]
fn where_the_trial_stands_still_the_guest_is_emulated_and_says_why() {
    let Some(sandbox) = bootable(&["bash"]) else { return };
    pretend(&sandbox, "-S", "");
    let ended = lab(&sandbox, FACTS).start().wait_at_most(PATIENCE).expect_exit(0);
    let ended = ended.expect_stderr("KVM does not work here: a trial guest stopped (prelaunch)");
    ended.expect_stdout("accelerator tcg").expect_stdout("without_kvm a trial guest stopped");
}

#[test]
fn where_kvm_is_asked_for_and_does_not_work_the_reason_is_the_answer() {
    let Some(sandbox) = bootable(&["bash"]) else { return };
    for (of_trial, of_guest, reason) in
        [("-S", "", "a trial guest stopped (prelaunch)"), ("", "-S", "QEMU stopped it (prelaunch)")]
    {
        pretend(&sandbox, of_trial, of_guest);
        let ended = lab_by(&sandbox, "kvm", FACTS).start().wait_at_most(PATIENCE).expect_exit(3);
        let ended = ended.expect_no_stdout().expect_stderr("KVM does not work here");
        ended.expect_stderr(reason).expect_stderr("--accelerator auto");
    }
}

#[test]
fn a_guest_that_stands_still_before_its_command_is_emulated_instead() {
    let Some(sandbox) = bootable(&["bash"]) else { return };
    pretend(&sandbox, "", "-S");
    let ended = lab(&sandbox, FACTS).start().wait_at_most(PATIENCE).expect_exit(0);
    let reason = "a guest failed: QEMU stopped it (prelaunch)";
    ended.expect_stdout("accelerator tcg").expect_stdout(reason).expect_stderr(reason);
}

/// Where the trial succeeds, KVM is used.
#[test]
fn a_guest_by_kvm_that_stops_amid_its_command_is_an_error_at_once() {
    let Some(sandbox) = bootable(&["bash"]) else { return };
    let monitor = sandbox.root().join("m");
    pretend(&sandbox, "", &format!("-qmp unix:{},server=on,wait=off", monitor.display()));
    let mut running = lab(&sandbox, &format!("{FACTS} >&2; echo begun >&2; sleep 1000")).start();
    while !running.stderr().contains("begun") {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    stop_processors(&monitor);
    let stopped = Instant::now();
    let ended = running.wait_at_most(PATIENCE).expect_exit(125);
    assert!(stopped.elapsed() < SEEN_WITHIN, "{:?}", stopped.elapsed());
    let ended = ended.expect_stderr("the guest failed: QEMU stopped it (paused)");
    ended.expect_stderr("accelerator kvm").expect_stderr("cpu_model host");
}

/// As a debugger would.
fn stop_processors(monitor: &Path) {
    let mut monitor = UnixStream::connect(monitor).unwrap();
    let mut answers = BufReader::new(monitor.try_clone().unwrap()).lines();
    answers.next().unwrap().unwrap();
    monitor.write_all(b"{\"execute\":\"qmp_capabilities\"}{\"execute\":\"stop\"}").unwrap();
    assert!(answers.map_while(Result::ok).any(|line| line.contains("STOP")));
}
