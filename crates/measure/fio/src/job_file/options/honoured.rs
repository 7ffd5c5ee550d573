//! The options that durio honours: each with its field, its reader, and its meaning.
//!
//! A line is a field of [`JobOptions`], and the options that set it, the last of which counts. `None`
//! everywhere means that the job file says nothing, and fio's default counts.

use super::super::terms::{
    AdviceHint, BlockSizeShare, CpuPolicy, ExitScope, Fallocate, FileService, FioEngine,
    MemoryPolicy, OffsetDistribution, RandomGenerator, RateProcess, ReadWrite, Sequencer,
    SizeValue, SubmitMode, SyncOpen,
};
use super::super::{Each, GivenOption};
use super::reader::{
    ADDED_NAMES, ANY_TEXT, BLOCKS, BOOL, BYTE_PATTERN, COUNT, CPU_MASK, CPUS, DISTRIBUTION, ENGINE,
    FILE_ORDER, FLAG, KB_BASE, LOG_NAME, MEMORY_POLICY, MICROSECONDS, NAMES, NODES, NOT, NUMBER,
    NUMBERS, PERCENT, PERCENTILES, RANGES, READ_WRITE, REST, SECONDS, SHARES, SIZE, SIZE_OR_RANGE,
    SIZE_OR_SHARE, SIZES, SPLITS, TEXT, TIME_OR_RANGE, WordSet as _, set,
};
use super::{Class, OptionRow};

/// `field: type = "name" | "alias" of ENGINES: READER, "meaning", but "limit";`, with further
/// options of the same field after `or`; the limit names the part that is refused.
macro_rules! honoured {
    ($($(#[$doc:meta])* $group:ident: $Options:ident {$(
        $field:ident: $type:ty = $(
            $name:literal $(| $alias:literal)? $(of $engines:ident)?: $reader:expr, $meaning:literal
            $(, but $limit:literal)?
        )or+;
    )+})+) => {
        /// What a job does, by theme.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct JobOptions {$(
            $(#[$doc])*
            pub $group: $Options,
        )+}

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Default)]
            pub struct $Options {$(
                #[doc = concat!($("`", $name, "`: ", $meaning, ". "),+)]
                pub $field: $type,
            )+}
        )+

        pub(super) const ROWS: &[OptionRow] = &[$($($(OptionRow {
            name: $name,
            alias: [$(Some($alias),)? None][0],
            kind: $reader.kind,
            meaning: $meaning,
            class: Class::Honoured(|job, written| set(&mut job.$group.$field, &$reader, written)),
            limit: [$(Some($limit),)? None][0],
            engines: [$($engines,)? &[]][0],
        },)+)+)+];
    };
}

const URING: &[&str] = &["io_uring", "io_uring_cmd"];

honoured! {
    /// What the job is called, and how many of it run.
    name: NameOptions {
        name: GivenOption<String> = "name": TEXT, "the job's name, instead of its section's; one in `[global]` names no job";
        description: GivenOption<String> = "description": TEXT, "text about the job";
        copies: GivenOption<u32> = "numjobs": COUNT, "copies of the job that run at the same time";
        kb_base: GivenOption<u64> =
            "kb_base": KB_BASE, "whether k in sizes is 1024 or 1000; kib is the other";
    }
    /// Where the accesses go.
    target: TargetOptions {
        // fio adds the names of a later line to those of earlier ones.
        filenames: GivenOption<Vec<String>> =
            "filename": ADDED_NAMES, "files or devices, separated by colons; a backslash escapes a colon";
        directories: GivenOption<Vec<String>> =
            "directory": NAMES, "directories of the files; copies of the job use them in turn";
        name_format: GivenOption<String> =
            "filename_format": ANY_TEXT, "how files without a filename are named";
        files: GivenOption<u32> = "nrfiles" | "nr_files": COUNT, "files per copy of the job, which share its size in whole blocks";
        open_files: GivenOption<u32> = "openfiles": NUMBER, "how many files are open at once",
            but "with io_size or number_ios, only if it equals the number of files";
        file_service: GivenOption<FileService> =
            "file_service_type": FILE_ORDER, "in which order files are used",
            but "zipf, pareto and normal are refused";
        file_bytes: GivenOption<(u64, u64)> =
            "filesize": SIZE_OR_RANGE, "size of each file, or the minimum and maximum",
            but "a range is refused";
        size: GivenOption<SizeValue> = "size": SIZE_OR_SHARE, "size of the region, over all files";
        io_size: GivenOption<SizeValue> = "io_size" | "io_limit": SIZE_OR_SHARE,
            "amount read and written, which may be more or less than size";
        accesses: GivenOption<u64> = "number_ios": SIZE, "the most accesses";
        offset: GivenOption<SizeValue> = "offset" | "fileoffset": SIZE_OR_SHARE, "where the region begins";
        offset_increment: GivenOption<SizeValue> =
            "offset_increment": SIZE_OR_SHARE, "added to the offset, multiplied by the number of the copy";
        offset_align_bytes: GivenOption<u64> =
            "offset_align": SIZE, "alignment of an offset given in percent";
        fallocate: GivenOption<Fallocate> =
            "fallocate": Fallocate::WORD, "how space is allocated for new files",
            but "keep and truncate are refused";
        overwrite: GivenOption<bool> = "overwrite": BOOL, "files are written in full before the job";
        create_on_open: GivenOption<bool> =
            "create_on_open": BOOL, "files are created when they are opened",
            but "refused if a job reads a file that does not exist";
        create_only: GivenOption<bool> = "create_only": BOOL, "files are laid out and nothing is measured";
        allow_create: GivenOption<bool> = "allow_file_create": BOOL, "0 makes a missing file an error";
        unlink: GivenOption<bool> = "unlink": BOOL, "files are removed at the end, devices are not",
            but "refused for an existing file";
        invalidate: GivenOption<bool> =
            "invalidate": BOOL, "cached pages of the file are dropped before the job";
        advice: GivenOption<AdviceHint> =
            "fadvise_hint": AdviceHint::WORD, "access-order hint to the kernel (posix_fadvise)";
        direct: GivenOption<bool> = "direct": BOOL, "past the page cache (O_DIRECT)"
            or "buffered": NOT, "through the page cache; the reverse of direct";
    }
    /// Which accesses, and of which size.
    pattern: PatternOptions {
        access: GivenOption<ReadWrite> = "rw" | "readwrite": READ_WRITE,
            "read, write or mixed, sequential or random; :N for runs or holes",
            but "trim and negative steps are refused";
        sequencer: GivenOption<Sequencer> = "rw_sequencer": Sequencer::WORD, "what the number of rw means",
            but "identical is refused";
        // Two names of one number: the later line counts.
        read_percent: GivenOption<u8> = "rwmixread": PERCENT, "percent of mixed accesses that read"
            or "rwmixwrite": REST, "percent of mixed accesses that write";
        block_bytes: Each<u64> = "bs" | "blocksize": BLOCKS, "bytes of an access";
        align_bytes: Each<u64> = "ba" | "blockalign": SIZES, "alignment of random offsets";
        // fio draws least + most × u with u below 1, rounds down to a multiple of the least, and
        // caps at the most.
        block_range_bytes: Each<(u64, u64)> =
            "bsrange" | "blocksize_range": RANGES, "size of an access, minimum and maximum";
        block_split: Each<Vec<BlockSizeShare>> =
            "bssplit": SPLITS, "sizes of accesses with their shares: 4k/60:64k/40";
        block_unaligned: GivenOption<bool> =
            "bs_unaligned" | "blocksize_unaligned": FLAG, "sizes from a range need no alignment";
        random_percent: Each<u8> =
            "percentage_random": SHARES, "percent of accesses at random offsets; the others \
                                          continue, reads and writes separately";
        distribution: GivenOption<OffsetDistribution> =
            "random_distribution": DISTRIBUTION, "how random offsets are distributed",
            but "normal and sequence are refused";
        no_random_map: GivenOption<bool> =
            "norandommap": FLAG, "offsets may repeat before all have been used";
        generator: GivenOption<RandomGenerator> =
            "random_generator": RandomGenerator::WORD, "generator of offsets; lfsr gives each once";
    }
    /// How accesses are submitted, and how fast.
    queue: QueueOptions {
        engine: GivenOption<FioEngine> = "ioengine": ENGINE, "which system calls do the accesses",
            but "null is refused, as are engines that are not listed";
        depth: GivenOption<u32> = "iodepth": COUNT, "accesses in flight";
        submit_batch: GivenOption<u32> = "iodepth_batch" | "iodepth_batch_submit": NUMBER,
            "accesses submitted at once; 0 means the depth";
        complete_batch_min: GivenOption<u32> =
            "iodepth_batch_complete_min" | "iodepth_batch_complete": NUMBER,
            "completions to wait for at least",
            but "0 (polling) is refused; with a rate only 1";
        complete_batch_max: GivenOption<u32> =
            "iodepth_batch_complete_max": NUMBER, "completions to take at most";
        depth_low: GivenOption<u32> =
            "iodepth_low": NUMBER, "refill the queue when it has drained to this depth",
            but "with a rate only the depth";
        bytes_per_second: Each<u64> = "rate": SIZES, "bytes per second; of a mix, of both directions";
        accesses_per_second: Each<u64> = "rate_iops": NUMBERS, "accesses per second; of a mix, of both directions";
        think_us: GivenOption<u64> = "thinktime": MICROSECONDS, "the job pauses after accesses",
            but "refused with a rate";
        think_after: GivenOption<u32> = "thinktime_blocks": COUNT, "accesses between two pauses";
        rate_process: GivenOption<RateProcess> =
            "rate_process": RateProcess::WORD, "constant or Poisson arrivals for a rate";
        submit_mode: GivenOption<SubmitMode> =
            "io_submit_mode": SubmitMode::WORD, "whether separate threads submit";
        registered_buffers: GivenOption<bool> =
            "fixedbufs" of URING: FLAG, "buffers are registered with io_uring";
        registered_files: GivenOption<bool> =
            "registerfiles" of URING: FLAG, "files are registered with io_uring";
    }
    /// How writes are made durable.
    durability: DurabilityOptions {
        open: GivenOption<SyncOpen> = "sync": SyncOpen::WORD, "files are opened with O_SYNC or O_DSYNC";
        fsync_every: GivenOption<u32> = "fsync": NUMBER, "fsync every N writes; 0 for never";
        fdatasync_every: GivenOption<u32> = "fdatasync": NUMBER, "fdatasync every N writes; 0 for never";
        fsync_at_end: GivenOption<bool> = "end_fsync": BOOL, "fsync once when the job ends";
        fsync_on_close: GivenOption<bool> = "fsync_on_close": BOOL, "fsync at each file's close";
    }
    /// How long, and when.
    timing: TimingOptions {
        runtime_us: GivenOption<u64> = "runtime" | "timeout": SECONDS, "time limit; 0 for none";
        time_based: GivenOption<bool> = "time_based": FLAG, "the job starts over until its runtime is over";
        ramp_us: GivenOption<u64> = "ramp_time": SECONDS, "warm-up before the measurement";
        start_delay_us: GivenOption<(u64, u64)> =
            "startdelay": TIME_OR_RANGE, "delay from fio's own start, or a range to draw it from",
            but "refused where jobs of a group differ; a range needs a group of one job";
        loops: GivenOption<u32> = "loops": COUNT, "repetitions of the job";
        stonewall: GivenOption<bool> =
            "stonewall" | "wait_for_previous": FLAG, "the job waits for all before it";
        wait_for: GivenOption<String> = "wait_for": TEXT, "the job waits for the job of this name";
        new_group: GivenOption<bool> = "new_group": FLAG, "starts a new reporting group";
        // fio takes it for all jobs if it stands anywhere, whatever its value.
        exit_all: GivenOption<bool> = "exitall": FLAG, "the first job to end also ends the others";
        exit_scope: GivenOption<ExitScope> = "exit_what": ExitScope::WORD,
            "which jobs exitall ends: the group, those running, or all",
            but "refused unless it is all jobs that run";
    }
    /// On which CPUs and memory.
    placement: PlacementOptions {
        thread: GivenOption<bool> = "thread": FLAG, "copies are threads and not processes";
        cpus: GivenOption<Vec<u32>> = "cpus_allowed": CPUS, "the CPUs on which the job runs",
                but "several are refused without cpus_allowed_policy=split"
            or "cpumask": CPU_MASK, "the CPUs on which the job runs, as bits",
                but "several are refused without cpus_allowed_policy=split";
        cpu_policy: GivenOption<CpuPolicy> =
            "cpus_allowed_policy": CpuPolicy::WORD, "whether each copy gets a separate CPU";
        cpu_nodes: GivenOption<Vec<u32>> = "numa_cpu_nodes": NODES, "the NUMA nodes whose CPUs are used",
            but "several nodes are refused";
        memory: GivenOption<MemoryPolicy> = "numa_mem_policy": MEMORY_POLICY, "where memory comes from",
            but "only the node of numa_cpu_nodes, or the default";
    }
    /// The data of writes.
    data: DataOptions {
        compressible_percent: GivenOption<u8> =
            "buffer_compress_percentage": PERCENT, "percent by which writes can be compressed";
        compress_chunk_bytes: GivenOption<u64> =
            "buffer_compress_chunk": SIZE, "block size over which that percentage holds",
            but "the share holds in each 4096 bytes; another size is noted";
        refill: GivenOption<bool> = "refill_buffers": FLAG, "new contents for every write";
        zeros: GivenOption<bool> = "zero_buffers": FLAG, "zeros are written";
        scramble: GivenOption<bool> =
            "scramble_buffers": BOOL, "buffers are changed a little for every write";
        duplicate_percent: GivenOption<u8> =
            "dedupe_percentage": PERCENT, "percent of writes that repeat an earlier one";
        pattern: GivenOption<Vec<u8>> =
            "buffer_pattern": BYTE_PATTERN, "bytes repeated to fill every write";
    }
    /// The output and the logs.
    output: OutputOptions {
        group_reporting: GivenOption<bool> =
            "group_reporting": FLAG, "the jobs of a reporting group are one row";
        disk_util: GivenOption<bool> = "disk_util": BOOL, "the counters of block devices are shown";
        completion_percentiles: GivenOption<bool> =
            "clat_percentiles": BOOL, "percentiles of the completion latency are shown";
        total_percentiles: GivenOption<bool> =
            "lat_percentiles": BOOL, "percentiles of the total latency are shown";
        submit_percentiles: GivenOption<bool> =
            "slat_percentiles": BOOL, "percentiles of the submit latency are shown";
        percentiles: GivenOption<Vec<f64>> = "percentile_list": PERCENTILES, "which percentiles are shown";
        bandwidth_log: GivenOption<String> =
            "write_bw_log": LOG_NAME, "a log of KiB/s; its name, or else the job's";
        latency_log: GivenOption<String> = "write_lat_log": LOG_NAME, "a log of latencies, in the same way";
        rate_log: GivenOption<String> =
            "write_iops_log": LOG_NAME, "a log of accesses per second, in the same way";
        log_average_ms: GivenOption<u32> =
            "log_avg_msec": NUMBER, "milliseconds averaged into one line of a log";
        per_job_logs: GivenOption<bool> = "per_job_logs": BOOL, "each copy has separate log files";
    }
}
