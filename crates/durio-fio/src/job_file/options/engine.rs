//! Options of the engines that durio has: io_uring, libaio, and pvsync2.

use super::{Kind, OptionRow, honoured, refused};

const URING: &[&str] = &["io_uring", "io_uring_cmd"];
const POLLED: &[&str] = &["io_uring", "io_uring_cmd", "libblkio", "pvsync2", "sg", "xnvme"];
const ASYNC: &[&str] = &["io_uring", "io_uring_cmd", "libaio"];
const NO_PRIORITIES: &str = "durio gives single accesses no priority; remove it";
const NO_PASSTHROUGH: &str =
    "it belongs to NVMe passthrough (io_uring_cmd), which durio does not do";
const NO_FLAGS: &str = "durio does not set this flag on its accesses; remove it";

/// Options of these engines.
pub(super) const ROWS: &[OptionRow] = &[
    honoured("hipri", Kind::Flag).of(POLLED),
    honoured("fixedbufs", Kind::Flag).of(URING),
    honoured("registerfiles", Kind::Flag).of(URING),
    honoured("sqthread_poll", Kind::Flag).of(&["io_uring", "io_uring_cmd", "xnvme"]),
    honoured("sqthread_poll_cpu", Kind::Integer).of(URING),
    refused(
        "hipri_percentage",
        Kind::Integer,
        &["100"],
        "durio polls for all accesses of a job or for none",
    )
    .of(&["pvsync2"]),
    refused(
        "nonvectored",
        Kind::Integer,
        &["1"],
        "durio submits reads and writes without vectors; only nonvectored=1 is honoured",
    )
    .of(URING),
    refused("force_async", Kind::Integer, &["0"], NO_FLAGS).of(URING),
    refused("uncached", Kind::Integer, &["0"], NO_FLAGS).of(&[
        "io_uring",
        "io_uring_cmd",
        "pvsync2",
    ]),
    refused("nowait", Kind::Bool, &["0"], NO_FLAGS).of(&[
        "io_uring",
        "io_uring_cmd",
        "libaio",
        "pvsync2",
    ]),
    refused(
        "userspace_reap",
        Kind::Flag,
        &["0"],
        "durio reaps libaio's completions with io_getevents",
    )
    .of(&["libaio"]),
    refused(
        "libaio_vectored",
        Kind::Bool,
        &["0"],
        "durio submits reads and writes without vectors",
    )
    .of(&["libaio"]),
    refused("cmdprio_percentage", Kind::Integers, &["0"], NO_PRIORITIES).of(ASYNC),
    refused("cmdprio_class", Kind::Integers, &["0"], NO_PRIORITIES).of(ASYNC),
    refused("cmdprio_hint", Kind::Integers, &["0"], NO_PRIORITIES).of(ASYNC),
    refused("cmdprio", Kind::Integers, &["0"], NO_PRIORITIES).of(ASYNC),
    refused("cmdprio_bssplit", Kind::Text, &[], NO_PRIORITIES).of(ASYNC),
    refused("readfua", Kind::Bool, &["0"], NO_PASSTHROUGH).of(&["io_uring", "io_uring_cmd", "sg"]),
    refused("writefua", Kind::Bool, &["0"], "durio sets FUA through sync=dsync; use that").of(&[
        "io_uring",
        "io_uring_cmd",
        "sg",
    ]),
    refused("write_mode", Kind::Text, &["write"], NO_PASSTHROUGH).of(URING),
    refused("verify_mode", Kind::Text, &["read"], NO_PASSTHROUGH).of(URING),
    refused("read_mode", Kind::Text, &["read"], NO_PASSTHROUGH).of(URING),
    refused("cmd_type", Kind::Text, &["nvme"], NO_PASSTHROUGH).of(URING),
    refused("cdb_len", Kind::Text, &["0"], NO_PASSTHROUGH).of(URING),
    refused("verify_bytchk", Kind::Text, &["0"], NO_PASSTHROUGH).of(URING),
    refused("md_per_io_size", Kind::Integer, &["0"], NO_PASSTHROUGH).of(&[
        "io_uring",
        "io_uring_cmd",
        "xnvme",
    ]),
    refused("pi_act", Kind::Bool, &["0", "1"], NO_PASSTHROUGH).of(&[
        "io_uring",
        "io_uring_cmd",
        "xnvme",
    ]),
    refused("pi_chk", Kind::Text, &[], NO_PASSTHROUGH).of(&["io_uring", "io_uring_cmd", "xnvme"]),
    refused("apptag", Kind::Integer, &[], NO_PASSTHROUGH).of(&[
        "io_uring",
        "io_uring_cmd",
        "xnvme",
    ]),
    refused("apptag_mask", Kind::Integer, &[], NO_PASSTHROUGH).of(&[
        "io_uring",
        "io_uring_cmd",
        "xnvme",
    ]),
    refused("deac", Kind::Bool, &["0"], NO_PASSTHROUGH).of(URING),
];
