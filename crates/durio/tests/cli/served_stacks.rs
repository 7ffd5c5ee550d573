//! Arrays of durio's own as a layer of a stack, by ublk and by the kernel's NBD client: what is refused
//! where the kernel has neither, and, in a guest, what is left when bench and server are killed.

use std::fs;
use std::time::Duration;

use crate::guests::{bootable, with_kernels};
use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

/// ext4 on an array over four devices; only the filesystem is measured, longer than anybody waits.
const SPEC: &str = r#"
schema = 1
name = "served"
self_cost = false
[target]
size = "8MiB"
[[stack]]
name = "array"
layers = [
    { null = { count = 4, size = "64MiB", measured = false } },
    { raid = { level = 10, front = "FRONT", measured = false } },
    { ext4 = {} },
]
[defaults]
duration = "600s"
[[step]]
name = "commit"
reads = "0%"
pattern = "random"
sync = "o_dsync"
jobs = 4
"#;

/// Kills in three ways behind each front, and says what is left after each; with the layers under the
/// array once.
const SCRIPT: &str = r#"
server() {
    for p in /proc/[0-9]*; do
        if tr '\0' ' ' < $p/cmdline 2>/dev/null | grep -q 'durio raid start'; then echo ${p#/proc/}; fi
    done
}
left() {
    ls /sys/class/ublk-char 2>/dev/null
    ls -d /dev/ublkb* /sys/block/nbd*/backend /sys/kernel/config/nullb/durio* /run/durio/durio* 2>/dev/null
    grep /run/durio/durio /proc/mounts
    server
    ls "$HOME/.local/state/durio/stacks" 2>/dev/null
}
for front in ublk nbd; do for kind in bench both server-first; do
    durio stack bench /$front.toml --quiet > bench.log 2>&1 &
    bench=$!
    until grep -q /run/durio/durio /proc/mounts; do
        kill -0 $bench 2>/dev/null || { cat bench.log; exit 9; }
        sleep 0.1
    done
    sleep 1
    [ $kind = bench ] && [ -b /dev/ublkb0 ] && durio stack show /dev/ublkb0
    case $kind in
        bench) kill -9 $bench ;;
        both) kill -9 $bench $(server) ;;
        server-first) kill -9 $(server); kill -9 $bench ;;
    esac
    durio stack clean > clean.log 2>&1
    echo "$front $kind: clean ended with $?"
    wait $bench 2>/dev/null
    left | sed "s/^/$front $kind: left: /"
    grep -v "^  \|taken down" clean.log | sed "s/^/$front $kind: left: /"
done; done
exit 0
"#;

#[test]
#[ignore = "slow"]
fn nothing_is_left_of_arrays_by_ublk_and_nbd_whose_bench_and_server_are_killed() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    for front in ["ublk", "nbd"] {
        let path = sandbox.root().join(format!("{front}.toml"));
        fs::write(path, SPEC.replace("FRONT", front)).unwrap();
    }
    // As a file: in the words of the shell it would be found as a server.
    fs::write(sandbox.root().join("kill.sh"), SCRIPT).unwrap();
    let line = "lab run --module ublk_drv --module nbd --module null_blk --module ext4 --tool mkfs.ext4 \
                --file ublk.toml:/ublk.toml --file nbd.toml:/nbd.toml --file kill.sh:/kill.sh \
                -- sh /kill.sh";
    let ended = with_kernels(&sandbox, line).start().wait_at_most(Duration::from_secs(1800));
    if ended.stderr.contains("has no driver ") {
        return skip("no kernel here has ublk and nbd: cargo xtask lab kernel fetches one");
    }
    let text = ended.expect_exit(0).text();
    for front in ["ublk", "nbd"] {
        for kind in ["bench", "both", "server-first"] {
            assert!(text.contains(&format!("{front} {kind}: clean ended with 0")), "{text}");
            assert!(!text.contains(&format!("{front} {kind}: left: ")), "{text}");
        }
    }
    // What the kernel does not link: the array, and its four members.
    assert!(text.contains("(ublk) ublkb0 · durio RAID10"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("─ disk durio")).count(), 4, "{text}");
}

#[test]
fn a_stack_is_refused_where_the_kernel_lacks_its_front_and_nothing_is_made() {
    if !has(&["root"]) {
        return;
    }
    let fronts = [
        ("ublk", "ublk_drv", "/sys/class/misc/ublk-control", "Linux 6.0 or later"),
        ("nbd", "nbd", "/sys/module/nbd", "Linux 5.14 or later"),
    ];
    for (front, module, shown, needs) in fronts {
        if std::path::Path::new(shown).exists() {
            skip(&format!("this kernel has {module}"));
            continue;
        }
        let sandbox = Sandbox::new();
        let path = sandbox.root().join("served.toml");
        let spec = SPEC.replace("null = {", "loop = {").replace("FRONT", front);
        fs::write(&path, spec).unwrap();
        let ended = sandbox.durio("stack bench").word(&path).run();
        if ended.code() != 3 {
            skip(&format!("{module} can be loaded here"));
            continue;
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let ended = ended.expect_stderr(&format!("on Linux {release}: "));
        ended
            .expect_stderr(&format!("no driver {module}"))
            .expect_stderr(needs)
            .expect_stderr("--lab");
        assert_eq!(sandbox.runs(), Vec::<std::path::PathBuf>::new());
    }
}
