//! Causes of slow commits that are really made on this machine, each by a shell text next to a
//! writer that commits.
//!
//! In a text, `$DIR` is the folder of the writer, `$SCRATCH` a folder on the disk below it, `$DISK`
//! that disk, `$WRITER` the process that commits, `$CPU` its processor. A text runs until it is ended,
//! in a process group; what it changed outside of that, `undo` changes back.

/// Where the writer commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The filesystem of the folder that was given.
    Disk,
    /// ext4 with a journal of this many MiB on a loop device.
    Ext4 { journal_mib: u32 },
    /// XFS on a loop device.
    Xfs,
}

impl Place {
    /// How it is made, and mounted at `$DIR`.
    pub(super) fn made(self) -> Option<String> {
        let format = match self {
            Self::Disk => return None,
            Self::Ext4 { journal_mib } => {
                format!("mkfs.ext4 -q -E lazy_journal_init=0 -J size={journal_mib}")
            }
            Self::Xfs => "mkfs.xfs -q".to_owned(),
        };
        Some(format!(
            "truncate -s 2G $SCRATCH/image && losetup --find --show $SCRATCH/image > $SCRATCH/loop \
             && {format} $(cat $SCRATCH/loop) && mount $(cat $SCRATCH/loop) $DIR"
        ))
    }

    pub(super) const UNMADE: &str = "umount $DIR; losetup --detach $(cat $SCRATCH/loop)";

    pub(super) fn name(self) -> String {
        match self {
            Self::Disk => "the disk".to_owned(),
            Self::Ext4 { journal_mib } => format!("ext4 on loop, journal {journal_mib} MiB"),
            Self::Xfs => "XFS on loop".to_owned(),
        }
    }
}

/// A cause, and how it is made.
#[derive(Debug)]
pub(super) struct PlantedCause {
    pub(super) name: &'static str,
    /// Causes of `durio explain` that are right.
    pub(super) right: &'static [&'static str],
    pub(super) place: Place,
    /// How the writer writes: options of fio, after those that all have.
    pub(super) writer: &'static str,
    pub(super) text: &'static str,
    pub(super) undo: &'static str,
    /// From how many milliseconds a commit is slow by it.
    pub(super) slower_ms: u32,
}

/// A file that grows and is committed a few hundred times a second, as a log does.
const LOG: &str = "--rw=write --bs=8k --size=256m --fallocate=none --fdatasync=1 --rate_iops=300";
/// A write that is durable by itself, so that its process is charged with its I/O.
const DIRECT: &str = "--rw=write --bs=8k --size=64m --direct=1 --sync=dsync --rate_iops=300";

/// What is planted here. What needs md, device-mapper or two guests is not: the lab has these. A SIGSTOP of
/// the writer makes no call slow: the kernel stops a thread only after the call.
pub(super) const PLANTS: &[PlantedCause] = &[
    PlantedCause {
        name: "a thread of higher priority, 40 ms of 100",
        right: &["processor-taken"],
        place: Place::Disk,
        writer: LOG,
        text: "while :; do chrt --fifo 50 taskset -c $CPU timeout --foreground 0.04 sh -c 'while :; do :; done'; \
               sleep 0.06; done",
        undo: "",
        slower_ms: 10,
    },
    PlantedCause {
        name: "40 busy threads on the writer's processor",
        right: &["processor-crowded", "processor-taken", "late-wakeup"],
        place: Place::Disk,
        writer: LOG,
        text: "renice -n 19 -p $(ls /proc/$WRITER/task) > /dev/null; for i in $(seq 40); do taskset -c $CPU sh -c \
               'while :; do :; done' & done; wait",
        undo: "",
        slower_ms: 10,
    },
    PlantedCause {
        name: "a limit of 40 writes per second (blkio, cgroup v1)",
        right: &["io-limit"],
        place: Place::Disk,
        writer: DIRECT,
        text: "mkdir -p /sys/fs/cgroup/blkio/durio-why && cd /sys/fs/cgroup/blkio/durio-why && echo \
               \"$(cat /sys/block/$DISK/dev) 40\" > blkio.throttle.write_iops_device && for task in \
               $(ls /proc/$WRITER/task); do echo $task > tasks; done; sleep 1000",
        undo: "for task in $(cat /sys/fs/cgroup/blkio/durio-why/tasks); do echo $task > \
               /sys/fs/cgroup/blkio/tasks; done; rmdir /sys/fs/cgroup/blkio/durio-why",
        slower_ms: 15,
    },
    PlantedCause {
        name: "a buffered writer of 1 GiB on the same filesystem, synced",
        right: &["device-others", "journal-commit", "scheduler-queue", "queue-full", "wbt"],
        place: Place::Ext4 { journal_mib: 64 },
        writer: LOG,
        text: "while :; do dd if=/dev/zero of=$DIR/big bs=1M count=1024 conv=fsync status=none; done",
        undo: "",
        slower_ms: 10,
    },
    PlantedCause {
        name: "four processes that create and fsync files in the same journal",
        right: &["journal-commit", "device-others", "scheduler-queue"],
        place: Place::Ext4 { journal_mib: 64 },
        writer: LOG,
        text: "for i in 1 2 3 4; do sh -c 'while :; do dd if=/dev/zero of=$DIR/s'$i' bs=64k count=64 \
               conv=fsync status=none; rm $DIR/s'$i'; done' & done; wait",
        undo: "",
        slower_ms: 5,
    },
    PlantedCause {
        name: "a journal of 4 MiB that is always full",
        right: &["journal-checkpoint", "journal-commit", "device-others"],
        place: Place::Ext4 { journal_mib: 4 },
        writer: LOG,
        text: "i=0; while :; do i=$((i + 1)); mkdir $DIR/d$i; for f in $(seq 400); do : > $DIR/d$i/$f; \
               done; sync -f $DIR; rm -r $DIR/d$i; done",
        undo: "",
        slower_ms: 5,
    },
    PlantedCause {
        name: "a direct writer of 1 MiB, 32 in flight, on the same disk",
        right: &["device-others", "scheduler-queue", "queue-full"],
        place: Place::Disk,
        writer: LOG,
        text: "exec fio --name=big --directory=$SCRATCH --rw=write --bs=1m --size=1g --direct=1 \
               --ioengine=libaio --iodepth=32 --time_based --runtime=1000 --output=/dev/null",
        undo: "",
        slower_ms: 5,
    },
    PlantedCause {
        name: "discards of 256 MiB on the same device",
        right: &["device-discard", "scheduler-queue", "queue-full", "device-others"],
        place: Place::Xfs,
        writer: LOG,
        text: "while :; do dd if=/dev/zero of=$DIR/gone bs=1M count=256 conv=fsync status=none; rm \
               $DIR/gone; fstrim $DIR; done",
        undo: "",
        slower_ms: 5,
    },
    PlantedCause {
        name: "little memory: reclaim by the writer (memory cgroup)",
        right: &["memory-reclaim"],
        place: Place::Disk,
        writer: "--rw=write --bs=1m --size=512m --fdatasync=32 --rate=80m",
        text: "mkdir -p /sys/fs/cgroup/memory/durio-why && cd /sys/fs/cgroup/memory/durio-why && echo \
               12M > memory.limit_in_bytes && echo $WRITER > cgroup.procs; sleep 1000",
        undo: "for task in $(cat /sys/fs/cgroup/memory/durio-why/cgroup.procs); do echo $task > \
               /sys/fs/cgroup/memory/cgroup.procs; done; rmdir /sys/fs/cgroup/memory/durio-why",
        slower_ms: 20,
    },
    PlantedCause {
        name: "few dirty pages allowed (vm.dirty_bytes)",
        right: &["dirty-throttling"],
        place: Place::Disk,
        writer: "--rw=write --bs=64k --size=512m --sync=dsync --rate=10m",
        text: "cat /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_ratio > $SCRATCH/dirty; echo 1000000 > \
               /proc/sys/vm/dirty_bytes; while :; do dd if=/dev/zero of=$DIR/dirty bs=1M count=512 \
               status=none; done",
        undo: "if [ $(head -1 $SCRATCH/dirty) = 0 ]; then tail -1 $SCRATCH/dirty > \
               /proc/sys/vm/dirty_ratio; else head -1 $SCRATCH/dirty > /proc/sys/vm/dirty_bytes; fi",
        slower_ms: 5,
    },
    PlantedCause {
        name: "the filesystem frozen for 80 ms, four times a second",
        right: &["frozen"],
        place: Place::Xfs,
        writer: LOG,
        text: "while :; do fsfreeze --freeze $DIR; sleep 0.08; fsfreeze --unfreeze $DIR; sleep 0.17; \
               done",
        undo: "fsfreeze --unfreeze $DIR 2> /dev/null; true",
        slower_ms: 40,
    },
    PlantedCause {
        name: "another writer of the same file, 64 MiB a call",
        right: &["inode-lock"],
        place: Place::Disk,
        writer: "--rw=write --bs=8k --size=256m --sync=dsync --rate_iops=300",
        text: "while :; do dd if=/dev/zero of=$DIR/log.0.0 bs=64M count=4 conv=notrunc status=none; \
               done",
        undo: "",
        slower_ms: 5,
    },
    PlantedCause {
        name: "nothing",
        right: &["device-alone"],
        place: Place::Disk,
        writer: LOG,
        text: "exec sleep 1000",
        undo: "",
        slower_ms: 50,
    },
];
