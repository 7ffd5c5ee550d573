//! Every key that a spec file may have: its kind, whether a list of it makes a ladder, what it
//! means.
//!
//! The reader, the JSON schema and the reference in docs/formats/spec.md all come from these tables.

/// What a key's value looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A short name: letters, digits, `-`, `_`.
    Name,
    /// A text or a list of texts that belong together (no ladder).
    Texts,
    /// true or false.
    Flag,
    /// A whole number from 0 (or 1, where 0 has no meaning).
    Count,
    /// A decimal number from 0.
    Number,
    /// "4KiB".
    Bytes,
    /// "60s".
    Time,
    /// "500us": a time that belongs to what is measured, and is not scaled with how long.
    Delay,
    /// "70%".
    Share,
    /// "4GiB", or "25%" of the target.
    Amount,
    /// 20000, "20k" per second.
    Rate,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// "uniform", "zipf:0.99", "pareto:0.2", "normal:10%", "zones:80%/20%,20%/80%" (accesses/size).
    Skew,
    /// "shared", "share-each", "offset:12%", "offset:1GiB", "offset:spread".
    Region,
    /// "0%..50%", "1GiB..2GiB".
    Within,
    /// "device-node", "anywhere", "node:0", "cpus:0-3,8".
    Placement,
    /// { "4KiB" = 550, "8KiB" = 450 }, in thousandths.
    Mix,
    /// "p99 <= 10ms".
    Goal,
    /// A table whose keys are names of axes, with lists of values.
    Axes,
    /// A table with these keys.
    Table(&'static [&'static [Key]]),
    /// A list of tables with these keys.
    Tables(&'static [&'static [Key]]),
}

/// One key of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// A list of values makes an axis of a ladder.
    pub(crate) ladder: bool,
    pub(crate) help: &'static str,
}

pub(crate) const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, ladder: false, help }
}

const fn ladder(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, ladder: true, help }
}

pub(crate) const PATTERNS: &[&str] = &["sequential", "random"];
pub(crate) const CACHES: &[&str] = &["direct", "buffered"];
pub(crate) const SYNCS: &[&str] = &[
    "none",
    "fsync",
    "fdatasync",
    "o_dsync",
    "o_sync",
    "rwf_dsync",
    "rwf_sync",
    "sync_file_range",
    "linked_fsync",
    "linked_fdatasync",
];
pub(crate) const ENGINES: &[&str] = &["sync", "uring", "aio", "fio"];
pub(crate) const LAYOUTS: &[&str] = &["incompressible", "zeros", "preallocated", "empty"];
const COVERAGES: &[&str] = &["independent", "each-once"];
const ENDS: &[&str] = &["wrap-around", "reallocate"];
const JOB_COUNTS: &[&str] = &["in-total", "per-target"];
const ARRIVALS: &[&str] = &["poisson", "constant"];
const OVERS: &[&str] = &["together", "one-by-one"];
const FILES: &[&str] = &["shared", "per-job"];
const FEW_JOBS: &[&str] = &["refused", "first-paths"];
const TRACKED: &[&str] = &["iops", "bandwidth", "latency"];
const RAIDS: &[&str] = &["raid0", "raid1", "raid10", "raid5", "raid6"];

/// The whole file.
pub(crate) const TOP: &[Key] = &[
    key("schema", Kind::Count, "Version of this format: 1. Required."),
    key("name", Kind::Name, "Short name of the campaign. Required."),
    key("summary", Kind::Text, "One sentence: what it shows."),
    key("source", Kind::Text, "After whom: title, author, date."),
    key(
        "self_cost",
        Kind::Flag,
        "false leaves out durio's measurements of its own cost. Default: true.",
    ),
    key("target", Kind::Tables(&[TARGET]), "What is read and written. At least one."),
    key(
        "defaults",
        Kind::Table(&[LOAD, STEP_COMMON]),
        "What holds for every step that does not say otherwise.",
    ),
    key(
        "precondition",
        Kind::Tables(&[LOAD, STEP_COMMON, STEP]),
        "Brings targets into their state; its figures are nobody's. Runs where it stands among the steps.",
    ),
    key(
        "step",
        Kind::Tables(&[LOAD, STEP_COMMON, STEP]),
        "What is measured, in the order in which it stands in the file.",
    ),
];

/// `[[target]]`.
pub(crate) const TARGET: &[Key] = &[
    key("name", Kind::Name, "Short name, by which steps call it. Required."),
    key(
        "path",
        Kind::Texts,
        "Directory, file or block device, or a list of them that are one group (eight drives). Without it, --target gives it.",
    ),
    key(
        "size",
        Kind::Amount,
        "Bytes of a file that durio makes, per path, or a share of the free space. Default: 1 GiB, at most a tenth of the free space; what exists is used whole.",
    ),
    key(
        "layout",
        Kind::Choice(LAYOUTS),
        "How a file that durio makes is laid out before. Default: incompressible.",
    ),
    key(
        "files",
        Kind::Choice(FILES),
        "In a directory: one file that all jobs share, or one of this size for each job. Default: shared.",
    ),
    key(
        "few_jobs",
        Kind::Choice(FEW_JOBS),
        "Of several paths: whether fewer jobs than paths are an error, or use only the first paths. Default: refused.",
    ),
    key(
        "declared",
        Kind::Table(&[DECLARED]),
        "What is said of its layout, and cannot be measured.",
    ),
    key("sheet", Kind::Table(&[SHEET]), "What its maker and seller say."),
];

/// `[target.declared]`.
pub(crate) const DECLARED: &[Key] = &[
    key("raid", Kind::Choice(RAIDS), "RAID level."),
    key("members", Kind::Count, "Members of the array."),
    key("copies", Kind::Count, "Copies of each block (RAID1, RAID10)."),
    key("replicas", Kind::Count, "How often everything is replicated above the storage."),
];

/// `[target.sheet]`.
pub(crate) const SHEET: &[Key] = &[
    key("price", Kind::Number, "Price of all devices of a path."),
    key("currency", Kind::Text, "Currency of the price. Default: USD."),
    key("random_read_iops", Kind::Number, "Random reads per second."),
    key("random_write_iops", Kind::Number, "Random writes per second."),
    key("read_bandwidth", Kind::Bytes, "Sequential reads, bytes per second."),
    key("write_bandwidth", Kind::Bytes, "Sequential writes, bytes per second."),
];

/// What a load is: in `[defaults]`, `[[precondition]]`, `[[step]]` and `[[step.beside]]`.
pub(crate) const LOAD: &[Key] = &[
    key(
        "target",
        Kind::Texts,
        "Name of a target, or a list of names: jobs are assigned to them round-robin. Default: the first target.",
    ),
    ladder("pattern", Kind::Choice(PATTERNS), "Order of offsets. Default: sequential."),
    ladder("reads", Kind::Share, "Share of reads; the rest are writes. Default: 100%."),
    ladder("block_size", Kind::Bytes, "Bytes per access. Default: 4KiB."),
    key(
        "block_mix",
        Kind::Mix,
        "Sizes by weight in thousandths, which add up to 1000; instead of block_size.",
    ),
    key("write_block_mix", Kind::Mix, "Sizes of writes, where they differ from those of reads."),
    ladder("skew", Kind::Skew, "Which blocks are hot, with a random pattern. Default: uniform."),
    ladder(
        "coverage",
        Kind::Choice(COVERAGES),
        "Whether each random block comes once before any comes again. Default: independent.",
    ),
    ladder(
        "run_length",
        Kind::Count,
        "With a random pattern: blocks that follow each other before the next jump. Default: 1.",
    ),
    ladder("hole", Kind::Bytes, "With a sequential pattern: bytes left out after each block."),
    ladder(
        "compressible",
        Kind::Share,
        "Share of each 4 KiB written that is zeros; the rest is random. Default: 0%.",
    ),
    ladder(
        "duplicates",
        Kind::Share,
        "Share of the writes that repeat an earlier one of the job; all others are unique. Default: 0%.",
    ),
    ladder(
        "region",
        Kind::Region,
        "What a job may touch: all of it (shared), a share each, or from an offset per job to the end; offset:spread is ⌊100 / jobs⌋ % per job. Default: a share each for several sequential jobs, else shared.",
    ),
    ladder("within", Kind::Within, "The part of the target that all jobs together touch."),
    ladder("jobs", Kind::Count, "Workers. Default: 1."),
    key(
        "jobs_are",
        Kind::Choice(JOB_COUNTS),
        "Whether jobs counts all workers or those of each path. Default: in-total.",
    ),
    ladder("depth", Kind::Count, "Operations that each job keeps in flight. Default: 1."),
    ladder(
        "sync",
        Kind::Choice(SYNCS),
        "How writes are made durable. sync_file_range has an fdatasync after it; a linked sync is submitted with its write, by io_uring. Default: none.",
    ),
    ladder(
        "sync_every",
        Kind::Count,
        "With fsync or fdatasync: after every so many writes of a job. Default: 1.",
    ),
    ladder("cache", Kind::Choice(CACHES), "Past or through the page cache. Default: direct."),
    ladder(
        "at_end",
        Kind::Choice(ENDS),
        "Log file: at the end of its region a sequential writer overwrites in place, or gets fresh preallocated space. Default: wrap-around.",
    ),
    ladder(
        "engine",
        Kind::Choice(ENGINES),
        "How operations are submitted. Default: sync for depth 1, else uring.",
    ),
    ladder("fio_engine", Kind::Text, "With engine fio: its ioengine."),
    ladder("batch", Kind::Count, "Operations per submission at most. Default: 4."),
    ladder(
        "rate",
        Kind::Rate,
        "Accesses per second that are offered, all jobs together (open loop). Default: as fast as it goes.",
    ),
    ladder(
        "arrivals",
        Kind::Choice(ARRIVALS),
        "With rate: Poisson or constant arrivals. Default: poisson.",
    ),
    ladder(
        "committers",
        Kind::Count,
        "Each job is a log to which so many committers hand records of block_size; a write is a batch of them. Default: no log.",
    ),
    ladder(
        "committer_threads",
        Kind::Flag,
        "With committers: a thread for each, so that the cost of waking them is in the latency. Default: false.",
    ),
    ladder(
        "commit_delay",
        Kind::Delay,
        "With committers: how long a leader waits for more records before it writes. Default: 0s.",
    ),
    ladder(
        "commit_siblings",
        Kind::Count,
        "With committers: a leader waits only if so many others are at work. Default: 0.",
    ),
    ladder(
        "batch_max",
        Kind::Bytes,
        "With committers: the most bytes of records in a batch. Default: 1MiB.",
    ),
    ladder(
        "pad_to",
        Kind::Bytes,
        "With committers: batches are filled up to a multiple of this; 0B for not at all. Default: 4KiB.",
    ),
    ladder(
        "double_buffer",
        Kind::Flag,
        "With committers: records that arrive during a flush are copied at once. Default: true.",
    ),
    ladder(
        "placement",
        Kind::Placement,
        "Processors of the jobs, and with a node their memory. Default: device-node.",
    ),
];

/// What a step is besides its load, where defaults make sense.
pub(crate) const STEP_COMMON: &[Key] = &[
    ladder("duration", Kind::Time, "How long, after the ramp. Default: 60s."),
    ladder("volume", Kind::Amount, "Instead of a duration: bytes of all jobs; 100% is all paths."),
    ladder("operations", Kind::Count, "Instead of a duration: accesses of all jobs."),
    ladder(
        "loops",
        Kind::Count,
        "Instead of a duration: so many times the size of all paths, over all jobs.",
    ),
    key("ramp", Kind::Time, "Time at the start that is not part of the figures. Default: 0s."),
    key(
        "interval",
        Kind::Time,
        "Length of recorded intervals. Default: a fiftieth of the duration.",
    ),
    key("repeats", Kind::Count, "How often the whole ladder is run. Default: 1."),
    ladder("pause", Kind::Time, "Idle time before each step. Default: 0s."),
    key(
        "first_job_ends_all",
        Kind::Flag,
        "The first job that is done ends the step. Default: false.",
    ),
    ladder(
        "memory_bound",
        Kind::Amount,
        "Memory for the page cache, by a memory cgroup, for buffered runs; 100% is all paths.",
    ),
    ladder("read_ahead", Kind::Bytes, "The kernel's read-ahead while the step runs."),
    ladder("drop_cache", Kind::Flag, "Drop the target's pages from the page cache before."),
    key(
        "trace_path",
        Kind::Flag,
        "After all steps, follow some operations of this one through the kernel, by one job: where their time goes (needs tracefs). Default: false.",
    ),
];

/// What only a step has.
pub(crate) const STEP: &[Key] = &[
    key("name", Kind::Name, "Short name. Required."),
    key("summary", Kind::Text, "One sentence: what it shows."),
    key(
        "order",
        Kind::Texts,
        "The axes from the outermost loop to the innermost. Default: as the lists stand in the file.",
    ),
    key("x", Kind::Text, "With y: the axis to the right of a map."),
    key("y", Kind::Text, "With x: the axis upwards."),
    key(
        "points",
        Kind::Tables(&[LOAD, STEP_COMMON]),
        "Points of a ladder one by one, where several keys change together.",
    ),
    key(
        "over",
        Kind::Choice(OVERS),
        "Whether the paths of the target are loaded together or one after the other. Default: together.",
    ),
    key("baseline", Kind::Text, "Target whose section of the same name is the baseline."),
    key("rounds", Kind::Table(&[ROUNDS]), "Repeats the whole section until something is so."),
    key(
        "beside",
        Kind::Tables(&[LOAD, BESIDE]),
        "A load that runs at the same time; its lists are axes named NAME.KEY.",
    ),
];

/// What only a load beside has.
pub(crate) const BESIDE: &[Key] = &[key("name", Kind::Name, "Short name. Required.")];

/// `rounds = { … }`.
pub(crate) const ROUNDS: &[Key] = &[
    key("max", Kind::Count, "At most so many rounds. Default: 25."),
    key(
        "steady_state",
        Kind::Choice(TRACKED),
        "Until this figure of the tracked step is steady, by the SNIA rule.",
    ),
    key(
        "tracked",
        Kind::Table(&[LOAD]),
        "Which step of the section is tracked, by its values. Default: the first.",
    ),
    key("window", Kind::Count, "Rounds that must be steady. Default: 5."),
    key("excursion", Kind::Share, "Largest (max − min) / mean in the window. Default: 20%."),
    key(
        "slope",
        Kind::Share,
        "Largest rise or fall of the fitted line over the window, of the mean. Default: 10%.",
    ),
    key("goal", Kind::Goal, "Or: until the highest rate that keeps this goal is found."),
    key("precision", Kind::Share, "How well that rate must be known. Default: 2%."),
];

/// The key of this name among `tables`.
pub(crate) fn find(tables: &[&'static [Key]], name: &str) -> Option<&'static Key> {
    tables.iter().flat_map(|table| table.iter()).find(|key| key.name == name)
}

/// Every table with the heading under which it is described.
pub(crate) const SECTIONS: &[(&str, &[Key])] = &[
    ("The file", TOP),
    ("[[target]]", TARGET),
    ("[target.declared]", DECLARED),
    ("[target.sheet]", SHEET),
    ("A load: [defaults], [[precondition]], [[step]], [[step.beside]], points", LOAD),
    ("A step: [defaults], [[precondition]], [[step]], points", STEP_COMMON),
    ("[[precondition]] and [[step]] alone", STEP),
    ("[[step.beside]]", BESIDE),
    ("rounds", ROUNDS),
];
