//! Jobs that nobody wrote: a plan that is sound, or refusals, never a panic.

use std::sync::atomic::{AtomicU32, Ordering};

use durio_fio::import::{ImportSettings, import};
use durio_plan::ClockChoice;
use proptest::prelude::*;

use super::{MACHINE, locate};
use durio_fio::job_file::{HostParameters, JobSource, parse_job_file, resolve};

const OPTIONS: &[&str] = &[
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "blockalign",
    "size",
    "io_size",
    "filesize",
    "offset",
    "offset_increment",
    "offset_align",
    "numjobs",
    "loops",
    "runtime",
    "time_based",
    "ramp_time",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_max",
    "ioengine",
    "rate",
    "rate_iops",
    "rwmixread",
    "random_distribution",
    "norandommap",
    "direct",
    "sync",
    "fsync",
    "fdatasync",
    "filename",
    "directory",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "stonewall",
    "exitall",
    "number_ios",
    "zero_buffers",
    "buffer_compress_percentage",
    "percentage_random",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "100",
    "4k",
    "8k",
    "64k",
    "1m",
    "16e",
    "18446744073709551615",
    "16383p",
    "25%",
    "100%",
    "1%",
    "read",
    "write",
    "randread",
    "randwrite:8",
    "randrw",
    "read:4k",
    "zipf:1.2",
    "pareto:0.3",
    "zoned:50/5:30/15:20/80",
    "4k/50:8k/50",
    "1k-64k",
    "4096,8192",
    "new",
    "old",
    "/dev/a",
    "/dev/a:/dev/b",
    "/dev/zero",
    "dir",
    "libaio",
    "io_uring",
    "psync",
    "split",
    "0-3",
    "dsync",
    "1s",
    "1d",
    "500ms",
    "4000000000",
];

/// Lines that are right by themselves, if not together.
const LINES: &[&str] = &[
    "rw=randread",
    "rw=write",
    "rw=randwrite",
    "rw=randrw",
    "rw=read",
    "rw=read:4k",
    "rw=randread:8",
    "norandommap",
    "bs=8k",
    "bs=512",
    "bssplit=4k/50:8k/",
    "bsrange=4k-64k",
    "size=2m",
    "size=100k",
    "size=25%",
    "io_size=3m",
    "offset=64k",
    "offset_increment=256k",
    "offset_increment=10%",
    "numjobs=4",
    "numjobs=3",
    "loops=2",
    "runtime=2",
    "time_based",
    "ioengine=libaio",
    "ioengine=io_uring",
    "iodepth=16",
    "iodepth_batch=4",
    "direct=1",
    "fdatasync=1",
    "sync=dsync",
    "rate_iops=100",
    "rate=1m",
    "rate_process=poisson",
    "random_distribution=zipf:1.2",
    "filename=other-new",
    "filename=/dev/a",
    "filename=/dev/b",
    "filename=new:other-new",
    "nrfiles=2",
    "stonewall",
    "cpus_allowed=0-3\ncpus_allowed_policy=split",
    "invalidate=0",
    "overwrite=1",
    "exitall\nexit_what=stonewall",
    "zero_buffers",
    "number_ios=77",
];

/// How many of the jobs were plans: were there few, the property would say little.
static PLANS: AtomicU32 = AtomicU32::new(0);

#[test]
fn any_job_is_a_sound_plan_or_refused() {
    any_job();
    let plans = PLANS.load(Ordering::Relaxed);
    assert!(plans >= 100, "only {plans} of 600 jobs were plans");
}

/// Mostly lines that are right, some that may be anything.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0..LINES.len()).prop_map(|line| LINES[line].to_owned()),
        1 => (0..OPTIONS.len(), 0..VALUES.len())
            .prop_map(|(option, value)| format!("{}={}", OPTIONS[option], VALUES[value])),
    ]
}

/// The plan of a text is sound, where there is one.
fn check(text: &str) -> Result<(), TestCaseError> {
    let mut read = |_: &str, _: Option<&str>| Err("no such file".to_owned());
    let mut host = HostParameters { read: &mut read, environment: &|_| None, machine: MACHINE };
    let source = JobSource { name: "j.fio".into(), text: text.into() };
    let jobs = parse_job_file(&source, &mut host).and_then(|file| resolve(&file));
    let Ok(jobs) = jobs else { return Ok(()) };
    let settings = ImportSettings {
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: "f".to_owned(),
        copies_apart: true,
    };
    let plan = match import(&jobs, &locate, &settings) {
        Ok(imported) => imported.plan,
        Err(refusals) => {
            prop_assert!(!refusals.is_empty());
            return Ok(());
        }
    };
    PLANS.fetch_add(1, Ordering::Relaxed);
    prop_assert_eq!(plan.validate(), Ok(()));
    let _ = plan.duration();
    let loads = plan.steps.iter().flat_map(|step| step.loads());
    for (load, job) in
        loads.flat_map(|load| (0..load.workload.jobs.min(8)).map(move |job| (load, job)))
    {
        let place = load.place_of(job);
        for target in load.targets_of(job) {
            let size = plan.targets[target].size;
            let region = load.workload.region_among(place.place, place.sharers, size);
            prop_assert!(
                region.is_ok_and(|region| region.offset.get() + region.length.get() <= size.get())
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    fn any_job(
        sections in prop::collection::vec(prop::collection::vec(line(), 0..6), 1..4),
    ) {
        let mut text = String::from("[global]\nfilename=new\nsize=1m\n");
        for (number, lines) in sections.iter().enumerate() {
            text.push_str(&format!("[job{number}]\n{}\n", lines.join("\n")));
        }
        check(&text)?;
    }
}
