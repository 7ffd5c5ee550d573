//! `durio lab`: what is refused before anything is booted, and guests that are booted where a kernel
//! and QEMU are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::broken_kvm::{FACTS, pretend};
use crate::durio::Durio;
use crate::guests::{bootable, with_kernels};
use crate::requirements::{has, search_path, skip};
use crate::sandbox::{Sandbox, entries};

/// A header of a kernel's image and nothing else.
fn image_of(release: &str) -> Vec<u8> {
    let mut image = vec![0; 2048];
    (image[0x1f1], image[0x1f4], image[0x236]) = (1, 64, 1);
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e] = 0x80;
    image[0x280..0x280 + release.len()].copy_from_slice(release.as_bytes());
    image
}

#[test]
fn without_a_kernel_none_is_listed_and_a_package_is_named() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio("lab kernels").env("DURIO_KERNELS", "").run();
    if ended.code() == 0 {
        skip("/boot has a kernel with its modules");
        return;
    }
    let ended = ended.expect_exit(3).expect_no_stdout();
    ended.expect_stderr("no kernel with its modules was found").expect_stderr("apt-get download");
}

/// A tree with such an image, and modules that are all built in.
fn kernel_in(sandbox: &Sandbox, built_in: &[&str]) -> PathBuf {
    let tree = sandbox.root().join("kernel");
    let modules = tree.join("lib/modules/6.1.0-test");
    fs::create_dir_all(modules.join("kernel")).unwrap();
    fs::create_dir_all(tree.join("boot")).unwrap();
    let list = built_in.iter().map(|name| format!("kernel/x/{name}.ko\n")).collect::<String>();
    fs::write(modules.join("modules.builtin"), list).unwrap();
    let image = tree.join("boot/vmlinuz-6.1.0-test");
    fs::write(&image, image_of("6.1.0-test")).unwrap();
    image
}

fn lab(sandbox: &Sandbox, line: &str) -> Durio {
    sandbox.durio("lab").words(line)
}

#[test]
fn arguments_that_contradict_each_other_are_wrong_use() {
    let sandbox = Sandbox::new();
    for (line, part) in [
        ("run", "COMMAND"),
        ("run --cpus 0 -- true", "--cpus"),
        ("run --cpus 65 -- true", "--cpus"),
        ("run --modules data -- true", "--kernel"),
        ("run --timing fast -- true", "--timing"),
        ("run --memory much -- true", "--memory"),
        ("run --accelerator fast -- true", "--accelerator"),
        ("run --accelerator kvm -- true", "--timing wall"),
        ("run --root none -- true", "--root"),
        ("", "lab"),
    ] {
        lab(&sandbox, line).run().expect_exit(2).expect_no_stdout().expect_stderr(part);
    }
}

#[test]
fn what_the_last_guest_of_a_comparison_would_be_refused_for_is_refused_before_the_first() {
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &[]);
    let compare =
        |line: &str| lab(&sandbox, "compare --out made --kernel").word(&image).words(line);
    compare("raid-modes").run().expect_exit(2).expect_stderr("--kernel twice");
    let both = format!("--kernel {}", image.display());
    for (line, exit, part) in [
        (format!("{both} --repeat 0 raid-modes"), 2, "--repeat"),
        (format!("{both} --repeat 101 raid-modes"), 2, "--repeat"),
        (format!("{both} --format fio-json raid-modes"), 2, "--format"),
        (format!("{both} no-such-spec"), 2, "no-such-spec"),
        ("--kernel none raid-modes".to_owned(), 125, "'none'"),
    ] {
        compare(&line).run().expect_exit(exit).expect_no_stdout().expect_stderr(part);
    }
    assert!(!sandbox.root().join("made").exists());
}

#[test]
fn counted_timing_is_of_one_processor() {
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &[]);
    let ended = lab(&sandbox, "run --cpus 2 --kernel").word(image).words("-- true").run();
    ended.expect_exit(125).expect_stderr("counted").expect_stderr("--timing wall");
}

#[test]
fn a_machine_without_kernels_is_told_how_to_get_one() {
    let sandbox = Sandbox::new();
    // Kernels of this machine itself would be found.
    if !entries(Path::new("/boot")).is_empty() {
        return skip("this machine may have kernels in /boot");
    }
    for (line, code) in [("kernels", 3), ("run -- true", 125)] {
        let ended = lab(&sandbox, line).run().expect_exit(code).expect_no_stdout();
        ended.expect_stderr("no kernel").expect_stderr("dpkg-deb -x");
    }
}

#[test]
fn a_file_that_is_no_kernel_is_named_with_the_reason() {
    let sandbox = Sandbox::new();
    for (name, content) in [
        ("empty", Vec::new()),
        ("text", b"not a kernel".to_vec()),
        ("cut", image_of("6.1.0")[..1600].to_vec()),
    ] {
        fs::write(sandbox.root().join(name), content).unwrap();
        let ended = lab(&sandbox, &format!("run --kernel {name} -- true")).run().expect_exit(125);
        ended.expect_stderr(name).expect_stderr("not an x86-64 kernel image");
    }
    let ended = lab(&sandbox, "run --kernel none -- true").run().expect_exit(125);
    ended.expect_stderr("cannot read 'none'").expect_stderr("durio lab kernels lists");
    lab(&sandbox, "run --kernel data -- true").run().expect_exit(125).expect_stderr("regular file");
}

#[test]
fn a_qemu_that_hangs_or_leaves_a_child_behind_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &[]);
    for (script, part) in [
        ("#!/bin/sh\nsleep 300 &\nwait\n", "did not end within 10 s"),
        ("#!/bin/sh\nsleep 300 &\necho nothing\n", "does not say its version"),
    ] {
        let folder = sandbox.program("qemu-system-x86_64", script);
        let path = format!("{}:{}", folder.display(), search_path());
        let line = lab(&sandbox, "run --out out --kernel").word(&image).words("-- true");
        let ended = line.env("PATH", path).start().wait_at_most(Duration::from_secs(60));
        ended.expect_exit(125).expect_stderr("qemu-system-x86_64").expect_stderr(part);
        assert!(!sandbox.root().join("out").exists(), "nothing was brought out");
    }
}

#[test]
fn modules_of_another_kernel_or_none_are_named() {
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &["virtio_pci", "virtio_console"]);
    let with = |modules: &Path| {
        let line = lab(&sandbox, "run --kernel").word(&image).word("--modules").word(modules);
        line.words("-- true").run().expect_exit(125)
    };
    let data = sandbox.data();
    with(&data).expect_stderr("no modules of kernel 6.1.0-test").expect_stderr("--modules");
}

#[test]
fn a_kernel_without_a_needed_driver_is_named_with_the_driver() {
    if !has(&["qemu-system-x86_64"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &["virtio_pci"]);
    let ended = lab(&sandbox, "run --kernel").word(&image).words("-- true").run();
    ended.expect_exit(125).expect_stderr("6.1.0-test").expect_stderr("virtio_console");
    let image = kernel_in(&sandbox, &["virtio_pci", "virtio_console"]);
    let ended = lab(&sandbox, "run --module raid456 --kernel").word(&image).words("-- true").run();
    ended.expect_exit(125).expect_stderr("no driver raid456").expect_stderr("lab kernels");
}

#[test]
fn without_qemu_its_package_is_named() {
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &["virtio_pci", "virtio_console"]);
    let line = lab(&sandbox, "run --kernel").word(image).words("-- true");
    let ended = line.within(["env", "PATH=/nonexistent"]).run().expect_exit(125);
    ended.expect_stderr("not installed").expect_stderr("apt-get install qemu-system-x86");
}

#[test]
fn what_a_guest_cannot_get_is_named_before_it_is_booted() {
    if !has(&["qemu-system-x86_64"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &["virtio_pci", "virtio_console"]);
    for (line, parts) in [
        ("--memory 64m -- true", ["too little", "--memory"]),
        ("-- no-such-program", ["'no-such-program'", "not installed"]),
        ("--tool no-such-tool -- true", ["'no-such-tool'", "not installed"]),
        ("--file none -- true", ["cannot read", "'none'"]),
        ("--out data -- true", ["'data' is not empty", "--out"]),
    ] {
        let ended = lab(&sandbox, "run --kernel").word(&image).words(line).run().expect_exit(125);
        ended.expect_stderr(parts[0]).expect_stderr(parts[1]);
    }
}

#[test]
fn only_a_guest_may_have_durio_as_its_first_process() {
    Durio::new().words("lab-init").run().expect_exit(2).expect_stderr("first process");
}

#[test]
fn a_kernel_that_does_nothing_ends_at_the_time_limit() {
    if !has(&["qemu-system-x86_64"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = kernel_in(&sandbox, &["virtio_pci", "virtio_console"]);
    let line = lab(&sandbox, "run --verbose --time-limit 1s --kernel").word(image).words("-- true");
    let ended = line.run().expect_stderr("the kernel unpacks itself");
    // What an image of zeroes does is QEMU's business: it hangs or it dies.
    assert!([124, 125].contains(&ended.code()), "{}", ended.stderr);
}

/// Files and folders in the folder for temporary files that are a lab's.
fn temporary() -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| path.to_string_lossy().contains("durio-lab");
    entries(&std::env::temp_dir()).into_iter().filter(is_ours).collect()
}

#[test]
fn a_guest_gives_output_errors_exit_code_and_files() {
    let Some(sandbox) = bootable(&[]) else { return };
    let script = "printf 'a\\0b\\377'; echo wrong >&2; modprobe -a raid1 && cat /proc/mdstat >&2; \
                  mkdir $DURIO_LAB_OUT/d; printf $DURIO_LAB > $DURIO_LAB_OUT/d/f; \
                  cat /tmp/below/given >&2; touch /tmp/mine; \
                  cd /sys/kernel/mm/transparent_hugepage/khugepaged; \
                  echo joins pages after $(cat scan_sleep_millisecs) ms >&2; exit 3";
    fs::write(sandbox.root().join("given"), "given to it\n").unwrap();
    let line = "lab run --verbose --out brought --file given:/tmp/below/given -- sh -c";
    let line = with_kernels(&sandbox, line).word(script);
    let ended = line.run().expect_exit(3).expect_stderr("wrong\n").expect_stderr("Personalities");
    let ended = ended.expect_stderr("given to it").expect_stderr("kernel unpacked");
    let ended = ended.expect_stderr("joins pages after 4294967295 ms");
    assert_eq!(ended.stdout, b"a\0b\xff");
    assert_eq!(fs::read(sandbox.root().join("brought/d/f")).unwrap(), b"counted");
    assert_eq!(temporary(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_guest_that_panics_is_told_by_its_panic() {
    let Some(sandbox) = bootable(&[]) else { return };
    let line = with_kernels(&sandbox, "lab run -- sh -c").word("echo c > /proc/sysrq-trigger");
    line.run().expect_exit(125).expect_stderr("Kernel panic").expect_no_stdout();
}

/// Where emulation is asked for, KVM is not tried: a guest by KVM would stand still.
#[test]
fn an_interrupt_ends_the_command_of_an_emulated_guest_and_what_it_wrote_is_brought_out() {
    let Some(sandbox) = bootable(&["bash"]) else { return };
    pretend(&sandbox, "-S", "-S");
    let path = format!("{}/bin:{}", sandbox.root().display(), search_path());
    let script = format!(
        "trap 'echo kept > $DURIO_LAB_OUT/f; exit 0' INT; {FACTS} >&2; echo begun >&2; \
         while :; do sleep 1; done"
    );
    let line = "lab run --accelerator tcg --timing wall --root hermetic --out brought -- sh -c";
    let mut running = with_kernels(&sandbox, line).word(script).env("PATH", path).start();
    while !running.stderr().contains("begun") {
        assert!(running.is_alive(), "{}", running.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::INT);
    let ended = running.wait_at_most(Duration::from_secs(90)).expect_exit(130);
    assert_eq!(fs::read_to_string(sandbox.root().join("brought/f")).unwrap(), "kept\n");
    let ended = ended.expect_stderr("accelerator tcg");
    assert!(!ended.stderr.contains("without_kvm"), "{}", ended.stderr);
}

#[test]
fn a_guest_ends_at_its_time_limit_and_by_an_interrupt() {
    let Some(sandbox) = bootable(&[]) else { return };
    let line = "lab run --timing wall --root hermetic --time-limit 1s -- sleep 1000";
    with_kernels(&sandbox, line).run().expect_exit(124).expect_stderr("time limit");
    let mut running = with_kernels(&sandbox, "lab run --timing wall -- sleep 1000").start();
    std::thread::sleep(Duration::from_millis(1500));
    running.signal(Signal::INT);
    // Far less than the guest would live, and enough on a busy machine.
    running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
}
