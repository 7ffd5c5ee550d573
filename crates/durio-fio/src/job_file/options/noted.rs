//! Options with which what is measured stays the same: taken with a note.

use super::{noted, rows};

const OUTPUT: &str = "it changes only what fio prints or how it measures itself";
const SEED: &str = "durio draws its own numbers; every run has its seed in the record, and --seed \
                    repeats it";
const ACT: &str = "fio takes it only for its profile act, and ignores it otherwise";
const TIOBENCH: &str = "fio takes it only for its profile tiobench, and ignores it otherwise";

rows! {
    noted(OUTPUT), [] => {
        "stats": Bool, "whether the job is in the results";
        "write_hist_log": Text, "a log of latency histograms";
        "log_entries": Integer, "log entries to allocate memory for";
        "log_hist_msec": Integer, "milliseconds covered by one logged histogram";
        "log_hist_coarseness": Integer, "how coarse the bins of logged histograms are";
        "log_window_value" | "log_max_value": Choice(&["avg", "max", "both", "0", "1"]),
            "average, maximum, or both in a line of a log";
        "log_offset": Bool, "lines of logs have the offset";
        "log_prio": Bool, "lines of logs have the priority";
        "log_issue_time": Bool, "lines of logs have the time of submission";
        "log_compression": Integer, "size from which logs in memory are compressed";
        "log_compression_cpus": Text, "the CPUs that compress logs";
        "log_store_compressed": Bool, "logs are stored compressed";
        "log_alternate_epoch" | "log_unix_epoch": Bool, "log times use another clock's epoch";
        "log_alternate_epoch_clock_id": Integer, "which clock that is";
        "job_start_clock_id": Integer, "clock for the start time of a job";
        "block_error_percentiles": Bool, "percentiles of the errors of trimmed blocks";
        "bwavgtime": Integer, "milliseconds over which bandwidth is averaged";
        "iopsavgtime": Integer, "milliseconds over which rates are averaged";
        "significant_figures": Integer, "digits of numbers for people";
        "gtod_reduce": Bool, "the clock is read less often";
        "gtod_cpu": Integer, "a CPU dedicated to reading the clock";
        "disable_lat": Bool, "total latency is not measured";
        "disable_clat": Bool, "completion latency is not measured";
        "disable_slat": Bool, "submit latency is not measured";
        "disable_bw_measurement" | "disable_bw": Bool, "bandwidth is not measured";
        "unified_rw_reporting": Choice(&["none", "mixed", "both", "0", "1", "2"]),
            "reads and writes have one row";
        "unit_base": Choice(&["0", "8", "1"]), "rates in bytes or in bits";
        "clocksource": Choice(&["gettimeofday", "clock_gettime", "cpu"]), "fio's clock";
        "error_dump": Bool, "errors are printed";
        "comm": Text, "the name of the job's process";
    }
    noted(SEED), [] => {
        "randrepeat" | "allrandrepeat": Bool, "every run has the same offsets";
        "randseed": Size, "the seed of offsets";
    }
    noted("durio's map may be as large as it has to be"), [] => {
        "softrandommap": Bool, "as norandommap if there is no memory for the map";
    }
    noted("the first error always ends a run of durio"), [] => {
        "exitall_on_error": Flag, "an error ends all jobs of the scope";
    }
    noted("durio syncs every file that it lays out"), [] => {
        "create_fsync": Bool, unless "1", "fsync after files are laid out";
    }
    noted(
        "durio submits by calls, without a thread of the kernel that polls for them: the storage is \
         asked for the same, and each submission costs the job a call"
    ), ["io_uring", "io_uring_cmd", "xnvme"] => {
        "sqthread_poll": Flag, unless "0", "a thread of the kernel polls for submissions";
    }
    noted("durio has no such thread to bind"), ["io_uring", "io_uring_cmd"] => {
        "sqthread_poll_cpu": Integer, "the CPU of that thread";
    }
    noted(ACT), [] => {
        "device-names": Text, "the devices";
        "load": Integer, "the load factor";
        "test-duration": Seconds, "how long the test takes";
        "threads-per-queue": Integer, "threads per device";
        "read-req-num-512-blocks": Integer, "sectors of a read";
        "large-block-op-kbytes": Integer, "KiB of a large access";
        "prep": Flag, "the device is written full first";
    }
    noted(TIOBENCH), [] => {
        "block": Size, "bytes of an access";
        "numruns": Integer, "how often it runs";
        "dir": Text, "the directory of its files";
        "threads": Integer, "how many threads run";
    }
}
