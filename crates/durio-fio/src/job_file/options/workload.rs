//! The options that jobs are made of.

use super::{Kind, OptionRow, honoured};

const PATTERNS: &[&str] = &[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];
const DISTRIBUTIONS: &[&str] =
    &["random", "zipf", "pareto", "normal", "zoned", "zoned_abs", "sequence"];
const FILE_ORDERS: &[&str] =
    &["random", "zipf", "pareto", "normal", "gauss", "roundrobin", "sequential"];

/// Options that the translation uses.
pub(super) const ROWS: &[OptionRow] = &[
    // What the job is called, and which job it is.
    honoured("name", Kind::Text),
    honoured("description", Kind::Text),
    honoured("kb_base", Kind::Choice(&["1024", "1000"])),
    // Targets.
    honoured("filename", Kind::Text),
    honoured("directory", Kind::Text),
    honoured("nrfiles", Kind::Integer).or("nr_files"),
    honoured("openfiles", Kind::Integer),
    honoured("file_service_type", Kind::Choice(FILE_ORDERS)),
    honoured("filesize", Kind::Size),
    honoured("size", Kind::SizeOrShare),
    honoured("io_size", Kind::SizeOrShare).or("io_limit"),
    honoured("number_ios", Kind::Size),
    honoured("offset", Kind::SizeOrShare).or("fileoffset"),
    honoured("offset_increment", Kind::SizeOrShare),
    honoured("offset_align", Kind::Size),
    honoured("fallocate", Kind::Choice(&["none", "native", "posix", "keep", "truncate", "0", "1"])),
    honoured("overwrite", Kind::Bool),
    honoured("file_append", Kind::Bool),
    honoured("create_on_open", Kind::Bool),
    honoured("allow_file_create", Kind::Bool),
    honoured("unlink", Kind::Bool),
    honoured("invalidate", Kind::Bool),
    honoured("pre_read", Kind::Bool),
    honoured("direct", Kind::Bool),
    honoured("buffered", Kind::Bool),
    // Pattern.
    honoured("rw", Kind::Choice(PATTERNS)).or("readwrite"),
    honoured("rw_sequencer", Kind::Choice(&["sequential", "identical"])),
    honoured("rwmixread", Kind::Integer),
    honoured("rwmixwrite", Kind::Integer),
    honoured("bs", Kind::Sizes).or("blocksize"),
    honoured("ba", Kind::Sizes).or("blockalign"),
    honoured("bsrange", Kind::Ranges).or("blocksize_range"),
    honoured("bssplit", Kind::Text),
    honoured("bs_unaligned", Kind::Flag).or("blocksize_unaligned"),
    honoured("bs_is_seq_rand", Kind::Bool),
    honoured("percentage_random", Kind::Integers),
    honoured("random_distribution", Kind::Choice(DISTRIBUTIONS)),
    honoured("norandommap", Kind::Flag),
    honoured("softrandommap", Kind::Bool),
    honoured("random_generator", Kind::Choice(&["tausworthe", "lfsr", "tausworthe64"])),
    honoured("randrepeat", Kind::Bool).or("allrandrepeat"),
    honoured("randseed", Kind::Size),
    // Queue.
    honoured("ioengine", Kind::Text),
    honoured("iodepth", Kind::Integer),
    honoured("iodepth_batch", Kind::Integer).or("iodepth_batch_submit"),
    honoured("iodepth_batch_complete_min", Kind::Integer).or("iodepth_batch_complete"),
    honoured("iodepth_batch_complete_max", Kind::Integer),
    honoured("iodepth_low", Kind::Integer),
    honoured("rate", Kind::Sizes),
    honoured("rate_iops", Kind::Integers),
    honoured("rate_process", Kind::Choice(&["linear", "poisson"])),
    // Durability.
    honoured("sync", Kind::Choice(&["none", "0", "sync", "1", "dsync"])),
    honoured("fsync", Kind::Integer),
    honoured("fdatasync", Kind::Integer),
    honoured("end_fsync", Kind::Bool),
    honoured("fsync_on_close", Kind::Bool),
    honoured("create_fsync", Kind::Bool),
    // Time and order.
    honoured("runtime", Kind::Seconds).or("timeout"),
    honoured("time_based", Kind::Flag),
    honoured("ramp_time", Kind::Seconds),
    honoured("startdelay", Kind::Seconds),
    honoured("loops", Kind::Integer),
    honoured("stonewall", Kind::Flag).or("wait_for_previous"),
    honoured("exitall", Kind::Flag),
    honoured("exitall_on_error", Kind::Flag),
    honoured("exit_what", Kind::Choice(&["group", "stonewall", "all"])),
    honoured("new_group", Kind::Flag),
    // Workers and where they run.
    honoured("numjobs", Kind::Integer),
    honoured("thread", Kind::Flag),
    honoured("cpumask", Kind::Integer),
    honoured("cpus_allowed", Kind::Text),
    honoured("cpus_allowed_policy", Kind::Choice(&["shared", "split"])),
    honoured("numa_cpu_nodes", Kind::Text),
    honoured("numa_mem_policy", Kind::Text),
    // What is written.
    honoured("buffer_compress_percentage", Kind::Integer),
    honoured("buffer_compress_chunk", Kind::Size),
    honoured("refill_buffers", Kind::Flag),
    honoured("zero_buffers", Kind::Flag),
    honoured("scramble_buffers", Kind::Bool),
];
