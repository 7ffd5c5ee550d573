//! An array of durio's own as a block device of a guest: its server is killed and started again while
//! a filesystem on it is written to, with several queues too; zeroes reach all copies, and discards none. What it wrote
//! with parity is read by md.

use std::time::Duration;

use crate::guests::{bootable, with_kernels};
use crate::requirements::skip;

/// Several times what it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// A mirror of two files, and what serves it: with so many queues, or one.
const MIRROR: &str = r#"
set -e
modprobe ublk_drv || { echo "no ublk here"; exit 0; }
cd /tmp
truncate -s 64M a b
durio raid create array --level 1 --assume-clean --destroy a --destroy b a b
start() {
    rm -f ready
    durio raid start --front ublk --queues ${1:-1} --socket s a b >ready &
    server=$!
    until [ -s ready ]; do
        kill -0 $server || { echo "it does not start"; exit 1; }
        sleep 0.05
    done
    read -r _ device <ready
}
"#;

const KILLS: &str = r#"
start
mkfs.ext4 -q $device
mkdir disk
mount $device disk
durio raid stop --socket s && { echo "a mounted device was taken away"; exit 1; }
head -c 1M /dev/urandom >data
for round in 1 2 3; do
    (for file in 1 2 3 4; do cp data disk/$round.$file; sync disk/$round.$file; done) &
    writer=$!
    sleep 0.1
    kill -KILL $server
    wait $server || true
    start
    wait $writer
done
umount disk
mount $device disk
for round in 1 2 3; do
    for file in 1 2 3 4; do cmp data disk/$round.$file; done
done
umount disk
kill -INT $server
wait $server
ls /dev/ublkb* 2>/dev/null && { echo "the device is still there"; exit 1; }
durio raid examine a b
echo nothing is lost
"#;

#[test]
#[ignore = "slow"]
fn a_killed_server_is_followed_by_the_next_under_a_mounted_filesystem() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    let line = "lab run --timing wall --cpus 2 --root hermetic -- sh -c";
    let ended = with_kernels(&sandbox, line)
        .word(format!("{MIRROR}{KILLS}"))
        .start()
        .wait_at_most(PATIENCE);
    let ended = ended.expect_exit(0);
    if ended.text().contains("no ublk here") {
        return skip("the newest kernel has no ublk");
    }
    ended.expect_stdout("nothing is lost").expect_stderr("'/dev/ublkb0' is in use");
}

/// Two jobs, each on a processor and so in a queue of its own, write what is read again, while the server is
/// killed; then four write the same blocks, while a member goes and comes back. A device keeps its queues.
const QUEUES: &str = r#"
status_has() {
    until durio raid status --socket s >status && grep -q "$1" status; do sleep 0.1; done
}
start 2
echo "queues: $(ls /sys/block/${device#/dev/}/mq | wc -l)"
for task in /proc/$server/task/*; do
    echo "$(cat $task/comm) runs on $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' $task/status)"
done
spread="--direct=1 --cpus_allowed=0,1 --cpus_allowed_policy=split --filename=$device"
fio --name=kept --numjobs=2 --size=16M --offset_increment=16M --rw=randwrite --bs=4k --sync=dsync \
    --rate_iops=1500 --verify=crc32c $spread >kept &
writers=$!
for round in 1 2 3; do
    sleep 0.3
    kill -KILL $server
    wait $server || true
    start 1
    echo "queues: $(ls /sys/block/${device#/dev/}/mq | wc -l)"
done
wait $writers || { cat kept; exit 1; }
echo "what was written is read"
fio --name=over --numjobs=4 --offset=40M --size=1M --rw=randwrite --bsrange=4k-32k --blockalign=4k \
    --ioengine=libaio --iodepth=8 --norandommap --time_based --runtime=4 $spread >over &
writers=$!
sleep 1
durio raid fail --socket s b
status_has degraded
until durio raid add --socket s b; do sleep 0.1; done
wait $writers || { cat over; exit 1; }
status_has "^running, redundant"
durio raid scrub --socket s
status_has "scrub  *finished"
cat status
kill -INT $server
wait $server
durio raid start --front ublk --queues 3 --socket s a b && exit 1
exit 0
"#;

#[test]
#[ignore = "slow"]
fn two_queues_lose_nothing_when_their_server_is_killed_and_keep_the_copies_equal() {
    let Some(sandbox) = bootable(&["fio"]) else { return };
    let line = "lab run --timing wall --cpus 2 --root shared -- sh -c";
    let ended = with_kernels(&sandbox, line)
        .word(format!("{MIRROR}{QUEUES}"))
        .start()
        .wait_at_most(PATIENCE);
    let ended = ended.expect_exit(0);
    if ended.text().contains("no ublk here") {
        return skip("the newest kernel has no ublk");
    }
    ended
        .expect_stdout("raid runs on 0\n")
        .expect_stdout("raid-1 runs on 1\n")
        .expect_stdout("queues: 2\nqueues: 2\nqueues: 2\nwhat was written is read")
        .expect_stdout("all copies were equal")
        .expect_stderr("the block device keeps its 2 queues")
        .expect_stderr("3 queues are more than the processors here");
}

/// Bytes of 252 (octal) are what was written and is not zeroed.
const ZEROES: &str = r#"
start
queue=/sys/block/${device#/dev/}/queue
echo "zeroes at a time: $(cat $queue/write_zeroes_max_bytes)"
head -c 16M /dev/zero | tr '\0' '\252' >full
dd if=full of=$device bs=1M oflag=direct 2>/dev/null
blkdiscard $device && { echo "a discard was taken"; exit 1; }
# From the middle of a chunk to the middle of another.
blkdiscard -z --offset 1056768 --length 8396800 $device
kill -KILL $server
wait $server || true
for member in a b; do
    # Behind superblocks and map, which have such bytes too.
    echo "$member has $(tail -c +1048577 $member | head -c 16M | tr -dc '\252' | wc -c)"
done
durio raid start --front ublk --socket s a b >ready &
server=$!
until durio raid status --socket s >status 2>/dev/null && grep -q '^running, redundant' status; do sleep 0.05; done
echo "read: $(head -c 16M $device | tr -dc '\252' | wc -c)"
# An ext4 with all of its tables and its journal zeroed at once.
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $device
mkdir disk
mount -o discard $device disk
durio raid stop --socket s && { echo "a mounted device was taken away"; exit 1; }
cp full disk/full
rm disk/full
fstrim disk 2>&1 || true
umount disk
durio raid scrub --socket s
until durio raid status --socket s | grep 'scrub  *finished'; do sleep 0.2; done
kill -INT $server
wait $server
ls /dev/ublkb* 2>/dev/null && { echo "the device is still there"; exit 1; }
modprobe loop
truncate -s 64M c d e
c=$(losetup -f --show c) d=$(losetup -f --show d) e=$(losetup -b 4096 -f --show e)
durio raid create small --level 1 --assume-clean --destroy $c --destroy $d $c $d
durio raid start --socket s $c $d &
server=$!
until durio raid status --socket s >status 2>/dev/null; do sleep 0.05; done
durio raid add --socket s --destroy $e $e && { echo "larger blocks were taken"; exit 1; }
kill -INT $server
wait $server
losetup -d $c $d $e
"#;

#[test]
#[ignore = "slow"]
fn zeroes_reach_all_copies_and_a_discard_or_larger_blocks_are_refused() {
    let Some(sandbox) = bootable(&["mkfs.ext4", "blkdiscard", "fstrim", "losetup"]) else { return };
    let line = "lab run --timing wall --cpus 2 --root hermetic -- sh -c";
    let ended = with_kernels(&sandbox, line)
        .word(format!("{MIRROR}{ZEROES}"))
        .start()
        .wait_at_most(PATIENCE);
    let ended = ended.expect_exit(0);
    if ended.text().contains("no ublk here") {
        return skip("the newest kernel has no ublk");
    }
    let left = (16 << 20) - 8_396_800;
    ended
        .expect_stdout("zeroes at a time: 524288")
        .expect_stdout(&format!("a has {left}"))
        .expect_stdout(&format!("b has {left}"))
        .expect_stdout(&format!("read: {left}"))
        .expect_stderr("'/dev/ublkb0' is in use")
        .expect_stderr(" needs blocks of 4096 bytes, but users may write 512")
        .expect_stdout("all copies were equal");
}

/// The data of each member, by its documented place, is a member of an array of md's with the same geometry.
const MD_READS: &str = r#"
set -e
modprobe loop
modprobe raid456 || { echo "no md here"; exit 0; }
cd /tmp
for level in 5 6; do
    rm -f a b c d *.data
    truncate -s 24M a b c d
    durio raid create data --level $level --assume-clean --destroy a --destroy b --destroy c --destroy d a b c d
    rm -f ready
    durio raid start --socket /tmp/s a b c d >ready &
    server=$!
    until [ -s ready ]; do
        kill -0 $server || exit 1
        sleep 0.05
    done
    fio --name=load --thread --ioengine=nbd --uri="nbd+unix:///?socket=/tmp/s" --rw=randwrite --bsrange=4k-48k \
        --blockalign=4k --iodepth=8 --size=20M --io_size=12M >load || { cat load; exit 1; }
    nbdcopy "nbd+unix:///?socket=/tmp/s" image
    durio raid stop --socket s
    wait $server
    durio raid examine --json a >examined
    at=$(sed -n 's/.*"data_at_bytes": *\([0-9]*\).*/\1/p' examined | head -n 1)
    size=$(sed -n 's/.*"member_bytes": *\([0-9]*\).*/\1/p' examined | head -n 1)
    loops=
    for member in a b c d; do
        dd if=$member of=$member.data bs=4096 skip=$((at / 4096)) count=$((size / 4096)) status=none
        truncate -s +1M $member.data
        loops="$loops $(losetup --show -f $member.data)"
    done
    yes | mdadm --create /dev/md$level --level=$level --raid-devices=4 --chunk=16 --layout=left-symmetric \
        --metadata=1.0 --bitmap=none --assume-clean --size=$((size / 1024)) $loops 2>/dev/null
    sync_of=/sys/block/md$level/md
    echo check >$sync_of/sync_action
    until [ "$(cat $sync_of/sync_action)" = idle ]; do sleep 0.05; done
    echo "level $level: $(cat $sync_of/mismatch_cnt) mismatches"
    cmp -n $(stat -c %s image) image /dev/md$level
    set -- $loops
    mdadm /dev/md$level --fail $2 2>/dev/null
    [ $level = 5 ] || mdadm /dev/md$level --fail $4 2>/dev/null
    echo 3 >/proc/sys/vm/drop_caches
    cmp -n $(stat -c %s image) image /dev/md$level
    echo "level $level: md restores the same"
    mdadm --stop /dev/md$level 2>/dev/null
    losetup -d $loops
done
"#;

#[test]
#[ignore = "slow"]
fn md_reads_checks_and_restores_what_levels_5_and_6_wrote() {
    let Some(sandbox) = bootable(&["fio", "nbdcopy", "mdadm"]) else { return };
    let line = "lab run --timing wall --cpus 2 --root shared -- sh -c";
    let ended = with_kernels(&sandbox, line).word(MD_READS).start().wait_at_most(PATIENCE);
    let ended = ended.expect_exit(0);
    if ended.text().contains("no md here") {
        return skip("the newest kernel has no module raid456");
    }
    ended
        .expect_stdout("level 5: 0 mismatches\nlevel 5: md restores the same")
        .expect_stdout("level 6: 0 mismatches\nlevel 6: md restores the same");
}
