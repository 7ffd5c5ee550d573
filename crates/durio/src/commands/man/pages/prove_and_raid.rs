//! The pages of proofs by power cuts, of simulated disks, and of arrays.

use super::{FileNote, PageNotes, RUNS};

const PROOF_FOLDER: &[FileNote] = &[
    ("RUN/proof.json", "Version, start, command line and plan of the proof, and how it ended."),
    ("RUN/cuts.jsonl", "The result of each power cut."),
    ("RUN/findings.json, RUN/report.html", "The report. durio report makes it again."),
];

const LEDGER: &[FileNote] =
    &[("FILE", "The ledger: announced writes, and when each was acknowledged.")];

const DISK_SOCKETS: &[FileNote] = &[
    ("PATH", "The socket of the disk, for NBD clients. Removed when the disk is no longer served."),
    ("PATH.control", "The socket for durio simdisk cut, restore, stats, fault and fork."),
];

const ARRAY_SOCKETS: &[FileNote] = &[
    ("PATH", "The socket of the array, for NBD clients. Removed when it is no longer served."),
    ("PATH.control", "The socket for the other commands of durio raid."),
    ("PATH.log", "With --detach: the servers' messages. It is kept."),
];

pub(super) const PAGES: &[PageNotes] = &[
    PageNotes {
        command: "prove",
        examples: &[
            ("durio prove run prove-smoke", "Try every simulated disk; find all that lie."),
            (
                "durio prove run prove-smoke --only flush-ignored --seed 7",
                "Two series of it; the same table each time.",
            ),
        ],
        files: &[RUNS, PROOF_FOLDER],
        see_also: &["durio-prove-run(1)", "durio-prove-witness(1)", "durio-simdisk(1)", "fsync(2)"],
    },
    PageNotes {
        command: "prove run",
        examples: &[
            ("durio prove run prove-smoke", "Try every simulated disk on several paths."),
            (
                "durio prove run prove-smoke --only write-back/ --cuts 299 --seed 7",
                "An honest disk alone, with 299 power cuts in each series.",
            ),
            (
                "durio prove run ./disks.toml --format json",
                "A spec of your own; findings as JSON for a script.",
            ),
            ("durio prove run --resume last", "Resume an interrupted proof."),
        ],
        files: &[RUNS, PROOF_FOLDER],
        see_also: &["durio-prove(1)", "durio-simdisk(1)", "durio-report(1)", "fsync(2)", "open(2)"],
    },
    PageNotes {
        command: "prove exec",
        examples: &[
            (
                "durio prove exec --check 'sqlite.sh check' --setup 'sqlite.sh setup' -- sqlite.sh load",
                "Whether SQLite keeps its commits on an honest disk (contrib/prove/sqlite.sh).",
            ),
            (
                "durio prove exec --disk flush-ignored --cuts 59 --check ./check -- ./run",
                "Whether your own check detects the losses of a lying disk.",
            ),
        ],
        files: &[RUNS, PROOF_FOLDER],
        see_also: &["durio-prove(1)", "durio-lab-run(1)", "durio-simdisk-list(1)", "fsync(2)"],
    },
    PageNotes {
        command: "prove plan",
        examples: &[
            ("durio prove plan", "List the built-in proof specs."),
            ("durio prove plan prove-smoke", "Show each series with its expected result."),
            ("durio prove plan --schema", "Print the JSON schema of proof specs, for an editor."),
        ],
        files: &[],
        see_also: &["durio-prove-run(1)", "durio-simdisk-list(1)"],
    },
    PageNotes {
        command: "prove witness",
        examples: &[
            (
                "durio prove witness --listen 192.168.1.5:9119 --ledger cut-1.jsonl",
                "Wait for a writer on another machine, and keep its ledger.",
            ),
            (
                "durio prove witness --ledger cut-1.jsonl --path rwf_dsync --depth 8",
                "The same on this machine; each write is durable by its own flag.",
            ),
        ],
        files: &[LEDGER],
        see_also: &["durio-prove-write(1)", "durio-prove-verify(1)"],
    },
    PageNotes {
        command: "prove write",
        examples: &[(
            "durio prove write /dev/nvme1n1 --destroy /dev/nvme1n1 --witness 192.168.1.5:9119 \
             --token TOKEN",
            "Write to a device until the power is cut, overwriting everything on it.",
        )],
        files: &[],
        see_also: &[
            "durio-prove-witness(1)",
            "durio-prove-verify(1)",
            "durio-prove-run(1)",
            "open(2)",
        ],
    },
    PageNotes {
        command: "prove verify",
        examples: &[
            (
                "durio prove verify /dev/nvme1n1 --ledger cut-1.jsonl",
                "Read a device after the cut, and report missing writes.",
            ),
            (
                "durio prove verify 'nbd+unix:///?socket=/tmp/disk' --ledger cut-1.jsonl --format json",
                "The same for a disk over NBD, as JSON.",
            ),
        ],
        files: &[LEDGER],
        see_also: &["durio-prove-witness(1)", "durio-prove-write(1)"],
    },
    PageNotes {
        command: "prove states",
        examples: &[
            (
                "durio prove states run.log --size 64MiB -- sh check.sh",
                "Have a script check each state in which a power cut may leave the disk.",
            ),
            (
                "durio prove states run.log --size 64MiB --only 120:all-7 --save bad.img",
                "Save one of them, by the name that a report has for it.",
            ),
        ],
        files: &[],
        see_also: &["durio-simdisk-serve(1)", "durio-simdisk-mark(1)", "dmsetup(8)", "e2fsck(8)"],
    },
    PageNotes {
        command: "simdisk",
        examples: &[
            ("durio simdisk list", "List the disks that can be served."),
            (
                "durio simdisk serve --profile flush-ignored --size 1G --socket /tmp/disk",
                "Serve a disk that ignores flushes, until Ctrl-C.",
            ),
            ("durio simdisk cut --socket /tmp/disk", "Cut its power."),
        ],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-serve(1)", "durio-prove(1)", "nbd-client(8)", "qemu-nbd(8)"],
    },
    PageNotes {
        command: "simdisk list",
        examples: &[("durio simdisk list", "List the disks, honest ones first.")],
        files: &[],
        see_also: &["durio-simdisk-serve(1)", "durio-prove-run(1)"],
    },
    PageNotes {
        command: "simdisk serve",
        examples: &[
            ("durio simdisk serve --socket /tmp/disk", "An honest disk of 1 GiB."),
            (
                "durio simdisk serve --profile drops --size 64M --seed 7 --socket /tmp/disk",
                "A disk that drops one write of 1000, the same ones each time.",
            ),
            (
                "durio simdisk serve --listen 127.0.0.1:10809 --socket /tmp/disk",
                "Over TCP; orders go to /tmp/disk.control.",
            ),
        ],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk(1)", "qemu-io(1)", "nbdinfo(1)", "nbd-client(8)", "fio(1)"],
    },
    PageNotes {
        command: "simdisk cut",
        examples: &[("durio simdisk cut --socket /tmp/disk", "Cut the power of this disk.")],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-restore(1)", "durio-simdisk-serve(1)"],
    },
    PageNotes {
        command: "simdisk restore",
        examples: &[("durio simdisk restore --socket /tmp/disk", "Give its power back.")],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-cut(1)", "durio-simdisk-serve(1)"],
    },
    PageNotes {
        command: "simdisk stats",
        examples: &[(
            "durio simdisk stats --socket /tmp/disk",
            "Show its size, requests and cuts, and the bytes in its volatile cache.",
        )],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-serve(1)"],
    },
    PageNotes {
        command: "simdisk fault",
        examples: &[(
            "durio simdisk fault flush-ignored --socket /tmp/disk",
            "Have an honest disk ignore flushes from now on.",
        )],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-list(1)", "durio-simdisk-serve(1)"],
    },
    PageNotes {
        command: "simdisk fork",
        examples: &[(
            "durio simdisk fork --socket /tmp/disk --to /tmp/copy",
            "Serve a copy on a second socket, to cut one and keep the other.",
        )],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-serve(1)"],
    },
    PageNotes {
        command: "simdisk mark",
        examples: &[(
            "durio simdisk mark commit-1 --socket /tmp/disk",
            "Mark this moment in the log that durio simdisk serve --record writes.",
        )],
        files: &[DISK_SOCKETS],
        see_also: &["durio-simdisk-serve(1)"],
    },
    PageNotes {
        command: "raid",
        examples: &[(
            "durio raid start --socket /run/data /dev/sdb /dev/sdc",
            "Serve an array of two devices.",
        )],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-create(1)", "durio-raid-start(1)", "nbd-client(8)", "md(4)"],
    },
    PageNotes {
        command: "raid create",
        examples: &[
            (
                "durio raid create data --level 1 --destroy /dev/sdb --destroy /dev/sdc /dev/sdb /dev/sdc",
                "A mirror of two devices, whose contents are lost.",
            ),
            (
                "durio raid create data --level 10 --chunk 64KiB --destroy a --destroy b --destroy c --destroy d a b c d",
                "Chunks in turn over two pairs.",
            ),
        ],
        files: &[],
        see_also: &["durio-raid-start(1)", "durio-raid-examine(1)", "truncate(1)"],
    },
    PageNotes {
        command: "raid examine",
        examples: &[
            (
                "durio raid examine /dev/sdb /dev/sdc",
                "Show what these say, and whether they can start.",
            ),
            ("durio raid examine --json /dev/sdb", "The same for one, for a script."),
        ],
        files: &[],
        see_also: &["durio-raid-start(1)", "durio-raid-status(1)"],
    },
    PageNotes {
        command: "raid start",
        examples: &[
            ("durio raid start --socket /run/data /dev/sdb /dev/sdc", "Serve an array."),
            (
                "durio raid start --attach --socket /run/data /dev/sdb /dev/sdc",
                "The same, and /dev/nbdN where the kernel has no ublk.",
            ),
            (
                "durio raid start --front ublk --queues 4 --socket /run/data /dev/sdb /dev/sdc",
                "A block device with four queues, for many writers at once.",
            ),
            (
                "durio raid start --force --socket /run/data /dev/sdb",
                "With one of two: newer writes to the other are lost.",
            ),
        ],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-status(1)", "durio-raid-stop(1)", "nbd-client(8)", "qemu-io(1)"],
    },
    PageNotes {
        command: "raid status",
        examples: &[
            ("durio raid status --socket /run/data", "Members, dirty regions, rebuild."),
            ("durio raid status --socket /run/data --json", "The same for a script."),
        ],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-fail(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid fail",
        examples: &[("durio raid fail --socket /run/data /dev/sdc", "Mark this member as failed.")],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-remove(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid add",
        examples: &[
            ("durio raid add --socket /run/data /dev/sdc", "Take a member back."),
            (
                "durio raid add --socket /run/data --destroy /dev/sdd /dev/sdd",
                "A new device in place of a missing member; its contents are lost.",
            ),
        ],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-status(1)", "durio-raid-fail(1)", "durio-raid-replace(1)"],
    },
    PageNotes {
        command: "raid replace",
        examples: &[(
            "durio raid replace --socket /run/data --destroy /dev/sdd /dev/sdb /dev/sdd",
            "Replace a working member; the contents of /dev/sdd are lost.",
        )],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-status(1)", "durio-raid-remove(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid remove",
        examples: &[("durio raid remove --socket /run/data /dev/sdc", "Release this device.")],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-fail(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid scrub",
        examples: &[
            ("durio raid scrub --socket /run/data", "Compare all copies in the background."),
            (
                "durio raid scrub --socket /run/data --repair",
                "And rewrite copies that differ from the first one in sync.",
            ),
        ],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-status(1)"],
    },
    PageNotes {
        command: "raid stop",
        examples: &[(
            "durio raid stop --socket /run/data",
            "Stop it, and wait until it has stopped.",
        )],
        files: &[ARRAY_SOCKETS],
        see_also: &["durio-raid-start(1)"],
    },
];
