//! Each option that docs/fio-options.md calls honoured is given a value that is not its default, and
//! does what it does in fio: seen by strace beside fio, or, where no system call shows it, in the
//! plan. An option that is read and then ignored fails here.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use durio_fio::job_file::{Class, option_rows};
use serde_json::{Value, json};

use crate::fio_trace::Fact::{
    self, AccessSet, Accesses, Advice, Allocations, Calls, Contents, Drops, Left, Mappings,
    OpenFlags, Submissions, Syncs,
};
use crate::fio_trace::{Traced, job, with_files};
use crate::requirements::has;
use crate::sandbox::Sandbox;

/// How it is seen that an option is honoured.
enum See {
    /// Of the system calls, this is the same.
    Same(&'static [Fact]),
    /// The plan has this value at this place, and without the option it has another.
    Plan(&'static str, fn() -> Value),
    /// The plan differs in this place from that without the option.
    PlanChanges(&'static str),
    /// In `--output-format=json` this place has other texts, keys or lengths than without the option.
    Output(&'static str),
    /// durio refuses the job: as fio does, or as docs/fio-options.md says of the option.
    Refused,
    /// Files are written whose names begin so.
    Log(&'static str),
    /// Nothing can be seen: why.
    Nothing(&'static str),
}

use See::{Log, Nothing, Output, Plan, PlanChanges, Refused, Same};

/// Options, the lines of a job that has them, and what must be the same.
struct Row {
    options: &'static [&'static str],
    lines: &'static str,
    see: See,
}

const fn row(options: &'static [&'static str], lines: &'static str, see: See) -> Row {
    Row { options, lines, see }
}

// Two files of 64 blocks of 4 KiB are at `data/f` and `data/g`.
const ROWS: &[Row] = &[
    row(&["filename", "size"], "filename=data/g\nrw=read\nsize=128k", Same(&[Accesses])),
    row(
        &["directory", "nrfiles"],
        "directory=data\nrw=read\nsize=256k\nnrfiles=4",
        Same(&[Accesses]),
    ),
    row(
        &["openfiles"],
        "directory=data\nrw=read\nbs=64k\nsize=1m\nnrfiles=4\nopenfiles=1",
        Same(&[Accesses]),
    ),
    row(
        &["openfiles"],
        "directory=data\nrw=read\nbs=16k\nsize=320k\nnrfiles=5\nopenfiles=2",
        Same(&[Accesses]),
    ),
    row(
        &["file_service_type"],
        "directory=data\nrw=read\nbs=16k\nsize=320k\nnrfiles=5\nfile_service_type=sequential",
        Same(&[Accesses]),
    ),
    row(
        &["file_service_type"],
        "directory=data\nrw=read\nbs=16k\nsize=256k\nnrfiles=4\nfile_service_type=roundrobin:3",
        Same(&[Accesses]),
    ),
    row(
        &["file_service_type"],
        "directory=data\nrw=read\nbs=16k\nsize=256k\nnrfiles=4\nfile_service_type=random:2",
        Same(&[AccessSet]),
    ),
    row(
        &["file_service_type"],
        "directory=data\nrw=read\nbs=16k\nsize=256k\nnrfiles=4\nfile_service_type=random:2",
        Plan("/steps/0/file_order", || json!({"choice": "random", "run": 2, "open_max": 0})),
    ),
    row(&["io_size"], "filename=data/f\nrw=read\nsize=64k\nio_size=160k", Same(&[Accesses])),
    row(&["size"], "filename=data/f\nrw=read\nsize=33000", Same(&[Accesses])),
    row(&["size", "offset"], "filename=data/f\nrw=write\nsize=33000\noffset=8k", Same(&[Accesses])),
    row(&["size", "loops"], "filename=data/f\nrw=read\nsize=33000\nloops=2", Same(&[Accesses])),
    row(&["size", "loops"], "filename=data/f\nrw=read\nsize=33000\nloops=5", Same(&[Accesses])),
    row(&["size"], "filename=data/f\nrw=randread\nsize=33000", Same(&[AccessSet])),
    row(&["size"], "filename=data/f:data/g\nrw=read\nsize=100k\noffset=8k", Same(&[Accesses])),
    row(&["size"], "filename=data/g:data/f\nrw=write\nsize=90001", Same(&[Accesses])),
    row(
        &["size"],
        "filename=data/f:data/g\nrw=read\nioengine=libaio\ndirect=1\niodepth=6\nsize=60k\nbs=8k",
        Same(&[AccessSet]),
    ),
    row(&["number_ios"], "filename=data/f\nrw=read\nnumber_ios=10", Same(&[Accesses])),
    row(&["offset"], "filename=data/f\nrw=read\noffset=64k", Same(&[Accesses])),
    row(
        &["offset_increment", "numjobs"],
        "filename=data/f\nrw=read\nsize=32k\noffset_increment=64k\nnumjobs=3",
        Same(&[AccessSet]),
    ),
    row(
        &["offset_align"],
        "filename=data/f\nrw=read\noffset=33%\noffset_align=16k",
        Same(&[Accesses]),
    ),
    row(&["fadvise_hint"], "filename=data/f\nrw=randread", Same(&[Advice])),
    row(&["fadvise_hint"], "filename=data/f\nrw=read", Same(&[Advice])),
    row(&["fadvise_hint"], "filename=data/f\nrw=randread\nfadvise_hint=0", Same(&[Advice])),
    row(
        &["fadvise_hint"],
        "filename=data/f\nrw=randread\nfadvise_hint=sequential",
        Same(&[Advice]),
    ),
    row(&["fadvise_hint"], "filename=data/f\nrw=read\nfadvise_hint=random", Same(&[Advice])),
    row(&["invalidate"], "filename=data/f\nrw=read\ninvalidate=0", Same(&[Drops])),
    row(
        &["invalidate"],
        "filename=data/f\nrw=read\nsize=32k\nloops=3\ninvalidate=1",
        Same(&[Drops, Accesses]),
    ),
    row(
        &["invalidate"],
        "filename=data/f:data/g\nrw=read\nbs=16k\nsize=128k\nloops=3\ninvalidate=1",
        Same(&[Drops, Accesses]),
    ),
    row(
        &["invalidate"],
        "filename=data/f:data/g\nrw=randread\nsize=96k\nfile_service_type=roundrobin:5\nloops=2\n\
         invalidate=1",
        Same(&[Drops, AccessSet]),
    ),
    row(&["direct"], "filename=data/f\nrw=read\ndirect=1", Same(&[OpenFlags, Accesses])),
    row(&["buffered"], "filename=data/f\nrw=read\nbuffered=0", Same(&[OpenFlags])),
    row(&["rw"], "filename=data/f\nrw=write", Same(&[Accesses])),
    row(&["rw"], "filename=data/f\nrw=randread", Same(&[AccessSet])),
    row(&["rw"], "filename=data/f\nrw=read:8k\nsize=128k", Same(&[Accesses])),
    row(&["bs"], "filename=data/f\nrw=read\nbs=16k", Same(&[Accesses])),
    row(
        &["iodepth", "iodepth_batch"],
        "filename=data/f\nrw=read\nioengine=libaio\ndirect=1\niodepth=16\niodepth_batch=4",
        Same(&[AccessSet]),
    ),
    row(
        &["iodepth_batch", "iodepth_batch_complete_min", "iodepth_batch_complete_max"],
        "filename=data/f\nrw=randread\nioengine=libaio\ndirect=1\niodepth=32\niodepth_batch=32\n\
         iodepth_batch_complete_min=32\niodepth_batch_complete_max=32",
        Same(&[Submissions, AccessSet]),
    ),
    row(
        &["iodepth_batch_complete_min"],
        "filename=data/f\nrw=randread\nioengine=libaio\ndirect=1\niodepth=8\niodepth_batch=2\n\
         iodepth_batch_complete_min=8",
        Same(&[Submissions, AccessSet]),
    ),
    row(
        &["iodepth_low"],
        "filename=data/f\nrw=read\nioengine=libaio\ndirect=1\niodepth=16\niodepth_batch=8\n\
         iodepth_batch_complete_min=1\niodepth_batch_complete_max=1\niodepth_low=8",
        Same(&[Submissions, AccessSet]),
    ),
    row(
        &["iodepth_batch_complete_max"],
        "filename=data/f\nrw=read\nioengine=libaio\ndirect=1\niodepth=16\niodepth_batch=4\n\
         iodepth_batch_complete_min=8\niodepth_batch_complete_max=16",
        Same(&[AccessSet]),
    ),
    row(
        &["iodepth_batch_complete_max"],
        "filename=data/f\nrw=read\nioengine=libaio\niodepth=16\niodepth_batch=4\n\
         iodepth_batch_complete_min=8\niodepth_batch_complete_max=12",
        Plan("/steps/0/drain", || json!({"take_min": 8, "take_max": 12, "refill_at": 16})),
    ),
    row(
        &["thinktime"],
        "filename=data/f\nrw=read\nioengine=libaio\ndirect=1\niodepth=16\niodepth_batch=4\n\
         thinktime=2ms\nthinktime_blocks=25",
        Same(&[Submissions, AccessSet]),
    ),
    row(
        &["thinktime_blocks"],
        "filename=data/f\nrw=read\nioengine=libaio\niodepth=16\niodepth_batch=4\nthinktime=2ms\n\
         thinktime_blocks=24",
        Plan("/steps/0/drain/think", || json!({"length_ns": 2_000_000, "after": 24})),
    ),
    row(&["ioengine"], "filename=data/f\nrw=read\nioengine=libaio", Same(&[Calls])),
    row(&["ioengine"], "filename=data/f\nrw=read\nioengine=mmap", Same(&[Mappings])),
    row(&["sync"], "filename=data/f\nrw=write\nsync=dsync", Same(&[OpenFlags])),
    row(&["sync"], "filename=data/f\nrw=write\nsync=1", Same(&[OpenFlags])),
    row(&["end_fsync"], "filename=data/f\nrw=write\nsize=32k\nend_fsync=1", Same(&[Syncs])),
    row(
        &["fsync_on_close"],
        "filename=data/f\nrw=write\nsize=32k\nfsync_on_close=1",
        Same(&[Syncs]),
    ),
    row(
        &["fsync"],
        "filename=data/f\nrw=write\nfsync=4",
        Plan("/steps/0/workload/sync", || json!({"method": "fsync", "every": 4})),
    ),
    row(
        &["fdatasync"],
        "filename=data/f\nrw=write\nfdatasync=4",
        Plan("/steps/0/workload/sync", || json!({"method": "fdatasync", "every": 4})),
    ),
    row(&["loops"], "filename=data/f\nrw=read\nsize=32k\nloops=3", Same(&[Accesses])),
    row(
        &["stonewall"],
        "filename=data/f\nrw=read\nsize=32k\n[b]\nstonewall\nfilename=data/g\nrw=read\nsize=32k",
        Same(&[Accesses]),
    ),
    row(
        &["wait_for"],
        "filename=data/f\nrw=read\nsize=32k\n[b]\nwait_for=a\nfilename=data/g\nrw=read\nsize=32k",
        Same(&[Accesses]),
    ),
    row(&["zero_buffers"], "filename=data/f\nrw=write\nzero_buffers", Same(&[Contents])),
    row(
        &["buffer_pattern"],
        "filename=data/f\nrw=write\nbuffer_pattern=0xdeadbeef",
        Same(&[Contents]),
    ),
    row(&["kb_base"], "filename=data/f\nrw=read\nkb_base=1000\nsize=36k\nbs=3k", Same(&[Accesses])),
    row(&["fallocate"], "directory=data\nrw=write\nsize=64k\nfallocate=none", Same(&[Allocations])),
    row(
        &["overwrite"],
        "directory=data\nrw=write\nsize=64k\noverwrite=1",
        Plan("/targets/0/layout", || json!("incompressible")),
    ),
    row(
        &["create_on_open"],
        "directory=data\nrw=write\nsize=64k\ncreate_on_open=1",
        Plan("/targets/0/layout", || json!("empty")),
    ),
    row(
        &["create_on_open"],
        "filename=data/f\nrw=read\nsize=64k\ncreate_on_open=1",
        Same(&[Accesses, Left]),
    ),
    row(&["name"], "name=other\nfilename=data/f\nrw=read", Output("/jobs/0/jobname")),
    row(&["description"], "description=words\nfilename=data/f\nrw=read", Output("/jobs/0/desc")),
    row(
        &["rwmixread"],
        "filename=data/f\nrw=randrw\nrwmixread=70",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["rwmixwrite"],
        "filename=data/f\nrw=randrw\nrwmixwrite=80",
        PlanChanges("/steps/0/workload"),
    ),
    row(&["rw_sequencer"], "filename=data/f\nrw=randread:8\nrw_sequencer=identical", Refused),
    row(
        &["bsrange"],
        "filename=data/f\nrw=randread\nbsrange=4k-16k",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["bssplit"],
        "filename=data/f\nrw=randread\nbssplit=4k/60:16k/40",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["random_distribution"],
        "filename=data/f\nrw=randread\nrandom_distribution=zipf:1.1",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["norandommap"],
        "filename=data/f\nrw=randread\nnorandommap",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["random_generator"],
        "filename=data/f\nrw=randread\nrandom_generator=lfsr",
        Same(&[AccessSet]),
    ),
    row(
        &["percentage_random"],
        "filename=data/f\nrw=randread\npercentage_random=50",
        PlanChanges("/steps/0/workload"),
    ),
    row(&["rate"], "filename=data/f\nrw=read\nrate=400k", PlanChanges("/steps/0/arrivals")),
    row(
        &["rate_iops"],
        "filename=data/f\nrw=read\nrate_iops=100",
        PlanChanges("/steps/0/arrivals"),
    ),
    row(
        &["rate_process"],
        "filename=data/f\nrw=read\nrate_iops=100\nrate_process=poisson",
        Plan("/steps/0/arrivals", || json!({"poisson": {"rate_per_second": 100.0}})),
    ),
    row(
        &["runtime", "time_based"],
        "filename=data/f\nrw=read\ntime_based\nruntime=3",
        PlanChanges("/steps/0/limit"),
    ),
    row(
        &["ramp_time"],
        "filename=data/f\nrw=read\nramp_time=2",
        Plan("/steps/0/ramp_ns", || json!(2_000_000_000)),
    ),
    row(
        &["startdelay"],
        "filename=data/f\nrw=read\nstartdelay=2",
        Plan("/steps/0/pause_before_ns", || json!(2_000_000_000)),
    ),
    row(
        &["startdelay"],
        "filename=data/f\nrw=read\nstartdelay=1:3",
        PlanChanges("/steps/0/pause_before_ns"),
    ),
    row(
        &["exitall", "exit_what"],
        "filename=data/f\nrw=read\nexitall\nexit_what=stonewall",
        PlanChanges("/steps/0/first_job_ends_all"),
    ),
    row(
        &["cpus_allowed"],
        "filename=data/f\nrw=read\ncpus_allowed=0",
        PlanChanges("/steps/0/placement"),
    ),
    row(&["cpumask"], "filename=data/f\nrw=read\ncpumask=1", PlanChanges("/steps/0/placement")),
    row(
        &["buffer_compress_percentage"],
        "filename=data/f\nrw=write\nrefill_buffers\nbuffer_compress_percentage=50",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["dedupe_percentage"],
        "filename=data/f\nrw=write\ndedupe_percentage=50",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["refill_buffers"],
        "filename=data/f\nrw=write\nrefill_buffers",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["lat_percentiles"],
        "filename=data/f\nrw=read\nlat_percentiles=1",
        Output("/jobs/0/read/lat_ns"),
    ),
    row(
        &["slat_percentiles"],
        "filename=data/f\nrw=read\nioengine=libaio\niodepth=4\nslat_percentiles=1",
        Output("/jobs/0/read/slat_ns"),
    ),
    row(
        &["clat_percentiles"],
        "filename=data/f\nrw=read\nclat_percentiles=0",
        Output("/jobs/0/read/clat_ns"),
    ),
    row(
        &["percentile_list"],
        "filename=data/f\nrw=read\npercentile_list=12.5",
        Output("/jobs/0/read/clat_ns/percentile"),
    ),
    row(&["write_bw_log"], "filename=data/f\nrw=read\nwrite_bw_log=mine", Log("mine_bw.1.log")),
    row(&["write_lat_log"], "filename=data/f\nrw=read\nwrite_lat_log=mine", Log("mine_lat.1.log")),
    row(
        &["write_iops_log"],
        "filename=data/f\nrw=read\nwrite_iops_log=mine",
        Log("mine_iops.1.log"),
    ),
    row(
        &["per_job_logs"],
        "filename=data/f\nrw=read\nper_job_logs=0\nwrite_bw_log=mine",
        Log("mine_bw.log"),
    ),
    row(
        &["log_avg_msec"],
        "filename=data/f\nrw=read\nwrite_bw_log=mine\nlog_avg_msec=250",
        Plan("/steps/0/interval_ns", || json!(250_000_000)),
    ),
    row(
        &["filename_format"],
        "rw=read\nsize=64k\nfilename_format=data/x.$jobnum",
        PlanChanges("/targets"),
    ),
    row(&["filesize"], "filename=data/f\nrw=read\nfilesize=128k", Same(&[Accesses])),
    row(
        &["create_only"],
        "filename=data/f\nrw=read\n[b]\nstonewall\nfilename=data/g\nrw=read\ncreate_only=1",
        PlanChanges("/steps"),
    ),
    row(&["allow_file_create"], "directory=data\nrw=read\nsize=64k\nallow_file_create=0", Refused),
    row(&["unlink"], "directory=data\nrw=write\nsize=64k\nunlink=1", Same(&[Left])),
    row(
        &["ba"],
        "filename=data/f\nrw=randread\nnorandommap\nba=8k",
        PlanChanges("/steps/0/workload"),
    ),
    row(
        &["bs_unaligned"],
        "filename=data/f\nrw=randread\nnorandommap\nbssplit=4k/50:6k/50\nbs_unaligned",
        PlanChanges("/steps"),
    ),
    row(
        &["io_submit_mode"],
        "",
        Nothing("durio needs no extra threads to keep a schedule, and says so"),
    ),
    row(&["fixedbufs", "registerfiles"], "", Nothing("durio registers both in any case")),
    row(
        &["group_reporting"],
        "filename=data/f\nrw=read\nnumjobs=2\ngroup_reporting",
        Output("/jobs"),
    ),
    row(
        &["new_group"],
        "filename=data/f\nrw=read\ngroup_reporting\n[b]\nfilename=data/g\nrw=read\n\
         group_reporting\nnew_group",
        Output("/jobs"),
    ),
    row(
        &["cpus_allowed_policy"],
        "filename=data/f\nrw=read\nnumjobs=2\ncpus_allowed=0,1\ncpus_allowed_policy=split",
        PlanChanges("/steps/0"),
    ),
    row(
        &["numa_cpu_nodes"],
        "filename=data/f\nrw=read\nnuma_cpu_nodes=0",
        PlanChanges("/steps/0/placement"),
    ),
    row(&["numa_mem_policy"], "", Nothing("memory comes from the node of the CPUs in any case")),
    row(
        &["buffer_compress_chunk"],
        "",
        Nothing("another size than durio's is noted, and the share of zeros is the same"),
    ),
    row(
        &["scramble_buffers"],
        "filename=data/f\nrw=write\nscramble_buffers=0",
        PlanChanges("/steps/0/workload"),
    ),
    row(&["disk_util"], "filename=data/f\nrw=read\ndisk_util=0", Output("/disk_util")),
    row(&["thread"], "", Nothing("durio's jobs are threads, fio's processes or threads")),
];

/// To overwrite the files, which a job that reads does not need.
fn permission(lines: &str) -> &'static [&'static str] {
    let writes =
        lines.contains("filename=data/f\nrw=write") || lines.contains("filename=data/f\nrw=randrw");
    let writes_both = lines.contains("filename=data/g:data/f\nrw=write");
    match (writes, writes_both) {
        (_, true) => &["--destroy", "data/f", "--destroy", "data/g"],
        (true, false) => &["--destroy", "data/f"],
        (false, false) => &[],
    }
}

fn plan(sandbox: &Sandbox, lines: &str) -> Option<Value> {
    let line = format!("fio --plan {}", permission(lines).join(" "));
    let ended = sandbox.durio(&line).word(job(sandbox, lines)).run();
    // Without the line that is looked at, a job may be one that is refused.
    (ended.code() == 0).then(|| ended.json())
}

/// The lines but for those with these options.
fn without(lines: &str, options: &[&str]) -> String {
    let has = |line: &&str| {
        let name = line.split('=').next().unwrap_or_default();
        !options.contains(&name)
    };
    lines.lines().filter(has).collect::<Vec<_>>().join("\n")
}

/// Texts, keys and lengths, without numbers, which are those of times.
fn outline(value: &Value) -> Value {
    match value {
        Value::Object(fields) => json!(fields.keys().collect::<BTreeSet<_>>()),
        Value::Array(entries) => json!(entries.len()),
        Value::Number(_) => json!("a number"),
        other => other.clone(),
    }
}

fn output(lines: &str, place: &str) -> Value {
    let mut sandbox = with_files();
    let line = format!("fio {} --output-format=json", permission(lines).join(" "));
    let document = sandbox.durio(&line).word(job(&sandbox, lines)).run().expect_exit(0).json();
    sandbox.accept_changes();
    document.pointer(place).map_or(Value::Null, outline)
}

fn check(row: &Row) {
    let Row { options, lines, see } = row;
    let shown = format!("{options:?}: {lines}");
    eprintln!("{shown}");
    match see {
        Same(facts) => {
            let fio = Traced::run(&["fio"], lines);
            let durio = env!("CARGO_BIN_EXE_durio");
            let words = [durio, "fio", "--quiet", "--out", "runs"]
                .into_iter()
                .chain(permission(lines).iter().copied());
            let durio = Traced::run(&words.collect::<Vec<_>>(), lines);
            for &fact in *facts {
                assert_eq!(durio.fact(fact), fio.fact(fact), "{shown}: {fact:?} (left is durio)");
            }
        }
        Plan(place, expected) => {
            let sandbox = with_files();
            let found = plan(&sandbox, lines).unwrap_or_else(|| panic!("{shown} is refused"));
            assert_eq!(found.pointer(place), Some(&expected()), "{shown}: {found:#}");
            let base = plan(&sandbox, &without(lines, options));
            let base = base.as_ref().and_then(|base| base.pointer(place));
            assert_ne!(base, Some(&expected()), "{shown}: so it is without the option");
        }
        PlanChanges(place) => {
            let sandbox = with_files();
            let found = plan(&sandbox, lines).unwrap_or_else(|| panic!("{shown} is refused"));
            let base = plan(&sandbox, &without(lines, options));
            let base = base.as_ref().and_then(|base| base.pointer(place));
            assert_ne!(found.pointer(place), base, "{shown} changes nothing");
        }
        Output(place) => {
            let base = output(&without(lines, options), place);
            assert_ne!(output(lines, place), base, "{shown} changes nothing");
        }
        Refused => {
            let sandbox = with_files();
            assert!(plan(&sandbox, lines).is_none(), "{shown} is taken");
            assert!(plan(&sandbox, &without(lines, options)).is_some(), "{shown}");
        }
        Log(name) => {
            let mut sandbox = with_files();
            sandbox.durio("fio").word(job(&sandbox, lines)).run().expect_exit(0);
            let path: &Path = &sandbox.root().join(name);
            assert!(fs::metadata(path).is_ok_and(|facts| facts.len() > 0), "{shown}: no {name}");
            sandbox.accept_changes();
        }
        Nothing(reason) => assert!(reason.len() > 20),
    }
}

/// The rows in parts, as tests run side by side.
fn check_part(part: usize) {
    let rows = ROWS.iter().skip(part).step_by(PARTS);
    let rows = rows.filter(|row| !matches!(row.see, Same(_)) || has(&["fio", "strace"]));
    // All of them, so that one failure hides no other.
    let failed: Vec<_> = rows.filter(|row| catch_unwind(|| check(row)).is_err()).collect();
    let failed: Vec<_> = failed.iter().map(|row| (row.options, row.lines)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

const PARTS: usize = 4;

#[test]
fn honoured_options_do_what_they_do_in_fio_1_of_4() {
    check_part(0);
}

#[test]
fn honoured_options_do_what_they_do_in_fio_2_of_4() {
    check_part(1);
}

#[test]
fn honoured_options_do_what_they_do_in_fio_3_of_4() {
    check_part(2);
}

#[test]
fn honoured_options_do_what_they_do_in_fio_4_of_4() {
    check_part(3);
}

#[test]
fn each_honoured_option_has_a_row() {
    let is_honoured = |class: &Class| matches!(class, Class::Honoured(_));
    let honoured: BTreeSet<_> =
        option_rows().filter(|row| is_honoured(&row.class)).map(|row| row.name).collect();
    let tried: BTreeSet<_> = ROWS.iter().flat_map(|row| row.options).copied().collect();
    assert_eq!(tried, honoured);
    for row in ROWS.iter().filter(|row| !row.lines.is_empty()) {
        for option in row.options {
            let names = |line: &str| line.split('=').next() == Some(option);
            let is_default = *option == "fadvise_hint";
            assert!(is_default || row.lines.lines().any(names), "{option}: {}", row.lines);
        }
    }
}
