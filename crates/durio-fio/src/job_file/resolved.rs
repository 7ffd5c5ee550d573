//! Jobs as they came out of a job file: typed options, each with its place.
//!
//! In: nothing. Out: the types that [`super::resolve()`] fills. `None` everywhere means that the job
//! file says nothing, and fio's default counts. Not here: defaults, and what durio does.

mod terms;

pub use terms::{
    AccessPattern, BlockSizeShare, CpuPolicy, Direction, Distribution, Engine, ExitScope,
    Fallocate, FileService, FileServiceOrder, MemoryPolicy, PerDirection, RandomGenerator,
    RateProcess, ReadWrite, Sequencer, SizeValue, SyncOpen, ZoneShare,
};

use super::Place;

/// A value and where it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given<T> {
    /// What was given.
    pub value: T,
    /// Where.
    pub at: Place,
}

/// Something said about an option that is ignored, with no effect on what is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The option.
    pub option: String,
    /// Its value as written.
    pub value: Option<String>,
    /// Where it stands.
    pub at: Place,
    /// Why it has no effect.
    pub what: String,
}

/// An option that changes what is done and cannot be honoured: it stops the import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The option.
    pub option: String,
    /// Its value as written.
    pub value: Option<String>,
    /// Where it stands.
    pub at: Place,
    /// Why, and what to do: a sentence without its end.
    pub reason: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { option, value, at, reason } = self;
        match value {
            Some(value) => write!(f, "{at}: {option}={value}: {reason}"),
            None => write!(f, "{at}: {option}: {reason}"),
        }
    }
}

/// A job section with its options after all defaults before it.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedJob {
    /// `name=`, or else the section's name.
    pub name: String,
    /// The section's name, after which fio names files.
    pub section: String,
    /// Where the job begins.
    pub at: Place,
    /// Jobs of one group run at the same time; groups run one after another, from 0.
    pub group: u32,
    /// Which reporting group, for [`ExitScope::Group`]: it also begins with `new_group`, from 0.
    pub reporting_group: u32,
    /// How many copies run, from 1.
    pub copies: u32,
    /// What the job does.
    pub options: JobOptions,
    /// The options of its own section that have a value, by name, as fio lists them.
    pub listed: Vec<(String, String)>,
    /// Options without effect on what is done.
    pub notes: Vec<Note>,
    /// Options that cannot be honoured; the job must not run if there is one.
    pub refusals: Vec<Refusal>,
}

/// What a job does, by theme.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobOptions {
    /// Text about the job (`description`).
    pub description: Option<Given<String>>,
    /// Where the accesses go.
    pub target: TargetOptions,
    /// Which accesses.
    pub pattern: PatternOptions,
    /// How they are submitted, and how fast.
    pub queue: QueueOptions,
    /// How writes are made durable.
    pub durability: DurabilityOptions,
    /// How long, and when.
    pub timing: TimingOptions,
    /// On which CPUs and memory.
    pub placement: PlacementOptions,
    /// What is written.
    pub data: DataOptions,
    /// What is printed and logged.
    pub output: OutputOptions,
}

/// Where the accesses go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetOptions {
    /// `filename`: files or devices, with `\:` already a colon.
    pub filenames: Option<Given<Vec<String>>>,
    /// `directory`: copies of the job take turns.
    pub directories: Option<Given<Vec<String>>>,
    /// `filename_format`: how files are named that have no `filename`.
    pub name_format: Option<Given<String>>,
    /// `nrfiles`: files per copy of the job.
    pub files: Option<Given<u32>>,
    /// `openfiles`: how many of them are open at once.
    pub open_files: Option<Given<u32>>,
    /// `file_service_type`: in which order files are used.
    pub file_service: Option<Given<FileService>>,
    /// `filesize`: bytes of each file, least and most.
    pub file_bytes: Option<Given<(u64, u64)>>,
    /// `size`: of the region, over all files.
    pub size: Option<Given<SizeValue>>,
    /// `io_size`: how much is read and written, which may be more or less than `size`.
    pub io_size: Option<Given<SizeValue>>,
    /// `number_ios`: the most accesses.
    pub accesses: Option<Given<u64>>,
    /// `offset`: where the region begins.
    pub offset: Option<Given<SizeValue>>,
    /// `offset_increment`: added to the offset, times the number of the copy.
    pub offset_increment: Option<Given<SizeValue>>,
    /// `offset_align`: bytes, for an offset in percent.
    pub offset_align_bytes: Option<Given<u64>>,
    /// `fallocate`: how files are laid out.
    pub fallocate: Option<Given<Fallocate>>,
    /// `overwrite`: files are written in full before they are measured.
    pub overwrite: Option<Given<bool>>,
    /// `file_append`: accesses begin at the end of the file.
    pub append: Option<Given<bool>>,
    /// `create_on_open`: files are not laid out before.
    pub create_on_open: Option<Given<bool>>,
    /// `create_only`: files are laid out, and nothing else is done.
    pub create_only: Option<Given<bool>>,
    /// `allow_file_create`: 0 makes a missing file an error.
    pub allow_create: Option<Given<bool>>,
    /// `unlink`: files are removed at the end.
    pub unlink: Option<Given<bool>>,
    /// `invalidate`: the file's page cache is dropped before.
    pub invalidate: Option<Given<bool>>,
    /// `pre_read`: the file is read into the page cache before.
    pub pre_read: Option<Given<bool>>,
    /// `direct`, or `buffered` reversed: past the page cache.
    pub direct: Option<Given<bool>>,
}

/// Which accesses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PatternOptions {
    /// `rw`: reads, writes, order.
    pub access: Option<Given<ReadWrite>>,
    /// `rw_sequencer`: what the number of `rw` means.
    pub sequencer: Option<Given<Sequencer>>,
    /// `rwmixread`, or `rwmixwrite` from 100: percent of accesses that read.
    pub read_percent: Option<Given<u8>>,
    /// `bs`: bytes of an access. Has no effect on a direction with a range or a split.
    pub block_bytes: PerDirection<Option<Given<u64>>>,
    /// `blockalign`: bytes that offsets are multiples of.
    pub align_bytes: PerDirection<Option<Given<u64>>>,
    /// `bsrange`: bytes of an access, least and most. fio draws least + most × u with u below 1,
    /// rounds down to a multiple of the least, and takes the most for what lies above it.
    pub block_range_bytes: PerDirection<Option<Given<(u64, u64)>>>,
    /// `bssplit`: bytes of accesses with their shares, which add up to 100 percent.
    pub block_split: PerDirection<Option<Given<Vec<BlockSizeShare>>>>,
    /// `bs_unaligned`: sizes of a range are any number of bytes.
    pub block_unaligned: Option<Given<bool>>,
    /// `bs_is_seq_rand`: the sizes for reads and writes count for sequential and random accesses.
    pub block_is_by_order: Option<Given<bool>>,
    /// `percentage_random`: percent of accesses at random offsets.
    pub random_percent: PerDirection<Option<Given<u8>>>,
    /// `random_distribution`.
    pub distribution: Option<Given<Distribution>>,
    /// `norandommap`: offsets may repeat before all were touched.
    pub no_random_map: Option<Given<bool>>,
    /// `softrandommap`: as `norandommap` if there is no memory for the map.
    pub soft_random_map: Option<Given<bool>>,
    /// `random_generator`.
    pub generator: Option<Given<RandomGenerator>>,
    /// `randrepeat`: every run has the same offsets.
    pub repeatable: Option<Given<bool>>,
    /// `randseed`.
    pub seed: Option<Given<u64>>,
}

/// How accesses are submitted, and how fast.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueOptions {
    /// `ioengine`; fio's default is psync.
    pub engine: Option<Given<Engine>>,
    /// `iodepth`, from 1.
    pub depth: Option<Given<u32>>,
    /// `iodepth_batch`: how many are submitted at once; 0 is as many as the depth.
    pub submit_batch: Option<Given<u32>>,
    /// `iodepth_batch_complete_min`: how many are waited for at least.
    pub complete_batch_min: Option<Given<u32>>,
    /// `iodepth_batch_complete_max`: how many are taken at most.
    pub complete_batch_max: Option<Given<u32>>,
    /// `iodepth_low`: the queue is refilled when it has fallen to this.
    pub depth_low: Option<Given<u32>>,
    /// `rate`: bytes per second.
    pub bytes_per_second: PerDirection<Option<Given<u64>>>,
    /// `rate_iops`: accesses per second.
    pub accesses_per_second: PerDirection<Option<Given<u32>>>,
    /// `rate_process`: when the accesses of a rate are due.
    pub rate_process: Option<Given<RateProcess>>,
    /// `io_submit_mode=offload`: threads of their own submit.
    pub offloads: Option<Given<bool>>,
    /// `hipri`: completions are polled for.
    pub polled: Option<Given<bool>>,
    /// `fixedbufs` of io_uring.
    pub registered_buffers: Option<Given<bool>>,
    /// `registerfiles` of io_uring.
    pub registered_files: Option<Given<bool>>,
    /// `sqthread_poll` of io_uring: the kernel polls for submissions.
    pub submission_thread: Option<Given<bool>>,
    /// `sqthread_poll_cpu`: on which CPU.
    pub submission_thread_cpu: Option<Given<u32>>,
}

/// How writes are made durable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DurabilityOptions {
    /// `sync`: how files are opened.
    pub open: Option<Given<SyncOpen>>,
    /// `fsync`: after so many writes; 0 is never.
    pub fsync_every: Option<Given<u32>>,
    /// `fdatasync`: after so many writes; 0 is never.
    pub fdatasync_every: Option<Given<u32>>,
    /// `end_fsync`: once when the job ends.
    pub fsync_at_end: Option<Given<bool>>,
    /// `fsync_on_close`: at each file's close.
    pub fsync_on_close: Option<Given<bool>>,
    /// `create_fsync`: after files are laid out.
    pub fsync_after_layout: Option<Given<bool>>,
}

/// How long, and when.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimingOptions {
    /// `runtime` in microseconds; 0 is no limit.
    pub runtime_us: Option<Given<u64>>,
    /// `time_based`: the job starts over until its runtime is over.
    pub time_based: Option<Given<bool>>,
    /// `ramp_time` in microseconds, before the runtime.
    pub ramp_us: Option<Given<u64>>,
    /// `startdelay` in microseconds since fio's own start: least and most.
    pub start_delay_us: Option<Given<(u64, u64)>>,
    /// `loops`, from 1.
    pub loops: Option<Given<u32>>,
    /// `exitall`: when one job ends, so do those of the scope. fio takes it for all jobs if it
    /// stands anywhere.
    pub exit_all: Option<Given<bool>>,
    /// `exitall_on_error`.
    pub exit_all_on_error: Option<Given<bool>>,
    /// `exit_what`: the scope of both.
    pub exit_scope: Option<Given<ExitScope>>,
}

/// On which CPUs and memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementOptions {
    /// `thread`: copies are threads and not processes.
    pub thread: Option<Given<bool>>,
    /// `cpus_allowed` or `cpumask`.
    pub cpus: Option<Given<Vec<u32>>>,
    /// `cpus_allowed_policy`.
    pub cpu_policy: Option<Given<CpuPolicy>>,
    /// `numa_cpu_nodes`.
    pub cpu_nodes: Option<Given<Vec<u32>>>,
    /// `numa_mem_policy`.
    pub memory: Option<Given<MemoryPolicy>>,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DataOptions {
    /// `buffer_compress_percentage`.
    pub compressible_percent: Option<Given<u8>>,
    /// `buffer_compress_chunk`: bytes in which that share is kept.
    pub compress_chunk_bytes: Option<Given<u64>>,
    /// `refill_buffers`: new contents for every write.
    pub refill: Option<Given<bool>>,
    /// `zero_buffers`.
    pub zeros: Option<Given<bool>>,
    /// `scramble_buffers`: contents are changed a little for every write.
    pub scramble: Option<Given<bool>>,
    /// `dedupe_percentage`: writes that repeat an earlier one.
    pub duplicate_percent: Option<Given<u8>>,
    /// `buffer_pattern`: bytes that are written over and over.
    pub pattern: Option<Given<Vec<u8>>>,
}

/// What is printed and logged of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutputOptions {
    /// `group_reporting`: the jobs of a reporting group are one row.
    pub group_reporting: Option<Given<bool>>,
    /// `disk_util`: the counters of block devices are shown.
    pub disk_util: Option<Given<bool>>,
    /// `clat_percentiles`, `lat_percentiles`, `slat_percentiles`.
    pub completion_percentiles: Option<Given<bool>>,
    /// See there.
    pub total_percentiles: Option<Given<bool>>,
    /// See there.
    pub submit_percentiles: Option<Given<bool>>,
    /// `percentile_list`, ascending.
    pub percentiles: Option<Given<Vec<f64>>>,
    /// `write_bw_log`: what the names of the log's files begin with; "" is the job's name.
    pub bandwidth_log: Option<Given<String>>,
    /// `write_lat_log`, in the same way.
    pub latency_log: Option<Given<String>>,
    /// `write_iops_log`, in the same way.
    pub rate_log: Option<Given<String>>,
    /// `log_avg_msec`: milliseconds that a line of a log is about; 0 is a line per I/O.
    pub log_average_ms: Option<Given<u32>>,
    /// `per_job_logs`: each copy has files of its own.
    pub per_job_logs: Option<Given<bool>>,
}
