//! The pages of proofs by power cuts, and of simulated disks.

use super::{FileNote, PageNotes, RUNS};

const PROOF_FOLDER: &[FileNote] = &[
    ("RUN/proof.json", "Version, start, command line and plan of the proof, and how it ended."),
    ("RUN/cuts.jsonl", "What was found after each power cut."),
    ("RUN/findings.json, RUN/report.html", "The report. durio report makes it again."),
];

const LEDGER: &[FileNote] =
    &[("FILE", "The ledger: what was announced, and what was acknowledged when.")];

const DISK_SOCKETS: &[FileNote] = &[
    (
        "PATH",
        "The socket of the disk, for NBD clients. Removed when the disk is not served any more.",
    ),
    ("PATH.control", "The socket for durio simdisk cut, restore, stats, fault and fork."),
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
            ("durio prove run --resume last", "Go on with a proof that was interrupted."),
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
                "Whether a check of your own sees what a disk that lies has lost.",
            ),
        ],
        files: &[RUNS, PROOF_FOLDER],
        see_also: &["durio-prove(1)", "durio-lab-run(1)", "durio-simdisk-list(1)", "fsync(2)"],
    },
    PageNotes {
        command: "prove plan",
        examples: &[
            ("durio prove plan", "List the built-in proof specs."),
            ("durio prove plan prove-smoke", "Show each series, and what is expected of it."),
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
            "Write to a device until the power goes, overwriting all that is on it.",
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
                "Read a device after the cut, and say what is missing.",
            ),
            (
                "durio prove verify 'nbd+unix:///?socket=/tmp/disk' --ledger cut-1.jsonl --format json",
                "The same of a disk over NBD, as JSON.",
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
];
