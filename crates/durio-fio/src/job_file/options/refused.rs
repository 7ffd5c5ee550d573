//! Options that change what is done and have no counterpart: refused unless neutral.

use super::{Kind, OptionRow, refused};

const NO_TRIM: &str = "durio sends no trims; use fio for this job";
const NO_VERIFY: &str =
    "durio run checks no contents; remove it, or use durio prove to check what survives";
const NO_REPLAY: &str = "durio replays no fio logs; write the job as a pattern";
const NO_ZONES: &str =
    "durio does not write zone by zone; describe the region with offset and size";
const NO_PLACEMENT: &str = "durio sends no data placement hints; remove it to measure without them";
const NO_LATENCY_TARGET: &str =
    "durio does not tune the queue depth while it measures; give iodepth or rate_iops";
const NO_THINKTIME: &str =
    "durio paces with rate_iops and not with pauses between accesses; use rate_iops";
const NO_COMMANDS: &str = "durio runs no commands from a job file; run the command yourself";
const NO_CGROUP: &str = "durio moves no job into a cgroup; start durio in the cgroup itself";
const NO_PRIORITY: &str = "durio sets no priorities; start durio with nice or ionice";
const NO_CREDENTIALS: &str = "durio changes no user; start durio as that user";
const NO_BUFFERS: &str = "durio places its buffers itself; remove it";
const NO_DEDUPE: &str = "durio repeats earlier writes of the same job (dedupe_mode=repeat)";
const NO_STEADY: &str =
    "durio does not end a job by fio's steady state rule; give runtime and see the intervals";
const NO_ERRORS: &str = "the first error ends a durio step; a device with errors is not measured";
const NO_FLOW: &str = "durio does not hold jobs to a ratio of tokens; use rate_iops for each job";
const NO_RANGE_SYNC: &str = "it makes nothing durable (no metadata, no flush); durio has it only \
                             with an fdatasync after it: durio run --sync sync_file_range";
const NO_FSYNC_VARIANT: &str = "durio knows fsync, fdatasync and sync=; use one of these";

/// Options that are refused.
pub(super) const ROWS: &[OptionRow] = &[
    // Files.
    refused(
        "unique_filename",
        Kind::Bool,
        &["1", "0"],
        "it matters only to fio's clients and servers",
    ),
    refused(
        "filetype",
        Kind::Choice(&["none", "file", "block", "char"]),
        &["none"],
        "durio finds out the type of a target itself; remove it",
    ),
    refused(
        "lockfile",
        Kind::Choice(&["none", "exclusive", "readwrite"]),
        &["none"],
        "durio takes no locks on files; remove it",
    ),
    refused(
        "opendir",
        Kind::Text,
        &[],
        "durio uses no file that it was not given by name; list them with filename=",
    ),
    refused(
        "fill_device",
        Kind::Bool,
        &["0"],
        "durio does not write until the device is full; give size=",
    )
    .or("fill_fs"),
    refused("create_serialize", Kind::Bool, &["1", "0"], "it orders only the making of files"),
    refused(
        "allow_mounted_write",
        Kind::Bool,
        &["0"],
        "durio writes to no mounted device; use --destroy with a device that is not mounted",
    ),
    refused(
        "unlink_each_loop",
        Kind::Bool,
        &["0"],
        "durio does not recreate files between loops; run it several times",
    ),
    refused(
        "fadvise_hint",
        Kind::Choice(&["0", "1", "random", "sequential", "noreuse"]),
        // 1 is fio's default, of which import tells.
        &["0", "1"],
        "durio gives the kernel no advice about access; only fadvise_hint=0 is honoured",
    ),
    refused(
        "write_hint",
        Kind::Choice(&["none", "short", "medium", "long", "extreme"]),
        &["none"],
        NO_PLACEMENT,
    ),
    refused("atomic", Kind::Bool, &["0"], "durio sends no atomic writes (RWF_ATOMIC)"),
    // Patterns.
    refused("num_range", Kind::Integer, &["1"], NO_TRIM),
    refused(
        "sprandom",
        Kind::Bool,
        &["0"],
        "durio does not precondition by fio's sprandom; write the device over with a job of its own",
    ),
    refused(
        "spr_num_regions",
        Kind::Integer,
        &["100"],
        "it belongs to sprandom, which durio does not do",
    ),
    refused("spr_op", Kind::Floats, &["0.15"], "it belongs to sprandom, which durio does not do"),
    refused("spr_cs", Kind::Size, &["0"], "it belongs to sprandom, which durio does not do"),
    refused(
        "random_sequence_stride",
        Kind::Bool,
        &["0"],
        "durio knows no listed sequence of offsets",
    ),
    refused(
        "percentage_sequential",
        Kind::Deprecated,
        &[],
        "fio refuses it as well; use percentage_random",
    ),
    refused("rwmixcycle", Kind::Deprecated, &[], "fio refuses it as well; remove it"),
    refused("trim_percentage", Kind::Integer, &["0"], NO_TRIM),
    refused("trim_verify_zero", Kind::Bool, &["0", "1"], NO_TRIM),
    refused("trim_backlog", Kind::Size, &["0"], NO_TRIM),
    refused("trim_backlog_batch", Kind::Integer, &["0"], NO_TRIM),
    refused("dedupe_global", Kind::Bool, &["0"], NO_DEDUPE),
    refused("dedupe_mode", Kind::Choice(&["repeat", "working_set"]), &["repeat"], NO_DEDUPE),
    refused("dedupe_working_set_percentage", Kind::Integer, &["5"], NO_DEDUPE),
    // Durability.
    refused("write_barrier", Kind::Integer, &["0"], NO_FSYNC_VARIANT),
    refused("sync_file_range", Kind::Text, &[], NO_RANGE_SYNC),
    refused("end_syncfs", Kind::Bool, &["0"], NO_FSYNC_VARIANT),
    // Queue and rate.
    refused(
        "serialize_overlap",
        Kind::Bool,
        &["0"],
        "durio does not hold back overlapping accesses; use a pattern without overlaps",
    ),
    refused("thinktime", Kind::Microseconds, &["0"], NO_THINKTIME),
    refused("thinktime_spin", Kind::Microseconds, &["0"], NO_THINKTIME),
    refused("thinkcycles", Kind::Integer, &["0"], NO_THINKTIME),
    refused("thinktime_blocks", Kind::Integer, &["1"], NO_THINKTIME),
    refused(
        "thinktime_blocks_type",
        Kind::Choice(&["complete", "issue"]),
        &["complete"],
        NO_THINKTIME,
    ),
    refused("thinktime_iotime", Kind::Seconds, &["0"], NO_THINKTIME),
    refused(
        "rate_min",
        Kind::Sizes,
        &["0"],
        "durio does not fail a job below a rate; see the verdicts of the report",
    )
    .or("ratemin"),
    refused(
        "rate_iops_min",
        Kind::Integers,
        &["0"],
        "durio does not fail a job below a rate; see the verdicts of the report",
    ),
    refused(
        "rate_cycle",
        Kind::Integer,
        &["1000"],
        "it belongs to rate_min, which durio does not do",
    )
    .or("ratecycle"),
    refused("rate_ignore_thinktime", Kind::Bool, &["0"], NO_THINKTIME),
    refused(
        "max_latency",
        Kind::Microseconds,
        &["0"],
        "durio does not end a job at a slow access; the report shows the maximum",
    ),
    refused("latency_target", Kind::Microseconds, &["0"], NO_LATENCY_TARGET),
    refused("latency_window", Kind::Microseconds, &["0"], NO_LATENCY_TARGET),
    refused("latency_percentile", Kind::Floats, &["100", "100.0"], NO_LATENCY_TARGET),
    refused("latency_run", Kind::Bool, &["0"], NO_LATENCY_TARGET),
    refused("flow", Kind::Integer, &["0"], NO_FLOW),
    refused("flow_id", Kind::Integer, &["0"], NO_FLOW),
    refused("flow_sleep", Kind::Integer, &["0"], NO_FLOW),
    refused("flow_watermark", Kind::Deprecated, &[], NO_FLOW),
    // Time and order.
    refused(
        "ramp_size",
        Kind::Size,
        &["0"],
        "durio ramps for a time and not for an amount; use ramp_time",
    ),
    refused("steadystate", Kind::Text, &[], NO_STEADY).or("ss"),
    refused("steadystate_duration", Kind::Seconds, &["0"], NO_STEADY).or("ss_dur"),
    refused("steadystate_ramp_time", Kind::Seconds, &["0"], NO_STEADY).or("ss_ramp"),
    refused("steadystate_check_interval", Kind::Seconds, &["1"], NO_STEADY).or("ss_interval"),
    refused(
        "continue_on_error",
        Kind::Choice(&["none", "read", "write", "io", "verify", "all", "0", "1"]),
        &["none", "0"],
        NO_ERRORS,
    ),
    refused("ignore_error", Kind::Text, &[], NO_ERRORS),
    refused(
        "profile",
        Kind::Text,
        &[],
        "fio's built-in profiles are not in the job file; write their jobs out",
    ),
    refused("exec_prerun", Kind::Text, &[], NO_COMMANDS),
    refused("exec_postrun", Kind::Text, &[], NO_COMMANDS),
    refused(
        "ioscheduler",
        Kind::Text,
        &[],
        "durio changes no device's settings; set queue/scheduler yourself",
    ),
    // Process.
    refused("nice", Kind::Integer, &["0"], NO_PRIORITY),
    refused("prio", Kind::Integer, &["0"], NO_PRIORITY),
    refused("prioclass", Kind::Integer, &["0"], NO_PRIORITY),
    refused("priohint", Kind::Integer, &["0"], NO_PRIORITY),
    refused("uid", Kind::Integer, &[], NO_CREDENTIALS),
    refused("gid", Kind::Integer, &[], NO_CREDENTIALS),
    refused("cgroup", Kind::Text, &[], NO_CGROUP),
    refused("cgroup_weight", Kind::Integer, &[], NO_CGROUP),
    refused("cgroup_nodelete", Kind::Bool, &["0"], NO_CGROUP),
    refused(
        "lockmem",
        Kind::Size,
        &["0"],
        "durio takes no memory away from the page cache; use a memory cgroup",
    ),
    refused("mem", Kind::Text, &["malloc"], NO_BUFFERS).or("iomem"),
    refused("iomem_align", Kind::Size, &["0"], NO_BUFFERS).or("mem_align"),
    refused("hugepage-size", Kind::Size, &[], NO_BUFFERS),
    refused("gpu_dev_id", Kind::Integer, &["0"], NO_BUFFERS),
    // Verification.
    refused("verify", Kind::Text, &["0"], NO_VERIFY),
    refused("verify_only", Kind::Flag, &["0"], NO_VERIFY),
    refused("do_verify", Kind::Bool, &["0", "1"], NO_VERIFY),
    refused("verify_policy", Kind::Text, &["completed"], NO_VERIFY),
    refused("verifysort", Kind::Deprecated, &[], NO_VERIFY),
    refused("verifysort_nr", Kind::Deprecated, &[], NO_VERIFY),
    refused("verify_interval", Kind::Integer, &[], NO_VERIFY),
    refused("verify_offset", Kind::Integer, &[], NO_VERIFY),
    refused("verify_pattern", Kind::Text, &[], NO_VERIFY),
    refused("verify_pattern_interval", Kind::Integer, &["0"], NO_VERIFY),
    refused("verify_fatal", Kind::Bool, &["0", "1"], NO_VERIFY),
    refused("verify_dump", Kind::Bool, &["0", "1"], NO_VERIFY),
    refused("verify_async", Kind::Integer, &["0"], NO_VERIFY),
    refused("verify_async_cpus", Kind::Text, &[], NO_VERIFY),
    refused("verify_backlog", Kind::Size, &["0"], NO_VERIFY),
    refused("verify_backlog_batch", Kind::Integer, &["0"], NO_VERIFY),
    refused("experimental_verify", Kind::Bool, &["0"], NO_VERIFY),
    refused("verify_state_load", Kind::Bool, &["0"], NO_VERIFY),
    refused("verify_state_save", Kind::Bool, &["0", "1"], NO_VERIFY),
    refused("verify_write_sequence", Kind::Bool, &["0", "1"], NO_VERIFY),
    refused("verify_header_seed", Kind::Bool, &["0", "1"], NO_VERIFY),
    // Replay.
    refused(
        "write_iolog",
        Kind::Text,
        &[],
        "durio writes no fio logs of single accesses; remove it",
    ),
    refused("read_iolog", Kind::Text, &[], NO_REPLAY),
    refused("read_iolog_chunked", Kind::Bool, &["0"], NO_REPLAY),
    refused("replay_no_stall", Kind::Bool, &["0"], NO_REPLAY),
    refused("replay_redirect", Kind::Text, &[], NO_REPLAY),
    refused("replay_scale", Kind::Integer, &["1"], NO_REPLAY),
    refused("replay_align", Kind::Integer, &["0"], NO_REPLAY),
    refused("replay_time_scale", Kind::Integer, &["100"], NO_REPLAY),
    refused("replay_skip", Kind::Text, &[], NO_REPLAY),
    refused("merge_blktrace_file", Kind::Text, &[], NO_REPLAY),
    refused("merge_blktrace_scalars", Kind::Floats, &[], NO_REPLAY),
    refused("merge_blktrace_iters", Kind::Floats, &[], NO_REPLAY),
    // Zones and placement.
    refused("zonemode", Kind::Choice(&["none", "strided", "zbd"]), &["none"], NO_ZONES),
    refused("zonesize", Kind::Size, &["0"], NO_ZONES),
    refused("zonecapacity", Kind::Size, &["0"], NO_ZONES),
    refused("zonerange", Kind::Size, &["0"], NO_ZONES),
    refused("zoneskip", Kind::SizeOrShare, &["0"], NO_ZONES),
    refused("read_beyond_wp", Kind::Bool, &["0"], NO_ZONES),
    refused("max_open_zones", Kind::Integer, &["0"], NO_ZONES),
    refused("job_max_open_zones", Kind::Integer, &["0"], NO_ZONES),
    refused("ignore_zone_limits", Kind::Bool, &["0"], NO_ZONES),
    refused("zone_reset_threshold", Kind::Floats, &[], NO_ZONES),
    refused("zone_reset_frequency", Kind::Floats, &[], NO_ZONES),
    refused("recover_zbd_write_error", Kind::Bool, &["0"], NO_ZONES),
    refused("write_zone_remainder", Kind::Bool, &["0"], NO_ZONES),
    refused("fdp", Kind::Bool, &["0"], NO_PLACEMENT),
    refused("dataplacement", Kind::Choice(&["none", "fdp", "streams"]), &["none"], NO_PLACEMENT)
        .or("data_placement"),
    refused("plid_select", Kind::Text, &[], NO_PLACEMENT).or("fdp_pli_select"),
    refused("plids", Kind::Text, &[], NO_PLACEMENT).or("fdp_pli"),
    refused("dp_scheme", Kind::Text, &[], NO_PLACEMENT),
];
