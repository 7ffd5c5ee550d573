//! Options that change what is done and have no counterpart: refused unless neutral.

use super::{Class, refused, rows};

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
const NO_RATE_LIMIT: &str =
    "durio does not fail a job below a rate; see the verdicts of the report";
const NO_SPRANDOM: &str = "it belongs to sprandom, which durio does not do";

/// Of options that only say how contents are checked.
const HOW_TO_VERIFY: Class =
    Class::Refused { unless: &[], refines: Some("verify"), reason: NO_VERIFY };

rows! {
    // Files.
    refused("it matters only to fio's clients and servers"), [] => {
        "unique_filename": Bool, unless "1" | "0", "names of files have the client's address";
    }
    refused("durio finds out the type of a target itself; remove it"), [] => {
        "filetype": Choice(&["none", "file", "block", "char"]), unless "none",
            "whether names are files or devices";
    }
    refused("durio takes no locks on files; remove it"), [] => {
        "lockfile": Choice(&["none", "exclusive", "readwrite"]), unless "none",
            "jobs lock a file for each access";
    }
    refused("durio uses no file that it was not given by name; list them with filename="), [] => {
        "opendir": Text, "all files below this directory are used";
    }
    refused("durio does not write until the device is full; give size="), [] => {
        "fill_device" | "fill_fs": Bool, unless "0", "writes until no space is left";
    }
    refused("it orders only the making of files"), [] => {
        "create_serialize": Bool, unless "1" | "0", "files are laid out one after another";
    }
    refused("durio writes to no mounted device; use --destroy with a device that is not mounted"),
    [] => {
        "allow_mounted_write": Bool, unless "0", "mounted devices may be written to";
    }
    refused("durio does not recreate files between loops; run it several times"), [] => {
        "unlink_each_loop": Bool, unless "0", "files are removed after each loop";
    }
    refused("durio writes within a region; give offset and size"), [] => {
        "file_append": Bool, unless "0", "accesses begin at the end of the file";
    }
    refused(
        "durio does not fill the page cache before; write a job that reads the file, and stonewall"
    ), [] => {
        "pre_read": Bool, unless "0", "the file is read into the page cache before";
    }
    // 1 is fio's default, of which import tells.
    refused("durio gives the kernel no advice about access; only fadvise_hint=0 is honoured"),
    [] => {
        "fadvise_hint": Choice(&["0", "1", "random", "sequential", "noreuse"]), unless "0" | "1",
            "the kernel is told how a file will be accessed";
    }
    refused(NO_PLACEMENT), [] => {
        "write_hint": Choice(&["none", "short", "medium", "long", "extreme"]), unless "none",
            "expected lifetime of written data";
        "fdp": Bool, unless "0", "writes name an NVMe placement";
        "dataplacement" | "data_placement": Choice(&["none", "fdp", "streams"]), unless "none",
            "how placements are passed to the device";
        "plid_select" | "fdp_pli_select": Text, "how placements are chosen";
        "plids" | "fdp_pli": Text, "which placements are used";
        "dp_scheme": Text, "a file that maps offsets to placements";
    }
    refused("durio sends no atomic writes (RWF_ATOMIC)"), [] => {
        "atomic": Bool, unless "0", "each write is atomic";
    }
    // Patterns.
    refused(NO_TRIM), [] => {
        "num_range": Integer, unless "1", "ranges of a trim";
        "trim_percentage": Integer, unless "0", "percent of verified blocks that are trimmed";
        "trim_verify_zero": Bool, unless "0" | "1", "trimmed blocks are expected to be zeros";
        "trim_backlog": Size, unless "0", "blocks written before trims begin";
        "trim_backlog_batch": Integer, unless "0", "blocks trimmed at once";
    }
    refused("durio's sizes are for reads and writes"), [] => {
        "bs_is_seq_rand": Bool, unless "0",
            "sizes are for sequential and random accesses, not directions";
    }
    refused(
        "durio does not precondition by fio's sprandom; write the device over with a job of its own"
    ), [] => {
        "sprandom": Bool, unless "0", "the device is brought into a steady state";
    }
    refused(NO_SPRANDOM), [] => {
        "spr_num_regions": Integer, unless "100", "regions of sprandom";
        "spr_op": Floats, unless "0.15", "overprovisioning of the device";
        "spr_cs": Size, unless "0", "cache of the device";
    }
    refused("durio knows no listed sequence of offsets"), [] => {
        "random_sequence_stride": Bool, unless "0", "a stride through a listed sequence of offsets";
    }
    refused("fio refuses it as well; use percentage_random"), [] => {
        "percentage_sequential": Deprecated, "percent of accesses that are sequential";
    }
    refused("fio refuses it as well; remove it"), [] => {
        "rwmixcycle": Deprecated, "how often reads and writes alternate";
    }
    refused(NO_DEDUPE), [] => {
        "dedupe_global": Bool, unless "0", "jobs repeat each other's writes";
        "dedupe_mode": Choice(&["repeat", "working_set"]), unless "repeat",
            "which writes are repeated";
        "dedupe_working_set_percentage": Integer, unless "5", "size of the set that is repeated";
    }
    // Durability.
    refused(NO_FSYNC_VARIANT), [] => {
        "write_barrier": Integer, unless "0", "every Nth write is a barrier";
        "end_syncfs": Bool, unless "0", "syncfs once when the job ends";
    }
    refused(NO_RANGE_SYNC), [] => {
        "sync_file_range": Text, "sync_file_range every N writes";
    }
    // Queue and rate.
    refused("durio does not hold back overlapping accesses; use a pattern without overlaps"),
    [] => {
        "serialize_overlap": Bool, unless "0", "accesses that overlap wait for each other";
    }
    refused(NO_THINKTIME), [] => {
        "thinktime": Microseconds, unless "0", "a pause after accesses";
        "thinktime_spin": Microseconds, unless "0", "part of the pause spent spinning";
        "thinkcycles": Integer, unless "0", "CPU cycles spent between accesses";
        "thinktime_blocks": Integer, unless "1", "accesses between pauses";
        "thinktime_blocks_type": Choice(&["complete", "issue"]), unless "complete",
            "which accesses are counted";
        "thinktime_iotime": Seconds, unless "0", "time between pauses";
        "rate_ignore_thinktime": Bool, unless "0", "a rate makes up for pauses";
    }
    refused(NO_RATE_LIMIT), [] => {
        "rate_min" | "ratemin": Sizes, unless "0", "the job fails below these bytes per second";
        "rate_iops_min": Integers, unless "0", "the job fails below these accesses per second";
    }
    refused("it belongs to rate_min, which durio does not do"), [] => {
        "rate_cycle" | "ratecycle": Integer, unless "1000",
            "milliseconds over which that rate is checked";
    }
    refused("durio does not end a job at a slow access; the report shows the maximum"), [] => {
        "max_latency": Microseconds, unless "0", "a slower access ends the job";
    }
    refused(NO_LATENCY_TARGET), [] => {
        "latency_target": Microseconds, unless "0", "the depth is tuned to this latency";
        "latency_window": Microseconds, unless "0", "time over which the target is checked";
        "latency_percentile": Floats, unless "100" | "100.0",
            "percent of accesses that must meet the target";
        "latency_run": Bool, unless "0", "keep tuning until the job ends";
    }
    refused(NO_FLOW), [] => {
        "flow": Integer, unless "0", "tokens an access takes or returns";
        "flow_id": Integer, unless "0", "which tokens";
        "flow_sleep": Integer, unless "0", "microseconds to wait for tokens";
        "flow_watermark": Deprecated, "how far jobs may be apart";
    }
    // Time and order.
    refused("durio ramps for a time and not for an amount; use ramp_time"), [] => {
        "ramp_size": Size, unless "0", "bytes of warm-up before the measurement";
    }
    refused(NO_STEADY), [] => {
        "steadystate" | "ss": Text, "the job ends when its rate is steady";
        "steadystate_duration" | "ss_dur": Seconds, unless "0",
            "how long the rate must stay steady";
        "steadystate_ramp_time" | "ss_ramp": Seconds, unless "0",
            "warm-up before the steady-state test";
        "steadystate_check_interval" | "ss_interval": Seconds, unless "1",
            "interval of the steady-state test";
    }
    refused(NO_ERRORS), [] => {
        "continue_on_error": Choice(&["none", "read", "write", "io", "verify", "all", "0", "1"]),
            unless "none" | "0", "errors that do not end the job";
        "ignore_error": Text, "errors that do not count";
    }
    refused("fio's built-in profiles are not in the job file; write their jobs out"), [] => {
        "profile": Text, "jobs that are built into fio";
    }
    refused(NO_COMMANDS), [] => {
        "exec_prerun": Text, "a command before the job";
        "exec_postrun": Text, "a command after the job";
    }
    refused("durio changes no device's settings; set queue/scheduler yourself"), [] => {
        "ioscheduler": Text, "the I/O scheduler of the device";
    }
    // Process.
    refused(NO_PRIORITY), [] => {
        "nice": Integer, unless "0", "the job's nice value";
        "prio": Integer, unless "0", "the job's I/O priority";
        "prioclass": Integer, unless "0", "the class of that priority";
        "priohint": Integer, unless "0", "the hint of that priority";
    }
    refused(NO_CREDENTIALS), [] => {
        "uid": Integer, "the user of the job";
        "gid": Integer, "the group of the job";
    }
    refused(NO_CGROUP), [] => {
        "cgroup": Text, "the cgroup of the job";
        "cgroup_weight": Integer, "the weight of that cgroup";
        "cgroup_nodelete": Bool, unless "0", "that cgroup stays afterwards";
    }
    refused("durio takes no memory away from the page cache; use a memory cgroup"), [] => {
        "lockmem": Size, unless "0", "memory locked while the job runs";
    }
    refused(NO_BUFFERS), [] => {
        "mem" | "iomem": Text, unless "malloc", "where buffers are: malloc, shm, mmap, huge pages";
        "iomem_align" | "mem_align": Size, unless "0", "alignment of buffers";
        "hugepage-size": Size, "the size of huge pages";
        "gpu_dev_id": Integer, unless "0", "the GPU that has the buffers";
    }
    // Verification.
    refused(NO_VERIFY), [] => {
        "verify": Text, unless "0", "checksum by which contents are verified";
        "verify_only": Flag, unless "0", "verify what is there without writing";
        "do_verify": Bool, unless "0" | "1", "whether verification runs after the writes";
        "verify_policy": Text, unless "completed", "which writes are verified";
        "verifysort": Deprecated, "verify in offset order";
        "verifysort_nr": Deprecated, "how many are sorted at once";
        "verify_fatal": Bool, unless "0" | "1", "a mismatch ends the job";
        "verify_dump": Bool, unless "0" | "1", "a mismatch is dumped to files";
        "experimental_verify": Bool, unless "0",
            "regenerate the writes instead of remembering them";
        "verify_state_load": Bool, unless "0", "verification state is loaded from a file";
        "verify_state_save": Bool, unless "0" | "1", "verification state is saved to a file";
        "verify_write_sequence": Bool, unless "0" | "1", "verify the sequence number of writes";
        "verify_header_seed": Bool, unless "0" | "1", "verify the seed in headers";
    }
    HOW_TO_VERIFY, [] => {
        "verify_interval": Integer, "bytes between verification headers";
        "verify_offset": Integer, "offset of the header in a block";
        "verify_pattern": Text, "fill pattern of verified blocks";
        "verify_pattern_interval": Integer, unless "0",
            "bytes after which the fill pattern restarts";
        "verify_async": Integer, unless "0", "threads that verify";
        "verify_async_cpus": Text, "the CPUs of those threads";
        "verify_backlog": Size, unless "0", "blocks written before verification begins";
        "verify_backlog_batch": Integer, unless "0", "blocks verified at once";
    }
    // Replay.
    refused("durio writes no fio logs of single accesses; remove it"), [] => {
        "write_iolog": Text, "a log of each access";
    }
    refused(NO_REPLAY), [] => {
        "read_iolog": Text, "accesses come from this log";
        "read_iolog_chunked": Bool, unless "0", "the log is read in parts";
        "replay_no_stall": Bool, unless "0", "replay without the pauses of the log";
        "replay_redirect": Text, "the device on which all is replayed";
        "replay_scale": Integer, unless "1", "offsets are divided by this";
        "replay_align": Integer, unless "0", "offsets are multiples of this";
        "replay_time_scale": Integer, unless "100", "replay speed in percent";
        "replay_skip": Text, "kinds of access to skip";
        "merge_blktrace_file": Text, "merge traces into this file";
        "merge_blktrace_scalars": Floats, "replay speed of each trace";
        "merge_blktrace_iters": Floats, "repetitions of each trace";
    }
    // Zones.
    refused(NO_ZONES), [] => {
        "zonemode": Choice(&["none", "strided", "zbd"]), unless "none", "accesses go zone by zone";
        "zonesize": Size, unless "0", "bytes of a zone";
        "zonecapacity": Size, unless "0", "bytes of a zone that are used";
        "zonerange": Size, unless "0", "bytes from one zone to the next";
        "zoneskip": SizeOrShare, unless "0", "bytes skipped between zones";
        "read_beyond_wp": Bool, unless "0", "reads go beyond the write pointer";
        "max_open_zones": Integer, unless "0", "zones that are open at once, over all jobs";
        "job_max_open_zones": Integer, unless "0", "zones that a job has open at once";
        "ignore_zone_limits": Bool, unless "0", "ignore the device's zone limits";
        "zone_reset_threshold": Floats, "share of written data from which zones are reset";
        "zone_reset_frequency": Floats, "how often zones are reset";
        "recover_zbd_write_error": Bool, unless "0", "writes go on after an error in a zone";
        "write_zone_remainder": Bool, unless "0", "fill the end of a zone with a smaller write";
    }
}
