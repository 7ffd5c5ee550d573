//! The man pages of durio's arrays.

use super::{FileNote, PageNotes};

const SOCKETS: &[FileNote] = &[
    ("PATH", "The socket of the array, for NBD clients. Removed when it is not served any more."),
    ("PATH.control", "The socket for the other commands of durio raid."),
    ("PATH.log", "With --detach: what servers had to say. It stays."),
];

pub(super) const PAGES: &[PageNotes] = &[
    PageNotes {
        command: "raid",
        examples: &[(
            "durio raid start --socket /run/data /dev/sdb /dev/sdc",
            "Serve an array of two devices.",
        )],
        files: &[SOCKETS],
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
            ("durio raid examine /dev/sdb /dev/sdc", "What these say, and whether they start."),
            ("durio raid examine --json /dev/sdb", "The same of one, for a script."),
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
                "With one of two: what the other was told since is given up.",
            ),
        ],
        files: &[SOCKETS],
        see_also: &["durio-raid-status(1)", "durio-raid-stop(1)", "nbd-client(8)", "qemu-io(1)"],
    },
    PageNotes {
        command: "raid status",
        examples: &[
            ("durio raid status --socket /run/data", "Members, dirty regions, rebuild."),
            ("durio raid status --socket /run/data --json", "The same for a script."),
        ],
        files: &[SOCKETS],
        see_also: &["durio-raid-fail(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid fail",
        examples: &[("durio raid fail --socket /run/data /dev/sdc", "Give this member up.")],
        files: &[SOCKETS],
        see_also: &["durio-raid-remove(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid add",
        examples: &[
            ("durio raid add --socket /run/data /dev/sdc", "Take a member back."),
            (
                "durio raid add --socket /run/data --destroy /dev/sdd /dev/sdd",
                "A new device in the place of one that is missing; its contents are lost.",
            ),
        ],
        files: &[SOCKETS],
        see_also: &["durio-raid-status(1)", "durio-raid-fail(1)", "durio-raid-replace(1)"],
    },
    PageNotes {
        command: "raid replace",
        examples: &[(
            "durio raid replace --socket /run/data --destroy /dev/sdd /dev/sdb /dev/sdd",
            "Another device for one that works; what is on /dev/sdd is lost.",
        )],
        files: &[SOCKETS],
        see_also: &["durio-raid-status(1)", "durio-raid-remove(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid remove",
        examples: &[("durio raid remove --socket /run/data /dev/sdc", "Let go of this device.")],
        files: &[SOCKETS],
        see_also: &["durio-raid-fail(1)", "durio-raid-add(1)"],
    },
    PageNotes {
        command: "raid scrub",
        examples: &[
            ("durio raid scrub --socket /run/data", "Compare all copies in the background."),
            (
                "durio raid scrub --socket /run/data --repair",
                "And write what differs from the first copy in sync.",
            ),
        ],
        files: &[SOCKETS],
        see_also: &["durio-raid-status(1)"],
    },
    PageNotes {
        command: "raid stop",
        examples: &[("durio raid stop --socket /run/data", "End it, and wait for the end.")],
        files: &[SOCKETS],
        see_also: &["durio-raid-start(1)"],
    },
];
