//! Real pools of ZFS in a guest whose clock counts instructions: built, measured, torn down, and
//! taken down after a kill. Which kernel has ZFS is up to `cargo xtask lab zfs`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::guests::{benched, bootable, p50, with_kernels};
use crate::requirements::skip;
use crate::sandbox::Sandbox;

/// Several times what it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

const SPEC: &str = r#"
schema = 1
name = "zfs-layouts"
self_cost = false
[target]
size = "8MiB"
raw = "one"
[[stack]]
name = "single"
layers = [{ ram = { size = "256MiB" } }, { zfs = { properties = ["recordsize=4k", "atime=off"] } }]
[[stack]]
name = "mirror"
layers = [{ ram = { count = 2, size = "256MiB" } }, { zfs = { layout = "mirror" } }]
[[stack]]
name = "raidz1"
layers = [
    { ram = { count = 3, size = "256MiB" } },
    { zfs = { layout = "raidz1", properties = "recordsize=4k", pool_properties = "ashift=12" } },
]
[[stack]]
name = "raidz2"
layers = [{ ram = { count = 4, size = "256MiB" } }, { zfs = { layout = "raidz2" } }]
[defaults]
pattern = "random"
reads = "0%"
block_size = "4KiB"
engine = "sync"
duration = "200ms"
[[step]]
name = "write"
[[step]]
name = "durable-write"
sync = "o_dsync"
"#;

/// Kills a bench when its pool has just appeared, amid its creation, and again a while later; cleans
/// up after each.
const KILLS: &str = r#"
sees() { zpool list -H -o name | grep -q ^durio; }
for later in 0 1; do
    durio stack bench /spec.toml --only raidz1 --out /tmp/runs --quiet >/tmp/out 2>&1 &
    bench=$!
    until ls /proc/spl/kstat/zfs 2>/dev/null | grep -q ^durio; do
        kill -0 $bench || { cat /tmp/out; echo "the bench ended by itself"; exit 1; }
        sleep 0.01
    done
    sleep $later
    kill -KILL $bench || exit 1
    wait $bench 2>/dev/null
    durio stack clean || exit 1
    sees && { echo "the pool is still there"; exit 1; }
    test -e /sys/module/brd && { echo "the RAM disks are still there"; exit 1; }
    grep ' zfs ' /proc/mounts && exit 1
    durio stack clean | grep -q 'zpool destroy' && { echo "a journal was left"; exit 1; }
done
echo all is gone
"#;

/// A sandbox with the spec, and the newest kernel's modules with ZFS among them.
fn with_zfs() -> Option<(Sandbox, PathBuf)> {
    let sandbox = bootable(&[])?;
    let kernels = with_kernels(&sandbox, "lab kernels").run();
    let text = kernels.text();
    let modules = text.lines().find_map(|line| line.trim().strip_prefix("as module "));
    if !modules.is_some_and(|names| names.split_ascii_whitespace().any(|name| name == "zfs")) {
        skip("the newest kernel has no ZFS: run cargo xtask lab zfs");
        return None;
    }
    let spec = sandbox.root().join("zfs-layouts.toml");
    fs::write(&spec, SPEC).unwrap();
    Some((sandbox, spec))
}

#[test]
#[ignore = "slow"]
fn pools_of_every_layout_are_built_measured_and_taken_down() {
    let Some((sandbox, spec)) = with_zfs() else { return };
    let document = benched(&sandbox, &spec.to_string_lossy(), PATIENCE);
    for stack in ["single", "mirror", "raidz1", "raidz2"] {
        let raw = p50(&document, "write", stack, 0);
        let plain = p50(&document, "write", stack, 1);
        let durable = p50(&document, "durable-write", stack, 1);
        assert!(2.0 * raw < plain.max(durable), "{stack}: a pool costs more than its disk");
        // Parts of the larger records of the others go through a cache, and scatter.
        if ["single", "raidz1"].contains(&stack) {
            assert!(5.0 * raw < plain, "{stack}: {raw} {plain}");
            assert!(0.9 * plain < durable, "{stack}: nothing is cheaper durably");
        }
    }
}

#[test]
#[ignore = "slow"]
fn a_bench_that_was_killed_leaves_a_pool_that_is_cleaned_up() {
    let Some((sandbox, spec)) = with_zfs() else { return };
    let mut file = spec.into_os_string();
    file.push(":/spec.toml");
    let line = with_kernels(&sandbox, "lab run --file").word(file).words("-- sh -c").word(KILLS);
    let ended = line.start().wait_at_most(PATIENCE);
    ended.expect_exit(0).expect_stdout("all is gone");
}
